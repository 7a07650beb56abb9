//! Tests of agreements that were computed ahead: whose they are, and shares that are none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use sealane_engine::Inline;

use super::*;
use crate::identity::Identity;
use crate::tls::at_hand::AT_HAND;
use crate::tls::tests::first_flight;
use crate::tls::{Application, connect_tls};
use crate::trust::{AuthorisedPeers, ServerTrust};
use crate::{Channel, HostPort, PublicKey};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn agreements() -> Agreements {
    Agreements::new(&Inline::default()).unwrap()
}

/// A server to which clients connect.
struct Server {
    listener: TcpListener,
    identity: Identity,
    authorised: Arc<AuthorisedPeers>,
}

impl Server {
    fn new(admitted: &[PublicKey]) -> Self {
        let text: String =
            admitted.iter().enumerate().map(|(i, key)| format!("{key} c{i} rights=read\n")).collect();
        Self {
            listener: TcpListener::bind(("127.0.0.1", 0)).unwrap(),
            identity: Identity::generate().unwrap(),
            authorised: Arc::new(AuthorisedPeers::parse(text.as_bytes()).unwrap()),
        }
    }

    fn address(&self) -> HostPort {
        HostPort { host: "127.0.0.1".into(), port: self.listener.local_addr().unwrap().port() }
    }

    /// Accepts a connection, and waits until something of `bytes` bytes is there.
    fn arrival(&self, bytes: usize) -> TlsArrival {
        let (stream, _) = self.listener.accept().unwrap();
        while stream.peek(&mut [0; FLIGHT_BYTES]).unwrap() < bytes {
            thread::yield_now();
        }
        let authorised = Arc::clone(&self.authorised);
        TlsArrival::new(Application::Tunnel, stream, &self.identity, authorised, soon()).unwrap()
    }

    /// Returns an arrival that has sent these bytes, and the client's socket.
    fn raw(&self, flight: &[u8]) -> (TlsArrival, TcpStream) {
        let mut client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        client.write_all(flight).unwrap();
        (self.arrival(flight.len()), client)
    }
}

/// Returns the first bytes that a server answers with.
fn answer(arrival: &mut TlsArrival, client: &mut TcpStream) -> Vec<u8> {
    assert!(!arrival.advance());
    let mut bytes = vec![0; 8192];
    let read = client.read(&mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn clients_that_arrive_together_are_served_with_what_was_computed_ahead() {
    // Nine clients fill a batch and begin another.
    let clients: Vec<Identity> = (0..9).map(|_| Identity::generate().unwrap()).collect();
    let keys: Vec<PublicKey> = clients.iter().map(Identity::public_key).collect();
    let server = Server::new(&keys);
    let (address, trust) = (&server.address(), &ServerTrust::exactly(server.identity.public_key()));
    let export = |channel: &Channel| {
        let mut out = [0; 32];
        channel.export(b"EXPORTER-sealane", b"", &mut out).unwrap();
        out
    };
    thread::scope(|scope| {
        let connect = |client| connect_tls(Application::Tunnel, address, client, trust, soon()).unwrap();
        let theirs: Vec<_> = clients.iter().map(|client| scope.spawn(move || connect(client))).collect();
        let mut arrivals: Vec<TlsArrival> =
            clients.iter().map(|_| server.arrival(SHARE_BYTES + 100)).collect();
        agreements().compute(&mut arrivals);
        assert!(arrivals.iter().all(|arrival| arrival.agreement.is_some()));
        let mut ours: Vec<(PublicKey, [u8; 32])> = arrivals
            .into_iter()
            .map(|mut arrival| {
                while !arrival.advance() {
                    thread::yield_now();
                }
                let (channel, entry) = arrival.finish().unwrap();
                (entry.key, export(&channel))
            })
            .collect();
        let mut theirs: Vec<_> = theirs
            .into_iter()
            .map(|client| export(&client.join().unwrap()))
            .zip(&keys)
            .map(|(secret, key)| (*key, secret))
            .collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
    });
}

#[test]
fn an_agreement_serves_only_its_own_share() {
    let server = Server::new(&[]);
    let mut ends: Vec<_> = (0..4).map(|_| server.raw(&first_flight())).collect();
    agreements().compute(ends.iter_mut().map(|(arrival, _)| arrival));
    let answers: Vec<Vec<u8>> =
        ends.iter().map(|(arrival, _)| arrival.agreement.as_ref().unwrap().answer.clone()).collect();
    // The agreements of the last two are exchanged.
    let last = ends[2].0.agreement.take();
    ends[2].0.agreement = ends[3].0.agreement.take();
    ends[3].0.agreement = last;
    for (at, (arrival, client)) in ends.iter_mut().enumerate() {
        let sent = answer(arrival, client);
        let used: Vec<usize> = (0..4).filter(|&of| has(&sent, &answers[of])).collect();
        assert_eq!(used, if at < 2 { vec![at] } else { vec![] });
        assert!(arrival.agreement.is_none());
    }
    assert!(AT_HAND.take().is_none());
}

#[test]
fn a_share_that_is_no_key_is_refused_by_the_library() {
    let server = Server::new(&[]);
    let flight = first_flight();
    let share = client_share(&flight).unwrap();
    let at = flight.windows(SHARE_BYTES).position(|window| window == share).unwrap();
    let (mut above, mut zero) = (flight.clone(), flight.clone());
    // A coefficient of 4095; a point of low order.
    above[at..at + 2].fill(0xff);
    zero[at + KEM.encapsulation_key_bytes()..at + SHARE_BYTES].fill(0);
    for bad in [above, zero] {
        let mut ends = [server.raw(&bad), server.raw(&flight), server.raw(&flight[..flight.len() - 1])];
        agreements().compute(ends.iter_mut().map(|(arrival, _)| arrival));
        let computed = ends.each_ref().map(|(arrival, _)| arrival.agreement.is_some());
        assert_eq!(computed, [false, true, false]);
        let [(refused, client), ..] = &mut ends;
        let alert = answer(refused, client);
        // A fatal alert (RFC 8446, section 6): illegal_parameter.
        assert_eq!((alert[0], &alert[5..7]), (21, &[2, 47][..]), "{alert:?}");
    }
}

#[test]
fn one_alone_and_one_under_way_are_left_to_the_library() {
    let server = Server::new(&[]);
    let (mut alone, _client) = server.raw(&first_flight());
    agreements().compute([&mut alone]);
    assert!(alone.agreement.is_none());

    let mut ends = [server.raw(&first_flight()), server.raw(&first_flight())];
    for (arrival, client) in &mut ends {
        let _ = answer(arrival, client);
    }
    agreements().compute(ends.iter_mut().map(|(arrival, _)| arrival));
    assert!(ends.iter().all(|(arrival, _)| arrival.agreement.is_none()));
}
