//! The audit log: clients that were let in, and changes of keys, one line of JSON each. No line contains a secret or
//! a job's content.
//!
//! **Guarantees:** of clients that come, go, are refused or lie, a user causes at most 20 lines per second, and all together 400; the
//! number of lines left out is logged. Lines about keys and about the service itself are never left out. A file that was renamed
//! (logrotate(8)) is followed by a new one at [`Audit::reopen`]. What cannot be written is said once, and the service goes on.

use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The maximum number of lines per second about all clients.
const LINES_PER_SECOND: u32 = 400;

/// The maximum number of lines per second about the clients of one user.
const LINES_OF_USER_PER_SECOND: u32 = 20;

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
    /// A key was imported in the place of another one, which stays for those who know its public half.
    Replaced {
        /// The number of the user.
        user: u32,
        /// The name of the key.
        key: String,
        /// The kind of the key.
        kind: String,
    },
    /// Certificates were put beside a key, or removed from there.
    Certified {
        /// The number of the user.
        user: u32,
        /// The name of the key.
        key: String,
        /// The number of certificates.
        certificates: usize,
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
    /// An operation was done with a key, where each one is logged.
    Used {
        /// The number of the user.
        user: u32,
        /// The name of the key.
        key: String,
        /// The name of the operation.
        operation: String,
    },
    /// Lines were left out.
    LeftOut {
        /// The number of lines.
        lines: u64,
    },
    /// The policy is another one from now on.
    PolicyChanged,
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

impl Event {
    /// Returns the user whose clients may cause it as often as they like.
    fn of_client(&self) -> Option<u32> {
        match self {
            Self::Connected { user, .. } | Self::Refused { user, .. } | Self::Lied { user, .. } => {
                Some(*user)
            }
            _ => None,
        }
    }
}

/// The destination of the lines.
pub struct Audit {
    state: Mutex<State>,
    /// The number of lines that were left out since the start, for whatever reason.
    left_out: AtomicU64,
}

/// Makes the destination, at the start and whenever the log is reopened.
type Open = Box<dyn Fn() -> io::Result<Box<dyn Write + Send>> + Send>;

struct State {
    open: Option<Open>,
    sink: Option<Box<dyn Write + Send>>,
    second: Instant,
    lines: u32,
    by_user: BTreeMap<u32, u32>,
    left_out: u64,
    /// Whether the last line could not be written.
    fails: bool,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audit")
    }
}

impl Audit {
    /// Makes a log that goes nowhere.
    pub fn nowhere() -> Self {
        Self::of(None, None)
    }

    /// Makes a log that writes to what `open` opens.
    ///
    /// # Errors
    /// Fails if it cannot be opened.
    pub fn new(open: impl Fn() -> io::Result<Box<dyn Write + Send>> + Send + 'static) -> io::Result<Self> {
        let sink = open()?;
        Ok(Self::of(Some(Box::new(open)), Some(sink)))
    }

    fn of(open: Option<Open>, sink: Option<Box<dyn Write + Send>>) -> Self {
        let state = State {
            open,
            sink,
            second: Instant::now(),
            lines: 0,
            by_user: BTreeMap::new(),
            left_out: 0,
            fails: false,
        };
        Self { state: Mutex::new(state), left_out: AtomicU64::new(0) }
    }

    /// Opens the destination again; the old one stays if that fails.
    ///
    /// # Errors
    /// Fails if it cannot be opened.
    pub fn reopen(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &state.open {
            state.sink = Some(open()?);
        }
        Ok(())
    }

    /// Writes a line. A line that cannot be written is left out, and the service goes on.
    pub fn write(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.second.elapsed().as_secs() > 0 {
            state.second = Instant::now();
            state.lines = 0;
            state.by_user.clear();
            let left_out = std::mem::take(&mut state.left_out);
            if left_out > 0 {
                self.put(&mut state, &Event::LeftOut { lines: left_out });
            }
        }
        if let Some(user) = event.of_client() {
            let of_user = state.by_user.entry(user).or_default();
            *of_user += 1;
            if *of_user > LINES_OF_USER_PER_SECOND || state.lines >= LINES_PER_SECOND {
                state.left_out += 1;
                self.left_out.fetch_add(1, Ordering::Relaxed);
                return;
            }
            state.lines += 1;
        }
        self.put(&mut state, event);
    }

    /// Returns the number of lines that were left out since the start: too many about a user's clients, or not written.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    fn put(&self, state: &mut State, event: &Event) {
        if !state.put(event) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl State {
    /// Writes a line; returns `false` if that failed.
    fn put(&mut self, event: &Event) -> bool {
        let Some(sink) = &mut self.sink else { return true };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let written = serde_json::to_string(&Line { time, event }).map_err(io::Error::other);
        // In one piece, so that a disk that is full leaves no half of a line before the next one.
        match written
            .and_then(|line| sink.write_all(format!("{line}\n").as_bytes()).and_then(|()| sink.flush()))
        {
            Ok(()) => {
                self.fails = false;
                true
            }
            Err(error) => {
                self.left_out += 1;
                if !std::mem::replace(&mut self.fails, true) {
                    let _ = writeln!(
                        io::stderr(),
                        "sealane: the audit log cannot be written, lines are left out: {error}"
                    );
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A destination that fails while it is told to.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<(Vec<u8>, bool)>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.lock().unwrap();
            if state.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.0.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log() -> (Sink, Audit) {
        let sink = Sink::default();
        let audit = Audit::new({
            let sink = sink.clone();
            move || Ok(Box::new(sink.clone()))
        });
        (sink, audit.unwrap())
    }

    fn events(sink: &Sink) -> Vec<serde_json::Value> {
        let text = String::from_utf8(sink.0.lock().unwrap().0.clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn one_users_flood_leaves_out_no_line_of_others() {
        let (sink, audit) = log();
        let refused = |user| Event::Refused { user, process: 1, why: "so".to_owned() };
        for _ in 0..5000 {
            audit.write(&refused(7));
        }
        audit.write(&refused(8));
        for _ in 0..1000 {
            audit.write(&Event::Removed { user: 7, key: "web".to_owned() });
        }
        let events = events(&sink);
        let count = |event: &str, user: u32| {
            events.iter().filter(|line| line["event"] == event && line["user"] == user).count()
        };
        let of_flood = count("refused", 7);
        // The flood may go on into a next second or two.
        assert!((20..1000).contains(&of_flood), "{of_flood}");
        assert_eq!((count("refused", 8), count("removed", 7)), (1, 1000));
        assert_eq!((&events[0]["why"], &events[0]["process"]), (&"so".into(), &1.into()));
    }

    #[test]
    fn a_full_disk_costs_the_lines_of_that_time() {
        let (sink, audit) = log();
        let removed = Event::Removed { user: 7, key: "web".to_owned() };
        audit.write(&removed);
        sink.0.lock().unwrap().1 = true;
        (0..3).for_each(|_| audit.write(&removed));
        assert_eq!((audit.state.lock().unwrap().left_out, audit.left_out()), (3, 3));
        sink.0.lock().unwrap().1 = false;
        audit.reopen().unwrap();
        audit.write(&removed);
        assert!(events(&sink).iter().filter(|line| line["event"] == "removed").count() == 2);
    }
}
