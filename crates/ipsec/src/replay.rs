//! The anti-replay window (RFC 4303, section 3.4.3; RFC 4302, section 3.4.3), as a ring of words (RFC 6479).
//!
//! Guarantees: a number is accepted at most once, and never below the window; the window only moves up; every call
//! costs at most one pass over the ring, however large the jump.

use std::fmt;

const WORD_BITS: u64 = 64;

/// The smallest window, in packets (RFC 4303, section 3.4.3: at least 32, 64 preferred).
const WINDOW_PACKETS_MIN: u32 = 64;
/// The largest window, in packets.
pub const WINDOW_PACKETS_MAX: u32 = 65_536;

/// The window size is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a replay window of {packets} packets; choose a multiple of 64 from {WINDOW_PACKETS_MIN} to {WINDOW_PACKETS_MAX}"
)]
pub struct WindowSizeError {
    /// The size given.
    pub packets: u32,
}

/// The window's verdict on a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The number was not accepted before and is within the window or above it.
    Fresh,
    /// The number was accepted before.
    Duplicate,
    /// The number is below the window: it may have been accepted before.
    TooOld,
}

/// The set of sequence numbers that were accepted among the last ones.
#[derive(Clone)]
pub struct ReplayWindow {
    /// One bit per number, in a ring with one word more than the window needs, so that moving up clears whole words.
    ring: Box<[u64]>,
    packets: u64,
    /// The highest number accepted; 0 before the first.
    top: u64,
}

impl fmt::Debug for ReplayWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayWindow").field("packets", &self.packets).field("top", &self.top).finish()
    }
}

impl ReplayWindow {
    /// Returns an empty window of `packets` numbers.
    ///
    /// # Errors
    /// Fails if `packets` is not a multiple of 64 within the offered range.
    pub fn new(packets: u32) -> Result<Self, WindowSizeError> {
        let is_offered = (WINDOW_PACKETS_MIN..=WINDOW_PACKETS_MAX).contains(&packets);
        if !is_offered || u64::from(packets) % WORD_BITS != 0 {
            return Err(WindowSizeError { packets });
        }
        let packets = u64::from(packets);
        let words = (packets / WORD_BITS + 1).next_power_of_two() as usize;
        Ok(Self { ring: vec![0; words].into_boxed_slice(), packets, top: 0 })
    }

    /// Returns the size in packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the highest number accepted; 0 before the first.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Returns the lowest number that could still be accepted.
    pub fn bottom(&self) -> u64 {
        (self.top + 1).saturating_sub(self.packets).max(1)
    }

    /// Returns the window's verdict on `number` without accepting it. Number 0 is never sent (RFC 4303, section 2.2),
    /// so it is too old from the start.
    pub fn check(&self, number: u64) -> Replay {
        if number > self.top {
            return Replay::Fresh;
        }
        if number < self.bottom() {
            return Replay::TooOld;
        }
        let (word, bit) = self.place(number);
        if self.ring[word] & bit == 0 { Replay::Fresh } else { Replay::Duplicate }
    }

    /// Accepts `number` if it is fresh. It is called only for packets whose integrity was verified (RFC 4303, section
    /// 3.4.3: the window is not moved before).
    pub fn accept(&mut self, number: u64) -> Replay {
        let verdict = self.check(number);
        if verdict == Replay::Fresh {
            if number > self.top {
                self.move_up(number);
            }
            let (word, bit) = self.place(number);
            self.ring[word] |= bit;
        }
        verdict
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let word = (number / WORD_BITS) as usize & (self.ring.len() - 1);
        (word, 1 << (number % WORD_BITS))
    }

    /// Clears the words that come into the window and makes `number` its top.
    fn move_up(&mut self, number: u64) {
        let (from, to) = (self.top / WORD_BITS, number / WORD_BITS);
        let words = self.ring.len() as u64;
        for word in (from + 1)..=to.min(from.saturating_add(words)) {
            self.ring[(word & (words - 1)) as usize] = 0;
        }
        self.top = number;
    }
}

