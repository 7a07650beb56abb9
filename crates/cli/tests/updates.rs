//! Copies over existing entries of the target: attributes are updated as rsync does it, entries of other kinds are
//! replaced or not, and a dry run announces the changes.

mod program;
mod support;

use program::{Ends, events, pattern, set_mode, text, write, write_script};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr, lremovexattr,
    lsetxattr, mknodat, utimensat,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};
use support::SSH;
use support::daemon::Served;

/// The ways to reach source and target.
const WAYS: [&str; 5] = ["local", "ssh push", "ssh pull", "daemon push", "daemon pull"];

/// A daemon whose root holds all cases, so that each is reached in every way.
struct Scene {
    served: Served,
}

impl Scene {
    fn set() -> Self {
        let served = Served::start(None);
        let ssh = served.home().join("ssh");
        write_script(&ssh, SSH);
        served.grant("read,write,delete,owner,set-id");
        Self { served }
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.served.root().join(name);
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    /// Copies `src` of a case to its `dst`.
    fn cp(&self, case: &Path, way: &str, arguments: &[&str]) -> Output {
        let name = case.file_name().expect("a name").to_str().expect("UTF-8");
        let local = |path: &str| case.join(path).to_str().expect("UTF-8").to_owned();
        let far = |path: &str| match way.split_once(' ') {
            Some(("ssh", _)) => format!("there:{}", local(path)),
            Some(_) => format!("sealane://{}/{name}/{path}", self.served.address),
            None => local(path),
        };
        let (from, to) = match way.ends_with("pull") {
            true => (far("src"), local("dst")),
            false => (local("src"), far("dst")),
        };
        let mut command = Command::new(program::path());
        command.args(["cp", "--accept-new", "--remote-program"]).arg(program::path()).args(arguments);
        let home = self.served.home();
        command.args([from, to]).env("SEALANE_SSH", home.join("ssh")).env("HOME", home);
        command.env_remove("XDG_CONFIG_HOME").output().expect("the program starts")
    }
}

fn lines(output: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = text(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns the program's error messages.
fn complaints(output: &Output) -> Vec<String> {
    lines(&output.stderr).into_iter().filter(|line| line.starts_with("sealane: ")).collect()
}

fn age(path: &Path, seconds: u64) {
    let file = fs::File::open(path).expect("it can be opened");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
}

/// Returns all properties of an entry that a copy has to keep.
fn facts(path: &Path) -> String {
    let found = path.symlink_metadata().expect("it is there");
    let content = match found.file_type() {
        kind if kind.is_symlink() => format!("link to {:?}", fs::read_link(path).expect("a link")),
        kind if kind.is_file() => format!("file {}", blake3(&fs::read(path).expect("a file"))),
        kind if kind.is_dir() => "folder".to_owned(),
        _ => "other".to_owned(),
    };
    let mode = if found.is_symlink() { 0 } else { found.mode() & 0o7777 };
    let mut names = vec![0_u8; 4096];
    let length = llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let names = names[..length].split(|&byte| byte == 0).filter(|name| name.starts_with(b"user."));
    let value = |name: &[u8]| {
        let mut value = vec![0_u8; 4096];
        let length = lgetxattr(path, name, value.as_mut_slice()).unwrap_or(0);
        format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(&value[..length]))
    };
    let mut xattrs: Vec<_> = names.map(value).collect();
    xattrs.sort();
    let time = (found.mtime(), found.mtime_nsec());
    format!("{content}, {mode:o}, {time:?}, {}:{}, {xattrs:?}", found.uid(), found.gid())
}

fn blake3(bytes: &[u8]) -> String {
    program::hex(::blake3::hash(bytes).as_bytes())
}

/// Returns the properties of a folder and of everything below it.
fn all_facts(root: &Path) -> BTreeMap<PathBuf, String> {
    fn gather(root: &Path, path: &Path, found: &mut BTreeMap<PathBuf, String>) {
        found.insert(path.strip_prefix(root).expect("it is below").to_owned(), facts(path));
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            for entry in fs::read_dir(path).expect("a folder") {
                gather(root, &entry.expect("an entry").path(), found);
            }
        }
    }
    let mut found = BTreeMap::new();
    gather(root, root, &mut found);
    found
}

fn copy_all(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-aT").args([from, to]).status().expect("cp runs");
    assert!(copied.success());
}

/// A change to an entry of the target. The flag says whether it needs more rights than those of a file's owner.
type Change = (&'static str, bool, fn(&Path));

const CHANGES: &[Change] = &[
    ("same", false, |_| ()),
    ("mode", false, |path| set_mode(path, 0o700)),
    ("unreadable", false, |path| set_mode(path, 0o100)),
    ("time", false, |path| age(path, 1_000_000_001)),
    ("owner", true, |path| lchown(path, Some(7), None).expect("an owner")),
    ("group", true, |path| lchown(path, None, Some(8)).expect("a group")),
    ("xattr", false, |path| {
        lsetxattr(path, "user.kept", b"other", XattrFlags::empty()).expect("an attribute");
    }),
    ("more-xattrs", false, |path| {
        lsetxattr(path, "user.more", b"more", XattrFlags::empty()).expect("an attribute");
    }),
    ("less-xattrs", false, |path| lremovexattr(path, "user.kept").expect("an attribute")),
    ("all", true, |path| {
        lchown(path, Some(7), Some(8)).expect("an owner");
        set_mode(path, 0o600);
        lsetxattr(path, "user.kept", b"other", XattrFlags::empty()).expect("an attribute");
    }),
];

/// Makes entries that the target already has, each with one difference from the source's.
fn set_changes(case: &Path, is_root: bool) {
    let (source, target) = (case.join("src"), case.join("dst"));
    fs::create_dir(&source).expect("a folder");
    let chosen = || CHANGES.iter().filter(|(_, needs_root, _)| is_root || !needs_root);
    for (name, ..) in chosen() {
        let folder = source.join(format!("{name}.d"));
        fs::create_dir(&folder).expect("a folder");
        write(&folder.join("inside"), b"text");
        write(&source.join(name), &pattern(if *name == "all" { 100_000 } else { 100 }));
        for path in [folder.join("inside"), source.join(name), folder] {
            lsetxattr(&path, "user.kept", b"value", XattrFlags::empty()).expect("an attribute");
            age(&path, 1_000_000_000);
        }
    }
    for name in ["link", "elsewhere", "late", "owned"] {
        symlink("same/target", source.join(name)).expect("a link");
        let moment = Timespec { tv_sec: 1_000_000_000, tv_nsec: 5 };
        let times = Timestamps { last_access: moment, last_modification: moment };
        utimensat(CWD, source.join(name), &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
    }
    write(&source.join("one"), b"text");
    fs::hard_link(source.join("one"), source.join("two")).expect("a link");
    age(&source.join("one"), 1_000_000_000);
    age(&source, 1_000_000_000);
    copy_all(&source, &target);
    for (name, _, change) in chosen() {
        change(&target.join(name));
        change(&target.join(format!("{name}.d")));
    }
    fs::remove_file(target.join("elsewhere")).expect("it goes");
    symlink("other/target", target.join("elsewhere")).expect("a link");
    fs::remove_file(target.join("late")).expect("it goes");
    symlink("same/target", target.join("late")).expect("a link");
    if is_root {
        lchown(target.join("owned"), Some(7), Some(8)).expect("an owner");
    }
    age(&target, 1_000_000_000);
}

/// Returns the changes that rsync reports, with paths as we write them.
fn as_ours(said: &[u8]) -> Vec<String> {
    let ours = |line: &String| {
        let (change, path) = line.split_once(' ').expect("a change and a path");
        let path = path.split(" -> ").next().unwrap_or(path).split(" => ").next().unwrap_or(path);
        let path =
            if path == "./" { "dst".to_owned() } else { format!("dst/{}", path.trim_end_matches('/')) };
        format!("{change} {path}")
    };
    let mut said: Vec<_> = lines(said).iter().map(ours).collect();
    said.sort();
    said
}

#[test]
fn attributes_are_brought_up_to_date_as_rsync_does_it() {
    if !Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return program::skip("there is no rsync");
    }
    let scene = Scene::set();
    let probe = scene.folder("probe");
    if lsetxattr(&probe, "user.probe", b"", XattrFlags::empty()).is_err() {
        return program::skip("the file system of temporary files has no extended attributes");
    }
    let is_root = rustix::process::geteuid().is_root();
    let oracle = scene.folder("oracle");
    set_changes(&oracle, is_root);
    let mut rsync = Command::new("rsync");
    rsync.args(["-aXHi"]).arg(oracle.join("src/.")).arg(oracle.join("dst/.")).env("LC_ALL", "C");
    let output = rsync.ends(0);
    let (expected, changed) = (all_facts(&oracle.join("dst")), as_ours(&output.stdout));
    assert!(changed.len() > 10, "{changed:?}");
    for (number, way) in WAYS.into_iter().enumerate() {
        let case = scene.folder(&number.to_string());
        set_changes(&case, is_root);
        let before = all_facts(&case.join("dst"));
        let told = |output: &Output| {
            let told = text(&output.stdout).replace('<', ">");
            lines(told.as_bytes())
        };
        let dry = scene.cp(&case, way, &["-aTnv"]);
        assert_eq!(all_facts(&case.join("dst")), before, "{way}: a dry run changes nothing");
        let output = scene.cp(&case, way, &["-aTv"]);
        assert_eq!(output.status.code(), Some(0), "{way}: {}", text(&output.stderr));
        let after = all_facts(&case.join("dst"));
        for (path, facts) in &expected {
            assert_eq!(after.get(path), Some(facts), "{way}: {}", path.display());
        }
        assert_eq!(after.len(), expected.len(), "{way}");
        assert_eq!(told(&output), changed, "{way}");
        assert_eq!(told(&dry), changed, "{way}: a dry run");
        // Nothing is left to do, and nothing is reported.
        let again = scene.cp(&case, way, &["-aTv", "--backup-dir", "saved"]);
        assert_eq!(
            (again.status.code(), text(&again.stdout)),
            (Some(0), ""),
            "{way}: {}",
            text(&again.stderr)
        );
        assert!(!case.join("dst/saved").exists(), "{way}: what is the same is not saved");
        let again = scene.cp(&case, way, &["-aTn", "--json"]);
        let done = events(&again.stdout).pop().expect("an event");
        assert_eq!((done["files"].as_u64(), done["bytes"].as_u64()), (Some(0), Some(0)), "{way}: {done}");
    }
}

/// A folder's name, how the source's or the target's is changed, and what a copy tells then, of which entry. The flag says whether
/// that needs more rights than those of a file's owner.
type Difference = (&'static str, bool, fn(&Path, &Path), Option<(&'static str, &'static str)>);

/// The content of most files, and times before theirs, theirs, and after it.
const CONTENT: &[u8] = b"content";
const BEFORE: u64 = 900_000_000;
const THEN: u64 = 1_000_000_000;
const AFTER: u64 = 1_100_000_000;

/// Folders have some more files like `x`, and a link to it.
const DIFFERENCES: &[Difference] = &[
    ("same", false, |_, _| (), None),
    ("older", false, |_, dst| put(&dst.join("x"), b"of before", BEFORE), Some((">f.st......", "x"))),
    ("newer", false, |_, dst| put(&dst.join("x"), b"of later", AFTER), None),
    ("added", false, |_, dst| remove(&dst.join("x")), Some((">f+++++++++", "x"))),
    ("gone", false, |src, _| remove(&src.join("x")), Some(("*deleting  ", "x"))),
    ("mode", false, |_, dst| set_mode(dst.join("x"), 0o600), Some((".f...p.....", "x"))),
    ("owner", true, |_, dst| own(&dst.join("x")), Some((".f....o....", "x"))),
    ("xattr", false, |_, dst| mark(&dst.join("x")), Some((".f........x", "x"))),
    ("link", false, |_, dst| link(&dst.join("link"), "y"), Some(("cLc........", "link"))),
    ("file-for-link", false, |_, dst| put(&dst.join("link"), b"x", THEN), Some(("cL+++++++++", "link"))),
    ("link-for-file", false, |_, dst| link(&dst.join("x"), "as long"), Some((">f+++++++++", "x"))),
    ("names", false, |src, dst| join(&src.join("z"), &dst.join("z")), Some(("hf.........", "z"))),
];

fn remove(path: &Path) {
    fs::remove_file(path).expect("it goes");
}

fn own(path: &Path) {
    lchown(path, Some(7), None).expect("an owner");
}

fn mark(path: &Path) {
    lsetxattr(path, "user.more", b"more", XattrFlags::empty()).expect("an attribute");
}

fn put(path: &Path, content: &[u8], seconds: u64) {
    let _ = fs::remove_file(path);
    write(path, content);
    set_mode(path, 0o777);
    age(path, seconds);
}

fn link(path: &Path, to: &str) {
    let _ = fs::remove_file(path);
    symlink(to, path).expect("a link");
    let moment = Timespec { tv_sec: THEN as i64, tv_nsec: 0 };
    let times = Timestamps { last_access: moment, last_modification: moment };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
}

/// Makes another name of `x` at the source, and another file at the target.
fn join(source: &Path, target: &Path) {
    fs::hard_link(source.with_file_name("x"), source).expect("a link");
    put(target, CONTENT, THEN);
}

/// A sender learns of such a folder that most of its files are equal: what differs in any way is sent all the same.
#[test]
fn of_folders_that_are_nearly_equal_what_differs_is_sent_and_nothing_else() {
    let scene = Scene::set();
    let has_xattrs = lsetxattr(scene.folder("probe"), "user.probe", b"", XattrFlags::empty()).is_ok();
    let is_root = rustix::process::geteuid().is_root();
    let chosen = || {
        let rows = DIFFERENCES.iter().filter(|(_, needs_root, ..)| is_root || !needs_root);
        rows.filter(|(name, ..)| has_xattrs || *name != "xattr")
    };
    let mut expected: Vec<_> = chosen()
        .filter_map(|(name, .., told)| told.map(|(change, entry)| format!("{change} dst/{name}/{entry}")))
        .collect();
    // The tree itself, which has no files, differs as well.
    expected.push("*deleting   dst/more".to_owned());
    expected.sort();
    let count = expected.iter().filter(|line| !line.starts_with("*deleting")).count();
    for (number, way) in WAYS.into_iter().enumerate() {
        let case = scene.folder(&format!("nearly{number}"));
        let (source, target) = (case.join("src"), case.join("dst"));
        for (name, ..) in chosen() {
            let folder = source.join(name);
            fs::create_dir_all(&folder).expect("a folder");
            ["0", "1", "2", "3", "4", "x"].iter().for_each(|name| put(&folder.join(name), CONTENT, THEN));
            link(&folder.join("link"), "x");
        }
        copy_all(&source, &target);
        fs::create_dir(target.join("more")).expect("a folder");
        for (name, _, change, _) in chosen() {
            change(&source.join(name), &target.join(name));
            [&source, &target].iter().for_each(|tree| age(&tree.join(name), THEN));
        }
        [&source, &target].iter().for_each(|tree| age(tree, THEN));
        let sent = all_facts(&source);
        let files = sent.values().filter(|facts| facts.starts_with("file ")).count();
        // The target has no version, or another one, of four files, and two names of one file are sent.
        let totals = [count, 3 * CONTENT.len(), sent.len() - count, (files - 5) * CONTENT.len()];
        let run = |more: &str| {
            let output = scene.cp(&case, way, &["-aT", "--delete", "--update", more]);
            assert_eq!(output.status.code(), Some(0), "{way}: {}", text(&output.stderr));
            output
        };
        let dry = run("-nv");
        assert_eq!(lines(text(&dry.stdout).replace('<', ">").as_bytes()), expected, "{way}");
        let done = events(&run("--json").stdout).pop().expect("an event");
        let figures = ["files", "bytes", "skipped", "resumed_bytes"].map(|name| done[name].as_u64());
        assert_eq!(figures, totals.map(|total| Some(total as u64)), "{way}: {done}");
        let mut found = all_facts(&target);
        let newer = found.insert("newer/x".into(), sent[Path::new("newer/x")].clone());
        assert!(
            newer.is_some_and(|facts| facts.contains(&AFTER.to_string())),
            "{way}: a newer file is replaced"
        );
        assert_eq!(found, sent, "{way}");
    }
}

/// Such a folder is told in pieces, which count one by one.
#[test]
fn of_a_folder_with_thousands_of_files_what_differs_is_sent_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("src")).expect("a folder");
    (0..5000).for_each(|number| write(&at("src").join(number.to_string()), b""));
    copy_all(&at("src"), &at("dst"));
    remove(&at("dst/4999"));
    ["src", "dst"].iter().for_each(|tree| age(&at(tree), THEN));
    let output = program::sealane(&["cp", "-rT", "--json"]).args([at("src"), at("dst")]).ends(0);
    let done = events(&output.stdout).pop().expect("an event");
    assert_eq!((done["files"].as_u64(), done["skipped"].as_u64()), (Some(1), Some(5000)), "{done}");
}

#[test]
fn contents_are_compared_and_attributes_brought_up_to_date_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("src")).expect("a folder");
    write(&at("src/f"), b"text");
    copy_all(&at("src"), &at("dst"));
    age(&at("src/f"), 1_000_000_000);
    age(&at("dst/f"), 1_000_000_007);
    set_mode(at("dst/f"), 0o600);
    let mut command = program::sealane(&["cp", "-rTv", "--checksum"]);
    let output = command.args([at("src"), at("dst")]).ends(0);
    assert!(text(&output.stdout).contains(".f..tp..... dst/f\n"), "{}", text(&output.stdout));
    assert_eq!(facts(&at("src/f")), facts(&at("dst/f")));
}

