//! Security associations (RFC 4301, section 4.4.2): the keys and sequence numbers of one flow in one direction.
//!
//! Guarantees: keys are wiped when an association ends and are never printed; an association with a counted IV never
//! uses a number twice, because its numbers come from one counter that does not wrap; the only lock here is that of
//! the replay window, which is held for a few operations per packet.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use sealane_engine::{Implementations, Session};
use sealane_transform::debug_only;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{
    lifetime::{Age, Carried, Lifetime},
    policy::PeerId,
    replay::{ReplayWindow, WindowSizeError},
    selector::Flow,
    sequence::{Numbers, SequenceBits},
    suite::Suite,
    traffic::Traffic,
    turns::Turns,
};

/// The protocol of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Encapsulating security payload, protocol 50.
    Esp,
    /// Authentication header, protocol 51.
    Ah,
}

impl Protocol {
    /// Returns the protocol's number in an IP header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Esp => 50,
            Self::Ah => 51,
        }
    }

    /// Returns the protocol's name in files and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Esp => "esp",
            Self::Ah => "ah",
        }
    }
}

/// The part of a packet that is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The whole packet, inside another one.
    Tunnel,
    /// The packet's payload.
    Transport,
}

/// The kind of protection of an association. As text: `aes-256-gcm`, `transport aes-256-gcm`, `ah hmac-sha256-128`,
/// `ah transport hmac-sha256-128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// ESP or AH.
    pub protocol: Protocol,
    /// The part of a packet that is protected.
    pub mode: Mode,
    /// The algorithms.
    pub suite: Suite,
}

/// The text is not that of a [`Kind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kind of association: {0}")]
pub struct UnknownKind(String);

impl Kind {
    /// Returns whether the suite can be used with the protocol.
    pub fn fits(self) -> bool {
        match self.protocol {
            Protocol::Esp => self.suite.is_for_esp(),
            Protocol::Ah => self.suite.is_for_ah(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.protocol == Protocol::Ah { "ah " } else { "" };
        let mode = if self.mode == Mode::Transport { "transport " } else { "" };
        write!(f, "{protocol}{mode}{}", self.suite)
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (protocol, rest) = match text.strip_prefix("ah ") {
            Some(rest) => (Protocol::Ah, rest),
            None => (Protocol::Esp, text),
        };
        let (mode, suite) = match rest.strip_prefix("transport ") {
            Some(suite) => (Mode::Transport, suite),
            None => (Mode::Tunnel, rest),
        };
        let unknown = || UnknownKind(text.to_owned());
        let kind = Self { protocol, mode, suite: suite.parse().map_err(|_| unknown())? };
        if kind.fits() { Ok(kind) } else { Err(unknown()) }
    }
}

/// The parameters of an association, without its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Security parameters index, chosen by the receiver; 1 to 255 are reserved, and 0 is not an index (RFC 4303,
    /// section 2.1).
    pub spi: u32,
    /// The peer at the other end.
    pub peer: PeerId,
    /// ESP or AH.
    pub protocol: Protocol,
    /// The part of a packet that is protected.
    pub mode: Mode,
    /// The algorithms.
    pub suite: Suite,
    /// The size of sequence numbers.
    pub sequence: SequenceBits,
    /// The limits after which the association is replaced and ends.
    pub lifetime: Lifetime,
}

impl Parameters {
    /// Returns the kind of protection.
    pub fn kind(&self) -> Kind {
        Kind { protocol: self.protocol, mode: self.mode, suite: self.suite }
    }
}

/// Reasons why an association cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssociationError {
    /// The SPI is reserved.
    #[error("SPI {spi:#x} is reserved; choose one from 0x100 on")]
    ReservedSpi {
        /// The given SPI.
        spi: u32,
    },
    /// The suite belongs to the other protocol.
    #[error("{suite} is no suite of {}", protocol.name())]
    WrongProtocol {
        /// The suite that was given.
        suite: Suite,
        /// The protocol that was given, which has no such suite.
        protocol: Protocol,
    },
    /// The key material has the wrong length.
    #[error("{suite} takes {expected_bytes} bytes of key material, not {given_bytes}")]
    Material {
        /// The suite that the material is for.
        suite: Suite,
        /// The length that the suite needs.
        expected_bytes: usize,
        /// The length given.
        given_bytes: usize,
    },
    /// The replay window has a size that is not offered.
    #[error(transparent)]
    Window(#[from] WindowSizeError),
}

/// The way to a peer's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The address and port of the peer's end.
    pub remote: SocketAddr,
    /// Our address that packets leave from, because the peer's packets arrive there; `None` leaves the choice to the kernel.
    pub local: Option<IpAddr>,
    /// The number of the stream that carries packets; `None` if they are datagrams.
    pub stream: Option<u32>,
}

