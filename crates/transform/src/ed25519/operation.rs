//! Ed25519's operations as jobs, and its facts.

use std::sync::Arc;

use arrayvec::ArrayVec;
use zeroize::Zeroizing;

use super::{ED25519_SIGNATURE_BYTES, Ed25519Key, Ed25519PublicKey, Signing, Verifying, library, reference};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    ASYMMETRIC_WAYS, Answer, AsymmetricDescriptor, AsymmetricFacts, AsymmetricOperation, AsymmetricStep,
    Class, Task, WaysCosts, random, verified,
};
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::Isa;

/// An operation of Ed25519.
pub enum Operation {
    /// The signature of a message.
    Sign {
        /// The signer's private key.
        key: Arc<Ed25519Key>,
        /// The whole message, not a digest of it.
        message: Vec<u8>,
    },
    /// No bytes if the signature is valid; it is refused as [`Refusal::NotVerified`] if not.
    Verify {
        /// The signer's key.
        key: Arc<Ed25519PublicKey>,
        /// The whole message, not a digest of it.
        message: Vec<u8>,
        /// The encoded point R, then s.
        signature: [u8; ED25519_SIGNATURE_BYTES],
    },
}

pub(crate) static ED25519: AsymmetricDescriptor = AsymmetricDescriptor {
    name: "ed25519",
    facts: AsymmetricFacts {
        security_bits: 128,
        public_bytes: 32,
        answer_bytes: ED25519_SIGNATURE_BYTES,
        standing: Standing::Current,
        source: "RFC 8032",
    },
    peers: PeerNames::NONE.openssl("ED25519").aws_lc("ED25519"),
    promises: &[Promise::new("7ed255194ways", "vpmadd52luq", 64)],
    steps: &[
        AsymmetricStep { name: "sign", sample: || sample_signature().0 },
        AsymmetricStep { name: "verify", sample: sample_verification },
    ],
};

/// Makes the signing of a random message of 64 bytes, as in `openssl speed`, and the key and the message.
fn sample_signature() -> (AsymmetricOperation, Arc<Ed25519Key>, Vec<u8>) {
    let key = Arc::new(Ed25519Key::from_seed(&Zeroizing::new(random())));
    let message = random::<64>().to_vec();
    (Operation::Sign { key: Arc::clone(&key), message: message.clone() }.into(), key, message)
}

fn sample_verification() -> AsymmetricOperation {
    let (_, key, message) = sample_signature();
    let mut signature = [0; ED25519_SIGNATURE_BYTES];
    library::sign(&mut Signing { key: &key, message: &message, signature: &mut signature });
    let key = Arc::new(Ed25519PublicKey::new(key.public()));
    Operation::Verify { key, message, signature }.into()
}

impl Operation {
    fn run(&self, sign: fn(&mut Signing<'_>), verify: fn(&Verifying<'_>) -> bool) -> Answer {
        match self {
            Self::Sign { key, message } => {
                let mut signature = [0; ED25519_SIGNATURE_BYTES];
                sign(&mut Signing { key, message, signature: &mut signature });
                Ok(Zeroizing::new(signature.to_vec()))
            }
            Self::Verify { key, message, signature } => {
                verified(verify(&Verifying { key, message, signature }))
            }
        }
    }
}

impl Task for Operation {
    fn class(&self) -> Class {
        (Asymmetric::Ed25519, u8::from(matches!(self, Self::Verify { .. })))
    }

    fn costs(&self, isa: Isa) -> Option<WaysCosts> {
        (isa == Isa::Avx512).then_some(match self {
            Self::Sign { .. } => WaysCosts::new(8_400, 11_500),
            Self::Verify { .. } => WaysCosts::new(36_500, 51_000),
        })
    }

    fn reference(&self) -> Answer {
        self.run(reference::sign, reference::verify)
    }

    fn native(&self) -> Answer {
        self.run(library::sign, library::verify)
    }

    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        let mut signatures = [[0; ED25519_SIGNATURE_BYTES]; ASYMMETRIC_WAYS];
        let mut signings: ArrayVec<Signing<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        let mut verifyings: ArrayVec<Verifying<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        for (task, out) in tasks.iter().zip(signatures.iter_mut()) {
            match task {
                Self::Sign { key, message } => signings.push(Signing { key, message, signature: out }),
                Self::Verify { key, message, signature } => {
                    verifyings.push(Verifying { key, message, signature });
                }
            }
        }
        if !verifyings.is_empty() {
            let valid = super::ways::verify(token, &verifyings);
            answers
                .iter_mut()
                .zip(valid)
                .take(tasks.len())
                .for_each(|(answer, valid)| *answer = verified(valid));
            return;
        }
        super::ways::sign(token, &mut signings);
        drop(signings);
        for (answer, signature) in answers.iter_mut().zip(signatures).take(tasks.len()) {
            *answer = Ok(Zeroizing::new(signature.to_vec()));
        }
    }
}
