//! The options of a transfer, as plain data.
//!
//! Guarantees: every field is a request that is met or refused. Nothing here opens, connects or guesses, but for logins that
//! are asked for.

use std::{ffi::OsString, fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use sealane_engine::{EngineChoice, Implementations, Suite};
use sealane_lanes::Placement;
use sealane_peer::{AddressFamily, Sharing, SshCommand};
use sealane_tree::{BasisUse, Following, ModeChange, RelativePath, Timestamp, Xattrs};
use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    login::{Destination, Login, Logins},
};

/// The protection of the data on the wire: the ladder of the multicore GridFTP study (`PROT` C, S, P with and without
/// `DCAU`). Levels are ordered: a later level includes the guarantees of the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// No protection on the data streams.
    Clear,
    /// Each data stream proves at its opening that it belongs to the authenticated peer; data is not protected.
    Authenticated,
    /// Every record carries a cryptographic integrity tag; data is readable on the wire.
    Safe,
    /// Every record is encrypted and authenticated.
    #[default]
    Private,
}

impl Level {
    /// All levels, weakest first.
    pub const ALL: [Self; 4] = [Self::Clear, Self::Authenticated, Self::Safe, Self::Private];

    /// Returns the name used on the command line and in reports.
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

/// The error for an unknown word on the command line.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown {what} {word:?}; choose one of {choices}")]
pub struct UnknownName {
    /// The kind of word that was expected.
    pub what: &'static str,
    /// The given word.
    pub word: String,
    /// The valid words.
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

/// The compression of content on its way to another host, by zstd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// Content goes as it is.
    #[default]
    None,
    /// Whatever carries most content in a second: as it is, or by some level. A far end that takes no compressed records
    /// gets them as they are.
    Auto,
    /// By this level of zstd, in [`Compression::LEVELS`]; a far end that takes no compressed records is an error.
    Zstd(i8),
}

impl Compression {
    /// The levels of zstd; 0 is none.
    pub const LEVELS: std::ops::RangeInclusive<i8> = -7..=19;
    /// The level of those who name none: higher ones gain hardly anything from records of 64 KiB.
    const BY_DEFAULT: Self = Self::Zstd(1);

    /// Returns whether both ends know of it: its level exists.
    pub(crate) fn is_sensible(self) -> bool {
        match self {
            Self::None | Self::Auto => true,
            Self::Zstd(level) => level != 0 && Self::LEVELS.contains(&level),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Auto => f.write_str("auto"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = match word {
            "none" => Some(Self::None),
            "auto" => Some(Self::Auto),
            "zstd" => Some(Self::BY_DEFAULT),
            _ => word.strip_prefix("zstd:").and_then(|level| level.parse().ok()).map(Self::Zstd),
        };
        found.filter(|found| found.is_sensible()).ok_or_else(|| UnknownName {
            what: "compression",
            word: word.to_owned(),
            choices: "auto, zstd, zstd:N with a level from -7 to 19, none",
        })
    }
}

/// Whether of a large file only what differs is sent, if the target has another version of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Delta {
    /// Files are sent whole.
    Never,
    /// Only what differs is sent where reading both versions takes less time than sending what may be spared, by the rates of
    /// this transfer. A far end that does not compare versions gets files whole.
    #[default]
    Auto,
    /// Only what differs is sent; a far end that does not compare versions is an error.
    Always,
}

impl Delta {
    const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// Returns the word of the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Auto => "auto",
            Self::Always => "always",
        }
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Delta {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|delta| delta.name() == word).ok_or_else(|| UnknownName {
            what: "use of deltas",
            word: word.to_owned(),
            choices: "auto, always, never",
        })
    }
}

/// The destination of verified data at the receiving end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sink {
    /// Writes files.
    #[default]
    Files,
    /// Verifies and discards: measures transport and cryptography alone (`--sink null`).
    Null,
}

/// The ends that do their full work: the laboratory measures one end at a time, as the papers' in-memory drivers did,
/// because two ends on one machine compete for its cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MeasuredEnd {
    /// Both ends work as in normal use.
    #[default]
    Both,
    /// The sender works in full; the receiver reads and discards without opening a record.
    Send,
    /// The receiver works in full; the sender writes records that it sealed before the clock started.
    Receive,
}

