//! Restores the order after the lanes.
//!
//! Guarantees: items leave in ticket order, each once, in whatever order they came in; at most `capacity` items wait.

use std::collections::VecDeque;

/// A bounded ring of finished work, drained from its head.
#[derive(Debug)]
pub struct OrderRing<T> {
    slots: VecDeque<Option<T>>,
    head: u64,
    capacity: usize,
}

impl<T> OrderRing<T> {
    /// Makes a ring for tickets from `first` on that holds up to `capacity` of them.
    pub fn new(first: u64, capacity: usize) -> Self {
        Self { slots: VecDeque::with_capacity(capacity), head: first, capacity }
    }

    /// Returns the ticket that leaves next.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the maximum number of items that wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns whether `ticket` could be put in now.
    pub fn admits(&self, ticket: u64) -> bool {
        ticket.checked_sub(self.head).is_some_and(|ahead| (ahead as usize) < self.capacity)
    }

    /// Puts a finished item in.
    ///
    /// # Errors
    /// Hands the item back if its ticket is too far ahead, has left already, or is taken.
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

    /// Returns whether the item at the head is in.
    pub fn is_ready(&self) -> bool {
        matches!(self.slots.front(), Some(Some(_)))
    }

    /// Takes the item at the head, if it is in.
    pub fn pop(&mut self) -> Option<T> {
        let item = self.slots.front_mut()?.take()?;
        self.slots.pop_front();
        self.head += 1;
        Some(item)
    }

    /// Takes all waiting items, in ticket order, and skips gaps.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.head += self.slots.len() as u64;
        self.slots.drain(..).flatten()
    }
}
