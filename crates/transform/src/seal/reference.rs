//! SEAL 3.0 as its paper writes it.

use super::Key;
use crate::word::{Plain, Word};

/// One kilobyte of stream, `page` of index `n`.
pub(crate) fn page<W: Word>(key: &Key, n: u32, page: usize) -> [u32; 256] {
    let t = |at: W| W::lookup("T", &key.t, at.shr(2));
    let low = |x: W| x & W::imm(0x7fc);
    let right9 = |x: W| x.rotl(23);
    let n = W::load(n);
    let r = |i: usize| W::load(key.r[4 * page + i]);
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
    let mut out = [0; 256];
    for (i, four) in out.chunks_exact_mut(4).enumerate() {
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
        let s = |j: usize| W::load(key.s[4 * i + j]);
        four[0] = (b + s(0)).store();
        four[1] = (c ^ s(1)).store();
        four[2] = (d + s(2)).store();
        four[3] = (a ^ s(3)).store();
        if i % 2 == 0 {
            (a, b, c, d) = (a + n1, b + n2, c ^ n1, d ^ n2);
        } else {
            (a, b, c, d) = (a + n3, b + n4, c ^ n3, d ^ n4);
        }
        W::branch();
    }
    out
}

/// XORs the stream of index `n` into `data`.
pub(crate) fn crypt<W: Word>(key: &Key, n: u32, data: &mut [u8]) {
    for (number, data) in data.chunks_mut(1024).enumerate() {
        let stream = page::<W>(key, n, number);
        for (bytes, word) in data.chunks_mut(4).zip(stream) {
            for (byte, stream) in bytes.iter_mut().zip(word.to_be_bytes()) {
                *byte ^= stream;
            }
        }
    }
}

/// The same, not counted.
pub(crate) fn plain(key: &Key, n: u32, data: &mut [u8]) {
    crypt::<Plain>(key, n, data);
}
