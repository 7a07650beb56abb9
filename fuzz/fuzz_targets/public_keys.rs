//! Public-key operations with keys and inputs of any bytes: every tier gives the same answer or refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    sealane_fuzz::public_keys::agree(input);
});
