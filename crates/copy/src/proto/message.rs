//! Messages of the control channel.
//!
//! ```text
//! client                               server
//! Hello, Request, Listed… ────────────►                              (without waiting for the other's Hello)
//!       ◄────────────────────────────── Hello, Waiting…, then Accept (then data streams are opened)
//!
//! sender                               receiver
//!       ◄────────────────────────────── Have…, then HaveEnd, or Folders…, FoldersEnd
//! Differ… ────────────────────────────►                              (while Folders come)
//!       ◄────────────────────────────── Have…, Lists…                (one list for each folder that differs)
//! Gone…, DifferEnd ───────────────────►                              (only after FoldersEnd and all lists)
//!       ◄────────────────────────────── Have…, HaveEnd               (only if folders are gone)
//! Found…, Known…, WouldSend… ─────────►
//!       ◄────────────────────────────── Taken…, EntryFailed…, Changed…, Deleted…    (also signs of life)
//!       ◄────────────────────────────── WouldChange…                (with --dry-run, one for each WouldSend at most)
//! Version ────────────────────────────►                              (of a file that is compared, before it is announced)
//!       ◄────────────────────────────── VersionSize
//! Sign… ──────────────────────────────►
//!       ◄────────────────────────────── Signature…                   (one for each Sign)
//!       ◄────────────────────────────── Settled                      (the file has its name, or is to be sent again)
//! Carry…, Carried… ◄──────────────────►                              (a data stream that needs no port: any time before)
//! Finished ───────────────────────────►
//!       ◄────────────────────────────── Complete
//! Removed ────────────────────────────►                              (from a server that removes its sources)
//! ```
//!
//! `Complete` is a receiver's last message, and nobody answers it. A sender on standard input and output that removes
//! no sources ends after `Finished`: nobody waits for anything that it could still say.
//!
//! Either may send Abort at any time, with the reason; a server also refuses a request with it. Guarantees: a frame
//! is bounded by the channel, and decoding any bytes allocates no more than a small multiple of them.

use std::fmt;

pub use sealane_delta::{Cut, SPAN_BYTES_MAX, Span};
use sealane_tree::{RelativePath, Timestamp};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{
    error::ErrorKind,
    options::{Compression, Delta, Level, Wishes},
    proto::entry::{Entry, Malformed, decode},
    summary::{Change, Dropped},
};

