//! Closes what other processes have had in their hands.
//!
//! To close a descriptor may take as long as another process likes: a socket that lingers, an open file at whose other end is a
//! process that does not answer, a message in a queue that holds such a thing. **Guarantee:** whoever hands something over here goes
//! on at once; what hangs keeps a thread and no more. There are at most [`THREADS_MAX`] such threads; what waits for one is
//! bounded by the limit of descriptors.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of threads. A process can keep them only as long as it keeps as many files open.
const THREADS_MAX: usize = 64;

/// The time after which what waits to be closed gets another thread.
const PATIENCE: Duration = Duration::from_millis(100);

/// The time after which an idle thread looks whether the handles are gone.
const IDLE: Duration = Duration::from_secs(30);

/// A handle; all of its copies close together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Instant, OwnedFd)>,
    threads: usize,
    idle: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Closer {
    /// Closes a descriptor soon.
    pub(crate) fn close(&self, descriptor: OwnedFd) {
        let now = Instant::now();
        let mut state = self.0.state();
        state.waiting.push_back((now, descriptor));
        let is_late = state.waiting.front().is_some_and(|(since, _)| now - *since > PATIENCE);
        let wants_thread = state.threads == 0 || state.idle == 0 && is_late;
        if wants_thread && state.threads < THREADS_MAX {
            let shared = Arc::clone(&self.0);
            let spawned =
                thread::Builder::new().name("engine-closer".to_owned()).spawn(move || work(&shared));
            state.threads += usize::from(spawned.is_ok());
        }
        drop(state);
        self.0.wake.notify_one();
    }
}

/// Closes until the handles are gone.
fn work(shared: &Arc<Shared>) {
    loop {
        let mut state = shared.state();
        let Some((_, descriptor)) = state.waiting.pop_front() else {
            if Arc::strong_count(shared) == state.threads {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            let (mut state, _) =
                shared.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            continue;
        };
        drop(state);
        drop(descriptor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{
        RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg, sockopt,
    };
    use std::io::{IoSlice, Write as _};
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    /// A TCP socket whose close waits for a peer that takes nothing.
    fn lingering() -> (TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sockopt::set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        (listener, stream)
    }

    #[test]
    fn what_hangs_keeps_a_thread_and_not_its_caller() {
        let closer = Closer::default();
        let mut listeners = Vec::new();
        for _ in 0..3 {
            let (listener, stream) = lingering();
            listeners.push(listener);
            // As a message that nobody has received.
            let (near, far) = rustix::net::socketpair(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::SEQPACKET,
                rustix::net::SocketFlags::CLOEXEC,
                None,
            )
            .unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors = [stream.as_fd()];
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
            sendmsg(&far, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::empty()).unwrap();
            drop(stream);
            assert!(sealane_client::socket::carries_descriptors(&near).unwrap());
            closer.close(near);
        }
        // It comes to this one although the others hang.
        let (last, other) = std::os::unix::net::UnixStream::pair().unwrap();
        closer.close(last.into());
        thread::sleep(2 * PATIENCE);
        let until = Instant::now() + Duration::from_secs(30);
        while recv(&other, &mut [0u8; 1][..], RecvFlags::DONTWAIT).is_err() {
            let (one, _) = std::os::unix::net::UnixStream::pair().unwrap();
            closer.close(one.into());
            assert!(Instant::now() < until, "what hangs holds up the rest");
            thread::sleep(PATIENCE / 10);
        }
        // The peers end, and nothing lingers any more.
        drop(listeners);
    }
}
