//! Tests that reference operations have no branch and no address that depends on a secret: they run under valgrind, with
//! their secrets marked as undefined (the method of Langley's ctgrind).
//!
//! Valgrind does not know AVX-512 and need not run libraries: tier and instruction set are forced, so that what is
//! tested is the reference tier compiled for every machine of the target, and of ML-DSA also the operations with
//! prepared keys, whose source is that of its ways. Timing on a processor, of all tiers, is what the example `dudect`
//! tests; of ML-DSA's signatures it shows their challenges and hints, which are public, so they are not there.
#![cfg(target_os = "linux")]

#[path = "common/memcheck.rs"]
mod memcheck;
#[path = "../../../testing/skip.rs"]
mod skip;

use std::process::{Command, Output};
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use sealane_transform::dh::{DhExponent, DhGroup, DhPrivateKey};
use sealane_transform::ed25519::Ed25519Key;
use sealane_transform::ml_dsa::{MlDsaMessage, MlDsaPrivateKey, MlDsaSet};
use sealane_transform::ml_kem::{MlKemDecapsulationKey, MlKemEncapsulationKey, MlKemSet};
use sealane_transform::p256::P256PrivateKey;
use sealane_transform::rsa::RsaPrivateKey;
use sealane_transform::x25519::X25519Key;
use sealane_transform::{AsymmetricJob, AsymmetricOperation, Isa, Kernels, Tier};
use sealane_transform::{dh, ed25519, ml_dsa, ml_kem, p256, rsa, x25519};
use zeroize::Zeroizing;

/// The exit status of valgrind if it has reported errors.
const ERRORS_FOUND: i32 = 99;

/// Returns `N` bytes that differ, the same in every run.
fn bytes<const N: usize>(first: u8) -> [u8; N] {
    core::array::from_fn(|n| (n as u8).wrapping_mul(41) ^ first)
}

/// Returns the same bytes, as a secret.
fn secret<const N: usize>(first: u8) -> [u8; N] {
    let mut secret = bytes(first);
    memcheck::hide(&mut secret);
    secret
}

/// An operation under test.
struct Case {
    name: &'static str,
    /// The decisions by secrets that publish nothing but whether a key or a result is accepted, at most.
    accepting: usize,
    /// Makes the operation, with secrets that are undefined.
    make: fn() -> AsymmetricOperation,
    tier: Tier,
}

const fn case(name: &'static str, accepting: usize, make: fn() -> AsymmetricOperation) -> Case {
    Case { name, accepting, make, tier: Tier::Reference }
}

/// An operation with prepared keys: the kernels of the ways, compiled for every machine.
const fn prepared(name: &'static str, accepting: usize, make: fn() -> AsymmetricOperation) -> Case {
    Case { name, accepting, make, tier: Tier::Generic }
}

/// Whether the private key is a number in its range.
const KEY: usize = 1;
/// The same, whether the first nonce is a number below the order, and whether r and s are not zero.
const SIGNING: usize = KEY + 2;

/// Whether z and the low bits of the only attempt are accepted, whether c t0 is, and whether there are not too many
/// hints.
const ML_DSA_SIGNING: usize = 3;

