//! Cuts bytes into pieces where their content says so, with the lengths of FastCDC (Xia and others, 2016): an end is less likely
//! before the mean than behind it.
//!
//! Guarantees: a piece begins where the one before it ends, is never longer than four means, and not shorter than half of one
//! unless the bytes end; where it ends depends on nothing but its own bytes.

use std::ops::Range;

/// Finds the ends of pieces: the places whose rough print and whose print, both of the bytes before them, are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutter {
    least: usize,
    mean: usize,
    most: usize,
    /// The greatest prints where a piece ends that is shorter than the mean, and where a longer one does.
    early: u64,
    late: u64,
}

/// How much likelier an end is behind the mean than before it, as a power of two of its square root: lengths are closer together.
const NORMAL_BITS: u8 = 2;

impl Cutter {
    /// The shortest mean, as a power of two.
    pub const MEAN_LOG2_MIN: u8 = 12;
    /// The longest mean, as a power of two: the length of a piece has three bytes.
    pub const MEAN_LOG2_MAX: u8 = 21;

    /// Returns a cutter into pieces of this mean length, a power of two; `None` if there is none so short or so long.
    pub fn new(mean_log2: u8) -> Option<Self> {
        if !(Self::MEAN_LOG2_MIN..=Self::MEAN_LOG2_MAX).contains(&mean_log2) {
            return None;
        }
        let mean = 1_usize << mean_log2;
        let without_upper_bits = |count: u8| u64::MAX >> (count - ROUGH_BITS);
        Some(Self {
            least: mean / 2,
            mean,
            most: mean * 4,
            early: without_upper_bits(mean_log2 + NORMAL_BITS),
            late: without_upper_bits(mean_log2 - NORMAL_BITS),
        })
    }

    /// Returns the length of the shortest piece, unless the bytes end.
    pub fn least_bytes(&self) -> usize {
        self.least
    }

    /// Returns the length of the longest piece.
    pub fn most_bytes(&self) -> usize {
        self.most
    }

    /// Returns the length of the first piece of `bytes`, which must reach to the end of all bytes, or be as long as the longest
    /// piece.
    pub fn first(&self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(self.most)];
        let mean = self.mean.min(bytes.len());
        let early = (self.least..mean, self.early);
        let late = (mean..bytes.len(), self.late);
        [early, late]
            .into_iter()
            .find_map(|(places, most)| first_end(bytes, places, most))
            .unwrap_or(bytes.len())
    }

    /// Does the same as [`Self::first`] in the obvious way, place by place.
    #[cfg(test)]
    pub(crate) fn first_by_definition(&self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.most);
        let most = |place| if place < self.mean { self.early } else { self.late };
        (self.least..length).find(|&place| is_end(bytes, place, most(place))).unwrap_or(length)
    }
}

/// The bytes of which a print is made.
const PRINT_BYTES: usize = 32;
/// The bytes of which a rough print is made.
const ROUGH_BYTES: usize = 4;
/// One of so many places has a small rough print, as a power of two.
const ROUGH_BITS: u8 = 9;
/// The greatest rough print that is small. It has a sign because the oldest vectors compare no others.
const ROUGH_MOST: i16 = i16::MIN + (1 << (16 - ROUGH_BITS)) - 1;
/// The places whose rough prints are computed at once, and those of a closer look.
const LOOK: usize = 64;
const CLOSER_LOOK: usize = 16;

/// Returns whether a piece ends before the byte at `place`, if its print may be at most `most`.
fn is_end(bytes: &[u8], place: usize, most: u64) -> bool {
    let [.., a, b, c, d] = bytes[..place] else { return false };
    rough([a, b], [c, d]) <= ROUGH_MOST && bytes[..place].last_chunk().is_some_and(|last| print(last) <= most)
}

/// Returns the first of these places where a piece ends. At nearly all of them there is nothing to do but to compute the rough
/// print, which a compiler does for many places at once.
fn first_end(bytes: &[u8], places: Range<usize>, most: u64) -> Option<usize> {
    let mut place = places.start;
    while place < places.end {
        let look = &bytes[place - ROUGH_BYTES..];
        if place + LOOK <= places.end && least_rough(&look[..LOOK + ROUGH_BYTES]) > ROUGH_MOST {
            place += LOOK;
            continue;
        }
        let behind = (place + LOOK).min(places.end);
        while place < behind {
            let closer = (place + CLOSER_LOOK).min(behind);
            let look = &bytes[place - ROUGH_BYTES..];
            if closer < place + CLOSER_LOOK || least_rough(&look[..CLOSER_LOOK + ROUGH_BYTES]) <= ROUGH_MOST {
                let end = (place..closer).find(|&place| is_end(bytes, place, most));
                if end.is_some() {
                    return end;
                }
            }
            place = closer;
        }
    }
    None
}

/// Returns the least rough print of the places from behind the first [`ROUGH_BYTES`] on, up to before the last byte. Their number is even.
#[inline(always)]
fn least_rough(bytes: &[u8]) -> i16 {
    let least = |bytes: &[u8]| {
        let (pairs, _) = bytes.as_chunks::<2>();
        pairs
            .iter()
            .zip(&pairs[1..])
            .fold(i16::MAX, |least, (&first, &second)| least.min(rough(first, second)))
    };
    least(&bytes[..bytes.len() - 2]).min(least(&bytes[1..bytes.len() - 1]))
}

/// Returns the rough print of four bytes. That of no byte four times is small, so that a file of zeros or of spaces is no slower
/// than others.
#[inline(always)]
fn rough(first: [u8; 2], second: [u8; 2]) -> i16 {
    let [first, second] = [first, second].map(u16::from_le_bytes);
    let sum = first.wrapping_mul(0x9e35).wrapping_add(second.wrapping_mul(0x6a8d)).wrapping_add(0x3cad);
    sum.cast_signed()
}

/// Returns the print of the last bytes before a place: two rounds of wyhash's multiplication, whose both halves count.
fn print(window: &[u8; PRINT_BYTES]) -> u64 {
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let (words, _) = window.as_chunks::<8>();
    let word = |number: usize| u64::from_le_bytes(words[number]);
    let first = mix(word(0) ^ 0xa076_1d64_78bd_642f, word(1) ^ 0xe703_7ed1_a0b4_28db);
    let second = mix(word(2) ^ 0x8ebc_6af0_9c88_c6e3, word(3) ^ 0x5899_65cc_7537_4cc3);
    mix(first ^ 0x1d8e_4e27_c47d_124f, second ^ 0xeb44_acca_b455_d165)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_byte_are_passed_at_once() {
        for byte in 0..=u8::MAX {
            assert!(rough([byte; 2], [byte; 2]) > ROUGH_MOST, "{byte}");
        }
    }
}
