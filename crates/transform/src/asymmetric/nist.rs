//! NIST's vectors of public-key operations, by every tier, in an order that puts different keys and sizes side by side.
//!
//! The files in `vectors/` are NIST's response files, or parts of them; their heads say of which, and how many.
//! There is none for X25519, which NIST's server does not have: RFC 7748 and Wycheproof are tested with the algorithm.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest;
use zeroize::Zeroizing;

use super::{AsymmetricJob, AsymmetricOperation, Refusal};
use crate::dh::{DhExponent, DhGroup, DhPrivateKey};
use crate::dispatch::Kernels;
use crate::ed25519::{Ed25519Key, Ed25519PublicKey};
use crate::isa::Tier;
use crate::keccak::{SHAKE256, reference::hash};
use crate::ml_kem::{MlKemDecapsulationKey, MlKemEncapsulationKey, MlKemSet};
use crate::p256::{P256PrivateKey, P256PublicKey};
use crate::rsa::{RsaHash, RsaPrivateKey, pkcs1_block, pkcs1_verifies, pss_block, pss_verifies};
use crate::{dh, ed25519, ml_kem, p256, rsa};

/// A test of a response file: its section, and its fields with those before it.
pub(crate) struct Response<'a> {
    pub(crate) section: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
}

impl Response<'_> {
    /// Returns the bytes of a field; a field with an odd number of digits has a zero before them.
    pub(crate) fn bytes(&self, field: &str) -> Vec<u8> {
        let text = self.fields.get(field).unwrap_or_else(|| panic!("{}: no {field}", self.section));
        let padded = format!("{}{text}", if text.len() % 2 == 1 { "0" } else { "" });
        let byte = |at: usize| u8::from_str_radix(&padded[at..at + 2], 16).expect("hexadecimal digits");
        (0..padded.len()).step_by(2).map(byte).collect()
    }

    pub(crate) fn array<const N: usize>(&self, field: &str) -> [u8; N] {
        self.bytes(field).try_into().unwrap_or_else(|_| panic!("{}: {field} has not {N} bytes", self.section))
    }

    /// Returns whether the test has a field.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// Returns whether the result of the test is "pass".
    pub(crate) fn passes(&self) -> bool {
        self.fields["Result"].starts_with('P')
    }
}

/// Returns the tests of a response file, each of which ends with the field `last`.
pub(crate) fn responses<'a>(text: &'a str, last: &[&str]) -> Vec<Response<'a>> {
    let (mut section, mut fields, mut tests) = ("", BTreeMap::new(), Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            (section, fields) = (name, BTreeMap::new());
        } else if let Some((name, value)) = line.split_once(" = ") {
            fields.insert(name, value);
            if last.contains(&name) {
                tests.push(Response { section, fields: fields.clone() });
            }
        }
    }
    tests
}

/// Returns a message's digest; `name` is as in the files, with or without its hyphen.
pub(crate) fn digest(name: &str, message: &[u8]) -> Vec<u8> {
    let algorithm = match name.replace('-', "").as_str() {
        "SHA1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "SHA224" => &digest::SHA224,
        "SHA256" => &digest::SHA256,
        "SHA384" => &digest::SHA384,
        "SHA512" => &digest::SHA512,
        _ => panic!("{name} is no hash of the files"),
    };
    digest::digest(algorithm, message).as_ref().to_vec()
}

pub(crate) type Outcome = Result<Vec<u8>, Refusal>;

/// Returns the outcomes of all tiers, which are the same; the reference runs every `nth` operation.
pub(crate) fn outcomes(operations: Vec<AsymmetricOperation>, nth: usize) -> Vec<Outcome> {
    let mut jobs: Vec<(usize, AsymmetricJob)> =
        operations.into_iter().map(AsymmetricJob::new).enumerate().collect();
    // Neighbours in the file are apart.
    let count = jobs.len();
    jobs.sort_by_key(|(at, _)| (at * 31) % count);
    let mut run = |tier: Tier, nth: usize| {
        let kernels = Kernels::select(Some(tier), None).unwrap();
        jobs.iter_mut().for_each(|(_, job)| job.reset());
        kernels.asymmetric(jobs.iter_mut().step_by(nth).map(|(_, job)| job));
        let outcome =
            |(at, job): &(usize, AsymmetricJob)| (*at, job.answer().expect("it has run").map(<[u8]>::to_vec));
        jobs.iter().step_by(nth).map(outcome).collect::<Vec<(usize, Outcome)>>()
    };
    let native = run(Tier::Native, 1);
    assert_eq!(run(Tier::Batch, 1), native);
    let few: Vec<_> = native.iter().step_by(nth).cloned().collect();
    assert_eq!(run(Tier::Reference, nth), few);
    let sorted: BTreeMap<usize, Outcome> = native.into_iter().collect();
    sorted.into_values().collect()
}

