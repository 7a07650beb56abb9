//! The audit log: clients that were let in, and changes of keys, one line of JSON each. No line contains a secret or
//! a job's content.
//!
//! **Guarantee:** a client that connects and leaves in a loop causes at most 200 lines per second; the number of
//! lines left out is logged.

use serde::Serialize;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The maximum number of lines per second.
const LINES_PER_SECOND: u32 = 200;

/// An event of the log.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The service has started.
    Started {
        /// The number of keys that it keeps.
        keys: usize,
    },
    /// A client was let in.
    Connected {
        /// The number of its user.
        user: u32,
        /// The number of its process.
        process: i32,
        /// The name that it gave.
        program: String,
    },
    /// A client was not let in, or its request was refused.
    Refused {
        /// The number of its user.
        user: u32,
        /// The number of its process.
        process: i32,
        /// The reason.
        why: String,
    },
    /// A key was opened.
    Opened {
        /// The number of the user.
        user: u32,
        /// The number of the process.
        process: i32,
        /// The name of the key.
        key: String,
    },
    /// A key was made.
    Generated {
        /// The number of the user.
        user: u32,
        /// The name of the key.
        key: String,
        /// The kind of the key.
        kind: String,
    },
    /// A key was imported.
    Imported {
        /// The number of the user.
        user: u32,
        /// The name of the key.
        key: String,
        /// The kind of the key.
        kind: String,
    },
    /// A key was removed.
    Removed {
        /// The number of the user.
        user: u32,
        /// The name of the key.
        key: String,
    },
    /// A client's ring or messages made no sense, and its connection was ended.
    Lied {
        /// The number of its user.
        user: u32,
        /// The number of its process.
        process: i32,
    },
    /// Lines were left out.
    LeftOut {
        /// The number of lines.
        lines: u64,
    },
    /// The service ends.
    Ended,
}

#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    time: u64,
    #[serde(flatten)]
    event: &'a Event,
}

/// The destination of the lines.
pub struct Audit {
    state: Mutex<State>,
}

struct State {
    sink: Option<Box<dyn Write + Send>>,
    second: Instant,
    lines: u32,
    left_out: u64,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audit")
    }
}

impl Audit {
    /// Makes a log that writes to `sink`, or nowhere.
    pub fn new(sink: Option<Box<dyn Write + Send>>) -> Self {
        Self { state: Mutex::new(State { sink, second: Instant::now(), lines: 0, left_out: 0 }) }
    }

    /// Writes a line. A line that cannot be written is left out, and the service goes on.
    pub fn write(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.second.elapsed().as_secs() > 0 {
            state.second = Instant::now();
            state.lines = 0;
            let left_out = std::mem::take(&mut state.left_out);
            if left_out > 0 {
                state.put(&Event::LeftOut { lines: left_out });
            }
        }
        if state.lines >= LINES_PER_SECOND {
            state.left_out += 1;
            return;
        }
        state.lines += 1;
        state.put(event);
    }
}

impl State {
    fn put(&mut self, event: &Event) {
        let Some(sink) = &mut self.sink else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let written = serde_json::to_string(&Line { time, event }).map_err(std::io::Error::other);
        if written.and_then(|line| writeln!(sink, "{line}").and_then(|()| sink.flush())).is_err() {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    struct Sink(mpsc::Sender<Vec<u8>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_writes_a_bounded_number_of_lines() {
        let (sender, lines) = mpsc::channel();
        let audit = Arc::new(Audit::new(Some(Box::new(Sink(sender)))));
        for _ in 0..5000 {
            audit.write(&Event::Removed { user: 7, key: "web".to_owned() });
        }
        drop(audit);
        let text = String::from_utf8(lines.iter().flatten().collect()).unwrap();
        let count = text.lines().count();
        assert!(count >= LINES_PER_SECOND as usize && count < 5000, "{count}");
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&line["event"], &line["user"], &line["key"]),
            (&"removed".into(), &7.into(), &"web".into())
        );
    }
}
