//! What a user may ask of a transfer, as plain data.
//!
//! Guarantees: every field is a wish that is met or refused. Nothing here opens, connects or guesses.

use std::{ffi::OsString, fmt, path::PathBuf, str::FromStr, time::Duration};

use sealane_engine::{EngineChoice, Implementations, Suite};
use sealane_peer::{AddressFamily, SshCommand};
use sealane_stack::Placement;
use sealane_tree::{Following, RelativePath};
use serde::{Deserialize, Serialize};

use crate::{error::Error, session::agree};

/// How far the data on the wire is protected: the ladder of the multicore GridFTP study (`PROT` C, S, P
/// with and without `DCAU`). Ordered: a later level promises all that an earlier one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// No protection on the data streams.
    Clear,
    /// Each data stream proves at its opening that it belongs to the authenticated peer; data is clear.
    Authenticated,
    /// Every record carries a cryptographic integrity tag; data is readable on the wire.
    Safe,
    /// Every record is encrypted and authenticated.
    Private,
}

impl Level {
    /// All levels, weakest first.
    pub const ALL: [Self; 4] = [Self::Clear, Self::Authenticated, Self::Safe, Self::Private];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Authenticated => "authenticated",
            Self::Safe => "safe",
            Self::Private => "private",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word on the command line that names nothing we know.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown {what} {word:?}; choose one of {choices}")]
pub struct UnknownName {
    /// What was looked for.
    pub what: &'static str,
    /// What was given.
    pub word: String,
    /// What would have been understood.
    pub choices: &'static str,
}

impl FromStr for Level {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|level| level.name() == word).ok_or_else(|| UnknownName {
            what: "level",
            word: word.to_owned(),
            choices: "clear, authenticated, safe, private",
        })
    }
}

/// What the receiving end does with verified data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sink {
    /// Writes files.
    #[default]
    Files,
    /// Verifies and discards: transport and cryptography alone (`--sink null`).
    Null,
}

/// Which ends do their full work: the laboratory measures one end at a time, as the papers' in-memory
/// drivers did, because two ends on one machine compete for its cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MeasuredEnd {
    /// As a user would have it.
    #[default]
    Both,
    /// The sender works in full; the receiver reads and discards without opening a record.
    Send,
    /// The receiver works in full; the sender writes records that it sealed before the clock started.
    Receive,
}

/// What a receiving end does with modes, beyond what its user may do anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeRules {
    /// Bits that nothing gets, whatever was sent.
    pub removed: u32,
    /// Bits that folders do not get which nobody described, where the process's own umask is 0.
    pub umask: u32,
}

/// What is copied besides contents, modes, times and symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserve {
    /// Keep hard links within the transfer (`--hard-links`).
    pub hard_links: bool,
    /// Keep extended attributes (`--xattrs`).
    pub xattrs: bool,
    /// Keep user and group ids.
    pub owner: Ownership,
    /// Folders that are there already get the modes of those that are sent; otherwise they keep their own.
    pub folder_modes: bool,
}

/// Whether user and group ids are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// They are those of the receiving user.
    #[default]
    NotKept,
    /// They are kept if the receiving end may give files away (`--archive`).
    WherePossible,
    /// An entry that does not get its owner is not as it was asked for (`--owner`).
    Kept,
}

impl Ownership {
    /// Whether entries are sent with their owners.
    #[must_use]
    pub fn is_wanted(self) -> bool {
        self != Self::NotKept
    }

    /// The part of the wish that is left at a receiving end that may give files away, or may not.
    #[must_use]
    pub fn where_it(self, may_give: bool) -> Self {
        if self == Self::WherePossible && !may_give { Self::NotKept } else { self }
    }
}

/// What becomes of what the target has already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upkeep {
    /// Delete what the source does not have.
    pub delete: Option<Deletion>,
    /// Skip what has the same content at the target, by its BLAKE3 digest, whatever its time.
    pub checksum: bool,
    /// What is replaced or deleted stays, here.
    pub backup: Option<Backup>,
    /// Remove from the source what has arrived.
    pub remove_sources: bool,
    /// Tell of every change.
    pub itemise: bool,
}

