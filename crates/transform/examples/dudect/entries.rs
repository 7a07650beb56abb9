//! The operations whose secrets are tested: of each, one that is always the same against ones that differ.
//!
//! Public parts on which the time may depend are the same in both classes: the matrix of ML-KEM, the modulus of RSA.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sealane_transform::dh::{self, DhExponent, DhGroup, DhPrivateKey};
use sealane_transform::ed25519::{self, Ed25519Key};
use sealane_transform::ml_kem::{self, MlKemDecapsulationKey, MlKemSet};
use sealane_transform::p256::{self, P256PrivateKey};
use sealane_transform::rsa::{self, RsaPrivateKey};
use sealane_transform::x25519::{self, X25519Key};
use sealane_transform::{AsymmetricJob, AsymmetricOperation, Kernels};
use zeroize::Zeroizing;

use crate::welch::Class;

/// Makes an operation with a secret.
type Build = Box<dyn Fn(&[u8]) -> AsymmetricOperation>;

/// An operation and the secret of it that differs.
pub(crate) struct Entry {
    /// The algorithm, the step and the secret.
    pub(crate) name: String,
    /// Makes a secret.
    pub(crate) secret: Box<dyn Fn(Class) -> Vec<u8>>,
    /// Makes an operation with a secret.
    pub(crate) build: Build,
}

fn entry(
    name: impl Into<String>,
    secret: impl Fn(Class) -> Vec<u8> + 'static,
    build: impl Fn(&[u8]) -> AsymmetricOperation + 'static,
) -> Entry {
    Entry { name: name.into(), secret: Box::new(secret), build: Box::new(build) }
}

/// An entry whose secret is any `N` bytes.
fn plain<const N: usize>(name: &str, build: impl Fn(&[u8; N]) -> AsymmetricOperation + 'static) -> Entry {
    entry(name, |class| secret::<N>(class).to_vec(), move |bytes| build(array(bytes)))
}

fn array<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.try_into().expect("the length of the entry's secrets")
}

/// Returns random bytes.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the library ends the process before it fails");
    bytes
}

/// Returns bytes that are always the same, or random ones.
fn secret<const N: usize>(class: Class) -> [u8; N] {
    match class {
        Class::Fixed => core::array::from_fn(|n| (n as u8).wrapping_mul(73).wrapping_add(5)),
        Class::Random => random(),
    }
}

/// Returns the answer to an operation that is not tested.
fn answer(operation: impl Into<AsymmetricOperation>) -> Vec<u8> {
    let mut job = AsymmetricJob::new(operation);
    Kernels::best().asymmetric([&mut job]);
    job.into_answer().expect("an operation without an error").to_vec()
}

/// Returns all entries.
pub(crate) fn all() -> Vec<Entry> {
    let mut all = Vec::from(ml_kem());
    all.extend(curves());
    all.push(plain("ed25519 sign: key", |seed| {
        let key = Arc::new(Ed25519Key::from_seed(seed));
        ed25519::Operation::Sign { key, message: vec![1; 64] }.into()
    }));
    all.extend(dh());
    all.push(rsa(aws_lc_rs::rsa::KeySize::Rsa2048, 2048));
    all
}

fn ml_kem() -> [Entry; 3] {
    let set = MlKemSet::MlKem768;
    let key = answer(ml_kem::Operation::Generate { set, seed: Zeroizing::new(random()) });
    let checked =
        move |key: &[u8]| Arc::new(MlKemDecapsulationKey::new(set, key).expect("a key that was just made"));
    let public = Arc::new(checked(&key).encapsulation_key());
    let sent = answer(ml_kem::Operation::Encapsulate {
        key: Arc::clone(&public),
        message: Zeroizing::new(random()),
    });
    let ciphertext = sent[..set.ciphertext_bytes()].to_vec();
    let given = ciphertext.clone();
    let original = key.clone();
    [
        // The secret vector and the seed of rejection; their public key stays, as decapsulation never compares them.
        entry(
            "ml-kem-768 decapsulate: key",
            move |class| {
                let mut key = original.clone();
                if class == Class::Random {
                    key[..1152].copy_from_slice(&random::<1152>());
                    key[2400 - 32..].copy_from_slice(&random::<32>());
                }
                key
            },
            move |key| ml_kem::Operation::Decapsulate { key: checked(key), ciphertext: given.clone() }.into(),
        ),
        entry(
            "ml-kem-768 decapsulate: rejection",
            move |class| if class == Class::Fixed { ciphertext.clone() } else { random::<1088>().to_vec() },
            move |ciphertext| {
                ml_kem::Operation::Decapsulate { key: checked(&key), ciphertext: ciphertext.to_vec() }.into()
            },
        ),
        plain("ml-kem-768 encapsulate: message", move |message| {
            let message = Zeroizing::new(*message);
            ml_kem::Operation::Encapsulate { key: Arc::clone(&public), message }.into()
        }),
    ]
}

fn curves() -> [Entry; 5] {
    let peer = random();
    let x25519 = |secret: &_| Arc::new(X25519Key::new(secret));
    let p256 = |secret: &_| Arc::new(P256PrivateKey::new(secret).expect("a number below the order"));
    let other: ArrayVec<u8, 65> = p256(&random()).public_key().to_bytes().into();
    [
        plain("x25519 agree: key", move |key| x25519::Operation::Agree { key: x25519(key), peer }.into()),
        plain("x25519 public: key", move |key| x25519::Operation::Public { key: x25519(key) }.into()),
        plain("p-256 agree: key", move |key| {
            p256::Operation::Agree { key: p256(key), peer: other.clone() }.into()
        }),
        plain("p-256 public: key", move |key| p256::Operation::Public { key: p256(key) }.into()),
        plain("p-256 sign: key and nonce", move |key| {
            let digest = [7; 32].into_iter().collect();
            p256::Operation::Sign { key: p256(key), digest, hedge: None }.into()
        }),
    ]
}

fn dh() -> [Entry; 2] {
    let dh = |exponent: &[u8; 32]| {
        Arc::new(DhPrivateKey::new(DhGroup::Modp2048, DhExponent::Short, exponent).expect("a short exponent"))
    };
    let peer = answer(dh::Operation::Public { key: dh(&random()) });
    [
        plain("dh-2048 agree: exponent", move |exponent| {
            dh::Operation::Agree { key: dh(exponent), peer: peer.clone() }.into()
        }),
        plain("dh-2048 public: exponent", move |exponent| dh::Operation::Public { key: dh(exponent) }.into()),
    ]
}

/// The block of one key's private operation: what a peer chooses, to learn the key from the time.
fn rsa(size: aws_lc_rs::rsa::KeySize, bits: usize) -> Entry {
    use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
    let pair = aws_lc_rs::rsa::KeyPair::generate(size).expect("a size of the library");
    let der: Pkcs8V1Der<'_> = pair.as_der().expect("memory");
    let key = Arc::new(RsaPrivateKey::from_der(der.as_ref()).expect("a key of the library"));
    entry(
        format!("rsa-{bits} private: block"),
        move |class| {
            let mut block = vec![0; bits / 8];
            block.as_chunks_mut::<32>().0.iter_mut().for_each(|part| *part = secret(class));
            block[0] &= 0x7f;
            block
        },
        move |block| {
            let block = Zeroizing::new(block.to_vec());
            rsa::Operation::Private { key: Arc::clone(&key), block }.into()
        },
    )
}
