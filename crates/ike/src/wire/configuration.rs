//! Configuration payloads (RFC 7296, section 3.15): addresses, name servers and domains for a peer without a network
//! of its own.

use super::{MAX_ATTRIBUTES, Malformed, Reader};

/// The purpose of a Configuration payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationType {
    /// CFG_REQUEST.
    Request,
    /// CFG_REPLY.
    Reply,
    /// CFG_SET.
    Set,
    /// CFG_ACK.
    Acknowledge,
}

/// One value of a Configuration payload; empty in a request for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its type, 15 bits.
    pub kind: u16,
    /// The bytes, laid out as the type says.
    pub value: Vec<u8>,
}

impl Attribute {
    /// INTERNAL_IP4_ADDRESS: 4 bytes.
    pub const INTERNAL_IP4_ADDRESS: u16 = 1;
    /// INTERNAL_IP4_DNS: 4 bytes.
    pub const INTERNAL_IP4_DNS: u16 = 3;
    /// INTERNAL_IP6_ADDRESS: 16 bytes and a prefix length.
    pub const INTERNAL_IP6_ADDRESS: u16 = 8;
    /// INTERNAL_IP6_DNS: 16 bytes.
    pub const INTERNAL_IP6_DNS: u16 = 10;
    /// INTERNAL_DNS_DOMAIN (RFC 8598): a name as text.
    pub const INTERNAL_DNS_DOMAIN: u16 = 25;
}

/// A Configuration payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its purpose.
    pub kind: ConfigurationType,
    /// Its values.
    pub attributes: Vec<Attribute>,
}

impl Configuration {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("a configuration", body);
        let kind = match reader.u8()? {
            1 => ConfigurationType::Request,
            2 => ConfigurationType::Reply,
            3 => ConfigurationType::Set,
            4 => ConfigurationType::Acknowledge,
            _ => return Err(Malformed::Value { what: "the type of a configuration" }),
        };
        reader.bytes(3)?;
        let mut attributes = Vec::new();
        while !reader.is_empty() {
            if attributes.len() == MAX_ATTRIBUTES {
                return Err(Malformed::TooMany { what: "configuration attributes", most: MAX_ATTRIBUTES });
            }
            let kind = reader.u16()? & 0x7fff;
            let length = usize::from(reader.u16()?);
            attributes.push(Attribute { kind, value: reader.bytes(length)?.to_vec() });
        }
        Ok(Self { kind, attributes })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            ConfigurationType::Request => 1,
            ConfigurationType::Reply => 2,
            ConfigurationType::Set => 3,
            ConfigurationType::Acknowledge => 4,
        };
        out.extend([kind, 0, 0, 0]);
        for attribute in &self.attributes {
            out.extend(attribute.kind.to_be_bytes());
            let length = u16::try_from(attribute.value.len()).expect("our own values are short");
            out.extend(length.to_be_bytes());
            out.extend(&attribute.value);
        }
    }
}
