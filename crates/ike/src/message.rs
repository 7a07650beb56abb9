//! Messages sealed and opened: the Encrypted payload, and its fragments (RFC 7383).
//!
//! Guarantees: a fragment is kept only after it has been found genuine; the fragments kept for one message are
//! bounded in number and bytes; if a sender begins again with more fragments, these replace the earlier ones.

use zeroize::Zeroizing;

use crate::{
    crypto::{CryptoError, Sealer, prf::Secret},
    wire::{
        Exchange, HEADER_BYTES, Header, MAX_MESSAGE_BYTES, Malformed, PayloadType, Payloads, Spis,
        payload::Chain,
    },
};

/// Length of a generic payload header in bytes, and of the numbers that follow it in a fragment.
const PAYLOAD_HEADER_BYTES: usize = 4;
const FRAGMENT_NUMBERS_BYTES: usize = 4;
/// Maximum number of fragments in a message. Windows sends 7 with many certificate requests; clients with a tiny MTU
/// send more than 16.
const MAX_FRAGMENTS: u16 = 64;

/// The IKE SA, exchange and number that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) spis: Spis,
    pub(crate) exchange: Exchange,
    pub(crate) is_from_initiator: bool,
    pub(crate) is_response: bool,
    pub(crate) message_id: u32,
}

impl Envelope {
    fn header(&self, first: PayloadType) -> Header {
        Header {
            spis: self.spis,
            first,
            exchange: self.exchange,
            is_from_initiator: self.is_from_initiator,
            is_response: self.is_response,
            message_id: self.message_id,
        }
    }

    /// Returns a message without encryption: IKE_SA_INIT.
    pub(crate) fn plain(&self, payloads: &Payloads) -> Vec<u8> {
        let mut message =
            self.header(payloads.first()).to_bytes(HEADER_BYTES + payloads.bytes().len()).to_vec();
        message.extend(payloads.bytes());
        message
    }

    /// Returns the bytes that RFC 9242 authenticates of a message in IKE_INTERMEDIATE: its header and the Encrypted
    /// payload's header as they would be without fragments and encryption, followed by the payloads.
    pub(crate) fn authenticated(&self, first: PayloadType, clear: &[u8]) -> Secret {
        let payload_bytes = PAYLOAD_HEADER_BYTES + clear.len();
        let mut octets = self.header(PayloadType::ENCRYPTED).to_bytes(HEADER_BYTES + payload_bytes).to_vec();
        octets.extend([first.0, 0]);
        octets.extend((payload_bytes as u16).to_be_bytes());
        octets.extend(clear);
        Zeroizing::new(octets)
    }

    fn sealed_part(
        &self,
        sealer: &mut Sealer,
        first: PayloadType,
        clear: &[u8],
        fragment: Option<(u16, u16)>,
    ) -> Result<Vec<u8>, CryptoError> {
        let numbers_bytes = if fragment.is_some() { FRAGMENT_NUMBERS_BYTES } else { 0 };
        let payload_bytes = PAYLOAD_HEADER_BYTES + numbers_bytes + sealer.sealed_bytes(clear.len());
        let kind = if fragment.is_some() { PayloadType::ENCRYPTED_FRAGMENT } else { PayloadType::ENCRYPTED };
        let mut message = Vec::with_capacity(HEADER_BYTES + payload_bytes);
        message.extend(self.header(kind).to_bytes(HEADER_BYTES + payload_bytes));
        message.extend([first.0, 0]);
        message.extend(u16::try_from(payload_bytes).map_err(|_| CryptoError::Library)?.to_be_bytes());
        if let Some((number, total)) = fragment {
            message.extend(number.to_be_bytes());
            message.extend(total.to_be_bytes());
        }
        sealer.seal(&mut message, clear)?;
        Ok(message)
    }

