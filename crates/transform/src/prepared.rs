//! The paper's kernels as programs in another language get them: everything that is made before they run.
//!
//! NPCryptBench leaves initialisation to a control processor. So keys are expanded and tables are filled here, and a kernel
//! written elsewhere takes words, works on the message, and can be compared with ours byte by byte.

use crate::catalogue::{Algorithm, Cipher, Digest};
use crate::key::{CipherKey, Schedule};
use crate::mix::{key, message, trace};
use crate::{aes, des};

/// What a kernel is given, under the key of [`trace`], and what must come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The expanded key, in the order in which it is read.
    pub key: Vec<u32>,
    /// Tables of words one after another: AES's four of 256 and its S-box, DES's eight of 64, Blowfish's four of 256, RC4's
    /// permutation, and SEAL's T of 512, S of 256 and R of 256.
    pub tables: Vec<u32>,
    /// The message; a cipher changes it in place.
    pub message: Vec<u8>,
    /// The enciphered message, or eight words of a digest's state, least byte first, of which a shorter one leaves the last
    /// as they were: all states begin as zeros, and nothing is padded. SEAL's index is 1.
    pub output: Vec<u8>,
}

/// Prepares one of NPCryptBench's ten algorithms for `bytes` bytes, as [`trace`] takes them. `None` for others.
pub fn prepared(algorithm: Algorithm, bytes: usize) -> Option<Prepared> {
    let (key, tables) = match algorithm {
        Algorithm::Digest(Digest::Md5 | Digest::Sha1) => (Vec::new(), Vec::new()),
        Algorithm::Cipher(cipher) => words(cipher, &key(algorithm))?,
        _ => return None,
    };
    let output = trace(algorithm, bytes, |_| ())?;
    Some(Prepared { key, tables, message: message(bytes), output })
}

fn words(cipher: Cipher, key: &[u8]) -> Option<(Vec<u32>, Vec<u32>)> {
    let key = CipherKey::new(cipher, key).ok()?;
    Some(match key.schedule() {
        Schedule::Null | Schedule::TripleDes(_) => return None,
        Schedule::Des(key) => {
            (key.merged.as_flattened().to_vec(), des::reference::SP.as_flattened().to_vec())
        }
        Schedule::Aes(key) => {
            let rounds = &key.encrypt.as_flattened()[..16 * (key.rounds + 1)];
            let words = rounds.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
            let tables = aes::generic::ENCRYPT.as_flattened().iter().copied();
            (words, tables.chain(aes::S.map(u32::from)).collect())
        }
        Schedule::Rc5(key) => (key.table[..2 * key.rounds + 2].to_vec(), Vec::new()),
        Schedule::Rc6(key) => (key.table.to_vec(), Vec::new()),
        Schedule::Blowfish(key) => (key.p.to_vec(), key.s.as_flattened().to_vec()),
        Schedule::Idea(key) => (key.encrypt.map(u32::from).to_vec(), Vec::new()),
        Schedule::Rc4(key) => (Vec::new(), key.permutation.map(u32::from).to_vec()),
        Schedule::Seal(key) => (Vec::new(), [&key.t[..], &key.s, &key.r].concat()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table IV's bytes, SEAL's as its paper has them.
    #[test]
    fn words_are_as_many_as_the_paper_stores() {
        for (name, key, tables) in [
            ("md5", 0, 0),
            ("rc4", 0, 1024),
            ("seal3", 0, 4096),
            ("aes-128-ecb", 176, 5120),
            ("des-ecb", 128, 2048),
            ("rc5-r16-ecb", 136, 0),
            ("rc6-ecb", 176, 0),
            ("blowfish-ecb", 72, 4096),
            ("idea-ecb", 208, 0),
        ] {
            let found = prepared(name.parse().unwrap(), 64).unwrap();
            assert_eq!((4 * found.key.len(), 4 * found.tables.len()), (key, tables), "{name}");
            assert_ne!(found.output, found.message, "{name}");
        }
        assert_eq!(prepared("hmac-md5".parse().unwrap(), 64), None);
    }
}
