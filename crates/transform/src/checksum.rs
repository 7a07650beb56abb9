//! The cheap end of the catalogue: the Internet checksum (RFC 1071), and reading the data without computation.

use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames, Promise};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::Tier;
use crate::word::{Counted, Plain, Region, Word, end_block};

/// The digest that does nothing.
pub(crate) static NULL: DigestDescriptor = DigestDescriptor {
    name: "null",
    facts: facts(1, 0, ByteOrder::Bytes, "no work"),
    making: Making::Own(OwnDigest {
        together: None,
        expand: |_| None,
        tier: |tier, _| tier.min(Tier::Generic),
        digest: |_, _, _| {},
        trace: |_, _, _| None,
    }),
    peers: PeerNames::NONE,
    promises: &[],
};

/// The digest that only reads.
pub(crate) static TOUCH: DigestDescriptor = DigestDescriptor {
    name: "touch",
    facts: facts(8, 8, ByteOrder::Little, "XOR of all 64-bit words"),
    making: Making::Own(OwnDigest {
        together: None,
        expand: |_| None,
        tier: |tier, _| tier.min(Tier::Generic),
        digest: |_, _, job| job.output[..8].copy_from_slice(&touch(job.input).to_le_bytes()),
        trace: |_, _, _| None,
    }),
    peers: PeerNames::NONE,
    promises: &[],
};

/// The Internet checksum as the catalogue lists it.
pub(crate) static INTERNET: DigestDescriptor = DigestDescriptor {
    name: "inet",
    facts: facts(2, 2, ByteOrder::Big, "RFC 1071"),
    making: Making::Own(OwnDigest {
        together: None,
        expand: |_| None,
        tier: |tier, _| tier.min(Tier::Generic),
        digest: |_, tier, job| job.output[..2].copy_from_slice(&internet(tier, job.input).to_be_bytes()),
        // One block, whatever its length.
        trace: |_, data, sink| {
            let sum = internet_reference::<Counted>(data);
            end_block(sink);
            Some(sum.to_be_bytes().to_vec())
        },
    }),
    peers: PeerNames::NONE,
    promises: &[
        Promise::new("16sealane_checksum4wide6avx5123sum", "vpaddd", 64),
        Promise::new("16sealane_checksum4wide6avx51211sum_copying", "vpaddd", 64),
        Promise::new("16sealane_checksum4wide4avx23sum", "vpaddd", 32),
        Promise::new("16sealane_checksum4wide4avx211sum_copying", "vpaddd", 32),
    ],
};

const fn facts(
    block_bytes: usize,
    output_bytes: usize,
    byte_order: ByteOrder,
    source: &'static str,
) -> Facts {
    Facts {
        block_bytes,
        rounds: 0,
        key_bytes: KeyBytes::NONE,
        iv_bytes: 0,
        output_bytes,
        table_bytes: 0,
        working_set_bytes: 0,
        chained: false,
        byte_order,
        standing: Standing::Benchmark,
        limits: Limits::NONE,
        source,
    }
}

/// Returns the one's complement of the one's complement sum of big-endian 16-bit words, an odd byte padded with zero.
fn internet_reference<W: Word>(data: &[u8]) -> u16 {
    let mut sum = W::imm(0);
    for (i, pair) in data.chunks(2).enumerate() {
        sum = sum
            + W::load(
                Region::Message.part(2 * i, 2),
                u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)),
            );
        sum = (sum & W::imm(0xffff)) + sum.shr(16);
        W::branch(true);
    }
    (!sum & W::imm(0xffff)).store(Region::State.word(0)) as u16
}

/// Returns the Internet checksum.
fn internet(tier: Tier, data: &[u8]) -> u16 {
    match tier {
        Tier::Reference => internet_reference::<Plain>(data),
        _ => !sealane_checksum::internet_sum(data),
    }
}

/// Returns the XOR of all little-endian 64-bit words, the last padded with zeros: this reads everything and computes
/// next to nothing.
fn touch(data: &[u8]) -> u64 {
    let (words, tail) = data.as_chunks::<8>();
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    words.iter().fold(u64::from_le_bytes(last), |all, word| all ^ u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_sum_is_the_references() {
        let data: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for bytes in (0..300).chain([1396, 1397, 1448, 2047, 2900]) {
            let data = &data[..bytes];
            assert_eq!(internet(Tier::Generic, data), internet(Tier::Reference, data), "{bytes} bytes");
        }
    }
}
