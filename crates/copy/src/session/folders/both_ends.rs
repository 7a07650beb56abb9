//! Both ends of a comparison over a channel: random trees, memory that is too short, and any number of threads give the judgement
//! that a look at both trees gives.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, FileTimes, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use crossbeam_channel::bounded;
use proptest::prelude::*;
use sealane_lanes::CpuClock;
use sealane_peer::Channel;
use sealane_tree::{
    Filter, Metadata, Naming, RelativePath, Source, SourceRoot, Target, TargetOptions, Timestamp, WalkOptions,
};

use super::*;
use crate::{
    proto::message::Message,
    receive::strays::Strays,
    send::equal::{Equal, Likeness},
    session::{
        carriage::{Carriage, Part},
        control::Notices,
        messages,
    },
    summary::Notice,
};

/// Returns one end's view of a transfer.
fn control<'a>(channel: &'a mut Channel) -> Control<'a> {
    Control {
        channel,
        notices: Notices::Peer,
        pending: bounded::<Notice>(1).1,
        progress: Arc::default(),
        timeout: Duration::from_secs(20),
        clock: CpuClock::default(),
        told: Vec::new(),
        far: None,
        hears_changes: false,
        removes_sources: false,
        ends_first: false,
        prune: None,
        carriage: Carriage::new(Part::None),
    }
}

/// How a file of the source differs from that of the target.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Longer,
    Older,
    Mode,
    OnlyHere,
    OnlyThere,
    LinkThere,
}

/// A tree: for each folder its parent, and its files.
type Tree = Vec<(usize, Vec<Change>)>;

fn trees() -> impl Strategy<Value = Tree> {
    let change = prop_oneof![
        20 => Just(Change::Nothing),
        1 => Just(Change::Longer),
        1 => Just(Change::Older),
        1 => Just(Change::Mode),
        1 => Just(Change::OnlyHere),
        1 => Just(Change::OnlyThere),
        1 => Just(Change::LinkThere),
    ];
    prop::collection::vec((0..1000_usize, prop::collection::vec(change, 0..12)), 1..60)
}

fn put(at: &Path, bytes: usize, seconds: u64, mode: u32) {
    fs::write(at, vec![7; bytes]).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(at).unwrap().set_times(FileTimes::new().set_modified(modified)).unwrap();
    fs::set_permissions(at, Permissions::from_mode(mode)).unwrap();
}

/// Makes the trees `a` and `b`; returns the folders below both.
fn plant(at: &Path, tree: &Tree) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    for (number, (parent, files)) in tree.iter().enumerate() {
        let folder = match number {
            0 => PathBuf::new(),
            _ => folders[parent % folders.len()].join(format!("d{number}")),
        };
        let [a, b] = ["a", "b"].map(|name| at.join(name).join(&folder));
        fs::create_dir_all(&a).unwrap();
        fs::create_dir_all(&b).unwrap();
        for (number, change) in files.iter().enumerate() {
            let [a, b] = [&a, &b].map(|folder| folder.join(format!("f{number}")));
            let there = match change {
                Change::Nothing => Some((number, 1000, 0o644)),
                Change::Longer => Some((number + 1, 1000, 0o644)),
                Change::Older => Some((number, 999, 0o644)),
                Change::Mode => Some((number, 1000, 0o600)),
                Change::OnlyThere => Some((number, 1000, 0o644)),
                Change::OnlyHere | Change::LinkThere => None,
            };
            if !matches!(change, Change::OnlyThere) {
                put(&a, number, 1000, 0o644);
            }
            if let Some((bytes, seconds, mode)) = there {
                put(&b, bytes, seconds, mode);
            } else if matches!(change, Change::LinkThere) {
                symlink("f", &b).unwrap();
            }
        }
        if number > 0 {
            folders.push(folder);
        }
    }
    // The times of folders, so that whole ones are equal.
    for folder in folders.iter().rev() {
        for name in ["a", "b"] {
            let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
            File::open(at.join(name).join(folder)).unwrap().set_times(times).unwrap();
        }
    }
    folders
}

/// Whatever both ends have found out.
struct Found {
    equal: Equal,
    held: HashMap<[u8; 16], [u8; 8]>,
    /// How often the sender's claims were added to.
    takes: usize,
}

