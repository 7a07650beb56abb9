//! Arguments of `sealane cp`.

use super::Filters;
use crate::mode_changes::{self, ModeChanges};
use crate::{copy_units, units};
use clap::{Args, ValueEnum};
use sealane_copy::{Compression, Delta, Level, RelativePath};
use sealane_engine::{EngineChoice, KINDS, Suite};
#[cfg(feature = "nats")]
use sealane_fleet::nats::Server;
use sealane_lanes::Placement;
use sealane_terminal::help::engines;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The beginning of the text about the command.
const BEFORE: &str = "\
Copy files and trees, between hosts or on this one.

A source or the target is a path, `[user@]host:path` over ssh, or `sealane://host[:port]/path` at a daemon; `-` is \
standard input or output. If the target is a folder, or there are several sources, each source is copied into it under \
its own name, as cp does. So the first `cp -r data host:/srv/data` makes /srv/data, and the same command run again makes \
/srv/data/data. These forms have the same result each time:

  sealane cp -r data host:/srv/         makes or updates /srv/data
  sealane cp -rT data host:/srv/data    the same: with -T the target is the new name itself
  sealane cp -r data/. host:/srv/data/  the contents of data go into /srv/data

The level of protection is met, or the copy is refused; it is never lowered. An interrupted copy continues where it \
stopped when the same command is run again in the same folder. Files that have the same size and time at the target are \
not sent again.

In a path on a far host `~` means the home directory, and `*`, `?` and `[a-z]` match names there. Quote them, as in \
`sealane cp 'host:/var/log/*.log' logs/`. A pattern counts as several sources, so the target is a folder. Between two \
far hosts the data passes through this host, protected from end to end.
";

/// The text about copies between many hosts.
#[cfg(feature = "fleet")]
const MANY: &str = "
Sources and target may be many hosts, as in `sealane cp -r 'src[1-4]:/data' 'dst[1-8]:/in'`, or `@FILE:/data` with a host a \
line in FILE; hosts that are added to the file take part, and hosts that are removed from it end. The sources must see the same \
folder; the targets may share a folder, or have one each, and then each gets a part of the tree. Here the target is always a \
folder that gets the source under its own name (`/in/data`), and with -T it is the new name itself. The sources copy straight to \
the targets, which they reach by their own ssh configuration and with the options of ssh given here. Several sources copy ranges \
of one file of 8 GB and more at a time. See `sealane fleet`.
";

/// The end of the text.
const AFTER: &str = "
An interrupted copy leaves in the target: complete files under their names, incomplete ones as `.sealane-*.part`, and a \
journal `.sealane-*.journal` that records what has arrived (over SFTP a lease, `.sealane-*.lease`, and the journal is here). \
The same command, in any spelling of its paths, reads unfinished files again, continues them where they are like the source, \
and removes all of these when it completes; --trust-partial does not read them. To remove them by hand, while no copy into TARGET is running: `find TARGET -name '.sealane-*' -delete`. After a restart of \
the receiving host the journal is no longer valid, and the copy starts from the beginning.";

/// Returns the text about the command.
pub(super) fn long_about() -> String {
    [
        BEFORE,
        #[cfg(feature = "fleet")]
        MANY,
        AFTER,
    ]
    .concat()
}

pub(super) const USAGE: &str = "sealane cp [OPTIONS] SOURCE... TARGET";

/// Arguments of `sealane cp`.
#[derive(Debug, Args)]
pub struct CpArgs {
    /// Sources, then the target
    #[arg(required = true, value_name = "SOURCE... TARGET")]
    pub paths: Vec<OsString>,

