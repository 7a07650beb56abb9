//! Measures AEADs in bursts of 32 packets: our engines, beside DPDK's poll-mode drivers over Intel's multi-buffer library.
//! Run it with `cargo bench -p sealane-engine --bench bursts [SECONDS [ENGINE...]]`; each slice takes that long.
//!
//! By default each side computes on one core: DPDK's worker polls there, our worker of `lanes:1` sleeps when it has nothing
//! to do, and `inline` is the calling thread. A packet has 16 clear bytes in front of it and its tag behind it, and works that come back
//! are submitted again, as DPDK's test program does with its operations. Whatever is compared takes turns, five times; the
//! row has the medians of the rates and of the ratios. Without DPDK (`cargo xtask peers`) only ours are measured.

use sealane_engine::{
    Buffer, EngineChoice, Implementations, Job, JobStatus, Protection, Session, Span, Submitter, Work,
};
use sealane_transform::Aead;
use std::env;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The lengths of the packets in bytes, and DPDK's approximate operations per second, of which a slice has some.
const SIZES: [(u32, u32); 4] = [(64, 20_000_000), (256, 15_000_000), (1408, 8_000_000), (16_384, 1_000_000)];
/// The algorithms, and their names for DPDK.
const ALGORITHMS: [(Aead, &str); 2] =
    [(Aead::Aes128Gcm, "aes-gcm"), (Aead::ChaCha20Poly1305, "chacha20-poly1305")];
/// The packets of a burst.
const BURST: u32 = 32;
/// The works of our engines that are under way, for each of their lanes.
const WORKS: usize = 4;
/// Our engines, unless others are given.
const ENGINES: [&str; 2] = ["lanes:1", "inline"];
/// DPDK's drivers over Intel's library.
const DRIVERS: [&str; 2] = ["crypto_aesni_gcm", "crypto_aesni_mb"];
/// The place of DPDK, as `cargo xtask peers` unpacks it.
const DPDK: &str = "/usr/local/lib/sealane-peers/dpdk";
/// Its drivers over Intel's library, and the pools of its operations.
const DPDK_PLUGINS: [&str; 2] =
    ["dpdk/pmds-23.0/librte_crypto_ipsec_mb.so.23.0", "dpdk/pmds-23.0/librte_mempool_ring.so.23.0"];
/// The bytes of associated data, and of a tag.
const ASIDE: u32 = 16;
const ROUNDS: usize = 5;

fn main() {
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    let seconds = arguments.next().map_or(0.5, |text| text.parse().expect("a number of seconds"));
    let mut engines: Vec<String> = arguments.collect();
    if engines.is_empty() {
        engines = ENGINES.map(str::to_owned).to_vec();
    }
    for algorithm in ALGORITHMS {
        report(algorithm, &engines, seconds);
    }
}

