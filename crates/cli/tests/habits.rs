//! Features that users of scp and rsync expect: comparison of contents, backups, reported changes, removal of
//! sources, lists of patterns.

mod program;
mod support;

use program::{Ends, sealane, text, write};
use std::fs::{self, File};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};
use support::daemon::Served;

fn cp(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = sealane(&["cp"]);
    command.args(arguments).current_dir(folder).output().expect("the program starts")
}

#[track_caller]
fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = cp(folder, arguments).ends(0);
    text(&output.stdout).to_owned()
}

fn age(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| format!("{name}: {error}"))
}

#[test]
fn contents_are_compared_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("src")).expect("a folder");
    let large = program::pattern(3_000_000);
    for (name, content) in [("same", b"text".as_slice()), ("large", &large), ("sly", b"good")] {
        write(&at("src").join(name), content);
    }
    succeed(folder.path(), &["-r", "src", "dst"]);
    // Two files have the same content and another time; one has another content and the same time and size.
    for name in ["same", "large", "sly"] {
        age(&at("src").join(name), 1_000_000_000);
    }
    age(&at("dst/same"), 900_000_000);
    age(&at("dst/large"), 900_000_000);
    write(&at("dst/sly"), b"evil");
    age(&at("dst/sly"), 1_000_000_000);
    succeed(folder.path(), &["-rT", "src", "dst"]);
    assert_eq!(read(&at("dst"), "sly"), "evil", "size and time are the same");
    age(&at("dst/large"), 900_000_000);
    let told = succeed(folder.path(), &["-rT", "--json", "--checksum", "src", "dst"]);
    assert_eq!(read(&at("dst"), "sly"), "good");
    // The folder and a file are unchanged; another file gets the time of its source.
    assert!(told.contains("\"skipped\":2,") && told.contains("\"files\":2,"), "{told}");
    let dry = succeed(folder.path(), &["-rTn", "--checksum", "src", "dst"]);
    assert_eq!(dry, "");
}

#[test]
fn what_is_replaced_or_deleted_stays_as_a_backup() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("dst/old")).expect("a folder");
    fs::create_dir_all(at("src")).expect("a folder");
    let (large, larger) = (program::pattern(200_000), program::pattern(300_000));
    write(&at("src/small"), b"newer");
    write(&at("src/large"), &larger);
    write(&at("src/first"), b"new");
    write(&at("dst/small"), b"was");
    write(&at("dst/large"), &large);
    write(&at("dst/extra"), b"was");
    write(&at("dst/old/extra"), b"was");
    std::os::unix::fs::symlink("elsewhere", at("src/link")).expect("a link");
    std::os::unix::fs::symlink("before", at("dst/link")).expect("a link");
    succeed(folder.path(), &["-rTb", "--delete", "src", "dst"]);
    assert_eq!((read(&at("dst"), "small"), read(&at("dst"), "small~")), ("newer".into(), "was".into()));
    assert!(fs::read(at("dst/large")).expect("the copy") == larger);
    assert!(fs::read(at("dst/large~")).expect("the backup") == large);
    assert_eq!(fs::read_link(at("dst/link~")).expect("the backup"), Path::new("before"));
    assert!(!at("dst/first~").exists() && !at("dst/extra").exists() && !at("dst/old/extra").exists());
    assert_eq!((read(&at("dst"), "extra~"), read(&at("dst"), "old/extra~")), ("was".into(), "was".into()));
    // Backups are not leftovers of a source.
    write(&at("src/small"), b"newest");
    succeed(folder.path(), &["-rT", "--suffix", ".1", "--delete", "--exclude=*~", "src", "dst"]);
    assert_eq!((read(&at("dst"), "small.1"), read(&at("dst"), "small~")), ("newer".into(), "was".into()));
    let names = fs::read_dir(at("dst")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with(".sealane")));
}

#[test]
fn changes_are_told_as_rsync_tells_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("src/sub")).expect("a folder");
    write(&at("src/sub/f"), b"text");
    write(&at("src/large"), &program::pattern(200_000));
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let told = sorted(succeed(folder.path(), &["-rv", "src", "dst"]));
    assert_eq!(
        told,
        [">f+++++++++ dst/large", ">f+++++++++ dst/sub/f", "cd+++++++++ dst", "cd+++++++++ dst/sub"]
    );
    write(&at("src/large"), &program::pattern(200_001));
    write(&at("dst/gone"), b"x");
    let told = sorted(succeed(folder.path(), &["-rTv", "--delete", "src", "dst"]));
    assert!(told.contains(&"*deleting   dst/gone".to_owned()), "{told:?}");
    assert!(told.contains(&">f.st...... dst/large".to_owned()), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("sub/f")), "{told:?}");
}

