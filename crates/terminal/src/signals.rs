//! Handling of signals that ask for the end. The first one asks the work to stop cleanly; a second one, a moment
//! later, ends the program at once. Signals within that moment are the same request: `timeout` signals a program and
//! its group.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Nobody asks twice within this time.
const MOMENT: Duration = Duration::from_millis(200);

/// Listens until it is dropped.
pub struct Interrupts {
    /// Set by the handler itself, so that a thread that notices the death of a child by the same signal finds it
    /// here.
    received: Arc<AtomicUsize>,
    handle: Handle,
    listener: Option<JoinHandle<()>>,
}

impl Interrupts {
    /// Makes the first signal call `stop` with its number, on a thread of its own.
    ///
    /// # Errors
    /// Fails if the system refuses a handler or a thread.
    pub fn listen(stop: impl Fn(u8) + Send + 'static) -> io::Result<Self> {
        Self::listen_to(stop, None::<fn()>)
    }

    /// Makes signals call `stop` as [`Self::listen`] does, except for SIGHUP, which calls `hang_up` each time. If the terminal
    /// of this process is gone, SIGHUP asks for the end all the same.
    ///
    /// # Errors
    /// Fails if the system refuses a handler or a thread.
    pub fn listen_beside_hangup(
        stop: impl Fn(u8) + Send + 'static,
        hang_up: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        Self::listen_to(stop, Some(hang_up))
    }

    fn listen_to(
        stop: impl Fn(u8) + Send + 'static,
        hang_up: Option<impl Fn() + Send + 'static>,
    ) -> io::Result<Self> {
        let has_terminal = io::stdin().is_terminal();
        let is_gone = move || has_terminal && File::open("/dev/tty").is_err();
        let received = Arc::new(AtomicUsize::new(0));
        for signal in ENDING.into_iter().filter(|signal| *signal != SIGHUP || hang_up.is_none()) {
            flag::register_usize(signal, received.clone(), usize::from(number(signal)))?;
        }
        let mut signals = Signals::new(ENDING)?;
        let handle = signals.handle();
        let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut asked: Option<Instant> = None;
            for signal in signals.forever() {
                if let Some(hang_up) = hang_up.as_ref().filter(|_| signal == SIGHUP && !is_gone()) {
                    hang_up();
                    continue;
                }
                match asked {
                    None => {
                        asked = Some(Instant::now());
                        stop(number(signal));
                    }
                    Some(asked) if asked.elapsed() < MOMENT => {}
                    Some(_) => {
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                }
            }
        })?;
        Ok(Self { received, handle, listener: Some(listener) })
    }

    /// Returns the received signal, if any.
    pub fn received(&self) -> Option<u8> {
        u8::try_from(self.received.load(SeqCst)).ok().filter(|&number| number != 0)
    }
}

/// Signals that ask for the end; the last one has another meaning for services.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Returns the number of one of the three signals, which is below 16 on every Unix.
fn number(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(u8::MAX)
}

/// Ignores the signals that a terminal sends to its foreground, because the client handles them: a far end ends with
/// its channel, and until then it must be able to end in order. Other signals (SIGTERM, SIGKILL) end it as usual.
///
/// # Errors
/// Fails if the system refuses a handler.
pub fn leave_terminal_to_client() -> io::Result<()> {
    for signal in [SIGINT, SIGHUP] {
        flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Ignores all requests to end, because the client handles them: they reach a whole terminal or unit, and the client
/// ends first.
///
/// # Errors
/// Fails if the system refuses a handler.
pub fn leave_all_to_client() -> io::Result<()> {
    for signal in ENDING {
        flag::register(signal, Arc::default())?;
    }
    Ok(())
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(listener) = self.listener.take() {
            // The thread panics only if `stop` does, and then there is nothing left to wait for.
            let _ = listener.join();
        }
    }
}
