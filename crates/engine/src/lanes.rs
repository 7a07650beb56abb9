//! The engine that computes on a pool of worker lanes.
//!
//! Guarantees: the workers' queue and every door are bounded; every work that was taken is given back; a door that
//! found the workers' queue full, with whoever's work, is rung when a worker has taken from it; a worker that panics
//! takes whoever waits for its work with it, instead of leaving them to wait for ever.

use std::{
    any::Any,
    collections::VecDeque,
    fmt, io,
    num::NonZeroUsize,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rustix::event::{EventfdFlags, eventfd};

use crate::{
    Cost, Engine, Implementations, Kind, Protection, Queue, Software, Work, choice::Make, inline::Costs,
};

/// Works that wait for each worker.
const WORKS_PER_LANE: usize = 4;
/// More workers than any machine has processors for.
const LANES_MAX: usize = 1024;

pub(crate) const KIND: Kind = Kind {
    name: "lanes",
    form: "lanes[:N]",
    about: "N worker threads compute for all lanes; by default as many as there are CPUs",
    parse: |argument| {
        let given = match argument {
            None => None,
            Some(number) => {
                Some(number.parse().ok().filter(|lanes: &NonZeroUsize| lanes.get() <= LANES_MAX)?)
            }
        };
        let make: Arc<Make> = Arc::new(move |implementations| {
            let lanes = given.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
            let queue_works = lanes.saturating_mul(NonZeroUsize::MIN.saturating_add(WORKS_PER_LANE - 1));
            Ok(Arc::new(Lanes::new(implementations, lanes, queue_works)?))
        });
        Some(make)
    },
};

/// A pool of worker lanes shared by any number of submitters. Lives as long as its last queue.
#[derive(Debug)]
pub struct Lanes {
    costs: Costs,
    pool: Arc<Pool>,
}

type Finished = Result<Work, Box<dyn Any + Send>>;

struct Task {
    work: Work,
    done: Sender<Finished>,
    bell: Arc<OwnedFd>,
}

struct Pool {
    submit: Option<Sender<Task>>,
    workers: Vec<JoinHandle<()>>,
    room: Arc<Room>,
}

/// The doors that found the workers' queue full.
#[derive(Default)]
struct Room {
    /// Whether there are some: workers look here after each task, and take the lock only then.
    is_wanted: AtomicBool,
    bells: Mutex<Vec<Arc<OwnedFd>>>,
}

impl Room {
    /// `bell` is to be rung when there may be room.
    fn want(&self, bell: &Arc<OwnedFd>) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        if !bells.iter().any(|known| Arc::ptr_eq(known, bell)) {
            bells.push(Arc::clone(bell));
        }
        self.is_wanted.store(true, SeqCst);
    }

    /// A task was taken from the queue.
    fn announce(&self) {
        if self.is_wanted.load(SeqCst) {
            let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_wanted.store(false, SeqCst);
            bells.drain(..).for_each(|bell| ring(&bell));
        }
    }
}

fn ring(bell: &OwnedFd) {
    // Fails only when the bell has been rung 2^64 - 2 times unheard.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Lanes {
    /// Starts `lanes` workers behind a queue of `queue_works`. Sessions say by themselves what runs them;
    /// `implementations` are those whose costs are told.
    ///
    /// # Errors
    /// When the system has no more threads to give.
    pub fn new(
        implementations: impl Into<Implementations>,
        lanes: NonZeroUsize,
        queue_works: NonZeroUsize,
    ) -> io::Result<Self> {
        let (submit, queue) = bounded::<Task>(queue_works.get());
        let room = Arc::new(Room::default());
        let mut pool =
            Pool { submit: Some(submit), workers: Vec::with_capacity(lanes.get()), room: Arc::clone(&room) };
        for lane in 0..lanes.get() {
            let (queue, room) = (queue.clone(), Arc::clone(&room));
            let worker = thread::Builder::new().name(format!("engine-{lane}"));
            pool.workers.push(worker.spawn(move || serve(&queue, &room))?);
        }
        Ok(Self { costs: Costs::new(implementations.into()), pool: Arc::new(pool) })
    }
}

fn serve(queue: &Receiver<Task>, room: &Room) {
    let mut software = Software::default();
    for Task { mut work, done, bell } in queue {
        room.announce();
        let run = AssertUnwindSafe(|| {
            software.run(&mut work);
            work
        });
        // The submitter may be gone; then nobody wants the work.
        let _ = done.try_send(catch_unwind(run));
        ring(&bell);
    }
}

impl Engine for Lanes {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn cost(&self, protection: Protection) -> Option<Cost> {
        self.costs.of(protection)
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        let (done, finished) = bounded(depth.get());
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let depth = depth.get();
        Ok(Box::new(LanesQueue { pool: Arc::clone(&self.pool), done, finished, bell, depth, in_flight: 0 }))
    }
}

struct LanesQueue {
    pool: Arc<Pool>,
    done: Sender<Finished>,
    finished: Receiver<Finished>,
    bell: Arc<OwnedFd>,
    depth: usize,
    in_flight: usize,
}

impl LanesQueue {
    fn take(&mut self) -> Option<Work> {
        let finished = self.finished.try_recv().ok()?;
        self.in_flight -= 1;
        Some(finished.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Queue for LanesQueue {
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize {
        let submit = self.pool.submit.as_ref().expect("the pool closes its queue only when it is dropped");
        let (mut count, mut is_announced) = (0, false);
        while self.in_flight < self.depth {
            let Some(work) = from.pop_front() else { break };
            let task = Task { work, done: self.done.clone(), bell: Arc::clone(&self.bell) };
            match submit.try_send(task) {
                Ok(()) => {
                    self.in_flight += 1;
                    count += 1;
                }
                Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => {
                    from.push_front(task.work);
                    if is_announced {
                        break;
                    }
                    // Once more afterwards: a worker that took a task before that knew of nobody to ring for.
                    self.pool.room.want(&self.bell);
                    is_announced = true;
                }
            }
        }
        count
    }

    fn finished(&mut self) -> Option<Work> {
        self.take().or_else(|| {
            // Silenced before the last look: what finishes after that look rings again.
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
            self.take()
        })
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.submit = None;
        for worker in self.workers.drain(..) {
            // A worker ends only when the queue is closed; it has handed its panics on.
            let _ = worker.join();
        }
    }
}
