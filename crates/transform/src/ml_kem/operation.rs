//! ML-KEM's operations as jobs, and its facts.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::arithmetic::Sampled;
#[cfg(target_arch = "x86_64")]
use super::machine::Machine;
#[cfg(target_arch = "x86_64")]
use super::ways::{decapsulate_ways, encapsulate_ways, generate_ways};
use super::{
    Decapsulate, Encapsulate, Generate, ML_KEM_SECRET_BYTES, ML_KEM_SEED_BYTES, MlKemDecapsulationKey,
    MlKemEncapsulationKey, MlKemEphemeralKey, MlKemSet, Secret, library, parts, reference,
};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    Answer, AsymmetricDescriptor, AsymmetricJob, AsymmetricOperation, AsymmetricStep, Class, Refusal, Task,
    WaysCosts, random,
};
use crate::descriptor::Promise;
use crate::dispatch::Kernels;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};

/// An operation of ML-KEM.
pub enum Operation {
    /// A key pair: the bytes of the decapsulation key, which contain those of the encapsulation key.
    Generate {
        /// The parameter set.
        set: MlKemSet,
        /// Random bytes: d, then z.
        seed: Zeroizing<[u8; ML_KEM_SEED_BYTES]>,
    },
    /// The ciphertext, then the shared secret.
    Encapsulate {
        /// The peer's key.
        key: Arc<MlKemEncapsulationKey>,
        /// Random bytes, used once.
        message: Zeroizing<[u8; 32]>,
    },
    /// The shared secret. A ciphertext of another length than the set's is refused.
    Decapsulate {
        /// Our private key.
        key: Arc<MlKemDecapsulationKey>,
        /// The peer's ciphertext, of any content.
        ciphertext: Vec<u8>,
    },
    /// A key pair of one exchange: the bytes of the encapsulation key.
    GenerateEphemeral {
        /// The pair is put in here.
        key: Arc<MlKemEphemeralKey>,
        /// Random bytes: d, then z.
        seed: Zeroizing<[u8; ML_KEM_SEED_BYTES]>,
    },
    /// The shared secret, by a pair whose generation has run. A ciphertext of another length than the set's is refused,
    /// and a pair that was not made.
    DecapsulateEphemeral {
        /// Our private key.
        key: Arc<MlKemEphemeralKey>,
        /// The peer's ciphertext, of any content.
        ciphertext: Vec<u8>,
    },
}

/// The permutations of both widths; of the transforms, products of coefficients. Layers of whole vectors are loops with
/// AVX2.
const PROMISES: [Promise; 4] = [
    Promise::new("6keccak4ways", "vprolq", 64),
    Promise::new("6keccak7abreast4avx2", "vpandn", 32).times(25),
    Promise::new("6ml_kem6vector9transform", "vpmulhw", 64).times(2 * 28),
    Promise::new("6ml_kem4avx29transform", "vpmulhw", 32).times(2 * 3),
];

/// Returns the descriptor of a set.
const fn descriptor(
    set: MlKemSet,
    name: &'static str,
    security_bits: usize,
    steps: &'static [AsymmetricStep],
) -> AsymmetricDescriptor {
    let bytes = [set.encapsulation_key_bytes(), ML_KEM_SECRET_BYTES];
    AsymmetricDescriptor::of_set("FIPS 203", [name, set.name()], security_bits, bytes, &PROMISES, steps)
}

macro_rules! steps {
    ($set:ident) => {
        &[
            AsymmetricStep {
                name: "generate",
                sample: || Operation::Generate { set: MlKemSet::$set, seed: Zeroizing::new(random()) }.into(),
            },
            AsymmetricStep { name: "encapsulate", sample: || sample_encapsulation(MlKemSet::$set) },
            AsymmetricStep { name: "decapsulate", sample: || sample_decapsulation(MlKemSet::$set) },
            AsymmetricStep { name: "decapsulate-own", sample: || sample_ephemeral(MlKemSet::$set) },
        ]
    };
}

pub(crate) static ML_KEM_512: AsymmetricDescriptor =
    descriptor(MlKemSet::MlKem512, "ml-kem-512", 128, steps!(MlKem512));
pub(crate) static ML_KEM_768: AsymmetricDescriptor =
    descriptor(MlKemSet::MlKem768, "ml-kem-768", 192, steps!(MlKem768));
pub(crate) static ML_KEM_1024: AsymmetricDescriptor =
    descriptor(MlKemSet::MlKem1024, "ml-kem-1024", 256, steps!(MlKem1024));

fn sample_key(set: MlKemSet) -> MlKemDecapsulationKey {
    let bytes = Operation::Generate { set, seed: Zeroizing::new(random()) }.native().expect("memory");
    MlKemDecapsulationKey::new(set, &bytes).expect("a key that was just made")
}

