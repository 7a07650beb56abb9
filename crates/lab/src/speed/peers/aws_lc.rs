//! AWS-LC through aws-lc-rs, the library that `cp` itself uses.

use super::super::SpeedError;
use super::super::work::{AAD, Handler, Runner, Sealed, Task, iv, nonce, one_by_one, parts};
use super::Peer;
use aws_lc_rs::aead::{self, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    self, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{digest, hmac};
use sealane_transform::{Aead, Algorithm, Cipher, Direction, Mode};
use std::hint::black_box;

/// The library's implementation of an algorithm.
enum Kind {
    Hash(&'static digest::Algorithm),
    Hmac(hmac::Algorithm),
    Cipher(&'static cipher::Algorithm, Mode),
    Aead(&'static aead::Algorithm, Aead),
}

fn kind(algorithm: Algorithm) -> Option<Kind> {
    let name = algorithm.peers().aws_lc?;
    /// The constant of a name.
    macro_rules! constant {
        ($($module:ident :: $constant:ident),*) => {
            match name {
                $( stringify!($constant) => &$module::$constant, )*
                _ => return None,
            }
        };
    }
    Some(match algorithm {
        Algorithm::Digest(digest) if digest.facts().key_bytes.max > 0 => Kind::Hmac(*constant!(
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            hmac::HMAC_SHA256,
            hmac::HMAC_SHA384,
            hmac::HMAC_SHA512
        )),
        Algorithm::Digest(_) => Kind::Hash(constant!(
            digest::SHA1_FOR_LEGACY_USE_ONLY,
            digest::SHA224,
            digest::SHA256,
            digest::SHA384,
            digest::SHA512,
            digest::SHA3_256,
            digest::SHA3_384,
            digest::SHA3_512
        )),
        Algorithm::Cipher(Cipher::Block(_, mode)) => {
            Kind::Cipher(constant!(cipher::AES_128, cipher::AES_192, cipher::AES_256), mode)
        }
        Algorithm::Cipher(_) => return None,
        Algorithm::Gmac(gmac) => return kind(Algorithm::Aead(gmac.aead())),
        Algorithm::Aead(kind) => {
            Kind::Aead(constant!(aead::AES_128_GCM, aead::AES_256_GCM, aead::CHACHA20_POLY1305), kind)
        }
    })
}

/// Returns whether the library has the algorithm.
pub(super) fn has(algorithm: Algorithm) -> bool {
    kind(algorithm).is_some()
}

/// The library as a runner.
pub(super) struct AwsLc;

impl Runner for AwsLc {
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let refused = || Peer::AwsLc.refuses(task.algorithm);
        let raw = task.keys();
        let key_of = |index: usize| index % raw.len();
        let encrypts = task.direction == Direction::Encrypt;
        let mut count = 0_u64;
        let mut next = || {
            count += 1;
            count
        };
        match kind(task.algorithm).ok_or_else(refused)? {
            Kind::Hash(algorithm) => one_by_one(task, Peer::AwsLc, scope, |_, message| {
                black_box(digest::digest(algorithm, message));
                true
            }),
            Kind::Hmac(algorithm) => {
                let keys: Vec<_> = raw.iter().map(|key| hmac::Key::new(algorithm, key)).collect();
                one_by_one(task, Peer::AwsLc, scope, |index, message| {
                    black_box(hmac::sign(&keys[key_of(index)], message));
                    true
                })
            }
            Kind::Cipher(algorithm, mode) => {
                let unbound = raw.iter().map(|key| UnboundCipherKey::new(algorithm, key));
                let unbound = unbound.collect::<Result<Vec<_>, _>>().map_err(|_| refused())?.into_iter();
                let mut fresh = || FixedLength::from(iv(next()));
                if encrypts {
                    let make = match mode {
                        Mode::Ecb => EncryptingKey::ecb,
                        Mode::Cbc => EncryptingKey::cbc,
                        Mode::Ctr => EncryptingKey::ctr,
                    };
                    let keys: Vec<_> = unbound.map(make).collect::<Result<_, _>>().map_err(|_| refused())?;
                    one_by_one(task, Peer::AwsLc, scope, |index, message| {
                        let context = match mode {
                            Mode::Ecb => EncryptionContext::None,
                            Mode::Cbc | Mode::Ctr => EncryptionContext::Iv128(fresh()),
                        };
                        keys[key_of(index)].less_safe_encrypt(message, context).is_ok()
                    })
                } else {
                    let make = match mode {
                        Mode::Ecb => DecryptingKey::ecb,
                        Mode::Cbc => DecryptingKey::cbc,
                        Mode::Ctr => DecryptingKey::ctr,
                    };
                    let keys: Vec<_> = unbound.map(make).collect::<Result<_, _>>().map_err(|_| refused())?;
                    one_by_one(task, Peer::AwsLc, scope, |index, message| {
                        let context = match mode {
                            Mode::Ecb => DecryptionContext::None,
                            Mode::Cbc | Mode::Ctr => DecryptionContext::Iv128(fresh()),
                        };
                        keys[key_of(index)].decrypt(message, context).is_ok()
                    })
                }
            }
            Kind::Aead(algorithm, kind) => {
                let keys = raw.iter().map(|key| UnboundKey::new(algorithm, key).map(LessSafeKey::new));
                let keys: Vec<_> = keys.collect::<Result<_, _>>().map_err(|_| refused())?;
                let nonce_of = |number| Nonce::assume_unique_for_key(nonce(number));
                if encrypts {
                    return one_by_one(task, Peer::AwsLc, scope, |index, message| {
                        let (aad, data) = parts(task.algorithm, message);
                        let key = &keys[key_of(index)];
                        let aad = aead::Aad::from(aad);
                        black_box(key.seal_in_place_separate_tag(nonce_of(next()), aad, data)).is_ok()
                    });
                }
                let mut sealed = Sealed::new(kind, task)?;
                let sealed: Vec<_> = sealed.messages(&task.lengths).collect();
                one_by_one(task, Peer::AwsLc, scope, |index, message| {
                    let (source, tag) = sealed[index];
                    let (nonce, aad) = (nonce_of(index as u64), aead::Aad::from(&AAD));
                    keys[key_of(index)].open_separate_gather(nonce, aad, source, tag, message).is_ok()
                })
            }
        }
    }
}
