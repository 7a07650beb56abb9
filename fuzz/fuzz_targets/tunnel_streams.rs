//! Packets in a stream (RFC 9329): they are the same in whatever pieces they arrive, and so is the fault; what is kept of an
//! unfinished one is bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_tunnel::streams::frames::{Fault, Frames, LENGTH_BYTES};

/// Returns the packets of a stream that arrives in these pieces, and its fault.
fn read<'b>(pieces: impl Iterator<Item = &'b [u8]>, most_bytes: usize) -> (Vec<Vec<u8>>, Option<Fault>) {
    let (mut frames, mut packets) = (Frames::new(true, most_bytes), Vec::new());
    for piece in pieces {
        let read = frames.push(piece, |packet| packets.push(packet.to_vec()));
        assert!(frames.held_bytes() <= most_bytes.max(8), "{} bytes are kept", frames.held_bytes());
        if let Err(fault) = read {
            return (packets, Some(fault));
        }
    }
    (packets, None)
}

fuzz_target!(|input: &[u8]| {
    let Some((&[piece_bytes, most], stream)) = input.split_first_chunk::<2>() else { return };
    let most_bytes = 16 << (most % 13);
    let whole = read(std::iter::once(stream), most_bytes);
    let pieces = stream.chunks(usize::from(piece_bytes).max(1));
    assert_eq!(read(pieces, most_bytes), whole);
    assert_eq!(read(stream.chunks(1), most_bytes), whole);
    let taken: usize = whole.0.iter().map(|packet| packet.len() + LENGTH_BYTES).sum();
    assert!(taken <= stream.len());
    assert!(whole.0.iter().all(|packet| (1..=most_bytes).contains(&packet.len())));
});
