//! The announcements of sleep that both ends of the rings make to each other, in shared memory.
//!
//! Each end announces that it is about to sleep, then looks at its ring once more; the other end writes its ring,
//! then checks for such an announcement. A full fence separates the two steps on either side, so at least one of the
//! two sees the other. **Guarantee:** between honest ends no end sleeps while there is a message for it. A client
//! that writes false words can only make itself sleep for ever: the service never waits for one of these words.

use crate::sync::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// The maximum time for which either end looks again and again before it sleeps.
pub const SPIN: Duration = Duration::from_micros(10);

/// An end spins only if its last sleep was at most this long ago, or the other end is awake. Of two ends that meet now
/// and then, each would only keep a core from the other.
pub const BUSY: Duration = Duration::from_micros(150);

/// A word in separate cache lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line(AtomicU32);

/// The words, in their layout in shared memory.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bells {
    service_sleeps: Line,
    client_waits: Line,
    core_is_free: Line,
    /// Separates the following data from the cache-line pair.
    spare: Line,
}

impl Bells {
    /// Called by the service: announces that its workers are about to sleep. It must look into the ring of requests
    /// once more after this.
    #[inline]
    pub fn service_is_about_to_sleep(&self) {
        self.service_sleeps.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Called by the service: takes the announcement back, because a worker looks into the ring again and again. It must
    /// announce its next sleep.
    #[inline]
    pub fn service_is_awake(&self) {
        if self.service_sleeps.0.load(Ordering::Relaxed) != 0 {
            self.service_sleeps.0.store(0, Ordering::Relaxed);
        }
    }

    /// Called by the client after it has published requests: returns whether it must wake the service, which is true
    /// once per sleep.
    #[inline]
    pub fn must_wake_service(&self) -> bool {
        fence(Ordering::SeqCst);
        self.service_sleeps.0.load(Ordering::Relaxed) != 0
            && self.service_sleeps.0.swap(0, Ordering::Relaxed) != 0
    }

    /// Called by the client: announces that it is about to wait. It must look into the ring of answers once more
    /// after this.
    #[inline]
    pub fn client_is_about_to_wait(&self) {
        self.client_waits.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Called by the client: records that it is awake.
    #[inline]
    pub fn client_is_awake(&self) {
        self.client_waits.0.store(0, Ordering::Relaxed);
    }

    /// Called by the service after it has published answers: returns whether it must wake the client, which is true
    /// once per wait.
    #[inline]
    pub fn must_wake_client(&self) -> bool {
        fence(Ordering::SeqCst);
        self.client_waits.0.load(Ordering::Relaxed) != 0
            && self.client_waits.0.swap(0, Ordering::Relaxed) != 0
    }

    /// Called by the service: records whether some core is idle, so that a client may spin before it sleeps.
    #[inline]
    pub fn set_core_is_free(&self, is_free: bool) {
        if self.core_is_free() != is_free {
            self.core_is_free.0.store(u32::from(is_free), Ordering::Relaxed);
        }
    }

    /// Called by the client: returns whether it may spin before it sleeps.
    #[inline]
    pub fn core_is_free(&self) -> bool {
        self.core_is_free.0.load(Ordering::Relaxed) != 0
    }
}
