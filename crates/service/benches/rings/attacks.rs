//! The cost to others of one user's attacks: processes that sign, alone and while another process does its worst, in turns.
//!
//! The attackers run at the lowest priority, so that what counts is the work that they make for the service, and not the processor
//! time that anybody may use. As root they are other users: one whom the policy does not name, and one who may sign and lend.
//! Beside the rates stands who has used the processors: of a loss of the others, the attacker's own part is no work of the service,
//! and on few processors the scheduler's choice who runs where is in every rate.
//! **Guarantee:** a call of the others that fails ends the measurement with a failure.

use crate::clients::{self, Way};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal};
use sealane_asymmetric::PrivateKey;
use sealane_client::ring::Words as _;
use sealane_client::setup::{Ask, Secret, Told, VERSION};
use sealane_client::{Bell, KeyKind, Memory, socket};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// A user whom the policy does not name, and one whom it does.
const STRANGER: u32 = 65_533;
pub(crate) const NAMED: u32 = 65_534;

/// The name of the thread that lets clients in.
pub(crate) const SETUP: &str = "setup";

/// The number of processes that sign for each processor: so many that none of it is idle.
const PROCESSES_EACH: usize = 16;

/// The time for which one attack lasts before the next one, and the beginning of it that does not count. Rates of whole seconds
/// differ by a tenth and more on a machine that others use; those of neighbours that are as short as this by much less.
const SPELL: Duration = Duration::from_millis(400);
const BEGINNING: Duration = Duration::from_millis(100);

/// The file with the key that is lent, beside the socket.
const LARGE: &str = "large.der";

/// An attack: its name, its user, and what one of its threads does until the process is killed.
type Attack = (&'static str, u32, fn(&Path));

/// Attackers' processors without an attack: their loops alone take time and caches from the others.
const LOOPS: Attack = ("loops that leave the service alone", STRANGER, loops);

const ATTACKS: [Attack; 7] = [
    ("strangers ask to be let in", STRANGER, strangers),
    ("connections that say nothing", NAMED, silence),
    ("connections that come and go", NAMED, comings),
    ("questions about the status", NAMED, questions),
    ("lent keys of RSA-8192", NAMED, lends),
    ("a bell that rings in vain", NAMED, rings),
    ("rings with impossible counts", NAMED, lies),
];

/// Prints the rate of others under each attack, as a part of their rate without it, and of their rate beside loops that take
/// the same processor and leave the service alone; and the parts of the processors that the attacker, the thread that lets
/// clients in, and the other threads beside the workers took, and the workers' time for each signature as against the loops.
/// They take turns while the same processes sign, `seconds` each. Of the attacks, those whose name contains `only` are tried.
pub(crate) fn report(socket: &Path, seconds: f64, only: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("attackers of the same user: the figures are those of its own share");
    }
    let large = PrivateKey::generate(KeyKind::Rsa { bits: 8192 }).expect("a key").to_pkcs8();
    std::fs::write(socket.with_file_name(LARGE), &*large.expect("PKCS#8")).expect("a file");
    let rounds = (seconds / SPELL.as_secs_f64()).ceil() as usize;
    println!("RSA-2048 signatures a second of {} processes, means of {rounds} rounds:", processes());
    println!(
        "  {:<28} {:>6} {:>8} {:>15} {:>10} {:>6} {:>6} {:>8}",
        "beside", "rate", "of alone", "of loops", "attacker", "setup", "others", "workers"
    );
    for attack in ATTACKS.into_iter().filter(|(name, ..)| name.contains(only)) {
        let spells = alternate(socket, attack, rounds);
        let mean = |kind: usize, of: fn(&Spell) -> f64| {
            spells.iter().map(|round| of(&round[kind])).sum::<f64>() / rounds as f64
        };
        let rate = |kind| mean(kind, |spell| spell.rate);
        let each = |kind| mean(kind, |spell| spell.used.workers) / rate(kind);
        let ratios: Vec<f64> = spells.iter().map(|[_, loops, attack]| attack.rate / loops.rate).collect();
        let middle = ratios.iter().sum::<f64>() / rounds as f64;
        let squares: f64 = ratios.iter().map(|ratio| (ratio - middle).powi(2)).sum();
        let error = (squares / (rounds * rounds.saturating_sub(1).max(1)) as f64).sqrt();
        println!(
            "  {:<28} {:>6.0} {:>6.3} x {:>6.3} +- {error:.3} {:>8.1} % {:>4.1} % {:>4.1} % {:>6.3} x",
            attack.0,
            rate(2),
            rate(2) / rate(0),
            rate(2) / rate(1),
            100.0 * mean(2, |spell| spell.used.attacker),
            100.0 * mean(2, |spell| spell.used.setup),
            100.0 * mean(2, |spell| spell.used.others),
            each(2) / each(1),
        );
    }
    println!("  no call of theirs failed");
}

