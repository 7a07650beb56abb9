//! The meaning of a target, the same on every way to it, and actions that never happen to it.

mod program;
mod support;

use program::{Ends, sealane, set_mode, text, write, write_script};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};
use support::SSH;
use support::daemon::Served;

#[track_caller]
fn run(mut command: Command) -> Output {
    command.output().expect("the program starts")
}

#[track_caller]
fn succeed(command: Command) -> Output {
    run(command).ends(0)
}

/// Returns the command `sealane cp ARGUMENTS` in a folder.
fn cp(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = sealane(&["cp"]);
    command.args(arguments).current_dir(folder);
    command
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

/// Returns the files below a folder, with their content.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("UTF-8");
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&entry.path()).into_iter().map(|below| format!("{name}/{below}"))),
            false => found.push(format!("{name}={}", fs::read_to_string(entry.path()).expect("text"))),
        }
    }
    found.sort();
    found
}

#[test]
fn a_folder_that_nobody_described_gets_the_users_umask() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a", "b"] {
        write(&folder.path().join(name), b"x");
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 027; exec \"$0\" cp a b new/", env!("CARGO_BIN_EXE_sealane")]);
    shell.current_dir(folder.path());
    succeed(shell);
    assert_eq!(mode(&folder.path().join("new")), 0o750);
}

/// Returns the files, with their content, that a copy of `source` to `target` gives; `None` if it is refused.
fn expected(source: &str, target: &str) -> Option<&'static str> {
    Some(match (source, target) {
        ("f", "old") => "old=new",
        ("f", "into" | "into/") => "into/f=new",
        ("f", "missing") => "missing=new",
        ("f", "missing/") => "missing/f=new",
        ("d" | "d/", "into" | "into/") => "into/d/x=deep",
        ("d" | "d/", "missing") => "missing/x=deep",
        ("d" | "d/", "missing/") => "missing/d/x=deep",
        _ => return None,
    })
}

#[test]
fn a_path_means_the_same_whichever_way_leads_there() {
    let served = Served::start(None);
    let (home, root) = (served.home(), served.root());
    let ssh = home.join("ssh");
    write_script(&ssh, SSH);
    let mut number = 0;
    for source in ["f", "f/", "d", "d/"] {
        // If the target is missing, its last component is made, as a file or a folder; parents are not.
        for target in ["old", "old/", "into", "into/", "missing", "missing/", "no/parent", "no/parent/"] {
            let mut statuses = Vec::new();
            for way in ["local", "ssh push", "ssh pull", "daemon push", "daemon pull"] {
                number += 1;
                let name = number.to_string();
                let case = root.join(&name);
                let (from, to) = (case.join("from"), case.join("to"));
                fs::create_dir_all(from.join("d")).expect("a folder");
                fs::create_dir_all(to.join("into")).expect("a folder");
                write(&from.join("f"), b"new");
                write(&from.join("d/x"), b"deep");
                write(&to.join("old"), b"older");
                let local = |side: &str, path: &str| format!("{}/{side}/{path}", case.display());
                let far = |side: &str, path: &str| match way.starts_with("ssh") {
                    true => format!("there:{}", local(side, path)),
                    false => format!("sealane://{}/{name}/{side}/{path}", served.address),
                };
                let (source_at, target_at) = match way.rsplit_once(' ') {
                    Some((_, "push")) => (local("from", source), far("to", target)),
                    Some(_) => (far("from", source), local("to", target)),
                    None => (local("from", source), local("to", target)),
                };
                let mut command = cp(&home, &["-r", "--accept-new", "--remote-program"]);
                command.arg(env!("CARGO_BIN_EXE_sealane")).args([source_at, target_at]);
                let output = run({
                    command.env("HOME", &home).env("SEALANE_SSH", &ssh);
                    command
                });
                let said = format!("{source} to {target}, {way}: {}", text(&output.stderr));
                let found = files(&to);
                match expected(source, target) {
                    Some(one) => {
                        let untouched = if target == "old" { vec![] } else { vec!["old=older"] };
                        let mut all: Vec<_> = [one].into_iter().chain(untouched).collect();
                        all.sort_unstable();
                        assert_eq!(
                            (output.status.code(), found),
                            (Some(0), all.iter().map(ToString::to_string).collect()),
                            "{said}"
                        );
                    }
                    None => {
                        assert_ne!(output.status.code(), Some(0), "{said}");
                        let left: Vec<_> =
                            found.iter().filter(|file| !file.starts_with(".sealane")).collect();
                        assert_eq!(left, ["old=older"], "{said}");
                    }
                }
                statuses.push(output.status.code());
            }
            // If both are wrong, either end may be the first to report it.
            let alike = statuses.iter().all(|status| *status == statuses[0]);
            assert!(alike || (source, target) == ("f/", "old/"), "{source} to {target}: {statuses:?}");
        }
    }
}

