//! Replies of an SFTP server: their meaning does not depend on the division into reads, each answers one request that
//! is under way, and the memory used is proportional to the bytes that arrived.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::sftp::{REQUESTS, converse};
use sealane_fuzz::within;
use sealane_sftp::PACKET_BYTES_MAX;

/// Bytes allocated for the whole packet that is arriving, and again for a reply that keeps it.
const AHEAD_BYTES: usize = 2 * PACKET_BYTES_MAX + (64 << 10);
/// Bytes allocated per byte that arrived. The most expensive reply is a name: twelve bytes on the wire, and a vector
/// with attributes in memory.
const ALLOCATED_PER_BYTE: usize = 40;

fuzz_target!(|input: &[u8]| {
    let Some((&piece, stream)) = input.split_first() else { return };
    let whole = converse(stream, usize::MAX);
    let limit_bytes = AHEAD_BYTES + ALLOCATED_PER_BYTE * stream.len();
    let cut = within(limit_bytes, || converse(stream, usize::from(piece) + 1));
    assert_eq!((&cut.outcome, &cut.replies), (&whole.outcome, &whole.replies));
    assert!(cut.replies.len() + cut.unanswered <= REQUESTS as usize + 1);
});
