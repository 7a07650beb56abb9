//! ECB, CBC and CTR: their names, and each over any block cipher, one message at a time.

/// A mode of a block cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each block alone.
    Ecb,
    /// Cipher block chaining; the length must be a multiple of the block.
    Cbc,
    /// Counter mode: the IV is the first counter block, counted big-endian over the whole block.
    Ctr,
}

/// Which way a cipher runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Plaintext in, ciphertext out.
    Encrypt,
    /// Ciphertext in, plaintext out.
    Decrypt,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Ecb, Self::Cbc, Self::Ctr];

    /// The mode that a block cipher's bare name implies.
    pub(crate) const USUAL: Self = Self::Cbc;

    /// Returns the catalogue's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ecb => "ecb",
            Self::Cbc => "cbc",
            Self::Ctr => "ctr",
        }
    }

    /// Returns whether no block needs the result of another one, so that a message can be cut.
    pub(crate) const fn can_cut(self, direction: Direction) -> bool {
        !matches!((self, direction), (Self::Cbc, Direction::Encrypt))
    }
}

/// Adds to a big-endian counter that fills the block.
pub(crate) fn increase<const N: usize>(counter: &mut [u8; N], by: usize) {
    let mut carry = by;
    for byte in counter.iter_mut().rev() {
        let sum = usize::from(*byte) + (carry & 0xff);
        *byte = sum as u8;
        carry = (carry >> 8) + (sum >> 8);
        if carry == 0 {
            break;
        }
    }
}

fn xor_into<const N: usize>(block: &mut [u8; N], other: &[u8; N]) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}

/// Transforms `data` in place; except for CTR its length is a multiple of `N`, which the caller has checked.
#[inline(always)]
pub(crate) fn crypt_blocks<const N: usize>(
    mode: Mode,
    direction: Direction,
    iv: &[u8; 16],
    data: &mut [u8],
    crypt: impl Fn(Direction, &mut [u8; N]),
) {
    let mut chain = [0; N];
    chain.copy_from_slice(&iv[..N]);
    let (blocks, tail) = data.as_chunks_mut::<N>();
    match (mode, direction) {
        (Mode::Ecb, _) => {
            for block in blocks {
                crypt(direction, block);
            }
        }
        (Mode::Cbc, Direction::Encrypt) => {
            for block in blocks {
                xor_into(block, &chain);
                crypt(Direction::Encrypt, block);
                chain = *block;
            }
        }
        (Mode::Cbc, Direction::Decrypt) => {
            for block in blocks {
                let sealed = *block;
                crypt(Direction::Decrypt, block);
                xor_into(block, &chain);
                chain = sealed;
            }
        }
        (Mode::Ctr, _) => {
            for block in blocks {
                let mut stream = chain;
                crypt(Direction::Encrypt, &mut stream);
                xor_into(block, &stream);
                increase(&mut chain, 1);
            }
            if !tail.is_empty() {
                crypt(Direction::Encrypt, &mut chain);
                for (byte, stream) in tail.iter_mut().zip(chain) {
                    *byte ^= stream;
                }
            }
        }
    }
}
