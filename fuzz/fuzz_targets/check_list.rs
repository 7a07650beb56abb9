//! Lines of check-lists: what is an entry is written in every style to a line that says the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_cli::reread_any;
use sealane_fuzz::frugally;

fuzz_target!(|input: &[u8]| {
    for line in input.split(|&byte| byte == b'\n') {
        // Each kind's digests are of another length, or its tag is.
        let kinds = frugally(input.len(), || reread_any(line));
        assert!(kinds <= 2, "{kinds}");
    }
});
