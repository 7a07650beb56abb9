//! NIST's vectors of ML-DSA, by every tier, the parameter sets side by side. The head of the file says which they
//! are.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::parameters::TR_BYTES;
use super::{MlDsaMessage, MlDsaPrivateKey, MlDsaPublicKey, MlDsaSet, Operation};
use crate::asymmetric::nist::{Response, outcomes, responses};
use crate::asymmetric::{AsymmetricOperation, Refusal};
use crate::keccak::{SHAKE256, reference::hash};

const TEXT: &str = include_str!("../../vectors/ml-dsa.rsp");

fn set_of(test: &Response<'_>) -> MlDsaSet {
    MlDsaSet::ALL.into_iter().find(|set| test.section.ends_with(set.name())).expect("the name of a set")
}

fn condensed(bytes: &[u8]) -> [u8; 16] {
    hash(SHAKE256, &[bytes])
}

/// Returns the representative of a message of the internal interface.
fn representative(tr: &[u8], message: &[u8]) -> MlDsaMessage {
    MlDsaMessage::of_representative(&hash(SHAKE256, &[tr, message]))
}

#[test]
fn key_pairs_are_nists() {
    let tests = responses(TEXT, &["shake256(sk)"]);
    let generate = |test: &Response<'_>| -> AsymmetricOperation {
        Operation::Generate { set: set_of(test), seed: Zeroizing::new(test.array("seed")) }.into()
    };
    let made = outcomes(tests.iter().map(generate).collect(), 1);
    assert_eq!(made.len(), 18);
    for (test, made) in tests.iter().zip(made) {
        let made = made.unwrap();
        let (public, private) = made.split_at(set_of(test).public_bytes());
        assert_eq!(condensed(public), test.array("shake256(pk)"));
        assert_eq!(condensed(private), test.array("shake256(sk)"));
    }
}

#[test]
fn signatures_are_nists() {
    let tests = responses(TEXT, &["shake256(signature)"]);
    let sign = |test: &Response<'_>| -> AsymmetricOperation {
        let key = MlDsaPrivateKey::from_expanded(set_of(test), &test.bytes("sk")).unwrap();
        let message = representative(&key.expanded()[64..][..TR_BYTES], &test.bytes("message"));
        let random = Zeroizing::new(test.array("rnd"));
        Operation::Sign { key: Arc::new(key), message, random }.into()
    };
    let made = outcomes(tests.iter().map(sign).collect(), 1);
    assert_eq!(made.len(), 6);
    for (test, made) in tests.iter().zip(made) {
        assert_eq!(condensed(&made.unwrap()), test.array("shake256(signature)"), "{}", test.section);
    }
}

#[test]
fn verifications_are_nists() {
    let tests: Vec<_> = responses(TEXT, &["Result"]);
    let verify = |test: &Response<'_>| -> AsymmetricOperation {
        let key = MlDsaPublicKey::new(set_of(test), &test.bytes("pk")).unwrap();
        let tr = hash::<TR_BYTES>(SHAKE256, &[key.as_bytes()]);
        let message = representative(&tr, &test.bytes("message"));
        Operation::Verify { key: Arc::new(key), message, signature: test.bytes("signature") }.into()
    };
    let found = outcomes(tests.iter().map(verify).collect(), 1);
    let mut valid = 0;
    for (test, found) in tests.iter().zip(&found) {
        let expected = if test.passes() { Ok(Vec::new()) } else { Err(Refusal::NotVerified) };
        assert_eq!(*found, expected, "{}", test.section);
        valid += usize::from(test.passes());
    }
    assert_eq!((found.len(), valid), (15, 3));
}
