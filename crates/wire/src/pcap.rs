//! Captures in the classic `libpcap` format (draft-ietf-opsawg-pcap): both byte orders and both resolutions are read;
//! little endian with nanoseconds is written.

use crate::malformed::{Malformed, at_least};
use std::time::Duration;

/// Bytes of a file's header.
pub const FILE_HEADER_BYTES: usize = 24;
/// Bytes of a record's header.
pub const RECORD_HEADER_BYTES: usize = 16;
/// Most bytes of one packet: the value that tools write today, and more than any packet has.
const SNAP_BYTES: u32 = 262_144;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// The protocol that every packet of a capture begins with (`LINKTYPE_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Ethernet frames (`LINKTYPE_ETHERNET`).
    Ethernet,
    /// FDDI with LLC.
    Fddi,
    /// IPv4 or IPv6.
    Ip,
    /// Any other.
    Other(u16),
}

impl Link {
    const fn number(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::Fddi => 10,
            Self::Ip => 101,
            Self::Other(number) => number,
        }
    }

    const fn from_number(number: u16) -> Self {
        match number {
            1 => Self::Ethernet,
            10 => Self::Fddi,
            101 => Self::Ip,
            other => Self::Other(other),
        }
    }
}

/// Byte order and resolution of a capture's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The protocol that packets begin with.
    pub link: Link,
    is_big_endian: bool,
    has_nanoseconds: bool,
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Since 1970.
    pub time: Duration,
    /// Bytes of the packet in the file, at most [`SNAP_BYTES`].
    pub captured_bytes: usize,
    /// Bytes that the packet had.
    pub original_bytes: u32,
}

impl Format {
    /// Returns the format that this crate writes.
    #[must_use]
    pub const fn new(link: Link) -> Self {
        Self { link, is_big_endian: false, has_nanoseconds: true }
    }

    fn word(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    /// Reads a file's header.
    ///
    /// # Errors
    /// Fails if it is cut short or not one of this format.
    pub fn parse(header: &[u8]) -> Result<Self, Malformed> {
        at_least("pcap", header, FILE_HEADER_BYTES)?;
        let mut format = Self::new(Link::Ip);
        for is_big_endian in [false, true] {
            format.is_big_endian = is_big_endian;
            let magic = format.word(header, 0);
            if magic == MICROSECONDS || magic == NANOSECONDS {
                format.has_nanoseconds = magic == NANOSECONDS;
                format.link = Link::from_number(format.word(header, 20) as u16);
                return Ok(format);
            }
        }
        Err(Malformed::Field { header: "pcap", field: "magic number", value: format.word(header, 0) })
    }

    /// Returns the header of a file in the format that this crate writes.
    #[must_use]
    pub fn file_header(self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..4].copy_from_slice(&NANOSECONDS.to_le_bytes());
        bytes[4..6].copy_from_slice(&2u16.to_le_bytes());
        bytes[6..8].copy_from_slice(&4u16.to_le_bytes());
        bytes[16..20].copy_from_slice(&SNAP_BYTES.to_le_bytes());
        bytes[20..24].copy_from_slice(&u32::from(self.link.number()).to_le_bytes());
        bytes
    }

    /// Reads a record's header.
    ///
    /// # Errors
    /// Fails if it is cut short, or the packet longer than any can be.
    pub fn record(self, header: &[u8]) -> Result<Record, Malformed> {
        at_least("pcap record", header, RECORD_HEADER_BYTES)?;
        let [seconds, fraction, captured, original_bytes] = [0, 4, 8, 12].map(|at| self.word(header, at));
        if captured > SNAP_BYTES {
            return Err(Malformed::Field { header: "pcap record", field: "length", value: captured });
        }
        let fraction = u64::from(fraction) * if self.has_nanoseconds { 1 } else { 1000 };
        let time = Duration::from_secs(seconds.into()) + Duration::from_nanos(fraction);
        Ok(Record { time, captured_bytes: captured as usize, original_bytes })
    }
}

impl Record {
    /// Returns the record header in the format that this crate writes. Seconds beyond the year 2106 do not fit, and
    /// their high bits are cut off.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        let words = [
            self.time.as_secs() as u32,
            self.time.subsec_nanos(),
            self.captured_bytes as u32,
            self.original_bytes,
        ];
        for (place, word) in bytes.chunks_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for link in [Link::Ethernet, Link::Fddi, Link::Ip, Link::Other(147)] {
            let format = Format::new(link);
            assert_eq!(Format::parse(&format.file_header()), Ok(format));
            let record = Record {
                time: Duration::new(1_700_000_000, 999_999_999),
                captured_bytes: 60,
                original_bytes: 1500,
            };
            assert_eq!(format.record(&record.to_bytes()), Ok(record));
        }
    }

    #[test]
    fn the_other_byte_order_and_microseconds_are_read() {
        let mut header = [0; FILE_HEADER_BYTES];
        header[..4].copy_from_slice(&MICROSECONDS.to_be_bytes());
        header[20..].copy_from_slice(&101u32.to_be_bytes());
        let format = Format::parse(&header).unwrap();
        assert_eq!(format.link, Link::Ip);
        let record: Vec<u8> = [7u32, 5, 40, 41].iter().flat_map(|word| word.to_be_bytes()).collect();
        let time = Duration::from_secs(7) + Duration::from_micros(5);
        assert_eq!(format.record(&record), Ok(Record { time, captured_bytes: 40, original_bytes: 41 }));
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        assert!(Format::parse(&[0; FILE_HEADER_BYTES]).is_err());
        assert!(Format::parse(&[0; 10]).is_err());
        let record: Vec<u8> =
            [7u32, 5, SNAP_BYTES + 1, 41].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(Format::new(Link::Ip).record(&record).is_err());
        assert!(Format::new(Link::Ip).record(&record[..15]).is_err());
    }
}