/// Checks the answers of operations.
fn check(cases: Vec<(AsymmetricOperation, Outcome)>, nth: usize) -> usize {
    let (operations, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let found = outcomes(operations, nth);
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "operation {at}");
    }
    found.len()
}

fn verified(is_valid: bool) -> Outcome {
    if is_valid { Ok(Vec::new()) } else { Err(Refusal::NotVerified) }
}

#[test]
fn ecdh_on_p256() {
    let text = include_str!("../../vectors/ecdh-p256.rsp");
    let mut cases: Vec<(AsymmetricOperation, Outcome)> = Vec::new();
    for test in responses(text, &["ZIUT"]) {
        let key = Arc::new(P256PrivateKey::new(&test.array("dIUT")).unwrap());
        if test.section == "P-256" {
            let public = [&[4][..], &test.bytes("QIUTx"), &test.bytes("QIUTy")].concat();
            cases.push((p256::Operation::Public { key: Arc::clone(&key) }.into(), Ok(public)));
            let peer = [&[4][..], &test.bytes("QCAVSx"), &test.bytes("QCAVSy")].concat();
            let peer = peer.as_slice().try_into().unwrap();
            cases.push((p256::Operation::Agree { key, peer }.into(), Ok(test.bytes("ZIUT"))));
        }
    }
    assert_eq!(check(cases, 1), 50);
    let tests: Vec<_> = responses(text, &["Result"]);
    let operations = tests.iter().map(|test| {
        let peer = [&[4][..], &test.bytes("QCAVSx"), &test.bytes("QCAVSy")].concat();
        let key = Arc::new(P256PrivateKey::new(&test.array("dIUT")).unwrap());
        p256::Operation::Agree { key, peer: peer.as_slice().try_into().unwrap() }.into()
    });
    let found = outcomes(operations.collect(), 1);
    assert_eq!(found.len(), 30);
    // A test fails by the peer's point, or by a secret or an own key that was changed.
    let mut refused = 0;
    for (test, found) in tests.iter().zip(found) {
        let passes = found.as_ref().is_ok_and(|secret| *secret == test.bytes("ZIUT"));
        let reason = test.fields["Result"];
        assert_eq!(found.is_err(), reason.contains("fails PKV") && reason.contains("CAVS"), "{reason}");
        assert!(!test.passes() || passes, "{reason}");
        assert!(!reason.contains("Z changed") || !passes, "{reason}");
        refused += usize::from(found.is_err());
    }
    assert!(refused > 2, "{refused}");
}

#[test]
fn ecdsa_on_p256() {
    let text = include_str!("../../vectors/ecdsa-p256.rsp");
    let mut cases: Vec<(AsymmetricOperation, Outcome)> = Vec::new();
    let mut valid = 0;
    let made = responses(text, &["S"]).into_iter().filter(|test| test.has("k")).map(|test| (test, true));
    let given = responses(text, &["Result"]).into_iter().filter(|test| test.has("R"));
    for (test, is_valid) in made.chain(given.map(|test| {
        let passes = test.passes();
        (test, passes)
    })) {
        let (_, hash) = test.section.split_once(", ").expect("a hash");
        let point = [&[4][..], &test.bytes("Qx"), &test.bytes("Qy")].concat();
        let key = Arc::new(P256PublicKey::new(&point).unwrap());
        let digest = digest(hash, &test.bytes("Msg")).as_slice().try_into().unwrap();
        let signature = [test.array::<32>("R"), test.array::<32>("S")].concat().try_into().unwrap();
        cases.push((p256::Operation::Verify { key, digest, signature }.into(), verified(is_valid)));
        valid += usize::from(is_valid);
    }
    assert!(valid > 75 && cases.len() == 150, "{valid} of {}", cases.len());
    check(cases, 1);
    let points = responses(text, &["Result"]).into_iter().filter(|test| test.section == "points");
    let mut count = 0;
    for test in points {
        // A coordinate that is too long has more than 32 bytes.
        let point = [&[4][..], &test.bytes("Qx"), &test.bytes("Qy")].concat();
        assert_eq!(P256PublicKey::new(&point).is_ok(), test.passes(), "{}", test.fields["Result"]);
        count += 1;
    }
    assert_eq!(count, 12);
}

