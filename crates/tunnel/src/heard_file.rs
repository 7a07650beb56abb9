//! A file that remembers over restarts how far a peer's sequence numbers have got under a manual key.
//!
//! A process that starts has an empty replay window, so a packet that was recorded before looks new to it. Only its
//! number shows that it is old. So the gateway writes down a number that is ahead of all that it has accepted.
//!
//! Guarantees: no number that an earlier process has taken is above [`HeardFile::before`], but for packets of a
//! burst that began less than two looks before a crash; the file is written once in some seconds at most under
//! steady load.

use std::path::{Path, PathBuf};

use crate::counter_file::{CounterError, CounterFile};

/// The file is ahead of an idle peer by so many numbers.
const AHEAD: u64 = 64;
/// The file is written anew when it is ahead by fewer numbers than these.
const LEAST_AHEAD: u64 = 16;
/// The file is ahead of a busy peer by the packets of so many looks.
const LOOKS_AHEAD: u64 = 100;

/// The file beside one key.
#[derive(Debug)]
pub struct HeardFile {
    counter: CounterFile,
    before: u64,
    /// The file covers numbers up to this one.
    limit: u64,
    last: u64,
}

impl HeardFile {
    /// Opens the file beside a key file, or makes it; the file is this process's until it is dropped.
    ///
    /// # Errors
    /// Another process has it, it is damaged, or it cannot be written.
    pub fn open(key_file: &Path) -> Result<Self, CounterError> {
        let mut path = key_file.as_os_str().to_owned();
        path.push(".heard");
        let mut counter = CounterFile::open(&PathBuf::from(path))?;
        let range = counter.reserve(AHEAD, u64::MAX - 1)?;
        Ok(Self { counter, before: range.start - 1, limit: range.end - 1, last: range.start - 1 })
    }

    /// An earlier process may have accepted numbers up to this one.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Learns that numbers up to `top` have been accepted. To be called some times a second.
    ///
    /// # Errors
    /// The disk does not take it; the next look tries again.
    pub fn look(&mut self, top: u64) -> Result<(), CounterError> {
        let pace = top.saturating_sub(self.last);
        self.last = self.last.max(top);
        if let Some(limit) = raised(self.limit, top, pace) {
            let range = self.counter.reserve(limit - self.limit, u64::MAX - 1)?;
            self.limit = range.end - 1;
        }
        Ok(())
    }
}

/// The new limit of a file that covers numbers up to `limit`, when the highest accepted number is `top` and `pace`
/// packets came since the last look. `None`: the file is far enough ahead.
fn raised(limit: u64, top: u64, pace: u64) -> Option<u64> {
    let is_enough = top.saturating_add(pace.saturating_mul(2)).saturating_add(LEAST_AHEAD) <= limit;
    let next = top.saturating_add(pace.saturating_mul(LOOKS_AHEAD)).saturating_add(AHEAD);
    (!is_enough && next > limit).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_forgets_no_number_and_the_file_is_seldom_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("from-branch.key");
        let mut top = 0;
        for (pace, looks) in [(1, 1000), (0, 100), (100_000, 1000), (3, 1000)] {
            let mut file = HeardFile::open(&key).expect("a file");
            assert!(file.before() >= top, "{} of {top}", file.before());
            let (mut writes, mut limit) = (0, file.limit);
            for _ in 0..looks {
                top += pace;
                file.look(top).expect("it is written");
                writes += u32::from(file.limit != limit);
                limit = file.limit;
            }
            assert!(writes <= looks / 40 + 2, "{pace}: {writes}");
            // As in a crash, the file is not told that the process ends.
            drop(file);
        }
    }

    #[test]
    fn the_first_process_knows_that_there_was_none_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("from-branch.key");
        assert_eq!(HeardFile::open(&key).expect("a file").before(), 0);
        // An idle peer is believed again after few packets.
        let again = HeardFile::open(&key).expect("a file");
        assert_eq!(again.before(), AHEAD);
        assert!(matches!(HeardFile::open(&key), Err(CounterError::Locked { .. })));
    }
}
