//! Measures the cost of the service: null jobs through the rings, compared with a Unix socket's round trip; RSA-2048
//! signatures of processes with one operation under way each, compared with the same in process, and with SoftHSM behind
//! p11-kit's server. Run it with `cargo bench -p sealane-service --bench rings [SECONDS]`; `-- null SECONDS` leaves the
//! signatures out, and `-- token SECONDS` all but those of SoftHSM. After `cargo build --release -p sealane-pkcs11`, the caller
//! of SoftHSM also signs by our module, with the service's key.
//!
//! Clients that sign are separate processes: this program, started again. Null jobs and the socket's round trips have
//! both ends in threads of this process. Times are wall-clock; CPU time is that of the clients alone.

mod softhsm;
mod token;

use sealane_asymmetric::PrivateKey;
use sealane_client::ring::{Consumer, Direction, Head, Producer};
use sealane_client::{Channel, Client, Hash, KeyKind, Memory, Operation};
use sealane_service::service::bind_at;
use sealane_service::{Audit, Policy, Service, Settings, Stop, Vault};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["client", socket, seconds] => service_client(Path::new(socket), number(seconds)),
        ["alone", folder, seconds] => own_client(Path::new(folder), number(seconds)),
        ["pkcs11", module, seconds] => token_client(Path::new(module), number(seconds)),
        ["null", seconds] => report(number(seconds), [true, false, false]),
        ["token", seconds] => report(number(seconds), [false, false, true]),
        rest => report(rest.first().map_or(2.0, |seconds| number(seconds)), [true; 3]),
    }
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number of seconds")
}

