//! Histories of copies of one tree: runs in several ways and spellings, by several clients, some of them killed,
//! interrupted, or two at once, with sources that change and parts that are altered between them. The last run is
//! whole: the target then equals the source, and nothing is left that the run does not name.
//!
//! Under `cargo test` the number of histories is small. `SEALANE_HISTORIES` sets the number, and `SEALANE_FAULT_SEED`
//! the first seed; `cargo xtask histories COUNT` is the long run.

mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;
mod support;

use program::{or_skip, sealane, write};
use sshd::PrivateSshd;
use std::cell::Cell;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};
use support::daemon::Served;
use support::run::{Ended, Run, run, run_to_end};
use support::tree::{self, Shape};
use support::{Chance, many, setting};

/// The settings that repeat one case.
const AGAIN: &str = "SEALANE_FAULT_SEED=<seed> SEALANE_HISTORIES=1";

const TREE: Shape =
    Shape { small_files: 12, small_bytes_max: 20_000, large_bytes: &[3 << 20, 700_001], sparse_bytes: None };

/// The ways of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Near,
    ToDaemon,
    FromDaemon,
    ToHost,
    FromHost,
    ToSftp,
    FromSftp,
}

const LOCAL: [Way; 3] = [Way::Near, Way::ToDaemon, Way::FromDaemon];
const ALL: [Way; 7] =
    [Way::Near, Way::ToDaemon, Way::FromDaemon, Way::ToHost, Way::FromHost, Way::ToSftp, Way::FromSftp];

/// The rights of both clients.
const RIGHTS: &str = "read,write,delete,devices,privileges";

/// The servers, and the homes of two clients.
struct Scene {
    served: Served,
    sshd: Option<PrivateSshd>,
    /// A client's configuration of ssh in which the host has two names.
    config: PathBuf,
    homes: [PathBuf; 2],
}

/// One history's folders.
struct Folders {
    name: String,
    root: PathBuf,
    /// A file of the source was renamed: the target's is to go.
    has_moved: Cell<bool>,
}

