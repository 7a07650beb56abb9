//! NAT detection, changes of addresses, and keepalives for a NAT's mapping (RFC 7296, section 2.23; RFC 3948).

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use aws_lc_rs::digest;

use super::{Context, Features, Parts, Sa};
use crate::{
    event::{Event, Path, Transmit},
    random::Random,
    wire::{NotifyType, Payloads, Spis},
};

/// Interval between keepalives (RFC 3948, section 4).
const KEEPALIVE: Duration = Duration::from_secs(20);

/// The ends that are behind a NAT, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nat {
    pub(crate) local_behind: bool,
    pub(crate) remote_behind: bool,
    /// Whether we claim to be behind a NAT, so that ESP is sent in UDP.
    pub(crate) is_claimed: bool,
}

impl Nat {
    /// Returns whether ESP is sent in UDP, and IKE along with it.
    pub(crate) fn is_encapsulated(self) -> bool {
        self.local_behind || self.remote_behind || self.is_claimed
    }
}

/// Returns SHA1(SPIi | SPIr | address | port).
fn hash(spis: Spis, end: SocketAddr) -> Vec<u8> {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(&spis.to_bytes());
    match end.ip() {
        IpAddr::V4(address) => context.update(&address.octets()),
        IpAddr::V6(address) => context.update(&address.octets()),
    }
    context.update(&end.port().to_be_bytes());
    context.finish().as_ref().to_vec()
}

/// Writes both notifications. `claim` replaces the hash of our own address with random bytes: the peer then detects a
/// NAT at our end.
pub(crate) fn write(payloads: &mut Payloads, spis: Spis, path: Path, claim: bool, random: &mut Random) {
    let source = if claim { random.bytes::<20>().to_vec() } else { hash(spis, path.local) };
    payloads.notify(NotifyType::NAT_DETECTION_SOURCE_IP, source);
    payloads.notify(NotifyType::NAT_DETECTION_DESTINATION_IP, hash(spis, path.remote));
}

/// Evaluates a peer's notifications; without them, no NAT is detected.
pub(crate) fn read(parts: &Parts, spis: Spis, path: Path, claim: bool) -> Nat {
    let of = |kind| parts.notifies.iter().filter(move |notify| notify.kind == kind);
    let mut sources = of(NotifyType::NAT_DETECTION_SOURCE_IP).peekable();
    let mut destinations = of(NotifyType::NAT_DETECTION_DESTINATION_IP).peekable();
    if sources.peek().is_none() || destinations.peek().is_none() {
        return Nat::default();
    }
    // A peer with several addresses sends several notifications about its source.
    let remote = hash(spis, path.remote);
    let local = hash(spis, path.local);
    Nat {
        remote_behind: !sources.any(|notify| notify.data == remote),
        local_behind: !destinations.any(|notify| notify.data == local),
        is_claimed: claim,
    }
}

impl Sa {
    /// Moves the IKE SA to the other port, before the peers' identities are proved, if ESP will be sent in UDP (RFC
    /// 7296, section 2.23) or if addresses may change, perhaps to some behind a NAT (RFC 4555, section 3.3).
    pub(super) fn float(&mut self, settings: &crate::config::Settings) {
        let is_datagram = self.path.stream.is_none();
        if (self.nat.is_encapsulated() || self.peer.mobike)
            && is_datagram
            && self.path.local.port() == settings.ike_port
        {
            self.path.local.set_port(settings.nat_port);
            self.path.remote.set_port(settings.nat_port);
        }
    }

    /// Changes the path; existing children follow.
    pub(super) fn set_path(&mut self, context: &mut Context<'_>, path: Path) {
        self.path = path;
        if !self.children.is_empty() {
            let is_encapsulated = self.nat.is_encapsulated();
            context.output.event(Event::Moved { ike: self.id, path, is_encapsulated });
        }
    }

    /// Goes on along another path that we have chosen: the request under way is sent again there, or the peer is asked
    /// whether it is alive.
    pub(crate) fn continue_along(&mut self, context: &mut Context<'_>, path: Path) {
        self.set_path(context, path);
        if self.outstanding.is_some() {
            self.retransmit(context);
        } else {
            self.probe(context);
        }
    }

    pub(super) fn start_keepalive(&mut self, now: std::time::Instant) {
        let needs = self.nat.local_behind && self.nat.is_encapsulated() && self.path.stream.is_none();
        self.keepalive_at = needs.then(|| now + KEEPALIVE);
    }

    pub(super) fn send_keepalive(&mut self, context: &mut Context<'_>) {
        let (path, is_answer) = (self.path, self.is_called());
        context.output.transmits.push_back(Transmit { path, is_answer, bytes: vec![0xff] });
        self.keepalive_at = Some(context.now + KEEPALIVE);
    }
}

impl Features {
    /// Adds the information of a first message.
    pub(super) fn note_first(&mut self, parts: &Parts) {
        self.fragmentation = parts.has(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED);
        self.childless = parts.has(NotifyType::CHILDLESS_IKEV2_SUPPORTED);
        self.hashes = parts.hashes();
        self.methods = parts.methods();
    }
}
