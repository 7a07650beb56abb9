//! A tree hash in subtrees, so that several lanes can compute one long message's digest.
//!
//! Guarantees: a job that is cut and joined ends as if it had run whole, forged included, and tags are compared in
//! constant time; a subtree's job carries its whole context as any other job does, and its result is written in both
//! directions.
//!
//! The message is cut into equal subtrees, complete but for the last, so that the tree over them has the shape of the
//! tree over a message's leaves ("BLAKE3", 2020, section 2.1). The job of the first subtree replaces the cut job: the
//! tag's place holds its chaining value meanwhile.

use arrayvec::ArrayVec;
use sealane_transform::{ChainingValue, LEAF_BYTES};
use subtle::ConstantTimeEq as _;

use crate::{Direction, Job, JobStatus, PARTS_MAX, Session, Span, Work, run, tree_key::TreeKey};

/// The maximum number of subtrees of one job: twice the parts, for numbers of parts into which no message can be cut
/// evenly.
const SUBTREES_MAX: usize = 2 * PARTS_MAX;

/// A job whose subtrees are computed separately.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    place: usize,
    whole: Job,
    /// The bytes that were in the tag's place.
    given: ChainingValue,
    /// The start of the message.
    start: u32,
    /// The length of all subtrees but the last.
    subtree_bytes: u32,
    /// The number of subtrees.
    subtrees: u8,
}

impl Tree {
    /// Returns the job's index in [`Work::jobs`].
    pub fn job(&self) -> usize {
        self.place
    }
}

impl Session {
    /// Returns the tree hash that makes this session's tags, which its session for subtrees computes
    /// ([`crate::Mac::Subtree`]).
    fn trees(&self) -> Option<&TreeKey> {
        self.subtrees()?.keys().mac.as_ref()?.key.tree()
    }
}

impl Work {
    /// Cuts a job that digests a long message by a tree, for up to `parts` lanes: replaces it by the job of the
    /// tree's first subtree, and returns the jobs of the others, in order. Their bytes (`clear`) are in this work's
    /// buffer; they may run anywhere, by the session's [`Session::subtrees`], each with a `tag` of
    /// [`CHAINING_BYTES`]. [`Self::join_tree`] then ends the job.
    ///
    /// Returns `None` and changes nothing if at most one lane would have a vector's worth of leaves to compute; if
    /// the message is not contiguous, or has a suffix; or if its tag is shorter than a chaining value, or lies in the
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
        let subtree_bytes = trees.subtree_bytes(message.len(), parts.min(PARTS_MAX))?;
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
    /// values of its other subtrees, each with the position at which its bytes begin in this work's buffer, in any
    /// order. If a value is missing, or the first subtree has not run, the job is malformed.
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
