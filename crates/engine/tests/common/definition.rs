//! Computes a job as its protection is defined: the body by the slow path of `sealane-transform`, tags and AEADs by
//! other libraries if they have them.

use aws_lc_rs::{aead, hmac};
use sealane_engine::{Job, Mac, Protection, Session};
use sealane_transform::{
    Aead, AeadJob, AeadKey, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey, Kernels,
    Mode, Tier,
};

fn slow() -> Kernels {
    Kernels::select(Some(Tier::Reference), None).unwrap()
}

fn hmac_of(mac: Mac) -> Option<hmac::Algorithm> {
    match mac {
        Mac::Digest(Digest::HmacSha1) => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        Mac::Digest(Digest::HmacSha256) => Some(hmac::HMAC_SHA256),
        Mac::Digest(Digest::HmacSha384) => Some(hmac::HMAC_SHA384),
        Mac::Digest(Digest::HmacSha512) => Some(hmac::HMAC_SHA512),
        _ => None,
    }
}

fn slow_mac(mac: Mac, key: &[u8], iv: &[u8; 16], message: &[u8]) -> Vec<u8> {
    match (hmac_of(mac), mac) {
        (Some(algorithm), _) => hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec(),
        (None, Mac::Digest(digest)) => {
            let key = DigestKey::new(digest, key).unwrap();
            let mut jobs = [DigestJob::new(&key, message)];
            jobs[0].nonce.copy_from_slice(&iv[..12]);
            assert_eq!(slow().digest(digest, &mut jobs), 0);
            jobs[0].digest().to_vec()
        }
        (None, _) => blake3::keyed_hash(key.try_into().unwrap(), message).as_bytes().to_vec(),
    }
}

pub(crate) fn slow_encrypt(cipher: Cipher, key: &[u8], iv: &[u8], body: &mut [u8]) {
    let key = CipherKey::new(cipher, key).unwrap();
    let mut jobs = [CipherJob::new(&key, iv, Buffer::in_place(body))];
    assert_eq!(slow().encrypt(cipher, &mut jobs), 0);
}

/// Seals one job by its definition.
pub(crate) fn slow_seal(session: &Session, job: &Job, bytes: &mut [u8]) {
    let protection = session.protection();
    let (cipher_key, mac_key) = session.keys_given();
    match protection {
        Protection::Cipher(cipher) | Protection::EncryptThenMac { cipher, .. } => {
            slow_encrypt(cipher, cipher_key, &job.iv, &mut bytes[job.body.range()]);
        }
        Protection::ChainsThenMac { cipher, chain_bytes, .. } => {
            let (data, ivs) = cipher_key.split_at(cipher_key.len() / 2);
            let block = cipher.block_bytes();
            for (index, chain) in bytes[job.body.range()].chunks_mut(usize::from(chain_bytes)).enumerate() {
                let mut number = [0; 16];
                number[16 - block..].copy_from_slice(&job.iv[..block]);
                let number = u128::from_be_bytes(number).wrapping_add(index as u128).to_be_bytes();
                let mut iv = number[16 - block..].to_vec();
                slow_encrypt(Cipher::Block(cipher, Mode::Ecb), ivs, &[], &mut iv);
                slow_encrypt(Cipher::Block(cipher, Mode::Cbc), data, &iv, chain);
            }
        }
        Protection::Null | Protection::Aead(_) | Protection::ShortAead { .. } | Protection::Mac { .. } => {}
    }
    if protection.tag_bytes() == 0 {
        return;
    }
    bytes[job.tag.range()].fill(0);
    let mut clear = bytes[job.clear.range()].to_vec();
    let tag = if let Some((algorithm, lengths)) = protection.aead() {
        clear.extend(job.suffix.bytes());
        let nonce = *job.iv.first_chunk().unwrap();
        let body = &mut bytes[job.body.range()];
        let library = match algorithm {
            Aead::Aes128Gcm => Some(&aead::AES_128_GCM),
            Aead::Aes256Gcm => Some(&aead::AES_256_GCM),
            Aead::ChaCha20Poly1305 => Some(&aead::CHACHA20_POLY1305),
            Aead::Aes128Ccm | Aead::Aes256Ccm => None,
        };
        if let Some(library) = library {
            let key = aead::LessSafeKey::new(aead::UnboundKey::new(library, cipher_key).unwrap());
            let nonce = aead::Nonce::assume_unique_for_key(nonce);
            key.seal_in_place_separate_tag(nonce, aead::Aad::from(clear), body).unwrap().as_ref().to_vec()
        } else {
            let key = AeadKey::with(algorithm, lengths, cipher_key).unwrap();
            let mut jobs = [AeadJob::seal(&key, nonce, &clear, Buffer::in_place(body))];
            assert_eq!(slow().seal(algorithm, &mut jobs), 0);
            jobs[0].tag.to_vec()
        }
    } else {
        clear.extend(&bytes[job.body.range()]);
        clear.extend(job.suffix.bytes());
        slow_mac(protection.mac().unwrap(), mac_key, &job.iv, &clear)
    };
    bytes[job.tag.range()].copy_from_slice(&tag[..job.tag.len as usize]);
}
