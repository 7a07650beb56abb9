//! Numbers that survive a restart: how far a manual key's counter may have got.
//!
//! A number must never come twice under one key: to the receiver it would be a replay, and with a counted nonce it would give
//! the text away. A key from a file outlives the process. So numbers are reserved on disk before they are used: what a crash
//! leaves unused is lost, and nothing comes twice.
//!
//! Guarantees: [`CounterFile::reserve`] returns only after the new limit is on disk; two processes never hold one file.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    ops::Range,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Why numbers cannot be reserved.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// The system says no.
    #[error("cannot {doing} the counter file {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process uses the key.
    #[error("another tunnel uses this key: {} is locked", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// Not such a file.
    #[error("the counter file {} is damaged: make a new key, and remove the file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The key has no numbers left.
    #[error("the key beside {} has used all its sequence numbers: make a new key, and remove the file", path.display())]
    Exhausted {
        /// The file.
        path: PathBuf,
    },
}

/// The counter of one key.
#[derive(Debug)]
pub struct CounterFile {
    path: PathBuf,
    file: File,
    next: u64,
}

impl CounterFile {
    /// Opens the counter beside a key file, or makes it; the file is this process's until it is dropped.
    ///
    /// # Errors
    /// Another process has it, or it is damaged.
    pub fn open(key_file: &Path) -> Result<Self, CounterError> {
        let mut path = key_file.as_os_str().to_owned();
        path.push(".counter");
        let path = PathBuf::from(path);
        let failed = |doing| {
            let path = path.clone();
            move |source| CounterError::Io { doing, path, source }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CounterError::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        let mut text = String::new();
        let damaged = || CounterError::Damaged { path: path.clone() };
        // Twenty digits and a line end.
        (&mut file).take(64).read_to_string(&mut text).map_err(|_| damaged())?;
        let next = match text.trim_ascii_end() {
            "" => 1,
            digits => digits.parse().map_err(|_| damaged())?,
        };
        Ok(Self { path, file, next })
    }

    /// The next `count` numbers, at most up to `last`.
    ///
    /// # Errors
    /// There are none left, or the disk does not take it.
    pub fn reserve(&mut self, count: u64, last: u64) -> Result<Range<u64>, CounterError> {
        let end = self.next.saturating_add(count).min(last + 1);
        if end <= self.next {
            return Err(CounterError::Exhausted { path: self.path.clone() });
        }
        let write = |file: &mut File| {
            file.rewind()?;
            // Of fixed length, so that no shorter text is left half overwritten.
            file.write_all(format!("{end:020}\n").as_bytes())?;
            file.sync_all()
        };
        write(&mut self.file).map_err(|source| CounterError::Io {
            doing: "write",
            path: self.path.clone(),
            source,
        })?;
        let range = self.next..end;
        self.next = end;
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn numbers_go_on_where_an_earlier_process_may_have_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        let mut counter = CounterFile::open(&key).expect("a new counter");
        assert_eq!(counter.reserve(100, 1000).expect("there are some"), 1..101);
        assert!(matches!(CounterFile::open(&key), Err(CounterError::Locked { .. })));
        assert_eq!(counter.reserve(100, 1000).expect("there are some"), 101..201);
        drop(counter);
        let mut counter = CounterFile::open(&key).expect("the same counter");
        assert_eq!(counter.reserve(900, 1000).expect("there are some"), 201..1001);
        assert!(matches!(counter.reserve(1, 1000), Err(CounterError::Exhausted { .. })));
        drop(counter);
        fs::write(folder.path().join("key.counter"), "12x\n").expect("a damaged file");
        assert!(matches!(CounterFile::open(&key), Err(CounterError::Damaged { .. })));
    }
}
