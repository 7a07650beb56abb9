//! Calls between gateways over real TLS, with lying peers whose keys are known, and with strangers that only occupy
//! places.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use sealane_engine::Implementations;
use sealane_ipsec::policy::PeerId;
use sealane_lanes::Bells;
use sealane_peer::{
    Application, AuthorisedPeers, Channel, HostPort, Identity, PublicKey, ServerTrust, accept_tls,
    connect_tls,
};
use sealane_tunnel::{
    keying::{
        agreement::{Answer, Offer, Refusal, Seen},
        calls::Calls,
        peer_keys::INBOUND_MAX,
    },
    lanes::Lanes,
    peers::Peers,
    site::Site,
};

const READY: &[u8] = b"\x02";

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn identity() -> Identity {
    Identity::generate().expect("the system has random bytes")
}

/// A gateway's calls, whose strangers are served by a thread that lasts as long as the test's process.
struct Gateway {
    address: HostPort,
    key: PublicKey,
    peers: &'static Peers,
    lanes: &'static Lanes,
    said: &'static Mutex<Vec<String>>,
}

/// Starts a gateway that knows peers with these keys; each has lines of its own in the site file.
fn gateway(known: &[(PublicKey, String)]) -> Gateway {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = listener.local_addr().expect("it is bound");
    let mut text = format!("device = \"sl0\"\nlisten = \"{listen}\"\n");
    for (at, (key, more)) in known.iter().enumerate() {
        text += &format!(
            "[[peers]]\nname = \"p{at}\"\nkey = \"{key}\"\nnetworks = [\"10.{at}.0.0/16\"]\n{more}\n"
        );
    }
    let site = Site::parse(Path::new("site.toml"), &text).expect("a site of this test");
    let own = identity();
    let key = own.public_key();
    let peers: &Peers =
        Box::leak(Box::new(Peers::new(&site, Instant::now(), Bells::new(1).expect("descriptors"))));
    let lanes: &Lanes = Box::leak(Box::default());
    let said: &Mutex<Vec<String>> = Box::leak(Box::default());
    let calls: &Calls<'_> =
        Box::leak(Box::new(Calls::new(&site, own, Implementations::default(), peers, lanes)));
    let say: &(dyn Fn(&str) + Sync) =
        Box::leak(Box::new(|line: &str| said.lock().expect("nobody panics").push(line.to_owned())));
    let say: &_ = Box::leak(Box::new(move |line: &str| say(line)));
    listener.set_nonblocking(true).expect("a socket");
    thread::spawn(move || thread::scope(|scope| calls.hold_strangers(scope, &listener, say)));
    thread::spawn(move || {
        thread::scope(|scope| {
            loop {
                let requests = peers.database().standing_requests();
                calls.poll(scope, &requests, Instant::now(), say);
                thread::sleep(Duration::from_millis(20));
            }
        });
    });
    let address = HostPort { host: listen.ip().to_string(), port: listen.port() };
    Gateway { address, key, peers, lanes, said }
}

impl Gateway {
    fn call(&self, identity: &Identity) -> Channel {
        let trust = ServerTrust::exactly(self.key);
        connect_tls(Application::Tunnel, &self.address, identity, &trust, soon()).expect("it knows us")
    }

