//! ECDSA's nonces by RFC 6979 section 3.2, with HMAC-SHA-256, and hedged with additional data (section 3.6).
//!
//! The hash is AWS-LC's compression function. States and blocks are wiped when dropped.

use sealane_native::states;
use zeroize::{Zeroize as _, ZeroizeOnDrop};

use super::integer::{self, N, U256};
use crate::sha256::INITIAL;

/// HMAC-SHA-256's states after the two blocks of a 32-byte key.
#[derive(ZeroizeOnDrop)]
struct Keyed {
    inner: [u32; 8],
    outer: [u32; 8],
}

fn bytes_of(state: &[u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *chunk = word.to_be_bytes();
    }
    bytes
}

impl Keyed {
    fn new(key: &[u8; 32]) -> Self {
        let mut states = [INITIAL; 2];
        for (state, pad) in states.iter_mut().zip([0x36, 0x5c]) {
            let mut block = [pad; 64];
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            states::sha256(state, &[block]);
            block.zeroize();
        }
        Self { inner: states[0], outer: states[1] }
    }

    /// Returns the code of a message of at most 183 bytes.
    fn code(&self, message: &[&[u8]]) -> [u8; 32] {
        let mut blocks = [[0; 64]; 3];
        let used = pad(&mut blocks, message);
        let mut state = self.inner;
        states::sha256(&mut state, &blocks[..used]);
        let inner = bytes_of(&state);
        let used = pad(&mut blocks, &[&inner]);
        state = self.outer;
        states::sha256(&mut state, &blocks[..used]);
        blocks.zeroize();
        bytes_of(&state)
    }
}

/// Writes a message with the padding of a hash that has absorbed a block before, and returns how many blocks
/// it has.
fn pad(blocks: &mut [[u8; 64]; 3], message: &[&[u8]]) -> usize {
    let bytes = blocks.as_flattened_mut();
    bytes.fill(0);
    let mut at = 0;
    for part in message {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    bytes[at] = 0x80;
    let used = (at + 9).div_ceil(64);
    bytes[64 * used - 8..64 * used].copy_from_slice(&(8 * (64 + at as u64)).to_be_bytes());
    used
}

/// The nonces of a key and a digest, one after the other.
#[derive(ZeroizeOnDrop)]
pub(super) struct Nonces {
    key: [u8; 32],
    value: [u8; 32],
    /// Whether a nonce was given out, which the next one must differ from.
    has_next: bool,
}

impl Nonces {
    /// Starts with a private key, the integer of the digest modulo the order, and additional data.
    pub(super) fn new(scalar: &U256, e: &U256, hedge: Option<&[u8; 32]>) -> Self {
        let mut secret = integer::to_bytes(scalar);
        let digest = integer::to_bytes(e);
        let more: &[u8] = hedge.map_or(&[], |hedge| hedge);
        let mut this = Self { key: [0; 32], value: [1; 32], has_next: false };
        for step in [0, 1] {
            let keyed = Keyed::new(&this.key);
            this.key = keyed.code(&[&this.value, &[step], &secret, &digest, more]);
            this.value = Keyed::new(&this.key).code(&[&this.value]);
        }
        secret.zeroize();
        this
    }

    /// Returns the next nonce: between zero and the order.
    pub(super) fn next(&mut self) -> U256 {
        loop {
            if self.has_next {
                self.key = Keyed::new(&self.key).code(&[&self.value, &[0]]);
                self.value = Keyed::new(&self.key).code(&[&self.value]);
            }
            self.has_next = true;
            self.value = Keyed::new(&self.key).code(&[&self.value]);
            let mut nonce = integer::from_bytes(&self.value);
            // A rejected candidate says nothing about the nonce that is taken.
            if bool::from(N.contains(&nonce) & !integer::is_zero(&nonce)) {
                return nonce;
            }
            nonce.zeroize();
        }
    }
}
