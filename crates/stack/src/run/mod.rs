//! Runs flows through stacks on lanes.
//!
//! A [`Crew`] has flows, each with a stack and two directions; each direction begins at a [`Source`] and ends at a
//! [`Sink`]. The placement decides what a lane may run; the lane hands everything else to the lane that may run it.
//!
//! Guarantees: under any placement, number of lanes and schedule, packets leave each direction of a flow in the order
//! in which they came in, unless the plan does not keep order; all queues are bounded: no more batches exist than
//! were planned, and a source is not asked while no batch is free or the flow's order is full; no allocation per
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

use crate::{Stack, Way, parts::Part};
use sealane_lanes::{At, Bells, Clock, Pinning, Placement, Pool, Stop, run_lane, run_lanes};
use sealane_port::{Batch, Counts};

pub use counts::LaneCounts;
pub use lane::Lane;
use line::Line;
pub(crate) use stocks::Stocks;

/// A source of batches. A `Port` of crate `port` becomes one by its `ends`.
pub trait Source: Send {
    /// Adds packets to an empty batch, with the room around them that the stack needs, and returns their number; 0
    /// means that there will never be more, and the source is not asked again. It never waits.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::WouldBlock`] if there are no packets now. With any other error the source is
    /// broken, and the whole crew stops.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize>;

    /// Returns a descriptor that becomes readable when there are packets. A source without a descriptor is asked at
    /// least every [`sealane_lanes::LONGEST_SLEEP`].
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the time at which there may be packets even if nothing becomes readable.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// A destination of batches. A `Port` of crate `port` becomes one by its `ends`.
pub trait Sink: Send {
    /// Takes packets of a batch from number `from` on, and returns the number of packets that it has handled; packets
    /// that are not passed are handled by skipping them. It never waits.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::WouldBlock`] if it takes no packets now, which is the same as returning 0. With
    /// any other error the sink is broken, and the whole crew stops.
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize>;

    /// Returns a descriptor that becomes writable when the sink takes more.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The two ends of one direction through a flow's stack.
#[derive(Default)]
pub struct Ends {
    /// The source; `None` if only layers produce the packets of this direction.
    pub source: Option<Box<dyn Source>>,
    /// The sink; without one, packets at the end are counted and dropped.
    pub sink: Option<Box<dyn Sink>>,
}

/// One flow.
pub struct FlowPlan {
    /// Its layers and keys.
    pub stack: Stack,
    /// The direction from the application to the wire.
    pub down: Ends,
    /// The direction from the wire to the application.
    pub up: Ends,
}

/// The parameters of a crew.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The placement of work on lanes.
    pub placement: Placement,
    /// The number of lanes.
    pub lanes: NonZeroUsize,
    /// The number of batches, over all flows.
    pub batches: usize,
    /// The length of a batch's buffer in bytes.
    pub buffer_bytes: usize,
    /// The number of packets of a batch.
    pub packets: usize,
    /// The maximum number of batches of one flow under way between two points at which order is restored.
    pub in_flight: usize,
    /// Whether order is restored. Without it, batches are processed at serial layers and sinks as they arrive there;
    /// this is only meant for measuring the cost of order.
    pub keeps_order: bool,
}

/// The error for which a crew stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow {flow}: {message}")]
pub struct RunError {
    /// The flow whose source or sink is broken.
    pub flow: usize,
    /// The source's or sink's error.
    pub message: String,
}

/// A task that is passed from lane to lane.
#[derive(Debug)]
enum Task {
    /// A batch at a step of a line; `is_turned` says whether its turn there is over.
    Batch { batch: Batch, line: usize, step: usize, is_turned: bool },
    /// A part of a batch for which lane `home` waits.
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
    /// Both directions of each flow in succession, down before up.
    lines: Vec<Line>,
    pool: Stocks,
    parts: Pool<Part>,
    bells: Bells,
    stop: Stop<RunError>,
    counts: Vec<counts::Counting>,
    /// Whether a layer may keep batches, so that some must be reserved for others.
    has_serial: bool,
    /// The time at which lane 0 has to ask layers for their deadlines: nanoseconds after `epoch`, or [`NEVER`] if no
    /// layer has one.
    due_ns: AtomicU64,
    epoch: Instant,
    inboxes: Vec<Queue>,
    /// The tasks that any lane may take.
    shared: Queue,
}

/// A value later than any deadline.
const NEVER: u64 = u64::MAX;

fn line_of(flow: usize, way: Way) -> usize {
    2 * flow + usize::from(way == Way::Up)
}

impl Crew {
    /// Makes a crew with the system's clock.
    ///
    /// # Errors
    /// Fails if the process cannot open another descriptor.
    pub fn new(plan: Plan, flows: Vec<FlowPlan>) -> io::Result<Self> {
        Self::with_clock(plan, flows, Clock::Real)
    }

