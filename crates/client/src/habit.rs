//! The decision whether to spin before a sleep, by the outcome of earlier spins.
//!
//! **Guarantees:** after a spin in vain, the next one is left out, then the next three, then seven each
//! time; after a spin that found something, none is left out. A value has no clock.

/// The maximum number of waits without a spin between two spins in vain: few, because a client that has become busy is
/// noticed only by a spin.
const LEFT_OUT_MAX: u32 = 7;

/// The outcomes of the spins of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habit {
    left_out: u32,
    to_leave_out: u32,
}

impl Habit {
    /// Returns whether to spin now.
    pub fn spins(&mut self) -> bool {
        if self.to_leave_out > 0 {
            self.to_leave_out -= 1;
            return false;
        }
        true
    }

    /// Records whether a spin found something.
    pub fn learn(&mut self, has_found: bool) {
        self.left_out = if has_found { 0 } else { (2 * self.left_out + 1).min(LEFT_OUT_MAX) };
        self.to_leave_out = self.left_out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_in_vain_become_rare() {
        let mut habit = Habit::default();
        assert!((0..9).all(|_| habit.spins()), "nothing was learnt");
        let mut spun = Vec::new();
        for wait in 0..40 {
            if habit.spins() {
                spun.push(wait);
                habit.learn(false);
            }
        }
        assert_eq!(spun, [0, 2, 6, 14, 22, 30, 38]);
        while !habit.spins() {}
        habit.learn(true);
        assert!((0..9).all(|_| habit.spins()));
    }
}
