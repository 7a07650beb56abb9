//! A hostile network: every attack on records between the two ends is noticed and reported, and none of the altered
//! data is kept; the same command then completes the tree.
//!
//! Each case follows from its seed. `SEALANE_FAULT_SEED` and `SEALANE_FAULT_RUNS` repeat one case or set the number
//! of cases.

mod program;
mod support;

use program::utf8;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::daemon::Served;
use support::proxy::{HEADER_BYTES, Pass, Spot, Tamper, Way};
use support::run::Run;
use support::tree::{self, Shape};
use support::{AGAIN_BY_RUNS, Chance, many, setting};

const TREE: Shape =
    Shape { small_files: 40, small_bytes_max: 20_000, large_bytes: &[4_000_001], sparse_bytes: None };

/// Suites with their own integrity that need no further option.
const SUITES: [(&str, &str); 5] = [
    ("safe", "aes-128-gmac"),
    ("safe", "blake3"),
    ("private", "aes-128-gcm"),
    ("private", "aes-256-gcm"),
    ("private", "chacha20-poly1305"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    FlipKind,
    FlipLength,
    FlipFile,
    FlipOffset,
    FlipBody,
    FlipTag,
    Drop,
    Repeat,
    Swap,
    Truncate,
    /// A record of another stream, or an earlier one of the same stream, replaces this one.
    SpliceStream,
    /// A record of another transfer of the same files replaces this one.
    SpliceTransfer,
}

const ATTACKS: [Attack; 12] = [
    Attack::FlipKind,
    Attack::FlipLength,
    Attack::FlipFile,
    Attack::FlipOffset,
    Attack::FlipBody,
    Attack::FlipTag,
    Attack::Drop,
    Attack::Repeat,
    Attack::Swap,
    Attack::Truncate,
    Attack::SpliceStream,
    Attack::SpliceTransfer,
];

#[derive(Debug, Default)]
struct Plot {
    attack: Option<(Attack, Way)>,
    /// Records in that direction that pass unharmed before the attack.
    after: u64,
    chance: u64,
    /// The place of the attack.
    done: Option<Spot>,
    /// Records that came after it on the same connection in the same direction.
    followed: u64,
    held: Option<Vec<u8>>,
    seen: Vec<(Spot, Vec<u8>)>,
    earlier: Vec<(Spot, Vec<u8>)>,
}

/// An attacker that alters one record in one way.
#[derive(Default)]
struct Attacker(Mutex<Plot>);

impl Attacker {
    fn plot(&self) -> std::sync::MutexGuard<'_, Plot> {
        self.0.lock().expect("nothing panics here")
    }
}

fn flip(record: &mut [u8], from: usize, to: usize, chance: u64) {
    let at = from + (chance as usize) % (to - from);
    record[at] ^= 1 << ((chance >> 32) % 8);
}

impl Tamper for Attacker {
    fn record(&self, spot: Spot, mut record: Vec<u8>) -> Pass {
        let mut plot = self.plot();
        let plot = &mut *plot;
        if let Some(done) = plot.done {
            if (done.link, done.way) == (spot.link, spot.way) {
                plot.followed += 1;
                if let Some(held) = plot.held.take() {
                    record.extend(held);
                }
            }
            return Pass::On(record);
        }
        let Some((attack, way)) = plot.attack else {
            plot.earlier.push((spot, record.clone()));
            return Pass::On(record);
        };
        if spot.way != way {
            return Pass::On(record);
        }
        let other = |records: &[(Spot, Vec<u8>)]| {
            let mut fitting = records.iter().filter(|(from, bytes)| {
                // The record with the same number on the same stream of another transfer is the best forgery.
                from.way == way && *bytes != record && (from.stream, from.index) != (spot.stream, spot.index)
            });
            fitting.next_back().map(|(_, bytes)| bytes.clone())
        };
        let foreign = match attack {
            Attack::SpliceStream => other(&plot.seen),
            Attack::SpliceTransfer => {
                let same = plot.earlier.iter().find(|(from, _)| (from.way, from.index) == (way, spot.index));
                same.map(|(_, bytes)| bytes.clone())
            }
            _ => None,
        };
        plot.seen.push((spot, record.clone()));
        let needs_foreign = matches!(attack, Attack::SpliceStream | Attack::SpliceTransfer);
        if plot.after > 0 || needs_foreign && foreign.is_none() {
            plot.after = plot.after.saturating_sub(1);
            return Pass::On(record);
        }
        plot.done = Some(spot);
        let (chance, length) = (plot.chance, record.len());
        match attack {
            Attack::FlipKind => flip(&mut record, 0, 1, chance),
            Attack::FlipLength => flip(&mut record, 1, 4, chance),
            Attack::FlipFile => flip(&mut record, 4, 8, chance),
            Attack::FlipOffset => flip(&mut record, 8, HEADER_BYTES, chance),
            Attack::FlipBody => flip(&mut record, HEADER_BYTES, length, chance),
            Attack::FlipTag => flip(&mut record, length - 16, length, chance),
            Attack::Drop => record.clear(),
            Attack::Repeat => record.extend(record.clone()),
            Attack::Swap => plot.held = Some(std::mem::take(&mut record)),
            Attack::Truncate => {
                record.truncate(1 + chance as usize % (length - 1));
                return Pass::Close(record);
            }
            Attack::SpliceStream | Attack::SpliceTransfer => record = foreign.unwrap_or(record),
        }
        Pass::On(record)
    }
}

