//! The partition of a walk into shares.
//!
//! Guarantees: every entry is in exactly one share; a share has at most [`FILES_MAX`] files and as many bytes as the
//! run permits ([`BYTES_MAX`]), except for a larger file, which is alone in its share, and its paths fit a job; the
//! number of open shares is bounded by the number of targets. A file of two shares and more is cut into ranges.
//!
//! The bounds are those of the longest-lived tool of this kind, NASA's Shift: about half a minute of work.

use std::collections::BTreeMap;

use sealane_tree::RANGES_MAX;

use crate::queue::{Job, Weight};
use crate::work::{CopyTask, Share};

/// Files of a share.
pub(crate) const FILES_MAX: u64 = 1000;
/// Bytes of a share, unless a run has another bound.
pub const BYTES_MAX: u64 = 4_000_000_000;
/// Ranges begin at multiples of this number of bytes.
const ALIGNMENT: u64 = 1 << 20;
/// A file is cut into this many ranges, unless they would be too short or too long.
const RANGES_WANTED: u64 = 64;
/// A range has at least this part of a share's bytes: more than 1 GiB of 4 GB.
const RANGE_OF_SHARE: u64 = 3;
/// Bytes of its paths.
pub(crate) const PATHS_BYTES_MAX: usize = 384 << 10;
/// The same if the result names all of them, with their changes.
pub(crate) const LISTED_BYTES_MAX: usize = 24 << 10;

/// Returns the length of the ranges of a file, in bytes; `None` if the file is not cut.
pub(crate) fn range_bytes(bytes: u64, share_bytes: u64) -> Option<u64> {
    let least = (share_bytes / RANGE_OF_SHARE).next_multiple_of(ALIGNMENT);
    let most = share_bytes.next_multiple_of(ALIGNMENT).max(least);
    let wanted = (bytes / RANGES_WANTED).clamp(least, most).max(bytes.div_ceil(RANGES_MAX));
    (bytes >= share_bytes.saturating_mul(2).max(1)).then(|| wanted.next_multiple_of(ALIGNMENT))
}

/// An entry of a walk.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Below the root.
    pub path: Vec<u8>,
    /// Content bytes.
    pub bytes: u64,
    /// The time of the entry's last change: seconds, and nanoseconds in addition.
    pub modified: (i64, u32),
    /// The entry is a symbolic link.
    pub is_link: bool,
}

#[derive(Debug)]
struct Open {
    share: Share,
    weight: Weight,
    paths_bytes: usize,
    content: blake3::Hasher,
}

/// Cuts the entries of one root.
#[derive(Debug)]
pub(crate) struct Cutter {
    root: u32,
    share_bytes: u64,
    paths_bytes_max: usize,
    open: BTreeMap<Option<Vec<u8>>, Open>,
}

impl Cutter {
    /// Creates a cutter without entries.
    pub(crate) fn new(root: u32, share_bytes: u64, paths_bytes_max: usize) -> Self {
        Self { root, share_bytes, paths_bytes_max, open: BTreeMap::new() }
    }

    /// Adds an entry for this target, or for any; returns a share if it is full now.
    pub(crate) fn push(&mut self, entry: &Entry, target: Option<Vec<u8>>) -> Option<Job> {
        let root = self.root;
        let open = self.open.entry(target.clone());
        let open = open.or_insert_with(|| Open {
            share: Share { root, target: target.clone(), paths: Vec::new() },
            weight: Weight::default(),
            paths_bytes: 0,
            content: blake3::Hasher::new(),
        });
        let more = entry.path.len() + 8;
        let is_full = open.weight.files >= FILES_MAX
            || open.weight.bytes.saturating_add(entry.bytes) > self.share_bytes
            || open.paths_bytes + more > self.paths_bytes_max;
        let full = (is_full && open.weight.files > 0).then(|| {
            let fresh = Open {
                share: Share { root, target, paths: Vec::new() },
                weight: Weight::default(),
                paths_bytes: 0,
                content: blake3::Hasher::new(),
            };
            std::mem::replace(open, fresh)
        });
        open.weight = open.weight.plus(Weight { files: 1, bytes: entry.bytes });
        open.paths_bytes += more;
        // The share has another name when a file of it has changed.
        let mut stamp = [0; 16];
        stamp[..8].copy_from_slice(&entry.modified.0.to_le_bytes());
        stamp[8..12].copy_from_slice(&entry.modified.1.to_le_bytes());
        stamp[15] = entry.is_link.into();
        open.content.update(&entry.bytes.to_le_bytes()).update(&stamp);
        open.share.paths.push(entry.path.clone());
        full.map(close)
    }

    /// Returns the shares that are still open.
    pub(crate) fn finish(self) -> impl Iterator<Item = Job> {
        self.open.into_values().map(close)
    }
}

