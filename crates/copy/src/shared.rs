//! What all threads of one transfer share: whether to go on, and why not.

use sealane_stack::{Bells, OnPanic};

use crate::error::{Error, ErrorKind};

/// The end of a transfer, decided once.
pub(crate) type Stop = sealane_stack::Stop<Error>;

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
        std::thread::scope(|scope| scope.spawn(lane).join().unwrap_err());
        assert!(stop.is_set());
        assert!(stop.reason().unwrap().message.contains("panicked"));
        drop(watch(&Stop::new(), &bells, &control));
    }
}