/// Prints the rates of one algorithm.
fn report((aead, name): (Aead, &str), engines: &[String], seconds: f64) {
    let protection = Protection::Aead(aead);
    let of_dpdk =
        |driver: &str, bytes, operations| dpdk(driver, (name, protection.key_bytes()), bytes, operations);
    let drivers: Vec<&str> =
        DRIVERS.into_iter().filter(|driver| of_dpdk(driver, 64, 1_000).is_some()).collect();
    if drivers.is_empty() {
        println!("no driver of DPDK runs {name} here: only ours are measured");
    }
    println!("{name}, bursts of {BURST}, million packets a second and Gb/s:");
    for (bytes, expected) in SIZES {
        let operations = (f64::from(expected) * seconds) as u32;
        let rounds: Vec<Vec<f64>> = (0..ROUNDS)
            .map(|_| {
                let theirs =
                    drivers.iter().map(|driver| of_dpdk(driver, bytes, operations).expect("it ran before"));
                theirs.chain(engines.iter().map(|engine| ours(engine, protection, bytes, seconds))).collect()
            })
            .collect();
        let names = drivers.iter().copied().chain(engines.iter().map(|engine| &**engine));
        for (at, name) in names.enumerate() {
            let rate = median(rounds.iter().map(|round| round[at]));
            print!("  {bytes:>5} B {name:<16} {:>7.2} {:>7.1}", rate / 1e6, rate * f64::from(bytes) * 8e-9);
            for (against, driver) in drivers.iter().enumerate().filter(|_| at >= drivers.len()) {
                print!("; {:.2} x {driver}", median(rounds.iter().map(|round| round[at] / round[against])));
            }
            println!();
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the packets a second that an engine seals.
fn ours(engine: &str, protection: Protection, bytes: u32, seconds: f64) -> f64 {
    let implementations = Implementations::default();
    let works =
        WORKS * engine.strip_prefix("lanes:").map_or(1, |lanes| lanes.parse().expect("a number of lanes"));
    let works = NonZeroUsize::new(works).expect("a lane");
    let choice: EngineChoice = engine.parse().expect("an engine's text");
    let engine = choice.make(implementations).expect("threads");
    let session =
        Session::with(implementations, protection, &vec![7; protection.key_bytes()]).expect("a key");
    let session = Arc::new(session);
    let place = ASIDE + bytes + ASIDE;
    let jobs: Vec<Job> = (0..BURST)
        .map(|at| Job {
            clear: Span::new(at * place, ASIDE),
            body: Span::new(at * place + ASIDE, bytes),
            tag: Span::new(at * place + ASIDE + bytes, ASIDE),
            ..Job::default()
        })
        .collect();
    let mut submitter = Submitter::new(engine.queue(works).expect("a queue"), works.get());
    for _ in 0..works.get() {
        let (buffer, sessions) = (Buffer::new((BURST * place) as usize), vec![Arc::clone(&session)]);
        submitter.submit(Work { buffer, sessions, jobs: jobs.clone(), ..Work::default() }, ());
    }
    let (mut done, mut number) = (0_u32, 0_u64);
    let mut start = Instant::now();
    let warm_up = Duration::from_secs_f64(seconds / 5.0);
    let (mut is_warm, until) = (false, Duration::from_secs_f64(seconds));
    loop {
        let (mut work, ()) = submitter.wait().expect("the engine hands works back");
        for job in &mut work.jobs {
            assert_eq!(job.status, JobStatus::Done);
            job.status = JobStatus::Pending;
            number += 1;
            job.iv[..8].copy_from_slice(&number.to_ne_bytes());
        }
        submitter.submit(work, ());
        done += 1;
        let took = start.elapsed();
        if !is_warm && took > warm_up {
            (is_warm, done, start) = (true, 0, Instant::now());
        } else if is_warm && took > until {
            return f64::from(done) * f64::from(BURST) / took.as_secs_f64();
        }
    }
}

/// Returns the packets a second that a driver of DPDK seals, by its own test program; `None` if that fails.
fn dpdk(driver: &str, (algorithm, key_bytes): (&str, usize), bytes: u32, operations: u32) -> Option<f64> {
    let libraries = Path::new(DPDK).join("usr/lib/x86_64-linux-gnu");
    let [drivers, pools] = DPDK_PLUGINS.map(|name| libraries.join(name));
    let output = Command::new(Path::new(DPDK).join("usr/bin/dpdk-test-crypto-perf"))
        .env("LD_LIBRARY_PATH", &libraries)
        .arg("-d")
        .arg(drivers)
        .arg("-d")
        .arg(pools)
        .args(["--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "-l", "0,1", "--vdev", driver, "--"])
        .args(["--ptest", "throughput", "--devtype", driver, "--csv-friendly", "--silent"])
        .args(["--optype", "aead", "--aead-algo", algorithm, "--aead-op", "encrypt"])
        .args(["--aead-key-sz", &key_bytes.to_string()])
        .args(["--aead-iv-sz", "12", "--aead-aad-sz", "16", "--digest-sz", "16", "--pool-sz", "4096"])
        .args(["--burst-sz", &BURST.to_string(), "--buffer-sz", &bytes.to_string()])
        .args(["--total-ops", &operations.to_string()])
        .output()
        .ok()?;
    // The columns: lcore, bytes, burst, enqueued, dequeued, two failures, millions of operations, Gb/s, cycles per buffer.
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().rfind(|line| line.starts_with(|first: char| first.is_ascii_digit()))?;
    let millions: f64 = row.split([',', ';']).nth(7)?.trim().parse().ok()?;
    Some(millions * 1e6)
}
