//! The operations of ECDH on P-256 with keys and inputs of any bytes: every tier gives the same answer or refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::public_keys::{ECDH_P256, agree};

fuzz_target!(|input: &[u8]| {
    agree(&ECDH_P256, input);
});
