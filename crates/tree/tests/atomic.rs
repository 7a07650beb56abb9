//! Proves that a concurrent reader sees the old file or the new one as a whole, and never a missing name.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sealane_tree::{LinkTarget, Metadata, RelativePath, SmallFiles, Target, TargetOptions};

fn check(
    small_files: SmallFiles,
    replace: impl Fn(&mut sealane_tree::Writer, &RelativePath, &Metadata, &[u8]),
) {
    const BYTES: usize = 50_000;
    let dir = tempfile::tempdir().expect("a directory");
    let target =
        Target::open(dir.path(), TargetOptions { small_files, ..TargetOptions::default() }).expect("opens");
    let path = RelativePath::new("file").expect("a path");
    let metadata = Metadata { mode: 0o644, size_bytes: BYTES as u64, ..Metadata::default() };
    let mut writer = target.writer();
    replace(&mut writer, &path, &metadata, &[0; BYTES]);
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let content = fs::read(dir.path().join("file")).expect("always there");
                assert_eq!(content.len(), BYTES);
                assert!(content.iter().all(|byte| *byte == content[0]), "two versions in one");
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut version = 0;
        while (seen.load(Ordering::Relaxed) < 50 || version < 200) && !reader.is_finished() {
            version += 1;
            replace(&mut writer, &path, &metadata, &[version as u8; BYTES]);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1);
}

#[test]
fn small_files_are_replaced_whole() {
    for small_files in [SmallFiles::Linked, SmallFiles::Renamed, SmallFiles::DirectInNew] {
        check(small_files, |writer, path, metadata, data| {
            writer.small_file(path, metadata, data).expect("writes");
        });
    }
}

#[test]
fn large_files_are_replaced_whole() {
    check(SmallFiles::Linked, |writer, path, metadata, data| {
        let part = writer.begin_file(path, metadata, None).expect("begins");
        let (first, second) = data.split_at(data.len() / 3);
        part.write_at(first.len() as u64, second).expect("writes");
        part.write_at(0, first).expect("writes");
        part.finish(metadata, false).expect("finishes");
    });
}

#[test]
fn a_link_is_replaced_without_a_gap() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = Target::open(dir.path(), TargetOptions::default()).expect("opens");
    let path = RelativePath::new("link").expect("a path");
    let stop = AtomicBool::new(false);
    let mut writer = target.writer();
    let mut set = |version: u32| {
        let to = LinkTarget::new(format!("to-{version}").into_bytes()).expect("a link");
        writer.symlink(&path, &to, &Metadata::default()).expect("links");
    };
    set(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::read_link(dir.path().join("link")).expect("always there");
            }
        });
        (1..500).for_each(&mut set);
        stop.store(true, Ordering::Relaxed);
    });
}

/// Threads that make the same directories and files at the same time do not disturb each other.
#[test]
fn many_writers_share_a_target() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = Target::open(dir.path(), TargetOptions::default()).expect("opens");
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let target = &target;
            scope.spawn(move || {
                let mut writer = target.writer();
                for index in 0..200 {
                    let shared = format!("d{}/e{}/f{index}", index % 5, index % 7);
                    let own = format!("d{}/e{}/t{thread}-{index}", index % 5, index % 7);
                    for name in [shared, own] {
                        let path = RelativePath::new(name).expect("a path");
                        let metadata = Metadata { mode: 0o644, size_bytes: 100, ..Metadata::default() };
                        writer.small_file(&path, &metadata, &[thread; 100]).expect("writes");
                    }
                }
            });
        }
    });
    let report = target.finish_directories();
    assert_eq!((report.finished, report.failed), (5 + 35, 0));
    let files: Vec<_> = target.files().expect("lists").collect::<Result<_, _>>().expect("reads");
    assert_eq!(files.len(), 200 * 5);
    assert!(files.iter().all(|file| file.metadata.size_bytes == 100));
}
