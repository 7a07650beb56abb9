//! The engine that computes on a pool of worker lanes.
//!
//! Guarantees: the workers' queue and the queue of every submitter are bounded; every work that was taken is given
//! back; a submitter that found the workers' queue full, even of others' work, is woken when a worker has taken from
//! it; the panic of a worker is passed on to the submitters that wait for its work, so that they do not wait for
//! ever.
//!
//! Small works of several submitters run as one ([`Gathering`]), because kernels compute several messages side by side,
//! whosever works they are of.

use std::{
    any::Any,
    collections::VecDeque,
    fmt, io,
    num::NonZeroUsize,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::event::{EventfdFlags, eventfd};

use crate::{
    Cost, Engine, Implementations, Operation, Protection, Queue, Work,
    bell::{Bell, Signal},
    gathering::{Gathered, Gathering},
    inline::Costs,
    kind::{Kind, Make, Parse},
    load::Load,
    spinner::Spinner,
};

/// The number of works in the workers' queue per worker.
const WORKS_PER_LANE: usize = 4;
/// The least number of public-key operations in the workers' queue.
const OPERATIONS_QUEUE_MIN: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// The maximum number of workers: more than any machine has processors for.
const LANES_MAX: usize = 1024;
/// The maximum window: waiting longer never pays for a batch.
const WINDOW_MAX: Duration = Duration::from_millis(10);
pub(crate) const KIND: Kind = Kind {
    name: "lanes",
    form: "lanes[:N[:MICROSECONDS]]",
    about: "N worker threads compute for all lanes; by default as many as there are CPUs. They wait so long for small works \
            that share a batch, by default not at all",
    parse: Parse::Alone(|argument| {
        let (lanes, window) = match argument {
            None => (None, None),
            Some(text) => match text.split_once(':') {
                None => (Some(text), None),
                Some((lanes, window)) => (Some(lanes), Some(window)),
            },
        };
        let given = match lanes {
            None => None,
            Some(text) => Some(text.parse().ok().filter(|lanes: &NonZeroUsize| lanes.get() <= LANES_MAX)?),
        };
        let window = match window {
            None => Duration::ZERO,
            Some(text) => {
                Some(Duration::from_micros(text.parse().ok()?)).filter(|window| *window <= WINDOW_MAX)?
            }
        };
        let make: Arc<Make> = Arc::new(move |implementations| {
            let lanes = given.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
            let queue_works = lanes.saturating_mul(NonZeroUsize::MIN.saturating_add(WORKS_PER_LANE - 1));
            Ok(Arc::new(Lanes::gathering(implementations, lanes, queue_works, window)?))
        });
        Some(make)
    }),
};

/// A pool of worker lanes shared by any number of submitters. The pool lives as long as its last queue.
///
/// Public-key operations have workers of their own, which start with the first queue for them: an operation of a
/// millisecond does not delay packets by more than its share of the processors.
#[derive(Debug)]
pub struct Lanes {
    costs: Costs,
    pool: Arc<Pool<Work>>,
    operations: Mutex<Weak<Pool<Operation>>>,
}

type Finished<L> = Result<L, Box<dyn Any + Send>>;

struct Task<L> {
    load: L,
    reply: Reply<L>,
    share: Option<f32>,
}

/// The way back to the submitter.
struct Reply<L> {
    done: Sender<Finished<L>>,
    asker: Asker,
}

impl<L: Load> Gathered for Task<L> {
    fn submitter(&self) -> u64 {
        self.reply.asker.number
    }

    fn share(&self) -> Option<f32> {
        self.share
    }

    fn goes_with(&self, other: &Self) -> bool {
        self.load.class() == other.load.class()
    }
}

/// One submitter, as the workers see it.
#[derive(Clone)]
struct Asker {
    number: u64,
    bell: Arc<Bell<Eventfd>>,
}

impl PartialEq for Asker {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

struct Eventfd(OwnedFd);

impl Signal for Eventfd {
    fn raise(&self) {
        // Fails only if it was raised 2^64 - 2 times without being lowered.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn lower(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

struct Pool<L: Load> {
    queue: Arc<Gathering<Task<L>, Asker>>,
    workers: Vec<JoinHandle<()>>,
    lanes: NonZeroUsize,
    queue_loads: NonZeroUsize,
    window: Duration,
    /// The number of queues made so far.
    askers: AtomicU64,
}

impl<L: Load> fmt::Debug for Pool<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl<L: Load> Pool<L> {
    fn start(lanes: NonZeroUsize, queue_loads: NonZeroUsize, window: Duration) -> io::Result<Self> {
        let queue = Arc::new(Gathering::new(queue_loads, window));
        let (workers, askers) = (Vec::with_capacity(lanes.get()), AtomicU64::new(0));
        let mut pool = Self { queue: Arc::clone(&queue), workers, lanes, queue_loads, window, askers };
        let is_watched = Arc::new(AtomicBool::new(false));
        for lane in 0..lanes.get() {
            let (queue, is_watched) = (Arc::clone(&queue), Arc::clone(&is_watched));
            let worker = thread::Builder::new().name(format!("engine-{lane}"));
            pool.workers.push(worker.spawn(move || serve(&queue, &is_watched))?);
        }
        Ok(pool)
    }
}

impl Lanes {
    /// Starts `lanes` workers behind a queue of `queue_works`. The engine reports the costs of `implementations`;
    /// each session brings the implementations that run it.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub fn new(
        implementations: impl Into<Implementations>,
        lanes: NonZeroUsize,
        queue_works: NonZeroUsize,
    ) -> io::Result<Self> {
        Self::gathering(implementations, lanes, queue_works, Duration::ZERO)
    }

    /// Does the same as [`Self::new`], with workers that wait for at most `window` until small works of several
    /// submitters fill a batch.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub fn gathering(
        implementations: impl Into<Implementations>,
        lanes: NonZeroUsize,
        queue_works: NonZeroUsize,
        window: Duration,
    ) -> io::Result<Self> {
        let pool = Arc::new(Pool::start(lanes, queue_works, window)?);
        Ok(Self { costs: Costs::new(implementations.into()), pool, operations: Mutex::default() })
    }
}

/// Computes what is in the queue, until that is closed. At most one worker at a time, which sets `is_watched`, looks into
/// an empty queue again and again before it sleeps.
fn serve<L: Load>(queue: &Gathering<Task<L>, Asker>, is_watched: &AtomicBool) {
    let mut runner = L::Runner::default();
    let (mut tasks, mut loads, mut replies) = (Vec::new(), Vec::new(), Vec::new());
    let mut spinner = Spinner::default();
    loop {
        if !queue.is_ready() && !is_watched.swap(true, Relaxed) {
            spinner.wait(|| queue.is_ready());
            is_watched.store(false, Relaxed);
        }
        let Some(wanting) = queue.take(&mut tasks) else { return };
        wanting.iter().for_each(|asker| asker.bell.ring());
        for task in tasks.drain(..) {
            loads.push(task.load);
            replies.push(task.reply);
        }
        let run = AssertUnwindSafe(|| L::run_gathered(&mut loads, &mut runner));
        let mut panic = catch_unwind(run).err();
        let has_panicked = panic.is_some();
        for (load, reply) in loads.drain(..).zip(replies.drain(..)) {
            let finished = match panic.take() {
                Some(panic) => Err(panic),
                None if has_panicked => Err(Box::new("a worker panicked over a batch") as Box<_>),
                None => Ok(load),
            };
            // The submitter may be gone; then nobody needs the load.
            let _ = reply.done.try_send(finished);
            reply.asker.bell.ring();
        }
    }
}

impl Engine for Lanes {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn cost(&self, protection: Protection) -> Option<Cost> {
        self.costs.of(protection)
    }

    fn pace_ns(&self, cost: Cost, bytes: usize) -> f64 {
        cost.job_ns(bytes) / self.pool.lanes.get() as f64
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(LanesQueue::new(Arc::clone(&self.pool), depth)?))
    }

    fn operations(&self, depth: NonZeroUsize) -> io::Result<Option<Box<dyn Queue<Operation>>>> {
        let mut started = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match started.upgrade() {
            Some(pool) => pool,
            None => {
                let Pool { lanes, queue_loads, window, .. } = &*self.pool;
                // A queue that is shorter than a batch would never fill one.
                let queue_loads = (*queue_loads).max(OPERATIONS_QUEUE_MIN);
                let pool = Arc::new(Pool::start(*lanes, queue_loads, *window)?);
                *started = Arc::downgrade(&pool);
                pool
            }
        };
        Ok(Some(Box::new(LanesQueue::new(pool, depth)?)))
    }
}

struct LanesQueue<L: Load> {
    pool: Arc<Pool<L>>,
    done: Sender<Finished<L>>,
    finished: Receiver<Finished<L>>,
    asker: Asker,
    depth: usize,
    in_flight: usize,
}

impl<L: Load> LanesQueue<L> {
    fn new(pool: Arc<Pool<L>>, depth: NonZeroUsize) -> io::Result<Self> {
        let (done, finished) = bounded(depth.get());
        let signal = Eventfd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let asker = Asker { number: pool.askers.fetch_add(1, Relaxed), bell: Arc::new(Bell::new(signal)) };
        Ok(Self { pool, done, finished, asker, depth: depth.get(), in_flight: 0 })
    }

    fn take(&mut self) -> Option<L> {
        let finished = self.finished.try_recv().ok()?;
        self.in_flight -= 1;
        Some(finished.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl<L: Load> Queue<L> for LanesQueue<L> {
    fn submit(&mut self, from: &mut VecDeque<L>) -> usize {
        let mut count = 0;
        while self.in_flight < self.depth {
            let Some(load) = from.pop_front() else { break };
            let reply = Reply { done: self.done.clone(), asker: self.asker.clone() };
            let share = load.share();
            if let Err(task) = self.pool.queue.put(Task { load, reply, share }, || self.asker.clone()) {
                from.push_front(task.load);
                break;
            }
            self.in_flight += 1;
            count += 1;
        }
        count
    }

    fn finished(&mut self) -> Option<L> {
        self.take().or_else(|| {
            self.asker.bell.ask();
            self.take()
        })
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn has_finished(&self) -> Option<bool> {
        Some(!self.finished.is_empty())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.asker.bell.signal().0.as_fd())
    }
}

impl<L: Load> Drop for Pool<L> {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            // A worker ends only when the queue is closed; it has passed on its panics.
            let _ = worker.join();
        }
    }
}
