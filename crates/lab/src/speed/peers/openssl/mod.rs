//! OpenSSL by its EVP interface, in the way of a fast program: algorithms fetched once, a context per association.
//!
//! RC4 has no IV; restarting it would cost OpenSSL a key schedule for each message. So its stream simply continues,
//! which favours it.

mod ffi;
mod keys;

use super::super::SpeedError;
use super::super::public_key::work::StepTask;
use super::super::work::{AAD, Done, Handler, Runner, Sealed, Task, iv, nonce, one_by_one, parts};
use super::Peer;
pub(super) use ffi::OpenSsl;
use ffi::{DIGEST_BYTES_MAX, TAG_BYTES};
use keys::Operation;
pub(super) use keys::{KEYS, Key, Kind};
use sealane_transform::{Algorithm, Cipher, Direction, Mode};
use std::hint::black_box;

/// The library's names of an algorithm.
enum Name {
    Hash(&'static str),
    Hmac(&'static str),
    Cipher(String),
    Aead(&'static str),
}

fn name(algorithm: Algorithm) -> Option<Name> {
    let name = algorithm.peers().openssl?;
    Some(match algorithm {
        Algorithm::Digest(digest) if digest.facts().key_bytes.max > 0 => Name::Hmac(name),
        Algorithm::Digest(_) => Name::Hash(name),
        // The bare name means triple DES in ECB.
        Algorithm::Cipher(Cipher::Block(_, Mode::Ecb)) if name.ends_with("EDE3") => {
            Name::Cipher(name.to_owned())
        }
        Algorithm::Cipher(Cipher::Block(_, mode)) => {
            Name::Cipher(format!("{name}-{}", mode.name().to_uppercase()))
        }
        Algorithm::Cipher(_) => Name::Cipher(name.to_owned()),
        Algorithm::Aead(_) | Algorithm::Gmac(_) => Name::Aead(name),
    })
}

/// Returns the version, if the library is available.
pub(super) fn version() -> Option<String> {
    OpenSsl::get().ok().map(|library| library.version().to_owned())
}

/// Returns whether this build of the library has the algorithm.
pub(super) fn has(algorithm: Algorithm) -> bool {
    let Ok(library) = OpenSsl::get() else { return false };
    match name(algorithm) {
        Some(Name::Hash(_) | Name::Hmac(_)) => true,
        Some(Name::Cipher(name)) => library.has_cipher(&name),
        Some(Name::Aead(name)) => library.has_cipher(name),
        None => false,
    }
}

/// Returns the library as a runner.
pub(super) fn runner() -> Result<Box<dyn Runner>, SpeedError> {
    Ok(Box::new(loaded()?))
}

/// Returns whether this build of the library computes the step of a public-key algorithm.
pub(super) fn has_step(algorithm: &str, step: &str) -> bool {
    OpenSsl::get().is_ok_and(|library| keys::has_step(library, algorithm, step))
}

/// Returns the library as a runner of public-key operations.
pub(super) fn runner_of_operations() -> Result<Box<dyn Runner<StepTask>>, SpeedError> {
    Ok(Box::new(loaded()?))
}

fn loaded() -> Result<Loaded, SpeedError> {
    OpenSsl::get().map(Loaded).map_err(|reason| Peer::OpenSsl.fails(reason))
}

/// Returns operations of a step, each with a key of its own.
fn operations(library: &'static OpenSsl, algorithm: &str, step: &str) -> Option<Vec<Operation>> {
    let keys = Key::all(library, Kind::of(algorithm, step)?)?;
    let others = keys.iter().cycle().skip(1);
    keys.iter().zip(others).map(|(key, other)| Operation::new(key, other, step)).collect()
}

struct Loaded(&'static OpenSsl);

impl Runner<StepTask> for Loaded {
    fn with(&self, load: &StepTask, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let wrong = || load.fails("OpenSSL does not compute it, or not rightly");
        let mut operations = operations(self.0, load.algorithm.name(), load.name()).ok_or_else(wrong)?;
        let (mut at, mut good) = (0, true);
        scope(&mut || {
            good &= operations[at].run();
            at = (at + 1) % operations.len();
            Done { messages: 1, bytes: 0 }
        });
        if good { Ok(()) } else { Err(wrong()) }
    }
}

impl Runner for Loaded {
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let refused = || Peer::OpenSsl.refuses(task.algorithm);
        let raw = task.keys();
        let encrypts = task.direction == Direction::Encrypt;
        let contexts = |name: &str| {
            let contexts = raw.iter().map(|key| self.0.cipher(name, key, encrypts));
            contexts.collect::<Option<Vec<_>>>().ok_or_else(refused)
        };
        let mut output = [0; DIGEST_BYTES_MAX];
        let mut count = 0_u64;
        match name(task.algorithm).ok_or_else(refused)? {
            Name::Hash(name) => {
                let mut hash = self.0.hash(name).ok_or_else(refused)?;
                one_by_one(task, Peer::OpenSsl, scope, |_, message| {
                    hash.digest(message, black_box(&mut output))
                })
            }
            Name::Hmac(name) => {
                let macs = raw.iter().map(|key| self.0.hmac(name, key)).collect::<Option<Vec<_>>>();
                let mut macs = macs.ok_or_else(refused)?;
                one_by_one(task, Peer::OpenSsl, scope, |index, message| {
                    let key = index % macs.len();
                    macs[key].tag(message, black_box(&mut output))
                })
            }
            Name::Cipher(name) => {
                let mut contexts = contexts(&name)?;
                let has_iv = task.algorithm.facts().iv_bytes > 0;
                one_by_one(task, Peer::OpenSsl, scope, |index, message| {
                    count += 1;
                    let key = index % contexts.len();
                    contexts[key].run(has_iv.then_some(&iv(count)), message)
                })
            }
            Name::Aead(name) if encrypts => {
                let mut contexts = contexts(name)?;
                let mut tag = [0; TAG_BYTES];
                one_by_one(task, Peer::OpenSsl, scope, |index, message| {
                    count += 1;
                    let key = index % contexts.len();
                    let (aad, data) = parts(task.algorithm, message);
                    contexts[key].seal(&nonce(count), aad, data, black_box(&mut tag))
                })
            }
            Name::Aead(name) => {
                let mut contexts = contexts(name)?;
                let Algorithm::Aead(aead) = task.algorithm else { return Err(refused()) };
                let mut sealed = Sealed::new(aead, task)?;
                let sealed: Vec<_> = sealed.messages(&task.lengths).collect();
                one_by_one(task, Peer::OpenSsl, scope, |index, message| {
                    let (source, tag) = sealed[index];
                    let key = index % contexts.len();
                    contexts[key].open(&nonce(index as u64), &AAD, source, tag, message)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_transform::{
        Aead, AeadJob, AeadKey, Buffer, CipherJob, CipherKey, Digest, DigestJob, DigestKey, Kernels,
    };

    /// Returns the library, unless it is missing and not required.
    fn library() -> Option<&'static OpenSsl> {
        match OpenSsl::get() {
            Ok(library) => Some(library),
            Err(reason) => {
                crate::skip::skip(reason);
                None
            }
        }
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|i| (i * 7 + 3) as u8).collect()
    }

    /// Both sides compute the same function.
    #[test]
    fn digests_are_ours() {
        let Some(library) = library() else { return };
        let kernels = Kernels::select(None, None).unwrap();
        for digest in Digest::ALL {
            let key = bytes(digest.facts().key_bytes.usual);
            let message = bytes(1408);
            let mut output = [0; DIGEST_BYTES_MAX];
            let done = match name(Algorithm::Digest(digest)) {
                Some(Name::Hash(name)) => library.hash(name).unwrap().digest(&message, &mut output),
                Some(Name::Hmac(name)) => library.hmac(name, &key).unwrap().tag(&message, &mut output),
                _ => continue,
            };
            let key = DigestKey::new(digest, &key).unwrap();
            let mut jobs = [DigestJob::new(&key, &message)];
            kernels.digest(digest, &mut jobs);
            assert!(done && output.starts_with(jobs[0].digest()), "{}", digest.name());
        }
    }

    #[test]
    fn ciphers_are_ours_both_ways() {
        let Some(library) = library() else { return };
        let kernels = Kernels::select(None, None).unwrap();
        let mut compared = 0;
        for algorithm in Algorithm::all() {
            let (Algorithm::Cipher(cipher), Some(Name::Cipher(name))) = (algorithm, name(algorithm)) else {
                continue;
            };
            if !library.has_cipher(&name) {
                continue;
            }
            compared += 1;
            let raw = bytes(cipher.facts().key_bytes.usual);
            let key = CipherKey::new(cipher, &raw).unwrap();
            let iv = [9; 16];
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let (mut mine, mut theirs) = (bytes(1408), bytes(1408));
                let mut jobs = [CipherJob::new(&key, &iv, Buffer::in_place(&mut mine))];
                kernels.cipher(cipher, direction, &mut jobs);
                let mut context = library.cipher(&name, &raw, direction == Direction::Encrypt).unwrap();
                let has_iv = cipher.facts().iv_bytes > 0;
                assert!(context.run(has_iv.then_some(&iv), &mut theirs), "{algorithm}");
                assert!(mine == theirs, "{algorithm} {direction:?}");
            }
        }
        assert!(compared >= 9, "{compared} ciphers compared");
    }

    /// It opens messages that we sealed, and rejects other tags.
    #[test]
    fn aeads_are_ours_both_ways() {
        let Some(library) = library() else { return };
        let kernels = Kernels::select(None, None).unwrap();
        for aead in Aead::ALL {
            let Some(Name::Aead(name)) = name(Algorithm::Aead(aead)) else { panic!("{}", aead.name()) };
            let raw = bytes(aead.key_bytes());
            let key = AeadKey::new(aead, &raw).unwrap();
            let (mut mine, mut theirs) = (bytes(1408), bytes(1408));
            let mut jobs = [AeadJob::seal(&key, nonce(7), &AAD, Buffer::in_place(&mut mine))];
            assert_eq!(kernels.seal(aead, &mut jobs), 0);
            let mut tag = jobs[0].tag;
            let mut found = [0; TAG_BYTES];
            let mut sealing = library.cipher(name, &raw, true).unwrap();
            assert!(sealing.seal(&nonce(7), &AAD, &mut theirs, &mut found));
            assert!(mine == theirs && tag == found, "{}", aead.name());
            let mut opening = library.cipher(name, &raw, false).unwrap();
            assert!(opening.open(&nonce(7), &AAD, &mine, &tag, &mut theirs), "{}", aead.name());
            assert_eq!(theirs, bytes(1408));
            tag[0] ^= 1;
            assert!(!opening.open(&nonce(7), &AAD, &mine, &tag, &mut theirs));
        }
    }

    /// Every operation checks itself when it is made.
    #[test]
    fn public_key_operations_are_right() {
        let Some(library) = library() else { return };
        let cases = [
            ("rsa-2048", &["private", "public"][..]),
            ("dh-2048", &["agree", "public", "agree-full", "public-full"]),
            ("dh-3072", &["agree", "public"]),
            ("x25519", &["agree", "public"]),
            ("ed25519", &["sign", "verify", "public"]),
            ("ecdh-p256", &["agree", "public"]),
            ("ecdsa-p256", &["sign", "verify"]),
        ];
        for (algorithm, steps) in cases {
            for step in steps {
                assert!(has_step(algorithm, step), "{algorithm} {step}");
                let found = operations(library, algorithm, step);
                let mut found = found.unwrap_or_else(|| panic!("{algorithm} {step}"));
                assert!(found.iter_mut().all(Operation::run) && found.len() == KEYS, "{algorithm} {step}");
            }
        }
        // Only later versions have these.
        for set in ["ml-dsa-44", "ml-dsa-65", "ml-dsa-87"] {
            if has_step(set, "sign") {
                let steps = ["generate", "sign", "verify"];
                assert!(steps.iter().all(|step| operations(library, set, step).is_some()), "{set}");
            }
        }
        for set in ["ml-kem-512", "ml-kem-768", "ml-kem-1024"] {
            if has_step(set, "encapsulate") {
                let steps = ["generate", "encapsulate", "decapsulate"];
                assert!(steps.iter().all(|step| operations(library, set, step).is_some()), "{set}");
            }
        }
        assert!(has_step("dh-4096", "agree-full") && !has_step("dh-4096", "agree"));
        assert!(!has_step("rsa-2048", "agree") && !has_step("x25519", "sign") && !has_step("none", "sign"));
    }

    #[test]
    fn what_the_library_lacks_is_not_there() {
        let Some(library) = library() else { return };
        assert!(library.hash("NO-SUCH-HASH").is_none());
        assert!(!library.has_cipher("NO-SUCH-CIPHER"));
        assert!(library.version().starts_with("OpenSSL "), "{}", library.version());
    }
}