/// Version of this protocol; both ends must speak the same.
pub const PROTOCOL_VERSION: u16 = 20;
/// The maximum number of parallel streams.
pub const STREAMS_MAX: u16 = 64;
/// The maximum number of lanes.
pub const LANES_MAX: u16 = 64;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First message of either end.
    Hello(Hello),
    /// The client's request.
    Request(Box<Request>),
    /// The server agrees.
    Accept(Accept),
    /// The server will answer when there is a free place; also a sign of life.
    Waiting,
    /// The server refuses, or either end gives up. No message follows.
    Abort(Abort),
    /// Receiver to sender: do not send these entries again.
    Have(Have),
    /// Receiver to sender: no more `Have`.
    HaveEnd,
    /// Sender to receiver: totals of the scan so far.
    Found {
        /// Content bytes.
        bytes: u64,
        /// Entries.
        files: u64,
        /// The totals are final.
        complete: bool,
    },
    /// Receiver to sender, also as a sign of life: progress so far.
    Taken {
        /// Content bytes.
        bytes: u64,
        /// Entries.
        files: u64,
    },
    /// One entry could not be copied; the transfer continues.
    EntryFailed {
        /// The entry's path below the source or the target as given.
        path: Vec<u8>,
        /// The reason, in words that name the entry.
        reason: String,
    },
    /// With `--dry-run`, sender to receiver: this entry would be sent.
    WouldSend(Box<Entry>),
    /// Sender to receiver: everything was sent and acknowledged.
    Finished(Finished),
    /// Receiver to sender: everything is in place, and no traces of the transfer are left but the copied entries.
    /// This is the receiver's last message.
    Complete(Complete),
    /// Server to client, from a sender that was asked to remove the entries that arrived: it has. This is the sender's
    /// last message.
    Removed {
        /// Entries removed from the source.
        removed: u64,
        /// Entries that could not be removed from the source.
        unremoved: u64,
    },
    /// Server to client: a connection of a data stream was lost here, which the client may not notice. A sending
    /// server may say so after `Finished`.
    StreamLost {
        /// The index of the stream.
        stream: u16,
        /// The number of its opening.
        generation: u32,
        /// The number of times that smaller segments are to be tried, because content did not arrive.
        narrowed: u8,
    },
    /// Sender to receiver, if entries that the source does not have are deleted: hashes of names that it has
    /// ([`path_hash`](crate::proto::entry::path_hash)) and of directories whose names are all listed
    /// ([`listed_hash`](crate::proto::entry::listed_hash)). All come before `Finished`.
    Known(Vec<[u8; 16]>),
    /// Receiver to sender: this entry was made or replaced.
    Changed(Change),
    /// Receiver to sender: this entry was deleted, or with `--dry-run` would be.
    Deleted {
        /// Path relative to the target.
        path: Vec<u8>,
    },
    /// After a request that announces it: the paths below the only source to which the transfer is limited.
    Listed(Vec<RelativePath>),
    /// With `--dry-run`, receiver to sender: this entry would be made or replaced.
    WouldChange {
        /// The entry, and its differences from the existing one.
        change: Change,
        /// Content bytes that would be sent.
        bytes: u64,
    },
    /// Receiver to sender: an interrupted copy of other sources has left something in the target.
    Left {
        /// The name of its journal or lease, for the user.
        path: Vec<u8>,
    },
    /// Bytes of the data stream inside this channel, as they would be beside it.
    Carry {
        /// The number of the stream's opening: the client begins a new one with the first bytes of a greater number.
        opening: u32,
        /// The bytes; none at the end of the stream.
        #[serde(with = "as_bytes")]
        bytes: Vec<u8>,
    },
    /// The data stream inside this channel has taken bytes, so there is room for as many more.
    Carried {
        /// The number of the stream's opening.
        opening: u32,
        /// Their number.
        bytes: u32,
    },
    /// Receiver to sender: folders that it has, each numbered by its place in all of these messages; also as a sign of
    /// life.
    Folders(Vec<FolderDigest>),
    /// Receiver to sender: no more `Folders`.
    FoldersEnd,
    /// Sender to receiver: the numbers of folders that it has, too, and that are not the same. At most 4096 are asked for at
    /// once. Also as a sign of life.
    Differ(Vec<u32>),
    /// Sender to receiver: no more `Differ` and `Gone`. If there was a `Gone`, the receiver tells what is in these folders.
    DifferEnd,
    /// Sender to receiver: a file that is sent under this number is compared with the version that the receiver has. At most
    /// [`VERSIONS_MAX`] are under way.
    Version {
        /// The number of the file, which is announced only after the answer.
        file: u32,
        /// The path that the file will have in the target, where the version is, unless it is elsewhere.
        path: RelativePath,
        /// The hash of the path where the version is, as it was told with traits.
        elsewhere: Option<[u8; 16]>,
    },
    /// Receiver to sender, for each `Version`: its size.
    VersionSize {
        /// The number of the file.
        file: u32,
        /// The size; `None` if it cannot be read, and then the file is sent as a whole.
        bytes: Option<u64>,
    },
    /// Sender to receiver: it wants the signature of ranges of a version.
    Sign(Sign),
    /// Receiver to sender, for each `Sign`: the signature.
    Signature {
        /// The number of the request.
        number: u32,
        /// The signature of all ranges ([`sealane_delta::pack`]); `None` if they cannot be read any more.
        #[serde(with = "as_some_bytes")]
        pieces: Option<Vec<u8>>,
    },
    /// Receiver to sender, for each version that could be read: the file has its name, or nothing more is to be done about it.
    Settled {
        /// The number of the file.
        file: u32,
        /// The file that was built is not the sender's: it is to be sent again as a whole, under another number.
        again: bool,
    },
    /// Sender to receiver, if entries that the source does not have are deleted and versions are compared: the numbers of
    /// folders that it does not have, of which the receiver tells the versions of files only.
    Gone(Vec<u32>),
    /// Receiver to sender: all files of some of the folders that differ, for the sender to compare with its own while they come.
    /// Files of longer folders come as `Have`, and their lists, without any, after these. Also as a sign of life.
    Lists(Lists),
}