fn processes() -> usize {
    PROCESSES_EACH * thread::available_parallelism().map_or(1, usize::from)
}

/// One attack's time: the others' rate, and who used the processors.
#[derive(Clone, Copy, Debug)]
struct Spell {
    rate: f64,
    used: Used,
}

/// Has processes sign while nobody attacks, while loops run, and while an attack does, in turns.
fn alternate(socket: &Path, (name, user, _): Attack, rounds: usize) -> Vec<[Spell; 3]> {
    let attackers =
        [None, Some(Attacker::start(LOOPS.0, LOOPS.1, socket)), Some(Attacker::start(name, user, socket))];
    attackers.iter().flatten().for_each(|attacker| attacker.send(Signal::STOP));
    let seconds = (3 * rounds + 1) as f64 * SPELL.as_secs_f64();
    let mut counted = Vec::new();
    let way = Way::Service(socket.to_owned());
    let (_, mut ends) = clients::timed(&way, processes(), 1, seconds, || {
        for _ in 0..rounds {
            counted.push([0, 1, 2].map(|kind| {
                let attacker = attackers[kind].as_ref();
                attacker.iter().for_each(|attacker| attacker.send(Signal::CONT));
                thread::sleep(BEGINNING);
                let (start, before) = (Instant::now(), Used::now(attacker));
                thread::sleep(SPELL - BEGINNING);
                let (end, after) = (Instant::now(), Used::now(attacker));
                attacker.iter().for_each(|attacker| attacker.send(Signal::STOP));
                (start, end, after.since(&before, (end - start).as_secs_f64()))
            }));
        }
    });
    ends.sort();
    let before = |time: Instant| ends.partition_point(|end| *end < time);
    let spell = |(start, end, used): (Instant, Instant, Used)| Spell {
        rate: (before(end) - before(start)) as f64 / (end - start).as_secs_f64(),
        used,
    };
    counted.into_iter().map(|round| round.map(spell)).collect()
}

/// Processor time, or parts of all processors' time.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    attacker: f64,
    /// The thread that lets clients in.
    setup: f64,
    /// The service's other threads beside its workers.
    others: f64,
    workers: f64,
}

impl Used {
    /// Returns the nanoseconds that were used so far.
    fn now(attacker: Option<&Attacker>) -> Self {
        let mut used = Self::default();
        let tasks = |process: &str| {
            std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten()
        };
        let read = |task: &std::fs::DirEntry, file: &str| {
            // A thread may have ended meanwhile.
            std::fs::read_to_string(task.path().join(file)).unwrap_or_default()
        };
        let ran = |task: &std::fs::DirEntry| {
            read(task, "schedstat").split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
        };
        for task in tasks("self") {
            let name = read(&task, "comm");
            match name.trim().strip_prefix("engine-") {
                Some(number) if number.parse::<u32>().is_ok() => used.workers += ran(&task),
                Some(_) => used.others += ran(&task),
                None if name.trim() == SETUP => used.setup += ran(&task),
                // This is the measurement itself.
                None => {}
            }
        }
        if let Some(attacker) = attacker {
            used.attacker = tasks(&attacker.0.id().to_string()).map(|task| ran(&task)).sum();
        }
        used
    }

