//! X25519's operations as jobs, and its facts.

use std::sync::Arc;

use arrayvec::ArrayVec;
use zeroize::Zeroizing;

use super::{Agreement, PublicOf, X25519_BYTES, X25519Key, library, reference};
use crate::algorithm::Asymmetric;
use crate::asymmetric::{
    ASYMMETRIC_WAYS, Answer, AsymmetricDescriptor, AsymmetricFacts, AsymmetricStep, Class, Refusal, Task,
    WaysCosts, accepted, random,
};
use crate::descriptor::{PeerNames, Promise};
use crate::facts::Standing;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::Isa;

/// An operation of X25519.
pub enum Operation {
    /// The secret shared with a peer. It is refused as [`Refusal::BadInput`] if the peer's point is of low order.
    Agree {
        /// Our private key.
        key: Arc<X25519Key>,
        /// The peer's public key.
        peer: [u8; X25519_BYTES],
    },
    /// The public key of a private one.
    Public {
        /// Our private key.
        key: Arc<X25519Key>,
    },
}

pub(crate) static X25519: AsymmetricDescriptor = AsymmetricDescriptor {
    name: "x25519",
    facts: AsymmetricFacts {
        security_bits: 128,
        public_bytes: 32,
        answer_bytes: 32,
        standing: Standing::Current,
        source: "RFC 7748",
    },
    peers: PeerNames::NONE.openssl("X25519").aws_lc("X25519"),
    promises: &[Promise::new("6x255194ways", "vpmadd52luq", 64)],
    steps: &[
        AsymmetricStep {
            name: "agree",
            sample: || Operation::Agree { key: sample_key(), peer: random() }.into(),
        },
        AsymmetricStep { name: "public", sample: || Operation::Public { key: sample_key() }.into() },
    ],
};

fn sample_key() -> Arc<X25519Key> {
    Arc::new(X25519Key::new(&Zeroizing::new(random())))
}

impl Operation {
    fn run(&self, shared: fn(&mut Agreement<'_>) -> bool, public: fn(&mut PublicOf<'_>)) -> Answer {
        let mut out = Zeroizing::new([0; X25519_BYTES]);
        match self {
            Self::Agree { key, peer } => {
                if !shared(&mut Agreement { key, peer, shared: &mut out }) {
                    return Err(Refusal::BadInput);
                }
            }
            Self::Public { key } => public(&mut PublicOf { key, public: &mut out }),
        }
        Ok(Zeroizing::new(out.to_vec()))
    }
}

impl Task for Operation {
    fn class(&self) -> Class {
        (Asymmetric::X25519, u8::from(matches!(self, Self::Public { .. })))
    }

    fn costs(&self, isa: Isa) -> Option<WaysCosts> {
        (isa == Isa::Avx512).then_some(match self {
            Self::Agree { .. } => WaysCosts::new(24_200, 39_000),
            Self::Public { .. } => WaysCosts::new(7_400, 9_300),
        })
    }

    fn reference(&self) -> Answer {
        self.run(reference::shared, reference::public)
    }

    fn native(&self) -> Answer {
        self.run(library::shared, library::public)
    }

    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]) {
        let mut out = Zeroizing::new([[0; X25519_BYTES]; ASYMMETRIC_WAYS]);
        let mut are_accepted = [true; ASYMMETRIC_WAYS];
        let mut agreements: ArrayVec<Agreement<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        let mut publics: ArrayVec<PublicOf<'_>, ASYMMETRIC_WAYS> = ArrayVec::new();
        for (task, out) in tasks.iter().zip(out.iter_mut()) {
            match task {
                Self::Agree { key, peer } => agreements.push(Agreement { key, peer, shared: out }),
                Self::Public { key } => publics.push(PublicOf { key, public: out }),
            }
        }
        if !agreements.is_empty() {
            are_accepted = super::ways::shared(token, &mut agreements);
        }
        if !publics.is_empty() {
            super::ways::public(token, &mut publics);
        }
        drop((agreements, publics));
        for ((answer, out), is_accepted) in
            answers.iter_mut().zip(out.iter()).zip(are_accepted).take(tasks.len())
        {
            *answer = accepted(is_accepted, out);
        }
    }
}
