//! The cheap end of the catalogue: the Internet checksum (RFC 1071), and reading the data without computation.

mod wide;

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
        digest: |_, _| {},
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
        digest: |_, job| job.output[..8].copy_from_slice(&touch(job.input).to_le_bytes()),
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
        digest: |tier, job| job.output[..2].copy_from_slice(&internet(tier, job.input).to_be_bytes()),
        // One block, whatever its length.
        trace: |_, data, sink| {
            let sum = internet_reference::<Counted>(data);
            end_block(sink);
            Some(sum.to_be_bytes().to_vec())
        },
    }),
    peers: PeerNames::NONE,
    promises: &[
        Promise::new("8checksum4wide6avx5123sum", "vpaddd", 64),
        Promise::new("8checksum4wide6avx51211sum_copying", "vpaddd", 64),
        Promise::new("8checksum4wide4avx23sum", "vpaddd", 32),
        Promise::new("8checksum4wide4avx211sum_copying", "vpaddd", 32),
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

/// Returns the one's complement sum of big-endian 16-bit words, an odd byte padded with zero, not yet complemented:
/// sums of pieces of even length add up to the sum of the whole (RFC 1071 section 2). The function adds words in host
/// order, and corrects the byte order of the sum at the end.
#[must_use]
pub fn internet_sum(data: &[u8]) -> u16 {
    // For headers, detecting the machine's features costs more than it gains.
    if data.len() < 2 * BLOCK_BYTES { portable_sum(data) } else { wide::sum(data) }
}

/// Returns the sum of `from`, as [`internet_sum`] does, and copies `from` to `into` in the same pass.
///
/// # Panics
/// Panics if the lengths differ.
#[must_use]
pub fn internet_sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
    assert_eq!(from.len(), into.len(), "a copy is as long as what is copied");
    wide::sum_copying(from, into)
}

/// Bytes that are summed at a time.
const BLOCK_BYTES: usize = 64;
/// Number of blocks after which a sum of 32 bits may be full.
const RUN_BLOCKS: usize = 1 << 16;

/// Separate sums of the low and high halves of 32-bit words.
type Sums = [[u32; BLOCK_BYTES / 4]; 2];

#[inline(always)]
fn add(sums: &mut Sums, block: &[u8; BLOCK_BYTES]) {
    let (words, _) = block.as_chunks::<4>();
    let [low, high] = sums;
    for ((low, high), word) in low.iter_mut().zip(high).zip(words) {
        let word = u32::from_ne_bytes(*word);
        *low += word & 0xffff;
        *high += word >> 16;
    }
}

#[inline(always)]
fn total(sums: &Sums) -> u64 {
    sums.iter().flatten().map(|&sum| u64::from(sum)).sum()
}

/// Returns the sum of less than a block.
#[inline(always)]
fn tail_sum(tail: &[u8]) -> u64 {
    let (words, rest) = tail.as_chunks::<8>();
    let halves = |word: u64| (word & 0xffff_ffff) + (word >> 32);
    let mut sum: u64 = words.iter().map(|word| halves(u64::from_ne_bytes(*word))).sum();
    if let Some(last) = tail.last_chunk::<8>().filter(|_| !rest.is_empty()) {
        // The last bytes are moved to the places that they would have before zeros.
        let last = u64::from_le_bytes(*last) >> (64 - 8 * rest.len());
        sum += halves(last.to_le());
    } else if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum += halves(u64::from_ne_bytes(last));
    }
    sum
}

#[inline(always)]
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::from_be_bytes((sum as u16).to_ne_bytes())
}

/// The code is compiled for every machine of the target, and again for the features of this one.
#[inline(always)]
fn portable_sum(data: &[u8]) -> u16 {
    let (blocks, tail) = data.as_chunks::<BLOCK_BYTES>();
    let mut sum = tail_sum(tail);
    for run in blocks.chunks(RUN_BLOCKS) {
        let mut sums = Sums::default();
        run.iter().for_each(|block| add(&mut sums, block));
        sum += total(&sums);
    }
    folded(sum)
}

#[inline(always)]
fn portable_sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
    let (blocks, tail) = from.as_chunks::<BLOCK_BYTES>();
    let (into_blocks, into_tail) = into.as_chunks_mut::<BLOCK_BYTES>();
    let mut sum = tail_sum(tail);
    into_tail.copy_from_slice(tail);
    for (run, into_run) in blocks.chunks(RUN_BLOCKS).zip(into_blocks.chunks_mut(RUN_BLOCKS)) {
        let mut sums = Sums::default();
        for (block, into) in run.iter().zip(into_run) {
            add(&mut sums, block);
            *into = *block;
        }
        sum += total(&sums);
    }
    folded(sum)
}

/// Returns the Internet checksum.
fn internet(tier: Tier, data: &[u8]) -> u16 {
    match tier {
        Tier::Reference => internet_reference::<Plain>(data),
        _ => !internet_sum(data),
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
    fn every_sum_is_the_references() {
        let data: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for start in 0..9 {
            for bytes in (0..300).chain([1396, 1397, 1448, 2047, 2900]) {
                let data = &data[start..start + bytes];
                let mut copy = vec![0x5a; bytes + 1];
                let sum = !internet_reference::<Plain>(data);
                assert_eq!(portable_sum(data), sum, "{bytes} from {start}");
                assert_eq!(internet_sum(data), sum, "{bytes} from {start}");
                assert_eq!(portable_sum_copying(data, &mut copy[..bytes]), sum, "{bytes} from {start}");
                copy.fill(0x5a);
                assert_eq!(internet_sum_copying(data, &mut copy[..bytes]), sum, "{bytes} from {start}");
                assert_eq!((&copy[..bytes], copy[bytes]), (data, 0x5a));
            }
        }
        // No carry is lost if all sums have their largest values.
        assert_eq!(internet_sum(&vec![0xff; (RUN_BLOCKS + 1) * BLOCK_BYTES]), 0xffff);
    }
}
