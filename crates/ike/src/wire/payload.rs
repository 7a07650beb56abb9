//! Payloads (RFC 7296, from section 3.2 on): the chain that they form, and each as a value.
//!
//! Guarantees: [`Chain`] walks a message without allocating, so a stranger's first message can be judged cheaply; an
//! unknown payload is skipped unless it is critical.

use std::fmt;

use super::{
    Configuration, MAX_DELETED_SPIS, MAX_PAYLOADS, Malformed, Notify, Proposal, Protocol, Reader,
    TrafficSelector, with_length,
};

/// The number of a payload's type. Names and sections are those of RFC 7296.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadType(pub u8);

impl PayloadType {
    /// The end of a chain.
    pub const NONE: Self = Self(0);
    /// SA, section 3.3.
    pub const SECURITY_ASSOCIATION: Self = Self(33);
    /// KE, section 3.4.
    pub const KEY_EXCHANGE: Self = Self(34);
    /// IDi, section 3.5.
    const ID_INITIATOR: Self = Self(35);
    /// IDr, section 3.5.
    const ID_RESPONDER: Self = Self(36);
    /// CERT, section 3.6.
    pub const CERTIFICATE: Self = Self(37);
    /// CERTREQ, section 3.7.
    const CERTIFICATE_REQUEST: Self = Self(38);
    /// AUTH, section 3.8.
    const AUTHENTICATION: Self = Self(39);
    /// Ni or Nr, section 3.9.
    pub const NONCE: Self = Self(40);
    /// N, section 3.10.
    pub const NOTIFY: Self = Self(41);
    /// D, section 3.11.
    pub const DELETE: Self = Self(42);
    /// V, section 3.12.
    pub const VENDOR_ID: Self = Self(43);
    /// TSi, section 3.13: the traffic on the initiator's side.
    const SELECTORS_INITIATOR: Self = Self(44);
    /// TSr, section 3.13: the traffic on the responder's side.
    const SELECTORS_RESPONDER: Self = Self(45);
    /// SK, section 3.14: encrypted and authenticated payloads.
    pub const ENCRYPTED: Self = Self(46);
    /// CP, section 3.15.
    const CONFIGURATION: Self = Self(47);
    /// EAP, section 3.16.
    const EAP: Self = Self(48);
    /// SKF (RFC 7383): a fragment of encrypted and authenticated payloads.
    pub const ENCRYPTED_FRAGMENT: Self = Self(53);
}

/// The payloads of a message, one after the other, as bytes.
#[derive(Clone, Debug)]
pub struct Chain<'a> {
    next: PayloadType,
    rest: Reader<'a>,
    count: usize,
}

/// The bytes of one payload in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Its type.
    pub kind: PayloadType,
    /// Whether a receiver that does not know the type must refuse the message.
    pub is_critical: bool,
    /// The type of the payload that follows it; for an encrypted payload, the type of the first payload in it.
    pub next: PayloadType,
    /// The bytes behind its header.
    pub body: &'a [u8],
}

impl<'a> Chain<'a> {
    /// Returns the chain that begins with a payload of type `first`.
    pub fn new(first: PayloadType, bytes: &'a [u8]) -> Self {
        Self { next: first, rest: Reader::new("the payloads", bytes), count: 0 }
    }

    fn step(&mut self) -> Result<Option<Raw<'a>>, Malformed> {
        if self.next == PayloadType::NONE {
            return if self.rest.is_empty() {
                Ok(None)
            } else {
                Err(Malformed::Length { what: "the last payload" })
            };
        }
        self.count += 1;
        if self.count > MAX_PAYLOADS {
            return Err(Malformed::TooMany { what: "payloads", most: MAX_PAYLOADS });
        }
        let kind = self.next;
        let next = PayloadType(self.rest.u8()?);
        let is_critical = self.rest.u8()? & 0x80 != 0;
        let length = usize::from(self.rest.u16()?);
        let body = length.checked_sub(4).ok_or(Malformed::Length { what: "a payload" })?;
        let body = self.rest.bytes(body)?;
        // An encrypted payload is the last; its header names the first payload inside.
        let is_encrypted = kind == PayloadType::ENCRYPTED || kind == PayloadType::ENCRYPTED_FRAGMENT;
        self.next = if is_encrypted { PayloadType::NONE } else { next };
        Ok(Some(Raw { kind, is_critical, next, body }))
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = Result<Raw<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step().transpose();
        if matches!(item, Some(Err(_))) {
            (self.next, self.rest) = (PayloadType::NONE, Reader::new("the payloads", &[]));
        }
        item
    }
}