fn run(at: &Path, threads: u16, (here, there): (usize, usize)) -> Found {
    let rules = |kept_bytes| Rules { kept_bytes, ..Rules::new(&Secret::new([3; 32]), &Preserve::default()) };
    let naming = Naming::As(RelativePath::new(b"b").unwrap());
    let source = Source::new(vec![SourceRoot::open(&at.join("a"), &naming, false).unwrap()]);
    let own = source.folders(&WalkOptions::default()).unwrap();
    let target = Target::open(at, TargetOptions::default()).unwrap();
    let filter = (Filter::default(), false);
    let all = target.folders(vec![b"b".to_vec()], Xattrs::default(), true, filter);
    let (mut near, mut far) = Channel::pair().unwrap();
    let (mut held, mut takes) = (HashMap::new(), 0);
    let equal = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let strays = Strays::default();
            let telling = Telling::default();
            tell(&mut control(&mut far), &rules(there), &all, &strays, (threads, telling))
        });
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        assert_eq!(messages::receive(&mut near, deadline).unwrap().0, Message::Folders(Vec::new()));
        let how = Comparing { threads, finds_moved: false, judges_lists: true };
        let equal = compare(&mut control(&mut near), &rules(here), Some(&own), how, |have| {
            takes += 1;
            held.extend(have.done.into_iter().map(|held| (held.identity, held.attributes)));
            Ok(())
        });
        receiver.join().unwrap().unwrap();
        equal.unwrap()
    });
    Found { equal, held, takes }
}

/// Returns the name on the wire of what is below `a`.
fn wire(below: &Path) -> RelativePath {
    // A path that ends in nothing ends in a slash.
    let path: PathBuf = Path::new("b").join(below).components().collect();
    RelativePath::new(path.as_os_str().as_encoded_bytes()).unwrap()
}

/// Returns whether the sender passes over a file.
fn is_passed_over(found: &Found, at: &Path, folder: &Path, name: &str) -> bool {
    let (folder_path, path) = (wire(folder), wire(&folder.join(name)));
    match found.equal.likeness(0, folder_path.as_bytes()) {
        Likeness::Whole { .. } => true,
        Likeness::Nearly { .. } => !found.equal.has_changed(&path),
        Likeness::Unknown => {
            let own = fs::metadata(at.join("a").join(folder).join(name)).unwrap();
            let modified = Timestamp { seconds: own.mtime(), nanoseconds: own.mtime_nsec() as u32 };
            let metadata = Metadata {
                mode: own.mode() & 0o7777,
                modified,
                size_bytes: own.size(),
                ..Metadata::default()
            };
            let wanted = Knowing::default().held(&path, &metadata);
            found.held.get(&wanted.identity) == Some(&wanted.attributes)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_file_is_judged_as_by_a_look_at_both_trees(
        tree in trees(),
        threads in 1..4_u16,
        memory in (prop_oneof![Just(0_usize), Just(200), Just(1 << 20)], prop_oneof![Just(0_usize), Just(200), Just(1 << 20)]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let folders = plant(at, &tree);
        let found = run(at, threads, memory);
        // Claims are bounded by the number of messages too, and folders that differ are not.
        prop_assert_eq!(found.takes, 1);
        for (folder, (_, files)) in folders.iter().zip(&tree) {
            for (number, change) in files.iter().enumerate() {
                if matches!(change, Change::OnlyThere) {
                    continue;
                }
                let is_equal = matches!(change, Change::Nothing);
                let name = format!("f{number}");
                prop_assert_eq!(is_passed_over(&found, at, folder, &name), is_equal, "{:?} {}", folder, name);
            }
            // A walk of a folder without folders finds what it is said to contain.
            let Some(contents) = found.equal.contents(0, wire(folder).as_bytes()) else { continue };
            let has_folders = folders.iter().any(|other| other != folder && other.parent() == Some(folder));
            prop_assert!(!has_folders, "{:?}", folder);
            let mut changed: Vec<_> = contents.changed().map(<[u8]>::to_vec).collect();
            changed.sort_unstable();
            let is_here = |change: &Change| !matches!(change, Change::OnlyThere);
            let all: BTreeMap<_, _> =
                files.iter().enumerate().filter(|(_, change)| is_here(change)).map(|(n, c)| (format!("f{n}").into_bytes(), c)).collect();
            let expected: Vec<_> =
                all.iter().filter(|(_, change)| !matches!(change, Change::Nothing)).map(|(name, _)| name.clone()).collect();
            prop_assert_eq!(&changed, &expected, "{:?}", folder);
            prop_assert_eq!(contents.entries as usize, all.len() - expected.len(), "{:?}", folder);
        }
    }
}
