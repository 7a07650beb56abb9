//! Handshakes per second of a responder on one core: ours and strongSwan's, each a process of its own in a network
//! namespace, under the same generator, which is paced by their answers and runs on another core. The benchmark needs
//! root, strongSwan and openssl; without strongSwan only ours is measured.
//!
//! ```sh
//! cargo bench -p sealane-ike --bench handshakes -- [CASE...]   # psk, ecdsa, mlkem; all of them if none is named
//! ```
//!
//! Prints the median of the responder's CPU time per handshake, user and system, from the kernel's account of its
//! threads, and the resulting number of handshakes per second of one core; the median over the rounds of
//! strongSwan's figure divided by ours; and the floor: the CPU time of a handshake's public-key operations by AWS-LC,
//! one at a time and on the responder's core. IKE SAs are established without children, so neither responder spends time on an
//! installation. In each round both responders are started anew, and the floor is measured between them.
//!
//! The environment sets `HANDSHAKES` (2,000), the number of handshakes per round; `ROUNDS` (5), the number of rounds;
//! and `UNDER_WAY` (16), the number of handshakes that the generator has under way at once. ML-KEM requires the newer
//! strongSwan that `cargo xtask peers` unpacks.

#[path = "../tests/strongswan/charon.rs"]
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
    process::{Child, Stdio, exit},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use aws_lc_rs::{
    agreement::{self, PrivateKey, UnparsedPublicKey as Share},
    kem::{DecapsulationKey, EncapsulationKey, ML_KEM_768},
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey},
};
use charon::{Charon, Foreign as _, Namespaces, OURS, THEIRS, certificates, configured};
use common::End;
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
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
/// The longest time for which either end sleeps.
const WAIT: Duration = Duration::from_millis(100);
/// The time for which the floor is measured in each round.
const FLOOR_TIME: Duration = Duration::from_millis(200);

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

fn send_all(endpoint: &mut Endpoint, sockets: &[UdpSocket; 2]) {
    while let Some(transmit) = endpoint.poll_transmit() {
        let socket = &sockets[usize::from(transmit.path.local.port() == 4500)];
        // A datagram that is lost is sent again after a while.
        let _ = socket.send_to(&transmit.bytes, transmit.path.remote);
    }
}

/// Waits for datagrams, passes on all that have arrived, as the gateway does, and sends the answers.
fn pump(endpoint: &mut Endpoint, sockets: &[UdpSocket; 2], own: &str, buffer: &mut [u8]) {
    send_all(endpoint, sockets);
    let mut fds = sockets
        .each_ref()
        .map(|socket| rustix::event::PollFd::from_borrowed_fd(socket.as_fd(), rustix::event::PollFlags::IN));
    let wait = rustix::event::Timespec::try_from(WAIT).expect("a short time");
    let _ = rustix::event::poll(&mut fds, Some(&wait));
    let now = Instant::now();
    for (socket, port) in sockets.iter().zip([500, 4500]) {
        let to = SocketAddr::new(own.parse().expect("an address"), port);
        while let Ok((length, from)) = socket.recv_from(buffer) {
            endpoint.take_in(&buffer[..length], from, to, now);
        }
    }
    endpoint.answer_waiting();
    send_all(endpoint, sockets);
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
    let mut buffer = vec![0; 65_536];
    loop {
        pump(&mut endpoint, &sockets, THEIRS, &mut buffer);
        while endpoint.poll_event().is_some() {}
    }
}