fn close(open: Open) -> Job {
    let content = open.content.finalize();
    CopyTask::Share(open.share).job(open.weight, content.as_bytes())
}

/// Returns the target for this path, if each target has a folder of its own: the one whose name has the largest
/// digest together with the path (rendezvous hashing), so that a new or lost target moves only its own paths.
pub(crate) fn home<'a>(path: &[u8], targets: &'a [Vec<u8>]) -> Option<&'a Vec<u8>> {
    ranked(path, targets).into_iter().next()
}

/// Returns all targets, the first choice for `path` first.
pub(crate) fn ranked<'a>(path: &[u8], targets: &'a [Vec<u8>]) -> Vec<&'a Vec<u8>> {
    let score = |target: &Vec<u8>| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(target.len() as u64).to_le_bytes()).update(target).update(path);
        *hasher.finalize().as_bytes()
    };
    let mut all: Vec<_> = targets.iter().map(|target| (score(target), target)).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.into_iter().map(|(_, target)| target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::BODY_BYTES_MAX;
    use crate::work::Task;
    use proptest::prelude::*;
    use sealane_peer::PublicKey;

    fn paths(jobs: &[Job]) -> Vec<Vec<u8>> {
        let key = PublicKey::from_bytes([0; 32]);
        let share = |job: &Job| match Task::read(job, &key).expect("a job") {
            Task::Copy(CopyTask::Share(share)) => share.paths,
            other => panic!("{other:?}"),
        };
        jobs.iter().flat_map(share).collect()
    }

    proptest! {
        #[test]
        fn every_entry_is_in_one_share(sizes in prop::collection::vec(0_u64..3_000_000_000, 0..3000), long in 0_usize..4000) {
            let mut cutter = Cutter::new(0, BYTES_MAX, PATHS_BYTES_MAX);
            let name = |number: usize| [number.to_string().into_bytes(), vec![b'x'; if number.is_multiple_of(7) { long } else { 1 }]].concat();
            let mut jobs = Vec::new();
            for (number, &bytes) in sizes.iter().enumerate() {
                let entry = Entry { path: name(number), bytes, modified: (0, 0), is_link: false };
                jobs.extend(cutter.push(&entry, None));
            }
            jobs.extend(cutter.finish());
            prop_assert_eq!(paths(&jobs), (0..sizes.len()).map(name).collect::<Vec<_>>());
            for job in &jobs {
                prop_assert!(job.weight.files <= FILES_MAX && job.body.len() <= BODY_BYTES_MAX);
                prop_assert!(job.weight.bytes <= BYTES_MAX || job.weight.files == 1);
            }
        }
    }

    #[test]
    fn a_share_has_another_name_when_a_file_of_it_has_changed() {
        let cut = |bytes, seconds| {
            let mut cutter = Cutter::new(0, BYTES_MAX, PATHS_BYTES_MAX);
            assert!(
                cutter
                    .push(&Entry { path: b"a".to_vec(), bytes, modified: (seconds, 0), is_link: false }, None)
                    .is_none()
            );
            cutter.finish().next().expect("a share").id
        };
        let one = cut(5, 0);
        assert_eq!(one, cut(5, 0));
        assert!(one != cut(6, 0) && one != cut(5, 1));
    }

    #[test]
    fn large_files_are_cut_into_ranges_of_a_gibibyte_and_more() {
        const GB: u64 = 1_000_000_000;
        let cut = |bytes| range_bytes(bytes, BYTES_MAX);
        assert_eq!(cut(2 * BYTES_MAX - 1), None);
        for bytes in [8 * GB, 64 * GB, 200 * GB, 1000 * GB, 400_000 * GB] {
            let range = cut(bytes).expect("it is cut");
            assert!(range.is_multiple_of(1 << 20) && bytes.div_ceil(range) <= RANGES_MAX, "{bytes}: {range}");
            assert!(
                range >= 1 << 30 && (range <= BYTES_MAX + (1 << 20) || bytes > 200_000 * GB),
                "{bytes}: {range}"
            );
        }
        assert_eq!(range_bytes(9 << 20, 3 << 20), Some(1 << 20));
    }

    #[test]
    fn a_target_that_comes_moves_only_what_is_its_own() {
        let all: Vec<Vec<u8>> = (0..4).map(|number| format!("h{number}:/in").into_bytes()).collect();
        let mut counts = [0; 4];
        for number in 0..4000_u32 {
            let path = number.to_le_bytes();
            let before = home(&path, &all[..3]).expect("one");
            let after = home(&path, &all).expect("one");
            assert!(before == after || *after == all[3]);
            counts[all.iter().position(|target| target == after).expect("one of them")] += 1;
        }
        assert!(counts.iter().all(|&count| count > 800), "{counts:?}");
    }
}
