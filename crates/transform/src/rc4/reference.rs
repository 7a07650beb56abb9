//! RC4 byte by byte.

use zeroize::Zeroize as _;

use super::Key;
use crate::word::{Plain, Region, Word};

/// XORs the stream into `data`.
pub(crate) fn crypt<W: Word>(key: &Key, data: &mut [u8]) {
    in_pieces::<W>(key, data, usize::MAX, || ());
}

/// Does the same, and calls `done` after every `piece` bytes.
pub(crate) fn in_pieces<W: Word>(key: &Key, data: &mut [u8], piece: usize, mut done: impl FnMut()) {
    let mut s = key.permutation;
    let (mut i, mut j) = (W::imm(0), W::imm(0));
    let byte = W::imm(0xff);
    for (at, out) in data.iter_mut().enumerate() {
        i = (i + W::imm(1)) & byte;
        let a = W::lookup("S", 0, &s, i);
        j = (j + a) & byte;
        let b = W::lookup("S", 0, &s, j);
        s[i.bits() as usize] = b.store(Region::Table("S").word(i.bits() as usize)) as u8;
        s[j.bits() as usize] = a.store(Region::Table("S").word(j.bits() as usize)) as u8;
        let stream = W::lookup("S", 0, &s, (a + b) & byte);
        let place = Region::Message.part(at, 1);
        *out = (W::load(place, u32::from(*out)) ^ stream).store(place) as u8;
        W::branch(true);
        if (at + 1) % piece == 0 {
            done();
        }
    }
    s.zeroize();
}

/// Does the same, without counting.
pub(crate) fn plain(key: &Key, data: &mut [u8]) {
    crypt::<Plain>(key, data);
}
