//! Tests of the comparison: which folders count as equal, and who judges whatever comes first.

use std::{
    collections::BTreeMap,
    fs::{self, File, FileTimes, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::SystemTime,
};

use crossbeam_channel::unbounded;
use sealane_tree::{Filter, Naming, RelativePath, Source, SourceRoot, Target, TargetOptions, WalkOptions};

use super::{
    comparing::Table,
    digesting::{Digested, Digesting, LONG_ENTRIES},
    kept::{Allowance, KEPT_BYTES_MAX, Keeping},
    listing::{AskedFor, Listed, Listing},
    *,
};
use crate::{
    proto::{
        entry::{bytes_hash, path_hash},
        message::{FolderDigest, Have, LIST_FILES_MAX, List, Lists},
    },
    receive::strays::Strays,
    send::compare::{Verdict, compare_kept, compare_list},
};

const KEY: [u8; 32] = [3; 32];

fn rules(preserve: Preserve) -> Rules {
    Rules::new(&Secret::new(KEY), &preserve)
}

fn all(folders: &Folders, rules: &Rules, is_sender: bool) -> BTreeMap<Vec<u8>, [u8; 16]> {
    let (strays, allowance) = (Strays::default(), Allowance::of(KEPT_BYTES_MAX));
    let (out, results) = unbounded::<Vec<Digested>>();
    thread::scope(|scope| {
        for _ in 0..3 {
            let (out, keeping) = (out.clone(), Keeping::new(&allowance));
            let strays = (!is_sender).then_some(&strays);
            scope.spawn(move || {
                let mut digesting = Digesting::new(rules, strays, keeping, out);
                folders.visit(&mut digesting);
                assert!(digesting.hand_on());
            });
        }
    });
    drop(out);
    results.iter().flatten().map(|digested| (digested.path.into_vec(), digested.digest)).collect()
}

/// Returns the digests of the tree `a` in a folder as a source, and of the tree `b` as it would be in a target.
fn both(at: &Path, preserve: &Preserve) -> [BTreeMap<Vec<u8>, [u8; 16]>; 2] {
    let rules = rules(preserve.clone());
    let naming = Naming::As(RelativePath::new(b"b").unwrap());
    let source = Source::new(vec![SourceRoot::open(&at.join("a"), &naming, false).unwrap()]);
    let options = WalkOptions { xattrs: preserve.kinds_of_xattrs(), ..WalkOptions::default() };
    let own = source.folders(&options).unwrap();
    let target = Target::open(at, TargetOptions::default()).unwrap();
    let filter = (Filter::default(), false);
    let paths = vec![b"b".to_vec(), b"missing".to_vec()];
    let theirs = target.folders(paths, preserve.kinds_of_xattrs(), true, filter);
    [all(&own, &rules, true), all(&theirs, &rules, false)]
}

fn plant(at: &Path) {
    fs::create_dir_all(at.join("one/deep")).unwrap();
    fs::create_dir_all(at.join("two")).unwrap();
    for name in ["top", "one/x", "one/y", "one/deep/z", "two/w"] {
        fs::write(at.join(name), name).unwrap();
    }
    symlink("x", at.join("one/link")).unwrap();
}

fn twins() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    plant(&folder.path().join("a"));
    let (from, to) = (folder.path().join("a"), folder.path().join("b"));
    assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    folder
}

