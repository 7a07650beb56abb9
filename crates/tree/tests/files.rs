//! Large and small files of a target: bytes, holes, metadata, resuming, a full disk.

#[path = "../../../testing/skip.rs"]
mod skip;
use std::ffi::CStr;
use std::fs;
use std::io::IoSlice;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use sealane_tree::{
    EntryType, Error, LinkTarget, Metadata, Naming, Owner, RelativePath, SmallFiles, Source, SourceRoot,
    Target, TargetOptions, TempName, Timestamp, Xattr,
};

const EACH_WAY: [SmallFiles; 3] = [SmallFiles::Linked, SmallFiles::Renamed, SmallFiles::DirectInNew];

fn path(text: impl AsRef<[u8]>) -> RelativePath {
    RelativePath::new(text).expect("a path")
}

fn metadata(mode: u32, size_bytes: u64) -> Metadata {
    let modified = Timestamp { seconds: 1_234_567_890, nanoseconds: 123_456_789 };
    Metadata { mode, modified, size_bytes, ..Metadata::default() }
}

fn open(root: &Path, options: TargetOptions) -> Target {
    Target::open(root, options).expect("opens")
}

/// Returns true if the test cannot run here, and prints why; panics if tests must not be skipped.
fn skip(missing: bool, reason: &str) -> bool {
    if missing {
        skip::skip(reason);
    }
    missing
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[test]
fn small_files_have_their_bytes_mode_and_time_in_each_way() {
    let dir = tempfile::tempdir().expect("a directory");
    for (index, small_files) in EACH_WAY.into_iter().enumerate() {
        let target = open(dir.path(), TargetOptions { small_files, ..TargetOptions::default() });
        let mut writer = target.writer();
        for length in [0, 1, 4095, 4096, 100_000] {
            for mode in [0o644, 0o400, 0o777, 0o666, 0] {
                let name = path(format!("way{index}/{length}-{mode:o}"));
                let data = pattern(length);
                for _new_then_replaced in 0..2 {
                    writer.small_file(&name, &metadata(mode, length as u64), &data).expect("writes");
                    let made = fs::metadata(dir.path().join(name.as_path())).expect("there");
                    assert_eq!(made.mode() & 0o7777, mode);
                    assert_eq!((made.mtime(), made.mtime_nsec()), (1_234_567_890, 123_456_789));
                    assert_eq!(made.nlink(), 1);
                    let found = writer.existing(&name).expect("looks").expect("there");
                    assert_eq!(found.entry_type, EntryType::File);
                    assert_eq!(found.metadata.size_bytes, length as u64);
                    if mode & 0o400 != 0 || is_root() {
                        assert_eq!(fs::read(dir.path().join(name.as_path())).expect("reads"), data);
                    }
                }
            }
        }
        let made = fs::read_dir(dir.path().join(format!("way{index}"))).expect("lists").count();
        assert_eq!(made, 25, "and nothing left over");
        assert_eq!(target.finish_directories().failed, 0);
    }
}

#[test]
fn names_of_any_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions::default());
    let mut writer = target.writer();
    let names: [&[u8]; 6] = [b"\xff\xfe\x80", b"new\nline", b" ", b"-rf", b"*?[", b"\x01\x7f"];
    for name in names {
        let deep = path([b"dir-", name, b"/", name].concat());
        writer.small_file(&deep, &metadata(0o644, 1), b"x").expect("writes");
    }
    let source = Source::new(vec![SourceRoot::open(dir.path(), &Naming::Contents, true).expect("opens")]);
    let mut reader = source.reader();
    let mut found = 0;
    for entry in source.walk(Default::default()) {
        let entry = entry.expect("walks");
        if entry.kind == sealane_tree::EntryKind::File {
            assert_eq!(reader.open(0, &entry.path).expect("opens").metadata().size_bytes, 1);
            found += 1;
        }
    }
    assert_eq!(found, names.len());
}

