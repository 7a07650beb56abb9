//! The results of a run in a file that only grows: one line `SUM ID RESULT` per result.
//!
//! Guarantees: a result that [`Journal::append`] has accepted is on stable storage when it returns; a torn or altered
//! line, and all lines after it, are left out when the file is opened again, so their jobs are done again; nothing in
//! a file is trusted without its sum. Memory holds the ids and the positions of their results, never the results.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{FleetError, Result};
use crate::queue::{JobId, Outcome, RESULT_BYTES_MAX};

/// The sum, the id and two blanks.
const HEAD_BYTES: usize = SUM_DIGITS + 1 + 32 + 1;
const SUM_DIGITS: usize = 16;
/// The longest line: results are in hexadecimal digits.
const LINE_BYTES_MAX: usize = HEAD_BYTES + 2 * RESULT_BYTES_MAX + 1;

/// The place of a result in the file.
#[derive(Clone, Copy, Debug)]
struct Spot {
    id: JobId,
    offset: u64,
    bytes: u32,
}

/// The results of a run, in the order in which they came.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    spots: Vec<Spot>,
    /// The number of each job's result.
    numbers: HashMap<JobId, u64>,
    is_torn: bool,
}

impl Journal {
    /// Opens the journal, or creates it; its results can be read with [`Journal::read`]. A result that `keep` refuses
    /// is forgotten: its job is done again.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn open(path: &Path, mut keep: impl FnMut(&Outcome) -> bool) -> Result<Self> {
        let failed = || FleetError::file("cannot use the journal", path);
        let fresh = path.with_extension("new");
        let (mut kept, mut output) = (Vec::new(), BufWriter::new(File::create(&fresh).map_err(failed())?));
        if let Some(input) = existing(path).map_err(failed())? {
            let mut input = BufReader::new(input);
            let mut line = Vec::new();
            while let Some((id, result)) = next_line(&mut input, &mut line).map_err(failed())? {
                if keep(&Outcome { number: 0, id, result }) {
                    output.write_all(&line).map_err(failed())?;
                    kept.push((id, line.len()));
                }
            }
        }
        let written =
            output.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        written.and_then(|()| std::fs::rename(&fresh, path)).map_err(failed())?;
        let file = OpenOptions::new().read(true).append(true).open(path).map_err(failed())?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            length: 0,
            spots: Vec::new(),
            numbers: HashMap::new(),
            is_torn: false,
        };
        for (id, bytes) in kept {
            journal.note(id, bytes);
            journal.length += bytes as u64;
        }
        Ok(journal)
    }

    fn note(&mut self, id: JobId, bytes: usize) {
        self.spots.push(Spot { id, offset: self.length, bytes: bytes as u32 });
        self.numbers.insert(id, self.last_number());
    }

    /// Returns whether a job has its result.
    pub fn has(&self, id: &JobId) -> bool {
        self.numbers.contains_key(id)
    }

    /// Returns the result of a job, or `None` if it has none.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or no longer contains the written result.
    pub fn result(&self, id: &JobId) -> Result<Option<Vec<u8>>> {
        let Some(&number) = self.numbers.get(id) else { return Ok(None) };
        Ok(self.read(number)?.map(|outcome| outcome.result))
    }

    /// Returns the number of results.
    pub fn last_number(&self) -> u64 {
        self.spots.len() as u64
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// Fails if the result cannot be written, in which case nothing of it remains, or if the journal is full.
    pub fn append(&mut self, id: JobId, result: &[u8]) -> Result<u64> {
        let failed = || FleetError::file("cannot write to the journal", &self.path);
        if self.is_torn {
            return Err(failed()(io::Error::other("its last line could not be taken back")));
        }
        let line = line(id, result);
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.is_torn = self.file.set_len(self.length).is_err();
            return Err(failed()(error));
        }
        self.note(id, line.len());
        self.length += line.len() as u64;
        Ok(self.last_number())
    }

    /// Returns the result of this number, or `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or no longer contains the written result.
    pub fn read(&self, number: u64) -> Result<Option<Outcome>> {
        let failed = || FleetError::file("cannot read the journal", &self.path);
        let spot = number.checked_sub(1).and_then(|at| self.spots.get(at as usize));
        let Some(spot) = spot else { return Ok(None) };
        let mut line = vec![0; spot.bytes as usize];
        self.file.read_exact_at(&mut line, spot.offset).map_err(failed())?;
        match parse_line(&line) {
            Some((id, result)) if id == spot.id => Ok(Some(Outcome { number, id, result })),
            _ => Err(failed()(io::Error::other("somebody has changed it"))),
        }
    }

    /// Calls `each` for every result of a journal that another process may be writing.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn scan(path: &Path, mut each: impl FnMut(JobId, Vec<u8>)) -> Result<()> {
        let failed = || FleetError::file("cannot read the journal", path);
        let mut input = BufReader::new(File::open(path).map_err(failed())?);
        let mut line = Vec::new();
        while let Some((id, result)) = next_line(&mut input, &mut line).map_err(failed())? {
            each(id, result);
        }
        Ok(())
    }
}

