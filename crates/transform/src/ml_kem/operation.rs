//! ML-KEM-768's operations as jobs, and its facts.

use std::sync::Arc;

use arrayvec::ArrayVec;
use zeroize::Zeroizing;

use super::{
    Decapsulate, Encapsulate, Generate, ML_KEM_768_CIPHERTEXT_BYTES, ML_KEM_768_DECAPSULATION_KEY_BYTES,
    ML_KEM_768_ENCAPSULATION_KEY_BYTES, ML_KEM_768_SECRET_BYTES, ML_KEM_768_SEED_BYTES,
    MlKem768DecapsulationKey, MlKem768EncapsulationKey, library, reference,
};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    ASYMMETRIC_LANES, Answer, AsymmetricDescriptor, AsymmetricFacts, AsymmetricStep, Class, LaneCosts,
    Refusal, Task, random,
};
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::Isa;

/// An operation of ML-KEM-768.
pub enum Operation {
    /// A key pair: the bytes of the decapsulation key, which contain those of the encapsulation key.
    Generate {
        /// Random bytes: d, then z.
        seed: Zeroizing<[u8; ML_KEM_768_SEED_BYTES]>,
    },
    /// The ciphertext, then the shared secret.
    Encapsulate {
        /// The peer's key.
        key: Arc<MlKem768EncapsulationKey>,
        /// Random bytes, used once.
        message: Zeroizing<[u8; 32]>,
    },
    /// The shared secret.
    Decapsulate {
        /// Our private key.
        key: Arc<MlKem768DecapsulationKey>,
        /// The peer's ciphertext, of any content.
        ciphertext: Box<[u8; ML_KEM_768_CIPHERTEXT_BYTES]>,
    },
}

pub(crate) static ML_KEM_768: AsymmetricDescriptor = AsymmetricDescriptor {
    name: "ml-kem-768",
    facts: AsymmetricFacts {
        security_bits: 192,
        public_bytes: ML_KEM_768_ENCAPSULATION_KEY_BYTES,
        answer_bytes: ML_KEM_768_SECRET_BYTES,
        standing: Standing::Current,
        source: "FIPS 203",
    },
    peers: PeerNames { openssl: Some("ML-KEM-768"), aws_lc: Some("ML-KEM-768"), ..PeerNames::NONE },
    promises: &[Promise::new("6keccak5lanes", "vprolq", 64)],
    steps: &[
        AsymmetricStep {
            name: "generate",
            sample: || Operation::Generate { seed: Zeroizing::new(random()) }.into(),
        },
        AsymmetricStep {
            name: "encapsulate",
            sample: || {
                let key = Arc::new(sample_key().encapsulation_key());
                Operation::Encapsulate { key, message: Zeroizing::new(random()) }.into()
            },
        },
        AsymmetricStep {
            name: "decapsulate",
            sample: || {
                let key = Arc::new(sample_key());
                let (mut ciphertext, mut secret) = (Box::new([0; ML_KEM_768_CIPHERTEXT_BYTES]), [0; 32]);
                library::encapsulate_native(&mut Encapsulate {
                    key: &key.encapsulation_key(),
                    message: &random(),
                    ciphertext: &mut ciphertext,
                    secret: &mut secret,
                });
                Operation::Decapsulate { key, ciphertext }.into()
            },
        },
    ],
};

fn sample_key() -> MlKem768DecapsulationKey {
    let bytes = Operation::Generate { seed: Zeroizing::new(random()) }.native().expect("memory");
    MlKem768DecapsulationKey::new(&bytes).expect("a key that was just made")
}

/// Room for the answers of a batch: a decapsulation key, a ciphertext and a secret.
struct Room {
    encapsulation_key: [u8; ML_KEM_768_ENCAPSULATION_KEY_BYTES],
    decapsulation_key: Zeroizing<[u8; ML_KEM_768_DECAPSULATION_KEY_BYTES]>,
    ciphertext: [u8; ML_KEM_768_CIPHERTEXT_BYTES],
    secret: Zeroizing<[u8; ML_KEM_768_SECRET_BYTES]>,
}

impl Room {
    fn new() -> Self {
        Self {
            encapsulation_key: [0; ML_KEM_768_ENCAPSULATION_KEY_BYTES],
            decapsulation_key: Zeroizing::new([0; ML_KEM_768_DECAPSULATION_KEY_BYTES]),
            ciphertext: [0; ML_KEM_768_CIPHERTEXT_BYTES],
            secret: Zeroizing::new([0; ML_KEM_768_SECRET_BYTES]),
        }
    }

