//! One lane's queue at all engines of a scheduler.
//!
//! Guarantees: see the scheduler. All state here belongs to the lane; the state that lanes share is in
//! [`Shared`](super::Shared).

use std::{
    cmp::Ordering::Equal,
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    ops::Range,
    os::fd::BorrowedFd,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use arrayvec::ArrayVec;

use super::{Estimate, MEMBERS_MAX, Policy, Shared, alarm::Alarm, member::Member};
use sealane_lanes::Clock;
use sealane_transform::debug_only;

use crate::{
    Job, JobStatus, Queue, Software, Trust, Work,
    copies::{Copies, are_apart, is_same, take_back},
    notes::Notes,
    run::hull,
};

/// A work is late if it takes this many times longer than expected, and longer than [`LATE_NS`].
const LATE_TIMES: f64 = 8.0;
/// The minimum delay of a late work: a machine that is busy with other things lets threads wait.
const LATE_NS: u64 = 50_000_000;

/// The time after which a lane that submits looks at all engines, even if it always has finished works to fetch.
const LOOK_NS: u64 = 1_000_000;

/// A work at one of the engines.
#[derive(Debug)]
struct UnderWay {
    /// The owner's token.
    token: u64,
    member: usize,
    /// The owner's work, if the engine has a copy. `None` with a copy means that the work is the known question.
    original: Option<Work>,
    /// The engines that failed to run it, as bits.
    tried: u32,
    begun_ns: u64,
    expected_ns: f64,
    pace_ns: u64,
    /// The time at which the work runs elsewhere; `u64::MAX` at an engine that is trusted.
    late_ns: u64,
    /// The number of wrong answers of the engine when the work was given to it.
    lies: u64,
    is_question: bool,
}

/// One lane's queue at all engines.
pub struct SchedulerQueue {
    shared: Arc<Shared>,
    queues: Vec<Box<dyn Queue>>,
    under_way: Notes<UnderWay>,
    ready: VecDeque<Work>,
    depth: usize,
    in_flight: usize,
    copies: Copies,
    software: Software,
    /// A work that is being submitted to a queue.
    entering: VecDeque<Work>,
    /// Memory for the examination of one work.
    hulls: Vec<Range<usize>>,
    to_check: Vec<usize>,
    set_aside: Vec<usize>,
    /// The time at which a work that found no room is offered again.
    again_ns: Option<u64>,
    /// The time of the last look at all engines.
    looked_ns: u64,
    alarm: Option<Alarm>,
}

debug_only!(SchedulerQueue { in_flight });

impl SchedulerQueue {
    pub(super) fn new(shared: &Arc<Shared>, depth: NonZeroUsize) -> io::Result<Self> {
        // The additional place is for the known question.
        let queue = |member: &Member| member.engine.queue(depth.saturating_add(1));
        let queues = shared.members.iter().map(queue).collect::<io::Result<Vec<_>>>()?;
        let alarm = Alarm::new(&queues)?;
        Ok(Self {
            shared: Arc::clone(shared),
            queues,
            under_way: Notes::with_capacity(depth.get()),
            ready: VecDeque::with_capacity(depth.get()),
            depth: depth.get(),
            in_flight: 0,
            copies: Copies::default(),
            software: Software::default(),
            entering: VecDeque::with_capacity(1),
            hulls: Vec::new(),
            to_check: Vec::new(),
            set_aside: Vec::new(),
            again_ns: None,
            looked_ns: 0,
            alarm,
        })
    }

    fn now_ns(&self) -> u64 {
        self.shared.clock.now().saturating_duration_since(self.shared.begun).as_nanos() as u64
    }

    /// Returns the time at which to call [`Queue::finished`] even if no engine has answered.
    pub fn due(&self) -> Option<Instant> {
        self.due_ns().map(|due_ns| self.shared.begun + Duration::from_nanos(due_ns))
    }

    fn due_ns(&self) -> Option<u64> {
        let late_ns = self.under_way.iter().map(|under_way| under_way.late_ns).min();
        late_ns.filter(|&late_ns| late_ns < u64::MAX).into_iter().chain(self.again_ns).min()
    }

    /// Returns the engines that can run a work, with the preferred one first.
    fn candidates(&mut self, work: &Work, tried: u32) -> ArrayVec<Estimate, MEMBERS_MAX> {
        let (shared, now_ns) = (&*self.shared, self.now_ns());
        let mut is_apart = None;
        let mut candidates = ArrayVec::new();
        for (index, member) in shared.members.iter().enumerate() {
            if tried & 1 << index != 0 || !member.breaker.is_closed() {
                continue;
            }
            // Jobs that share bytes run in their order, so they cannot be run again one by one.
            let hulls = &mut self.hulls;
            if member.trust != Trust::Full && !*is_apart.get_or_insert_with(|| are_apart(work, hulls)) {
                continue;
            }
            candidates.extend(shared.estimate(index, work, now_ns));
        }
        let by_time =
            |one: &Estimate, other: &Estimate| one.done_ns.partial_cmp(&other.done_ns).unwrap_or(Equal);
        match shared.policy {
            Policy::InOrder => {}
            Policy::LeastExpected => candidates.sort_by(by_time),
            Policy::RoundRobin => {
                let count = candidates.len().max(1);
                candidates.rotate_left(shared.turn.fetch_add(1, Relaxed) % count);
            }
            Policy::BySize { bytes } => {
                let all: usize = work.jobs.iter().map(|job| job.body.len as usize).sum();
                if all < bytes.saturating_mul(work.jobs.len()) {
                    let last = candidates.len().min(1);
                    candidates.rotate_right(last);
                }
            }
        }
        candidates
    }

    /// Gives a work to an engine; hands it back if the engines that could run it are full, and it has not run before.
    fn place(&mut self, mut work: Work, tried: u32) -> Result<(), Work> {
        let candidates = self.candidates(&work, tried);
        for &estimate in &candidates {
            match self.offer(estimate, work, tried) {
                Ok(()) => return Ok(()),
                Err(refused) => work = refused,
            }
        }
        if !candidates.is_empty() && tried == 0 {
            return Err(work);
        }
        self.software.run(&mut work);
        self.ready.push_back(work);
        Ok(())
    }

    fn place_again(&mut self, work: Work, tried: u32) {
        assert!(self.place(work, tried).is_ok(), "a work that has run before is run by the lane at last");
    }

    fn offer(&mut self, estimate: Estimate, mut work: Work, tried: u32) -> Result<(), Work> {
        let Estimate { member: index, own_ns, pace_ns, .. } = estimate;
        let (shared, begun_ns) = (Arc::clone(&self.shared), self.now_ns());
        let member = &shared.members[index];
        // Works at a queue without a descriptor are done when `submit` returns, so they delay no other work.
        let is_at_once = self.queues[index].fd().is_none();
        let pace_ns = if is_at_once { 0 } else { pace_ns };
        let expected_ns = if is_at_once { 0.0 } else { member.begin(pace_ns) as f64 + own_ns };
        let mut under_way = UnderWay {
            token: work.token,
            member: index,
            original: None,
            tried,
            begun_ns,
            expected_ns,
            pace_ns,
            late_ns: u64::MAX,
            lies: member.breaker.lies(),
            is_question: false,
        };
        let entering = if member.trust == Trust::Full {
            work.token = self.under_way.put(under_way);
            work
        } else {
            let patience_ns = (member.expected_ns(own_ns, begun_ns) * LATE_TIMES).min(1e12) as u64;
            under_way.late_ns = begun_ns.saturating_add(patience_ns.max(LATE_NS));
            let mut copy = self.copies.of(&work);
            under_way.original = Some(work);
            copy.token = self.under_way.put(under_way);
            copy
        };
        self.entering.push_back(entering);
        if self.queues[index].submit(&mut self.entering) > 0 {
            while is_at_once && let Some(answer) = self.queues[index].finished() {
                self.answered(index, answer);
            }
            return Ok(());
        }
        member.end(pace_ns);
        let mut refused = self.entering.pop_front().expect("a queue leaves what it does not take");
        let under_way = self.under_way.take(refused.token).expect("it was put there above");
        Err(match under_way.original {
            None => {
                refused.token = under_way.token;
                refused
            }
            Some(original) => {
                self.copies.give(refused);
                original
            }
        })
    }

    /// Processes an engine's answer.
    fn answered(&mut self, index: usize, mut answer: Work) {
        // An answer is ignored if it names a work of another engine, or one that was given up.
        if self.under_way.get(answer.token).is_none_or(|under_way| under_way.member != index) {
            self.copies.give(answer);
            return;
        }
        let Some(under_way) = self.under_way.take(answer.token) else { return };
        let (shared, now_ns) = (Arc::clone(&self.shared), self.now_ns());
        let member = &shared.members[index];
        member.end(under_way.pace_ns);
        if under_way.is_question {
            if member.is_right(&answer) {
                member.breaker.answered(under_way.lies);
            }
            self.copies.give(answer);
            return;
        }
        member.learn(now_ns.saturating_sub(under_way.begun_ns), under_way.expected_ns, now_ns);
        let tried = under_way.tried | 1 << index;
        let Some(mut original) = under_way.original else {
            answer.token = under_way.token;
            member.counts.answered.fetch_add(1, Relaxed);
            if answer.pending() == 0 {
                self.ready.push_back(answer);
            } else {
                self.place_again(answer, tried);
            }
            return;
        };
        if member.breaker.lies() == under_way.lies {
            match self.merge(member, &mut original, &answer) {
                Merged::Whole => {
                    member.counts.answered.fetch_add(1, Relaxed);
                    member.breaker.succeeded();
                }
                Merged::InPart => {
                    member.counts.refused.fetch_add(1, Relaxed);
                    member.breaker.erred(now_ns);
                }
                Merged::Wrong => {
                    member.counts.wrong.fetch_add(1, Relaxed);
                    member.breaker.lied(now_ns);
                }
            }
        }
        self.copies.give(answer);
        if original.pending() == 0 {
            self.ready.push_back(original);
        } else {
            self.place_again(original, tried);
        }
        if !member.breaker.is_closed() {
            self.give_up(index);
        }
    }

    /// Copies the usable results of a copy back. Verdicts of forgery, and a sample of all results, are checked by
    /// computing the jobs again; if one differs, no result is used.
    fn merge(&mut self, member: &Member, original: &mut Work, copy: &Work) -> Merged {
        let Trust::Checked { one_in } = member.trust else { return Merged::Whole };
        let bytes = original.buffer.capacity_bytes();
        self.to_check.clear();
        let mut is_whole = copy.jobs.len() == original.jobs.len();
        let mut is_wrong = false;
        for index in 0..original.jobs.len().min(copy.jobs.len()) {
            let job = &original.jobs[index];
            if job.status != JobStatus::Pending {
                continue;
            }
            let makes_sense = hull(&original.sessions, bytes, job)
                .is_some_and(|hull| hull.end <= copy.buffer.capacity_bytes());
            match copy.jobs[index].status {
                JobStatus::Done if makes_sense => {
                    if self.shared.is_sampled(one_in) {
                        self.to_check.push(index);
                    }
                }
                JobStatus::Forged if makes_sense => self.to_check.push(index),
                JobStatus::Malformed if !makes_sense => {}
                JobStatus::Pending | JobStatus::Malformed => is_whole = false,
                JobStatus::Done | JobStatus::Forged => is_wrong = true,
            }
        }
        if !self.to_check.is_empty() {
            self.run_alone(original);
            is_wrong |= self.to_check.iter().any(|&index| {
                let (own, theirs) = (original.jobs[index].status, copy.jobs[index].status);
                own != theirs || own == JobStatus::Done && !is_same(original, index, &copy.buffer)
            });
        }
        if is_wrong {
            return Merged::Wrong;
        }
        for index in 0..original.jobs.len().min(copy.jobs.len()) {
            let is_pending = original.jobs[index].status == JobStatus::Pending;
            match copy.jobs[index].status {
                JobStatus::Done if is_pending => {
                    let copied = Job { status: JobStatus::Done, ..original.jobs[index] };
                    take_back(original, index, &copy.buffer, &copied);
                }
                JobStatus::Malformed
                    if is_pending && hull(&original.sessions, bytes, &original.jobs[index]).is_none() =>
                {
                    original.jobs[index].status = JobStatus::Malformed;
                }
                _ => {}
            }
        }
        if is_whole { Merged::Whole } else { Merged::InPart }
    }

    /// Runs only the jobs that are to be checked.
    fn run_alone(&mut self, work: &mut Work) {
        self.set_aside.clear();
        let mut to_check = self.to_check.iter().peekable();
        for (index, job) in work.jobs.iter_mut().enumerate() {
            if to_check.next_if(|&&wanted| wanted == index).is_none() && job.status == JobStatus::Pending {
                job.status = JobStatus::Malformed;
                self.set_aside.push(index);
            }
        }
        self.software.run(work);
        for &index in &self.set_aside {
            work.jobs[index].status = JobStatus::Pending;
        }
    }

    /// Takes all works of this queue from an engine that gets no more, and has them run elsewhere.
    fn give_up(&mut self, index: usize) {
        let is_its = |under_way: &UnderWay| under_way.member == index && !under_way.is_question;
        while let Some(under_way) = self.under_way.take_if(is_its) {
            self.run_elsewhere(under_way);
        }
    }

    fn run_elsewhere(&mut self, under_way: UnderWay) {
        let shared = Arc::clone(&self.shared);
        shared.members[under_way.member].end(under_way.pace_ns);
        if let Some(original) = under_way.original {
            self.place_again(original, under_way.tried | 1 << under_way.member);
        }
    }

    /// Takes the engines' answers, then looks at the clock; returns whether anything happened. The clock comes
    /// afterwards, because an answer that is there does not count as late if only the lane was late.
    fn look(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.queues.len() {
            while let Some(answer) = self.queues[index].finished() {
                self.answered(index, answer);
                any = true;
            }
        }
        any | self.look_at_clock()
    }

    /// Returns whether an engine has a work of this lane, or gets none because of its faults.
    fn has_concerns(&self) -> bool {
        self.under_way.count() > 0 || self.shared.members.iter().any(|member| !member.breaker.is_closed())
    }

    /// Gives up late works, and asks engines with an open breaker the known question.
    fn look_at_clock(&mut self) -> bool {
        if let Some(alarm) = &mut self.alarm {
            alarm.silence();
        }
        let (shared, now_ns) = (Arc::clone(&self.shared), self.now_ns());
        self.again_ns = self.again_ns.filter(|&again_ns| again_ns > now_ns);
        self.looked_ns = now_ns;
        let mut any = false;
        while let Some(under_way) = self.under_way.take_if(|under_way| under_way.late_ns <= now_ns) {
            let (index, is_question) = (under_way.member, under_way.is_question);
            let member = &shared.members[index];
            if !is_question {
                member.counts.late.fetch_add(1, Relaxed);
                member.breaker.was_late(now_ns);
            }
            self.run_elsewhere(under_way);
            self.give_up(index);
            any = true;
        }
        for (index, member) in shared.members.iter().enumerate() {
            if member.breaker.is_to_be_asked(now_ns) {
                self.ask(index, member, now_ns);
            }
        }
        any
    }

    /// Asks an engine the known question.
    fn ask(&mut self, index: usize, member: &Member, now_ns: u64) {
        let Some(question) = member.question() else { return };
        let mut copy = self.copies.of(question);
        copy.token = self.under_way.put(UnderWay {
            token: 0,
            member: index,
            original: None,
            tried: 0,
            begun_ns: now_ns,
            expected_ns: 0.0,
            pace_ns: 0,
            late_ns: now_ns.saturating_add(LATE_NS),
            lies: member.breaker.lies(),
            is_question: true,
        });
        self.entering.push_back(copy);
        if self.queues[index].submit(&mut self.entering) == 0
            && let Some(refused) = self.entering.pop_front()
        {
            self.under_way.take(refused.token);
            self.copies.give(refused);
        }
    }

    fn set_alarm(&mut self) {
        if let (Clock::Real, Some(_)) = (&self.shared.clock, &self.alarm) {
            let due_ns = self.due_ns();
            let left = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(self.now_ns())));
            if let Some(alarm) = &mut self.alarm {
                alarm.set(due_ns, left);
            }
        }
    }
}