    /// Returns the parts of the processors that were used since then, for so many seconds.
    fn since(&self, then: &Self, seconds: f64) -> Self {
        let all = 1e9 * seconds * thread::available_parallelism().map_or(1, usize::from) as f64;
        let part = |now: f64, then: f64| (now - then) / all;
        Self {
            attacker: part(self.attacker, then.attacker),
            setup: part(self.setup, then.setup),
            others: part(self.others, then.others),
            workers: part(self.workers, then.workers),
        }
    }
}

/// A process that attacks until the value is dropped.
struct Attacker(Child);

impl Attacker {
    fn start(name: &str, user: u32, socket: &Path) -> Self {
        // The program may lie where that user may not look.
        let mut command = Command::new("/proc/self/exe");
        command.args(["attack", name]).arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().expect("a process");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn send(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Attacks in this process: the end of what [`report`] begins.
pub(crate) fn run(name: &str, socket: &Path) {
    rustix::process::nice(19).expect("a lower priority");
    let (_, _, act) = ATTACKS.into_iter().chain([LOOPS]).find(|attack| attack.0 == name).expect("an attack");
    let place = socket.to_owned();
    thread::spawn(move || act(&place));
    println!("ready");
    std::io::stdout().flush().expect("a pipe");
    // The process that measures has ended if this one was not killed.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// Connects, and is perhaps let in: returns the socket, the rings and the bell.
fn enter(place: &Path) -> Option<(OwnedFd, Memory, OwnedFd)> {
    let connection = socket::connect_to(place).ok()?;
    let hello = Ask::Hello { lowest: VERSION, highest: VERSION, program: String::new() };
    socket::send(&connection, &hello, &[], SendFlags::empty()).ok()?;
    let (_, fds) = socket::receive::<Told>(&connection, RecvFlags::empty()).ok()??;
    let [memory, bell] = <[OwnedFd; 2]>::try_from(fds).ok()?;
    Some((connection, Memory::map(memory.as_fd()).ok()?, bell))
}

fn loops(_: &Path) {
    // Two threads may share a core: it is to be used as programs use it.
    let mut numbers = [1u64; 4096];
    loop {
        for at in 0..numbers.len() {
            numbers[at] = numbers[at].wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ numbers[(at * 17 + 1) % 4096].rotate_left(7);
        }
        std::hint::black_box(&mut numbers);
    }
}

fn strangers(place: &Path) {
    loop {
        drop(enter(place));
    }
}

fn comings(place: &Path) {
    loop {
        drop(enter(place));
    }
}

fn silence(place: &Path) {
    let mut held = std::collections::VecDeque::new();
    loop {
        if let Ok(connection) = socket::connect_to(place) {
            held.push_back(connection);
        }
        // More than the user has places for; below the limit of descriptors.
        if held.len() > 900 {
            held.pop_front();
        }
    }
}

fn questions(place: &Path) {
    let all: Vec<_> = (0..64).filter_map(|_| enter(place)).collect();
    loop {
        for (connection, ..) in &all {
            let ask = Ask::Report { after: String::new() };
            let _ = socket::send(connection, &ask, &[], SendFlags::DONTWAIT);
        }
        for (connection, ..) in &all {
            let _ = socket::receive::<Told>(connection, RecvFlags::DONTWAIT);
        }
    }
}

fn lends(place: &Path) {
    let key = std::fs::read(place.with_file_name(LARGE)).expect("a file");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let Some((connection, ..)) = enter(place) else { continue };
                    let lend = Ask::Lend { pkcs8: Secret(key.clone()) };
                    for _ in 0..200 {
                        if socket::send(&connection, &lend, &[], SendFlags::empty()).is_err() {
                            break;
                        }
                        let _ = socket::receive::<Told>(&connection, RecvFlags::empty());
                    }
                }
            });
        }
    });
}

fn rings(place: &Path) {
    loop {
        let Some((_connection, _memory, bell)) = enter(place) else { continue };
        let bell = Bell::of(bell);
        for _ in 0..1_000_000 {
            bell.ring();
        }
    }
}

fn lies(place: &Path) {
    loop {
        let Some((_connection, memory, bell)) = enter(place) else { continue };
        memory.words()[0].store(u64::MAX / 2, Ordering::Relaxed);
        Bell::of(bell).ring();
    }
}
