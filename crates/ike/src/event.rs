//! What an endpoint tells its owner, and why something failed.

use std::{fmt, net::SocketAddr};

use crate::{
    crypto::prf::Secret,
    identity::Identity,
    offer::{EspSuite, Mismatch},
    pool::Assignment,
    wire::{NotifyType, TrafficSelector},
};

/// An IKE SA, whatever its keys: it keeps this number when it is rekeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IkeId(pub(crate) u64);

/// A pair of ESP associations. A rekeyed child is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildId(pub(crate) u64);

/// Both ends' addresses, with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Ours.
    pub local: SocketAddr,
    /// The peer's, as it is seen from here.
    pub remote: SocketAddr,
}

/// One direction of a child.
#[derive(Clone)]
pub struct Direction {
    /// The SPI in its packets.
    pub spi: u32,
    /// Its key material: encryption key, salt, integrity key, [`EspSuite::material_bytes`] in all.
    pub material: Secret,
}

impl fmt::Debug for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direction({:#010x})", self.spi)
    }
}

/// Whose packet is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A whole packet, inside another.
    Tunnel,
    /// A packet's payload.
    Transport,
}

/// A child to be installed: the inbound association at once, the outbound one when `is_outbound_live` or at
/// [`Event::UseOutbound`].
#[derive(Clone, Debug)]
pub struct Install {
    /// The IKE SA that it belongs to.
    pub ike: IkeId,
    /// The child.
    pub child: ChildId,
    /// The peer's place among those that the endpoint was made with.
    pub peer: usize,
    /// Its policy's place among the peer's children.
    pub policy: usize,
    /// What we receive.
    pub inbound: Direction,
    /// What we send.
    pub outbound: Direction,
    /// How packets are protected.
    pub suite: EspSuite,
    /// What is protected.
    pub mode: Mode,
    /// Whether ESP goes in UDP datagrams along the path.
    pub is_encapsulated: bool,
    /// Where ESP goes.
    pub path: Path,
    /// Traffic on our side, narrowed.
    pub local: Vec<TrafficSelector>,
    /// Traffic on the peer's side, narrowed.
    pub remote: Vec<TrafficSelector>,
    /// What whoever asked for it calls the resource that it is for, such as a core (RFC 9611); the first child of a policy is for none.
    pub resource: Option<Vec<u8>>,
    /// The child that this one takes the place of.
    pub replaces: Option<ChildId>,
    /// Whether the peer is known to receive under the outbound association already. Otherwise the predecessor sends on, until
    /// [`Event::UseOutbound`] or until a genuine packet arrives on the inbound association.
    pub is_outbound_live: bool,
}

/// Why an IKE SA or a child ended, or did not come to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Requests stayed without an answer.
    #[error("the peer does not answer; check its address, the way there, and UDP ports 500 and 4500")]
    Timeout,
    /// A negotiation that began did not go on.
    #[error("the peer began a negotiation and did not end it")]
    Abandoned,
    /// We found nothing common in the peer's proposals.
    #[error("{0}")]
    NoProposal(Mismatch),
    /// The peer refused.
    #[error("the peer answered {kind}{}", hint(*kind))]
    Refused {
        /// The notification.
        kind: NotifyType,
    },
    /// The peer is not who it is expected to be.
    #[error("the peer says that it is {sent}; expected is {expected}")]
    Identity {
        /// The identity that the peer sent.
        sent: String,
        /// The identities that are expected.
        expected: String,
    },
    /// The peer's proof is wrong.
    #[error("the proof of {identity} is wrong: {problem}")]
    Authentication {
        /// The identity that the peer sent.
        identity: String,
        /// What is wrong.
        problem: String,
    },
    /// No traffic is common to both.
    #[error("no common traffic: ours is {ours}, the peer asks for {theirs}")]
    Selectors {
        /// Our policy's.
        ours: String,
        /// The peer's.
        theirs: String,
    },
    /// The pool has no address for the peer.
    #[error("the pool has no free address that the peer asks for; give it a wider range")]
    NoAddress,
    /// The peer's message breaks the protocol.
    #[error("the peer's message breaks the protocol: {0}")]
    Protocol(String),
    /// A cryptographic step failed.
    #[error("{0}")]
    Crypto(#[from] crate::crypto::CryptoError),
    /// The peer ended it.
    #[error("the peer ended it")]
    DeletedByPeer,
    /// The owner ended it.
    #[error("it was ended here")]
    Closed,
    /// Another one took its place.
    #[error("another one has taken its place")]
    Replaced,
    /// The peer does not have it.
    #[error("the peer does not have it any more")]
    Lost,
}

fn hint(kind: NotifyType) -> &'static str {
    match kind {
        NotifyType::AUTHENTICATION_FAILED => ": compare identities and keys, and read the peer's log",
        NotifyType::NO_PROPOSAL_CHOSEN => ": compare the proposals of both ends",
        NotifyType::TS_UNACCEPTABLE => ": compare the networks of both ends",
        _ => "",
    }
}

/// What an endpoint tells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An IKE SA stands: both ends have proved who they are.
    Established {
        /// The IKE SA.
        ike: IkeId,
        /// The peer's place among those that the endpoint was made with.
        peer: usize,
        /// Who the peer is, proved; where there is a user, only what it calls itself.
        identity: Identity,
        /// The user that the peer has proved to be by EAP.
        user: Option<String>,
        /// Its algorithms, as words.
        algorithms: String,
    },
    /// The peer got addresses of ours. They are free again when the IKE SA is down.
    Leased {
        /// The IKE SA.
        ike: IkeId,
        /// The peer's place among those that the endpoint was made with.
        peer: usize,
        /// What it got.
        assignment: Assignment,
    },
    /// We got addresses of the peer's, for as long as the IKE SA stands.
    Configured {
        /// The IKE SA.
        ike: IkeId,
        /// The peer's place among those that the endpoint was made with.
        peer: usize,
        /// What we got.
        assignment: Assignment,
    },
    /// An IKE SA has new keys.
    Rekeyed {
        /// The IKE SA.
        ike: IkeId,
    },
    /// An IKE SA is no more, or did not come to be. Its children have ended before.
    Down {
        /// The IKE SA.
        ike: IkeId,
        /// The peer, where it is known.
        peer: Option<usize>,
        /// Why.
        reason: Reason,
    },
    /// A child is to be installed.
    Install(Box<Install>),
    /// The outbound association of a child that was installed before is to be used.
    UseOutbound {
        /// The child.
        child: ChildId,
    },
    /// A child is no more: its outbound association ends at once; its inbound one may receive for some seconds what is under way.
    Remove {
        /// The child.
        child: ChildId,
        /// Why.
        reason: Reason,
    },
    /// A child did not come to be; the IKE SA stands.
    ChildFailed {
        /// The IKE SA.
        ike: IkeId,
        /// The policy's place among the peer's children; `None` if the peer's request fitted none.
        policy: Option<usize>,
        /// Why.
        reason: Reason,
    },
    /// A stranger's first message was refused.
    Refused {
        /// Where it came from.
        path: Path,
        /// Why.
        reason: Reason,
    },
    /// The peer's or our address has changed: ESP of all children of the IKE SA goes there.
    Moved {
        /// The IKE SA.
        ike: IkeId,
        /// The new path.
        path: Path,
        /// Whether ESP goes in UDP datagrams.
        is_encapsulated: bool,
    },
}

/// A datagram to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Transmit {
    /// From and to where.
    pub path: Path,
    /// The datagram, with the non-ESP marker where its port needs one.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Transmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transmit({} -> {}, {} bytes)", self.path.local, self.path.remote, self.bytes.len())
    }
}
