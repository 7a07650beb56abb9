//! The dynamic instruction mix of an algorithm, counted on the reference kernels.
//!
//! As NPCryptBench does, only kernels are counted: keys are expanded and messages padded before.

use crate::catalogue::{Algorithm, Cipher, Digest};
use crate::hash::Hash;
use crate::job::Direction;
use crate::key::{CipherKey, DigestKey, Schedule};
use crate::word::{Access, Counted, Mix, count};
use crate::{aes, aha, blake3, blowfish, checksum, des, idea, md5, rc4, rc5, rc6, seal, sha1, sha256};

/// Encrypts or digests `bytes` bytes (whole blocks; a partial one is left out) in ECB under a fixed key with the
/// reference kernel, and returns the operations by class with the trace of table accesses. `None` for algorithms
/// without a counting kernel (AEADs, null and touch).
pub fn instruction_mix(algorithm: Algorithm, bytes: usize) -> Option<(Mix, Vec<Access>)> {
    let mut data: Vec<u8> = (0..bytes).map(|i| (i * 167 + 13) as u8).collect();
    let key: Vec<u8> = (0..algorithm.facts().key_bytes.usual).map(|i| (i * 59 + 7) as u8).collect();
    match algorithm {
        Algorithm::Digest(digest) => {
            let key = DigestKey::new(digest, &key).ok()?;
            let blocks = data.as_chunks::<64>().0;
            let mut state = [0; 8];
            let mut chains = [[0; 4]; 4];
            let counted = match (digest, Hash::of(digest)) {
                (_, Some(Hash::Md5)) => count(|| {
                    blocks.iter().for_each(|block| md5::reference::compress::<Counted>(&mut state, block))
                }),
                (_, Some(Hash::Sha1)) => count(|| {
                    blocks.iter().for_each(|block| sha1::reference::compress::<Counted>(&mut state, block));
                }),
                (_, Some(Hash::Sha256)) => count(|| {
                    blocks.iter().for_each(|block| sha256::reference::compress::<Counted>(&mut state, block));
                }),
                (Digest::AhaI, None) => count(|| {
                    for (i, block) in blocks.iter().enumerate() {
                        aha::reference::absorb::<Counted>(&mut chains, i, block);
                    }
                }),
                (Digest::Blake3, None) => count(|| {
                    blake3::reference::digest_by::<Counted>(&data, &mut [0; 32]);
                }),
                (Digest::InternetChecksum, None) => count(|| {
                    checksum::internet_reference::<Counted>(&data);
                }),
                (Digest::Bh140, None) => {
                    let key = key.bucket()?;
                    let data = &data[..data.len().min(4 * crate::BUCKET_WORDS - 4)];
                    count(|| {
                        key.buckets::<Counted>(data);
                    })
                }
                _ => return None,
            };
            Some(counted)
        }
        Algorithm::Cipher(cipher) => {
            let key = CipherKey::new(cipher, &key).ok()?;
            if cipher == Cipher::Null {
                return None;
            }
            Some(count(|| encrypt(key.schedule(), &mut data)))
        }
        Algorithm::Aead(_) | Algorithm::Gmac(_) => None,
    }
}

fn encrypt(schedule: &Schedule, data: &mut [u8]) {
    let forward = Direction::Encrypt;
    let (eights, _) = data.as_chunks_mut::<8>();
    match schedule {
        Schedule::Null => {}
        Schedule::Des(key) => {
            eights.iter_mut().for_each(|b| des::reference::crypt::<Counted>(key, forward, b))
        }
        Schedule::TripleDes(key) => {
            eights.iter_mut().for_each(|b| des::reference::crypt_triple::<Counted>(key, forward, b));
        }
        Schedule::Rc5(key) => {
            eights.iter_mut().for_each(|b| rc5::reference::crypt::<Counted>(key, forward, b))
        }
        Schedule::Blowfish(key) => {
            eights.iter_mut().for_each(|b| blowfish::reference::crypt::<Counted>(key, forward, b));
        }
        Schedule::Idea(key) => {
            eights.iter_mut().for_each(|b| idea::reference::crypt::<Counted>(key, forward, b))
        }
        Schedule::Aes(key) => {
            data.as_chunks_mut().0.iter_mut().for_each(|b| aes::reference::crypt::<Counted>(key, forward, b));
        }
        Schedule::Rc6(key) => {
            data.as_chunks_mut().0.iter_mut().for_each(|b| rc6::reference::crypt::<Counted>(key, forward, b));
        }
        Schedule::Rc4(key) => rc4::reference::crypt::<Counted>(key, data),
        Schedule::Seal(key) => {
            let limit = data.len().min(seal::MAX_BYTES);
            seal::reference::crypt::<Counted>(key, 1, &mut data[..limit]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(name: &str) -> Mix {
        instruction_mix(name.parse().unwrap(), 4096).unwrap().0
    }

    /// The shapes of NPCryptBench's findings: ALU-heavy, branch-light; AES touches memory more than MD5.
    #[test]
    fn shapes_of_table_v() {
        let names = [
            "md5",
            "sha1",
            "rc4",
            "seal3",
            "aes-128-ecb",
            "des-ecb",
            "rc5-ecb",
            "rc6-ecb",
            "blowfish-ecb",
            "idea-ecb",
        ];
        let memory = |mix: &Mix| (mix.load + mix.store) as f64 / mix.total() as f64;
        for name in names {
            let mix = mix(name);
            let total = mix.total() as f64;
            let alu = (mix.simple_alu + mix.complex_alu) as f64 / total;
            assert!(alu > 0.4, "{name}: {alu} {mix:?}");
            assert!(mix.branch as f64 / total < 0.15, "{name} {mix:?}");
        }
        assert!(memory(&mix("aes-128-ecb")) > 2.0 * memory(&mix("md5")));
        assert!(mix("rc6-ecb").complex_alu > 0 && mix("idea-ecb").complex_alu > 0);
        assert_eq!(mix("des-ecb").complex_alu, 0);
    }

    #[test]
    fn the_trace_lists_table_accesses_in_order() {
        let (_, trace) = instruction_mix("des-ecb".parse().unwrap(), 8).unwrap();
        assert_eq!(trace.len(), 16 * 8);
        assert!(trace.iter().all(|access| access.region == "SP" && access.index < 64));
    }
}
