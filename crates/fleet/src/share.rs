//! The partition of a walk into shares.
//!
//! Guarantees: every entry is in exactly one share; a share has at most [`FILES_MAX`] files and [`BYTES_MAX`] bytes,
//! except for a larger file, which is alone in its share, and its paths fit a job; the number of open shares is
//! bounded by the number of targets.
//!
//! The bounds are those of the longest-lived tool of this kind, NASA's Shift: about half a minute of work.

use std::collections::BTreeMap;

use crate::queue::{Job, Weight};
use crate::work::{Share, Work};

/// Files of a share.
pub(crate) const FILES_MAX: u64 = 1000;
/// Bytes of a share.
pub(crate) const BYTES_MAX: u64 = 4_000_000_000;
/// Bytes of its paths.
const PATHS_BYTES_MAX: usize = 384 << 10;

/// An entry of a walk.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Below the root.
    pub path: Vec<u8>,
    /// Content bytes.
    pub bytes: u64,
    /// The entry's time and kind, which change when the entry does.
    pub stamp: [u8; 16],
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
    open: BTreeMap<Option<Vec<u8>>, Open>,
}

impl Cutter {
    /// Creates a cutter without entries.
    pub(crate) fn new(root: u32) -> Self {
        Self { root, open: BTreeMap::new() }
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
            || open.weight.bytes.saturating_add(entry.bytes) > BYTES_MAX
            || open.paths_bytes + more > PATHS_BYTES_MAX;
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
        open.content.update(&entry.bytes.to_le_bytes()).update(&entry.stamp);
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
    Work::Share(open.share).job(open.weight, content.as_bytes())
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
    use proptest::prelude::*;

    fn paths(jobs: &[Job]) -> Vec<Vec<u8>> {
        let share = |job: &Job| match Work::read(&job.body).expect("a job") {
            Work::Share(share) => share.paths,
            other => panic!("{other:?}"),
        };
        jobs.iter().flat_map(share).collect()
    }

    proptest! {
        #[test]
        fn every_entry_is_in_one_share(sizes in prop::collection::vec(0_u64..3_000_000_000, 0..3000), long in 0_usize..4000) {
            let mut cutter = Cutter::new(0);
            let name = |number: usize| [number.to_string().into_bytes(), vec![b'x'; if number.is_multiple_of(7) { long } else { 1 }]].concat();
            let mut jobs = Vec::new();
            for (number, &bytes) in sizes.iter().enumerate() {
                jobs.extend(cutter.push(&Entry { path: name(number), bytes, stamp: [0; 16] }, None));
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
        let cut = |bytes, stamp| {
            let mut cutter = Cutter::new(0);
            assert!(cutter.push(&Entry { path: b"a".to_vec(), bytes, stamp }, None).is_none());
            cutter.finish().next().expect("a share").id
        };
        let one = cut(5, [0; 16]);
        assert_eq!(one, cut(5, [0; 16]));
        assert!(one != cut(6, [0; 16]) && one != cut(5, [1; 16]));
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
