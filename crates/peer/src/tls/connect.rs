//! The client's half: it finds the server, judges its key, and only then shows its own.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustls::InvalidMessage::InvalidContentType;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, SignatureScheme};

use super::judge::{Form, Judge};
use super::{Application, PROVIDER, facts, handshake, wire};
use crate::address::HostPort;
use crate::channel::Channel;
use crate::error::{ChannelError, PeerError};
use crate::identity::Identity;
use crate::name::PeerName;
use crate::ssh::AddressFamily;
use crate::trust::ServerTrust;

/// Most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;
/// Least time for each address, unless less is left.
const LEAST_ATTEMPT: Duration = Duration::from_millis(250);

/// Pauses after attempts that were cut off early: a daemon with too many strangers at one address hangs up on those
/// that have sent least, who may be honest and slow.
const PAUSES_MS: [u64; 3] = [50, 150, 400];

/// Connects to a daemon and authenticates both ends. Attempts that the other end cuts off are repeated a few times.
///
/// A TLS 1.3 client finishes before the server has judged the client's key: if the server does not accept it, the
/// first [`Channel::recv`] fails with [`ChannelError::Refused`].
///
/// # Errors
/// Fails if the name does not resolve, nobody listens, the server is not trusted, it does not speak our protocol, or
/// the deadline passed.
pub fn connect_tls(
    application: Application,
    address: &HostPort,
    identity: &Identity,
    trust: &ServerTrust,
    deadline: Instant,
) -> Result<Channel, PeerError> {
    connect_tls_by(application, None, address, identity, trust, deadline)
}

/// Does as [`connect_tls`], but only over addresses of one family.
///
/// # Errors
/// Fails as that does, and if the name has no address of that family.
pub fn connect_tls_by(
    application: Application,
    family: Option<AddressFamily>,
    address: &HostPort,
    identity: &Identity,
    trust: &ServerTrust,
    deadline: Instant,
) -> Result<Channel, PeerError> {
    connect(application, family, &TcpStream::connect_timeout, address, identity, trust, deadline)
}

/// Makes a TCP connection to an address within a time, as [`TcpStream::connect_timeout`] does.
pub type Dial<'a> = &'a dyn Fn(&SocketAddr, Duration) -> io::Result<TcpStream>;

/// Does as [`connect_tls_by`], over connections that `dial` makes.
///
/// # Errors
/// Fails as that does.
pub fn connect_tls_over(
    application: Application,
    family: Option<AddressFamily>,
    dial: Dial<'_>,
    address: &HostPort,
    identity: &Identity,
    trust: &ServerTrust,
    deadline: Instant,
) -> Result<Channel, PeerError> {
    connect(application, family, dial, address, identity, trust, deadline)
}

fn connect(
    application: Application,
    family: Option<AddressFamily>,
    dial: Dial<'_>,
    address: &HostPort,
    identity: &Identity,
    trust: &ServerTrust,
    deadline: Instant,
) -> Result<Channel, PeerError> {
    let mut pauses = PAUSES_MS.into_iter().map(Duration::from_millis);
    loop {
        match attempt(application, family, dial, address, identity, trust, deadline) {
            Err(PeerError::Channel(error @ (ChannelError::Closed | ChannelError::Truncated))) => {
                let pause = pauses.next().filter(|&pause| Instant::now() + pause < deadline);
                thread::sleep(pause.ok_or(error)?);
            }
            done => return done,
        }
    }
}