/// Returns the numbers of a process's threads.
fn threads(process: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the CPU seconds of a process's threads so far, in user mode and in the kernel.
fn cpu_seconds(process: u32) -> f64 {
    let of = |thread: &String| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let nanoseconds: u64 = threads(process).iter().filter_map(of).sum();
    nanoseconds as f64 / 1e9
}

/// Ties all threads of a process to one core.
fn tie(process: u32, core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    for thread in threads(process) {
        let thread = thread.parse().ok().and_then(Pid::from_raw);
        sched_setaffinity(thread, &cores).expect("the core exists, and the process is ours");
    }
}

/// One round's result.
#[derive(Clone, Copy)]
struct Round {
    /// The responder's CPU seconds per handshake.
    cpu_s: f64,
    /// The seconds per handshake by the clock, which the generator may have determined.
    clock_s: f64,
}

/// Establishes `count` IKE SAs with a responder.
fn generate(
    namespaces: &Namespaces,
    folder: &Path,
    case: (&str, &str, bool),
    process: u32,
    count: usize,
) -> Round {
    let sockets = namespaces.sockets();
    let peer = peer_of(folder, case, "p1", false);
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
    let mut end = End::new(Settings::default(), vec![peer], seed);
    let under_way = number("UNDER_WAY", 16);
    let before = cpu_seconds(process);
    let (mut begun, mut buffer, start) = (0, vec![0; 65_536], Instant::now());
    while end.up.len() < count {
        while begun < count && begun - end.up.len() - end.down.len() < under_way {
            end.endpoint.initiate(0, None, None, Instant::now()).expect("it is configured");
            begun += 1;
        }
        pump(&mut end.endpoint, &sockets, OURS, &mut buffer);
        end.take_events();
        assert!(end.down.is_empty(), "{:?}", end.down);
        assert!(start.elapsed() < Duration::from_secs(300), "{} of {count} stand", end.up.len());
    }
    let each = |seconds: f64| seconds / count as f64;
    Round { cpu_s: each(cpu_seconds(process) - before), clock_s: each(start.elapsed().as_secs_f64()) }
}

/// Returns the seconds of the public-key operations that a responder needs for one handshake.
fn floor(case: (&str, &str, bool)) -> f64 {
    let random = SystemRandom::new();
    let theirs = PrivateKey::generate(&agreement::X25519).expect("randomness");
    let theirs = theirs.compute_public_key().expect("a key").as_ref().to_vec();
    let kind = &signature::ECDSA_P256_SHA256_ASN1_SIGNING;
    let key = EcdsaKeyPair::generate(kind).expect("randomness");
    let signed = key.sign(&random, &[7; 300]).expect("a signature");
    let (verification, public) = (&signature::ECDSA_P256_SHA256_ASN1, key.public_key().as_ref().to_vec());
    let kem = DecapsulationKey::generate(&ML_KEM_768).and_then(|key| key.encapsulation_key());
    let kem = kem.expect("randomness").key_bytes().expect("a key").as_ref().to_vec();
    let handshake = || {
        let own = PrivateKey::generate(&agreement::X25519).expect("randomness");
        own.compute_public_key().expect("a key");
        let theirs = Share::new(&agreement::X25519, &theirs);
        agreement::agree(&own, theirs, (), |_| Ok(())).expect("a public value");
        if case.2 {
            key.sign(&random, &[7; 300]).expect("a signature");
            // The certificate's signature, and the proof.
            for _ in 0..2 {
                let key = UnparsedPublicKey::new(verification, &public);
                key.verify(&[7; 300], signed.as_ref()).expect("it is genuine");
            }
        }
        if case.0 == "mlkem" {
            let key = EncapsulationKey::new(&ML_KEM_768, &kem).expect("a key");
            key.encapsulate().expect("randomness");
        }
    };
    // The time of this thread, like the responders' time, is not that of other programs on the core.
    let cpu_time = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let (start, mut count) = (cpu_time(), 0);
    while cpu_time() - start < FLOOR_TIME {
        handshake();
        count += 1;
    }
    (cpu_time() - start).as_secs_f64() / f64::from(count)
}

fn strongswan(case: (&str, &str, bool)) -> String {
    let (_, proposal, has_certificates) = case;
    let auth = if has_certificates { "auth = pubkey\n            certs = p2.crt" } else { "auth = psk" };
    charon::connections(proposal, "aes128gcm16", auth).replacen(
        "encap = yes",
        "encap = yes\n        unique = never\n        childless = allow",
        1,
    )
}

fn start_ours(namespaces: &Namespaces, folder: &Path, case: &str) -> Child {
    let _ = fs::remove_file(folder.join("ready"));
    let own = env::current_exe().expect("this program");
    let own = own.to_str().expect("a path in UTF-8");
    let process = charon::namespaces::command(&namespaces.theirs, own)
        .args(["respond", case])
        .arg(folder)
        .stdin(Stdio::null())
        .spawn()
        .expect("ip was found before");
    charon::wait_for("our responder", || folder.join("ready").exists());
    process
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn row(name: &str, who: &str, rounds: &[Round]) -> f64 {
    let cpu_s = median(rounds.iter().map(|round| round.cpu_s));
    let clock_s = median(rounds.iter().map(|round| round.clock_s));
    println!(
        "{name:<6} {who:<10} {:>7.1} us CPU per handshake {:>7.0} per second of one core {:>7.0} per second by the clock",
        cpu_s * 1e6,
        1.0 / cpu_s,
        1.0 / clock_s
    );
    cpu_s
}

/// Starts strongSwan's responder; `None` if it cannot run here.
fn start_strongswan(folder: &Path, case: (&str, &str, bool)) -> Option<Charon> {
    let (name, _, has_certificates) = case;
    let prepare = |swanctl: &Path| {
        if has_certificates {
            for (name, to) in [("ca.crt", "x509ca"), ("p2.crt", "x509"), ("p2.key", "private")] {
                fs::copy(folder.join(name), swanctl.join(to).join(name)).expect("a file");
            }
        }
        // These settings make it answer at once, find its IKE SAs by a table, and write no log, as others would
        // configure it for many peers, too.
        let quiet = "dos_protection = no\nhalf_open_timeout = 300\nikesa_table_size = 4096\nikesa_table_segments = 4\n";
        fs::write(swanctl.with_file_name("more").join("quiet.conf"), quiet).expect("a file");
    };
    match name {
        "mlkem" => Charon::start_newer("s", &strongswan(case), prepare),
        _ => Charon::start("s", &strongswan(case), prepare),
    }
}

/// Measures one case, and prints its rows.
fn measure(folder: &Path, case: (&str, &str, bool), (count, rounds): (usize, usize), core: usize) {
    let (name, ..) = case;
    let (mut ours, mut theirs, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let namespaces = match Namespaces::new("h") {
            Ok(namespaces) => namespaces,
            Err(problem) => {
                println!("no network namespaces: {problem}");
                exit(1);
            }
        };
        let mut process = start_ours(&namespaces, folder, name);
        tie(process.id(), core);
        ours.push(generate(&namespaces, folder, case, process.id(), count));
        let _ = process.kill();
        let _ = process.wait();
        drop(namespaces);
        floors.push(thread::scope(|scope| {
            let measured = scope.spawn(|| {
                let mut cores = CpuSet::new();
                cores.set(core);
                sched_setaffinity(None, &cores).expect("the core exists");
                floor(case)
            });
            measured.join().expect("no panic")
        }));
        if charon::has_strongswan()
            && let Some(charon) = start_strongswan(folder, case)
        {
            tie(charon.process(), core);
            theirs.push(generate(charon.namespaces(), folder, case, charon.process(), count));
        }
    }
    let cpu_s = row(name, "sealane", &ours);
    let floor_s = median(floors.iter().copied());
    let reached = median(ours.iter().zip(&floors).map(|(ours, floor)| floor / ours.cpu_s));
    println!(
        "{name:<6} {:<10} {:>7.1} us for the public-key operations alone; sealane reaches {:.0} % of that rate",
        "floor",
        floor_s * 1e6,
        100.0 * reached
    );
    if theirs.len() == ours.len() {
        row(name, "strongSwan", &theirs);
        let ratios = || ours.iter().zip(&theirs).map(|(ours, theirs)| theirs.cpu_s / ours.cpu_s);
        let (least, most) =
            ratios().fold((f64::INFINITY, 0.0_f64), |(a, b), ratio| (a.min(ratio), b.max(ratio)));
        println!(
            "{name:<6} {:.1} times strongSwan's rate, from {least:.1} to {most:.1} in {rounds} rounds; {:.1} us are ours",
            median(ratios()),
            cpu_s * 1e6
        );
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [mode, name, folder] = &arguments[..]
        && mode == "respond"
    {
        let case = CASES.into_iter().find(|case| case.0 == name).expect("a case");
        respond(Path::new(folder), case);
    }
    let sizes = (number("HANDSHAKES", 2000), number("ROUNDS", 5).max(1));
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let has_certificates = certificates(&at, &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]).is_ok();
    // The responder has the last core for itself, and the generator the first one.
    let allowed = sched_getaffinity(None).expect("the system has cores");
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let (first, core) = (cores[0], cores[cores.len() - 1]);
    if first == core {
        println!("one core: the generator shares it with the responder");
    }
    tie(std::process::id(), first);
    for case in CASES {
        if !arguments.is_empty() && !arguments.iter().any(|wanted| wanted == case.0) {
            continue;
        }
        if case.2 && !has_certificates {
            println!("{:<6} not measured: no openssl", case.0);
            continue;
        }
        measure(folder.path(), case, sizes, core);
    }
}
