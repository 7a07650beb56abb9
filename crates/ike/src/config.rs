//! What an endpoint is made with: its limits, its peers, and who proves what to whom.

use std::{
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    certificate::Authorities,
    crypto::{prf::Secret, sign::SigningKey},
    eap::{EapClient, EapServer},
    event::Mode,
    identity::Identity,
    offer::Offer,
    pool::Pool,
    wire::TrafficSelector,
};

/// When a request is sent again (RFC 7296, section 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// From the first sending to the second.
    pub first: Duration,
    /// How much longer each pause is than the one before, in percent.
    pub factor_percent: u32,
    /// How often a request is sent again before the peer counts as gone.
    pub tries: u32,
}

impl Retransmission {
    /// The pause behind the `sent`th sending, counted from 0.
    pub(crate) fn pause(&self, sent: u32) -> Duration {
        (0..sent).fold(self.first, |pause, _| pause.saturating_mul(self.factor_percent) / 100)
    }

    /// From the first sending until the peer counts as gone.
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
    /// Half-open IKE SAs from which on a stranger must return a cookie.
    pub cookie_threshold: usize,
    /// Half-open IKE SAs that are kept at most; further first messages are dropped.
    pub max_half_open: usize,
    /// How long a half-open IKE SA is kept.
    pub half_open_timeout: Duration,
    /// When requests are sent again.
    pub retransmission: Retransmission,
    /// Longest datagram that is sent to a peer that takes fragments, in bytes without the headers of UDP and IP.
    pub fragment_bytes: usize,
    /// Whether RSA signatures with SHA-1 are made and verified for peers that do not speak RFC 7427: Windows' and Apple's systems, where
    /// certificates are of RSA.
    pub allow_sha1: bool,
    /// A moment, and the time since 1970 at it: by these certificates' dates are judged.
    pub clock: (Instant, Duration),
    /// Whether a new address of a peer is probed before children follow (RFC 4555, section 3.7).
    pub return_routability: bool,
    /// Addresses that peers get, and name servers with them.
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
            clock: (Instant::now(), SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()),
            return_routability: true,
            pools: Vec::new(),
        }
    }
}

impl Settings {
    /// The time since 1970.
    pub(crate) fn unix_time(&self, now: Instant) -> Duration {
        let (moment, unix_time) = self.clock;
        unix_time + now.saturating_duration_since(moment)
    }
}

/// How we prove who we are.
#[derive(Clone)]
pub enum Prove {
    /// By a key that both ends have.
    SharedKey(Secret),
    /// By a signature.
    Signature {
        /// The private key.
        key: Arc<SigningKey>,
        /// Its certificate and those that lead to an authority, in DER; none where the peer has the raw public key.
        certificates: Vec<Vec<u8>>,
    },
    /// By EAP, as who begins.
    Eap(EapClient),
    /// By the EAP conversation that the peer proves itself with, as who is called (RFC 5998): EAP-TLS, and a peer that offers it.
    EapOnly,
}

/// How the peer proves who it is.
#[derive(Clone)]
pub enum Expect {
    /// By a key that both ends have.
    SharedKey(Secret),
    /// By one of these public keys, SubjectPublicKeyInfo in DER (RFC 7670).
    PublicKeys(Vec<Vec<u8>>),
    /// By a certificate that one of these authorities answers for.
    Certificate(Arc<Authorities>),
    /// By EAP, as who begins.
    Eap(Arc<EapServer>),
    /// By the EAP conversation that we prove ourselves with, as who begins (RFC 5998): [`EapClient::Certificate`].
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

/// Traffic that is protected, and how.
#[derive(Clone, Debug)]
pub struct ChildPolicy {
    /// Its name.
    pub name: String,
    /// Traffic on our side.
    pub local: Vec<TrafficSelector>,
    /// Traffic on the peer's side.
    pub remote: Vec<TrafficSelector>,
    /// Proposals, the preferred first.
    pub proposals: Vec<Offer>,
    /// What is protected. Transport mode is asked for, and declined by peers that do not speak it.
    pub mode: Mode,
}

/// Families of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Families {
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// A peer.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Our address towards it; `None` for any, which cannot begin.
    pub local: Option<IpAddr>,
    /// Its address; `None` for any, which cannot be begun with.
    pub remote: Option<IpAddr>,
    /// Who we are.
    pub local_identity: Identity,
    /// Who it is; `None` for anybody who can prove it.
    pub remote_identity: Option<Identity>,
    /// How we prove who we are.
    pub prove: Prove,
    /// How it proves who it is.
    pub expect: Expect,
    /// Proposals for IKE, the preferred first.
    pub proposals: Vec<Offer>,
    /// What is protected, by name.
    pub children: Vec<ChildPolicy>,
    /// The pool that the peer gets addresses of, by its place in [`Settings::pools`]: its side of a child is then those addresses, as
    /// far as [`ChildPolicy::remote`] has them, and without asking for any it gets no child.
    pub pool: Option<usize>,
    /// Addresses that we ask the peer for when we begin: our side of a child is then those that we get, as far as
    /// [`ChildPolicy::local`] has them.
    pub asks_for: Families,
    /// Whether ESP goes in UDP although there is no NAT.
    pub always_encapsulate: bool,
    /// Whether its and our addresses may change (RFC 4555).
    pub mobike: bool,
    /// Whether an IKE SA that we begin stands before its first child is negotiated (RFC 6023).
    pub childless: bool,
    /// After what time an IKE SA is rekeyed.
    pub ike_lifetime: Option<Duration>,
    /// After what time a child is rekeyed.
    pub child_lifetime: Option<Duration>,
    /// After what silence the peer is probed.
    pub probe_after: Option<Duration>,
}

/// Where randomness comes from: SPIs, nonces, pauses. Keys come from the cryptographic library's own source.
pub struct Random(Box<Source>);

/// Fills bytes.
type Source = dyn FnMut(&mut [u8]) + Send;

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    /// The system's.
    pub fn system() -> Self {
        Self(Box::new(|bytes| aws_lc_rs::rand::fill(bytes).expect("the system has randomness")))
    }

    /// Another one, for tests that must come out the same again.
    pub fn from_source(source: impl FnMut(&mut [u8]) + Send + 'static) -> Self {
        Self(Box::new(source))
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.0)(&mut bytes);
        bytes
    }

    /// A nonce of 32 bytes, which is half the longest function's key or more (RFC 7296, section 2.10).
    pub(crate) fn nonce(&mut self) -> Vec<u8> {
        self.bytes::<32>().to_vec()
    }

    /// An SPI of an IKE SA: not 0. Two that meet by chance have odds of one in 2^64 each.
    pub(crate) fn ike_spi(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes()).max(1)
    }

    /// A moment between `from` and a quarter of `spread` later, so that two ends do not act at once again and again.
    pub(crate) fn later(&mut self, from: Instant, spread: Duration) -> Instant {
        let part = u32::from(self.bytes::<1>()[0]);
        from + spread.saturating_mul(part) / 1024
    }
}
