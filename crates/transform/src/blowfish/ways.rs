//! Blowfish with several messages interleaved in general registers.
//!
//! A round waits for its table look-ups, whose latency only other messages can fill. Vectors do not help if each way
//! has its tables, because gathers take longer than the loads they replace; for ways of one key see
//! [`super::permuted`]. Each way copies its key, so that one register reaches the tables of all. One way is the
//! generic tier. The look-ups leak key and data through the cache, as in every implementation by tables in memory.
//!
//! `unsafe`: assembly with BMI, which the token proves; the compiler would not keep constants in registers that it
//! can recompute.
#![allow(unsafe_code)]

use super::Key;
use crate::cipher_ways::{Alone, CHUNK, Interleaved};
use crate::isa::Avx2;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::wipe::wipe;

/// Number of messages side by side: more would not fit the registers.
pub(crate) const WAYS: usize = 6;

/// Returns a pair of subkeys; blocks and pairs are kept with their left word low.
fn pair(key: &Key, direction: Direction, i: usize) -> u64 {
    let at = |i: usize| match direction {
        Direction::Encrypt => key.p[i],
        Direction::Decrypt => key.p[17 - i],
    };
    u64::from(at(2 * i)) | u64::from(at(2 * i + 1)) << 32
}

fn read(bytes: [u8; 8]) -> u64 {
    u64::from_be_bytes(bytes).rotate_left(32)
}

fn written(block: u64) -> [u8; 8] {
    block.rotate_left(32).to_be_bytes()
}

/// A method to compute a round.
trait Round: Copy {
    /// XORs F of the left word, the low one, into the right one.
    fn left(self, s: &[[u32; 256]; 4], block: u64) -> u64;
    /// XORs F of the right word into the left one.
    fn right(self, s: &[[u32; 256]; 4], block: u64) -> u64;
}

#[derive(Clone, Copy)]
struct Portable;

impl Portable {
    #[inline(always)]
    fn f([s1, s2, s3, s4]: &[[u32; 256]; 4], word: u32) -> u64 {
        let [a, b, c, d] = word.to_be_bytes().map(usize::from);
        u64::from((s1[a].wrapping_add(s2[b]) ^ s3[c]).wrapping_add(s4[d]))
    }
}

impl Round for Portable {
    #[inline(always)]
    fn left(self, s: &[[u32; 256]; 4], block: u64) -> u64 {
        block ^ Self::f(s, block as u32) << 32
    }
    #[inline(always)]
    fn right(self, s: &[[u32; 256]; 4], block: u64) -> u64 {
        block ^ Self::f(s, (block >> 32) as u32)
    }
}

/// BMI extracts a byte from a word by one instruction, if a register selects the byte: these registers do,
/// permanently.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Bmi([u64; 5]);

#[cfg(target_arch = "x86_64")]
impl Bmi {
    fn new(_: Avx2) -> Self {
        // The compiler would recompute known constants, by one more instruction, at each use.
        Self(core::hint::black_box([8, 16, 32, 40, 48].map(|bit| 8 << 8 | bit)))
    }
}

