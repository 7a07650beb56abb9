//! The operations of finite-field Diffie-Hellman with keys and inputs of any bytes: every tier gives the same answer or refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::public_keys::{DH, agree};

fuzz_target!(|input: &[u8]| {
    agree(&DH, input);
});