fn sample_encapsulation(set: MlKemSet) -> AsymmetricOperation {
    let key = Arc::new(sample_key(set).encapsulation_key());
    Operation::Encapsulate { key, message: Zeroizing::new(random()) }.into()
}

fn sample_decapsulation(set: MlKemSet) -> AsymmetricOperation {
    let key = Arc::new(sample_key(set));
    let ciphertext = sample_ciphertext(&key.encapsulation_key());
    Operation::Decapsulate { key, ciphertext }.into()
}

/// The decapsulation with a pair that the best tier has made.
fn sample_ephemeral(set: MlKemSet) -> AsymmetricOperation {
    let key = Arc::new(MlKemEphemeralKey::new(set));
    let seed = Zeroizing::new(random());
    let mut job = AsymmetricJob::new(Operation::GenerateEphemeral { key: Arc::clone(&key), seed });
    Kernels::best().asymmetric([&mut job]);
    let public = MlKemEncapsulationKey::new(set, key.encapsulation_key().expect("it has run"));
    let ciphertext = sample_ciphertext(&public.expect("a key that was just made"));
    Operation::DecapsulateEphemeral { key, ciphertext }.into()
}

fn sample_ciphertext(key: &MlKemEncapsulationKey) -> Vec<u8> {
    let mut ciphertext = vec![0; key.set().ciphertext_bytes()];
    let (message, mut secret) = (random(), [0; ML_KEM_SECRET_BYTES]);
    library::encapsulate_native(&mut Encapsulate {
        key,
        message: &message,
        ciphertext: &mut ciphertext,
        secret: &mut secret,
    });
    ciphertext
}

/// The costs of each set's steps: of one operation by AWS-LC, and of one of several by AVX2 and by AVX-512. It costs more with
/// every way that is filled, but never as much as another operation: two at once always gain.
const COSTS: [[[u32; 3]; 4]; 3] = [
    [[8_100, 8_500, 6_500], [8_800, 9_200, 7_000], [10_700, 11_000, 7_800], [10_700, 7_500, 6_000]],
    [[13_600, 14_000, 10_000], [14_200, 14_700, 10_300], [16_700, 16_000, 11_600], [16_800, 9_000, 7_000]],
    [[19_700, 19_000, 15_000], [20_600, 20_000, 15_500], [24_100, 22_500, 17_500], [24_100, 11_500, 9_500]],
];

/// Room for an answer: a decapsulation key and its matrix, or a ciphertext; and a secret.
struct Room {
    bytes: Zeroizing<Vec<u8>>,
    matrix: Vec<Sampled>,
    secret: Zeroizing<Secret>,
}

