//! Tests of `--delete`: files that are deleted, files that remain, and cases in which nothing is deleted.

mod program;
mod support;

use program::{Ends, events, sealane, text, write, write_script};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use support::daemon::Served;
use support::{SSH, tree};

/// Returns the names below a folder, including links and empty folders.
fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("UTF-8");
        if entry.file_type().expect("a type").is_dir() {
            found.extend(names(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        }
        found.push(name);
    }
    found.sort();
    found
}

/// Makes a source `src`, a target `dst/src` with additional files, and files beside both that are not named.
fn set(folder: &Path) {
    for path in
        ["src/sub", "dst/src/sub/old", "dst/src/gone/deep/er", "dst/src/empty", "dst/other", "outside"]
    {
        fs::create_dir_all(folder.join(path)).expect("a folder");
    }
    for path in [
        "src/a",
        "src/sub/b",
        "dst/src/a",
        "dst/src/extra",
        "dst/src/.hidden",
        "dst/src/sub/old/x",
        "dst/src/gone/deep/er/y",
        "dst/src/keep.o",
        "dst/other/z",
        "dst/beside",
        "outside/secret",
    ] {
        write(&folder.join(path), b"text");
    }
    symlink("../../outside", folder.join("dst/src/link")).expect("a link");
    symlink("../../../outside", folder.join("dst/src/gone/link")).expect("a link");
}

const BEFORE: &str = ".hidden a empty extra gone gone/deep gone/deep/er gone/deep/er/y gone/link keep.o link sub sub/old \
                      sub/old/x";

fn cp(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = sealane(&["cp"]);
    command.args(arguments).current_dir(folder).output().expect("the program starts")
}

#[track_caller]
fn untouched(folder: &Path) {
    assert_eq!(names(&folder.join("outside")), ["secret"]);
    assert_eq!(names(&folder.join("dst/other")), ["z"]);
    assert!(folder.join("dst/beside").exists());
}

#[test]
fn what_the_source_does_not_have_goes_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path());
    let output = cp(folder.path(), &["-rv", "--delete", "--exclude", "*.o", "src", "dst"]).ends(0);
    assert_eq!(names(&folder.path().join("dst/src")).join(" "), "a keep.o sub sub/b");
    untouched(folder.path());
    let told = text(&output.stdout).lines().filter(|line| line.starts_with("*deleting   src/")).count();
    assert_eq!(told, 11, "{}", text(&output.stdout));
    // There is nothing left to do.
    let output = cp(folder.path(), &["-r", "--json", "--delete", "--exclude", "*.o", "src", "dst"]);
    let done = events(&output.stdout).pop().expect("an event");
    assert_eq!((done["event"].as_str(), done["deleted"].as_u64()), (Some("done"), Some(0)), "{done}");
}

#[test]
fn a_folder_with_something_protected_in_it_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path());
    write(&folder.path().join("dst/src/gone/deep/keep.o"), b"text");
    cp(folder.path(), &["-r", "--delete", "--exclude=*.o", "src", "dst"]).ends(0);
    let left = "a gone gone/deep gone/deep/keep.o keep.o sub sub/b";
    assert_eq!(names(&folder.path().join("dst/src")).join(" "), left);
}

#[test]
fn a_dry_run_lists_and_deletes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path());
    let output = cp(folder.path(), &["-rn", "--delete", "src", "dst"]).ends(0);
    assert_eq!(names(&folder.path().join("dst/src")).join(" "), BEFORE);
    assert!(text(&output.stdout).contains("*deleting   src/gone/deep/er/y\n"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("and delete 12; nothing was changed"), "{}", text(&output.stderr));
}

#[test]
fn a_limit_is_kept_by_deleting_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path());
    cp(folder.path(), &["-r", "--delete", "--max-delete", "11", "src", "dst"])
        .complains(1, &["more than 11 entries"]);
    assert_eq!(
        names(&folder.path().join("dst/src")).join(" "),
        BEFORE.replace("sub sub/old", "sub sub/b sub/old")
    );
    cp(folder.path(), &["-r", "--delete", "--max-delete", "12", "src", "dst"]).ends(0);
    assert_eq!(names(&folder.path().join("dst/src")).join(" "), "a sub sub/b");
}

#[test]
fn nothing_goes_where_the_source_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path());
    cp(folder.path(), &["-r", "--delete", "src", "missing", "dst"])
        .complains(1, &["nothing was deleted, because not all of the source could be read"]);
    assert_eq!(
        names(&folder.path().join("dst/src")).join(" "),
        BEFORE.replace("sub sub/old", "sub sub/b sub/old")
    );
}

#[test]
fn a_target_that_is_a_link_to_a_folder_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path());
    fs::rename(folder.path().join("dst/src"), folder.path().join("real")).expect("a move");
    symlink("../real", folder.path().join("dst/src")).expect("a link");
    let before = names(&folder.path().join("real"));
    cp(folder.path(), &["-r", "--delete", "src", "dst"]);
    assert_eq!(names(&folder.path().join("real")), before);
}