#[test]
fn ed25519_keys_and_signatures() {
    let text = include_str!("../../vectors/ed25519.rsp");
    let mut cases: Vec<(AsymmetricOperation, Outcome)> = Vec::new();
    let keys = responses(text, &["q"]);
    for test in keys.iter().filter(|test| test.section != "sigVer") {
        assert_eq!(Ed25519Key::from_seed(&test.array("d")).public(), &test.array("q"));
    }
    for test in responses(text, &["signature"]) {
        let (message, signature) = (test.bytes("message"), test.array("signature"));
        let key = Arc::new(Ed25519PublicKey::new(&test.array("q")));
        if test.section == "sigGen" {
            let signer = Arc::new(Ed25519Key::from_seed(&test.array("d")));
            let sign = ed25519::Operation::Sign { key: signer, message: message.clone() };
            cases.push((sign.into(), Ok(signature.to_vec())));
            cases.push((ed25519::Operation::Verify { key, message, signature }.into(), verified(true)));
        }
    }
    for test in responses(text, &["Result"]) {
        let (message, signature) = (test.bytes("message"), test.array("signature"));
        let key = Arc::new(Ed25519PublicKey::new(&test.array("q")));
        let verify = ed25519::Operation::Verify { key, message, signature };
        cases.push((verify.into(), verified(test.passes())));
    }
    assert_eq!(check(cases, 1), 25);
}

/// Runs the keys of a file, its encapsulations, and its decapsulations under a key that is given.
fn ml_kem(set: MlKemSet, text: &str) -> [usize; 3] {
    let condensed = |bytes: &[u8]| hash::<16>(SHAKE256, &[bytes]);
    let keys = responses(text, &["shake256(ek)"]);
    let made = outcomes(keys.iter().map(|test| ml_kem_pair(set, test)).collect(), 1);
    let made_count = made.len();
    for (test, made) in keys.iter().zip(made) {
        let key = MlKemDecapsulationKey::new(set, &made.unwrap()).unwrap().encapsulation_key();
        assert_eq!(condensed(key.as_bytes()), test.array("shake256(ek)"));
    }
    let tests = responses(text, &["k"]);
    let operations = tests.iter().map(|test| {
        let key = Arc::new(MlKemEncapsulationKey::new(set, &test.bytes("ek")).unwrap());
        ml_kem::Operation::Encapsulate { key, message: Zeroizing::new(test.array("m")) }.into()
    });
    let sent = outcomes(operations.collect(), 1);
    let sent_count = sent.len();
    for (test, sent) in tests.iter().zip(sent) {
        let sent = sent.unwrap();
        let (ciphertext, secret) = sent.split_at(set.ciphertext_bytes());
        assert_eq!(condensed(ciphertext), test.array("shake256(c)"));
        assert_eq!(secret, test.bytes("k"));
    }
    let decapsulation = |test: &Response<'_>| {
        let key = Arc::new(MlKemDecapsulationKey::new(set, &test.bytes("dk")).unwrap());
        let operation = ml_kem::Operation::Decapsulate { key, ciphertext: test.bytes("c") };
        (operation.into(), Ok(test.bytes("ss_d")))
    };
    let received = check(responses(text, &["ss_d"]).iter().map(decapsulation).collect(), 1);
    [made_count, sent_count, received]
}

fn ml_kem_pair(set: MlKemSet, test: &Response<'_>) -> AsymmetricOperation {
    let seed = [test.array::<32>("d"), test.array("z")].concat().try_into().unwrap();
    ml_kem::Operation::Generate { set, seed: Zeroizing::new(seed) }.into()
}

#[test]
fn ml_kem_512_and_1024() {
    let small = include_str!("../../vectors/ml-kem-512.rsp");
    let large = include_str!("../../vectors/ml-kem-1024.rsp");
    assert_eq!(ml_kem(MlKemSet::MlKem512, small), [25, 6, 6]);
    assert_eq!(ml_kem(MlKemSet::MlKem1024, large), [25, 6, 6]);
}

