//! ChaCha20-Poly1305 as RFC 8439 section 2.8 writes it, one message at a time.

use subtle::ConstantTimeEq as _;
use zeroize::Zeroize as _;

use super::reference::{block, input, one_time_key};
use crate::aead::AeadJob;
use crate::job::{Direction, Status};
use crate::poly1305::generic::Poly1305;
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

/// The two lengths that end the authenticated text.
pub(crate) fn lengths(aad_bytes: usize, data_bytes: usize) -> [u8; 16] {
    (aad_bytes as u128 | (data_bytes as u128) << 64).to_le_bytes()
}

fn tag(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], sealed: &[u8]) -> [u8; 16] {
    let mut one_time = one_time_key(key, nonce);
    let mut poly = Poly1305::new(&one_time);
    one_time.zeroize();
    for text in [aad, sealed] {
        let (blocks, tail) = text.as_chunks::<16>();
        poly.update(blocks.as_flattened());
        if !tail.is_empty() {
            let mut padded = [0; 16];
            padded[..tail.len()].copy_from_slice(tail);
            poly.update(&padded);
        }
    }
    poly.update(&lengths(aad.len(), sealed.len()));
    poly.finish()
}

/// One message.
pub(crate) fn run(key: &[u8; 32], direction: Direction, job: &mut AeadJob<'_>) {
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
