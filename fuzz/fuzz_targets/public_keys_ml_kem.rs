//! The operations of ML-KEM-768 with keys and inputs of any bytes: every tier gives the same answer or refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::public_keys::{ML_KEM, agree};

fuzz_target!(|input: &[u8]| {
    agree(&ML_KEM, input);
});
