//! The state shared by all threads of one transfer: whether to continue, and the reason to stop.

use std::{
    convert::Infallible,
    thread::{self, Scope},
};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use sealane_engine::Buffer;
use sealane_lanes::{Bells, OnPanic};

use crate::error::{Error, ErrorKind};

/// The text of the failure to start a thread.
pub(crate) const NO_THREAD: &str = "cannot start a thread";

/// The failure of a lane whose engine has no queue to give.
pub(crate) const NO_QUEUE: &str = "cannot reach the engine that seals and opens records";

/// Threads of one transfer that are started one by one and awaited together.
pub(crate) struct Threads<'scope, 'env, 'ends> {
    scope: &'scope Scope<'scope, 'env>,
    stop: &'ends Stop,
    bells: &'ends Bells,
    /// Each thread holds one of these until it ends.
    running: Sender<Infallible>,
    ended: Receiver<Infallible>,
}

impl<'scope, 'env, 'ends> Threads<'scope, 'env, 'ends> {
    /// Returns an empty set of threads, whose failures to start end the transfer by `stop`.
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, stop: &'ends Stop, bells: &'ends Bells) -> Self {
        let (running, ended) = bounded(0);
        Self { scope, stop, bells, running, ended }
    }

    /// Starts a thread. If the system has no thread to spare, the transfer ends for that reason.
    pub(crate) fn start(&self, name: &str, work: impl FnOnce() + Send + 'scope) {
        let running = self.running.clone();
        let work = || {
            let _running = running;
            work();
        };
        let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(self.scope, work);
        if let Err(error) = started {
            self.stop.fail(Error::io(NO_THREAD, &error), self.bells);
        }
    }

    /// Returns a channel that carries nothing, and is closed as soon as all threads have ended.
    pub(crate) fn ended(self) -> Receiver<Infallible> {
        self.ended
    }
}

/// Waits until `ended` is closed, and returns the values that came meanwhile by `kept`; those that came by `discarded`
/// are dropped. A thread that waits until there is room for one would never end. The channels must outlive `ended`.
pub(crate) fn drain_until<T, A, B>(
    ended: &Receiver<Infallible>,
    kept: &Receiver<T>,
    discarded: (&Receiver<A>, &Receiver<B>),
) -> Vec<T> {
    let mut late = Vec::new();
    loop {
        select! {
            recv(kept) -> one => late.extend(one),
            recv(discarded.0) -> _ => {}
            recv(discarded.1) -> _ => {}
            recv(ended) -> _ => break,
        }
    }
    late.extend(kept.try_iter());
    late
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
    use crossbeam_channel::never;

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

    #[test]
    fn threads_that_wait_for_room_are_awaited_and_their_values_kept() {
        let (stop, bells) = (Stop::new(), Bells::new(1).unwrap());
        let (sender, waiting) = bounded(1);
        let late = thread::scope(|scope| {
            let threads = Threads::new(scope, &stop, &bells);
            for _ in 0..4 {
                threads.start("one", || (0..10).for_each(|number| sender.send(number).unwrap()));
            }
            drain_until(&threads.ended(), &waiting, (&never::<()>(), &never::<()>()))
        });
        assert_eq!(late.len(), 40);
    }

    #[test]
    fn no_threads_have_ended() {
        let (stop, bells) = (Stop::new(), Bells::new(1).unwrap());
        thread::scope(|scope| Threads::new(scope, &stop, &bells).ended().recv().unwrap_err());
    }
}