/// Returns the full sequence number of a packet that carries only its `low` half (RFC 4303, appendix A2): the first
/// number from the window's bottom on whose low half it is. Returns `None` if there is no such number.
pub fn extended(window: &ReplayWindow, low: u32) -> Option<u64> {
    let bottom = (window.top() + 1).saturating_sub(window.packets());
    let candidate = bottom & !u64::from(u32::MAX) | u64::from(low);
    if candidate >= bottom { Some(candidate) } else { candidate.checked_add(1 << 32) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn window(packets: u32) -> ReplayWindow {
        ReplayWindow::new(packets).expect("an offered size")
    }

    #[test]
    fn only_offered_sizes_are_taken() {
        for packets in [0, 1, 32, 63, 65, 100, 65_537, 65_600, u32::MAX] {
            assert_eq!(ReplayWindow::new(packets).unwrap_err(), WindowSizeError { packets });
        }
        for packets in [64, 128, 192, 4096, 65_536] {
            assert_eq!(window(packets).packets(), u64::from(packets));
        }
    }

    #[test]
    fn the_edges_of_the_window() {
        let mut window = window(64);
        assert_eq!(window.check(0), Replay::TooOld);
        assert_eq!(window.accept(1), Replay::Fresh);
        assert_eq!(window.accept(1), Replay::Duplicate);
        assert_eq!(window.accept(64), Replay::Fresh);
        assert_eq!(window.accept(65), Replay::Fresh);
        // 65 is the top, so 2 is the bottom.
        assert_eq!(window.accept(1), Replay::TooOld);
        assert_eq!(window.accept(2), Replay::Fresh);
        assert_eq!(window.accept(u64::MAX - 1), Replay::Fresh);
        assert_eq!(window.accept(u64::MAX - 64), Replay::Fresh);
        assert_eq!(window.accept(u64::MAX - 65), Replay::TooOld);
    }

    #[test]
    fn the_high_half_is_the_one_nearest_above_the_bottom() {
        let mut window = window(64);
        assert_eq!(extended(&window, 7), Some(7));
        window.accept(0xffff_fff0);
        assert_eq!(extended(&window, 0xffff_ffff), Some(0xffff_ffff));
        assert_eq!(extended(&window, 0), Some(1 << 32));
        // Across the subspace (appendix A2, case B), old numbers keep the old high half.
        window.accept((1 << 32) + 3);
        assert_eq!(extended(&window, 0xffff_fff0), Some(0xffff_fff0));
        assert_eq!(extended(&window, 0xffff_ff00), Some((1 << 32) | 0xffff_ff00));
        assert_eq!(extended(&window, 4), Some((1 << 32) + 4));
        window.accept(u64::MAX - 5);
        assert_eq!(extended(&window, 0), None);
    }

    proptest! {
        /// Compares the window with a set of all accepted numbers.
        #[test]
        fn the_window_is_a_set_of_the_last_numbers(
            packets in prop::sample::select(vec![64u32, 128, 192, 1024]),
            start in prop::sample::select(vec![0u64, 1 << 32, u64::MAX - 5_000_000]),
            steps in prop::collection::vec((any::<bool>(), 0u64..3000), 1..400),
        ) {
            let mut window = window(packets);
            let mut accepted = HashSet::new();
            let mut top = 0;
            let mut at = start + 1;
            for (up, by) in steps {
                let number = if up { at + by } else { at.saturating_sub(by) };
                let expected = if number == 0 || number + u64::from(packets) <= top {
                    Replay::TooOld
                } else if accepted.contains(&number) {
                    Replay::Duplicate
                } else {
                    Replay::Fresh
                };
                prop_assert_eq!(window.check(number), expected);
                prop_assert_eq!(window.accept(number), expected);
                if expected == Replay::Fresh {
                    accepted.insert(number);
                    top = top.max(number);
                    at = top;
                    prop_assert_eq!(extended(&window, number as u32), Some(number));
                }
            }
        }
    }
}
