//! Prepared keys: the matrix sampled and the polynomials of a key transformed, in a machine's order.
//!
//! A prepared private key has k l + l + 2 k polynomials of 1 KiB: 28, 47 and 79 KiB; a public one k (l + 1): 20, 36
//! and 64 KiB. Private ones are wiped when they are dropped. Coefficients are below q in amount.

use std::sync::OnceLock;

use super::arithmetic::Poly;
use super::machine::{BLOCKS_MAX, Candidates, MATRIX, Machine, ROW_BYTES, STREAMS_MAX, Seed, sample};
use super::parameters::{D, K_MAX, L_MAX, N, Parameters, Q, SEED_BYTES, T0_BYTES, T1_BYTES, TR_BYTES};
use super::reference::simple_bit_unpack;
use crate::wipe::wipe;

/// Orders of transforms: as many as machines.
const ORDERS: usize = 3;

/// A key as each machine prepares it, at its first use there.
pub(crate) type Prepared<T> = [OnceLock<T>; ORDERS];

/// Returns nothing prepared.
pub(crate) const fn not_prepared<T>() -> Prepared<T> {
    [const { OnceLock::new() }; ORDERS]
}

/// Secret polynomials, wiped when they are dropped.
pub(crate) struct Secrets(pub(crate) Vec<Poly>);

impl Drop for Secrets {
    fn drop(&mut self) {
        wipe(&mut self.0, Poly::ZERO);
    }
}

/// A private key.
pub(crate) struct PreparedPrivate {
    /// The rows of the matrix.
    pub(crate) matrix: Vec<Poly>,
    /// The transforms of s1, s2 and t0, one behind the other.
    secrets: Secrets,
}

/// A public key.
pub(crate) struct PreparedPublic {
    /// The rows of the matrix, and behind each the transform of -t1 2^d.
    pub(crate) matrix: Vec<Poly>,
}

/// Samples the matrix of a seed, ExpandA of algorithm 32, by rows of `stride` polynomials of which the first l are
/// set. Everything is public.
#[inline(never)]
pub(crate) fn expand_a<M: Machine>(
    machine: M,
    p: &Parameters,
    rho: &[u8; SEED_BYTES],
    stride: usize,
    matrix: &mut [Poly],
) {
    const { assert!(BLOCKS_MAX >= MATRIX.1) }
    let entries = p.k * p.l;
    let mut rows = [[0; ROW_BYTES]; STREAMS_MAX];
    let mut candidates = [[0; N + 80]; STREAMS_MAX];
    for first in (0..entries).step_by(M::STREAMS) {
        let ways = M::STREAMS.min(entries - first);
        let mut inputs: [Seed<'_>; STREAMS_MAX] = [(&[], None); STREAMS_MAX];
        for (input, at) in inputs.iter_mut().zip(first..first + ways) {
            let (row, column) = ((at / p.l) as u8, (at % p.l) as u8);
            *input = (rho, Some(u16::from_le_bytes([column, row])));
        }
        sample(machine, MATRIX, &inputs[..ways], &mut rows, &mut candidates, |block, output, filled| {
            machine.uniform(block, output, filled)
        });
        for (at, candidates) in (first..first + ways).zip(&candidates) {
            let poly = &mut matrix[at / p.l * stride + at % p.l];
            *poly = from_candidates(candidates);
            machine.reorder(poly);
        }
    }
}

fn from_candidates(candidates: &Candidates) -> Poly {
    Poly(*candidates.first_chunk().expect("there are more"))
}

/// Returns coded coefficients of `bits` bits, each taken from `from`.
fn decoded(bytes: &[u8], bits: u32, from: i32) -> Poly {
    Poly(simple_bit_unpack(bytes, bits).map(|value| from - value.cast_signed()))
}

impl PreparedPrivate {
    /// Prepares an expanded private key.
    pub(crate) fn new<M: Machine>(machine: M, p: &Parameters, expanded: &[u8]) -> Self {
        let (rho, rest) = expanded.split_first_chunk().expect("the length was checked");
        let mut matrix = vec![Poly::ZERO; p.k * p.l];
        expand_a(machine, p, rho, p.l, &mut matrix);
        let (small, large) = rest[SEED_BYTES + TR_BYTES..].split_at((p.l + p.k) * p.eta_bytes());
        let mut secrets = Vec::with_capacity(p.l + 2 * p.k);
        let small = small.chunks_exact(p.eta_bytes());
        secrets.extend(small.map(|bytes| decoded(bytes, p.eta_bits(), p.eta.cast_signed())));
        secrets.extend(large.chunks_exact(T0_BYTES).map(|bytes| decoded(bytes, D, 1 << (D - 1))));
        for poly in &mut secrets {
            machine.transform(poly);
            machine.reduce(poly);
        }
        Self { matrix, secrets: Secrets(secrets) }
    }

    /// Returns the transforms of s1, s2 and t0.
    pub(crate) fn secrets(&self, p: &Parameters) -> (&[Poly], &[Poly], &[Poly]) {
        let (s1, rest) = self.secrets.0.split_at(p.l);
        let (s2, t0) = rest.split_at(p.k);
        (s1, s2, t0)
    }
}

impl PreparedPublic {
    /// Prepares an encoded public key.
    pub(crate) fn new<M: Machine>(machine: M, p: &Parameters, bytes: &[u8]) -> Self {
        let (rho, rest) = bytes.split_first_chunk().expect("the length was checked");
        let mut matrix = vec![Poly::ZERO; p.k * (p.l + 1)];
        expand_a(machine, p, rho, p.l + 1, &mut matrix);
        for (row, bytes) in matrix.chunks_exact_mut(p.l + 1).zip(rest.chunks_exact(T1_BYTES)) {
            let t1 = simple_bit_unpack(bytes, 10);
            // From -q to 0.
            let last = &mut row[p.l];
            *last = Poly(t1.map(|value| -(value << D).cast_signed()));
            machine.transform(last);
            machine.reduce(last);
        }
        Self { matrix }
    }
}

const _: () = assert!(K_MAX * L_MAX < 1 << 8 && (1023 << D) < Q);
