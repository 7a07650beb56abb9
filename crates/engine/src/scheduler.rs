//! The engine that combines several engines: it chooses one for each work, and another one when that fails.
//!
//! Guarantees: every work that was taken is handed back once, with each job run as any other engine would have run
//! it, whatever the engines below do; an engine that is not trusted ([`Trust::Checked`](crate::Trust::Checked)) gets
//! a copy, and its answer is dropped if it comes late, comes twice or comes from an engine that has given a wrong
//! answer; a work runs again elsewhere with the same bytes and the same IVs, so a nonce protects one text; if no
//! engine can run a work, the calling lane runs it.
//!
//! No order is kept: a consumer that needs an order restores it, as with every engine. Sessions need no migration:
//! each engine derives its data from a session when it first uses it.

mod alarm;
mod breaker;
mod member;
mod queue;

use std::{
    cmp::Ordering::Equal,
    io,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use arrayvec::ArrayVec;

use self::member::Member;
pub use self::{member::MemberReport, queue::SchedulerQueue};
use sealane_lanes::Clock;

use crate::{
    Cost, Engine, JobStatus, Maker, Protection, Queue, Work,
    kind::{Kind, Make, Parse, ParsePart},
};

/// The maximum number of engines of one scheduler.
const MEMBERS_MAX: usize = 16;
pub(crate) const KINDS: [Kind; 4] = [
    Kind {
        name: "hybrid",
        form: "hybrid:ENGINE,ENGINE…",
        about: "each work goes to the engine that is expected to be done with it first",
        parse: Parse::Over(|argument, member| make(Policy::LeastExpected, argument?, member)),
    },
    Kind {
        name: "round-robin",
        form: "round-robin:ENGINE,ENGINE…",
        about: "engines by turns",
        parse: Parse::Over(|argument, member| make(Policy::RoundRobin, argument?, member)),
    },
    Kind {
        name: "by-size",
        form: "by-size:BYTES:ENGINE,ENGINE…",
        about: "works whose jobs have fewer bytes go to the last engine, others to the first that can",
        parse: Parse::Over(|argument, member| {
            let (bytes, engines) = argument?.split_once(':')?;
            make(Policy::BySize { bytes: bytes.parse().ok()? }, engines, member)
        }),
    },
    Kind {
        name: "fail-over",
        form: "fail-over:ENGINE,ENGINE…",
        about: "the first engine, and the next while that fails or is full",
        parse: Parse::Over(|argument, member| make(Policy::InOrder, argument?, member)),
    },
];

fn make(policy: Policy, engines: &str, member: &ParsePart<'_>) -> Option<Arc<Make>> {
    let members: Vec<_> = engines.split(',').map(member).collect::<Option<_>>()?;
    (2..=MEMBERS_MAX).contains(&members.len()).then(|| {
        let make: Arc<Make> = Arc::new(move |implementations| {
            let engines = members.iter().map(|make| make(implementations)).collect::<io::Result<_>>()?;
            Ok(Arc::new(Scheduler::new(policy, engines, Clock::Real)))
        });
        make
    })
}

/// The rule that selects the engine for a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The engine that is expected to be done first, by its cost, the works that it has, and the ratio of its times
    /// to its cost so far.
    LeastExpected,
    /// The engines in turn.
    RoundRobin,
    /// The last engine if jobs have fewer bytes on average, otherwise the first one that can run the work.
    BySize {
        /// The minimum number of bytes of a job for the first engine.
        bytes: usize,
    },
    /// The first engine that can run the work.
    InOrder,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::LeastExpected => "hybrid",
            Self::RoundRobin => "round-robin",
            Self::BySize { .. } => "by-size",
            Self::InOrder => "fail-over",
        }
    }
}

/// Several engines as one.
#[derive(Debug)]
pub struct Scheduler {
    name: &'static str,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    policy: Policy,
    members: Vec<Member>,
    clock: Clock,
    begun: Instant,
    /// Identifies the costs of a session's jobs at each engine, which are kept with the session.
    maker: Maker,
    turn: AtomicUsize,
    checked_jobs: AtomicU64,
}

impl Scheduler {
    /// Makes a scheduler over `engines`, which are 1 to 16.
    ///
    /// # Panics
    /// Panics if there are no engines, or more than 16.
    pub fn new(policy: Policy, engines: Vec<Arc<dyn Engine>>, clock: Clock) -> Self {
        assert!((1..=MEMBERS_MAX).contains(&engines.len()), "1 to {MEMBERS_MAX} engines");
        let members = engines.into_iter().map(Member::new).collect();
        let begun = clock.now();
        let (maker, turn, checked_jobs) = (Maker::new(), AtomicUsize::new(0), AtomicU64::new(0));
        let shared = Shared { policy, members, clock, begun, maker, turn, checked_jobs };
        Self { name: policy.name(), shared: Arc::new(shared) }
    }

