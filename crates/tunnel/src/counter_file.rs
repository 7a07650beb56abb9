//! Sequence numbers that survive a restart: a file stores an upper limit of a manual key's counter.
//!
//! A number must never be used twice under one key: the receiver would treat it as a replay, and with a counted nonce
//! it would reveal the text. A key from a file outlives the process. So numbers are reserved on disk before they are
//! used: a crash loses the unused ones, and no number is used twice.
//!
//! Guarantees: [`CounterFile::reserve`] returns only after the new limit is on disk, under a name that is on disk;
//! two processes never hold one file; a file that somebody else can change, or that contains no number, is refused
//! and never treated as new.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    ops::Range,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sealane_peer::{PeerError, open_trusted};

/// Reasons why numbers cannot be reserved.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// The system refuses.
    #[error("cannot {doing} the counter file {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process uses the key.
    #[error("another tunnel uses this key: {} is locked", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file does not contain a number.
    #[error(
        "the counter file {} is damaged, so nobody knows which numbers were used: make a new key, and remove the file",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else can change the file, and so cause numbers to be used twice.
    #[error(
        "the counter file is not safe: {source}; if others may have changed the file, make a new key, and remove the file"
    )]
    Unsafe {
        /// The fault of the file or of a folder on its path.
        source: Box<PeerError>,
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
    /// Opens the counter beside a key file, or creates it; the file belongs to this process until it is dropped.
    ///
    /// # Errors
    /// Fails if another process has the file, or if it is damaged.
    pub fn open(key_file: &Path) -> Result<Self, CounterError> {
        let mut path = key_file.as_os_str().to_owned();
        path.push(".counter");
        let path = PathBuf::from(path);
        let failed = |doing| {
            let path = path.clone();
            move |source| CounterError::Io { doing, path, source }
        };
        if !path.try_exists().map_err(failed("look for"))? {
            create(&path).map_err(failed("make"))?;
        }
        // Nobody else can replace the file between this check and the next one.
        match open_trusted(&path) {
            Ok(_) => {}
            Err(PeerError::File { source, .. }) => return Err(failed("read")(source)),
            Err(error) => return Err(CounterError::Unsafe { source: Box::new(error) }),
        }
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CounterError::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        let mut text = Vec::new();
        // The file has twenty digits and a line end.
        (&mut file).take(64).read_to_end(&mut text).map_err(failed("read"))?;
        let next = parse(&text).ok_or_else(|| CounterError::Damaged { path: path.clone() })?;
        Ok(Self { path, file, next })
    }

    /// Returns the next `count` numbers, at most up to `last`.
    ///
    /// # Errors
    /// Fails if no numbers are left, or if they cannot be written to disk.
    pub fn reserve(&mut self, count: u64, last: u64) -> Result<Range<u64>, CounterError> {
        let end = self.next.saturating_add(count).min(last + 1);
        if end <= self.next {
            return Err(CounterError::Exhausted { path: self.path.clone() });
        }
        let write = |file: &mut File| {
            file.rewind()?;
            file.write_all(text(end).as_bytes())?;
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

/// Creates a file that begins at 1. The file gets its name when it is complete, because a file without a number
/// counts as damaged.
fn create(path: &Path) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // A process that died has left it.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text(1).as_bytes())?;
    file.sync_all()?;
    match renameat_with(CWD, &temporary, CWD, path, RenameFlags::NOREPLACE) {
        // Another process was faster, and its file is just as good.
        Err(rustix::io::Errno::EXIST) => fs::remove_file(&temporary)?,
        renamed => renamed?,
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // The name must survive a crash as well.
    File::open(folder)?.sync_all()
}

/// Returns the next number in a file with this content; `None` if the file is damaged.
pub fn parse(text: &[u8]) -> Option<u64> {
    let digits = str::from_utf8(text.trim_ascii_end()).ok()?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&next| is_number && next > 0)
}

/// Returns the content of a file whose next number is `next`. The length is fixed, so that a shorter number cannot
/// leave old digits behind.
pub fn text(next: u64) -> String {
    format!("{next:020}\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

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
        for damaged in ["12x\n", "", "\n", "0\n", "+7\n", "99999999999999999999\n"] {
            fs::write(folder.path().join("key.counter"), damaged).expect("a damaged file");
            assert!(matches!(CounterFile::open(&key), Err(CounterError::Damaged { .. })), "{damaged:?}");
        }
    }

    #[test]
    fn a_file_that_others_could_change_is_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        let counter = folder.path().join("key.counter");
        drop(CounterFile::open(&key).expect("a new counter"));
        let names: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        for (path, mode, good) in
            [(&*counter, 0o666, 0o600), (&counter, 0o620, 0o600), (folder.path(), 0o777, 0o700)]
        {
            set(path, mode);
            let error = CounterFile::open(&key).expect_err("others may write");
            assert!(matches!(error, CounterError::Unsafe { .. }), "{error}");
            set(path, good);
        }
        drop(CounterFile::open(&key).expect("the same counter"));
        // Only root can change a file's owner.
        if rustix::process::geteuid().is_root() {
            chown(&counter, Some(12_345), None).expect("we are root");
            assert!(matches!(CounterFile::open(&key), Err(CounterError::Unsafe { .. })));
        }
    }
}
