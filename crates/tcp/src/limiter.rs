//! A bound on answers that anybody can provoke: challenge acknowledgements (RFC 5961, section 7) and answers to bare
//! segments outside the window, which two confused ends could send each other for ever.
//!
//! The count is per connection. A count over all connections would reveal to an attacker, who sees his own answers
//! stop, how many answers others provoke.

use crate::Time;
use core::time::Duration;

/// Answers within a period.
const ANSWERS_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Limiter {
    start: Time,
    count: u32,
}

impl Limiter {
    /// Returns whether one more answer may be sent.
    pub(crate) fn admit(&mut self, now: Time) -> bool {
        if now.since(self.start) >= PERIOD {
            *self = Self { start: now, count: 0 };
        }
        self.count += 1;
        self.count <= ANSWERS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_ten_a_second() {
        let mut limiter = Limiter::default();
        let admitted = |limiter: &mut Limiter, ms: u64| {
            (0..100).filter(|_| limiter.admit(Time::from_ns(ms * 1_000_000))).count()
        };
        assert_eq!(admitted(&mut limiter, 5_000), 10);
        assert_eq!(admitted(&mut limiter, 5_999), 0);
        assert_eq!(admitted(&mut limiter, 6_000), 10);
    }
}
