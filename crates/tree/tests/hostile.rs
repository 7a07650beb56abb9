//! Proves that nothing outside the target is written or read, by a hostile peer with the help of a local user.
//!
//! Every case runs with both methods of resolving paths.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sealane_tree::{
    EntryType, Error, LinkTarget, Metadata, Naming, RelativePath, Resolution, SmallFiles, Source, SourceRoot,
    Target, TargetOptions, TempName, Writer,
};

const RESOLUTIONS: [Resolution; 2] = [Resolution::Detect, Resolution::ComponentWise];

fn path(text: impl AsRef<[u8]>) -> RelativePath {
    RelativePath::new(text).expect("a path")
}

fn link(target: &Path) -> LinkTarget {
    LinkTarget::new(target.as_os_str().as_bytes().to_vec()).expect("a link")
}

fn file() -> Metadata {
    Metadata { mode: 0o644, size_bytes: 4, ..Metadata::default() }
}

fn directory() -> Metadata {
    Metadata { mode: 0o755, ..Metadata::default() }
}

/// Calls `case` with a target and a directory outside it, for each method of resolving.
fn each(case: impl Fn(&Target, &Path, &Path)) {
    for resolution in RESOLUTIONS {
        let dir = tempfile::tempdir().expect("a directory");
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir(&root).expect("made");
        fs::create_dir(&outside).expect("made");
        let target =
            Target::open(&root, TargetOptions { resolution, ..TargetOptions::default() }).expect("opens");
        case(&target, &root, &outside);
    }
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).expect("lists").next().is_none()
}

/// Tries everything that a peer can ask for below a link named `escape`.
fn attack(writer: &mut Writer, below: &RelativePath) -> Vec<Error> {
    let elsewhere = path("elsewhere");
    let mut errors = vec![
        writer.small_file(below, &file(), b"evil").expect_err("a file"),
        writer.begin_file(below, &file(), None).expect_err("a large file"),
        writer.begin_file(below, &file(), Some(&TempName::new(1))).expect_err("a resumed file"),
        writer.directory(below, &directory()).expect_err("a directory"),
        writer.symlink(below, &link(Path::new("/")), &file()).expect_err("a link"),
        writer.existing(below).expect_err("a look"),
        writer.read_existing(below).map(|_| ()).expect_err("a read"),
    ];
    writer.small_file(&elsewhere, &file(), b"fine").expect("beside it");
    errors.push(writer.hard_link(below, &elsewhere).expect_err("a hard link out"));
    errors.push(writer.hard_link(&path("stolen"), below).expect_err("a hard link in"));
    errors
}

#[test]
fn a_link_that_was_there_is_not_followed() {
    each(|target, root, outside| {
        symlink(outside, root.join("escape")).expect("linked");
        for below in ["escape/x", "escape/deep/x"] {
            for error in attack(&mut target.writer(), &path(below)) {
                assert!(matches!(error, Error::BlockedPath { .. }), "{error:?}");
            }
        }
        assert!(is_empty(outside));
    });
}