impl From<SocketAddr> for Way {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None, stream: None }
    }
}

/// The way to a peer's end, shared by the associations with it. Outbound packets take it, and inbound packets may
/// change it.
#[derive(Debug, Default)]
pub struct Whereabouts {
    way: ArcSwapOption<Way>,
    /// The peer has called one of our addresses, and expects answers from there.
    is_called: bool,
}

impl Whereabouts {
    /// Returns unknown whereabouts. Packets leave from the address at which the peer's packets arrive if `is_called`; otherwise
    /// the kernel chooses the address.
    pub fn new(is_called: bool) -> Self {
        Self { way: ArcSwapOption::empty(), is_called }
    }

    /// Returns the address and port; `None` if they are not known yet.
    pub fn get(&self) -> Option<SocketAddr> {
        self.way().map(|way| way.remote)
    }

    /// Returns the way; `None` if it is not known yet.
    pub fn way(&self) -> Option<Way> {
        self.way.load().as_deref().copied()
    }

    fn kept(&self, way: Way) -> Way {
        Way { local: way.local.filter(|_| self.is_called), ..way }
    }

    /// Returns whether [`Self::set`] would change nothing.
    pub fn has(&self, way: Way) -> bool {
        self.way.load().as_deref() == Some(&self.kept(way))
    }

    /// Makes packets take this way from now on. Returns whether it is another one than before.
    pub fn set(&self, way: Way) -> bool {
        let is_other = !self.has(way);
        if is_other {
            self.way.store(Some(Arc::new(self.kept(way))));
        }
        is_other
    }
}

/// Four bytes in front of a counted IV (RFC 4106, section 4), or three with CCM (RFC 4309, section 4); they are as secret as the key.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Salt(pub(crate) [u8; 4]);

/// The state that associations of both directions have.
pub struct Association {
    parameters: Parameters,
    session: Arc<Session>,
    salt: Salt,
    carried: Carried,
    installed: Instant,
    /// The traffic agreed on; `None` if the association carries all traffic that the policies give to its peer.
    traffic: Option<Arc<Traffic>>,
    /// The address of the peer's end; `None` if the peer has one end whose address is stored elsewhere.
    whereabouts: Option<Arc<Whereabouts>>,
    /// The hosts on the peer's side, if the traffic is that of few single ones.
    remote_hosts: Box<[IpAddr]>,
}

debug_only!(Association { parameters });

impl Association {
    fn new(
        implementations: Implementations,
        parameters: Parameters,
        material: &[u8],
        now: Instant,
    ) -> Result<Self, AssociationError> {
        let Parameters { spi, protocol, suite, .. } = parameters;
        if spi < 0x100 {
            return Err(AssociationError::ReservedSpi { spi });
        }
        if !parameters.kind().fits() {
            return Err(AssociationError::WrongProtocol { suite, protocol });
        }
        let wrong = || AssociationError::Material {
            suite,
            expected_bytes: suite.material_bytes(),
            given_bytes: material.len(),
        };
        if material.len() != suite.material_bytes() {
            return Err(wrong());
        }
        let (cipher_key, rest) = material.split_at(suite.cipher_key_bytes());
        let (salt_bytes, mac_key) = rest.split_at(suite.iv().salt_bytes());
        let mut salt = Salt([0; 4]);
        salt.0[..salt_bytes.len()].copy_from_slice(salt_bytes);
        let keys = Zeroizing::new([cipher_key, mac_key].concat());
        let protection = suite.protection();
        let session =
            Session::with(implementations.for_packets(protection), protection, &keys).map_err(|_| wrong())?;
        let (session, carried) = (Arc::new(session), Carried::default());
        let (traffic, whereabouts, remote_hosts) = (None, None, Box::default());
        Ok(Self { parameters, session, salt, carried, installed: now, traffic, whereabouts, remote_hosts })
    }

