//! The threads that take jobs from rings, compute them, and sleep when there are none.
//!
//! **Guarantees:** while a request waits and a worker sleeps, a wake-up or a look into the rings is under way: clients wake one
//! worker, and a worker that starts a computation wakes the next if more requests wait. Workers that never sleep listen now and then
//! to the connections at whose rings they do not look ([`DEAF`]). The worker that is woken computes,
//! and wakes the client: no request passes from thread to thread. It looks into the rings after it has answered, so its clients
//! wake no other worker by their next requests. At most one worker spins, for at most [`SPIN`], only while a core
//! is free, and rarely if its spins are in vain. An operation that is alone is divided between two workers where the rule
//! in [`crate::divided`] allows it.

use crate::audit::Audit;
use crate::connection::{Job, TakenRequests, compute};
use crate::counters::Counters;
use crate::divided::{Divided, Solitude};
use crate::handover::OfferSlot;
use crate::scheduler::{Batch, Id, Next, Scheduler};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use sealane_asymmetric::{Prime, Spent, WORTHWHILE};
use sealane_client::{BUSY, Cores, Habit, RINGS_HELD, SPIN};
use sealane_transform::{ASYMMETRIC_WAYS, Isa, Kernels};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The number of looks into the rings between two readings of the clock while a worker spins.
const LOOKS: u32 = 8;

/// The time from which on a worker that spins gives its core to a thread that waits for it: a client's, perhaps.
const SPIN_ALONE: Duration = Duration::from_micros(2);

/// The time for which workers that are busy do not listen to parked connections: a call of the system takes less than a
/// hundredth of it.
const DEAF: Duration = Duration::from_micros(100);

/// The event of the service's own bell; connections have other numbers.
const OWN_BELL: Id = 0;

/// The state that all workers and the set-up thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    scheduler: Mutex<Scheduler>,
    pub(crate) counters: Counters,
    /// The log of each operation with a key, if there is to be one.
    uses: OnceLock<Arc<Audit>>,
    kernels: Kernels,
    batch: Batch,
    cores: Cores,
    /// Workers sleep here: connections' bells and `bell` are registered, and each event wakes one worker.
    epoll: OwnedFd,
    bell: OwnedFd,
    start: Instant,
    /// The microseconds from then to the last time at which parked connections were heard.
    heard_us: AtomicU64,
    /// Wakes the set-up thread.
    pub(crate) control: OwnedFd,
    sleepers: AtomicUsize,
    has_spinner: AtomicBool,
    /// The workers that compute.
    computing: AtomicUsize,
    solitude: Solitude,
    /// The operation whose second half another worker may compute.
    place: OfferSlot<Arc<Divided>>,
    /// Whether operations are divided whatever other threads want to run.
    #[cfg(test)]
    disregards_others: bool,
    is_over: AtomicBool,
}

pub(crate) fn new_bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

