//! Simulated cards under a scheduler, on a clock that advances when every client waits.

#![allow(dead_code, reason = "each user uses some of it")]

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_card::{Card, Timing};
use sealane_engine::{
    Buffer, Engine, Implementations, Inline, Job, JobStatus, MemberReport, Policy, Protection, Queue as _,
    Scheduler, SchedulerQueue, Session, Span, Trust, Work,
};
use sealane_lanes::Clock;
use sealane_transform::{BlockCipher, Cipher, Mode};

/// A scheduler and its cards on a clock that stands still until every client waits.
pub(crate) struct World {
    pub(crate) clock: Clock,
    begun: Instant,
    pub(crate) cards: Vec<Arc<Card>>,
    pub(crate) scheduler: Scheduler,
}

impl World {
    pub(crate) fn new(policy: Policy, timings: &[(Timing, Option<u64>, Trust)], with_inline: bool) -> Self {
        let clock = Clock::still();
        let card = |&(timing, faults, trust): &(Timing, Option<u64>, Trust)| {
            let depth = NonZeroUsize::new(64).unwrap();
            Arc::new(Card::new(timing, depth, faults, clock.clone()).unwrap().with_trust(trust))
        };
        let cards: Vec<Arc<Card>> = timings.iter().map(card).collect();
        let mut engines: Vec<Arc<dyn Engine>> =
            cards.iter().map(|card| Arc::clone(card) as Arc<dyn Engine>).collect();
        if with_inline {
            engines.push(Arc::new(Inline::default()));
        }
        let scheduler = Scheduler::new(policy, engines, clock.clone());
        Self { begun: clock.now(), clock, cards, scheduler }
    }

    /// Lets time pass until an event is possible.
    pub(crate) fn wait<'a>(&self, queues: impl IntoIterator<Item = &'a SchedulerQueue>) {
        let cards = self.cards.iter().filter_map(|card| card.due());
        let due = cards.chain(queues.into_iter().filter_map(SchedulerQueue::due)).min();
        let least = self.clock.now() + Duration::from_nanos(1);
        self.clock.advance_to(due.expect("whoever waits has something to wait for").max(least));
    }

    pub(crate) fn passed(&self) -> Duration {
        self.clock.now() - self.begun
    }

    pub(crate) fn reports(&self) -> Vec<MemberReport> {
        self.scheduler.reports()
    }
}

/// Returns the jobs per second of `clients` that each wait for one job of this many bytes, until `jobs` are done.
pub(crate) fn rate(world: &World, clients: usize, bytes: u32, jobs: usize) -> f64 {
    let mut clients: Vec<(SchedulerQueue, VecDeque<Work>)> = (0..clients)
        .map(|_| (world.scheduler.timed_queue(NonZeroUsize::MIN).unwrap(), VecDeque::from([job(bytes)])))
        .collect();
    let (before, mut done) = (world.passed(), 0);
    while done < jobs {
        done += turn(world, &mut clients);
    }
    done as f64 / (world.passed() - before).as_secs_f64()
}

/// Lets each client submit its job again once it is done, or lets time pass; returns the number of finished jobs.
pub(crate) fn turn(world: &World, clients: &mut [(SchedulerQueue, VecDeque<Work>)]) -> usize {
    let (mut done, mut any) = (0, false);
    for (queue, idle) in &mut *clients {
        any |= !idle.is_empty() && queue.submit(idle) > 0;
        while let Some(mut work) = queue.finished() {
            work.jobs[0].status = JobStatus::Pending;
            idle.push_back(work);
            (done, any) = (done + 1, true);
        }
    }
    if !any {
        world.wait(clients.iter().map(|(queue, _)| queue));
    }
    done
}

/// Returns one job of this many bytes, with a cipher that takes this machine little time.
pub(crate) fn job(bytes: u32) -> Work {
    let cipher = Protection::Cipher(Cipher::Block(BlockCipher::Aes128, Mode::Ctr));
    let session = Session::with(Implementations::default(), cipher, &[7; 16]).unwrap();
    Work {
        buffer: Buffer::new(bytes as usize),
        sessions: vec![Arc::new(session)],
        jobs: vec![Job { body: Span::new(0, bytes), ..Job::default() }],
        ..Work::default()
    }
}
