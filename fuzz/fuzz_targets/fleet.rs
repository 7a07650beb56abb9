//! What hosts of a run say to each other, and what a coordinator keeps: messages, jobs and results, patterns and lists of hosts,
//! lines of a journal. What is read is written again and is the same; a pattern stands for a bounded number of hosts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fleet::fuzzing::understands;

fuzz_target!(|bytes: &[u8]| {
    understands(bytes);
});