/// An Identification payload.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identification {
    /// Its type, such as 1 for an IPv4 address and 2 for a host's name.
    pub kind: u8,
    /// The identity.
    pub data: Vec<u8>,
}

impl fmt::Debug for Identification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identification({}, {})", self.kind, self.data.escape_ascii())
    }
}

impl Identification {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("an identity", body);
        let kind = reader.u8()?;
        reader.bytes(3)?;
        Ok(Self { kind, data: reader.rest().to_vec() })
    }

    /// Returns the payload's body, which authentication signs.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.kind, 0, 0, 0];
        out.extend(&self.data);
        out
    }
}

/// A Delete payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delete {
    /// The IKE SA itself.
    Ike,
    /// ESP associations, by the SPIs under which the sender of the payload receives.
    Esp(Vec<u32>),
    /// AH associations, by the SPIs under which the sender of the payload receives.
    Ah(Vec<u32>),
    /// Associations of a protocol that is not supported here.
    Other(u8),
}

impl Delete {
    /// Returns the deletion of the associations of a child's protocol that we receive under these SPIs.
    pub fn children(protocol: Protocol, spis: Vec<u32>) -> Self {
        match protocol {
            Protocol::Ah => Self::Ah(spis),
            _ => Self::Esp(spis),
        }
    }

    fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("a deletion", body);
        let protocol = reader.u8()?;
        let spi_bytes = reader.u8()?;
        let count = usize::from(reader.u16()?);
        if count > MAX_DELETED_SPIS {
            return Err(Malformed::TooMany { what: "deleted SPIs", most: MAX_DELETED_SPIS });
        }
        match (protocol, spi_bytes, count) {
            (1, 0, 0) if reader.is_empty() => Ok(Self::Ike),
            (2 | 3, 4, _) => {
                let spis = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
                if reader.is_empty() {
                    Ok(Self::children(Protocol::from_number(protocol), spis))
                } else {
                    Err(Malformed::Length { what: "a deletion" })
                }
            }
            (1..=3, ..) => Err(Malformed::Value { what: "a deletion" }),
            (other, ..) => Ok(Self::Other(other)),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ike => out.extend([1, 0, 0, 0]),
            Self::Esp(spis) | Self::Ah(spis) => {
                let protocol = if matches!(self, Self::Ah(_)) { Protocol::Ah } else { Protocol::Esp };
                out.extend([protocol.number(), 4]);
                out.extend(u16::try_from(spis.len()).expect("at most MAX_DELETED_SPIS").to_be_bytes());
                out.extend(spis.iter().flat_map(|spi| spi.to_be_bytes()));
            }
            Self::Other(protocol) => out.extend([*protocol, 4, 0, 0]),
        }
    }
}