#[cfg(target_arch = "x86_64")]
impl Round for Bmi {
    #[inline(always)]
    fn left(self, s: &[[u32; 256]; 4], mut block: u64) -> u64 {
        let [c, b, ..] = self.0;
        // SAFETY: the token that made this proves BMI1; bytes index tables of 256 words, one behind the other.
        unsafe {
            core::arch::asm!(
                "mov {f:e}, {block:e}",
                "shr {f:e}, 24",
                "bextr {byte:e}, {block:e}, {b:e}",
                "mov {f:e}, [{s} + 4*{f}]",
                "add {f:e}, [{s} + 4*{byte} + 1024]",
                "bextr {byte:e}, {block:e}, {c:e}",
                "xor {f:e}, [{s} + 4*{byte} + 2048]",
                "movzx {byte:e}, {block:l}",
                "add {f:e}, [{s} + 4*{byte} + 3072]",
                "shl {f}, 32",
                "xor {block}, {f}",
                s = in(reg) s, b = in(reg) b, c = in(reg) c, f = out(reg) _, byte = out(reg) _,
                block = inout(reg) block, options(pure, readonly, nostack)
            );
        }
        block
    }
    #[inline(always)]
    fn right(self, s: &[[u32; 256]; 4], mut block: u64) -> u64 {
        let [.., d, c, b] = self.0;
        // SAFETY: the token that made this proves BMI1; bytes index tables of 256 words, one behind the
        // other.
        unsafe {
            core::arch::asm!(
                "mov {f}, {block}",
                "shr {f}, 56",
                "bextr {byte}, {block}, {b}",
                "mov {f:e}, [{s} + 4*{f}]",
                "add {f:e}, [{s} + 4*{byte} + 1024]",
                "bextr {byte}, {block}, {c}",
                "xor {f:e}, [{s} + 4*{byte} + 2048]",
                "bextr {byte}, {block}, {d}",
                "add {f:e}, [{s} + 4*{byte} + 3072]",
                "xor {block}, {f}",
                s = in(reg) s, b = in(reg) b, c = in(reg) c, d = in(reg) d, f = out(reg) _, byte = out(reg) _,
                block = inout(reg) block, options(pure, readonly, nostack)
            );
        }
        block
    }
}

/// Transforms one block of each way. `pair(i, n)` returns subkeys 2i and 2i + 1 of way n, `s(n)` its boxes.
#[inline(always)]
fn crypt<'a, const L: usize>(
    round: impl Round,
    pair: impl Fn(usize, usize) -> u64,
    s: impl Fn(usize) -> &'a [[u32; 256]; 4],
    block: &mut [u64; L],
) {
    for (n, block) in block.iter_mut().enumerate() {
        *block ^= pair(0, n);
    }
    for i in 1..9 {
        for (n, block) in block.iter_mut().enumerate() {
            *block = round.left(s(n), *block);
        }
        for (n, block) in block.iter_mut().enumerate() {
            *block = round.right(s(n), *block) ^ pair(i, n);
        }
    }
    for block in block {
        // The last swap is undone.
        *block = block.rotate_left(32);
    }
}

/// Transforms one block of one message.
pub(crate) fn one(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let mut words = [read(*block)];
    crypt(Portable, |i, _| pair(key, direction, i), |_| &key.s, &mut words);
    *block = written(words[0]);
}

/// A way's copy of its key, with pairs in the order of the direction.
#[derive(Clone, Copy)]
#[repr(C)]
struct WayKey {
    pairs: [u64; 9],
    s: [[u32; 256]; 4],
}

impl WayKey {
    const ZERO: Self = Self { pairs: [0; 9], s: [[0; 256]; 4] };
}

/// The batch kernel.
pub(crate) struct BlowfishWays<'k, const L: usize> {
    keys: [WayKey; L],
    /// The owner of each copy.
    held: [Option<&'k Key>; L],
    /// Whether all ways have one key: then the first copy serves every way and the others stay out of the cache.
    one_key: bool,
    /// For CBC: the last sealed block. For CTR: the counter.
    chain: [u64; L],
    mode: Mode,
    direction: Direction,
    /// Proof of BMI, to use it.
    bmi: Option<Avx2>,
}

impl<const L: usize> Drop for BlowfishWays<'_, L> {
    fn drop(&mut self) {
        wipe(&mut self.keys, WayKey::ZERO);
        wipe(&mut self.chain, 0);
    }
}

