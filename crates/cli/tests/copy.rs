//! Copies with the program itself, on this machine: files that arrive, messages, and exit statuses.

mod program;

use program::{Ends, events, eventually, hex, pattern, sealane, set_mode, text, wait_for, write};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_file_arrives_in_silence() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    for bytes in [0, 1, 65_535, 65_536, 3_000_001] {
        write(&source, &pattern(bytes));
        let output = sealane(&["cp"]).arg(&source).arg(&target).ends(0);
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output.stderr));
        assert!(fs::read(&target).expect("the copy") == pattern(bytes), "{bytes} bytes differ");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 2, "something was left behind");
}

#[test]
fn every_level_carries_the_same_bytes_and_says_which_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write(&source, &pattern(1_000_003));
    for level in ["clear", "authenticated", "safe", "private"] {
        let arguments = ["cp", "--json", "--level", level, "--streams", "2", "--lanes", "2"];
        let output = sealane(&arguments).arg(&source).arg(&target).ends(0);
        let events = events(&output.stdout);
        assert_eq!(events.first().expect("a first line")["event"], "start");
        let done = events.last().expect("a last line");
        assert_eq!((&done["event"], &done["level"]), (&"done".into(), &level.into()));
        assert_eq!((&done["bytes"], &done["files"]), (&1_000_003.into(), &1.into()));
        // So small a file may have arrived before the second stream is connected.
        assert!(matches!(done["streams"].as_u64(), Some(1 | 2)) && done["lanes"] == 2, "{done}");
        for number in ["seconds", "resent_bytes"] {
            assert!(done[number].is_number(), "{number} in {done}");
        }
        for end in ["local", "remote"] {
            assert!(done["cpu_seconds"][end].is_number(), "{end} in {done}");
        }
        for name in ["suite", "placement", "tier"] {
            assert!(done[name].is_string(), "{name} in {done}");
        }
        assert!(fs::read(&target).expect("the copy") == pattern(1_000_003), "{level}");
        fs::remove_file(&target).expect("the copy");
    }
}

#[test]
fn threads_of_an_engine_seal_and_open_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write(&source, &pattern(5_000_003));
    let arguments = ["cp", "--json", "--level", "private", "--streams", "2", "--lanes", "2", "--engine"];
    for engine in ["lanes", "lanes:1", "lanes:3", "hybrid:inline,lanes", "fail-over:lanes:1,inline"] {
        let output =
            sealane(&arguments).arg(engine).arg(&source).arg(&target).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{engine}: {}", text(&output.stdout));
        assert!(fs::read(&target).expect("the copy") == pattern(5_000_003), "{engine}");
        fs::remove_file(&target).expect("the copy");
    }
    let output = sealane(&arguments).arg("cart").arg(&source).arg(&target).ends(2);
    // The output has one object per line, also for errors in arguments.
    assert!(text(&output.stdout).contains("inline, lanes[:N"), "{}", text(&output.stdout));
}

#[test]
fn a_tree_arrives_with_what_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("tree"), folder.path().join("copy"));
    fs::create_dir_all(source.join("sub/deeper")).expect("folders");
    write(&source.join("one"), b"1");
    write(&source.join("sub/program"), &pattern(100_000));
    write(&source.join("sub/left.o"), b"no");
    set_mode(source.join("sub/program"), 0o751);
    symlink("../one", source.join("sub/link")).expect("a link");
    fs::hard_link(source.join("one"), source.join("sub/deeper/same")).expect("a hard link");

    let arguments = ["cp", "-a", "--exclude", "*.o"];
    sealane(&arguments).arg(&source).arg(&target).ends(0);
    assert_eq!(fs::read(target.join("one")).expect("the copy"), b"1");
    assert!(fs::read(target.join("sub/program")).expect("the copy") == pattern(100_000));
    let mode = fs::metadata(target.join("sub/program")).expect("the copy").permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
    assert_eq!(fs::read_link(target.join("sub/link")).expect("a link"), Path::new("../one"));
    let inode = |name: &str| fs::metadata(target.join(name)).expect("the copy").ino();
    assert_eq!(inode("one"), inode("sub/deeper/same"));
    assert!(!target.join("sub/left.o").exists());
}