#[test]
fn the_mask_takes_bits_and_privileges_need_their_owner() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions { mode_mask: 0o755, ..TargetOptions::default() });
    let mut writer = target.writer();
    writer.small_file(&path("a"), &metadata(0o666, 0), b"").expect("writes");
    writer.directory(&path("d"), &metadata(0o777, 0)).expect("makes");
    writer.small_file(&path("on/demand"), &metadata(0o666, 0), b"").expect("writes");
    let mode = |name: &str| fs::metadata(dir.path().join(name)).expect("there").mode() & 0o7777;
    assert_eq!((mode("a"), mode("d"), mode("on")), (0o644, 0o1700, 0o1700), "private until finished");
    target.finish_directories();
    // The second one was not sent: a later copy finds it unfinished, and gives it its mode.
    assert_eq!((mode("d"), mode("on")), (0o755, 0o1700));
    let later = open(dir.path(), TargetOptions::default());
    later.writer().directory(&path("on"), &metadata(0o755, 0)).expect("is there");
    later.finish_directories();
    assert_eq!(mode("on"), 0o755);

    let target = open(dir.path(), TargetOptions::default());
    let mut writer = target.writer();
    writer.small_file(&path("setuid"), &metadata(0o6755, 0), b"").expect("writes");
    let part = writer.begin_file(&path("setgid"), &metadata(0o2755, 0), None).expect("begins");
    part.finish(&metadata(0o2755, 0), false).expect("finishes");
    assert_eq!((mode("setuid"), mode("setgid")), (0o755, 0o755));
    assert_eq!(target.dropped().privileges, 2);
}

#[test]
fn owners_come_with_their_privileges() {
    if skip(!is_root(), "only root may give files away") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions { ownership: true, ..TargetOptions::default() });
    let mut writer = target.writer();
    let owned = Metadata { owner: Some(Owner { uid: 12_345, gid: 23_456 }), ..metadata(0o4750, 4) };
    writer.small_file(&path("small"), &owned, b"data").expect("writes");
    let part = writer.begin_file(&path("large"), &owned, None).expect("begins");
    part.write_at(0, b"data").expect("writes");
    part.finish(&owned, false).expect("finishes");
    writer.directory(&path("directory"), &owned).expect("makes");
    let to = LinkTarget::new(b"x".to_vec()).expect("a link");
    for _new_then_replaced in 0..2 {
        writer.symlink(&path("link"), &to, &owned).expect("links");
    }
    assert_eq!(target.finish_directories().failed, 0);
    for (name, mode) in [("small", 0o4750), ("large", 0o4750), ("directory", 0o4750), ("link", 0o777)] {
        let made = fs::symlink_metadata(dir.path().join(name)).expect("there");
        assert_eq!((made.uid(), made.gid()), (12_345, 23_456), "{name}");
        assert_eq!(made.mode() & 0o7777, mode, "{name}");
        assert_eq!((made.mtime(), made.mtime_nsec()), (1_234_567_890, 123_456_789), "{name}");
    }
    // The id that means "leave it" cannot be requested, and clears the privileges as well.
    let nobody = Metadata { owner: Some(Owner { uid: u32::MAX, gid: 0 }), ..metadata(0o4755, 0) };
    writer.small_file(&path("unowned"), &nobody, b"").expect("writes");
    assert_eq!(fs::metadata(dir.path().join("unowned")).expect("there").mode() & 0o7777, 0o755);
    assert_eq!(target.dropped().owners, 1);
}

#[test]
fn attributes_of_users_travel_and_no_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let xattr = |name: &str, value: &[u8]| Xattr { name: name.as_bytes().to_vec(), value: value.to_vec() };
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let sent = Metadata {
        xattrs: vec![
            xattr("user.comment", b"a\0b"),
            xattr("security.capability", &capability),
            xattr("trusted.x", b"x"),
            xattr("system.posix_acl_access", b"x"),
            xattr("user.empty", b""),
        ],
        ..metadata(0o444, 1)
    };
    let target =
        open(dir.path(), TargetOptions { xattrs: sealane_tree::Xattrs::USER, ..TargetOptions::default() });
    let mut writer = target.writer();
    writer.small_file(&path("small"), &sent, b"x").expect("writes");
    let part = writer.begin_file(&path("large"), &sent, None).expect("begins");
    part.finish(&sent, false).expect("finishes");
    writer.directory(&path("directory"), &sent).expect("makes");
    assert_eq!(target.finish_directories().failed, 0);
    if skip(target.dropped().xattrs != 9, "the file system has no user attributes") {
        return;
    }
    for name in ["small", "large"] {
        let file = writer.read_existing(&path(name)).expect("opens");
        let mut found = file.read_xattrs(&path(name), sealane_tree::Xattrs::USER).expect("reads");
        found.sort_by(|left, right| left.name.cmp(&right.name));
        assert_eq!(found, [xattr("user.comment", b"a\0b"), xattr("user.empty", b"")]);
        assert_eq!(fs::metadata(dir.path().join(name)).expect("there").mode() & 0o777, 0o444);
    }
    let source = Source::new(vec![SourceRoot::open(dir.path(), &Naming::Contents, true).expect("opens")]);
    let options = sealane_tree::WalkOptions { xattrs: sealane_tree::Xattrs::USER, ..Default::default() };
    let directory = source.walk(options).find_map(|entry| match entry.expect("walks").kind {
        sealane_tree::EntryKind::Directory(metadata) => Some(metadata),
        _ => None,
    });
    assert_eq!(directory.expect("one").xattrs.len(), 2);
}

