//! Arguments of `sealane cp`.

use super::Filters;
use crate::units;
use clap::{Args, ValueEnum};
use sealane_copy::{Level, RelativePath};
use sealane_engine::Suite;
use sealane_stack::Placement;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const LONG_ABOUT: &str = "\
Copy files and trees, between hosts or on this one.

A source or the target is a path, `[user@]host:path` over ssh, or `sealane://host[:port]/path` at a daemon; `-` is \
standard input or output. Where the target is a folder, or there are several sources, each goes into it under its own \
name, as cp has it. So the first `cp -r data host:/srv/data` makes /srv/data, and the same command after its success \
/srv/data/data. These mean the same whatever is there already, and can be repeated:

  sealane cp -r data host:/srv/         data becomes /srv/data
  sealane cp -rT data host:/srv/data    likewise: with -T the target is the new name itself
  sealane cp -r data/. host:/srv/data/  what is in data goes into /srv/data, which is made if it is missing

The level of protection is met or refused, never lowered. A transfer that was cut goes on where it stopped when the \
same command is given again, from the same folder; files that are there already with the same size and time are not \
sent again.

In a path on a far host `~` means the home directory, and `*`, `?` and `[a-z]` stand for names, which the far end finds \
itself: quote them, as in `sealane cp 'host:/var/log/*.log' logs/`. A pattern counts as several sources, so the target is \
a folder. Between two far hosts data passes through this one, protected from end to end.

What a cut transfer leaves in the target: whole files under their names, unfinished ones as `.sealane-*.part`, and a \
journal `.sealane-*.journal` that says what is there. They stay until the same command has completed, which removes \
them, or until you do: `find TARGET -name '.sealane-*' -delete`, while no copy into TARGET runs. A journal serves until \
the receiving host starts anew; after that the copy begins from the start.";

pub(super) const USAGE: &str = "sealane cp [OPTIONS] SOURCE... TARGET";

/// Arguments of `sealane cp`.
#[derive(Debug, Args)]
pub struct CpArgs {
    /// What to copy, then where to
    #[arg(required = true, value_name = "SOURCE... TARGET")]
    pub paths: Vec<OsString>,