#[test]
fn folders_that_are_there_keep_their_modes_where_nobody_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("src")).expect("a folder");
    fs::create_dir(at("dst")).expect("a folder");
    let mode = || at("dst").metadata().expect("a folder").mode() & 0o777;
    for (folder, mode) in [("src", 0o755), ("dst", 0o700)] {
        set_mode(at(folder), mode);
    }
    for (options, expected) in [("-rT", 0o700), ("-rpT", 0o755)] {
        let mut command = program::sealane(&["cp", "-v", options]);
        let output = command.args([at("src"), at("dst")]).ends(0);
        assert_eq!(mode(), expected, "{options}");
        let told = text(&output.stdout).contains('p');
        assert_eq!(told, options.contains('p'), "{options}: {}", text(&output.stdout));
    }
}

/// The kinds that a source can have under a name.
const NEW: [&str; 5] = ["file", "large", "empty", "full", "link"];
/// The kinds that a target can have there.
const OLD: [&str; 6] = ["nothing", "file", "empty", "full", "link", "special"];

fn make(path: &Path, kind: &str, content: &[u8]) {
    match kind {
        "nothing" => {}
        "file" => write(path, content),
        "large" => write(path, &content.repeat(50_000)),
        "empty" => fs::create_dir(path).expect("a folder"),
        "full" => {
            fs::create_dir_all(path.join("sub/deep")).expect("a folder");
            write(&path.join("inside"), content);
            write(&path.join("sub/deep/keep"), content);
        }
        "link" => symlink(text(content), path).expect("a link"),
        "special" => {
            mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
        }
        other => panic!("{other}"),
    }
}

