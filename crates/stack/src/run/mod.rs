//! Flows through stacks, run by lanes.
//!
//! A [`Crew`] has flows, each with a stack, a way down and a way up; each way begins at a [`Source`] and ends at a
//! [`Sink`]. Its lanes ask the placement what they may run, and hand everything else to the lane that may.
//!
//! Guarantees: whatever the placement, the number of lanes and the schedule, packets leave each way of a flow in the order
//! in which they came in, unless the plan says that order is not kept; nothing waits without a bound: no more batches exist
//! than were planned, and a source is not asked while none is free or the flow's order is full; nothing is allocated for a
//! packet once all batches are made.

mod counts;
mod lane;
mod line;
mod stocks;

use std::{
    io,
    num::NonZeroUsize,
    os::fd::BorrowedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded};
use sealane_engine::Engine;

use crate::{
    At, Batch, Bells, Clock, Counts, Pinning, Placement, Pool, Stack, Stop, Way, parts::Part, run_lane,
    run_lanes,
};

pub use counts::LaneCounts;
pub use lane::Lane;
use line::Line;
pub(crate) use stocks::Stocks;

/// Where batches come from. A `Port` of crate `port` becomes one by its `ends`.
pub trait Source: Send {
    /// Adds packets to an empty batch, with the room that the stack wants around them, and says how many; 0: there will
    /// never be more, and it is not asked again. Never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there are none now. With any other the source is broken, and the whole crew
    /// stops.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize>;

    /// Becomes readable when there is something. A source without one is asked every [`crate::LONGEST_SLEEP`] at least.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When there may be something even if nothing becomes readable.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Where batches go to. A `Port` of crate `port` becomes one by its `ends`.
pub trait Sink: Send {
    /// Takes packets of a batch from number `from` on, and says how many it has dealt with; packets that are not passed
    /// are dealt with by leaving them out. Never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when it takes none now, as if it had said 0. With any other the sink is broken, and
    /// the whole crew stops.
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize>;

    /// Becomes writable when it takes more.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// One way through a flow's stack.
#[derive(Default)]
pub struct Ends {
    /// Where it begins; `None` if only layers bring forth what goes this way.
    pub source: Option<Box<dyn Source>>,
    /// Where it ends; what gets there without one is counted and dropped.
    pub sink: Option<Box<dyn Sink>>,
}

/// One flow.
pub struct FlowPlan {
    /// Its layers and keys.
    pub stack: Stack,
    /// From the application to the wire.
    pub down: Ends,
    /// From the wire to the application.
    pub up: Ends,
}

/// How a crew is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Who runs what.
    pub placement: Placement,
    /// How many lanes.
    pub lanes: NonZeroUsize,
    /// Batches, over all flows.
    pub batches: usize,
    /// Bytes of a batch's buffer.
    pub buffer_bytes: usize,
    /// Packets of a batch.
    pub packets: usize,
    /// Batches of one flow under way between two places where order is restored.
    pub in_flight: usize,
    /// Whether order is restored. Without it batches are taken at serial layers and sinks as they arrive there: what that
    /// costs and saves is a question for measurement, and nothing else should ask it.
    pub keeps_order: bool,
}

/// Why a crew stopped before it was told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow {flow}: {message}")]
pub struct RunError {
    /// The flow whose source or sink is broken.
    pub flow: usize,
    /// What it said.
    pub message: String,
}

/// What goes from lane to lane.
#[derive(Debug)]
enum Task {
    /// A batch at a step of a line; whether its turn there is over.
    Batch { batch: Batch, line: usize, step: usize, is_turned: bool },
    /// A part of a batch that lane `home` waits for.
    Part { part: Part, home: usize, join: usize },
    /// A part that is done.
    Joined { part: Part, join: usize },
}

/// A bounded queue.
#[derive(Debug)]
struct Queue {
    put: Sender<Task>,
    take: Receiver<Task>,
}

/// Flows and the lanes that run them.
#[derive(Debug)]
pub struct Crew {
    plan: Plan,
    clock: Clock,
    /// Way down and way up of each flow, in turn.
    lines: Vec<Line>,
    pool: Stocks,
    parts: Pool<Part>,
    bells: Bells,
    stop: Stop<RunError>,
    counts: Vec<counts::Counting>,
    /// Whether a layer may keep batches, so that some must be left for others.
    has_serial: bool,
    /// When lane 0 is to ask layers for their deadlines: nanoseconds after `epoch`, [`NEVER`] if no layer has one.
    due_ns: AtomicU64,
    epoch: Instant,
    inboxes: Vec<Queue>,
    /// What any lane may take.
    shared: Queue,
}

/// Later than any deadline.
const NEVER: u64 = u64::MAX;

fn line_of(flow: usize, way: Way) -> usize {
    2 * flow + usize::from(way == Way::Up)
}

impl Crew {
    /// Makes a crew on the system's time.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new(plan: Plan, flows: Vec<FlowPlan>) -> io::Result<Self> {
        Self::with_clock(plan, flows, Clock::Real)
    }

