//! The header of every message (RFC 7296, section 3.1).

use super::{Malformed, PayloadType, Reader};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 28;

const FLAG_INITIATOR: u8 = 0x08;
const FLAG_RESPONSE: u8 = 0x20;
const VERSION: u8 = 0x20;

/// Both ends' SPIs of an IKE SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spis {
    /// Chosen by whoever began the IKE SA.
    pub initiator: u64,
    /// Chosen by the other end; 0 in the first request.
    pub responder: u64,
}

impl Spis {
    /// Returns the SPIs as on the wire: the initiator's, then the responder's.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.initiator.to_be_bytes());
        bytes[8..].copy_from_slice(&self.responder.to_be_bytes());
        bytes
    }
}

/// The exchange that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exchange {
    /// IKE_SA_INIT.
    Init,
    /// IKE_AUTH.
    Auth,
    /// CREATE_CHILD_SA.
    CreateChild,
    /// INFORMATIONAL: deletions, errors and probes (RFC 7296, section 1.4).
    Informational,
    /// IKE_INTERMEDIATE (RFC 9242).
    Intermediate,
    /// IKE_FOLLOWUP_KE (RFC 9370).
    FollowupKe,
    /// An exchange that is not supported here.
    Other(u8),
}

impl Exchange {
    /// Returns the exchange's number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Init => 34,
            Self::Auth => 35,
            Self::CreateChild => 36,
            Self::Informational => 37,
            Self::Intermediate => 43,
            Self::FollowupKe => 44,
            Self::Other(number) => number,
        }
    }

    /// Returns the exchange with this number.
    pub const fn from_number(number: u8) -> Self {
        match number {
            34 => Self::Init,
            35 => Self::Auth,
            36 => Self::CreateChild,
            37 => Self::Informational,
            43 => Self::Intermediate,
            44 => Self::FollowupKe,
            other => Self::Other(other),
        }
    }
}

/// The header of a message, without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The SPIs of the IKE SA.
    pub spis: Spis,
    /// The type of the first payload.
    pub first: PayloadType,
    /// The type of the exchange, the same in request and answer.
    pub exchange: Exchange,
    /// Whether the sender began the IKE SA.
    pub is_from_initiator: bool,
    /// Whether the message answers a request.
    pub is_response: bool,
    /// The number of the request, counted separately in each direction.
    pub message_id: u32,
}

impl Header {
    /// Reads the header of the message `bytes`.
    ///
    /// # Errors
    /// Fails if there are too few bytes, if they have another version, or if their number differs from the header's.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("the header", bytes);
        let spis = Spis { initiator: reader.u64()?, responder: reader.u64()? };
        let first = PayloadType(reader.u8()?);
        let version = reader.u8()?;
        let exchange = Exchange::from_number(reader.u8()?);
        let flags = reader.u8()?;
        let message_id = reader.u32()?;
        let length = reader.u32()?;
        if version >> 4 != 2 {
            return Err(Malformed::Version { major: version >> 4 });
        }
        if usize::try_from(length) != Ok(bytes.len()) || bytes.len() > MAX_DATAGRAM_BYTES {
            return Err(Malformed::Length { what: "the message" });
        }
        Ok(Self {
            spis,
            first,
            exchange,
            is_from_initiator: flags & FLAG_INITIATOR != 0,
            is_response: flags & FLAG_RESPONSE != 0,
            message_id,
        })
    }

    /// Returns the header of a message of `length_bytes` bytes, including the header.
    ///
    /// # Panics
    /// Panics if the length does not fit 32 bits, which no buffer of ours reaches.
    pub fn to_bytes(self, length_bytes: usize) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..16].copy_from_slice(&self.spis.to_bytes());
        let initiator = if self.is_from_initiator { FLAG_INITIATOR } else { 0 };
        let response = if self.is_response { FLAG_RESPONSE } else { 0 };
        bytes[16..20].copy_from_slice(&[self.first.0, VERSION, self.exchange.number(), initiator | response]);
        bytes[20..24].copy_from_slice(&self.message_id.to_be_bytes());
        let length = u32::try_from(length_bytes).expect("a message is far shorter than 4 GiB");
        bytes[24..].copy_from_slice(&length.to_be_bytes());
        bytes
    }
}

/// Longest datagram that is read: the maximum of UDP.
const MAX_DATAGRAM_BYTES: usize = 65_535;
