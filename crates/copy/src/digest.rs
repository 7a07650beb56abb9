//! BLAKE3 of a file whose bytes arrive in any order, over many threads.
//!
//! Guarantees: once every group of a file has been added, [`TreeDigest::finish`] equals `blake3::hash` of its
//! content, in whatever order and however often the groups were added. The work per byte needs no lock
//! ([`hash_group`]); the rest, under a lock ([`TreeDigest::add`]), is at most one compression per level of the tree.
//! Siblings are merged as soon as both are present, so memory grows with the number of gaps, not with the file, and
//! is bounded ([`MAX_SUBTREES`]).
//!
//! A repeated group is ignored: the first content counts. A caller that writes a range again with other content must
//! create a new digest.
//!
//! Source: the BLAKE3 specification, section 2.1 (tree structure). A group is a power of two of chunks, and a group's
//! number at every level of the tree is its offset divided by the span of a node of that level. The right edge
//! follows the same rule, except that a node without a right sibling moves up unchanged.

use std::collections::BTreeMap;
use std::ops::Range;

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// The length of a group in bytes: the unit in which content is hashed.
pub(crate) const GROUP_BYTES: usize = 64 * 1024;

/// The maximum number of subtrees that wait for their siblings. About 20 MiB; a well-behaved sender leaves hundreds.
const MAX_SUBTREES: usize = 1 << 18;

static ZEROS: [u8; GROUP_BYTES] = [0; GROUP_BYTES];

/// The reason why a group was not added to a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DigestError {
    /// The bytes are not whole groups of the file.
    #[error("{bytes} bytes at offset {offset} are no whole groups of a file of {size} bytes")]
    Misplaced {
        /// Their claimed offset.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
        /// Bytes of the file.
        size: u64,
    },
    /// The group was hashed as a part of a file of another size.
    #[error("a group of a file of {found} bytes is no part of one of {expected} bytes")]
    OtherSize {
        /// The size of the file that the group belongs to.
        found: u64,
        /// Size of this file.
        expected: u64,
    },
    /// More than [`MAX_SUBTREES`] parts of the file have no sibling.
    #[error("a file arrives in too many fragments for a digest")]
    TooScattered,
}

/// The contribution of one group to the digest of its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupHash {
    offset: u64,
    size: u64,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    /// The group is the whole file.
    Root([u8; 32]),
    /// The group is one of several.
    Chaining(ChainingValue),
    /// The bytes are not a group of the file.
    Misplaced { bytes: u64 },
}

/// The hash by which two ends compare a piece of a file: of the chaining values of its groups, in order.
#[derive(Debug, Default)]
pub(crate) struct PieceHash(blake3::Hasher);

impl PieceHash {
    /// Adds the next group of the piece.
    pub(crate) fn add(&mut self, group: &GroupHash) {
        match &group.value {
            Value::Root(value) | Value::Chaining(value) => self.0.update(value),
            Value::Misplaced { bytes } => self.0.update(&bytes.to_le_bytes()),
        };
    }

