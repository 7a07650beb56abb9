//! The selection of files to copy, as in scp and rsync: followed links, patterns at the far end, lists of files, a
//! folder for backups.

mod program;
mod support;

use program::{Ends, events, sealane, set_mode, text, write, write_script};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};
use support::SSH;
use support::daemon::Served;

fn cp(folder: &Path, arguments: &[&str]) -> Output {
    let ssh = folder.join("ssh");
    if !ssh.exists() {
        write_script(&ssh, SSH);
    }
    let mut command = sealane(&["cp", "--remote-program", env!("CARGO_BIN_EXE_sealane"), "--timeout", "20"]);
    command.args(arguments).current_dir(folder).env("SEALANE_SSH", ssh);
    command.output().expect("the program starts")
}

#[track_caller]
fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = cp(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[track_caller]
fn fail(folder: &Path, arguments: &[&str], code: i32, said: &str) {
    let output = cp(folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
}

/// Returns the paths below a folder, except for journals, with `@` behind links and `/` behind empty folders.
fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("UTF-8");
        let file_type = entry.file_type().expect("a type");
        // This is the journal of a copy that a repetition may complete.
        if name.starts_with(".sealane-") {
            continue;
        }
        if file_type.is_dir() {
            let below = names(&entry.path());
            match below.is_empty() {
                true => found.push(format!("{name}/")),
                false => found.extend(below.into_iter().map(|below| format!("{name}/{below}"))),
            }
        } else {
            found.push(format!("{name}{}", if file_type.is_symlink() { "@" } else { "" }));
        }
    }
    found.sort();
    found
}

#[track_caller]
fn check(folder: &Path, expected: &str) {
    assert_eq!(names(folder).join(" "), expected, "{}", folder.display());
}

/// Makes a folder with links of all kinds.
fn links(folder: &Path) {
    for path in ["tree/sub", "elsewhere"] {
        fs::create_dir_all(folder.join(path)).expect("a folder");
    }
    write(&folder.join("tree/file"), b"text");
    write(&folder.join("tree/sub/large"), &program::pattern(300_000));
    write(&folder.join("elsewhere/far"), b"far");
    symlink("file", folder.join("tree/to-file")).expect("a link");
    symlink("../elsewhere", folder.join("tree/to-folder")).expect("a link");
    symlink("sub/large", folder.join("tree/to-large")).expect("a link");
    symlink("tree/file", folder.join("link")).expect("a link");
    symlink("tree", folder.join("link-to-tree")).expect("a link");
}

#[test]
fn links_on_the_command_line_are_followed_as_scp_does() {
    let folder = tempfile::tempdir().expect("a folder");
    links(folder.path());
    for (number, from) in ["", "far:"].into_iter().enumerate() {
        let into = format!("into{number}/");
        let here = folder.path().display();
        let of = |name: &str| if from.is_empty() { name.to_owned() } else { format!("{from}{here}/{name}") };
        succeed(folder.path(), &[&of("link"), &into]);
        succeed(folder.path(), &["-r", &of("link-to-tree"), &into]);
        let tree = "link-to-tree/file link-to-tree/sub/large link-to-tree/to-file@ link-to-tree/to-folder@ \
                    link-to-tree/to-large@";
        check(&folder.path().join(&into), &format!("link {tree}"));
        // With -a the link is kept, and also in a move.
        let kept = format!("kept{number}/");
        succeed(folder.path(), &["-a", &of("link"), &of("link-to-tree"), &kept]);
        check(&folder.path().join(&kept), "link-to-tree@ link@");
        fail(folder.path(), &[&of("gone-link"), &into], 5, "No such file");
    }
    let moved = folder.path().join("moved");
    symlink("tree/file", folder.path().join("to-move")).expect("a link");
    succeed(folder.path(), &["--remove-source-files", "to-move", "moved"]);
    assert!(moved.is_symlink() && folder.path().join("tree/file").exists());
    assert!(!folder.path().join("to-move").is_symlink());
    fail(folder.path(), &["link", "tree/file"], 2, "are the same");
}

#[test]
fn all_links_are_followed_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    links(folder.path());
    let tree = "file sub/large to-file to-folder/far to-large";
    let far = format!("far:{}/tree", folder.path().display());
    for (number, from) in ["tree", &far].into_iter().enumerate() {
        let into = format!("into{number}");
        succeed(folder.path(), &["-rLT", from, &into]);
        check(&folder.path().join(&into), tree);
        assert_eq!(
            fs::read(folder.path().join(&into).join("to-large")).ok(),
            Some(program::pattern(300_000))
        );
        // In the second run nothing is sent again, and a mirror keeps the files.
        let told = succeed(folder.path(), &["-rLT", "--json", "--delete", from, &into]);
        let done = events(told.as_bytes()).pop().expect("an event");
        assert_eq!((done["skipped"].as_u64(), done["deleted"].as_u64()), (Some(8), Some(0)), "{done}");
    }
    // A circle and a dangling link are reported, and the rest is copied.
    symlink("..", folder.path().join("tree/sub/circle")).expect("a link");
    symlink("nowhere", folder.path().join("tree/dangling")).expect("a link");
    cp(folder.path(), &["-rLT", "tree", "told"]).complains(1, &["tree/sub/circle", "tree/dangling"]);
    check(&folder.path().join("told"), tree);
    fail(folder.path(), &["-L", "--remove-source-files", "link", "x"], 2, "cannot be used with");
}

