//! Keys of ML-DSA in all forms, of which AWS-LC reads what is written; parts that do not agree; what is kept prepared.

use super::*;
use crate::der::{element, octet_string, sequence};
use crate::library;
use crate::{ImportError, PrivateKey, PublicKey, Verification};
use proptest::collection::vec;
use proptest::prelude::*;
use sealane_client::Operation;
use sealane_client::key::pem;
use sealane_native::key::Key;

/// Returns the PKCS#8 of a key with this content, and what may follow it.
fn pkcs8(set: MlDsaSet, version: u8, content: &[u8], more: &[u8]) -> Vec<u8> {
    let algorithm = der::algorithm_of_key(KeyKind::MlDsa(set));
    sequence(&[&der::integer(&[version]), &algorithm, &octet_string(content), more]).to_vec()
}

/// Returns the seed of RFC 9881, appendix C, and its key.
fn example(set: MlDsaSet) -> ([u8; 32], MlDsaPrivateKey) {
    let seed = std::array::from_fn(|at| at as u8);
    (seed, MlDsaPrivateKey::from_seed(set_of(set), &seed))
}

fn both(seed: &[u8], expanded: &[u8]) -> Vec<u8> {
    sequence(&[&octet_string(seed), &octet_string(expanded)]).to_vec()
}

