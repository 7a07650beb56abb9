//! Tests of TLS between two raw keys, with right, wrong and silent peers.

mod hybrid;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection};

use super::*;
use crate::address::HostPort;
use crate::channel::Channel;
use crate::error::PeerError;
use crate::identity::Identity;
use crate::name::PeerName;
use crate::trust::{AuthorisedPeer, AuthorisedPeers, ServerTrust};

const APPLICATION: Application = Application::Tunnel;

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

fn soon() -> Instant {
    after(20_000)
}

fn authorised(key: PublicKey) -> Arc<AuthorisedPeers> {
    Arc::new(AuthorisedPeers::parse(format!("{key} a rights=read").as_bytes()).unwrap())
}

type Accepted = Result<(Channel, AuthorisedPeer), PeerError>;

fn bound() -> (TcpListener, HostPort) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, HostPort { host: "127.0.0.1".into(), port })
}

fn listen(server: Identity, admitted: PublicKey) -> (HostPort, thread::JoinHandle<Accepted>) {
    let (listener, address) = bound();
    let thread = thread::spawn(move || {
        accept_tls(APPLICATION, listener.accept().unwrap().0, &server, authorised(admitted), soon())
    });
    (address, thread)
}

#[test]
fn who_is_cut_off_before_saying_anything_tries_again() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let trust = ServerTrust::exactly(server.public_key());
    let admitted = authorised(client.public_key());
    for cuts in [0, 2, 3, 4] {
        let (listener, address) = bound();
        thread::scope(|scope| {
            let (server, admitted) = (&server, &admitted);
            let accepted = scope.spawn(move || {
                for cut in 0..cuts {
                    let (mut stream, _) = listener.accept().unwrap();
                    // Half of the rounds leave unread bytes.
                    if cut % 2 == 1 {
                        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
                    }
                }
                (cuts < 4).then(|| {
                    accept_tls(APPLICATION, listener.accept().unwrap().0, server, admitted.clone(), soon())
                })
            });
            let connected = connect_tls(APPLICATION, &address, &client, &trust, soon());
            match accepted.join().unwrap() {
                Some(accepted) => assert!(connected.is_ok() && accepted.is_ok(), "{cuts}: {connected:?}"),
                None => {
                    let error = connected.unwrap_err();
                    assert!(matches!(error, PeerError::Channel(ChannelError::Truncated)), "{error:?}");
                }
            }
        });
    }
}

#[test]
fn showing_a_key_is_not_owning_it() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let trust = ServerTrust::exactly(server.public_key());

    let (address, accepted) = listen(Identity::impostor(&server), client.public_key());
    let error = connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap_err();
    let bad_signature = |e: &PeerError| matches!(e, PeerError::Channel(ChannelError::NotOwner));
    assert!(bad_signature(&error), "{error:?}");
    accepted.join().unwrap().unwrap_err();

    let (address, accepted) = listen(server, client.public_key());
    let mut channel =
        connect_tls(APPLICATION, &address, &Identity::impostor(&client), &trust, soon()).unwrap();
    channel.recv(soon()).unwrap_err();
    let error = accepted.join().unwrap().unwrap_err();
    assert!(bad_signature(&error), "{error:?}");
}

#[test]
fn trust_on_first_use_writes_only_what_was_proved() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("known-peers");
    let (victim, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let (address, accepted) = listen(Identity::impostor(&victim), client.public_key());
    connect_tls(APPLICATION, &address, &client, &ServerTrust::accept_new(&file), soon()).unwrap_err();
    accepted.join().unwrap().unwrap_err();
    assert!(!file.exists());
}

/// Returns the configuration of a client of our kind, except for the groups and the application.
fn client_config(
    groups: Vec<&'static dyn rustls::crypto::SupportedKxGroup>,
    alpn: Option<&[u8]>,
    client: &Identity,
    server: &PublicKey,
) -> Arc<ClientConfig> {
    let trusting = Arc::new(judge::tests::of_server(server));
    let provider = CryptoProvider { kx_groups: groups, ..(**PROVIDER).clone() };
    let resolver = rustls::client::AlwaysResolvesClientRawPublicKeys::new(client.certified());
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(trusting)
        .with_client_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = alpn.into_iter().map(<[u8]>::to_vec).collect();
    Arc::new(config)
}

/// Returns the first bytes of a client of ours.
pub(super) fn first_flight() -> Vec<u8> {
    let client = Identity::generate().unwrap();
    let key = client.public_key();
    let config = client_config(PROVIDER.kx_groups.clone(), Some(APPLICATION.alpn()), &client, &key);
    let name = rustls::pki_types::ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let mut flight = Vec::new();
    ClientConnection::new(config, name).unwrap().write_tls(&mut flight).unwrap();
    flight
}

/// Shakes hands as a client of our kind, except for the groups and the application.
fn other_client(
    groups: Vec<&'static dyn rustls::crypto::SupportedKxGroup>,
    alpn: Option<&[u8]>,
) -> (Result<(), ChannelError>, Accepted) {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let config = client_config(groups, alpn, &client, &server.public_key());
    shake(config, server, &client)
}

/// Shakes hands by this configuration of a client. Returns the outcome at both ends.
fn shake(
    config: Arc<ClientConfig>,
    server: Identity,
    client: &Identity,
) -> (Result<(), ChannelError>, Accepted) {
    let (address, accepted) = listen(server, client.public_key());
    let stream = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
    let name = rustls::pki_types::ServerName::from(stream.peer_addr().unwrap().ip());
    let mut connection = Connection::from(ClientConnection::new(config, name).unwrap());
    let wire = Wire::socket(stream.into()).unwrap();
    let shaken = handshake(APPLICATION, &wire, &mut connection, client.public_key(), soon());
    drop(wire);
    (shaken, accepted.join().unwrap())
}

