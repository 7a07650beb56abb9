//! Processes that sign, each with one operation under way in each of its threads: this program, started again.
//!
//! **Guarantee:** all processes of one measurement start at the same time, after each has its keys and connections; neither
//! their rate nor their CPU time includes what a start takes.

use crate::openssl::OpenSsl;
use crate::token::Token;
use crate::{number, softhsm};
use rustix::time::{ClockId, clock_gettime};
use sealane_asymmetric::PrivateKey;
use sealane_client::{Client, Hash, Operation};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{env, thread};

/// A way to sign.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// By the service that listens at this socket.
    Service(PathBuf),
    /// By AWS-LC in the process, with the key in this file.
    AwsLc(PathBuf),
    /// By OpenSSL's own library in the process, with the key in this file.
    OpenSsl(PathBuf),
    /// By a module of PKCS#11, with a variable of the environment that it needs.
    Token(PathBuf, (&'static str, String)),
}

/// The outcome of one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The signatures per second of all processes together.
    pub(crate) rate: f64,
    /// The microseconds of the processes' CPU per signature.
    pub(crate) cpu_us: f64,
    /// The microseconds of this process's CPU per signature: the service's, if it was used.
    pub(crate) own_us: f64,
    /// The microseconds within which half of all calls have returned, and 99 of 100.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// The DER before a digest of SHA-256 (RFC 8017, 9.2).
const SHA256: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
    0x04, 0x20,
];

/// The digest that is signed.
const DIGEST: [u8; 32] = [7; 32];

/// Runs `count` processes of `threads` threads for some seconds.
pub(crate) fn run(way: &Way, count: usize, threads: usize, seconds: f64) -> Found {
    timed(way, count, threads, seconds, || {}).0
}

/// Does the same, calls `started` at the start, and returns for each process, of one thread, when its calls have returned.
pub(crate) fn timed(
    way: &Way,
    count: usize,
    threads: usize,
    seconds: f64,
    started: impl FnOnce(),
) -> (Found, Vec<Instant>) {
    let mut children: Vec<_> = (0..count).map(|_| spawn(way, threads, seconds)).collect();
    for (_, lines) in &mut children {
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
    }
    let before = cpu();
    let mut starts = Vec::new();
    for (child, _) in &mut children {
        child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("a process");
        starts.push(Instant::now());
    }
    started();
    let mut ends = Vec::new();
    let (mut rate, mut cpu_us, mut calls, mut times) = (0.0, 0.0, 0.0, Vec::new());
    for ((mut child, mut lines), mut end) in children.into_iter().zip(starts) {
        let mut text = String::new();
        lines.read_to_string(&mut text).expect("numbers");
        assert!(child.wait().expect("a process").success(), "{way:?}");
        let numbers: Vec<f64> = text.split_whitespace().map(number).collect();
        rate += numbers[0] / numbers[1];
        calls += numbers[0];
        cpu_us += numbers[2];
        times.extend_from_slice(&numbers[3..]);
        ends.extend(numbers[3..].iter().map(|us| {
            end += Duration::from_secs_f64(us / 1e6);
            end
        }));
    }
    times.sort_by(f64::total_cmp);
    let within = |percent: usize| times[times.len() * percent / 100];
    let own_us = (cpu() - before).as_nanos() as f64 / 1000.0;
    let (p50_us, p99_us) = (within(50), within(99));
    (Found { rate, cpu_us: cpu_us / calls, own_us: own_us / calls, p50_us, p99_us }, ends)
}

fn spawn(way: &Way, threads: usize, seconds: f64) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(env::current_exe().expect("a program"));
    let (kind, place) = match way {
        Way::Service(socket) => ("service", socket),
        Way::AwsLc(key) => ("aws-lc", key),
        Way::OpenSsl(key) => ("openssl", key),
        Way::Token(module, (name, value)) => {
            command.env(name, value);
            ("token", module)
        }
    };
    command.args(["sign", kind]).arg(place).args([threads.to_string(), seconds.to_string()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let lines = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, lines)
}

/// Signs in this process: the end of what [`run`] begins.
pub(crate) fn sign(kind: &str, place: &Path, threads: usize, seconds: f64) {
    match kind {
        "service" => measure(threads, seconds, || {
            let mut client = Client::connect(place, "bench").expect("a client");
            let key = client.open("bench").expect("a key");
            move || assert_eq!(client.sign(&key, Hash::Sha256, &DIGEST).expect("a signature").len(), 256)
        }),
        "aws-lc" => measure(threads, seconds, || {
            let key = PrivateKey::of_pkcs8(&std::fs::read(place).expect("a file")).expect("a key");
            let sign = Operation::SignPkcs1(Some(Hash::Sha256));
            move || assert_eq!(key.run(sign, &DIGEST).expect("a signature").len(), 256)
        }),
        "openssl" => {
            let library = OpenSsl::load().expect("OpenSSL 3");
            let der = std::fs::read(place).expect("a file");
            measure(threads, seconds, || {
                let mut signer = library.signer(&der).expect("a key");
                move || assert_eq!(signer.sign(&DIGEST), 256)
            });
        }
        _ => {
            let info = [&SHA256[..], &DIGEST].concat();
            let token = Token::open(place, softhsm::PIN).expect("a token");
            measure(threads, seconds, || {
                let session = token.session().expect("a session");
                let info = &info;
                move || assert_eq!(session.sign(info), 256)
            });
        }
    }
}

/// Calls what `make` makes in each thread; prints the number of calls, the seconds, the microseconds of CPU, and those that each
/// call took.
fn measure<C: FnMut()>(threads: usize, seconds: f64, make: impl Fn() -> C + Sync) {
    let (ready, started) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    thread::scope(|scope| {
        let count = || {
            let mut call = make();
            // The first call makes what is kept from then on: a key's blinding, a client's handle.
            call();
            ready.wait();
            started.wait();
            let start = Instant::now();
            let (mut ends, until) = (vec![start], Duration::from_secs_f64(seconds));
            while ends[ends.len() - 1] - start < until {
                call();
                ends.push(Instant::now());
            }
            ends
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
        ready.wait();
        println!("ready");
        std::io::stdin().read_line(&mut String::new()).expect("a line");
        let before = cpu();
        started.wait();
        let done: Vec<Vec<Instant>> =
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let cpu_us = (cpu() - before).as_nanos() as f64 / 1000.0;
        let took = done.iter().map(|ends| ends[ends.len() - 1] - ends[0]).max().unwrap_or_default();
        let times: Vec<String> = done
            .iter()
            .flat_map(|ends| ends.windows(2))
            .map(|pair| format!("{:.1}", (pair[1] - pair[0]).as_secs_f64() * 1e6))
            .collect();
        println!("{} {} {cpu_us} {}", times.len(), took.as_secs_f64(), times.join(" "));
    });
}

/// Returns the CPU time of this process.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("a time since the start")
}