fn refused(bytes: &[u8]) -> MlDsaFault {
    match PrivateKey::import(bytes, None) {
        Err(ImportError::MlDsa(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_form_is_the_same_key() {
    for set in MlDsaSet::ALL {
        let (seed, key) = example(set);
        let public = der::public_of(KeyKind::MlDsa(set), key.public().as_bytes());
        let beside = element(PUBLIC, &[&[0], key.public().as_bytes()]);
        let attributes = element(ATTRIBUTES, &[]);
        let forms = [
            (pkcs8(set, 0, &element(SEED, &[&seed]), &[]), true),
            (pkcs8(set, 0, &octet_string(key.expanded()), &[]), false),
            (pkcs8(set, 0, &both(&seed, key.expanded()), &[]), true),
            (pkcs8(set, 0, &seed, &[]), true),
            (pkcs8(set, 0, key.expanded(), &[]), false),
            (pkcs8(set, 1, &element(SEED, &[&seed]), &beside), true),
            (pkcs8(set, 1, &element(SEED, &[&seed]), &[&attributes[..], &beside[..]].concat()), true),
        ];
        for (at, (form, has_seed)) in forms.iter().enumerate() {
            for bytes in [form.clone(), pem("PRIVATE KEY", form).into_bytes()] {
                let found = PrivateKey::import(&bytes, None).unwrap();
                assert_eq!((found.kind(), found.public()), (KeyKind::MlDsa(set), &public[..]), "form {at}");
                let written = found.to_pkcs8().unwrap();
                assert_eq!(*written, forms[usize::from(!has_seed)].0, "form {at}");
                // The library reads what is written, and finds the same public key.
                let theirs = Key::of_pkcs8(&written).unwrap();
                assert_eq!(
                    library::to_public_of(&theirs, found.kind()).as_deref(),
                    Some(&public[..]),
                    "form {at}"
                );
                assert_eq!(
                    (library::ml_dsa_set(&theirs), &library::expanded(&theirs).unwrap()[..]),
                    (Some(set), key.expanded())
                );
                let operation = Operation::SignMlDsa { is_deterministic: at % 2 == 0 };
                let signature = found.run(operation, &[7; MU_BYTES]).unwrap();
                let verifier = PublicKey::of_der(&public).unwrap();
                assert_eq!(verifier.der(), public);
                assert!(verifier.verifies(Verification::MlDsa, &[7; MU_BYTES], &signature));
                assert!(!verifier.verifies(Verification::MlDsa, &[8; MU_BYTES], &signature));
                assert!(!verifier.verifies(Verification::Ed25519, &[7; MU_BYTES], &signature));
            }
        }
    }
}

#[test]
fn the_lengths_are_those_of_the_kernels() {
    for set in MlDsaSet::ALL {
        let kernels = set_of(set);
        assert_eq!(set.name(), kernels.name());
        assert_eq!(
            (set.public_bytes(), set.signature_bytes()),
            (kernels.public_bytes(), kernels.signature_bytes())
        );
    }
}

#[test]
fn parts_that_do_not_agree_are_told_apart() {
    let set = MlDsaSet::MlDsa65;
    let (seed, key) = example(set);
    let other = [9; 32];
    assert_eq!(refused(&pkcs8(set, 0, &both(&other, key.expanded()), &[])), MlDsaFault::Mismatched { set });
    // The hash of the public key, and t0.
    for at in [70, key.expanded().len() - 1] {
        let mut expanded = key.expanded().to_vec();
        expanded[at] ^= 1;
        let inconsistent = MlDsaFault::Inconsistent { set };
        assert_eq!(refused(&pkcs8(set, 0, &octet_string(&expanded), &[])), inconsistent, "byte {at}");
        assert_eq!(refused(&pkcs8(set, 0, &both(&seed, &expanded), &[])), MlDsaFault::Mismatched { set });
    }
    let beside = element(PUBLIC, &[&[0], &vec![0; set.public_bytes()]]);
    assert_eq!(refused(&pkcs8(set, 1, &seed, &beside)), MlDsaFault::OtherPublic { set });
    let form = MlDsaFault::Form { set };
    let cut = &key.expanded()[1..];
    for content in [
        &seed[1..],
        cut,
        &element(SEED, &[&seed[1..]]),
        &octet_string(cut),
        &both(&seed, cut),
        &both(&seed[1..], cut),
    ] {
        assert_eq!(refused(&pkcs8(set, 0, content, &[])), form);
    }
    // The key of another set, a version that does not exist, and bytes behind.
    assert_eq!(
        refused(&pkcs8(MlDsaSet::MlDsa44, 0, key.expanded(), &[])),
        MlDsaFault::Form { set: MlDsaSet::MlDsa44 }
    );
    assert_eq!(refused(&pkcs8(set, 2, &seed, &[])), form);
    assert_eq!(refused(&[pkcs8(set, 0, &seed, &[]), vec![0]].concat()), form);
    assert!(form.to_string().contains("RFC 9881"), "{form}");
}

#[test]
fn a_key_signs_nothing_but_representatives() {
    let key = PrivateKey::generate(KeyKind::MlDsa(MlDsaSet::MlDsa44)).unwrap();
    let sign = Operation::SignMlDsa { is_deterministic: true };
    for length in [0, 32, MU_BYTES - 1, MU_BYTES + 1] {
        assert_eq!(key.run(sign, &vec![0; length]), Err(Status::BadContent));
    }
    assert_eq!(key.run(Operation::SignEd25519, &[0; MU_BYTES]), Err(Status::WrongKind));
    assert_eq!(key.run_bare(&[0; MU_BYTES]), Err(Status::WrongKind));
    let ed25519 = PrivateKey::generate(KeyKind::Ed25519).unwrap();
    assert_eq!(ed25519.run(sign, &[0; MU_BYTES]), Err(Status::WrongKind));
    let signature = key.run(sign, &[1; MU_BYTES]).unwrap();
    assert_eq!(key.run(sign, &[1; MU_BYTES]).unwrap(), signature);
    let hedged = Operation::SignMlDsa { is_deterministic: false };
    assert_ne!(key.run(hedged, &[1; MU_BYTES]).unwrap(), signature);
}

#[test]
fn a_public_key_makes_representatives() {
    let key = PrivateKey::generate(KeyKind::MlDsa(MlDsaSet::MlDsa44)).unwrap();
    let public = PublicKey::of_der(key.public()).unwrap();
    let mu = |context: &[u8], message: &[u8]| public.representative(context, message);
    assert_eq!(mu(&[], b"text"), mu(&[], b"text"));
    assert_ne!(mu(&[], b"text"), mu(b"t", b"ext"));
    assert!(mu(&[0; 255], b"text").is_some() && mu(&[0; 256], b"text").is_none());
    let ed25519 = PrivateKey::generate(KeyKind::Ed25519).unwrap();
    assert!(PublicKey::of_der(ed25519.public()).unwrap().representative(&[], b"text").is_none());
}

#[test]
fn the_keys_used_last_are_kept_prepared() {
    let key = Arc::new(example(MlDsaSet::MlDsa44).1);
    let mut prepared = Prepared::default();
    for id in 0..PREPARED_MAX as u64 {
        assert!(prepared.get(id).is_none());
        assert!(prepared.put(id, Arc::clone(&key)).is_none());
    }
    assert!(prepared.get(0).is_some());
    assert!(prepared.get(u64::MAX).is_none());
    assert!(prepared.put(u64::MAX, Arc::clone(&key)).is_some());
    assert!(prepared.get(1).is_none() && prepared.get(0).is_some());
    assert_eq!(prepared.keys.len(), PREPARED_MAX);
}

#[test]
fn a_key_that_is_dropped_is_prepared_no_more() {
    let (key, _) = MlDsaKey::generate(MlDsaSet::MlDsa44);
    key.sign(&[0; MU_BYTES], false).unwrap();
    let id = key.id;
    assert!(prepared().keys.contains_key(&id));
    drop(key);
    assert!(!prepared().keys.contains_key(&id));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A key's bytes with some of them altered, cut out or put in: what is read reads back from its own form.
    #[test]
    fn any_bytes_are_a_key_a_fault_or_none(
        form in 0..3usize,
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3usize), 0..4),
        is_near_the_start: bool,
    ) {
        let set = MlDsaSet::MlDsa44;
        let (seed, key) = example(set);
        let content = [element(SEED, &[&seed]).to_vec(), octet_string(key.expanded()).to_vec(), both(&seed, key.expanded())];
        let mut bytes = pkcs8(set, 0, &content[form], &[]);
        for (at, byte, what) in changes {
            let at = at.index(if is_near_the_start { bytes.len().min(40) } else { bytes.len() });
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        if let Some((_, Ok((found, public)))) = MlDsaKey::of_pkcs8(&bytes) {
            let (_, again) = MlDsaKey::of_pkcs8(&found.to_pkcs8()).unwrap();
            prop_assert_eq!(again.unwrap().1, public);
        }
    }
}
