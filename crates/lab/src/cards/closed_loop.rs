//! Threads that each wait for one job at simulated engines behind the engine's scheduler, in virtual time.
//!
//! Guarantees: time stands still until every thread waits, so the same call gives the same figure on every machine.

use crate::LabError;
use crate::error::unavailable;
use sealane_card::{Card, Timing};
use sealane_engine::{
    Buffer, Engine, Implementations, Job, JobStatus, Policy, Protection, Queue as _, Scheduler,
    SchedulerQueue, Session, Span, Trust, Work,
};
use sealane_lanes::Clock;
use sealane_transform::{BlockCipher, Cipher, Mode};
use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

/// The framework paper's card.
pub(super) const CARD: Timing = Timing::FOUR_HIFN_7751;
/// A processor of the card's time.
pub(super) const PROCESSOR: Timing = Timing::PROCESSOR_OF_ITS_TIME;
/// The works that an engine holds.
const HELD: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Returns the Mb/s of jobs of this length.
pub(super) fn megabits(jobs_per_second: f64, bytes: u32) -> f64 {
    jobs_per_second * f64::from(bytes) * 8e-6
}

/// Returns the jobs per second of `threads` that each wait for one job of this length, until `jobs` are done.
pub(super) fn rate(engines: &[Timing], threads: usize, bytes: u32, jobs: usize) -> Result<f64, LabError> {
    let clock = Clock::still();
    let mut cards = Vec::new();
    for &timing in engines {
        let card = Card::new(timing, HELD, None, clock.clone()).map_err(unavailable)?;
        // Results are compared with software so rarely that it takes no time.
        cards.push(Arc::new(card.with_trust(Trust::Checked { one_in: NonZeroU32::MAX })));
    }
    let members = cards.iter().map(|card| Arc::clone(card) as Arc<dyn Engine>).collect();
    let scheduler = Scheduler::new(Policy::LeastExpected, members, clock.clone());
    let mut queues = Vec::new();
    for _ in 0..threads {
        let queue = scheduler.timed_queue(NonZeroUsize::MIN).map_err(unavailable)?;
        queues.push((queue, VecDeque::from([work(bytes)?])));
    }
    let (began, mut done) = (clock.now(), 0_usize);
    while done < jobs {
        let finished = turn(&mut queues);
        match finished {
            Some(finished) => done += finished,
            None => {
                let due = cards.iter().filter_map(|card| card.due());
                let due = due.chain(queues.iter().filter_map(|(queue, _)| queue.due())).min();
                let due = due.ok_or_else(|| unavailable("the simulated engines have lost a job"))?;
                clock.advance_to(due.max(clock.now() + Duration::from_nanos(1)));
            }
        }
    }
    Ok(done as f64 / (clock.now() - began).as_secs_f64())
}

/// Lets each thread submit its job again once it is done, and returns the number of jobs that are; `None` if all
/// threads wait.
fn turn(queues: &mut [(SchedulerQueue, VecDeque<Work>)]) -> Option<usize> {
    let (mut done, mut is_idle) = (0, true);
    for (queue, ready) in queues {
        is_idle &= ready.is_empty() || queue.submit(ready) == 0;
        while let Some(mut work) = queue.finished() {
            work.jobs[0].status = JobStatus::Pending;
            ready.push_back(work);
            done += 1;
            is_idle = false;
        }
    }
    (!is_idle).then_some(done)
}

/// Returns one job of this length, with a cipher that takes this machine little time.
fn work(bytes: u32) -> Result<Work, LabError> {
    let cipher = Protection::Cipher(Cipher::Block(BlockCipher::Aes128, Mode::Ctr));
    let session = Session::with(Implementations::default(), cipher, &[7; 16]).map_err(unavailable)?;
    Ok(Work {
        buffer: Buffer::new(bytes as usize),
        sessions: vec![Arc::new(session)],
        jobs: vec![Job { body: Span::new(0, bytes), ..Job::default() }],
        ..Work::default()
    })
}
