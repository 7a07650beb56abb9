//! The costs per packet of a gateway's processing, without a device and a socket: sealed and opened, good and bad, with
//! one association and with 10,000 beside it.
//!
//! ```sh
//! cargo bench -p sealane-tunnel --bench processing
//! ```
//!
//! Prints medians of nanoseconds per packet of 1,436 bytes, with 44 packets per batch, in slices that alternate.

#[path = "../tests/processing/mod.rs"]
mod processing;

use std::{hint::black_box, time::Instant};

use processing::{Processors, association, far_of, packet, passed, peers, site};
use sealane_ipsec::{lifetime::Lifetime, policy::PeerId};
use sealane_tunnel::{peers::Peers, site::Site};

const SUITE: &str = "aes-128-gcm";
const PACKETS: usize = 44;
const BYTES: usize = 1436;
const ROUNDS: usize = 2000;

/// A gateway and the peer that its packets go to, each with the same number of peers.
struct Ends {
    sites: [Site; 2],
    peers: [Peers; 2],
}

impl Ends {
    fn new(count: usize) -> Self {
        let now = Instant::now();
        let near = site(SUITE, count);
        let sites = [far_of(&near), near];
        let peers = [peers(&sites[1], now), peers(&sites[0], now)];
        let suite = sites[0].peers[0].suite();
        for (peer, id) in (0..count).zip(0..) {
            let (outbound, inbound) =
                association(suite, 256 + id, PeerId(id), peer as u8, Lifetime::default(), now);
            peers[0].database().install_outbound(outbound);
            peers[1].database().install_inbound(inbound).expect("an index of its own");
        }
        Self { sites, peers }
    }

    fn processors(&self) -> [Processors<'_>; 2] {
        [Processors::new(&self.sites[1], &self.peers[0]), Processors::new(&self.sites[0], &self.peers[1])]
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the nanoseconds per packet.
fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / PACKETS as f64
}

/// The name of a change, and the function that makes a good packet bad.
type Change = (&'static str, fn(&mut Vec<u8>));

const BAD: [Change; 4] = [
    ("of an unknown association", |packet| packet[0] ^= 0x80),
    ("cut short", |packet| packet.truncate(20)),
    ("damaged", |packet| packet[100] ^= 1),
    ("seen before", |_| ()),
];

fn main() {
    let inner: Vec<Vec<u8>> = (0..PACKETS as u64).map(|number| packet(number, BYTES)).collect();
    let counts = [1, 10_000];
    let ends = counts.map(Ends::new);
    let mut processors = [ends[0].processors(), ends[1].processors()];
    let mut sealed_ns = [Vec::new(), Vec::new()];
    let mut opened_ns = [Vec::new(), Vec::new()];
    let mut bad_ns: [Vec<f64>; BAD.len()] = Default::default();
    for round in 0..ROUNDS {
        for (which, [near, far]) in processors.iter_mut().enumerate() {
            let now = Instant::now();
            near.give(inner.iter().map(Vec::as_slice));
            sealed_ns[which].push(time(|| near.seal(now)));
            let packets: Vec<Vec<u8>> = passed(&near.load.batch).map(<[u8]>::to_vec).collect();
            assert_eq!(packets.len(), PACKETS);
            // Each bad kind has its turn before the good packets, which must be accepted nevertheless. Replayed
            // packets come after them.
            let (_, change) = BAD[round % BAD.len()];
            let mut changed = packets.clone();
            changed.iter_mut().for_each(change);
            let is_replay = round % BAD.len() == BAD.len() - 1;
            let mut bad = |far: &mut Processors<'_>| {
                far.arrive(changed.iter().map(Vec::as_slice));
                let ns = time(|| far.accept(now));
                assert_eq!(passed(&far.arrival.batch).count(), 0);
                if which == 0 {
                    bad_ns[round % BAD.len()].push(ns);
                }
            };
            if !is_replay {
                bad(far);
            }
            far.arrive(packets.iter().map(Vec::as_slice));
            opened_ns[which].push(time(|| far.accept(now)));
            assert_eq!(passed(black_box(&far.arrival.batch)).count(), PACKETS);
            if is_replay {
                bad(far);
            }
        }
    }
    let medians = |values: &mut [Vec<f64>; 2]| [median(&mut values[0]), median(&mut values[1])];
    for (name, [alone, beside]) in [("sealed", medians(&mut sealed_ns)), ("opened", medians(&mut opened_ns))]
    {
        println!(
            "{name}: {alone:.0} ns, among {} associations {beside:.0} ns ({:.2} x)",
            counts[1],
            beside / alone
        );
    }
    let good = median(&mut opened_ns[0]);
    for ((name, _), values) in BAD.iter().zip(&mut bad_ns) {
        let bad = median(values);
        println!("{name}: {bad:.0} ns, {:.2} x a good one", bad / good);
    }
}
