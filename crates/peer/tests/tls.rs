//! Tests two ends over TLS on the loopback: admitted and refused peers, and the messages that either gets.

#[path = "../../../testing/skip.rs"]
mod skip;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sealane_peer::{
    Application, AuthorisedPeer, AuthorisedPeers, Channel, ChannelError, ChannelKind, ConnectionKind,
    HostPort, Identity, KnownPeer, KnownPeers, PeerError, PublicKey, ServerTrust, accept_tls, connect_tls,
    peek_kind,
};

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

fn soon() -> Instant {
    after(20_000)
}

type Accepted = Result<(Channel, AuthorisedPeer), PeerError>;

/// A daemon for one connection that admits these keys.
struct Daemon {
    address: HostPort,
    key: PublicKey,
    thread: JoinHandle<Accepted>,
}

fn daemon(admitted: &[PublicKey], deadline: Instant) -> Daemon {
    let identity = Identity::generate().unwrap();
    let key = identity.public_key();
    let text: String = admitted
        .iter()
        .enumerate()
        .map(|(i, key)| format!("{key} client-{i} rights=read rate=5M\n"))
        .collect();
    let authorised = Arc::new(AuthorisedPeers::parse(text.as_bytes()).unwrap());
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(peek_kind(&stream, soon()).unwrap(), ConnectionKind::Tls);
        accept_tls(Application::Copy, stream, &identity, authorised, deadline)
    });
    Daemon { address: HostPort { host: "127.0.0.1".into(), port }, key, thread }
}

fn known_peers(dir: &Path, address: &HostPort, key: PublicKey) -> std::path::PathBuf {
    let path = dir.join("known-peers");
    KnownPeers::append(&path, &KnownPeer { address: address.clone(), key }).unwrap();
    path
}

#[test]
fn both_ends_know_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let client = Identity::generate().unwrap();
    let daemon = daemon(&[Identity::generate().unwrap().public_key(), client.public_key()], soon());
    let trust = ServerTrust::pinned(known_peers(dir.path(), &daemon.address, daemon.key));
    let mut ours = connect_tls(Application::Copy, &daemon.address, &client, &trust, soon()).unwrap();
    let (mut theirs, entry) = daemon.thread.join().unwrap().unwrap();

    assert_eq!((entry.name.as_str(), entry.key), ("client-1", client.public_key()));
    assert_eq!(entry.rate_bytes_per_s.map(u64::from), Some(5_000_000));
    for (channel, peer) in [(&ours, daemon.key), (&theirs, client.public_key())] {
        assert_eq!(channel.kind(), ChannelKind::Tls);
        assert!(!channel.may_carry_secrets());
        let facts = channel.tls().unwrap();
        assert_eq!((facts.group.as_str(), facts.peer_key), ("X25519MLKEM768", peer));
        assert!(facts.suite.starts_with("TLS13_"), "{}", facts.suite);
    }
    assert_eq!(ours.peer().to_string(), daemon.address.to_string());
    assert_eq!(ours.remote_addr(), Some(SocketAddr::from(([127, 0, 0, 1], daemon.address.port))));
    assert!(theirs.peer().to_string().starts_with("client-1 (127.0.0.1:"), "{}", theirs.peer());

    let export = |channel: &Channel, label: &[u8], context: &[u8]| {
        let mut out = [0; 32];
        channel.export(label, context, &mut out).unwrap();
        out
    };
    let secret = export(&ours, b"EXPORTER-sealane", b"stream 1");
    assert_eq!(secret, export(&theirs, b"EXPORTER-sealane", b"stream 1"));
    assert_ne!(secret, export(&theirs, b"EXPORTER-sealane", b"stream 2"));
    assert_ne!(secret, export(&theirs, b"EXPORTER-other", b"stream 1"));

    let echo = thread::spawn(move || {
        loop {
            match theirs.recv(soon()) {
                Ok(frame) => theirs.send(&frame.unwrap(), soon()).unwrap(),
                Err(error) => break (theirs, error),
            }
        }
    });
    for len in [0, 1, 16_380, 16_384, 100_000, 1 << 20] {
        let frame: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        ours.send(&frame, soon()).unwrap();
        assert!(ours.recv(soon()).unwrap() == Some(frame), "{len} bytes");
    }
    assert_eq!(ours.recv(after(10)).unwrap(), None);
    let closing = thread::spawn(move || ours.close(soon()));
    let (theirs, error) = echo.join().unwrap();
    assert!(matches!(error, ChannelError::Closed), "{error}");
    theirs.close(soon()).unwrap();
    closing.join().unwrap().unwrap();
}

