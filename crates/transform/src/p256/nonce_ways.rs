//! RFC 6979's nonces for eight ways: SHA-256 with a 32-bit element for each.
//!
//! As [`super::nonce`], whose steps cost 18 compressions; here one compression serves all ways. A way whose
//! first candidate is not between zero and the order goes back to [`super::nonce`]: one in 2^32 does.
//!
//! `unsafe`: intrinsics under the contract of [`super::vector`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use zeroize::Zeroize as _;

use super::integer::{self, N, U256};
use super::nonce::Nonces;
use crate::sha256::{CONSTANTS, INITIAL};
use crate::wipe::wipe;

/// The values on which a way's nonce depends.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    /// The private key.
    pub(super) scalar: &'a U256,
    /// The integer of the digest modulo the order.
    pub(super) e: U256,
    /// The additional data.
    pub(super) hedge: Option<&'a [u8; 32]>,
}

/// Eight 32-bit elements.
type W = __m256i;
/// The state of SHA-256 in each way.
type State = [W; 8];

/// Absorbs a block.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline(never)]
fn compress(state: &mut State, mut w: [W; 16]) {
    let start = *state;
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = start;
    let xor3 = |x, y, z| _mm256_ternarylogic_epi32::<0x96>(x, y, z);
    // The schedule's word for a later group of sixteen rounds, in the place of the word before.
    macro_rules! expand {
        (true, $t:literal) => {
            let (w15, w2) = (w[($t + 1) % 16], w[($t + 14) % 16]);
            let s0 =
                xor3(_mm256_ror_epi32::<7>(w15), _mm256_ror_epi32::<18>(w15), _mm256_srli_epi32::<3>(w15));
            let s1 =
                xor3(_mm256_ror_epi32::<17>(w2), _mm256_ror_epi32::<19>(w2), _mm256_srli_epi32::<10>(w2));
            w[$t] = _mm256_add_epi32(_mm256_add_epi32(w[$t], s0), _mm256_add_epi32(w[($t + 9) % 16], s1));
        };
        (false, $t:literal) => {};
    }
    // One round, which leaves the new values in d and h.
    macro_rules! round {
        ($expands:tt, $constants:expr, $t:literal;
         $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
            expand!($expands, $t);
            let word = _mm256_add_epi32(w[$t], _mm256_set1_epi32($constants[$t] as i32));
            let e1 = xor3(_mm256_ror_epi32::<6>($e), _mm256_ror_epi32::<11>($e), _mm256_ror_epi32::<25>($e));
            let choice = _mm256_ternarylogic_epi32::<0xca>($e, $f, $g);
            let sum = _mm256_add_epi32(_mm256_add_epi32($h, word), _mm256_add_epi32(choice, e1));
            let a0 = xor3(_mm256_ror_epi32::<2>($a), _mm256_ror_epi32::<13>($a), _mm256_ror_epi32::<22>($a));
            let majority = _mm256_ternarylogic_epi32::<0xe8>($a, $b, $c);
            $d = _mm256_add_epi32($d, sum);
            $h = _mm256_add_epi32(sum, _mm256_add_epi32(a0, majority));
        };
    }
    // Sixteen rounds, after which every value is back in its place.
    macro_rules! rounds {
        ($expands:tt, $constants:expr) => {
            rounds!($expands, $constants; 0 1 2 3 4 5 6 7);
            rounds!($expands, $constants; 8 9 10 11 12 13 14 15);
        };
        ($expands:tt, $constants:expr; $t0:literal $t1:literal $t2:literal $t3:literal
         $t4:literal $t5:literal $t6:literal $t7:literal) => {
            round!($expands, $constants, $t0; a b c d e f g h);
            round!($expands, $constants, $t1; h a b c d e f g);
            round!($expands, $constants, $t2; g h a b c d e f);
            round!($expands, $constants, $t3; f g h a b c d e);
            round!($expands, $constants, $t4; e f g h a b c d);
            round!($expands, $constants, $t5; d e f g h a b c);
            round!($expands, $constants, $t6; c d e f g h a b);
            round!($expands, $constants, $t7; b c d e f g h a);
        };
    }
    let (constants, _) = CONSTANTS.as_chunks::<16>();
    rounds!(false, constants[0]);
    for constants in &constants[1..] {
        rounds!(true, constants);
    }
    for (word, (start, end)) in state.iter_mut().zip(start.into_iter().zip([a, b, c, d, e, f, g, h])) {
        *word = _mm256_add_epi32(start, end);
    }
}

/// Returns a word in all ways.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn splat(word: u32) -> W {
    _mm256_set1_epi32(word as i32)
}

/// Returns the initial state.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn initial() -> State {
    let mut state = [splat(0); 8];
    for (word, initial) in state.iter_mut().zip(INITIAL) {
        *word = splat(initial);
    }
    state
}

/// Returns the block of 32 bytes that end a message of 96.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn last_block(words: &State) -> [W; 16] {
    let mut block = [splat(0); 16];
    block[..8].copy_from_slice(words);
    block[8] = splat(0x8000_0000);
    block[15] = splat(96 * 8);
    block
}