#[test]
fn many_threads_write_one_file() {
    const THREADS: usize = 4;
    const BLOCK: usize = 10_007;
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions::default());
    let data = pattern(BLOCK * 100 + 3);
    let sent = metadata(0o640, data.len() as u64);
    let part = Arc::new(target.writer().begin_file(&path("a/large"), &sent, None).expect("begins"));
    assert!(!dir.path().join("a/large").exists());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (part, data) = (Arc::clone(&part), &data);
            scope.spawn(move || {
                for (index, block) in data.chunks(BLOCK).enumerate().skip(thread).step_by(THREADS) {
                    let offset = (index * BLOCK) as u64;
                    if index % 2 == 0 {
                        part.write_at(offset, block).expect("writes");
                    } else {
                        let pieces: Vec<_> = block.chunks(7).map(IoSlice::new).collect();
                        part.write_vectored_at(offset, &pieces)
                            .expect("writes more buffers than one call takes");
                    }
                }
            });
        }
    });
    part.finish(&sent, true).expect("finishes");
    assert_eq!(fs::read(dir.path().join("a/large")).expect("reads"), data);
    assert_eq!(fs::metadata(dir.path().join("a/large")).expect("there").mode() & 0o7777, 0o640);
    assert!(matches!(part.finish(&sent, false), Err(Error::Finished { .. })));
    assert!(matches!(part.write_at(0, b"x"), Err(Error::Finished { .. })));
    assert!(matches!(part.discard(), Err(Error::Finished { .. })));
    drop(part);
    assert_eq!(fs::read_dir(dir.path().join("a")).expect("lists").count(), 1);
}

#[test]
fn nothing_is_written_beyond_the_declared_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions::default());
    let part = target.writer().begin_file(&path("x"), &metadata(0o644, 10), None).expect("begins");
    part.write_at(10, b"").expect("nothing at the end");
    part.write_at(6, b"last").expect("up to the end");
    for (offset, length) in [(10, 1), (7, 4), (u64::MAX, 1), (u64::MAX - 3, 4), (0, 11)] {
        let data = vec![0; length];
        assert!(matches!(part.write_at(offset, &data), Err(Error::OutOfRange { .. })));
        let buffers = [IoSlice::new(&data)];
        assert!(matches!(part.write_vectored_at(offset, &buffers), Err(Error::OutOfRange { .. })));
        assert!(matches!(part.zero_at(offset, length as u64), Err(Error::OutOfRange { .. })));
    }
    part.discard().expect("discards");
    assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 0);
    // A size that no file can have fails at once, and leaves nothing.
    assert!(target.writer().begin_file(&path("x"), &metadata(0o644, u64::MAX), None).is_err());
    assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 0);
}

#[test]
fn holes_stay_holes() {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let original = dir.path().join("original");
    let file = fs::File::create(&original).expect("created");
    file.set_len(64 * MIB).expect("sized");
    file.write_all_at(b"begin", 0).expect("written");
    file.write_all_at(&pattern(MIB as usize), 20 * MIB).expect("written");
    file.write_all_at(b"end", 64 * MIB - 3).expect("written");
    drop(file);
    let source = Source::new(vec![SourceRoot::open(&original, &Naming::Basename, true).expect("opens")]);
    let file = source.reader().open(0, &path("original")).expect("opens");
    let extents: Vec<_> = file.extents().collect();
    let data: u64 = extents.iter().map(|extent| extent.end - extent.start).sum();
    if skip(!file.is_sparse() || data > 8 * MIB, "the file system keeps no holes") {
        return;
    }
    assert_eq!(extents.len(), 3, "{extents:?}");
    let target = open(dir.path(), TargetOptions::default());
    let part = target.writer().begin_file(&path("copy"), file.metadata(), None).expect("begins");
    for extent in file.extents() {
        let mut buffer = vec![0; (extent.end - extent.start) as usize];
        assert_eq!(file.read_at(extent.start, &mut buffer).expect("reads"), buffer.len());
        part.write_at(extent.start, &buffer).expect("writes");
    }
    assert_eq!(part.extents().collect::<Vec<_>>(), extents);
    part.finish(file.metadata(), false).expect("finishes");
    let copy = fs::metadata(dir.path().join("copy")).expect("there");
    assert!(copy.blocks() * 512 < 8 * MIB);
    assert_eq!(fs::read(dir.path().join("copy")).expect("reads"), fs::read(&original).expect("reads"));

    // One file has no data, and one has no holes.
    let empty = fs::File::create(dir.path().join("hole")).expect("created");
    empty.set_len(10 * MIB).expect("sized");
    fs::write(dir.path().join("dense"), pattern(10_000)).expect("written");
    let mut writer = target.writer();
    assert_eq!(writer.read_existing(&path("hole")).expect("opens").extents().count(), 0);
    let dense = writer.read_existing(&path("dense")).expect("opens");
    assert!(dense.extents().eq(std::iter::once(0..10_000)));
}

