//! Measures the cost of the service: null jobs through the rings, compared with a Unix socket's round trip; RSA-2048
//! signatures of processes with one operation under way each, compared with the same in process by OpenSSL and by AWS-LC; and
//! both beside SoftHSM, alone and behind p11-kit's server. Run it with `cargo bench -p sealane-service --bench rings
//! [SECONDS]`; `-- null SECONDS`, `-- signatures SECONDS [PROCESSES...]` and `-- token SECONDS` do one of the three, and
//! `-- attacks SECONDS [WORD]...`, best as root, what attacks of one user cost others; `-- without-ifma SECONDS` is about processors without
//! that instruction. After
//! `cargo build --release -p sealane-pkcs11`, clients also sign by our module of PKCS#11.
//!
//! Clients that sign are separate processes: this program, started again. Null jobs and the socket's round trips have
//! both ends in threads of this process. Times are wall-clock; CPU time is that of the clients alone. Whatever is compared
//! takes turns, three times; the row has the medians of the rates, of the three ratios, and of the times within which calls return.

mod attacks;
mod clients;
mod openssl;
mod softhsm;
mod token;

use clients::{Found, Way};
use sealane_asymmetric::{Halves, Prime, PrivateKey, Request, run_together};
use sealane_client::ring::{Consumer, Direction, Head, Producer};
use sealane_client::{Channel, Client, Hash, KeyKind, Memory, Operation};
use sealane_service::policy::Names;
use sealane_service::service::bind_at;
use sealane_service::{Audit, Policy, Service, Settings, Stop, Vault};
use sealane_transform::{Isa, Kernels};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

/// The numbers of processes that sign.
const PROCESSES: [usize; 6] = [1, 2, 4, 8, 16, 32];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sign", kind, place, threads, seconds] => {
            clients::sign(kind, Path::new(place), number(threads) as usize, number(seconds));
        }
        ["without-ifma", seconds] => without_ifma(seconds),
        ["attack", name, place] => attacks::run(name, Path::new(place)),
        ["attacks", seconds, only @ ..] => with_service(Kernels::best(), |_, socket, _, _| {
            attacks::report(socket, number(seconds), &only.join(" "));
        }),
        ["null", seconds] => report(number(seconds), [true, false, false], &[]),
        ["signatures", seconds, counts @ ..] => {
            let counts: Vec<usize> = counts.iter().map(|count| number(count) as usize).collect();
            let counts = if counts.is_empty() { PROCESSES.to_vec() } else { counts };
            report(number(seconds), [false, true, false], &counts);
        }
        ["token", seconds] => report(number(seconds), [false, false, true], &[]),
        rest => report(rest.first().map_or(2.0, |seconds| number(seconds)), [true; 3], &PROCESSES),
    }
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number of seconds")
}

fn report(seconds: f64, [with_null, with_signatures, with_token]: [bool; 3], counts: &[usize]) {
    with_service(Kernels::best(), |folder, socket, client, key| {
        if with_null {
            without_work(socket, client, seconds);
        }
        if with_signatures {
            floors(Kernels::best(), key, seconds);
            signatures(folder, socket, client, seconds, counts);
        }
        if with_token {
            tokens(folder, socket, seconds);
        }
    });
}

/// Measures one client and two as on a processor without IFMA: neither the service's kernels nor the libraries use it.
fn without_ifma(seconds: &str) {
    /// Both libraries read it once, at their start: the second word of features without bit 21 of EBX of CPUID's leaf 7.
    const VARIABLE: &str = "OPENSSL_ia32cap";
    const WITHOUT: &str = ":~0x200000";
    if env::var(VARIABLE).is_ok_and(|value| value == WITHOUT) {
        let kernels = Kernels::select(None, Some(Isa::Avx2)).expect("a processor with AVX2");
        return with_service(kernels, |folder, socket, client, key| {
            let seconds = number(seconds);
            println!("a wake and a wake back, which nothing undercuts that asks another process:");
            asleep(socket, client, seconds);
            floors(kernels, key, seconds);
            signatures(folder, socket, client, seconds, &[1, 2, 4]);
        });
    }
    let mut again = std::process::Command::new(env::current_exe().expect("a program"));
    let status = again.args(["without-ifma", seconds]).env(VARIABLE, WITHOUT).status();
    assert!(status.expect("a process").success());
}