/// A request for a signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sign {
    /// The number of the file.
    pub file: u32,
    /// The number of the request.
    pub number: u32,
    /// The ranges, with at most [`PIECES_SIGNED_MAX`] pieces.
    pub spans: Vec<Span>,
}

impl Sign {
    /// Returns the maximum number of pieces of all ranges; `None` if a range makes no sense, or there are too many.
    pub fn pieces_max(&self) -> Option<usize> {
        let pieces = self.spans.iter().try_fold(0_usize, |sum, span| sum.checked_add(span.pieces_max()?))?;
        (pieces <= PIECES_SIGNED_MAX).then_some(pieces)
    }
}

/// The maximum number of pieces in one signature: with 19 bytes each they fit a frame.
pub const PIECES_SIGNED_MAX: usize = 20 << 10;
/// The maximum number of pieces in signatures that were asked for and not sent yet.
pub const PIECES_ASKED_MAX: usize = 3 * PIECES_SIGNED_MAX;
/// The maximum number of versions under way.
pub const VERSIONS_MAX: usize = 64;

/// Bytes that are copied as a whole.
mod as_bytes {
    use std::fmt;

    use serde::{Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Whole;

        impl de::Visitor<'_> for Whole {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }

        from.deserialize_bytes(Whole)
    }
}

/// Bytes that are copied as a whole, if there are any.
mod as_some_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Whole(#[serde(with = "super::as_bytes")] Vec<u8>);

    #[derive(Serialize)]
    struct Borrowed<'a>(#[serde(serialize_with = "super::as_bytes::serialize")] &'a [u8]);

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Borrowed).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Whole>::deserialize(from)?.map(|Whole(bytes)| bytes))
    }
}

/// First message of either end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`].
    pub version: u16,
    /// Name and version of the program, for messages.
    pub program: String,
    /// Processors it may use.
    pub processors: u16,
}

/// The master secret of a transfer on its way to the far end: wiped when dropped, and never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
pub struct MasterSecret([u8; 32]);

impl MasterSecret {
    /// Wraps uniformly random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the key schedule.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret(..)")
    }
}

/// The role of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The client sends, the server receives.
    Push,
    /// The server sends, the client receives.
    Pull,
}

/// The way in which data streams reach the server's listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataPath {
    /// Both ends are on one machine.
    Loopback,
    /// The streams go directly over the network.
    Direct,
    /// The streams go through a process at the server's host.
    Relay,
}

/// The client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Random name of this transfer.
    pub transfer: [u8; 16],
    /// The end that sends.
    pub role: Role,
    /// The far end's paths: one target, or several sources.
    pub paths: Vec<Vec<u8>>,
    /// If the client receives: its name for the only source, unless sources keep their names.
    pub name: Option<Vec<u8>>,
    /// If the server receives: the name of each source, `.` for one that comes without its name. No other names are
    /// accepted, unless the list is empty because it is too long for a request.
    pub names: Vec<Vec<u8>>,
    /// There are several sources, so the target must be a directory.
    pub into_directory: bool,
    /// The options that both ends obey; compression and deltas also as agreed with another end.
    pub wishes: Wishes,
    /// Wire number of the suite ([`sealane_engine::Suite::code`]).
    pub suite: u8,
    /// Data streams that are opened at first; by default as many as the processors of both ends can use.
    pub streams: Option<u16>,
    /// The maximum number of data streams, if the path may turn out to benefit from more than at first.
    pub streams_max: Option<u16>,
    /// The number of lanes at the far end, or its own choice.
    pub lanes: Option<u16>,
    /// The unit of concurrency is the packet, not the connection; by default it depends on streams and lanes.
    pub packet_placement: Option<bool>,
    /// The master secret, if the channel may carry secrets; otherwise it is exported from TLS.
    pub secret: Option<MasterSecret>,
    /// The way in which the data streams reach the listener.
    pub data_path: DataPath,
    /// The name of the journal, if the transfer can be resumed: copies from the same sources have the same name. The
    /// receiver adds its own place.
    pub journal: Option<[u8; 16]>,
    /// If the server sends: `*`, `?` and `[` in its paths are patterns, unless a path of exactly that spelling
    /// exists.
    pub globs: bool,
    /// The number of [`Message::Listed`] messages that follow: only the paths they name are copied.
    pub listed: Option<u16>,
    /// The other end of the data streams is a second server of the same client, with another request and answer: keys
    /// are derived from the secret alone.
    pub relayed: bool,
    /// If the server sends: the numbers of users and groups where entries arrive, if they get owners.
    pub numbers: Numbers,
}

