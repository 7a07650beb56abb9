//! Checks lists of digests, with the words and the outcome of `md5sum --check`.
//!
//! Guarantees: lists are read line by line and files in groups, so memory does not grow with the list; a list without a
//! single proper line is a failure, and so is a file that differs or cannot be read.

use super::line::{Parsed, parse, result_name};
use super::{Found, Kind, Output, complain, files};
use crate::args::DigestArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::text;
use sealane_transform::Kernels;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Entries that are checked together.
const GROUP: usize = 4096;

/// A longer line is malformed: two paths of the greatest length fit, escaped.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The counts for one list.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    proper: usize,
    improper: usize,
    unreadable: usize,
    different: usize,
    good: usize,
}

struct Check<'a> {
    kind: Kind,
    kernels: &'a Kernels,
    arguments: &'a DigestArgs,
    output: Output,
}

/// Checks every list.
pub(super) fn run(
    kind: Kind,
    kernels: &Kernels,
    arguments: &DigestArgs,
    lists: &[PathBuf],
) -> Result<ExitStatus, Failure> {
    let mut check = Check { kind, kernels, arguments, output: Output::new() };
    let mut all_good = true;
    for list in lists {
        let counts = if list.as_os_str() == "-" {
            check.list(list, io::stdin().lock())
        } else {
            match File::open(list) {
                Ok(file) => check.list(list, BufReader::new(file)),
                Err(error) => Err(Stopped::List(error)),
            }
        };
        check.output.flush()?;
        match counts {
            Ok(counts) => all_good &= check.conclude(list, counts),
            Err(Stopped::Output(failure)) => return Err(failure),
            Err(Stopped::List(error)) => {
                complain(list, &error);
                all_good = false;
            }
        }
    }
    Ok(if all_good { ExitStatus::Success } else { ExitStatus::Partial })
}

/// The reason why a list was not read to its end.
enum Stopped {
    /// The list cannot be read.
    List(io::Error),
    /// Nobody takes the results.
    Output(Failure),
}

impl Check<'_> {
    fn list(&mut self, list: &Path, mut lines: impl BufRead) -> Result<Counts, Stopped> {
        let mut counts = Counts::default();
        let mut line = Vec::new();
        let mut number = 0_usize;
        let (mut names, mut digests) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let bytes = read.map_err(Stopped::List)?;
            if bytes == 0 || names.len() >= GROUP {
                self.group(&names, &digests, &mut counts).map_err(Stopped::Output)?;
                names.clear();
                digests.clear();
            }
            if bytes == 0 {
                return Ok(counts);
            }
            number += 1;
            match parse(self.kind, line.strip_suffix(b"\n").unwrap_or(&line)) {
                // A list does not name itself by being standard input.
                Parsed::Entry { name, digest } if !(name == b"-" && list.as_os_str() == "-") => {
                    counts.proper += 1;
                    names.push(PathBuf::from(OsString::from_vec(name)));
                    digests.push(digest);
                }
                Parsed::Nothing => {}
                Parsed::Entry { .. } | Parsed::Improper => {
                    counts.improper += 1;
                    if self.arguments.warn {
                        text::complain(format_args!(
                            "{}: {number}: improperly formatted {} checksum line",
                            text::printable(list.as_os_str().as_bytes()),
                            self.kind.tag()
                        ));
                    }
                }
            }
        }
    }

    fn group(&mut self, names: &[PathBuf], digests: &[Vec<u8>], counts: &mut Counts) -> Result<(), Failure> {
        let Self { kind, kernels, arguments, output } = self;
        files::digest(*kind, kernels, names, |index, found: Found, more| {
            let name = &names[index];
            let verdict = match found {
                Ok(digest) if digest == digests[index] => {
                    counts.good += 1;
                    if arguments.quiet { None } else { Some("OK") }
                }
                Ok(_) => {
                    counts.different += 1;
                    Some("FAILED")
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && arguments.ignore_missing => None,
                Err(error) => {
                    counts.unreadable += 1;
                    output.flush()?;
                    complain(name, &error);
                    Some("FAILED open or read")
                }
            };
            let Some(verdict) = verdict.filter(|_| !arguments.status) else { return Ok(()) };
            let mut line = result_name(name.as_os_str().as_bytes());
            line.extend_from_slice(b": ");
            line.extend_from_slice(verdict.as_bytes());
            line.push(b'\n');
            output.write(&line, more)
        })
    }

    /// Prints the summary of a list to standard error, and returns whether the list passed.
    fn conclude(&self, list: &Path, counts: Counts) -> bool {
        let list = text::printable(list.as_os_str().as_bytes());
        if counts.proper == 0 {
            text::complain(format_args!("{list}: no properly formatted checksum lines found"));
            return false;
        }
        let warn = |count: usize, one: &str, many: &str| {
            if count > 0 && !self.arguments.status {
                text::complain(format_args!("WARNING: {count} {}", if count == 1 { one } else { many }));
            }
        };
        warn(counts.improper, "line is improperly formatted", "lines are improperly formatted");
        warn(counts.unreadable, "listed file could not be read", "listed files could not be read");
        warn(counts.different, "computed checksum did NOT match", "computed checksums did NOT match");
        let nothing_verified = self.arguments.ignore_missing && counts.good == 0 && counts.different == 0;
        if nothing_verified && !self.arguments.status {
            text::complain(format_args!("{list}: no file was verified"));
        }
        let strict_failure = self.arguments.strict && counts.improper > 0;
        counts.different == 0 && counts.unreadable == 0 && !nothing_verified && !strict_failure
    }
}
