//! Functions for both trust files: bounded reading, lines with numbers, and changes that are complete or not made.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::place::open_trusted;
use crate::error::{PeerError, TrustFault};

/// Most bytes of a trust file; a longer one is refused before it is parsed.
pub(super) const MAX_FILE_BYTES: usize = 1 << 20;
/// Most entries of a trust file.
pub(super) const MAX_ENTRIES: usize = 8192;
/// Time for which another process may hold the lock: it only writes a file that fits into memory.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// A fault and its line, before the file is known.
pub(super) type LineFault = (usize, TrustFault);

/// Returns the entries of a trust file as `(line number from 1, text)`, without comments and blank lines.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<(usize, &str), LineFault>> {
    let too_long = (bytes.len() > MAX_FILE_BYTES)
        .then_some(Err((1, TrustFault::FileTooLong { limit_bytes: MAX_FILE_BYTES })));
    let bytes = if too_long.is_some() { &[] } else { bytes };
    let lines = bytes.split(|&b| b == b'\n').enumerate().filter_map(|(i, line)| {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        // Look-alikes and control characters are refused, because a reader decides by this text whom to trust.
        let printable = line.iter().all(|&b| b == b'\t' || b == b' ' || b.is_ascii_graphic());
        let text = std::str::from_utf8(line).ok().filter(|_| printable);
        Some(text.map(|text| (i + 1, text)).ok_or((i + 1, TrustFault::NotAscii)))
    });
    let mut left = MAX_ENTRIES;
    too_long.into_iter().chain(lines.map(move |entry| {
        let (line, text) = entry?;
        left = left.checked_sub(1).ok_or((line, TrustFault::TooManyEntries { limit: MAX_ENTRIES }))?;
        Ok((line, text))
    }))
}

/// Adds the file's name to a fault.
pub(super) fn at(path: Option<&Path>) -> impl Fn(LineFault) -> PeerError {
    move |(line, fault)| PeerError::TrustLine { path: path.map(Into::into), line, fault }
}

/// Returns the file's bytes; a file that does not exist is empty.
///
/// # Errors
/// Fails if the file cannot be read, another user could change it ([`open_trusted`]), or it is too long.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, PeerError> {
    let file = match open_trusted(path) {
        Ok(file) => file,
        Err(PeerError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let file_error = |source| PeerError::File { doing: "read", path: path.into(), source };
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(file_error)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(at(Some(path))((1, TrustFault::FileTooLong { limit_bytes: MAX_FILE_BYTES })));
    }
    Ok(bytes)
}

/// Replaces the file by the result of `change`, under the file's lock. `None` leaves the file as it is.
pub(super) fn edit(
    path: &Path,
    change: impl FnOnce(Vec<u8>) -> Result<Option<Vec<u8>>, PeerError>,
) -> Result<(), PeerError> {
    let file_error = |source| PeerError::File { doing: "change", path: path.into(), source };
    // A link stays a link: the file that it leads to is replaced.
    let path = match path.canonicalize() {
        Ok(real) => real,
        Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
        Err(e) => return Err(file_error(e)),
    };
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(file_error)?;
    let _lock = lock(&with_suffix(&path, ".lock"))?;
    let Some(bytes) = change(read(&path)?)? else {
        return Ok(());
    };
    let temporary = with_suffix(&path, ".new");
    // A process that died left it; no other process uses it while we hold the lock.
    match std::fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(file_error(e)),
        _ => {}
    }
    let mode = std::fs::metadata(&path).map_or(0o600, |meta| meta.mode() & 0o755);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        // The name must survive a crash as well.
        File::open(dir)?.sync_all()
    };
    write().map_err(file_error)
}

/// Adds a line to the text, which may lack its last line feed.
pub(super) fn with_line(mut bytes: Vec<u8>, line: &str) -> Vec<u8> {
    if bytes.last().is_some_and(|&b| b != b'\n') {
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    bytes
}

/// Replaces the line with this number (from 1).
pub(super) fn with_line_at(bytes: &[u8], number: usize, line: &str) -> Vec<u8> {
    let own = format!("{line}\n");
    let lines = bytes.split_inclusive(|&b| b == b'\n').enumerate();
    let new = lines.map(|(i, line)| if i + 1 == number { own.as_bytes() } else { line });
    new.flatten().copied().collect()
}

/// Removes the lines with these numbers (from 1), and keeps comments and everything else.
pub(super) fn without_lines(bytes: &[u8], numbers: &[usize]) -> Vec<u8> {
    let lines = bytes.split_inclusive(|&b| b == b'\n').enumerate();
    lines.filter(|(i, _)| !numbers.contains(&(i + 1))).flat_map(|(_, line)| line).copied().collect()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Locks a separate file: the trust file itself is replaced under the lock and could not hold it.
fn lock(path: &Path) -> Result<File, PeerError> {
    let file_error = |source| PeerError::File { doing: "lock", path: path.into(), source };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(file_error)?;
    let give_up = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => return Err(PeerError::TrustLocked { path: path.into() }),
            Err(TryLockError::Error(e)) => return Err(file_error(e)),
        }
    }
}