    fn limit(&mut self, traffic: Arc<Traffic>, whereabouts: Arc<Whereabouts>) {
        self.remote_hosts = traffic.remote_hosts().into();
        self.traffic = Some(traffic);
        self.whereabouts = Some(whereabouts);
    }

    /// Returns the parameters that the association was made with.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the session with the keys, for an engine.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn salt(&self) -> [u8; 4] {
        self.salt.0
    }

    /// Returns whether `flow`, which a policy gives to this peer, is within the traffic that both ends have agreed
    /// on.
    pub fn takes(&self, flow: &Flow) -> bool {
        self.traffic.as_ref().is_none_or(|traffic| traffic.matches(flow))
    }

    /// Returns the hosts on the peer's side, if the agreed traffic is that of few single ones; otherwise the list is
    /// empty.
    pub fn remote_hosts(&self) -> &[IpAddr] {
        &self.remote_hosts
    }

    /// Returns the address of the peer's end; `None` if the peer has one end whose address is stored elsewhere.
    pub fn whereabouts(&self) -> Option<&Whereabouts> {
        self.whereabouts.as_deref()
    }

    /// Returns the counts of packets and bytes carried.
    pub fn carried(&self) -> &Carried {
        &self.carried
    }

    /// Returns whether a soft or hard limit has been passed.
    pub fn age(&self, now: Instant) -> Age {
        self.parameters.lifetime.age(&self.carried, self.lived(now))
    }

    pub(crate) fn installed(&self) -> Instant {
        self.installed
    }

    /// Returns the time since the association was installed.
    pub fn lived(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.installed)
    }
}

/// The sending side of an association.
#[derive(Debug)]
pub struct Outbound {
    association: Association,
    numbers: Numbers,
    turns: Turns,
}

impl Outbound {
    /// Makes an association from exactly [`Suite::material_bytes`] of key material; its first packet has number
    /// `first`.
    ///
    /// # Errors
    /// Fails if the parameters contradict each other or the material.
    pub fn new(
        implementations: impl Into<Implementations>,
        parameters: Parameters,
        material: &[u8],
        first: u64,
        now: Instant,
    ) -> Result<Self, AssociationError> {
        let association = Association::new(implementations.into(), parameters, material, now)?;
        Ok(Self { association, numbers: Numbers::new(parameters.sequence, first), turns: Turns::default() })
    }

    /// Restricts the association to `traffic`, and to the end at `whereabouts`.
    #[must_use]
    pub fn only_for(mut self, traffic: Arc<Traffic>, whereabouts: Arc<Whereabouts>) -> Self {
        self.association.limit(traffic, whereabouts);
        self
    }

    /// Returns the state that associations of both directions have.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Returns the sequence numbers.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Returns the order in which ranges of numbers leave, where several queues use the association.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }
}

/// The receiving side of an association.
#[derive(Debug)]
pub struct Inbound {
    association: Association,
    window: Mutex<ReplayWindow>,
}

impl Inbound {
    /// Makes an association from exactly [`Suite::material_bytes`] of key material, with a window of
    /// `window_packets`.
    ///
    /// # Errors
    /// Fails if the parameters contradict each other or the material.
    pub fn new(
        implementations: impl Into<Implementations>,
        parameters: Parameters,
        material: &[u8],
        window_packets: u32,
        now: Instant,
    ) -> Result<Self, AssociationError> {
        let window = Mutex::new(ReplayWindow::new(window_packets)?);
        Ok(Self { association: Association::new(implementations.into(), parameters, material, now)?, window })
    }

    /// Restricts the association to `traffic`, and to the end at `whereabouts`.
    #[must_use]
    pub fn only_for(mut self, traffic: Arc<Traffic>, whereabouts: Arc<Whereabouts>) -> Self {
        self.association.limit(traffic, whereabouts);
        self
    }

    /// Returns the state that associations of both directions have.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Returns the replay window. It is locked once per batch.
    pub fn window(&self) -> MutexGuard<'_, ReplayWindow> {
        self.window.lock().expect("no lane panics holding a replay window")
    }
}