#[test]
fn a_link_that_was_sent_is_not_followed() {
    each(|target, _, outside| {
        let mut writer = target.writer();
        for (name, to) in
            [("escape", outside), ("up", Path::new("..")), ("proc", Path::new("/proc/self/cwd"))]
        {
            writer.symlink(&path(name), &link(to), &file()).expect("a link is a link");
            for error in attack(&mut writer, &path(format!("{name}/x"))) {
                assert!(matches!(error, Error::BlockedPath { .. }), "{error:?}");
            }
        }
        assert!(is_empty(outside));
        assert_eq!(target.finish_directories().failed, 0);
    });
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced_and_its_target_left_alone() {
    each(|target, root, outside| {
        let victim = outside.join("victim");
        fs::write(&victim, "untouched").expect("written");
        let mut writer = target.writer();
        for small_files in ["small", "large", "link", "hard"] {
            symlink(&victim, root.join(small_files)).expect("linked");
        }
        writer.small_file(&path("small"), &file(), b"data").expect("replaces");
        let part = writer.begin_file(&path("large"), &file(), None).expect("begins");
        part.write_at(0, b"data").expect("writes");
        part.finish(&file(), false).expect("replaces");
        writer.symlink(&path("link"), &link(Path::new("x")), &file()).expect("replaces");
        writer.hard_link(&path("hard"), &path("small")).expect("replaces");
        assert_eq!(fs::read(&victim).expect("reads"), b"untouched");
        for name in ["small", "large", "hard"] {
            assert!(root.join(name).symlink_metadata().expect("there").is_file());
            assert_eq!(fs::read(root.join(name)).expect("reads"), b"data");
        }
        // A link in place of an entry's directory is a conflict.
        symlink(outside, root.join("directory")).expect("linked");
        let error = writer.directory(&path("directory"), &directory()).expect_err("not a directory");
        assert!(matches!(error, Error::TypeConflict { found: EntryType::Symlink, .. }), "{error:?}");
    });
}

#[test]
fn a_link_in_the_place_of_an_unfinished_file_is_not_written_through() {
    each(|target, root, outside| {
        let victim = outside.join("victim");
        fs::write(&victim, "untouched").expect("written");
        let name = TempName::new(7);
        let temp = root.join(format!("{name:?}"));
        let write = || {
            let part = target.writer().begin_file(&path("x"), &file(), Some(&name)).expect("begins");
            assert_eq!(part.resumed_bytes(), None);
            part.write_at(0, b"evil").expect("writes");
            part.discard().expect("discards");
            assert_eq!(fs::read(&victim).expect("reads"), b"untouched");
        };
        symlink(&victim, &temp).expect("linked");
        write();
        fs::hard_link(&victim, &temp).expect("linked");
        write();
    });
}

#[test]
fn hard_links_only_to_regular_files() {
    each(|target, root, outside| {
        let mut writer = target.writer();
        fs::write(outside.join("secret"), "secret").expect("written");
        symlink(outside.join("secret"), root.join("link")).expect("linked");
        fs::create_dir(root.join("directory")).expect("made");
        for (to, found) in [("link", EntryType::Symlink), ("directory", EntryType::Directory)] {
            match writer.hard_link(&path("new"), &path(to)) {
                Err(Error::TypeConflict { found: actual, .. }) => assert_eq!(actual, found),
                other => panic!("{other:?}"),
            }
        }
        assert!(writer.hard_link(&path("new"), &path("missing")).is_err());
        writer.small_file(&path("a/file"), &file(), b"data").expect("writes");
        writer.hard_link(&path("b/new"), &path("a/file")).expect("links");
        // Linking again, and onto itself, gives the same file, and leaves nothing over.
        writer.hard_link(&path("b/new"), &path("a/file")).expect("links");
        writer.hard_link(&path("a/file"), &path("a/file")).expect("links");
        assert_eq!(fs::read(root.join("b/new")).expect("reads"), b"data");
        assert_eq!(fs::read_dir(root.join("a")).expect("lists").count(), 1);
        assert_eq!(fs::read_dir(root.join("b")).expect("lists").count(), 1);
    });
}

#[test]
fn reserved_names_and_conflicts_are_refused() {
    each(|target, root, _| {
        let mut writer = target.writer();
        let reserved = format!("{:?}", TempName::new(3));
        for name in [reserved.clone(), format!("a/{reserved}"), format!("{reserved}/a")] {
            let error = writer.small_file(&path(&name), &file(), b"data").expect_err("reserved");
            assert!(matches!(error, Error::ReservedName { .. }), "{error:?}");
        }
        writer.directory(&path("directory"), &directory()).expect("makes");
        fs::write(root.join("directory/x"), "").expect("written");
        let conflict = |error: Error| {
            assert!(matches!(error, Error::TypeConflict { found: EntryType::Directory, .. }), "{error:?}");
        };
        conflict(writer.small_file(&path("directory"), &file(), b"data").expect_err("a directory is there"));
        conflict(writer.symlink(&path("directory"), &link(Path::new("x")), &file()).expect_err("there"));
        let part = writer.begin_file(&path("directory"), &file(), None).expect("begins");
        conflict(part.finish(&file(), false).expect_err("a directory is there"));
        drop(part);
        writer.small_file(&path("file"), &file(), b"data").expect("writes");
        conflict(writer.hard_link(&path("directory"), &path("file")).expect_err("a directory is there"));
        let error = writer.directory(&path("file"), &directory()).expect_err("a file is there");
        assert!(matches!(error, Error::TypeConflict { found: EntryType::File, .. }), "{error:?}");
        let error = writer.small_file(&path("file/x"), &file(), b"data").expect_err("a file is there");
        assert!(matches!(error, Error::BlockedPath { .. }), "{error:?}");
        assert_eq!(fs::read_dir(root).expect("lists").count(), 2, "nothing is left over");
    });
}

#[test]
fn the_longest_names_work_and_longer_ones_cannot_be_said() {
    each(|target, root, _| {
        let long = "n".repeat(255);
        let deep = format!("{}/{long}", vec!["d".repeat(200); 18].join("/"));
        let mut writer = target.writer();
        for name in [long.clone(), deep] {
            writer.small_file(&path(&name), &file(), b"data").expect("writes");
            writer.small_file(&path(&name), &file(), b"data").expect("replaces");
            writer
                .begin_file(&path(&name), &file(), None)
                .expect("begins")
                .finish(&file(), false)
                .expect("finishes");
        }
        assert_eq!(target.files().expect("lists").filter(Result::is_ok).count(), 2);
        assert_eq!(target.finish_directories().failed, 0);
        assert!(root.join(long).exists());
    });
}

/// Stops the other thread, even if this one fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes and reads a tree while a local user swaps one of its directories for a link to the outside and back, as
/// fast as possible.
#[test]
fn a_link_swapped_in_while_writing_is_not_followed() {
    each(|target, root, outside| {
        fs::create_dir(root.join("d")).expect("made");
        symlink(outside, root.join("l")).expect("linked");
        fs::create_dir(outside.join("sub")).expect("made");
        fs::create_dir(root.join("d/sub")).expect("made");
        fs::write(outside.join("sub/secret"), "secret").expect("written");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = fs::rename(root.join("d"), root.join("aside"));
                    let _ = fs::rename(root.join("l"), root.join("d"));
                    let _ = fs::rename(root.join("d"), root.join("l"));
                    let _ = fs::rename(root.join("aside"), root.join("d"));
                }
            });
            for round in 0..300 {
                // A new writer has no cached parent, so each round resolves anew.
                let mut writer = target.writer();
                let below = path(format!("d/sub/f{}", round % 7));
                let _ = writer.small_file(&below, &file(), b"data");
                let _ = writer.directory(&path(format!("d/sub/n{}", round % 5)), &directory());
                let _ = writer.symlink(&path("d/sub/link"), &link(Path::new("x")), &file());
                if let Ok(part) = writer.begin_file(&below, &file(), None) {
                    let _ = part.finish(&file(), false);
                }
                assert!(writer.read_existing(&path("d/sub/secret")).is_err());
                for found in target.files().expect("lists") {
                    let secret = found.is_ok_and(|found| found.path.as_bytes().ends_with(b"secret"));
                    assert!(!secret, "the survey went through a link");
                }
                let _ = target.finish_directories();
            }
        });
        let names: Vec<_> = fs::read_dir(outside.join("sub")).expect("lists").collect();
        assert_eq!(names.len(), 1, "{names:?}");
    });
}