fn report(seconds: f64, [with_null, with_signatures, with_token]: [bool; 3]) {
    let folder = env::temp_dir().join(format!("sealane-rings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = folder.join("socket");
    let key = PrivateKey::generate(KeyKind::Rsa { bits: 2048 }).expect("a key");
    std::fs::write(folder.join("key.der"), &*key.to_pkcs8().expect("PKCS#8")).expect("a file");
    let settings = Settings {
        listener: bind_at(&socket).expect("a socket"),
        vault: Vault::open(&folder.join("keys"), b"a benchmark").expect("a vault"),
        policy: Policy::of_users(&[rustix::process::geteuid().as_raw()]),
        workers: thread::available_parallelism().map_or(1, usize::from),
        audit: Audit::new(None),
        memory_locked: false,
        sealed_by: "a benchmark".to_owned(),
    };
    let stop = Stop::new().expect("a switch");
    let service = Service::start(settings, &stop).expect("a service");
    let running = thread::spawn(move || service.run());
    let mut client = Client::connect(&socket, "bench").expect("a client");
    client.import("bench", &key.to_pkcs8().expect("PKCS#8"), None).expect("a key");
    if with_null {
        without_work(&socket, &mut client, seconds);
    }
    if with_signatures {
        signatures(&folder, &socket, seconds);
    }
    if with_token {
        tokens(&folder, &socket, seconds);
    }
    stop.stop();
    running.join().expect("no panic").expect("it serves");
    std::fs::remove_dir_all(&folder).expect("a folder");
}

fn without_work(socket: &Path, client: &mut Client, seconds: f64) {
    println!("the rings alone, between two threads that never sleep:");
    for burst in [1, 8, 32] {
        println!("  burst {burst:>2}: {:>8.1} ns a job", rings_alone(burst, seconds));
    }
    println!("null jobs, one client:");
    for burst in [1, 8, 32] {
        println!("  burst {burst:>2}: {:>8.1} ns a job", null_jobs(socket, burst, seconds));
    }
    asleep(socket, client, seconds);
}

fn signatures(folder: &Path, socket: &Path, seconds: f64) {
    println!("RSA-2048 signatures a second, and client CPU of each:");
    for processes in [1, 2, 4, 8, 16, 32] {
        let own = processes_of(processes, "alone", folder, seconds, &[]);
        let service = processes_of(processes, "client", socket, seconds, &[]);
        println!(
            "  {processes:>2} processes: in process {:>8.0}, {:>6.1} us; service {:>8.0}, {:>6.1} us; {:.2} x",
            own.0,
            own.1,
            service.0,
            service.1,
            service.0 / own.0
        );
    }
}

/// Prints the signatures of clients whose key is in another process: SoftHSM's behind p11-kit, and the service's, in turns.
fn tokens(folder: &Path, socket: &Path, seconds: f64) {
    let module = match softhsm::module() {
        Ok(module) => module,
        Err(missing) => return println!("no {missing}: nothing to compare isolated keys with"),
    };
    let server = softhsm::serve(folder);
    let at_server = [("P11_KIT_SERVER_ADDRESS", OsStr::new(&server.address))];
    let own_module = own_module();
    let at_service = [("SEALANE_ENGINE", socket.as_os_str())];
    println!("RSA-2048 signatures a second with the key in another process, and client CPU of each:");
    for processes in [1, 8] {
        let theirs = || processes_of(processes, "pkcs11", &module, seconds, &at_server);
        let client = || processes_of(processes, "client", socket, seconds, &[]);
        beside(processes, theirs, "service", client);
        if let Some(module) = &own_module {
            let by_module = || processes_of(processes, "pkcs11", module, seconds, &at_service);
            beside(processes, theirs, "service by our module", by_module);
        }
    }
}

/// Measures SoftHSM and another way three times in turns, and prints the pair whose ratio is the median.
fn beside(processes: usize, theirs: impl Fn() -> (f64, f64), name: &str, ours: impl Fn() -> (f64, f64)) {
    let pair = || (theirs(), ours());
    let mut pairs = [pair(), pair(), pair()];
    pairs.sort_by(|((a, _), (b, _)), ((c, _), (d, _))| (b / a).total_cmp(&(d / c)));
    let (theirs, ours) = pairs[1];
    println!(
        "  {processes:>2} processes: p11-kit and SoftHSM {:>8.0}, {:>6.1} us; {name} {:>8.0}, {:>6.1} us; {:.2} x",
        theirs.0,
        theirs.1,
        ours.0,
        ours.1,
        ours.0 / theirs.0
    );
}

/// Returns the module of PKCS#11 whose token is the service, if it has been built.
fn own_module() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let module = program.parent()?.parent()?.join("libsealane_pkcs11.so");
    module.exists().then_some(module)
}

/// Returns the nanoseconds per empty message that goes through both rings, which no service can undercut.
fn rings_alone(burst: usize, seconds: f64) -> f64 {
    let (memory, _) = Memory::create().expect("memory");
    // It has its own cache lines: the one thread looks at it while the other writes beside its own place.
    #[repr(align(128))]
    struct Line(AtomicBool);
    let line = Line(AtomicBool::new(false));
    let is_over = &line.0;
    let mut content = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut requests, mut answers) =
                (Consumer::new(Direction::Requests), Producer::new(Direction::Answers));
            let mut content = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                while let Some(head) = requests.take(&memory, &mut content, false).expect("no lie") {
                    answers.push(&memory, head, &content).expect("room");
                    if !requests.has_more() {
                        answers.publish(&memory);
                        requests.release(&memory);
                        answers.prepare(&memory);
                    }
                }
                std::hint::spin_loop();
            }
        });
        let (mut requests, mut answers) =
            (Producer::new(Direction::Requests), Consumer::new(Direction::Answers));
        let (start, mut jobs) = (Instant::now(), 0u64);
        while start.elapsed().as_secs_f64() < seconds {
            for _ in 0..64 {
                for tag in 0..burst as u64 {
                    requests.push(&memory, Head { tag, ..Head::default() }, &[]).expect("room");
                }
                requests.publish(&memory);
                requests.prepare(&memory);
                let mut left = burst;
                while left > 0 {
                    match answers.take(&memory, &mut content, true).expect("no lie") {
                        Some(_) => left -= 1,
                        None => std::hint::spin_loop(),
                    }
                }
                answers.release(&memory);
                jobs += burst as u64;
            }
        }
        let took = start.elapsed();
        is_over.store(true, Ordering::Relaxed);
        took.as_nanos() as f64 / jobs as f64
    })
}

fn null_jobs(socket: &Path, burst: usize, seconds: f64) -> f64 {
    let mut channel = Channel::connect(socket, "bench").expect("a channel");
    let (start, mut jobs) = (Instant::now(), 0u64);
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..64 {
            for _ in 0..burst {
                channel.submit(0, Operation::Null, &[]).expect("room");
            }
            channel.flush();
            for _ in 0..burst {
                channel.take().expect("an answer").1.expect("done");
            }
            jobs += burst as u64;
        }
    }
    start.elapsed().as_nanos() as f64 / jobs as f64
}