    /// Returns the hash of all groups added.
    pub(crate) fn finish(&self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// Returns the hash of a piece of a file of `size` bytes, which begins with a group. `read` fills the bytes from an offset on,
/// and `each` gets the hash of each group.
///
/// # Errors
/// Fails if one of the two does.
pub(crate) fn hash_piece<E>(
    range: Range<u64>,
    size: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    mut each: impl FnMut(GroupHash) -> Result<(), E>,
) -> Result<[u8; 32], E> {
    let (mut group, mut piece) = (Vec::new(), PieceHash::default());
    for at in range.clone().step_by(GROUP_BYTES) {
        group.resize((range.end - at).min(GROUP_BYTES as u64) as usize, 0);
        read(at, &mut group)?;
        let hash = hash_group(at, &group, size);
        piece.add(&hash);
        each(hash)?;
    }
    Ok(piece.finish())
}

/// Hashes the group at `offset` of a file of `size` bytes.
///
/// `offset` is a multiple of [`GROUP_BYTES`] and `bytes` everything from there to the next multiple or the end
/// of the file. [`TreeDigest::add`] refuses the hash of anything else.
pub(crate) fn hash_group(offset: u64, bytes: &[u8], size: u64) -> GroupHash {
    let value = if group_bytes(offset, size) != Some(bytes.len()) {
        Value::Misplaced { bytes: bytes.len() as u64 }
    } else if size <= GROUP_BYTES as u64 {
        Value::Root(*blake3::hash(bytes).as_bytes())
    } else {
        Value::Chaining(blake3::Hasher::new().set_input_offset(offset).update(bytes).finalize_non_root())
    };
    GroupHash { offset, size, value }
}

/// Hashes the group at `offset` of a file of `size` bytes, where the file has a hole.
///
/// A chaining value depends on the offset, so zeros take as long as other bytes; but they need no buffer.
pub(crate) fn hash_zero_group(offset: u64, size: u64) -> GroupHash {
    hash_group(offset, &ZEROS[..group_bytes(offset, size).unwrap_or(0)], size)
}

/// Returns whether bytes at `offset` are a whole group of a file of `size` bytes.
pub(crate) fn is_group(offset: u64, bytes: usize, size: u64) -> bool {
    group_bytes(offset, size) == Some(bytes)
}

/// Returns the number of bytes of the group at `offset`; `None` if no group starts there.
fn group_bytes(offset: u64, size: u64) -> Option<usize> {
    let rest = size.checked_sub(offset)?;
    let starts_here = offset.is_multiple_of(GROUP_BYTES as u64) && (rest > 0 || size == 0);
    starts_here.then(|| rest.min(GROUP_BYTES as u64) as usize)
}

/// The digest of one file, over the groups added so far.
#[derive(Clone, Debug)]
pub(crate) struct TreeDigest {
    size: u64,
    group_count: u64,
    /// Subtrees without a sibling yet, by their first group. No subtree lies within another.
    waiting: BTreeMap<u64, Subtree>,
    root: Option<[u8; 32]>,
}

#[derive(Clone, Copy, Debug)]
struct Subtree {
    /// Spans `1 << level` groups, or fewer at the right edge.
    level: u32,
    value: ChainingValue,
}

impl TreeDigest {
    /// Returns the digest of a file of `size` bytes, without any group. An empty file is finished.
    pub(crate) fn new(size: u64) -> Self {
        let group_count = size.div_ceil(GROUP_BYTES as u64);
        let root = (size == 0).then(|| *blake3::hash(&[]).as_bytes());
        Self { size, group_count, waiting: BTreeMap::new(), root }
    }

    /// Adds one group; a group that was added before is ignored.
    ///
    /// # Errors
    /// Fails if the value is not a group or belongs to another file, or if there are more than [`MAX_SUBTREES`]
    /// fragments; the digest is then unchanged.
    pub(crate) fn add(&mut self, group: GroupHash) -> Result<(), DigestError> {
        let GroupHash { offset, size, value } = group;
        if size != self.size {
            return Err(DigestError::OtherSize { found: size, expected: self.size });
        }
        match value {
            Value::Misplaced { bytes } => Err(DigestError::Misplaced { offset, bytes, size }),
            Value::Root(root) => {
                self.root.get_or_insert(root);
                Ok(())
            }
            Value::Chaining(value) => self.add_chaining(offset / GROUP_BYTES as u64, value),
        }
    }

    /// Adds a hole. `range` consists of whole groups: it starts at a group, and ends at a group or at the end of the
    /// file.
    ///
    /// This takes as long as hashing the range. Under a lock that others wait for, add [`hash_zero_group`]s.
    ///
    /// # Errors
    /// Fails as [`add`](Self::add) does; if there are too many fragments, the front of the range has been added.
    #[cfg(test)]
    fn add_zeros(&mut self, range: Range<u64>) -> Result<(), DigestError> {
        const STEP: u64 = GROUP_BYTES as u64;
        let Range { start, end } = range;
        let ends_whole = end.is_multiple_of(STEP) || end == self.size;
        if !start.is_multiple_of(STEP) || !ends_whole || start > end || end > self.size {
            let bytes = end.saturating_sub(start);
            return Err(DigestError::Misplaced { offset: start, bytes, size: self.size });
        }
        for group in start / STEP..end.div_ceil(STEP) {
            if !self.has(group) {
                self.add(hash_zero_group(group * STEP, self.size))?;
            }
        }
        Ok(())
    }

    /// Returns the digest once every group has been added.
    pub(crate) fn finish(&self) -> Option<[u8; 32]> {
        self.root
    }

    /// Returns whether the group with this number has been added.
    fn has(&self, group: u64) -> bool {
        self.root.is_some()
            || (self.waiting.range(..=group).next_back())
                .is_some_and(|(&first, subtree)| group - first < 1 << subtree.level)
    }

    fn add_chaining(&mut self, group: u64, mut value: ChainingValue) -> Result<(), DigestError> {
        if self.has(group) {
            return Ok(());
        }
        let (mut index, mut level) = (group, 0);
        loop {
            // A chaining value belongs to a file of several groups, so this ends at the two below the root.
            let nodes_of_level = self.group_count.div_ceil(1 << level);
            let sibling = index ^ 1;
            if sibling < nodes_of_level {
                let Some(other) = self.take(sibling << level, level) else { break };
                let (left, right) = if index < sibling { (&value, &other) } else { (&other, &value) };
                if nodes_of_level == 2 {
                    self.root = Some(*merge_subtrees_root(left, right, Mode::Hash).as_bytes());
                    return Ok(());
                }
                value = merge_subtrees_non_root(left, right, Mode::Hash);
            }
            index >>= 1;
            level += 1;
        }
        // If anything had been merged, there would be room.
        if self.waiting.len() >= MAX_SUBTREES {
            return Err(DigestError::TooScattered);
        }
        self.waiting.insert(index << level, Subtree { level, value });
        Ok(())
    }

    /// Removes the subtree that starts with `group`, if it is complete up to `level`.
    fn take(&mut self, group: u64, level: u32) -> Option<ChainingValue> {
        let complete = self.waiting.get(&group).is_some_and(|subtree| subtree.level == level);
        if complete { self.waiting.remove(&group).map(|subtree| subtree.value) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GROUP: usize = GROUP_BYTES;

    /// Returns bytes that differ between any two chunks.
    fn content(size: usize, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; size];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    fn group(content: &[u8], number: usize) -> GroupHash {
        let start = number * GROUP;
        let end = content.len().min(start + GROUP);
        hash_group(start as u64, &content[start..end], content.len() as u64)
    }

    fn check(content: &[u8], order: impl IntoIterator<Item = usize>) -> TreeDigest {
        let mut digest = TreeDigest::new(content.len() as u64);
        let mut missing: std::collections::BTreeSet<usize> = (0..content.len().div_ceil(GROUP)).collect();
        for number in order {
            assert_eq!(digest.has(number as u64), !missing.contains(&number));
            assert_eq!(digest.finish().is_some(), missing.is_empty());
            digest.add(group(content, number)).unwrap();
            missing.remove(&number);
        }
        assert!(missing.is_empty(), "the order names every group");
        assert_eq!(digest.finish(), Some(*blake3::hash(content).as_bytes()));
        assert!(digest.waiting.is_empty());
        digest
    }

    #[test]
    fn boundary_sizes_equal_the_plain_hash_in_any_simple_order() {
        let sizes = [
            0,
            1,
            1023,
            1024,
            1025,
            GROUP - 1,
            GROUP,
            GROUP + 1,
            2 * GROUP - 1,
            2 * GROUP,
            2 * GROUP + 1,
            3 * GROUP,
            5 * GROUP + 7,
            7 * GROUP + 1024,
            (1 << 20) - 1,
            1 << 20,
            (1 << 20) + 1,
            17 * GROUP + 1025,
        ];
        for size in sizes {
            let content = content(size, size as u64);
            let count = size.div_ceil(GROUP);
            check(&content, 0..count);
            check(&content, (0..count).rev());
            check(&content, (0..count).step_by(2).chain((1..count).step_by(2)));
            check(&content, (0..count).chain(0..count).chain((0..count).rev()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_order_with_repetitions_equals_the_plain_hash(
            (count, order) in (1_usize..20).prop_flat_map(|count| {
                let groups = prop::collection::vec(0..count, 0..2 * count).prop_map(move |mut more| {
                    more.extend(0..count);
                    more
                });
                (Just(count), groups.prop_shuffle())
            }),
            tail in 1..=GROUP,
            seed: u64,
        ) {
            check(&content((count - 1) * GROUP + tail, seed), order);
        }

        #[test]
        fn holes_equal_zeros(count in 1_usize..12, tail in 1..=GROUP, holes in prop::collection::vec(any::<bool>(), 12), first: bool) {
            let size = (count - 1) * GROUP + tail;
            let mut content = content(size, 7);
            let ranges: Vec<_> = (0..count).map(|number| number * GROUP..size.min((number + 1) * GROUP)).collect();
            for (range, _) in ranges.iter().zip(&holes).filter(|&(_, &hole)| hole) {
                content[range.clone()].fill(0);
            }
            let mut digest = TreeDigest::new(size as u64);
            for turn in [first, !first] {
                for (number, range) in ranges.iter().enumerate().filter(|&(number, _)| holes[number] == turn) {
                    if turn {
                        digest.add_zeros(range.start as u64..range.end as u64).unwrap();
                    } else {
                        digest.add(group(&content, number)).unwrap();
                    }
                }
            }
            prop_assert_eq!(digest.finish(), Some(*blake3::hash(&content).as_bytes()));
        }
    }

    #[test]
    fn a_file_that_is_one_hole() {
        for size in [0, 1, GROUP, GROUP + 1, 20 * GROUP + 9] {
            let mut digest = TreeDigest::new(size as u64);
            digest.add_zeros(0..size as u64).unwrap();
            assert_eq!(digest.finish(), Some(*blake3::hash(&vec![0; size]).as_bytes()));
            digest.add_zeros(0..size as u64).unwrap();
        }
    }

    #[test]
    fn the_first_content_counts() {
        let content = content(3 * GROUP, 1);
        let mut digest = TreeDigest::new(content.len() as u64);
        for number in 0..3 {
            digest.add(group(&content, number)).unwrap();
            for earlier in 0..=number {
                digest.add(hash_zero_group((earlier * GROUP) as u64, content.len() as u64)).unwrap();
            }
        }
        assert_eq!(digest.finish(), Some(*blake3::hash(&content).as_bytes()));
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let (group, size) = (GROUP as u64, 3 * GROUP as u64 + 5);
        let mut digest = TreeDigest::new(size);
        let bytes = vec![1; GROUP + 1];
        for (offset, len) in [
            (1, GROUP),
            (0, 0),
            (0, GROUP - 1),
            (0, GROUP + 1),
            (3 * group, 4),
            (3 * group, 6),
            (3 * group, GROUP),
            (4 * group, 0),
            (4 * group, 1),
            (u64::MAX, 1),
            (u64::MAX - (group - 1), GROUP),
        ] {
            let refusal = DigestError::Misplaced { offset, bytes: len as u64, size };
            assert_eq!(digest.add(hash_group(offset, &bytes[..len], size)), Err(refusal));
        }
        for (start, end) in [(1, group), (0, 1), (group, 0), (0, size + 1), (4 * group, 4 * group)] {
            let refusal = DigestError::Misplaced { offset: start, bytes: end.saturating_sub(start), size };
            assert_eq!(digest.add_zeros(start..end), Err(refusal));
        }
        assert_eq!(digest.add_zeros(group..group), Ok(()));
        assert!(matches!(digest.add(hash_zero_group(4 * group, size)), Err(DigestError::Misplaced { .. })));
        let refusal = DigestError::OtherSize { found: size + 1, expected: size };
        assert_eq!(digest.add(hash_zero_group(0, size + 1)), Err(refusal));
        assert!(digest.waiting.is_empty() && digest.finish().is_none());
        // An empty file has one group, which is empty.
        assert_eq!(TreeDigest::new(0).add(hash_group(0, &[], 0)), Ok(()));
    }

    /// These tests do not depend on the hash, so the group is not hashed.
    fn unhashed(number: u64, size: u64) -> GroupHash {
        GroupHash { offset: number * GROUP as u64, size, value: Value::Chaining([0; 32]) }
    }

    #[test]
    fn memory_grows_with_gaps_not_with_the_file() {
        const LANES: u64 = 8;
        const EACH: u64 = 10_000;
        let size = LANES * EACH * GROUP as u64 - 1;
        let mut digest = TreeDigest::new(size);
        let mut most = 0;
        for step in 0..EACH {
            for lane in 0..LANES {
                digest.add(unhashed(lane * EACH + step, size)).unwrap();
                most = most.max(digest.waiting.len());
            }
        }
        assert!(digest.finish().is_some());
        // A run of groups is at most two subtrees of each level.
        let bound = LANES * 2 * u64::from(EACH.ilog2() + 1);
        assert!(most as u64 <= bound, "{most} subtrees for {LANES} lanes");
    }

    #[test]
    fn scattered_groups_have_a_bound() {
        let size = 4 * (MAX_SUBTREES * GROUP) as u64;
        let mut digest = TreeDigest::new(size);
        for number in 0..MAX_SUBTREES as u64 {
            digest.add(unhashed(2 * number, size)).unwrap();
        }
        let beyond = unhashed(2 * MAX_SUBTREES as u64, size);
        assert_eq!(digest.add(beyond), Err(DigestError::TooScattered));
        assert_eq!(digest.waiting.len(), MAX_SUBTREES);
        // Closing a gap still works, and makes room.
        digest.add(unhashed(1, size)).unwrap();
        digest.add(unhashed(3, size)).unwrap();
        assert_eq!(digest.add(beyond), Ok(()));
    }

    #[test]
    fn the_largest_file_has_its_last_group() {
        let mut digest = TreeDigest::new(u64::MAX);
        let last = u64::MAX / GROUP as u64;
        digest.add(hash_zero_group(last * GROUP as u64, u64::MAX)).unwrap();
        digest.add(hash_zero_group(0, u64::MAX)).unwrap();
        assert!(digest.has(last) && digest.has(0) && !digest.has(1) && !digest.has(last - 1));
        assert_eq!(digest.finish(), None);
    }
}
