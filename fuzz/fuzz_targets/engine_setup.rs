//! Set-up messages of the engine service, its policy files, and references to keys: any bytes are a value, which comes back from its own
//! form, or an error.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use sealane_client::Uri;
use sealane_client::setup::{Ask, Told, decode, encode};
use sealane_fuzz::{frugally, within};
use sealane_service::Policy;
use sealane_service::policy::Names;
use serde::{Deserialize, Serialize};

/// A message comes back from its bytes.
fn message<T: Serialize + for<'a> Deserialize<'a> + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = frugally(bytes.len(), || decode::<T>(bytes)) else { return };
    let again = encode(&message).expect("no longer than what was decoded");
    assert_eq!(decode::<T>(&again).as_ref(), Ok(&message));
}

fuzz_target!(|bytes: &[u8]| {
    message::<Ask>(bytes);
    message::<Told>(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let names = Names::of("www:x:33:33::/:/bin/false\n", "www:x:33:\n");
    // The parser of TOML keeps a tree of what it reads.
    let _ = within(1 << 20 | 400 * bytes.len(), || {
        Policy::parse(text, &names).map(|policy| policy.grant(33, 33))
    });
    let references = [text.parse::<Uri>(), Uri::of_pem(text)];
    for uri in references.into_iter().flatten() {
        assert_eq!(uri.to_string().parse().as_ref(), Ok(&uri));
        assert_eq!(Uri::of_pem(&uri.to_pem()).as_ref(), Ok(&uri));
    }
});
