//! Signals that ask for the end. The first one asks the work to stop cleanly; the second one ends the program at once,
//! for whoever cannot wait.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

/// Listens for as long as it lives.
pub(crate) struct Interrupts {
    received: Arc<AtomicU8>,
    handle: Handle,
    listener: Option<JoinHandle<()>>,
}

impl Interrupts {
    /// From now on the first signal calls `stop`, on a thread of its own.
    ///
    /// # Errors
    /// When the system refuses a handler or a thread.
    pub(crate) fn listen(stop: impl Fn() + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let received = Arc::new(AtomicU8::new(0));
        let listener = thread::Builder::new().name("signals".to_owned()).spawn({
            let received = received.clone();
            move || {
                for signal in signals.forever() {
                    // The three numbers are below 16 on every Unix.
                    let number = u8::try_from(signal).unwrap_or(u8::MAX);
                    if received.compare_exchange(0, number, SeqCst, SeqCst).is_ok() {
                        stop();
                    } else {
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                }
            }
        })?;
        Ok(Self { received, handle, listener: Some(listener) })
    }

    /// The first signal that came, if one did.
    pub(crate) fn received(&self) -> Option<u8> {
        Some(self.received.load(SeqCst)).filter(|&number| number != 0)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(listener) = self.listener.take() {
            // It panics only if `stop` does, and then there is nothing left to wait for.
            let _ = listener.join();
        }
    }
}
