//! Arguments of `sealane md5` and its siblings, of which each has the name of its digest.

use crate::units;
use clap::Args;
use std::path::PathBuf;

pub(super) const LONG_ABOUT: &str = "\
Compute digests of many files at once, on all cores. MD5, SHA-1, SHA-224, SHA-256 and SHA-3 are also computed side by side in the \
CPU's vector registers, and so are the parts of one long file by KT128 and KT256. The output has the format of md5sum and its relatives, in the order of the files; `-` or no file means standard \
input. With --check the files are lists in that format, and the files that they name are checked.";

pub(super) const MD5_LONG_ABOUT: &str = "\
Compute digests of many files at once, on all cores and side by side in the CPU's vector registers. The output has the \
format of md5sum, in the order of the files; `-` or no file means standard input. With --check the files are lists in that \
format, and the files that they name are checked.

With -t it runs the time trial of the ATOMIC-2 project's driver instead: `-t -c 60 -l 100000` digests 60 blocks of 100000 \
bytes, and the report has that driver's format. MD5 is broken: use it only where it is required.";

/// The arguments that all digests of files share.
#[derive(Debug, Args)]
pub struct DigestArgs {
    /// Files, or with --check lists of digests
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read digests from the files and check them
    #[arg(short, long)]
    pub check: bool,
    /// Print lines in the BSD style: NAME (file) = digest
    #[arg(long, conflicts_with = "check")]
    pub tag: bool,
    /// End lines with a zero byte, and do not escape names
    #[arg(short, long, conflicts_with = "check")]
    pub zero: bool,
    /// Mark files as read in binary mode; all are
    #[arg(short, long, conflicts_with_all = ["check", "tag"])]
    pub binary: bool,
    /// With --check: do not print OK for files that match
    #[arg(long, requires = "check")]
    pub quiet: bool,
    /// With --check: print nothing; the exit status tells
    #[arg(long, requires = "check")]
    pub status: bool,
    /// With --check: fail if a line is not a digest
    #[arg(long, requires = "check")]
    pub strict: bool,
    /// With --check: report lines that are not digests
    #[arg(short, long, requires = "check")]
    pub warn: bool,
    /// With --check: skip files that are missing
    #[arg(long, requires = "check")]
    pub ignore_missing: bool,
}

/// Arguments of `sealane md5`.
#[derive(Debug, Args)]
pub struct Md5Args {
    /// The arguments that every digest has.
    #[command(flatten)]
    pub digest: DigestArgs,
    /// Run the time trial of ATOMIC-2's driver; then `-c N` is the number of blocks
    #[arg(short = 't', long, conflicts_with_all = ["tag", "zero", "binary", "quiet", "status", "strict", "warn", "ignore_missing"])]
    pub time_trial: bool,
    /// With -t: number of blocks, the same as `-c N`
    #[arg(long, value_name = "N", requires = "time_trial", conflicts_with = "check", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// With -t: length of a block
    #[arg(short, long, value_name = "SIZE", requires = "time_trial", value_parser = units::size)]
    pub length: Option<u64>,
    /// With -t: do not initialise the block, so that its first access is part of the trial
    #[arg(short, long, requires = "time_trial")]
    pub skip_initialisation: bool,
    /// With -t: use pseudo-random bytes instead of 0, 1, 2, …
    #[arg(short, long, requires = "time_trial")]
    pub random: bool,
    /// With -t: use more copies of the block than the caches hold
    #[arg(short, long, requires = "time_trial")]
    pub double_buffer: bool,
}