/// Prints the medians of single jobs after pauses in which both ends fall asleep, and of a Unix socket's round trips,
/// in turns.
fn asleep(socket: &Path, client: &mut Client, seconds: f64) {
    let mut channel = Channel::connect(socket, "bench").expect("a channel");
    let (mut near, mut far) = UnixStream::pair().expect("sockets");
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while far.read_exact(&mut byte).is_ok() && far.write_all(&byte).is_ok() {}
        });
        let wakes = client.status().expect("a status").wakes;
        let (start, mut jobs, mut trips) = (Instant::now(), Vec::new(), Vec::new());
        while start.elapsed().as_secs_f64() < 2.0 * seconds {
            jobs.push(after_a_pause(|| {
                channel.call(0, Operation::Null, &[]).expect("an answer").expect("done");
            }));
            trips.push(after_a_pause(|| {
                near.write_all(&[1]).expect("a byte");
                near.read_exact(&mut [0]).expect("a byte");
            }));
        }
        let wakes = (client.status().expect("a status").wakes - wakes) as f64 / jobs.len() as f64;
        let [job, trip] = [jobs, trips].map(|mut times| {
            times.sort();
            times[times.len() / 2].as_nanos() as f64 / 1000.0
        });
        println!("  alone, with 1 ms between: {job:>8.1} us, and {wakes:.2} wakes of workers");
        println!("  a Unix socket's round trip, with 1 ms between: {trip:>8.1} us; {:.2} x", job / trip);
        drop(near);
    });
}

fn after_a_pause(call: impl FnOnce()) -> Duration {
    thread::sleep(Duration::from_millis(1));
    let began = Instant::now();
    call();
    began.elapsed()
}

/// Returns the signatures per second of all processes together, and the microseconds of client CPU per signature.
fn processes_of(
    count: usize,
    kind: &str,
    place: &Path,
    seconds: f64,
    variables: &[(&str, &OsStr)],
) -> (f64, f64) {
    let start = || {
        let mut command = Command::new(env::current_exe().expect("a program"));
        command.arg(kind).arg(place).arg(seconds.to_string()).stdout(Stdio::piped());
        command.envs(variables.iter().copied());
        command.spawn().expect("a process")
    };
    let children: Vec<_> = (0..count).map(|_| start()).collect();
    let (mut rate, mut cpu_us, mut jobs) = (0.0, 0.0, 0.0);
    for child in children {
        let output = child.wait_with_output().expect("a process");
        let text = String::from_utf8(output.stdout).expect("numbers");
        let numbers: Vec<f64> = text.split_whitespace().map(number).collect();
        rate += numbers[0] / numbers[1];
        jobs += numbers[0];
        cpu_us += numbers[2];
    }
    (rate, cpu_us / jobs)
}

fn service_client(socket: &Path, seconds: f64) {
    let mut client = Client::connect(socket, "bench").expect("a client");
    let key = client.open("bench").expect("a key");
    measure(seconds, || {
        client.sign(&key, Hash::Sha256, &[7; 32]).expect("a signature");
    });
}

fn token_client(module: &Path, seconds: f64) {
    /// The DER before a digest of SHA-256 (RFC 8017, 9.2).
    const SHA256: [u8; 19] = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
        0x04, 0x20,
    ];
    let info = [&SHA256[..], &[7; 32]].concat();
    let token = token::Token::open(module, softhsm::PIN).expect("a token");
    measure(seconds, || assert_eq!(token.sign(&info), 256));
}

fn own_client(folder: &Path, seconds: f64) {
    let der = std::fs::read(folder.join("key.der")).expect("a file");
    let key = PrivateKey::of_pkcs8(&der).expect("a key");
    measure(seconds, || {
        key.run(Operation::SignPkcs1(Some(Hash::Sha256)), &[7; 32]).expect("a signature");
    });
}

/// Prints the number of calls, the seconds and the microseconds of CPU.
fn measure(seconds: f64, mut call: impl FnMut()) {
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        call();
        calls += 1;
    }
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("schedstat");
    let cpu_ns: f64 = stat.split_whitespace().next().expect("a number").parse().expect("a number");
    println!("{calls} {} {}", start.elapsed().as_secs_f64(), cpu_ns / 1000.0);
}
