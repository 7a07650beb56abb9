//! RSA's operations as jobs, and its facts.

use std::sync::{Mutex, PoisonError};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use std::sync::Arc;

use arrayvec::ArrayVec;
use zeroize::Zeroizing;

use super::{PrivateJob, PublicJob, RsaOutcome, RsaPrivateKey, RsaPublicKey, library, reference};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    ASYMMETRIC_WAYS, Answer, AsymmetricDescriptor, AsymmetricFacts, AsymmetricStep, Class, Refusal, Task,
    WaysCosts, random,
};
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::Isa;

/// An operation with an RSA key on a block of as many bytes as the modulus has.
pub enum Operation {
    /// The private operation: of a padded digest it is the signature, of a ciphertext the padded text. A block that
    /// the operation does not take is refused as [`Refusal::BadInput`].
    Private {
        /// Our private key.
        key: Arc<RsaPrivateKey>,
        /// The block; a padding's random salt is in it, so the job can run again with the same answer.
        block: Zeroizing<Vec<u8>>,
    },
    /// The public operation: the padded digest of a signature, the ciphertext of a padded text.
    Public {
        /// The public key of the signer or of the receiver.
        key: Arc<RsaPublicKey>,
        /// The signature or the padded text.
        block: Zeroizing<Vec<u8>>,
    },
}

/// Defines the descriptor of a size.
macro_rules! descriptor {
    ($descriptor:ident, $name:literal, $bits:literal, $security_bits:literal) => {
        pub(crate) static $descriptor: AsymmetricDescriptor = AsymmetricDescriptor {
            name: $name,
            facts: AsymmetricFacts {
                security_bits: $security_bits,
                public_bytes: $bits / 8,
                answer_bytes: $bits / 8,
                standing: Standing::Current,
                source: "RFC 8017",
            },
            peers: PeerNames::NONE.openssl("RSA").aws_lc("RSA"),
            promises: &[Promise::new("10montgomery", "vpmadd52luq", 64)],
            steps: &[
                AsymmetricStep {
                    name: "private",
                    sample: || {
                        Operation::Private { key: sample_key($bits), block: sample_block($bits) }.into()
                    },
                },
                AsymmetricStep {
                    name: "public",
                    sample: || {
                        Operation::Public {
                            key: sample_key($bits).share_public(),
                            block: sample_block($bits),
                        }
                        .into()
                    },
                },
            ],
        };
    };
}

descriptor!(RSA_2048, "rsa-2048", 2048, 112);
descriptor!(RSA_3072, "rsa-3072", 3072, 128);
descriptor!(RSA_4096, "rsa-4096", 4096, 152);

/// The keys of samples, by size: a key of 4,096 bits takes a second to make.
static SAMPLES: [Mutex<Vec<Arc<RsaPrivateKey>>>; 3] = [const { Mutex::new(Vec::new()) }; 3];

/// Returns one of [`ASYMMETRIC_WAYS`] keys, which take turns.
fn sample_key(bits: usize) -> Arc<RsaPrivateKey> {
    let (size, place) = match bits {
        2048 => (KeySize::Rsa2048, 0),
        3072 => (KeySize::Rsa3072, 1),
        _ => (KeySize::Rsa4096, 2),
    };
    let mut samples = SAMPLES[place].lock().unwrap_or_else(PoisonError::into_inner);
    if samples.len() < ASYMMETRIC_WAYS {
        let pair = KeyPair::generate(size).expect("a size of the library");
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).expect("memory");
        let private = RsaPrivateKey::from_der(der.as_ref()).expect("a key of the library");
        samples.push(Arc::new(private));
    } else {
        samples.rotate_left(1);
    }
    Arc::clone(&samples[samples.len() - 1])
}

/// Returns a block of random bytes that is below every modulus.
fn sample_block(bits: usize) -> Zeroizing<Vec<u8>> {
    let random: Vec<u8> = (0..bits / 8 / 32).flat_map(|_| random::<32>()).collect();
    let mut block = Zeroizing::new(random);
    block[0] &= 0x7f;
    block
}

