//! This program's own file, in the form that is sent to a far host.
//!
//! Guarantees: the bytes that are sent run as the file here does. The parts that no kernel loads (debugging
//! information, symbols, the table of sections) are left out if the file is a 64-bit little-endian ELF file with a
//! valid header; any other file is sent unchanged.

use anyhow::Context;
use std::fs;

/// Bytes of the header of a 64-bit ELF file, and of one entry of its table of segments.
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
/// 64-bit, little-endian.
const MAGIC: &[u8] = b"\x7fELF\x02\x01";
/// The header has the offset of the table of sections here, and, later, their number and the index of the one with
/// their names.
const SECTIONS_AT: usize = 40;
const SECTION_COUNTS_AT: usize = 60;

/// Returns the bytes of this program. The kernel's own link leads to them even if the file was replaced or removed.
pub(super) fn own() -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read("/proc/self/exe").context("cannot read this program's own file")?;
    strip(&mut bytes);
    Ok(bytes)
}

/// Removes the parts that no kernel loads, if the header describes them.
fn strip(file: &mut Vec<u8>) {
    let Some(end) = loaded_end(file) else { return };
    file.truncate(end);
    // There is no table of sections any more.
    file[SECTIONS_AT..SECTIONS_AT + 8].fill(0);
    file[SECTION_COUNTS_AT..SECTION_COUNTS_AT + 4].fill(0);
}

/// Returns the end of the last segment in the file. `None` if the header does not state it.
fn loaded_end(file: &[u8]) -> Option<usize> {
    let number = |at: usize, bytes: usize| {
        let digits = file.get(at..at.checked_add(bytes)?)?.iter().rev();
        let number = digits.fold(0_u64, |number, &digit| number << 8 | u64::from(digit));
        usize::try_from(number).ok()
    };
    if !file.starts_with(MAGIC) || number(54, 2)? != SEGMENT_BYTES {
        return None;
    }
    let (table, count) = (number(32, 8)?, number(56, 2)?);
    let mut end = table.checked_add(count.checked_mul(SEGMENT_BYTES)?)?.max(HEADER_BYTES);
    for segment in 0..count {
        let at = table + segment * SEGMENT_BYTES;
        end = end.max(number(at + 8, 8)?.checked_add(number(at + 32, 8)?)?);
    }
    (count > 0 && end <= file.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn what_is_sent_runs_and_is_no_longer_than_what_is_loaded() {
        let whole = fs::metadata("/proc/self/exe").expect("this test's file").len();
        let bytes = own().expect("this test's file");
        // A test is built with its debugging information.
        assert!((bytes.len() as u64) < whole, "{} of {whole}", bytes.len());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, bytes).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        let output = Command::new(path).arg("--list").output().expect("it runs");
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(listed.contains("what_is_sent_runs"), "{listed}");
    }

    #[test]
    fn what_makes_no_sense_is_left_as_it_is() {
        let mut header = MAGIC.to_vec();
        header.resize(HEADER_BYTES + SEGMENT_BYTES, 0);
        header[32] = HEADER_BYTES as u8;
        header[54] = SEGMENT_BYTES as u8;
        header[56] = 1;
        let mut good = [header.clone(), b"symbols".to_vec()].concat();
        strip(&mut good);
        assert_eq!(good, header);
        let too_long = |at: usize| {
            let mut file = header.clone();
            file[at..at + 2].fill(0xff);
            file
        };
        let cut = header[..HEADER_BYTES + 3].to_vec();
        for file in
            [Vec::new(), b"#!/bin/sh".to_vec(), cut, too_long(32), too_long(56), too_long(HEADER_BYTES + 32)]
        {
            let mut stripped = file.clone();
            strip(&mut stripped);
            assert_eq!(stripped, file);
        }
    }
}
