//! Common code of the fuzz targets: properties of every decoder, and a count of its allocations.
//!
//! A target that links this crate has its counting allocator, so that "allocates no more than a small multiple of its
//! input" is asserted rather than hoped for.

#![deny(unsafe_code)]

mod allocation;
pub mod ike;
pub mod packets;
pub mod public_keys;
pub mod scripts;
#[cfg(test)]
mod seeds;
pub mod sftp;

use std::fmt::Debug;

use sealane_copy::proto::entry::{self, Entry, Malformed};
use sealane_delta::{Cut, Span};
use sealane_peer::PublicKey;
use sealane_tree::{
    Kind, MAX_COMPONENT_BYTES, MAX_LINK_BYTES, MAX_PATH_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES,
    MAX_XATTRS, MODE_BITS, Metadata, RelativePath,
};
use serde::{Deserialize, Serialize};

/// Maximum number of bytes allocated at one time per decoded byte. The most expensive element is an empty byte
/// string: one byte on the wire and 24 in a `Vec`, three times over while that vector grows.
const ALLOCATED_PER_BYTE: usize = 80;
/// Maximum number of bytes allocated at one time for any input: first capacities of small vectors, a boxed message.
const ALLOCATED_AT_LEAST_BYTES: usize = 2048;

/// Returns the ranges of a version that these bytes choose.
pub fn spans(choice: &[u8; 6]) -> Vec<Span> {
    let [count, cut, start, start_high, bytes, bytes_high] = *choice;
    let start = u64::from(u16::from_le_bytes([start, start_high]));
    let bytes = 1 + u64::from(u16::from_le_bytes([bytes, bytes_high]));
    let cut = if cut % 2 == 0 { Cut::Grid } else { Cut::Content(12 + cut % 10) };
    (0..u64::from(count % 4)).map(|number| Span { start: start + number * bytes, bytes, cut }).collect()
}

/// Runs a decoder over an input of `input_bytes` bytes.
///
/// # Panics
/// Panics if it allocates more than a small multiple of the input.
pub fn frugally<T>(input_bytes: usize, decode: impl FnOnce() -> T) -> T {
    within(ALLOCATED_AT_LEAST_BYTES + ALLOCATED_PER_BYTE * input_bytes, decode)
}

/// Runs `work`.
///
/// # Panics
/// Panics if it allocates more than `limit_bytes` at one time.
pub fn within<T>(limit_bytes: usize, work: impl FnOnce() -> T) -> T {
    let (value, peak_bytes) = allocation::peak_bytes(work);
    assert!(peak_bytes <= limit_bytes, "{peak_bytes} bytes allocated, {limit_bytes} are enough");
    value
}

/// Decodes one value from all of `bytes` with the decoder of the data streams.
///
/// # Panics
/// Panics if decoding allocates too much, or if the value does not survive being encoded again.
pub fn decoded<T>(bytes: &[u8]) -> Option<T>
where
    T: Serialize + for<'a> Deserialize<'a> + PartialEq + Debug,
{
    let value = frugally(bytes.len(), || entry::decode("fuzz input", bytes)).ok()?;
    let again = encoded(&value, bytes.len());
    assert_eq!(entry::decode("encoded again", &again).as_ref(), Ok::<&T, &Malformed>(&value));
    Some(value)
}

/// Encodes a value that was decoded from at most `limit_bytes` bytes.
///
/// # Panics
/// Panics if it does not fit into `limit_bytes`: our encoding is the shortest possible one.
pub fn encoded<T: Serialize>(value: &T, limit_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; limit_bytes];
    let length = entry::encode(value, &mut bytes).expect("the encoding is no longer than what was decoded");
    bytes.truncate(length);
    bytes
}

/// Returns Ed25519 keys in the form of the trust files. Their check characters are part of a hash, which no fuzzer
/// guesses, so targets substitute keys for single bytes.
pub fn keys() -> [String; KEYS] {
    std::array::from_fn(|number| PublicKey::from_bytes([number as u8; 32]).to_string())
}

/// Number of [`keys`].
pub const KEYS: usize = 8;

/// Returns the text of a trust file in which every byte beyond ASCII stands for one of the [`keys`].
pub fn with_keys(bytes: &[u8], keys: &[String; KEYS]) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in bytes {
        if byte.is_ascii() {
            text.push(byte);
        } else {
            text.extend_from_slice(keys[usize::from(byte) % KEYS].as_bytes());
        }
    }
    text
}

/// Returns a path as in a URL, with every byte escaped that is not plainly part of a name.
pub fn percent_encoded(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in path {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~') {
            text.push(byte);
        } else {
            text.extend_from_slice(format!("%{byte:02x}").as_bytes());
        }
    }
    text
}

/// Asserts all bounds that [`Entry`] and its parts promise.
///
/// # Panics
/// Panics if a bound is exceeded.
pub fn check_entry(entry: &Entry) {
    check_path(&entry.path);
    match &entry.kind {
        Kind::File => assert_eq!(entry.content_bytes(), entry.metadata.size_bytes),
        Kind::Directory | Kind::Attributes | Kind::Special(_) => assert_eq!(entry.content_bytes(), 0),
        Kind::Symlink { target } => {
            assert!((1..=MAX_LINK_BYTES).contains(&target.as_bytes().len()));
            assert!(!target.as_bytes().contains(&0));
        }
        Kind::HardLink { to } => check_path(to),
    }
    let Metadata { mode, modified, xattrs, .. } = &entry.metadata;
    assert_eq!(mode & !MODE_BITS, 0);
    assert!(modified.nanoseconds < 1_000_000_000);
    assert!(xattrs.len() <= MAX_XATTRS);
    for xattr in xattrs {
        assert!((1..=MAX_XATTR_NAME_BYTES).contains(&xattr.name.len()));
        assert!(!xattr.name.contains(&0));
        assert!(xattr.value.len() <= MAX_XATTR_VALUE_BYTES);
    }
}

/// Asserts the properties that a [`RelativePath`] guarantees.
///
/// # Panics
/// Panics if a property does not hold.
pub fn check_path(path: &RelativePath) {
    assert!((1..=MAX_PATH_BYTES).contains(&path.as_bytes().len()));
    assert!(!path.as_bytes().contains(&0));
    let mut joined = Vec::new();
    for component in path.components() {
        assert!((1..=MAX_COMPONENT_BYTES).contains(&component.len()));
        assert!(!matches!(component, b"." | b".."));
        if !joined.is_empty() {
            joined.push(b'/');
        }
        joined.extend_from_slice(component);
    }
    assert_eq!(joined, path.as_bytes());
    // The standard library must parse the path as names only.
    let mut names = 0;
    for component in path.as_path().components() {
        assert!(matches!(component, std::path::Component::Normal(_)));
        names += 1;
    }
    assert_eq!(names, path.components().count());
}
