//! How either end of the rings sleeps, and is woken.
//!
//! Each end says that it is about to sleep, then looks at its ring once more; the other end writes its ring, then looks whether
//! somebody sleeps. A full fence stands between the two steps on either side, so at least one of the two sees the other.
//! **Guarantee:** between honest ends nobody sleeps while there is something for it. A word of a client that lies lets only that client
//! sleep for ever: the service never waits for one of these words.

use crate::sync::{AtomicU32, Ordering, fence};

/// How a client waits for its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It does not.
    No,
    /// Asleep on the word itself, by futex(2).
    Futex,
    /// By its end of the set-up socket, which gets a message.
    Socket,
}

impl Waiting {
    fn of(word: u32) -> Self {
        match word {
            1 => Self::Futex,
            2 => Self::Socket,
            _ => Self::No,
        }
    }
}

/// A word in cache lines of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line(AtomicU32);

/// The words, as they lie in shared memory.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bells {
    service_sleeps: Line,
    client_waits: Line,
    core_is_free: Line,
    /// Keeps what follows a cache-line pair away.
    spare: Line,
}

impl Bells {
    /// The service: its workers are about to sleep. It must look into the ring of requests once more after this.
    pub fn service_is_about_to_sleep(&self) {
        self.service_sleeps.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The client, after it has published requests: whether it must wake the service, which it is told once for each sleep.
    pub fn must_wake_service(&self) -> bool {
        fence(Ordering::SeqCst);
        self.service_sleeps.0.load(Ordering::Relaxed) != 0
            && self.service_sleeps.0.swap(0, Ordering::Relaxed) != 0
    }

    /// The client: it is about to wait. It must look into the ring of answers once more after this.
    pub fn client_is_about_to_wait(&self, how: Waiting) {
        let word = match how {
            Waiting::No => 0,
            Waiting::Futex => 1,
            Waiting::Socket => 2,
        };
        self.client_waits.0.store(word, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The client: it is awake.
    pub fn client_is_awake(&self) {
        self.client_waits.0.store(0, Ordering::Relaxed);
    }

    /// The service, after it has published answers: how to wake the client, which it is told once for each wait.
    pub fn must_wake_client(&self) -> Waiting {
        fence(Ordering::SeqCst);
        if self.client_waits.0.load(Ordering::Relaxed) == 0 {
            return Waiting::No;
        }
        Waiting::of(self.client_waits.0.swap(0, Ordering::Relaxed))
    }

    /// The word on which a client sleeps; it is 1 while it does.
    pub fn client_word(&self) -> &AtomicU32 {
        &self.client_waits.0
    }

    /// The service: whether some core has nothing to run, so that a client may spin before it sleeps.
    pub fn set_core_is_free(&self, is_free: bool) {
        if self.core_is_free() != is_free {
            self.core_is_free.0.store(u32::from(is_free), Ordering::Relaxed);
        }
    }

    /// The client: whether it may spin before it sleeps.
    pub fn core_is_free(&self) -> bool {
        self.core_is_free.0.load(Ordering::Relaxed) != 0
    }
}