fn attempt(
    application: Application,
    family: Option<AddressFamily>,
    dial: Dial<'_>,
    address: &HostPort,
    identity: &Identity,
    trust: &ServerTrust,
    deadline: Instant,
) -> Result<Channel, PeerError> {
    let judge = Arc::new(Judge::of_server(Form::Raw, address.clone(), trust.clone())?);
    let stream = connect_tcp(family, dial, address, deadline)?;
    let own = Arc::new(OwnKey { certified: identity.certified(), is_unknown: AtomicBool::new(false) });
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(ChannelError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&judge) as Arc<dyn ServerCertVerifier>)
        .with_client_cert_resolver(Arc::clone(&own) as Arc<dyn ResolvesClientCert>);
    config.alpn_protocols = vec![application.alpn().to_vec()];
    config.resumption = Resumption::disabled();
    // The key is the name, and the destination is kept private.
    config.enable_sni = false;

    let (remote_addr, wire) = wire(stream).map_err(ChannelError::io("preparing a connection"))?;
    let name = ServerName::from(remote_addr.ip());
    let connection = ClientConnection::new(Arc::new(config), name).map_err(ChannelError::Tls)?;
    let mut connection = rustls::Connection::from(connection);
    let ours = identity.public_key();
    let shaken = handshake(application, &wire, &mut connection, ours, deadline);
    // It will refuse a client without a key, and would say that alone.
    if shaken.is_ok() && own.is_unknown.load(Ordering::Relaxed) {
        return Err(ChannelError::NoHybrid.into());
    }
    // Only once it has shaken hands has the server proved to own the key.
    judge.conclude(shaken.is_ok())?;
    let key = match (judge.seen(), shaken) {
        (Some(key), Ok(())) => key,
        // Its first bytes are not TLS, so they were not altered TLS.
        (None, Err(ChannelError::Altered { source: rustls::Error::InvalidMessage(InvalidContentType) })) => {
            return Err(PeerError::NotTls { address: address.clone() });
        }
        (_, Err(error)) => return Err(error.into()),
        // In this configuration every handshake has a key to judge.
        (None, Ok(())) => return Err(ChannelError::WrongProtocol.into()),
    };
    let facts = facts(&connection, key);
    let peer = PeerName::Server { address: address.clone(), key };
    Ok(Channel::over_tls(wire, connection, ours, peer, remote_addr, facts))
}

/// Tries the name's addresses one after the other.
fn connect_tcp(
    family: Option<AddressFamily>,
    dial: Dial<'_>,
    address: &HostPort,
    deadline: Instant,
) -> Result<TcpStream, PeerError> {
    let mut addresses = resolve(address, deadline)?;
    addresses.retain(|found| family.is_none_or(|family| family.has(found.ip())));
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (i, candidate) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        // An address that drops packets must not use up the time of the others.
        let others = u32::try_from(addresses.len() - i).unwrap_or(1);
        let share = (left / others).max(LEAST_ATTEMPT).min(left);
        if share.is_zero() {
            last = io::ErrorKind::TimedOut.into();
            break;
        }
        match dial(candidate, share) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(PeerError::Connect { address: address.clone(), source: last })
}

/// Resolves within the deadline. The system's resolver has no deadline, so it runs on a thread of its own, which ends
/// with it.
fn resolve(address: &HostPort, deadline: Instant) -> Result<Vec<SocketAddr>, PeerError> {
    if let Ok(ip) = address.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, address.port)]);
    }
    let fault = |source| PeerError::Resolve { address: address.clone(), source };
    let (answer, answered) = sync_channel(1);
    let (host, port) = (address.host.clone(), address.port);
    thread::Builder::new()
        .name("resolver".into())
        .spawn(move || {
            let found = (host.as_str(), port).to_socket_addrs();
            // The receiver is gone if the deadline passed.
            let _ = answer.send(found.map(|found| found.take(MAX_ADDRESSES).collect::<Vec<_>>()));
        })
        .map_err(fault)?;
    match answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(found) => found.map_err(fault),
        Err(RecvTimeoutError::Timeout) => Err(fault(io::ErrorKind::TimedOut.into())),
        Err(RecvTimeoutError::Disconnected) => Err(fault(io::ErrorKind::Other.into())),
    }
}

/// Our key, which is shown to a server that can verify it.
#[derive(Debug)]
struct OwnKey {
    certified: Arc<CertifiedKey>,
    /// Whether the server has offered no scheme of the key's kind.
    is_unknown: AtomicBool,
}

impl ResolvesClientCert for OwnKey {
    fn resolve(&self, _hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let is_known = self.certified.key.choose_scheme(schemes).is_some();
        self.is_unknown.store(!is_known, Ordering::Relaxed);
        is_known.then(|| Arc::clone(&self.certified))
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        true
    }
}
