//! Snapshots: unchanged files are taken from earlier copies, beside the results of rsync.

mod program;
mod support;

use program::{set_mode, skip};
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use support::daemon::Served;
use support::run::{run, run_to_end};

const LARGE_BYTES: usize = 300_000;

fn touch(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).and_then(|file| file.set_times(FileTimes::new().set_modified(time))).expect("a time");
}

fn copied(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp starts");
    assert!(status.success());
}

/// Makes two earlier copies of a source, and changes one entry of each kind since.
fn plant(root: &Path) {
    let source = root.join("source");
    fs::create_dir_all(source.join("folder/deep")).expect("folders");
    let names = ["same", "folder/same", "folder/deep/same", "mode", "time", "content", "only-older", "both"];
    for (seconds, name) in (1_000_000_000..).zip(names) {
        fs::write(source.join(name), format!("content of {name}")).expect("a file");
        touch(&source.join(name), seconds);
    }
    for name in ["large", "large-mode"] {
        fs::write(source.join(name), vec![7; LARGE_BYTES]).expect("a file");
        touch(&source.join(name), 1_100_000_000);
    }
    symlink("same", source.join("link")).expect("a link");
    copied(&source, &root.join("older"));
    copied(&source, &root.join("newer"));
    fs::remove_file(root.join("newer/only-older")).expect("it was there");
    // The older one has it exactly, the newer one only its content.
    set_mode(root.join("newer/both"), 0o600);
    fs::write(root.join("newer/gone"), "the source has it no more").expect("a file");
    for name in ["mode", "large-mode"] {
        set_mode(source.join(name), 0o600);
    }
    touch(&source.join("time"), 1_200_000_000);
    fs::write(source.join("content"), "other content").expect("a file");
    fs::write(source.join("new"), "new").expect("a file");
    touch(&source, 1_300_000_000);
}

/// Returns each entry of a tree: its content or where it leads, mode and time, and which earlier copy has the same file.
fn look(root: &Path, tree: &str) -> BTreeMap<String, (Vec<u8>, u32, i64, String)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(tree).join(&folder)).expect("a folder").flatten() {
            let name = format!("{folder}{}", entry.file_name().to_str().expect("UTF-8"));
            let metadata = entry.path().symlink_metadata().expect("it is there");
            let content = match metadata.file_type() {
                kind if kind.is_dir() => {
                    folders.push(format!("{name}/"));
                    Vec::new()
                }
                kind if kind.is_symlink() => {
                    fs::read_link(entry.path()).expect("a link").into_os_string().into_encoded_bytes()
                }
                _ => fs::read(entry.path()).expect("a file"),
            };
            let is_file = metadata.is_file();
            let shares = |earlier: &&str| {
                let there = root.join(earlier).join(&name).symlink_metadata();
                is_file && there.is_ok_and(|there| there.ino() == metadata.ino())
            };
            let shared = ["older", "newer"].iter().find(|earlier| shares(earlier)).copied().unwrap_or("none");
            found.insert(name, (content, metadata.mode(), metadata.mtime(), shared.to_owned()));
        }
    }
    found
}

#[test]
fn unchanged_files_are_taken_from_earlier_copies_as_rsync_takes_them() {
    if Command::new("rsync").arg("--version").output().is_err() {
        return skip("rsync is not installed");
    }
    let served = Served::start(None);
    let root = served.root().join("snapshots");
    plant(&root);
    let at = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    for (number, flag) in ["--link-dest", "--copy-dest", "--compare-dest"].into_iter().enumerate() {
        let bases = [format!("{flag}=../newer"), format!("{flag}=../older")];
        let theirs = format!("theirs{number}");
        let status = Command::new("rsync").arg("-a").args(&bases).args([at("source/"), at(&theirs)]).status();
        assert!(status.expect("rsync starts").success());
        let expected = look(&root, &theirs);
        let source = at("source");
        for (way, target) in [
            ("near", at(&format!("near{number}"))),
            ("daemon", served.place(&format!("snapshots/far{number}"))),
        ] {
            let arguments = ["-aT", "--accept-new", &bases[0], &bases[1], &source, &target];
            run(&served.home(), &arguments);
            let name = if way == "near" { format!("near{number}") } else { format!("far{number}") };
            let found = look(&root, &name);
            assert_eq!(found, expected, "{flag}, {way}");
            // Nothing that is there is made again, and the earlier copies are as they were.
            let again = run(&served.home(), &arguments);
            assert_eq!(look(&root, &name), found, "{flag}, {way}, again: {again:?}");
        }
        assert_eq!(fs::metadata(root.join("newer/mode")).expect("a file").mode() & 0o777, 0o644);
        let times = fs::metadata(root.join("older/time")).expect("a file").mtime();
        assert_eq!(times, 1_000_000_004, "an earlier copy has changed");
    }
}

/// A file of the same size that was put there meanwhile has not the content of the earlier copy, although only its time
/// differs.
#[test]
fn a_file_in_the_place_of_an_unchanged_one_is_replaced() {
    let served = Served::start(None);
    let root = served.root().join("replaced");
    fs::create_dir_all(root.join("source")).expect("folders");
    fs::write(root.join("source/file"), "right").expect("a file");
    touch(&root.join("source/file"), 1_000_000_000);
    copied(&root.join("source"), &root.join("earlier"));
    fs::create_dir(root.join("target")).expect("a folder");
    fs::write(root.join("target/file"), "wrong").expect("a file");
    let at = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    run(&served.home(), &["-aT", "--link-dest", "../earlier", &at("source"), &at("target")]);
    assert_eq!(fs::read(root.join("target/file")).expect("a file"), b"right");
    let inode = |name: &str| fs::metadata(root.join(name)).expect("a file").ino();
    assert_eq!(inode("target/file"), inode("earlier/file"));
    assert!(
        !fs::read_dir(root.join("target"))
            .expect("a folder")
            .flatten()
            .any(|entry| { entry.file_name().to_string_lossy().starts_with(".sealane") })
    );
}

#[test]
fn the_first_of_a_series_has_no_earlier_copy() {
    let served = Served::start(None);
    let root = served.root().join("first");
    fs::create_dir_all(root.join("source")).expect("folders");
    fs::write(root.join("source/file"), "right").expect("a file");
    let at = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    run(&served.home(), &["-aT", "--link-dest", "../yesterday", &at("source"), &at("today")]);
    assert_eq!(fs::read(root.join("today/file")).expect("a file"), b"right");
    fs::write(root.join("plain"), "no folder").expect("a file");
    let arguments = ["-aT", "--link-dest", "../plain", &at("source"), &at("other")];
    let ended = run_to_end(&served.home(), &arguments).expect("it ends");
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let (source, other) = (at("source"), at("other"));
    let arguments = [&["-aT"][..], &["--link-dest=../yesterday"; 21], &[&source, &other]].concat();
    let ended = run_to_end(&served.home(), &arguments).expect("it ends");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(!root.join("other").exists());
}