/// The numbers of a receiver's users and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Users, each name once.
    pub users: Vec<Numbered>,
    /// Groups, each name once.
    pub groups: Vec<Numbered>,
}

/// The number of a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// A hash of the name, under a key that belongs to the transfer.
    pub name: [u8; 8],
    /// The number.
    pub id: u32,
}

/// The server agrees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// The level, again: both ends now hold each other to it.
    pub level: Level,
    /// Wire number of the suite.
    pub suite: u8,
    /// Data streams that are opened at first.
    pub streams: u16,
    /// The maximum number of data streams: as requested, or fewer.
    pub streams_max: u16,
    /// Lanes at the server.
    pub lanes: u16,
    /// The port that accepts the data streams, on the host that was reached.
    pub data_port: u16,
    /// If the server receives: its name for the only source, unless sources keep their names.
    pub name: Option<Vec<u8>>,
    /// If the server receives: it can set the owners of entries.
    pub may_own: bool,
    /// If the server receives: it sets extended attributes of `security.` and `trusted.`, if they were asked for.
    pub may_set_privileges: bool,
    /// If the server receives and may set owners: the numbers of its users and groups.
    pub numbers: Numbers,
    /// The compression: as requested, or none if none is taken here and anything would do.
    pub compression: Compression,
    /// The use of deltas: as requested, or never if this end makes none and anything would do.
    pub delta: Delta,
}

/// An end gives up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The text for people.
    pub message: String,
}

/// Entries that the receiver has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// Files that are in place.
    pub done: Vec<Held>,
    /// Partial files.
    pub partial: Vec<Partial>,
    /// Files that must not be replaced by older ones.
    pub dated: Vec<Dated>,
    /// How far the receiver has read its partial files again.
    pub checked: Checked,
    /// Files of which the receiver may have other versions to compare.
    pub versions: Vec<VersionHeld>,
}

/// All files of some folders that the receiver has, but links and those of other kinds. The files of all stand one after the other, so
/// that a short message takes little memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lists {
    folders: Vec<Lengths>,
    done: Vec<Held>,
    dated: Vec<Dated>,
    versions: Vec<VersionHeld>,
}

/// The lengths of the parts of a [`List`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lengths {
    folder: u32,
    done: u32,
    dated: u32,
    versions: u32,
}

/// All files of one folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The number of the folder, as in `Differ`.
    pub folder: u32,
    /// The files.
    pub done: Vec<Held>,
    /// Their times, if these matter.
    pub dated: Vec<Dated>,
    /// Their sizes, if they may be compared as other versions.
    pub versions: Vec<VersionHeld>,
}

impl Lists {
    /// Returns the number of lists and of everything in them.
    pub fn count(&self) -> usize {
        self.folders.len() + self.done.len() + self.dated.len() + self.versions.len()
    }

    /// Adds a list.
    pub fn push(&mut self, list: List) {
        let List { folder, done, dated, versions } = list;
        let [done_count, dated_count, version_count] =
            [done.len(), dated.len(), versions.len()].map(|length| length as u32);
        self.folders.push(Lengths { folder, done: done_count, dated: dated_count, versions: version_count });
        self.done.extend(done);
        self.dated.extend(dated);
        self.versions.extend(versions);
    }

    /// Adds the lists of `other`.
    pub fn append(&mut self, other: Self) {
        self.folders.extend(other.folders);
        self.done.extend(other.done);
        self.dated.extend(other.dated);
        self.versions.extend(other.versions);
    }

    /// Returns the lists one after the other; `None` in place of one that is longer than what is left.
    pub fn into_lists(self) -> impl Iterator<Item = Option<List>> {
        let Self { folders, done, dated, versions } = self;
        let (mut done, mut dated, mut versions) = (done.into_iter(), dated.into_iter(), versions.into_iter());
        folders.into_iter().map(move |lengths| {
            let list = List {
                folder: lengths.folder,
                done: done.by_ref().take(lengths.done as usize).collect(),
                dated: dated.by_ref().take(lengths.dated as usize).collect(),
                versions: versions.by_ref().take(lengths.versions as usize).collect(),
            };
            let told = [lengths.done, lengths.dated, lengths.versions].map(|length| length as usize);
            ([list.done.len(), list.dated.len(), list.versions.len()] == told).then_some(list)
        })
    }
}

