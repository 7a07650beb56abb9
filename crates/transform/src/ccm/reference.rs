//! CCM as SP 800-38C section 6 defines it, block by block, with the given block cipher.

use zeroize::Zeroize as _;

use super::format::{associated, behind_first, counter_block, first_block, padded};
use crate::aead::AeadJob;
use crate::modes;
use crate::modes::{Direction, Mode};

/// CBC-MAC, so far.
struct Mac<F> {
    chain: [u8; 16],
    encrypt: F,
}

impl<F: Fn(&mut [u8; 16])> Mac<F> {
    fn block(&mut self, block: &[u8; 16]) {
        for (byte, other) in self.chain.iter_mut().zip(block) {
            *byte ^= other;
        }
        (self.encrypt)(&mut self.chain);
    }

    /// Takes bytes, and zeros to the end of their last block.
    fn bytes(&mut self, bytes: &[u8]) {
        bytes.chunks(16).for_each(|bytes| self.block(&padded(bytes)));
    }
}

/// Seals or opens one message.
pub(super) fn seal_or_open(direction: Direction, job: &mut AeadJob<'_>, encrypt: impl Fn(&mut [u8; 16])) {
    let mut mac = Mac { chain: [0; 16], encrypt: &encrypt };
    mac.block(&first_block(job));
    if !job.aad.is_empty() {
        let (first, rest) = (associated(job.aad), behind_first(job.aad));
        mac.block(&first);
        mac.bytes(rest);
    }
    let mut mask = counter_block(job);
    let mut first = mask;
    modes::increase(&mut first, 1);
    let data = job.data.copied_in_place();
    let crypt = |data: &mut [u8]| {
        modes::crypt_blocks(Mode::Ctr, direction, &first, data, |_, block| encrypt(block));
    };
    match direction {
        Direction::Encrypt => {
            mac.bytes(data);
            crypt(data);
        }
        Direction::Decrypt => {
            crypt(data);
            mac.bytes(data);
        }
    }
    encrypt(&mut mask);
    let mut tag = mac.chain;
    for (byte, mask) in tag.iter_mut().zip(mask) {
        *byte ^= mask;
    }
    super::conclude(direction, job, &tag);
    tag.zeroize();
    mask.zeroize();
}