pub(crate) fn ring(bell: &OwnedFd) {
    // A counter that is full wakes as well.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// Returns the number of jobs to take at a time: without vectors, one, so that all workers have some. AVX2 has kernels for signatures by
/// ML-DSA alone.
fn batch_of(kernels: &Kernels) -> Batch {
    match kernels.isa() {
        Isa::Avx512 => Batch { least: WORTHWHILE, most: ASYMMETRIC_WAYS, is_narrow: false },
        Isa::Avx2 => Batch { least: WORTHWHILE, most: ASYMMETRIC_WAYS, is_narrow: true },
        Isa::Portable => Batch { least: 1, most: 1, is_narrow: true },
    }
}

impl Shared {
    pub(crate) fn new(kernels: Kernels) -> io::Result<Self> {
        let shared = Self {
            scheduler: Mutex::default(),
            counters: Counters::default(),
            uses: OnceLock::new(),
            kernels,
            batch: batch_of(&kernels),
            cores: Cores::of_this_machine(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            bell: new_bell()?,
            start: Instant::now(),
            heard_us: AtomicU64::new(0),
            control: new_bell()?,
            sleepers: AtomicUsize::new(0),
            has_spinner: AtomicBool::new(false),
            computing: AtomicUsize::new(0),
            solitude: Solitude::default(),
            place: OfferSlot::new(),
            #[cfg(test)]
            disregards_others: false,
            is_over: AtomicBool::new(false),
        };
        shared.listen_to(&shared.bell, OWN_BELL)?;
        Ok(shared)
    }

    /// Logs each operation with a key from now on.
    pub(crate) fn log_uses(&self, audit: Arc<Audit>) {
        let _ = self.uses.set(audit);
    }

    pub(crate) fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the bell of a connection, which wakes one worker each time it is rung.
    pub(crate) fn listen_to(&self, bell: impl AsFd, id: Id) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, bell, epoll::EventData::new_u64(id), flags)?)
    }

    pub(crate) fn forget(&self, bell: impl AsFd) {
        // It does not matter if it is not registered.
        let _ = epoll::delete(&self.epoll, bell);
    }

    fn microseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }

    /// Hears the parked connections that have rung, if no worker has waited for them for [`DEAF`].
    fn hear(&self, scheduler: &mut Scheduler, now: Instant) {
        scheduler.park_quiet(now);
        let now_us = self.microseconds(now);
        if now_us.saturating_sub(self.heard_us.load(Ordering::Relaxed)) < DEAF.as_micros() as u64 {
            return;
        }
        self.heard_us.store(now_us, Ordering::Relaxed);
        if scheduler.has_parked() {
            let mut events = [const { std::mem::MaybeUninit::uninit() }; 64];
            let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&Timespec::default())) else {
                return;
            };
            for event in events.iter() {
                match event.data.u64() {
                    // It was meant for a worker that sleeps.
                    OWN_BELL if self.sleepers.load(Ordering::SeqCst) > 0 => ring(&self.bell),
                    OWN_BELL => {}
                    id => self.silence(scheduler, id, now),
                }
            }
        }
    }

    /// Takes the rings of a connection's bell. A request that one of them has announced is found by the look that follows, because the
    /// connection is not parked then.
    fn silence(&self, scheduler: &mut Scheduler, id: Id, now: Instant) {
        scheduler.unpark(id, now);
        if let Some(end) = scheduler.end(id)
            && end.bell.silence().is_err()
        {
            scheduler.has_lied(id);
            ring(&self.control);
        }
    }

    /// Looks for work.
    fn look(&self, scheduler: &mut Scheduler, now: Instant, work: &mut TakenRequests) -> Next {
        self.hear(scheduler, now);
        scheduler.core_is_free = self.cores.is_one_free(now);
        let free = 1 + self.sleepers.load(Ordering::SeqCst);
        let next = scheduler.next(self.batch, free, now, work, &self.counters);
        // Cheap work is done sooner than another worker wakes.
        if !work.jobs.is_empty() {
            self.leave_the_rest(scheduler, now);
        }
        if scheduler.has_fallen() {
            ring(&self.control);
        }
        next
    }

    /// Before a computation: has requests that wait, and those to come, wake other workers that sleep.
    fn leave_the_rest(&self, scheduler: &Scheduler, now: Instant) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            scheduler.ask_to_be_woken();
            if scheduler.is_pending(now) {
                ring(&self.bell);
            }
        }
    }

    /// Spins until there is a job to compute, and answers requests without computation meanwhile. Returns whether a
    /// request came; ends when none comes for [`SPIN`], or no core is free.
    fn spin(&self, work: &mut TakenRequests) -> bool {
        self.scheduler().ask_for_no_wake();
        let mut now = Instant::now();
        let (mut since, mut has_found) = (now, false);
        while now - since < SPIN && self.cores.is_one_free(now) {
            let next = {
                let mut scheduler = self.scheduler();
                let is_shown = (0..LOOKS).any(|_| {
                    std::hint::spin_loop();
                    scheduler.is_shown()
                });
                if is_shown { self.look(&mut scheduler, now, work) } else { Next::Nothing(None) }
            };
            has_found |= next == Next::Work || self.place.has_offer();
            if self.place.has_offer() || !work.jobs.is_empty() || self.is_over.load(Ordering::Relaxed) {
                break;
            }
            if let Some(end) = work.to_wake.take() {
                end.bell.ring();
            }
            work.answered = 0;
            now = Instant::now();
            if next == Next::Work {
                since = now;
            } else if now - since > SPIN_ALONE {
                thread::yield_now();
            }
        }
        has_found
    }

    fn run(&self, mut work: TakenRequests) {
        if let Some(end) = work.to_wake.take() {
            end.bell.ring();
        }
        if work.jobs.is_empty() {
            return;
        }
        let computing = Computing::begin(&self.computing);
        let is_alone = computing.others == 0 && work.jobs.len() == 1;
        if self.solitude.lasts(is_alone)
            && work.jobs[0].may_have_halves()
            && self.has_help(Instant::now())
            && let Some(job) = work.jobs.pop()
        {
            match Divided::begin(&self.kernels, job) {
                Ok((divided, spent)) => {
                    drop(computing);
                    return self.divide(Arc::new(divided), spent);
                }
                Err(job) => work.jobs.push(job),
            }
        }
        let start = Instant::now();
        // A panic in a computation fails its own jobs, whose clients get an error, and no others.
        let _ = catch_unwind(AssertUnwindSafe(|| compute(&self.kernels, &mut work.jobs)));
        let cost_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        drop(computing);
        self.answer(work.jobs, cost_ns);
    }

    /// Answers jobs that have been computed in `cost_ns` nanoseconds together.
    fn answer(&self, jobs: Vec<Job>, cost_ns: u64) {
        // Each of them bears its share of the time as it was expected: they may be of different kinds.
        let expected_ns: u64 = jobs.iter().map(|job| job.expected_ns).sum();
        let share = |job_ns: u64| {
            u64::try_from(u128::from(cost_ns) * u128::from(job_ns) / u128::from(expected_ns.max(1)))
                .unwrap_or(cost_ns)
        };
        let costs: Vec<_> =
            jobs.iter().map(|job| (job.user, job.expected_ns, share(job.expected_ns))).collect();
        for job in jobs {
            if let (Some(audit), Some(event)) = (self.uses.get(), job.used()) {
                audit.write(&event);
            }
            job.deliver(&self.counters);
        }
        // Clients go on meanwhile.
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        self.counters.busy_ns.fetch_add(cost_ns, Ordering::Relaxed);
        let mut scheduler = self.scheduler();
        for (user, expected_ns, cost_ns) in costs {
            scheduler.correct(user, expected_ns, cost_ns);
        }
    }

    /// Returns whether another worker and a core for it do nothing.
    fn has_help(&self, now: Instant) -> bool {
        #[cfg(test)]
        if self.disregards_others {
            return true;
        }
        (self.sleepers.load(Ordering::SeqCst) > 0 || self.has_spinner.load(Ordering::SeqCst))
            && self.cores.are_two_left(now)
    }

    /// Computes one half of an operation, and the other too if no worker has come for it meanwhile.
    fn divide(&self, divided: Arc<Divided>, spent: Spent) {
        let is_offered = self.place.offer(Arc::clone(&divided));
        if is_offered && self.sleepers.load(Ordering::SeqCst) > 0 {
            ring(&self.bell);
        }
        // The other worker needs longer to wake.
        let _ = catch_unwind(AssertUnwindSafe(|| spent.renew()));
        self.half(&divided, Prime::P);
        let left = if is_offered { self.place.take() } else { Some(divided) };
        if let Some(left) = left {
            self.solitude.ends();
            self.half(&left, Prime::Q);
        }
    }

    /// Computes a half, and answers if it is the second one.
    fn half(&self, divided: &Divided, prime: Prime) {
        let computing = Computing::begin(&self.computing);
        let finished = divided.compute(&self.kernels, prime);
        drop(computing);
        if let Some((job, cost_ns)) = finished {
            if self.scheduler().is_shown() {
                self.solitude.ends();
            }
            self.answer(vec![job], cost_ns);
        }
    }

    /// Computes the half that another worker has offered, if one has.
    fn help(&self) {
        if let Some(divided) = self.place.take() {
            self.counters.divided.fetch_add(1, Ordering::Relaxed);
            self.half(&divided, Prime::Q);
        }
    }
}

