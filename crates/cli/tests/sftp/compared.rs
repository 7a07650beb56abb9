//! A copy made again over SFTP: what differs in folders whose files are mostly equal is sent, and nothing else.

use super::{Scene, program};
use program::{Ends, events, write};
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Returns what a copy with `-a` keeps of all entries below `at`, but the times of folders.
fn facts(at: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![at.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let seen = fs::symlink_metadata(&entry).expect("an entry");
            let fact = if seen.is_dir() {
                folders.push(entry.clone());
                format!("folder {:o}", seen.mode())
            } else if seen.is_symlink() {
                format!("link {:?}", fs::read_link(&entry).expect("a link"))
            } else {
                format!("file {:o} {} {:?}", seen.mode(), seen.mtime(), fs::read(&entry).expect("a file"))
            };
            found.insert(entry.strip_prefix(at).expect("below").to_owned(), fact);
        }
    }
    found
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let times = FileTimes::new().set_modified(time);
    File::open(path).and_then(|file| file.set_times(times)).expect("a file whose time can be set");
}

fn put(path: &Path, content: &str, seconds: u64) {
    write(path, content.as_bytes());
    set_time(path, seconds);
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("a file that can be removed");
}

/// The name of a folder of the source, a change of it there and at the target, and the bytes that are sent because of it.
type Difference = (&'static str, fn(&Path, &Path), usize);

const DIFFERENCES: [Difference; 12] = [
    ("nothing", |_, _| (), 0),
    ("size", |here, _| put(&here.join("x"), "longer than before", 1_000_000_000), 18),
    ("time", |here, _| put(&here.join("x"), "other", 1_000_000_001), 5),
    (
        "mode",
        |here, _| fs::set_permissions(here.join("x"), Permissions::from_mode(0o600)).expect("a mode"),
        0,
    ),
    ("new", |here, _| put(&here.join("new"), "new", 1_000_000_000), 3),
    ("gone-there", |_, there| remove(&there.join("x")), 5),
    ("gone-here", |here, _| remove(&here.join("x")), 0),
    ("more-there", |_, there| put(&there.join("more"), "more", 1_000_000_000), 0),
    (
        "link-here",
        |here, _| {
            remove(&here.join("x"));
            symlink("0", here.join("x")).expect("a link");
        },
        0,
    ),
    (
        "link-there",
        |_, there| {
            remove(&there.join("x"));
            symlink("0", there.join("x")).expect("a link");
        },
        5,
    ),
    (
        "folder-here",
        |here, _| {
            fs::create_dir(here.join("deep")).expect("a folder");
            put(&here.join("deep/z"), "deep", 1_000_000_000);
        },
        4,
    ),
    ("folder-mode", |here, _| fs::set_permissions(here, Permissions::from_mode(0o700)).expect("a mode"), 0),
];

#[test]
fn what_differs_is_sent_and_nothing_else() {
    let Some(scene) = Scene::set() else { return };
    // Without --delete, the target keeps what the source does not have.
    let kept = ["gone-here/x", "more-there/more"];
    for (number, options) in [&["-aT"][..], &["-aT", "--delete"]].into_iter().enumerate() {
        let (source, name) =
            (PathBuf::from(scene.near(&format!("source{number}"))), format!("target{number}"));
        let target = PathBuf::from(scene.near(&name));
        for (name, ..) in DIFFERENCES {
            fs::create_dir_all(source.join(name)).expect("a folder");
            for file in ["0", "1", "2", "3", "4", "x"] {
                put(&source.join(name).join(file), "equal", 1_000_000_000);
            }
        }
        let copy = || {
            let options = [options, &["--json"]].concat();
            let output = scene.copy(&options, source.to_str().expect("text"), &scene.far(&name)).ends(0);
            events(&output.stdout).pop().expect("an event")
        };
        copy();
        assert_eq!(facts(&target), facts(&source));
        for (name, change, _) in DIFFERENCES {
            change(&source.join(name), &target.join(name));
        }
        let done = copy();
        let bytes: usize = DIFFERENCES.iter().map(|(.., bytes)| bytes).sum();
        assert_eq!(done["bytes"].as_u64(), Some(bytes as u64), "{done}");
        let mut found = facts(&target);
        let deletes = options.contains(&"--delete");
        for name in kept {
            assert_eq!(found.remove(Path::new(name)).is_none(), deletes, "{name}");
        }
        assert_eq!(found, facts(&source), "{options:?}");
        // Once more there is nothing to do.
        let done = copy();
        let files = facts(&source).values().filter(|fact| !fact.starts_with("folder")).count();
        assert_eq!((done["bytes"].as_u64(), done["failed"].as_u64()), (Some(0), Some(0)), "{done}");
        assert!(done["skipped"].as_u64() >= Some(files as u64), "{done}");
    }
}
