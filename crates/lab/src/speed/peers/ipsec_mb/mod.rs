//! Intel's multi-buffer library, which processes messages side by side, as ours does, in bursts of 32 jobs.
//!
//! It gets the whole batch of messages and returns it whole, so that messages in its hands between bursts are not
//! counted twice.

mod ffi;

use super::super::SpeedError;
use super::super::work::{AAD, Arena, Cursor, Handler, Runner, Task};
use super::Peer;
use ffi::{Hash, IpsecMb, Key, Manager};
use sealane_transform::{Algorithm, Cipher, Direction, Mode};
use std::hint::black_box;

fn key(manager: &Manager, algorithm: Algorithm, key: &[u8]) -> Option<Key> {
    let name = algorithm.peers().ipsec_mb?;
    match algorithm {
        Algorithm::Digest(digest) => {
            let hash = Hash::by_name(name)?;
            if digest.facts().key_bytes.max > 0 { manager.hmac(hash, key) } else { Manager::hash(hash) }
        }
        Algorithm::Cipher(Cipher::Block(_, mode)) => match (name, mode) {
            ("AES", Mode::Cbc | Mode::Ctr) => manager.aes(key, mode == Mode::Ctr),
            ("DES" | "DES3", Mode::Cbc) => manager.des(key),
            _ => None,
        },
        Algorithm::Aead(_) if name == "GCM" => manager.gcm(key),
        Algorithm::Aead(_) => Some(Manager::chacha20_poly1305(key.try_into().ok()?)),
        Algorithm::Cipher(_) | Algorithm::Gmac(_) => None,
    }
}

/// Returns whether the library is there and has the algorithm.
pub(super) fn has(algorithm: Algorithm) -> bool {
    let Some(manager) = IpsecMb::get().ok().and_then(IpsecMb::manager) else { return false };
    key(&manager, algorithm, &vec![0; algorithm.facts().key_bytes.usual]).is_some()
}

/// Returns the library as a runner.
pub(super) fn runner() -> Result<Box<dyn Runner>, SpeedError> {
    match IpsecMb::get() {
        Ok(library) => Ok(Box::new(Loaded(library))),
        Err(reason) => Err(Peer::IpsecMb.fails(reason)),
    }
}

struct Loaded(&'static IpsecMb);

impl Runner for Loaded {
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let refused = || Peer::IpsecMb.refuses(task.algorithm);
        let mut manager = self.0.manager().ok_or_else(refused)?;
        let keys: Option<Vec<Key>> =
            task.keys().iter().map(|raw| key(&manager, task.algorithm, raw)).collect();
        let keys = keys.ok_or_else(refused)?;
        let mut arena = Arena::new(task);
        let mut messages: Vec<&mut [u8]> = arena.messages(&task.lengths).collect();
        let mut ivs = vec![[0; 16]; messages.len()];
        let mut tags = vec![[0; 64]; messages.len()];
        let mut cursor = Cursor::new(&task.lengths, task.batch);
        let encrypts = task.direction == Direction::Encrypt;
        let mut good = true;
        let mut count = 0_u64;
        scope(&mut || {
            let (range, done) = cursor.next();
            let (ivs, tags) = (&mut ivs[range.clone()], &mut tags[range.clone()]);
            for iv in &mut *ivs {
                count += 1;
                iv[..8].copy_from_slice(&count.to_le_bytes());
            }
            good &= manager.run(&keys, encrypts, &mut messages[range], ivs, &AAD, tags);
            black_box(&tags);
            done
        });
        if good { Ok(()) } else { Err(refused()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_transform::{AeadJob, AeadKey, Buffer, CipherJob, CipherKey, DigestJob, DigestKey, Kernels};

    /// Both sides compute the same function, with any number of messages side by side.
    #[test]
    fn results_are_ours() {
        let library = match IpsecMb::get() {
            Ok(library) => library,
            Err(reason) => {
                // Even Debian does not install it by default, so it is never required.
                crate::skip::say(reason);
                return;
            }
        };
        let kernels = Kernels::select(None, None).unwrap();
        let mut compared = 0;
        for algorithm in Algorithm::all().filter(|&algorithm| has(algorithm)) {
            compared += 1;
            let mut manager = library.manager().unwrap();
            let raw: Vec<u8> = (0..algorithm.facts().key_bytes.usual).map(|i| (i * 7 + 3) as u8).collect();
            let keys = [key(&manager, algorithm, &raw).unwrap()];
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let plain: Vec<Vec<u8>> = (0..700).map(|i| vec![i as u8; 16 * (1 + i % 99)]).collect();
                let (mut mine, mut theirs) = (plain.clone(), plain);
                // The library counts in 32 bits, our kernel in 128: none of these counters wraps.
                let ivs: Vec<[u8; 16]> = (0..700).map(|i| [i as u8 & 0x7f; 16]).collect();
                let mut tags = vec![[0; 64]; 700];
                let mut messages: Vec<&mut [u8]> = theirs.iter_mut().map(Vec::as_mut_slice).collect();
                let encrypts = direction == Direction::Encrypt;
                assert!(manager.run(&keys, encrypts, &mut messages, &ivs, &AAD, &mut tags), "{algorithm}");
                match algorithm {
                    Algorithm::Cipher(cipher) => {
                        let key = CipherKey::new(cipher, &raw).unwrap();
                        let jobs = mine.iter_mut().zip(&ivs);
                        let mut jobs: Vec<_> =
                            jobs.map(|(data, iv)| CipherJob::new(&key, iv, Buffer::in_place(data))).collect();
                        kernels.cipher(cipher, direction, &mut jobs);
                        assert!(mine == theirs, "{algorithm} {direction:?}");
                    }
                    Algorithm::Digest(digest) => {
                        let key = DigestKey::new(digest, &raw).unwrap();
                        let mut jobs: Vec<_> = mine.iter().map(|data| DigestJob::new(&key, data)).collect();
                        kernels.digest(digest, &mut jobs);
                        for (job, tag) in jobs.iter().zip(&tags) {
                            assert!(tag.starts_with(job.digest()), "{algorithm}");
                        }
                    }
                    // The library leaves the comparison of tags to the caller, so opening always succeeds.
                    Algorithm::Aead(aead) if encrypts => {
                        let key = AeadKey::new(aead, &raw).unwrap();
                        let jobs = mine.iter_mut().zip(&ivs);
                        let nonce = |iv: &[u8; 16]| *iv.first_chunk().unwrap();
                        let mut jobs: Vec<_> = jobs
                            .map(|(data, iv)| AeadJob::seal(&key, nonce(iv), &AAD, Buffer::in_place(data)))
                            .collect();
                        assert_eq!(kernels.seal(aead, &mut jobs), 0);
                        for (job, tag) in jobs.iter().zip(&tags) {
                            assert_eq!(job.tag, tag[..16], "{algorithm}");
                        }
                        drop(jobs);
                        assert!(mine == theirs, "{algorithm}");
                    }
                    Algorithm::Aead(_) | Algorithm::Gmac(_) => {}
                }
            }
        }
        assert_eq!(compared, 20);
    }
}