    /// Copy folders with their contents
    #[arg(short, long, help_heading = "Which files")]
    pub recursive: bool,
    /// Keep everything: the same as -r -p --hard-links, the user's extended attributes, links stay links, and --owner where the receiving
    /// user is root
    #[arg(short, long, help_heading = "Which files")]
    pub archive: bool,
    /// Keep hard links between the files of this copy
    #[arg(long, hide_short_help = true, help_heading = "Which files")]
    pub hard_links: bool,
    /// Keep extended attributes: the user's, which -a keeps too, and those of security. and trusted., capabilities among them, where
    /// the receiving user is root
    #[arg(short = 'X', long, hide_short_help = true, help_heading = "Which files")]
    pub xattrs: bool,
    /// Make devices, pipes and sockets, which are otherwise named and passed over; only root makes devices. They are not opened
    #[arg(short = 'D', long, hide_short_help = true, help_heading = "Which files")]
    pub specials: bool,
    /// Keep POSIX access control lists; users and groups in them are mapped like owners. A far end sets them where it may set
    /// owners
    #[arg(short = 'A', long, conflicts_with = "chmod", hide_short_help = true, help_heading = "Which files")]
    pub acls: bool,
    /// Keep owner and group, by name where the target's host has the name, else by number, and the set-user-id and set-group-id bits. A file that cannot get its owner
    /// counts as failed
    #[arg(long, hide_short_help = true, help_heading = "Which files")]
    pub owner: bool,
    /// Keep the numbers of users and groups, whatever names they have at the target's host. Over SFTP this is always so
    #[arg(long, hide_short_help = true, help_heading = "Which files")]
    pub numeric_ids: bool,
    /// Give all entries this user and group, by name or number at the target's host, as in web:web, 1000 or :staff; implies
    /// --owner, which keeps what is not given. Others than root can give their own files to groups that they are in
    #[arg(long, value_name = "USER:GROUP", value_parser = copy_units::principals, hide_short_help = true, help_heading = "Which files")]
    pub chown: Option<copy_units::Principals>,
    /// Change the modes that entries get: `F` before a change restricts it to files, `D` to folders, as in D2755,F644 or
    /// u=rwX,go-w; may be repeated. Existing folders get modes only with -p or -a
    #[arg(long, value_name = "CHANGES", value_parser = mode_changes::parse, allow_hyphen_values = true, hide_short_help = true, help_heading = "Which files")]
    pub chmod: Vec<ModeChanges>,
    /// Do not replace a file at the target that is newer than its source
    #[arg(short, long, hide_short_help = true, help_heading = "Which files")]
    pub update: bool,
    /// Make nothing that the target does not have already: only update what is there
    #[arg(long, visible_alias = "ignore-non-existing", hide_short_help = true, help_heading = "Which files")]
    pub existing: bool,
    /// Leave what the target has already as it is, folders excepted: only make what is missing
    #[arg(long, hide_short_help = true, help_heading = "Which files")]
    pub ignore_existing: bool,
    /// Skip files that have the same size and modification time at the target (the default)
    #[arg(long, overrides_with = "no_skip_same", hide_short_help = true, help_heading = "Which files")]
    pub skip_same: bool,
    /// Send all files, even those that have the same size and modification time at the target
    #[arg(
        short = 'I',
        long,
        visible_alias = "ignore-times",
        overrides_with = "skip_same",
        hide_short_help = true,
        help_heading = "Which files"
    )]
    pub no_skip_same: bool,
    /// Skip files that have the same size at the target, whatever their times, which become those of the source. Files that changed
    /// and kept their size are not noticed
    #[arg(
        long,
        conflicts_with_all = ["no_skip_same", "checksum", "digest", "modify_window", "link_dest", "compare_dest", "copy_dest", "remove_source_files"],
        hide_short_help = true,
        help_heading = "Which files"
    )]
    pub size_only: bool,
    /// Take times as the same if they differ by no more than SECONDS, in whole seconds: for file systems that keep times less
    /// exactly, such as FAT (2)
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with_all = ["no_skip_same", "checksum", "digest", "link_dest", "compare_dest", "copy_dest"],
        hide_short_help = true,
        help_heading = "Which files"
    )]
    pub modify_window: Option<u32>,
    /// Take TARGET as the new name itself, even if it is a folder: contents are merged into it
    #[arg(short = 'T', long, help_heading = "Which files")]
    pub no_target_directory: bool,
    /// Follow all symbolic links, and copy what they point to. By default only links on the command line are followed, and
    /// not even those with -a or --remove-source-files; other links are copied as links
    #[arg(
        short = 'L',
        long,
        visible_alias = "copy-links",
        conflicts_with = "remove_source_files",
        help_heading = "Which files"
    )]
    pub dereference: bool,
    /// Stay on the file system of the source
    #[arg(short = 'x', long, hide_short_help = true, help_heading = "Which files")]
    pub one_file_system: bool,
    /// Delete files at the target that the source does not have, in the folders that are copied. This happens last,
    /// and not at all if the source could not be read in full. Excluded files stay. A folder gives way to a file of
    /// its name, and a file to a folder; at a far end that is written to over SFTP they do not, and the copy says so. From a far end that is read over SFTP, a
    /// folder that is listed as empty empties none, unless --delete is given twice: a list that fails looks the same there
    #[arg(long, action = clap::ArgAction::Count, help_heading = "Which files")]
    pub delete: u8,
    /// Delete nothing if more than N entries would be deleted; implies --delete
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..1_000_000), help_heading = "Which files")]
    pub max_delete: Option<u64>,
    /// Delete excluded files too; implies --delete
    #[arg(long, hide_short_help = true, help_heading = "Which files")]
    pub delete_excluded: bool,
    /// Skip files by content, not by size and time: both ends read all files and compare BLAKE3 digests
    #[arg(long, conflicts_with_all = ["skip_same", "no_skip_same"], help_heading = "Which files")]
    pub checksum: bool,
    /// Keep each file that is replaced or deleted, under its name with a suffix (`~`)
    #[arg(short, long, help_heading = "Which files")]
    pub backup: bool,
    /// Keep backups in this folder below the target, under their old paths; implies --backup, without a suffix
    #[arg(long, value_name = "FOLDER", value_parser = copy_units::folder, hide_short_help = true, help_heading = "Which files")]
    pub backup_dir: Option<RelativePath>,
    /// Suffix of backups, as in .old; implies --backup
    #[arg(long, value_name = "SUFFIX", value_parser = copy_units::suffix, hide_short_help = true, help_heading = "Which files")]
    pub suffix: Option<String>,
    /// Write into the files that the target has, and do not make new ones beside them: other names of them get the content too, and
    /// there is no need of space for both. Until the copy is through, and after one that fails, they are neither old nor new; a
    /// program that reads them meanwhile sees a mixture, and of a delta only parts that stay in their places are not sent
    #[arg(
        long,
        visible_alias = "inplace",
        conflicts_with_all = ["backup", "backup_dir", "suffix", "link_dest"],
        hide_short_help = true,
        help_heading = "Which files"
    )]
    pub in_place: bool,
    /// Make hard links to files that did not change, instead of copies of them: to those of an earlier copy in FOLDER, relative
    /// to the target. Up to 20; the first that has a file with the same size, time and attributes wins
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["compare_dest", "copy_dest", "checksum", "digest", "no_skip_same"], hide_short_help = true, help_heading = "Which files")]
    pub link_dest: Vec<PathBuf>,
    /// Do not copy files that did not change since an earlier copy in FOLDER, relative to the target: only the others come
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["copy_dest", "checksum", "digest", "no_skip_same"], hide_short_help = true, help_heading = "Which files")]
    pub compare_dest: Vec<PathBuf>,
    /// Copy files that did not change from an earlier copy in FOLDER, relative to the target, and do not send them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["checksum", "digest", "no_skip_same"], hide_short_help = true, help_heading = "Which files")]
    pub copy_dest: Vec<PathBuf>,
    /// Remove source files once all have arrived; folders stay
    #[arg(long, hide_short_help = true, help_heading = "Which files")]
    pub remove_source_files: bool,
    /// Keep modes and times; this is always so, but for the modes of folders that the target has already
    #[arg(short = 'p', hide_short_help = true, help_heading = "Which files")]
    pub preserve: bool,
    /// Copy only the paths listed in FILE, one a line, relative to the source, which is one folder; `-` is standard input.
    /// Parent folders are made. A listed folder is copied with its contents only with -r
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delete", "max_delete", "delete_excluded"], help_heading = "Which files")]
    pub files_from: Option<PathBuf>,
    /// Paths in the list of --files-from end with a zero byte, as `find -print0` writes them
    #[arg(
        short = '0',
        long = "from0",
        visible_alias = "null",
        requires = "files_from",
        hide_short_help = true,
        help_heading = "Which files"
    )]
    pub from0: bool,
    /// The selection of paths, as ordered patterns.
    #[command(flatten)]
    pub filters: Filters,
    /// Read patterns from files of this name in the source's folders, for what lies in and below each: `- ` or nothing before a
    /// pattern excludes, `+ ` includes, and a leading `/` means the folder of the file. Deeper files count first, and --include
    /// and --exclude before all. They are copied too, and with --delete what they exclude stays
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "files_from",
        hide_short_help = true,
        help_heading = "Which files"
    )]
    pub filter_file: Vec<String>,
    /// Leave out what files .gitignore in the source's folders say, as git does; .git itself is copied unless it is excluded
    #[arg(long, conflicts_with = "files_from", hide_short_help = true, help_heading = "Which files")]
    pub gitignore: bool,
    /// Send no file that is smaller than SIZE, as in 10k or 1MiB. Such files stay as they are at both ends, with --delete too
    #[arg(long, value_name = "SIZE", value_parser = copy_units::size_limit, hide_short_help = true, help_heading = "Which files")]
    pub min_size: Option<u64>,
    /// Send no file that is larger than SIZE, as in 1.5G or 100MiB. Such files stay as they are at both ends, with --delete too
    #[arg(long, value_name = "SIZE", value_parser = copy_units::size_limit, hide_short_help = true, help_heading = "Which files")]
    pub max_size: Option<u64>,

    /// Protection of the data in transit
    #[arg(long, value_parser = super::level(), default_value = "private", help_heading = "Protection")]
    pub level: Level,
    /// Algorithm; by default the best that both ends have for the level
    #[arg(long, value_parser = super::suite(), hide_short_help = true, help_heading = "Protection")]
    pub suite: Option<Suite>,
    /// Allow outdated algorithms, which are no longer secure
    #[arg(long, hide_short_help = true, help_heading = "Protection")]
    pub allow_legacy: bool,
    /// Compute a BLAKE3 digest of every file during the copy, check it at the target and print it
    #[arg(long, help_heading = "Protection")]
    pub digest: bool,
    /// File of your identity for daemons; by default the one in your configuration folder
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Protection")]
    pub identity: Option<PathBuf>,
    /// File of known daemons and their keys; by default the one in your configuration folder
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Protection")]
    pub known_peers: Option<PathBuf>,
    /// Trust the key of a new daemon, and remember it
    #[arg(long, help_heading = "Protection")]
    pub accept_new: bool,

    /// Number of parallel streams, 1 to 64; by default chosen for these machines and the path
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed")]
    pub streams: Option<u16>,
    /// Number of threads that encrypt and decrypt at each end, 1 to 64, and at most one a processor; chosen by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), hide_short_help = true, help_heading = "Speed")]
    pub lanes: Option<u16>,
    /// Work of a lane: everything of one connection, or the next batch of any
    #[arg(long, value_parser = super::placement(), hide_short_help = true, help_heading = "Speed")]
    pub placement: Option<Placement>,
    /// The engine of this end
    #[arg(long, value_name = "ENGINE", default_value_t, help = engines(KINDS), hide_short_help = true, help_heading = "Speed")]
    pub engine: EngineChoice,
    /// Between many hosts: keep the work in a NATS server, as tls://HOST[:PORT], so that `sealane fleet work` can take part on hosts
    /// that this one does not reach. The server needs `sync_interval: always` to keep what it has acknowledged
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "QUEUE", hide_short_help = true, help_heading = "Connection")]
    pub queue: Option<Server>,
    /// Between many hosts: number of copies that each source host makes at a time
    #[cfg_attr(feature = "nats", doc = "(0 with --queue leaves all to workers that come by themselves)")]
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=64), default_value_t = 2, hide_short_help = true, help_heading = "Speed")]
    pub movers: u16,
    /// For tests: the maximum number of bytes of one share of a copy between many hosts
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "SIZE", value_parser = units::size, hide = true)]
    pub share_bytes: Option<u64>,
    /// Limit the rate of all streams together, in bytes a second, as in 100M, 1G or 10MiB/s
    #[arg(long, value_name = "RATE", value_parser = units::rate, help_heading = "Speed")]
    pub limit_rate: Option<u64>,
    /// The same in kilobits a second, as in scp
    #[arg(short = 'l', value_name = "KBIT", value_parser = units::kilobits, conflicts_with = "limit_rate", hide_short_help = true, help_heading = "Speed")]
    pub kilobits: Option<u64>,
    /// Compress the data on the way, by zstd: `zstd` (or -z alone) always, `zstd:N` at level N from -7 to 19, `auto` only as far
    /// as that makes the copy faster, `none` never (the default). What does not become shorter goes as it is. The lengths of
    /// compressed records tell an eavesdropper more than others
    #[arg(
        short = 'z',
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "zstd",
        help_heading = "Speed"
    )]
    pub compress: Option<Compression>,
    /// Send only what differs of large files of which the target has another version: `always`, `auto` where the line is so slow
    /// that reading both versions takes less time than sending the file (the default), `never`
    #[arg(long, value_name = "WHEN", default_value_t = Delta::Auto, require_equals = false, help_heading = "Speed")]
    pub delta: Delta,
    /// Flush every file to disk before it gets its final name
    #[arg(long, hide_short_help = true, help_heading = "Speed")]
    pub fsync: bool,
    /// Treatment of the data at the receiving end: write files, or `null` to discard it after verification, for
    /// measurements
    #[arg(
        long,
        value_name = "SINK",
        default_value = "files",
        hide_short_help = true,
        help_heading = "Speed"
    )]
    pub sink: SinkArg,
    /// For the laboratory: the end that does its full work, where both would compete for one machine
    #[arg(long, value_name = "END", default_value = "both", hide = true)]
    pub end: EndArg,

    /// Port of sshd at the far end
    #[arg(short = 'P', long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Connection")]
    pub port: Option<u16>,
    /// Use IPv4 addresses only
    #[arg(short = '4', conflicts_with = "ipv6", hide_short_help = true, help_heading = "Connection")]
    pub ipv4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', hide_short_help = true, help_heading = "Connection")]
    pub ipv6: bool,
    /// Identity file (private key) for ssh
    #[arg(short = 'i', value_name = "FILE", help_heading = "Connection")]
    pub ssh_identity: Option<PathBuf>,
    /// Option for ssh, in the form of its configuration file; may be repeated
    #[arg(short = 'o', value_name = "OPTION", hide_short_help = true, help_heading = "Connection")]
    pub ssh_options: Vec<String>,
    /// Configuration file for ssh
    #[arg(short = 'F', value_name = "FILE", hide_short_help = true, help_heading = "Connection")]
    pub ssh_config: Option<PathBuf>,
    /// Jump hosts for ssh, as `[user@]host[:port]`, separated by commas
    #[arg(short = 'J', value_name = "HOSTS", help_heading = "Connection")]
    pub ssh_jump: Option<String>,
    /// Copy the program over ssh to ~/.local/bin at a far end that has none, after asking: one that only copies and needs no
    /// library, from lib/sealane/far-ends beside this program's folder or from the folder in the variable SEALANE_FAR_ENDS; or
    /// this program itself, if there is none and the far host has the same processor architecture
    #[arg(long, conflicts_with_all = ["remote_program", "dry_run"], help_heading = "Connection")]
    pub install_far_end: bool,
    /// With --install-far-end: do not ask
    #[arg(short, long, requires = "install_far_end", hide_short_help = true, help_heading = "Connection")]
    pub yes: bool,
    /// Copy between two far hosts through this one (always so)
    #[arg(short = '3', hide_short_help = true, help_heading = "Connection")]
    pub through_here: bool,
    /// Program to use at a far end that is reached by ssh: sealane, or sshd's SFTP server, which is slower, keeps times to the
    /// second and lacks --level, --suite and --digest. By default SFTP is used where the far end has no sealane
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "auto",
        hide_short_help = true,
        help_heading = "Connection"
    )]
    pub far_end: FarEndArg,
    /// Path of sealane at the far end, if it is neither in its PATH nor in ~/.local/bin
    #[arg(long, value_name = "PROGRAM", hide_short_help = true, help_heading = "Connection")]
    pub remote_program: Option<String>,
    /// Send the data inside the ssh connection from the start; it goes there by itself if no other port is reached
    #[arg(long, hide_short_help = true, help_heading = "Connection")]
    pub through_ssh: bool,
    /// Ports on which the far end listens for data streams, as in 50000-50100
    #[arg(long, value_name = "LO-HI", value_parser = units::ports, hide_short_help = true, help_heading = "Connection")]
    pub data_ports: Option<(u16, u16)>,
    /// Give up when the far end has been silent for this time, as in 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s", hide_short_help = true, help_heading = "Connection")]
    pub timeout: Duration,
    /// Continue an interrupted copy where it stopped (the default)
    #[arg(long, overrides_with = "no_resume", hide_short_help = true, help_heading = "Connection")]
    pub resume: bool,
    /// Start from the beginning, and leave nothing to continue from
    #[arg(long, overrides_with = "resume", hide_short_help = true, help_heading = "Connection")]
    pub no_resume: bool,
    /// Continue unfinished files without reading again what is there and comparing it with the source
    #[arg(long, conflicts_with_all = ["digest", "no_resume"], hide_short_help = true, help_heading = "Connection")]
    pub trust_partial: bool,

    /// List what would be copied, and change nothing; with -v, how it differs from what the target has
    #[arg(short = 'n', long, help_heading = "Output")]
    pub dry_run: bool,
    /// Print statistics at the end
    #[arg(long, help_heading = "Output")]
    pub stats: bool,
    /// Print events as JSON, one object a line, on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Append what --json -v prints to FILE as well, whatever is printed: a line of JSON for each event, every change included
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub log_file: Option<PathBuf>,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Print what was agreed, which files are continued, and every change in the form of `rsync -i`
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,

    /// scp's cipher, rsync's checksums: refused with the reason.
    #[arg(short = 'c', hide = true)]
    pub short_c: bool,
    /// scp's compression, which rsync's -C is not: refused with the reason.
    #[arg(short = 'C', hide = true)]
    pub compress_ssh: bool,
}

/// Program at a far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FarEndArg {
    /// sealane, or SFTP where there is none
    Auto,
    /// sealane only
    Sealane,
    /// SFTP only
    Sftp,
}

/// The treatment of verified data at the receiving end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SinkArg {
    /// Write files
    Files,
    /// Discard the data
    Null,
}

/// Which end does its full work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EndArg {
    /// The sender; the receiver discards unopened records
    Send,
    /// The receiver; the sender sealed its records before the clock started
    Receive,
    /// Both, as in use
    Both,
}
