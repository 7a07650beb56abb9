//! Signatures of versions: what is taken lies within the ranges that were asked for, in order, and packs to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_delta::{pack, unpack};
use sealane_fuzz::{frugally, spans};

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first_chunk() else { return };
    let asked = spans(choice);
    let Ok(told) = frugally(bytes.len(), || unpack(&asked, bytes)) else { return };
    assert_eq!(told.len(), asked.len());
    let mut again = Vec::new();
    for (span, pieces) in asked.iter().zip(&told) {
        assert!(pieces.iter().all(|piece| piece.bytes > 0 && span.start <= piece.start));
        assert!(pieces.windows(2).all(|pair| pair[0].end() <= pair[1].start));
        assert!(pieces.last().is_none_or(|last| last.end() <= span.range().end));
        pack(span, pieces, &mut again);
    }
    assert_eq!(again, bytes);
});
