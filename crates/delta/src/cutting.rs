//! Versions cut into pieces.
//!
//! Guarantees: pieces are in order and cover their range without gaps; reading is in order, each byte once.

use std::ops::Range;

use crate::{
    cutter::Cutter,
    guide::Guide,
    hash::Key,
    piece::{Cut, FILL_BYTES, Piece, block_bytes},
};

/// Cuts a range into pieces, and passes them to `each`. `fill` reads from an offset on; the places where it stops are multiples
/// of [`FILL_BYTES`], and the end. `room` is memory that is used again. `shift` is what the offsets of a new version are
/// greater, modulo 2^64, than those of the old one, whose grid counts.
///
/// # Errors
/// Fails if `fill` does.
///
/// # Panics
/// Panics if there is no such cut ([`Span::pieces_max`](crate::Span::pieces_max) tells).
pub fn pieces<E>(
    range: Range<u64>,
    (cut, shift): (Cut, u64),
    key: &Key,
    room: &mut Vec<u8>,
    fill: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    mut each: impl FnMut(Piece),
) -> Result<(), E> {
    let (_, most) = cut.bounds().expect("spans are checked by those who take them from others");
    let cutter = match cut {
        Cut::Content(mean_log2) => Cutter::new(mean_log2),
        Cut::Grid => None,
    };
    windows(range, most, room, fill, |at, content| {
        let length = match &cutter {
            Some(cutter) => cutter.first(content),
            None => content.len().min(block_bytes(at, shift) as usize),
        };
        each(Piece::of(key, at, &content[..length]));
        length
    })
}

/// Does the same for a new version by its content, of which the old one is known to have these pieces about there, in the order of
/// their offsets: as long as the new version has a piece of the old one where that is expected, its end is not looked for. A
/// piece that is changed between two others that are not, is cut as in the old version too.
///
/// # Errors
/// Fails if `fill` does.
///
/// # Panics
/// Panics if there is no such cut.
pub fn pieces_like<E>(
    old: &[Piece],
    range: Range<u64>,
    mean_log2: u8,
    key: &Key,
    room: &mut Vec<u8>,
    fill: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    mut each: impl FnMut(Piece),
) -> Result<(), E> {
    let cutter = Cutter::new(mean_log2).expect("spans are checked by those who take them from others");
    let mut guide = Guide::new(old, cutter, range.start);
    // A guide looks at two pieces.
    windows(range, 2 * cutter.most_bytes(), room, fill, |at, content| guide.next(key, at, content, &mut each))
}

/// Passes what is in a range to `take`, which returns how much it has taken: content from an offset on, which reaches to the end, or is
/// at least `least` long.
fn windows<E>(
    range: Range<u64>,
    least: usize,
    room: &mut Vec<u8>,
    mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    mut take: impl FnMut(u64, &[u8]) -> usize,
) -> Result<(), E> {
    room.resize((2 * least).max(1 << 20) + FILL_BYTES, 0);
    let (mut begin, mut end) = (0, 0);
    let (mut at, mut filled) = (range.start, range.start);
    while at < range.end {
        if end - begin < least && filled < range.end {
            room.copy_within(begin..end, 0);
            (begin, end) = (0, end - begin);
            let last =
                filled.saturating_add((room.len() - end) as u64) / FILL_BYTES as u64 * FILL_BYTES as u64;
            let last = last.min(range.end);
            let length = (last - filled) as usize;
            fill(filled, &mut room[end..end + length])?;
            filled = last;
            end += length;
        }
        let length = take(at, &room[begin..end]);
        begin += length;
        at += length as u64;
    }
    Ok(())
}
