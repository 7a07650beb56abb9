//! P-256's operations as jobs, and its facts.

use std::sync::Arc;

use arrayvec::ArrayVec;
use zeroize::Zeroizing;

use super::{P256PrivateKey, P256PublicKey, curve, native, reference};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    ASYMMETRIC_WAYS, Answer, AsymmetricDescriptor, AsymmetricFacts, AsymmetricOperation, AsymmetricStep,
    Class, Refusal, Task, WaysCosts, accepted, random, verified,
};
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::Isa;

/// The longest digest that an operation takes, in bytes; of a longer one the first 32 would count as well.
pub const P256_DIGEST_BYTES_MAX: usize = 64;

/// A message's digest, of 20 to [`P256_DIGEST_BYTES_MAX`] bytes.
pub type P256Digest = ArrayVec<u8, P256_DIGEST_BYTES_MAX>;

/// An operation on P-256.
pub enum Operation {
    /// The secret shared with a peer: the x coordinate of the shared point. It is refused as [`Refusal::BadInput`] if
    /// the peer's key is not a point of the curve.
    Agree {
        /// Our private key.
        key: Arc<P256PrivateKey>,
        /// The peer's point by SEC 1: 65 bytes, or 33 compressed.
        peer: ArrayVec<u8, 65>,
    },
    /// The public key of a private one, 65 bytes.
    Public {
        /// Our private key.
        key: Arc<P256PrivateKey>,
    },
    /// A signature: r and s, 32 bytes each, big-endian.
    Sign {
        /// The signer's private key.
        key: Arc<P256PrivateKey>,
        /// The digest of the message.
        digest: P256Digest,
        /// Random bytes that are mixed into the nonce (RFC 6979, section 3.6); without them the signature is
        /// deterministic. The bytes are a part of the job, so that it can run again with the same nonce.
        hedge: Option<[u8; 32]>,
    },
    /// No bytes if the signature is valid; it is refused as [`Refusal::NotVerified`] if not.
    Verify {
        /// The signer's key.
        key: Arc<P256PublicKey>,
        /// The digest of the message.
        digest: P256Digest,
        /// The signature: r and s.
        signature: [u8; 64],
    },
}

const PEERS: PeerNames = PeerNames::NONE.openssl("EC").aws_lc("P-256");

const FACTS: AsymmetricFacts = AsymmetricFacts {
    security_bits: 128,
    public_bytes: 65,
    answer_bytes: 64,
    standing: Standing::Current,
    source: "FIPS 186-5",
};

const PROMISES: &[Promise] = &[Promise::new("4p2564ways", "vpmadd52luq", 64)];

pub(crate) static ECDSA_P256: AsymmetricDescriptor = AsymmetricDescriptor {
    name: "ecdsa-p256",
    facts: FACTS,
    peers: PEERS,
    promises: PROMISES,
    steps: &[
        AsymmetricStep {
            name: "sign",
            sample: || Operation::Sign { key: sample_key(), digest: sample_digest(), hedge: None }.into(),
        },
        AsymmetricStep { name: "verify", sample: sample_verification },
    ],
};

pub(crate) static ECDH_P256: AsymmetricDescriptor = AsymmetricDescriptor {
    name: "ecdh-p256",
    facts: AsymmetricFacts { answer_bytes: 32, source: "SP 800-56A", ..FACTS },
    peers: PEERS,
    promises: PROMISES,
    steps: &[
        AsymmetricStep {
            name: "agree",
            sample: || {
                let peer = sample_key().public_key().to_bytes();
                Operation::Agree { key: sample_key(), peer: peer.into() }.into()
            },
        },
        AsymmetricStep { name: "public", sample: || Operation::Public { key: sample_key() }.into() },
    ],
};

fn sample_key() -> Arc<P256PrivateKey> {
    Arc::new(P256PrivateKey::generate().expect("the library ends the process before it fails"))
}

fn sample_public(key: &P256PrivateKey) -> P256PublicKey {
    P256PublicKey::new(&key.public_key().to_bytes()).expect("a point of the curve")
}

fn sample_digest() -> P256Digest {
    random::<32>().iter().copied().collect()
}

fn sample_verification() -> AsymmetricOperation {
    let (key, digest, mut signature) = (sample_key(), sample_digest(), [0; 64]);
    native::sign_native(&key, &digest, None, &mut signature);
    Operation::Verify { key: Arc::new(sample_public(&key)), digest, signature }.into()
}

