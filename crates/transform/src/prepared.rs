//! The paper's kernels for programs in other languages: all data that are prepared before a kernel runs.
//!
//! NPCryptBench leaves initialisation to a control processor. So this module expands keys and fills tables; a kernel
//! written elsewhere reads words, processes the message, and can be compared with ours byte by byte.

use crate::algorithm::{Algorithm, Cipher};
use crate::descriptor::Making;
use crate::key::CipherKey;
use crate::mix::{key, message, trace};

/// The input of a kernel, under the key of [`trace`], and its expected output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The expanded key, in the order in which it is read.
    pub key: Vec<u32>,
    /// Tables of words one after another: AES's four of 256 and its S-box, DES's eight of 64, Blowfish's four of 256, RC4's
    /// permutation, and SEAL's T of 512, S of 256 and R of 256.
    pub tables: Vec<u32>,
    /// The message; a cipher changes it in place.
    pub message: Vec<u8>,
    /// The enciphered message, or eight words of a digest's state, least significant byte first; a shorter state
    /// leaves the last words unchanged. All states begin as zeros, and nothing is padded. SEAL's index is 1.
    pub output: Vec<u8>,
}

/// Prepares a hash, or a cipher that NPCryptBench runs, for `bytes` bytes, as [`trace`] takes them. Returns `None`
/// for others.
pub fn prepared(algorithm: Algorithm, bytes: usize) -> Option<Prepared> {
    let (key, tables) = match algorithm {
        Algorithm::Digest(digest) => match digest.descriptor().making {
            Making::Hash(_) => (Vec::new(), Vec::new()),
            Making::Hmac(_) | Making::Own(_) => return None,
        },
        Algorithm::Cipher(cipher) => words(cipher, &key(algorithm))?,
        Algorithm::Aead(_) | Algorithm::Gmac(_) => return None,
    };
    let output = trace(algorithm, bytes, |_| ())?;
    Some(Prepared { key, tables, message: message(bytes), output })
}

fn words(cipher: Cipher, key: &[u8]) -> Option<(Vec<u32>, Vec<u32>)> {
    let key = CipherKey::new(cipher, key).ok()?;
    (cipher.descriptor().words)(key.schedule())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of Table IV; for SEAL, those of its own paper.
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
