//! Buffers for the bytes in flight.
//!
//! Guarantees: no more than `count` buffers exist, however many streams and lanes there are (the bytes in
//! flight are a property of the path, not of the number of streams). A buffer is allocated when first
//! needed and used again ever after.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use sealane_engine::Buffer;

/// A bounded stock of equal buffers, shared by all lanes.
#[derive(Debug)]
pub struct Pool {
    free: Mutex<Vec<Buffer>>,
    unmade: AtomicUsize,
    buffer_bytes: usize,
}

impl Pool {
    /// A stock of `count` buffers of `buffer_bytes` each.
    pub fn new(count: usize, buffer_bytes: usize) -> Self {
        Self { free: Mutex::new(Vec::with_capacity(count)), unmade: AtomicUsize::new(count), buffer_bytes }
    }

    /// Takes a buffer, the most recently used first (it may still be in a cache), or `None` when all are out.
    pub fn take(&self) -> Option<Buffer> {
        if let Some(buffer) = self.free.lock().expect("no lane panics holding the stock").pop() {
            return Some(buffer);
        }
        let made = self.unmade.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        made.is_ok().then(|| Buffer::new(self.buffer_bytes))
    }

    /// Gives a buffer back.
    pub fn give(&self, buffer: Buffer) {
        self.free.lock().expect("no lane panics holding the stock").push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_makes_more_than_its_count() {
        let pool = Pool::new(3, 128);
        let taken: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), 3);
        assert!(taken.iter().all(|buffer| buffer.capacity_bytes() == 128));
        taken.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), 3);
    }
}
