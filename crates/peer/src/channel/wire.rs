//! Two file descriptors, or one for both directions, that never block: every wait is a poll with a deadline.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::Shutdown;

/// The longest single poll; a deadline years away must not overflow the kernel's time type.
const LONGEST_POLL: Duration = Duration::from_secs(3600);

/// A byte stream to the peer.
pub(crate) struct Wire {
    input: File,
    /// `None` if `input` serves both directions.
    output: Output,
    /// The flags that the descriptors had before. Other processes may use the same open files (a shell its terminal).
    input_flags: OFlags,
}

enum Output {
    SameAsInput,
    Own(File, OFlags),
    Closed,
}

/// The result of a wait. If no flag is set, the deadline passed.
#[derive(Default, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) input: bool,
    pub(crate) output: bool,
    pub(crate) wake: bool,
}

impl Wire {
    /// Returns a socket that carries both directions.
    pub(crate) fn socket(socket: OwnedFd) -> io::Result<Self> {
        let input_flags = set_nonblocking(&socket)?;
        Ok(Self { input: socket.into(), output: Output::SameAsInput, input_flags })
    }

    /// Returns a wire with one descriptor for each direction.
    pub(crate) fn pair(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let input_flags = set_nonblocking(&input)?;
        let output_flags = set_nonblocking(&output)?;
        Ok(Self { input: input.into(), output: Output::Own(output.into(), output_flags), input_flags })
    }

    /// Waits until one of the wanted operations is possible, one of `wakes` is ready, or the deadline passes.
    ///
    /// An error or hang-up counts as ready: the read or write that follows reports it.
    pub(crate) fn wait(
        &self,
        read: bool,
        write: bool,
        wakes: &[PollFd<'_>],
        deadline: Instant,
    ) -> io::Result<Ready> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(LONGEST_POLL);
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            // Descriptors without a wanted operation are left out, because poll would report their hang-up at once,
            // again and again.
            let mut fds = Vec::with_capacity(2 + wakes.len());
            let flags = |read, write| {
                (if read { PollFlags::IN } else { PollFlags::empty() })
                    | (if write { PollFlags::OUT } else { PollFlags::empty() })
            };
            let shared = matches!(self.output, Output::SameAsInput);
            let input_at = (read || (write && shared)).then(|| {
                fds.push(PollFd::new(&self.input, flags(read, write && shared)));
                fds.len() - 1
            });
            let mut output_at = input_at.filter(|_| write && shared);
            if let (Output::Own(output, _), true) = (&self.output, write) {
                output_at = Some(fds.len());
                fds.push(PollFd::new(output, PollFlags::OUT));
            }
            let wakes_at = fds.len();
            fds.extend_from_slice(wakes);
            match poll(&mut fds, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
                Ok(0) if Instant::now() < deadline => continue,
                Ok(_) => {}
            }
            let failed = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
            let has = |at: Option<usize>, wanted| {
                at.and_then(|at| fds.get(at)).is_some_and(|fd| fd.revents().intersects(wanted | failed))
            };
            return Ok(Ready {
                input: read && has(input_at, PollFlags::IN),
                output: write && has(output_at, PollFlags::OUT),
                wake: fds[wakes_at..].iter().any(|fd| !fd.revents().is_empty()),
            });
        }
    }

    /// Announces the end of our bytes, while the other end's bytes can still arrive.
    pub(crate) fn shutdown_write(&mut self) {
        if let Output::SameAsInput = self.output {
            // A peer that is gone already needs no announcement.
            let _ = rustix::net::shutdown(&self.input, Shutdown::Write);
        } else {
            self.close_output();
        }
    }

    fn close_output(&mut self) {
        if let Output::Own(output, flags) = std::mem::replace(&mut self.output, Output::Closed) {
            let _ = fcntl_setfl(&output, flags);
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}

impl Read for &Wire {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&self.input).read(buf)
    }
}

impl Write for &Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &self.output {
            Output::SameAsInput => (&self.input).write(buf),
            Output::Own(output, _) => (&*output).write(buf),
            Output::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.close_output();
        let _ = fcntl_setfl(&self.input, self.input_flags);
    }
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<OFlags> {
    let before = fcntl_getfl(fd)?;
    fcntl_setfl(fd, before | OFlags::NONBLOCK)?;
    Ok(before)
}

/// Repeats a read or write while signals interrupt it; `None` means that it would block.
pub(crate) fn now_or_never(mut io: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match io() {
            Ok(n) => return Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