impl Task for Operation {
    fn class(&self) -> Class {
        match self {
            Self::Agree { .. } => (Asymmetric::EcdhP256, 0),
            Self::Public { .. } => (Asymmetric::EcdhP256, 1),
            Self::Sign { .. } => (Asymmetric::EcdsaP256, 0),
            Self::Verify { .. } => (Asymmetric::EcdsaP256, 1),
        }
    }

    fn costs(&self, isa: Isa) -> Option<WaysCosts> {
        (isa == Isa::Avx512).then_some(match self {
            Self::Agree { .. } => WaysCosts::new(43_700, 70_000),
            Self::Public { .. } => WaysCosts::new(8_700, 14_300),
            Self::Sign { .. } => WaysCosts::new(15_400, 21_400),
            Self::Verify { .. } => WaysCosts::new(48_000, 83_000),
        })
    }

    fn reference(&self) -> Answer {
        match self {
            Self::Agree { key, peer } => {
                let mut shared = Zeroizing::new([0; 32]);
                accepted(reference::ecdh_reference(key, peer, &mut shared), &shared)
            }
            Self::Public { key } => {
                let point = curve::public_point(key.scalar());
                Ok(Zeroizing::new(P256PublicKey::of_point(point).to_bytes().to_vec()))
            }
            Self::Sign { key, digest, hedge } => {
                let mut signature = [0; 64];
                accepted(reference::sign_reference(key, digest, hedge.as_ref(), &mut signature), &signature)
            }
            Self::Verify { key, digest, signature } => {
                verified(reference::verify_reference(key, digest, signature))
            }
        }
    }

    fn native(&self) -> Answer {
        match self {
            Self::Agree { key, peer } => {
                let mut shared = Zeroizing::new([0; 32]);
                accepted(native::ecdh_native(key, peer, &mut shared), &shared)
            }
            Self::Public { key } => {
                let public = native::public_key_native(key).ok_or(Refusal::Fault)?;
                Ok(Zeroizing::new(public.to_bytes().to_vec()))
            }
            Self::Sign { key, digest, hedge } => {
                let mut signature = [0; 64];
                accepted(native::sign_native(key, digest, hedge.as_ref(), &mut signature), &signature)
            }
            Self::Verify { key, digest, signature } => {
                verified(native::verify_native(key, digest, signature))
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        use super::ecdsa_ways::{SignJob, VerifyJob, sign_ways, verify_ways};
        use super::ways::{EcdhJob, ecdh_ways, public_keys_ways};

        let mut shared = Zeroizing::new([[0; 32]; ASYMMETRIC_WAYS]);
        let mut signatures = [[0; 64]; ASYMMETRIC_WAYS];
        let mut agreements: ArrayVec<EcdhJob<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        let mut keys: ArrayVec<&P256PrivateKey, ASYMMETRIC_WAYS> = ArrayVec::new();
        let mut signings: ArrayVec<SignJob<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        let mut verifyings: ArrayVec<VerifyJob<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        for ((task, shared), signature) in tasks.iter().zip(shared.iter_mut()).zip(signatures.iter_mut()) {
            match task {
                Self::Agree { key, peer } => agreements.push(EcdhJob { key, peer, shared }),
                Self::Public { key } => keys.push(key),
                Self::Sign { key, digest, hedge } => {
                    signings.push(SignJob { key, digest, hedge: hedge.as_ref(), check: false, signature });
                }
                Self::Verify { key, digest, signature } => {
                    verifyings.push(VerifyJob { key, digest, signature })
                }
            }
        }
        let answers = answers.iter_mut().take(tasks.len());
        match tasks.first() {
            Some(Self::Agree { .. }) => {
                let valid = ecdh_ways(token, &mut agreements);
                drop(agreements);
                answers.zip(valid).zip(shared.iter()).for_each(|((a, valid), out)| *a = accepted(valid, out));
            }
            Some(Self::Public { .. }) => {
                for (answer, public) in answers.zip(public_keys_ways(token, &keys)) {
                    *answer = public.map(|key| Zeroizing::new(key.to_bytes().to_vec())).ok_or(Refusal::Fault);
                }
            }
            Some(Self::Sign { .. }) => {
                let valid = sign_ways(token, &mut signings);
                drop(signings);
                answers.zip(valid).zip(&signatures).for_each(|((a, valid), out)| *a = accepted(valid, out));
            }
            Some(Self::Verify { .. }) => {
                answers.zip(verify_ways(token, &verifyings)).for_each(|(a, valid)| *a = verified(valid));
            }
            None => {}
        }
    }
}