    /// Calls until an offer is accepted, then confirms that this end receives.
    fn agree(&self, identity: &Identity) -> u32 {
        let deadline = soon();
        loop {
            assert!(Instant::now() < deadline, "no offer is taken any more");
            let mut channel = self.call(identity);
            let sent = channel.send(&offer("aes-256-gcm").to_bytes(), deadline);
            let answer = sent.and_then(|()| channel.recv(deadline));
            if let Ok(Ok(Answer::Taken { spi, .. })) =
                answer.map(|bytes| Answer::parse(&bytes.unwrap_or_default()))
            {
                channel.send(READY, deadline).expect("it listens");
                let _ = channel.close(deadline);
                return spi;
            }
            // The gateway is busy with an earlier call, or has been asked too often.
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn inbound(&self, id: PeerId) -> usize {
        let snapshot = self.peers.database().snapshot();
        snapshot.inbound.values().filter(|inbound| inbound.association().parameters().peer == id).count()
    }

    fn has_outbound(&self, id: PeerId) -> bool {
        self.peers.database().snapshot().outbound.contains_key(&id)
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = soon();
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}; said {:?}", self.said.lock());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn seen(address: &str) -> Seen {
    Seen::new(address.parse().expect("an address"), None)
}

fn offer(kind: &str) -> Offer {
    Offer { spi: 0x4321, seen: seen("127.0.0.1:4500"), kind: kind.parse().expect("a kind") }
}

/// Returns first messages of a caller that are not an offer, or are an offer that this gateway refuses.
fn lies() -> Vec<(String, Vec<u8>)> {
    let good = offer("aes-256-gcm").to_bytes();
    let mut lies: Vec<(String, Vec<u8>)> = vec![
        ("another version".into(), [b"sealane tunnel 1", &good[16..]].concat()),
        ("a reserved index".into(), [&good[..16], &[0, 0, 0, 0xff], &good[20..]].concat()),
        ("no index".into(), [&good[..16], &[0; 4], &good[20..]].concat()),
        ("an unknown suite".into(), [&good[..42], b"rot13"].concat()),
        ("an empty suite".into(), good[..42].to_vec()),
        ("a suite of any length".into(), [&good[..42], &[b'a'; 60_000][..]].concat()),
        ("no text".into(), [&good[..42], &[0xff; 20][..]].concat()),
        ("something behind the suite".into(), [&good[..], b"\0"].concat()),
        ("the last word first".into(), READY.to_vec()),
        ("an answer".into(), Answer::Taken { spi: 0x4321, seen: seen("127.0.0.1:1") }.to_bytes()),
        ("a refusal".into(), Answer::Refused(Refusal::Busy).to_bytes()),
        ("nothing".into(), Vec::new()),
    ];
    for kind in ["aes-128-gcm", "transport aes-256-gcm", "ah hmac-sha256-128", "aes-128-cbc+hmac-sha256-128"]
    {
        lies.push((kind.to_owned(), offer(kind).to_bytes()));
    }
    lies.extend(
        (0..good.len()).step_by(5).map(|length| (format!("{length} bytes"), good[..length].to_vec())),
    );
    lies
}

#[test]
fn a_caller_whose_key_is_known_gets_nothing_by_lies() {
    let (liar, honest) = (identity(), identity());
    let gateway = gateway(&[(liar.public_key(), String::new()), (honest.public_key(), String::new())]);
    for (name, lie) in lies() {
        let mut channel = gateway.call(&liar);
        if channel.send(&lie, soon()).is_ok() {
            let answer = channel.recv(soon()).ok().flatten().map(|bytes| Answer::parse(&bytes));
            assert!(!matches!(answer, Some(Ok(Answer::Taken { .. }))), "{name}: {answer:?}");
        }
        assert_eq!(gateway.inbound(PeerId(0)), 0, "{name}");
    }
    // A caller's claims about our address change no endpoint, and a call that is cut off leaves no outbound
    // association.
    for address in ["224.0.0.1:0", "0.0.0.0:0", "[::]:0", "255.255.255.255:65535"] {
        let mut channel = gateway.call(&liar);
        let offer = Offer { seen: seen(address), ..offer("aes-256-gcm") };
        let _ = channel.send(&offer.to_bytes(), soon());
        let _ = channel.recv(soon());
        for word in [&b"\x03"[..], b"", &[2; 100]] {
            let _ = channel.send(word, soon());
        }
        drop(channel);
        assert_eq!(gateway.peers.endpoint(PeerId(0)), None);
        assert!(!gateway.has_outbound(PeerId(0)), "{address}");
    }
    assert!(gateway.inbound(PeerId(0)) <= INBOUND_MAX);
    // The gateway answers the honest peer as before, and the liar too when it makes a good offer.
    gateway.agree(&honest);
    gateway.wait_for("the honest peer's keys", |gateway| gateway.has_outbound(PeerId(1)));
    gateway.agree(&liar);
    gateway.wait_for("the former liar's keys", |gateway| gateway.has_outbound(PeerId(0)));
    assert_eq!(gateway.lanes.failure(), None);
    let refused = gateway.said.lock().expect("nobody panics").clone();
    let told = refused.iter().filter(|line| line.contains("\"p0\" called from 127.0.0.1 and was refused"));
    assert_eq!(told.count(), 1, "{refused:?}");
}

#[test]
fn a_caller_whose_key_is_known_holds_up_nobody_by_stalling() {
    let (liar, honest) = (identity(), identity());
    let gateway = gateway(&[(liar.public_key(), String::new()), (honest.public_key(), String::new())]);
    // The liar stalls at each step of a call.
    for steps in 0..3 {
        let mut stalled = gateway.call(&liar);
        if steps > 0 {
            stalled.send(&offer("aes-256-gcm").to_bytes(), soon()).expect("it listens");
        }
        if steps > 1 {
            let answer = stalled.recv(soon()).expect("it answers").expect("an answer");
            assert!(matches!(Answer::parse(&answer), Ok(Answer::Taken { .. })), "{answer:?}");
        }
        // Meanwhile the gateway serves the honest peer, and it ends the stalled call by itself.
        gateway.agree(&honest);
        while let Ok(Some(_)) = stalled.recv(soon()) {}
    }
    gateway.agree(&liar);
    gateway.wait_for("keys after all", |gateway| gateway.has_outbound(PeerId(0)));
    assert!(gateway.inbound(PeerId(0)) <= INBOUND_MAX);
    assert_eq!(gateway.lanes.failure(), None);
}

/// Returns answers of a called end that make no association.
fn false_answers() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let good = Answer::Taken { spi: 0x1234, seen: seen("127.0.0.1:4500") }.to_bytes();
    vec![
        ("nothing", vec![Vec::new()]),
        ("a reserved index", vec![[&[1, 0, 0, 0, 0xff][..], &good[5..]].concat()]),
        ("half an answer", vec![good[..10].to_vec()]),
        ("more than an answer", vec![[&good[..], &[0; 100]].concat()]),
        ("an unknown refusal", vec![vec![0, 77]]),
        ("another suite", vec![Answer::Refused(Refusal::Suite).to_bytes()]),
        ("too often", vec![Answer::Refused(Refusal::TooOften).to_bytes()]),
        ("busy", vec![Answer::Refused(Refusal::Busy).to_bytes()]),
        ("an offer", vec![offer("aes-256-gcm").to_bytes()]),
        ("a long one", vec![vec![1; 60_000]]),
        ("silence", Vec::new()),
    ]
}

#[test]
fn a_called_peer_whose_key_is_known_gives_nothing_by_lies() {
    let liars: Vec<_> = false_answers()
        .into_iter()
        .map(|(name, answers)| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            (name, answers, identity(), listener)
        })
        .collect();
    let known: Vec<(PublicKey, String)> = liars
        .iter()
        .map(|(_, _, liar, listener)| {
            let at = listener.local_addr().expect("it is bound");
            (liar.public_key(), format!("endpoint = \"{at}\""))
        })
        .collect();
    let gateway = gateway(&known);
    let authorised = format!("{} gateway rights=read\n", gateway.key);
    let authorised = Arc::new(AuthorisedPeers::parse(authorised.as_bytes()).expect("a list"));
    let (gateway, authorised) = (&gateway, &authorised);
    thread::scope(|scope| {
        for (place, (name, answers, liar, listener)) in (0..).zip(liars) {
            scope.spawn(move || {
                // The gateway calls twice: after a lie it calls the peer again, later. For silence one call is
                // enough, because it takes long.
                for _ in 0..if answers.is_empty() { 1 } else { 2 } {
                    let (stream, _) = listener.accept().expect("a call");
                    let arrived =
                        accept_tls(Application::Tunnel, stream, &liar, Arc::clone(authorised), soon());
                    let (mut channel, _) = arrived.expect("the gateway calls");
                    let offered = channel.recv(soon()).expect("it offers").expect("an offer");
                    let offered = Offer::parse(&offered).expect("an offer");
                    assert_eq!(offered.kind.to_string(), "aes-256-gcm");
                    for answer in &answers {
                        let _ = channel.send(answer, soon());
                    }
                    // The gateway ends the call after every answer.
                    while let Ok(Some(_)) = channel.recv(soon()) {}
                }
                assert!(!gateway.has_outbound(PeerId(place)), "{name}");
                assert_eq!(gateway.inbound(PeerId(place)), 0, "{name}");
            });
        }
    });
    assert_eq!(gateway.lanes.failure(), None);
}

