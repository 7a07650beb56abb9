//! The order in which ranges of an association's numbers leave, where several queues number packets under it at once.
//!
//! A peer whose replay window is narrow loses packets that overtake each other far, and some have a window of 32 packets.
//!
//! Guarantees: turns are given in the order of the ranges that are reserved with them; one is next only when all before it have
//! ended; nobody waits here.

use std::sync::{Mutex, MutexGuard};

/// A place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

#[derive(Debug, Default)]
struct State {
    /// The numbers of turns that were given, and of those that have ended.
    given: u64,
    ended: u64,
}

/// The order of one association.
///
/// Its state is behind a lock, although it is two numbers: whoever sees that a turn is not yet next, and leaves its work to others, is
/// ordered with the one that ends the turn before.
#[derive(Debug, Default)]
pub struct Turns(Mutex<State>);

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics holding turns")
    }

    /// Calls `reserve`, and gives a turn to what it returns.
    pub fn give<T>(&self, reserve: impl FnOnce() -> Option<T>) -> Option<(T, Turn)> {
        let mut state = self.state();
        let reserved = reserve()?;
        let turn = Turn(state.given);
        state.given += 1;
        Some((reserved, turn))
    }

    /// Returns whether all turns before this one have ended.
    pub fn is_next(&self, turn: Turn) -> bool {
        self.state().ended == turn.0
    }

    /// Ends a turn, which is next.
    pub fn end(&self, turn: Turn) {
        let mut state = self.state();
        assert_eq!(state.ended, turn.0, "a turn ends when it is next");
        state.ended += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_end_in_the_order_in_which_they_were_given() {
        let turns = Turns::default();
        let give = |number| turns.give(|| Some(number)).expect("it is reserved").1;
        let [first, second] = [give(1), give(2)];
        assert_eq!(turns.give(|| None::<u64>), None, "what is not reserved takes no turn");
        let third = turns.give(|| Some(3)).expect("it is reserved").1;
        for (at, turn) in [first, second, third].into_iter().enumerate() {
            let are_next = [first, second, third].map(|turn| turns.is_next(turn));
            assert_eq!(are_next, std::array::from_fn(|other| other == at));
            turns.end(turn);
        }
        assert!(![first, second, third].iter().any(|&turn| turns.is_next(turn)));
    }
}
