//! The suites of 2007 by our own kernels: triple-DES in CBC mode with HMAC-SHA-1, and HMAC-SHA-1 alone.
//!
//! Guarantees: the IV of a chain is its number enciphered under a key of its own, so an observer cannot predict it
//! (NIST SP 800-38A, appendix C) and it takes no room on the wire. Encrypt, then authenticate: nothing is deciphered, and
//! no padding looked at, before its authenticator was verified, so neither can serve as an oracle.
//!
//! CBC runs one block after another, which leaves bitsliced lanes empty when records are few. So a record is enciphered
//! in chains of [`CHAIN_BYTES`]: a batch of eight long records fills 64 lanes. Deciphering needs only the block before,
//! so there a chain is cut further, into pieces for all 512 lanes.

use arrayvec::ArrayVec;
use sealane_transform::{
    BlockCipher, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey, Direction as Way,
    Kernels, Mode, Tier,
};
use subtle::ConstantTimeEq;

use super::{
    Suite,
    batch::JobStatus,
    own::Own,
    provider,
    session::Protection,
    together::{Record, TOGETHER_MAX},
};
use crate::Direction;

const BLOCK_BYTES: usize = 8;
const TAG_BYTES: usize = 20;
const NUMBER_BYTES: usize = 8;

const DATA: Cipher = Cipher::Block(BlockCipher::TripleDes, Mode::Cbc);
const IVS: Cipher = Cipher::Block(BlockCipher::TripleDes, Mode::Ecb);

/// Eight chains make a record of 64 KiB with its padding. Neither length is a power of two, so that the lanes' bytes
/// do not all fall into the same few sets of a cache.
const CHAIN_BYTES: usize = 129 * 64;
/// Eight pieces make a chain.
const PIECE_BYTES: usize = 17 * 64;
/// Pieces of one call: all lanes there are.
const PIECES_MAX: usize = 512;

/// Keys of such a suite, and what runs it.
pub(crate) struct Legacy {
    kernels: Kernels,
    /// None where the data stay clear.
    cipher: Option<Ciphers>,
    mac: DigestKey,
}

struct Ciphers {
    data: CipherKey,
    ivs: CipherKey,
}

/// Blocks that are enciphered or deciphered one after another.
struct Piece<'a> {
    ciphers: &'a Ciphers,
    iv: [u8; BLOCK_BYTES],
    /// The IV is the number of a chain, yet to be enciphered.
    begins: bool,
    blocks: &'a mut [u8],
}

/// What runs a batch of eight long records.
pub(crate) fn tier(suite: Suite) -> Tier {
    let kernels = provider::kernels_or_best();
    if suite.encrypts() {
        kernels.cipher_tier(DATA, Way::Encrypt, 64)
    } else {
        kernels.digest_tier(Digest::HmacSha1, 8)
    }
}

impl Legacy {
    /// Takes two 24-byte keys, for data and IVs, if the suite encrypts; then the authenticator's.
    pub(crate) fn new(kernels: Kernels, suite: Suite, material: &[u8]) -> Option<Self> {
        let (ciphers, mac) = material.split_at_checked(if suite.encrypts() { 48 } else { 0 })?;
        let cipher = match ciphers.split_at_checked(24) {
            Some((data, ivs)) => {
                Some(Ciphers { data: CipherKey::new(DATA, data).ok()?, ivs: CipherKey::new(IVS, ivs).ok()? })
            }
            None => None,
        };
        Some(Self { kernels, cipher, mac: DigestKey::new(Digest::HmacSha1, mac).ok()? })
    }

