//! The state shared by all threads of one transfer: whether to continue, and the reason to stop.

use std::thread::{self, Scope, ScopedJoinHandle};

use sealane_engine::Buffer;
use sealane_lanes::{Bells, OnPanic};

use crate::error::{Error, ErrorKind};

/// The text of the failure to start a thread.
pub(crate) const NO_THREAD: &str = "cannot start a thread";

/// The failure of a lane whose engine has no queue to give.
pub(crate) const NO_QUEUE: &str = "cannot reach the engine that seals and opens records";

/// Starts a thread of the transfer. If the system has no thread to spare, the transfer ends for that reason.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    (stop, bells): (&Stop, &Bells),
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    started.map_err(|error| stop.fail(Error::io(NO_THREAD, &error), bells)).ok()
}

/// The buffers of a transfer.
pub(crate) type Pool = sealane_lanes::Pool<Buffer>;

/// Returns a stock of `count` buffers of `buffer_bytes` each.
pub(crate) fn buffers(count: usize, buffer_bytes: usize) -> Pool {
    Pool::of(count, move || Buffer::new(buffer_bytes))
}

/// The end of a transfer, decided once.
pub(crate) type Stop = sealane_lanes::Stop<Error>;

/// Ends the transfer if the lane that holds it panics: the other lanes and the far end would wait for it for ever.
pub(crate) fn watch(stop: &Stop, bells: &Bells, control: &Bells) -> OnPanic<impl Fn()> {
    OnPanic(|| {
        let message = "a lane panicked, which is a fault of this program; the same command goes on";
        stop.fail(Error::new(ErrorKind::Io, message), bells);
        control.ring();
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_panics_ends_the_transfer() {
        let (stop, bells, control) = (Stop::new(), Bells::new(1).unwrap(), Bells::new(1).unwrap());
        let lane = || {
            let _watch = watch(&stop, &bells, &control);
            panic!("as a test wants it");
        };
        thread::scope(|scope| scope.spawn(lane).join().unwrap_err());
        assert!(stop.is_set());
        assert!(stop.reason().unwrap().message.contains("panicked"));
        drop(watch(&Stop::new(), &bells, &control));
    }
}
