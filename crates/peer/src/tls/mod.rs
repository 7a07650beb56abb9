//! TLS 1.3 between two raw public keys, and nothing else.
//!
//! * The version is 1.3 only, and both ends must name the same [`Application`]: a daemon's port does not serve
//!   gateways.
//! * The key exchange is X25519MLKEM768 and no other: traffic recorded today stays closed to future quantum
//!   computers.
//! * Both ends authenticate with RFC 7250 raw keys, of Ed25519 or of Ed25519 and ML-DSA-65 ([`proof`](crate::proof)); there are
//!   no certificates and no names to trust.
//! * There is no resumption and no early data: a key removed from a trust file is refused at the next connection, and
//!   nothing can be replayed.
//! * The client judges the server's key before it shows its own.

mod ahead;
mod at_hand;
mod connect;
mod hello;
mod judge;
mod own;
mod queue;
mod serve;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use rustls::Connection;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::channel::{TlsFacts, Wire, explain, flush_tls, is_cut, now_or_never};
use crate::error::ChannelError;
use crate::key::PublicKey;

pub use ahead::Agreements;
pub use connect::{Dial, connect_tls, connect_tls_by, connect_tls_over};
pub use hello::client_share;
pub use queue::QueueTls;
pub use serve::{TlsArrival, accept_tls};

/// The protocol within a connection. Both ends must name the same application (ALPN, RFC 7301), so that a peer that
/// reaches a daemon with a gateway's key, or the reverse, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Application {
    /// Transfers of files, between `sealane cp` and `sealane serve`.
    Copy,
    /// Agreements on associations, between gateways of `sealane tunnel`.
    Tunnel,
}

impl Application {
    /// Returns its name in the handshake.
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Copy => b"sealane-copy/1",
            Self::Tunnel => b"sealane-tunnel/1",
        }
    }
}

/// aws-lc-rs with the one group that our ends agree upon.
static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    Arc::new(CryptoProvider { kx_groups: vec![&at_hand::Group], ..aws_lc_rs::default_provider() })
});

/// Prepares the connection for a handshake, and returns it with the other end's address.
fn wire(stream: TcpStream) -> io::Result<(SocketAddr, Wire)> {
    stream.set_nodelay(true)?;
    Ok((stream.peer_addr()?, Wire::socket(stream.into())?))
}

/// Most reads per turn: a peer that sends without pause does not keep others waiting.
const READS_MAX: usize = 16;

/// Advances the handshake as far as possible without waiting; returns true when it is complete.
fn shake(
    application: Application,
    wire: &Wire,
    connection: &mut Connection,
    ours: PublicKey,
) -> Result<bool, ChannelError> {
    let doing = "shaking hands";
    let cut = |e| if is_cut(&e) { ChannelError::Truncated } else { ChannelError::Io { doing, source: e } };
    for _ in 0..READS_MAX {
        // The peer's bytes may explain why a write failed; the read below finds the reason.
        let written = flush_tls(connection, wire);
        if !connection.is_handshaking() && !connection.wants_write() {
            return match connection.alpn_protocol() == Some(application.alpn()) {
                true => Ok(true),
                false => Err(ChannelError::WrongProtocol),
            };
        }
        let read = match connection.is_handshaking() {
            true => now_or_never(|| connection.read_tls(&mut &*wire)).map_err(cut)?,
            false => None,
        };
        match read {
            Some(0) => return Err(ChannelError::Truncated),
            Some(_) => {
                if let Err(error) = connection.process_new_packets() {
                    // This sends the peer the reason, if it still listens.
                    let _ = flush_tls(connection, wire);
                    return Err(explain(error, ours));
                }
            }
            None => {
                written.map_err(cut)?;
                break;
            }
        }
    }
    Ok(false)
}

/// Runs the handshake to its end.
fn handshake(
    application: Application,
    wire: &Wire,
    connection: &mut Connection,
    ours: PublicKey,
    deadline: Instant,
) -> Result<(), ChannelError> {
    // The deadline is checked in every turn: a peer that sends single bytes makes progress but gains no time.
    while !shake(application, wire, connection, ours)? {
        let doing = "shaking hands";
        if Instant::now() >= deadline {
            return Err(ChannelError::Deadline { doing });
        }
        wire.wait(connection.is_handshaking(), connection.wants_write(), &[], deadline)
            .map_err(ChannelError::io(doing))?;
    }
    Ok(())
}

fn facts(connection: &Connection, peer_key: PublicKey) -> TlsFacts {
    let group = connection.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name()));
    let suite = connection.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
    TlsFacts { group: group.unwrap_or_default(), suite: suite.unwrap_or_default(), peer_key }
}

#[cfg(test)]
mod tests;
