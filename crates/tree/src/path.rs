//! [`RelativePath`]: a path that cannot leave the directory it is relative to.
//!
//! A `RelativePath` is a proof: it is not empty, not absolute, has no empty, `.` or `..` component, no NUL, no
//! component longer than a directory entry can be, and leaves room for a temporary name in the same directory. Every
//! constructor and the wire decoder check this. The bytes need not be UTF-8.
//!
//! Lexical safety does not cover symbolic links: [`Target`](crate::Target) and [`Source`](crate::Source) resolve
//! these paths so that no link is followed.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::bytes;

/// The longest path in bytes: Linux's `PATH_MAX` less its NUL and room for a temporary name.
pub const MAX_PATH_BYTES: usize = 4096 - 1 - 40;

/// The longest component in bytes (Linux's `NAME_MAX`).
pub const MAX_COMPONENT_BYTES: usize = 255;

/// Why bytes are not a [`RelativePath`].
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum PathError {
    /// It has no bytes.
    #[error("the path is empty")]
    Empty,
    /// It begins with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// It has two slashes in a row, or one at the end.
    #[error("the path has an empty component")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("the path has a . or .. component")]
    DotComponent,
    /// It contains a NUL byte.
    #[error("the path holds a NUL byte")]
    Nul,
    /// It is to be one name, and has a slash.
    #[error("the name has a slash")]
    Slash,
    /// A component is longer than [`MAX_COMPONENT_BYTES`].
    #[error("a component of the path is longer than {MAX_COMPONENT_BYTES} bytes")]
    ComponentTooLong,
    /// It is longer than [`MAX_PATH_BYTES`].
    #[error("the path is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
}

/// A checked path, relative to the root of a source or a target.
///
/// The order is that of the bytes, so a directory sorts before what it contains.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RelativePath(Box<[u8]>);

fn check_component(component: &[u8]) -> Result<(), PathError> {
    match component {
        b"" => Err(PathError::EmptyComponent),
        b"." | b".." => Err(PathError::DotComponent),
        _ if component.len() > MAX_COMPONENT_BYTES => Err(PathError::ComponentTooLong),
        _ => Ok(()),
    }
}

fn check(bytes: &[u8]) -> Result<(), PathError> {
    if bytes.is_empty() {
        return Err(PathError::Empty);
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong);
    }
    if bytes[0] == b'/' {
        return Err(PathError::Absolute);
    }
    if bytes.contains(&0) {
        return Err(PathError::Nul);
    }
    bytes.split(|&byte| byte == b'/').try_for_each(check_component)
}

impl RelativePath {
    /// Checks and copies `path`.
    pub fn new(path: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let path = path.as_ref();
        check(path)?;
        Ok(Self(path.into()))
    }

    /// Checks `path` and takes it without a copy.
    pub fn from_vec(path: Vec<u8>) -> Result<Self, PathError> {
        check(&path)?;
        Ok(Self(path.into_boxed_slice()))
    }

    /// Returns the bytes, components separated by single slashes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path as a path of the standard library. Joining it to a root follows symbolic links, so use it for
    /// messages only.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Returns everything before the last component (empty if there is only one), and the last component.
    pub fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        }
    }

    /// Returns the path of the entry `name` of a folder, whose path has no bytes if it is the root: the inverse of
    /// [`split`](Self::split).
    pub fn within(folder: &[u8], name: &[u8]) -> Result<Self, PathError> {
        if name.contains(&b'/') {
            return Err(PathError::Slash);
        }
        let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        Self::from_vec([folder, separator, name].concat())
    }

    /// Returns the last component.
    pub fn file_name(&self) -> &[u8] {
        self.split().1
    }

    /// Returns the path without its last component, if it has more than one.
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.split();
        (!parent.is_empty()).then(|| Self(parent.into()))
    }

    /// Returns the components from the root down.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/')
    }

    /// Returns the path `tail` below this path.
    pub fn join(&self, tail: &Self) -> Result<Self, PathError> {
        self.child(tail.as_bytes())
    }

    /// Returns this path with the components of `tail` below it.
    pub fn child(&self, tail: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let tail = tail.as_ref();
        check(tail)?;
        if self.0.len() + 1 + tail.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        Ok(Self([&self.0, b"/".as_slice(), tail].concat().into_boxed_slice()))
    }

    /// Returns whether `self` is `ancestor` or lies below it.
    pub fn starts_with(&self, ancestor: &Self) -> bool {
        match self.0.strip_prefix(&*ancestor.0) {
            Some(rest) => rest.is_empty() || rest[0] == b'/',
            None => false,
        }
    }
}

/// Writes bytes as text for messages: bytes that are not UTF-8, and control characters, are escaped, so that a name
/// cannot control the reader's terminal.
fn escaped(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Escaped, for messages.
impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(&self.0, f)
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl AsRef<[u8]> for RelativePath {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&str> for RelativePath {
    type Error = PathError;

    fn try_from(path: &str) -> Result<Self, PathError> {
        Self::new(path)
    }
}

impl Serialize for RelativePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        bytes::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for RelativePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = bytes::deserialize::<MAX_PATH_BYTES, D>(deserializer)?;
        Self::from_vec(path).map_err(de::Error::custom)
    }
}

/// An entry's path as messages show it: below its target, or in its source as the user gave that. It may contain any
/// bytes, and is never opened.
#[derive(Clone, Eq, PartialEq)]
pub struct ShownPath(Box<[u8]>);

impl ShownPath {
    /// Makes a path from any bytes that name the entry to the user.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes, not escaped.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&RelativePath> for ShownPath {
    fn from(path: &RelativePath) -> Self {
        Self(path.0.clone())
    }
}

impl From<RelativePath> for ShownPath {
    fn from(path: RelativePath) -> Self {
        Self(path.0)
    }
}

impl From<PathBuf> for ShownPath {
    fn from(path: PathBuf) -> Self {
        Self::new(path.into_os_string().into_vec())
    }
}

/// Escaped, for messages.
impl fmt::Display for ShownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(&self.0, f)
    }
}

impl fmt::Debug for ShownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
