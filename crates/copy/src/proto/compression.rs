//! Bodies of records that are compressed by zstd (RFC 8878), each by itself.
//!
//! Guarantees: a body is expanded only if its frame tells a length of at most [`DATA_BYTES_MAX`], has no window, dictionary
//! or second frame, and ends with its bytes; it is then exactly as long as it says. So no record takes more memory than
//! that, whatever its sender wrote.

use zstd_safe::{CCtx, CParameter, DCtx, find_frame_compressed_size, get_error_name, get_frame_content_size};

use crate::proto::record::DATA_BYTES_MAX;

/// The beginning of every frame.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The position of the frame's description of itself, behind its beginning.
const DESCRIPTOR_AT: usize = 4;
/// The bits of a frame of one segment, which has no window, checksum or dictionary; the two highest bits are free: they give
/// the size of the length's field.
const DESCRIPTOR_MASK: u8 = 0b0011_1111;
const ONE_SEGMENT: u8 = 0b0010_0000;

/// The fault of a compressed body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// The beginning is none of a frame that tells its length.
    #[error("a compressed record that does not tell its length")]
    NoLength,
    /// The frame asks for something that no sender uses.
    #[error("a compressed record with a window, dictionary or checksum, which no sender makes")]
    Form,
    /// The length is none of a record.
    #[error("a compressed record that says it has {bytes} bytes, and at most {DATA_BYTES_MAX} are permitted")]
    Length {
        /// The length that the frame tells.
        bytes: u64,
    },
    /// The frame ends before or after the body does.
    #[error("a compressed record that is cut off, or has bytes behind its end")]
    End,
    /// The content is not what the frame says.
    #[error("a compressed record that cannot be expanded ({reason})")]
    Content {
        /// The library's reason.
        reason: &'static str,
    },
    /// This process has no memory left.
    #[error("no memory for a compressed record")]
    Memory,
}

/// Compresses bodies.
pub struct Compressor(CCtx<'static>);

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// Returns `None` if there is no memory.
    pub fn new() -> Option<Self> {
        Some(Self(CCtx::try_create()?))
    }

    /// Compresses `body` into `room` at a level of zstd. Returns the length; `None` if it does not fit.
    pub fn compress(&mut self, level: i8, body: &[u8], room: &mut [u8]) -> Option<usize> {
        self.0.set_parameter(CParameter::CompressionLevel(level.into())).ok()?;
        self.0.compress2(room, body).ok()
    }
}

/// Expands bodies.
pub struct Expander(DCtx<'static>);

impl std::fmt::Debug for Expander {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Expander")
    }
}

impl Expander {
    /// Returns `None` if there is no memory.
    pub fn new() -> Option<Self> {
        Some(Self(DCtx::try_create()?))
    }