fn utf8(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

impl Folders {
    fn at(&self, what: &str) -> PathBuf {
        self.root.join(what)
    }
}

impl Scene {
    fn set() -> Self {
        let served = Served::start(None);
        served.grant(RIGHTS);
        let sshd = or_skip(PrivateSshd::start());
        let second = served.home().with_file_name("second");
        fs::create_dir(&second).expect("a folder");
        let key = sealane(&["id"]).env("HOME", &second).output().expect("the program starts");
        served.authorise_to(program::text(&key.stdout).trim(), "second", RIGHTS);
        let config = second.join("ssh_config");
        if let Some(sshd) = &sshd {
            let text = fs::read_to_string(sshd.client_config()).expect("a configuration");
            let host = PrivateSshd::HOST;
            write(&config, text.replace(&format!("Host {host}"), &format!("Host {host} alias")).as_bytes());
        }
        let homes = [served.home(), second];
        Self { served, sshd, config, homes }
    }

    /// Returns the arguments of a run.
    fn arguments(&self, way: Way, folders: &Folders, chance: &mut Chance) -> Vec<String> {
        // A copy of the source may have another path.
        let source = chance.one_of(&["source", "source", "source", "twin"]);
        let spelling = chance.one_of(&["", "/", "/.", "//"]);
        let (before, name) = (chance.one_of(&["", "./"]), &folders.name);
        let near = |what: &str| utf8(&folders.at(&format!("{before}{what}")));
        let daemon = |what: &str| self.served.place(&format!("{name}/{what}"));
        let host = chance.one_of(&[PrivateSshd::HOST, "alias"]);
        let far = |what: &str| format!("{host}:{}", near(what));
        let source = format!("{source}{spelling}");
        let (from, to) = match way {
            Way::Near => (near(&source), near("target")),
            Way::ToDaemon => (near(&source), daemon("target")),
            Way::FromDaemon => (daemon(&source), near("target")),
            Way::ToHost | Way::ToSftp => (near(&source), far("target")),
            Way::FromHost | Way::FromSftp => (far(&source), near("target")),
        };
        let mut arguments: Vec<String> = ["-rT", "--accept-new", "--timeout", "20"].map(String::from).into();
        match way {
            Way::ToSftp | Way::FromSftp => arguments.push("--far-end=sftp".into()),
            Way::ToHost | Way::FromHost => {
                let program = env!("CARGO_BIN_EXE_sealane");
                arguments.extend(["--far-end=sealane".into(), format!("--remote-program={program}")]);
            }
            _ => {}
        }
        if matches!(way, Way::ToHost | Way::FromHost | Way::ToSftp | Way::FromSftp) {
            arguments.extend(["-F".into(), utf8(&self.config)]);
        }
        if chance.below(3) == 0 {
            arguments.extend(["--streams".into(), chance.one_of(&["1", "2", "4"]).into()]);
        }
        // Copies within a host are never compressed, and over SFTP nothing can be.
        if !matches!(way, Way::ToSftp | Way::FromSftp) && chance.below(3) == 0 {
            arguments.push(chance.one_of(&["-z", "--compress=auto", "--compress=zstd:-5"]).into());
        }
        // An SFTP server compares no versions.
        if !matches!(way, Way::ToSftp | Way::FromSftp) && chance.below(2) == 0 {
            arguments.push(chance.one_of(&["--delta=always", "--delta=always", "--delta=never"]).into());
        }
        // These change nothing of a whole copy of these sources.
        if chance.below(3) == 0 {
            let neutral =
                ["-I", "--max-size=1T", "--filter-file=.none", "--numeric-ids", "--chmod=F+r", "-D", "-X"];
            let option = chance.one_of(&neutral);
            let is_here = match option {
                // A server for files alone does not know what is excluded there from a deletion.
                "--filter-file=.none" => {
                    way != Way::FromSftp && !(way == Way::ToSftp && folders.has_moved.get())
                }
                "-D" | "-X" => !matches!(way, Way::ToSftp | Way::FromSftp),
                _ => true,
            };
            arguments.extend(is_here.then(|| option.to_owned()));
        }
        // So does whatever the target, or an earlier copy, is used for.
        if !matches!(way, Way::ToSftp | Way::FromSftp) && chance.below(3) == 0 {
            let of_old = ["--in-place", "--in-place", "--link-dest=../earlier", "--copy-dest=../earlier"];
            let option = chance.one_of(&of_old);
            // Without a look at times nothing of an earlier copy counts.
            let makes_sense = option == "--in-place" || !arguments.iter().any(|given| given == "-I");
            arguments.extend(makes_sense.then(|| option.to_owned()));
        }
        arguments.extend(folders.has_moved.get().then(|| "--delete".to_owned()));
        arguments.extend([from, to]);
        arguments
    }

    /// Returns options that leave something of a copy to later ones, at times.
    fn lacking(chance: &mut Chance) -> Option<&'static str> {
        let lacking = [
            "--existing",
            "--ignore-existing",
            "--max-size=1M",
            "--min-size=10k",
            "--chmod=F600",
            "--modify-window=1",
        ];
        (chance.below(3) == 0).then(|| chance.one_of(&lacking))
    }

    fn start(&self, way: Way, folders: &Folders, chance: &mut Chance, rate: &str) -> Run {
        let mut arguments = self.arguments(way, folders, chance);
        arguments.extend(["--limit-rate".into(), rate.into()]);
        arguments.extend(Self::lacking(chance).map(str::to_owned));
        let home = &self.homes[chance.below(2) as usize];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Run::start(home, &arguments)
    }

    /// Runs one history.
    fn history(&self, seed: u64, ways: &[Way]) -> Result<(), String> {
        let mut chance = Chance::new(seed);
        let name = format!("history{seed}");
        let folders = Folders { root: self.served.root().join(&name), name, has_moved: Cell::new(false) };
        fs::create_dir_all(folders.at("source")).map_err(|error| error.to_string())?;
        tree::make(&folders.at("source"), TREE, &mut chance);
        whole_seconds(&folders.at("source")).map_err(|error| error.to_string())?;
        twin(&folders)?;
        let earlier = old_versions(&folders, "earlier", &mut chance)?;
        let mut told = vec![old_versions(&folders, "target", &mut chance)?, format!("{earlier} before")];
        for _ in 0..1 + chance.below(5) {
            let way = chance.one_of(ways);
            told.push(format!("{way:?}"));
            let mut runs = vec![self.start(way, &folders, &mut chance, "8M")];
            if chance.below(4) == 0 {
                let other = chance.one_of(ways);
                told.push(format!("beside it {other:?}"));
                runs.push(self.start(other, &folders, &mut chance, "8M"));
            }
            sleep(Duration::from_millis(chance.below(600)));
            for mut run in runs {
                match chance.below(4) {
                    0 | 1 => run.kill(),
                    2 => run.interrupt(),
                    _ => {}
                }
                run.end().map_err(|reason| format!("{told:?}: {reason}"))?;
            }
            told.push(change(&folders, &mut chance)?);
        }
        let way = chance.one_of(ways);
        told.push(format!("the last {way:?}"));
        let arguments = self.arguments(way, &folders, &mut chance);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let home = &self.homes[chance.below(2) as usize];
        let ended = run_to_end(home, &arguments).map_err(|reason| format!("{told:?}: {reason}"))?;
        if ended.code != Some(0) {
            return Err(format!("{told:?}: the last run failed: {ended:?}"));
        }
        let wrong = judge(&folders, &ended);
        if !wrong.is_empty() {
            return Err(format!("{told:?}: {wrong:?}; {:?}", ended.stderr));
        }
        fs::remove_dir_all(&folders.root).map_err(|error| error.to_string())
    }
}

