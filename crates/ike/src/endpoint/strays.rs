//! Messages that belong to no IKE SA: those of IKEv1, and those about ESP that its receiver knows no association for.
//!
//! Guarantees: no message without protection changes the state; the worst that one does is to have the peer asked whether it is
//! alive.

use std::time::Instant;

use super::{Endpoint, MAX_STRANGER_EVENTS};
use crate::{
    event::{Event, Path, Reason},
    message::Envelope,
    sa::{Parts, Sa},
    wire::{Exchange, HEADER_BYTES, Header, Malformed, NotifyType, Payloads, Spis},
};

impl Endpoint {
    /// Reports that a stranger was refused, unless too many reports wait.
    pub(super) fn tell_refused(&mut self, path: Path, reason: Reason) {
        if self.common.output.events.len() < MAX_STRANGER_EVENTS {
            self.common.output.event(Event::Refused { path, reason });
        }
    }

    /// Reports the first message of a negotiation by IKEv1 (RFC 2408, section 3.1), which has no responder's cookie yet.
    pub(super) fn note_old_version(&mut self, malformed: &Malformed, message: &[u8], path: Path) {
        let is_first =
            message.get(8..16).is_some_and(|cookie| cookie == [0; 8]) && message.get(..8) != Some(&[0; 8]);
        if matches!(malformed, Malformed::Version { major: 1 }) && is_first {
            self.tell_refused(path, Reason::OldVersion);
        }
    }

    /// Tells the sender of an ESP packet that nobody here knows its SPI, if no IKE SA stands with it (RFC 7296, section
    /// 1.5): this end may have lost its state, and perhaps cannot begin anew by itself.
    pub fn refuse_spi(&mut self, spi: u32, path: Path) {
        let is_known = |sa: &Sa| sa.path.remote == path.remote && !sa.is_finished();
        if self.sas.values().any(|sa| is_known(sa)) {
            return;
        }
        let mut payloads = Payloads::new();
        payloads.notify(NotifyType::INVALID_SPI, spi.to_be_bytes());
        let envelope = Envelope {
            spis: Spis { initiator: 0, responder: 0 },
            exchange: Exchange::Informational,
            is_from_initiator: true,
            is_response: false,
            message_id: 0,
        };
        self.send(path, &envelope.plain(&payloads));
    }

    /// Handles a message with SPIs that are not ours: if it says that the peer knows nothing of one of our children, the peer is
    /// asked whether it is alive. Anybody may have sent the message.
    pub(super) fn take_unknown(&mut self, header: &Header, message: &[u8], path: Path, now: Instant) {
        let is_unprotected = header.exchange == Exchange::Informational
            && !header.is_response
            && header.spis == Spis { initiator: 0, responder: 0 };
        if !is_unprotected {
            return;
        }
        let Ok(parts) = Parts::parse(header.first, &message[HEADER_BYTES..]) else { return };
        let Some(spi) = parts.notify(NotifyType::INVALID_SPI).and_then(|notify| notify.data.first_chunk())
        else {
            return;
        };
        let spi = u32::from_be_bytes(*spi);
        let is_meant = |sa: &Sa| {
            sa.path.remote.ip() == path.remote.ip() && sa.children.iter().any(|own| own.outbound_spi == spi)
        };
        let meant = self.sas.iter().find(|(_, sa)| is_meant(sa)).map(|(&own, _)| own);
        if let Some(own) = meant {
            self.with(now, own, |sa, context| sa.suspect(context));
        }
    }
}
