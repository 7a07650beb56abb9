//! Cuts a new version where the old one is cut, as long as it has the same pieces.
//!
//! Guarantees: pieces are those that [`Cutter`] finds, or as long as pieces of the old version that it could have found, whatever the old
//! pieces are said to be; what is hashed in vain is at most as long as what is passed, and [`CREDIT_PIECES`] of the longest pieces.

use std::collections::HashMap;

use crate::{
    cutter::Cutter,
    hash::{HASH_BYTES, Key},
    piece::Piece,
};

/// How many of the longest pieces may be hashed in vain before any is passed.
const CREDIT_PIECES: usize = 4;

/// The place in the pieces of the old version that a new one has reached.
#[derive(Debug)]
pub(crate) struct Guide<'a> {
    old: &'a [Piece],
    cutter: Cutter,
    /// The old piece that is expected next.
    next: Option<usize>,
    /// The bytes that may be hashed in vain.
    credit: usize,
    /// The old pieces by their hashes, once they are looked for.
    by_hash: Option<HashMap<[u8; HASH_BYTES], usize>>,
}

impl<'a> Guide<'a> {
    /// Returns a guide by these pieces, which begins with the one at this offset.
    pub(crate) fn new(old: &'a [Piece], cutter: Cutter, start: u64) -> Self {
        let next = old.binary_search_by_key(&start, |piece| piece.start).ok();
        Self { old, cutter, next, credit: CREDIT_PIECES * cutter.most_bytes(), by_hash: None }
    }

    /// Passes the first piece of `content` to `each`, or the first two, and returns their length. `content` reaches to the end, or is
    /// as long as two of the longest pieces.
    pub(crate) fn next(&mut self, key: &Key, at: u64, content: &[u8], each: &mut impl FnMut(Piece)) -> usize {
        let length = match self.expected(key, at, content, each) {
            Some(length) => length,
            None => self.by_content(key, at, content, each),
        };
        self.credit = (self.credit + length).min(CREDIT_PIECES * self.cutter.most_bytes());
        length
    }

    /// Passes what is as expected to `each`, and returns its length: the next piece, or if that is changed, also the one behind it.
    fn expected(
        &mut self,
        key: &Key,
        at: u64,
        content: &[u8],
        each: &mut impl FnMut(Piece),
    ) -> Option<usize> {
        let number = self.next?;
        let (content, rest) = content.split_at_checked(self.length(number)?)?;
        let left = self.credit.checked_sub(content.len())?;
        let first = Piece::of(key, at, content);
        if first.hash == self.old[number].hash {
            each(first);
            self.next = self.after(number);
            return Some(content.len());
        }
        self.credit = left;
        let number = self.after(number)?;
        let content = rest.get(..self.length(number)?)?;
        self.credit = self.credit.checked_sub(content.len())?;
        let second = Piece::of(key, first.end(), content);
        if second.hash != self.old[number].hash {
            return None;
        }
        each(first);
        each(second);
        self.next = self.after(number);
        Some((second.end() - at) as usize)
    }

    /// Passes the first piece by content to `each`, and goes on behind the old one that is the same.
    fn by_content(&mut self, key: &Key, at: u64, content: &[u8], each: &mut impl FnMut(Piece)) -> usize {
        let length = self.cutter.first(content);
        let piece = Piece::of(key, at, &content[..length]);
        // A change within a piece leaves its end where it was.
        let same_end = self.next.take().filter(|&number| self.old[number].bytes == piece.bytes);
        let old = self.old;
        let by_hash = self.by_hash.get_or_insert_with(|| {
            old.iter().enumerate().rev().map(|(number, piece)| (piece.hash, number)).collect()
        });
        let found = by_hash.get(&piece.hash).copied().or(same_end);
        self.next = found.and_then(|number| self.after(number));
        each(piece);
        length
    }

    /// Returns the length of an old piece, if a new one may be as long.
    fn length(&self, number: usize) -> Option<usize> {
        let bytes = self.old[number].bytes as usize;
        (self.cutter.least_bytes()..=self.cutter.most_bytes()).contains(&bytes).then_some(bytes)
    }

    /// Returns the number of the old piece that begins where another ends.
    fn after(&self, number: usize) -> Option<usize> {
        let next = self.old.get(number + 1)?;
        (next.start == self.old[number].end()).then_some(number + 1)
    }
}
