//! Several descriptors and a timer as one descriptor.
//!
//! Guarantees: it is readable while a queue's descriptor is, or when the time that was set last has come.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::epoll,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use crate::Queue;

/// The descriptors of all queues, and a timer, as one.
pub(super) struct Alarm {
    all: OwnedFd,
    timer: OwnedFd,
    set_ns: Option<u64>,
}

impl Alarm {
    pub(super) fn new(queues: &[Box<dyn Queue>]) -> io::Result<Option<Self>> {
        if queues.iter().all(|queue| queue.fd().is_none()) {
            return Ok(None);
        }
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let (none, input) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        for fd in queues.iter().filter_map(|queue| queue.fd()).chain([timer.as_fd()]) {
            epoll::add(&all, fd, none, input)?;
        }
        Ok(Some(Self { all, timer, set_ns: None }))
    }

    /// Silences the alarm until it is set again.
    pub(super) fn silence(&mut self) {
        if self.set_ns.is_some() && rustix::io::read(&self.timer, &mut [0; 8]).is_ok() {
            self.set_ns = None;
        }
    }

    /// Sets the alarm to ring after `left`; with `None` it does not ring.
    pub(super) fn set(&mut self, at_ns: Option<u64>, left: Option<Duration>) {
        if self.set_ns == at_ns {
            return;
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = match left {
            None => zero,
            // The value 0 would mean never.
            Some(left) => Timespec::try_from(left.max(Duration::from_nanos(1))).unwrap_or(zero),
        };
        let time = Itimerspec { it_interval: zero, it_value };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time).is_ok() {
            self.set_ns = at_ns;
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }
}