/// One parsed payload of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Proposals of algorithms.
    SecurityAssociation(Vec<Proposal>),
    /// A public value of a key exchange.
    KeyExchange {
        /// The exchange's number among transforms of type 4.
        method: u16,
        /// The value.
        data: Vec<u8>,
    },
    /// The initiator's identity.
    IdInitiator(Identification),
    /// The responder's identity, or the identity that the initiator asks for.
    IdResponder(Identification),
    /// One certificate of a chain, or a public key alone.
    Certificate {
        /// Its encoding, such as 4 for X.509 and 15 for a raw key.
        encoding: u8,
        /// The certificate, or a SubjectPublicKeyInfo, in DER.
        data: Vec<u8>,
    },
    /// The authorities whose certificates are accepted.
    CertificateRequest {
        /// The requested encoding.
        encoding: u8,
        /// SHA-1 digests of authorities' keys, 20 bytes each.
        data: Vec<u8>,
    },
    /// The proof of an identity.
    Authentication {
        /// The method of the proof, such as 2 for a shared key.
        method: u8,
        /// The proof.
        data: Vec<u8>,
    },
    /// 16 to 256 random bytes.
    Nonce(Vec<u8>),
    /// A notification.
    Notify(Notify),
    /// Associations that have ended.
    Delete(Delete),
    /// The software of the sender; ignored.
    VendorId(Vec<u8>),
    /// Traffic on the initiator's side.
    SelectorsInitiator(Vec<TrafficSelector>),
    /// Traffic on the responder's side.
    SelectorsResponder(Vec<TrafficSelector>),
    /// Addresses and name servers.
    Configuration(Configuration),
    /// An EAP message, whose length field has been checked.
    Eap(Vec<u8>),
}

/// Minimum and maximum length of a nonce in bytes (RFC 7296, section 3.9).
const NONCE_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

impl Payload {
    /// Reads one payload. Returns `None` if its type is unknown and it may be skipped, or if it is encrypted.
    ///
    /// # Errors
    /// Fails if the payload is malformed, or unknown and critical.
    pub fn parse(raw: Raw<'_>) -> Result<Option<Self>, Malformed> {
        let Raw { kind, is_critical, body, .. } = raw;
        let mut reader = Reader::new("a payload", body);
        Ok(Some(match kind {
            PayloadType::SECURITY_ASSOCIATION => Self::SecurityAssociation(Proposal::parse_all(body)?),
            PayloadType::KEY_EXCHANGE => {
                let method = reader.u16()?;
                reader.u16()?;
                Self::KeyExchange { method, data: reader.rest().to_vec() }
            }
            PayloadType::ID_INITIATOR => Self::IdInitiator(Identification::parse(body)?),
            PayloadType::ID_RESPONDER => Self::IdResponder(Identification::parse(body)?),
            PayloadType::CERTIFICATE => {
                Self::Certificate { encoding: reader.u8()?, data: reader.rest().to_vec() }
            }
            PayloadType::CERTIFICATE_REQUEST => {
                Self::CertificateRequest { encoding: reader.u8()?, data: reader.rest().to_vec() }
            }
            PayloadType::AUTHENTICATION => {
                let method = reader.u8()?;
                reader.bytes(3)?;
                Self::Authentication { method, data: reader.rest().to_vec() }
            }
            PayloadType::NONCE if NONCE_BYTES.contains(&body.len()) => Self::Nonce(body.to_vec()),
            PayloadType::NONCE => return Err(Malformed::Length { what: "a nonce" }),
            PayloadType::NOTIFY => Self::Notify(Notify::parse(body)?),
            PayloadType::DELETE => Self::Delete(Delete::parse(body)?),
            PayloadType::VENDOR_ID => Self::VendorId(body.to_vec()),
            PayloadType::SELECTORS_INITIATOR => Self::SelectorsInitiator(TrafficSelector::parse_all(body)?),
            PayloadType::SELECTORS_RESPONDER => Self::SelectorsResponder(TrafficSelector::parse_all(body)?),
            PayloadType::CONFIGURATION => Self::Configuration(Configuration::parse(body)?),
            PayloadType::EAP => {
                // The body has a code, an identifier and the length of the whole (RFC 3748, section 4).
                if body.len() < 4 || usize::from(u16::from_be_bytes([body[2], body[3]])) != body.len() {
                    return Err(Malformed::Length { what: "an EAP message" });
                }
                Self::Eap(body.to_vec())
            }
            PayloadType::ENCRYPTED | PayloadType::ENCRYPTED_FRAGMENT => return Ok(None),
            _ if is_critical => return Err(Malformed::UnknownCritical { number: kind.0 }),
            _ => return Ok(None),
        }))
    }

