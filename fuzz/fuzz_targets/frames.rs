//! Control frames: however the bytes arrive, the same frames come out as from a slow twin that sees all of them at
//! once; a length above the limit ends the stream for good; and the memory used is proportional to the bytes that
//! arrived.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::within;
use sealane_peer::{FrameError, Framer, MAX_FRAME_BYTES};

const HEADER_BYTES: usize = 4;
/// Bytes allocated for a body before any of it has arrived, and for first capacities.
const AHEAD_BYTES: usize = 66 << 10;
/// Bytes allocated per byte that arrived. The most expensive frame is an empty one: four bytes on the wire and 24 in
/// a queue, which counts three times while it grows, in the harness as well as in the decoder.
const ALLOCATED_PER_BYTE: usize = 40;

fuzz_target!(|input: &[u8]| {
    let Some((&piece, stream)) = input.split_first() else { return };
    let (frames, rest, broken) = slow_twin(stream);
    let pop_early = piece >= 128;
    let piece_bytes = usize::from(piece % 128) + 1;

    let mut popped = Vec::new();
    let mut framer = Framer::new();
    let outcome = within(AHEAD_BYTES + ALLOCATED_PER_BYTE * stream.len(), || {
        for piece in stream.chunks(piece_bytes) {
            while !framer.has_room() {
                popped.push(framer.pop().expect("a full queue holds frames"));
            }
            framer.push(piece)?;
            if pop_early {
                popped.extend(framer.pop());
            }
        }
        Ok::<_, FrameError>(())
    });
    popped.extend(std::iter::from_fn(|| framer.pop()));
    assert_eq!(popped, frames);
    assert!(framer.has_room());
    match broken {
        Some(error) => {
            assert_eq!(outcome, Err(error));
            assert_eq!(framer.push(&[0; HEADER_BYTES]), Err(error), "a lost stream stays lost");
            assert_eq!(framer.pop(), None);
        }
        None => {
            assert_eq!(outcome, Ok(()));
            assert_eq!(framer.at_boundary(), rest.is_empty());
        }
    }
});

/// Returns whole frames, the bytes left behind them, and the length that broke the stream, if one did.
fn slow_twin(stream: &[u8]) -> (Vec<Vec<u8>>, &[u8], Option<FrameError>) {
    let mut frames = Vec::new();
    let mut rest = stream;
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let len_bytes = u32::from_le_bytes(*header);
        if len_bytes as usize > MAX_FRAME_BYTES {
            return (frames, rest, Some(FrameError { len_bytes }));
        }
        let Some((body, behind)) = behind.split_at_checked(len_bytes as usize) else { break };
        frames.push(body.to_vec());
        rest = behind;
    }
    (frames, rest, None)
}
