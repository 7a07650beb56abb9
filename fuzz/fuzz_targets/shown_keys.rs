//! Keys as peers show them, files of identities, and signatures: a key has one encoding and one printed form, an identity has a
//! key that reads back, and no bytes are a signature of a key whose owner has signed nothing.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::frugally;
use sealane_peer::{Identity, PublicKey};

/// A key of each kind, which sign nothing.
static SILENT: LazyLock<[PublicKey; 2]> = LazyLock::new(|| {
    [Identity::generate(), Identity::generate_hybrid()].map(|made| made.expect("a key").public_key())
});

fuzz_target!(|input: &[u8]| {
    if let Some(key) = frugally(input.len(), || PublicKey::from_spki(input)) {
        assert_eq!(key.to_string().parse(), Ok(key));
        // It has no other encoding.
        assert_eq!(PublicKey::from_spki(&[input, &[0]].concat()), None);
        assert_eq!(PublicKey::from_spki(&input[..input.len() - 1]), None);
        assert!(!key.has_signed("fuzz", b"message", input));
    }
    if let Some(identity) = Identity::from_pem(input) {
        let key = identity.public_key();
        let signature = identity.sign("fuzz", input).expect("a whole key signs");
        assert!(key.has_signed("fuzz", input, &signature));
        assert!(SILENT.iter().all(|other| !other.has_signed("fuzz", input, &signature)));
    }
    assert!(SILENT.iter().all(|key| !key.has_signed("fuzz", b"message", input)));
});
