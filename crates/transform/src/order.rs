//! Sorts jobs longest first, because ways that start together should end together.
//!
//! It is a counting sort by length in 64-byte chunks, on the stack. Beyond 127 chunks eight classes per octave are
//! enough: they only decide which messages share ways.

/// Number of jobs that are sorted together; longer batches are cut.
pub(crate) const WINDOW: usize = 4096;

/// Up to this many jobs are sorted by counting those that come before each: the counts of all classes take longer to
/// clear.
const FEW: usize = 16;

/// There are 128 exact classes and eight for each of the 57 octaves above.
const CLASSES: usize = 128 + 8 * 57;

// A class and a place among few jobs form one number of 15 bits.
const _: () = assert!(CLASSES * FEW <= 1 << 15);

/// Calls `run` with the jobs, [`WINDOW`] at most, and the indices of those for which `bytes` returns a length,
/// longest first.
pub(crate) fn by_length<J, R>(
    jobs: &mut [J],
    bytes: impl FnMut(&mut J) -> Option<usize>,
    run: impl FnOnce(&mut [J], &[u16]) -> R,
) -> R {
    // Small batches must not pay for clearing the arrays of large ones.
    if jobs.len() <= FEW {
        at_most::<FEW, J, R>(jobs, bytes, run)
    } else if jobs.len() <= 32 {
        at_most::<32, J, R>(jobs, bytes, run)
    } else if jobs.len() <= 512 {
        at_most::<512, J, R>(jobs, bytes, run)
    } else {
        at_most::<WINDOW, J, R>(jobs, bytes, run)
    }
}

/// It is not inlined, because callers that do not sort would pay for this stack frame.
#[inline(never)]
fn at_most<const N: usize, J, R>(
    jobs: &mut [J],
    bytes: impl FnMut(&mut J) -> Option<usize>,
    run: impl FnOnce(&mut [J], &[u16]) -> R,
) -> R {
    let order = if N <= FEW { Order::<N>::of_few(jobs, bytes) } else { Order::<N>::new(jobs, bytes) };
    run(jobs, order.as_slice())
}

/// The cost of ways beyond their steps, in bytes that a single message would have processed meanwhile; measured. It
/// is small enough to be returned in registers, because it is requested once per batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaysCost {
    /// This many busy ways are no faster than as many single messages.
    pub(crate) few: u32,
    /// The cost of setting up and wiping the kernel.
    pub(crate) fixed_bytes: u32,
    /// The cost of giving a way its job and taking it back.
    pub(crate) job_bytes: u32,
}

/// Totals of messages before they are sorted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) messages: usize,
    /// The bytes of all messages, and of the longest.
    pub(crate) bytes: usize,
    pub(crate) longest: usize,
}

impl Totals {
    /// Returns the totals of messages of equal length.
    pub(crate) const fn equal(messages: usize, bytes: usize) -> Self {
        Self { messages, bytes: bytes.saturating_mul(messages), longest: bytes }
    }

    /// Adds a message.
    #[inline(always)]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.longest = self.longest.max(bytes);
    }
}

impl WaysCost {
    /// The cost of ways that never pay, or that do not exist.
    pub(crate) const NEVER: Self = Self { few: u32::MAX, fixed_bytes: 0, job_bytes: 0 };

    /// Returns the field as a `usize`.
    pub(crate) const fn few(self) -> usize {
        self.few as usize
    }

    const fn bytes(self, count: usize) -> usize {
        (self.job_bytes as usize).saturating_mul(count).saturating_add(self.fixed_bytes as usize)
    }

    /// Returns whether [`Self::is_worth`] may return true for such messages: this saves sorting if it cannot. The
    /// messages behind the `few` longest are on average no longer than those behind the longest one.
    #[inline]
    pub(crate) fn may_be_worth(self, of: Totals) -> bool {
        let (cost, few) = (self.bytes(of.messages), self.few());
        let others = if few == 0 { of.bytes } else { of.bytes.saturating_sub(of.longest) };
        if of.messages <= few || others <= cost {
            return false;
        }
        // The comparison avoids a division, which would take as long as a look at a few messages.
        few == 0 || others.saturating_mul(of.messages - few) > cost.saturating_mul(of.messages - 1)
    }

    /// Does as [`Self::may_be_worth`] for messages of these lengths, in any order. It returns true as soon as the
    /// messages seen so far outweigh the cost of all.
    pub(crate) fn may_be_worth_of(self, lengths: impl ExactSizeIterator<Item = usize>) -> bool {
        if lengths.len() <= self.few() {
            return false;
        }
        let cost_of_all = self.bytes(lengths.len());
        let mut totals = Totals::default();
        for bytes in lengths {
            totals.add(bytes);
            // `few` messages are at most half of these, so the others have half of the bytes or more.
            if (totals.bytes - totals.longest) / 2 > cost_of_all && totals.messages >= 2 * self.few() {
                return true;
            }
        }
        self.may_be_worth(totals)
    }