const CASES: &[Case] = &[
    case("ml-kem-768 generate", 0, || ml_kem_generate(MlKemSet::MlKem768)),
    case("ml-kem-768 encapsulate", 0, || ml_kem_encapsulate(MlKemSet::MlKem768)),
    case("ml-kem-768 decapsulate", 0, || ml_kem_decapsulate(MlKemSet::MlKem768)),
    case("ml-kem-768 decapsulate, rejected", 0, || {
        decapsulate(&ml_kem_keys(MlKemSet::MlKem768).0, bytes::<1088>(4).to_vec())
    }),
    // Their noise, and their compression, differ from those of ML-KEM-768.
    case("ml-kem-512 generate", 0, || ml_kem_generate(MlKemSet::MlKem512)),
    case("ml-kem-512 decapsulate", 0, || ml_kem_decapsulate(MlKemSet::MlKem512)),
    case("ml-kem-1024 encapsulate", 0, || ml_kem_encapsulate(MlKemSet::MlKem1024)),
    case("ml-kem-1024 decapsulate", 0, || ml_kem_decapsulate(MlKemSet::MlKem1024)),
    case("ml-dsa-44 generate", 0, || ml_dsa_generate(MlDsaSet::MlDsa44)),
    case("ml-dsa-65 generate", 0, || ml_dsa_generate(MlDsaSet::MlDsa65)),
    case("ml-dsa-44 sign", ML_DSA_SIGNING, || ml_dsa_sign(MlDsaSet::MlDsa44)),
    case("ml-dsa-65 sign", ML_DSA_SIGNING, || ml_dsa_sign(MlDsaSet::MlDsa65)),
    prepared("ml-dsa-44 generate, prepared", 0, || ml_dsa_generate(MlDsaSet::MlDsa44)),
    prepared("ml-dsa-65 generate, prepared", 0, || ml_dsa_generate(MlDsaSet::MlDsa65)),
    // The low bits and z are two checks.
    prepared("ml-dsa-44 sign, prepared", ML_DSA_SIGNING + 1, || ml_dsa_sign(MlDsaSet::MlDsa44)),
    prepared("ml-dsa-65 sign, prepared", ML_DSA_SIGNING + 1, || ml_dsa_sign(MlDsaSet::MlDsa65)),
    // Whether the shared secret is not zero.
    case("x25519 agree", 1, || x25519::Operation::Agree { key: x25519_key(), peer: bytes(9) }.into()),
    case("x25519 public", 0, || x25519::Operation::Public { key: x25519_key() }.into()),
    case("p-256 agree", KEY, || {
        let other = P256PrivateKey::new(&bytes(10)).expect("a number below the order");
        let peer = other.public_key().to_bytes().into();
        p256::Operation::Agree { key: p256_key(), peer }.into()
    }),
    case("p-256 public", KEY, || p256::Operation::Public { key: p256_key() }.into()),
    case("p-256 sign", SIGNING, || sign(None)),
    case("p-256 sign, hedged", SIGNING, || sign(Some(secret(13)))),
    // Whether the shared secret is not 1.
    case("dh-2048 agree", KEY + 1, || {
        let peer = Arc::new(
            DhPrivateKey::new(DhGroup::Modp2048, DhExponent::Short, &bytes::<32>(18)).expect("a key"),
        );
        dh::Operation::Agree { key: dh_key(), peer: run(dh::Operation::Public { key: peer }.into()) }.into()
    }),
    case("dh-2048 public", KEY, || dh::Operation::Public { key: dh_key() }.into()),
    // Whether the result passed its check, in three places.
    case("rsa-2048 private", 3, || {
        let der = std::env::var(RSA_KEY).map_or_else(|_| rsa_key(), |list| numbers(&list));
        let key = Arc::new(RsaPrivateKey::from_der(&der).expect("a key of the library"));
        // The block alone is hidden: AWS-LC checks the numbers of the key, with decisions of its own.
        let mut block = Zeroizing::new(bytes::<256>(19).to_vec());
        block[0] = 0;
        memcheck::hide(&mut block);
        rsa::Operation::Private { key, block }.into()
    }),
    case("ed25519 sign", 0, || {
        let key = Arc::new(Ed25519Key::from_seed(&secret(14)));
        ed25519::Operation::Sign { key, message: bytes::<100>(15).to_vec() }.into()
    }),
];

/// Names the variable in which the program under valgrind gets an RSA key, its bytes as decimal numbers: it would need
/// most of a minute to make one.
const RSA_KEY: &str = "SEALANE_TEST_RSA_KEY";

/// Names the variable with the part of a child, and the parts.
const PART: &str = "SEALANE_TEST_PART";
const EVERY_OPERATION: &str = "every operation";
const A_BRANCH: &str = "a branch";
const AN_ADDRESS: &str = "an address";

/// Returns a new RSA key in PKCS #8.
fn rsa_key() -> Vec<u8> {
    let pair = KeyPair::generate(KeySize::Rsa2048).expect("a size of the library");
    let der: Pkcs8V1Der<'_> = pair.as_der().expect("memory");
    der.as_ref().to_vec()
}

