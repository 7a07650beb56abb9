//! Identities of IKE as text and distinguished names in DER: a name that is taken from text prints back as an equal one, and what a
//! stranger sends is shown without control characters.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::frugally;
use sealane_ike::{Identity, wire::Identification};

/// The type of distinguished names in DER (RFC 7296, section 3.5).
const ID_DER_ASN1_DN: u8 = 9;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = str::from_utf8(bytes) {
        let identity = frugally(bytes.len(), || Identity::from_text(text));
        if let Identity::DistinguishedName(der) = &identity {
            let shown = frugally(8 * der.len(), || identity.to_string());
            assert_eq!(Identity::from_text(&shown), identity, "{shown:?}");
        }
        let mut other = identity.to_wire();
        if Identity::from_wire(&other).is_ok_and(|read| read == identity) {
            other.kind = other.kind.wrapping_add(1);
            assert!(Identity::from_wire(&other).map_or(true, |read| read != identity), "{text:?}");
        }
    }
    let wire = Identification { kind: ID_DER_ASN1_DN, data: bytes.to_vec() };
    if let Ok(identity) = Identity::from_wire(&wire) {
        let shown = frugally(8 * bytes.len(), || identity.to_string());
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert_eq!((identity.to_wire().data, &identity), (bytes.to_vec(), &identity.clone()));
    }
});
