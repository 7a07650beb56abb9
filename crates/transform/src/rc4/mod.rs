//! RC4. Broken; here because the papers measure it. A job starts at the beginning of its key's stream.

#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
pub(crate) mod reference;
pub(crate) mod single;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// The permutation after key scheduling.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    pub(crate) permutation: [u8; 256],
}

impl Key {
    /// Schedules 1 to 256 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut permutation: [u8; 256] = core::array::from_fn(|i| i as u8);
        let mut j = 0u8;
        for (i, byte) in key.iter().cycle().take(256).enumerate() {
            j = j.wrapping_add(permutation[i]).wrapping_add(*byte);
            permutation.swap(i, usize::from(j));
        }
        Self { permutation }
    }
}
