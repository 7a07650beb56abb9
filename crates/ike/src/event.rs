//! Events of an endpoint for its owner, and reasons for failures.

use std::{fmt, net::SocketAddr};

use crate::{
    crypto::prf::Secret,
    id::{ChildId, IkeId},
    identity::Identity,
    offer::{ChildSuite, Mismatch},
    pool::Assignment,
    wire::{NotifyType, TrafficSelector},
};

/// Both ends' addresses, with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address, as we see it.
    pub remote: SocketAddr,
    /// The number of the stream that carries messages (RFC 9329); `None` if they are datagrams.
    pub stream: Option<u32>,
}

impl Path {
    /// Returns whether messages along the path begin with the non-ESP marker (RFC 7296, section 2.23; RFC 9329, section 3).
    pub(crate) fn has_marker(&self, ike_port: u16) -> bool {
        self.stream.is_some() || self.local.port() != ike_port
    }

    /// Returns the path of datagrams between two addresses.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { local, remote, stream: None }
    }
}

/// One direction of a child.
#[derive(Clone)]
pub struct Direction {
    /// The SPI in its packets.
    pub spi: u32,
    /// The key material: encryption key, salt, integrity key, [`ChildSuite::material_bytes`] in all.
    pub material: Secret,
}

impl fmt::Debug for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direction({:#010x})", self.spi)
    }
}

/// The part of a packet that is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A whole packet, inside another packet.
    Tunnel,
    /// A packet's payload.
    Transport,
}

/// A child to be installed. The inbound association is used at once, the outbound one if `is_outbound_live` is set or
/// at [`Event::UseOutbound`].
#[derive(Clone, Debug)]
pub struct Install {
    /// The IKE SA that it belongs to.
    pub ike: IkeId,
    /// The number by which later events name the child.
    pub child: ChildId,
    /// The peer's place among the peers of the endpoint.
    pub peer: usize,
    /// The place of the child's policy among the peer's children.
    pub policy: usize,
    /// The association that we receive under.
    pub inbound: Direction,
    /// The association that we send under.
    pub outbound: Direction,
    /// The algorithms that protect packets.
    pub suite: ChildSuite,
    /// The part of a packet that is protected.
    pub mode: Mode,
    /// Whether ESP goes in UDP datagrams along the path.
    pub is_encapsulated: bool,
    /// The path of ESP.
    pub path: Path,
    /// Traffic on our side, narrowed.
    pub local: Vec<TrafficSelector>,
    /// Traffic on the peer's side, narrowed.
    pub remote: Vec<TrafficSelector>,
    /// The requester's name for the resource that the child is for, such as a core (RFC 9611); the first child of a
    /// policy is for no resource.
    pub resource: Option<Vec<u8>>,
    /// The child that this one replaces.
    pub replaces: Option<ChildId>,
    /// Whether the peer is known to receive under the outbound association already. Otherwise the predecessor remains
    /// in use for sending until [`Event::UseOutbound`] or until a genuine packet arrives on the inbound association.
    pub is_outbound_live: bool,
    /// Whether we have asked for it: the peer has installed it before it answered.
    pub is_ours: bool,
}

/// The reason why an IKE SA or a child ended, or was not established.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Requests remained without an answer.
    #[error("the peer does not answer; check its address, the way there, and UDP ports 500 and 4500")]
    Timeout,
    /// A negotiation was begun and not continued.
    #[error("the peer began a negotiation and did not end it")]
    Abandoned,
    /// The peer's proposals have nothing in common with ours.
    #[error("{0}")]
    NoProposal(Mismatch),
    /// The peer refused.
    #[error("the peer answered {kind}{}", hint(*kind))]
    Refused {
        /// The notification.
        kind: NotifyType,
    },
    /// The peer's identity is not the expected one.
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
        /// The cause, in words.
        problem: String,
    },
    /// No traffic is common to both.
    #[error("no common traffic: ours is {ours}, the peer asks for {theirs}")]
    Selectors {
        /// Our policy's traffic.
        ours: String,
        /// The peer's traffic.
        theirs: String,
    },
    /// The pool has no address for the peer.
    #[error("the pool has no free address that the peer asks for; give it a wider range")]
    NoAddress,
    /// The sender speaks IKEv1.
    #[error("it speaks IKEv1, which is not spoken here: set its connection to IKEv2")]
    OldVersion,
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
    /// Another IKE SA or child took its place.
    #[error("another one has taken its place")]
    Replaced,
    /// The configuration has changed, and the peer could not prove itself anew.
    #[error("the site file, or the credentials that it names, do not allow it any more")]
    Withdrawn,
    /// There are as many as one peer or user may have.
    #[error("there are as many as one user or peer may have")]
    TooMany,
    /// The peer does not have it.
    #[error("the peer does not have it any more")]
    Lost,
    /// The peer took the request for a resource's child for one of any other child.
    #[error("the peer knows no children for resources (RFC 9611)")]
    NoResources,
}

