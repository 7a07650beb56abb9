//! Order restored behind the lanes.
//!
//! Guarantees: items leave in ticket order, each once, whatever order they came in; at most `capacity` wait.

use std::collections::VecDeque;

/// A bounded ring of finished work, drained from its head.
#[derive(Debug)]
pub struct OrderRing<T> {
    slots: VecDeque<Option<T>>,
    head: u64,
    capacity: usize,
}

impl<T> OrderRing<T> {
    /// Expects tickets from `first` on and holds up to `capacity` of them.
    pub fn new(first: u64, capacity: usize) -> Self {
        Self { slots: VecDeque::with_capacity(capacity), head: first, capacity }
    }

    /// The ticket that leaves next.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// How many items may wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether `ticket` could be put in now.
    pub fn admits(&self, ticket: u64) -> bool {
        ticket.checked_sub(self.head).is_some_and(|ahead| (ahead as usize) < self.capacity)
    }

    /// Puts a finished item in.
    ///
    /// # Errors
    /// Hands it back when its ticket is too far ahead, has left already, or is taken.
    pub fn insert(&mut self, ticket: u64, item: T) -> Result<(), T> {
        if !self.admits(ticket) {
            return Err(item);
        }
        let index = (ticket - self.head) as usize;
        while self.slots.len() <= index {
            self.slots.push_back(None);
        }
        match &mut self.slots[index] {
            Some(_) => Err(item),
            free => {
                *free = Some(item);
                Ok(())
            }
        }
    }

    /// The item at the head, if it is in.
    pub fn peek_mut(&mut self) -> Option<&mut T> {
        self.slots.front_mut()?.as_mut()
    }

    /// Takes the item at the head, if it is in.
    pub fn pop(&mut self) -> Option<T> {
        let item = self.slots.front_mut()?.take()?;
        self.slots.pop_front();
        self.head += 1;
        Some(item)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Takes everything that waits, in ticket order, gaps and all.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.head += self.slots.len() as u64;
        self.slots.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_what_is_too_far_too_late_or_twice() {
        let mut ring = OrderRing::new(5, 2);
        assert_eq!(ring.insert(7, 'x'), Err('x'));
        assert_eq!(ring.insert(4, 'x'), Err('x'));
        assert_eq!(ring.insert(6, 'b'), Ok(()));
        assert_eq!(ring.insert(6, 'x'), Err('x'));
        assert_eq!(ring.pop(), None);
        assert_eq!(ring.insert(5, 'a'), Ok(()));
        assert_eq!((ring.pop(), ring.pop(), ring.pop()), (Some('a'), Some('b'), None));
        assert!(ring.is_empty());
        assert_eq!(ring.head(), 7);
    }

    proptest! {
        /// Any schedule of `lanes` workers over a ring that has room for them comes out in order.
        #[test]
        fn any_schedule_comes_out_in_order(choices in prop::collection::vec(any::<prop::sample::Index>(), 1..200), lanes in 1..9usize) {
            let mut ring = OrderRing::new(0, lanes);
            let mut in_flight = Vec::new();
            let (mut next, mut out) = (0u64, Vec::new());
            for choice in choices {
                while in_flight.len() < lanes && ring.admits(next) {
                    in_flight.push(next);
                    next += 1;
                }
                let finished = in_flight.swap_remove(choice.index(in_flight.len()));
                prop_assert_eq!(ring.insert(finished, finished), Ok(()));
                while let Some(ticket) = ring.pop() {
                    out.push(ticket);
                }
            }
            prop_assert!(out.iter().copied().eq(0..out.len() as u64));
        }
    }
}
