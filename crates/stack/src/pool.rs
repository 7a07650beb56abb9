//! Buffers and batches in flight, used again and again.
//!
//! Guarantees: no more than `count` exist, however many streams and lanes there are (the bytes in flight are a property
//! of the path, not of the number of streams). Each is made when first needed and used again ever after.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use sealane_engine::Buffer;

/// What a pool lends.
pub trait Recycle {
    /// Forgets its content and keeps its memory.
    fn recycle(&mut self);
}

impl Recycle for Buffer {
    /// Nothing: whoever takes a buffer knows how much of it he has filled.
    fn recycle(&mut self) {}
}

/// A bounded stock of equals, shared by all lanes.
pub struct Pool<T = Buffer> {
    free: Mutex<Vec<T>>,
    /// How many of these there are, for whoever only looks.
    free_count: AtomicUsize,
    unmade: AtomicUsize,
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("unmade", &self.unmade).finish_non_exhaustive()
    }
}

impl Pool<Buffer> {
    /// A stock of `count` buffers of `buffer_bytes` each.
    pub fn new(count: usize, buffer_bytes: usize) -> Self {
        Self::of(count, move || Buffer::new(buffer_bytes))
    }
}

impl<T: Recycle> Pool<T> {
    /// A stock of `count` of what `make` makes.
    pub fn of(count: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let free = Mutex::new(Vec::with_capacity(count));
        Self { free, free_count: AtomicUsize::new(0), unmade: AtomicUsize::new(count), make: Box::new(make) }
    }

    /// Takes one, the most recently used first (it may still be in a cache), or `None` when all are out.
    pub fn take(&self) -> Option<T> {
        let mut stock = self.stock();
        if let Some(free) = stock.pop() {
            self.free_count.store(stock.len(), Relaxed);
            return Some(free);
        }
        drop(stock);
        let made = self.unmade.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        made.is_ok().then(|| (self.make)())
    }

    fn stock(&self) -> MutexGuard<'_, Vec<T>> {
        self.free.lock().expect("no lane panics holding the stock")
    }

    /// How many could be taken.
    pub fn left(&self) -> usize {
        self.free_count.load(Relaxed) + self.unmade.load(Relaxed)
    }

    /// Gives one back.
    pub fn give(&self, mut used: T) {
        used.recycle();
        let mut stock = self.stock();
        stock.push(used);
        self.free_count.store(stock.len(), Relaxed);
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
