//! Keys of ML-DSA: what is long of them finds its place, and signatures that wait are made side by side.

use super::common::Engine;
use super::skip;
use sealane_asymmetric::{PrivateKey, PublicKey, Verification, der};
use sealane_client::setup::{Ask, Told};
use sealane_client::{Channel, ClientError, KeyKind, MlDsaSet, Operation, Refusal, Source, Status};
use sealane_service::Kernels;
use sealane_transform::Isa;
use std::collections::BTreeMap;

const SIGN: Operation = Operation::SignMlDsa { is_deterministic: false };

/// Forty public halves have more bytes than a message.
#[test]
fn a_list_of_long_keys_comes_in_parts() {
    const KEYS: usize = 40;
    let (_folder, engine) = Engine::fresh();
    let mut client = engine.client();
    let kind = KeyKind::MlDsa(MlDsaSet::MlDsa87);
    for number in 0..KEYS {
        client.generate(&format!("key-{number}"), kind).unwrap();
    }
    let keys = client.keys().unwrap();
    assert_eq!((keys.len(), keys.iter().all(|key| key.kind == kind)), (KEYS, true));
}

#[test]
fn signatures_that_wait_are_made_together_and_each_is_right() {
    let (_folder, engine) = Engine::fresh();
    let mut client = engine.client();
    for set in MlDsaSet::ALL {
        let name = KeyKind::MlDsa(set).to_string();
        let info = client.generate(&name, KeyKind::MlDsa(set)).unwrap();
        let public = PublicKey::of_der(&info.public).unwrap();
        let mut channel = Channel::connect(&engine.socket, "a test").unwrap();
        let (handle, _) = channel.open(Source::Name(name)).unwrap();
        let batches = client.status().unwrap().batches;
        // As many as have room, and then one more for each answer.
        let (mut waiting, mut done, mut submitted) = (BTreeMap::new(), 0u64, 0u64);
        while done < 100 {
            let mu = [submitted as u8; 64];
            match if submitted < 100 { channel.submit(handle, SIGN, &mu) } else { Err(ClientError::Full) } {
                Ok(ticket) => {
                    waiting.insert(ticket, mu);
                    submitted += 1;
                }
                Err(ClientError::Full) => {
                    channel.flush();
                    let (ticket, answer) = channel.take().unwrap();
                    let (mu, signature) = (waiting.remove(&ticket).unwrap(), answer.unwrap());
                    assert_eq!(signature.len(), set.signature_bytes());
                    assert!(public.verifies(Verification::MlDsa, &mu, &signature));
                    done += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        match Kernels::best().isa() {
            Isa::Portable => skip::skip("this processor computes one at a time"),
            _ => assert!(client.status().unwrap().batches - batches < 100, "none were made together"),
        }
        // A content that is no representative is refused, and harms no other.
        let refused = channel.call(handle, SIGN, &[0; 32]).unwrap();
        assert_eq!(refused, Err(Status::BadContent));
        assert_eq!(channel.call(handle, Operation::SignEd25519, &[0; 64]).unwrap(), Err(Status::WrongKind));
        assert!(channel.call(handle, SIGN, &[0; 64]).unwrap().is_ok());
    }
}

/// A key is imported in any form, comes back after a restart, and can be lent.
#[test]
fn keys_without_a_seed_are_kept_and_lent() {
    let (_folder, mut engine) = Engine::fresh();
    let set = MlDsaSet::MlDsa65;
    let theirs = sealane_transform::ml_dsa::MlDsaPrivateKey::from_seed(
        sealane_transform::ml_dsa::MlDsaSet::MlDsa65,
        &[7; 32],
    );
    let expanded = der::MlDsaParts { seed: None, expanded: Some(theirs.expanded()) };
    let pkcs8 = der::private_of_ml_dsa(set, expanded);
    let info = engine.client().import("web", &pkcs8, None).unwrap();
    assert_eq!(der::of_public(&info.public), Some(theirs.public().as_bytes()));
    engine.stop();
    engine.start_again();
    let mut client = engine.client();
    let key = client.open("web").unwrap();
    assert_eq!(key.info, info);
    let public = PublicKey::of_der(&info.public).unwrap();
    let signature = client.call(&key, SIGN, &[1; 64]).unwrap();
    assert!(public.verifies(Verification::MlDsa, &[1; 64], &signature));
    let mut channel = Channel::connect(&engine.socket, "a test").unwrap();
    let lent = PrivateKey::generate(KeyKind::MlDsa(set)).unwrap();
    let (handle, info) = channel.lend(&lent.to_pkcs8().unwrap()).unwrap();
    let signature = channel.call(handle, SIGN, &[1; 64]).unwrap().unwrap();
    assert!(PublicKey::of_der(&info.public).unwrap().verifies(Verification::MlDsa, &[1; 64], &signature));
    let wrong = der::private_of_ml_dsa(set, der::MlDsaParts { seed: Some(&[8; 32]), ..expanded });
    let Err(ClientError::Refused(Refusal::Damaged { why })) = client.import("mixed", &wrong, None) else {
        panic!("a key of two keys")
    };
    assert!(why.contains("different keys"), "{why}");
    assert!(
        matches!(channel.ask(&Ask::List { after: String::new() }), Ok(Told::Keys(keys)) if keys.len() == 1)
    );
}