/// The job of a task, in its room.
enum Job<'a> {
    Generate(Generate<'a>),
    Encapsulate(Encapsulate<'a>),
    Decapsulate(Decapsulate<'a>),
}

impl Operation {
    fn set(&self) -> MlKemSet {
        match self {
            Self::Generate { set, .. } => *set,
            Self::Encapsulate { key, .. } => key.set(),
            Self::Decapsulate { key, .. } => key.set(),
            Self::GenerateEphemeral { key, .. } | Self::DecapsulateEphemeral { key, .. } => key.set(),
        }
    }

    /// Returns room for the answer; none if the operation is refused.
    fn room(&self) -> Option<Room> {
        let set = self.set();
        let bytes = match self {
            Self::Generate { .. } | Self::GenerateEphemeral { .. } => set.decapsulation_key_bytes(),
            Self::Encapsulate { .. } => set.ciphertext_bytes(),
            Self::Decapsulate { ciphertext, .. } | Self::DecapsulateEphemeral { ciphertext, .. }
                if ciphertext.len() != set.ciphertext_bytes() =>
            {
                return None;
            }
            Self::DecapsulateEphemeral { key, .. } if key.pair().is_none() => return None,
            Self::Decapsulate { .. } | Self::DecapsulateEphemeral { .. } => 0,
        };
        Some(Room {
            matrix: Vec::new(),
            bytes: Zeroizing::new(vec![0; bytes]),
            secret: Zeroizing::new([0; ML_KEM_SECRET_BYTES]),
        })
    }

    fn job<'a>(&'a self, Room { bytes, matrix, secret }: &'a mut Room) -> Job<'a> {
        match self {
            Self::Generate { set, seed } => {
                Job::Generate(Generate { set: *set, seed, decapsulation_key: bytes, matrix: None })
            }
            Self::Encapsulate { key, message } => {
                Job::Encapsulate(Encapsulate { key, message, ciphertext: bytes, secret })
            }
            Self::Decapsulate { key, ciphertext } => {
                Job::Decapsulate(Decapsulate { key, matrix: None, ciphertext, secret })
            }
            Self::GenerateEphemeral { key, seed } => Job::Generate(Generate {
                set: key.set(),
                seed,
                decapsulation_key: bytes,
                matrix: Some(matrix),
            }),
            Self::DecapsulateEphemeral { key, ciphertext } => {
                let pair = key.pair().expect("there is room only for a pair that was made");
                Job::Decapsulate(Decapsulate { key: &pair.key, matrix: pair.matrix(), ciphertext, secret })
            }
        }
    }

    /// Returns the answer to an operation that has filled the room.
    fn answer(&self, room: Room) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Generate { .. } => room.bytes,
            Self::Encapsulate { .. } => Zeroizing::new([&room.bytes[..], &room.secret[..]].concat()),
            Self::Decapsulate { .. } | Self::DecapsulateEphemeral { .. } => {
                Zeroizing::new(room.secret.to_vec())
            }
            Self::GenerateEphemeral { key, .. } => {
                key.fill(&room.bytes, room.matrix);
                let public = parts(key.set().parameters(), &room.bytes).encapsulation_key;
                Zeroizing::new(public.to_vec())
            }
        }
    }

    fn run(&self, compute: impl FnOnce(&mut Job<'_>) -> bool) -> Answer {
        let mut room = self.room().ok_or(Refusal::BadInput)?;
        if compute(&mut self.job(&mut room)) { Ok(self.answer(room)) } else { Err(Refusal::Fault) }
    }
}

/// Computes tasks of one class by a machine.
#[cfg(target_arch = "x86_64")]
fn together<M: Machine>(machine: M, tasks: &[&Operation], answers: &mut [Answer]) {
    let mut rooms: Vec<Option<Room>> = tasks.iter().map(|task| task.room()).collect();
    let (mut generates, mut encapsulates, mut decapsulates) = (Vec::new(), Vec::new(), Vec::new());
    for (task, room) in tasks.iter().zip(&mut rooms) {
        match room.as_mut().map(|room| task.job(room)) {
            Some(Job::Generate(job)) => generates.push(job),
            Some(Job::Encapsulate(job)) => encapsulates.push(job),
            Some(Job::Decapsulate(job)) => decapsulates.push(job),
            None => {}
        }
    }
    generate_ways(machine, &mut generates);
    encapsulate_ways(machine, &mut encapsulates);
    decapsulate_ways(machine, &mut decapsulates);
    drop((generates, encapsulates, decapsulates));
    for ((answer, task), room) in answers.iter_mut().zip(tasks).zip(rooms) {
        *answer = room.map(|room| task.answer(room)).ok_or(Refusal::BadInput);
    }
}

impl Task for Operation {
    fn class(&self) -> Class {
        let step = match self {
            Self::Generate { .. } | Self::GenerateEphemeral { .. } => 0,
            Self::Encapsulate { .. } => 1,
            Self::Decapsulate { .. } => 2,
            Self::DecapsulateEphemeral { .. } => 3,
        };
        let algorithm = match self.set() {
            MlKemSet::MlKem512 => Asymmetric::MlKem512,
            MlKemSet::MlKem768 => Asymmetric::MlKem768,
            MlKemSet::MlKem1024 => Asymmetric::MlKem1024,
        };
        (algorithm, step)
    }

    fn costs(&self, isa: Isa) -> Option<WaysCosts> {
        let [single_ns, narrow_ns, wide_ns] = COSTS[self.set() as usize][usize::from(self.class().1)];
        match isa {
            Isa::Portable => None,
            Isa::Avx2 => Some(WaysCosts::new(single_ns, narrow_ns)),
            Isa::Avx512 => Some(WaysCosts::new(single_ns, wide_ns)),
        }
    }

    fn reference(&self) -> Answer {
        self.run(|job| {
            match job {
                Job::Generate(job) => reference::generate_reference(job),
                Job::Encapsulate(job) => reference::encapsulate_reference(job),
                Job::Decapsulate(job) => reference::decapsulate_reference(job),
            }
            true
        })
    }

    fn native(&self) -> Answer {
        self.run(|job| match job {
            Job::Generate(job) => library::generate_native(job),
            Job::Encapsulate(job) => library::encapsulate_native(job),
            Job::Decapsulate(job) => library::decapsulate_native(job),
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        together(token, tasks, answers);
    }

    #[cfg(target_arch = "x86_64")]
    fn narrow_ways(token: Avx2, tasks: &[&Self], answers: &mut [Answer]) {
        together(token, tasks, answers);
    }
}