#[test]
fn the_same_command_gives_the_same_tree_where_the_target_is_plain() {
    for arguments in [["-r", "data", "srv/"], ["-rT", "data", "srv/data"], ["-r", "data/.", "srv/data/"]] {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["data", "srv"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        write(&folder.path().join("data/x"), b"1");
        succeed(cp(folder.path(), &arguments));
        let inode = || fs::metadata(folder.path().join("srv/data/x")).expect("it is there").ino();
        let first = inode();
        succeed(cp(folder.path(), &arguments));
        assert_eq!(inode(), first, "{arguments:?}: what is there already was sent again");
        write(&folder.path().join("data/y"), b"2");
        succeed(cp(folder.path(), &arguments));
        assert_eq!(files(&folder.path().join("srv")), ["data/x=1", "data/y=2"], "{arguments:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    run(cp(folder.path(), &["-T", "a", "b", "c"])).ends(2);
}

#[test]
fn update_never_replaces_what_is_newer() {
    for bytes in [4, 100_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, target) = (folder.path().join("a"), folder.path().join("b"));
        write(&source, &vec![1; bytes]);
        write(&target, b"newer");
        let aged = |path: &Path, seconds: u64| {
            let file = fs::File::options().write(true).open(path).expect("it opens");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
        };
        aged(&source, 1_000_000);
        aged(&target, 1_000_001);
        succeed(cp(folder.path(), &["-u", "a", "b"]));
        assert_eq!(fs::read(&target).expect("it is there"), b"newer");
        aged(&target, 999_999);
        succeed(cp(folder.path(), &["-u", "a", "b"]));
        assert_eq!(fs::read(&target).expect("it is there").len(), bytes);
        // Size and time are the same, so the file counts as unchanged.
        write(&target, &vec![2; bytes]);
        aged(&target, 1_000_000);
        succeed(cp(folder.path(), &["a", "b"]));
        assert_eq!(fs::read(&target).expect("it is there"), vec![2; bytes]);
        succeed(cp(folder.path(), &["--no-skip-same", "a", "b"]));
        assert_eq!(fs::read(&target).expect("it is there"), vec![1; bytes]);
    }
}

#[test]
fn a_pipe_or_device_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("tree")).expect("a folder");
    fs::create_dir_all(at("copy")).expect("a folder");
    for bytes in [3, 100_000] {
        write(&at("tree/pipe"), &vec![1; bytes]);
        let _ = fs::remove_file(at("copy/pipe"));
        let made = Command::new("mkfifo").arg(at("copy/pipe")).status().expect("mkfifo is there");
        assert!(made.success());
        for arguments in [["-r", "tree/.", "copy"], ["-r", "tree/pipe", "copy/pipe"]] {
            let output = run(cp(folder.path(), &arguments));
            assert_ne!(output.status.code(), Some(0), "{arguments:?}");
            assert!(text(&output.stderr).contains("a device, pipe or socket"), "{}", text(&output.stderr));
            let found = fs::symlink_metadata(at("copy/pipe")).expect("it is there");
            assert!(found.file_type().is_fifo(), "{bytes} bytes replace a pipe");
        }
    }
}

#[test]
fn what_looks_like_an_unfinished_file_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).expect("a folder");
    let names = [".sealane-0123456789abcdef.part", ".sealane-0123456789abcdef0123456789abcdef.journal"];
    for name in names {
        write(&tree.join(name), b"x");
    }
    write(&tree.join("y"), b"y");
    let output = run(cp(folder.path(), &["-r", "tree", "copy"])).ends(1);
    // The journal of a copy that is not under way is ignored.
    for (name, is_told) in names.into_iter().zip([true, false]) {
        assert_eq!(text(&output.stderr).contains(name), is_told, "{}", text(&output.stderr));
    }
    assert_eq!(files(&folder.path().join("copy")), ["y=y"]);
}

#[test]
fn set_id_bits_and_owners_need_rights_of_their_own() {
    let served = Served::start(None);
    let (home, list) = (served.home(), served.root().with_file_name("authorised"));
    let plain = fs::read_to_string(&list).expect("the list of peers");
    write(&home.join("tool"), b"x");
    set_mode(home.join("tool"), 0o6755);
    let far = format!("sealane://{}/tool", served.address);
    for (rights, status, left) in [("", 1, 0o755), (",owner", 1, 0o755), (",owner,set-id", 0, 0o6755)] {
        write(&list, plain.replace("read,write", &format!("read,write{rights}")).as_bytes());
        let mut command = cp(&home, &["--owner", "--no-skip-same", "--accept-new", "tool", &far]);
        let output = run({
            command.env("HOME", &home);
            command
        });
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), mode(&served.root().join("tool"))), (Some(status), left), "{said}");
        assert_eq!(said.contains("1 set-id bit"), status == 1, "{said}");
        assert_eq!(said.contains("1 owner"), rights.is_empty(), "{said}");
    }
}

#[test]
fn very_many_sources_are_not_too_many_for_a_request() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("into")).expect("a folder");
    let mut command = cp(folder.path(), &[]);
    // The names take more than a mebibyte.
    for number in 0..4500 {
        let name = format!("{number:0>240}");
        write(&folder.path().join(&name), b"");
        command.arg(name);
    }
    command.arg("into");
    succeed(command);
    assert_eq!(fs::read_dir(folder.path().join("into")).expect("a folder").count(), 4500);
}