#[test]
fn a_daemon_follows_no_link_out_of_its_folder() {
    let mut served = Served::start(None);
    let (root, home) = (served.root(), served.home());
    fs::create_dir_all(root.join("tree")).expect("a folder");
    fs::create_dir(root.join("beside")).expect("a folder");
    let outside = root.parent().expect("a parent").join("outside");
    write(&outside, b"secret");
    write(&root.join("tree/file"), b"text");
    write(&root.join("beside/file"), b"beside");
    symlink("../../outside", root.join("tree/leak")).expect("a link");
    symlink(&outside, root.join("tree/absolute")).expect("a link");
    symlink("file", root.join("tree/good")).expect("a link");
    symlink("../outside", root.join("leak")).expect("a link");
    symlink("beside/file", root.join("good")).expect("a link");
    let into = home.join("into");
    let get = |arguments: &[&str], path: &str| {
        let mut command = sealane(&["cp", "--accept-new"]);
        command.args(arguments).args([&served.place(path), into.to_str().expect("UTF-8")]);
        command.env("HOME", &home).output().expect("the program starts")
    };
    fs::create_dir(&into).expect("a folder");
    get(&["-rL"], "tree").ends(1);
    check(&into, "tree/file tree/good");
    for (path, code) in [("leak", 3), ("good", 0)] {
        let output = get(&[], path);
        assert_eq!(output.status.code(), Some(code), "{path}: {}", text(&output.stderr));
    }
    assert_eq!(fs::read(into.join("good")).ok().as_deref(), Some(&b"beside"[..]));
    // A pattern finds links, and does not lead outside any more than paths do.
    let output = get(&[], "*");
    assert_ne!(output.status.code(), Some(0));
    for pattern in ["../*", "tree/../../*", "leak/*"] {
        let output = get(&["-r"], pattern);
        assert_ne!(output.status.code(), Some(0), "{pattern}");
    }
    let there = names(&into);
    assert!(there.iter().all(|name| !name.contains("leak") && !name.contains("outside")), "{there:?}");
    assert!(served.is_alive());
}

#[test]
fn patterns_are_expanded_at_the_far_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for path in ["far/one", "far/two", "into"] {
        fs::create_dir_all(at(path)).expect("a folder");
    }
    for path in [
        "far/a.log",
        "far/b.log",
        "far/c.txt",
        "far/.hidden.log",
        "far/one/x.log",
        "far/two/x.txt",
        "far/two/y.log",
        "far/[odd].log",
        "far/sp ace.log",
    ] {
        write(&at(path), path.as_bytes());
    }
    symlink("c.txt", at("far/l.log")).expect("a link");
    let far = |name: &str| format!("host:{}/far/{name}", folder.path().display());
    let into = |number: u32| format!("into{number}/");
    succeed(folder.path(), &[&far("*.log"), &into(1)]);
    check(&at("into1"), "[odd].log a.log b.log l.log sp ace.log");
    assert_eq!(fs::read(at("into1/l.log")).ok().as_deref(), Some(&b"far/c.txt"[..]), "a link is followed");
    // In the second run nothing is sent.
    let told = succeed(folder.path(), &["--json", &far("*.log"), &into(1)]);
    assert_eq!(events(told.as_bytes()).pop().expect("an event")["skipped"], 5);
    succeed(folder.path(), &[&far("*/[x-z].log"), &far("?.txt"), &into(2)]);
    check(&at("into2"), "c.txt x.log y.log");
    // An existing name with exactly this spelling takes precedence over the pattern.
    succeed(folder.path(), &[&far("[odd].log"), &into(3)]);
    check(&at("into3"), "[odd].log");
    // Folders are copied with -r, and reported without it.
    succeed(folder.path(), &["-r", &far("*o*"), &into(4)]);
    check(&at("into4"), "[odd].log a.log b.log l.log one/x.log sp ace.log two/x.txt two/y.log");
    fail(folder.path(), &[&far("t*"), &into(5)], 1, "far/two");
    fail(folder.path(), &[&far("*.zip"), &into(5)], 5, "no file matches");
    fail(folder.path(), &["-r", "--delete", &far("t*"), &into(5)], 3, "patterns");
    // A target that is a file does not accept a pattern.
    fail(folder.path(), &[&far("*.log"), "far/c.txt"], 2, "not a directory");
    // On this host the shell expands patterns; a quoted star is a name.
    fail(folder.path(), &["far/*.log", &into(6)], 5, "No such file");
}