#[test]
fn ml_kem_768() {
    let (set, text) = (MlKemSet::MlKem768, include_str!("../../vectors/ml-kem-768.rsp"));
    assert_eq!(ml_kem(set, text), [25, 10, 6]);

    let tests = responses(text, &["ss_n"]);
    let keys = outcomes(tests.iter().map(|test| ml_kem_pair(set, test)).collect(), 1);
    let key = |key: Outcome| Arc::new(MlKemDecapsulationKey::new(set, &key.unwrap()).unwrap());
    let keys: Vec<_> = keys.into_iter().map(key).collect();
    let encapsulate = |(test, key): (&Response<'_>, &Arc<MlKemDecapsulationKey>)| {
        let key = Arc::new(key.encapsulation_key());
        ml_kem::Operation::Encapsulate { key, message: Zeroizing::new(test.array("msg")) }.into()
    };
    let sent = outcomes(tests.iter().zip(&keys).map(encapsulate).collect(), 1);
    let mut cases: Vec<(AsymmetricOperation, Outcome)> = Vec::new();
    for ((test, key), sent) in tests.iter().zip(&keys).zip(sent) {
        let sent = sent.unwrap();
        let (ciphertext, secret) = sent.split_at(set.ciphertext_bytes());
        assert_eq!(secret, test.bytes("ss"));
        for (ciphertext, secret) in [(ciphertext.to_vec(), "ss"), (test.bytes("ct_n"), "ss_n")] {
            let operation = ml_kem::Operation::Decapsulate { key: Arc::clone(key), ciphertext };
            cases.push((operation.into(), Ok(test.bytes(secret))));
        }
    }
    assert_eq!(check(cases, 1), 12);
}

#[test]
fn diffie_hellman_modulo_2048_bits() {
    let tests = responses(include_str!("../../vectors/dh.rsp"), &["Result"]);
    let public = |test: &Response<'_>| {
        let key = DhPrivateKey::new(DhGroup::Modp2048, DhExponent::Full, &test.bytes("x")).unwrap();
        dh::Operation::Public { key: Arc::new(key) }.into()
    };
    let found = outcomes(tests.iter().map(public).collect(), 1);
    let passes: Vec<bool> =
        tests.iter().zip(found).map(|(test, found)| found.unwrap() == test.bytes("y")).collect();
    assert_eq!(passes, [false, true, true, false]);
    assert!(tests.iter().zip(&passes).all(|(test, passes)| test.passes() == *passes));
}

/// A valid signature is the private operation's result; every signature's public operation decides.
#[test]
fn rsa_signatures() {
    let tests = responses(include_str!("../../vectors/rsa.rsp"), &["Result"]);
    let hash_of = |test: &Response<'_>| match test.fields["SHAAlg"] {
        "SHA1" => RsaHash::Sha1,
        "SHA256" => RsaHash::Sha256,
        "SHA384" => RsaHash::Sha384,
        _ => RsaHash::Sha512,
    };
    let mut keys = BTreeMap::new();
    let mut key_of = |test: &Response<'_>| {
        let key = keys.entry(test.bytes("d")).or_insert_with(|| {
            let [n, e, d, p, q, dp, dq, qinv] =
                ["n", "e", "d", "p", "q", "dP", "dQ", "qInv"].map(|field| test.bytes(field));
            let key = RsaPrivateKey::from_components(&n, &e, Some(&d), &p, &q, &dp, &dq, &qinv);
            Arc::new(key.unwrap())
        });
        Arc::clone(key)
    };
    let mut cases: Vec<(AsymmetricOperation, Outcome)> = Vec::new();
    let mut publics: Vec<AsymmetricOperation> = Vec::new();
    for test in &tests {
        let (key, hash) = (key_of(test), hash_of(test));
        let signature = Zeroizing::new(test.bytes("S"));
        publics.push(rsa::Operation::Public { key: key.share_public(), block: signature.clone() }.into());
        if test.passes() {
            let digest = digest(test.fields["SHAAlg"], &test.bytes("Msg"));
            let mut block = Zeroizing::new(vec![0; key.public().bytes()]);
            if test.section.starts_with("PSS") {
                pss_block(hash, hash, &digest, &test.bytes("SaltVal"), &mut block).unwrap();
            } else {
                pkcs1_block(hash, &digest, &mut block).unwrap();
            }
            cases.push((rsa::Operation::Private { key, block }.into(), Ok(signature.to_vec())));
        }
    }
    // The reference takes a hundred times as long as the others.
    assert_eq!(check(cases, 11), 44);
    let blocks = outcomes(publics, 1);
    assert_eq!(blocks.len(), 68);
    for (test, block) in tests.iter().zip(blocks) {
        let (hash, digest) = (hash_of(test), digest(test.fields["SHAAlg"], &test.bytes("Msg")));
        let is_valid = block.is_ok_and(|block| match test.fields.get("SaltVal") {
            Some(salt) => pss_verifies(hash, hash, &digest, salt.len() / 2, &block),
            None => pkcs1_verifies(hash, &digest, &block),
        });
        assert_eq!(is_valid, test.passes(), "{}: {}", test.section, test.fields["Result"]);
    }
}