/// The limits on modes at a receiving end, in addition to its user's rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeRules {
    /// Bits that no entry gets, whatever was sent.
    pub removed: u32,
    /// Bits that implicitly created folders do not get if the process's own umask is 0.
    pub umask: u32,
}

/// The properties that are copied besides contents, modes, times and symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserve {
    /// Keep hard links within the transfer (`--hard-links`).
    pub hard_links: bool,
    /// Keep extended attributes (`--xattrs`).
    pub xattrs: bool,
    /// Keep POSIX access control lists (`--acls`).
    pub acls: bool,
    /// Keep the extended attributes of `security.` and `trusted.`, capabilities among them, where the receiving user is root.
    pub privileges: bool,
    /// Make devices, pipes and sockets (`-D`).
    pub specials: bool,
    /// Keep user and group ids.
    pub owner: Ownership,
    /// Existing folders get the modes of the sent ones; otherwise they keep their own.
    pub folder_modes: bool,
    /// Changes of modes (`--chmod`), in order; at most [`Preserve::MODE_CHANGES_MAX`].
    pub mode_changes: Vec<ModeChange>,
    /// Users and groups keep their numbers, whatever their names at the target's host (`--numeric-ids`).
    pub numeric_ids: bool,
    /// The user of all entries (`--chown`).
    pub user: Option<Principal>,
    /// The group of all entries.
    pub group: Option<Principal>,
}

/// A user or group of the target's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Principal {
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

impl Preserve {
    /// The maximum number of changes of modes.
    pub const MODE_CHANGES_MAX: usize = 64;

    /// Returns the extended attributes that are kept.
    pub(crate) fn kinds_of_xattrs(&self) -> Xattrs {
        Xattrs { user: self.xattrs, acls: self.acls, privileged: self.privileges }
    }

    /// Returns whether a sender needs to know the numbers of names at the target's host.
    pub(crate) fn asks_for_numbers(&self) -> bool {
        // The numbers in lists are mapped like those of owners.
        (self.owner.is_wanted() || self.acls) && (!self.numeric_ids || self.names_principals())
    }

    /// Returns whether a user or a group is given by name.
    pub(crate) fn names_principals(&self) -> bool {
        let is_name = |given: &Option<Principal>| matches!(given, Some(Principal::Name(_)));
        is_name(&self.user) || is_name(&self.group)
    }
}

/// The treatment of user and group ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// Entries get the ids of the receiving user.
    #[default]
    NotKept,
    /// Ids are kept if the receiving end may change owners (`--archive`).
    WherePossible,
    /// Ids are kept, and an entry that does not get its owner counts as failed (`--owner`).
    Kept,
}

impl Ownership {
    /// Returns whether entries are sent with their owners.
    #[must_use]
    pub fn is_wanted(self) -> bool {
        self != Self::NotKept
    }

    /// Returns the effective option for a receiving end that may change owners, or may not.
    #[must_use]
    pub fn where_it(self, may_give: bool) -> Self {
        if self == Self::WherePossible && !may_give { Self::NotKept } else { self }
    }
}

/// The treatment of entries that the target already has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upkeep {
    /// Deletes entries that the source does not have.
    pub delete: Option<Deletion>,
    /// Skips files with the same content at the target, by BLAKE3 digest, whatever their times.
    pub checksum: bool,
    /// Keeps backups of replaced or deleted entries.
    pub backup: Option<Backup>,
    /// Removes entries from the source once they have arrived.
    pub remove_sources: bool,
    /// Reports every change.
    pub itemise: bool,
    /// Writes into existing files (`--in-place`).
    pub in_place: bool,
    /// Takes unchanged files from earlier copies.
    pub bases: Option<Bases>,
    /// Passes over entries by whether the target has them.
    pub existing: Existing,
    /// By what, besides its size, a file counts as the same.
    pub sameness: Sameness,
}

/// By what, besides its size, a file of the target counts as the same and is not sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sameness {
    /// By its time.
    #[default]
    Time,
    /// By a time, in whole seconds, that differs by no more than this (`--modify-window`).
    Within {
        /// The largest difference in seconds.
        seconds: u32,
    },
    /// By nothing (`--size-only`): it gets the time of its source.
    Nothing,
}