/// Makes every kind in the place of every other.
fn set_kinds(case: &Path) {
    for (side, kinds, content) in [("src", &NEW[..], &b"new"[..]), ("dst", &OLD[..], b"older")] {
        fs::create_dir(case.join(side)).expect("a folder");
        for new in NEW {
            for old in OLD {
                let kind = if side == "src" { new } else { old };
                assert!(kinds.contains(&kind));
                make(&case.join(side).join(format!("{new}-for-{old}")), kind, content);
            }
        }
    }
}

fn is_folder(kind: &str) -> bool {
    matches!(kind, "empty" | "full")
}

/// Returns whether one kind replaces the other without an option.
fn is_like(new: &str, old: &str) -> bool {
    old == "nothing" || (is_folder(new) == is_folder(old) && old != "special")
}

/// Returns whether the target has everything at `path` that the source has there; folders may have more.
fn has(source: &Path, target: &Path) -> bool {
    let Ok(found) = target.symlink_metadata() else { return false };
    let sent = source.symlink_metadata().expect("it is there");
    if sent.file_type() != found.file_type() {
        return false;
    }
    match (sent.is_dir(), sent.is_file()) {
        (true, _) => fs::read_dir(source).expect("a folder").all(|entry| {
            let name = entry.expect("an entry").file_name();
            has(&source.join(&name), &target.join(&name))
        }),
        (_, true) => fs::read(source).expect("a file") == fs::read(target).expect("a file"),
        _ => fs::read_link(source).expect("a link") == fs::read_link(target).expect("a link"),
    }
}

