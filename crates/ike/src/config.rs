//! The configuration of an endpoint: its limits, its peers, and how each end proves its identity.

use std::{
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    certificate::Authorities,
    crypto::{
        prf::Secret,
        sign::{Allowed, SigningKey},
    },
    eap::{EapClient, EapServer},
    event::Mode,
    identity::Identity,
    offer::Offer,
    pool::{Families, Pool},
    wire::TrafficSelector,
};

/// Times at which a request is sent again (RFC 7296, section 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// Time from the first sending to the second.
    pub first: Duration,
    /// Ratio of each pause to the one before, in percent.
    pub factor_percent: u32,
    /// Number of times that a request is sent again before the peer counts as gone.
    pub tries: u32,
}

impl Retransmission {
    /// Returns the pause after the `sent`th sending, counted from 0.
    pub(crate) fn pause(&self, sent: u32) -> Duration {
        (0..sent).fold(self.first, |pause, _| pause.saturating_mul(self.factor_percent) / 100)
    }

    /// Returns the time from the first sending until the peer counts as gone.
    pub fn total(&self) -> Duration {
        (0..=self.tries).fold(Duration::ZERO, |sum, sent| sum.saturating_add(self.pause(sent)))
    }
}

/// Limits and times of an endpoint.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The port whose datagrams have no non-ESP marker: 500.
    pub ike_port: u16,
    /// The port that negotiations move to where there is a NAT or ESP goes in UDP: 4500.
    pub nat_port: u16,
    /// Number of half-open IKE SAs from which on a stranger must return a cookie.
    pub cookie_threshold: usize,
    /// Maximum number of half-open IKE SAs; further first messages are dropped, or replace silent ones.
    pub max_half_open: usize,
    /// Time for which a half-open IKE SA is kept.
    pub half_open_timeout: Duration,
    /// Times at which requests are sent again.
    pub retransmission: Retransmission,
    /// Longest datagram that is sent to a peer that takes fragments, in bytes without the headers of UDP and IP.
    pub fragment_bytes: usize,
    /// Whether RSA signatures with SHA-1 are made and verified for peers that do not speak RFC 7427, such as Windows'
    /// and Apple's systems with RSA certificates.
    pub allow_sha1: bool,
    /// Whether ML-DSA proves identities (draft-ietf-ipsecme-ikev2-pqc-auth), and methods are announced (RFC 9593).
    pub ml_dsa: bool,
    /// A moment, and the time since 1970 at that moment. The dates of certificates are judged by this clock.
    pub clock: (Instant, Duration),
    /// Whether a new address of a peer is probed before children follow (RFC 4555, section 3.7).
    pub return_routability: bool,
    /// Pools of addresses for peers, with their name servers.
    pub pools: Vec<Pool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ike_port: 500,
            nat_port: 4500,
            cookie_threshold: 64,
            max_half_open: 1024,
            half_open_timeout: Duration::from_secs(30),
            retransmission: Retransmission { first: Duration::from_secs(2), factor_percent: 180, tries: 5 },
            fragment_bytes: 1232,
            allow_sha1: false,
            ml_dsa: false,
            clock: (Instant::now(), SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()),
            return_routability: true,
            pools: Vec::new(),
        }
    }
}

impl Settings {
    /// Returns the signatures that are made and verified beside those that always are.
    pub(crate) fn allowed(&self) -> Allowed {
        Allowed { sha1: self.allow_sha1, ml_dsa: self.ml_dsa }
    }

    /// Returns the time since 1970.
    pub(crate) fn unix_time(&self, now: Instant) -> Duration {
        let (moment, unix_time) = self.clock;
        unix_time + now.saturating_duration_since(moment)
    }
}

/// How we prove our identity.
#[derive(Clone)]
pub enum Prove {
    /// With a key that both ends have.
    SharedKey(Secret),
    /// With a signature.
    Signature {
        /// The private key.
        key: Arc<SigningKey>,
        /// Its certificate and those that lead to an authority, in DER; empty if the peer has the raw public key.
        certificates: Vec<Vec<u8>>,
    },
    /// With EAP; we have to be the initiator.
    Eap(EapClient),
    /// With the EAP conversation that the peer proves itself with; we have to be the responder (RFC 5998). The peer has
    /// to use EAP-TLS and offer this.
    EapOnly,
}

