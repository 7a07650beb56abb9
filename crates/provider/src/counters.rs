//! Counters of operations by algorithm: they prove that this provider computed, where a preference such as
//! `?provider=sealane` would silently be met by another.
//!
//! Each of the first threads adds to a stripe of its own, which no other thread writes, so that an addition needs no
//! locked instruction; later threads share the last stripes.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The counted algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted(usize);

impl Counted {
    /// Returns the counter of a cipher, by its place in [`crate::library::Kind::ALL`].
    pub(crate) const fn cipher(place: usize) -> Self {
        Self(place)
    }

    pub(crate) const SIGN: Self = Self(10);
    pub(crate) const VERIFY: Self = Self(11);
    pub(crate) const ENCRYPT: Self = Self(12);
    pub(crate) const DECRYPT: Self = Self(13);
    pub(crate) const DERIVE: Self = Self(14);
    pub(crate) const ENCAPSULATE: Self = Self(15);
    pub(crate) const DECAPSULATE: Self = Self(16);

    /// Adds one operation.
    pub(crate) fn add(self) {
        let stripe = STRIPE.try_with(|stripe| *stripe).unwrap_or(STRIPES_OWN);
        let counter = &STRIPES[stripe].0[self.0];
        if stripe < STRIPES_OWN {
            counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
        } else {
            counter.fetch_add(1, Relaxed);
        }
    }
}

/// The names of the counters.
pub(crate) const NAMES: [&str; 17] = [
    "AES-128-GCM",
    "AES-192-GCM",
    "AES-256-GCM",
    "AES-128-CBC",
    "AES-192-CBC",
    "AES-256-CBC",
    "AES-128-CTR",
    "AES-192-CTR",
    "AES-256-CTR",
    "ChaCha20-Poly1305",
    "sign",
    "verify",
    "encrypt",
    "decrypt",
    "derive",
    "encapsulate",
    "decapsulate",
];

#[repr(align(128))]
struct Stripe([AtomicU64; NAMES.len()]);

const STRIPES_COUNT: usize = 64;

/// The number of stripes that have one thread each.
const STRIPES_OWN: usize = 48;

static STRIPES: [Stripe; STRIPES_COUNT] =
    [const { Stripe([const { AtomicU64::new(0) }; NAMES.len()]) }; STRIPES_COUNT];

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = stripe_of(THREADS.fetch_add(1, Relaxed));
}

/// Returns the stripe of the thread with this number.
fn stripe_of(thread: usize) -> usize {
    if thread < STRIPES_OWN { thread } else { STRIPES_OWN + thread % (STRIPES_COUNT - STRIPES_OWN) }
}

/// Returns the number of operations of each algorithm, in the order of [`NAMES`].
fn by_algorithm() -> [u64; NAMES.len()] {
    std::array::from_fn(|place| STRIPES.iter().map(|stripe| stripe.0[place].load(Relaxed)).sum())
}

/// Returns the number of all operations.
pub(crate) fn total() -> u64 {
    by_algorithm().iter().sum()
}

/// Appends a line to a file: the process, and the algorithms that were used with their numbers, as JSON.
pub(crate) fn append_to(path: &Path) -> std::io::Result<()> {
    let mut line = format!("{{\"process\":{}", std::process::id());
    for (name, number) in NAMES.iter().zip(by_algorithm()).filter(|(_, number)| *number > 0) {
        // A string takes everything.
        let _ = write!(line, ",\"{name}\":{number}");
    }
    line.push_str("}\n");
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together() {
        let before = by_algorithm()[Counted::DERIVE.0];
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| Counted::DERIVE.add());
            }
        });
        assert_eq!(by_algorithm()[Counted::DERIVE.0], before + 20);
        let file = tempfile::NamedTempFile::new().unwrap();
        append_to(file.path()).unwrap();
        append_to(file.path()).unwrap();
        let lines = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.contains(&format!("\"derive\":{}", before + 20)), "{lines}");
    }
}