/// Gives everything in a tree a time of whole seconds, which is all that SFTP keeps, and not of now, which what runs have
/// left may have too.
fn whole_seconds(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| whole_seconds(&entry?.path()))?;
    }
    let since = fs::metadata(path)?.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let seconds = if since.as_secs() + 100 > now { since.as_secs() - 2000 } else { since.as_secs() };
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path)?.set_times(FileTimes::new().set_modified(time))
}

/// Makes the twin of the source: other files with the same names, contents, modes and times.
fn twin(folders: &Folders) -> Result<(), String> {
    let _ = fs::remove_dir_all(folders.at("twin"));
    let copied = Command::new("cp").arg("-a").arg(folders.at("source")).arg(folders.at("twin")).status();
    copied
        .map_err(|error| error.to_string())?
        .success()
        .then_some(())
        .ok_or_else(|| "cp -a failed".to_owned())
}

/// Gives the target, or an earlier copy, old versions of large files, at times. Returns what was done.
fn old_versions(folders: &Folders, place: &str, chance: &mut Chance) -> Result<String, String> {
    let target = folders.at(place);
    if chance.below(2) == 0 {
        // An earlier copy is a folder at least.
        let made = if place == "earlier" { fs::create_dir(&target) } else { Ok(()) };
        return made.map(|()| format!("nothing at {place}")).map_err(|error| error.to_string());
    }
    let copied = Command::new("cp").arg("-a").arg(folders.at("source")).arg(&target).status();
    if !copied.map_err(|error| error.to_string())?.success() {
        return Err("cp -a failed".to_owned());
    }
    for (name, path) in tree::files(&target) {
        let mut content = fs::read(&path).map_err(|error| error.to_string())?;
        if content.len() < 100_000 {
            continue;
        }
        for _ in 0..1 + chance.below(5) {
            let at = chance.below(content.len() as u64) as usize;
            let new = chance.bytes(1 + chance.clone().below(9000) as usize);
            let end = if chance.below(2) == 0 { at } else { (at + new.len()).min(content.len()) };
            content.splice(at..end, new);
        }
        fs::write(&path, content).map_err(|error| format!("{}: {error}", name.display()))?;
        let long_ago = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        File::open(&path).and_then(|file| file.set_times(long_ago)).map_err(|error| error.to_string())?;
    }
    Ok(format!("old versions at {place}"))
}