impl<const L: usize> BlowfishWays<'_, L> {
    /// Ways that have no key yet.
    pub(crate) fn new(mode: Mode, direction: Direction, bmi: Option<Avx2>) -> Self {
        Self { keys: [WayKey::ZERO; L], held: [None; L], one_key: true, chain: [0; L], mode, direction, bmi }
    }

    #[inline(always)]
    fn go(&mut self, round: impl Round, data: &mut [[u8; CHUNK]; L]) {
        if self.one_key { self.go_as::<true>(round, data) } else { self.go_as::<false>(round, data) }
    }

    #[inline(always)]
    fn go_as<const ONE_KEY: bool>(&mut self, round: impl Round, data: &mut [[u8; CHUNK]; L]) {
        match (self.mode, self.direction) {
            (Mode::Ecb, _) => self.chunk_as::<ONE_KEY, 0>(round, data),
            (Mode::Cbc, Direction::Encrypt) => self.chunk_as::<ONE_KEY, 1>(round, data),
            (Mode::Cbc, Direction::Decrypt) => self.chunk_as::<ONE_KEY, 2>(round, data),
            (Mode::Ctr, _) => self.chunk_as::<ONE_KEY, 3>(round, data),
        }
    }

    /// `HOW` selects ECB, CBC in both directions, or CTR.
    #[inline(always)]
    fn chunk_as<const ONE_KEY: bool, const HOW: u8>(
        &mut self,
        round: impl Round,
        data: &mut [[u8; CHUNK]; L],
    ) {
        let key = |n: usize| &self.keys[if ONE_KEY { 0 } else { n }];
        let mut chain = self.chain;
        for number in 0..CHUNK / 8 {
            let mut input = [0; L];
            for (input, data) in input.iter_mut().zip(&*data) {
                *input = read(data.as_chunks::<8>().0[number]);
            }
            let mut block = [0; L];
            for n in 0..L {
                block[n] = match HOW {
                    1 => input[n] ^ chain[n],
                    3 => chain[n].rotate_left(32),
                    _ => input[n],
                };
            }
            crypt(round, |i, n| key(n).pairs[i], |n| &key(n).s, &mut block);
            for n in 0..L {
                match HOW {
                    1 => chain[n] = block[n],
                    2 => {
                        block[n] ^= chain[n];
                        chain[n] = input[n];
                    }
                    3 => {
                        block[n] ^= input[n];
                        chain[n] = chain[n].wrapping_add(1);
                    }
                    _ => {}
                }
                data[n].as_chunks_mut::<8>().0[number] = written(block[n]);
            }
        }
        self.chain = chain;
    }
}

impl<'k, const L: usize> Interleaved<'k, L> for BlowfishWays<'k, L> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        let Schedule::Blowfish(key) = key else { return };
        let first = iv.as_chunks().0[0];
        self.chain[way] = if self.mode == Mode::Ctr { u64::from_be_bytes(first) } else { read(first) };
        if self.held[way].is_some_and(|held| core::ptr::eq(held, &**key)) {
            return;
        }
        self.held[way] = Some(key);
        let direction = if self.mode == Mode::Ctr { Direction::Encrypt } else { self.direction };
        let copy = &mut self.keys[way];
        copy.pairs = core::array::from_fn(|i| pair(key, direction, i));
        copy.s = key.s;
        let first = self.held[0];
        self.one_key =
            self.held.iter().flatten().all(|held| first.is_some_and(|first| core::ptr::eq(first, *held)));
    }

    fn chunk(&mut self, data: &mut [[u8; CHUNK]; L]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = self.bmi {
            // SAFETY: the token proves BMI1 and BMI2.
            return unsafe { run_bmi(token, self, data) };
        }
        self.go(Portable, data);
    }

    fn finish(&mut self, way: usize, key: &'k Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        let chain = self.chain[way];
        let first = if self.mode == Mode::Ctr { chain.to_be_bytes() } else { written(chain) };
        let mut iv = [0; 16];
        iv[..8].copy_from_slice(&first);
        alone(key, &iv, rest);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn run_bmi<const L: usize>(token: Avx2, kernel: &mut BlowfishWays<'_, L>, data: &mut [[u8; CHUNK]; L]) {
    kernel.go(Bmi::new(token), data);
}