    /// Makes a crew with another clock, from which layers get `now`.
    ///
    /// # Errors
    /// Fails if the process cannot open another descriptor.
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
        // Each queue has room for all tasks that can exist, so that no lane ever waits for room in one.
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

    /// Returns the value that stops the run.
    pub fn stop(&self) -> &Stop<RunError> {
        &self.stop
    }

    /// Returns the bells that wake the lanes.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Returns the number of packets that have left one direction of a flow, by verdict.
    pub fn counts(&self, flow: usize, way: Way) -> Counts {
        self.lines[line_of(flow, way)].counts()
    }

    /// Returns the work that a lane has done so far.
    pub fn lane_counts(&self, lane: usize) -> LaneCounts {
        self.counts[lane].now()
    }

    /// Returns the number of batches that a source must leave in the pool. Messages may have to wait until a packet
    /// arrives, and arriving packets may have to wait until layers have answered them: so neither may take the last
    /// batch.
    fn left_by(&self, way: Way) -> usize {
        match way {
            _ if !self.has_serial => 0,
            Way::Down => self.plan.batches / 2,
            Way::Up => self.plan.batches / 4,
        }
    }

    /// Returns the time at which a source or a layer has work even if nothing arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let layers = self.lines.iter().filter(|line| line.way == Way::Down).flat_map(|line| &line.layers);
        let sources = self.lines.iter().filter(|line| line.has_source());
        layers.filter_map(|layer| layer.poll_timeout()).chain(sources.filter_map(Line::source_timeout)).min()
    }

    /// Returns one lane's work, to be run by [`run_lane`] or, in a test, step by step in any order. `engine` runs its
    /// cryptography.
    ///
    /// # Errors
    /// Fails if the engine cannot make a queue.
    pub fn lane(&self, lane: usize, engine: &dyn Engine) -> io::Result<Lane<'_>> {
        let depth = NonZeroUsize::new(self.plan.batches).unwrap_or(NonZeroUsize::MIN);
        Ok(Lane::new(self, lane, engine.queue(depth)?))
    }

    /// Runs all lanes until [`Self::stop`].
    ///
    /// # Errors
    /// Fails if threads or queues cannot be made, or with the error of a source or sink.
    pub fn run(&self, engine: &dyn Engine, pinning: Pinning) -> io::Result<()> {
        let abandon = || self.stop.finish(&self.bells);
        let lanes = run_lanes(self.plan.lanes.get(), pinning, abandon, |lane| {
            let _watch = sealane_lanes::OnPanic(|| self.stop.finish(&self.bells));
            let made = self.lane(lane, engine);
            if made.is_err() {
                self.stop.finish(&self.bells);
            }
            made.map(|mut work| run_lane(lane, &self.bells, &self.stop, &mut work))
        })?;
        lanes.into_iter().collect::<io::Result<()>>()?;
        self.stop.reason().map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    /// Returns the first lane that may run `at`.
    fn owner(&self, at: At) -> usize {
        let lanes = self.plan.lanes.get();
        (0..lanes).find(|&lane| self.plan.placement.may_run(lane, lanes, at)).expect("everything has a lane")
    }

    fn may_run(&self, lane: usize, at: At) -> bool {
        self.plan.placement.may_run(lane, self.plan.lanes.get(), at)
    }

    /// Records a layer's deadline. It may be later than the one for which lane 0 wakes, which then finds the new one.
    fn note_due(&self, due: Instant) {
        let ns = u64::try_from(due.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(NEVER);
        if ns < self.due_ns.load(SeqCst) && ns < self.due_ns.fetch_min(ns, SeqCst) {
            self.bells.ring_one(0);
        }
    }

    /// Returns whether the caller has to ask the layers for their deadlines now, and to record them again.
    fn take_due(&self, now: Instant) -> bool {
        let now_ns = now.saturating_duration_since(self.epoch).as_nanos();
        let is_due = u128::from(self.due_ns.load(SeqCst)) <= now_ns;
        if is_due {
            // This comes first, so that deadlines recorded meanwhile count.
            self.due_ns.store(NEVER, SeqCst);
        }
        is_due
    }

    fn due(&self) -> Option<Instant> {
        let ns = self.due_ns.load(SeqCst);
        (self.has_serial && ns != NEVER).then(|| self.epoch + Duration::from_nanos(ns))
    }

    /// Wakes the lanes that may have work now: a single lane if any lane may do the work.
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