    /// Returns the datagrams of a message: several if the other end accepts fragments and a single datagram would be
    /// longer than `fragment_bytes`, else one.
    ///
    /// # Errors
    /// Fails if the library fails, or if the message is longer than any peer accepts.
    pub(crate) fn sealed(
        &self,
        sealer: &mut Sealer,
        payloads: &Payloads,
        fragment_bytes: Option<usize>,
    ) -> Result<Vec<Vec<u8>>, CryptoError> {
        let clear = payloads.bytes();
        let whole = HEADER_BYTES + PAYLOAD_HEADER_BYTES + sealer.sealed_bytes(clear.len());
        let Some(most) = fragment_bytes.filter(|&most| whole > most) else {
            return Ok(vec![self.sealed_part(sealer, payloads.first(), clear, None)?]);
        };
        let around = HEADER_BYTES + PAYLOAD_HEADER_BYTES + FRAGMENT_NUMBERS_BYTES + sealer.overhead_bytes();
        let room = most.saturating_sub(around).max(64);
        let total = u16::try_from(clear.len().div_ceil(room)).map_err(|_| CryptoError::Library)?;
        let parts = clear.chunks(room).zip(1..);
        parts
            .map(|(part, number)| {
                let first = if number == 1 { payloads.first() } else { PayloadType::NONE };
                self.sealed_part(sealer, first, part, Some((number, total)))
            })
            .collect()
    }
}

/// An opened message: the type of its first payload, and its payloads.
pub(crate) struct Opened {
    pub(crate) first: PayloadType,
    pub(crate) clear: Secret,
}

/// The contents of a datagram.
pub(crate) enum Arrived {
    /// A whole message, or the last fragment that was missing.
    Message(Opened),
    /// A fragment; more are needed. Only the first fragment of a message causes an answer to be sent again.
    Fragment {
        /// Whether it is the message's first fragment.
        is_first: bool,
    },
}

/// Fragments of one message.
#[derive(Default)]
pub(crate) struct Assembly {
    message_id: u32,
    first: u8,
    parts: Vec<Option<Secret>>,
}

impl Assembly {
    fn add(
        &mut self,
        message_id: u32,
        number: u16,
        first: PayloadType,
        part: Secret,
        total: u16,
    ) -> Option<Opened> {
        let total = usize::from(total);
        if self.message_id != message_id || self.parts.len() < total {
            *self = Self { message_id, first: 0, parts: (0..total).map(|_| None).collect() };
        }
        if self.parts.len() > total {
            return None;
        }
        if number == 1 {
            self.first = first.0;
        }
        self.parts[usize::from(number) - 1] = Some(part);
        let bytes: usize = self.parts.iter().flatten().map(|part| part.len()).sum();
        if bytes > MAX_MESSAGE_BYTES {
            self.parts.clear();
            return None;
        }
        if self.parts.iter().any(Option::is_none) {
            return None;
        }
        let mut clear = Zeroizing::new(Vec::with_capacity(bytes));
        self.parts.drain(..).flatten().for_each(|part| clear.extend_from_slice(&part));
        Some(Opened { first: PayloadType(self.first), clear })
    }

    /// Opens a datagram whose header has been read; fragments are kept in `self`.
    ///
    /// # Errors
    /// Fails if the datagram is not genuine, or malformed.
    pub(crate) fn open(
        &mut self,
        sealer: &Sealer,
        header: &Header,
        message: &[u8],
    ) -> Result<Arrived, OpenError> {
        // An encrypted payload is the last of a message, and in messages of all known implementations also the first.
        let raw =
            Chain::new(header.first, &message[HEADER_BYTES..]).next().ok_or(OpenError::NotEncrypted)??;
        let body_at = message.len() - raw.body.len();
        match raw.kind {
            PayloadType::ENCRYPTED => {
                let clear = sealer.open(message, body_at)?;
                Ok(Arrived::Message(Opened { first: raw.next, clear }))
            }
            PayloadType::ENCRYPTED_FRAGMENT => {
                let numbers = raw.body.first_chunk::<FRAGMENT_NUMBERS_BYTES>();
                let [n0, n1, t0, t1] = *numbers.ok_or(Malformed::Short { what: "a fragment" })?;
                let (number, total) = (u16::from_be_bytes([n0, n1]), u16::from_be_bytes([t0, t1]));
                if number == 0 || number > total {
                    return Err(Malformed::Value { what: "a fragment's number" }.into());
                }
                if total > MAX_FRAGMENTS {
                    let most = usize::from(MAX_FRAGMENTS);
                    return Err(Malformed::TooMany { what: "fragments", most }.into());
                }
                let part = sealer.open(message, body_at + FRAGMENT_NUMBERS_BYTES)?;
                Ok(match self.add(header.message_id, number, raw.next, part, total) {
                    Some(opened) => Arrived::Message(opened),
                    None => Arrived::Fragment { is_first: number == 1 },
                })
            }
            _ => Err(OpenError::NotEncrypted),
        }
    }
}

/// The reason why a datagram cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    #[error("the message is not encrypted")]
    NotEncrypted,
}
