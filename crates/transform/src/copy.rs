//! The cipher that copies its input.

use crate::descriptor::{CipherDescriptor, PeerNames, no_instructions, no_words};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::schedule::Schedule;

/// The null cipher as the catalogue lists it.
pub(crate) static COPY: CipherDescriptor = CipherDescriptor {
    name: "copy",
    facts: Facts {
        block_bytes: 1,
        rounds: 0,
        key_bytes: KeyBytes::NONE,
        iv_bytes: 0,
        output_bytes: 0,
        table_bytes: 0,
        working_set_bytes: 0,
        chained: false,
        byte_order: ByteOrder::Bytes,
        standing: Standing::Benchmark,
        limits: Limits::NONE,
        source: "copies",
    },
    expand: |_| Some(Schedule::Null),
    alone: |_, _, _, _| {
        |_, _, _, _, data| {
            data.copied_in_place();
        }
    },
    has_instructions: no_instructions,
    ways: None,
    trace: |_, _, _| {},
    words: no_words,
    peers: PeerNames::NONE,
    promises: &[],
};
