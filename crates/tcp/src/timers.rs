//! The timers of a connection: each has one place, and the earliest is the connection's deadline.

use crate::Time;

/// The purposes of timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// RFC 6298.
    Retransmit,
    /// The peer's window is closed, or too small to be worth a segment.
    Persist,
    /// A delayed acknowledgement.
    Ack,
    KeepAlive,
    TimeWait,
}

impl Timer {
    pub(crate) const ALL: [Self; 5] =
        [Self::Retransmit, Self::Persist, Self::Ack, Self::KeepAlive, Self::TimeWait];
}

const NEVER: Time = Time::from_ns(u64::MAX);

#[derive(Debug)]
pub(crate) struct Timers([Time; Timer::ALL.len()]);

impl Timers {
    pub(crate) const fn new() -> Self {
        Self([NEVER; Timer::ALL.len()])
    }

    pub(crate) fn set(&mut self, timer: Timer, at: Time) {
        self.0[timer as usize] = at;
    }

    pub(crate) fn clear(&mut self, timer: Timer) {
        self.0[timer as usize] = NEVER;
    }

    pub(crate) fn clear_all(&mut self) {
        *self = Self::new();
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize] != NEVER
    }

    /// Returns whether the timer has run out, and clears it if so.
    pub(crate) fn take_due(&mut self, timer: Timer, now: Time) -> bool {
        let is_due = self.0[timer as usize] <= now && self.is_set(timer);
        if is_due {
            self.clear(timer);
        }
        is_due
    }

    pub(crate) fn earliest(&self) -> Option<Time> {
        self.0.iter().copied().min().filter(|&at| at != NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_counts_and_each_runs_out_once() {
        let mut timers = Timers::new();
        assert_eq!(timers.earliest(), None);
        timers.set(Timer::Ack, Time::from_ns(7));
        timers.set(Timer::Retransmit, Time::from_ns(5));
        assert_eq!(timers.earliest(), Some(Time::from_ns(5)));
        assert!(!timers.take_due(Timer::Ack, Time::from_ns(6)));
        assert!(timers.take_due(Timer::Retransmit, Time::from_ns(6)));
        assert!(!timers.take_due(Timer::Retransmit, Time::from_ns(6)));
        assert_eq!(timers.earliest(), Some(Time::from_ns(7)));
    }
}
