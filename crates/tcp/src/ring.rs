//! A ring with a fixed number of places, allocated once. An element keeps its position while it is in the ring: the
//! number of elements pushed before it, modulo 2³².

use alloc::boxed::Box;
use alloc::vec;

/// A queue with random access, bounded by its capacity.
#[derive(Debug, Clone)]
pub(crate) struct Ring<T> {
    places: Box<[T]>,
    mask: u32,
    /// Position of the front.
    head: u32,
    len: u32,
}

impl<T: Copy + Default> Ring<T> {
    /// Returns a ring with `capacity` places, rounded up to a power of two.
    pub(crate) fn new(capacity: u32) -> Self {
        let places = capacity.clamp(1, 1 << 24).next_power_of_two();
        Self {
            places: vec![T::default(); places as usize].into_boxed_slice(),
            mask: places - 1,
            head: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.mask + 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == self.capacity()
    }

    /// Returns the position of the front element, or of the next one if the ring is empty.
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Appends `value`; the caller has checked that the ring is not full.
    pub(crate) fn push(&mut self, value: T) {
        assert!(!self.is_full(), "a full ring was pushed to");
        let place = self.place(self.len);
        self.places[place] = value;
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let value = *self.get(0)?;
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        Some(value)
    }

    /// Returns the element `index` places behind the front.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        (index < self.len).then(|| &self.places[self.place(index)])
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let place = self.place(index);
        (index < self.len).then(|| &mut self.places[place])
    }

    /// Returns the element at a position.
    pub(crate) fn at(&self, position: u32) -> Option<&T> {
        self.get(position.wrapping_sub(self.head))
    }

    /// Inserts `value` before the element at `index` and moves those behind; the caller has checked that there is
    /// room.
    pub(crate) fn insert(&mut self, index: u32, value: T) {
        self.push(value);
        let mut at = self.len - 1;
        while at > index {
            let (to, from) = (self.place(at), self.place(at - 1));
            self.places[to] = self.places[from];
            at -= 1;
        }
        let place = self.place(index);
        self.places[place] = value;
    }

    /// Removes the element at `index` and moves those behind it up.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = *self.get(index)?;
        for at in index..self.len - 1 {
            let (to, from) = (self.place(at), self.place(at + 1));
            self.places[to] = self.places[from];
        }
        self.len -= 1;
        Some(value)
    }

    /// Returns the index of the first element for which `is_before` does not hold; it holds for all elements in front
    /// of that.
    pub(crate) fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(&self.places[self.place(middle)]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self.places[self.place(index)])
    }

    fn place(&self, index: u32) -> usize {
        (self.head.wrapping_add(index) & self.mask) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    #[test]
    fn equals_a_deque_under_random_operations() {
        let mut ring = Ring::new(5);
        let mut deque = VecDeque::new();
        assert_eq!(ring.capacity(), 8);
        // Positions wrap as well.
        ring.head = u32::MAX - 3;
        let mut random = 1_u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = random >> 8;
            match value % 5 {
                0 | 1 if !ring.is_full() => {
                    ring.push(value);
                    deque.push_back(value);
                }
                2 => assert_eq!(ring.pop(), deque.pop_front()),
                3 if !ring.is_full() => {
                    let index = value / 5 % (ring.len() + 1);
                    ring.insert(index, value);
                    deque.insert(index as usize, value);
                }
                4 => {
                    let index = value / 5 % 8;
                    assert_eq!(ring.remove(index), deque.remove(index as usize));
                }
                _ => {}
            }
            assert!(ring.iter().eq(deque.iter()));
            assert_eq!(ring.at(ring.head()), deque.front());
        }
    }

    #[test]
    fn finds_the_first_that_is_not_before() {
        let mut ring = Ring::new(8);
        for value in [1, 3, 5, 7] {
            ring.push(value);
        }
        for (bound, expected) in [(0, 0), (1, 0), (2, 1), (7, 3), (8, 4)] {
            assert_eq!(ring.partition_point(|&value| value < bound), expected);
        }
    }
}
