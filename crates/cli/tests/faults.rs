//! Faults: whatever fails, no wrong byte ever has its final name, and the same command run again ends with an
//! identical tree.
//!
//! Each case follows from its seed. `SEALANE_FAULT_SEED` and `SEALANE_FAULT_RUNS` repeat one case or set the number
//! of cases.

mod program;
mod support;

use program::{pattern, set_mode, utf8};
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::daemon::Served;
use support::run::{Ended, Run, kill_far, moved, run_to_end, wait_gone};
use support::tree::{self, Shape};
use support::{AGAIN_BY_RUNS, Chance, many, setting};

/// Bytes of content that a sender may have under way, and may therefore have to send again.
const WINDOW_BYTES: u64 = 64 << 20;
/// Bytes that a killed receiver may have counted but not written down: one batch of each lane.
const BATCHES_BYTES: u64 = 4 * (8 * 64 * 1024);
/// Maximum number of kills of one transfer; more would show nothing new.
const KILLS_MAX: u64 = 3;

const TREE: Shape = Shape {
    small_files: 200,
    small_bytes_max: 20_000,
    large_bytes: &[3_000_001, 6 << 20],
    sparse_bytes: Some((16 << 20) + 77),
};

/// A source that all cases of a test share.
struct Source {
    _folder: tempfile::TempDir,
    path: PathBuf,
    /// Bytes of content, including holes.
    bytes: u64,
    /// Bytes of content without holes, the number that an undisturbed run sends.
    data_bytes: u64,
}

impl Source {
    fn make() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tree");
        fs::create_dir(&path).expect("a folder");
        let bytes = tree::make(&path, TREE, &mut Chance::new(1));
        let undisturbed = Run::start(folder.path(), &["-r", utf8(&path), utf8(&folder.path().join("copy"))]);
        let data_bytes = undisturbed.end().expect("it ends").done("bytes");
        assert!((10_000_000..bytes).contains(&data_bytes), "{data_bytes} of {bytes}");
        Self { _folder: folder, path, bytes, data_bytes }
    }
}

/// Returns options that vary from case to case, and must not affect the result.
fn options(chance: &mut Chance) -> Vec<&'static str> {
    let mut options = vec!["-r"];
    options.extend(chance.one_of::<&[&str]>(&[
        &[],
        &["--streams", "1"],
        &["--streams", "2"],
        &["--streams", "4"],
    ]));
    options.extend(chance.one_of::<&[&str]>(&[
        &[],
        &["--placement", "packet", "--lanes", "2"],
        &["--lanes", "3"],
    ]));
    options.extend(chance.one_of::<&[&str]>(&[&[], &["--level", "safe"]]));
    options.extend(chance.one_of::<&[&str]>(&[&[], &["--limit-rate", "60M"], &["--limit-rate", "120M"]]));
    options.extend(["--timeout", "10"]);
    options
}

/// Checks that nothing under its final name is wrong.
fn check_placed(source: &Path, target: &Path) -> Result<(), String> {
    match tree::wrong(source, target) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(format!("wrong under their final names: {wrong:?}")),
    }
}

/// The state that the run before the last one left.
#[derive(Default)]
struct Before {
    placed_bytes: u64,
    acknowledged_bytes: u64,
    /// The number of times that streams of the last run were cut; each time all that is under way is lost.
    cuts: u64,
}

/// Checks the last run: it succeeds, sends no more than necessary, and leaves the same tree and nothing else.
fn check_end(source: &Source, target: &Path, ended: &Ended, before: &Before) -> Result<(), String> {
    if ended.code != Some(0) {
        return Err(format!("the last run failed: {ended:?}"));
    }
    let mut differences = tree::differences(&source.path, target);
    // A journal lies beside its target.
    let beside = tree::leftovers_in(target.parent().expect("it has a parent"));
    differences.extend(beside.into_iter().map(|path| format!("{} is left", path.display())));
    if !differences.is_empty() {
        return Err(format!("differences: {differences:?}"));
    }
    let (bytes, resumed, resent) =
        (ended.done("bytes"), ended.done("resumed_bytes"), ended.done("resent_bytes"));
    // The count of a file with holes includes them if an earlier run has finished the file.
    let holes = source.bytes - source.data_bytes;
    if ![0, holes].contains(&(bytes + resumed).wrapping_sub(source.data_bytes)) {
        return Err(format!("{bytes} sent and {resumed} resumed are not {}", source.data_bytes));
    }
    if resent > WINDOW_BYTES.min(source.bytes) * before.cuts.max(1) {
        return Err(format!("{resent} bytes were sent again"));
    }
    // A batch that is not written down yet may contain any hole.
    let uncertain = BATCHES_BYTES + holes;
    if resumed + uncertain < before.acknowledged_bytes || resumed + uncertain < before.placed_bytes {
        let Before { placed_bytes, acknowledged_bytes, .. } = before;
        return Err(format!("resumed {resumed} of {acknowledged_bytes} acknowledged, {placed_bytes} placed"));
    }
    Ok(())
}

