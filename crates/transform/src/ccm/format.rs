//! The blocks that CCM makes of nonce, lengths and associated data (SP 800-38C, appendix A; RFC 3610, section 2).
//!
//! Here a block is a number whose lowest byte is the first: copies of so few bytes would take longer as calls.

use crate::aead::{AeadJob, AeadLengths};

/// Returns the first block of the authenticated text: flags, nonce, length of the data.
pub(super) fn first_block(job: &AeadJob<'_>) -> [u8; 16] {
    let AeadLengths { nonce_bytes, tag_bytes } = job.key.lengths();
    let flags = u8::from(!job.aad.is_empty()) << 6 | ((tag_bytes - 2) / 2) << 3 | (14 - nonce_bytes);
    // The dispatcher refuses longer data than three bytes count, and the nonce leaves as many at least.
    let length = (job.data.len() as u32).to_be();
    (u128::from(flags) | nonce(job) | u128::from(length) << 96).to_le_bytes()
}

/// Returns the counter block with the number 0, which encrypts the tag; the data begin with number 1.
pub(super) fn counter_block(job: &AeadJob<'_>) -> [u8; 16] {
    (u128::from(14 - job.key.lengths().nonce_bytes) | nonce(job)).to_le_bytes()
}

/// Returns the nonce in its place in a block.
fn nonce(job: &AeadJob<'_>) -> u128 {
    let bits = 8 * u32::from(job.key.lengths().nonce_bytes);
    (number(&job.nonce) & ((1 << bits) - 1)) << 8
}

/// Returns the block in which associated data begin, behind their length.
pub(super) fn associated(aad: &[u8]) -> [u8; 16] {
    let here = &aad[..aad.len() - behind_first(aad).len()];
    let length = aad.len() as u64;
    let header = match header_bytes(aad) {
        2 => u128::from((length as u16).to_be()),
        6 => 0xfeff | u128::from((length as u32).to_be()) << 16,
        _ => 0xffff | u128::from(length.to_be()) << 16,
    };
    (header | number(here) << (8 * header_bytes(aad))).to_le_bytes()
}

/// Returns the number of bytes that tell the length of associated data.
const fn header_bytes(aad: &[u8]) -> usize {
    if aad.len() < 0xff00 {
        2
    } else if aad.len() as u64 <= u32::MAX as u64 {
        6
    } else {
        10
    }
}

/// Returns the associated data behind the block in which they begin.
pub(super) fn behind_first(aad: &[u8]) -> &[u8] {
    &aad[aad.len().min(16 - header_bytes(aad))..]
}

/// Returns up to 16 bytes with zeros behind them.
pub(super) fn padded(bytes: &[u8]) -> [u8; 16] {
    number(bytes).to_le_bytes()
}

/// Returns up to 16 bytes as a number. Of eight and more, the first and the last eight may overlap, where they are the
/// same.
fn number(bytes: &[u8]) -> u128 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            let behind = u128::from(u64::from_le_bytes(*last)) << (8 * (bytes.len() - 8));
            u128::from(u64::from_le_bytes(*first)) | behind
        }
        _ => bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte)),
    }
}
