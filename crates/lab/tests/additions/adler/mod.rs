//! Adler-32, RFC 1950 section 8.2: a digest that the catalogue does not have, for the test that adds one.

use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames};
use crate::isa::Tier;

/// The catalogue's entry of Adler-32.
pub(crate) static ADLER_32: DigestDescriptor = DigestDescriptor {
    name: "adler-32",
    facts: Facts {
        block_bytes: 1,
        rounds: 0,
        key_bytes: KeyBytes::NONE,
        iv_bytes: 0,
        output_bytes: 4,
        table_bytes: 0,
        working_set_bytes: 4,
        chained: true,
        byte_order: ByteOrder::Big,
        standing: Standing::Benchmark,
        limits: Limits::NONE,
        source: "RFC 1950",
    },
    making: Making::Own(OwnDigest {
        together: None,
        expand: |_| None,
        tier: |tier, _| tier.min(Tier::Generic),
        digest: |_, tier, job| {
            let sum = if tier == Tier::Reference { sum } else { lazy_sum };
            job.output[..4].copy_from_slice(&sum(job.input).to_be_bytes());
        },
        trace: |_, _, _| None,
    }),
    peers: PeerNames::NONE,
    promises: &[],
};

const PRIME: u32 = 65_521;

/// Returns the sum as in the RFC.
fn sum(message: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for byte in message {
        a = (a + u32::from(*byte)) % PRIME;
        b = (b + a) % PRIME;
    }
    b << 16 | a
}

/// Returns the sum with as few divisions as 32 bits allow.
fn lazy_sum(message: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for piece in message.chunks(5552) {
        for byte in piece {
            a += u32::from(*byte);
            b += a;
        }
        (a, b) = (a % PRIME, b % PRIME);
    }
    b << 16 | a
}
