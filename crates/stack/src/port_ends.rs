//! Makes a port the ends of a stack.
//!
//! Guarantees: any stack runs over any port; the two directions through one stack take turns at the port, and neither
//! holds it longer than a call takes.

use crate::{Sink, Source};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sealane_port::Batch;
use sealane_port::Port;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug)]
struct Shared<P> {
    port: Mutex<P>,
    fd: Option<OwnedFd>,
}

impl<P> Shared<P> {
    /// A port is valid between two calls, even after one that panicked.
    fn port(&self) -> MutexGuard<'_, P> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

/// The end at which a port's packets come in.
#[derive(Debug)]
pub struct Receiving<P>(Arc<Shared<P>>);

/// The end at which packets leave by a port.
#[derive(Debug)]
pub struct Sending<P>(Arc<Shared<P>>);

/// Returns both ends of a stack over `port`, which must not block. Drop an end that is not wanted.
///
/// # Errors
/// Fails if the process has no descriptors left.
pub fn ends<P: Port>(port: P) -> io::Result<(Receiving<P>, Sending<P>)> {
    let fd = port.fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
    let shared = Arc::new(Shared { port: Mutex::new(port), fd });
    Ok((Receiving(Arc::clone(&shared)), Sending(shared)))
}

impl<P: Port> Source for Receiving<P> {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        self.0.port().receive(batch)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.port().poll_timeout()
    }
}

impl<P: Port> Sink for Sending<P> {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.0.port().send(batch, from)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }
}