/// The outcome of an answer.
enum Merged {
    /// Every job has its outcome.
    Whole,
    /// Some jobs must run elsewhere.
    InPart,
    /// The engine gave a wrong answer.
    Wrong,
}

impl Queue for SchedulerQueue {
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize {
        let mut count = 0;
        while self.in_flight < self.depth {
            let Some(work) = from.pop_front() else { break };
            if let Err(work) = self.place(work, 0) {
                from.push_front(work);
                // Other users of the engines' room may never release it.
                self.again_ns = Some(self.now_ns().saturating_add(LATE_NS));
                self.set_alarm();
                break;
            }
            self.in_flight += 1;
            count += 1;
        }
        // A lane that always has finished works to fetch never gets as far as the look in `finished`.
        if self.has_concerns() && self.now_ns().saturating_sub(self.looked_ns) >= LOOK_NS {
            self.look();
        }
        if count > 0 {
            self.set_alarm();
        }
        count
    }

    fn finished(&mut self) -> Option<Work> {
        loop {
            if let Some(work) = self.ready.pop_front() {
                self.in_flight -= 1;
                return Some(work);
            }
            if !self.look() && self.ready.is_empty() {
                self.set_alarm();
                return None;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.alarm.as_ref().map(Alarm::fd)
    }
}

impl Drop for SchedulerQueue {
    fn drop(&mut self) {
        for under_way in self.under_way.iter() {
            self.shared.members[under_way.member].end(under_way.pace_ns);
        }
    }
}
