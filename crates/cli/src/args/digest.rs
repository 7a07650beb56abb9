//! Arguments of `sealane md5`, `sha1`, `sha256`, `sha384`, `sha512` and `blake3`.

use crate::units;
use clap::Args;
use std::path::PathBuf;

pub(super) const LONG_ABOUT: &str = "\
Digest files, many at once: on every core, and where the digest has such a kernel (MD5, SHA-1, SHA-256) in the lanes of \
the CPU's vector registers. Lines are those of md5sum and its kin, in the order of the files; `-` or no file at all is standard input. With --check the files are lists of such \
lines, and what they name is compared.";

pub(super) const MD5_LONG_ABOUT: &str = "\
Digest files, many at once: in the lanes of the CPU's vector registers, and on every core. Lines are those of md5sum, in \
the order of the files; `-` or no file at all is standard input. With --check the files are lists of such lines, and what \
they name is compared.

With -t it is the time trial of the ATOMIC-2 project's driver instead: `-t -c 60 -l 100000` digests 60 blocks of 100000 \
bytes and reports as that driver did. MD5 is broken: use it where others demand it.";

/// What all digests of files take.
#[derive(Debug, Args)]
pub struct DigestArgs {
    /// Files to digest or, with --check, lists to check
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read digests from the files and check them
    #[arg(short, long)]
    pub check: bool,
    /// Lines in the BSD style: NAME (file) = digest
    #[arg(long, conflicts_with = "check")]
    pub tag: bool,
    /// End lines with a zero byte, and escape nothing
    #[arg(short, long, conflicts_with = "check")]
    pub zero: bool,
    /// Mark files as read in binary mode; there is no other
    #[arg(short, long, conflicts_with_all = ["check", "tag"])]
    pub binary: bool,
    /// With --check: say nothing of files that are as they should be
    #[arg(long, requires = "check")]
    pub quiet: bool,
    /// With --check: say nothing, the status tells
    #[arg(long, requires = "check")]
    pub status: bool,
    /// With --check: fail where a line is no digest
    #[arg(long, requires = "check")]
    pub strict: bool,
    /// With --check: say which lines are no digests
    #[arg(short, long, requires = "check")]
    pub warn: bool,
    /// With --check: pass over files that are not there
    #[arg(long, requires = "check")]
    pub ignore_missing: bool,
}

/// Arguments of `sealane md5`.
#[derive(Debug, Args)]
pub struct Md5Args {
    /// As every digest.
    #[command(flatten)]
    pub digest: DigestArgs,
    /// Time trial, as ATOMIC-2's driver ran it; then `-c N` is the number of blocks
    #[arg(short = 't', long, conflicts_with_all = ["tag", "zero", "binary", "quiet", "status", "strict", "warn", "ignore_missing"])]
    pub time_trial: bool,
    /// With -t: number of blocks, as `-c N` does
    #[arg(long, value_name = "N", requires = "time_trial", conflicts_with = "check", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// With -t: length of a block
    #[arg(short, long, value_name = "SIZE", requires = "time_trial", value_parser = units::size)]
    pub length: Option<u64>,
    /// With -t: leave the block as memory comes, so that its first touch is part of the trial
    #[arg(short, long, requires = "time_trial")]
    pub skip_initialisation: bool,
    /// With -t: pseudo-random bytes instead of 0, 1, 2, …
    #[arg(short, long, requires = "time_trial")]
    pub random: bool,
    /// With -t: take blocks from so many copies that no cache holds them
    #[arg(short, long, requires = "time_trial")]
    pub double_buffer: bool,
}