#[test]
fn a_directory_removed_behind_our_back_is_made_again() {
    for small_files in [SmallFiles::Linked, SmallFiles::Renamed, SmallFiles::DirectInNew] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = TargetOptions { small_files, ..TargetOptions::default() };
        let target = Target::open(dir.path(), options).expect("opens");
        let mut writer = target.writer();
        for _ in 0..3 {
            writer.small_file(&path("a/b/x"), &file(), b"data").expect("writes");
            fs::remove_dir_all(dir.path().join("a")).expect("removed");
        }
        writer.directory(&path("a/b/c"), &directory()).expect("makes");
    }
}

#[test]
fn a_source_is_not_read_through_a_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
    fs::create_dir_all(&outside).expect("made");
    fs::create_dir_all(&data).expect("made");
    fs::write(outside.join("secret"), "secret").expect("written");
    symlink(&outside, data.join("escape")).expect("linked");
    symlink(outside.join("secret"), data.join("link")).expect("linked");
    let root = SourceRoot::open(&data, &Naming::Basename, true).expect("opens");
    let source = Source::new(vec![root]);
    let mut reader = source.reader();
    let open =
        |reader: &mut sealane_tree::Reader, name: &str| reader.open(0, &path(name)).expect_err("refused");
    assert!(matches!(open(&mut reader, "data/escape/secret"), Error::BlockedPath { .. }));
    assert!(matches!(open(&mut reader, "data/link"), Error::TypeConflict { found: EntryType::Symlink, .. }));
    assert!(matches!(open(&mut reader, "data"), Error::TypeConflict { found: EntryType::Directory, .. }));
    assert!(matches!(open(&mut reader, "database"), Error::NotUnderRoot { .. }));
    assert!(matches!(open(&mut reader, "other/x"), Error::NotUnderRoot { .. }));
    assert!(matches!(reader.open(1, &path("data/x")), Err(Error::UnknownRoot { root: 1 })));
    // A pipe does not block, and is not read.
    let made = std::process::Command::new("mkfifo").arg(data.join("pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(matches!(
            open(&mut reader, "data/pipe"),
            Error::TypeConflict { found: EntryType::Other, .. }
        ));
    }
    let _socket = std::os::unix::net::UnixListener::bind(data.join("socket")).expect("bound");
    assert!(matches!(open(&mut reader, "data/socket"), Error::TypeConflict { found: EntryType::Other, .. }));
}
