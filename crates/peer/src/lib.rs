//! Reaches the other end and authenticates it.
//!
//! There are three ways to a peer, and each gives a [`Channel`] of bounded frames:
//!
//! * TLS 1.3 over TCP between two raw public keys ([`connect_tls`], [`accept_tls`]), of Ed25519 or of Ed25519 and ML-DSA-65,
//!   for the daemon;
//! * an `ssh` child whose remote end runs `sealane serve --stdio` ([`SshCommand`]), or a local child;
//! * our own standard input and output ([`Channel::stdio`]), for the far end of an `ssh` or local child.
//!
//! Trust is configured in two text files: [`KnownPeers`] on the client and [`AuthorisedPeers`] on the server.
//!
//! The crate guarantees:
//!
//! * no call outlives its deadline, however slowly or maliciously the other end behaves, name resolution included;
//!   only writing a new server into a trust file that another process holds locked may take some seconds more;
//! * no memory is allocated for a length that the other end merely claims, and every queue is bounded;
//! * no input from the network or from a file panics;
//! * private keys are zeroized, never printed, and never read from a file that others can read.
//!
//! The crate copies no files and runs no data streams.

#![deny(unsafe_code)]

mod accept;
mod address;
mod certificate;
mod channel;
mod composite;
mod error;
mod frame;
mod identity;
mod key;
mod launch;
mod location;
mod name;
mod proof;
mod ssh;
mod tls;
mod trust;

pub use accept::{ConnectionKind, DATA_FIRST_BYTE, peek_kind};
pub use address::{DEFAULT_PORT, HostPort};
pub use channel::{Channel, Received, TlsFacts};
pub use error::{ChannelError, PeerError, TrustFault, chain};
pub use frame::{FrameError, Framer, MAX_FRAME_BYTES};
pub use identity::Identity;
pub use key::{Fingerprint, KeyFault, KeyKind, PublicKey};
pub use launch::{RemoteProcess, ServeLeave, StderrMode, spawn_local, spawn_local_worker};
pub use location::Location;
pub use name::{ChannelKind, PeerName};
pub use ssh::{
    AddressFamily, RemoteCommand, ResolvedHost, Sharing, SshAddresses, SshCommand, ssh_resolved_host,
};
pub use tls::{
    Agreements, Application, Dial, QueueTls, TlsArrival, accept_tls, client_share, connect_tls,
    connect_tls_by, connect_tls_over,
};
pub use trust::{
    AuthorisedPeer, AuthorisedPeers, KnownPeer, KnownPeers, Rights, ServerTrust, check_trusted_folder,
    open_trusted,
};