#[test]
fn digests_are_those_of_the_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write(&source, &pattern(200_000));
    let output = sealane(&["cp", "--digest"]).arg(&source).arg(&target).ends(0);
    let digest = hex(blake3::hash(&pattern(200_000)).as_bytes());
    assert_eq!(text(&output.stdout), format!("{digest}  b\n"));
}

#[test]
fn the_facts_come_at_the_end_where_they_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write(&source, &pattern(1_000));
    let output = sealane(&["cp", "--stats"]).arg(&source).arg(&target).output().expect("the program starts");
    assert!(output.stdout.is_empty());
    for name in ["bytes", "seconds", "CPU s/GiB", "level", "suite", "streams", "lanes"] {
        assert!(text(&output.stderr).lines().any(|line| line.starts_with(name)), "{name} is missing");
    }
}

#[test]
fn a_dry_run_lists_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("tree"), folder.path().join("copy"));
    fs::create_dir(&source).expect("a folder");
    write(&source.join("one"), b"1");
    let output =
        sealane(&["cp", "-r", "--dry-run"]).arg(&source).arg(&target).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).lines().any(|line| line.ends_with("one")), "{}", text(&output.stdout));
    assert!(!target.exists());
}

#[test]
fn a_missing_source_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("nothing"), folder.path().join("b"));
    let output = sealane(&["cp"]).arg(&source).arg(&target).ends(5);
    assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing"));

    let output = sealane(&["cp", "--json"]).arg(&source).arg(&target).ends(5);
    let events = events(&output.stdout);
    let error = events.last().expect("a last line");
    assert_eq!((&error["event"], &error["kind"]), (&"error".into(), &"io".into()));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(!target.exists());
}

#[test]
fn the_others_are_copied_when_a_source_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (missing, there, target) =
        (folder.path().join("nothing"), folder.path().join("there"), folder.path().join("target"));
    fs::write(&there, "content").expect("a file");
    fs::create_dir(&target).expect("a folder");
    sealane(&["cp"]).args([&missing, &there, &target]).complains(1, &["nothing"]);
    assert_eq!(fs::read(target.join("there")).expect("the copy"), b"content");
}

#[test]
fn a_folder_is_not_copied_into_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("sub")).expect("a folder");
    let output =
        sealane(&["cp", "-r"]).args([&tree, &tree.join("sub")]).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("into itself"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(tree.join("sub")).expect("a folder").count(), 0);
}

#[test]
fn a_folder_in_the_place_of_a_file_is_refused_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tree, file) = (folder.path().join("tree"), folder.path().join("file"));
    fs::create_dir(&tree).expect("a folder");
    for name in ["a", "b", "c"] {
        fs::write(tree.join(name), name).expect("a file");
    }
    fs::write(&file, "content").expect("a file");
    let output = sealane(&["cp", "-r"]).args([&tree, &file]).ends(5);
    let said = text(&output.stderr);
    assert!(said.contains("file is a regular file, not a directory") && !said.contains("file/a"), "{said}");
    assert_eq!(fs::read(&file).expect("the file"), b"content");
}

#[test]
fn a_folder_is_left_out_without_recursion_and_named_as_it_was_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("tree"), folder.path().join("copy"));
    fs::create_dir(&source).expect("a folder");
    let output = sealane(&["cp"]).arg(&source).arg(&target).ends(1);
    let said = format!("sealane: {} is a directory; -r copies it", source.display());
    assert!(text(&output.stderr).starts_with(&said), "{}", text(&output.stderr));
    assert!(!target.exists());
}

#[test]
fn what_fails_is_named_whatever_its_name_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("it")).expect("a socket");
    fs::create_dir(folder.path().join("tree")).expect("a folder");
    let output =
        sealane(&["cp", "it", "copy"]).current_dir(folder.path()).output().expect("the program starts");
    let said = text(&output.stderr);
    assert!(said.starts_with("sealane: it: it is a device, pipe or socket; -D copies it\n"), "{said}");
    let mut both = sealane(&["cp", "--json", "tree", "it", "copy"]);
    let output = both.current_dir(folder.path()).output().expect("the program starts");
    let said = text(&output.stdout);
    let failed: Vec<_> = said.lines().filter(|line| line.contains("entry_failed")).collect();
    for path in ["tree", "it"] {
        let path = format!("\"path\":\"{path}\"");
        assert!(failed.iter().any(|line| line.contains(&path)), "{path} is not in {said}");
    }
}

