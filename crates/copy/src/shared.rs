//! What all threads of one transfer share: whether to go on, and why not.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use crate::{
    error::{Error, ErrorKind},
    wake::Bells,
};

/// The end of a transfer, decided once.
#[derive(Debug)]
pub(crate) struct Stop {
    stopped: AtomicBool,
    reason: Mutex<Option<Error>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { stopped: AtomicBool::new(false), reason: Mutex::new(None) }
    }

    /// Whether threads are to return.
    pub(crate) fn is_set(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// Ends the transfer well.
    pub(crate) fn finish(&self, bells: &Bells) {
        self.stopped.store(true, SeqCst);
        bells.ring();
    }

    /// Ends the transfer for a reason; the first one counts.
    pub(crate) fn fail(&self, error: Error, bells: &Bells) {
        self.reason.lock().expect("no thread panics holding the reason").get_or_insert(error);
        self.finish(bells);
    }

    /// The reason, if the transfer failed.
    pub(crate) fn reason(&self) -> Option<Error> {
        self.reason.lock().expect("no thread panics holding the reason").clone()
    }
}

/// Ends the transfer if the lane that holds it panics: the other lanes and the far end would wait for it for ever.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    pub(crate) stop: &'a Stop,
    pub(crate) bells: &'a Bells,
    pub(crate) control: &'a Bells,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "a lane panicked, which is a fault of this program; the same command goes on";
            self.stop.fail(Error::new(ErrorKind::Io, message), self.bells);
            self.control.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_panics_ends_the_transfer() {
        let (stop, bells, control) = (Stop::new(), Bells::new(1).unwrap(), Bells::new(1).unwrap());
        let lane = || {
            let _watch = Watch { stop: &stop, bells: &bells, control: &control };
            panic!("as a test wants it");
        };
        std::thread::scope(|scope| scope.spawn(lane).join().unwrap_err());
        assert!(stop.is_set());
        assert!(stop.reason().unwrap().message.contains("panicked"));
        drop(Watch { stop: &Stop::new(), bells: &bells, control: &control });
    }
}
