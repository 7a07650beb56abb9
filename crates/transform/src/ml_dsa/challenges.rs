//! Challenges: SampleInBall, algorithm 29, of as many commitment hashes as there are ways.
//!
//! A commitment hash is public, even that of an attempt that is rejected. A test names the functions that decide by
//! one, so they are not inlined.

use arrayvec::ArrayVec;

use super::arithmetic::Poly;
use super::machine::{Machine, ROW_BYTES, STREAMS_MAX, Seed};
use super::parameters::{N, Parameters, Q};
use super::reference;
use crate::keccak::{SHAKE256, alone};

/// Returns the challenge of a stream's first block; none if that is too short, which is rare.
#[inline(never)]
fn sample_in_ball(p: &Parameters, block: &[u8; SHAKE256.rate_bytes]) -> Option<Poly> {
    let (signs, places) = block.split_first_chunk().expect("a block is longer");
    let signs = u64::from_le_bytes(*signs);
    let mut c = Poly::ZERO;
    let mut i = N - p.tau;
    for j in places.iter().map(|j| usize::from(*j)) {
        if j <= i {
            c.0[i] = c.0[j];
            c.0[j] = 1 - 2 * (signs >> (i + p.tau - N) & 1) as i32;
            i += 1;
            if i == N {
                return Some(c);
            }
        }
    }
    None
}

/// Returns the same challenge by the reference.
fn sample_slowly(p: &Parameters, commitment: &[u8]) -> Poly {
    let signed = |value: u32| if value == Q - 1 { -1 } else { value.cast_signed() };
    Poly(reference::sample_in_ball(p, commitment).map(signed))
}

/// Returns the transforms of the challenges of commitment hashes, at most [`Machine::STREAMS`].
pub(crate) fn challenges<M: Machine>(
    machine: M,
    p: &Parameters,
    commitments: &[&[u8]],
) -> ArrayVec<Poly, STREAMS_MAX> {
    let mut rows = [[0; ROW_BYTES]; STREAMS_MAX];
    match commitments {
        [] => {}
        [one] => rows[0][..SHAKE256.rate_bytes]
            .copy_from_slice(&alone::hash::<{ SHAKE256.rate_bytes }>(SHAKE256, &[one])),
        _ => {
            let seeds: ArrayVec<Seed<'_>, STREAMS_MAX> =
                commitments.iter().map(|commitment| (*commitment, None)).collect();
            let mut states = machine.streams(SHAKE256, &seeds);
            machine.squeeze(&mut states, SHAKE256, 1, &mut rows);
        }
    }
    let challenge = |(commitment, row): (&&[u8], &[u8; ROW_BYTES])| {
        let block = row.first_chunk().expect("a row is longer than a block");
        let mut c = sample_in_ball(p, block).unwrap_or_else(|| sample_slowly(p, commitment));
        machine.transform(&mut c);
        c
    };
    commitments.iter().zip(&rows).map(challenge).collect()
}

#[cfg(test)]
mod tests {
    use super::super::MlDsaSet;
    use super::*;
    use crate::keccak::reference::hash;

    #[test]
    fn a_block_gives_what_the_reference_gives_or_nothing() {
        for set in MlDsaSet::ALL {
            let p = set.parameters();
            for n in 0..200u32 {
                let commitment = hash::<64>(SHAKE256, &[&n.to_le_bytes()]);
                let commitment = &commitment[..p.challenge_bytes];
                let block = hash::<{ SHAKE256.rate_bytes }>(SHAKE256, &[commitment]);
                let found = sample_in_ball(p, &block).expect("most blocks are long enough");
                assert_eq!(found.0, sample_slowly(p, commitment).0);
            }
            // Places above every index are never taken.
            assert!(sample_in_ball(p, &[0xff; SHAKE256.rate_bytes]).is_none());
        }
    }
}
