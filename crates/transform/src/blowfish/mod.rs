//! Blowfish, Schneier 1993. The key builds its S-boxes: 4 KB an association, and 521 encryptions to expand.

pub(crate) mod lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod permuted;
mod pi;
pub(crate) mod reference;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::job::Direction;

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    pub(crate) p: [u32; 18],
    pub(crate) s: [[u32; 256]; 4],
}

impl Key {
    /// Expands 4 to 56 bytes.
    pub(crate) fn new(key: &[u8]) -> Box<Self> {
        let mut made = Box::new(Self { p: [0; 18], s: [[0; 256]; 4] });
        let (p, s) = pi::PI.split_at(18);
        made.p.copy_from_slice(p);
        made.s.as_flattened_mut().copy_from_slice(s);
        let mut bytes = key.iter().cycle();
        for word in &mut made.p {
            let mut next = || bytes.next().copied().unwrap_or(0);
            *word ^= u32::from_be_bytes([next(), next(), next(), next()]);
        }
        let mut block = [0; 8];
        let mut next = |made: &Self| {
            reference::plain(made, Direction::Encrypt, &mut block);
            let value = u64::from_be_bytes(block);
            ((value >> 32) as u32, value as u32)
        };
        for i in 0..9 {
            (made.p[2 * i], made.p[2 * i + 1]) = next(&made);
        }
        for i in 0..512 {
            let (left, right) = next(&made);
            made.s[i / 128][2 * (i % 128)] = left;
            made.s[i / 128][2 * (i % 128) + 1] = right;
        }
        made
    }
}