#[test]
fn a_name_that_holds_all_and_a_folder_by_name_are_not_mixed() {
    let folder = tempfile::tempdir().expect("a folder");
    set(folder.path());
    for arguments in [&["-r", "--delete", "src", "outside/.", "dst"][..], &["--delete", "src/a", "dst"]] {
        let output = cp(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
    untouched(folder.path());
    // The contents of the folder replace those of the target.
    cp(folder.path(), &["-r", "--delete", "src/.", "dst/src/"]).ends(0);
    assert_eq!(names(&folder.path().join("dst/src")).join(" "), "a sub sub/b");
    untouched(folder.path());
}

/// The folders that are equal are compared by digests, and none of their names are told.
#[test]
fn a_second_mirror_deletes_what_came_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |path: &str| folder.path().join(path);
    for name in ["src/same/deep", "src/other", "src/third"] {
        fs::create_dir_all(at(name)).expect("a folder");
        for number in 0..5 {
            write(&at(&format!("{name}/{number}")), b"text");
        }
    }
    let expected = names(&at("src"));
    // Into a folder by its name, and as the contents of the target itself.
    for (source, target, mirror) in [("src", "dst", "dst/src"), ("src/.", "flat", "flat")] {
        let run = |more: &[&str]| {
            let output = cp(folder.path(), &[&["-av", "--delete"], more, &[source, target]].concat()).ends(0);
            text(&output.stdout).lines().filter(|line| line.starts_with("*deleting")).count()
        };
        fs::create_dir_all(at(target)).expect("a folder");
        assert_eq!(run(&[]), 0);
        assert_eq!(run(&[]), 0, "nothing is deleted of what is equal");
        assert_eq!(names(&at(mirror)), expected);
        let there = |path: &str| at(&format!("{mirror}/{path}"));
        write(&there("other/new"), b"text");
        write(&there("same/deep/kept.o"), b"text");
        fs::create_dir_all(there("third/more/deeper")).expect("a folder");
        write(&there("third/more/deeper/file"), b"text");
        write(&there("top"), b"text");
        // The excluded one makes no folder differ, and stays.
        let exclude = ["--exclude", "*.o"];
        assert_eq!(run(&[&exclude[..], &["-n"]].concat()), 5);
        assert_eq!(run(&exclude), 5);
        let with_kept = names(&at(mirror));
        assert_eq!(
            with_kept.iter().filter(|name| !expected.contains(name)).collect::<Vec<_>>(),
            ["same/deep/kept.o"]
        );
        assert_eq!(run(&exclude), 0);
        assert_eq!(names(&at(mirror)), with_kept);
        assert_eq!(run(&[&exclude[..], &["--delete-excluded"]].concat()), 1);
        assert_eq!(names(&at(mirror)), expected);
    }
}

#[test]
fn it_works_every_way_and_a_daemon_asks_for_the_right_to() {
    let served = Served::start(None);
    let (home, root) = (served.home(), served.root());
    let ssh = home.join("ssh");
    write_script(&ssh, SSH);
    let run = |case: &Path, way: &str, more: &[&str]| {
        let name = case.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
        let local = |path: &str| case.join(path).to_str().expect("UTF-8").to_owned();
        let far = |path: &str| match way.starts_with("ssh") {
            true => format!("there:{}", local(path)),
            false => format!("sealane://{}/{name}/{path}", served.address),
        };
        let (from, to) = match way.ends_with("push") {
            true => (local("src"), far("dst")),
            false => (far("src"), local("dst")),
        };
        let mut command = Command::new(program::path());
        command.args(["cp", "-r", "--delete", "--accept-new", "--remote-program"]).arg(program::path());
        command.args(more).args([from, to]).env("HOME", &home).env("SEALANE_SSH", &ssh);
        command.output().expect("the program starts")
    };
    let mirrored = "a sub sub/b";
    for (number, way) in ["ssh push", "ssh pull", "daemon pull"].into_iter().enumerate() {
        let case = root.join(number.to_string());
        set(&case);
        let listed = run(&case, way, &["-n"]);
        assert!(text(&listed.stdout).contains("*deleting   src/extra\n"), "{way}: {}", text(&listed.stdout));
        let output = run(&case, way, &[]);
        assert_eq!(output.status.code(), Some(0), "{way}: {}", text(&output.stderr));
        assert_eq!(names(&case.join("dst/src")).join(" "), mirrored, "{way}");
        untouched(&case);
    }
    let case = root.join("daemon");
    set(&case);
    run(&case, "daemon push", &[]).complains(3, &["no right to delete"]);
    assert_eq!(names(&case.join("dst/src")).join(" "), BEFORE);
    served.grant("read,write,delete");
    let output = run(&case, "daemon push", &["-v"]).ends(0);
    assert!(text(&output.stdout).contains("*deleting   src/link\n"), "{}", text(&output.stdout));
    assert_eq!(names(&case.join("dst/src")).join(" "), mirrored);
    untouched(&case);
    assert_eq!(tree::files(&case.join("outside")).len(), 1);
}
