//! A tree hash in subtrees, so that several lanes can compute one long message's digest.
//!
//! Guarantees: what is cut and joined ends as if the job had run whole, forged included, and tags are compared in constant
//! time; a subtree's job carries its whole context as any other does, and its result is written whichever way it runs.
//!
//! The message is cut into equal subtrees, complete but for the last, so that the tree over them has the shape of the tree
//! over a message's leaves ("BLAKE3", 2020, section 2.1). The first stays in place: the tag's room takes its chaining value
//! meanwhile.

use arrayvec::ArrayVec;
use sealane_transform::{ChainingValue, Kernels, LEAF_BYTES};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::{Direction, Job, JobStatus, PARTS_MAX, Session, Span, Work, run};

/// Most subtrees of one job: twice the parts, for numbers of parts that no message comes apart in evenly.
const SUBTREES_MAX: usize = 2 * PARTS_MAX;
/// Bytes of what a subtree's job puts into its tag's place.
pub const CHAINING_BYTES: usize = size_of::<ChainingValue>();

/// What computes a session's trees.
pub(crate) struct TreeKey {
    pub(crate) kernels: Kernels,
    /// Of keyed mode.
    pub(crate) key: Option<Zeroizing<[u8; 32]>>,
}

impl TreeKey {
    fn key(&self) -> Option<&[u8; 32]> {
        self.key.as_deref()
    }

    /// The chaining value of the subtree that begins with the leaf whose number, little-endian, `iv` starts with. `None` if
    /// `bytes` are none.
    pub(crate) fn subtree(&self, iv: &[u8; 16], bytes: &[u8]) -> Option<ChainingValue> {
        let leaf = u64::from_le_bytes(*iv.first_chunk().expect("an IV's room holds a number"));
        self.kernels.blake3_subtree(self.key(), leaf, bytes)
    }

    /// The tree above equal subtrees, of which the last may be shorter.
    fn merge(&self, values: &[ChainingValue], is_root: bool) -> ChainingValue {
        match values {
            [] => ChainingValue::default(),
            [one] => *one,
            many => {
                let (left, right) = many.split_at(1 << (many.len() - 1).ilog2());
                let halves = [self.merge(left, false), self.merge(right, false)];
                self.kernels.blake3_parent(self.key(), halves.each_ref(), is_root)
            }
        }
    }

    /// Bytes of a subtree for `parts` lanes: a power of two leaves, such that the first subtree alone and the others'
    /// share are as even as they can be. `None` where a share would not fill a vector.
    fn subtree_bytes(&self, message_bytes: usize, parts: usize) -> Option<usize> {
        let leaves = message_bytes.div_ceil(LEAF_BYTES);
        let fewest = self.kernels.blake3_leaves(self.key.is_some());
        let parts = parts.min(PARTS_MAX).min(leaves / fewest);
        if parts < 2 {
            return None;
        }
        let less = 1 << (leaves / parts).ilog2();
        let others_share = (leaves - less).div_ceil(parts - 1);
        // With less, the first lane waits for the others; with more, they for it.
        let more_is_better = 2 * less < others_share.max(less) && 2 * less < leaves;
        Some(LEAF_BYTES * if more_is_better { 2 * less } else { less })
    }
}

/// A job whose subtrees are computed apart.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    place: usize,
    whole: Job,
    /// What lay in the tag's place.
    given: ChainingValue,
    /// Where the message begins.
    start: u32,
    /// Of all subtrees but the last.
    subtree_bytes: u32,
    /// How many there are.
    subtrees: u8,
}

impl Tree {
    /// The job's place in [`Work::jobs`].
    pub fn job(&self) -> usize {
        self.place
    }
}

impl Session {
    /// The tree hash that this makes tags by, as a session for its subtrees ([`crate::Mac::Subtree`]).
    fn trees(&self) -> Option<&TreeKey> {
        self.subtrees()?.keys().mac.as_ref()?.key.tree()
    }
}