    /// Returns whether ways pay for messages of these lengths, longest first. The `few` longest messages gain
    /// nothing side by side, so the bytes of the others must outweigh the cost.
    pub(crate) fn is_worth(self, lengths: impl ExactSizeIterator<Item = usize>) -> bool {
        let cost = self.bytes(lengths.len());
        let mut others = 0usize;
        lengths.skip(self.few()).any(|bytes| {
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
    /// Sorts at most `N` jobs.
    fn new<J>(jobs: &mut [J], mut bytes: impl FnMut(&mut J) -> Option<usize>) -> Self {
        let mut order = Self { list: [0; N], len: 0 };
        let mut classes = [0u16; N];
        // Jobs are rarely in the nearest cache, so each is read once.
        for (index, job) in jobs.iter_mut().enumerate().take(N) {
            if let Some(bytes) = bytes(job) {
                (classes[order.len], order.list[order.len]) = (class(bytes) as u16, index as u16);
                order.len += 1;
            }
        }
        let classes = &classes[..order.len];
        // `is_sorted` would branch at every pair; this runs in vectors.
        if classes.iter().zip(classes.iter().skip(1)).fold(true, |sorted, (a, b)| sorted & (a >= b)) {
            return order;
        }
        let longest = classes.iter().fold(0, |longest, &class| class.max(longest));
        // There are two sets of counts, used in turn, because a count that was just stored cannot be loaded at once.
        let mut starts = [[0u16; 2]; CLASSES];
        for (n, class) in classes.iter().enumerate() {
            starts[usize::from(*class)][n % 2] += 1;
        }
        let mut start = 0;
        for count in starts[..=usize::from(longest)].iter_mut().rev().flatten() {
            start += core::mem::replace(count, start);
        }
        let unsorted = order.list;
        for (n, (index, class)) in unsorted.iter().zip(classes).enumerate() {
            let place = &mut starts[usize::from(*class)][n % 2];
            order.list[usize::from(*place)] = *index;
            *place += 1;
        }
        order
    }

    /// Sorts at most `N` jobs, and at most [`FEW`], without branches, because lengths are unpredictable.
    fn of_few<J>(jobs: &mut [J], mut bytes: impl FnMut(&mut J) -> Option<usize>) -> Self {
        let mut order = Self { list: [0; N], len: 0 };
        // The keys are all different, so that every job has a place of its own; equal classes keep their order.
        let (mut keys, mut indices) = ([0i16; FEW], [0u16; FEW]);
        for (index, job) in jobs.iter_mut().enumerate().take(N.min(FEW)) {
            if let Some(bytes) = bytes(job) {
                keys[order.len] = (class(bytes) * FEW + FEW - 1 - order.len) as i16;
                indices[order.len] = index as u16;
                order.len += 1;
            }
        }
        for (key, index) in keys.iter().zip(&indices).take(order.len) {
            let before: i16 = keys.iter().map(|other| i16::from(other > key)).sum();
            order.list[before as usize % N] = *index;
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

    /// Checks that all indices of the jobs that have a length are there, longest first.
    fn check<const N: usize>(order: &Order<N>, lengths: &[Option<usize>]) {
        let classes: Vec<_> =
            order.as_slice().iter().map(|&i| class(lengths[usize::from(i)].unwrap())).collect();
        assert!(classes.is_sorted_by(|a, b| a >= b), "{classes:?}");
        let mut all = order.as_slice().to_vec();
        all.sort_unstable();
        let wanted: Vec<_> =
            (0..lengths.len() as u16).filter(|&i| lengths[usize::from(i)].is_some()).collect();
        assert_eq!(all, wanted);
    }

    proptest! {
        #[test]
        fn many_are_descending_and_complete(
            lengths in prop::collection::vec(prop::option::of(0usize..20_000), 0..300),
        ) {
            check(&Order::<512>::new(&mut lengths.clone(), |&mut bytes| bytes), &lengths);
        }

        #[test]
        fn few_are_descending_and_complete(
            lengths in prop::collection::vec(prop::option::of(0usize..usize::MAX - 64), 0..=FEW),
        ) {
            check(&Order::<FEW>::of_few(&mut lengths.clone(), |&mut bytes| bytes), &lengths);
        }
    }

    proptest! {
        /// Sorting is skipped only if it would change nothing.
        #[test]
        fn what_may_not_be_worth_is_not(
            mut lengths in prop::collection::vec(0usize..3000, 1..20), few in 0u32..8, fixed_bytes in 0u32..3000,
        ) {
            let cost = WaysCost { few, fixed_bytes, job_bytes: 16 };
            let mut totals = Totals::default();
            lengths.iter().for_each(|&bytes| totals.add(bytes));
            let may = cost.may_be_worth(totals);
            prop_assert!(may || !cost.may_be_worth_of(lengths.iter().copied()), "{lengths:?}");
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
