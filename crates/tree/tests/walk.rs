//! Tests of walks: names, order, filters, errors, and trees larger than their memory.

#[path = "../../../testing/skip.rs"]
mod skip;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use sealane_tree::{
    Entry, EntryKind, Error, Filter, Naming, RelativePath, Rule, ShownPath, Source, SourceRoot, Target,
    TargetOptions, TempName, WalkOptions,
};

fn source(path: &Path, naming: Naming) -> Source {
    Source::new(vec![SourceRoot::open(path, &naming, true).expect("opens")])
}

/// Returns the sorted names, with a slash behind directories, `@` behind links, `?` behind the rest.
fn names(source: &Source, options: WalkOptions) -> Vec<String> {
    let mut names: Vec<_> = source
        .walk(options)
        .map(|entry| {
            let entry = entry.expect("walks");
            let mark = match entry.kind {
                EntryKind::File => "",
                EntryKind::Directory(_) => "/",
                EntryKind::Symlink => "@",
                EntryKind::Other => "?",
            };
            format!("{}{mark}", entry.path)
        })
        .collect();
    names.sort();
    names
}

fn filtered(rules: &[(bool, &str)]) -> WalkOptions {
    let rules = rules.iter().map(|&(include, pattern)| match include {
        true => Rule::Include(pattern.to_owned()),
        false => Rule::Exclude(pattern.to_owned()),
    });
    WalkOptions { filter: Filter::new(rules).expect("compiles"), ..WalkOptions::default() }
}

fn tree(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        fs::write(path, file).expect("written");
    }
}

#[test]
fn names_follow_cp_and_scp() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    tree(&data, &["x", "sub/y"]);
    symlink("data", dir.path().join("link")).expect("linked");
    symlink("data/x", dir.path().join("file-link")).expect("linked");
    let check = |path: &str, naming: Naming, expected: &[&str]| {
        assert_eq!(
            names(&source(&dir.path().join(path), naming), WalkOptions::default()),
            expected,
            "{path}"
        );
    };
    let contents = ["sub/", "sub/y", "x"];
    check("data", Naming::Basename, &["data/", "data/sub/", "data/sub/y", "data/x"]);
    check("data/", Naming::Basename, &["data/", "data/sub/", "data/sub/y", "data/x"]);
    check("data/.", Naming::Basename, &contents);
    check("data/sub/..", Naming::Basename, &contents);
    check("data", Naming::Contents, &contents);
    let renamed = Naming::As(RelativePath::new("new/name").expect("a path"));
    check("data/sub", renamed.clone(), &["new/name/", "new/name/y"]);
    check("data/x", renamed, &["new/name"]);
    check("data/x", Naming::Basename, &["x"]);
    // A link that the user names is resolved, and keeps the name that the user gave.
    check("link", Naming::Basename, &["link/", "link/sub/", "link/sub/y", "link/x"]);
    check("file-link", Naming::Basename, &["file-link"]);
    let root = SourceRoot::open(&dir.path().join("file-link"), &Naming::Basename, false).expect("opens");
    let unfollowed = Source::new(vec![root]);
    assert_eq!(names(&unfollowed, WalkOptions::default()), ["file-link@"]);
    let file_link = RelativePath::new("file-link").expect("a path");
    let (target, _) = unfollowed.reader().read_link(0, &file_link).expect("reads");
    assert_eq!(target.as_bytes(), b"data/x");

    let followed = source(&dir.path().join("file-link"), Naming::Basename);
    assert_eq!(followed.reader().open(0, &file_link).expect("opens").metadata().size_bytes, 1);
    for missing in ["missing", "data/x/", "data/x/.", ""] {
        let opened = SourceRoot::open(&dir.path().join(missing).join(""), &Naming::Basename, true);
        if !missing.is_empty() {
            assert!(matches!(opened, Err(Error::Root { .. })), "{missing}");
        }
    }
    assert!(SourceRoot::open(Path::new(""), &Naming::Basename, true).is_err());
    assert!(SourceRoot::open(&data.join("x"), &Naming::Contents, true).is_err());
}

