//! Replies (draft, section 7), read from untrusted bytes.

use std::fmt;
use std::ops::Deref;

use crate::attributes::Attributes;
use crate::wire::{Fields, Malformed};

pub(crate) const VERSION: u8 = 2;
pub(crate) const STATUS: u8 = 101;
pub(crate) const HANDLE: u8 = 102;
pub(crate) const DATA: u8 = 103;
pub(crate) const NAME: u8 = 104;
pub(crate) const ATTRS: u8 = 105;
pub(crate) const EXTENDED_REPLY: u8 = 201;

/// The maximum length of a server's handle (draft, section 3).
pub const HANDLE_BYTES_MAX: usize = 256;
/// The maximum length of a name in a directory, in bytes: 255 characters of at most three bytes, which file systems of
/// other systems allow. No name of more than 255 bytes can be made here.
pub(crate) const NAME_BYTES_MAX: usize = 3 * 255;
/// The maximum length of a path that a server returns, in bytes (`PATH_MAX`).
pub(crate) const PATH_BYTES_MAX: usize = 4096;
/// The length to which the message of a status is cut.
const MESSAGE_BYTES_MAX: usize = 256;

/// A server's name for an open file or directory: opaque bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Handle(Box<[u8]>);

impl Handle {
    /// Returns the bytes, which only the server understands; at most [`HANDLE_BYTES_MAX`].
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The result of a request (draft, section 7).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatusCode {
    /// The request succeeded.
    Ok,
    /// The end of the file or directory is reached.
    EndOfFile,
    /// A name does not exist; with OpenSSH's server also an unknown handle.
    NoSuchFile,
    /// The user there may not.
    PermissionDenied,
    /// Any other failure: no room, an existing name, a directory that is not empty, a read-only file system.
    Failure,
    /// The server did not understand the request; OpenSSH's server also means a name that is too long or invalid.
    BadMessage,
    /// The server does not do this.
    Unsupported,
    /// A code that version 3 does not have, or that only clients may use.
    Other(u32),
}

impl StatusCode {
    fn of(code: u32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::EndOfFile,
            2 => Self::NoSuchFile,
            3 => Self::PermissionDenied,
            4 => Self::Failure,
            5 => Self::BadMessage,
            8 => Self::Unsupported,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("done"),
            Self::EndOfFile => f.write_str("end of file"),
            Self::NoSuchFile => f.write_str("no such file or folder"),
            Self::PermissionDenied => f.write_str("permission denied"),
            Self::Failure => f.write_str("failure"),
            Self::BadMessage => f.write_str("bad name or message"),
            Self::Unsupported => f.write_str("not supported"),
            Self::Other(code) => write!(f, "status {code}"),
        }
    }
}

/// The result of a request, with the server's message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// The result.
    pub code: StatusCode,
    /// The server's message: at most 256 bytes, unchanged.
    pub message: Vec<u8>,
}

/// One name of a directory, or the answer to a request for a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Name {
    /// The name: any bytes, even if no directory could contain them.
    pub name: Vec<u8>,
    /// The attributes of the entry; for a link, its own.
    pub attributes: Attributes,
}

/// The content of a file: at least one byte, and at most as many as requested. Dereferences to the bytes.
#[derive(Clone, Eq, PartialEq)]
pub struct Data {
    packet: Vec<u8>,
    start: usize,
    end: usize,
}

impl Data {
    /// Returns the buffer for reuse.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.packet
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.packet[self.start..self.end]
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.len())
    }
}

/// A file system, as reported by `statvfs@openssh.com`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Filesystem {
    /// The bytes that the user there may still write.
    pub available_bytes: u64,
    /// The number of files that the user there may still create.
    pub available_files: u64,
    /// Whether the file system is read-only.
    pub is_read_only: bool,
}

impl Filesystem {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body, "description of a file system");
        let mut values = [0; 11];
        for value in &mut values {
            *value = fields.u64()?;
        }
        let [_, fragment_bytes, _, _, available, _, _, available_files, _, flags, _] = values;
        Ok(Self {
            available_bytes: available.saturating_mul(fragment_bytes),
            available_files,
            is_read_only: flags & 1 != 0,
        })
    }
}

/// A server's answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// The result of the request.
    Status(Status),
    /// An open file or directory.
    Handle(Handle),
    /// Content.
    Data(Data),
    /// Entries of a directory, or the one path that another request asks for (SSH_FXP_NAME).
    Names(Vec<Name>),
    /// Facts about an entry, as many as the server reports (SSH_FXP_ATTRS).
    Attributes(Attributes),
    /// A file system.
    Filesystem(Filesystem),
}

pub(crate) fn status(body: &[u8]) -> Result<Status, Malformed> {
    let mut fields = Fields::new(body, "status");
    let code = StatusCode::of(fields.u32()?);
    // Old servers send no message.
    let message = if fields.is_empty() { &[] } else { fields.string()? };
    let message = message[..message.len().min(MESSAGE_BYTES_MAX)].to_vec();
    if !fields.is_empty() {
        // This is the message's language.
        fields.string()?;
    }
    fields.end()?;
    Ok(Status { code, message })
}

pub(crate) fn handle(body: &[u8]) -> Result<Handle, Malformed> {
    let mut fields = Fields::new(body, "handle");
    let handle = fields.string()?;
    fields.end()?;
    match handle.len() {
        1..=HANDLE_BYTES_MAX => Ok(Handle(handle.into())),
        bytes => Err(Malformed::Long { what: "handle", bytes }),
    }
}

/// `packet` is the complete packet; the type and the number take its first five bytes.
pub(crate) fn data(packet: Vec<u8>, asked: usize) -> Result<Data, Malformed> {
    const FRONT_BYTES: usize = 5 + 4;
    let mut fields = Fields::new(packet.get(5..).unwrap_or_default(), "data");
    let bytes = fields.string()?.len();
    fields.end()?;
    if bytes == 0 || bytes > asked {
        return Err(Malformed::Amount { bytes, asked });
    }
    Ok(Data { packet, start: FRONT_BYTES, end: FRONT_BYTES + bytes })
}

/// Reads names of at most `bytes_max` bytes each.
pub(crate) fn names(body: &[u8], bytes_max: usize) -> Result<Vec<Name>, Malformed> {
    /// Two empty strings and no attributes.
    const NAME_BYTES_MIN: usize = 12;
    let mut fields = Fields::new(body, "list of names");
    let count = fields.u32()? as usize;
    if count > fields.left_bytes() / NAME_BYTES_MIN {
        return Err(Malformed::Short { what: "list of names" });
    }
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let name = fields.string()?;
        if name.len() > bytes_max {
            return Err(Malformed::Long { what: "name", bytes: name.len() });
        }
        let name = name.to_vec();
        // This is the line that `ls -l` would print, for people.
        fields.string()?;
        names.push(Name { name, attributes: Attributes::take(&mut fields)? });
    }
    fields.end()?;
    Ok(names)
}

pub(crate) fn attributes(body: &[u8]) -> Result<Attributes, Malformed> {
    let mut fields = Fields::new(body, "list of attributes");
    let attributes = Attributes::take(&mut fields)?;
    fields.end()?;
    Ok(attributes)
}
