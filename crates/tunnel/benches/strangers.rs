//! The rate of an established tunnel while strangers want to negotiate with its far end by IKE, from addresses that
//! are not theirs. The benchmark needs root, iperf3 and ping.
//!
//! ```sh
//! cargo bench -p sealane-tunnel --bench strangers
//! ```
//!
//! Prints the median rate of one TCP stream, the strangers' messages per second that were sent, the ratio of rates, the time
//! from the start of another gateway until it is joined by IKE in the flood (median and longest), and the memory of the
//! gateway that is attacked. The three cases alternate: without strangers; with strangers' messages to a port that nobody reads, so that
//! the messages, their sender and the kernel cost what they cost; and with the same messages to port 500. The last
//! two differ by what the gateway does about strangers. The other gateway begins when the rate has been measured, and the
//! strangers go on until it is joined. The environment sets `ROUNDS` (5), `SECONDS` (4) and
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
    time::{Duration, Instant},
};

use gateway::{own, write};
use namespaces::{INNER, Neighbour, Tunnel, inside, missing};

/// A port of the far end that nobody reads.
const DEAF: u16 = 9;
/// The cases, with the port that strangers send to.
const CASES: [(&str, Option<u16>); 3] =
    [("none", None), ("to a deaf port", Some(DEAF)), ("to port 500", Some(500))];
/// The outer addresses of the ends.
const OUTER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 201, 0, 1), Ipv4Addr::new(10, 201, 0, 2)];

/// The outer addresses of the gateway that comes later, and of the far end on its side.
const LATE_OUTER: [&str; 2] = ["10.203.0.1", "10.203.0.2"];
/// The inner address of that gateway.
const LATE_INNER: &str = "10.204.0.1";
/// The time after which that gateway is given up.
const LATE_MAX: Duration = Duration::from_secs(60);

/// Writes a site file in a folder of its own, with the secret beside it. Returns its path.
fn written(folder: &Path, name: &str, site: &str) -> String {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).expect("a temporary folder");
    write(&folder.join("psk"), "0123456789abcdef0123456789abcdef\n");
    let path = folder.join("site.toml");
    write(&path, site);
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Returns the table of a peer behind `inside`, which is at `endpoint` if we begin.
fn peer(name: &str, inside: &str, local: (&str, &str), endpoint: Option<&str>) -> String {
    let endpoint = endpoint.map_or_else(String::new, |at| format!("endpoint = \"{at}:4500\"\n"));
    let (local_name, local_inside) = local;
    format!(
        "[[peers]]\nname = \"{name}\"\nnetworks = [\"{inside}/32\"]\n{endpoint}[peers.ike]\nid = \"{name}.example\"\n\
         local-id = \"{local_name}.example\"\nlocal-networks = [\"{local_inside}/32\"]\npsk-file = \"psk\"\n\
         proposals = [\"{}\"]\n",
        ike_flood::PROPOSAL,
    )
}

/// Writes the site of one end, of which the first begins. Returns its path.
fn site_of(folder: &Path, end: usize) -> String {
    let (names, far) = (["end0", "end1"], OUTER[1].to_string());
    let endpoint = (end == 0).then_some(&*far);
    let mut site = "device = \"t0\"\nlisten = \"0.0.0.0:4500\"\nmtu = 1436\n".to_owned();
    site += &peer(names[1 - end], INNER[1 - end], (names[end], INNER[end]), endpoint);
    if end == 1 {
        site += &peer("late", LATE_INNER, (names[1], INNER[1]), None);
    }
    written(folder, names[end], &site)
}

/// Writes the site of the gateway that comes later. Returns its path.
fn site_of_late(folder: &Path) -> String {
    let peer = peer("end1", INNER[1], ("late", LATE_INNER), Some(LATE_OUTER[1]));
    let head = format!(
        "device = \"t1\"\nlisten = \"0.0.0.0:4500\"\nmtu = 1436\naddresses = [\"{LATE_INNER}/32\"]\n"
    );
    written(folder, "late", &(head + &peer))
}

