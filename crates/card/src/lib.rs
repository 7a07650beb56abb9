//! The engine that simulates an accelerator card.
//!
//! Guarantees: it answers at the time at which the simulated card would, by the system's clock with a thread of its
//! own or by a virtual clock without one; it holds a bounded number of works; it can be made to fail in every way in
//! which a card fails.
//!
//! Results are computed in software when they are due, which takes this processor's time. A card that takes time only computes
//! nothing and leaves the bytes as they are: between two ends that both have it, a study measures what a card costs and saves.

#![forbid(unsafe_code)]

mod core;
mod dice;
mod published;
mod timing;

use std::{
    collections::VecDeque,
    io,
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, eventfd};

use self::core::{Core, run};
pub use self::{
    core::Condition,
    published::{OCF_BYTES, OCF_TABLE_1},
    timing::Timing,
};
use sealane_engine::debug_only;
use sealane_engine::{Cost, Engine, Kind, Make, Parse, Protection, Queue, Software, Trust, Work};
use sealane_lanes::Clock;

/// The number of works that the card holds, of all submitters together.
const DEPTH: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// All kinds of engines that a study can choose: those of the product, and the card.
pub const KINDS: &[Kind] = &{
    const PRODUCT: &[Kind] = sealane_engine::KINDS;
    let mut all = [KIND; PRODUCT.len() + 1];
    let mut at = 0;
    while at < PRODUCT.len() {
        all[at + 1] = PRODUCT[at];
        at += 1;
    }
    all
};

/// The card as a kind of engine.
pub const KIND: Kind = Kind {
    name: "card",
    form: "card[:faults=SEED|:time-only|:processor]",
    about: "a simulated accelerator card of 2003: 38.3 µs and 96.7 ns per byte a job, four at a time; with faults, it hangs, \
            lies, vanishes and comes back, and the program goes on; with time-only it takes that time and protects nothing, \
            as a processor of its time does with processor: 3 µs and 300 ns per byte, one at a time",
    parse: Parse::Alone(|argument| {
        let (timing, faults, is_time_only) = match argument {
            None => (Timing::FOUR_HIFN_7751, None, false),
            Some("time-only") => (Timing::FOUR_HIFN_7751, None, true),
            Some("processor") => (Timing::PROCESSOR_OF_ITS_TIME, None, true),
            Some(argument) => {
                (Timing::FOUR_HIFN_7751, Some(argument.strip_prefix("faults=")?.parse().ok()?), false)
            }
        };
        let make: Arc<Make> = Arc::new(move |_| {
            let card = Card::new(timing, DEPTH, faults, Clock::Real)?;
            Ok(Arc::new(if is_time_only { card.time_only() } else { card }))
        });
        Some(make)
    }),
};

/// A simulated card.
pub struct Card {
    timing: Timing,
    trust: Trust,
    handle: Arc<Handle>,
}

/// The card as its engine and its queues share it; the thread ends when the last of them is dropped.
struct Handle {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when a work was taken, when the card's condition was set, and when the card must end.
    changed: Condvar,
    /// The software of a card without a thread.
    software: Mutex<Software>,
    clock: Clock,
    begun: Instant,
}

struct State {
    core: Core,
    is_ended: bool,
}

/// The place where one queue's works are handed back.
pub(crate) struct Answers {
    done: Mutex<VecDeque<Work>>,
    bell: OwnedFd,
}

impl Answers {
    fn ring(&self) {
        // Fails only if the bell was rung 2^64 - 2 times without being read.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Option<Work> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Card {
    /// Returns a card that holds `depth` works. With `faults`, a seed, its condition changes every few milliseconds,
    /// and each of its results must be checked. A card on a virtual clock has no thread: its queues read the clock
    /// when they are called.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub fn new(timing: Timing, depth: NonZeroUsize, faults: Option<u64>, clock: Clock) -> io::Result<Self> {
        const SAMPLED: NonZeroU32 = NonZeroU32::new(64).unwrap();
        let core = Core::new(timing, depth.get(), faults);
        let state = Mutex::new(State { core, is_ended: false });
        let begun = clock.now();
        let (changed, software) = (Condvar::new(), Mutex::default());
        let shared = Arc::new(Shared { state, changed, software, clock, begun });
        let thread = match shared.clock {
            Clock::Virtual(_) => None,
            Clock::Real => {
                let shared = Arc::clone(&shared);
                Some(thread::Builder::new().name("card".to_owned()).spawn(move || serve(&shared))?)
            }
        };
        let one_in = if faults.is_some() { NonZeroU32::MIN } else { SAMPLED };
        let trust = Trust::Checked { one_in };
        Ok(Self { timing, trust, handle: Arc::new(Handle { shared, thread }) })
    }

