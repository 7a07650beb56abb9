//! [`Tail`]: the end of what processes print.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

/// The end of the processes' output, collected while they run so that none of them ever blocks on a full pipe.
#[derive(Debug)]
pub(super) struct Tail {
    text: Mutex<mpsc::Receiver<Vec<u8>>>,
}

impl Tail {
    const BYTES: usize = 8_000;
    /// A helper that keeps the pipe open must not delay a report.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Starts to collect the output of `from`.
    pub(super) fn of(mut from: impl Read + Send + 'static) -> Self {
        let (sender, text) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut kept = VecDeque::with_capacity(2 * Self::BYTES);
            let mut chunk = [0; Self::BYTES];
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                kept.extend(&chunk[..count]);
                kept.drain(..kept.len().saturating_sub(Self::BYTES));
            }
            // The output is not needed if all processes were successful.
            let _ = sender.send(kept.into());
        });
        Self { text: Mutex::new(text) }
    }

    /// Returns the output once the last writer has closed its end; nothing if that takes too long.
    pub(super) fn text(&self) -> String {
        let receiver = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let text = receiver.recv_timeout(Self::PATIENCE).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}
