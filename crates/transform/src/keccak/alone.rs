//! A sponge of one message in general registers, for what is too short or too single for ways.
//!
//! No branch and no address depends on the bytes of a message, only on its length.
//!
//! `unsafe`: the kernel reads blocks through a pointer.
#![allow(unsafe_code)]

use zeroize::Zeroize as _;

use super::abreast::{States, plain};
use super::{LAST_BIT, Sponge};

/// Bytes of the longest block.
const BLOCK_BYTES: usize = 168;

/// A sponge that absorbs; it is wiped when it is dropped.
#[derive(Clone)]
pub(crate) struct Absorbing {
    sponge: Sponge,
    states: States<1>,
    block: [u8; BLOCK_BYTES],
    filled: usize,
}

/// A sponge that gives bytes; it is wiped when it is dropped.
pub(crate) struct Squeezing {
    absorbed: Absorbing,
    given: usize,
}

impl Absorbing {
    /// Returns a sponge that has absorbed nothing.
    pub(crate) const fn new(sponge: Sponge) -> Self {
        Self { sponge, states: States([[0]; 25]), block: [0; BLOCK_BYTES], filled: 0 }
    }

    /// Returns a sponge that has absorbed whole blocks already, which left this state.
    pub(crate) const fn from_state(sponge: Sponge, state: [[u64; 1]; 25]) -> Self {
        Self { sponge, states: States(state), block: [0; BLOCK_BYTES], filled: 0 }
    }

    /// Returns the sponge with another suffix.
    pub(crate) fn with_suffix(mut self, suffix: u8) -> Self {
        self.sponge.suffix = suffix;
        self
    }

    /// Absorbs whole blocks.
    fn blocks(&mut self, blocks: &[u8]) {
        let count = blocks.len() / self.sponge.rate_bytes;
        // SAFETY: the slice has so many blocks.
        unsafe { plain(&mut self.states, &[blocks.as_ptr()], self.sponge, count) };
    }

    /// Absorbs more bytes.
    pub(crate) fn absorb(&mut self, mut bytes: &[u8]) -> &mut Self {
        let rate = self.sponge.rate_bytes;
        if self.filled > 0 {
            let (part, rest) = bytes.split_at(bytes.len().min(rate - self.filled));
            self.block[self.filled..][..part.len()].copy_from_slice(part);
            self.filled += part.len();
            bytes = rest;
            if self.filled == rate {
                self.whole_block();
            }
        }
        let (whole, rest) = bytes.split_at(bytes.len() / rate * rate);
        self.blocks(whole);
        self.block[self.filled..][..rest.len()].copy_from_slice(rest);
        self.filled += rest.len();
        self
    }

    /// Absorbs the block that was put together.
    fn whole_block(&mut self) {
        let mut block = self.block;
        self.blocks(&block[..self.sponge.rate_bytes]);
        block.zeroize();
        self.filled = 0;
    }

    /// Ends the message.
    pub(crate) fn finish(mut self) -> Squeezing {
        let rate = self.sponge.rate_bytes;
        self.block[self.filled..].fill(0);
        self.block[self.filled] = self.sponge.suffix;
        self.block[rate - 1] |= LAST_BIT;
        self.whole_block();
        Squeezing { absorbed: self, given: 0 }
    }
}

impl Drop for Absorbing {
    fn drop(&mut self) {
        self.states.0.zeroize();
        self.block.zeroize();
    }
}

impl Squeezing {
    /// Writes the next bytes of the output.
    pub(crate) fn squeeze(&mut self, mut output: &mut [u8]) {
        let rate = self.absorbed.sponge.rate_bytes;
        while !output.is_empty() {
            if self.given == rate {
                self.absorbed.blocks(&[0; BLOCK_BYTES][..rate]);
                self.given = 0;
            }
            let count = output.len().min(rate - self.given);
            let (part, rest) = output.split_at_mut(count);
            let words = self.absorbed.states.0.as_flattened();
            for (n, byte) in part.iter_mut().enumerate() {
                let at = self.given + n;
                *byte = (words[at / 8] >> (at % 8 * 8)) as u8;
            }
            self.given += count;
            output = rest;
        }
    }
}

/// Returns the first `N` bytes of a sponge's output over `parts`, one after the other.
pub(crate) fn hash<const N: usize>(sponge: Sponge, parts: &[&[u8]]) -> [u8; N] {
    let mut absorbing = Absorbing::new(sponge);
    for part in parts {
        absorbing.absorb(part);
    }
    let mut output = [0; N];
    absorbing.finish().squeeze(&mut output);
    output
}