/// Reads a list of numbers.
fn numbers(list: &str) -> Vec<u8> {
    list.split(',').map(|number| number.parse().expect("a number")).collect()
}

/// Returns a secret exponent.
fn dh_key() -> Arc<DhPrivateKey> {
    Arc::new(DhPrivateKey::new(DhGroup::Modp2048, DhExponent::Short, &secret::<32>(20)).expect("a key"))
}

/// Returns a signature with a secret key, and with bytes that are mixed into the nonce.
fn sign(hedge: Option<[u8; 32]>) -> AsymmetricOperation {
    let digest = bytes::<32>(11).into_iter().collect();
    p256::Operation::Sign { key: p256_key(), digest, hedge }.into()
}

/// Returns a secret key.
fn x25519_key() -> Arc<X25519Key> {
    Arc::new(X25519Key::new(&secret(16)))
}

/// Returns a secret key.
fn p256_key() -> Arc<P256PrivateKey> {
    Arc::new(P256PrivateKey::new(&secret(17)).expect("a number below the order"))
}

/// Returns a key pair that is not secret.
fn ml_kem_keys(set: MlKemSet) -> (MlKemDecapsulationKey, MlKemEncapsulationKey) {
    let bytes = run(ml_kem::Operation::Generate { set, seed: Zeroizing::new(bytes(5)) }.into());
    let key = MlKemDecapsulationKey::new(set, &bytes).expect("a key that was just made");
    let public = key.encapsulation_key();
    (key, public)
}

fn ml_kem_generate(set: MlKemSet) -> AsymmetricOperation {
    ml_kem::Operation::Generate { set, seed: Zeroizing::new(secret(1)) }.into()
}

fn ml_kem_encapsulate(set: MlKemSet) -> AsymmetricOperation {
    let key = Arc::new(ml_kem_keys(set).1);
    ml_kem::Operation::Encapsulate { key, message: Zeroizing::new(secret(2)) }.into()
}

fn ml_kem_decapsulate(set: MlKemSet) -> AsymmetricOperation {
    let (key, public) = ml_kem_keys(set);
    let sent = ml_kem::Operation::Encapsulate { key: Arc::new(public), message: Zeroizing::new(bytes(3)) };
    let answer = run(sent.into());
    decapsulate(&key, answer[..set.ciphertext_bytes()].to_vec())
}

/// Returns the generation of a key pair.
fn ml_dsa_generate(set: MlDsaSet) -> AsymmetricOperation {
    ml_dsa::Operation::Generate { set, seed: Zeroizing::new(secret(21)) }.into()
}

/// Returns a signature that takes one attempt, with a secret random value and a key whose secret parts are undefined:
/// K, s1, s2 and t0.
fn ml_dsa_sign(set: MlDsaSet) -> AsymmetricOperation {
    let key = MlDsaPrivateKey::from_seed(set, &bytes(22));
    let message = MlDsaMessage::new(&bytes::<100>(23));
    let random = (0..=u8::MAX).map(bytes).find(|random| key.attempts(&message, random) == Some(1));
    let mut random = Zeroizing::new(random.expect("one of many takes one attempt"));
    memcheck::hide(&mut *random);
    memcheck::hide_shared(&key.expanded()[32..64]);
    memcheck::hide_shared(&key.expanded()[128..]);
    ml_dsa::Operation::Sign { key: Arc::new(key), message, random }.into()
}

/// Returns the decapsulation with a key whose secret parts are undefined: its vector, and the seed of rejection.
fn decapsulate(key: &MlKemDecapsulationKey, ciphertext: Vec<u8>) -> AsymmetricOperation {
    let mut bytes = key.as_bytes().to_vec();
    // The vector is as long as that of the encapsulation key, which has a seed behind it.
    let (vector, rest) = bytes.split_at_mut(key.set().encapsulation_key_bytes() - 32);
    let seed_at = rest.len() - 32;
    memcheck::hide(vector);
    memcheck::hide(&mut rest[seed_at..]);
    let key =
        Arc::new(MlKemDecapsulationKey::new(key.set(), &bytes).expect("its public parts are as before"));
    ml_kem::Operation::Decapsulate { key, ciphertext }.into()
}

