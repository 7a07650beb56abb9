//! CPU time of a server per TLS handshake, with the key agreements of simultaneous arrivals computed side by side and
//! with each computed by the TLS library.
//!
//! ```sh
//! cargo bench -p sealane-peer --bench arrivals
//! ```
//!
//! Clients connect in threads of their own. The server's thread waits until all have sent their ClientHello, so that it
//! never waits while its time is taken, and then answers each, as a daemon's door does in one turn. Prints the
//! medians over the rounds, in microseconds of the server's thread per client, from the first look at the arrivals to
//! the answer to the last one (`answer`) and for the whole handshake; both ways alternate within a round.
//!
//! The environment sets `ROUNDS` (40).

use std::{
    env,
    net::TcpListener,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use sealane_engine::Inline;
use sealane_peer::{
    Agreements, Application, AuthorisedPeers, HostPort, Identity, ServerTrust, TlsArrival, connect_tls,
};

/// Bytes of which a ClientHello has more.
const HELLO_BYTES: usize = 1300;

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// The two ends of all handshakes.
struct Ends {
    listener: TcpListener,
    server: Identity,
    client: Identity,
    authorised: Arc<AuthorisedPeers>,
    agreements: Agreements,
}

impl Ends {
    fn new() -> Self {
        let client = Identity::generate().expect("random bytes");
        let text = format!("{} client rights=read", client.public_key());
        Self {
            listener: TcpListener::bind(("127.0.0.1", 0)).expect("a listener"),
            server: Identity::generate().expect("random bytes"),
            authorised: Arc::new(AuthorisedPeers::parse(text.as_bytes()).expect("an entry")),
            agreements: Agreements::new(&Inline::default()).expect("an engine"),
            client,
        }
    }

    /// Shakes hands with `count` clients at once; returns microseconds per client until all are answered, and in all.
    fn shake(&mut self, count: usize, are_together: bool) -> (f64, f64) {
        let port = self.listener.local_addr().expect("an address").port();
        let address = &HostPort { host: "127.0.0.1".into(), port };
        let (client, trust) = (&self.client, &ServerTrust::exactly(self.server.public_key()));
        thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(move || connect_tls(Application::Copy, address, client, trust, soon()).map(drop));
            }
            let mut arrivals: Vec<TlsArrival> = (0..count)
                .map(|_| {
                    let (stream, _) = self.listener.accept().expect("a client");
                    while stream.peek(&mut [0; 2 * HELLO_BYTES]).expect("a client") < HELLO_BYTES {
                        thread::yield_now();
                    }
                    let authorised = Arc::clone(&self.authorised);
                    TlsArrival::new(Application::Copy, stream, &self.server, authorised, soon())
                        .expect("an arrival")
                })
                .collect();
            let began = cpu();
            if are_together {
                self.agreements.compute(&mut arrivals);
            }
            for arrival in &mut arrivals {
                arrival.advance();
            }
            let answered = cpu() - began;
            // The clients finish; their last flights are waited for outside of the measured time.
            let mut rest = Duration::ZERO;
            for mut arrival in arrivals {
                loop {
                    thread::sleep(Duration::from_micros(200));
                    let began = cpu();
                    let is_over = arrival.advance();
                    rest += cpu() - began;
                    if is_over {
                        break;
                    }
                }
                arrival.finish().expect("a handshake");
            }
            let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
            (each(answered), each(answered + rest))
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds: usize = env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(40);
    let mut ends = Ends::new();
    println!(
        "at once   answer: alone   together   ratio   handshake: alone   together   ratio   (µs of CPU per client)"
    );
    for count in [1, 2, 4, 8, 16, 64] {
        let measured: Vec<_> = (0..rounds.div_ceil(count).max(8))
            .map(|_| [false, true].map(|are_together| ends.shake(count, are_together)))
            .collect();
        let [answers, wholes] =
            [|(answer, _): (f64, f64)| answer, |(_, whole)| whole].map(|of: fn((f64, f64)) -> f64| {
                [0, 1].map(|way| median(measured.iter().map(|round| of(round[way])).collect()))
            });
        println!(
            "{count:7}   {:13.1}   {:8.1}   {:5.2}   {:16.1}   {:8.1}   {:5.2}",
            answers[0],
            answers[1],
            answers[0] / answers[1],
            wholes[0],
            wholes[1],
            wholes[0] / wholes[1],
        );
    }
}
