//! TCP connections with a peer that lies: segments with numbers near the right ones, in any order, between calls of
//! the application. The harness is that of `crates/tcp/tests/lying_peer.rs`.

#![no_main]

#[path = "../../crates/tcp/tests/common/hostile.rs"]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    hostile::converse(input);
});