impl Work {
    /// Makes of a job that digests a long message by a tree the job of the tree's first subtree, for up to `parts` lanes,
    /// and gives back the jobs of the others, in order: their bytes (`clear`) lie in this work's buffer; whoever runs
    /// them, anywhere, by the session's [`Session::subtrees`], gives each [`CHAINING_BYTES`] for a `tag`. Then
    /// [`Self::join_tree`] ends the job.
    ///
    /// `None`, and nothing is changed, where no more than one lane would have a vector's worth of leaves to do; where the
    /// message does not lie side by side, or has a suffix; where its tag is shorter than a chaining value, or lies in the
    /// message beyond the first subtree. The job must not have run.
    pub fn cut_tree(
        &mut self,
        job: usize,
        parts: usize,
    ) -> Option<(Tree, ArrayVec<Job, { SUBTREES_MAX - 1 }>)> {
        let whole = *self.jobs.get(job).filter(|job| job.status == JobStatus::Pending)?;
        let session = self.sessions.get(usize::from(whole.session))?;
        let (trees, subtrees) = (session.trees()?, session.subtrees()?);
        run::hull(&self.sessions, self.buffer.bytes().len(), &whole)?;
        let message = run::message(&whole).filter(|_| whole.suffix.bytes().is_empty())?;
        let subtree_bytes = trees.subtree_bytes(message.len(), parts)?;
        let is_first = whole.tag.end() <= message.start + subtree_bytes;
        let is_apart = whole.tag.start as usize >= message.end || whole.tag.end() <= message.start;
        if !(is_first || is_apart) {
            return None;
        }
        let given = *self.buffer.bytes()[whole.tag.range()].first_chunk()?;
        let subtrees = subtrees.clone();
        let session = self.session(&subtrees)?;
        let piece = |start: usize| {
            let end = message.end.min(start + subtree_bytes);
            let mut iv = [0; 16];
            let leaf = ((start - message.start) / LEAF_BYTES) as u64;
            iv[..8].copy_from_slice(&leaf.to_le_bytes());
            let clear = Span::new(start as u32, (end - start) as u32);
            let (body, tag) = (Span::new(end as u32, 0), Span::new(end as u32, 0));
            Job { session, clear, body, tag, iv, ..Job::default() }
        };
        let others: ArrayVec<Job, _> = message.clone().step_by(subtree_bytes).skip(1).map(piece).collect();
        self.jobs[job] = Job { tag: whole.tag, ..piece(message.start) };
        let tree = Tree {
            place: job,
            whole,
            given,
            start: message.start as u32,
            subtree_bytes: subtree_bytes as u32,
            subtrees: 1 + others.len() as u8,
        };
        Some((tree, others))
    }

    /// Ends a job that [`Self::cut_tree`] has cut, once the work itself has run: seals or verifies it by the chaining
    /// values of its other subtrees, each with where its bytes begin in this work's buffer, in any order. Where one is
    /// missing, or the first subtree has not run, the job is malformed.
    pub fn join_tree(&mut self, tree: &Tree, others: impl IntoIterator<Item = (u32, ChainingValue)>) {
        let Tree { place, whole, given, start, subtree_bytes, subtrees } = tree;
        let direction = self.direction;
        let Some(job) = self.jobs.get_mut(*place) else { return };
        let first_status = job.status;
        *job = Job { status: JobStatus::Malformed, ..*whole };
        let session = self.sessions.get(usize::from(whole.session));
        let Some(trees) = session.and_then(|session| session.trees()) else { return };
        let Some(tag) = self.buffer.bytes_mut().get_mut(whole.tag.range()) else { return };
        let first = tag.first_chunk().copied().filter(|_| first_status == JobStatus::Done);
        tag.copy_from_slice(given);
        let mut values = [None; SUBTREES_MAX];
        values[0] = first;
        for (at, value) in others {
            let number = at.saturating_sub(*start) / subtree_bytes;
            values.get_mut(number as usize).into_iter().for_each(|place| *place = Some(value));
        }
        let known = values.into_iter().take(usize::from(*subtrees)).map_while(|value| value);
        let values: ArrayVec<ChainingValue, SUBTREES_MAX> = known.collect();
        if values.len() != usize::from(*subtrees) {
            return;
        }
        let made = trees.merge(&values, true);
        job.status = match direction {
            Direction::Seal => {
                tag.copy_from_slice(&made);
                JobStatus::Done
            }
            Direction::Open if bool::from(made.ct_eq(given)) => JobStatus::Done,
            Direction::Open => JobStatus::Forged,
        };
    }
}
