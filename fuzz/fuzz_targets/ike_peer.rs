//! A peer that has the keys of its IKE SA and sends arbitrary data in IKE_AUTH: payloads, fragments, EAP packets of
//! every method, certificates. None of it proves the peer's identity, and no state is left.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::ike::follow;

fuzz_target!(|script: &[u8]| {
    follow(script);
});