struct Scene {
    served: Served,
    attacker: Arc<Attacker>,
}

impl Scene {
    fn set(source: &Path) -> Mutex<Self> {
        let attacker = Arc::new(Attacker::default());
        let served = Served::start(Some(attacker.clone()));
        let copied = Command::new("cp").arg("-a").arg(source).arg(served.root().join("tree")).status();
        assert!(copied.expect("cp starts").success());
        Mutex::new(Self { served, attacker })
    }
}

/// Returns whether a journal only says that the target was made by this transfer.
fn is_empty_journal(path: &Path) -> bool {
    let content = fs::read(path).unwrap_or_default();
    path.extension().is_some_and(|extension| extension == "journal")
        && sealane_copy::replay_any(&content) == 0
}

/// Returns the program's leftovers in the target and beside it, except for empty journals, once the far end has had
/// time to clear up.
fn leftovers(target: &Path) -> Vec<PathBuf> {
    let give_up = Instant::now() + Duration::from_secs(10);
    let parent = target.parent().expect("it has a parent");
    loop {
        let mut found = tree::leftovers(target);
        found.extend(tree::leftovers_in(parent).into_iter().filter(|path| !is_empty_journal(path)));
        if found.is_empty() || Instant::now() > give_up {
            return found;
        }
        sleep(Duration::from_millis(20));
    }
}

/// The result of an attack that did no harm.
enum Seen {
    Noticed,
    Harmless,
    /// A stream was opened again, which also happens if a machine is too busy to read it in time; the altered data
    /// may have been lost with the old connection. A failed check that was mistaken for a lost connection would look
    /// the same.
    Reopened(String),
}