impl Sameness {
    /// Returns whether two times count as the same.
    #[must_use]
    pub(crate) fn has(self, one: Timestamp, other: Timestamp) -> bool {
        match self {
            Self::Time => one == other,
            Self::Within { seconds } => one.seconds.abs_diff(other.seconds) <= u64::from(seconds),
            Self::Nothing => true,
        }
    }

    /// Returns whether the time is not part of what a file is known by, and so is one of its attributes.
    pub(crate) fn is_apart_from_time(self) -> bool {
        self == Self::Nothing
    }

    /// Returns the seconds by which times may differ and yet count as the same wherever times are compared.
    pub(crate) fn window_seconds(self) -> Option<u32> {
        match self {
            Self::Within { seconds } => Some(seconds),
            Self::Time | Self::Nothing => None,
        }
    }
}

/// The entries that are passed over because of what the target has under their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Existing {
    /// Nothing is made that the target lacks (`--existing`).
    pub skips_missing: bool,
    /// Entries that the target has stay as they are, folders excepted (`--ignore-existing`).
    pub skips_present: bool,
}

impl Existing {
    /// Returns whether anything is passed over.
    #[must_use]
    pub fn matters(self) -> bool {
        self.skips_missing || self.skips_present
    }

    /// Returns whether an entry is passed over that the target has or lacks; `are_folders` says that it has a folder, and a
    /// folder was sent.
    pub(crate) fn passes_over(self, is_present: bool, are_folders: bool) -> bool {
        if is_present { self.skips_present && !are_folders } else { self.skips_missing }
    }
}

/// Earlier copies of the same tree at the target's host, from which files are taken that did not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bases {
    /// The folders, relative to the target, at most [`Bases::FOLDERS_MAX`]. The first that has a file as it was sent wins.
    pub folders: Vec<Vec<u8>>,
    /// The use of a file that one of them has.
    pub basis_use: BasisUse,
}

impl Bases {
    /// The maximum number of folders.
    pub const FOLDERS_MAX: usize = 20;
}

/// The place and names of backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// The suffix of their names; may be empty if they have a folder of their own.
    pub suffix: Vec<u8>,
    /// The folder of the target that keeps backups under their former paths; otherwise they stay in their own
    /// folders.
    pub folder: Option<RelativePath>,
}

impl Backup {
    /// Returns whether backups can be named like this.
    #[must_use]
    pub fn is_sensible(&self) -> bool {
        Upkeep::is_suffix(&self.suffix) || (self.suffix.is_empty() && self.folder.is_some())
    }
}

impl Upkeep {
    /// The longest suffix of a backup, in bytes.
    const SUFFIX_BYTES_MAX: usize = 64;

    /// Returns whether `suffix` is a valid suffix of backups.
    #[must_use]
    pub fn is_suffix(suffix: &[u8]) -> bool {
        let bytes = 1..=Self::SUFFIX_BYTES_MAX;
        bytes.contains(&suffix.len()) && !suffix.iter().any(|&byte| byte == b'/' || byte == 0)
    }
}

/// The limits of deleting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Deletes nothing if more entries than this would be deleted.
    pub entries_max: Option<u64>,
    /// Deletes excluded entries, too.
    pub excluded: bool,
}

/// The part of one large file that a transfer copies, while other transfers copy the rest of it into the same
/// temporary file. The file gets its name when all ranges are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// The identity of the file when it was divided ([`identity`](crate::proto::entry::identity)).
    pub identity: [u8; 16],
    /// The length of every range but the last, in bytes: a multiple of 1 MiB.
    pub range_bytes: u64,
    /// The part.
    pub piece: Piece,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// The bytes of the range with this number. They are on stable storage when the transfer is complete.
    Range(u32),
    /// Nothing but attributes and name: other transfers have written all ranges.
    Name,
}

/// The sizes of files that are sent. Files of other sizes stay as they are, at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Smaller files are not sent (`--min-size`).
    pub min_bytes: Option<u64>,
    /// Larger files are not sent (`--max-size`).
    pub max_bytes: Option<u64>,
}

