//! RC4, five messages interleaved: a byte waits for three look-ups and two stores of the same table.
//!
//! Tables of words rather than bytes keep stores and the loads after them whole. One lane is the generic tier.
//!
//! `unsafe`: enters the variant with SSE4.1, which the token proves.
#![allow(unsafe_code)]

use super::Key;
use crate::isa::Avx2;
use crate::key::Schedule;
use crate::lanes::{Alone, CHUNK, Interleaved};
use crate::wipe::wipe;

/// Messages side by side: with six, what no register holds costs more than is gained.
pub(crate) const LANES: usize = 5;

/// Bytes of stream that come at once.
const STEP: usize = 16;

/// The streams of `L` messages.
pub(crate) struct Rc4Lanes<const L: usize> {
    s: [[u32; 256]; L],
    j: [u32; L],
    /// Where i is, in steps.
    at: [usize; L],
    /// Proof of SSE4.1, to use it.
    sse: Option<Avx2>,
}

impl<const L: usize> Drop for Rc4Lanes<L> {
    fn drop(&mut self) {
        wipe(&mut self.s, [0; 256]);
        wipe(&mut self.j, 0);
    }
}

/// A step of stream as it grows.
trait Stream: Copy {
    fn put<const AT: usize>(&mut self, byte: u32);
    fn bytes(self) -> [u8; STEP];
}

impl Stream for [u64; 2] {
    #[inline(always)]
    fn put<const AT: usize>(&mut self, byte: u32) {
        self[AT / 8] |= u64::from(byte) << (8 * (AT % 8));
    }
    #[inline(always)]
    fn bytes(self) -> [u8; STEP] {
        (u128::from(self[1]) << 64 | u128::from(self[0])).to_le_bytes()
    }
}

#[cfg(target_arch = "x86_64")]
mod sse {
    use core::arch::x86_64::*;

    use super::{STEP, Stream};

    /// One instruction loads a byte and puts it in its place. Only `run_sse` makes these.
    #[derive(Clone, Copy)]
    pub(super) struct Xmm(pub(super) __m128i);

    impl Stream for Xmm {
        #[inline(always)]
        fn put<const AT: usize>(&mut self, byte: u32) {
            macro_rules! at {
                ($($at:literal)*) => {
                    match AT {
                        // SAFETY: made under the token, which proves SSE4.1.
                        $( $at => unsafe { _mm_insert_epi8::<$at>(self.0, byte as i32) }, )*
                        _ => self.0,
                    }
                };
            }
            self.0 = at!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        }
        #[inline(always)]
        fn bytes(self) -> [u8; STEP] {
            let mut bytes = [0; STEP];
            // SAFETY: sixteen bytes, any alignment.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), self.0) };
            bytes
        }
    }
}

impl<const L: usize> Rc4Lanes<L> {
    /// Lanes that have no key yet.
    pub(crate) fn new(sse: Option<Avx2>) -> Self {
        Self { s: [[0; 256]; L], j: [0; L], at: [0; L], sse }
    }

    fn start(&mut self, lane: usize, key: &Key) {
        self.s[lane] = key.permutation.map(u32::from);
        self.j[lane] = 0;
        self.at[lane] = 0;
    }

    /// XORs the next chunk of every stream into `data`.
    #[inline(always)]
    fn xor(&mut self, zero: impl Stream, data: &mut [[u8; CHUNK]; L]) {
        let (mut j, mut at) = (self.j, self.at);
        for number in 0..CHUNK / STEP {
            let mut stream = [zero; L];
            macro_rules! bytes {
                ($($byte:literal)*) => { $(
                    for n in 0..L {
                        let s = &mut self.s[n];
                        // Only the last of sixteen can go round.
                        let i = if $byte == STEP - 1 {
                            (STEP * at[n] + STEP) & 255
                        } else {
                            STEP * (at[n] & 15) + $byte + 1
                        };
                        let a = s[i];
                        j[n] = (j[n] + a) & 255;
                        let b = s[j[n] as usize];
                        s[i] = b;
                        s[j[n] as usize] = a;
                        stream[n].put::<$byte>(s[(a + b) as usize & 255]);
                    }
                )* };
            }
            bytes!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            for n in 0..L {
                at[n] = (at[n] + 1) & 15;
                let data = &mut data[n].as_chunks_mut::<STEP>().0[number];
                *data = (u128::from_le_bytes(*data) ^ u128::from_le_bytes(stream[n].bytes())).to_le_bytes();
            }
        }
        (self.j, self.at) = (j, at);
    }
}

impl Rc4Lanes<1> {
    fn run(&mut self, data: &mut [u8]) {
        let (chunks, rest) = data.as_chunks_mut::<CHUNK>();
        for chunk in chunks {
            self.xor([0u64; 2], core::array::from_mut(chunk));
        }
        let mut last = [[0; CHUNK]];
        last[0][..rest.len()].copy_from_slice(rest);
        self.xor([0u64; 2], &mut last);
        rest.copy_from_slice(&last[0][..rest.len()]);
    }
}

/// XORs the stream of a key into one message.
pub(crate) fn one(key: &Key, data: &mut [u8]) {
    let mut lane = Rc4Lanes::<1>::new(None);
    lane.start(0, key);
    lane.run(data);
}

impl<'k, const L: usize> Interleaved<'k, L> for Rc4Lanes<L> {
    fn set(&mut self, lane: usize, key: &'k Schedule, _: &[u8; 16]) {
        if let Schedule::Rc4(key) = key {
            self.start(lane, key);
        }
    }

    fn chunk(&mut self, data: &mut [[u8; CHUNK]; L]) {
        #[cfg(target_arch = "x86_64")]
        if self.sse.is_some() {
            // SAFETY: the token proves SSE4.1.
            return unsafe { run_sse(self, data) };
        }
        self.xor([0u64; 2], data);
    }

    fn finish(&mut self, lane: usize, _: &'k Schedule, rest: &mut [u8], _: &Alone<'_>) {
        let mut single =
            Rc4Lanes::<1> { s: [self.s[lane]], j: [self.j[lane]], at: [self.at[lane]], sse: None };
        single.run(rest);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.1,avx2")]
fn run_sse<const L: usize>(kernel: &mut Rc4Lanes<L>, data: &mut [[u8; CHUNK]; L]) {
    kernel.xor(sse::Xmm(core::arch::x86_64::_mm_setzero_si128()), data);
}
