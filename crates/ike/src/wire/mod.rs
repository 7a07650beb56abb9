//! Messages of IKEv2 (RFC 7296, section 3) as values.
//!
//! Guarantees: any bytes yield a value or a [`Malformed`]; the size of a value is bounded by the bytes that it was
//! read from and by the constants here; a value that is written is read back unchanged.

pub mod configuration;
pub mod header;
pub mod methods;
pub mod notify;
pub mod payload;
pub mod proposal;
pub mod selector;

pub use configuration::{Attribute, Configuration, ConfigurationType};
pub use header::{Exchange, HEADER_BYTES, Header, Spis};
pub use methods::Announcement;
pub use notify::{Notify, NotifyType};
pub use payload::{Chain, Delete, Identification, Payload, PayloadType, Payloads};
pub use proposal::{Proposal, Protocol, Transform, TransformType};
pub use selector::TrafficSelector;

/// Longest message that is accepted, in bytes, after fragments are joined. Messages of existing implementations stay
/// below 10,000.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024;
/// Maximum number of payloads in a message. Windows sends 12, a strongSwan with many vendor identifiers about 20.
pub const MAX_PAYLOADS: usize = 48;
/// Maximum number of transforms in all proposals of a message together. strongSwan's default proposals have 60.
pub const MAX_TRANSFORMS: usize = 512;
/// Maximum number of traffic selectors in a payload.
pub const MAX_SELECTORS: usize = 32;
/// Maximum number of SPIs in a Delete payload.
pub const MAX_DELETED_SPIS: usize = 64;
/// Maximum number of attributes in a Configuration payload.
pub const MAX_ATTRIBUTES: usize = 64;

/// The reason why bytes are not a message: the sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end before the announced length.
    #[error("the message ends inside {what}")]
    Short {
        /// The field that is cut short.
        what: &'static str,
    },
    /// A length contradicts the data that it describes.
    #[error("a length of {what} is wrong")]
    Length {
        /// The field.
        what: &'static str,
    },
    /// There are more elements than are accepted.
    #[error("more than {most} {what}")]
    TooMany {
        /// The elements.
        what: &'static str,
        /// The maximum number.
        most: usize,
    },
    /// A field has a value that is not allowed.
    #[error("{what} has a value that it must not have")]
    Value {
        /// The field.
        what: &'static str,
    },
    /// The major version is not 2.
    #[error("IKE version {major}, where 2 is spoken")]
    Version {
        /// The sender's major version.
        major: u8,
    },
    /// An unknown payload must not be skipped (RFC 7296, section 2.5).
    #[error("payload type {number} is unknown and critical")]
    UnknownCritical {
        /// Its type.
        number: u8,
    },
}

/// Takes bytes from the front of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Short { what: self.what })?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Short { what: self.what })?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }
}

/// Writes `body` behind a length of 16 bits, which also counts the `counted_before` bytes before itself.
pub(crate) fn with_length(out: &mut Vec<u8>, counted_before: usize, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 2]);
    body(out);
    let length = out.len() - at + counted_before;
    let length = u16::try_from(length).expect("our own payloads are far below 64 KiB");
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
}