/// Returns the file, if it is there.
fn existing(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a line; returns `None` at the end, and at an invalid line.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<(JobId, Vec<u8>)>> {
    line.clear();
    input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', line)?;
    Ok(parse_line(line))
}

fn line(id: JobId, result: &[u8]) -> Vec<u8> {
    let mut line = sum(id, result);
    line.push(b' ');
    line.extend_from_slice(id.to_string().as_bytes());
    line.push(b' ');
    for byte in result {
        line.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    line.push(b'\n');
    line
}

fn digit(nibble: u8) -> u8 {
    b"0123456789abcdef"[usize::from(nibble)]
}

fn sum(id: JobId, result: &[u8]) -> Vec<u8> {
    let hash = blake3::Hasher::new().update(&id.0).update(result).finalize();
    hash.to_hex().as_bytes()[..SUM_DIGITS].to_vec()
}

/// Parses one line of a journal, with its end; returns `None` if it is torn, altered or invalid.
pub fn parse_line(line: &[u8]) -> Option<(JobId, Vec<u8>)> {
    let line = line.strip_suffix(b"\n")?;
    let (head, result) = line.split_at_checked(HEAD_BYTES)?;
    let (given, id) = head.split_at(SUM_DIGITS);
    let id = id.strip_prefix(b" ")?.strip_suffix(b" ")?;
    let id: JobId = str::from_utf8(id).ok()?.parse().ok()?;
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = result.as_chunks::<2>() else { return None };
    let result: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect();
    let result = result?;
    (sum(id, &result) == given).then_some((id, result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn id(number: u8) -> JobId {
        JobId([number; 16])
    }

    #[test]
    fn what_was_kept_comes_back_and_what_was_torn_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        let all = |_: &Outcome| true;
        let mut journal = Journal::open(&path, all).expect("a journal");
        for number in 1..=3 {
            assert_eq!(journal.append(id(number), &[number; 5]).expect("room"), u64::from(number));
        }
        let whole = fs::read(&path).expect("a file");
        for cut in [whole.len() - 1, whole.len() - 20] {
            fs::write(&path, &whole[..cut]).expect("a file");
            let journal = Journal::open(&path, all).expect("a journal");
            assert_eq!(journal.last_number(), 2);
            assert_eq!(journal.read(2).expect("readable").map(|found| found.result), Some(vec![2; 5]));
            assert!(!journal.has(&id(3)));
        }
        // Lines after an altered one are not trusted either.
        let mut altered = whole.clone();
        altered[3] ^= 1;
        fs::write(&path, altered).expect("a file");
        assert_eq!(Journal::open(&path, all).expect("a journal").last_number(), 0);
        assert_eq!(fs::metadata(&path).expect("a file").len(), 0);
    }

    #[test]
    fn what_is_not_to_be_kept_is_done_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        let mut journal = Journal::open(&path, |_| true).expect("a journal");
        journal.append(id(1), b"bad").expect("room");
        journal.append(id(2), b"good").expect("room");
        drop(journal);
        let keep = |outcome: &Outcome| outcome.result != b"bad";
        let mut journal = Journal::open(&path, keep).expect("a journal");
        assert!(!journal.has(&id(1)) && journal.has(&id(2)));
        journal.append(id(1), b"good").expect("room");
        drop(journal);
        let journal = Journal::open(&path, keep).expect("a journal");
        assert!(journal.has(&id(1)) && journal.has(&id(2)));
    }

    proptest! {
        #[test]
        fn a_line_reads_back(result in prop::collection::vec(any::<u8>(), 0..100), number: u8) {
            let mut line = line(id(number), &result);
            prop_assert_eq!(parse_line(&line), Some((id(number), result)));
            let at = line.len() / 2;
            line[at] ^= 2;
            prop_assert_eq!(parse_line(&line), None);
        }
    }
}