/// Returns whether a far end has completed its transfer, although its client was killed before it could report that.
fn is_complete(source: &Source, target: &Path) -> bool {
    target.is_dir()
        && tree::leftovers_in(target.parent().expect("it has a parent")).is_empty()
        && tree::differences(&source.path, target).is_empty()
}

/// Returns whether a receiver was lost after both ends knew that the transfer was complete, and before its journal
/// was removed.
fn has_journal_left(target: &Path) -> bool {
    !tree::leftovers_in(target.parent().expect("it has a parent")).is_empty()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Client,
    FarEnd,
}

/// Runs one transfer to a child on this machine, which is killed several times and then left alone.
fn local_case(source: &Source, seed: u64) -> Result<(), String> {
    let mut chance = Chance::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("copy");
    let mut arguments = options(&mut chance);
    arguments.extend([utf8(&source.path), utf8(&target)]);
    let mut before = Before::default();
    for _ in 0..=chance.below(KILLS_MAX) {
        let mut run = Run::start(folder.path(), &arguments);
        sleep(Duration::from_millis(chance.below(250)));
        let far = run.children();
        let victim = chance.one_of(&[Victim::Client, Victim::FarEnd]);
        match victim {
            Victim::Client => run.kill(),
            Victim::FarEnd => far.iter().copied().for_each(kill_far),
        }
        let ended = run.end()?;
        far.into_iter().try_for_each(wait_gone)?;
        before.acknowledged_bytes = before.acknowledged_bytes.max(moved(&ended.events));
        match (victim, ended.code) {
            // The transfer was already complete, or the kill came before there was a far end.
            (_, Some(0)) => {}
            (Victim::Client, None) => {}
            (Victim::FarEnd, Some(3)) if !ended.message().is_empty() => {}
            _ if ended.message().contains("running already") => {}
            _ => return Err(format!("{victim:?} killed: {ended:?}")),
        }
        check_placed(&source.path, &target)?;
        before.placed_bytes = tree::placed_bytes(&target);
        if ended.code.is_none() && is_complete(source, &target) {
            // The client was killed when the transfer was complete; the same command would now copy into the folder.
            return Ok(());
        }
        if ended.code == Some(0) && !has_journal_left(&target) {
            // The journal was removed at the end; the next run would begin anew.
            return check_end(source, &target, &ended, &Before::default());
        }
    }
    check_end(source, &target, &run_to_end(folder.path(), &arguments)?, &before)
}

#[test]
fn kills_of_either_end_leave_nothing_wrong_and_are_made_good() {
    let source = Source::make();
    let (seed, runs) = (setting("SEALANE_FAULT_SEED", 1_000), setting("SEALANE_FAULT_RUNS", 110));
    many("kill", AGAIN_BY_RUNS, seed, runs, |seed, _| local_case(&source, seed));
}

/// A user's possible changes to a target between an interrupted copy and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meddling {
    RemoveTarget,
    RemoveFile,
    ChangeFile,
    ReplaceFileByFolder,
}

impl Meddling {
    fn with(self, target: &Path) {
        let placed = tree::placed(target);
        let file = &placed[placed.len() / 2];
        match self {
            Self::RemoveTarget => fs::remove_dir_all(target).expect("it goes"),
            Self::RemoveFile => fs::remove_file(file).expect("it goes"),
            Self::ChangeFile => {
                fs::write(file, vec![0; fs::read(file).expect("a file").len()]).expect("it takes bytes")
            }
            Self::ReplaceFileByFolder => {
                fs::remove_file(file).expect("it goes");
                fs::create_dir(file).expect("a folder");
            }
        }
    }
}

