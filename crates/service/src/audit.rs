//! The audit log: who was let in, and what happened to keys, a line of JSON each. No line has a secret or a job's content.
//!
//! **Guarantee:** whoever connects and leaves in a loop writes 200 lines a second at most; how many were left out is told.

use serde::Serialize;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Lines in one second.
const LINES_PER_SECOND: u32 = 200;

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The service answers.
    Started {
        /// Keys that it keeps.
        keys: usize,
    },
    /// A client was let in.
    Connected {
        /// Its user.
        user: u32,
        /// Its process.
        process: i32,
        /// What it calls itself.
        program: String,
    },
    /// A client was not let in, or not given what it asked for.
    Refused {
        /// Its user.
        user: u32,
        /// Its process.
        process: i32,
        /// The reason.
        why: String,
    },
    /// A key was opened.
    Opened {
        /// The user.
        user: u32,
        /// The process.
        process: i32,
        /// The key.
        key: String,
    },
    /// A key was made.
    Generated {
        /// The user.
        user: u32,
        /// The key.
        key: String,
        /// Its kind.
        kind: String,
    },
    /// A key was imported.
    Imported {
        /// The user.
        user: u32,
        /// The key.
        key: String,
        /// Its kind.
        kind: String,
    },
    /// A key was removed.
    Removed {
        /// The user.
        user: u32,
        /// The key.
        key: String,
    },
    /// A client's ring or messages made no sense, and its connection was ended.
    Lied {
        /// Its user.
        user: u32,
        /// Its process.
        process: i32,
    },
    /// Lines were left out.
    LeftOut {
        /// How many.
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

/// Where lines go.
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
    /// Writes to `sink`, or nowhere.
    pub fn new(sink: Option<Box<dyn Write + Send>>) -> Self {
        Self { state: Mutex::new(State { sink, second: Instant::now(), lines: 0, left_out: 0 }) }
    }

    /// Writes a line. A line that cannot be written is left out: the service goes on.
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
