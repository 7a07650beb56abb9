//! Diffie-Hellman's operations as jobs, and its facts.

use std::sync::Arc;

use arrayvec::ArrayVec;
use zeroize::Zeroizing;

use super::{DhExponent, DhGroup, DhJob, DhOutcome, DhPrivateKey, library, reference};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    ASYMMETRIC_WAYS, Answer, AsymmetricDescriptor, AsymmetricFacts, AsymmetricOperation, AsymmetricStep,
    Class, Refusal, Task, WaysCosts,
};
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::Isa;

/// An operation with a private exponent. A peer's value that is not of the group is refused as
/// [`Refusal::BadInput`].
pub enum Operation {
    /// The secret shared with a peer, as long as the group.
    Agree {
        /// The own exponent.
        key: Arc<DhPrivateKey>,
        /// The peer's value, as long as the group.
        peer: Vec<u8>,
    },
    /// The public value of an exponent.
    Public {
        /// The exponent.
        key: Arc<DhPrivateKey>,
    },
}

/// Defines the descriptor of a group.
macro_rules! descriptor {
    ($descriptor:ident, $name:literal, $group:ident, $security_bits:literal) => {
        pub(crate) static $descriptor: AsymmetricDescriptor = AsymmetricDescriptor {
            name: $name,
            facts: AsymmetricFacts {
                security_bits: $security_bits,
                public_bytes: DhGroup::$group.bytes(),
                answer_bytes: DhGroup::$group.bytes(),
                standing: Standing::Current,
                source: "RFC 3526",
            },
            peers: PeerNames::NONE.openssl("DH").aws_lc("BN_mod_exp_mont_consttime"),
            promises: &[Promise::new("10montgomery", "vpmadd52luq", 64)],
            steps: &[
                AsymmetricStep {
                    name: "agree",
                    sample: || sample_agreement(DhGroup::$group, DhExponent::Short),
                },
                AsymmetricStep {
                    name: "public",
                    sample: || sample_public(DhGroup::$group, DhExponent::Short),
                },
                AsymmetricStep {
                    name: "agree-full",
                    sample: || sample_agreement(DhGroup::$group, DhExponent::Full),
                },
                AsymmetricStep {
                    name: "public-full",
                    sample: || sample_public(DhGroup::$group, DhExponent::Full),
                },
            ],
        };
    };
}

descriptor!(DH_2048, "dh-2048", Modp2048, 112);
descriptor!(DH_3072, "dh-3072", Modp3072, 128);
descriptor!(DH_4096, "dh-4096", Modp4096, 152);

fn sample_key(group: DhGroup, length: DhExponent) -> Arc<DhPrivateKey> {
    Arc::new(DhPrivateKey::generate(group, length).expect("the library ends the process before it fails"))
}

fn sample_public(group: DhGroup, length: DhExponent) -> AsymmetricOperation {
    Operation::Public { key: sample_key(group, length) }.into()
}

fn sample_agreement(group: DhGroup, length: DhExponent) -> AsymmetricOperation {
    let peer = Operation::Public { key: sample_key(group, DhExponent::Short) };
    let peer = peer.native().expect("memory").to_vec();
    Operation::Agree { key: sample_key(group, length), peer }.into()
}

fn answer(outcome: DhOutcome, out: Zeroizing<Vec<u8>>) -> Answer {
    match outcome {
        DhOutcome::Done => Ok(out),
        DhOutcome::BadLength | DhOutcome::BadPeer => Err(Refusal::BadInput),
        DhOutcome::Pending | DhOutcome::Fault => Err(Refusal::Fault),
    }
}

impl Operation {
    const fn key(&self) -> &Arc<DhPrivateKey> {
        match self {
            Self::Agree { key, .. } | Self::Public { key } => key,
        }
    }

    /// Returns room for the answer.
    fn out(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(vec![0; self.key().group().bytes()])
    }

    fn job<'a>(&'a self, out: &'a mut [u8]) -> DhJob<'a> {
        match self {
            Self::Agree { key, peer } => DhJob::new(key, Some(peer), out),
            Self::Public { key } => DhJob::new(key, None, out),
        }
    }

    fn run(&self, run: fn(&mut DhJob<'_>)) -> Answer {
        let mut out = self.out();
        let mut job = self.job(&mut out);
        run(&mut job);
        let outcome = job.outcome;
        answer(outcome, out)
    }
}

impl Task for Operation {
    fn class(&self) -> Class {
        let algorithm = match self.key().group() {
            DhGroup::Modp2048 => Asymmetric::Dh2048,
            DhGroup::Modp3072 => Asymmetric::Dh3072,
            DhGroup::Modp4096 => Asymmetric::Dh4096,
        };
        let is_public = matches!(self, Self::Public { .. });
        let is_full = self.key().length() == DhExponent::Full;
        (algorithm, u8::from(is_public) + 2 * u8::from(is_full))
    }

    fn costs(&self, isa: Isa) -> Option<WaysCosts> {
        // The costs are those of the smallest group; the ratios of the others are no smaller.
        (isa == Isa::Avx512).then_some(match self {
            Self::Agree { key, .. } if key.length() == DhExponent::Full => {
                WaysCosts::new(1_946_000, 3_900_000)
            }
            Self::Agree { .. } => WaysCosts::new(273_000, 504_000),
            Self::Public { .. } => WaysCosts::new(269_000, 360_000),
        })
    }

    fn reference(&self) -> Answer {
        self.run(reference::run)
    }

    fn native(&self) -> Answer {
        self.run(library::run)
    }

    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        let mut out: ArrayVec<Zeroizing<Vec<u8>>, ASYMMETRIC_WAYS> =
            tasks.iter().map(|task| task.out()).collect();
        let mut jobs: ArrayVec<DhJob<'_>, ASYMMETRIC_WAYS> =
            tasks.iter().zip(&mut out).map(|(task, out)| task.job(out)).collect();
        super::ways::run(token, &mut jobs);
        let outcomes: ArrayVec<DhOutcome, ASYMMETRIC_WAYS> = jobs.iter().map(|job| job.outcome).collect();
        drop(jobs);
        for ((place, outcome), out) in answers.iter_mut().zip(outcomes).zip(out) {
            *place = answer(outcome, out);
        }
    }
}
