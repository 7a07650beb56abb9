//! Proves that a tree copied from a source to a target through the public API is the same.

use std::fs;
use std::io::IoSlice;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use sealane_tree::{EntryKind, Naming, Source, SourceRoot, Target, TargetOptions, WalkOptions};

/// Copies as a transfer does, but without a network.
fn copy(source: &Source, target: &Target) {
    let mut reader = source.reader();
    let mut writer = target.writer();
    for entry in source.walk(WalkOptions::default()) {
        let entry = entry.expect("walks");
        match entry.kind {
            EntryKind::Directory(metadata) => {
                writer.directory(&entry.path, &metadata).expect("makes");
            }
            EntryKind::Symlink => {
                let (to, metadata) = reader.read_link(entry.root, &entry.path).expect("reads");
                writer.symlink(&entry.path, &to, &metadata).expect("links");
            }
            EntryKind::File => {
                let file = reader.open(entry.root, &entry.path).expect("opens");
                let metadata = file.metadata();
                let mut data = vec![0; metadata.size_bytes as usize];
                assert_eq!(file.read_at(0, &mut data).expect("reads"), data.len());
                assert!(file.unchanged());
                if data.len() < 4096 {
                    writer.small_file(&entry.path, metadata, &data).expect("writes");
                } else {
                    let part = writer.begin_file(&entry.path, metadata, None).expect("begins");
                    for extent in file.extents() {
                        let range = extent.start as usize..extent.end as usize;
                        let (first, second) = data[range].split_at((extent.end - extent.start) as usize / 2);
                        part.write_vectored_at(extent.start, &[IoSlice::new(first), IoSlice::new(second)])
                            .expect("writes");
                    }
                    part.finish(metadata, false).expect("finishes");
                }
            }
            EntryKind::Other => panic!("nothing else is here"),
        }
    }
    let report = target.finish_directories();
    assert_eq!(report.failed, 0, "{:?}", report.errors);
}

fn assert_same(left: &Path, right: &Path) {
    let (a, b) = (left.symlink_metadata().expect("left"), right.symlink_metadata().expect("right"));
    assert_eq!(a.mode(), b.mode(), "{}", left.display());
    assert_eq!((a.mtime(), a.mtime_nsec()), (b.mtime(), b.mtime_nsec()), "{}", left.display());
    if a.is_symlink() {
        assert_eq!(fs::read_link(left).expect("left"), fs::read_link(right).expect("right"));
    } else if a.is_dir() {
        let names = |path: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(path).expect("lists").map(|entry| entry.expect("entry").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(left), names(right));
        names(left).iter().for_each(|name| assert_same(&left.join(name), &right.join(name)));
    } else {
        assert_eq!(fs::read(left).expect("left"), fs::read(right).expect("right"), "{}", left.display());
    }
}

#[test]
fn a_tree_arrives_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    fs::create_dir_all(data.join("a/b/c")).expect("made");
    fs::create_dir(data.join("empty")).expect("made");
    fs::write(data.join("small"), "small").expect("written");
    fs::write(data.join("nothing"), "").expect("written");
    fs::write(data.join("a/b/c/large"), vec![7; 3 << 20]).expect("written");
    fs::set_permissions(data.join("small"), fs::Permissions::from_mode(0o400)).expect("set");
    symlink("../nowhere", data.join("a/link")).expect("linked");
    fs::set_permissions(data.join("a/b"), fs::Permissions::from_mode(0o750)).expect("set");

    let root = SourceRoot::open(&data, &Naming::Basename, true).expect("opens");
    let out = dir.path().join("out");
    let options = TargetOptions { create_root: true, ..TargetOptions::default() };
    let target = Target::open(&out, options).expect("opens");
    copy(&Source::new(vec![root]), &target);
    assert_same(&data, &out.join("data"));
    // The second copy goes over the first.
    let root = SourceRoot::open(&data, &Naming::Basename, true).expect("opens");
    copy(&Source::new(vec![root]), &target);
    assert_same(&data, &out.join("data"));
}
