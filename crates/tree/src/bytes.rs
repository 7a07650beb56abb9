//! Byte strings on the wire: read in one piece, refused when longer than their bound.
//!
//! serde encodes `Vec<u8>` one element at a time; these functions use `serialize_bytes`, which postcard writes as a
//! length and the bytes.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserializer, Serializer};

/// Reads at most `MAX` bytes into an owned value.
struct BoundedBytes<const MAX: usize>;

impl<'de, const MAX: usize> Visitor<'de> for BoundedBytes<MAX> {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX} bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        if bytes.len() > MAX {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        Ok(bytes.to_vec())
    }

    /// Formats without byte strings (JSON) use a sequence of numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = sequence.next_element::<u8>()? {
            if bytes.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

/// Writes `bytes` as one byte string.
pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// Reads a byte string of at most `MAX` bytes.
pub(crate) fn deserialize<'de, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_bytes(BoundedBytes::<MAX>)
}
