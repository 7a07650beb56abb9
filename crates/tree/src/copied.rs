//! Parts of existing files in new ones: [`PartFile::copy_from`].
//!
//! Guarantees: the system copies, and shares blocks where the file system can do that; bytes that the existing file does not have
//! are an error, and never made up.

use rustix::fs::copy_file_range;
use rustix::io::Errno;

use crate::error::{Error, Operation, Result, failed};
use crate::part::PartFile;
use crate::reader::OpenFile;

/// Blocks can be shared from multiples of this on.
const BLOCK_BYTES: u64 = 4096;
/// The bytes that are copied at once where the system does not copy.
const PIECE_BYTES: u64 = 1 << 20;

impl PartFile {
    /// Copies `length_bytes` of an existing file, from `from` on, to `to`.
    ///
    /// # Errors
    /// Fails also if the existing file is shorter.
    pub fn copy_from(&self, existing: &OpenFile, from: u64, to: u64, length_bytes: u64) -> Result<()> {
        self.check_range(to, length_bytes)?;
        let (mut from, mut to, mut left) = (from, to, length_bytes);
        // A beginning that is no whole block would keep all that follows from being shared.
        let before = (BLOCK_BYTES - from % BLOCK_BYTES) % BLOCK_BYTES;
        if from % BLOCK_BYTES == to % BLOCK_BYTES && before > 0 && before < left {
            self.copy_by_reading(existing, from, to, before)?;
            (from, to, left) = (from + before, to + before, left - before);
        }
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(usize::MAX);
            match copy_file_range(existing, Some(&mut from), self, Some(&mut to), length) {
                Ok(0) => return Err(Error::Changed { path: self.path().into() }),
                Ok(copied) => left = left.saturating_sub(copied as u64),
                Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                    return self.copy_by_reading(existing, from, to, left);
                }
                Err(errno) => return Err(failed(Operation::Write, self.path(), errno)),
            }
        }
        Ok(())
    }

    fn copy_by_reading(&self, existing: &OpenFile, from: u64, to: u64, length_bytes: u64) -> Result<()> {
        let mut piece = vec![0; length_bytes.min(PIECE_BYTES) as usize];
        let mut done = 0;
        while done < length_bytes {
            let length = (length_bytes - done).min(PIECE_BYTES) as usize;
            match existing.read_at(from + done, &mut piece[..length]) {
                Ok(read) if read == length => self.write_at(to + done, &piece[..length])?,
                _ => return Err(Error::Changed { path: self.path().into() }),
            }
            done += length as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{Metadata, RelativePath, Target, TargetOptions};

    #[test]
    fn ranges_of_a_file_are_in_another_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7 + at / 4093) as u8).collect();
        fs::write(folder.path().join("old"), &content).unwrap();
        let target = Target::open(folder.path(), TargetOptions::default()).unwrap();
        let mut writer = target.writer();
        let old = writer.read_existing(&RelativePath::new("old").unwrap()).unwrap();
        let size_bytes = content.len() as u64 + 5000;
        let metadata = Metadata { size_bytes, mode: 0o644, ..Metadata::default() };
        let new = writer.begin_file(&RelativePath::new("new").unwrap(), &metadata, None).unwrap();
        let mut expected = vec![0; size_bytes as usize];
        for (from, to, length) in [
            (0, 0, 10),
            (4096, 4096, 8192),
            (5000, 5000 + 4096, 30_000),
            (4095, 8191, 2),
            (77, 100_000, 2_500_001),
            (2_999_999, 3_004_999, 1),
            (100, 200, 0),
        ] {
            new.copy_from(&old, from, to, length).unwrap();
            let bytes = &content[from as usize..(from + length) as usize];
            expected[to as usize..(to + length) as usize].copy_from_slice(bytes);
        }
        for (from, to, length) in [(2_999_999, 0, 2), (5_000_000, 0, 1), (0, size_bytes, 1), (0, u64::MAX, 2)]
        {
            assert!(new.copy_from(&old, from, to, length).is_err(), "{from} {to} {length}");
        }
        let mut found = vec![0; size_bytes as usize];
        assert_eq!(new.read_at(0, &mut found).unwrap(), found.len());
        // A copy that fails may have begun.
        assert!(found[1..] == expected[1..]);
    }
}
