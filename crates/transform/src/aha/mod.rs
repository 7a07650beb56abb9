//! `aha-i`: our interpretation of the alternate hash of "Performance Analysis of MD5", whose definition was not
//! found. For measurement only: no security is claimed, and no figure of the paper may be compared with it.
//!
//! MD5's padding; four chains from MD5's initial value with j added to the first word of chain j; block i is
//! absorbed by chain i mod 4 with one MD5 round, the (i / 4 mod 4)-th; the digest is MD5's compression of the four
//! chains. A quarter of MD5's steps, and four of them independent.

pub(crate) mod generic;
pub(crate) mod reference;

use crate::hash::Hash;
use crate::md5;

/// Absorbs whole blocks, the first of which is block number `first` of the message.
pub(crate) type Absorb = fn(&mut [[u32; 4]; 4], first: usize, data: &[u8]);

/// Digests a message.
pub(crate) fn digest(absorb: Absorb, message: &[u8], output: &mut [u8; 32]) {
    let [a, b, c, d, ..] = md5::INITIAL;
    let mut chains = [0, 1, 2, 3].map(|j| [a.wrapping_add(j), b, c, d]);
    let whole = message.len() & !63;
    absorb(&mut chains, 0, &message[..whole]);
    let mut scratch = [0; 128];
    let padded = Hash::Md5.pad(&message[whole..], message.len() as u64, &mut scratch);
    absorb(&mut chains, whole / 64, &scratch[..padded]);
    let mut block = [0; 64];
    for (word, bytes) in chains.as_flattened().iter().zip(block.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let mut state = md5::INITIAL;
    md5::reference::blocks(&mut state, &block);
    Hash::Md5.write_digest(&state, output);
}