#[test]
fn several_roots_are_walked_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    tree(dir.path(), &["a/x", "b/x", "c"]);
    let root = |name: &str| SourceRoot::open(&dir.path().join(name), &Naming::Basename, true).expect("opens");
    let source = Source::new(vec![root("b"), root("c"), root("a")]);
    let found: Vec<_> = source
        .walk(WalkOptions::default())
        .map(|entry| entry.expect("walks"))
        .map(|e| (e.root, e.path))
        .collect();
    let expected = [(0, "b"), (0, "b/x"), (1, "c"), (2, "a"), (2, "a/x")];
    assert_eq!(found, expected.map(|(root, path)| (root, RelativePath::new(path).expect("a path"))));
    let flat = WalkOptions { recursive: false, ..WalkOptions::default() };
    let results: Vec<_> = source.walk(flat).collect();
    assert!(matches!(results[0], Err(Error::SkippedDirectory { .. })));
    assert!(results[1].is_ok());
    assert_eq!(results.len(), 3);
}

#[test]
fn a_directory_is_left_when_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    tree(dir.path(), &["a/x", "a/deep/y", "b/x", "b/deep/y", "c"]);
    let left = |leaves: &[&str]| {
        let mut walk = source(dir.path(), Naming::Contents).walk(WalkOptions::default());
        let mut found = BTreeSet::new();
        while let Some(entry) = walk.next() {
            let path = entry.expect("walks").path.to_string();
            if leaves.contains(&path.as_str()) {
                let _ = walk.leave_but(std::iter::empty());
            }
            found.insert(path);
        }
        let all = names(&source(dir.path(), Naming::Contents), WalkOptions::default());
        let all = all.iter().map(|name| name.trim_end_matches('/'));
        all.filter(|name| !found.contains(*name)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(left(&[]), "");
    assert_eq!(left(&["a"]), "a/deep a/deep/y a/x");
    assert_eq!(left(&["a/deep", "b"]), "a/deep/y b/deep b/deep/y b/x");
    // A file has nothing to leave, and its directory is not left with it.
    assert_eq!(left(&["c", "a/x"]), "");
}

#[test]
fn of_a_directory_some_files_are_walked_if_they_still_are_files() {
    let dir = tempfile::tempdir().expect("a directory");
    tree(dir.path(), &["a/one", "a/two", "a/deep/y", "b"]);
    symlink("one", dir.path().join("a/link")).expect("a link");
    for naming in [Naming::Contents, Naming::As(RelativePath::new("else").expect("a path"))] {
        let prefix = if matches!(naming, Naming::Contents) { "a" } else { "else/a" };
        let source = source(dir.path(), naming);
        let walk = |names: &[&str]| {
            let mut walk = source.walk(WalkOptions::default());
            let is_it = |entry: &Entry| entry.path.as_bytes() == prefix.as_bytes();
            assert!(walk.by_ref().any(|entry| is_it(&entry.expect("walks"))));
            let found = walk.leave_but(names.iter().map(|name| name.as_bytes()));
            let others = walk.map(|entry| entry.expect("walks").path.to_string());
            let below = others.filter(|path| path.starts_with(&format!("{prefix}/"))).count();
            (found.map(|found| found.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()), below)
        };
        assert_eq!(walk(&["two", "gone"]), (Some(vec![format!("{prefix}/two")]), 0));
        for other in ["link", "deep"] {
            let (found, below) = walk(&["two", other]);
            assert_eq!((found, below), (None, 5), "{other}");
        }
    }
}

#[test]
fn filters_work_as_in_rsync() {
    let dir = tempfile::tempdir().expect("a directory");
    tree(dir.path(), &["a.o", "keep.o", "src/a.o", "src/a.c", "target/x", "src/target/y", "target.c"]);
    let source = source(dir.path(), Naming::Contents);
    let check = |rules: &[(bool, &str)], gone: &[&str]| {
        let all: BTreeSet<_> = names(&source, WalkOptions::default()).into_iter().collect();
        let left: BTreeSet<_> = names(&source, filtered(rules)).into_iter().collect();
        assert_eq!(all.difference(&left).map(String::as_str).collect::<Vec<_>>(), gone, "{rules:?}");
    };
    check(&[], &[]);
    check(&[(false, "*.o")], &["a.o", "keep.o", "src/a.o"]);
    check(&[(true, "keep.o"), (false, "*.o")], &["a.o", "src/a.o"]);
    check(&[(false, "*.o"), (true, "keep.o")], &["a.o", "keep.o", "src/a.o"]);
    check(&[(false, "/*.o")], &["a.o", "keep.o"]);
    check(&[(false, "target/")], &["src/target/", "src/target/y", "target/", "target/x"]);
    check(&[(false, "/target")], &["target/", "target/x"]);
    check(&[(false, "src/*.o")], &["src/a.o"]);
    check(&[(false, "/src/target")], &["src/target/", "src/target/y"]);
    check(&[(false, "/src/***")], &["src/", "src/a.c", "src/a.o", "src/target/", "src/target/y"]);
    // The pattern is not anchored and matches a path's end.
    check(&[(false, "target/y")], &["src/target/y"]);
    check(
        &[(true, "*/"), (true, "*.c"), (false, "*")],
        &["a.o", "keep.o", "src/a.o", "src/target/y", "target/x"],
    );
    check(&[(false, "src/**")], &["src/a.c", "src/a.o", "src/target/", "src/target/y"]);
    check(&[(false, "a.o/")], &[]);
    check(&[(false, "target"), (true, "target/x")], &["src/target/", "src/target/y", "target/", "target/x"]);
    check(&[(false, "[ak]*.o"), (true, "src/")], &["a.o", "keep.o", "src/a.o"]);
    assert!(matches!(Filter::new([Rule::Exclude("[".to_owned())]), Err(Error::Pattern { .. })));
}

#[test]
fn trees_deeper_than_the_descriptors_kept_open() {
    const DEPTH: usize = 300;
    let dir = tempfile::tempdir().expect("a directory");
    let mut path = dir.path().to_owned();
    for level in 0..DEPTH {
        // There are entries before and after the subdirectory in any order of the file system.
        path.push("d");
        fs::create_dir(&path).expect("made");
        for name in ["a", "z", "m"] {
            fs::write(path.join(format!("{name}{level}")), "").expect("written");
        }
    }
    let found = names(&source(dir.path(), Naming::Contents), WalkOptions::default());
    assert_eq!(found.len(), DEPTH * 4);
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), DEPTH * 4, "each once");
    let mut directories = BTreeSet::from([String::new()]);
    for entry in source(dir.path(), Naming::Contents).walk(WalkOptions::default()) {
        let entry = entry.expect("walks");
        let parent = entry.path.parent().map(|parent| parent.to_string()).unwrap_or_default();
        assert!(directories.contains(&parent), "{} before its directory", entry.path);
        if matches!(entry.kind, EntryKind::Directory(_)) {
            directories.insert(entry.path.to_string());
        }
    }
}

