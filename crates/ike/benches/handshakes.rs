//! The cost of a handshake for its responder, for ours and for strongSwan. Each runs as a process of its own in a
//! network namespace, under one generator that is paced by their answers. The benchmark needs root, strongSwan and
//! openssl; without them only ours is measured.
//!
//! ```sh
//! cargo bench -p sealane-ike --bench handshakes -- [CASE...]   # psk, ecdsa, mlkem; all of them if none is named
//! ```
//!
//! Prints the responder's CPU time per handshake, user and system, from the kernel's account of its process, and the
//! resulting number of handshakes per second of one core. IKE SAs are established without children, so neither
//! responder spends time on an installation. `HANDSHAKES` (2,000) in the environment is the number of handshakes per
//! round, `ROUNDS` (3) the number of rounds; the best round counts. ML-KEM requires the newer strongSwan that `cargo
//! xtask peers` unpacks.

#[path = "../tests/strongswan/charon.rs"]
#[allow(dead_code)]
mod charon;
#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../../../testing/skip.rs"]
mod skip;

use std::{
    env, fs,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd as _,
    path::Path,
    process::{Child, Command, Stdio, exit},
    sync::Arc,
    time::{Duration, Instant},
};

use charon::{Charon, Namespaces, OURS, THEIRS, certificates, configured};
use common::End;
use sealane_ike::{
    Endpoint, Expect, Offer, Peer, Prove, Random, Settings, certificate::Authorities,
    crypto::sign::SigningKey,
};

/// Name, proposal, and whether certificates prove the identities of both ends.
const CASES: [(&str, &str, bool); 3] = [
    ("psk", "aes128gcm16-prfsha256-x25519", false),
    ("ecdsa", "aes128gcm16-prfsha256-x25519", true),
    ("mlkem", "aes128gcm16-prfsha256-x25519-ke1_mlkem768", false),
];
/// Handshakes under way at once: few enough for the buffer of every socket.
const UNDER_WAY: usize = 8;
/// The kernel's unit of a process's CPU time: 100 ticks per second on every architecture that Linux supports today.
const TICKS_PER_SECOND: f64 = 100.0;

fn number(name: &str, otherwise: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Returns the peer of one end, whose own files in `folder` are named `own`.
fn peer_of(folder: &Path, case: (&str, &str, bool), own: &str, is_responder: bool) -> Peer {
    let (_, proposal, has_certificates) = case;
    let mut peer = configured(proposal, "aes128gcm16");
    if is_responder {
        std::mem::swap(&mut peer.local, &mut peer.remote);
        let expected = peer.remote_identity.replace(peer.local_identity.clone());
        peer.local_identity = expected.expect("it was configured");
    }
    peer.childless = true;
    peer.proposals = vec![Offer::ike(proposal).expect("a proposal")];
    if has_certificates {
        let read = |name: String| fs::read(folder.join(name)).expect("it was made");
        let key = SigningKey::from_pkcs8(&read(format!("{own}.der"))).expect("a key");
        let certificates = vec![read(format!("{own}.crt.der"))];
        peer.prove = Prove::Signature { key: Arc::new(key), certificates };
        let authorities = Authorities::new(&[read("ca.crt.der".to_owned())]).expect("a certificate");
        peer.expect = Expect::Certificate(Arc::new(authorities));
    }
    peer
}

fn pump(endpoint: &mut Endpoint, sockets: &[UdpSocket; 2], own: &str, wait: Duration) {
    while let Some(transmit) = endpoint.poll_transmit() {
        let socket = &sockets[usize::from(transmit.path.local.port() == 4500)];
        let _ = socket.send_to(&transmit.bytes, transmit.path.remote);
    }
    let mut fds = sockets
        .each_ref()
        .map(|socket| rustix::event::PollFd::from_borrowed_fd(socket.as_fd(), rustix::event::PollFlags::IN));
    let wait = rustix::event::Timespec::try_from(wait).expect("a short time");
    let _ = rustix::event::poll(&mut fds, Some(&wait));
    let mut buffer = [0; 65_536];
    for (socket, port) in sockets.iter().zip([500, 4500]) {
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let to = SocketAddr::new(own.parse().expect("an address"), port);
            endpoint.handle(&buffer[..length], from, to, Instant::now());
            while let Some(transmit) = endpoint.poll_transmit() {
                let socket = &sockets[usize::from(transmit.path.local.port() == 4500)];
                let _ = socket.send_to(&transmit.bytes, transmit.path.remote);
            }
        }
    }
    let now = Instant::now();
    if endpoint.poll_timeout().is_some_and(|at| at <= now) {
        endpoint.handle_timeout(now);
    }
}

/// Runs our responder in a process that answers until it is killed.
fn respond(folder: &Path, case: (&str, &str, bool)) -> ! {
    let sockets = [500, 4500].map(|port| {
        let socket = UdpSocket::bind((THEIRS, port)).expect("a namespace of its own");
        socket.set_nonblocking(true).expect("a socket takes that");
        socket
    });
    let settings = Settings { cookie_threshold: usize::MAX, ..Settings::default() };
    let peer = peer_of(folder, case, "p2", true);
    let mut endpoint = Endpoint::new(settings, vec![peer], Random::system());
    fs::write(folder.join("ready"), "").expect("a file");
    loop {
        pump(&mut endpoint, &sockets, THEIRS, Duration::from_secs(1));
        while endpoint.poll_event().is_some() {}
    }
}

