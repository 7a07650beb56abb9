//! Instructions about ranges of versions: a copied range is the same after being written again, and a request for a signature is
//! one of few pieces, or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::proto::entry::Copied;
use sealane_copy::proto::message::{PIECES_SIGNED_MAX, Sign};
use sealane_delta::{FILE_BYTES_MAX, SPAN_BYTES_MAX};
use sealane_fuzz::decoded;

fuzz_target!(|body: &[u8]| {
    let _ = decoded::<Copied>(body);
    let Some(sign) = decoded::<Sign>(body) else { return };
    let Some(pieces) = sign.pieces_max() else { return };
    assert!(sign.spans.len() <= pieces && pieces <= PIECES_SIGNED_MAX);
    for span in sign.spans {
        assert!((1..=SPAN_BYTES_MAX).contains(&span.bytes) && span.range().end <= FILE_BYTES_MAX);
    }
});
