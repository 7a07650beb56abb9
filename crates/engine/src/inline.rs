//! The engine that computes on the calling lane.

use std::{
    io,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crate::{
    Buffer, Cost, Engine, Implementations, Job, Operation, Protection, Queue, Session, Software, Span, Work,
    at_once::AtOnce,
    kind::{Kind, Make, Parse},
};

pub(crate) const KIND: Kind = Kind {
    name: "inline",
    form: "inline",
    about: "each lane computes by itself",
    parse: Parse::Alone(|argument| {
        let make: Arc<Make> = Arc::new(|implementations| Ok(Arc::new(Inline::new(implementations))));
        argument.is_none().then_some(make)
    }),
};

/// Computes on the calling lane: every work is finished when `submit` returns.
#[derive(Debug, Default)]
pub struct Inline {
    costs: Costs,
}

impl Inline {
    /// Makes an engine that reports the costs of `implementations`; each session brings the implementations that run
    /// it.
    pub fn new(implementations: impl Into<Implementations>) -> Self {
        Self { costs: Costs::new(implementations.into()) }
    }
}

impl Engine for Inline {
    fn name(&self) -> &'static str {
        "inline"
    }

    fn cost(&self, protection: Protection) -> Option<Cost> {
        self.costs.of(protection)
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(AtOnce::<Work>::new(depth)))
    }

    fn operations(&self, depth: NonZeroUsize) -> io::Result<Option<Box<dyn Queue<Operation>>>> {
        Ok(Some(Box::new(AtOnce::<Operation>::new(depth))))
    }
}

/// Costs on this machine, measured when they are first asked for.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    implementations: Implementations,
    known: Mutex<Vec<(Protection, Option<Cost>)>>,
}

impl Costs {
    pub(crate) fn new(implementations: Implementations) -> Self {
        Self { implementations, known: Mutex::default() }
    }

    pub(crate) fn of(&self, protection: Protection) -> Option<Cost> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cost)) = known.iter().find(|(other, _)| *other == protection) {
            return *cost;
        }
        let cost = measure(self.implementations, protection);
        known.push((protection, cost));
        cost
    }
}

/// The number of jobs in a measured call.
const JOBS: u32 = 32;
/// The lengths of these jobs: multiples of any block.
const SHORT_BYTES: u32 = 64;
const LONG_BYTES: u32 = 4096;
/// The number of calls, of which the fastest counts: slower ones were disturbed.
const CALLS: usize = 5;

/// Returns the line through the costs of short and long jobs that are sealed together.
fn measure(implementations: Implementations, protection: Protection) -> Option<Cost> {
    let session = Session::with(implementations, protection, &vec![0x5a; protection.key_bytes()]).ok()?;
    let tag_bytes = protection.tag_bytes() as u32;
    let room = LONG_BYTES + tag_bytes;
    let mut work = Work { buffer: Buffer::new((JOBS * room) as usize), ..Work::default() };
    work.sessions.push(Arc::new(session));
    let mut software = Software::default();
    let mut job_ns = |body_bytes: u32| {
        let once = || {
            work.jobs.clear();
            work.jobs.extend((0..JOBS).map(|index| Job {
                body: Span::new(index * room, body_bytes),
                tag: Span::new(index * room + body_bytes, tag_bytes),
                ..Job::default()
            }));
            let start = Instant::now();
            software.run(&mut work);
            start.elapsed().as_nanos() as f64 / f64::from(JOBS)
        };
        std::iter::repeat_with(once).take(CALLS).fold(f64::INFINITY, f64::min)
    };
    let (short_ns, long_ns) = (job_ns(SHORT_BYTES), job_ns(LONG_BYTES));
    let byte_ns = (long_ns - short_ns).max(0.0) / f64::from(LONG_BYTES - SHORT_BYTES);
    Some(Cost { fixed_ns: (short_ns - byte_ns * f64::from(SHORT_BYTES)).max(0.0), byte_ns })
}
