//! Counters of operations by algorithm: they prove that this provider computed, where a preference such as
//! `?provider=sealane` would silently be met by another.
//!
//! Threads add to their own stripe, so that they do not take a cache line from each other.

use std::cell::Cell;
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

    /// Returns the counter of a digest, by its place in [`crate::library::Hash::ALL`].
    pub(crate) const fn digest(place: usize) -> Self {
        Self(DIGESTS_FROM + place)
    }

    pub(crate) const HMAC: Self = Self(21);
    pub(crate) const SIGN: Self = Self(22);
    pub(crate) const VERIFY: Self = Self(23);
    pub(crate) const ENCRYPT: Self = Self(24);
    pub(crate) const DECRYPT: Self = Self(25);
    pub(crate) const DERIVE: Self = Self(26);
    pub(crate) const ENCAPSULATE: Self = Self(27);
    pub(crate) const DECAPSULATE: Self = Self(28);

    /// Adds one operation.
    pub(crate) fn add(self) {
        let stripe = STRIPE.try_with(Cell::get).unwrap_or(0);
        STRIPES[stripe].0[self.0].fetch_add(1, Relaxed);
    }
}

/// The place of the first digest among the names.
pub(crate) const DIGESTS_FROM: usize = 10;

/// The names of the counters.
pub(crate) const NAMES: [&str; 29] = [
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
    "SHA1",
    "SHA2-224",
    "SHA2-256",
    "SHA2-384",
    "SHA2-512",
    "SHA2-512/224",
    "SHA2-512/256",
    "SHA3-224",
    "SHA3-256",
    "SHA3-384",
    "SHA3-512",
    "HMAC",
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

const STRIPES_COUNT: usize = 16;

static STRIPES: [Stripe; STRIPES_COUNT] =
    [const { Stripe([const { AtomicU64::new(0) }; NAMES.len()]) }; STRIPES_COUNT];

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = Cell::new(THREADS.fetch_add(1, Relaxed) % STRIPES_COUNT);
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
        let before = by_algorithm()[Counted::HMAC.0];
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| Counted::HMAC.add());
            }
        });
        assert_eq!(by_algorithm()[Counted::HMAC.0], before + 20);
        let file = tempfile::NamedTempFile::new().unwrap();
        append_to(file.path()).unwrap();
        append_to(file.path()).unwrap();
        let lines = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.contains(&format!("\"HMAC\":{}", before + 20)), "{lines}");
    }
}