/// Changes the source, or what runs have left, at times. Returns what was done.
fn change(folders: &Folders, chance: &mut Chance) -> Result<String, String> {
    let names = ["source/d0/large0", "source/d0/moved0"].map(|name| folders.at(name));
    let [large, free] = if names[0].exists() {
        names
    } else {
        let [one, other] = names;
        [other, one]
    };
    let later = SystemTime::now() - Duration::from_secs(1000 - chance.below(900));
    let told = match chance.below(9) {
        8 => {
            fs::rename(&large, &free).map_err(|error| error.to_string())?;
            folders.has_moved.set(true);
            "a file is renamed"
        }
        0 => {
            let file = File::options().write(true).open(&large).map_err(|error| error.to_string())?;
            file.write_all_at(&chance.bytes(70_000), chance.below(2 << 20))
                .map_err(|error| error.to_string())?;
            file.set_times(FileTimes::new().set_modified(later)).map_err(|error| error.to_string())?;
            "the source changes"
        }
        1 => {
            let file = File::options().write(true).open(&large).map_err(|error| error.to_string())?;
            file.set_len((1 << 20) + chance.below(1 << 20)).map_err(|error| error.to_string())?;
            file.set_times(FileTimes::new().set_modified(later)).map_err(|error| error.to_string())?;
            "the source shrinks"
        }
        2 => {
            let new = large.with_extension("new");
            write(&new, &chance.bytes(2_000_000 + chance.clone().below(1_000_000) as usize));
            fs::rename(&new, &large).map_err(|error| error.to_string())?;
            "the source is replaced"
        }
        3 => {
            for part in tree::leftovers(&folders.root).iter().filter(|path| is_part(path)) {
                fs::remove_file(folders.root.join(part)).map_err(|error| error.to_string())?;
            }
            "parts are removed"
        }
        4 | 5 => {
            for part in tree::leftovers(&folders.root).iter().filter(|path| is_part(path)) {
                let file = File::options().write(true).open(folders.root.join(part));
                let file = file.map_err(|error| error.to_string())?;
                let bytes = file.metadata().map_err(|error| error.to_string())?.len();
                let at = chance.below(bytes.max(1));
                let altered = chance.bytes(20_000.min((bytes - at) as usize));
                file.write_all_at(&altered, at).map_err(|error| error.to_string())?;
            }
            "parts are altered"
        }
        _ => return Ok("nothing changes".to_owned()),
    };
    whole_seconds(&folders.at("source")).map_err(|error| error.to_string())?;
    twin(folders)?;
    // A receiver that cannot compare tells an altered part from its own by whole seconds.
    if told == "parts are altered" && !tree::leftovers(&folders.root).is_empty() {
        sleep(Duration::from_millis(3100));
        for part in tree::leftovers(&folders.root).iter().filter(|path| is_part(path)) {
            let now = FileTimes::new().set_modified(SystemTime::now());
            let file = File::options().write(true).open(folders.root.join(part));
            file.and_then(|file| file.set_times(now)).map_err(|error| error.to_string())?;
        }
    }
    Ok(told.to_owned())
}

fn is_part(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "part")
}

/// Returns what is wrong after the last run.
fn judge(folders: &Folders, ended: &Ended) -> Vec<String> {
    let mut wrong = tree::differences(&folders.at("source"), &folders.at("target"));
    // Leftovers of runs of other clients or in other ways are named.
    let is_named = ended.events.iter().any(|event| event["event"] == "left");
    let own = |path: &PathBuf| {
        !path.starts_with("source") && !path.starts_with("twin") && !path.starts_with("earlier")
    };
    let left: Vec<_> = tree::leftovers(&folders.root).into_iter().filter(own).collect();
    match is_named {
        true => wrong.retain(|text| !text.contains(".sealane-")),
        false => wrong.extend(left.iter().map(|path| format!("{} is left", path.display()))),
    }
    wrong
}

#[test]
fn the_end_of_every_history_is_right() {
    let (count, seed) = (setting("SEALANE_HISTORIES", 12), setting("SEALANE_FAULT_SEED", 1));
    let scene = Scene::set();
    let ways = if scene.sshd.is_some() { &ALL[..] } else { &LOCAL[..] };
    many("history", AGAIN, seed, count, |seed, _| scene.history(seed, ways));
}

