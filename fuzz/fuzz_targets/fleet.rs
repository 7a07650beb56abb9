//! The messages, jobs and results that hosts of a run exchange, and the patterns, lists of hosts and lines of a journal that a
//! coordinator reads. A value that was read is the same after it is written and read again; a pattern stands for a bounded
//! number of hosts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fleet::fuzzing::understands;

fuzz_target!(|bytes: &[u8]| {
    understands(bytes);
});