#[test]
fn a_list_says_what_is_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for path in ["src/a/b", "src/c", "src/e"] {
        fs::create_dir_all(at(path)).expect("a folder");
    }
    for path in
        ["src/a/b/deep", "src/a/b/other", "src/a/x", "src/c/in", "src/d", "src/e/f", "src/line\nbreak"]
    {
        write(&at(path), path.as_bytes());
    }
    set_mode(at("src/a"), 0o750);
    symlink("d", at("src/link")).expect("a link");
    write(&at("list"), b"# wanted\n/a/b/deep\n\nc\nd\nlink\n./a/b/../x\na/b/deep\n");
    let far = format!("host:{}", folder.path().display());
    for (number, (from, to)) in [
        ("src".to_owned(), String::new()),
        (format!("{far}/src"), String::new()),
        ("src".to_owned(), format!("{far}/")),
    ]
    .into_iter()
    .enumerate()
    {
        let into = format!("into{number}");
        let target = format!("{to}{into}");
        succeed(folder.path(), &["-a", "--files-from", "list", &from, &target]);
        // As with rsync, a folder is copied without its contents, unless -r is given too.
        check(&at(&into), "a/b/deep a/x c/ d link@");
        assert_eq!(fs::metadata(at(&into).join("a")).expect("a folder").permissions().mode() & 0o777, 0o750);
        let told = succeed(folder.path(), &["-r", "--json", "--files-from", "list", &from, &target]);
        check(&at(&into), "a/b/deep a/x c/in d link@");
        let done = events(told.as_bytes()).pop().expect("an event");
        assert!(done["skipped"].as_u64() >= Some(3), "{done}");
    }
    // A missing entry is reported; the rest is copied. A filter leaves out entries of the list.
    write(&at("list"), b"d\nmissing/x\ne/f\n");
    fail(folder.path(), &["--files-from", "list", "src", "told"], 1, "missing/x");
    check(&at("told"), "d e/f");
    succeed(
        folder.path(),
        &["--exclude", "/e", "--exclude", "missing", "--files-from", "list", "src", "filtered"],
    );
    check(&at("filtered"), "d");
    write(&at("list"), b"../elsewhere\n");
    fail(folder.path(), &["--files-from", "list", "src", "x"], 2, "not a path below the source");
    fail(folder.path(), &["--files-from", "nothing", "src", "x"], 2, "nothing");
    fail(folder.path(), &["--files-from", "list", "src", "src", "x"], 2, "one source");
    fail(folder.path(), &["-r", "--delete", "--files-from", "list", "src", "x"], 2, "cannot be used with");
    // The list is read from standard input, with zero bytes.
    let mut child = sealane(&["cp", "-0", "--files-from", "-", "src", "piped"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, b"line\nbreak\0a/x\0").expect("it reads");
    drop(input);
    child.wait_with_output().expect("it ends").ends(0);
    check(&at("piped"), "a/x line\nbreak");
}

#[test]
fn long_lists_go_in_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("src")).expect("a folder");
    let long = "n".repeat(200);
    let mut list = String::new();
    for number in 0..4000 {
        let name = format!("{number}-{long}");
        if number % 100 == 0 {
            write(&at("src").join(&name), b"text");
        }
        list += &format!("{name}\n");
    }
    write(&at("list"), list.as_bytes());
    let output =
        cp(folder.path(), &["-q", "--files-from", "list", &format!("host:{}", at("src").display()), "into"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr).len());
    assert_eq!(names(&at("into")).len(), 40);
    write(&at("list"), "n/".repeat(5 << 20).as_bytes());
    fail(folder.path(), &["--files-from", "list", "src", "into"], 2, "longer than 8 MiB");
}

#[test]
fn backups_can_have_a_folder_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("src/sub")).expect("a folder");
    fs::create_dir_all(at("dst/sub")).expect("a folder");
    fs::create_dir_all(at("dst/gone")).expect("a folder");
    let large = program::pattern(400_000);
    for (path, content) in [
        ("src/small", b"new small".as_slice()),
        ("src/sub/large", &large),
        ("dst/small", b"older small"),
        ("dst/sub/large", b"old large"),
        ("dst/gone/extra", b"old extra"),
    ] {
        write(&at(path), content);
    }
    succeed(folder.path(), &["-rT", "--delete", "--backup-dir", "old/today", "src", "dst"]);
    check(&at("dst"), "old/today/gone/extra old/today/small old/today/sub/large small sub/large");
    assert_eq!(fs::read(at("dst/old/today/sub/large")).ok().as_deref(), Some(&b"old large"[..]));
    assert_eq!(fs::read(at("dst/small")).ok().as_deref(), Some(&b"new small"[..]));
    // A mirror leaves the backups; a suffix is respected there too.
    write(&at("src/small"), b"newer small");
    succeed(folder.path(), &["-rT", "--delete", "--backup-dir", "old", "--suffix", ".was", "src", "dst"]);
    check(
        &at("dst"),
        "old/small.was old/today/gone/extra old/today/small old/today/sub/large small sub/large",
    );
    // The backup of a single file lies beside the target.
    succeed(folder.path(), &["--backup-dir", "kept", "src/sub/large", "dst/small"]);
    assert_eq!(fs::read(at("dst/kept/small")).ok().as_deref(), Some(&b"newer small"[..]));
    fail(folder.path(), &["--backup-dir", "../out", "src/small", "dst"], 2, "below the target");
    fail(folder.path(), &["--backup-dir", "/abs", "src/small", "dst"], 2, "below the target");
}
