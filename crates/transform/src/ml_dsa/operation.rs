//! ML-DSA's operations as jobs, and its facts.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::{
    Generate, ML_DSA_RANDOM_BYTES, ML_DSA_SEED_BYTES, MlDsaMessage, MlDsaPrivateKey, MlDsaPublicKey,
    MlDsaSet, Signing, Verifying, library, reference,
};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    Answer, AsymmetricDescriptor, AsymmetricFacts, AsymmetricOperation, AsymmetricStep, Class, LaneCosts,
    Refusal, Task, random, verified,
};
use crate::descriptor::PeerNames;
use crate::facts::Standing;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::Isa;

/// An operation of ML-DSA.
pub enum Operation {
    /// A key pair: the public key, then the expanded private key.
    Generate {
        /// The parameter set.
        set: MlDsaSet,
        /// Random bytes.
        seed: Zeroizing<[u8; ML_DSA_SEED_BYTES]>,
    },
    /// The signature of a message.
    Sign {
        /// The key.
        key: Arc<MlDsaPrivateKey>,
        /// The message.
        message: MlDsaMessage,
        /// Random bytes, which hedge the signature against faults and side channels, or zeros, which make it
        /// deterministic.
        random: Zeroizing<[u8; ML_DSA_RANDOM_BYTES]>,
    },
    /// No bytes if the signature is valid; it is refused as [`Refusal::NotVerified`] if not.
    Verify {
        /// The signer's key.
        key: Arc<MlDsaPublicKey>,
        /// The message.
        message: MlDsaMessage,
        /// The signature, of any length.
        signature: Vec<u8>,
    },
}

/// Returns the descriptor of a set.
const fn descriptor(
    set: MlDsaSet,
    name: &'static str,
    security_bits: usize,
    steps: &'static [AsymmetricStep; 3],
) -> AsymmetricDescriptor {
    AsymmetricDescriptor {
        name,
        facts: AsymmetricFacts {
            security_bits,
            public_bytes: set.public_bytes(),
            answer_bytes: set.signature_bytes(),
            standing: Standing::Current,
            source: "FIPS 204",
        },
        peers: PeerNames { openssl: Some(set.name()), aws_lc: Some(set.name()), ..PeerNames::NONE },
        promises: &[],
        steps,
    }
}

macro_rules! steps {
    ($set:ident) => {
        &[
            AsymmetricStep {
                name: "generate",
                sample: || Operation::Generate { set: MlDsaSet::$set, seed: Zeroizing::new(random()) }.into(),
            },
            AsymmetricStep { name: "sign", sample: || sample_signature(MlDsaSet::$set) },
            AsymmetricStep { name: "verify", sample: || sample_verification(MlDsaSet::$set) },
        ]
    };
}

pub(crate) static ML_DSA_44: AsymmetricDescriptor =
    descriptor(MlDsaSet::MlDsa44, "ml-dsa-44", 128, steps!(MlDsa44));
pub(crate) static ML_DSA_65: AsymmetricDescriptor =
    descriptor(MlDsaSet::MlDsa65, "ml-dsa-65", 192, steps!(MlDsa65));
pub(crate) static ML_DSA_87: AsymmetricDescriptor =
    descriptor(MlDsaSet::MlDsa87, "ml-dsa-87", 256, steps!(MlDsa87));

/// Makes the hedged signing of a random message of 64 bytes, as in `openssl speed`.
fn sample_signature(set: MlDsaSet) -> AsymmetricOperation {
    let key = Arc::new(MlDsaPrivateKey::from_seed(set, &Zeroizing::new(random())));
    let message = MlDsaMessage::new(&random::<64>());
    Operation::Sign { key, message, random: Zeroizing::new(random()) }.into()
}

fn sample_verification(set: MlDsaSet) -> AsymmetricOperation {
    let key = MlDsaPrivateKey::from_seed(set, &Zeroizing::new(random()));
    let message = MlDsaMessage::new(&random::<64>());
    let mut signature = vec![0; set.signature_bytes()];
    let mu = key.public().representative(&message);
    let rnd = &random();
    library::sign_native(&mut Signing { key: &key, mu, rnd, signature: &mut signature });
    let key = MlDsaPublicKey::new(set, key.public().as_bytes()).expect("a key that was just made");
    Operation::Verify { key: Arc::new(key), message, signature }.into()
}

/// Room for the answer to an operation.
struct Room {
    /// The public key of a pair, or the signature.
    public: Vec<u8>,
    /// The private key of a pair.
    private: Zeroizing<Vec<u8>>,
}

impl Operation {
    fn set(&self) -> MlDsaSet {
        match self {
            Self::Generate { set, .. } => *set,
            Self::Sign { key, .. } => key.set(),
            Self::Verify { key, .. } => key.set(),
        }
    }

    fn room(&self) -> Room {
        let (public, private) = match self {
            Self::Generate { set, .. } => (set.public_bytes(), set.private_bytes()),
            Self::Sign { key, .. } => (key.set().signature_bytes(), 0),
            Self::Verify { .. } => (0, 0),
        };
        Room { public: vec![0; public], private: Zeroizing::new(vec![0; private]) }
    }

    fn run(
        &self,
        generate: impl FnOnce(&mut Generate<'_>) -> bool,
        sign: impl FnOnce(&mut Signing<'_>) -> bool,
        verify: impl FnOnce(&Verifying<'_>) -> bool,
    ) -> Answer {
        let mut room = self.room();
        let Room { public, private } = &mut room;
        let is_done = match self {
            Self::Generate { set, seed } => generate(&mut Generate { set: *set, seed, public, private }),
            Self::Sign { key, message, random } => {
                let mu = key.public().representative(message);
                sign(&mut Signing { key, mu, rnd: random, signature: public })
            }
            Self::Verify { key, message, signature } => {
                let mu = key.representative(message);
                return verified(verify(&Verifying { key, mu, signature }));
            }
        };
        room.answer(is_done)
    }
}

impl Room {
    /// Returns the answer of an operation that has filled the room, if it is done.
    fn answer(mut self, is_done: bool) -> Answer {
        if !is_done {
            return Err(Refusal::Fault);
        }
        let mut answer = Zeroizing::new(Vec::with_capacity(self.public.len() + self.private.len()));
        answer.append(&mut self.public);
        answer.extend_from_slice(&self.private);
        Ok(answer)
    }
}

impl Task for Operation {
    fn class(&self) -> Class {
        let algorithm = match self.set() {
            MlDsaSet::MlDsa44 => Asymmetric::MlDsa44,
            MlDsaSet::MlDsa65 => Asymmetric::MlDsa65,
            MlDsaSet::MlDsa87 => Asymmetric::MlDsa87,
        };
        let step = match self {
            Self::Generate { .. } => 0,
            Self::Sign { .. } => 1,
            Self::Verify { .. } => 2,
        };
        (algorithm, step)
    }

    fn costs(&self, _: Isa) -> Option<LaneCosts> {
        None
    }

    fn reference(&self) -> Answer {
        self.run(
            |job| {
                reference::key_gen_internal(job);
                true
            },
            |job| reference::sign_internal(job).is_some(),
            reference::verify_internal,
        )
    }

    fn native(&self) -> Answer {
        self.run(library::generate_native, library::sign_native, library::verify_native)
    }

    #[cfg(target_arch = "x86_64")]
    fn lanes(_: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        answers.iter_mut().zip(tasks).for_each(|(answer, task)| *answer = task.native());
    }
}