/// Calls `measure` with the folder and the socket of a service, an administrator's client, and a key that it has.
fn with_service(kernels: Kernels, measure: impl FnOnce(&Path, &Path, &mut Client, &PrivateKey)) {
    let folder = env::temp_dir().join(format!("sealane-rings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = folder.join("socket");
    let key = PrivateKey::generate(KeyKind::Rsa { bits: 2048 }).expect("a key");
    std::fs::write(folder.join("key.der"), &*key.to_pkcs8().expect("PKCS#8")).expect("a file");
    let policy = format!(
        "[[allow]]\nusers = [{}]\nkeys = ['*']\nuses = ['sign']\nadmin = true\nlend = true\n\
         [[allow]]\nusers = [{}]\nkeys = ['none']\nuses = ['sign']\nlend = true\n",
        rustix::process::geteuid().as_raw(),
        attacks::NAMED
    );
    let settings = Settings {
        listeners: vec![bind_at(&socket).expect("a socket")],
        vault: Vault::open(&folder.join("keys"), b"a benchmark").expect("a vault"),
        policy: Policy::parse(&policy, &Names::default()).expect("a policy"),
        workers: thread::available_parallelism().map_or(1, usize::from),
        kernels,
        audit: Audit::nowhere(),
        audits_uses: false,
        memory_locked: false,
        sealed_by: "a benchmark".to_owned(),
    };
    let stop = Stop::new().expect("a switch");
    let service = Service::start(settings, &stop).expect("a service");
    let running = thread::Builder::new().name(attacks::SETUP.to_owned()).spawn(move || service.run());
    let running = running.expect("a thread");
    let mut client = Client::connect(&socket, "bench").expect("a client");
    client.import("bench", &key.to_pkcs8().expect("PKCS#8"), None).expect("a key");
    measure(&folder, &socket, &mut client, &key);
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

/// Prints the time of one signature in this thread, alone, side by side, and in the steps of one that two threads share: no service
/// can undercut it.
fn floors(kernels: Kernels, key: &PrivateKey, seconds: f64) {
    let request = Request { key, operation: Operation::SignPkcs1(Some(Hash::Sha256)), content: &[7; 32] };
    println!("RSA-2048 signatures of one thread, medians:");
    let ways = |count: usize| {
        let answers = run_together(&kernels, &vec![request; count]);
        assert!(answers.iter().all(Result::is_ok));
    };
    let begin = || Halves::begin(&kernels, &request).expect("halves");
    let (halves, _) = begin();
    let [p, q] = [Prime::P, Prime::Q].map(|prime| halves.half(prime).expect("a half"));
    let steps: [(&str, u32, &dyn Fn()); 6] = [
        ("AWS-LC, alone", 1, &|| ways(1)),
        ("four in lanes", 4, &|| ways(4)),
        ("eight in lanes", 8, &|| ways(8)),
        ("begin halves", 1, &|| begin().1.renew()),
        ("one half", 1, &|| drop(halves.half(Prime::P))),
        ("join and check", 1, &|| drop(halves.join(&p, &q).expect("an answer"))),
    ];
    for (what, count, step) in steps {
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed().as_secs_f64() < seconds {
            let start = Instant::now();
            step();
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let each = times[times.len() / 2].as_secs_f64() * 1e6 / f64::from(count);
        println!("  {what:<14} {each:>8.1} us each");
    }
}

/// Returns the medians of what each way does in three rounds, and of the last way's rate over each other's.
fn in_turns(ways: &[Way], count: usize, threads: usize, seconds: f64) -> Vec<(Found, f64)> {
    let rounds: Vec<Vec<Found>> =
        (0..3).map(|_| ways.iter().map(|way| clients::run(way, count, threads, seconds)).collect()).collect();
    let median = |of: &dyn Fn(&[Found]) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(|round| of(round)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let last = ways.len() - 1;
    (0..ways.len())
        .map(|way| {
            let found = Found {
                rate: median(&|round| round[way].rate),
                cpu_us: median(&|round| round[way].cpu_us),
                own_us: median(&|round| round[way].own_us),
                p50_us: median(&|round| round[way].p50_us),
                p99_us: median(&|round| round[way].p99_us),
            };
            (found, median(&|round| round[last].rate / round[way].rate))
        })
        .collect()
}

/// Returns the ways to have the key in the process.
fn in_process(folder: &Path) -> Vec<(&'static str, Way)> {
    let key = folder.join("key.der");
    let mut ways = vec![("AWS-LC", Way::AwsLc(key.clone()))];
    if openssl::OpenSsl::load().is_some() {
        ways.insert(0, ("OpenSSL", Way::OpenSsl(key)));
    }
    ways
}

/// Prints the signatures of processes that have the key, and of clients of the service.
fn signatures(folder: &Path, socket: &Path, client: &mut Client, seconds: f64, counts: &[usize]) {
    println!("RSA-2048 signatures a second, and client CPU of each:");
    let (names, mut ways): (Vec<_>, Vec<_>) = in_process(folder).into_iter().unzip();
    ways.push(Way::Service(socket.to_owned()));
    for &processes in counts {
        let before = client.status().expect("a status");
        let found = in_turns(&ways, processes, 1, seconds);
        let after = client.status().expect("a status");
        let [own @ .., (service, _)] = found.as_slice() else { continue };
        print!("  {processes:>2} processes:");
        for (name, (own, ratio)) in names.iter().zip(own) {
            print!(" {name} {:>6.0}, {:>5.1} us, {ratio:.2} x;", own.rate, own.cpu_us);
        }
        let times = |found: &Found| {
            format!(
                "{:.0} us and {:.0} us ({:.2} x)",
                found.p50_us,
                found.p99_us,
                found.p99_us / found.p50_us
            )
        };
        let done = |status: &sealane_client::setup::ServiceStatus| status.done.values().sum::<u64>() as f64;
        let jobs = done(&after) - done(&before);
        println!(
            " service {:>6.0}, {:>5.1} us and its own {:>5.1} us; {:.2} jobs a computation, {:.2} of them divided, {:.2} wakes of \
             workers a job",
            service.rate,
            service.cpu_us,
            service.own_us,
            jobs / (after.batches - before.batches) as f64,
            (after.divided - before.divided) as f64 / jobs,
            (after.wakes - before.wakes) as f64 / jobs
        );
        let own = own.first().map(|(own, _)| times(own)).unwrap_or_default();
        println!(
            "               half of all calls and 99 % within: service {}; {} {own}",
            times(service),
            names[0]
        );
    }
}

/// Prints the signatures of eight clients in every form: threads of one process, or processes; with the key in the process, or
/// in another one.
fn tokens(folder: &Path, socket: &Path, seconds: f64) {
    let module = match softhsm::module() {
        Ok(module) => module,
        Err(missing) => return println!("no {missing}: nothing to compare isolated keys with"),
    };
    let server = softhsm::serve(folder);
    let mut rows = in_process(folder);
    let alone = ("SOFTHSM2_CONF", server.config.clone());
    rows.push(("SoftHSM in the process", Way::Token(softhsm::MODULE.into(), alone)));
    let apart = ("P11_KIT_SERVER_ADDRESS", server.address.clone());
    rows.push(("p11-kit's server with SoftHSM", Way::Token(module, apart)));
    if let Some(module) = own_module() {
        let at_service = ("SEALANE_ENGINE", socket.display().to_string());
        rows.push(("service by our module", Way::Token(module, at_service)));
    }
    rows.push(("service", Way::Service(socket.to_owned())));
    let (names, ways): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    println!("RSA-2048 signatures a second, client CPU of each, and the service's rate over it:");
    for (what, processes, threads) in
        [("one thread", 1, 1), ("eight threads of one process", 1, 8), ("eight processes", 8, 1)]
    {
        println!("  {what}:");
        for (name, (found, ratio)) in names.iter().zip(in_turns(&ways, processes, threads, seconds)) {
            println!("    {name:<30} {:>8.0}, {:>6.1} us; {ratio:.2} x", found.rate, found.cpu_us);
        }
    }
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
