//! Entries of a tree on the wire: small ones complete and many per record, large ones announced, then closed.
//!
//! Guarantees: decoding accepts any bytes; decoded paths are checked ([`RelativePath`]), counts and lengths are
//! bounded by the record.

use sealane_tree::{Kind, Metadata, RelativePath, Timestamp, Xattr};
use serde::{Deserialize, Serialize};

use crate::options::Sameness;

/// One entry without its content. In a pack, the file's content of `metadata.size_bytes` bytes follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path relative to the target.
    pub path: RelativePath,
    /// The kind of the entry.
    pub kind: Kind,
    /// Size, mode, times and other preserved properties.
    pub metadata: Metadata,
    /// The BLAKE3 digest of a small file's content, if requested.
    pub digest: Option<[u8; 32]>,
}

impl Entry {
    /// Returns the length of the content that follows the entry in a pack in bytes.
    pub fn content_bytes(&self) -> u64 {
        if self.kind == Kind::File { self.metadata.size_bytes } else { 0 }
    }

    /// Returns the identity of this version of this entry: a 128-bit BLAKE3 hash of path, size and time of last
    /// change. It is used for resuming and for the comparison of size and time.
    pub fn identity(&self) -> [u8; 16] {
        identity(&self.path, &self.metadata)
    }
}

/// See [`Entry::identity`].
pub fn identity(path: &RelativePath, metadata: &Metadata) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&metadata.size_bytes.to_le_bytes());
    hasher.update(&metadata.modified.seconds.to_le_bytes());
    hasher.update(&metadata.modified.nanoseconds.to_le_bytes());
    hasher.update(path.as_bytes());
    let mut identity = [0; 16];
    hasher.finalize_xof().fill(&mut identity);
    identity
}

/// Returns the same as [`identity`], with the time in whole seconds: for receivers that keep no fractions.
pub fn identity_by_seconds(path: &RelativePath, metadata: &Metadata) -> [u8; 16] {
    let modified = Timestamp { nanoseconds: 0, ..metadata.modified };
    let Metadata { size_bytes, .. } = *metadata;
    identity(path, &Metadata { modified, size_bytes, ..Metadata::default() })
}

/// Returns what a file is known by to a receiver that has told its files, if its time counts or not.
pub fn known_identity(path: &RelativePath, metadata: &Metadata, sameness: Sameness) -> [u8; 16] {
    match sameness {
        Sameness::Time => identity(path, metadata),
        Sameness::Within { .. } | Sameness::Nothing => {
            identity(path, &Metadata { size_bytes: metadata.size_bytes, ..Metadata::default() })
        }
    }
}

/// Returns the identity of this content under this path, whatever its time: a 128-bit BLAKE3 hash of path, size and
/// the BLAKE3 digest of the content.
pub fn content_identity(path: &RelativePath, size_bytes: u64, digest: &[u8; 32]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"content").update(digest).update(&size_bytes.to_le_bytes()).update(path.as_bytes());
    let mut identity = [0; 16];
    hasher.finalize_xof().fill(&mut identity);
    identity
}

/// The attributes of a file of which only the content is known.
pub const UNKNOWN_ATTRIBUTES: [u8; 8] = [0xff; 8];

/// Returns a word that identifies the attributes of an existing file: its mode in the first two bytes, then a 48-bit
/// BLAKE3 hash of its owner, if `with_owner`, of its time, if `by_content` (that identity does not cover the time), and of
/// its extended attributes, if it has some.
pub fn attributes(metadata: &Metadata, by_content: bool, with_owner: bool) -> [u8; 8] {
    let mut attributes = [0; 8];
    // A mode has twelve bits.
    attributes[..2].copy_from_slice(&(metadata.mode as u16).to_le_bytes());
    if by_content || with_owner || !metadata.xattrs.is_empty() {
        let mut hasher = blake3::Hasher::new();
        if let Some(owner) = metadata.owner.filter(|_| with_owner) {
            hasher.update(&owner.uid.to_le_bytes()).update(&owner.gid.to_le_bytes());
        }
        if by_content {
            hasher.update(&metadata.modified.seconds.to_le_bytes());
            hasher.update(&metadata.modified.nanoseconds.to_le_bytes());
        }
        if !metadata.xattrs.is_empty() {
            hash_xattrs(&mut hasher, &metadata.xattrs);
        }
        hasher.finalize_xof().fill(&mut attributes[2..]);
    }
    attributes
}

/// Adds extended attributes to a hash, whatever their order.
pub(crate) fn hash_xattrs(hasher: &mut blake3::Hasher, xattrs: &[Xattr]) {
    let mut sorted: Vec<_> = xattrs.iter().collect();
    sorted.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    hasher.update(b"xattrs").update(&(sorted.len() as u64).to_le_bytes());
    for Xattr { name, value } in sorted {
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
        hasher.update(&(value.len() as u64).to_le_bytes()).update(value);
    }
}

/// Returns a 128-bit BLAKE3 hash of a path alone.
pub fn path_hash(path: &RelativePath) -> [u8; 16] {
    bytes_hash(path.as_bytes())
}

/// Returns a 64-bit BLAKE3 hash of the last component of a path.
pub fn name_hash(path: &RelativePath) -> [u8; 8] {
    let mut hash = [0; 8];
    blake3::Hasher::new().update(path.file_name()).finalize_xof().fill(&mut hash);
    hash
}

/// Returns the same as [`path_hash`] of the bytes of a path; no bytes stand for the target itself.
pub(crate) fn bytes_hash(path: &[u8]) -> [u8; 16] {
    let mut hash = [0; 16];
    blake3::Hasher::new().update(path).finalize_xof().fill(&mut hash);
    hash
}

