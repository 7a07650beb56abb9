//! The state of a peer, as one thread finds it and others read it.

use std::{
    sync::atomic::{AtomicU8, Ordering::Relaxed},
    time::Duration,
};

/// A peer is silent if it has not answered our packets for this time.
pub const SILENT: Duration = Duration::from_secs(15);

/// The state of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There are no keys, or no packet has been sent under them.
    #[default]
    Waiting,
    /// The peer's packets arrive.
    Answers,
    /// There are keys, and packets are sent, but none of the peer's packets has ever arrived.
    NeverHeard,
    /// Packets are sent, and none of the peer's packets arrives any more.
    Silent,
}

impl State {
    const ALL: [Self; 4] = [Self::Waiting, Self::Answers, Self::NeverHeard, Self::Silent];

    /// Returns the state's name in a status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Answers => "answers",
            Self::NeverHeard => "never heard",
            Self::Silent => "silent",
        }
    }
}

/// A state that one thread writes and others read.
#[derive(Debug, Default)]
pub struct SharedState(AtomicU8);

impl SharedState {
    /// Returns the present state.
    pub fn get(&self) -> State {
        State::ALL.get(usize::from(self.0.load(Relaxed))).copied().unwrap_or_default()
    }

    /// Sets the state.
    pub fn set(&self, state: State) {
        self.0.store(state as u8, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_shared_as_they_are() {
        let shared = SharedState::default();
        for state in State::ALL {
            shared.set(state);
            assert_eq!(shared.get(), state);
        }
    }
}