impl FromIterator<List> for Lists {
    fn from_iter<T: IntoIterator<Item = List>>(lists: T) -> Self {
        let mut all = Self::default();
        lists.into_iter().for_each(|list| all.push(list));
        all
    }
}

/// A file of which the receiver has a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionHeld {
    /// The hash of its path ([`path_hash`](crate::proto::entry::path_hash)).
    pub path: [u8; 16],
    /// Its size in bytes.
    pub bytes: u64,
    /// By what it is found if the source has it under another path; told if the target is a mirror.
    pub traits: Option<Traits>,
}

/// By what a file is found that was renamed or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// The time of its last change.
    pub modified: Timestamp,
    /// A hash of its name ([`name_hash`](crate::proto::entry::name_hash)).
    pub name: [u8; 8],
}

/// A folder that the receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderDigest {
    /// The hash of its path.
    pub path: [u8; 16],
    /// A keyed hash of everything by which it and its entries are compared; zeros are equal to nothing.
    pub digest: [u8; 16],
}

/// The progress of a receiver that reads its partial files again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Bytes read so far.
    pub bytes: u64,
    /// Bytes to read.
    pub of_bytes: u64,
}

/// A file that is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// A hash of path, size and time, or of path and content.
    pub identity: [u8; 16],
    /// Its mode, and a hash of the rest ([`attributes`](crate::proto::entry::attributes)).
    pub attributes: [u8; 8],
}

/// An existing file that must not be replaced by an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    /// The hash of its path ([`path_hash`](crate::proto::entry::path_hash)).
    pub path: [u8; 16],
    /// The time of its last change.
    pub modified: Timestamp,
}

/// A partial file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Identity of the file.
    pub identity: [u8; 16],
    /// Its pieces, in order. A file with many pieces has several messages.
    pub pieces: Vec<Piece>,
}

/// A piece of a partial file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its first byte: the start of a group of the digest.
    pub start: u64,
    /// The byte after its last: the end of a group, or of the file.
    pub end: u64,
    /// The hash of what is there, by which the sender compares the piece; `None` if the user trusts the journal.
    pub hash: Option<[u8; 32]>,
}

/// Everything was sent and acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Content bytes sent, without repetitions.
    pub bytes: u64,
    /// Entries sent.
    pub files: u64,
    /// Content bytes sent again because a stream was cut.
    pub resent_bytes: u64,
    /// Entries skipped because the receiver had them.
    pub skipped: u64,
    /// Entries that failed here.
    pub failed: u64,
    /// The number of failed entries that no repetition could copy, so they are no reason to keep a journal.
    pub unfit: u64,
    /// Content bytes that the receiver had from an earlier run.
    pub resumed_bytes: u64,
    /// The time from the first byte read to the last acknowledgement, in microseconds.
    pub active_us: u64,
    /// CPU time of the sender's process, in microseconds.
    pub cpu_us: u64,
    /// Bytes that compression has spared the line.
    pub spared_bytes: u64,
    /// Content bytes that the receiver had in other versions of the files.
    pub matched_bytes: u64,
}

/// Everything is in place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// Content bytes taken over.
    pub bytes: u64,
    /// Entries made or changed, or with `--dry-run` to be made or changed.
    pub files: u64,
    /// Sent entries that did not differ from the existing ones.
    pub unchanged: u64,
    /// Entries that failed here.
    pub failed: u64,
    /// Entries deleted, or with `--dry-run` to be deleted.
    pub deleted: u64,
    /// Entries that could not be deleted.
    pub undeleted: u64,
    /// Properties that the target could not keep.
    pub dropped: Dropped,
    /// The time from the first record to the last rename, in microseconds.
    pub active_us: u64,
    /// CPU time of the receiver's process, in microseconds.
    pub cpu_us: u64,
}

impl Message {
    /// Returns the frame.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("messages are plain data, which postcard always encodes")
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// Fails for anything that is not exactly one message.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        decode("control message", frame)
    }
}