    /// Returns the same card with another [`Trust`].
    #[must_use]
    pub fn with_trust(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Returns the same card, which takes its time and computes nothing: jobs are done with their bytes as they were. There is
    /// nothing to check in its results, so it is not checked.
    #[must_use]
    fn time_only(self) -> Self {
        self.handle.shared.state().core.is_time_only = true;
        self.with_trust(Trust::Full)
    }

    /// Sets the card's condition from now on.
    pub fn set(&self, condition: Condition) {
        self.handle.shared.state().core.set(condition);
        self.handle.shared.changed.notify_one();
    }

    /// Returns the time at which the next work is due, or may be due.
    pub fn due(&self) -> Option<Instant> {
        let due_ns = self.handle.shared.state().core.due_ns()?;
        Some(self.handle.shared.begun + Duration::from_nanos(due_ns))
    }
}

debug_only!(Card { timing, trust });

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now().saturating_duration_since(self.begun).as_nanos() as u64
    }

    /// Hands out the works that are due. Nothing is computed with the lock held.
    fn settle(&self, software: &mut Software) {
        loop {
            let mut state = self.state();
            let due = state.core.take_due(self.now_ns());
            if state.core.has_room() {
                state.core.wanting.drain(..).for_each(|answers| answers.ring());
            }
            drop(state);
            let Some(mut held) = due else { return };
            run(&mut held, software);
            held.answers.done.lock().unwrap_or_else(PoisonError::into_inner).push_back(held.work);
            held.answers.ring();
        }
    }
}

/// Runs a card on the system's clock.
fn serve(shared: &Shared) {
    // By default the kernel may prolong a sleep by 50 µs, which is as long as a whole job.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut software = Software::default();
    loop {
        shared.settle(&mut software);
        let state = shared.state();
        if state.is_ended {
            return;
        }
        // The wait ends with the lock held; the next turn of the loop settles anew.
        match state.core.due_ns().map(|due_ns| due_ns.saturating_sub(shared.now_ns())) {
            Some(0) => {}
            Some(wait_ns) => drop(shared.changed.wait_timeout(state, Duration::from_nanos(wait_ns))),
            None => drop(shared.changed.wait(state)),
        }
    }
}

impl Engine for Card {
    fn name(&self) -> &'static str {
        "card"
    }

    fn cost(&self, _: Protection) -> Option<Cost> {
        Some(self.timing.line)
    }

    fn pace_ns(&self, _: Cost, bytes: usize) -> f64 {
        self.timing.pace_ns(bytes)
    }

    fn trust(&self) -> Trust {
        self.trust
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let answers = Arc::new(Answers { done: Mutex::default(), bell });
        let handle = Arc::clone(&self.handle);
        Ok(Box::new(CardQueue { handle, answers, depth: depth.get(), in_flight: 0 }))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.state().is_ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread has no cause to panic by itself; nobody waits for the works that it computed last.
            let _ = thread.join();
        }
    }
}

struct CardQueue {
    handle: Arc<Handle>,
    answers: Arc<Answers>,
    depth: usize,
    in_flight: usize,
}

impl Queue for CardQueue {
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize {
        let shared = &self.handle.shared;
        let (mut count, now_ns) = (0, shared.now_ns());
        let mut state = shared.state();
        while self.in_flight < self.depth {
            let Some(work) = from.pop_front() else { break };
            match state.core.submit(now_ns, work, &self.answers) {
                Ok(()) => {
                    self.in_flight += 1;
                    count += 1;
                }
                Err(work) => {
                    from.push_front(work);
                    if !state.core.wanting.iter().any(|known| Arc::ptr_eq(known, &self.answers)) {
                        state.core.wanting.push(Arc::clone(&self.answers));
                    }
                    break;
                }
            }
        }
        drop(state);
        if count > 0 {
            shared.changed.notify_one();
        }
        count
    }

    fn finished(&mut self) -> Option<Work> {
        if let Clock::Virtual(_) = self.handle.shared.clock {
            let mut software = self.handle.shared.software.lock().unwrap_or_else(PoisonError::into_inner);
            self.handle.shared.settle(&mut software);
        }
        let finished = self.answers.take().or_else(|| {
            // The bell is silenced before the last look, so a work that is answered after that look rings again.
            let _ = rustix::io::read(&self.answers.bell, &mut [0; 8]);
            self.answers.take()
        });
        self.in_flight -= usize::from(finished.is_some());
        finished
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.answers.bell.as_fd())
    }
}
