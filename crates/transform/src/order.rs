//! Longest first: lanes that start together should end together.
//!
//! A counting sort by length in 64-byte chunks, on the stack. Beyond 127 chunks eight classes to an octave are
//! enough: they only steer which messages share lanes.

/// Jobs that are ordered together; longer batches are cut.
pub(crate) const WINDOW: usize = 4096;

/// So few jobs are put in order one by one: the counts of all classes take longer to clear.
const FEW: usize = 12;

/// 128 exact classes and eight for each of the 57 octaves above.
const CLASSES: usize = 128 + 8 * 57;

/// Calls `run` with the jobs, [`WINDOW`] at most, and the indices of those for which `bytes` gives a length, longest
/// first.
pub(crate) fn by_length<J>(
    jobs: &mut [J],
    bytes: impl FnMut(&mut J) -> Option<usize>,
    run: impl FnOnce(&mut [J], &[u16]),
) {
    // Small batches must not pay for clearing the arrays of large ones.
    match jobs.len() {
        0..=32 => at_most::<32, J>(jobs, bytes, run),
        33..=512 => at_most::<512, J>(jobs, bytes, run),
        _ => at_most::<WINDOW, J>(jobs, bytes, run),
    }
}

fn at_most<const N: usize, J>(
    jobs: &mut [J],
    bytes: impl FnMut(&mut J) -> Option<usize>,
    run: impl FnOnce(&mut [J], &[u16]),
) {
    let order = Order::<N>::new(jobs, bytes);
    run(jobs, order.as_slice());
}

/// What lanes cost beyond their steps, in bytes that a single message would have done meanwhile; measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneCost {
    /// This many busy lanes are no faster than as many single messages.
    pub(crate) few: usize,
    /// To set up and wipe the kernel.
    pub(crate) fixed_bytes: usize,
    /// To give a lane its job and take it back.
    pub(crate) job_bytes: usize,
}

impl LaneCost {
    fn bytes(self, count: usize) -> usize {
        self.fixed_bytes.saturating_add(self.job_bytes.saturating_mul(count))
    }

    /// Whether [`Self::is_worth`] may say yes for messages of these lengths, which come in any order. It saves sorting where
    /// the answer is no. Of all messages but the longest it takes the average, which is never less than the average of
    /// those that `is_worth` counts. As soon as the messages seen so far outweigh the cost of all it says yes.
    pub(crate) fn may_be_worth(self, lengths: impl Iterator<Item = usize>) -> bool {
        let cost_of_all = self.bytes(lengths.size_hint().1.unwrap_or(usize::MAX));
        let (mut count, mut left, mut longest) = (0, 0usize, 0);
        for bytes in lengths {
            count += 1;
            left = left.saturating_add(bytes.min(longest));
            longest = bytes.max(longest);
            // `few` messages are at most half of these, so the others have half of the bytes or more.
            if left / 2 > cost_of_all && count >= 2 * self.few {
                return true;
            }
        }
        if count <= self.few {
            return false;
        }
        let others = match self.few {
            0 => left.saturating_add(longest),
            few => (left / (count - 1) + 1).saturating_mul(count - few),
        };
        others > self.bytes(count)
    }

    /// Whether lanes pay for messages of these lengths, longest first. The `few` longest messages gain nothing by lanes, so
    /// the bytes of the others must outweigh the cost.
    pub(crate) fn is_worth(self, lengths: impl ExactSizeIterator<Item = usize>) -> bool {
        let cost = self.bytes(lengths.len());
        let mut others = 0usize;
        lengths.skip(self.few).any(|bytes| {
            others = others.saturating_add(bytes);
            others > cost
        })
    }
}

/// Indices of jobs, longest first.
struct Order<const N: usize> {
    list: [u16; N],
    len: usize,
}

fn class(bytes: usize) -> usize {
    let chunks = bytes / 64 + 1;
    if chunks < 128 {
        chunks
    } else {
        let octave = chunks.ilog2() as usize;
        128 + 8 * (octave - 7) + (chunks >> (octave - 3) & 7)
    }
}

impl<const N: usize> Order<N> {
    /// Of at most `N` jobs.
    fn new<J>(jobs: &mut [J], mut bytes: impl FnMut(&mut J) -> Option<usize>) -> Self {
        let mut order = Self { list: [0; N], len: 0 };
        let mut classes = [0u16; N];
        // Jobs are rarely in the nearest cache, so each is looked at once.
        for (index, job) in jobs.iter_mut().enumerate().take(N) {
            if let Some(bytes) = bytes(job) {
                (classes[order.len], order.list[order.len]) = (class(bytes) as u16, index as u16);
                order.len += 1;
            }
        }
        let classes = &mut classes[..order.len];
        // `is_sorted` would branch at every pair; this is done in vectors.
        if classes.iter().zip(classes.iter().skip(1)).fold(true, |sorted, (a, b)| sorted & (a >= b)) {
            return order;
        }
        if order.len <= FEW {
            for n in 1..order.len {
                let (class, index) = (classes[n], order.list[n]);
                let longer = classes[..n].iter().rposition(|&before| before >= class).map_or(0, |at| at + 1);
                classes.copy_within(longer..n, longer + 1);
                order.list.copy_within(longer..n, longer + 1);
                (classes[longer], order.list[longer]) = (class, index);
            }
            return order;
        }
        let longest = classes.iter().fold(0, |longest, &class| class.max(longest));
        // Two sets of counts, taken in turn: a count that was just stored cannot be loaded at once.
        let mut starts = [[0u16; 2]; CLASSES];
        for (n, class) in classes.iter().enumerate() {
            starts[usize::from(*class)][n % 2] += 1;
        }
        let mut start = 0;
        for count in starts[..=usize::from(longest)].iter_mut().rev().flatten() {
            start += core::mem::replace(count, start);
        }
        let unsorted = order.list;
        for (n, (index, class)) in unsorted.iter().zip(&*classes).enumerate() {
            let place = &mut starts[usize::from(*class)][n % 2];
            order.list[usize::from(*place)] = *index;
            *place += 1;
        }
        order
    }

    fn as_slice(&self) -> &[u16] {
        &self.list[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn descending_and_complete(lengths in prop::collection::vec(prop::option::of(0usize..20_000), 0..300)) {
            let order = Order::<512>::new(&mut lengths.clone(), |&mut bytes| bytes);
            let classes: Vec<_> =
                order.as_slice().iter().map(|&i| class(lengths[usize::from(i)].unwrap())).collect();
            prop_assert!(classes.is_sorted_by(|a, b| a >= b));
            let mut all = order.as_slice().to_vec();
            all.sort_unstable();
            let wanted: Vec<_> = (0..lengths.len() as u16).filter(|&i| lengths[usize::from(i)].is_some()).collect();
            prop_assert_eq!(all, wanted);
        }
    }

    proptest! {
        /// Sorting is spared only where it would change nothing.
        #[test]
        fn what_may_not_be_worth_is_not(
            mut lengths in prop::collection::vec(0usize..3000, 1..20), few in 0usize..8, fixed_bytes in 0usize..3000,
        ) {
            let cost = LaneCost { few, fixed_bytes, job_bytes: 16 };
            let may = cost.may_be_worth(lengths.iter().copied());
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            let is = cost.is_worth(lengths.iter().copied());
            prop_assert!(may || !is, "{lengths:?}");
        }
    }

    #[test]
    fn the_longest_lengths_have_a_class() {
        assert!(class(usize::MAX - 64) < CLASSES);
    }
}
