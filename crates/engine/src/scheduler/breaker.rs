//! The decision whether an engine is given work.
//!
//! Guarantees: an engine that missed a deadline, gave a wrong answer or erred several times in a row gets no work
//! until it has answered a known question correctly; it is asked at growing intervals, by one lane at a time; an
//! answer from before the engine gave a wrong answer is distinguished from later ones.

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, PoisonError, SeqCst};

/// The number of errors in a row that open the breaker.
const ERRORS_MAX: u32 = 3;
/// The shortest and the longest interval before an engine is asked.
pub(crate) const WAIT_NS: u64 = 10_000_000;
const WAIT_NS_MAX: u64 = 5_000_000_000;

/// One engine's breaker, shared by all lanes. Times are nanoseconds of one clock, whose origin does not matter.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    /// Lanes read this at every work.
    is_open: AtomicBool,
    lies: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    errors: u32,
    /// The earliest time at which the engine may be asked again.
    ask_ns: u64,
    wait_ns: u64,
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the engine gets work.
    pub(crate) fn is_closed(&self) -> bool {
        !self.is_open.load(SeqCst)
    }

    /// Returns the number of wrong answers of the engine. Answers to questions from before the last wrong answer must
    /// not be used.
    pub(crate) fn lies(&self) -> u64 {
        self.lies.load(SeqCst)
    }

    fn open(&self, state: &mut State, now_ns: u64) {
        if !self.is_open.load(SeqCst) {
            (state.wait_ns, state.ask_ns) = (WAIT_NS, now_ns.saturating_add(WAIT_NS));
            self.is_open.store(true, SeqCst);
        }
    }

    /// Records that the engine answered without a fault.
    pub(crate) fn succeeded(&self) {
        if self.is_closed() {
            self.state().errors = 0;
        }
    }

    /// Records that the engine handed back jobs that it should have run.
    pub(crate) fn erred(&self, now_ns: u64) {
        let mut state = self.state();
        state.errors += 1;
        if state.errors >= ERRORS_MAX {
            self.open(&mut state, now_ns);
        }
    }

    /// Records that the engine missed a deadline.
    pub(crate) fn was_late(&self, now_ns: u64) {
        self.open(&mut self.state(), now_ns);
    }

    /// Records that the engine gave a wrong answer.
    pub(crate) fn lied(&self, now_ns: u64) {
        let mut state = self.state();
        // This comes first, so that a lane that sees the breaker open also knows which answers must not be used.
        self.lies.fetch_add(1, SeqCst);
        self.open(&mut state, now_ns);
    }

    /// Returns whether the caller must ask the engine a known question now.
    pub(crate) fn is_to_be_asked(&self, now_ns: u64) -> bool {
        if self.is_closed() {
            return false;
        }
        let mut state = self.state();
        let is_due = !self.is_closed() && state.ask_ns <= now_ns;
        if is_due {
            // The next question, if this one gets no answer, follows after twice the interval.
            state.wait_ns = state.wait_ns.saturating_mul(2).min(WAIT_NS_MAX);
            state.ask_ns = now_ns.saturating_add(state.wait_ns);
        }
        is_due
    }

    /// Records that the engine answered the known question correctly, which was asked when it had given `lies` wrong
    /// answers.
    pub(crate) fn answered(&self, lies: u64) {
        let mut state = self.state();
        if lies == self.lies() {
            state.errors = 0;
            self.is_open.store(false, SeqCst);
        }
    }
}
