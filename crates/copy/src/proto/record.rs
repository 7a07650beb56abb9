//! The records of a data stream.
//!
//! ```text
//!   0        1            4            8                16
//!   | kind   | body bytes | file       | offset         | body (sealed, as long as the header says)
//! ```
//!
//! All integers are little-endian. The header is authenticated with the body, and the nonce is the record's
//! number on its stream under a key made for this transfer, stream and opening. A record that was moved to
//! another file or offset, swapped, repeated, left out, or spliced in from another stream or transfer
//! therefore fails to open.

use sealane_engine::record::Association;
use sealane_engine::{Buffer, JobStatus, Software, Work, record::Record};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// The most file content in one record. A power of two, so that a record is a subtree of a BLAKE3 digest.
pub const DATA_BYTES_MAX: usize = 64 * 1024;
/// The longest body on the wire: data, or a pack of entries, and the suite's expansion.
pub const BODY_BYTES_MAX: usize = DATA_BYTES_MAX + 64;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Announces a large file under a number; precedes the first data of each range on its stream.
    Open,
    /// Bytes of a file at an offset.
    Data,
    /// A range of a file holds no data (a hole); the body is its length.
    Hole,
    /// The closing record of a file: everything was sent.
    Close,
    /// Complete small entries, many per record.
    Pack,
    /// A range of a file is at the receiver as it claims; the body is its length.
    Kept,
    /// In the other direction: the number of records taken over.
    Acknowledge,
    /// [`Kind::Data`] whose body is compressed ([`compression`](crate::proto::compression)).
    CompressedData,
    /// [`Kind::Pack`] whose body is compressed.
    CompressedPack,
    /// A range of a file is in the version that the receiver has opened for it; the body is its place there
    /// ([`Copied`](crate::proto::entry::Copied)).
    Copy,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Open,
        Self::Data,
        Self::Hole,
        Self::Close,
        Self::Pack,
        Self::Kept,
        Self::Acknowledge,
        Self::CompressedData,
        Self::CompressedPack,
        Self::Copy,
    ];

    fn code(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Data => 2,
            Self::Hole => 3,
            Self::Close => 4,
            Self::Pack => 5,
            Self::Acknowledge => 6,
            Self::Kept => 7,
            Self::CompressedData => 8,
            Self::CompressedPack => 9,
            Self::Copy => 10,
        }
    }

    /// Returns the kind of the same record with a compressed body, if it may have one.
    pub fn compressed(self) -> Option<Self> {
        match self {
            Self::Data => Some(Self::CompressedData),
            Self::Pack => Some(Self::CompressedPack),
            _ => None,
        }
    }

    /// Returns the kind of the same record once its body is expanded; `None` unless it is compressed.
    pub fn expanded(self) -> Option<Self> {
        match self {
            Self::CompressedData => Some(Self::Data),
            Self::CompressedPack => Some(Self::Pack),
            _ => None,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The clear, authenticated front of every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the record.
    pub kind: Kind,
    /// The number of bytes that follow the header on the wire.
    pub body_bytes: usize,
    /// The number of the file within the transfer; 0 if there is none.
    pub file: u32,
    /// The offset in the file, or another count that belongs to the kind.
    pub offset: u64,
}

/// The error of a malformed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Unknown kind.
    #[error("unknown record kind {code}")]
    Kind {
        /// The byte that was found.
        code: u8,
    },
    /// The body is longer than any record's.
    #[error("a record of {body_bytes} bytes is too long")]
    TooLong {
        /// The length that was found.
        body_bytes: usize,
    },
}