#[test]
fn a_source_loses_what_has_arrived_and_nothing_before_all_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("src/sub")).expect("a folder");
    for name in ["src/a", "src/sub/b", "src/left.o"] {
        write(&at(name), b"text");
    }
    write(&at("src/large"), &program::pattern(200_000));
    cp(folder.path(), &["-r", "--remove-source-files", "src", "missing", "into/"])
        .complains(1, &["nothing was removed"]);
    assert!(at("src/a").exists() && at("into/src/a").exists());
    succeed(folder.path(), &["-rn", "--remove-source-files", "src", "into/"]);
    assert!(at("src/a").exists());
    let told =
        succeed(folder.path(), &["-r", "--json", "--remove-source-files", "--exclude=*.o", "src", "into/"]);
    assert!(told.contains("\"removed\":3,"), "{told}");
    assert!(at("src/sub").is_dir() && at("src/left.o").exists());
    assert!(!at("src/a").exists() && !at("src/sub/b").exists() && !at("src/large").exists());
    assert_eq!(read(&at("into/src"), "sub/b"), "text");
}

#[test]
fn a_daemon_lets_its_files_be_removed_only_by_those_who_may() {
    let served = Served::start(None);
    let (home, root) = (served.home(), served.root());
    write(&root.join("mail"), b"text");
    let run = |into: &str| {
        let mut command = sealane(&["cp", "--accept-new", "--remove-source-files"]);
        command
            .arg(format!("sealane://{}/mail", served.address))
            .arg(into)
            .env("HOME", &home)
            .current_dir(&home);
        command.output().expect("the program starts")
    };
    run("one").ends(3);
    assert!(root.join("mail").exists());
    served.grant("read,delete");
    run("two").ends(0);
    assert!(!root.join("mail").exists());
    assert_eq!(read(&home, "two"), "text");
}

#[test]
fn patterns_come_from_files_too_in_the_order_of_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("src")).expect("a folder");
    for name in ["a.o", "keep.o", "b.c", "c.tmp"] {
        write(&at("src").join(name), b"text");
    }
    write(&at("list"), b"# objects\n\n+ keep.o\n*.o\n; and\n- *.tmp\n");
    succeed(folder.path(), &["-r", "--exclude-from", "list", "src", "dst"]);
    let mut names: Vec<_> = fs::read_dir(at("dst"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["b.c", "keep.o"]);
    succeed(folder.path(), &["-r", "--include=a.o", "--exclude-from", "list", "src", "other"]);
    assert!(at("other/a.o").exists());
    cp(folder.path(), &["-r", "--exclude-from", "nothing", "src", "x"]).ends(2);
}

#[test]
fn a_log_has_every_event_whatever_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["source/small", "target/gone"] {
        fs::create_dir(folder.path().join(name).parent().expect("a folder")).expect("a folder");
        write(&folder.path().join(name), b"text");
    }
    let run = |options: &[&str]| {
        let mut command = sealane(&["cp", "-rT", "--log-file=log"]);
        let output = command.args(options).args(["source", "target"]).current_dir(folder.path()).output();
        output.expect("the program starts")
    };
    let output = run(&["--delete"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!text(&output.stdout).contains("small"), "{output:?}");
    let log = fs::read_to_string(folder.path().join("log")).expect("a log");
    for event in ["start", "changed", "deleted", "done"] {
        assert!(log.contains(&format!("{{\"event\":\"{event}\"")), "{event}: {log}");
    }
    assert!(log.contains("small") && log.contains("gone"), "{log}");
    // It is appended to, and a failure is told too.
    let output = run(&["--exclude=[", "--quiet"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let longer = fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(longer.starts_with(&log) && longer.contains("\"event\":\"error\""), "{longer}");
    let mut command = sealane(&["cp", "-rT", "--log-file=no/log", "source", "other"]);
    command.current_dir(folder.path()).ends(5);
    assert!(!folder.path().join("other").exists());
}
