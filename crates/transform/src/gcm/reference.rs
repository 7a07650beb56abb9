//! GCM as SP 800-38D defines it.

use super::Key;
use crate::aead::AeadJob;
use crate::aes;
use crate::modes::Direction;

/// Returns the product of two field elements, by algorithm 1 of section 6.3.
pub(crate) fn multiply(x: u128, y: u128) -> u128 {
    const R: u128 = 0xe1 << 120;
    let (mut z, mut v) = (0, y);
    for i in 0..128 {
        if x >> (127 - i) & 1 == 1 {
            z ^= v;
        }
        v = if v & 1 == 1 { v >> 1 ^ R } else { v >> 1 };
    }
    z
}

/// Seals or opens one message.
pub(crate) fn seal_or_open(key: &Key, direction: Direction, job: &mut AeadJob<'_>) {
    super::seal_or_open_by(key, direction, job, multiply, |key, block| {
        aes::reference::plain(key, Direction::Encrypt, block);
    });
}
