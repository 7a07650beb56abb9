//! Many copies with random kills, to and from a daemon to which liars talk all the while: no wrong byte under a final
//! name, nothing outside the target, the daemon alive, memory bounded.
//!
//! Under `cargo test` the number of copies is small. `SEALANE_SOAK_COPIES` sets the number, `SEALANE_SOAK_SECONDS` an
//! earlier end, `SEALANE_FAULT_SEED` the seed, and `SEALANE_PROGRAM` another program than the one built with the
//! test; `cargo xtask soak COPIES` is the long run.

mod lying;
mod program;
mod support;

use lying::scene::{MEMORY_BYTES_MAX, Scene};
use program::utf8;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::run::{Run, peak_bytes, run_to_end};
use support::tree::{self, Shape};
use support::{Chance, many, setting};

/// The settings that repeat one copy.
const AGAIN: &str = "SEALANE_FAULT_SEED=<seed> SEALANE_SOAK_COPIES=1";

const TREE: Shape = Shape {
    small_files: 120,
    small_bytes_max: 16_000,
    large_bytes: &[1_500_001, 3 << 20],
    sparse_bytes: Some((2 << 20) + 77),
};
/// Maximum number of kills of one copy; after them it runs to its end.
const KILLS_MAX: u64 = 2;
/// Maximum amount of memory for one end of an honest copy.
const CLIENT_BYTES_MAX: u64 = 64 << 20;

/// The sources and targets of copies.
struct Places {
    home: PathBuf,
    source: PathBuf,
    folder: PathBuf,
    /// The served folder, as a path on this host and as a location.
    root: PathBuf,
    far: String,
    bytes: u64,
    kills: AtomicU64,
    client_peak_bytes: AtomicU64,
}

impl Places {
    fn check(&self, target: &Path) -> Result<(), String> {
        match tree::wrong(&self.source, target) {
            wrong if wrong.is_empty() => Ok(()),
            wrong => Err(format!("wrong under their final names: {wrong:?}")),
        }
    }

    /// Runs one copy: to the daemon, from it, or from folder to folder; it is killed at times, and complete at the
    /// end.
    fn copy(&self, seed: u64) -> Result<(), String> {
        let mut chance = Chance::new(seed);
        let name = format!("copy{seed}");
        // The target is an existing folder, so that a repeated command has the same meaning.
        let (into, to) = match chance.below(3) {
            0 => (self.root.join(&name), format!("{}{name}", self.far)),
            _ => (self.folder.join(&name), utf8(&self.folder.join(&name)).to_owned()),
        };
        let from = match to.starts_with("sealane:") || chance.below(2) == 0 {
            true => utf8(&self.source).to_owned(),
            false => format!("{}source", self.far),
        };
        fs::create_dir(&into).map_err(|error| error.to_string())?;
        let target = into.join("source");
        let streams = chance.one_of(&["1", "2", "4", "16"]);
        let level = chance.one_of(&["private", "safe"]);
        let rate = chance.one_of(&["20M", "60M", "1G"]);
        let arguments = [
            "-r",
            "--accept-new",
            "--streams",
            streams,
            "--level",
            level,
            "--limit-rate",
            rate,
            "--timeout",
            "20",
            &from,
            &to,
        ];
        for _ in 0..chance.below(KILLS_MAX + 1) {
            let mut run = Run::start(&self.home, &arguments);
            if chance.below(2) == 0 {
                run.wait_for_bytes(chance.below(self.bytes));
            } else {
                sleep(Duration::from_millis(chance.below(150)));
            }
            self.client_peak_bytes.fetch_max(peak_bytes(run.number()), Relaxed);
            run.kill();
            drop(run);
            self.kills.fetch_add(1, Relaxed);
            if target.exists() {
                self.check(&target)?;
            }
        }
        let ended = run_to_end(&self.home, &arguments)?;
        if ended.code != Some(0) {
            return Err(format!("the last run failed: {ended:?}"));
        }
        let mut differences = tree::differences(&self.source, &target);
        differences
            .extend(tree::leftovers(&into).into_iter().map(|path| format!("{} is left", path.display())));
        if !differences.is_empty() {
            return Err(format!("differences: {differences:?}"));
        }
        fs::remove_dir_all(&into).map_err(|error| error.to_string())
    }
}

#[test]
fn copies_among_kills_and_lies() {
    let started = Instant::now();
    let copies = setting("SEALANE_SOAK_COPIES", 8);
    let seed = setting("SEALANE_FAULT_SEED", 1);
    let patience = Duration::from_secs(setting("SEALANE_SOAK_SECONDS", u64::MAX >> 20));
    let mut scene = Scene::set();
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    fs::create_dir(&source).expect("a folder");
    let bytes = tree::make(&source, TREE, &mut Chance::new(seed));
    let root = scene.served.root();
    let places = Places {
        home: scene.served.home(),
        far: scene.served.place(""),
        folder: folder.path().to_owned(),
        kills: AtomicU64::new(0),
        client_peak_bytes: AtomicU64::new(0),
        bytes,
        source,
        root,
    };
    let served = run_to_end(&places.home, &["-r", utf8(&places.source), utf8(&places.root.join("source"))]);
    assert_eq!(served.expect("it ends").code, Some(0));

    let (is_over, lies, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let lied = Mutex::new(Ok(()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut chance = Chance::new(seed);
            while !is_over.load(Relaxed) && lied.lock().expect("nothing panics here").is_ok() {
                let outcome = scene.tell(chance.below(Scene::lies() as u64) as usize);
                *lied.lock().expect("nothing panics here") = outcome;
                lies.fetch_add(1, Relaxed);
            }
        });
        let copied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            many("copy", AGAIN, seed, copies, |seed, _| {
                if started.elapsed() > patience {
                    return Ok(());
                }
                places.copy(seed)?;
                done.fetch_add(1, Relaxed);
                Ok(())
            });
        }));
        is_over.store(true, Relaxed);
        if let Err(panic) = copied {
            std::panic::resume_unwind(panic);
        }
    });
    lied.into_inner().expect("nothing panics here").unwrap_or_else(|reason| panic!("{reason}"));
    scene.check().unwrap_or_else(|reason| panic!("{reason}"));
    let client_peak_bytes = places.client_peak_bytes.load(Relaxed);
    assert!(client_peak_bytes < CLIENT_BYTES_MAX, "a copy has taken {} MiB", client_peak_bytes >> 20);
    println!(
        "{} copies, {} kills, {} lies in {} s; the daemon has taken {} of {} MiB, a copy {} MiB",
        done.into_inner(),
        places.kills.into_inner(),
        lies.into_inner(),
        started.elapsed().as_secs(),
        scene.served.peak_bytes() >> 20,
        MEMORY_BYTES_MAX >> 20,
        client_peak_bytes >> 20,
    );
}