/// Returns a 128-bit BLAKE3 hash that stands for the complete listing of the directory `path` (empty for the target
/// itself); it differs from every [`path_hash`] because no path ends in a slash.
pub fn listed_hash(path: &[u8]) -> [u8; 16] {
    let mut hash = [0; 16];
    blake3::Hasher::new().update(path).update(b"/").finalize_xof().fill(&mut hash);
    hash
}

/// Returns a 128-bit BLAKE3 hash that stands for the directory `path` (empty for the target itself) having the names that the
/// source has there, and no others; it differs from every [`path_hash`] and [`listed_hash`] because no path ends in a slash.
pub fn equal_hash(path: &[u8]) -> [u8; 16] {
    let mut hash = [0; 16];
    blake3::Hasher::new().update(path).update(b"//").finalize_xof().fill(&mut hash);
    hash
}

/// A large file, announced under a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The file. Its size is 0 if it is not known yet.
    pub entry: Entry,
    /// The closing record gives the size (a pipe).
    pub growing: bool,
}

/// The place of a range of a file in the receiver's version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// The first byte there.
    pub from: u64,
    /// The number of bytes, at most [`SPAN_BYTES_MAX`](sealane_delta::SPAN_BYTES_MAX).
    pub bytes: u64,
}

/// Closing record of a large file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Closing {
    /// All bytes were sent.
    Complete {
        /// Final size in bytes.
        size_bytes: u64,
        /// The BLAKE3 digest of the content, if requested.
        digest: Option<[u8; 32]>,
    },
    /// The source changed or became unreadable: the sent content must be dropped.
    Abandoned {
        /// The cause in words, which a sender cuts to the bound of a closing record.
        reason: String,
    },
}

/// The bytes are not a valid encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}")]
pub struct Malformed {
    /// The name of the value that was read.
    pub what: &'static str,
}

/// Writes `value` to the front of `bytes`; returns `None` if it does not fit.
pub fn encode<T: Serialize>(value: &T, bytes: &mut [u8]) -> Option<usize> {
    Some(postcard::to_slice(value, bytes).ok()?.len())
}

/// Reads exactly one value from all of `bytes`.
///
/// # Errors
/// Fails for anything else.
pub fn decode<'a, T: Deserialize<'a>>(what: &'static str, bytes: &'a [u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Malformed { what }),
    }
}

/// The entries of a pack, each with its content.
#[derive(Clone, Debug)]
pub struct Pack<'a> {
    rest: &'a [u8],
}

impl<'a> Pack<'a> {
    /// Returns the entries of a record's body.
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    fn take(&mut self) -> Option<(Entry, &'a [u8])> {
        let (entry, rest) = postcard::take_from_bytes::<Entry>(self.rest).ok()?;
        let (content, rest) = rest.split_at_checked(usize::try_from(entry.content_bytes()).ok()?)?;
        self.rest = rest;
        Some((entry, content))
    }
}

impl<'a> Iterator for Pack<'a> {
    type Item = Result<(Entry, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = self.take().ok_or(Malformed { what: "pack of entries" });
        if taken.is_err() {
            self.rest = &[];
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &[u8], content: &[u8]) -> Entry {
        Entry {
            path: RelativePath::new(path).unwrap(),
            kind: Kind::File,
            metadata: Metadata { mode: 0o644, size_bytes: content.len() as u64, ..Metadata::default() },
            digest: None,
        }
    }

    #[test]
    fn a_pack_gives_back_what_was_put_in() {
        let contents: [(&[u8], &[u8]); 3] = [(b"a/\xff\n", b"one"), (b"b", b""), (b"c", b"three")];
        let mut bytes = vec![0; 500];
        let mut end = 0;
        for (path, content) in contents {
            end += encode(&file(path, content), &mut bytes[end..]).unwrap();
            bytes[end..end + content.len()].copy_from_slice(content);
            end += content.len();
        }
        let unpacked: Vec<_> = Pack::new(&bytes[..end]).map(Result::unwrap).collect();
        assert_eq!(unpacked.len(), 3);
        for ((entry, content), (path, expected)) in unpacked.into_iter().zip(contents) {
            assert_eq!((entry.path.as_bytes(), content), (path, expected));
        }
        let errors = Pack::new(&bytes[..end - 1]).filter(Result::is_err).count();
        assert_eq!(errors, 1);
    }

    #[test]
    fn identity_depends_on_path_size_and_time() {
        let base = file(b"x", b"12");
        let mut later = base.clone();
        later.metadata.modified.nanoseconds = 1;
        let others = [file(b"y", b"12"), file(b"x", b"123"), later];
        assert!(others.iter().all(|other| other.identity() != base.identity()));
        assert_eq!(base.identity(), base.clone().identity());
    }

    #[test]
    fn attributes_tell_what_an_identity_does_not() {
        let owner = |uid| Some(sealane_tree::Owner { uid, gid: 7 });
        let base = Metadata { mode: 0o644, owner: owner(1), ..Metadata::default() };
        let mode = Metadata { mode: 0o600, ..base.clone() };
        let other = Metadata { owner: owner(2), ..base.clone() };
        let mut later = base.clone();
        later.modified.seconds = 1;
        for (by_content, with_owner) in [(false, false), (false, true), (true, false), (true, true)] {
            let differs = |metadata| {
                attributes(metadata, by_content, with_owner) != attributes(&base, by_content, with_owner)
            };
            assert!(differs(&mode) && !differs(&base));
            assert_eq!((differs(&other), differs(&later)), (with_owner, by_content));
            assert_ne!(attributes(&base, by_content, with_owner), UNKNOWN_ATTRIBUTES);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Pack::new(&bytes).count();
            let _ = decode::<Announcement>("announcement", &bytes);
            let _ = decode::<Closing>("closing", &bytes);
        }
    }
}