/// Returns a TCP connection from any address of this host's own network.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&socket, &SocketAddrV4::new(from, 0)).ok()?;
    connect(&socket, &to).ok()?;
    Some(socket.into())
}

#[test]
fn silent_strangers_from_everywhere_keep_no_peer_out() {
    let honest = identity();
    let gateway = gateway(&[(honest.public_key(), String::new())]);
    let to: SocketAddr =
        format!("{}:{}", gateway.address.host, gateway.address.port).parse().expect("an address");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (flooded, is_flooded) = std::sync::mpsc::sync_channel(1);
        let is_done = &is_done;
        scope.spawn(move || {
            let mut held = std::collections::VecDeque::new();
            for number in 0u32.. {
                if is_done.load(SeqCst) {
                    return;
                }
                let [_, _, high, low] = number.to_be_bytes();
                held.extend(connect_from(Ipv4Addr::new(127, 9, high, low), to));
                if held.len() > 400 {
                    held.pop_front();
                }
                if number == 300 {
                    let _ = flooded.send(());
                }
                // Some hundreds of connections come per second; an honest one has sent bytes long before it would be
                // the oldest.
                thread::sleep(Duration::from_millis(3));
            }
        });
        is_flooded.recv().expect("the flood is there");
        for _ in 0..3 {
            gateway.agree(&honest);
        }
        is_done.store(true, SeqCst);
    });
    gateway.wait_for("its keys", |gateway| gateway.has_outbound(PeerId(0)));
}

#[test]
fn a_caller_that_nobody_knows_is_told_of_and_hears_why() {
    let (stranger, known) = (identity(), identity());
    let gateway = gateway(&[(known.public_key(), String::new())]);
    let mut channel = gateway.call(&stranger);
    let error = channel.recv(soon()).expect_err("it is refused");
    assert!(matches!(error, sealane_peer::ChannelError::Refused { .. }), "{error}");
    let key = stranger.public_key().to_string();
    let is_told = |line: &String| line.contains("refused a call from 127.0.0.1:") && line.contains(&key);
    gateway.wait_for("a line", |gateway| gateway.said.lock().expect("nobody panics").iter().any(is_told));
    // Noise is not logged.
    let mut noise =
        TcpStream::connect((gateway.address.host.as_str(), gateway.address.port)).expect("it listens");
    noise.write_all(&[0x16; 4096]).expect("it is sent");
    let _ = noise.read_to_end(&mut Vec::new());
    gateway.agree(&known);
    assert_eq!(gateway.said.lock().expect("nobody panics").len(), 1);
}
