//! SEAL 3.0 as its paper defines it.

use super::Key;
use crate::word::{Plain, Region, Word};

/// XORs kilobyte `page` of the stream of index `n` into `data`, which is at most that long.
pub(crate) fn page<W: Word>(key: &Key, n: u32, page: usize, data: &mut [u8]) {
    let t = |at: W| W::lookup("T", 0, &key.t, at.shr(2));
    let low = |x: W| x & W::imm(0x7fc);
    let right9 = |x: W| x.rotl(23);
    let n = W::load(Region::State.word(0), n);
    let r = |i: usize| W::load(Region::Table("R").word(4 * page + i), key.r[4 * page + i]);
    let (mut a, mut b, mut c, mut d) = (n ^ r(0), n.rotl(24) ^ r(1), n.rotl(16) ^ r(2), n.rotl(8) ^ r(3));
    let warm = |a: &mut W, b: &mut W, c: &mut W, d: &mut W| {
        for _ in 0..4 {
            *b = *b + t(low(*a));
            *a = right9(*a);
            let first = *a;
            (*a, *b, *c, *d) = (*b, *c, *d, first);
        }
    };
    warm(&mut a, &mut b, &mut c, &mut d);
    warm(&mut a, &mut b, &mut c, &mut d);
    let (n1, n2, n3, n4) = (d, b, a, c);
    warm(&mut a, &mut b, &mut c, &mut d);
    let blocks = data.len().div_ceil(16);
    for (i, four) in data.chunks_mut(16).enumerate() {
        let p = low(a);
        a = right9(a);
        b = (b + t(p)) ^ a;
        let q = low(b);
        b = right9(b);
        c = (c ^ t(q)) + b;
        let p = low(p + c);
        c = right9(c);
        d = (d + t(p)) ^ c;
        let q = low(q + d);
        d = right9(d);
        a = (a ^ t(q)) + d;
        let p = low(p + a);
        b = b ^ t(p);
        a = right9(a);
        let q = low(q + b);
        c = c + t(q);
        b = right9(b);
        let p = low(p + c);
        d = d ^ t(p);
        c = right9(c);
        let q = low(q + d);
        d = right9(d);
        a = a + t(q);
        let s = |j: usize| W::load(Region::Table("S").word(4 * i + j), key.s[4 * i + j]);
        let stream = [b + s(0), c ^ s(1), d + s(2), a ^ s(3)];
        for (j, (bytes, stream)) in four.chunks_mut(4).zip(stream).enumerate() {
            let place = Region::Message.word(256 * page + 4 * i + j);
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            let word = (W::load(place, u32::from_be_bytes(word)) ^ stream).store(place).to_be_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
        if i % 2 == 0 {
            (a, b, c, d) = (a + n1, b + n2, c ^ n1, d ^ n2);
        } else {
            (a, b, c, d) = (a + n3, b + n4, c ^ n3, d ^ n4);
        }
        W::branch(i + 1 != blocks);
    }
}

/// XORs the stream of index `n` into `data`.
pub(crate) fn crypt<W: Word>(key: &Key, n: u32, data: &mut [u8]) {
    for (number, data) in data.chunks_mut(1024).enumerate() {
        page::<W>(key, n, number, data);
    }
}

/// Does the same, without counting.
pub(crate) fn plain(key: &Key, n: u32, data: &mut [u8]) {
    crypt::<Plain>(key, n, data);
}