    /// Returns the payload's type.
    pub fn kind(&self) -> PayloadType {
        match self {
            Self::SecurityAssociation(_) => PayloadType::SECURITY_ASSOCIATION,
            Self::KeyExchange { .. } => PayloadType::KEY_EXCHANGE,
            Self::IdInitiator(_) => PayloadType::ID_INITIATOR,
            Self::IdResponder(_) => PayloadType::ID_RESPONDER,
            Self::Certificate { .. } => PayloadType::CERTIFICATE,
            Self::CertificateRequest { .. } => PayloadType::CERTIFICATE_REQUEST,
            Self::Authentication { .. } => PayloadType::AUTHENTICATION,
            Self::Nonce(_) => PayloadType::NONCE,
            Self::Notify(_) => PayloadType::NOTIFY,
            Self::Delete(_) => PayloadType::DELETE,
            Self::VendorId(_) => PayloadType::VENDOR_ID,
            Self::SelectorsInitiator(_) => PayloadType::SELECTORS_INITIATOR,
            Self::SelectorsResponder(_) => PayloadType::SELECTORS_RESPONDER,
            Self::Configuration(_) => PayloadType::CONFIGURATION,
            Self::Eap(_) => PayloadType::EAP,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::SecurityAssociation(proposals) => Proposal::write_all(proposals, out),
            Self::KeyExchange { method, data } => {
                out.extend(method.to_be_bytes());
                out.extend([0; 2]);
                out.extend(data);
            }
            Self::IdInitiator(identity) | Self::IdResponder(identity) => out.extend(identity.to_bytes()),
            Self::Certificate { encoding, data } | Self::CertificateRequest { encoding, data } => {
                out.push(*encoding);
                out.extend(data);
            }
            Self::Authentication { method, data } => {
                out.extend([*method, 0, 0, 0]);
                out.extend(data);
            }
            Self::Nonce(data) | Self::VendorId(data) | Self::Eap(data) => out.extend(data),
            Self::Notify(notify) => notify.write(out),
            Self::Delete(delete) => delete.write(out),
            Self::SelectorsInitiator(selectors) | Self::SelectorsResponder(selectors) => {
                TrafficSelector::write_all(selectors, out);
            }
            Self::Configuration(configuration) => configuration.write(out),
        }
    }
}

/// A chain of payloads under construction.
#[derive(Clone, Debug, Default)]
pub struct Payloads {
    first: u8,
    bytes: Vec<u8>,
    /// The place of the last payload's field with the type of the next one.
    last_next_at: Option<usize>,
}

impl Payloads {
    /// Returns an empty chain.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one payload.
    ///
    /// # Panics
    /// Panics if a payload exceeds 64 KiB; configuration and the limits on a peer's data keep payloads below that.
    pub fn push(&mut self, payload: &Payload) {
        let PayloadType(kind) = payload.kind();
        match self.last_next_at {
            None => self.first = kind,
            Some(at) => self.bytes[at] = kind,
        }
        self.last_next_at = Some(self.bytes.len());
        self.bytes.extend([0; 2]);
        with_length(&mut self.bytes, 2, |out| payload.write(out));
    }

    /// Appends a notification.
    pub fn notify(&mut self, kind: super::NotifyType, data: impl Into<Vec<u8>>) {
        self.push(&Payload::Notify(Notify::new(kind, data)));
    }

    /// Returns the type of the first payload.
    pub fn first(&self) -> PayloadType {
        PayloadType(self.first)
    }

    /// Returns the bytes of the chain.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl FromIterator<Payload> for Payloads {
    fn from_iter<T: IntoIterator<Item = Payload>>(payloads: T) -> Self {
        let mut chain = Self::new();
        payloads.into_iter().for_each(|payload| chain.push(&payload));
        chain
    }
}

/// Reads all payloads of a chain.
///
/// # Errors
/// Fails if a payload is malformed, or unknown and critical.
pub fn parse_all(first: PayloadType, bytes: &[u8]) -> Result<Vec<Payload>, Malformed> {
    let mut payloads = Vec::new();
    for raw in Chain::new(first, bytes) {
        payloads.extend(Payload::parse(raw?)?);
    }
    Ok(payloads)
}
