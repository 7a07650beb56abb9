//! Signatures as bytes: the pieces of spans of the old version, one after another.
//!
//! ```text
//! a piece by content     length, 3 bytes   hash, 16 bytes
//! a hole                 zeros, 3 bytes    length, 8 bytes
//! a block of a grid      hash, 16 bytes
//! ```
//!
//! Integers are little-endian. Guarantees: [`unpack`] takes exactly the bytes of these spans, and refuses any others; pieces are in
//! order and lie within their span.

use crate::{
    hash::HASH_BYTES,
    piece::{Cut, Piece, Span, block_bytes},
};

/// The bytes are no signature of the spans that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signature that is none of what was asked for")]
pub struct Malformed;

const LENGTH_BYTES: usize = 3;

/// Adds the pieces of a span to a signature; what lies between them, and before the end, are holes.
pub fn pack(span: &Span, pieces: &[Piece], bytes: &mut Vec<u8>) {
    let mut at = span.start;
    let hole = |from: u64, to: u64, bytes: &mut Vec<u8>| {
        if from < to {
            bytes.extend_from_slice(&[0; LENGTH_BYTES]);
            bytes.extend_from_slice(&(to - from).to_le_bytes());
        }
    };
    for piece in pieces {
        if span.cut != Cut::Grid {
            hole(at, piece.start, bytes);
            bytes.extend_from_slice(&piece.bytes.to_le_bytes()[..LENGTH_BYTES]);
        }
        bytes.extend_from_slice(&piece.hash);
        at = piece.end();
    }
    if span.cut != Cut::Grid {
        hole(at, span.range().end, bytes);
    }
}

/// Returns the pieces of each of these spans, of a signature of all of them.
///
/// # Errors
/// Fails unless the bytes are what [`pack`] makes of such spans.
pub fn unpack(spans: &[Span], bytes: &[u8]) -> Result<Vec<Vec<Piece>>, Malformed> {
    let mut rest = bytes;
    let all = spans.iter().map(|span| unpack_span(span, &mut rest)).collect::<Result<_, _>>()?;
    if rest.is_empty() { Ok(all) } else { Err(Malformed) }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, left) = rest.split_first_chunk().ok_or(Malformed)?;
    *rest = left;
    Ok(*taken)
}

fn unpack_span(span: &Span, rest: &mut &[u8]) -> Result<Vec<Piece>, Malformed> {
    let end = span.range().end;
    let mut pieces = Vec::new();
    let mut at = span.start;
    let mut was_hole = false;
    while at < end {
        let length = match span.cut {
            Cut::Grid => block_bytes(at, 0).min(end - at),
            Cut::Content(_) => {
                let [a, b, c] = take::<LENGTH_BYTES>(rest)?;
                u64::from(u32::from_le_bytes([a, b, c, 0]))
            }
        };
        if length == 0 {
            let hole = u64::from_le_bytes(take(rest)?);
            // A hole is written once.
            if hole == 0 || hole > end - at || was_hole {
                return Err(Malformed);
            }
            (at, was_hole) = (at + hole, true);
            continue;
        }
        was_hole = false;
        if length > end - at || length > span.most_bytes() as u64 {
            return Err(Malformed);
        }
        let hash = take::<HASH_BYTES>(rest)?;
        pieces.push(Piece { start: at, bytes: length as u32, hash });
        at += length;
    }
    Ok(pieces)
}
