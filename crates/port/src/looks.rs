//! Whether a receiver looks for more behind what it has got: each look in vain is a system call.
//!
//! Guarantees: a receiver that finds something looks each time; one that finds nothing looks now and then.

/// After so many looks in vain, most are left out.
const VAIN: u8 = 8;
/// One of so many is taken then.
const EACH: u8 = 8;

/// The outcome of a receiver's latest looks.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    vain: u8,
    left_out: u8,
}

impl Looks {
    /// Returns whether to look now.
    pub(crate) fn pays(&mut self) -> bool {
        if self.vain < VAIN {
            return true;
        }
        self.left_out = (self.left_out + 1) % EACH;
        self.left_out == 0
    }

    /// Notes whether a look has found something.
    pub(crate) fn after(&mut self, has_found: bool) {
        self.vain = if has_found { 0 } else { (self.vain + 1).min(VAIN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_nothing_looks_now_and_then() {
        let mut looks = Looks::default();
        let taken = (0..800)
            .filter(|_| {
                looks.pays() && {
                    looks.after(false);
                    true
                }
            })
            .count();
        assert_eq!(taken, 8 + 99);
        // One find, and it looks each time again.
        looks.after(true);
        assert!((0..8).all(|_| looks.pays() && {
            looks.after(false);
            true
        }));
        assert!(!looks.pays());
    }
}
