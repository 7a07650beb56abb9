//! Security associations (RFC 4301, section 4.4.2): one flow, one direction, its keys and numbers.
//!
//! Guarantees: keys are wiped when an association ends and never printed; an association with a counted IV never uses a
//! number twice, because its numbers are given by one counter that does not cycle; nothing here waits for a lock but the
//! replay window's, which is held for a few operations a packet.

use std::{
    fmt,
    net::SocketAddr,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use sealane_engine::{Implementations, Session};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{
    lifetime::{Age, Carried, Lifetime},
    policy::PeerId,
    replay::{ReplayWindow, WindowSizeError},
    selector::Flow,
    sequence::{Numbers, SequenceBits},
    suite::Suite,
    traffic::Traffic,
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
    /// Its number in an IP header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Esp => 50,
            Self::Ah => 51,
        }
    }

    /// As in files and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Esp => "esp",
            Self::Ah => "ah",
        }
    }
}

/// What is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A whole packet, inside another.
    Tunnel,
    /// A packet's payload.
    Transport,
}

/// What an association does to packets, as text: `aes-256-gcm`, `transport aes-256-gcm`, `ah hmac-sha256-128`,
/// `ah transport hmac-sha256-128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// ESP or AH.
    pub protocol: Protocol,
    /// What is protected.
    pub mode: Mode,
    /// How.
    pub suite: Suite,
}

/// Not the text of a [`Kind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kind of association: {0}")]
pub struct UnknownKind(String);

impl Kind {
    /// Whether the protocol takes the suite.
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

/// An association's parameters, but for its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Security parameters index, chosen by the receiver; 1 to 255 are reserved and 0 is none (RFC 4303, section 2.1).
    pub spi: u32,
    /// Whose association it is.
    pub peer: PeerId,
    /// ESP or AH.
    pub protocol: Protocol,
    /// What is protected.
    pub mode: Mode,
    /// How.
    pub suite: Suite,
    /// How far numbers count.
    pub sequence: SequenceBits,
    /// When it ends.
    pub lifetime: Lifetime,
}

impl Parameters {
    /// What it does to packets.
    pub fn kind(&self) -> Kind {
        Kind { protocol: self.protocol, mode: self.mode, suite: self.suite }
    }
}

/// Why an association cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssociationError {
    /// A reserved SPI.
    #[error("SPI {spi:#x} is reserved; choose one from 0x100 on")]
    ReservedSpi {
        /// What was given.
        spi: u32,
    },
    /// The suite belongs to the other protocol.
    #[error("{suite} is no suite of {}", protocol.name())]
    WrongProtocol {
        /// The suite.
        suite: Suite,
        /// The protocol.
        protocol: Protocol,
    },
    /// Key material of another length.
    #[error("{suite} takes {expected_bytes} bytes of key material, not {given_bytes}")]
    Material {
        /// The suite.
        suite: Suite,
        /// What it takes.
        expected_bytes: usize,
        /// What was given.
        given_bytes: usize,
    },
    /// A replay window of another size.
    #[error(transparent)]
    Window(#[from] WindowSizeError),
}

/// Where a peer's end is, which the associations with it share: outbound packets go there, and inbound ones move it.
#[derive(Debug, Default)]
pub struct Whereabouts(ArcSwapOption<SocketAddr>);

impl Whereabouts {
    /// The address and port; `None`: not known yet.
    pub fn get(&self) -> Option<SocketAddr> {
        self.0.load().as_deref().copied()
    }

    /// Packets go to `address` from now on.
    pub fn set(&self, address: SocketAddr) {
        self.0.store(Some(Arc::new(address)));
    }
}

/// Four bytes that go in front of a counted IV (RFC 4106, section 4: secret, as the key is).
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Salt(pub(crate) [u8; 4]);

/// What both directions have.
pub struct Association {
    parameters: Parameters,
    session: Arc<Session>,
    salt: Salt,
    carried: Carried,
    installed: Instant,
    /// `None`: all that policy gives to its peer.
    traffic: Option<Arc<Traffic>>,
    /// `None`: its peer has one end, whose place is known elsewhere.
    whereabouts: Option<Arc<Whereabouts>>,
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Association").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

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
        let session = Session::with(implementations, suite.protection(), &keys).map_err(|_| wrong())?;
        let (session, carried) = (Arc::new(session), Carried::default());
        let (traffic, whereabouts) = (None, None);
        Ok(Self { parameters, session, salt, carried, installed: now, traffic, whereabouts })
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Its keys, for an engine.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn salt(&self) -> [u8; 4] {
        self.salt.0
    }

    /// Whether `flow`, which policy gives to its peer, is of the traffic that both ends have agreed on.
    pub fn takes(&self, flow: &Flow) -> bool {
        self.traffic.as_ref().is_none_or(|traffic| traffic.matches(flow))
    }

    /// Where the end is that it joins; `None`: its peer has one end, whose place is known elsewhere.
    pub fn whereabouts(&self) -> Option<&Whereabouts> {
        self.whereabouts.as_deref()
    }

    /// What it has carried.
    pub fn carried(&self) -> &Carried {
        &self.carried
    }

    /// How far it is in its life.
    pub fn age(&self, now: Instant) -> Age {
        self.parameters.lifetime.age(&self.carried, self.lived(now))
    }

    /// Time since it was installed.
    pub fn lived(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.installed)
    }
}

/// The sending side.
#[derive(Debug)]
pub struct Outbound {
    association: Association,
    numbers: Numbers,
}

impl Outbound {
    /// Makes an association of exactly [`Suite::material_bytes`] of key material, whose first packet has number `first`.
    ///
    /// # Errors
    /// The parameters contradict each other or the material.
    pub fn new(
        implementations: impl Into<Implementations>,
        parameters: Parameters,
        material: &[u8],
        first: u64,
        now: Instant,
    ) -> Result<Self, AssociationError> {
        let association = Association::new(implementations.into(), parameters, material, now)?;
        Ok(Self { association, numbers: Numbers::new(parameters.sequence, first) })
    }

    /// The same for `traffic` alone, with the end that is at `whereabouts`.
    #[must_use]
    pub fn only_for(mut self, traffic: Arc<Traffic>, whereabouts: Arc<Whereabouts>) -> Self {
        self.association.traffic = Some(traffic);
        self.association.whereabouts = Some(whereabouts);
        self
    }

    /// What both directions have.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Its sequence numbers.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Inbound {
    association: Association,
    window: Mutex<ReplayWindow>,
}

impl Inbound {
    /// Makes an association of exactly [`Suite::material_bytes`] of key material with a window of `window_packets`.
    ///
    /// # Errors
    /// The parameters contradict each other or the material.
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

    /// The same for `traffic` alone, with the end that is at `whereabouts`.
    #[must_use]
    pub fn only_for(mut self, traffic: Arc<Traffic>, whereabouts: Arc<Whereabouts>) -> Self {
        self.association.traffic = Some(traffic);
        self.association.whereabouts = Some(whereabouts);
        self
    }

    /// What both directions have.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// The replay window. Locked once a batch.
    pub fn window(&self) -> MutexGuard<'_, ReplayWindow> {
        self.window.lock().expect("no lane panics holding a replay window")
    }
}