/// HMAC-SHA-256's states after the two blocks of a key.
struct Keyed {
    inner: State,
    outer: State,
}

impl Keyed {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn new(key: &State) -> Self {
        let mut states = [initial(); 2];
        for (state, pad) in states.iter_mut().zip([0x3636_3636, 0x5c5c_5c5c]) {
            let mut block = [splat(pad); 16];
            for (word, key) in block.iter_mut().zip(key) {
                *word = _mm256_xor_si256(*word, *key);
            }
            compress(state, block);
        }
        Self { inner: states[0], outer: states[1] }
    }

    /// Returns the code of a message whose inner hash is this.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn finish(&self, inner: &State) -> State {
        let mut state = self.outer;
        compress(&mut state, last_block(inner));
        state
    }

    /// Returns the code of 32 bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn code(&self, message: &State) -> State {
        let mut state = self.inner;
        compress(&mut state, last_block(message));
        self.finish(&state)
    }
}

/// The words of key, digest and additional data with the padding, for each way; byte 0 is the step's number.
type Tail = [[u32; 8]; 40];

/// Returns the tails, and a bit for each way that has additional data and thus a third block.
fn tails(inputs: &[Input<'_>; 8]) -> (Tail, __mmask8) {
    let mut tail = [[0; 8]; 40];
    let mut long = 0;
    let mut bytes = [0; 160];
    for (way, input) in inputs.iter().enumerate() {
        bytes.fill(0);
        bytes[1..33].copy_from_slice(&integer::to_bytes(input.scalar));
        bytes[33..65].copy_from_slice(&integer::to_bytes(&input.e));
        let (used, end) = match input.hedge {
            Some(hedge) => {
                long |= 1 << way;
                bytes[65..97].copy_from_slice(hedge);
                (97, 160)
            }
            None => (65, 96),
        };
        bytes[used] = 0x80;
        // The key's block and the 32 bytes before the tail count.
        bytes[end - 8..end].copy_from_slice(&(8 * (96 + used as u64)).to_be_bytes());
        for (row, word) in tail.iter_mut().zip(bytes.as_chunks().0) {
            row[way] = u32::from_be_bytes(*word);
        }
    }
    bytes.zeroize();
    (tail, long)
}

/// Returns the code of the value, the step's number, and the tail.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn seed(keyed: &Keyed, value: &State, step: u32, tail: &Tail, long: __mmask8) -> State {
    let mut words = [splat(0); 48];
    words[..8].copy_from_slice(value);
    for (word, row) in words[8..].iter_mut().zip(tail) {
        // SAFETY: the row has the 32 bytes.
        *word = unsafe { _mm256_loadu_si256(row.as_ptr().cast()) };
    }
    words[8] = _mm256_or_si256(words[8], splat(step << 24));
    let (blocks, _) = words.as_chunks::<16>();
    let mut state = keyed.inner;
    compress(&mut state, blocks[0]);
    compress(&mut state, blocks[1]);
    if long != 0 {
        let short = state;
        compress(&mut state, blocks[2]);
        for (word, short) in state.iter_mut().zip(short) {
            *word = _mm256_mask_mov_epi32(short, long, *word);
        }
    }
    wipe(&mut words, splat(0));
    keyed.finish(&state)
}

/// Returns the first nonce of each way.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn nonces(inputs: &[Input<'_>; 8]) -> [U256; 8] {
    let (mut tail, long) = tails(inputs);
    let mut keyed = Keyed::new(&[splat(0); 8]);
    let mut value = [splat(0x0101_0101); 8];
    for step in [0, 1] {
        let mut key = seed(&keyed, &value, step, &tail, long);
        keyed = Keyed::new(&key);
        value = keyed.code(&value);
        wipe(&mut key, splat(0));
    }
    value = keyed.code(&value);
    let mut rows = [[0_u32; 8]; 8];
    for (row, word) in rows.iter_mut().zip(value) {
        // SAFETY: the row has the 32 bytes.
        unsafe { _mm256_storeu_si256(row.as_mut_ptr().cast(), word) };
    }
    let nonces = core::array::from_fn(|way| {
        let word = |i: usize| u64::from(rows[7 - i][way]);
        let nonce = core::array::from_fn(|i| word(2 * i) | word(2 * i + 1) << 32);
        if bool::from(N.contains(&nonce) & !integer::is_zero(&nonce)) {
            nonce
        } else {
            let input = &inputs[way];
            Nonces::new(input.scalar, &input.e, input.hedge).next()
        }
    });
    wipe(&mut value, splat(0));
    wipe(&mut keyed.inner, splat(0));
    wipe(&mut keyed.outer, splat(0));
    rows.zeroize();
    tail.zeroize();
    nonces
}

/// As [`nonces`], for tests.
#[cfg(test)]
pub(super) fn nonces_of(_token: crate::isa::Avx512, inputs: &[Input<'_>; 8]) -> [U256; 8] {
    // SAFETY: the token proves the features.
    unsafe { nonces(inputs) }
}