#[test]
fn both_send_at_once() {
    let client = Identity::generate().unwrap();
    let daemon = daemon(&[client.public_key()], soon());
    let mut ours =
        connect_tls(Application::Copy, &daemon.address, &client, &ServerTrust::exactly(daemon.key), soon())
            .unwrap();
    let (mut theirs, _) = daemon.thread.join().unwrap().unwrap();
    let frame = vec![1; 1 << 20];
    thread::scope(|scope| {
        for channel in [&mut ours, &mut theirs] {
            let frame = &frame;
            scope.spawn(move || {
                // These are twice the bytes that the two sockets' buffers could hide.
                channel.send(frame, soon()).unwrap();
                channel.send(frame, soon()).unwrap();
                for _ in 0..2 {
                    assert!(channel.recv(soon()).unwrap().as_ref() == Some(frame));
                }
            });
        }
    });
}

#[test]
fn a_cut_is_not_a_goodbye() {
    let client = Identity::generate().unwrap();
    let daemon = daemon(&[client.public_key()], soon());
    let mut ours =
        connect_tls(Application::Copy, &daemon.address, &client, &ServerTrust::exactly(daemon.key), soon())
            .unwrap();
    let (mut theirs, _) = daemon.thread.join().unwrap().unwrap();
    theirs.send(b"whole", soon()).unwrap();
    drop(theirs);
    assert_eq!(ours.recv(soon()).unwrap().as_deref(), Some(&b"whole"[..]));
    let error = ours.recv(soon()).unwrap_err();
    assert!(matches!(error, ChannelError::Truncated), "no close_notify came: {error}");
}

#[test]
fn an_unknown_server_is_named_and_not_told_who_we_are() {
    let dir = tempfile::tempdir().unwrap();
    let client = Identity::generate().unwrap();
    let daemon = daemon(&[client.public_key()], soon());
    let path = dir.path().join("known-peers");
    let error = connect_tls(Application::Copy, &daemon.address, &client, &ServerTrust::pinned(&path), soon())
        .unwrap_err();
    assert!(matches!(&error, PeerError::UnknownServer { key, .. } if *key == daemon.key), "{error}");
    let line = format!("{} {}", daemon.address, daemon.key);
    assert!(error.to_string().contains(&line) && error.to_string().contains("--accept-new"), "{error}");
    assert!(!path.exists(), "nothing was written");
    let error = daemon.thread.join().unwrap().unwrap_err();
    assert!(matches!(error, PeerError::Channel(_)), "the server never saw a client key: {error}");
}

#[test]
fn trust_on_first_use_holds_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("known-peers");
    let client = Identity::generate().unwrap();
    let first = daemon(&[client.public_key()], soon());
    connect_tls(Application::Copy, &first.address, &client, &ServerTrust::accept_new(&path), soon()).unwrap();
    assert_eq!(KnownPeers::load(&path).unwrap().keys(&first.address).collect::<Vec<_>>(), [first.key]);
    first.thread.join().unwrap().unwrap();

    // The same address shows another key, which is refused under every policy that reads the file.
    for trust in [ServerTrust::accept_new(&path), ServerTrust::pinned(&path)] {
        let second = daemon(&[client.public_key()], soon());
        KnownPeers::append(&path, &KnownPeer { address: second.address.clone(), key: first.key }).unwrap();
        let error = connect_tls(Application::Copy, &second.address, &client, &trust, soon()).unwrap_err();
        let as_wanted = matches!(&error, PeerError::WrongServer { found, known, .. }
            if *found == second.key && *known == first.key);
        assert!(as_wanted, "{error}");
        second.thread.join().unwrap().unwrap_err();
        assert_eq!(KnownPeers::load(&path).unwrap().keys(&second.address).collect::<Vec<_>>(), [first.key]);
    }

    let third = daemon(&[client.public_key()], soon());
    let trust = ServerTrust::exactly(first.key);
    let error = connect_tls(Application::Copy, &third.address, &client, &trust, soon()).unwrap_err();
    assert!(matches!(error, PeerError::WrongServer { .. }), "{error}");
    third.thread.join().unwrap().unwrap_err();
}