impl Sizes {
    /// Returns whether some files are not sent.
    #[must_use]
    pub fn are_limited(self) -> bool {
        self != Self::default()
    }

    /// Returns whether a file of this many bytes is sent.
    #[must_use]
    pub fn include(self, bytes: u64) -> bool {
        self.min_bytes.is_none_or(|min| bytes >= min) && self.max_bytes.is_none_or(|max| bytes <= max)
    }
}

/// One include or exclude pattern; the first match wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// Includes matching entries.
    Include(String),
    /// Excludes matching entries, and does not descend into them.
    Exclude(String),
    /// Files of this name hold patterns for what lies in and below their folders (`--filter-file`). They count after all others.
    File(String),
    /// The same with files `.gitignore` in the language of git.
    GitIgnore,
}

impl Pattern {
    /// Returns whether it names files that hold patterns.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_) | Self::GitIgnore)
    }
}

/// The options that both ends of a transfer obey: they cross with the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    /// Descend into directories.
    pub recursive: bool,
    /// The requested protection. It is met or refused, never lowered.
    pub level: Level,
    /// Allow suites whose algorithms are broken or outdated.
    pub allow_legacy: bool,
    /// Compute and check a BLAKE3 digest of every file while it moves.
    pub digest: bool,
    /// Compression of the data on their way. Copies within a host are never compressed.
    pub compression: Compression,
    /// Whether of large files only what differs is sent.
    pub delta: Delta,
    /// Bytes per second over all streams.
    pub limit_rate: Option<u64>,
    /// Counts what an earlier run has left in unfinished files without reading it again.
    pub trust_partial: bool,
    /// Skips files whose size and modification time are the same at the target, such as those copied by an earlier
    /// run.
    pub skip_same: bool,
    /// Never replace a file of the target that is newer than its source.
    pub update: bool,
    /// The target is the new name itself, even if it is an existing directory.
    pub as_named: bool,
    /// Lists the entries that would be sent; changes nothing.
    pub dry_run: bool,
    /// Attributes kept on request.
    pub preserve: Preserve,
    /// The treatment of entries that the target already has.
    pub upkeep: Upkeep,
    /// Filters in the order given.
    pub patterns: Vec<Pattern>,
    /// The sizes of files that are sent.
    pub sizes: Sizes,
    /// The symbolic links of the sources that are followed.
    pub following: Following,
    /// Copies only this part of the only listed path, a large file.
    pub portion: Option<Portion>,
    /// Do not cross file-system boundaries.
    pub one_file_system: bool,
    /// Flush every file to stable storage before its rename.
    pub fsync: bool,
    /// Files, or nothing.
    pub sink: Sink,
    /// Laboratory only.
    pub measured_end: MeasuredEnd,
    /// Gives up on a peer that is silent for this long.
    #[serde(with = "milliseconds")]
    pub timeout: Duration,
    /// Listens for data streams only on these ports at the far end (`--data-ports`).
    pub data_ports: Option<(u16, u16)>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            recursive: false,
            level: Level::Private,
            allow_legacy: false,
            digest: false,
            compression: Compression::None,
            delta: Delta::Auto,
            limit_rate: None,
            trust_partial: false,
            skip_same: true,
            update: false,
            as_named: false,
            dry_run: false,
            preserve: Preserve::default(),
            upkeep: Upkeep::default(),
            patterns: Vec::new(),
            sizes: Sizes::default(),
            following: Following::Roots,
            portion: None,
            one_file_system: false,
            fsync: false,
            sink: Sink::Files,
            measured_end: MeasuredEnd::Both,
            timeout: Duration::from_secs(30),
            data_ports: None,
        }
    }
}

/// Times on the wire: any number of milliseconds can be added to a moment.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

impl Wishes {
    /// Returns whether a transfer of this many listed paths may be one of a part of a file. A digest takes all bytes.
    pub(crate) fn fit_portion(&self, paths: usize) -> bool {
        paths == 1 && !self.digest && !self.dry_run && self.sink == Sink::Files
    }
}