#[test]
fn an_unfinished_file_is_resumed() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions { resumable_as: Some(1), ..TargetOptions::default() });
    let mut writer = target.writer();
    let name = TempName::new(42);
    let sent = metadata(0o600, 8);
    let part = writer.begin_file(&path("d/x"), &sent, Some(&name)).expect("begins");
    assert_eq!((part.resumed_bytes(), part.temp_name()), (None, Some(name)));
    part.write_at(0, b"half").expect("writes");
    // While it is in use, no other process can open it, and nobody removes it.
    assert!(matches!(writer.begin_file(&path("d/x"), &sent, Some(&name)), Err(Error::Busy { .. })));
    let unfinished = path(format!("d/{name:?}"));
    assert!(!writer.is_abandoned(&unfinished));
    drop(part);
    assert!(writer.is_abandoned(&unfinished));
    assert_eq!(target.files().expect("lists").count(), 0, "not a file yet");

    let part = writer.begin_file(&path("d/x"), &sent, Some(&name)).expect("resumes");
    assert_eq!(part.resumed_bytes(), Some(8));
    let mut start = [0; 4];
    assert_eq!(part.read_at(0, &mut start).expect("reads"), 4);
    assert_eq!(&start, b"half");
    part.write_at(4, b"more").expect("writes");
    part.zero_at(1, 2).expect("zeroes");
    part.finish(&sent, false).expect("finishes");
    assert_eq!(fs::read(dir.path().join("d/x")).expect("reads"), b"h\0\0fmore");

    // With another size, it is cut or grown to the declared size.
    drop(writer.begin_file(&path("d/y"), &sent, Some(&name)).expect("begins"));
    let part = writer.begin_file(&path("d/y"), &metadata(0o600, 3), Some(&name)).expect("resumes");
    assert_eq!((part.resumed_bytes(), part.size_bytes()), (Some(8), 3));
    drop(part);
    let left = dir.path().join(format!("d/{name:?}"));
    assert_eq!(fs::metadata(&left).expect("kept").len(), 3);
    fs::remove_file(left).expect("removed");

    // Without the option, the unfinished file is removed.
    let target = open(dir.path(), TargetOptions::default());
    drop(target.writer().begin_file(&path("d/z"), &sent, None).expect("begins"));
    assert_eq!(fs::read_dir(dir.path().join("d")).expect("lists").count(), 1);
}

#[test]
fn a_file_of_unknown_size_is_as_long_as_what_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions::default());
    let part = target.writer().begin_growing_file(&path("x")).expect("begins");
    part.write_at(4, b"end").expect("writes");
    part.write_at(0, b"half").expect("writes");
    assert!(part.write_at(u64::MAX, b"x").is_err());
    part.finish(&metadata(0o644, 0), false).expect("finishes");
    assert_eq!(fs::read(dir.path().join("x")).expect("reads"), b"halfend");
}

/// A small file system, unmounted at the end. No program is started for it: until a child has replaced itself, it holds
/// the locks of the files that other tests have just closed.
struct Mount(PathBuf);

