//! ML-DSA's operations as jobs, and its facts.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::machine::{Machine, Portable};
use super::{
    Generate, ML_DSA_RANDOM_BYTES, ML_DSA_SEED_BYTES, MlDsaMessage, MlDsaPrivateKey, MlDsaPublicKey,
    MlDsaSet, Signing, Verifying, generating, library, reference, signing, verifying,
};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    Answer, AsymmetricDescriptor, AsymmetricOperation, AsymmetricStep, Class, Refusal, Task, WaysCosts,
    random, verified,
};
use crate::descriptor::Promise;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};

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
        /// The signer's key, prepared.
        key: Arc<MlDsaPrivateKey>,
        /// The bytes to sign with their context, or their representative.
        message: MlDsaMessage,
        /// Random bytes, which hedge the signature against faults and side channels, or zeros, which make it
        /// deterministic.
        random: Zeroizing<[u8; ML_DSA_RANDOM_BYTES]>,
    },
    /// No bytes if the signature is valid; it is refused as [`Refusal::NotVerified`] if not.
    Verify {
        /// The signer's key.
        key: Arc<MlDsaPublicKey>,
        /// The bytes that were signed with their context, or their representative.
        message: MlDsaMessage,
        /// The signature, of any length.
        signature: Vec<u8>,
    },
}

/// The transforms: a product of coefficients, with its reduction, is four of instructions. With AVX2 two of eight
/// layers are loops.
const PROMISES: [Promise; 3] = [
    Promise::new("6keccak4ways", "vprolq", 64),
    Promise::new("6ml_dsa6avx5129transform", "vpmuldq", 64).times(4 * 64),
    Promise::new("6ml_dsa4avx29transform", "vpmuldq", 32).times(4 * 24),
];

/// Returns the descriptor of a set.
const fn descriptor(
    set: MlDsaSet,
    name: &'static str,
    security_bits: usize,
    steps: &'static [AsymmetricStep],
) -> AsymmetricDescriptor {
    let bytes = [set.public_bytes(), set.signature_bytes()];
    AsymmetricDescriptor::of_set("FIPS 204", [name, set.name()], security_bits, bytes, &PROMISES, steps)
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
    Operation::sign(key, MlDsaMessage::new(&random::<64>())).into()
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

/// Computes tasks of one class by a machine.
fn together<M: Machine>(machine: M, tasks: &[&Operation], answers: &mut [Answer]) {
    let mut rooms: Vec<Room> = tasks.iter().map(|task| task.room()).collect();
    let mut generates = Vec::new();
    let mut signings = Vec::new();
    let mut verifyings = Vec::new();
    for (task, Room { public, private }) in tasks.iter().zip(&mut rooms) {
        match task {
            Operation::Generate { set, seed } => {
                generates.push(Generate { set: *set, seed, public, private });
            }
            Operation::Sign { key, message, random } => {
                let mu = key.public().representative(message);
                signings.push(Signing { key, mu, rnd: random, signature: public });
            }
            Operation::Verify { key, message, signature } => {
                verifyings.push(Verifying { key, mu: key.representative(message), signature });
            }
        }
    }
    if !verifyings.is_empty() {
        let valid = verifying::verify(machine, &verifyings);
        return answers.iter_mut().zip(valid).for_each(|(answer, valid)| *answer = verified(valid));
    }
    let mut made = vec![true; generates.len()];
    generating::generate(machine, &mut generates);
    made.extend(signing::sign(machine, &mut signings));
    drop((generates, signings));
    for ((answer, room), is_made) in answers.iter_mut().zip(rooms).zip(made) {
        *answer = room.answer(is_made);
    }
}

/// Room for the answer to an operation.
struct Room {
    /// The public key of a pair, or the signature.
    public: Vec<u8>,
    /// The private key of a pair.
    private: Zeroizing<Vec<u8>>,
}

impl Operation {
    /// Returns the signing of a message, hedged by new random bytes.
    pub fn sign(key: Arc<MlDsaPrivateKey>, message: MlDsaMessage) -> Self {
        Self::Sign { key, message, random: Zeroizing::new(random()) }
    }

    /// Returns the signing of a message that has one signature only. Faults of the machine, or what it shows while it
    /// signs the same again, endanger the key more than with random bytes.
    pub fn sign_deterministic(key: Arc<MlDsaPrivateKey>, message: MlDsaMessage) -> Self {
        Self::Sign { key, message, random: Zeroizing::new([0; ML_DSA_RANDOM_BYTES]) }
    }

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
    const HAS_GENERIC: bool = true;

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

    fn costs(&self, isa: Isa) -> Option<WaysCosts> {
        // By AWS-LC, and by a machine with a key that was prepared.
        let costs = |single_ns, own_ns| Some(WaysCosts::queued(single_ns, own_ns));
        match (isa, self) {
            (Isa::Portable, _) => None,
            (Isa::Avx512, Self::Generate { .. }) => costs(40_000, 31_000),
            // The matrix is nearly all of it, and AWS-LC samples as fast.
            (Isa::Avx2, Self::Generate { .. }) => None,
            (Isa::Avx512, Self::Sign { .. }) => costs(120_000, 57_000),
            (Isa::Avx2, Self::Sign { .. }) => costs(120_000, 75_000),
            (Isa::Avx512, Self::Verify { .. }) => costs(30_500, 7_600),
            (Isa::Avx2, Self::Verify { .. }) => costs(30_500, 9_000),
        }
    }

    /// The random bytes of a signature decide how many attempts are rejected.
    fn renewed(&self) -> Option<Self> {
        match self {
            Self::Sign { key, message, .. } => Some(Self::sign(Arc::clone(key), message.clone())),
            Self::Generate { .. } | Self::Verify { .. } => None,
        }
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

    fn generic(&self) -> Answer {
        let mut answer = [Err(Refusal::Fault)];
        together(Portable, &[self], &mut answer);
        let [answer] = answer;
        answer
    }

    fn native(&self) -> Answer {
        self.run(library::generate_native, library::sign_native, library::verify_native)
    }

    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        together(token, tasks, answers);
    }

    #[cfg(target_arch = "x86_64")]
    fn narrow_ways(token: Avx2, tasks: &[&Self], answers: &mut [Answer]) {
        // A public key that is used only once is not worth its preparation by four streams.
        let is_new = |task: &Self| matches!(task, Self::Verify { key, .. } if key.is_first_use());
        let (mut places, mut known) = (Vec::with_capacity(tasks.len()), Vec::with_capacity(tasks.len()));
        for (answer, task) in answers.iter_mut().zip(tasks) {
            if is_new(task) {
                *answer = task.native();
            } else {
                places.push(answer);
                known.push(*task);
            }
        }
        let mut found: Vec<Answer> = known.iter().map(|_| Err(Refusal::Fault)).collect();
        together(token, &known, &mut found);
        places.into_iter().zip(found).for_each(|(place, answer)| *place = answer);
    }
}