/// How the peer proves its identity.
#[derive(Clone)]
pub enum Expect {
    /// With a key that both ends have.
    SharedKey(Secret),
    /// With one of these public keys, SubjectPublicKeyInfo in DER (RFC 7670).
    PublicKeys(Vec<Vec<u8>>),
    /// With a certificate that one of these authorities vouches for.
    Certificate(Arc<Authorities>),
    /// With EAP; the peer has to be the initiator.
    Eap(Arc<EapServer>),
    /// With the EAP conversation that we prove ourselves with; we have to be the initiator (RFC 5998):
    /// [`EapClient::Certificate`].
    EapOnly,
}

impl fmt::Debug for Prove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedKey(_) => "SharedKey",
            Self::Signature { .. } => "Signature",
            Self::Eap(_) => "Eap",
            Self::EapOnly => "EapOnly",
        })
    }
}

impl fmt::Debug for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedKey(_) => "SharedKey",
            Self::PublicKeys(_) => "PublicKeys",
            Self::Certificate(_) => "Certificate",
            Self::Eap(_) => "Eap",
            Self::EapOnly => "EapOnly",
        })
    }
}

/// Traffic that is protected, and its protection.
#[derive(Clone, Debug)]
pub struct ChildPolicy {
    /// The owner's name for it, which is not sent.
    pub name: String,
    /// Traffic on our side.
    pub local: Vec<TrafficSelector>,
    /// Traffic on the peer's side.
    pub remote: Vec<TrafficSelector>,
    /// Proposals, the preferred first.
    pub proposals: Vec<Offer>,
    /// The part of a packet that is protected. Transport mode is requested, and declined by peers that do not speak
    /// it.
    pub mode: Mode,
    /// The number of children for resources that the peer may have beside the first child (RFC 9611). Further requests are
    /// refused with TS_MAX_QUEUE.
    pub resources: u16,
}

/// The configuration for a peer, or for many if addresses and identity are left open.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The owner's name for it, which is not sent.
    pub name: String,
    /// Our address towards the peer; `None` for any address, with which we cannot be the initiator.
    pub local: Option<IpAddr>,
    /// The peer's address; `None` for any address, with which the peer cannot be the responder.
    pub remote: Option<IpAddr>,
    /// Our identity.
    pub local_identity: Identity,
    /// The peer's identity; `None` for anybody who can prove one.
    pub remote_identity: Option<Identity>,
    /// How we prove our identity.
    pub prove: Prove,
    /// How the peer proves its identity.
    pub expect: Expect,
    /// Proposals for IKE, the preferred first.
    pub proposals: Vec<Offer>,
    /// Policies of the traffic that is protected, by name.
    pub children: Vec<ChildPolicy>,
    /// The pool that the peer gets addresses from, by its place in [`Settings::pools`]. The peer's side of a child is
    /// then limited to those addresses that [`ChildPolicy::remote`] contains; a peer that asks for no address gets no
    /// child.
    pub pool: Option<usize>,
    /// Address families that we ask the peer for as the initiator. Our side of a child is then limited to the
    /// addresses we get that [`ChildPolicy::local`] contains.
    pub asks_for: Families,
    /// Whether ESP goes in UDP although there is no NAT.
    pub always_encapsulate: bool,
    /// Whether the peer's and our addresses may change (RFC 4555).
    pub mobike: bool,
    /// Whether an IKE SA that we initiate is established before its first child is negotiated (RFC 6023).
    pub childless: bool,
    /// Time after which an IKE SA is rekeyed.
    pub ike_lifetime: Option<Duration>,
    /// Time after which a child is rekeyed.
    pub child_lifetime: Option<Duration>,
    /// Time without a message after which the peer is probed.
    pub probe_after: Option<Duration>,
}