/// Returns the folders of a test with a tree, and the scene.
fn scene_with_tree(name: &str) -> (Scene, Folders) {
    let scene = Scene::set();
    let (root, name) = (scene.served.root().join(name), name.to_owned());
    let folders = Folders { root, name, has_moved: Cell::new(false) };
    fs::create_dir_all(folders.at("source")).expect("folders");
    tree::make(&folders.at("source"), TREE, &mut Chance::new(7));
    whole_seconds(&folders.at("source")).expect("times");
    twin(&folders).expect("a copy");
    (scene, folders)
}

/// Interrupts a copy once it has moved some bytes.
fn interrupted(home: &Path, arguments: &[&str]) {
    let mut run = Run::start(home, &[&["-rT", "--limit-rate", "2M"], arguments].concat());
    run.wait_for_bytes(900_000);
    run.interrupt();
    let ended = run.end().expect("it ends");
    assert_ne!(ended.code, Some(0), "it was over before it could be interrupted: {ended:?}");
}

/// Fills the target, and takes the mode of unfinished folders away.
fn another_program_brings_all(source: &str, target: &str) {
    let done = |command: &mut Command| assert!(command.status().expect("a program").success(), "{command:?}");
    done(Command::new("cp").args(["-a", &format!("{source}/."), target]));
    done(Command::new("chmod").args(["-R", "-t", target]));
}

fn event<'a>(ended: &'a Ended, name: &str) -> Vec<&'a serde_json::Value> {
    ended.events.iter().filter(|event| event["event"] == name).collect()
}