#[test]
fn what_is_no_longer_there_is_sent_again() {
    let source = Source::make();
    for meddling in [Meddling::RemoveTarget, Meddling::RemoveFile, Meddling::ChangeFile] {
        let (folder, target, ended) = meddled(&source, meddling);
        assert_eq!(ended.code, Some(0), "{meddling:?}: {ended:?}");
        assert_eq!(tree::differences(&source.path, &target), [""; 0], "{meddling:?}");
        let sent = ended.done("bytes");
        assert_eq!(
            sent == source.data_bytes,
            meddling == Meddling::RemoveTarget,
            "{meddling:?}: {sent} sent"
        );
        drop(folder);
    }
    // A folder in the place of a file must not be replaced: the file fails, and the run reports it.
    let (_folder, _, ended) = meddled(&source, Meddling::ReplaceFileByFolder);
    assert_eq!((ended.code, ended.done("failed")), (Some(1), 1), "{ended:?}");
}

/// Starts a slow copy, kills it after `bytes` have arrived and `look` has run, and waits until both its ends are
/// gone.
fn killed_midway(folder: &Path, arguments: &[&str], bytes: u64, victim: Victim, look: impl FnOnce()) {
    let mut run = Run::start(folder, &[&["--limit-rate", "8M"], arguments].concat());
    run.wait_for_bytes(bytes);
    look();
    let far = run.children();
    match victim {
        Victim::Client => run.kill(),
        Victim::FarEnd => far.iter().copied().for_each(kill_far),
    }
    run.end().expect("it ends");
    far.into_iter().try_for_each(wait_gone).expect("its far end goes");
}

/// Kills a copy midway, changes what it left, and runs it again.
fn meddled(source: &Source, meddling: Meddling) -> (tempfile::TempDir, PathBuf, Ended) {
    // On a busy machine a copy can be complete before the test has looked; then another one is started.
    for _ in 0..10 {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("copy");
        let arguments = ["-r", utf8(&source.path), utf8(&target)];
        killed_midway(folder.path(), &arguments, 4 << 20, Victim::Client, || ());
        if has_journal_left(&target) {
            meddling.with(&target);
            let ended = run_to_end(folder.path(), &arguments).expect("it ends");
            return (folder, target, ended);
        }
    }
    panic!("ten copies of {} bytes at 8 MB/s were over before they could be killed", source.data_bytes);
}

#[test]
fn folders_that_were_opened_up_are_closed_again() {
    // A far end that is killed leaves the mode to the next run; one that is left alone sets it itself.
    for (victim, left) in [(Victim::FarEnd, 0o755), (Victim::Client, 0o555)] {
        let folder = tempfile::tempdir().expect("a folder");
        let [source, target] = ["tree", "target"].map(|name| folder.path().join(name));
        let locked = target.join("tree/locked");
        fs::create_dir_all(source.join("locked")).expect("a folder");
        fs::create_dir_all(&locked).expect("a folder");
        fs::write(source.join("locked/large"), pattern(24_000_000)).expect("a file");
        set_mode(&locked, 0o555);
        let mode = || fs::metadata(&locked).expect("a folder").mode() & 0o7777;
        let arguments = ["-r", utf8(&source), utf8(&target)];
        killed_midway(folder.path(), &arguments, 1 << 20, victim, || {
            assert_eq!(mode(), 0o755, "it is midway");
        });
        assert_eq!(mode(), left, "{victim:?}");
        let ended = run_to_end(folder.path(), &arguments).expect("it ends");
        assert_eq!((ended.code, mode()), (Some(0), 0o555), "{victim:?}: {ended:?}");
        // The test's folder can then be removed.
        set_mode(&locked, 0o755);
    }
}

#[test]
fn what_nobody_goes_on_with_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, target] = ["tree", "target"].map(|name| folder.path().join(name));
    fs::create_dir_all(source.join("sub")).expect("a folder");
    fs::write(source.join("small"), b"small").expect("a file");
    fs::write(source.join("sub/large"), pattern(12_000_000)).expect("a file");
    let left = || {
        let entries = fs::read_dir(target.join("sub")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
    };
    let arguments = ["-r", utf8(&source), utf8(&target)];
    killed_midway(folder.path(), &arguments, 1 << 20, Victim::Client, || ());
    assert_eq!(left().len(), 1, "it is midway");
    fs::remove_file(source.join("sub/large")).expect("it is there");
    let ended = run_to_end(folder.path(), &arguments).expect("it ends");
    assert_eq!((ended.code, left()), (Some(0), vec![]), "{ended:?}");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    SomeStreams,
    AllStreams,
    Control,
    Client,
    Daemon,
}

