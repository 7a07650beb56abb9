//! ChaCha20-Poly1305 as RFC 8439 section 2.8 defines it, one message at a time.

use subtle::ConstantTimeEq as _;
use zeroize::Zeroize as _;

use super::reference::{block, input, one_time_key};
use crate::aead::AeadJob;
use crate::job::Status;
use crate::modes::Direction;
use crate::poly1305::Text;
use crate::word::Plain;

/// XORs the stream from block 1 on.
fn crypt(key: &[u8; 32], nonce: &[u8; 12], data: &mut [u8]) {
    for (number, bytes) in data.chunks_mut(64).enumerate() {
        let mut stream = block::<Plain>(&input(key, number as u32 + 1, nonce));
        for (byte, stream) in bytes.iter_mut().zip(&stream) {
            *byte ^= stream;
        }
        stream.zeroize();
    }
}

fn tag(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], sealed: &[u8]) -> [u8; 16] {
    let mut one_time = one_time_key(key, nonce);
    let tag = Text { key: &one_time, aad, data: sealed }.tag();
    one_time.zeroize();
    tag
}

/// Seals or opens one message.
pub(crate) fn seal_or_open(key: &[u8; 32], direction: Direction, job: &mut AeadJob<'_>) {
    let data = job.data.copied_in_place();
    job.status = Status::Done;
    match direction {
        Direction::Encrypt => {
            crypt(key, &job.nonce, data);
            job.tag = tag(key, &job.nonce, job.aad, data);
        }
        Direction::Decrypt if bool::from(tag(key, &job.nonce, job.aad, data).ct_eq(&job.tag)) => {
            crypt(key, &job.nonce, data);
        }
        Direction::Decrypt => {
            data.zeroize();
            job.status = Status::Forged;
        }
    }
}