    /// Runs records of this suite, each under its own session.
    pub(crate) fn run(&self, direction: Direction, records: &mut [Record<'_>]) {
        match direction {
            Direction::Seal => {
                records.iter_mut().for_each(pad);
                self.crypt(Way::Encrypt, records);
                let tags = self.tags(records);
                for (record, tag) in records.iter_mut().zip(tags) {
                    if let Some((_, room)) = record.bytes.split_last_chunk_mut() {
                        *room = tag;
                    }
                    *record.status = JobStatus::Done { body_bytes: record.bytes.len() - record.header_bytes };
                }
            }
            Direction::Open => {
                let given: ArrayVec<_, TOGETHER_MAX> =
                    records.iter().map(|record| record.bytes.last_chunk::<TAG_BYTES>().copied()).collect();
                let made = self.tags(records);
                for ((record, made), given) in records.iter_mut().zip(made).zip(given) {
                    let authentic = given.is_some_and(|given| bool::from(made.ct_eq(&given)));
                    if !authentic || record.body_bytes < TAG_BYTES {
                        *record.status = JobStatus::Forged;
                    }
                }
                self.crypt(Way::Decrypt, records);
                for record in records.iter_mut().filter(|record| *record.status == JobStatus::Pending) {
                    *record.status = match plain_bytes(record) {
                        Some(body_bytes) => JobStatus::Done { body_bytes },
                        None => JobStatus::Forged,
                    };
                }
            }
        }
    }

    /// The authenticators of all records: over header and body as they travel, then the record's number, which stands
    /// where the tag goes meanwhile, as RFC 4303 has it with the half of its number that is not sent. The header
    /// carries the length, so no two inputs collide.
    fn tags(&self, records: &mut [Record<'_>]) -> ArrayVec<[u8; TAG_BYTES], TOGETHER_MAX> {
        let mut calls: ArrayVec<DigestJob<'_>, TOGETHER_MAX> = ArrayVec::new();
        for record in records {
            let Protection::Own(Own::Legacy(own)) = record.session.protection() else { continue };
            let end = record.bytes.len().saturating_sub(TAG_BYTES);
            if let Some(number) = record.bytes[end..].first_chunk_mut::<NUMBER_BYTES>() {
                *number = record.sequence.to_be_bytes();
            }
            let input = record.bytes.get(..end + NUMBER_BYTES).unwrap_or_default();
            calls.push(DigestJob::new(&own.mac, input));
        }
        self.kernels.digest(Digest::HmacSha1, &mut calls);
        let tag = |call: &DigestJob<'_>| *call.output.first_chunk().expect("a digest's output holds SHA-1's");
        calls.iter().map(tag).collect()
    }

    /// Enciphers or deciphers the bodies of the pending records, if the suite does.
    fn crypt(&self, way: Way, records: &mut [Record<'_>]) {
        let mut pieces: ArrayVec<Piece<'_>, PIECES_MAX> = ArrayVec::new();
        let piece_bytes = if way == Way::Encrypt { CHAIN_BYTES } else { PIECE_BYTES };
        for record in records.iter_mut().filter(|record| *record.status == JobStatus::Pending) {
            let Protection::Own(Own::Legacy(own)) = record.session.protection() else { continue };
            let (Some(ciphers), Some(body)) = (&own.cipher, body(record.bytes, record.header_bytes)) else {
                continue;
            };
            for (index, chain) in body.chunks_mut(CHAIN_BYTES).enumerate() {
                // Records have at most 2^13 numbers under one key, and far fewer chains than the shift leaves room for.
                let number = record.sequence << 16 | index as u64;
                let (mut iv, mut begins) = (number.to_be_bytes(), true);
                for blocks in chain.chunks_mut(piece_bytes) {
                    let last = blocks.last_chunk().copied().unwrap_or_default();
                    pieces.push(Piece { ciphers, iv, begins, blocks });
                    (iv, begins) = (last, false);
                    if pieces.is_full() {
                        self.run_pieces(way, &mut pieces);
                        pieces.clear();
                    }
                }
            }
        }
        self.run_pieces(way, &mut pieces);
    }

    fn run_pieces(&self, way: Way, pieces: &mut [Piece<'_>]) {
        {
            let beginnings = pieces.iter_mut().filter(|piece| piece.begins);
            let mut calls: ArrayVec<CipherJob<'_>, PIECES_MAX> = beginnings
                .map(|piece| CipherJob::new(&piece.ciphers.ivs, &[], Buffer::in_place(&mut piece.iv)))
                .collect();
            self.kernels.encrypt(IVS, &mut calls);
        }
        let mut calls: ArrayVec<CipherJob<'_>, PIECES_MAX> = pieces
            .iter_mut()
            .map(|piece| CipherJob::new(&piece.ciphers.data, &piece.iv, Buffer::in_place(piece.blocks)))
            .collect();
        self.kernels.cipher(DATA, way, &mut calls);
    }
}

/// Header and tag taken off.
fn body(record: &mut [u8], header_bytes: usize) -> Option<&mut [u8]> {
    record.split_last_chunk_mut::<TAG_BYTES>()?.0.get_mut(header_bytes..)
}

/// Pads a body to whole blocks (PKCS#7: RFC 5652, section 6.3), where the suite made room for that.
fn pad(record: &mut Record<'_>) {
    let plain_bytes = record.body_bytes;
    let Some(body) = body(record.bytes, record.header_bytes) else { return };
    let padding = &mut body[plain_bytes..];
    padding.fill(padding.len() as u8);
}

/// What is left of an authentic body without its padding.
fn plain_bytes(record: &mut Record<'_>) -> Option<usize> {
    let encrypts = record.session.suite().encrypts();
    let body = body(record.bytes, record.header_bytes)?;
    if !encrypts {
        return Some(body.len());
    }
    let padding = usize::from(*body.last()?);
    let plain_bytes = body.len().checked_sub(padding)?;
    let whole = (1..=BLOCK_BYTES).contains(&padding) && body.len().is_multiple_of(BLOCK_BYTES);
    let alike = body[plain_bytes..].iter().all(|&byte| usize::from(byte) == padding);
    (whole && alike).then_some(plain_bytes)
}