    /// Returns the answer to an operation that has filled the room.
    fn answer(&self, operation: &Operation) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match operation {
            Operation::Generate { .. } => self.decapsulation_key.to_vec(),
            Operation::Encapsulate { .. } => [&self.ciphertext[..], &self.secret[..]].concat(),
            Operation::Decapsulate { .. } => self.secret.to_vec(),
        })
    }
}

impl Operation {
    fn run(
        &self,
        generate: impl FnOnce(&mut Generate<'_>) -> bool,
        encapsulate: impl FnOnce(&mut Encapsulate<'_>) -> bool,
        decapsulate: impl FnOnce(&mut Decapsulate<'_>) -> bool,
    ) -> Answer {
        let mut room = Room::new();
        let Room { encapsulation_key, decapsulation_key, ciphertext, secret } = &mut room;
        let is_done = match self {
            Self::Generate { seed } => generate(&mut Generate { seed, encapsulation_key, decapsulation_key }),
            Self::Encapsulate { key, message } => {
                encapsulate(&mut Encapsulate { key, message, ciphertext, secret })
            }
            Self::Decapsulate { key, ciphertext } => {
                decapsulate(&mut Decapsulate { key, ciphertext, secret })
            }
        };
        if is_done { Ok(room.answer(self)) } else { Err(Refusal::Fault) }
    }
}

impl Task for Operation {
    fn class(&self) -> Class {
        let step = match self {
            Self::Generate { .. } => 0,
            Self::Encapsulate { .. } => 1,
            Self::Decapsulate { .. } => 2,
        };
        (Asymmetric::MlKem768, step)
    }

    fn costs(&self, isa: Isa) -> Option<LaneCosts> {
        // A pass costs more with every lane that is filled; with one it is the cheaper choice already.
        (isa == Isa::Avx512).then_some(match self {
            Self::Generate { .. } => LaneCosts::new(12_300, 10_000),
            Self::Encapsulate { .. } => LaneCosts::new(12_700, 10_300),
            Self::Decapsulate { .. } => LaneCosts::new(16_000, 11_600),
        })
    }

    fn reference(&self) -> Answer {
        self.run(
            |job| {
                reference::generate_reference(job);
                true
            },
            |job| {
                reference::encapsulate_reference(job);
                true
            },
            |job| {
                reference::decapsulate_reference(job);
                true
            },
        )
    }

    fn native(&self) -> Answer {
        self.run(library::generate_native, library::encapsulate_native, library::decapsulate_native)
    }

    #[cfg(target_arch = "x86_64")]
    fn lanes(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        let mut rooms: ArrayVec<Box<Room>, ASYMMETRIC_LANES> =
            tasks.iter().map(|_| Box::new(Room::new())).collect();
        let mut generates: ArrayVec<Generate<'_>, ASYMMETRIC_LANES> = ArrayVec::new();
        let mut encapsulates: ArrayVec<Encapsulate<'_>, ASYMMETRIC_LANES> = ArrayVec::new();
        let mut decapsulates: ArrayVec<Decapsulate<'_>, ASYMMETRIC_LANES> = ArrayVec::new();
        for (task, room) in tasks.iter().zip(&mut rooms) {
            let Room { encapsulation_key, decapsulation_key, ciphertext, secret } = &mut **room;
            match task {
                Self::Generate { seed } => {
                    generates.push(Generate { seed, encapsulation_key, decapsulation_key })
                }
                Self::Encapsulate { key, message } => {
                    encapsulates.push(Encapsulate { key, message, ciphertext, secret });
                }
                Self::Decapsulate { key, ciphertext } => {
                    decapsulates.push(Decapsulate { key, ciphertext, secret });
                }
            }
        }
        match tasks.first() {
            Some(Self::Generate { .. }) => super::lanes::generate_lanes(token, &mut generates),
            Some(Self::Encapsulate { .. }) => super::lanes::encapsulate_lanes(token, &mut encapsulates),
            Some(Self::Decapsulate { .. }) => super::lanes::decapsulate_lanes(token, &mut decapsulates),
            None => {}
        }
        drop((generates, encapsulates, decapsulates));
        for ((answer, task), room) in answers.iter_mut().zip(tasks).zip(&rooms) {
            *answer = Ok(room.answer(task));
        }
    }
}