impl Mount {
    fn tmpfs(at: &Path, size: &CStr) -> Option<Self> {
        mount("tmpfs", at, "tmpfs", MountFlags::empty(), size).is_ok().then(|| Self(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing_partial() {
    let dir = tempfile::tempdir().expect("a directory");
    let mount = if is_root() { Mount::tmpfs(dir.path(), c"size=256k") } else { None };
    if skip(mount.is_none(), "no file system may be mounted here") {
        return;
    }
    for small_files in EACH_WAY {
        let target = open(dir.path(), TargetOptions { small_files, ..TargetOptions::default() });
        let available = target.available_bytes().expect("asks");
        assert!((1..=256 << 10).contains(&available));
        let mut writer = target.writer();
        let large = metadata(0o644, 1 << 20);
        let full = writer.small_file(&path("new/small"), &large, &vec![7; 1 << 20]).expect_err("too much");
        assert!(matches!(full, Error::NoSpace { quota: false, .. }), "{full:?}");
        assert!(full.is_fatal());
        assert_eq!(full.into_path(), Some(path("new/small").into()));
        let part = writer.begin_file(&path("new/large"), &large, None).expect("a hole needs no space");
        let full = part.write_at(0, &vec![7; 1 << 20]).expect_err("too much");
        assert!(matches!(full, Error::NoSpace { .. }), "{full:?}");
        drop(part);
        let part = writer.begin_file(&path("new/large"), &large, None).expect("a hole needs no space");
        let half = vec![7; 1 << 19];
        let buffers = [IoSlice::new(&half), IoSlice::new(&half)];
        let full = part.write_vectored_at(0, &buffers).expect_err("too much");
        assert!(matches!(full, Error::NoSpace { .. }), "{full:?}");
        drop(part);
        assert_eq!(fs::read_dir(dir.path().join("new")).expect("lists").count(), 0);
        writer.small_file(&path("new/fits"), &metadata(0o644, 4), b"fits").expect("there is space again");
        fs::remove_dir_all(dir.path().join("new")).expect("removed");
    }
}

#[test]
fn directories_are_finished_in_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let existing = dir.path().join("existing");
    fs::create_dir(&existing).expect("made");
    fs::set_permissions(&existing, fs::Permissions::from_mode(0o555)).expect("set");
    let state = |name: &str| {
        let found = fs::metadata(dir.path().join(name)).expect("there");
        (found.mode() & 0o7777, found.mtime())
    };
    let target = open(dir.path(), TargetOptions::default());
    let mut writer = target.writer();
    // A directory without write permission still gets its content, and its time is set after that.
    for name in ["a", "a/b", "existing", "existing/c"] {
        writer.directory(&path(name), &metadata(0o500, 0)).expect("makes");
        writer.small_file(&path(format!("{name}/file")), &metadata(0o400, 1), b"x").expect("writes");
    }
    let report = target.finish_directories();
    assert_eq!((report.finished, report.failed), (4, 0), "{:?}", report.errors);
    for (name, mode) in [("a", 0o500), ("a/b", 0o500), ("existing", 0o555), ("existing/c", 0o500)] {
        assert_eq!(state(name), (mode, 1_234_567_890), "{name}");
    }
    let target =
        open(dir.path(), TargetOptions { change_existing_directories: true, ..TargetOptions::default() });
    target.writer().directory(&path("existing"), &metadata(0o711, 0)).expect("accepts");
    target.finish_directories();
    assert_eq!(state("existing").0, 0o711);
    // A directory that vanished is an error, and does not keep the others from being finished.
    let mut writer = target.writer();
    writer.directory(&path("gone"), &metadata(0o755, 0)).expect("makes");
    writer.directory(&path("stays"), &metadata(0o755, 0)).expect("makes");
    fs::remove_dir(dir.path().join("gone")).expect("removed");
    let report = target.finish_directories();
    assert_eq!((report.finished, report.failed, report.errors.len()), (1, 1, 1));
    target.sync().expect("syncs");
}

#[test]
fn a_directory_that_a_cut_copy_left_gets_its_mode_and_others_keep_theirs() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let mode = |name: &str| fs::metadata(at(name)).expect("there").mode() & 0o7777;
    for (name, mode) in [("private", 0o700), ("heir", 0o755)] {
        fs::create_dir(at(name)).expect("made");
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("set");
    }
    fs::set_permissions(at("heir"), fs::Permissions::from_mode(0o2755)).expect("set");
    let names = ["left", "left/below", "private", "heir/left"];
    let send = |target: &Target| {
        for name in names {
            target.writer().directory(&path(name), &metadata(0o750, 0)).expect("makes or accepts");
        }
    };
    // The first target is dropped without finishing anything, as after a kill.
    send(&open(dir.path(), TargetOptions::default()));
    assert_eq!(names.map(mode), [0o1700, 0o1700, 0o700, 0o3700]);
    let target = open(dir.path(), TargetOptions::default());
    send(&target);
    target.finish_directories();
    assert_eq!(names.map(mode), [0o750, 0o750, 0o700, 0o2750]);
}

#[test]
fn an_abandoned_target_keeps_no_directory_that_nothing_came_into() {
    let dir = tempfile::tempdir().expect("a directory");
    let mode = |name: &str| fs::metadata(dir.path().join(name)).ok().map(|found| found.mode() & 0o7777);
    fs::create_dir(dir.path().join("there")).expect("made");
    let target = open(dir.path(), TargetOptions::default());
    let mut writer = target.writer();
    writer.directory(&path("sent"), &metadata(0o750, 0)).expect("makes");
    // Begun files make the directories above them.
    for name in ["sent/empty/below/x", "there/empty/x", "full/empty/x"] {
        drop(writer.begin_file(&path(name), &metadata(0o644, 10), None).expect("begins"));
    }
    writer.small_file(&path("full/y"), &metadata(0o644, 0), b"").expect("writes");
    target.abandon_directories();
    let names = ["sent", "sent/empty", "there", "there/empty", "full", "full/empty"];
    let modes = [Some(0o750), None, Some(0o755), None, Some(0o1700), None];
    assert_eq!(names.map(mode), modes);
}

#[test]
fn a_default_access_control_list_does_not_change_the_mode() {
    let dir = tempfile::tempdir().expect("a directory");
    let acl: &[u8] = &[
        2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 5, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255,
        255, 255,
    ];
    let flags = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(dir.path(), "system.posix_acl_default", acl, flags);
    if skip(set.is_err(), "the file system has no access control lists") {
        return;
    }
    let target = open(dir.path(), TargetOptions::default());
    let mut writer = target.writer();
    writer.small_file(&path("x"), &metadata(0o666, 0), b"").expect("writes");
    assert_eq!(fs::metadata(dir.path().join("x")).expect("there").mode() & 0o7777, 0o666);
}

#[test]
fn what_is_remembered_of_directories_has_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let options = TargetOptions { directory_bytes_max: 100_000, ..TargetOptions::default() };
    let target = open(folder.path(), options);
    let mut writer = target.writer();
    // A path of 4 KB has 2,000 directories, whose paths together take 4 MB.
    let deep = path(vec!["d"; 2000].join("/") + "/file");
    let error = writer.small_file(&deep, &metadata(0o644, 0), b"").unwrap_err();
    assert!(matches!(error, Error::TooManyDirectories { .. }) && error.is_fatal(), "{error}");
    let error = writer.directory(&path("other"), &metadata(0o755, 0)).unwrap_err();
    assert!(matches!(error, Error::TooManyDirectories { .. }), "{error}");
    assert!(target.finish_directories().finished < 1000);
}

#[test]
fn what_nobody_takes_up_again_has_no_name_before_it_is_complete() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = open(dir.path(), TargetOptions::default());
    for content in [b"first", b"again"] {
        let before = fs::read_dir(dir.path()).expect("lists").count();
        let part = target.writer().begin_file(&path("x"), &metadata(0o640, 5), None).expect("begins");
        part.write_at(0, content).expect("writes");
        if skip(part.temp_name().is_some(), "the file system or kernel has no files without a name") {
            return;
        }
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), before, "being killed leaves something");
        part.finish(&metadata(0o640, 5), true).expect("finishes");
        assert_eq!(fs::read(dir.path().join("x")).expect("is there"), content);
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1);
    }
    fs::create_dir(dir.path().join("folder")).expect("a directory");
    let part = target.writer().begin_file(&path("folder"), &metadata(0o640, 0), None).expect("begins");
    assert!(matches!(part.finish(&metadata(0o640, 0), false), Err(Error::TypeConflict { .. })));
    drop(part);
    target.writer().begin_growing_file(&path("y")).expect("begins").discard().expect("discards");
    assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 2);
}

#[test]
fn only_folders_with_entries_have_something_to_compare() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("full/inner")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("file"), b"content").unwrap();
    let target = Target::open(root, TargetOptions::default()).unwrap();
    for (path, expected) in [
        ("", true),
        ("full", true),
        ("full/inner", false),
        ("empty", false),
        ("file", false),
        ("none", false),
    ] {
        assert_eq!(target.has_entries(path.as_bytes()), expected, "{path:?}");
    }
}