fn hint(kind: NotifyType) -> &'static str {
    match kind {
        NotifyType::AUTHENTICATION_FAILED => ": compare identities and keys, and read the peer's log",
        NotifyType::NO_PROPOSAL_CHOSEN => ": compare the proposals of both ends",
        NotifyType::TS_UNACCEPTABLE => ": compare the networks of both ends",
        NotifyType::TS_MAX_QUEUE => ": it takes no more children beside the first",
        _ => "",
    }
}

/// An event of an endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An IKE SA is established: both ends have proved their identities.
    Established {
        /// The IKE SA.
        ike: IkeId,
        /// The peer's place among the peers of the endpoint.
        peer: usize,
        /// The peer's proved identity; if there is a user, only the name that the peer gave.
        identity: Identity,
        /// The user that the peer has proved to be by EAP.
        user: Option<String>,
        /// The IKE SA's algorithms, as words.
        algorithms: String,
        /// Whether this end has initiated it.
        is_initiator: bool,
    },
    /// The peer received addresses from one of our pools. They are free again when the IKE SA is down.
    Leased {
        /// The IKE SA.
        ike: IkeId,
        /// The peer's place among the peers of the endpoint.
        peer: usize,
        /// The addresses and name servers.
        assignment: Assignment,
    },
    /// We received addresses from the peer, which are ours as long as the IKE SA is established.
    Configured {
        /// The IKE SA.
        ike: IkeId,
        /// The peer's place among the peers of the endpoint.
        peer: usize,
        /// The addresses and name servers.
        assignment: Assignment,
    },
    /// An IKE SA has new keys.
    Rekeyed {
        /// The IKE SA.
        ike: IkeId,
    },
    /// An IKE SA has ended, or was not established. Its children have ended before it.
    Down {
        /// The IKE SA.
        ike: IkeId,
        /// The peer, if it is known.
        peer: Option<usize>,
        /// The address and port of the other end.
        from: SocketAddr,
        /// The cause; [`Reason::Closed`] if the owner has ended it.
        reason: Reason,
    },
    /// A child is to be installed.
    Install(Box<Install>),
    /// The outbound association of a child that was installed before has to be used from now on.
    UseOutbound {
        /// The child of an earlier [`Event::Install`].
        child: ChildId,
    },
    /// A child has ended. Its outbound association ends at once; its inbound association may receive packets under
    /// way for some seconds.
    Remove {
        /// The child of an earlier [`Event::Install`]; its number is not used again.
        child: ChildId,
        /// The cause; [`Reason::Replaced`] if another child carries the traffic.
        reason: Reason,
    },
    /// A child was not established; the IKE SA remains.
    ChildFailed {
        /// The IKE SA.
        ike: IkeId,
        /// The policy's place among the peer's children; `None` if no policy fitted the peer's request.
        policy: Option<usize>,
        /// The resource that we requested the child for, as in [`Install::resource`].
        resource: Option<Vec<u8>>,
        /// The refusal, by the peer ([`Reason::Refused`]) or by us.
        reason: Reason,
    },
    /// The peer has refused a successor of a child or of the IKE SA itself, and would do so again: the owner should begin
    /// another IKE SA in time. The request is repeated with growing pauses.
    RekeyRefused {
        /// The IKE SA.
        ike: IkeId,
        /// The child that was to be replaced; `None` for the IKE SA.
        child: Option<ChildId>,
        /// Our proposals, as words.
        proposals: String,
        /// The key exchange that the peer asks for, if it says so.
        wanted: Option<String>,
        /// The refusal. TEMPORARY_FAILURE makes no event.
        reason: Reason,
    },
    /// A stranger's first message was refused.
    Refused {
        /// The path that it arrived along.
        path: Path,
        /// The cause; the stranger gets a notification at most.
        reason: Reason,
    },
    /// The peer's or our address has changed: ESP of all children of the IKE SA uses the new path.
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
    /// The source and the destination.
    pub path: Path,
    /// The peer has begun to negotiate, and called the path's local address: the datagram leaves from there. Otherwise the
    /// source is the address of the route that it takes.
    pub is_answer: bool,
    /// The datagram, with the non-ESP marker if its port requires one.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Transmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transmit({} -> {}, {} bytes)", self.path.local, self.path.remote, self.bytes.len())
    }
}
