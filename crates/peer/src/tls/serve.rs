//! The server's half: it admits the keys in a list and refuses all others with a message.

use std::fmt;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::{ServerConfig, ServerConnection};

use super::at_hand::{self, Agreement};
use super::judge::Judge;
use super::{Application, PROVIDER, facts, shake, wire};
use crate::channel::{Channel, Wire, now_or_never};
use crate::error::{ChannelError, PeerError};
use crate::identity::Identity;
use crate::key::PublicKey;
use crate::name::PeerName;
use crate::trust::{AuthorisedPeer, AuthorisedPeers};

/// Time for which a refused client is listened to, so that it can read the reason.
const LINGER: Duration = Duration::from_secs(1);
/// Most bytes that a refused client may send meanwhile.
const LINGER_BYTES: usize = 64 << 10;

/// A TCP connection whose first byte is TLS, while both ends authenticate each other. No method waits: the owner
/// polls the connection for output if [`Self::wants_write`], otherwise for input, and calls [`Self::advance`] when it
/// is ready.
pub struct TlsArrival {
    application: Application,
    wire: Wire,
    connection: rustls::Connection,
    judge: Arc<Judge>,
    authorised: Arc<AuthorisedPeers>,
    ours: PublicKey,
    from: SocketAddr,
    deadline: Instant,
    /// Whether nothing was read from the client yet.
    is_fresh: bool,
    /// The agreement with the client, if it was computed ahead.
    pub(super) agreement: Option<Agreement>,
    /// The reason why the client is refused, and the number of bytes that it may still send.
    refused: Option<(ChannelError, usize)>,
}

impl fmt::Debug for TlsArrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsArrival").field("from", &self.from).finish_non_exhaustive()
    }
}

impl TlsArrival {
    /// Starts the handshake; the client has until `deadline`.
    ///
    /// # Errors
    /// Fails if the connection is gone already, or the library refuses.
    pub fn new(
        application: Application,
        stream: TcpStream,
        identity: &Identity,
        authorised: Arc<AuthorisedPeers>,
        deadline: Instant,
    ) -> Result<Self, PeerError> {
        let judge = Arc::new(Judge::of_clients(Arc::clone(&authorised)));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(ChannelError::Tls)?
            .with_client_cert_verifier(Arc::clone(&judge) as Arc<dyn ClientCertVerifier>)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity.certified())));
        config.alpn_protocols = vec![application.alpn().to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;

        let (from, wire) = wire(stream).map_err(ChannelError::io("preparing a connection"))?;
        let connection = ServerConnection::new(Arc::new(config)).map_err(ChannelError::Tls)?;
        let connection = rustls::Connection::from(connection);
        let ours = identity.public_key();
        Ok(Self {
            application,
            wire,
            connection,
            judge,
            authorised,
            ours,
            from,
            deadline,
            is_fresh: true,
            agreement: None,
            refused: None,
        })
    }

    /// Advances as far as possible; returns true when it is over and [`Self::finish`] has the result.
    pub fn advance(&mut self) -> bool {
        self.is_fresh = false;
        if self.refused.is_none() {
            let shake = || shake(self.application, &self.wire, &mut self.connection, self.ours);
            match at_hand::with(self.agreement.take(), shake) {
                Ok(over) => return over,
                // Closing at once over unread bytes would reset the connection, and the alert that explains the
                // refusal would be lost.
                Err(error) => {
                    self.wire.shutdown_write();
                    self.deadline = self.deadline.min(Instant::now() + LINGER);
                    self.refused = Some((error, LINGER_BYTES));
                }
            }
        }
        let Some((_, left)) = &mut self.refused else { return true };
        let mut chunk = [0; 4096];
        loop {
            match now_or_never(|| (&self.wire).read(&mut chunk)) {
                Ok(Some(0)) | Err(_) => return true,
                Ok(Some(n)) if *left > n => *left -= n,
                Ok(Some(_)) => return true,
                Ok(None) => return false,
            }
        }
    }

    /// Returns whether it was never advanced, so that the library has read nothing.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Copies the first bytes that wait at the socket, and leaves them there. `None` if there are none.
    pub(super) fn peek(&self, buffer: &mut [u8]) -> Option<usize> {
        recv(&self.wire, buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT).ok().map(|(bytes, _)| bytes)
    }

    /// Returns whether it waits for output to be possible, and not only for input.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.refused.is_none() && self.connection.wants_write()
    }

    /// Returns whether the client is refused, and has only a moment to read the reason.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns the client's address.
    #[must_use]
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// Returns the time at which it is to be finished in any case. A refused client has a moment to read the reason.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the result.
    ///
    /// # Errors
    /// Fails if the client is not authorised, does not speak our protocol, or took too long.
    pub fn finish(self) -> Result<(Channel, AuthorisedPeer), PeerError> {
        let admitted = self.judge.seen().map(|key| (key, self.authorised.find(&key)));
        match (self.refused, admitted) {
            (None, Some((key, Some(entry)))) if !self.connection.is_handshaking() => {
                let facts = facts(&self.connection, key);
                let peer = PeerName::Client { name: entry.name.clone(), from: self.from };
                let channel =
                    Channel::over_tls(self.wire, self.connection, self.ours, peer, self.from, facts);
                Ok((channel, entry.clone()))
            }
            (_, Some((key, None))) => Err(PeerError::NotAuthorised { key }),
            // A refused client gets our message about its key, and a refused daemon gets one about its own.
            (Some((ChannelError::Refused { ours }, _)), _) => Err(ChannelError::Unknown { ours }.into()),
            (Some((error, _)), _) => Err(error.into()),
            (None, _) => Err(ChannelError::Deadline { doing: "shaking hands" }.into()),
        }
    }
}

impl AsFd for TlsArrival {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// Takes a TCP connection whose first byte is TLS, and waits until both ends are authenticated.
///
/// # Errors
/// Fails if the client is not authorised, does not speak our protocol, or the deadline passed.
pub fn accept_tls(
    application: Application,
    stream: TcpStream,
    identity: &Identity,
    authorised: Arc<AuthorisedPeers>,
    deadline: Instant,
) -> Result<(Channel, AuthorisedPeer), PeerError> {
    let mut arrival = TlsArrival::new(application, stream, identity, authorised, deadline)?;
    while !arrival.advance() && Instant::now() < arrival.deadline() {
        let waited = arrival.wire.wait(true, arrival.wants_write(), &[], arrival.deadline());
        waited.map_err(ChannelError::io("shaking hands"))?;
    }
    arrival.finish()
}