#[test]
fn what_an_interrupted_copy_left_is_named_and_not_copied() {
    let dir = tempfile::tempdir().expect("a directory");
    let leftover = format!("{:?}", TempName::new(9));
    fs::write(dir.path().join(&leftover), "").expect("a leftover");
    fs::write(dir.path().join("x"), "").expect("a file");
    let walk = source(dir.path(), Naming::Contents).walk(WalkOptions::default());
    let (found, failed): (Vec<_>, Vec<_>) = walk.partition(Result::is_ok);
    assert_eq!(found.len(), 1);
    let [Err(error)] = failed.as_slice() else { panic!("{failed:?}") };
    assert!(matches!(error, Error::ReservedName { .. }) && error.to_string().contains(&leftover), "{error}");
}

#[test]
fn wide_directories_of_any_type() {
    let dir = tempfile::tempdir().expect("a directory");
    for index in 0..3000 {
        fs::write(dir.path().join(format!("a-rather-long-name-of-a-file-{index:05}")), "").expect("written");
    }
    for index in 0..50 {
        tree(dir.path(), &[&format!("d{index}/x")]);
    }
    symlink("x", dir.path().join("link")).expect("linked");
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).expect("bound");
    let found = names(&source(dir.path(), Naming::Contents), WalkOptions::default());
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
    assert_eq!(found.len(), 3000 + 2 * 50 + 2);
    assert!(found.contains(&"link@".to_owned()) && found.contains(&"socket?".to_owned()));
}