/// Returns the CPU seconds of a process so far, in user mode and in the kernel.
fn cpu_seconds(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind_name = text.rsplit(") ").next().unwrap_or_default();
    let fields: Vec<&str> = behind_name.split(' ').collect();
    let ticks: u64 = [11, 12].iter().filter_map(|&index| fields.get(index)?.parse::<u64>().ok()).sum();
    ticks as f64 / TICKS_PER_SECOND
}

/// Establishes `count` IKE SAs with a responder. Returns its CPU seconds per IKE SA.
fn generate(
    namespaces: &Namespaces,
    folder: &Path,
    case: (&str, &str, bool),
    process: u32,
    count: usize,
) -> f64 {
    let sockets = namespaces.sockets();
    let peer = peer_of(folder, case, "p1", false);
    let mut end = End::new(Settings::default(), vec![peer], Instant::now().elapsed().as_nanos() as u64 + 1);
    let before = cpu_seconds(process);
    let (mut begun, start) = (0, Instant::now());
    while end.up.len() < count {
        while begun < count && begun - end.up.len() - end.down.len() < UNDER_WAY {
            end.endpoint.initiate(0, None, None, Instant::now()).expect("it is configured");
            begun += 1;
        }
        pump(&mut end.endpoint, &sockets, OURS, Duration::from_millis(100));
        end.take_events();
        assert!(end.down.is_empty(), "{:?}", end.down);
        assert!(start.elapsed() < Duration::from_secs(300), "{} of {count} stand", end.up.len());
    }
    (cpu_seconds(process) - before) / count as f64
}

fn strongswan(case: (&str, &str, bool)) -> String {
    let (_, proposal, has_certificates) = case;
    let auth = if has_certificates { "auth = pubkey\\n            certs = p2.crt" } else { "auth = psk" };
    charon::connections(proposal, "aes128gcm16", &auth.replace("\\n", "\n")).replacen(
        "encap = yes",
        "encap = yes\n        unique = never\n        childless = allow",
        1,
    )
}

fn start_ours(namespaces: &Namespaces, folder: &Path, case: &str) -> Child {
    let _ = fs::remove_file(folder.join("ready"));
    let own = env::current_exe().expect("this program");
    let process = Command::new("ip")
        .args(["netns", "exec", &namespaces.theirs])
        .arg(own)
        .args(["respond", case])
        .arg(folder)
        .stdin(Stdio::null())
        .spawn()
        .expect("ip was found before");
    charon::wait_for("our responder", || folder.join("ready").exists());
    process
}

fn row(name: &str, who: &str, best: f64) {
    println!(
        "{name:<8} {who:<12} {:>8.1} us CPU per handshake {:>8.0} a second of one core",
        best * 1e6,
        1.0 / best
    );
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [mode, name, folder] = &arguments[..]
        && mode == "respond"
    {
        let case = CASES.into_iter().find(|case| case.0 == name).expect("a case");
        respond(Path::new(folder), case);
    }
    let (count, rounds) = (number("HANDSHAKES", 2000), number("ROUNDS", 3));
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let has_certificates = certificates(&at, &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]).is_ok();
    for case in CASES {
        let (name, _, needs_certificates) = case;
        if !arguments.is_empty() && !arguments.iter().any(|wanted| wanted == name) {
            continue;
        }
        if needs_certificates && !has_certificates {
            println!("{name:<8} not measured: no openssl");
            continue;
        }
        let best = |measured: Vec<f64>| -> f64 { measured.into_iter().fold(f64::INFINITY, f64::min) };
        let namespaces = match Namespaces::new("h") {
            Ok(namespaces) => namespaces,
            Err(problem) => {
                println!("no network namespaces: {problem}");
                exit(1);
            }
        };
        let ours = best(
            (0..rounds)
                .map(|_| {
                    let mut process = start_ours(&namespaces, folder.path(), name);
                    let each = generate(&namespaces, folder.path(), case, process.id(), count);
                    let _ = process.kill();
                    let _ = process.wait();
                    each
                })
                .collect(),
        );
        row(name, "sealane", ours);
        drop(namespaces);
        if !charon::has_strongswan() {
            continue;
        }
        let theirs: Option<Vec<f64>> = (0..rounds)
            .map(|_| {
                let prepare = |swanctl: &Path| {
                    if needs_certificates {
                        for (name, to) in [("ca.crt", "x509ca"), ("p2.crt", "x509"), ("p2.key", "private")] {
                            fs::copy(folder.path().join(name), swanctl.join(to).join(name)).expect("a file");
                        }
                    }
                    // These settings make it answer at once and write no log, as others would configure it, too.
                    let quiet = "dos_protection = no\nhalf_open_timeout = 300\n";
                    fs::write(swanctl.with_file_name("more").join("quiet.conf"), quiet).expect("a file");
                };
                let charon = if name == "mlkem" {
                    Charon::start_newer("h", &strongswan(case), prepare)?
                } else {
                    Charon::start("h", &strongswan(case), prepare)?
                };
                Some(generate(charon.namespaces(), folder.path(), case, charon.process(), count))
            })
            .collect();
        let Some(theirs) = theirs.map(best) else { continue };
        row(name, "strongSwan", theirs);
        println!("{name:<8} {:.1} times", theirs / ours);
    }
}