/// Runs one transfer to or from a daemon.
fn daemon_case(source: &Source, served: &mut Served, seed: u64) -> Result<(), String> {
    let mut chance = Chance::new(seed);
    served.proxy.reset();
    let folder = tempfile::tempdir().expect("a folder");
    let (push, name) = (chance.below(2) == 0, format!("copy{seed}"));
    let (from, to, target) = if push {
        (utf8(&source.path).to_owned(), served.place(&name), served.root().join(&name))
    } else {
        let target = folder.path().join("copy");
        (served.place("tree"), utf8(&target).to_owned(), target)
    };
    let home = served.home();
    let mut arguments = options(&mut chance);
    arguments.extend(["--accept-new", &from, &to]);
    let mut before = Before::default();
    let mut last = None;
    for _ in 0..=chance.below(KILLS_MAX) {
        let mut run = Run::start(&home, &arguments);
        let mut cuts = 0;
        let cut = chance.one_of(&[
            Cut::SomeStreams,
            Cut::SomeStreams,
            Cut::AllStreams,
            Cut::Control,
            Cut::Client,
            Cut::Daemon,
        ]);
        sleep(Duration::from_millis(20 + chance.below(200)));
        match cut {
            Cut::SomeStreams | Cut::AllStreams => {
                for _ in 0..=chance.below(4) {
                    cuts += 1;
                    served.proxy.cut_data(|| cut == Cut::AllStreams || chance.clone().below(2) == 0);
                    sleep(Duration::from_millis(chance.below(120)));
                }
            }
            Cut::Control => served.proxy.cut_control(),
            Cut::Client => run.kill(),
            Cut::Daemon => served.kill_and_restart(),
        }
        let ended = run.end()?;
        check_placed(&source.path, &target)?;
        before.acknowledged_bytes = before.acknowledged_bytes.max(moved(&ended.events));
        before.placed_bytes = tree::placed_bytes(&target);
        match (cut, ended.code) {
            (_, Some(0)) => {}
            (Cut::Client, None) => {}
            (Cut::Control | Cut::Daemon, Some(3)) if !ended.message().is_empty() => {}
            _ if ended.message().contains("running already") => {}
            _ => return Err(format!("{cut:?}, push {push}: {ended:?}")),
        }
        if cut == Cut::Client && ended.code.is_none() {
            // The daemon continues for a moment, and may complete the transfer.
            let give_up = Instant::now() + Duration::from_secs(1);
            while !is_complete(source, &target) && Instant::now() < give_up && push {
                sleep(Duration::from_millis(50));
            }
            if is_complete(source, &target) {
                let _ = fs::remove_dir_all(&target);
                return Ok(());
            }
        }
        if ended.code == Some(0) && !has_journal_left(&target) {
            before = Before { cuts, ..Before::default() };
            last = Some(ended);
            break;
        }
    }
    let last = match last {
        Some(last) => last,
        None => run_to_end(&home, &arguments)?,
    };
    let checked = check_end(source, &target, &last, &before);
    // Many cases share the daemon's root.
    let _ = fs::remove_dir_all(&target);
    checked.map_err(|reason| format!("push {push}: {reason}"))
}

#[test]
fn cut_streams_go_on_and_lost_daemons_are_made_good() {
    let source = Source::make();
    let serve = || {
        let served = Served::start(None);
        let copied = Command::new("cp").arg("-a").arg(&source.path).arg(served.root().join("tree")).status();
        assert!(copied.expect("cp starts").success());
        Mutex::new(served)
    };
    let daemons = [serve(), serve(), serve(), serve()];
    let (seed, runs) = (setting("SEALANE_FAULT_SEED", 2_000), setting("SEALANE_FAULT_RUNS", 100));
    many("cut", AGAIN_BY_RUNS, seed, runs, |seed, worker| {
        let mut served = daemons[worker].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        daemon_case(&source, &mut served, seed)
    });
}

