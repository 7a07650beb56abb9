//! How far a manual key's packets may have been taken before a restart.
//!
//! A process that begins has an empty replay window, so a packet that was recorded before looks new to it. Nothing tells it from one
//! that is, but for its number, if it is known how far numbers had got. So that is written down, ahead of what is taken.
//!
//! Guarantees: no number that an earlier process has taken is above [`HeardFile::before`], but for what a burst that began less
//! than two looks before a crash was ahead of the file; the file is written once in some seconds at most under steady load.

use std::path::{Path, PathBuf};

use crate::counter_file::{CounterError, CounterFile};

/// Numbers that the file is ahead of a peer at rest.
const AHEAD: u64 = 64;
/// What is left of them when it is written anew.
const LEAST_AHEAD: u64 = 16;
/// Looks for which the file is ahead of a peer at its pace.
const LOOKS_AHEAD: u64 = 100;

/// The file beside one key.
#[derive(Debug)]
pub struct HeardFile {
    counter: CounterFile,
    before: u64,
    /// Numbers up to this may be taken before it is written again.
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

    /// Numbers up to this may have been taken by an earlier process.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Numbers up to `top` have been taken. To be called some times a second.
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

/// What the file is to say where it says `limit`, numbers have got to `top`, and `pace` of them came since the last look. `None`: that
/// is enough.
fn raised(limit: u64, top: u64, pace: u64) -> Option<u64> {
    let is_enough = top.saturating_add(pace.saturating_mul(2)).saturating_add(LEAST_AHEAD) <= limit;
    let next = top.saturating_add(pace.saturating_mul(LOOKS_AHEAD)).saturating_add(AHEAD);
    (!is_enough && next > limit).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_known_after_a_crash_and_the_file_is_seldom_written() {
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
            // Nobody has said goodbye.
            drop(file);
        }
    }

    #[test]
    fn the_first_process_knows_that_there_was_none_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("from-branch.key");
        assert_eq!(HeardFile::open(&key).expect("a file").before(), 0);
        // Little is lost of what a peer at rest sends.
        let again = HeardFile::open(&key).expect("a file");
        assert_eq!(again.before(), AHEAD);
        assert!(matches!(HeardFile::open(&key), Err(CounterError::Locked { .. })));
    }
}
