//! A message's payloads, sorted by type.
//!
//! Guarantees: a payload type that may occur once has one value; the number of values of the other types is bounded.

use crate::crypto::KeyExchange;
use crate::wire::{
    Announcement, Configuration, Delete, Identification, Malformed, Notify, NotifyType, Payload, PayloadType,
    Proposal, TrafficSelector, methods, payload::Chain,
};

/// Maximum number of certificates in a message.
const MAX_CERTIFICATES: usize = 8;

#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) proposals: Option<Vec<Proposal>>,
    pub(crate) exchange: Option<(u16, Vec<u8>)>,
    pub(crate) nonce: Option<Vec<u8>>,
    pub(crate) id_initiator: Option<Identification>,
    pub(crate) id_responder: Option<Identification>,
    /// Encoding and bytes of each certificate, in order.
    pub(crate) certificates: Vec<(u8, Vec<u8>)>,
    pub(crate) authentication: Option<(u8, Vec<u8>)>,
    pub(crate) notifies: Vec<Notify>,
    pub(crate) deletes: Vec<Delete>,
    pub(crate) selectors_initiator: Option<Vec<TrafficSelector>>,
    pub(crate) selectors_responder: Option<Vec<TrafficSelector>>,
    pub(crate) configuration: Option<Configuration>,
    pub(crate) eap: Option<Vec<u8>>,
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Malformed> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Malformed::TooMany { what: "payloads of one type", most: 1 }),
    }
}

impl Parts {
    pub(crate) fn parse(first: PayloadType, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut parts = Self::default();
        for raw in Chain::new(first, bytes) {
            if let Some(payload) = Payload::parse(raw?)? {
                parts.take(payload)?;
            }
        }
        Ok(parts)
    }

    fn take(&mut self, payload: Payload) -> Result<(), Malformed> {
        match payload {
            Payload::SecurityAssociation(proposals) => once(&mut self.proposals, proposals),
            Payload::KeyExchange { method, data } => once(&mut self.exchange, (method, data)),
            Payload::Nonce(nonce) => once(&mut self.nonce, nonce),
            Payload::IdInitiator(identity) => once(&mut self.id_initiator, identity),
            Payload::IdResponder(identity) => once(&mut self.id_responder, identity),
            Payload::Certificate { encoding, data } => {
                if self.certificates.len() == MAX_CERTIFICATES {
                    return Err(Malformed::TooMany { what: "certificates", most: MAX_CERTIFICATES });
                }
                self.certificates.push((encoding, data));
                Ok(())
            }
            Payload::Authentication { method, data } => once(&mut self.authentication, (method, data)),
            Payload::Notify(notify) => {
                self.notifies.push(notify);
                Ok(())
            }
            Payload::Delete(delete) => {
                self.deletes.push(delete);
                Ok(())
            }
            Payload::SelectorsInitiator(selectors) => once(&mut self.selectors_initiator, selectors),
            Payload::SelectorsResponder(selectors) => once(&mut self.selectors_responder, selectors),
            Payload::Configuration(configuration) => once(&mut self.configuration, configuration),
            Payload::Eap(packet) => once(&mut self.eap, packet),
            Payload::CertificateRequest { .. } | Payload::VendorId(_) => Ok(()),
        }
    }

    /// Returns the first notification of a type.
    pub(crate) fn notify(&self, kind: NotifyType) -> Option<&Notify> {
        self.notifies.iter().find(|notify| notify.kind == kind)
    }

    pub(crate) fn has(&self, kind: NotifyType) -> bool {
        self.notify(kind).is_some()
    }

    /// Returns the first notification that says that something failed.
    pub(crate) fn error(&self) -> Option<NotifyType> {
        self.notifies.iter().map(|notify| notify.kind).find(|kind| kind.is_error())
    }

    /// Returns the key exchange that the peer asks for instead of the one that was begun.
    pub(crate) fn wanted_exchange(&self) -> Option<KeyExchange> {
        let data = &self.notify(NotifyType::INVALID_KE_PAYLOAD)?.data;
        KeyExchange::from_number(u16::from_be_bytes(data.as_slice().try_into().ok()?))
    }

    /// Returns the methods that the peer announces (RFC 9593). A list that cannot be read is as none, and so is an empty one, which
    /// promises another that we do not ask for.
    pub(crate) fn methods(&self) -> Option<Vec<Announcement>> {
        let all = methods::parse(&self.notify(NotifyType::SUPPORTED_AUTH_METHODS)?.data).ok()?;
        (!all.is_empty()).then_some(all)
    }

    /// Returns the hash algorithms that the peer verifies signatures with; empty if it does not know RFC 7427.
    pub(crate) fn hashes(&self) -> Vec<u16> {
        let data = self.notify(NotifyType::SIGNATURE_HASH_ALGORITHMS).map_or(&[][..], |notify| &notify.data);
        data.chunks_exact(2).take(16).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
    }
}
