//! A reusable stock of buffers and batches.
//!
//! Guarantees: no more than `count` exist, for any number of streams and lanes (the bytes in flight are a property of
//! the path, not of the number of streams). Each is made when it is first needed and reused afterwards.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// A type that a pool can lend.
pub trait Recycle {
    /// Forgets the content and keeps the memory.
    fn recycle(&mut self);
}

/// A bounded stock of equal values, shared by all lanes.
pub struct Pool<T> {
    free: Mutex<Vec<T>>,
    /// The number of free values, which can be read without a lock.
    free_count: AtomicUsize,
    unmade: AtomicUsize,
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("unmade", &self.unmade).finish_non_exhaustive()
    }
}

impl<T: Recycle> Pool<T> {
    /// Returns a stock of `count` values that `make` makes.
    pub fn of(count: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let free = Mutex::new(Vec::with_capacity(count));
        Self { free, free_count: AtomicUsize::new(0), unmade: AtomicUsize::new(count), make: Box::new(make) }
    }

    /// Takes the most recently used value (it may still be in a cache); returns `None` when all are out.
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

    /// Returns the number of values that could be taken.
    pub fn left(&self) -> usize {
        self.free_count.load(Relaxed) + self.unmade.load(Relaxed)
    }

    /// Gives a value back.
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

    struct Number(u8);

    impl Recycle for Number {
        fn recycle(&mut self) {
            self.0 = 0;
        }
    }

    #[test]
    fn never_makes_more_than_its_count() {
        let pool = Pool::of(3, || Number(7));
        let taken: Vec<Number> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), 3);
        assert!(taken.iter().all(|number| number.0 == 7));
        taken.into_iter().for_each(|buffer| pool.give(buffer));
        let again: Vec<Number> = std::iter::from_fn(|| pool.take()).collect();
        assert!(again.len() == 3 && again.iter().all(|number| number.0 == 0));
    }
}