#[test]
fn what_can_never_be_copied_leaves_no_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("tree"), folder.path().join("into"));
    let copied = target.join("tree/small");
    for made in [&source, &target] {
        fs::create_dir(made).expect("a folder");
    }
    write(&source.join("small"), &pattern(1000));
    let left_in = |folder: &Path| {
        let names = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("an entry"));
        names.filter(|entry| entry.file_name().as_bytes().starts_with(b".sealane")).count()
    };
    let left = || left_in(&target);
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).expect("a socket");
    let copy = || sealane(&["cp", "-r"]).arg(&source).arg(&target).output().expect("the program starts");
    let output = copy().ends(1);
    let said = format!("sealane: {}/socket: it is a device, pipe or socket", source.display());
    assert!(text(&output.stderr).contains(&said), "{}", text(&output.stderr));
    assert_eq!(fs::read(&copied).expect("it is there"), pattern(1000));
    assert_eq!(left(), 0, "a journal for what no repetition can do");

    // A folder cannot become a file.
    let (data, file) = (source.join("data"), folder.path().join("file"));
    fs::create_dir(&data).expect("a folder");
    write(&data.join("a"), &pattern(10));
    write(&file, &pattern(20));
    sealane(&["cp", "-r"]).arg(&data).arg(&file).complains(5, &["is a regular file, not a directory"]);
    assert_eq!(fs::read(&file).expect("it is there"), pattern(20));
    assert_eq!(left_in(folder.path()), 0);
    fs::remove_dir_all(&data).expect("it goes");

    // A failure that may not occur the next time leaves the journal: here a folder is in the file's place.
    fs::remove_file(&copied).expect("it goes");
    fs::create_dir_all(copied.join("inside")).expect("a folder");
    write(&source.join("other"), &pattern(2000));
    let output = copy().ends(1);
    let said = format!("sealane: {} is a directory, not a regular file", copied.display());
    assert!(text(&output.stderr).contains(&said), "{}", text(&output.stderr));
    assert_eq!(left(), 1);
    // A journal that would say nothing is not kept: everything else is there already.
    for entry in fs::read_dir(&target).expect("a folder").flatten() {
        if entry.file_name().as_bytes().starts_with(b".sealane") {
            fs::remove_file(entry.path()).expect("it goes");
        }
    }
    assert_eq!(copy().status.code(), Some(1));
    assert_eq!(left(), 0);
    fs::remove_dir_all(&copied).expect("it goes");
    assert_eq!(copy().status.code(), Some(1));
    assert_eq!(fs::read(&copied).expect("it is there"), pattern(1000));
    assert_eq!(left(), 0);
}

#[test]
fn what_cannot_be_continued_leaves_no_private_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("tree"), folder.path().join("copy"));
    fs::create_dir(&source).expect("a folder");
    write(&source.join("large"), &pattern(12_000_000));
    write(&source.join("small"), &pattern(10));
    set_mode(&source, 0o750);
    let mode_now = || fs::metadata(&target).map(|found| found.permissions().mode() & 0o7777).ok();
    let is_finished = |mode| mode & 0o1002 == 0;
    let stays = || mode_now().is_some_and(|mode| !is_finished(mode));
    let is_left_finished = || mode_now().is_some_and(is_finished);
    // The large file may be sent first, without its folder; a file of the folder's own pack shows that the folder's
    // entry has arrived.
    let is_gone_or_finished = || mode_now().is_none_or(is_finished);
    let cases: [(&str, &str, &dyn Fn() -> bool); 3] = [
        ("--resume", "", &stays),
        ("--no-resume", "small", &is_left_finished),
        ("--no-resume", "", &is_gone_or_finished),
    ];
    for (option, sign, is_right) in cases {
        let child = sealane(&["cp", "-r", option, "--limit-rate", "4M"]).arg(&source).arg(&target).spawn();
        let mut child = child.expect("the program starts");
        wait_for("a sign of the copy", || target.join(sign).exists());
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        assert_eq!(child.wait().expect("it ends").code(), Some(130));
        // Its far end ends a moment later.
        assert!(eventually(is_right), "{option}: {:?}", mode_now());
        let _ = fs::remove_dir_all(&target);
    }
}