/// Starts the gateway that comes later. Returns the seconds until packets pass, and ends it; not a number if none do.
fn seconds_to_join(late: &mut Neighbour, site: &str) -> f64 {
    let begun = Instant::now();
    late.start(&own(&["gateway", site]));
    let ping = ["-c", "1", "-W", "0.2", INNER[1]].map(str::to_owned);
    let joins = || {
        let mut command = late.command("ping", &ping);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    while !joins() {
        if begun.elapsed() > LATE_MAX {
            late.end();
            return f64::NAN;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let seconds = begun.elapsed().as_secs_f64();
    late.end();
    seconds
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip is there");
    assert!(status.success(), "ip {arguments}");
}

/// One run's figures.
struct Run {
    gigabits_per_s: f64,
    messages_per_s: f64,
    seconds_to_join: f64,
}

/// Measures one run.
fn measure(
    tunnel: &Tunnel,
    port: Option<u16>,
    message: &[u8],
    (seconds, per_second): (u32, u32),
    join: impl FnOnce() -> f64,
) -> Run {
    let Some(port) = port else {
        let gigabits_per_s = tunnel.iperf3(seconds).0;
        return Run { gigabits_per_s, messages_per_s: 0.0, seconds_to_join: join() };
    };
    let is_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let (name, to) = (&tunnel.names[0], SocketAddrV4::new(OUTER[1], port));
        let is_ended = &is_ended;
        let flood = scope.spawn(move || inside(name, || ike_flood::send(to, message, per_second, is_ended)));
        // The first of them are answered.
        thread::sleep(Duration::from_millis(200));
        let gigabits_per_s = tunnel.iperf3(seconds).0;
        let seconds_to_join = join();
        is_ended.store(true, Ordering::Relaxed);
        let sent = flood.join().expect("no panic").expect("root may send raw packets");
        let messages_per_s = sent.messages as f64 / sent.time.as_secs_f64();
        Run { gigabits_per_s, messages_per_s, seconds_to_join }
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
    let late_site = site_of_late(folder.path());
    let [late_at, far_at] = LATE_OUTER.map(|address| format!("{address}/24"));
    let mut late = Neighbour::of(&tunnel, [&late_at, &far_at]);
    let before_kib = tunnel.resident_kib(1)[0];
    let deaf = inside(far, || UdpSocket::bind((OUTER[1], DEAF)).expect("a namespace of its own"));
    let message = ike_flood::first_message();
    let mut runs = [const { Vec::new() }; CASES.len()];
    for _ in 0..rounds {
        for ((_, port), runs) in CASES.iter().zip(&mut runs) {
            let join = || seconds_to_join(&mut late, &late_site);
            runs.push(measure(&tunnel, *port, &message, sizes, join));
        }
    }
    drop(deaf);
    let of = |case: usize, field: fn(&Run) -> f64| median(runs[case].iter().map(field));
    let ratio = |one: usize, other: usize| {
        let pairs = runs[one].iter().zip(&runs[other]);
        median(pairs.map(|(one, other)| one.gigabits_per_s / other.gigabits_per_s))
    };
    println!(
        "{:16} {:>8} {:>16} {:>10} {:>12} {:>14} {:>10}",
        "strangers", "Gb/s", "messages per s", "of none", "of deaf", "s to join", "longest"
    );
    for (case, (name, _)) in CASES.iter().enumerate() {
        // A gateway that was not joined counts as the longest.
        let longest = runs[case]
            .iter()
            .map(|run| run.seconds_to_join)
            .fold(0.0, |most: f64, seconds| if seconds.is_nan() { f64::INFINITY } else { most.max(seconds) });
        println!(
            "{name:16} {:8.2} {:16.0} {:10.3} {:12.3} {:14.2} {longest:10.2}",
            of(case, |run| run.gigabits_per_s),
            of(case, |run| run.messages_per_s),
            ratio(case, 0),
            ratio(case, 1),
            of(case, |run| run.seconds_to_join),
        );
    }
    let [_, most_kib] = tunnel.resident_kib(1);
    println!(
        "memory of the gateway: {:.1} MiB before, {:.1} MiB at most",
        before_kib as f64 / 1024.0,
        most_kib as f64 / 1024.0
    );
}