#[test]
fn what_cannot_be_read_is_told_and_passed() {
    let dir = tempfile::tempdir().expect("a directory");
    tree(dir.path(), &["a/x", "closed/x", "z/x"]);
    let closed = dir.path().join("closed");
    let set =
        |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    set(dir.path(), 0o755);
    set(&closed, 0);
    let walk = || {
        if rustix::process::geteuid().is_root() {
            // Root can read everything, so this thread alone stops being root.
            rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(65_534)).expect("root may");
        }
        source(dir.path(), Naming::Contents).walk(WalkOptions::default()).collect::<Vec<_>>()
    };
    let results = std::thread::scope(|scope| scope.spawn(walk).join().expect("walks"));
    set(&closed, 0o700);
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 4);
    let error = results.into_iter().find_map(Result::err).expect("one failed");
    assert_eq!(error.to_string(), format!("cannot list {}", closed.display()));
    assert_eq!(error.into_path(), Some(shown(&closed)));
}

fn shown(path: &Path) -> ShownPath {
    path.to_owned().into()
}

#[test]
fn what_is_in_a_source_is_shown_as_the_user_would_name_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    tree(&data, &["sub/y"]);
    let new = Naming::As(RelativePath::new("new").expect("a path"));
    let cases = [
        ("data", Naming::Basename, "data/sub/y", "data/sub/y"),
        ("data/.", Naming::Basename, "sub/y", "data/sub/y"),
        ("data", Naming::Contents, "sub/y", "data/sub/y"),
        ("data", new.clone(), "new/sub/y", "data/sub/y"),
        ("data", new.clone(), "new", "data"),
        ("data/sub/y", new, "new", "data/sub/y"),
    ];
    for (given, naming, on_the_wire, expected) in cases {
        let path = RelativePath::new(on_the_wire).expect("a path");
        let source = source(&dir.path().join(given), naming);
        assert_eq!(source.show(0, &path), shown(&dir.path().join(expected)), "{given} as {on_the_wire}");
    }
}

#[test]
fn a_change_while_reading_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let name = RelativePath::new("x").expect("a path");
    let source = source(dir.path(), Naming::Contents);
    let changes: [fn(&Path); 3] = [
        |path| fs::write(path, "something longer").expect("written"),
        |path| fs::File::options().write(true).open(path).and_then(|file| file.set_len(1)).expect("cut"),
        |path| {
            // Size and time of change are the same; only the inode's own time differs.
            let file = fs::File::options().write(true).open(path).expect("opens");
            let modified = file.metadata().and_then(|metadata| metadata.modified()).expect("known");
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::write(path, "soma").expect("written");
            file.set_modified(modified).expect("set");
        },
    ];
    for change in changes {
        fs::write(dir.path().join("x"), "some").expect("written");
        let file = source.reader().open(0, &name).expect("opens");
        assert!(file.unchanged());
        change(&dir.path().join("x"));
        assert!(!file.unchanged());
    }
    // Another file takes its name.
    let file = source.reader().open(0, &name).expect("opens");
    fs::write(dir.path().join("y"), "else").expect("written");
    fs::rename(dir.path().join("y"), dir.path().join("x")).expect("renamed");
    assert!(file.unchanged());
}

