//! Acknowledgements: however the bytes arrive, the counts are those of the honest records before the first dishonest
//! one, and nothing after it counts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::fuzzing::SendingEnd;
use sealane_fuzz::scripts::{acknowledgement_keys, acknowledgements};

fuzz_target!(|input: &[u8]| {
    let Some((&piece_bytes, script)) = input.split_first() else { return };
    let told = acknowledgements(script);
    let mut sender = SendingEnd::new(acknowledgement_keys());
    let (mut latest, mut is_refused) = (None, false);
    for piece in told.wire.chunks(1 + usize::from(piece_bytes)) {
        let Ok((taken, count)) = sender.push(piece) else {
            is_refused = true;
            break;
        };
        assert_eq!(taken, piece.len(), "there is room");
        assert!(count.is_none_or(|count| told.counts.contains(&count)));
        latest = count.or(latest);
    }
    if told.is_honest {
        assert!(!is_refused, "an honest record is refused");
        assert_eq!(latest, told.counts.last().copied());
    }
});
