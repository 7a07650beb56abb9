//! SEAL 3.0, Rogaway and Coppersmith 1998: a stream for each 32-bit index under one key, 64 KiB at most.
//!
//! Words go out most significant byte first.

pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
pub(crate) mod reference;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Kilobytes of stream under one index; each takes four words of R.
const PAGES: usize = 64;

/// The longest message.
pub(crate) const MAX_BYTES: usize = 1024 * PAGES;

/// The tables of a key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    pub(crate) t: [u32; 512],
    pub(crate) s: [u32; 256],
    pub(crate) r: [u32; 4 * PAGES],
}

/// The key of lanes that have none.
static ZERO: Key = Key { t: [0; 512], s: [0; 256], r: [0; 4 * PAGES] };

/// The index that an IV gives.
pub(crate) fn index(iv: &[u8; 16]) -> u32 {
    u32::from_be_bytes([iv[0], iv[1], iv[2], iv[3]])
}

impl Key {
    pub(crate) fn new(key: &[u8; 20]) -> Box<Self> {
        let mut start = [0; 8];
        for (word, bytes) in start.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        // G(i): word i mod 5 of SHA-1's compression of the block (i / 5, 0, ..., 0), chained to the key.
        let (mut at, mut words) = (u32::MAX, [0; 8]);
        let mut g = |i: u32| {
            if i / 5 != at {
                at = i / 5;
                let mut block = [0; 64];
                block[..4].copy_from_slice(&at.to_be_bytes());
                words = start;
                crate::sha1::lanes::one(&mut words, &block);
            }
            words[i as usize % 5]
        };
        let mut made = Box::new(Self { t: [0; 512], s: [0; 256], r: [0; 4 * PAGES] });
        for (i, word) in made.t.iter_mut().enumerate() {
            *word = g(i as u32);
        }
        for (i, word) in made.s.iter_mut().enumerate() {
            *word = g(0x1000 + i as u32);
        }
        for (i, word) in made.r.iter_mut().enumerate() {
            *word = g(0x2000 + i as u32);
        }
        words.zeroize();
        start.zeroize();
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hex_literal::hex;

    /// Key of the paper's appendix.
    #[test]
    fn tables_of_the_paper() {
        let key = Key::new(&hex!("67452301efcdab8998badcfe10325476c3d2e1f0"));
        assert_eq!(key.t[..4], [0x92b404e5, 0x56588ced, 0x6c1acd4e, 0xbf053f68]);
        assert_eq!(key.t[511], 0x19ccf158);
        assert_eq!((key.s[0], key.s[1], key.s[255]), (0x907c1e3d, 0xce71ef0a, 0x0b5a0949));
        assert_eq!((key.r[0], key.r[1], key.r[15]), (0x5021758d, 0xce577c11, 0x4506dd64));
    }
}
