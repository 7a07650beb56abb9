//! SEAL 3.0 with several messages interleaved in general registers; with one message it is the generic tier.

use super::{Key, PAGES, ZERO};
use crate::cipher_ways::{Alone, CHUNK, Interleaved};
use crate::schedule::Schedule;
use crate::wipe::wipe;

/// Messages side by side.
pub(crate) const WAYS: usize = 4;

/// Chunks of a page.
pub(crate) const PAGE_CHUNKS: usize = 1024 / CHUNK;

/// The position in a stream.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// A, B, C, D, then n1 to n4.
    pub(crate) words: [u32; 8],
    pub(crate) index: u32,
    /// Chunks behind it.
    pub(crate) chunk: usize,
}

impl State {
    /// Returns the state of an index's stream, before its start.
    pub(crate) const fn new(index: u32) -> Self {
        Self { words: [0; 8], index, chunk: 0 }
    }

    /// Returns the page of the next chunk; pages that only idle ways reach count as the first ones.
    pub(crate) const fn page(self) -> usize {
        self.chunk / PAGE_CHUNKS % PAGES
    }

    /// Returns the words of S for the next chunk.
    pub(crate) fn s(self, key: &Key) -> &[u32; 16] {
        &key.s.as_chunks().0[self.chunk % PAGE_CHUNKS]
    }

    /// Starts a page.
    pub(crate) fn start(&mut self, key: &Key) {
        let r = &key.r[4 * self.page()..];
        let n = self.index;
        let mut x =
            [n ^ r[0], n.rotate_right(8) ^ r[1], n.rotate_right(16) ^ r[2], n.rotate_right(24) ^ r[3]];
        let mut warm = || {
            for i in 0..4 {
                x[(i + 1) % 4] = x[(i + 1) % 4].wrapping_add(t(key, x[i]));
                x[i] = x[i].rotate_right(9);
            }
            x
        };
        warm();
        let [n2, n3, n4, n1] = {
            let [a, b, c, d] = warm();
            [b, a, c, d]
        };
        let [a, b, c, d] = warm();
        self.words = [a, b, c, d, n1, n2, n3, n4];
    }
}

/// Returns a word of T by the offset in bits 2 to 10.
#[inline(always)]
fn t(key: &Key, offset: u32) -> u32 {
    key.t[(offset >> 2) as usize & 511]
}

/// Streams of `L` messages.
pub(crate) struct SealWays<'k, const L: usize> {
    keys: [&'k Key; L],
    states: [State; L],
}

impl<const L: usize> Drop for SealWays<'_, L> {
    fn drop(&mut self) {
        wipe(&mut self.states, State::new(0));
    }
}

impl<const L: usize> SealWays<'_, L> {
    /// Ways that have no key yet.
    pub(crate) fn new() -> Self {
        Self { keys: [&ZERO; L], states: [State::new(0); L] }
    }

    /// XORs the next chunk of every stream into `data`.
    #[inline(always)]
    fn xor(&mut self, data: &mut [[u8; CHUNK]; L]) {
        for (state, key) in self.states.iter_mut().zip(self.keys) {
            if state.chunk.is_multiple_of(PAGE_CHUNKS) {
                state.start(key);
            }
        }
        let keys = self.keys;
        let words = |i: usize| core::array::from_fn::<u32, L, _>(|n| self.states[n].words[i]);
        let [mut a, mut b, mut c, mut d] = [words(0), words(1), words(2), words(3)];
        let (mut p, mut q) = ([0; L], [0; L]);
        let mut stream = [[0; 16]; L];
        macro_rules! each {
            ($n:ident, $($body:tt)*) => { for $n in 0..L { $($body)* } };
        }
        for i in 0..4 {
            each!(n, p[n] = a[n] & 0x7fc; a[n] = a[n].rotate_right(9);
                b[n] = b[n].wrapping_add(t(keys[n], p[n])) ^ a[n];);
            each!(n, q[n] = b[n] & 0x7fc; b[n] = b[n].rotate_right(9);
                c[n] = (c[n] ^ t(keys[n], q[n])).wrapping_add(b[n]););
            each!(n, p[n] = p[n].wrapping_add(c[n]) & 0x7fc; c[n] = c[n].rotate_right(9);
                d[n] = d[n].wrapping_add(t(keys[n], p[n])) ^ c[n];);
            each!(n, q[n] = q[n].wrapping_add(d[n]) & 0x7fc; d[n] = d[n].rotate_right(9);
                a[n] = (a[n] ^ t(keys[n], q[n])).wrapping_add(d[n]););
            each!(n, p[n] = p[n].wrapping_add(a[n]) & 0x7fc; b[n] ^= t(keys[n], p[n]);
                a[n] = a[n].rotate_right(9););
            each!(n, q[n] = q[n].wrapping_add(b[n]) & 0x7fc; c[n] = c[n].wrapping_add(t(keys[n], q[n]));
                b[n] = b[n].rotate_right(9););
            each!(n, p[n] = p[n].wrapping_add(c[n]) & 0x7fc; d[n] ^= t(keys[n], p[n]);
                c[n] = c[n].rotate_right(9););
            each!(n, q[n] = q[n].wrapping_add(d[n]) & 0x7fc; d[n] = d[n].rotate_right(9);
                a[n] = a[n].wrapping_add(t(keys[n], q[n])););
            each!(n,
                stream[n][4 * i..4 * i + 4].copy_from_slice(&[b[n], c[n], d[n], a[n]]);
                let from = if i % 2 == 0 { 4 } else { 6 };
                let (first, second) = (self.states[n].words[from], self.states[n].words[from + 1]);
                a[n] = a[n].wrapping_add(first);
                b[n] = b[n].wrapping_add(second);
                c[n] ^= first;
                d[n] ^= second;
            );
        }
        for n in 0..L {
            let s = self.states[n].s(keys[n]);
            for (i, word) in data[n].as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let mixed = if i % 2 == 0 { stream[n][i].wrapping_add(s[i]) } else { stream[n][i] ^ s[i] };
                *word = (u32::from_be_bytes(*word) ^ mixed).to_be_bytes();
            }
            self.states[n].words[..4].copy_from_slice(&[a[n], b[n], c[n], d[n]]);
            self.states[n].chunk += 1;
        }
    }
}

/// XORs the stream from a state on into `data`.
pub(crate) fn rest(key: &Key, state: State, data: &mut [u8]) {
    let mut way = SealWays::<1> { keys: [key], states: [state] };
    let (chunks, rest) = data.as_chunks_mut::<CHUNK>();
    for chunk in chunks {
        way.xor(core::array::from_mut(chunk));
    }
    if !rest.is_empty() {
        let mut last = [[0; CHUNK]];
        last[0][..rest.len()].copy_from_slice(rest);
        way.xor(&mut last);
        rest.copy_from_slice(&last[0][..rest.len()]);
    }
}

impl<'k, const L: usize> Interleaved<'k, L> for SealWays<'k, L> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        let Schedule::Seal3(key) = key else { return };
        self.keys[way] = key;
        self.states[way] = State::new(super::index(iv));
    }

    fn chunk(&mut self, data: &mut [[u8; CHUNK]; L]) {
        self.xor(data);
    }

    fn finish(&mut self, way: usize, _: &'k Schedule, data: &mut [u8], _: &Alone<'_>) {
        rest(self.keys[way], self.states[way], data);
    }
}