impl Header {
    /// Writes the header to the front of `bytes`.
    ///
    /// # Panics
    /// Panics if `bytes` is shorter than [`HEADER_BYTES`] or the body longer than [`BODY_BYTES_MAX`].
    pub fn encode(&self, bytes: &mut [u8]) {
        assert!(self.body_bytes <= BODY_BYTES_MAX, "bodies are sized by their makers");
        bytes[0] = self.kind.code();
        bytes[1..4].copy_from_slice(&(self.body_bytes as u32).to_le_bytes()[..3]);
        bytes[4..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Fails for unknown kinds and lengths beyond [`BODY_BYTES_MAX`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        let [code, a, b, c, f0, f1, f2, f3, offset @ ..] = *bytes;
        let kind = Kind::from_code(code).ok_or(HeaderError::Kind { code })?;
        let body_bytes = u32::from_le_bytes([a, b, c, 0]) as usize;
        if body_bytes > BODY_BYTES_MAX {
            return Err(HeaderError::TooLong { body_bytes });
        }
        Ok(Self {
            kind,
            body_bytes,
            file: u32::from_le_bytes([f0, f1, f2, f3]),
            offset: u64::from_le_bytes(offset),
        })
    }
}

/// Returns one record with the next number, sealed by the calling thread: for a short, single record, this costs less
/// than a job of an engine.
///
/// # Panics
/// Panics if the body is longer than [`DATA_BYTES_MAX`].
pub fn seal(association: &mut Association, kind: Kind, file: u32, offset: u64, body: &[u8]) -> Vec<u8> {
    let claim = association.claim(1);
    let body_bytes = body.len() + association.suite().expansion_bytes(body.len());
    let mut buffer = Buffer::new(HEADER_BYTES + body_bytes);
    Header { kind, body_bytes, file, offset }.encode(buffer.bytes_mut());
    buffer.bytes_mut()[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
    let (sequence, body_bytes) = (claim.first_sequence, body.len());
    let mut work = Work { buffer, ..Work::default() };
    let record = Record { offset: 0, header_bytes: HEADER_BYTES, body_bytes, sequence };
    claim.session.lay(&mut work, &record).expect("the buffer was made for it");
    Software::default().run(&mut work);
    assert_eq!(work.jobs[0].status, JobStatus::Done, "what lies within its buffer can be sealed");
    work.buffer.bytes().to_vec()
}

/// Finds whole records at the front of `bytes`.
///
/// Returns them with their positions, and the number of bytes they occupy; the rest is the beginning of an incomplete
/// record.
///
/// # Errors
/// The first bad header.
pub fn split_records(bytes: &[u8], records: &mut Vec<(usize, Header)>) -> Result<usize, HeaderError> {
    let mut at = 0;
    while let Some(header) = bytes[at..].first_chunk() {
        let header = Header::decode(header)?;
        let end = at + HEADER_BYTES + header.body_bytes;
        if end > bytes.len() {
            break;
        }
        records.push((at, header));
        at = end;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_round_trip(kind in prop::sample::select(Kind::ALL.to_vec()), body_bytes in 0..=BODY_BYTES_MAX, file: u32, offset: u64) {
            let header = Header { kind, body_bytes, file, offset };
            let mut bytes = [0; HEADER_BYTES];
            header.encode(&mut bytes);
            prop_assert_eq!(Header::decode(&bytes), Ok(header));
        }

        #[test]
        fn any_bytes_split_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut records = Vec::new();
            if let Ok(taken) = split_records(&bytes, &mut records) {
                let sum: usize = records.iter().map(|(_, header)| HEADER_BYTES + header.body_bytes).sum();
                prop_assert_eq!(sum, taken);
                prop_assert!(taken <= bytes.len());
            }
        }
    }

    #[test]
    fn a_record_in_two_halves_waits_for_the_second() {
        let mut bytes = vec![0; HEADER_BYTES + 10];
        Header { kind: Kind::Data, body_bytes: 10, file: 3, offset: 9 }.encode(&mut bytes);
        for cut in 0..bytes.len() {
            let mut records = Vec::new();
            assert_eq!(split_records(&bytes[..cut], &mut records), Ok(0));
            assert!(records.is_empty());
        }
        let mut records = Vec::new();
        assert_eq!(split_records(&bytes, &mut records), Ok(bytes.len()));
        assert_eq!(records.len(), 1);
    }
}
