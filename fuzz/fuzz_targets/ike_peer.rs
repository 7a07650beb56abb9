//! A peer that has the keys of its IKE SA and says whatever it likes in IKE_AUTH: payloads, fragments, EAP packets of every method,
//! certificates. Nothing of it proves who it is, and nothing stays.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::ike::follow;

fuzz_target!(|script: &[u8]| {
    follow(script);
});
