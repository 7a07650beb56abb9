//! Lines of check-lists: an entry is written in every style to a line with the same meaning.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_cli::reread_any;
use sealane_fuzz::frugally;

fuzz_target!(|input: &[u8]| {
    for line in input.split(|&byte| byte == b'\n') {
        // The kinds differ in the length of their digests, or in their tags.
        let kinds = frugally(input.len(), || reread_any(line));
        assert!(kinds <= 2, "{kinds}");
    }
});