/// The options of one transfer.
#[derive(Clone, Debug)]
pub struct Options {
    /// The part that the far end obeys, too.
    pub wishes: Wishes,
    /// Algorithm, or the level's default.
    pub suite: Option<Suite>,
    /// The number of parallel TCP streams (1 to 64), or the measured default.
    pub streams: Option<u16>,
    /// The number of lanes (threads) at each end (1 to 64), or the measured default. No end starts more lanes than it
    /// has processors.
    pub lanes: Option<u16>,
    /// Unit of concurrency.
    pub placement: Option<Placement>,
    /// Carries the data inside ssh, for networks that block data ports.
    pub through_ssh: bool,
    /// Continues the work of an earlier run of the same command, and keeps unfinished work for a later one.
    pub resume: bool,
    /// A source folder that an SFTP server lists as empty empties the target's, although a list that fails looks the same.
    pub trusts_empty: bool,
    /// Copies only these paths below the only source, a directory, and the directories that contain them.
    pub listed: Option<Vec<RelativePath>>,
    /// The name of this transfer among several simultaneous ones with the same sources and target: each has its own
    /// journal.
    pub share: Option<[u8; 16]>,
    /// The implementations of the cipher suites at this end.
    pub implementations: Implementations,
    /// The engine of this end (`--engine`). The far end chooses for itself.
    pub engine: EngineChoice,
    /// The way to reach the far end.
    pub remote: RemoteOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wishes: Wishes::default(),
            suite: None,
            streams: None,
            lanes: None,
            placement: None,
            through_ssh: false,
            resume: true,
            trusts_empty: false,
            listed: None,
            share: None,
            implementations: Implementations::default(),
            engine: EngineChoice::default(),
            remote: RemoteOptions::default(),
        }
    }
}

/// The program that is to answer at the far end of ssh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FarEndChoice {
    /// sealane, or sshd's SFTP server if sealane is not installed.
    #[default]
    Auto,
    /// sealane, or the transfer is refused.
    Sealane,
    /// sshd's SFTP server.
    Sftp,
}

/// The way to reach the far end; passed on to `ssh` or to the daemon's TLS.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// ssh's `-p` (`-P` of scp).
    pub port: Option<u16>,
    /// Uses only addresses of this family.
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
    /// The program to start at the far end of ssh.
    pub far_end: FarEndChoice,
    /// The folder for journals of transfers whose target keeps no journal.
    pub state_dir: Option<PathBuf>,
    /// The far end's `sealane`, if it is not in its PATH.
    pub remote_program: Option<String>,
    /// The same, as found on particular hosts.
    pub found_programs: Vec<(String, String)>,
    /// The folder of the default files.
    pub config_dir: Option<PathBuf>,
    /// The Ed25519 identity for daemons, instead of the default file.
    pub identity: Option<PathBuf>,
    /// The file of known peers' keys, instead of the default file.
    pub known_peers: Option<PathBuf>,
    /// Trust an unknown daemon's key on first use.
    pub accept_new: bool,
    /// Logins that all uses of these options share.
    pub logins: Logins,
}

impl RemoteOptions {
    /// Logs in to a host for all that follows there, unless that was done before. If the user's configuration shares
    /// connections itself, or there is no folder for a socket, each process logs in as the configuration says.
    ///
    /// # Errors
    /// ssh cannot reach the host or log in, or takes longer than `patience`.
    pub fn log_in(
        &self,
        user: Option<String>,
        host: String,
        port: Option<u16>,
        patience: Duration,
    ) -> Result<Arc<Login>, Error> {
        let destination = Destination { user: user.clone(), host: host.clone(), port };
        if let Some(login) = self.logins.existing(&destination) {
            return Ok(login);
        }
        let ssh = self.ssh_command(user, host, port);
        let login = Arc::new(Login::open(ssh, self.state_dir.as_deref(), patience)?);
        self.logins.keep(destination, &login);
        Ok(login)
    }

    /// Returns the connection for one more process on a host: that which is logged in already, if there is one.
    pub(crate) fn sharing(&self, user: Option<String>, host: String, port: Option<u16>) -> Sharing {
        let existing = self.logins.existing(&Destination { user, host, port });
        existing.map_or(Sharing::Configured, |login| login.sharing())
    }

    /// Returns the command that starts ssh for a host.
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