/// Where backups stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// What their names end in; may be empty where they have a folder of their own.
    pub suffix: Vec<u8>,
    /// Below this folder of the target, by the paths that they had; beside what replaces them otherwise.
    pub folder: Option<RelativePath>,
}

impl Backup {
    /// Whether they can be named like this.
    #[must_use]
    pub fn is_sensible(&self) -> bool {
        Upkeep::is_suffix(&self.suffix) || (self.suffix.is_empty() && self.folder.is_some())
    }
}

impl Upkeep {
    /// The longest suffix of a backup, in bytes.
    pub const SUFFIX_BYTES_MAX: usize = 64;

    /// Whether backups can have this suffix.
    #[must_use]
    pub fn is_suffix(suffix: &[u8]) -> bool {
        let bytes = 1..=Self::SUFFIX_BYTES_MAX;
        bytes.contains(&suffix.len()) && !suffix.iter().any(|&byte| byte == b'/' || byte == 0)
    }
}

/// What may be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Delete nothing where there is more.
    pub entries_max: Option<u64>,
    /// Also what the filters leave out.
    pub excluded: bool,
}

/// One include or exclude pattern; the first match wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// Take what matches.
    Include(String),
    /// Leave out what matches, and do not descend into it.
    Exclude(String),
}

/// Everything that shapes one transfer.
#[derive(Clone, Debug)]
pub struct Options {
    /// Descend into directories.
    pub recursive: bool,
    /// Protection asked for. Met or refused, never lowered.
    pub level: Level,
    /// Algorithm, or the level's default.
    pub suite: Option<Suite>,
    /// Allow suites whose algorithms are broken or outdated.
    pub allow_legacy: bool,
    /// Parallel TCP streams (1 to 64), or the measured default.
    pub streams: Option<u16>,
    /// Lanes (threads) at each end (1 to 64), or the measured default. No end starts more than it has processors.
    pub lanes: Option<u16>,
    /// Unit of concurrency.
    pub placement: Option<Placement>,
    /// Compute and check a BLAKE3 digest of every file while it moves.
    pub digest: bool,
    /// Carry the data inside ssh, where data ports are blocked.
    pub through_ssh: bool,
    /// Bytes per second over all streams.
    pub limit_rate: Option<u64>,
    /// Continue what an earlier run of the same command left, and leave what can be continued.
    pub resume: bool,
    /// Skip files whose size and modification time are the same at the target, as those are that an earlier run has
    /// copied.
    pub skip_same: bool,
    /// Never replace a file of the target that is newer than its source.
    pub update: bool,
    /// The target is the new name itself, also where a directory has that.
    pub as_named: bool,
    /// List what would be sent; change nothing.
    pub dry_run: bool,
    /// Attributes kept on request.
    pub preserve: Preserve,
    /// What becomes of what the target has already.
    pub upkeep: Upkeep,
    /// Filters in the order given.
    pub patterns: Vec<Pattern>,
    /// Which symbolic links of the sources are read as what they point to.
    pub following: Following,
    /// Only these paths below the only source, which is a directory, and the directories that they are in.
    pub listed: Option<Vec<RelativePath>>,
    /// The transfer is one of many of the same sources and target that run at once, and this is its name among them: each
    /// has a journal of its own.
    pub share: Option<[u8; 16]>,
    /// Do not cross file-system boundaries.
    pub one_file_system: bool,
    /// Flush every file to stable storage before its rename.
    pub fsync: bool,
    /// Files, or nothing.
    pub sink: Sink,
    /// Laboratory only.
    pub measured_end: MeasuredEnd,
    /// Give up on a peer that is silent for so long.
    pub timeout: Duration,
    /// Listen for data streams only on these ports at the far end (`--data-ports`).
    pub data_ports: Option<(u16, u16)>,
    /// Whose code seals and opens at this end.
    pub implementations: Implementations,
    /// The engine that runs it at this end (`--engine`). The far end chooses for itself.
    pub engine: EngineChoice,
    /// How the far end is reached.
    pub remote: RemoteOptions,
}