/// Runs an operation by the reference tier, and returns its answer, which is not secret any more.
fn run(operation: AsymmetricOperation) -> Vec<u8> {
    run_by(Tier::Reference, operation)
}

/// Runs an operation by a tier.
fn run_by(tier: Tier, operation: AsymmetricOperation) -> Vec<u8> {
    let kernels = Kernels::select(Some(tier), Some(Isa::Portable)).expect("every machine has them");
    let mut job = AsymmetricJob::new(operation);
    kernels.asymmetric([&mut job]);
    let answer = job.into_answer().expect("an operation without an error");
    memcheck::reveal(&answer);
    answer.to_vec()
}

/// Runs a child's part of this program under valgrind; returns nothing if that is not installed.
fn under_valgrind(part: &str) -> Option<Output> {
    let suppressions = concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/tests/common/memcheck.supp");
    let program = std::env::current_exe().expect("the path of this program");
    let key: Vec<String> = rsa_key().iter().map(u8::to_string).collect();
    let started = Command::new("valgrind")
        .env(RSA_KEY, key.join(","))
        .env(PART, part)
        .args(["--quiet", "--leak-check=no", "--expensive-definedness-checks=yes"])
        .args([suppressions, &format!("--error-exitcode={ERRORS_FOUND}")])
        .arg(program)
        .args(["--exact", "the_part_of_a_child", "--nocapture", "--test-threads=1"])
        .output();
    match started {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip::skip("valgrind is not installed");
            None
        }
        Err(error) => panic!("starting valgrind: {error}"),
    }
}

#[test]
fn reference_operations_do_not_decide_by_secrets() {
    if cfg!(debug_assertions) {
        return skip::say("built without optimisation: checks of overflow decide by secrets");
    }
    if cfg!(not(target_arch = "x86_64")) {
        return skip::say("the requests to valgrind are written for x86-64");
    }
    let Some(output) = under_valgrind(EVERY_OPERATION) else { return };
    let text = String::from_utf8_lossy(&output.stderr);
    let shown = String::from_utf8_lossy(&output.stdout);
    // Decisions that are allowed are errors to valgrind too: the test's own verdict counts.
    assert!(shown.contains("test result: ok. 1 passed"), "{}:\n{text}{shown}", output.status);
}

#[test]
fn a_decision_by_a_secret_is_found() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip::say("the requests to valgrind are written for x86-64");
    }
    for leak in [A_BRANCH, AN_ADDRESS] {
        let Some(output) = under_valgrind(leak) else { return };
        assert_eq!(output.status.code(), Some(ERRORS_FOUND), "{leak}: {output:?}");
    }
}

/// Runs the child's part that the other tests ask for; this test alone has none.
#[test]
fn the_part_of_a_child() {
    let Ok(part) = std::env::var(PART) else { return };
    assert!(memcheck::is_running(), "a child runs under valgrind");
    match part.as_str() {
        EVERY_OPERATION => every_operation(),
        A_BRANCH => branch(),
        AN_ADDRESS => address(),
        _ => panic!("no part {part}"),
    }
}

fn every_operation() {
    let mut leaks = 0;
    for case in CASES {
        let before = memcheck::errors();
        run_by(case.tier, (case.make)());
        let found = memcheck::errors() - before;
        println!("{}: {found} decisions by secrets, of which {} may be", case.name, case.accepting);
        leaks += usize::from(found > case.accepting);
    }
    assert_eq!(leaks, 0, "operations that decide by a secret");
}

fn branch() {
    let secret = secret::<1>(7);
    if core::hint::black_box(&secret)[0] & 1 == 1 {
        println!("odd");
    }
}

fn address() {
    let secret = secret::<1>(8);
    let table = bytes::<256>(9);
    core::hint::black_box(core::hint::black_box(&table)[usize::from(secret[0])]);
}
