//! The inner loops of public-key references over the machine word of 32 bits, for their instruction mixes.
//!
//! The references compute with words of 64 bits and products of 128, which no network processor has. The loops here are
//! the same formulas over [`Word`], and tests compare them with the references. **Guarantee:** a pass of a loop does the
//! same operations whatever its operands are, so that the mix of one pass and the number of passes are the mix of an
//! operation, less what it does once (inversions, paddings, hashes).
//!
//! Numbers of 256 bits and Keccak's state lie in registers, so their loops are unrolled within a pass. Longer numbers and
//! polynomials lie in memory, are read in order, and have loops.

mod curves;
mod field25519;
mod field_p256;
mod keccak;
mod long_transform;
mod modular;
mod packets;
#[cfg(test)]
mod tests;
mod transform;

use crate::word::{Counted, Event, Word, begin, end_block};

pub use packets::{PACKET_KERNELS, PacketKernel};

/// A loop of a public-key operation.
#[derive(Clone, Copy, Debug)]
pub struct PublicLoop {
    /// The algorithm, and the loop where it has several.
    pub name: &'static str,
    /// The work of one pass.
    pub pass: &'static str,
    /// The operation, and its passes.
    pub operation: (&'static str, u64),
    /// Whether a pass multiplies numbers of several words.
    pub multiplies: bool,
    run: fn(),
}

/// The loops, those that multiply numbers of several words first.
pub const PUBLIC_LOOPS: [PublicLoop; 9] = [
    PublicLoop {
        name: "rsa-2048",
        pass: "a bit of an exponent, modulo 1024 bits",
        operation: ("private", 2 * 1024),
        multiplies: true,
        run: modular::sample::<Counted, 32>,
    },
    PublicLoop {
        name: "dh-2048",
        pass: "a bit of an exponent, modulo 2048 bits",
        operation: ("agree", 256),
        multiplies: true,
        run: modular::sample::<Counted, 64>,
    },
    PublicLoop {
        name: "x25519",
        pass: "a step of the ladder",
        operation: ("agree", 255),
        multiplies: true,
        run: curves::sample_x25519::<Counted>,
    },
    PublicLoop {
        name: "p256",
        pass: "a bit of a scalar",
        operation: ("agree", 256),
        multiplies: true,
        run: curves::sample_p256::<Counted>,
    },
    PublicLoop {
        name: "ed25519",
        pass: "a bit of a scalar",
        operation: ("sign", 256),
        multiplies: true,
        run: curves::sample_ed25519::<Counted>,
    },
    PublicLoop {
        name: "ml-kem-768, NTT",
        pass: "the transform of a polynomial",
        // Three of them forwards and four backwards (algorithm 14).
        operation: ("encapsulate", 7),
        multiplies: false,
        run: transform::sample::<Counted>,
    },
    PublicLoop {
        name: "ml-kem-768, Keccak",
        pass: "a permutation",
        // H of the key 9, G 1, the noise 7, and 3 for each of nine polynomials of the matrix, of which a few need 4.
        operation: ("encapsulate", 9 + 1 + 7 + 27),
        multiplies: false,
        run: keccak::sample::<Counted>,
    },
    PublicLoop {
        name: "ml-dsa-65, NTT",
        pass: "the transform of a polynomial",
        // s1, s2 and t0 once, and for each of 5.1 attempts in the mean (FIPS 204, table 1) the mask, the challenge, w, and its
        // products with s1, s2 and t0: 17 + 5.1 (5 + 1 + 6 + 5 + 6 + 6).
        operation: ("sign, mean", 17 + 148),
        multiplies: false,
        run: long_transform::sample::<Counted>,
    },
    PublicLoop {
        name: "ml-dsa-65, Keccak",
        pass: "a permutation",
        // Five for each of 30 polynomials of the matrix, mu and the mask's seed; for each of 5.1 attempts the mask 25, the
        // challenge's hash 7, the challenge 1.
        operation: ("sign, mean", 150 + 2 + 168),
        multiplies: false,
        run: keccak::sample::<Counted>,
    },
];

impl PublicLoop {
    /// Reports the operations of one pass to `sink`.
    pub fn trace(&self, mut sink: impl FnMut(Event)) {
        begin();
        (self.run)();
        end_block(&mut sink);
    }
}

/// Returns the words of a and b of which `mask` chooses: b where it is all ones.
fn select<W: Word, const N: usize>(mask: W, a: &[W; N], b: &[W; N]) -> [W; N] {
    core::array::from_fn(|i| a[i] ^ (mask & (a[i] ^ b[i])))
}

/// Returns the low and the high word of a b + t + carry.
fn multiply_add<W: Word>(a: W, b: W, t: W, carry: W) -> (W, W) {
    let (low, high) = (a.mul(b), a.mul_high(b));
    let (low, more) = low.add_carrying(t, false);
    let high = high.add_carry(more);
    let (low, more) = low.add_carrying(carry, false);
    (low, high.add_carry(more))
}

/// A number of 256 bits, the lowest word first.
type Wide<W> = [W; 8];

/// Returns a + b and the carry.
fn add<W: Word>(a: &Wide<W>, b: &Wide<W>) -> (Wide<W>, bool) {
    let (mut sum, mut carry) = (*a, false);
    for (sum, b) in sum.iter_mut().zip(b) {
        (*sum, carry) = sum.add_carrying(*b, carry);
    }
    (sum, carry)
}

/// Returns a - b and the borrow.
fn subtract<W: Word>(a: &Wide<W>, b: &Wide<W>) -> (Wide<W>, bool) {
    let (mut difference, mut borrow) = (*a, false);
    for (difference, b) in difference.iter_mut().zip(b) {
        (*difference, borrow) = difference.sub_borrowing(*b, borrow);
    }
    (difference, borrow)
}

/// Returns words of a constant, which a processor keeps in registers.
fn constant<W: Word>(words: &[u64; 4]) -> Wide<W> {
    core::array::from_fn(|i| W::imm((words[i / 2] >> (32 * (i % 2))) as u32))
}

/// Returns a number that is below every modulus here, for samples.
fn number<W: Word>(seed: u32) -> Wide<W> {
    core::array::from_fn(|i| W::load(crate::word::Region::State.word(i), word(seed, i) >> u32::from(i == 7)))
}

/// Returns a reproducible word.
fn word(seed: u32, at: usize) -> u32 {
    (seed.wrapping_add(at as u32)).wrapping_mul(0x9e37_79b1).rotate_left(13).wrapping_mul(0x85eb_ca6b)
}
