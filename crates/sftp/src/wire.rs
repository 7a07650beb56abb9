//! Integers and strings of SSH (RFC 4251, section 5), read from untrusted bytes.

/// The longest packet that is sent or accepted, without its length: OpenSSH's own bound.
pub const PACKET_BYTES_MAX: usize = 256 * 1024;

/// The error of malformed bytes from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A packet without a type, or longer than [`PACKET_BYTES_MAX`].
    #[error("a packet of {bytes} bytes")]
    PacketLength {
        /// The length that was found.
        bytes: usize,
    },
    /// A packet ends within a field.
    #[error("a {what} that ends too early")]
    Short {
        /// The field or packet that was being read.
        what: &'static str,
    },
    /// A field is longer than it may be.
    #[error("a {what} of {bytes} bytes")]
    Long {
        /// The field or packet that was being read.
        what: &'static str,
        /// The length that was found.
        bytes: usize,
    },
    /// Bytes that belong to no field.
    #[error("{bytes} bytes after a {what}")]
    Trailing {
        /// The packet that was being read.
        what: &'static str,
        /// The number of bytes.
        bytes: usize,
    },
    /// No reply has this type.
    #[error("a packet of type {code}, which is no reply")]
    Type {
        /// The byte that was found.
        code: u8,
    },
    /// The reply to a request that is not in flight.
    #[error("a reply to request {id}, which is not under way")]
    Unasked {
        /// The number that was found.
        id: u32,
    },
    /// The reply does not fit the request.
    #[error("a reply of type {code} to a request of type {asked}")]
    Unfit {
        /// The type of the reply.
        code: u8,
        /// The type of the request.
        asked: u8,
    },
    /// More data than requested, or none without a status.
    #[error("{bytes} bytes where {asked} were asked for")]
    Amount {
        /// The number of bytes in the reply.
        bytes: usize,
        /// The number of requested bytes.
        asked: usize,
    },
    /// Another version of the protocol.
    #[error("version {version} of SFTP, where 3 was asked for")]
    Version {
        /// The version that was found.
        version: u32,
    },
}

/// Reads fields from the front of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(rest: &'a [u8], what: &'static str) -> Self {
        Self { rest, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn left_bytes(&self) -> usize {
        self.rest.len()
    }

    /// Refuses bytes after the last field: they would only occupy memory.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(Malformed::Trailing { what: self.what, bytes }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(Malformed::Short { what: self.what })?;
        self.rest = rest;
        Ok(*front)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        let taken = self.rest.split_at_checked(length).ok_or(Malformed::Short { what: self.what })?;
        self.rest = taken.1;
        Ok(taken.0)
    }
}

pub(crate) fn put_u32(packet: &mut Vec<u8>, value: u32) {
    packet.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_u64(packet: &mut Vec<u8>, value: u64) {
    packet.extend_from_slice(&value.to_be_bytes());
}

/// Strings come from callers, which keep paths below the kernel's `PATH_MAX`.
pub(crate) fn put_string(packet: &mut Vec<u8>, string: &[u8]) {
    put_u32(packet, string.len() as u32);
    packet.extend_from_slice(string);
}