fn case(source: &Path, scene: &Scene, seed: u64) -> Result<Seen, String> {
    let mut chance = Chance::new(seed);
    let (served, attacker) = (&scene.served, &scene.attacker);
    let attack = ATTACKS[(seed % ATTACKS.len() as u64) as usize];
    let (level, suite) = SUITES[(seed / ATTACKS.len() as u64) as usize % SUITES.len()];
    // Acknowledgements are rare: every 32 records, and when a stream becomes idle.
    let way = chance.one_of(&[Way::Up, Way::Down]);
    let push = chance.below(2) == 0;
    let forward = push == (way == Way::Up);
    let after = chance.below(if forward { 30 } else { 2 });
    let streams = chance.one_of(&["1", "2", "3"]);
    let folder = tempfile::tempdir().expect("a folder");
    let run = |name: &str| {
        served.proxy.reset();
        let (from, to, target) = if push {
            (utf8(source).to_owned(), served.place(name), served.root().join(name))
        } else {
            let target = folder.path().join(name);
            (served.place("tree"), utf8(&target).to_owned(), target)
        };
        let arguments = [
            "-r",
            "--accept-new",
            "--timeout",
            "2",
            "--level",
            level,
            "--suite",
            suite,
            "--streams",
            streams,
            &from,
            &to,
        ];
        (Run::start(&served.home(), &arguments).end(), target)
    };
    served.proxy.reset();
    *attacker.plot() = Plot::default();
    if attack == Attack::SpliceTransfer {
        let (earlier, target) = run(&format!("earlier{seed}"));
        if earlier?.code != Some(0) {
            return Err("the earlier transfer failed".into());
        }
        fs::remove_dir_all(target).expect("the copy");
    }
    served.proxy.reset();
    {
        let mut plot = attacker.plot();
        plot.attack = Some((attack, way));
        (plot.after, plot.chance) = (after, chance.next());
    }
    let (ended, target) = run(&format!("copy{seed}"));
    let ended = ended?;
    let (done, followed) = {
        let plot = attacker.plot();
        (plot.done, plot.followed)
    };
    let story =
        || format!("{attack:?} {way:?} push {push} {suite} at {done:?}, {followed} followed: {ended:?}");
    let wrong = tree::wrong(source, &target);
    if !wrong.is_empty() {
        return Err(format!("{wrong:?} are wrong: {}", story()));
    }
    let clean = leftovers(&target);
    if !clean.is_empty() && ended.kind() != "disconnected" && ended.kind() != "timed-out" {
        return Err(format!("{clean:?} are left: {}", story()));
    }
    let unharmed = ended.code == Some(0) && tree::differences(source, &target).is_empty();
    let noticed =
        ended.code == Some(4) && ended.kind() == "integrity" && ended.message().contains("data stream");
    if ended.code != Some(0) {
        *attacker.plot() = Plot::default();
        let (again, target) = run(&format!("copy{seed}"));
        let again = again?;
        let differences = tree::differences(source, &target);
        if again.code != Some(0) || !differences.is_empty() {
            return Err(format!("{again:?} when run again, {differences:?}, after {}", story()));
        }
    }
    let _ = fs::remove_dir_all(&target);
    // A record that nobody waits for can be lost, and a connection cut, without harm. All other attacks affect
    // records that must be read.
    let harmless = match attack {
        _ if done.is_none() => true,
        Attack::Truncate => true,
        Attack::Drop | Attack::Repeat | Attack::Swap | Attack::FlipLength => followed == 0 || !forward,
        _ => !forward && followed == 0,
    };
    let reopened = ended.events.iter().any(|event| event["event"] == "stream_reopened");
    match unharmed {
        _ if noticed => Ok(Seen::Noticed),
        true if harmless => Ok(Seen::Harmless),
        true if reopened => Ok(Seen::Reopened(story())),
        _ => Err(story()),
    }
}

#[test]
fn whatever_is_done_to_records_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("tree");
    fs::create_dir(&source).expect("a folder");
    tree::make(&source, TREE, &mut Chance::new(2));
    let scenes = [(); 4].map(|()| Scene::set(&source));
    let (seed, runs) = (setting("SEALANE_FAULT_SEED", 0), setting("SEALANE_FAULT_RUNS", 120));
    let noticed = AtomicU64::new(0);
    many("attack", AGAIN_BY_RUNS, seed, runs, |seed, worker| {
        let scene = scenes[worker].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for attempt in 0.. {
            match case(&source, &scene, seed)? {
                Seen::Noticed => {
                    noticed.fetch_add(1, Relaxed);
                    break;
                }
                Seen::Harmless => break,
                Seen::Reopened(story) if attempt == 4 => return Err(format!("five times {story}")),
                Seen::Reopened(_) => {}
            }
        }
        Ok(())
    });
    // Otherwise the attacks hit only records that nobody waits for, and prove little.
    let noticed = noticed.into_inner();
    assert!(noticed >= runs / 2, "only {noticed} of {runs} attacks had an effect");
    println!("{noticed} of {runs} attacks noticed, the others harmless");
}

#[test]
fn a_silent_peer_is_given_up() {
    let served = Served::start(None);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let source = served.root().join("a");
    fs::write(&source, "content").expect("a file");
    let target = format!("sealane://127.0.0.1:{port}/x");
    let ended =
        Run::start(&served.home(), &["--timeout", "2", utf8(&source), &target]).end().expect("it ends");
    assert_eq!((ended.code, ended.kind()), (Some(3), "timed-out"), "{ended:?}");
}

/// A daemon, and a large file that is to be copied to it or from it.
struct Large {
    served: Served,
    source: PathBuf,
    target: PathBuf,
    from: String,
    to: String,
    _folder: tempfile::TempDir,
}