#[test]
fn a_file_whose_size_is_untrue_is_not_copied_as_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("b");
    sealane(&["cp", "/proc/self/status"]).arg(&target).complains(1, &["sealane cp - TARGET"]);
    assert!(!target.exists());
}

#[test]
fn standard_input_is_a_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("b");
    let mut child =
        sealane(&["cp", "-"]).arg(&target).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&pattern(300_000)).expect("the program reads");
    drop(stdin);
    child.wait_with_output().expect("it ends").ends(0);
    assert!(fs::read(&target).expect("the copy") == pattern(300_000));
}

#[test]
fn an_interrupted_copy_stops_cleanly_and_goes_on() {
    interrupt_and_go_on(&[]);
}

#[test]
fn an_interrupted_copy_with_digests_goes_on_as_well() {
    let events = interrupt_and_go_on(&["--digest"]);
    let told = events.iter().find(|event| event["event"] == "digest").expect("a digest");
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("a"), &pattern(12_000_000));
    let output = sealane(&["blake3", "a"]).current_dir(folder.path()).output().expect("the program starts");
    assert_eq!(text(&output.stdout).split(' ').next(), told["blake3"].as_str());
}

/// Returns the events of the second run.
fn interrupt_and_go_on(options: &[&str]) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    write(&source, &pattern(12_000_000));
    interrupt_half_way(options, &source, &target);
    assert!(!target.exists(), "an unfinished file has its final name");

    let mut again = sealane(&["cp", "--json"]);
    let output = again.args(options).arg(&source).arg(&target).ends(0);
    let events = events(&output.stdout);
    assert!(events.last().expect("a last line")["resumed_bytes"].as_u64() > Some(0), "{events:?}");
    assert!(fs::read(&target).expect("the copy") == pattern(12_000_000));
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 2, "something was left behind");
    events
}

/// Copies, and interrupts the copy after a part has arrived.
fn interrupt_half_way(options: &[&str], source: &Path, target: &Path) {
    let mut child = sealane(&["cp", "--json", "--limit-rate", "4M"])
        .args(options)
        .arg(source)
        .arg(target)
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while lines.read_line(&mut line).expect("lines") > 0 {
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        if event["event"] == "progress" && event["bytes"].as_u64() >= Some(4_000_000) {
            break;
        }
        line.clear();
    }
    // The interrupt is sent twice, to the process and to its group, as `timeout` does.
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        sleep(Duration::from_millis(2));
    }
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("lines");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
    let last: serde_json::Value =
        serde_json::from_str(rest.lines().last().expect("a last line")).expect("JSON");
    assert_eq!((&last["event"], &last["kind"]), (&"error".into(), &"cancelled".into()));
}

#[test]
fn a_file_goes_on_under_the_name_by_which_it_was_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("a"), folder.path().join("b"));
    let begun = source.join("begun");
    fs::create_dir(&source).expect("a folder");
    write(&begun, &pattern(12_000_000));
    let options = ["-r", "-T", "--hard-links"];
    interrupt_half_way(&options, &source, &target);
    // There are enough of them that some are sent before it, whatever the file system's order.
    let others: Vec<_> = (0..40).map(|number| format!("other{number}")).collect();
    for name in &others {
        fs::hard_link(&begun, source.join(name)).expect("another name");
    }
    let mut again = sealane(&["cp", "--json"]);
    let output = again.args(options).arg(&source).arg(&target).ends(0);
    let events = events(&output.stdout);
    let done = events.last().expect("a last line");
    assert!(done["bytes"].as_u64() < Some(9_000_000), "all of it was sent again: {done}");
    let inode = |name: &str| fs::metadata(target.join(name)).expect("a copy").ino();
    assert!(others.iter().all(|name| inode(name) == inode("begun")), "links became files");
    assert!(fs::read(target.join("begun")).expect("the copy") == pattern(12_000_000));
    assert_eq!(fs::read_dir(&target).expect("the target").count(), 41, "something was left behind");
}