#[test]
fn a_dry_run_and_the_run_agree_for_every_kind_in_the_place_of_every_other() {
    let scene = Scene::set();
    // Each row has the options, and whether a folder with an entry named `keep` is replaced, and whether any folder
    // is.
    let options: [(&[&str], bool, bool); 6] = [
        (&["-rT"], false, false),
        (&["-aT", "--delete"], true, true),
        (&["-aT", "--delete", "--backup-dir", "saved"], true, true),
        (&["-aT", "--delete", "--suffix", ".old"], true, true),
        (&["-aT", "--delete", "--exclude", "keep"], false, true),
        (&["-aT", "--max-delete", "5"], false, false),
    ];
    for (number, way) in WAYS.into_iter().enumerate() {
        for (index, (options, full_gives_way, folders_give_way)) in options.into_iter().enumerate() {
            let what = format!("{way}, {}", options.join(" "));
            let case = scene.folder(&format!("{number}-{index}"));
            set_kinds(&case);
            let before = all_facts(&case.join("dst"));
            let dry = scene.cp(&case, way, &[options, &["-nv"]].concat());
            assert_eq!(all_facts(&case.join("dst")), before, "{what}: a dry run changes nothing");
            let run = scene.cp(&case, way, &[options, &["-v"]].concat());
            assert_eq!(lines(&dry.stdout), lines(&run.stdout), "{what}");
            assert_eq!(complaints(&dry), complaints(&run), "{what}");
            assert_eq!(dry.status.code(), run.status.code(), "{what}");
            let deletes = options.len() > 1;
            let mut kept = 0;
            for new in NEW {
                for old in OLD {
                    let name = format!("{new}-for-{old}");
                    let (source, target) = (case.join("src").join(&name), case.join("dst").join(&name));
                    let gives_way = match old {
                        "full" if !is_folder(new) => full_gives_way,
                        "empty" if !is_folder(new) => folders_give_way,
                        _ => deletes,
                    };
                    let replaced = is_like(new, old) || (deletes && gives_way);
                    if replaced {
                        let source = match (options.contains(&"--exclude"), new) {
                            // An excluded file is not sent.
                            (true, "full") => source.join("inside"),
                            _ => source,
                        };
                        let target = if source.ends_with("inside") { target.join("inside") } else { target };
                        assert!(has(&source, &target), "{what}: {name}: {}", text(&run.stderr));
                    } else {
                        kept += 1;
                        let path = Path::new(&name);
                        for (path, facts) in before.iter().filter(|(found, _)| found.starts_with(path)) {
                            let now = all_facts(&case.join("dst"));
                            // A folder that was listed may have another time.
                            assert_eq!(now.get(path), Some(facts), "{what}: {}", path.display());
                        }
                        let shown = format!("/{name} ");
                        assert!(complaints(&run).iter().any(|line| line.contains(&shown)), "{what}: {name}");
                    }
                }
            }
            assert_eq!(run.status.code() == Some(0), kept == 0, "{what}: {}", text(&run.stderr));
            let left = all_facts(&case.join("dst"));
            let is_left = |path: &&PathBuf| path.to_string_lossy().contains(".part");
            assert_eq!(left.keys().filter(is_left).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{what}");
            let saved = |path: &str| case.join("dst").join(path).symlink_metadata().is_ok();
            match options.last().copied() {
                Some("saved") => {
                    assert!(
                        saved("saved/file-for-full/sub/deep/keep") && saved("saved/link-for-empty"),
                        "{what}"
                    );
                    assert!(saved("saved/full-for-file") && saved("saved/empty-for-special"), "{what}");
                }
                Some(".old") => {
                    assert!(saved("file-for-full.old/inside") && saved("full-for-link.old"), "{what}");
                }
                _ => {}
            }
            if kept == 0 {
                let again = scene.cp(&case, way, &[options, &["-v"]].concat());
                assert_eq!((again.status.code(), text(&again.stdout)), (Some(0), ""), "{what}");
            }
        }
    }
}

#[test]
fn what_is_replaced_is_there_until_the_new_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for side in ["src", "dst"] {
        fs::create_dir(at(side)).expect("a folder");
    }
    fs::create_dir(at("src/folder")).expect("a folder");
    for number in 0..40 {
        write(&at(&format!("src/folder/{number}")), &pattern(100_000));
    }
    write(&at("src/file"), &pattern(3_000_000));
    write(&at("dst/folder"), b"old");
    fs::create_dir(at("dst/file")).expect("a folder");
    write(&at("dst/file/inside"), b"old");
    let cp = |more: &[&str]| {
        let mut command = program::sealane(&["cp", "-rT", "--delete"]);
        command.args(more).args([at("src"), at("dst")]);
        command
    };
    // The copy is slow enough to be killed in the middle.
    let mut child = cp(&["--limit-rate", "1M"]).spawn().expect("the program starts");
    let begun = || {
        let found = fs::read_dir(at("dst")).expect("a folder").flatten();
        found.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part")).count() == 2
    };
    while !begun() && child.try_wait().expect("its status").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("it is killed");
    child.wait().expect("it has ended");
    assert_eq!(fs::read(at("dst/folder")).expect("a file"), b"old");
    assert_eq!(fs::read(at("dst/file/inside")).expect("a file"), b"old");
    // The same command continues where that one stopped, and leaves nothing behind.
    cp(&["--json"]).ends(0);
    assert!(has(&at("src"), &at("dst")));
    let names: Vec<_> =
        fs::read_dir(at("dst")).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn without_all_of_the_source_nothing_gives_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for path in ["src/folder", "dst/src/file"] {
        fs::create_dir_all(at(path)).expect("a folder");
    }
    for path in ["src/file", "src/folder/inside", "dst/src/file/inside", "dst/src/folder"] {
        write(&at(path), path.as_bytes());
    }
    let before = all_facts(&at("dst/src/file"));
    let mut command = program::sealane(&["cp", "-r", "--delete", "src", "missing", "dst"]);
    command
        .current_dir(folder.path())
        .complains(1, &["dst/src/file is of another kind than what was sent, and was not replaced"]);
    assert_eq!(all_facts(&at("dst/src/file")), before);
    assert_eq!(fs::read(at("dst/src/folder")).expect("a file"), b"dst/src/folder");
}