/// One worker that computes, among others.
struct Computing<'a> {
    count: &'a AtomicUsize,
    /// The number of others at its start.
    others: usize,
}

impl<'a> Computing<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        Self { count, others: count.fetch_add(1, Ordering::SeqCst) }
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread that computes.
struct Worker {
    shared: Arc<Shared>,
    habit: Habit,
    /// The time at which it last had nothing to do, and whether work came soon after it.
    idle_from: Instant,
    is_busy: bool,
    /// The connections that have rung for this worker at its last sleep.
    fresh: Vec<Id>,
    /// The connections whose bells have woken it since it silenced bells.
    rung: Vec<Id>,
    /// The number of wake-ups after which it silences them: its share of the rings that a bell holds. A bell is rung once per
    /// announcement of a sleep.
    rung_max: usize,
}

impl Worker {
    fn work(&mut self) {
        self.shared.cores.woke();
        while !self.shared.is_over.load(Ordering::Acquire) {
            self.shared.help();
            let (mut work, now) = (TakenRequests::default(), Instant::now());
            let next = {
                let mut scheduler = self.shared.scheduler();
                self.fresh.drain(..).for_each(|id| scheduler.unpark(id, now));
                self.shared.look(&mut scheduler, now, &mut work)
            };
            match next {
                Next::Work => self.is_busy = now - self.idle_from < BUSY,
                Next::Nothing(until) => {
                    self.idle_from = now;
                    self.rest(until, &mut work);
                }
            }
            self.shared.run(work);
        }
        // This makes the next worker end as well.
        ring(&self.shared.bell);
    }

