//! The pieces of an old version, by their hashes.
//!
//! Guarantees: about 40 bytes per piece; a search takes constant time on average, whatever the other end says that its hashes are,
//! because a key that only this index has decides where they are looked for.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use crate::{hash::HASH_BYTES, piece::Piece};

/// Old pieces, in the order of their offsets.
#[derive(Debug, Default)]
pub struct Index {
    pieces: Vec<Piece>,
    /// Numbers of pieces, at the places that their hashes say, or behind; [`FREE`] if none.
    table: Vec<u32>,
    places: RandomState,
}

const FREE: u32 = u32::MAX;

impl Index {
    /// Returns the index of these pieces; of equal ones the first is found, unless another one is expected.
    pub fn new(pieces: Vec<Piece>) -> Self {
        let places = (pieces.len() * 3 / 2 + 1).next_power_of_two();
        let mut index = Self { pieces, table: vec![FREE; places], places: RandomState::new() };
        for number in 0..index.pieces.len() {
            let place = index.place(&index.pieces[number].hash);
            if index.table[place] == FREE {
                index.table[place] = number as u32;
            }
        }
        index
    }

    /// Returns the place of a hash: where it is, or a free one.
    fn place(&self, hash: &[u8; HASH_BYTES]) -> usize {
        let mask = self.table.len() - 1;
        let mut place = self.places.hash_one(hash) as usize & mask;
        while self.table[place] != FREE && self.pieces[self.table[place] as usize].hash != *hash {
            place = (place + 1) & mask;
        }
        place
    }

    /// Returns the number of a piece with this hash: the expected one, if it has it.
    pub(crate) fn find(&self, hash: &[u8; HASH_BYTES], expected: usize) -> Option<usize> {
        if self.pieces.get(expected).is_some_and(|found| found.hash == *hash) {
            return Some(expected);
        }
        let number = *self.table.get(self.place_in_any(hash)?)?;
        (number != FREE).then_some(number as usize)
    }

    fn place_in_any(&self, hash: &[u8; HASH_BYTES]) -> Option<usize> {
        (!self.table.is_empty()).then(|| self.place(hash))
    }

    /// Returns the pieces that begin within a range.
    pub fn within(&self, range: &Range<u64>) -> &[Piece] {
        let number = |at: u64| self.pieces.partition_point(|piece| piece.start < at);
        &self.pieces[number(range.start)..number(range.end)]
    }

    /// Returns the offset of a piece.
    pub(crate) fn start(&self, number: usize) -> u64 {
        self.pieces[number].start
    }

    /// Returns the memory that it takes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>() + self.table.capacity() * size_of::<u32>()
    }

    /// Returns the number of pieces.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }
}