/// Returns the costs of a private operation, whose halves modulo either prime take a way each.
const fn two_ways(single_ns: u32, pass_ns: u32) -> WaysCosts {
    WaysCosts { width: ASYMMETRIC_WAYS / 2, ..WaysCosts::new(single_ns, pass_ns) }
}

fn answer(outcome: RsaOutcome, out: Zeroizing<Vec<u8>>) -> Answer {
    match outcome {
        RsaOutcome::Done => Ok(out),
        RsaOutcome::BadLength | RsaOutcome::OutOfRange => Err(Refusal::BadInput),
        RsaOutcome::Pending | RsaOutcome::Fault => Err(Refusal::Fault),
    }
}

impl Operation {
    fn bits(&self) -> usize {
        match self {
            Self::Private { key, .. } => key.public().bits(),
            Self::Public { key, .. } => key.bits(),
        }
    }

    /// Returns room for the answer.
    fn out(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(vec![0; self.bits() / 8])
    }

    fn run(&self, private: fn(&mut PrivateJob<'_>), public: fn(&mut PublicJob<'_>)) -> Answer {
        let mut out = self.out();
        let outcome = match self {
            Self::Private { key, block } => {
                let mut job = PrivateJob::new(key, block, &mut out);
                private(&mut job);
                job.outcome
            }
            Self::Public { key, block } => {
                let mut job = PublicJob::new(key, block, &mut out);
                public(&mut job);
                job.outcome
            }
        };
        answer(outcome, out)
    }
}

impl Task for Operation {
    fn class(&self) -> Class {
        let algorithm = match self.bits() {
            2048 => Asymmetric::Rsa2048,
            3072 => Asymmetric::Rsa3072,
            _ => Asymmetric::Rsa4096,
        };
        (algorithm, u8::from(matches!(self, Self::Public { .. })))
    }

    fn costs(&self, isa: Isa) -> Option<WaysCosts> {
        (isa == Isa::Avx512).then_some(match (self, self.bits()) {
            (Self::Private { .. }, 2048) => two_ways(232_000, 555_000),
            (Self::Private { .. }, 3072) => two_ways(675_000, 1_750_000),
            (Self::Private { .. }, _) => two_ways(1_430_000, 4_000_000),
            (Self::Public { .. }, 2048) => WaysCosts::new(14_900, 31_500),
            (Self::Public { .. }, 3072) => WaysCosts::new(31_800, 66_000),
            (Self::Public { .. }, _) => WaysCosts::new(55_300, 113_000),
        })
    }

    fn reference(&self) -> Answer {
        self.run(reference::private, reference::public)
    }

    fn native(&self) -> Answer {
        self.run(library::private, library::public)
    }

    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        let mut out: ArrayVec<Zeroizing<Vec<u8>>, ASYMMETRIC_WAYS> =
            tasks.iter().map(|task| task.out()).collect();
        let mut privates: ArrayVec<PrivateJob<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        let mut publics: ArrayVec<PublicJob<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        for (task, out) in tasks.iter().zip(&mut out) {
            match task {
                Self::Private { key, block } => privates.push(PrivateJob::new(key, block, out)),
                Self::Public { key, block } => publics.push(PublicJob::new(key, block, out)),
            }
        }
        if !privates.is_empty() {
            super::ways::private(token, &mut privates);
        }
        if !publics.is_empty() {
            super::ways::public(token, &mut publics);
        }
        let outcomes: ArrayVec<RsaOutcome, ASYMMETRIC_WAYS> =
            privates.iter().map(|job| job.outcome).chain(publics.iter().map(|job| job.outcome)).collect();
        drop((privates, publics));
        for ((place, outcome), out) in answers.iter_mut().zip(outcomes).zip(out) {
            *place = answer(outcome, out);
        }
    }
}
