//! SHA-512 of a few bytes and a message, as Ed25519 hashes them: one at a time, or eight side by side.
//!
//! `unsafe`: this crate's multi-way kernel of SHA-512, which reads through pointers.
#![allow(unsafe_code)]

use sealane_native::states;
use zeroize::Zeroize as _;

use crate::sha512::{BLOCK, initial, reference as oracle};

/// Bytes that follow the message at least: a bit and the length.
const END_BYTES: usize = 17;

/// Bytes to hash.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    /// The first bytes, at most 64.
    pub(crate) head: &'a [u8],
    /// All others.
    pub(crate) body: &'a [u8],
}

impl Message<'_> {
    fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Returns the number of blocks, with those of the padding.
    fn blocks(&self) -> usize {
        (self.bytes() + END_BYTES).div_ceil(BLOCK)
    }

    /// Returns block `n` if it lies in the body whole.
    #[cfg(target_arch = "x86_64")]
    fn whole(&self, n: usize) -> Option<&[u8; BLOCK]> {
        let at = (n * BLOCK).checked_sub(self.head.len())?;
        self.body.get(at..)?.first_chunk()
    }

    /// Writes block `n` with its part of the padding.
    fn write(&self, n: usize, block: &mut [u8; BLOCK]) {
        block.fill(0);
        let start = n * BLOCK;
        let mut at = 0;
        for part in [self.head, self.body, &[0x80]] {
            // The part's bytes from the block's start or its own on.
            let rest = part.get(start.saturating_sub(at)..).unwrap_or(&[]);
            let to = at.saturating_sub(start);
            if let Some(room) = block.get_mut(to..) {
                let count = rest.len().min(room.len());
                room[..count].copy_from_slice(&rest[..count]);
            }
            at += part.len();
        }
        if n + 1 == self.blocks() {
            block[BLOCK - 16..].copy_from_slice(&(8 * self.bytes() as u128).to_be_bytes());
        }
    }
}

fn bytes_of(state: &[u64; 8]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

/// Hashes by the reference kernel.
pub(crate) fn reference(message: &Message<'_>) -> [u8; 64] {
    let mut state = *initial(512);
    let mut block = [0; BLOCK];
    for n in 0..message.blocks() {
        message.write(n, &mut block);
        oracle::blocks(&mut state, &block);
    }
    block.zeroize();
    let bytes = bytes_of(&state);
    state.zeroize();
    bytes
}

/// Hashes by AWS-LC.
pub(crate) fn library(message: &Message<'_>) -> [u8; 64] {
    finish(message, 0, initial(512))
}

/// Hashes by AWS-LC from block `n` on, where the state is that of the blocks before.
fn finish(message: &Message<'_>, n: usize, state: &[u64; 8]) -> [u8; 64] {
    let absorbed = n * BLOCK;
    if absorbed > message.bytes() {
        // Only the length is left: the block before has the message's end and the first bit of the padding.
        let (mut state, mut block) = (*state, [0; BLOCK]);
        message.write(n, &mut block);
        states::sha512(&mut state, &block);
        let made = bytes_of(&state);
        state.zeroize();
        return made;
    }
    let head = message.head.get(absorbed..).unwrap_or(&[]);
    let body = message.body.get(absorbed.saturating_sub(message.head.len())..).unwrap_or(&[]);
    states::sha512_end(state, absorbed, [head, body])
}

/// Hashes up to eight messages; returns the words of each as a little-endian number has them. Ways without a
/// message are zero.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ways(_: crate::isa::Avx512, messages: &[Message<'_>]) -> crate::curve25519::field::Rows<8> {
    use crate::curve25519::WAYS;
    use crate::curve25519::field::Rows;
    use crate::sha512::rounds::{States, avx512};

    /// Busy ways from which on single hashes are faster, as the costs of SHA-512 side by side say.
    const FEW: usize = 2;

    let mut states = States(initial(512).map(|word| [word; WAYS]));
    let mut scratch = [[0; BLOCK]; WAYS];
    let mut made = Rows::ZERO;
    let mut set = |way, digest: &[u8; 64]| {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(digest.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        made.set(way, &words);
    };
    let mut n = 0;
    loop {
        let busy = messages.iter().filter(|message| message.blocks() > n).count();
        if busy <= FEW {
            break;
        }
        let mut rows = [scratch[0].as_ptr(); WAYS];
        for ((message, row), scratch) in messages.iter().zip(&mut rows).zip(&mut scratch) {
            // A way whose message has ended absorbs whatever its scratch holds.
            *row = if let Some(block) = message.whole(n) {
                block.as_ptr()
            } else {
                message.write(n, scratch);
                scratch.as_ptr()
            };
        }
        // SAFETY: the token proves the features; each row is a block of a message, or of the scratch.
        unsafe { avx512::<1, WAYS>(&mut states, &rows, 1) };
        n += 1;
        for (way, _) in messages.iter().enumerate().filter(|(_, message)| message.blocks() == n) {
            set(way, &bytes_of(&states.0.map(|row| row[way])));
        }
    }
    for (way, message) in messages.iter().enumerate().filter(|(_, message)| message.blocks() > n) {
        set(way, &finish(message, n, &states.0.map(|row| row[way])));
    }
    crate::wipe::wipe(&mut states.0, [0; WAYS]);
    crate::wipe::wipe(&mut scratch, [0; BLOCK]);
    made
}
