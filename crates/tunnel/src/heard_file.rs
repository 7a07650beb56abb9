//! A file that stores over restarts an upper limit of a peer's sequence numbers under a manual key.
//!
//! A process that starts has an empty replay window, so a packet that was recorded earlier looks new to it. Only its
//! number shows that it is old. So the gateway writes down a number that is higher than all accepted ones.
//!
//! Guarantees: no number that an earlier process has accepted is above [`HeardFile::before`], except for packets of a
//! burst that began less than two calls of [`HeardFile::look`] before a crash; under steady load, the file is written
//! at most once in some seconds.

use std::path::{Path, PathBuf};

use crate::counter_file::{CounterError, CounterFile};

/// The lead of the file over an idle peer's numbers.
const AHEAD: u64 = 64;
/// The file is written again when its lead is below this.
const LEAST_AHEAD: u64 = 16;
/// The lead of the file over a busy peer's numbers, in calls of [`HeardFile::look`].
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
    /// Opens the file beside a key file, or creates it; the file belongs to this process until it is dropped.
    ///
    /// # Errors
    /// Fails if another process has the file, or if it is damaged or cannot be written.
    pub fn open(key_file: &Path) -> Result<Self, CounterError> {
        let mut path = key_file.as_os_str().to_owned();
        path.push(".heard");
        let mut counter = CounterFile::open(&PathBuf::from(path))?;
        let range = counter.reserve(AHEAD, u64::MAX - 1)?;
        Ok(Self { counter, before: range.start - 1, limit: range.end - 1, last: range.start - 1 })
    }

    /// Returns the highest number that an earlier process may have accepted.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Records that numbers up to `top` have been accepted. It is to be called several times per second.
    ///
    /// # Errors
    /// Fails if the disk does not accept the data; the next call tries again.
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

/// Returns the new limit of a file that covers numbers up to `limit`, if the highest accepted number is `top` and
/// `pace` packets came since the last call of [`HeardFile::look`]. Returns `None` if the limit is high enough.
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
            // As in a crash, the file does not learn that the process ends.
            drop(file);
        }
    }

    #[test]
    fn the_first_process_knows_that_there_was_none_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("from-branch.key");
        assert_eq!(HeardFile::open(&key).expect("a file").before(), 0);
        // An idle peer's packets are fresh again after a few numbers.
        let again = HeardFile::open(&key).expect("a file");
        assert_eq!(again.before(), AHEAD);
        assert!(matches!(HeardFile::open(&key), Err(CounterError::Locked { .. })));
    }
}