    /// The same on another clock: what layers are told as `now`.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn with_clock(plan: Plan, flows: Vec<FlowPlan>, clock: Clock) -> io::Result<Self> {
        let lanes = plan.lanes.get();
        let mut lines = Vec::with_capacity(2 * flows.len());
        for (flow, FlowPlan { stack, down, up }) in flows.into_iter().enumerate() {
            let turns: Arc<[_]> = stack.layers().iter().map(|_| Mutex::new(())).collect();
            lines.push(Line::new(&plan, flow, &stack, Way::Down, down, Arc::clone(&turns))?);
            lines.push(Line::new(&plan, flow, &stack, Way::Up, up, turns)?);
        }
        let splits = matches!(plan.placement, Placement::Function | Placement::Block);
        let parts = if splits { 2 * lanes * lanes } else { 0 };
        // Each queue has room for everything that exists, so that no lane ever waits for room in one.
        let queue = || {
            let (put, take) = bounded(plan.batches + 2 * parts);
            Queue { put, take }
        };
        let Plan { buffer_bytes, packets, .. } = plan;
        Ok(Self {
            plan,
            epoch: clock.now(),
            clock,
            counts: (0..lanes).map(|_| counts::Counting::default()).collect(),
            has_serial: lines.iter().any(Line::has_serial),
            due_ns: AtomicU64::new(0),
            lines,
            pool: Stocks::new(lanes, plan.batches, move || Batch::new(buffer_bytes, packets)),
            parts: Pool::of(parts, move || Part::new(buffer_bytes)),
            bells: Bells::new(lanes)?,
            stop: Stop::new(),
            inboxes: (0..lanes).map(|_| queue()).collect(),
            shared: queue(),
        })
    }

    /// What ends the run.
    pub fn stop(&self) -> &Stop<RunError> {
        &self.stop
    }

    /// What wakes its lanes.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Packets that have left one way of a flow, by verdict.
    pub fn counts(&self, flow: usize, way: Way) -> Counts {
        self.lines[line_of(flow, way)].counts()
    }

    /// What a lane has done so far.
    pub fn lane_counts(&self, lane: usize) -> LaneCounts {
        self.counts[lane].now()
    }

    /// Batches that a source must leave in the pool. Messages may have to wait until something arrives, and what arrives
    /// until layers have answered it: so neither may take the last.
    fn left_by(&self, way: Way) -> usize {
        match way {
            _ if !self.has_serial => 0,
            Way::Down => self.plan.batches / 2,
            Way::Up => self.plan.batches / 4,
        }
    }

    /// When a source or a layer has something to do even if nothing arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let layers = self.lines.iter().filter(|line| line.way == Way::Down).flat_map(|line| &line.layers);
        let sources = self.lines.iter().filter(|line| line.has_source());
        layers.filter_map(|layer| layer.poll_timeout()).chain(sources.filter_map(Line::source_timeout)).min()
    }

    /// One lane's work, to be run by [`run_lane`] or, in a test, step by step in any order. Its cryptography is run by
    /// `engine`.
    ///
    /// # Errors
    /// The engine has no queue to give.
    pub fn lane(&self, lane: usize, engine: &dyn Engine) -> io::Result<Lane<'_>> {
        let depth = NonZeroUsize::new(self.plan.batches).unwrap_or(NonZeroUsize::MIN);
        Ok(Lane::new(self, lane, engine.queue(depth)?))
    }

    /// Runs all lanes until [`Self::stop`].
    ///
    /// # Errors
    /// When threads or queues cannot be had, and what a source or sink says.
    pub fn run(&self, engine: &dyn Engine, pinning: Pinning) -> io::Result<()> {
        let abandon = || self.stop.finish(&self.bells);
        let lanes = run_lanes(self.plan.lanes.get(), pinning, abandon, |lane| {
            let _watch = crate::OnPanic(|| self.stop.finish(&self.bells));
            let made = self.lane(lane, engine);
            if made.is_err() {
                self.stop.finish(&self.bells);
            }
            made.map(|mut work| run_lane(lane, &self.bells, &self.stop, &mut work))
        })?;
        lanes.into_iter().collect::<io::Result<()>>()?;
        self.stop.reason().map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    /// The first lane that may run `at`.
    fn owner(&self, at: At) -> usize {
        let lanes = self.plan.lanes.get();
        (0..lanes).find(|&lane| self.plan.placement.may_run(lane, lanes, at)).expect("everything has a lane")
    }

    fn may_run(&self, lane: usize, at: At) -> bool {
        self.plan.placement.may_run(lane, self.plan.lanes.get(), at)
    }

    /// A layer has a deadline. It may be later than the one that lane 0 wakes for, which then finds the new one.
    fn note_due(&self, due: Instant) {
        let ns = u64::try_from(due.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(NEVER);
        if ns < self.due_ns.load(SeqCst) && ns < self.due_ns.fetch_min(ns, SeqCst) {
            self.bells.ring_one(0);
        }
    }

    /// Whether layers are to be asked for their deadlines now, by the caller, who notes them anew.
    fn take_due(&self, now: Instant) -> bool {
        let now_ns = now.saturating_duration_since(self.epoch).as_nanos();
        let is_due = u128::from(self.due_ns.load(SeqCst)) <= now_ns;
        if is_due {
            // First: what is noted meanwhile counts.
            self.due_ns.store(NEVER, SeqCst);
        }
        is_due
    }

    fn due(&self) -> Option<Instant> {
        let ns = self.due_ns.load(SeqCst);
        (self.has_serial && ns != NEVER).then(|| self.epoch + Duration::from_nanos(ns))
    }

    /// Wakes whoever may have something to do now: where any lane may do it, one is enough.
    fn wake(&self) {
        match self.plan.placement {
            Placement::Packet => self.bells.ring_any(),
            _ => self.bells.ring(),
        }
    }

    fn hand_over(&self, lane: usize, task: Task) {
        self.inboxes[lane].put.try_send(task).expect("a queue has room for everything that exists");
        self.bells.ring_one(lane);
    }
}
