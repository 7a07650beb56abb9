//! The names of the other end and of the transport, for messages.

use std::fmt;
use std::net::SocketAddr;

use crate::address::HostPort;
use crate::key::PublicKey;

/// The transport of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelKind {
    /// TLS 1.3 over TCP.
    Tls,
    /// An ssh child.
    Ssh,
    /// Our own standard input and output: this process is the far end of ssh or of a local child.
    Stdio,
    /// A process on this machine.
    Local,
}

/// The other end's name, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerName {
    /// A server reached over TLS.
    Server {
        /// The address at which it listens.
        address: HostPort,
        /// The key that it has proved to own.
        key: PublicKey,
    },
    /// A client that came over TLS.
    Client {
        /// Its name in the list of authorised peers.
        name: String,
        /// The address that it came from.
        from: SocketAddr,
    },
    /// A host reached through ssh.
    Ssh {
        /// `host` or `user@host`, as given.
        host: String,
    },
    /// The process that started us with `--stdio`.
    Stdio {
        /// The address that sshd reports, if it started this process.
        from: Option<String>,
    },
    /// A process on this machine.
    Local,
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { address, .. } => write!(f, "{address}"),
            Self::Client { name, from } => write!(f, "{name} ({from})"),
            Self::Ssh { host } => write!(f, "{host} (ssh)"),
            Self::Stdio { from: Some(from) } => write!(f, "{from} (ssh)"),
            Self::Stdio { from: None } => f.write_str("standard input"),
            Self::Local => f.write_str("local process"),
        }
    }
}
