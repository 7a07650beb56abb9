//! The operations of X25519 with keys and inputs of any bytes: every tier gives the same answer or refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::public_keys::{X25519, agree};

fuzz_target!(|input: &[u8]| {
    agree(&X25519, input);
});
