//! The cost to others of one user's attacks: processes that sign, alone and while another process does its worst, in turns.
//!
//! The attackers run at the lowest priority, so that what counts is the work that they make for the service, and not the processor
//! time that anybody may use. As root they are other users: one whom the policy does not name, and one who may sign and lend.
//! **Guarantee:** a call of the others that fails ends the measurement with a failure.

use crate::clients::{self, Way};
use rustix::net::{RecvFlags, SendFlags};
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

/// A user whom the policy does not name, and one whom it does.
const STRANGER: u32 = 65_533;
pub(crate) const NAMED: u32 = 65_534;

/// The number of processes that sign.
const PROCESSES: usize = 4;

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
/// the same processor and leave the service alone.
pub(crate) fn report(socket: &Path, seconds: f64) {
    let way = Way::Service(socket.to_owned());
    if !rustix::process::geteuid().is_root() {
        println!("attackers of the same user: the figures are those of its own share");
    }
    let large = PrivateKey::generate(KeyKind::Rsa { bits: 8192 }).expect("a key").to_pkcs8();
    std::fs::write(socket.with_file_name(LARGE), &*large.expect("PKCS#8")).expect("a file");
    println!("RSA-2048 signatures a second of {PROCESSES} processes, medians of three rounds:");
    println!("  {:<32} {:>7}  {:>9}  {:>9}", "beside", "rate", "of alone", "of loops");
    for attack in ATTACKS {
        let beside = |(name, user, _): Attack| {
            let attacker = Attacker::start(name, user, socket);
            let rate = clients::run(&way, PROCESSES, 1, seconds).rate;
            drop(attacker);
            rate
        };
        let rounds: Vec<[f64; 3]> = (0..3)
            .map(|_| {
                let alone = clients::run(&way, PROCESSES, 1, seconds).rate;
                let (loops, attacked) = (beside(LOOPS), beside(attack));
                [attacked, attacked / alone, attacked / loops]
            })
            .collect();
        let [rate, of_alone, of_loops] =
            [0, 1, 2].map(|column| median(rounds.iter().map(|round| round[column])));
        println!("  {:<32} {rate:>7.0}  {of_alone:>7.3} x  {of_loops:>7.3} x", attack.0);
    }
    println!("  no call of theirs failed");
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

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn loops(_: &Path) {
    loop {
        std::hint::spin_loop();
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