fn touch(path: &Path) {
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn equal_folders_have_one_digest_and_different_ones_have_others() {
    let keeping = Preserve { folder_modes: true, xattrs: true, hard_links: true, ..Preserve::default() };
    type Change = fn(&Path);
    let changes: [(&str, Change, &[&str]); 9] = [
        ("nothing", |_| (), &[]),
        ("a file's content", |at| fs::write(at.join("one/x"), "longer").unwrap(), &["b/one"]),
        ("a file's time", |at| touch(&at.join("two/w")), &["b/two"]),
        (
            "a file's mode",
            |at| fs::set_permissions(at.join("one/deep/z"), Permissions::from_mode(0o600)).unwrap(),
            &["b/one/deep"],
        ),
        ("a folder's time", |at| touch(&at.join("one")), &["b/one"]),
        (
            "a folder's mode",
            |at| fs::set_permissions(at.join("two"), Permissions::from_mode(0o700)).unwrap(),
            &["b/two"],
        ),
        (
            "a link's destination",
            |at| {
                fs::remove_file(at.join("one/link")).unwrap();
                symlink("y", at.join("one/link")).unwrap();
            },
            &["b/one"],
        ),
        (
            "a file that became a link of its own text",
            |at| {
                fs::remove_file(at.join("two/w")).unwrap();
                symlink("two/w", at.join("two/w")).unwrap();
            },
            &["b/two"],
        ),
        (
            "another name of a file",
            |at| fs::hard_link(at.join("top"), at.join("two/v")).unwrap(),
            &["b", "b/two"],
        ),
    ];
    for (what, change, differing) in changes {
        let folder = twins();
        change(&folder.path().join("a"));
        let [own, theirs] = both(folder.path(), &keeping);
        assert_eq!(theirs.len(), 4, "{what}");
        let found: Vec<_> = theirs
            .iter()
            .filter(|(path, digest)| **digest == UNKNOWN || own.get(*path) != Some(digest))
            .map(|(path, _)| str::from_utf8(path).unwrap())
            .collect();
        assert_eq!(found, differing, "{what}");
    }
}

#[test]
fn the_order_of_entries_does_not_matter_in_folders_of_any_length() {
    for count in [1, LONG_ENTRIES, LONG_ENTRIES + 1] {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..count).map(|number| format!("file{number}")).collect();
        for (tree, names) in [("a", names.iter().collect::<Vec<_>>()), ("b", names.iter().rev().collect())] {
            fs::create_dir(folder.path().join(tree)).unwrap();
            for name in names {
                File::create(folder.path().join(tree).join(name)).unwrap();
                touch(&folder.path().join(tree).join(name));
            }
            touch(&folder.path().join(tree));
        }
        let [own, theirs] = both(folder.path(), &Preserve::default());
        assert_eq!(own, theirs, "{count}");
        touch(&folder.path().join("b"));
        fs::write(folder.path().join("b/file0"), "x").unwrap();
        let [own, theirs] = both(folder.path(), &Preserve::default());
        assert_ne!(own, theirs, "{count}");
    }
}

