//! The operations of ML-DSA with keys, messages and signatures of any bytes: every tier gives the same answer or refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::public_keys::{ML_DSA, agree};

fuzz_target!(|input: &[u8]| {
    agree(&ML_DSA, input);
});
