//! `aha-i`: our interpretation of the alternate hash of "Performance Analysis of MD5", whose definition was not
//! found. It is for measurement only: no security is claimed, and no figure of the paper may be compared with it.
//!
//! The padding is MD5's; four chains start from MD5's initial value with j added to the first word of chain j; block
//! i is absorbed by chain i mod 4 with one MD5 round, the (i / 4 mod 4)-th; the digest is MD5's compression of the
//! four chains. That is a quarter of MD5's steps, and four of them are independent.

pub(crate) mod generic;
pub(crate) mod reference;

use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames, words_to_bytes};
use crate::facts::{ByteOrder, Standing};
use crate::hash;
use crate::isa::Tier;
use crate::md5;
use crate::word::{Counted, end_block};

/// `aha-i` as the catalogue knows it.
pub(crate) static AHA_I: DigestDescriptor = DigestDescriptor {
    name: "aha-i",
    facts: hash::facts(
        16,
        16,
        ByteOrder::Little,
        Standing::Benchmark,
        "our interpretation; the original definition was not found",
    ),
    making: Making::Own(OwnDigest {
        together: None,
        expand: |_| None,
        tier: |tier, _| tier.min(Tier::Generic),
        digest: |_, tier, job| {
            let absorb = if tier == Tier::Reference { reference::blocks } else { generic::blocks };
            digest(absorb, job.input, &mut job.output);
        },
        trace: |_, data, sink| {
            let mut chains = [[0; 4]; 4];
            for (i, block) in data.as_chunks::<64>().0.iter().enumerate() {
                reference::absorb::<Counted>(&mut chains, i, block);
                end_block(sink);
            }
            Some(words_to_bytes(chains.as_flattened()))
        },
    }),
    peers: PeerNames::NONE,
    promises: &[],
};

/// Absorbs whole blocks; `first` is the number of the first one in the message.
pub(crate) type Absorb = fn(&mut [[u32; 4]; 4], first: usize, data: &[u8]);

/// Digests a message.
pub(crate) fn digest(absorb: Absorb, message: &[u8], output: &mut [u8]) {
    let [a, b, c, d, ..] = md5::INITIAL;
    let mut chains = [0, 1, 2, 3].map(|j| [a.wrapping_add(j), b, c, d]);
    let whole = message.len() & !63;
    absorb(&mut chains, 0, &message[..whole]);
    let mut scratch = [0; 128];
    let padded = md5::HASH.pad(&message[whole..], message.len() as u64, &mut scratch);
    absorb(&mut chains, whole / 64, &scratch[..padded]);
    let mut block = [0; 64];
    for (word, bytes) in chains.as_flattened().iter().zip(block.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let mut state = md5::INITIAL;
    md5::reference::blocks(&mut state, &block);
    md5::HASH.write_digest(&state, output);
}
