//! Private keys of ML-DSA as PKCS#8 in all forms: any bytes are an error, or a key that can be read back from its own form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_asymmetric::{ImportError, PrivateKey, der};
use sealane_client::{KeyKind, MlDsaSet};
use sealane_fuzz::within;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    // The key within the structure, or all of it.
    let pkcs8 = match MlDsaSet::ALL.get(usize::from(*first)) {
        Some(set) => {
            let algorithm = der::algorithm_of_key(KeyKind::MlDsa(*set));
            der::sequence(&[&der::integer(&[0]), &algorithm, &der::octet_string(rest)]).to_vec()
        }
        None => rest.to_vec(),
    };
    // An expanded key, its public half and copies of both.
    let imported = within((1 << 16) + 8 * pkcs8.len(), || PrivateKey::import(&pkcs8, None));
    match imported {
        Ok(key) => {
            let again = PrivateKey::of_pkcs8(&key.to_pkcs8().expect("it is written")).expect("it is read");
            assert_eq!((again.kind(), again.public()), (key.kind(), key.public()));
        }
        Err(ImportError::MlDsa(fault)) => assert!(fault.to_string().contains("ML-DSA")),
        Err(_) => assert!(usize::from(*first) >= MlDsaSet::ALL.len(), "the algorithm is known"),
    }
});