    /// Descend into folders
    #[arg(short, long, help_heading = "Which files")]
    pub recursive: bool,
    /// Everything about the files: -r --hard-links --xattrs --owner
    #[arg(short, long, help_heading = "Which files")]
    pub archive: bool,
    /// Keep hard links between the files of this transfer
    #[arg(long, help_heading = "Which files")]
    pub hard_links: bool,
    /// Keep the user's extended attributes
    #[arg(long, help_heading = "Which files")]
    pub xattrs: bool,
    /// Keep owner and group, by their numbers, and the set-user-id and set-group-id bits, which are else dropped
    #[arg(long, help_heading = "Which files")]
    pub owner: bool,
    /// Never replace a file of the target that is newer than its source
    #[arg(short, long, help_heading = "Which files")]
    pub update: bool,
    /// Skip files whose size and modification time are already the same at the target (the default)
    #[arg(long, overrides_with = "no_skip_same", help_heading = "Which files")]
    pub skip_same: bool,
    /// Send all files, also those whose size and modification time are the same at the target
    #[arg(long, overrides_with = "skip_same", help_heading = "Which files")]
    pub no_skip_same: bool,
    /// TARGET is the new name itself, also where a folder has that: what is in it is merged
    #[arg(short = 'T', long, help_heading = "Which files")]
    pub no_target_directory: bool,
    /// Copy what symbolic links point to in their place, wherever they are. Without it, links on the command line are
    /// followed, unless -a or --remove-source-files is given, and those below them are copied as links
    #[arg(
        short = 'L',
        long,
        visible_alias = "copy-links",
        conflicts_with = "remove_source_files",
        help_heading = "Which files"
    )]
    pub dereference: bool,
    /// Do not cross into other file systems
    #[arg(short = 'x', long, help_heading = "Which files")]
    pub one_file_system: bool,
    /// Delete at the target what the source does not have, in folders that are copied; last, and not at all where the
    /// source could not be read in full. What --exclude leaves out stays
    #[arg(long, help_heading = "Which files")]
    pub delete: bool,
    /// Delete nothing where more than N entries would go; implies --delete
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..1_000_000), help_heading = "Which files")]
    pub max_delete: Option<u64>,
    /// Delete also what --exclude leaves out; implies --delete
    #[arg(long, help_heading = "Which files")]
    pub delete_excluded: bool,
    /// Skip files that have the same content at the target, by BLAKE3 digests that both ends make of all they have,
    /// instead of the same size and time; what is skipped keeps its time and mode
    #[arg(long, conflicts_with_all = ["skip_same", "no_skip_same"], help_heading = "Which files")]
    pub checksum: bool,
    /// Keep what is replaced or deleted, under its name and a suffix
    #[arg(short, long, help_heading = "Which files")]
    pub backup: bool,
    /// Keep backups below this folder of the target, by the paths that they had, not beside what replaces them; implies
    /// --backup, without a suffix
    #[arg(long, value_name = "FOLDER", value_parser = units::folder, help_heading = "Which files")]
    pub backup_dir: Option<RelativePath>,
    /// What the names of backups end in; implies --backup
    #[arg(long, value_name = "SUFFIX", value_parser = units::suffix, help_heading = "Which files")]
    pub suffix: Option<String>,
    /// Remove from the source every file that has arrived, once all have; folders stay
    #[arg(long, help_heading = "Which files")]
    pub remove_source_files: bool,
    /// Keep modes and times (the default, and always)
    #[arg(short = 'p', help_heading = "Which files")]
    pub preserve: bool,
    /// Copy only what FILE names, one path a line, below the only source, which is a folder; `-` is standard input. The
    /// folders that a path lies in are made; a folder on the list is copied with what is in it only if -r is given
    #[arg(long, value_name = "FILE", conflicts_with_all = ["delete", "max_delete", "delete_excluded"], help_heading = "Which files")]
    pub files_from: Option<PathBuf>,
    /// In the list of --files-from a zero byte ends a path, as `find -print0` has it
    #[arg(
        short = '0',
        long = "from0",
        visible_alias = "null",
        requires = "files_from",
        help_heading = "Which files"
    )]
    pub from0: bool,
    /// Which paths are taken, as ordered patterns.
    #[command(flatten)]
    pub filters: Filters,

    /// Protection of the data on its way
    #[arg(long, value_parser = super::level(), default_value = "private", help_heading = "Protection")]
    pub level: Level,
    /// Algorithm, instead of the best one that both ends have for the level
    #[arg(long, value_parser = super::suite(), help_heading = "Protection")]
    pub suite: Option<Suite>,
    /// Allow outdated algorithms, which no longer protect
    #[arg(long, help_heading = "Protection")]
    pub allow_legacy: bool,
    /// Make a BLAKE3 digest of every file while it moves, check it at the target and print it
    #[arg(long, help_heading = "Protection")]
    pub digest: bool,
    /// Your identity for daemons, instead of the one in your configuration folder
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub identity: Option<PathBuf>,
    /// Keys of known daemons, instead of the file in your configuration folder
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub known_peers: Option<PathBuf>,
    /// Trust the key of a daemon never met before, and write it down
    #[arg(long, help_heading = "Protection")]
    pub accept_new: bool,

    /// Parallel streams, 1 to 64, instead of as many as pay on these machines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed")]
    pub streams: Option<u16>,
    /// Threads that seal and open at each end, 1 to 64, instead of as many as pay; at most one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Speed")]
    pub lanes: Option<u16>,
    /// What a lane works on: all of a connection, or any next batch of any of them
    #[arg(long, value_parser = super::placement(), help_heading = "Speed")]
    pub placement: Option<Placement>,
    /// At most so many bytes a second over all streams, as in 100M, 1G or 10MiB/s
    #[arg(long, value_name = "RATE", value_parser = units::rate, help_heading = "Speed")]
    pub limit_rate: Option<u64>,
    /// The same in kilobits a second, as scp has it
    #[arg(short = 'l', value_name = "KBIT", value_parser = units::kilobits, conflicts_with = "limit_rate", help_heading = "Speed")]
    pub kilobits: Option<u64>,
    /// Flush every file to stable storage before it appears under its name
    #[arg(long, help_heading = "Speed")]
    pub fsync: bool,
    /// What the receiving end does with verified data: write `files`, or `null` to measure the way there alone
    #[arg(long, value_name = "SINK", default_value = "files", help_heading = "Speed")]
    pub sink: SinkArg,
    /// For the laboratory: the end that does its full work, where both would compete for one machine
    #[arg(long, value_name = "END", default_value = "both", hide = true)]
    pub end: EndArg,

    /// Port of the far end's sshd
    #[arg(short = 'P', long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Connection")]
    pub port: Option<u16>,
    /// Use IPv4 addresses only
    #[arg(short = '4', conflicts_with = "ipv6", help_heading = "Connection")]
    pub ipv4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', help_heading = "Connection")]
    pub ipv6: bool,
    /// Identity file for ssh
    #[arg(short = 'i', value_name = "FILE", help_heading = "Connection")]
    pub ssh_identity: Option<PathBuf>,
    /// Option for ssh, as in its configuration file; may be given several times
    #[arg(short = 'o', value_name = "OPTION", help_heading = "Connection")]
    pub ssh_options: Vec<String>,
    /// Configuration file for ssh
    #[arg(short = 'F', value_name = "FILE", help_heading = "Connection")]
    pub ssh_config: Option<PathBuf>,
    /// Jump hosts for ssh, as `[user@]host[:port]`, separated by commas
    #[arg(short = 'J', value_name = "HOSTS", help_heading = "Connection")]
    pub ssh_jump: Option<String>,
    /// Copy this program to ~/.local/bin of a far end that does not have it, over ssh, before anything else; it asks first.
    /// The far host must have the same processor architecture
    #[arg(long, conflicts_with_all = ["remote_program", "dry_run"], help_heading = "Connection")]
    pub install_far_end: bool,
    /// Do not ask before --install-far-end copies
    #[arg(short, long, requires = "install_far_end", help_heading = "Connection")]
    pub yes: bool,
    /// Between two far ends, let the data pass through this host (the default, and always)
    #[arg(short = '3', help_heading = "Connection")]
    pub through_here: bool,
    /// The far end's sealane, where it is not in its PATH
    #[arg(long, value_name = "PROGRAM", help_heading = "Connection")]
    pub remote_program: Option<String>,
    /// Carry the data inside ssh, where its ports are blocked
    #[arg(long, help_heading = "Connection")]
    pub through_ssh: bool,
    /// Ports on which the far end may listen for data streams, as in 50000-50100
    #[arg(long, value_name = "LO-HI", value_parser = units::ports, help_heading = "Connection")]
    pub data_ports: Option<(u16, u16)>,
    /// Give up on a far end that is silent for so long, as in 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s", help_heading = "Connection")]
    pub timeout: Duration,
    /// Go on where a cut transfer stopped (the default)
    #[arg(long, overrides_with = "no_resume", help_heading = "Connection")]
    pub resume: bool,
    /// Begin from the start, and leave nothing behind that could be continued
    #[arg(long, overrides_with = "resume", help_heading = "Connection")]
    pub no_resume: bool,

    /// List what would be copied, and change nothing
    #[arg(short = 'n', long, help_heading = "Output")]
    pub dry_run: bool,
    /// Print the facts of the transfer at its end
    #[arg(long, help_heading = "Output")]
    pub stats: bool,
    /// Print events as lines of JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Say what was agreed, which files are taken up again, and every change in the form of `rsync -i`
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,

    /// scp's cipher, rsync's checksums: said why not.
    #[arg(short = 'c', hide = true)]
    pub short_c: bool,
    /// scp's compression: said why not.
    #[arg(short = 'C', hide = true)]
    pub compress_ssh: bool,
    /// rsync's compression: said why not.
    #[arg(short = 'z', long = "compress", hide = true)]
    pub compress: bool,
}

/// What the receiving end does with verified data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SinkArg {
    /// Write it to files
    Files,
    /// Discard it
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
