//! Security Association payloads (RFC 7296, section 3.3): proposals of transforms, as they are encoded.
//!
//! Guarantees: a transform with an attribute other than one key length is kept, but marked so that it is never
//! chosen.

use super::{MAX_TRANSFORMS, Malformed, Reader, with_length};

const ATTRIBUTE_KEY_LENGTH: u16 = 14;

/// The protocol of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// IKE itself.
    Ike,
    /// Authentication header.
    Ah,
    /// Encapsulating security payload.
    Esp,
    /// A protocol that is not supported here.
    Other(u8),
}

impl Protocol {
    /// Returns the protocol's number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Ike => 1,
            Self::Ah => 2,
            Self::Esp => 3,
            Self::Other(number) => number,
        }
    }

    /// Returns the protocol with this number.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Ike,
            2 => Self::Ah,
            3 => Self::Esp,
            other => Self::Other(other),
        }
    }
}

/// The type of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransformType(pub u8);

impl TransformType {
    /// Encryption, for IKE and ESP (RFC 7296, section 3.3.2).
    pub const ENCRYPTION: Self = Self(1);
    /// Pseudo-random function.
    pub const PRF: Self = Self(2);
    /// Integrity, for AH, and for IKE and ESP unless the encryption provides it.
    pub const INTEGRITY: Self = Self(3);
    /// Key exchange, called Diffie-Hellman group before RFC 9370; optional for ESP and AH.
    pub const KEY_EXCHANGE: Self = Self(4);
    /// Sequence numbers: 0 for 32 bits, 1 for 64.
    pub const SEQUENCE_NUMBERS: Self = Self(5);

    /// Returns the `index`th additional key exchange (RFC 9370, section 2.2.1), 0 to 6.
    pub const fn additional_key_exchange(index: usize) -> Self {
        debug_assert!(index < 7);
        Self(6 + index as u8)
    }

    /// Returns the type's name for people.
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "encryption",
            2 => "pseudo-random function",
            3 => "integrity",
            4 => "key exchange",
            5 => "sequence numbers",
            6..=12 => "additional key exchange",
            _ => "unknown transform",
        }
    }
}

/// One algorithm of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transform {
    /// Its type.
    pub kind: TransformType,
    /// The algorithm's number in the registry of its type.
    pub id: u16,
    /// The key's length, if the algorithm has several.
    pub key_bits: Option<u16>,
    /// Whether it has attributes that are not known here, so that it must not be chosen.
    pub has_unknown_attributes: bool,
}

impl Transform {
    /// Returns a transform without unknown attributes.
    pub const fn new(kind: TransformType, id: u16, key_bits: Option<u16>) -> Self {
        Self { kind, id, key_bits, has_unknown_attributes: false }
    }
}

/// One proposal of a Security Association payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its number, counted from 1.
    pub number: u8,
    /// The protocol of the association that is negotiated.
    pub protocol: Protocol,
    /// The sender's SPI: 0, 4 or 8 bytes.
    pub spi: Vec<u8>,
    /// Alternatives of each type, in order of preference.
    pub transforms: Vec<Transform>,
}

impl Proposal {
    /// Returns the transforms of one type, in order.
    pub fn of(&self, kind: TransformType) -> impl Iterator<Item = &Transform> {
        self.transforms.iter().filter(move |transform| transform.kind == kind)
    }

    pub(crate) fn parse_all(body: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut reader = Reader::new("proposals", body);
        let mut proposals = Vec::new();
        let mut transforms_left = MAX_TRANSFORMS;
        let mut more = true;
        while more {
            more = match reader.u8()? {
                0 => false,
                2 => true,
                _ => return Err(Malformed::Value { what: "the mark of the last proposal" }),
            };
            reader.u8()?;
            let length = usize::from(reader.u16()?);
            let body = length.checked_sub(4).ok_or(Malformed::Length { what: "a proposal" })?;
            let mut body = Reader::new("a proposal", reader.bytes(body)?);
            let number = body.u8()?;
            let protocol = Protocol::from_number(body.u8()?);
            let spi_bytes = usize::from(body.u8()?);
            let count = usize::from(body.u8()?);
            let spi = body.bytes(spi_bytes)?.to_vec();
            transforms_left = transforms_left
                .checked_sub(count.max(1))
                .ok_or(Malformed::TooMany { what: "transforms", most: MAX_TRANSFORMS })?;
            let mut transforms = Vec::new();
            for index in 1..=count {
                transforms.push(parse_transform(&mut body, index == count)?);
            }
            if !body.is_empty() {
                return Err(Malformed::Length { what: "a proposal" });
            }
            proposals.push(Self { number, protocol, spi, transforms });
        }
        if !reader.is_empty() {
            return Err(Malformed::Length { what: "proposals" });
        }
        Ok(proposals)
    }

    pub(crate) fn write_all(proposals: &[Self], out: &mut Vec<u8>) {
        for (index, proposal) in proposals.iter().enumerate() {
            let is_last = index + 1 == proposals.len();
            out.extend([if is_last { 0 } else { 2 }, 0]);
            with_length(out, 2, |out| {
                let spi_bytes = u8::try_from(proposal.spi.len()).expect("an SPI has at most 8 bytes");
                let count = u8::try_from(proposal.transforms.len()).expect("our own proposals are short");
                out.extend([proposal.number, proposal.protocol.number(), spi_bytes, count]);
                out.extend(&proposal.spi);
                for (index, transform) in proposal.transforms.iter().enumerate() {
                    write_transform(transform, index + 1 == proposal.transforms.len(), out);
                }
            });
        }
    }
}

fn parse_transform(reader: &mut Reader<'_>, is_last: bool) -> Result<Transform, Malformed> {
    if reader.u8()? != if is_last { 0 } else { 3 } {
        return Err(Malformed::Value { what: "the mark of the last transform" });
    }
    reader.u8()?;
    let length = usize::from(reader.u16()?);
    let body = length.checked_sub(4).ok_or(Malformed::Length { what: "a transform" })?;
    let mut body = Reader::new("a transform", reader.bytes(body)?);
    let kind = TransformType(body.u8()?);
    body.u8()?;
    let mut transform = Transform::new(kind, body.u16()?, None);
    while !body.is_empty() {
        let attribute = body.u16()?;
        let value = body.u16()?;
        if attribute == 0x8000 | ATTRIBUTE_KEY_LENGTH && transform.key_bits.is_none() {
            transform.key_bits = Some(value);
        } else {
            transform.has_unknown_attributes = true;
            if attribute & 0x8000 == 0 {
                body.bytes(usize::from(value))?;
            }
        }
    }
    Ok(transform)
}

fn write_transform(transform: &Transform, is_last: bool, out: &mut Vec<u8>) {
    out.extend([if is_last { 0 } else { 3 }, 0]);
    with_length(out, 2, |out| {
        out.extend([transform.kind.0, 0]);
        out.extend(transform.id.to_be_bytes());
        if let Some(bits) = transform.key_bits {
            out.extend((0x8000 | ATTRIBUTE_KEY_LENGTH).to_be_bytes());
            out.extend(bits.to_be_bytes());
        }
    });
}
