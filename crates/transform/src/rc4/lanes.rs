//! RC4, three messages interleaved: a byte waits for three look-ups and two stores of the same table.
//!
//! Tables of words rather than bytes keep stores and the loads after them whole. One lane is the generic tier.

use super::Key;
use crate::key::Schedule;
use crate::lanes::{Alone, CHUNK, Interleaved};
use crate::wipe::wipe;

/// Messages side by side: more would not fit the registers.
pub(crate) const LANES: usize = 3;

/// The streams of `L` messages.
pub(crate) struct Rc4Lanes<const L: usize> {
    s: [[u32; 256]; L],
    j: [u32; L],
    /// Where i is, in steps of eight bytes.
    eighth: [usize; L],
}

impl<const L: usize> Drop for Rc4Lanes<L> {
    fn drop(&mut self) {
        wipe(&mut self.s, [0; 256]);
        wipe(&mut self.j, 0);
    }
}

impl<const L: usize> Rc4Lanes<L> {
    /// Lanes that have no key yet.
    pub(crate) fn new() -> Self {
        Self { s: [[0; 256]; L], j: [0; L], eighth: [0; L] }
    }

    fn start(&mut self, lane: usize, key: &Key) {
        self.s[lane] = key.permutation.map(u32::from);
        self.j[lane] = 0;
        self.eighth[lane] = 0;
    }

    /// XORs the next chunk of every stream into `data`.
    #[inline(always)]
    fn xor(&mut self, data: &mut [[u8; CHUNK]; L]) {
        let (mut j, mut eighth) = (self.j, self.eighth);
        for number in 0..CHUNK / 8 {
            let mut stream = [0u64; L];
            macro_rules! bytes {
                ($($byte:literal)*) => { $(
                    for n in 0..L {
                        let s = &mut self.s[n];
                        // Only the last of eight steps can go round.
                        let i = if $byte == 7 { (8 * eighth[n] + 8) & 255 } else { 8 * (eighth[n] & 31) + $byte + 1 };
                        let a = s[i];
                        j[n] = (j[n] + a) & 255;
                        let b = s[j[n] as usize];
                        s[i] = b;
                        s[j[n] as usize] = a;
                        stream[n] |= u64::from(s[(a + b) as usize & 255]) << (8 * $byte);
                    }
                )* };
            }
            bytes!(0 1 2 3 4 5 6 7);
            for n in 0..L {
                eighth[n] = (eighth[n] + 1) & 31;
                let eight = &mut data[n].as_chunks_mut::<8>().0[number];
                *eight = (u64::from_le_bytes(*eight) ^ stream[n]).to_le_bytes();
            }
        }
        (self.j, self.eighth) = (j, eighth);
    }
}

impl Rc4Lanes<1> {
    fn run(&mut self, data: &mut [u8]) {
        let (chunks, rest) = data.as_chunks_mut::<CHUNK>();
        for chunk in chunks {
            self.xor(core::array::from_mut(chunk));
        }
        let mut last = [[0; CHUNK]];
        last[0][..rest.len()].copy_from_slice(rest);
        self.xor(&mut last);
        rest.copy_from_slice(&last[0][..rest.len()]);
    }
}

/// XORs the stream of a key into one message.
pub(crate) fn one(key: &Key, data: &mut [u8]) {
    let mut lane = Rc4Lanes::<1>::new();
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
        self.xor(data);
    }

    fn finish(&mut self, lane: usize, _: &'k Schedule, rest: &mut [u8], _: &Alone<'_>) {
        let mut single = Rc4Lanes::<1> { s: [self.s[lane]], j: [self.j[lane]], eighth: [self.eighth[lane]] };
        single.run(rest);
    }
}
