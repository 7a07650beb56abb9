//! AWS-LC through aws-lc-rs: the library that `cp` itself uses.

use super::super::SpeedError;
use super::super::work::{AAD, Arena, Cursor, Runner, Sealed, Task, Work, nonce, parts};
use super::Peer;
use aws_lc_rs::aead::{self, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    self, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{digest, hmac};
use sealane_transform::{Aead, Algorithm, Cipher, Direction, Mode};
use std::hint::black_box;

/// What the library has for an algorithm.
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
            digest::SHA256,
            digest::SHA384,
            digest::SHA512
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

/// Whether the library has the algorithm.
pub(super) fn has(algorithm: Algorithm, _: Direction) -> bool {
    kind(algorithm).is_some()
}

/// The library as a runner.
pub(super) struct AwsLc;

impl Runner for AwsLc {
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Work<'_>)) -> Result<(), SpeedError> {
        let refused = || SpeedError::Peer {
            peer: Peer::AwsLc.name(),
            reason: format!("does not run {}", task.algorithm),
        };
        let keys = task.keys();
        let mut arena = Arena::new(task);
        let mut messages: Vec<&mut [u8]> = arena.messages(&task.lengths).collect();
        let mut cursor = Cursor::new(&task.lengths, task.step());
        match kind(task.algorithm).ok_or_else(refused)? {
            Kind::Hash(algorithm) => scope(&mut || {
                let (range, done) = cursor.next();
                for message in &messages[range] {
                    black_box(digest::digest(algorithm, message));
                }
                done
            }),
            Kind::Hmac(algorithm) => {
                let keys: Vec<_> = keys.iter().map(|key| hmac::Key::new(algorithm, key)).collect();
                scope(&mut || {
                    let (range, done) = cursor.next();
                    for index in range {
                        black_box(hmac::sign(&keys[index % keys.len()], messages[index]));
                    }
                    done
                });
            }
            Kind::Cipher(algorithm, mode) => {
                let mut good = true;
                let mut count = 0_u64;
                let mut fresh = || {
                    count += 1;
                    let mut iv = [0; 16];
                    iv[..8].copy_from_slice(&count.to_le_bytes());
                    FixedLength::from(iv)
                };
                let unbound = || {
                    let keys = keys.iter().map(|key| UnboundCipherKey::new(algorithm, key).ok());
                    keys.collect::<Option<Vec<_>>>()
                };
                let keys = unbound().ok_or_else(refused)?.into_iter();
                if task.direction == Direction::Encrypt {
                    let make = match mode {
                        Mode::Ecb => EncryptingKey::ecb,
                        Mode::Cbc => EncryptingKey::cbc,
                        Mode::Ctr => EncryptingKey::ctr,
                    };
                    let keys: Vec<_> = keys.map(make).collect::<Result<_, _>>().map_err(|_| refused())?;
                    scope(&mut || {
                        let (range, done) = cursor.next();
                        for index in range {
                            let context = match mode {
                                Mode::Ecb => EncryptionContext::None,
                                Mode::Cbc | Mode::Ctr => EncryptionContext::Iv128(fresh()),
                            };
                            let key = &keys[index % keys.len()];
                            good &= key.less_safe_encrypt(messages[index], context).is_ok();
                        }
                        done
                    });
                } else {
                    let make = match mode {
                        Mode::Ecb => DecryptingKey::ecb,
                        Mode::Cbc => DecryptingKey::cbc,
                        Mode::Ctr => DecryptingKey::ctr,
                    };
                    let keys: Vec<_> = keys.map(make).collect::<Result<_, _>>().map_err(|_| refused())?;
                    scope(&mut || {
                        let (range, done) = cursor.next();
                        for index in range {
                            let context = match mode {
                                Mode::Ecb => DecryptionContext::None,
                                Mode::Cbc | Mode::Ctr => DecryptionContext::Iv128(fresh()),
                            };
                            good &= keys[index % keys.len()].decrypt(messages[index], context).is_ok();
                        }
                        done
                    });
                }
                if !good {
                    return Err(refused());
                }
            }
            Kind::Aead(algorithm, kind) => {
                let mut good = true;
                let keys = keys.iter().map(|key| UnboundKey::new(algorithm, key).map(LessSafeKey::new));
                let keys: Vec<_> = keys.collect::<Result<_, _>>().map_err(|_| refused())?;
                let of = |number| Nonce::assume_unique_for_key(nonce(number));
                if task.direction == Direction::Encrypt {
                    let mut count = 0_u64;
                    scope(&mut || {
                        let (range, done) = cursor.next();
                        for index in range {
                            count += 1;
                            let key = &keys[index % keys.len()];
                            let (aad, data) = parts(task.algorithm, messages[index]);
                            let aad = aead::Aad::from(aad);
                            let tag = key.seal_in_place_separate_tag(of(count), aad, data);
                            good &= black_box(tag).is_ok();
                        }
                        done
                    });
                } else {
                    let mut sealed = Sealed::new(kind, task)?;
                    let sealed: Vec<_> = sealed.messages(&task.lengths).collect();
                    scope(&mut || {
                        let (range, done) = cursor.next();
                        for index in range {
                            let (source, tag) = sealed[index];
                            let key = &keys[index % keys.len()];
                            let aad = aead::Aad::from(&AAD);
                            let output = &mut *messages[index];
                            let nonce = of(index as u64);
                            good &= key.open_separate_gather(nonce, aad, source, tag, output).is_ok();
                        }
                        done
                    });
                }
                if !good {
                    return Err(refused());
                }
            }
        }
        Ok(())
    }
}
