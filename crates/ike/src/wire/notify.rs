//! Notify payloads (RFC 7296, section 3.10) and the types that are sent or acted on.

use super::{Malformed, Reader};

/// The meaning of a notification; numbers below 16,384 are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotifyType(pub u16);

macro_rules! notify_types {
    ($($name:ident = $number:literal, $word:literal;)*) => {
        impl NotifyType {
            $(#[doc = concat!("`", $word, "`.")] pub const $name: Self = Self($number);)*

            /// Returns the type's name in the registry, if the type is known here.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($word),)*
                    _ => None,
                }
            }
        }
    };
}

notify_types! {
    UNSUPPORTED_CRITICAL_PAYLOAD = 1, "UNSUPPORTED_CRITICAL_PAYLOAD";
    INVALID_IKE_SPI = 4, "INVALID_IKE_SPI";
    INVALID_MAJOR_VERSION = 5, "INVALID_MAJOR_VERSION";
    INVALID_SYNTAX = 7, "INVALID_SYNTAX";
    INVALID_MESSAGE_ID = 9, "INVALID_MESSAGE_ID";
    INVALID_SPI = 11, "INVALID_SPI";
    NO_PROPOSAL_CHOSEN = 14, "NO_PROPOSAL_CHOSEN";
    INVALID_KE_PAYLOAD = 17, "INVALID_KE_PAYLOAD";
    AUTHENTICATION_FAILED = 24, "AUTHENTICATION_FAILED";
    SINGLE_PAIR_REQUIRED = 34, "SINGLE_PAIR_REQUIRED";
    NO_ADDITIONAL_SAS = 35, "NO_ADDITIONAL_SAS";
    INTERNAL_ADDRESS_FAILURE = 36, "INTERNAL_ADDRESS_FAILURE";
    FAILED_CP_REQUIRED = 37, "FAILED_CP_REQUIRED";
    TS_UNACCEPTABLE = 38, "TS_UNACCEPTABLE";
    INVALID_SELECTORS = 39, "INVALID_SELECTORS";
    UNACCEPTABLE_ADDRESSES = 40, "UNACCEPTABLE_ADDRESSES";
    UNEXPECTED_NAT_DETECTED = 41, "UNEXPECTED_NAT_DETECTED";
    TEMPORARY_FAILURE = 43, "TEMPORARY_FAILURE";
    CHILD_SA_NOT_FOUND = 44, "CHILD_SA_NOT_FOUND";
    STATE_NOT_FOUND = 47, "STATE_NOT_FOUND";
    TS_MAX_QUEUE = 48, "TS_MAX_QUEUE";
    INITIAL_CONTACT = 16384, "INITIAL_CONTACT";
    SET_WINDOW_SIZE = 16385, "SET_WINDOW_SIZE";
    ADDITIONAL_TS_POSSIBLE = 16386, "ADDITIONAL_TS_POSSIBLE";
    NAT_DETECTION_SOURCE_IP = 16388, "NAT_DETECTION_SOURCE_IP";
    NAT_DETECTION_DESTINATION_IP = 16389, "NAT_DETECTION_DESTINATION_IP";
    COOKIE = 16390, "COOKIE";
    USE_TRANSPORT_MODE = 16391, "USE_TRANSPORT_MODE";
    REKEY_SA = 16393, "REKEY_SA";
    ESP_TFC_PADDING_NOT_SUPPORTED = 16394, "ESP_TFC_PADDING_NOT_SUPPORTED";
    NON_FIRST_FRAGMENTS_ALSO = 16395, "NON_FIRST_FRAGMENTS_ALSO";
    MOBIKE_SUPPORTED = 16396, "MOBIKE_SUPPORTED";
    ADDITIONAL_IP4_ADDRESS = 16397, "ADDITIONAL_IP4_ADDRESS";
    ADDITIONAL_IP6_ADDRESS = 16398, "ADDITIONAL_IP6_ADDRESS";
    NO_ADDITIONAL_ADDRESSES = 16399, "NO_ADDITIONAL_ADDRESSES";
    UPDATE_SA_ADDRESSES = 16400, "UPDATE_SA_ADDRESSES";
    COOKIE2 = 16401, "COOKIE2";
    NO_NATS_ALLOWED = 16402, "NO_NATS_ALLOWED";
    AUTH_LIFETIME = 16403, "AUTH_LIFETIME";
    EAP_ONLY_AUTHENTICATION = 16417, "EAP_ONLY_AUTHENTICATION";
    CHILDLESS_IKEV2_SUPPORTED = 16418, "CHILDLESS_IKEV2_SUPPORTED";
    IKEV2_FRAGMENTATION_SUPPORTED = 16430, "IKEV2_FRAGMENTATION_SUPPORTED";
    SIGNATURE_HASH_ALGORITHMS = 16431, "SIGNATURE_HASH_ALGORITHMS";
    INTERMEDIATE_EXCHANGE_SUPPORTED = 16438, "INTERMEDIATE_EXCHANGE_SUPPORTED";
    ADDITIONAL_KEY_EXCHANGE = 16441, "ADDITIONAL_KEY_EXCHANGE";
    SUPPORTED_AUTH_METHODS = 16443, "SUPPORTED_AUTH_METHODS";
    SA_RESOURCE_INFO = 16444, "SA_RESOURCE_INFO";
}

impl NotifyType {
    /// Returns whether the type says that something failed.
    pub const fn is_error(self) -> bool {
        self.0 < 16_384
    }
}

impl std::fmt::Display for NotifyType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "notification {}", self.0),
        }
    }
}

/// A Notify payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The protocol that the SPI belongs to: 0 without an SPI, else as in [`super::Protocol`].
    pub protocol: u8,
    /// The SPI that the notification is about: 0, 4 or 8 bytes.
    pub spi: Vec<u8>,
    /// Its type.
    pub kind: NotifyType,
    /// Data that depend on the type.
    pub data: Vec<u8>,
}

impl Notify {
    /// Returns a notification about the IKE SA itself.
    pub fn new(kind: NotifyType, data: impl Into<Vec<u8>>) -> Self {
        Self { protocol: 0, spi: Vec::new(), kind, data: data.into() }
    }

    /// Returns a notification about the association of a child that its sender receives under `spi`.
    pub fn about_child(kind: NotifyType, protocol: super::Protocol, spi: u32) -> Self {
        Self { protocol: protocol.number(), spi: spi.to_be_bytes().to_vec(), kind, data: Vec::new() }
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new("a notification", body);
        let protocol = reader.u8()?;
        let spi_bytes = usize::from(reader.u8()?);
        let kind = NotifyType(reader.u16()?);
        let spi = reader.bytes(spi_bytes)?.to_vec();
        Ok(Self { protocol, spi, kind, data: reader.rest().to_vec() })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let spi_bytes = u8::try_from(self.spi.len()).expect("an SPI has at most 8 bytes");
        out.extend([self.protocol, spi_bytes]);
        out.extend(self.kind.0.to_be_bytes());
        out.extend(&self.spi);
        out.extend(&self.data);
    }
}