impl Options {
    /// The suite that a session of these options agrees on, or none.
    ///
    /// # Errors
    /// The suite that was asked for does not fit the level, or is outdated and not allowed.
    pub fn agreed_suite(&self) -> Result<Suite, Error> {
        agree::suite(self)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recursive: false,
            level: Level::Private,
            suite: None,
            allow_legacy: false,
            streams: None,
            lanes: None,
            placement: None,
            digest: false,
            through_ssh: false,
            limit_rate: None,
            resume: true,
            skip_same: true,
            update: false,
            as_named: false,
            dry_run: false,
            preserve: Preserve::default(),
            upkeep: Upkeep::default(),
            patterns: Vec::new(),
            following: Following::Roots,
            listed: None,
            share: None,
            one_file_system: false,
            fsync: false,
            sink: Sink::Files,
            measured_end: MeasuredEnd::Both,
            timeout: Duration::from_secs(30),
            data_ports: None,
            implementations: Implementations::default(),
            engine: EngineChoice::default(),
            remote: RemoteOptions::default(),
        }
    }
}

/// The program that answers at the far end of ssh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FarEnd {
    /// sealane, or sshd's SFTP server where there is none.
    #[default]
    Auto,
    /// sealane, or the transfer is refused.
    Sealane,
    /// sshd's SFTP server.
    Sftp,
}

/// How to reach the far end; passed on to `ssh` or to the daemon's TLS.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// ssh's `-p` (`-P` of scp).
    pub port: Option<u16>,
    /// Only addresses of this family.
    pub family: Option<AddressFamily>,
    /// Another program instead of `ssh`.
    pub ssh_program: Option<OsString>,
    /// ssh's `-i`.
    pub ssh_identity: Option<PathBuf>,
    /// ssh's `-o`, in order.
    pub ssh_options: Vec<String>,
    /// ssh's `-F`.
    pub ssh_config: Option<PathBuf>,
    /// ssh's `-J`.
    pub ssh_jump: Option<String>,
    /// The program that is to answer behind ssh.
    pub far_end: FarEnd,
    /// The folder for journals of transfers whose target keeps none.
    pub state_dir: Option<PathBuf>,
    /// The far end's `sealane`, when it is not in its PATH.
    pub remote_program: Option<String>,
    /// The same, where it was found for single hosts.
    pub found_programs: Vec<(String, String)>,
    /// Where the default files are.
    pub config_dir: Option<PathBuf>,
    /// Ed25519 identity for daemons, or the default file.
    pub identity: Option<PathBuf>,
    /// Known peers' keys, or the default file.
    pub known_peers: Option<PathBuf>,
    /// Trust an unknown daemon's key on first use.
    pub accept_new: bool,
}

impl RemoteOptions {
    /// How ssh is to be started for a host.
    #[must_use]
    pub fn ssh_command(&self, user: Option<String>, host: String, port: Option<u16>) -> SshCommand {
        let found = self.found_programs.iter().find(|(name, _)| *name == host).map(|(_, program)| program);
        let mut command = SshCommand::new(host);
        if let Some(program) = &self.ssh_program {
            command.program.clone_from(program);
        }
        command.user = user;
        command.port = port.or(self.port);
        command.family = self.family;
        command.identity_files = self.ssh_identity.iter().cloned().collect();
        command.options = self.ssh_options.iter().map(Into::into).collect();
        command.config.clone_from(&self.ssh_config);
        command.jump = self.ssh_jump.clone().map(Into::into);
        if let Some(program) = found.or(self.remote_program.as_ref()) {
            command.remote_program = program.into();
        }
        command
    }
}
