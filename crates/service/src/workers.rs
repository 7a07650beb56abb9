//! The threads that take jobs from rings, compute them, and sleep when there are none.
//!
//! **Guarantees:** while a request waits and a worker sleeps, a wake-up is under way: clients wake one worker, and a
//! worker that starts a computation wakes the next if more requests wait. At most one worker spins, for at most
//! [`SPIN`], and only while a core is free.

use crate::connection::{Work, compute};
use crate::cores::Cores;
use crate::counters::Counters;
use crate::scheduler::{Batch, Next, Scheduler};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use sealane_asymmetric::WORTHWHILE;
use sealane_transform::{ASYMMETRIC_LANES, Isa, Kernels};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time for which a worker spins before it sleeps.
const SPIN: Duration = Duration::from_micros(10);

/// The state that all workers and the set-up thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    scheduler: Mutex<Scheduler>,
    pub(crate) counters: Counters,
    kernels: Kernels,
    batch: Batch,
    cores: Cores,
    /// Workers sleep here: clients' eventfds and `bell` are registered, and each event wakes one worker.
    epoll: OwnedFd,
    bell: OwnedFd,
    /// Wakes the set-up thread.
    pub(crate) control: OwnedFd,
    sleepers: AtomicUsize,
    has_spinner: AtomicBool,
    is_over: AtomicBool,
}

pub(crate) fn new_bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

pub(crate) fn ring(bell: &OwnedFd) {
    // A counter that is full wakes as well.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Returns the number of jobs to take at a time: without lanes, one, so that all workers have some.
fn batch_of(kernels: &Kernels) -> Batch {
    match kernels.isa() {
        Isa::Avx512 => Batch { least: WORTHWHILE, most: ASYMMETRIC_LANES },
        Isa::Portable | Isa::Avx2 => Batch { least: 1, most: 1 },
    }
}

impl Shared {
    pub(crate) fn new() -> io::Result<Self> {
        let kernels = Kernels::best();
        let shared = Self {
            scheduler: Mutex::default(),
            counters: Counters::default(),
            kernels,
            batch: batch_of(&kernels),
            cores: Cores::new(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            bell: new_bell()?,
            control: new_bell()?,
            sleepers: AtomicUsize::new(0),
            has_spinner: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        };
        shared.listen_to(&shared.bell)?;
        Ok(shared)
    }

    pub(crate) fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an eventfd that wakes one worker each time it is written.
    pub(crate) fn listen_to(&self, bell: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, bell, epoll::EventData::new_u64(0), flags)?)
    }

    pub(crate) fn forget(&self, bell: impl AsFd) {
        // It does not matter if it is not registered.
        let _ = epoll::delete(&self.epoll, bell);
    }

    fn work(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let mut work = Work::default();
            let now = Instant::now();
            let (next, has_fallen) = {
                let mut scheduler = self.scheduler();
                let free = 1 + self.sleepers.load(Ordering::SeqCst);
                let next = scheduler.next(self.batch, free, now, &mut work, &self.counters);
                // Cheap work is done sooner than another worker wakes.
                if !work.jobs.is_empty() && self.sleepers.load(Ordering::SeqCst) > 0 {
                    scheduler.ask_to_be_woken(self.cores.is_one_free());
                    if scheduler.is_pending(now) {
                        ring(&self.bell);
                    }
                }
                (next, scheduler.has_fallen())
            };
            if has_fallen {
                ring(&self.control);
            }
            match next {
                Next::Work => self.run(work),
                Next::Nothing(until) => self.rest(until),
            }
        }
        // This makes the next worker end as well.
        ring(&self.bell);
    }

    fn run(&self, mut work: Work) {
        if let Some((end, answers)) = work.ready.take() {
            end.put(&answers);
        }
        if work.jobs.is_empty() {
            return;
        }
        let start = Instant::now();
        // A panic in a computation fails its own jobs, whose clients get an error, and no others.
        let _ = catch_unwind(AssertUnwindSafe(|| compute(&self.kernels, &mut work.jobs)));
        let cost_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counters.busy_ns.fetch_add(cost_ns, Ordering::Relaxed);
        let each_ns = cost_ns / work.jobs.len() as u64;
        {
            let mut scheduler = self.scheduler();
            for job in &work.jobs {
                scheduler.correct(job.user, job.expected_ns, each_ns);
            }
        }
        for job in work.jobs {
            job.deliver(&self.counters);
        }
    }

    /// Waits for work, until `until` at the latest.
    fn rest(&self, until: Option<Instant>) {
        if self.cores.is_one_free() && !self.has_spinner.swap(true, Ordering::AcqRel) {
            let found = self.spin();
            self.has_spinner.store(false, Ordering::Release);
            if found {
                return;
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let is_pending = {
            let scheduler = self.scheduler();
            scheduler.ask_to_be_woken(self.cores.is_one_free());
            scheduler.is_pending(Instant::now())
        };
        if !is_pending && !self.is_over.load(Ordering::Acquire) {
            let timeout = until.map(|until| {
                Timespec::try_from(until.saturating_duration_since(Instant::now())).unwrap_or_default()
            });
            let mut events = [const { std::mem::MaybeUninit::uninit() }; 4];
            match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
                Ok(_) => {
                    self.counters.wakes.fetch_add(1, Ordering::Relaxed);
                }
                Err(Errno::INTR) => {}
                // If epoll fails, a worker must not spin for ever.
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn spin(&self) -> bool {
        let start = Instant::now();
        loop {
            let now = Instant::now();
            if self.scheduler().is_pending(now) {
                return true;
            }
            if now - start >= SPIN {
                return false;
            }
            for _ in 0..8 {
                std::hint::spin_loop();
            }
        }
    }
}

/// The threads of the workers.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(shared: &Arc<Shared>, count: usize) -> io::Result<Self> {
        let mut workers = Self { shared: Arc::clone(shared), threads: Vec::new() };
        for index in 0..count {
            let shared = Arc::clone(shared);
            let builder = thread::Builder::new().name(format!("engine-{index}"));
            workers.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        ring(&self.shared.bell);
        for thread in self.threads.drain(..) {
            // A worker that panicked has ended as well.
            let _ = thread.join();
        }
    }
}
