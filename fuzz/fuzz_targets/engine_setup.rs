//! Set-up messages of the engine service, its policy files, references to keys, and keys and certificates in other programs' formats: any bytes are an error, or a
//! value that can be read back from its own form.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use sealane_asymmetric::der;
use sealane_asymmetric::formats::{Found, look};
use sealane_client::Uri;
use sealane_client::key::all_of_pem;
use sealane_client::setup::{Ask, Told, decode, encode};
use sealane_fuzz::{frugally, within};
use sealane_service::Policy;
use sealane_service::policy::Names;
use serde::{Deserialize, Serialize};

/// Checks that a message can be read back from its bytes.
fn message<T: Serialize + for<'a> Deserialize<'a> + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = frugally(bytes.len(), || decode::<T>(bytes)) else { return };
    let again = encode(&message).expect("no longer than what was decoded");
    assert_eq!(decode::<T>(&again).as_ref(), Ok(&message));
}

fuzz_target!(|bytes: &[u8]| {
    message::<Ask>(bytes);
    message::<Told>(bytes);
    if let Some(Found::Pkcs8(pkcs8)) = look(bytes) {
        // It is a form of its own, which is not changed.
        assert!(!matches!(look(&pkcs8), Some(Found::Pkcs8(_))));
    }
    if let Some(found) = der::of_certificate(bytes) {
        let parts = [found.serial, found.issuer, found.subject, found.public];
        assert!(parts.iter().map(|part| part.len()).sum::<usize>() < bytes.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let names = Names::of("www:x:33:33::/:/bin/false\n", "www:x:33:\n");
    // The TOML parser keeps a tree of its input.
    let _ = within((1 << 20) + 400 * bytes.len(), || {
        Policy::parse(text, &names).map(|policy| policy.grant(33, 33))
    });
    assert!(all_of_pem("CERTIFICATE", text, 9).iter().map(Vec::len).sum::<usize>() <= text.len());
    let references = [text.parse::<Uri>(), Uri::of_pem(text)];
    for uri in references.into_iter().flatten() {
        assert_eq!(uri.to_string().parse().as_ref(), Ok(&uri));
        assert_eq!(Uri::of_pem(&uri.to_pem()).as_ref(), Ok(&uri));
    }
});
