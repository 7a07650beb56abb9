//! Reusable batches: a stock per lane.
//!
//! If one core writes a buffer after another, the transfers between the caches, one per cache line, cost more than a
//! checksum over the buffer. Therefore a batch belongs to the lane for which it was made, and returns to it from any
//! lane.
//!
//! Guarantees: no more batches exist than were planned; a lane without free batches gets one of another lane, if
//! there is any.

use sealane_lanes::Pool;
use sealane_port::Batch;

#[derive(Debug)]
#[repr(align(128))]
struct Own(Pool<Batch>);

/// The stocks of all lanes.
#[derive(Debug)]
pub(crate) struct Stocks(Box<[Own]>);

impl Stocks {
    /// Makes stocks of `count` batches for `lanes` lanes, each made by `make` when it is first needed.
    pub(crate) fn new(
        lanes: usize,
        count: usize,
        make: impl Fn() -> Batch + Clone + Send + Sync + 'static,
    ) -> Self {
        let own = |home: usize| {
            let share = count / lanes + usize::from(home < count % lanes);
            let make = make.clone();
            Own(Pool::of(share, move || Batch { home, ..make() }))
        };
        Self((0..lanes).map(own).collect())
    }

    /// Returns a batch for a lane, preferably one of its own.
    pub(crate) fn take(&self, lane: usize) -> Option<Batch> {
        let lanes = self.0.len();
        (lane..lane + lanes).find_map(|lane| self.0[lane % lanes].0.take())
    }

    /// Gives a batch back to its lane.
    pub(crate) fn give(&self, batch: Batch) {
        self.0[batch.home].0.give(batch);
    }

    /// Returns whether more than `count` could be taken.
    pub(crate) fn has_more_than(&self, count: usize) -> bool {
        self.0.iter().map(|own| own.0.left()).sum::<usize>() > count
    }

    /// Moves a batch whose bytes are still unwritten to memory of the lane that will write them.
    pub(crate) fn settle(&self, lane: usize, batch: &mut Batch) {
        if batch.home == lane {
            return;
        }
        if let Some(mut own) = self.0[lane].0.take() {
            std::mem::swap(&mut own.work.buffer, &mut batch.work.buffer);
            std::mem::swap(&mut own.home, &mut batch.home);
            self.give(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_returns_to_its_lane_and_no_more_exist_than_planned() {
        let stocks = Stocks::new(2, 5, || Batch::new(128, 1));
        let taken: Vec<Batch> = std::iter::from_fn(|| stocks.take(1)).collect();
        let homes: Vec<usize> = taken.iter().map(|batch| batch.home).collect();
        assert_eq!(homes, [1, 1, 0, 0, 0], "its own first");
        assert!(!stocks.has_more_than(0));
        taken.into_iter().for_each(|batch| stocks.give(batch));
        assert!(stocks.has_more_than(4) && !stocks.has_more_than(5));
        assert_eq!(stocks.take(0).map(|batch| batch.home), Some(0));
    }

    #[test]
    fn a_batch_that_settles_brings_its_buffer_back() {
        let stocks = Stocks::new(2, 4, || Batch::new(128, 1));
        let mut batch = stocks.take(0).unwrap();
        assert!(batch.push(0, 10, 0).is_some());
        let before = batch.work.buffer.bytes().as_ptr();
        stocks.settle(1, &mut batch);
        assert_eq!((batch.home, batch.packets.len()), (1, 1));
        assert_ne!(batch.work.buffer.bytes().as_ptr(), before);
        assert_eq!(stocks.take(0).unwrap().work.buffer.bytes().as_ptr(), before);
        let all: Vec<Batch> = std::iter::from_fn(|| stocks.take(1)).collect();
        assert_eq!(all.len(), 2);
    }
}