/// Reads one record, with its header.
fn first_record(from: &mut TcpStream) -> Vec<u8> {
    let mut record = vec![0; 5];
    from.read_exact(&mut record).unwrap();
    record.resize(5 + usize::from(u16::from_be_bytes([record[3], record[4]])), 0);
    from.read_exact(&mut record[5..]).unwrap();
    record
}

#[test]
fn an_end_without_the_hybrid_group_is_refused() {
    use super::aws_lc_rs::kx_group::{SECP384R1, X25519};
    for groups in [vec![X25519], vec![SECP384R1], vec![X25519, SECP384R1]] {
        let (shaken, accepted) = other_client(groups, Some(APPLICATION.alpn()));
        assert!(matches!(shaken, Err(ChannelError::NoKeyExchange)), "{shaken:?}");
        let error = accepted.unwrap_err();
        assert!(matches!(error, PeerError::Channel(ChannelError::NoKeyExchange)), "{error}");
        assert!(error.to_string().contains("X25519MLKEM768"), "{error}");
    }
    let (shaken, accepted) = other_client(PROVIDER.kx_groups.clone(), Some(APPLICATION.alpn()));
    shaken.unwrap();
    assert_eq!(accepted.unwrap().0.tls().unwrap().group, "X25519MLKEM768");
}

#[test]
fn the_application_must_be_named() {
    // The cases are: no ALPN, that of earlier versions, and that of our other application.
    for alpn in [None, Some(&b"sealane/1"[..]), Some(Application::Copy.alpn())] {
        let (shaken, accepted) = other_client(PROVIDER.kx_groups.clone(), alpn);
        assert!(matches!(shaken, Err(ChannelError::WrongProtocol)), "{alpn:?}: {shaken:?}");
        let error = accepted.unwrap_err();
        assert!(matches!(error, PeerError::Channel(ChannelError::WrongProtocol)), "{alpn:?}: {error}");
    }
}

#[test]
fn a_server_without_the_hybrid_group_is_refused() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let trust = ServerTrust::exactly(server.public_key());
    let (listener, address) = bound();
    let served = thread::spawn(move || {
        let provider =
            CryptoProvider { kx_groups: vec![aws_lc_rs::kx_group::X25519], ..(**PROVIDER).clone() };
        let keys = rustls::server::AlwaysResolvesServerRawPublicKeys::new(server.certified());
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(keys));
        let mut connection = Connection::from(rustls::ServerConnection::new(Arc::new(config)).unwrap());
        let wire = Wire::socket(listener.accept().unwrap().0.into()).unwrap();
        handshake(APPLICATION, &wire, &mut connection, server.public_key(), soon())
    });
    let error = connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap_err();
    assert!(matches!(error, PeerError::Channel(ChannelError::NoKeyExchange)), "{error}");
    served.join().unwrap().unwrap_err();
}

#[test]
fn what_came_with_the_handshake_is_not_forgotten() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let trust = ServerTrust::exactly(server.public_key());
    let (address, accepted) = listen(server, client.public_key());
    let (between, proxied) = bound();
    let proxy = thread::spawn(move || {
        let (mut client, _) = between.accept().unwrap();
        let mut server = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
        let mut back = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let backwards = thread::spawn(move || io::copy(&mut back.0, &mut back.1));
        server.write_all(&first_record(&mut client)).unwrap();
        // The rest is one piece: the end of the handshake, a frame, and the end of the stream.
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert!(all.len() < 4096, "the server's first read takes it whole");
        server.write_all(&all).unwrap();
        (server, backwards)
    });
    let mut ours = connect_tls(APPLICATION, &proxied, &client, &trust, soon()).unwrap();
    ours.send(b"early", soon()).unwrap();
    // It gets no answer, because the server has not seen a byte yet.
    assert!(matches!(ours.close(after(1)), Err(ChannelError::Deadline { .. })));
    let (mut theirs, _) = accepted.join().unwrap().unwrap();
    assert_eq!(theirs.recv(soon()).unwrap().as_deref(), Some(&b"early"[..]));
    let error = theirs.recv(soon()).unwrap_err();
    assert!(matches!(error, ChannelError::Closed), "{error}");
    drop(theirs);
    let (_server, backwards) = proxy.join().unwrap();
    let _ = backwards.join().unwrap();
}

#[test]
fn keys_may_be_updated_under_way() {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let trust = ServerTrust::exactly(server.public_key());
    let (address, accepted) = listen(server, client.public_key());
    let mut ours = connect_tls(APPLICATION, &address, &client, &trust, soon()).unwrap();
    let (mut theirs, _) = accepted.join().unwrap().unwrap();
    assert!(matches!(theirs.peer(), PeerName::Client { .. }));
    for _ in 0..3 {
        ours.update_keys();
        ours.send(b"ping", soon()).unwrap();
        assert_eq!(theirs.recv(soon()).unwrap().as_deref(), Some(&b"ping"[..]));
        // Its own key update is due before this.
        theirs.send(b"pong", soon()).unwrap();
        assert_eq!(ours.recv(soon()).unwrap().as_deref(), Some(&b"pong"[..]));
    }
}
