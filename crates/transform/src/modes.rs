//! ECB, CBC and CTR over any block cipher, one message at a time.

use crate::catalogue::Mode;
use crate::job::Direction;

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