#[test]
fn an_unauthorised_client_learns_why() {
    let client = Identity::generate().unwrap();
    let daemon = daemon(&[Identity::generate().unwrap().public_key()], soon());
    let mut channel =
        connect_tls(Application::Copy, &daemon.address, &client, &ServerTrust::exactly(daemon.key), soon())
            .unwrap();
    // The client may be quick and send before it receives the answer.
    let _ = channel.send(&[0; 1000], soon());
    let error = channel.recv(soon()).unwrap_err();
    assert!(matches!(&error, ChannelError::Refused { ours } if *ours == client.public_key()), "{error}");
    assert!(error.to_string().contains(&client.public_key().to_string()), "{error}");
    drop(channel);
    let error = daemon.thread.join().unwrap().unwrap_err();
    assert!(matches!(&error, PeerError::NotAuthorised { key } if *key == client.public_key()), "{error}");
}

#[test]
fn a_silent_client_costs_the_deadline() {
    let identity = Identity::generate().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let error = accept_tls(Application::Copy, stream, &identity, Arc::default(), after(50)).unwrap_err();
    assert!(matches!(error, PeerError::Channel(ChannelError::Deadline { .. })), "{error}");
}

#[test]
fn a_dripping_client_gains_no_time() {
    let identity = Identity::generate().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let drip = thread::spawn(move || {
        // This handshake record of 16 000 bytes would take half a minute.
        client.write_all(&[0x16, 3, 1, 0x3e, 0x80, 1, 0, 0x3e, 0x7c]).unwrap();
        let mut dripped = 0;
        while client.write_all(&[0]).is_ok() {
            dripped += 1;
            thread::sleep(Duration::from_millis(2));
        }
        dripped
    });
    let error = accept_tls(Application::Copy, stream, &identity, Arc::default(), after(100)).unwrap_err();
    assert!(matches!(error, PeerError::Channel(ChannelError::Deadline { .. })), "{error}");
    assert!(drip.join().unwrap() < 16_000, "it was cut off before it was done");
}

#[test]
fn a_server_that_says_nothing_or_nonsense() {
    let client = Identity::generate().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = HostPort { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
    let trust = ServerTrust::exactly(client.public_key());
    let error = connect_tls(Application::Copy, &address, &client, &trust, after(300)).unwrap_err();
    assert!(matches!(error, PeerError::Channel(ChannelError::Deadline { .. })), "{error}");
    drop(listener.accept().unwrap());

    let nonsense = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read(&mut [0; 4096]);
    });
    let error = connect_tls(Application::Copy, &address, &client, &trust, soon()).unwrap_err();
    let is_named = matches!(error, PeerError::NotTls { .. } | PeerError::Channel(ChannelError::Truncated));
    assert!(is_named, "{error}");
    nonsense.join().unwrap();

    let error = connect_tls(Application::Copy, &address, &client, &trust, soon()).unwrap_err();
    assert!(matches!(error, PeerError::Connect { .. }), "nobody listens any more: {error}");
    let nowhere = HostPort { host: "no-such-host.invalid".into(), port: 1 };
    let error = connect_tls(Application::Copy, &nowhere, &client, &trust, after(2000)).unwrap_err();
    assert!(matches!(error, PeerError::Resolve { .. }), "{error}");
}

/// Connects a foreign TLS implementation to our server, and returns its output and the server's result.
fn openssl_against_us(args: &[&str]) -> Option<(String, Accepted)> {
    let have = Command::new("openssl").arg("version").output().is_ok_and(|o| o.status.success());
    if !have {
        skip::skip("openssl is not installed");
        return None;
    }
    let daemon = daemon(&[], after(5000));
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &daemon.address.to_string()])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((text, daemon.thread.join().unwrap()))
}

#[test]
fn openssl_cannot_talk_us_down_to_tls_1_2() {
    let Some((text, accepted)) = openssl_against_us(&["-tls1_2", "-alpn", "sealane-copy/1"]) else { return };
    assert!(text.contains("protocol version"), "{text}");
    let error = accepted.unwrap_err();
    assert!(matches!(error, PeerError::Channel(ChannelError::Tls(_))), "{error}");
}

#[test]
fn openssl_with_certificates_is_refused() {
    let Some((text, accepted)) = openssl_against_us(&["-tls1_3", "-alpn", "sealane-copy/1"]) else { return };
    // It offers no raw public keys, and we accept nothing else.
    assert!(text.contains("alert"), "{text}");
    accepted.unwrap_err();
}

#[test]
fn openssl_with_another_protocol_is_refused() {
    let Some((text, accepted)) = openssl_against_us(&["-tls1_3", "-alpn", "http/1.1"]) else { return };
    assert!(text.contains("alert"), "{text}");
    accepted.unwrap_err();
}