impl Large {
    fn new(push: bool, seed: u64, bytes: usize) -> Self {
        let served = Served::start(None);
        let source = served.root().join("large");
        fs::write(&source, Chance::new(seed).bytes(bytes)).expect("a file");
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to, target) = if push {
            (utf8(&source).to_owned(), served.place("copy"), served.root().join("copy"))
        } else {
            let target = folder.path().join("copy");
            (served.place("large"), utf8(&target).to_owned(), target)
        };
        Self { served, source, target, from, to, _folder: folder }
    }
}

#[test]
fn a_stalled_data_stream_is_opened_again_or_given_up() {
    for (push, all) in [(true, false), (true, true), (false, false), (false, true)] {
        let Large { served, source, target, from, to, .. } = &Large::new(push, 3, 6_000_000);
        let arguments = ["--accept-new", "--timeout", "2", "--limit-rate", "4M", "--streams", "2", from, to];
        let mut run = Run::start(&served.home(), &arguments);
        run.wait_for_bytes(1_000_000);
        served.proxy.stall_data(all);
        let ended = run.end().expect("a stalled transfer comes to an end");
        if all {
            assert_eq!(ended.code, Some(3), "push {push}: {ended:?}");
            assert!(!target.exists(), "push {push}: an unfinished file has its final name");
        } else if ended.code == Some(0) {
            assert!(fs::read(target).expect("the copy") == fs::read(source).expect("a file"), "push {push}");
        } else {
            assert_eq!(ended.code, Some(3), "push {push}: {ended:?}");
            assert!(!target.exists(), "push {push}: an unfinished file has its final name");
        }
    }
}

#[test]
fn a_path_that_swallows_data_is_given_up_and_explained() {
    for push in [true, false] {
        let Large { served, target, from, to, .. } = &Large::new(push, 6, 3_000_000);
        served.proxy.choke_data();
        let arguments = ["--accept-new", "--timeout", "2", "--streams", "2", from, to];
        let ended = Run::start(&served.home(), &arguments).end().expect("it comes to an end");
        assert_eq!((ended.code, ended.kind()), (Some(3), "timed-out"), "push {push}: {ended:?}");
        let message = ended.message();
        assert!(message.contains("MTU") && message.contains("--through-ssh"), "push {push}: {message}");
        assert!(served.proxy.data_streams() > 2, "push {push}: it was not tried again");
        assert!(!target.exists(), "push {push}: an unfinished file has its final name");
    }
}

#[test]
fn streams_that_only_the_daemon_lost_are_opened_again() {
    for push in [true, false] {
        let Large { served, source, target, from, to, .. } = &Large::new(push, 7, 6_000_000);
        let arguments = ["--accept-new", "--timeout", "20", "--limit-rate", "4M", "--streams", "2", from, to];
        let mut run = Run::start(&served.home(), &arguments);
        run.wait_for_bytes(1_000_000);
        let before = served.proxy.data_streams();
        assert!(served.proxy.cut_data_silently() > 0, "push {push}: nothing was there to be cut");
        let ended = run.end().expect("it ends");
        assert_eq!(ended.code, Some(0), "push {push}: {ended:?}");
        assert!(fs::read(target).expect("the copy") == fs::read(source).expect("a file"), "push {push}");
        assert!(served.proxy.data_streams() > before, "push {push}: no stream was opened again");
    }
}

#[test]
fn strangers_do_not_disturb() {
    let served = Served::start(None);
    let source = served.root().join("large");
    fs::write(&source, Chance::new(4).bytes(5_000_000)).expect("a file");
    let target = served.place("copy");
    let arguments = ["--accept-new", "--limit-rate", "3M", utf8(&source), &target];
    let mut run = Run::start(&served.home(), &arguments);
    let mut chance = Chance::new(5);
    let mut strangers = Vec::new();
    while !run.has_ended() {
        if strangers.len() < 40
            && let Ok(mut stranger) = TcpStream::connect(served.address)
        {
            let count = chance.below(200) as usize;
            let mut bytes = chance.bytes(count);
            if let (Some(first), true) = (bytes.first_mut(), chance.below(2) == 0) {
                *first = chance.one_of(&[0xD5, 0x16]);
            }
            // The daemon may hang up at any time.
            let _ = stranger.write_all(&bytes);
            strangers.push(stranger);
        }
        sleep(Duration::from_millis(10));
    }
    run.ends(0);
    assert!(fs::read(served.root().join("copy")).expect("the copy") == fs::read(&source).expect("a file"));
}