#[test]
fn a_change_that_is_not_past_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = source(dir.path(), Naming::Contents);
    let name = RelativePath::new("x").expect("a path");
    let written = dir.path().join("x");
    fs::write(&written, "one").expect("written");
    let file = source.reader().open(0, &name).expect("opens");
    let changed = fs::metadata(&written).and_then(|metadata| metadata.modified()).expect("known");
    // The slowest clock that Linux has for this ticks every 10 ms, so any later write has another time.
    assert!(changed.elapsed().expect("it is past") >= std::time::Duration::from_millis(10));
    assert!(file.unchanged());
    std::thread::scope(|scope| {
        fs::write(&written, "first").expect("written");
        let opening = scope.spawn(|| source.reader().open(0, &name).expect("opens"));
        std::thread::sleep(std::time::Duration::from_millis(2));
        fs::write(&written, "second").expect("written");
        let file = opening.join().expect("opens");
        // Metadata and content belong to the same moment, or `unchanged` returns false.
        let mut content = [0; 9];
        let length = file.read_at(0, &mut content).expect("reads") as u64;
        assert!(length == file.metadata().size_bytes || !file.unchanged());
    });
}

#[test]
fn hard_links_are_recognised() {
    let dir = tempfile::tempdir().expect("a directory");
    tree(dir.path(), &["a", "b"]);
    fs::hard_link(dir.path().join("a"), dir.path().join("c")).expect("linked");
    let source = source(dir.path(), Naming::Contents);
    let mut reader = source.reader();
    let mut open = |name: &str| reader.open(0, &RelativePath::new(name).expect("a path")).expect("opens");
    let (a, b, c) = (open("a"), open("b"), open("c"));
    assert_eq!((a.links(), b.links(), c.links()), (2, 1, 2));
    assert!(a.identity() == c.identity() && a.identity() != b.identity());
}

#[test]
fn other_file_systems_are_entered_only_when_asked() {
    // /dev, where it exists, has mount points of its own.
    let mounted = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        device(Path::new("/dev")).zip(device(&Path::new("/dev").join(name))).is_some_and(|(a, b)| a != b)
    };
    if !mounted("pts") {
        skip::say("/dev/pts is not mounted");
        return;
    }
    let below = |one_file_system: bool| {
        let options = WalkOptions { one_file_system, ..WalkOptions::default() };
        source(Path::new("/dev"), Naming::Contents)
            .walk(options)
            .filter_map(Result::ok)
            .filter(|entry| entry.path.as_bytes().starts_with(b"pts/"))
            .count()
    };
    assert_eq!(below(true), 0);
    assert!(below(false) > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The walk yields the same entries as a plain recursive listing, and a target lists the same files.
    #[test]
    fn agrees_with_the_standard_library(files in prop::collection::vec("[ab]{1,2}(/[ab]{1,2}){0,4}", 0..40)) {
        let dir = tempfile::tempdir().expect("a directory");
        for file in &files {
            let path = dir.path().join(file);
            if fs::create_dir_all(path.parent().expect("below")).is_ok() && !path.exists() {
                fs::write(path, "x").expect("written");
            }
        }
        fn list(dir: &Path, prefix: &str, all: &mut Vec<String>) {
            for entry in fs::read_dir(dir).expect("lists") {
                let entry = entry.expect("entry");
                let name = format!("{prefix}{}", entry.file_name().to_str().expect("text"));
                if entry.file_type().expect("typed").is_dir() {
                    all.push(format!("{name}/"));
                    list(&entry.path(), &format!("{name}/"), all);
                } else {
                    all.push(name);
                }
            }
        }
        let mut expected = Vec::new();
        list(dir.path(), "", &mut expected);
        expected.sort();
        prop_assert_eq!(names(&source(dir.path(), Naming::Contents), WalkOptions::default()), expected.clone());
        let target = Target::open(dir.path(), TargetOptions::default()).expect("opens");
        let mut files: Vec<_> =
            target.files().expect("lists").map(|file| file.expect("reads").path.to_string()).collect();
        files.sort();
        expected.retain(|name| !name.ends_with('/'));
        prop_assert_eq!(files, expected);
    }
}