    /// Makes a scheduler of one engine that is not trusted, which falls back on the calling lane.
    pub(crate) fn guard(engine: Arc<dyn Engine>) -> Self {
        Self { name: engine.name(), ..Self::new(Policy::InOrder, vec![engine], Clock::Real) }
    }

    /// Returns the outcomes of the works of each engine, in the order in which the engines were given.
    pub fn reports(&self) -> Vec<MemberReport> {
        self.shared.members.iter().map(Member::report).collect()
    }

    /// Returns a queue that reports the time at which to call it again: for virtual time, in which no descriptor
    /// becomes readable.
    ///
    /// # Errors
    /// Fails as [`Engine::queue`] does.
    pub fn timed_queue(&self, depth: NonZeroUsize) -> io::Result<SchedulerQueue> {
        SchedulerQueue::new(&self.shared, depth)
    }
}

impl Engine for Scheduler {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the lowest cost of all engines, for jobs of 1 KiB.
    fn cost(&self, protection: Protection) -> Option<Cost> {
        let costs = self.shared.members.iter().filter_map(|member| member.engine.cost(protection));
        costs.min_by(|one, other| one.job_ns(1024).partial_cmp(&other.job_ns(1024)).unwrap_or(Equal))
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(self.timed_queue(depth)?))
    }
}

/// The time that a work takes at one engine.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    member: usize,
    own_ns: f64,
    pace_ns: u64,
    /// The time until the work is done, including the engine's earlier works.
    done_ns: f64,
}

impl Shared {
    /// Returns the time that a work takes at an engine, or `None` if the engine cannot run it.
    fn estimate(&self, index: usize, work: &Work, now_ns: u64) -> Option<Estimate> {
        let member = &self.members[index];
        let (mut session, mut cost) = (None, None);
        let (mut pace_ns, mut tail_ns) = (0.0, 0.0f64);
        for job in work.jobs.iter().filter(|job| job.status == JobStatus::Pending) {
            if session != Some(job.session) {
                session = Some(job.session);
                // A job without a session is malformed, which every engine detects.
                cost = match work.sessions.get(usize::from(job.session)) {
                    None => Some(Cost { fixed_ns: 0.0, byte_ns: 0.0 }),
                    Some(session) => {
                        session.made(self.maker, |session| self.costs(session.protection()))[index]
                    }
                };
            }
            let bytes = job.clear.len as usize + job.body.len as usize;
            let pace = member.engine.pace_ns(cost?, bytes);
            pace_ns += pace;
            tail_ns = tail_ns.max(cost?.job_ns(bytes) - pace);
        }
        let own_ns = pace_ns + tail_ns;
        Some(Estimate {
            member: index,
            own_ns,
            pace_ns: pace_ns as u64,
            done_ns: member.expected_ns(own_ns, now_ns),
        })
    }

    fn costs(&self, protection: Protection) -> ArrayVec<Option<Cost>, MEMBERS_MAX> {
        self.members.iter().map(|member| member.engine.cost(protection)).collect()
    }

    fn is_sampled(&self, one_in: NonZeroU32) -> bool {
        self.checked_jobs.fetch_add(1, Relaxed).is_multiple_of(one_in.get().into())
    }
}

/// Tests of the breaker; they are here because the models compile its file as well.
#[cfg(test)]
mod tests {
    use super::breaker::{Breaker, WAIT_NS};

    #[test]
    fn errors_in_a_row_open_it_and_a_right_answer_closes_it() {
        let breaker = Breaker::default();
        for _ in 0..2 {
            breaker.erred(0);
            breaker.erred(0);
            breaker.succeeded();
        }
        assert!(breaker.is_closed());
        (0..3).for_each(|_| breaker.erred(0));
        assert!(!breaker.is_closed() && !breaker.is_to_be_asked(WAIT_NS - 1));
        assert!(breaker.is_to_be_asked(WAIT_NS), "it is asked");
        assert!(!breaker.is_to_be_asked(WAIT_NS), "by one lane");
        breaker.answered(0);
        assert!(breaker.is_closed() && !breaker.is_to_be_asked(u64::MAX));
    }

    #[test]
    fn it_is_asked_at_growing_intervals() {
        let breaker = Breaker::default();
        breaker.was_late(0);
        let mut asked = Vec::new();
        for now_ns in (0..60_000_000_000).step_by(10_000_000) {
            if breaker.is_to_be_asked(now_ns) {
                asked.push(now_ns / 10_000_000);
            }
        }
        assert_eq!(asked[..6], [1, 3, 7, 15, 31, 63]);
        assert!(asked.len() < 25, "{asked:?}");
    }

    #[test]
    fn a_right_answer_of_before_a_lie_closes_nothing() {
        let breaker = Breaker::default();
        breaker.was_late(0);
        let lies = breaker.lies();
        assert!(breaker.is_to_be_asked(WAIT_NS));
        breaker.lied(WAIT_NS);
        breaker.answered(lies);
        assert!(!breaker.is_closed());
        breaker.answered(breaker.lies());
        assert!(breaker.is_closed());
    }
}
