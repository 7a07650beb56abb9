//! RC4 byte by byte.

use zeroize::Zeroize as _;

use super::Key;
use crate::word::{Plain, Word};

/// XORs the stream into `data`.
pub(crate) fn crypt<W: Word>(key: &Key, data: &mut [u8]) {
    let mut s = key.permutation;
    let (mut i, mut j) = (W::imm(0), W::imm(0));
    let byte = W::imm(0xff);
    for out in data {
        i = (i + W::imm(1)) & byte;
        let a = W::lookup("S", &s, i);
        j = (j + a) & byte;
        let b = W::lookup("S", &s, j);
        s[i.bits() as usize] = b.store() as u8;
        s[j.bits() as usize] = a.store() as u8;
        let stream = W::lookup("S", &s, (a + b) & byte);
        *out = (W::load(u32::from(*out)) ^ stream).store() as u8;
        W::branch();
    }
    s.zeroize();
}

/// The same, not counted.
pub(crate) fn plain(key: &Key, data: &mut [u8]) {
    crypt::<Plain>(key, data);
}