/// A file system of a few bytes; removed when dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a file system; `None` if this is not permitted.
    fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = geteuid().is_root()
            && mount(&["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"], folder.path());
        if !mounted {
            program::skip("a file system cannot be mounted here");
            return None;
        }
        Some(Self { folder })
    }

    fn resize(&self, bytes: u64) {
        assert!(
            mount(&["-o", &format!("remount,size={bytes}")], self.folder.path()),
            "it was mounted before"
        );
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).output();
    }
}

fn mount(arguments: &[&str], folder: &Path) -> bool {
    let output = Command::new("mount").args(arguments).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_full_disk_is_said_and_made_good() {
    let source = Source::make();
    for bytes in [300_000, 1 << 20, 2 << 20, 4 << 20, 7 << 20] {
        let Some(disk) = SmallDisk::mount(bytes) else { return };
        let target = disk.folder.path().join("copy");
        let arguments = ["-r", utf8(&source.path), utf8(&target)];
        let full = Run::start(disk.folder.path(), &arguments).end().expect("it ends");
        assert_eq!((full.code, full.kind()), (Some(5), "disk-full"), "{bytes} bytes: {full:?}");
        assert_eq!(check_placed(&source.path, &target), Ok(()), "{bytes} bytes");
        disk.resize(64 << 20);
        let before = Before {
            placed_bytes: tree::placed_bytes(&target),
            acknowledged_bytes: moved(&full.events),
            cuts: 0,
        };
        let ended = run_to_end(disk.folder.path(), &arguments).expect("it ends");
        assert_eq!(check_end(&source, &target, &ended, &before), Ok(()), "{bytes} bytes");
    }
}

#[test]
fn a_source_that_changes_is_not_kept() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("truncated", |path| {
            fs::File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_len(1_000))
                .expect("a change");
        }),
        ("appended", |path| {
            let mut file = fs::File::options().append(true).open(path).expect("a file");
            std::io::Write::write_all(&mut file, &pattern(100_000)).expect("a change");
        }),
        ("overwritten", |path| {
            let file = fs::File::options().write(true).open(path).expect("a file");
            std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 11_000_000).expect("a change");
        }),
        ("replaced", |path| {
            let other = path.with_extension("new");
            fs::write(&other, pattern(5_000_000)).expect("a file");
            fs::rename(other, path).expect("a change");
        }),
    ];
    std::thread::scope(|scope| {
        for (name, change) in changes {
            scope.spawn(move || changed_source(name, change));
        }
    });
}

fn changed_source(name: &str, change: fn(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("tree"), folder.path().join("copy"));
    fs::create_dir_all(&source).expect("a folder");
    fs::write(source.join("large"), pattern(12_000_000)).expect("a file");
    for number in 0..20 {
        fs::write(source.join(format!("s{number}")), pattern(number * 100)).expect("a file");
    }
    let arguments = ["-r", "--limit-rate", "6M", utf8(&source), utf8(&target)];
    let mut run = Run::start(folder.path(), &arguments);
    run.wait_for_bytes(2_000_000);
    change(&source.join("large"));
    let ended = run.end().expect("it ends");
    // A file that was replaced is read to its end as it was when it was opened: no byte of it is wrong.
    if name == "replaced" && ended.code == Some(0) {
        assert!(fs::read(target.join("large")).expect("the copy") == pattern(12_000_000));
        assert!(tree::leftovers(&target).is_empty());
        return;
    }
    assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
    let failed = ended.events.iter().find(|event| event["event"] == "entry_failed").expect("it is said");
    let reason = failed["reason"].as_str().unwrap_or_default();
    assert!(
        failed["path"] == utf8(&source.join("large"))
            && (reason.contains("changed") || reason.contains("shorter")),
        "{name}: {failed}"
    );
    assert!(!target.join("large").exists(), "{name}");
    for number in 0..20 {
        assert!(
            fs::read(target.join(format!("s{number}"))).expect("a copy") == pattern(number * 100),
            "{name}"
        );
    }
    let again = Run::start(folder.path(), &["-r", utf8(&source), utf8(&target)]).end().expect("it ends");
    assert_eq!(again.code, Some(0), "{name}: {again:?}");
    assert_eq!(tree::differences(&source, &target), Vec::<String>::new(), "{name}");
}