    /// Waits for work, until `until` at the latest. A spin may find some.
    fn rest(&mut self, until: Option<Instant>, work: &mut TakenRequests) {
        let shared = &*self.shared;
        let is_free = shared.cores.is_one_free(self.idle_from);
        if is_free && self.is_busy && self.habit.spins() && !shared.has_spinner.swap(true, Ordering::SeqCst) {
            let has_found = shared.spin(work);
            shared.has_spinner.store(false, Ordering::SeqCst);
            self.habit.learn(has_found);
            if !work.jobs.is_empty() {
                // Others that have gone to sleep meanwhile relied on this spin.
                shared.leave_the_rest(&shared.scheduler(), Instant::now());
            }
            if has_found {
                return;
            }
        }
        self.silence();
        let shared = &*self.shared;
        shared.sleepers.fetch_add(1, Ordering::SeqCst);
        let is_pending = {
            let mut scheduler = shared.scheduler();
            // A worker that spins asks before it sleeps; until then a client would wake this one in vain.
            if !shared.has_spinner.load(Ordering::SeqCst) {
                scheduler.core_is_free = is_free;
                scheduler.ask_to_be_woken();
            }
            scheduler.is_pending(Instant::now())
        };
        if !is_pending && !shared.place.has_offer() && !shared.is_over.load(Ordering::Acquire) {
            let timeout = until.map(|until| {
                Timespec::try_from(until.saturating_duration_since(Instant::now())).unwrap_or_default()
            });
            let mut events = [const { std::mem::MaybeUninit::uninit() }; 4];
            shared.cores.sleeps();
            let woken = epoll::wait(&shared.epoll, &mut events, timeout.as_ref());
            shared.cores.woke();
            match woken {
                Ok((events, _)) => {
                    let ids = events.iter().map(|event| event.data.u64()).filter(|id| *id != OWN_BELL);
                    self.fresh.extend(ids);
                    self.rung.extend(&self.fresh);
                    shared.heard_us.store(shared.microseconds(Instant::now()), Ordering::Relaxed);
                    shared.counters.wakes.fetch_add(1, Ordering::Relaxed);
                }
                Err(Errno::INTR) => {}
                // If epoll fails, a worker must not spin for ever.
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        shared.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Silences the bells that have woken it, before a bell is full of rings.
    fn silence(&mut self) {
        if self.rung.len() < self.rung_max {
            return;
        }
        self.rung.sort_unstable();
        self.rung.dedup();
        let mut scheduler = self.shared.scheduler();
        for id in self.rung.drain(..) {
            self.shared.silence(&mut scheduler, id, Instant::now());
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
            let mut worker = Worker {
                shared,
                habit: Habit::default(),
                idle_from: Instant::now(),
                is_busy: false,
                fresh: Vec::new(),
                rung: Vec::new(),
                rung_max: (RINGS_HELD / count).max(1),
            };
            workers.threads.push(builder.spawn(move || worker.work())?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::Closer;
    use crate::connection::{ClientBell, End, Handle};
    use crate::divided::tests::{SIGN, key, signing};
    use sealane_client::job::Use;
    use sealane_client::ring::{Consumer, Direction, Head, Producer};
    use sealane_client::{Bell, Memory, Status};

    /// Has an operation divided with a second worker that comes for its half at once, or never.
    fn divide(has_help: bool) {
        let (end, job, wanted) = signing();
        let shared = Shared::new(Kernels::best()).unwrap();
        let mut answers = Consumer::new(Direction::Answers);
        for round in 1..=6 {
            let (divided, spent) = Divided::begin(&shared.kernels, job()).unwrap();
            thread::scope(|scope| {
                if has_help {
                    scope.spawn(|| {
                        while shared.counters.divided.load(Ordering::Relaxed) < round {
                            shared.help();
                            thread::yield_now();
                        }
                    });
                    let divided = Arc::new(divided);
                    assert!(shared.place.offer(Arc::clone(&divided)));
                    shared.half(&divided, Prime::P);
                    spent.renew();
                } else {
                    shared.divide(Arc::new(divided), spent);
                }
            });
            let mut content = zeroize::Zeroizing::default();
            let head = answers.take(&end.memory, &mut content, true).unwrap().expect("an answer");
            assert_eq!((head.tag, head.code), (7, Status::Done.to_number()));
            assert_eq!(Ok(&content), wanted.as_ref());
            assert!(answers.take(&end.memory, &mut content, true).unwrap().is_none(), "answered once");
            answers.release(&end.memory);
            assert_eq!(shared.counters.batches.load(Ordering::Relaxed), round);
            assert_eq!(shared.counters.divided.load(Ordering::Relaxed), if has_help { round } else { 0 });
            assert_eq!(shared.computing.load(Ordering::SeqCst), 0);
            assert!(!shared.place.has_offer());
        }
    }

    /// A client that has one request at a time is answered rightly, and sooner or later by two workers.
    #[test]
    fn a_lone_client_has_its_signatures_divided() {
        let shared = Arc::new(Shared { disregards_others: true, ..Shared::new(Kernels::best()).unwrap() });
        let workers = Workers::start(&shared, 2).unwrap();
        let (key, wanted) = key();
        let (bell, given) = Bell::pair().unwrap();
        let client = Bell::of(given);
        let memory = Memory::create().unwrap().0;
        let end = Arc::new(End::new(memory, ClientBell::new(bell, &Closer::default())));
        shared.listen_to(&end.bell, 1).unwrap();
        shared.scheduler().add(1, Arc::clone(&end), 1, None, Instant::now());
        let handle = Handle::Private { key, uses: [Use::Sign].into() };
        let handle = shared.scheduler().open(1, handle).unwrap();
        let (mut requests, mut answers) =
            (Producer::new(Direction::Requests), Consumer::new(Direction::Answers));
        let (code, parameters) = SIGN.to_numbers();
        let mut content = zeroize::Zeroizing::default();
        let until = Instant::now() + Duration::from_secs(60);
        let mut tag = 0;
        while tag < 50 || shared.counters.divided.load(Ordering::Relaxed) < 5 {
            assert!(Instant::now() < until, "no signature is divided");
            tag += 1;
            let head = Head { tag, key: handle, code, parameters };
            requests.push(&end.memory, head, &[7; 32]).unwrap();
            requests.publish(&end.memory);
            requests.prepare(&end.memory);
            client.ring();
            let head = loop {
                match answers.take(&end.memory, &mut content, true).unwrap() {
                    Some(head) => break head,
                    None => thread::sleep(Duration::from_micros(20)),
                }
            };
            answers.release(&end.memory);
            assert_eq!((head.tag, head.code), (tag, Status::Done.to_number()));
            assert_eq!(Ok(&content), wanted.as_ref());
        }
        drop(workers);
    }

    #[test]
    fn two_workers_answer_once() {
        divide(true);
    }

    #[test]
    fn an_offer_for_which_nobody_comes_is_computed_by_its_maker() {
        divide(false);
    }

    #[test]
    fn a_place_that_is_taken_leaves_both_halves_to_the_maker() {
        let (_, job, _) = signing();
        let shared = Shared::new(Kernels::best()).unwrap();
        let (first, _) = Divided::begin(&shared.kernels, job()).unwrap();
        assert!(shared.place.offer(Arc::new(first)));
        let (divided, spent) = Divided::begin(&shared.kernels, job()).unwrap();
        shared.divide(Arc::new(divided), spent);
        assert_eq!(shared.counters.batches.load(Ordering::Relaxed), 1);
        assert!(shared.place.take().is_some(), "the other's offer stays");
    }
}