/// The bytes of paths in one `Listed`, with two per path for its length.
pub const LISTED_BYTES: usize = 512 << 10;
/// The maximum number of `Listed` messages per request.
pub const LISTED_MESSAGES_MAX: u16 = 16;

/// The number of identities per `Have`, well below the channel's frame limit.
pub const HAVE_PER_MESSAGE: usize = 16 * 1024;
/// The maximum number of files in a folder that is told in one piece.
pub const LIST_FILES_MAX: usize = HAVE_PER_MESSAGE / 4;
/// The number of folders per `Folders` and of numbers per `Differ`.
pub const FOLDERS_PER_MESSAGE: usize = 2048;
/// The number of pieces per `Have`.
pub const PIECES_PER_MESSAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns lists of folders with these numbers, and so many files.
    fn lists(of: &[(u32, usize)]) -> Lists {
        let held = Held { identity: [1; 16], attributes: [2; 8] };
        let list = |&(folder, count)| List { folder, done: vec![held; count], ..List::default() };
        of.iter().map(list).collect()
    }

    #[test]
    fn lists_come_apart_as_they_were_put_together() {
        let of = [(7, 2), (1, 0), (2, 3)];
        let apart: Vec<_> = lists(&of).into_lists().map(|list| list.unwrap()).collect();
        assert_eq!(apart.iter().map(|list| (list.folder, list.done.len())).collect::<Vec<_>>(), of);
        let mut two = lists(&of[..1]);
        two.append(lists(&of[1..]));
        assert_eq!((two.count(), &two), (8, &lists(&of)));
        let mut short = lists(&of);
        short.done.pop();
        assert_eq!(short.into_lists().map(|list| list.is_some()).collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn messages_round_trip() {
        let messages = [
            Message::Hello(Hello { version: 1, program: "sealane".into(), processors: 2 }),
            Message::HaveEnd,
            Message::Folders(vec![FolderDigest { path: [5; 16], digest: [6; 16] }]),
            Message::FoldersEnd,
            Message::Differ(vec![0, 7, u32::MAX]),
            Message::DifferEnd,
            Message::Gone(vec![1, 2]),
            Message::Lists(lists(&[(3, 1), (4, 0)])),
            Message::Version { file: 3, path: RelativePath::new("a").unwrap(), elsewhere: Some([7; 16]) },
            Message::VersionSize { file: 3, bytes: Some(9) },
            Message::Sign(Sign {
                file: 3,
                number: 4,
                spans: vec![Span { start: 5, bytes: 6, cut: Cut::Grid }],
            }),
            Message::Signature { number: 4, pieces: Some(vec![7, 8]) },
            Message::Signature { number: 4, pieces: None },
            Message::Settled { file: 3, again: true },
            Message::Carry { opening: 1, bytes: vec![0, 7, 255] },
            Message::Carried { opening: 1, bytes: 3 },
            Message::Abort(Abort { kind: ErrorKind::Refused, message: "no".into() }),
            Message::Have(Have {
                done: vec![Held { identity: [1; 16], attributes: [4; 8] }],
                partial: vec![Partial {
                    identity: [2; 16],
                    pieces: vec![
                        Piece { start: 0, end: 9, hash: Some([7; 32]) },
                        Piece { start: 12, end: 20, hash: None },
                    ],
                }],
                checked: Checked { bytes: 5, of_bytes: 17 },
                dated: vec![Dated { path: [3; 16], modified: Timestamp { seconds: -1, nanoseconds: 5 } }],
                versions: vec![VersionHeld {
                    path: [4; 16],
                    bytes: 1 << 40,
                    traits: Some(Traits { modified: Timestamp::default(), name: [8; 8] }),
                }],
            }),
        ];
        for message in messages {
            let frame = message.encode();
            assert_eq!(Message::decode(&frame), Ok(message));
            assert!(Message::decode(&frame[..frame.len() - 1]).is_err());
            assert!(Message::decode(&[&frame[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn a_request_is_printed_without_its_secret() {
        let secret = MasterSecret::new([0xA7; 32]);
        let shown = format!("{:?} {secret:?}", Some(secret.clone()));
        assert_eq!(shown, "Some(MasterSecret(..)) MasterSecret(..)");
        assert_eq!(postcard::to_stdvec(&secret).unwrap(), [0xA7; 32]);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::decode(&bytes);
        }
    }
}
