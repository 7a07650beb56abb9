//! The rate of an established tunnel while strangers want to negotiate with its far end by IKE, from addresses that
//! are not theirs. The benchmark needs root, iperf3 and ping.
//!
//! ```sh
//! cargo bench -p sealane-tunnel --bench strangers
//! ```
//!
//! Prints the median rate of one TCP stream, the strangers' messages per second that were sent, and the ratio of
//! rates. The three cases alternate: without strangers; with strangers' messages to a port that nobody reads, so that
//! the messages, their sender and the kernel cost what they cost; and with the same messages to port 500. The last
//! two differ by what the gateway does about strangers. The environment sets `ROUNDS` (5), `SECONDS` (4) and
//! `PER_SECOND` (50,000).

mod gateway;
#[path = "../../../testing/ike_flood.rs"]
mod ike_flood;
#[allow(dead_code)]
#[path = "../../port/tests/namespaces/mod.rs"]
mod namespaces;

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use gateway::{own, write};
use namespaces::{INNER, Tunnel, inside, missing};

/// A port of the far end that nobody reads.
const DEAF: u16 = 9;
/// The cases, with the port that strangers send to.
const CASES: [(&str, Option<u16>); 3] =
    [("none", None), ("to a deaf port", Some(DEAF)), ("to port 500", Some(500))];
/// The outer addresses of the ends.
const OUTER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 201, 0, 1), Ipv4Addr::new(10, 201, 0, 2)];

/// Writes the site of one end, of which the first begins. Returns its path.
fn site_of(folder: &Path, end: usize) -> String {
    let folder = folder.join(format!("{end}"));
    fs::create_dir_all(&folder).expect("a temporary folder");
    write(&folder.join("psk"), "0123456789abcdef0123456789abcdef\n");
    let endpoint = if end == 0 { format!("endpoint = \"{}:4500\"\n", OUTER[1]) } else { String::new() };
    let site = format!(
        "device = \"t0\"\nlisten = \"0.0.0.0:4500\"\nmtu = 1436\n[[peers]]\nname = \"other\"\nnetworks = [\"{}/32\"]\n{endpoint}\
         [peers.ike]\nid = \"end{}.example\"\nlocal-id = \"end{end}.example\"\nlocal-networks = [\"{}/32\"]\npsk-file = \"psk\"\nproposals = [\"{}\"]\n",
        INNER[1 - end],
        1 - end,
        INNER[end],
        ike_flood::PROPOSAL,
    );
    let path = folder.join("site.toml");
    write(&path, &site);
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip is there");
    assert!(status.success(), "ip {arguments}");
}

/// Measures one run: Gb/s, and strangers' messages per second.
fn measure(
    tunnel: &Tunnel,
    port: Option<u16>,
    message: &[u8],
    (seconds, per_second): (u32, u32),
) -> (f64, f64) {
    let Some(port) = port else { return (tunnel.iperf3(seconds).0, 0.0) };
    let is_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let (name, to) = (&tunnel.names[0], SocketAddrV4::new(OUTER[1], port));
        let is_ended = &is_ended;
        let flood = scope.spawn(move || inside(name, || ike_flood::send(to, message, per_second, is_ended)));
        // The first of them are answered.
        thread::sleep(Duration::from_millis(200));
        let rate = tunnel.iperf3(seconds).0;
        is_ended.store(true, Ordering::Relaxed);
        let sent = flood.join().expect("no panic").expect("root may send raw packets");
        (rate, sent.messages as f64 / sent.time.as_secs_f64())
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if gateway::has_run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        return;
    }
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    let number = |name: &str, otherwise: u32| {
        env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (rounds, sizes) = (number("ROUNDS", 5), (number("SECONDS", 4), number("PER_SECOND", 50_000)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sites = [0, 1].map(|end| site_of(folder.path(), end));
    let tunnel =
        Tunnel::up(|_, own_address, peer| own(&["gateway", &sites[usize::from(own_address > peer)]]));
    // Answers to strangers vanish.
    let [near, far] = &tunnel.names;
    ip(&format!("-n {far} route add {} via {}", ike_flood::NETWORK, OUTER[0]));
    ip(&format!("-n {near} route add blackhole {}", ike_flood::NETWORK));
    let ping = format!("-c 1 -W 1 {}", INNER[1]);
    let joins = || {
        let status = tunnel.command(0, "ping", &ping).stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    assert!((0..60).any(|_| joins()), "the gateways do not agree on keys");
    let deaf = inside(far, || UdpSocket::bind((OUTER[1], DEAF)).expect("a namespace of its own"));
    let message = ike_flood::first_message();
    let mut runs = [const { Vec::new() }; CASES.len()];
    for _ in 0..rounds {
        for ((_, port), runs) in CASES.iter().zip(&mut runs) {
            runs.push(measure(&tunnel, *port, &message, sizes));
        }
    }
    drop(deaf);
    let of = |case: usize| median(runs[case].iter().map(|run| run.0));
    let ratio = |one: usize, other: usize| {
        median(runs[one].iter().zip(&runs[other]).map(|(one, other)| one.0 / other.0))
    };
    println!("{:16} {:>8} {:>16} {:>10} {:>12}", "strangers", "Gb/s", "messages per s", "of none", "of deaf");
    for (case, (name, _)) in CASES.iter().enumerate() {
        println!(
            "{name:16} {:8.2} {:16.0} {:10.3} {:12.3}",
            of(case),
            median(runs[case].iter().map(|run| run.1)),
            ratio(case, 0),
            ratio(case, 1)
        );
    }
}
