//! Waits for a child and returns its resource usage, which the standard library does not offer.
//!
//! Guarantees: a child is reaped at most once, so its number cannot belong to another process by then. The file needs
//! `unsafe` for `wait4(2)`, the only call that returns the usage of an ended child and its own children.
#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// The end of a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The exit status.
    pub(super) status: ExitStatus,
    /// CPU time, user and system, of the child and of all children that it reaped.
    pub(super) cpu: Duration,
}

/// Waits for the end of `child` and reaps it. It takes the child, so no other code can wait for it or signal it
/// afterwards.
pub(super) fn reap(child: Child) -> io::Result<Ended> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live locals of the types that wait4(2) writes; `child` is ours and not yet
        // reaped, because it is owned here and its status is kept only by its own `wait`, which was not called.
        let result = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if result == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: zeroed memory is a valid `rusage` (integers only), and wait4 has filled it in.
    let usage = unsafe { usage.assume_init() };
    Ok(Ended {
        status: ExitStatus::from_raw(status),
        cpu: duration(usage.ru_utime).saturating_add(duration(usage.ru_stime)),
    })
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds).saturating_add(Duration::from_micros(microseconds))
}

/// Waits until the child has ended, without reaping it; returns `false` once the deadline has passed.
pub(super) fn wait_until(pid: u32, deadline: Instant) -> io::Result<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut handles = [PollFd::new(&handle, PollFlags::IN)];
        match poll(&mut handles, Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn counts_what_the_child_and_its_children_used() {
        let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let child = Command::new("/bin/sh").args(["-c", &format!("({busy}); exit 3")]).spawn().unwrap();
        let ended = reap(child).unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.cpu > Duration::ZERO);
    }
}