    /// Expands `body` to the front of `room`. Returns its length, at most [`DATA_BYTES_MAX`] and what `room` has.
    ///
    /// # Errors
    /// Fails for a body that no [`Compressor`] makes.
    pub fn expand(&mut self, body: &[u8], room: &mut [u8]) -> Result<usize, CompressionError> {
        let told = get_frame_content_size(body).ok().flatten().filter(|_| body.starts_with(&MAGIC));
        let bytes = told.ok_or(CompressionError::NoLength)?;
        let descriptor = body.get(DESCRIPTOR_AT).ok_or(CompressionError::NoLength)?;
        if descriptor & DESCRIPTOR_MASK != ONE_SEGMENT {
            return Err(CompressionError::Form);
        }
        let length = usize::try_from(bytes).ok().filter(|length| (1..=DATA_BYTES_MAX).contains(length));
        let room = length.and_then(|length| room.get_mut(..length));
        let room = room.ok_or(CompressionError::Length { bytes })?;
        if find_frame_compressed_size(body) != Ok(body.len()) {
            return Err(CompressionError::End);
        }
        match self.0.decompress(room, body) {
            Ok(length) if length == room.len() => Ok(length),
            Ok(_) => Err(CompressionError::End),
            Err(code) => Err(CompressionError::Content { reason: get_error_name(code) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of one raw block, with this descriptor, length field and content.
    fn frame(descriptor: u8, length: &[u8], content: &[u8]) -> Vec<u8> {
        let block = (content.len() as u32) << 3 | 1;
        [&[0x28, 0xB5, 0x2F, 0xFD, descriptor], length, &block.to_le_bytes()[..3], content].concat()
    }

    fn compressed(body: &[u8]) -> Vec<u8> {
        let mut room = vec![0; body.len() + 1024];
        let length = Compressor::new().unwrap().compress(1, body, &mut room).unwrap();
        room[..length].to_vec()
    }

    fn expanded(body: &[u8]) -> Result<Vec<u8>, CompressionError> {
        let mut room = vec![0xEE; DATA_BYTES_MAX];
        let length = Expander::new().unwrap().expand(body, &mut room)?;
        room.truncate(length);
        Ok(room)
    }

    #[test]
    fn what_a_sender_compresses_comes_back_at_every_level() {
        let text: Vec<u8> = (0..DATA_BYTES_MAX).map(|at| (at * at / 7 % 61) as u8).collect();
        let mut compressor = Compressor::new().unwrap();
        for level in (-7..=19).filter(|&level| level != 0) {
            for bytes in [1, 2, 255, 256, 257, 4096, DATA_BYTES_MAX - 1, DATA_BYTES_MAX] {
                let mut room = vec![0; bytes + 1024];
                let length = compressor.compress(level, &text[..bytes], &mut room).unwrap();
                assert_eq!(expanded(&room[..length]).unwrap(), &text[..bytes], "{level}, {bytes}");
            }
        }
        assert_eq!(compressor.compress(1, &text, &mut [0; 16]), None, "it does not fit");
    }

    #[test]
    fn what_no_sender_makes_is_refused_for_its_reason() {
        use CompressionError::{Content, End, Form, Length, NoLength};
        let good = frame(ONE_SEGMENT, &[3], b"abc");
        assert_eq!(expanded(&good).unwrap(), b"abc");
        let bomb = compressed(&vec![0; DATA_BYTES_MAX + 1]);
        assert!(bomb.len() < 100);
        let skipped = [&[0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 9][..], &good].concat();
        let cases: [(Vec<u8>, CompressionError); 12] = [
            (Vec::new(), NoLength),
            (b"garbage that is no frame".to_vec(), NoLength),
            (good[..4].to_vec(), NoLength),
            (skipped, NoLength),
            (bomb, Length { bytes: DATA_BYTES_MAX as u64 + 1 }),
            (frame(ONE_SEGMENT | 0xC0, &[0xFF; 8], b"abc"), NoLength),
            (frame(ONE_SEGMENT | 0xC0, &[0, 0, 0, 0, 0, 1, 0, 0], b"abc"), Length { bytes: 1 << 40 }),
            (frame(ONE_SEGMENT, &[0], b""), Length { bytes: 0 }),
            // A window of 2 GiB, and content whose length is told.
            (frame(0x80, &[0xA8, 3, 0, 0, 0], b"abc"), Form),
            (good[..good.len() - 1].to_vec(), End),
            ([&good[..], &good].concat(), End),
            (frame(ONE_SEGMENT, &[2], b"abc"), Content { reason: "" }),
        ];
        for (body, expected) in cases {
            let found = expanded(&body).unwrap_err();
            let same = matches!((&found, &expected), (Content { .. }, Content { .. })) || found == expected;
            assert!(same, "{body:?}: {found:?} instead of {expected:?}");
        }
        assert!(matches!(expanded(&frame(ONE_SEGMENT, &[4], b"abc")), Err(Content { .. })), "too short");
        assert!(matches!(expanded(&frame(ONE_SEGMENT | 4, &[3], b"abc")), Err(Form)), "a checksum");
        assert!(matches!(expanded(&frame(ONE_SEGMENT | 1, &[9, 3], b"abc")), Err(Form)), "a dictionary");
    }

    #[test]
    fn nothing_is_expanded_beyond_its_room() {
        let body = compressed(&[7; 5000]);
        let mut room = [0xEE; 5000];
        let found = Expander::new().unwrap().expand(&body, &mut room[..4999]);
        assert_eq!(found, Err(CompressionError::Length { bytes: 5000 }));
        assert_eq!(room[4999], 0xEE);
    }

    proptest! {
        #[test]
        fn altered_bodies_expand_within_their_room(
            body in prop::collection::vec(0u8..4, 1..3000),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            keep in any::<prop::sample::Index>(),
        ) {
            let mut sent = compressed(&body);
            for (at, by) in &flips {
                let at = at.index(sent.len());
                sent[at] ^= by;
            }
            sent.truncate(keep.index(sent.len()) + 1);
            if let Ok(found) = expanded(&sent) {
                prop_assert!(!found.is_empty() && found.len() <= DATA_BYTES_MAX);
            }
        }
    }
}
