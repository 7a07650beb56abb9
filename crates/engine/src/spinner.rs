//! Waiting by looking again and again, for a thread that would otherwise sleep and have to be woken.
//!
//! Guarantees: it takes [`SPIN`] at the longest, happens only while a core is idle, and is rare if it was in vain.

use std::{hint::spin_loop, sync::LazyLock, time::Instant};

use sealane_client::{Cores, Habit, SPIN};

/// The number of looks between two readings of the clock.
const LOOKS: u32 = 64;

/// The cores of this machine.
static CORES: LazyLock<Cores> = LazyLock::new(Cores::of_this_machine);

/// The waits of one thread.
#[derive(Debug, Default)]
pub(crate) struct Spinner(Habit);

impl Spinner {
    /// Returns as soon as `is_ready` returns true, or when the wait has become too long.
    pub(crate) fn wait(&mut self, is_ready: impl Fn() -> bool) {
        if is_ready() {
            return;
        }
        let start = Instant::now();
        if !CORES.is_one_free(start) || !self.0.spins() {
            return;
        }
        let look = || {
            spin_loop();
            is_ready()
        };
        let has_found = loop {
            if (0..LOOKS).any(|_| look()) {
                break true;
            }
            if start.elapsed() >= SPIN {
                break false;
            }
        };
        self.0.learn(has_found);
    }
}