#[test]
fn what_the_sender_treats_in_its_own_way_is_equal_to_nothing() {
    let folder = twins();
    for tree in ["a", "b"] {
        let pipe = folder.path().join(tree).join("two/pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        File::create(folder.path().join(tree).join(format!("one/{}", crate::journal::file_name([1; 16]))))
            .unwrap();
    }
    let [own, _] = both(folder.path(), &Preserve::default());
    assert_eq!((own[&b"b/two"[..]], own[&b"b/one"[..]]), (UNKNOWN, UNKNOWN));
    assert_ne!(own[&b"b"[..]], UNKNOWN);
}

fn digested(root: u32, path: &[u8], digest: u8) -> Digested {
    Digested { root, path: path.into(), digest: [digest; 16], bytes: 1, entries: Some(1), files: None }
}

#[test]
fn the_table_judges_whoever_comes_first() {
    let allowance = Allowance::of(KEPT_BYTES_MAX);
    for mine_first in [true, false] {
        let mut table = Table::new(&allowance);
        let told = [(b"a", 1), (b"b", 2), (b"c", 0), (b"d", 4)];
        let told = told.map(|(path, digest)| FolderDigest { path: bytes_hash(path), digest: [digest; 16] });
        if !mine_first {
            table.add_theirs(told.to_vec(), false).unwrap();
        }
        for (path, digest) in [(b"a", 1), (b"b", 9), (b"c", 0), (b"e", 5)] {
            table.add_mine(digested(0, path, digest));
        }
        if mine_first {
            table.add_theirs(told.to_vec(), false).unwrap();
        }
        // The sender has a folder `c` of which it could not see everything.
        let mut differ: Vec<_> = table.differ.iter().map(|(number, own)| (*number, own.is_some())).collect();
        differ.sort_unstable();
        assert_eq!(differ, [(1, true), (2, true)]);
        assert_eq!(table.next_to_ask().len(), 2);
        assert!(table.next_to_ask().is_empty() && !table.is_settled());
        assert!(table.equal.has(0, b"a") && !table.equal.has(1, b"a"));
        assert!([&b"b"[..], b"c", b"d", b"e"].iter().all(|path| !table.equal.has(0, path)));
        assert_eq!(
            (table.equal.bytes, table.equal.contents(0, b"a").map(|contents| contents.entries)),
            (1, Some(1))
        );
    }
}

#[test]
fn a_folder_of_two_sources_is_equal_to_neither_beforehand() {
    let allowance = Allowance::of(KEPT_BYTES_MAX);
    let mut table = Table::new(&allowance);
    table.add_mine(digested(0, b"a", 1));
    table.add_mine(digested(1, b"a", 2));
    let told = FolderDigest { path: bytes_hash(b"a"), digest: [2; 16] };
    table.add_theirs(vec![told], false).unwrap();
    assert!(table.equal.is_empty() && matches!(table.differ.make_contiguous(), [(0, None)]));
}

#[test]
fn a_receiver_tells_no_more_folders_than_can_be_kept() {
    let allowance = Allowance::of(KEPT_BYTES_MAX);
    let mut table = Table::new(&allowance);
    table.count = FOLDERS_MAX - 1;
    let told = FolderDigest { path: [1; 16], digest: [2; 16] };
    table.add_theirs(vec![told], false).unwrap();
    assert!(table.add_theirs(vec![told], false).is_err());
}

/// Returns the verdict on a folder of which the receiver has what the tree `b` has, beside the sender's tree `a`.
fn verdict(at: &Path, preserve: &Preserve, path: &[u8]) -> Verdict {
    let rules = rules(preserve.clone());
    let naming = Naming::As(RelativePath::new(b"b").unwrap());
    let source = Source::new(vec![SourceRoot::open(&at.join("a"), &naming, false).unwrap()]);
    let own = source.folders(&WalkOptions::default()).unwrap();
    let target = Target::open(at, TargetOptions::default()).unwrap();
    let theirs =
        target.folders(vec![path.to_vec()], preserve.kinds_of_xattrs(), false, (Filter::default(), false));
    let (out, results) = unbounded::<Listed>();
    let knowing = Knowing { update: true, with_owner: rules.owner, ..Knowing::default() };
    let telling = Telling { knowing, versions: true, movable: None };
    let mut listing = Listing::new(telling, out);
    listing.told_for(AskedFor::Files(7));
    theirs.visit(&mut listing);
    assert!(listing.folder_is_told() && listing.hand_on());
    let Listed { folders: 1, lists, have } = results.recv().unwrap() else { panic!("one folder is told") };
    let list = lists.into_lists().next().flatten().unwrap();
    assert_eq!((list.folder, have), (7, Have::default()));
    let verdict = compare_list(&own, &mut own.memory(), rules.knowing(), (0, path), list.clone());
    kept_alike(&own, &rules, path, list, &verdict);
    verdict
}

/// Checks that a folder whose files are kept gets the same verdict.
fn kept_alike(own: &Folders, rules: &Rules, path: &[u8], list: List, expected: &Verdict) {
    let (allowance, (out, results)) = (Allowance::of(KEPT_BYTES_MAX), unbounded::<Vec<Digested>>());
    let mut digesting = Digesting::new(rules, None, Keeping::new(&allowance), out);
    own.visit_only((0, path), &mut own.memory(), &mut digesting);
    digesting.hand_on();
    drop(digesting);
    let Ok(Some(Digested { entries, files: Some(files), .. })) = results.recv().map(|mut all| all.pop())
    else {
        return;
    };
    let is_all = entries == Some(files.count());
    let verdict = compare_kept(rules.knowing(), (0, path), files.iter(), is_all, list);
    assert_eq!(format!("{verdict:?}"), format!("{expected:?}"));
}

#[test]
fn of_a_folder_that_is_nearly_equal_only_what_differs_is_remembered() {
    let folder = twins();
    let at = folder.path();
    for number in 0..10 {
        for tree in ["a", "b"] {
            fs::write(at.join(tree).join(format!("one/{number}")), vec![0; 1 << 20]).unwrap();
            touch(&at.join(tree).join(format!("one/{number}")));
        }
    }
    fs::write(at.join("a/one/x"), "longer").unwrap();
    fs::write(at.join("a/one/new"), "new").unwrap();
    fs::write(at.join("b/one/gone"), vec![0; 1 << 20]).unwrap();
    touch(&at.join("b/one/0"));
    fs::set_permissions(at.join("b/one/1"), Permissions::from_mode(0o600)).unwrap();
    let hash = |path: &str| path_hash(&RelativePath::new(path).unwrap());
    let mut changed = [hash("b/one/x"), hash("b/one/new"), hash("b/one/1")];
    changed.sort_unstable();
    match verdict(at, &Preserve::default(), b"b/one") {
        Verdict::Nearly { folder, bytes, entries, changed: mut found, rest } => {
            assert_eq!(entries, None, "there are a folder and a link");
            found.hashes.sort_unstable();
            let y = "one/y".len() as u64;
            assert_eq!(
                (folder, bytes, &*found.hashes),
                ((0, bytes_hash(b"b/one")), (9 << 20) + y, &changed[..])
            );
            // The file whose mode differs is the only one of the same content.
            assert_eq!(rest.done.len(), 1);
            let of = |paths: &[&str]| {
                paths.iter().map(|path| hash(path)).collect::<std::collections::BTreeSet<_>>()
            };
            let versions =
                rest.versions.iter().map(|version| version.path).collect::<std::collections::BTreeSet<_>>();
            assert_eq!(versions, of(&["b/one/gone", "b/one/1"]));
            let dated = rest.dated.iter().map(|dated| dated.path).collect::<std::collections::BTreeSet<_>>();
            assert_eq!(dated, of(&["b/one/gone", "b/one/1", "b/one/x"]));
        }
        Verdict::Unknown(_) => panic!("most files are equal"),
    }
}

#[test]
fn nothing_follows_where_the_most_differs_or_not_all_is_seen() {
    type Change = fn(&Path);
    let changes: [(&str, bool, Change); 5] = [
        ("nothing", true, |_| ()),
        ("two of three files", false, |at| {
            touch(&at.join("one/x"));
            fs::write(at.join("one/new"), "new").unwrap();
        }),
        ("a journal in the sender's folder", false, |at| {
            let name = crate::journal::file_name([1; 16]).to_string();
            fs::write(at.join("one").join(name), "").unwrap();
        }),
        ("a folder that another copy has not finished", false, |at| {
            fs::set_permissions(at.join("one"), Permissions::from_mode(0o1700)).unwrap();
        }),
        ("a folder that is gone", false, |at| fs::remove_dir_all(at.join("one")).unwrap()),
    ];
    for (what, is_nearly, change) in changes {
        let folder = twins();
        change(&folder.path().join("a"));
        let verdict = verdict(folder.path(), &Preserve::default(), b"b/one");
        assert_eq!(matches!(verdict, Verdict::Nearly { .. }), is_nearly, "{what}");
    }
    // Two names of one file are found when the tree is walked, if they are to stay so.
    for (hard_links, changed_count) in [(false, 0), (true, 1)] {
        let folder = twins();
        fs::hard_link(folder.path().join("a/top"), folder.path().join("a/another")).unwrap();
        let preserve = Preserve { hard_links, ..Preserve::default() };
        for tree in ["a", "b"] {
            (0..5).for_each(|number| {
                fs::write(folder.path().join(tree).join(number.to_string()), "x").unwrap()
            });
            (0..5).for_each(|number| touch(&folder.path().join(tree).join(number.to_string())));
        }
        match verdict(folder.path(), &preserve, b"b") {
            Verdict::Nearly { changed, entries, .. } => {
                // Folders are in it too.
                assert_eq!((changed.hashes.len(), entries), (1 + changed_count, None));
            }
            Verdict::Unknown(_) => panic!("most files are equal"),
        }
    }
}

#[test]
fn a_folder_of_equal_files_and_nothing_else_need_not_be_looked_into_again() {
    type Change = fn(&Path);
    let changes: [(&str, bool, &str, Change); 4] = [
        ("nothing", true, "", |_| ()),
        ("a link", false, "", |at| symlink("x", at.join("two/link")).unwrap()),
        ("a folder", false, "", |at| fs::create_dir(at.join("two/deep")).unwrap()),
        ("a new file", true, "new/", |at| fs::write(at.join("two/new"), "new").unwrap()),
    ];
    for (what, is_known, names, change) in changes {
        let folder = twins();
        change(&folder.path().join("a"));
        match verdict(folder.path(), &Preserve::default(), b"b/two") {
            Verdict::Nearly { entries, changed, .. } => {
                assert_eq!(entries, is_known.then_some(1), "{what}");
                assert_eq!(str::from_utf8(&changed.names).unwrap(), names, "{what}");
            }
            Verdict::Unknown(_) => panic!("{what}: half of the files are equal at least"),
        }
    }
}

#[test]
fn files_of_a_long_folder_are_told_without_its_number() {
    let folder = tempfile::tempdir().unwrap();
    (0..=LIST_FILES_MAX)
        .for_each(|number| drop(File::create(folder.path().join(number.to_string())).unwrap()));
    let target = Target::open(folder.path(), TargetOptions::default()).unwrap();
    let theirs = target.folders(vec![Vec::new()], Xattrs::default(), false, (Filter::default(), false));
    let (out, results) = unbounded::<Listed>();
    let mut listing = Listing::new(Telling::default(), out);
    listing.told_for(AskedFor::Files(0));
    theirs.visit(&mut listing);
    assert!(listing.folder_is_told() && listing.hand_on());
    drop(listing);
    let mut told = Listed::default();
    results.iter().for_each(|listed| told.append(listed));
    let end: Lists = std::iter::once(List::default()).collect();
    assert_eq!((told.lists, told.have.done.len()), (end, LIST_FILES_MAX + 1));
}
