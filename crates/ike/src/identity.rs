//! Identities of ends (RFC 7296, section 3.5).
//!
//! Guarantees: two identities are equal only if their types and all bytes are equal; an identity is never a pattern.
//! Names of hosts are compared without regard to case, as DNS does, and distinguished names without regard to the kinds of
//! their strings.

mod name;

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::wire::Identification;

const ID_IPV4_ADDR: u8 = 1;
const ID_FQDN: u8 = 2;
const ID_RFC822_ADDR: u8 = 3;
const ID_IPV6_ADDR: u8 = 5;
const ID_DER_ASN1_DN: u8 = 9;
const ID_KEY_ID: u8 = 11;

/// Longest identity that is accepted, in bytes.
const MAX_IDENTITY_BYTES: usize = 1024;

/// The identity of an end.
#[derive(Clone)]
pub enum Identity {
    /// ID_IPV4_ADDR or ID_IPV6_ADDR (RFC 7296, section 3.5).
    Address(IpAddr),
    /// A host's name, in lower case.
    Host(String),
    /// A mail address.
    Mail(String),
    /// A distinguished name, in DER.
    DistinguishedName(Vec<u8>),
    /// Bytes with a meaning that only the two ends know.
    KeyId(Vec<u8>),
}

impl Identity {
    /// Returns the type, and the bytes that are compared.
    fn compared(&self) -> (u8, Cow<'_, [u8]>) {
        match self {
            Self::Address(IpAddr::V4(address)) => (ID_IPV4_ADDR, address.octets().to_vec().into()),
            Self::Address(IpAddr::V6(address)) => (ID_IPV6_ADDR, address.octets().to_vec().into()),
            Self::Host(name) => (ID_FQDN, name.as_bytes().into()),
            Self::Mail(name) => (ID_RFC822_ADDR, name.as_bytes().into()),
            Self::DistinguishedName(der) => (ID_DER_ASN1_DN, name::canonical(der).into()),
            Self::KeyId(bytes) => (ID_KEY_ID, bytes.into()),
        }
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.compared() == other.compared()
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.compared().hash(state);
    }
}

/// A peer's identity that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an identity of type {kind} with {bytes} bytes is none that is understood here")]
pub struct UnknownIdentity {
    /// Its type.
    pub kind: u8,
    /// Its length in bytes.
    pub bytes: usize,
}

impl Identity {
    /// Reads an identity as a user writes it: an address, a distinguished name such as `C=CH, CN=vpn.example`, a name with
    /// an @ as a mail address, or any other text as a host's name.
    pub fn from_text(text: &str) -> Self {
        if let Ok(address) = text.parse() {
            Self::Address(address)
        } else if let Some(der) = name::parse(text) {
            Self::DistinguishedName(der)
        } else if text.contains('@') {
            Self::Mail(text.to_owned())
        } else {
            Self::Host(text.to_ascii_lowercase())
        }
    }

    /// Reads the identity in a payload.
    ///
    /// # Errors
    /// Fails if its type is unknown, or if its bytes do not fit the type.
    pub fn from_wire(wire: &Identification) -> Result<Self, UnknownIdentity> {
        let unknown = UnknownIdentity { kind: wire.kind, bytes: wire.data.len() };
        if wire.data.len() > MAX_IDENTITY_BYTES || wire.data.is_empty() {
            return Err(unknown);
        }
        let text = || {
            let text = str::from_utf8(&wire.data).ok()?;
            (!text.contains(char::is_control)).then(|| text.to_owned())
        };
        Ok(match wire.kind {
            ID_IPV4_ADDR => Self::Address(
                <[u8; 4]>::try_from(&*wire.data).map(Ipv4Addr::from).map_err(|_| unknown)?.into(),
            ),
            ID_IPV6_ADDR => Self::Address(
                <[u8; 16]>::try_from(&*wire.data).map(Ipv6Addr::from).map_err(|_| unknown)?.into(),
            ),
            ID_FQDN => Self::Host(text().ok_or(unknown)?.to_ascii_lowercase()),
            ID_RFC822_ADDR => Self::Mail(text().ok_or(unknown)?),
            ID_DER_ASN1_DN => Self::DistinguishedName(wire.data.clone()),
            ID_KEY_ID => Self::KeyId(wire.data.clone()),
            _ => return Err(unknown),
        })
    }

    /// Returns the identity as a payload.
    pub fn to_wire(&self) -> Identification {
        let (kind, data) = match self {
            Self::Address(IpAddr::V4(address)) => (ID_IPV4_ADDR, address.octets().to_vec()),
            Self::Address(IpAddr::V6(address)) => (ID_IPV6_ADDR, address.octets().to_vec()),
            Self::Host(name) => (ID_FQDN, name.as_bytes().to_vec()),
            Self::Mail(name) => (ID_RFC822_ADDR, name.as_bytes().to_vec()),
            Self::DistinguishedName(der) => (ID_DER_ASN1_DN, der.clone()),
            Self::KeyId(bytes) => (ID_KEY_ID, bytes.clone()),
        };
        Identification { kind, data }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Host(name) | Self::Mail(name) => f.write_str(name),
            Self::DistinguishedName(der) => match name::text(der) {
                Some(text) => f.write_str(&text),
                None => write!(f, "a distinguished name of {} bytes", der.len()),
            },
            Self::KeyId(bytes) => write!(f, "key id {}", bytes.escape_ascii()),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