#[track_caller]
fn is_right(folders: &Folders) {
    let differences = tree::differences(&folders.at("source"), &folders.at("target"));
    assert!(differences.is_empty(), "{differences:?}");
    let left = tree::leftovers(&folders.root);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn spellings_of_one_source_continue_each_other() {
    let (scene, folders) = scene_with_tree("spellings");
    let (home, target) = (scene.served.home(), utf8(&folders.at("target")));
    interrupted(&home, &[&utf8(&folders.at("source")), &target]);
    interrupted(&home, &[&format!("{}/", utf8(&folders.at("source"))), &target]);
    // A copy of the source elsewhere is another source.
    interrupted(&home, &[&utf8(&folders.at("twin")), &target]);
    let last = format!("{}/.", utf8(&folders.at("./source")));
    let ended = run(&home, &["-rT", "--digest", &last, &target]);
    is_right(&folders);
    assert!(ended.done("resumed_bytes") > 0, "nothing was continued: {ended:?}");
    let digest = blake3::hash(&fs::read(folders.at("target/d0/large0")).expect("a file")).to_string();
    assert!(
        event(&ended, "digest").iter().any(|event| event["blake3"] == digest.as_str()),
        "the digest is not that of what is there: {ended:?}"
    );
}

#[test]
fn what_was_altered_is_sent_again_and_told() {
    let (scene, folders) = scene_with_tree("altered");
    let (home, source, target) =
        (scene.served.home(), utf8(&folders.at("source")), utf8(&folders.at("target")));
    interrupted(&home, &[&source, &target]);
    let parts: Vec<_> = tree::leftovers(&folders.root).into_iter().filter(|path| is_part(path)).collect();
    assert!(!parts.is_empty(), "nothing unfinished is left");
    for part in &parts {
        let file = File::options().write(true).open(folders.root.join(part)).expect("a part");
        file.write_all_at(&[0x5a; 70_000], 0).expect("a change");
    }
    let ended = run(&home, &["-rT", &source, &target]);
    // It is told once of each file of which a piece was claimed.
    assert!((1..=parts.len()).contains(&event(&ended, "begun_again").len()), "{ended:?}");
    is_right(&folders);
}

/// Folders that both ends have seen to be equal get no time at the end, so the removal of what an interrupted copy has left in one
/// must not change it.
#[test]
fn what_is_cleared_away_changes_no_folders_time() {
    let (scene, folders) = scene_with_tree("cleared");
    let (home, source, target) =
        (scene.served.home(), utf8(&folders.at("source")), utf8(&folders.at("target")));
    interrupted(&home, &[&source, &target]);
    assert!(!tree::leftovers_in(&folders.at("target/d0")).is_empty(), "nothing unfinished is left");
    another_program_brings_all(&source, &target);
    let place = scene.served.place(&format!("{}/target", folders.name));
    run(&home, &["-rT", "--accept-new", &source, &place]);
    is_right(&folders);
}

#[test]
fn a_digest_is_of_what_is_there() {
    let (scene, folders) = scene_with_tree("digested");
    let (home, source, target) =
        (scene.served.home(), utf8(&folders.at("source")), utf8(&folders.at("target")));
    let copy = |options: &[&str]| run(&home, &[&["-rT"], options, &[&source, &target]].concat());
    copy(&[]);
    // An up-to-date file has a digest, too, and both ends have read it.
    let files = tree::files(&folders.at("source")).len();
    assert_eq!(event(&copy(&["--digest"]), "digest").len(), files);
    // A file with other content, and with size and time as before.
    let large = File::options().write(true).open(folders.at("target/d0/large0")).expect("a file");
    let time = large.metadata().expect("metadata").modified().expect("a time");
    large.write_all_at(b"other content", 1000).expect("a change");
    large.set_times(FileTimes::new().set_modified(time)).expect("a time");
    assert_eq!(event(&copy(&["--digest"]), "digest").len(), files);
    is_right(&folders);
}

/// Two journals may name one part, as when a journal is restored from a backup while its run goes on: who writes the part
/// holds it, and another run leaves it alone and says so.
#[test]
fn a_part_that_is_written_belongs_to_its_writer() {
    let (scene, folders) = scene_with_tree("held");
    let (home, source, target) =
        (scene.served.home(), utf8(&folders.at("source")), utf8(&folders.at("target")));
    let mut slow = Run::start(&home, &["-rT", "--limit-rate", "1M", &source, &target]);
    slow.wait_for_bytes(900_000);
    let journals: Vec<_> = tree::leftovers(&folders.root).into_iter().filter(|path| !is_part(path)).collect();
    assert!(!journals.is_empty(), "there is no journal");
    for journal in &journals {
        let journal = folders.root.join(journal);
        let restored = journal.with_extension("restored");
        fs::copy(&journal, &restored).and_then(|_| fs::rename(&restored, &journal)).expect("a copy");
    }
    let other = run_to_end(&home, &["-rT", &source, &target]).expect("it ends");
    assert_eq!(other.code, Some(1), "it took a part from its writer: {other:?}");
    let failed = event(&other, "entry_failed");
    assert!(failed.iter().any(|event| event["reason"].to_string().contains("large")), "{other:?}");
    slow.ends(0);
    let differences = tree::wrong(&folders.at("source"), &folders.at("target"));
    assert!(differences.is_empty(), "wrong under their final names: {differences:?}");
    // Whatever the restored journal tells of, the last run clears away.
    run(&home, &["-rT", &source, &target]);
    is_right(&folders);
}

#[test]
fn two_clients_push_one_file_over_sftp() {
    let (scene, folders) = scene_with_tree("together");
    if scene.sshd.is_none() {
        return;
    }
    let (source, config) = (utf8(&folders.at("source")), utf8(&scene.config));
    let far = |host: &str| format!("{host}:{}", utf8(&folders.at("target")));
    let run = |home: &Path, host: &str, rate: &str| {
        let to = far(host);
        Run::start(home, &["-rT", "-F", &config, "--far-end", "sftp", "--limit-rate", rate, &source, &to])
    };
    let mut slow = run(&scene.homes[0], "alias", "2M");
    slow.wait_for_bytes(500_000);
    let fast = run(&scene.homes[1], PrivateSshd::HOST, "100M");
    for run in [fast, slow] {
        run.ends(0);
        let differences = tree::wrong(&folders.at("source"), &folders.at("target"));
        assert!(differences.is_empty(), "wrong under their final names: {differences:?}");
    }
    is_right(&folders);
}

/// Small files have short-lived names while they arrive over SFTP, of which no journal tells. A killed push leaves some; another
/// program then brings the files, so that they need not come again. Other clients and ways name what was left, and the
/// same command removes it.
#[test]
fn short_lived_files_of_a_killed_push_are_named_and_then_removed() {
    let (scene, folders) = scene_with_tree("short-lived");
    if scene.sshd.is_none() {
        return;
    }
    let (source, target) = (utf8(&folders.at("source")), utf8(&folders.at("target")));
    let (config, far) = (utf8(&scene.config), format!("{}:{target}", PrivateSshd::HOST));
    let push = ["-rT", "-F", &config, "--far-end", "sftp", &source, &far];
    let short_lived = || -> Vec<PathBuf> {
        let parts = tree::leftovers(&folders.root).into_iter().filter(|path| is_part(path));
        let is_small =
            |path: &PathBuf| fs::metadata(folders.at(&utf8(path))).is_ok_and(|found| found.len() < 100_000);
        parts.filter(is_small).collect()
    };
    let killed = (0..100).any(|_| {
        let _ = fs::remove_dir_all(&target);
        let mut run = Run::start(&scene.homes[0], &push);
        let begun = Instant::now();
        while short_lived().is_empty() && begun.elapsed() < Duration::from_secs(10) {
            std::hint::spin_loop();
        }
        run.kill();
        run.end().expect("it ends");
        // The server still carries out what it has received.
        sleep(Duration::from_millis(100));
        !short_lived().is_empty()
    });
    assert!(killed, "no kill in a hundred left a short-lived file");
    another_program_brings_all(&source, &target);
    // Without a lease nothing else tells of them.
    for path in tree::leftovers(&folders.root).iter().filter(|path| !short_lived().contains(path)) {
        fs::remove_file(folders.root.join(path)).expect("a leftover");
    }
    let left = short_lived();
    for (home, arguments) in [(&scene.homes[1], &push[..]), (&scene.homes[0], &["-rT", &source, &target])] {
        let ended = run(home, arguments);
        let told = event(&ended, "left").len();
        assert_eq!((told, short_lived().len()), (left.len().min(16), left.len()), "{ended:?}");
    }
    let ended = run_to_end(&scene.homes[0], &push).expect("it ends");
    assert_eq!((ended.code, event(&ended, "left").len()), (Some(0), 0), "{ended:?}");
    is_right(&folders);
}

/// A client that dies between making its lease or its journal and filling it leaves an empty one, which says nothing: a young
/// one may be filled in the next moment and is named, an old one has no writer any more and goes.
#[test]
fn a_lease_or_journal_that_was_never_filled_is_named_and_then_removed() {
    let (scene, folders) = scene_with_tree("leases");
    let (home, source, target) =
        (scene.served.home(), utf8(&folders.at("source")), utf8(&folders.at("target")));
    let [lease, journal] = ["lease", "journal"].map(|kind| format!(".sealane-{:032x}.{kind}", 7));
    let config = utf8(&scene.config);
    let far = format!("{}:{target}", PrivateSshd::HOST);
    let near = ["-rT", &source, &target];
    let push = ["-rT", "-F", &config, "--far-end", "sftp", &source, &far];
    let mut ways = vec![(&lease, &near[..])];
    if scene.sshd.is_some() {
        ways.extend([(&lease, &push[..]), (&journal, &push[..])]);
    }
    for (name, arguments) in ways {
        let empty = folders.at(name);
        write(&empty, b"");
        let ended = run(&home, arguments);
        let told = event(&ended, "left");
        assert!(told.iter().any(|event| event["path"].to_string().contains(name)), "{name}: {ended:?}");
        assert!(empty.exists(), "its writer may have been about to fill it");
        let old = SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(&empty).and_then(|file| file.set_modified(old)).expect("a time");
        let ended = run_to_end(&home, arguments).expect("it ends");
        assert_eq!((ended.code, event(&ended, "left").len()), (Some(0), 0), "{ended:?}");
        is_right(&folders);
    }
    // A near target tells by the lock that an empty journal has no writer any more.
    write(&folders.at(&journal), b"");
    let ended = run_to_end(&home, &near).expect("it ends");
    assert_eq!((ended.code, event(&ended, "left").len()), (Some(0), 0), "{ended:?}");
    is_right(&folders);
}
