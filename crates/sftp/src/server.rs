//! A server's description of itself: its `VERSION` packet (draft, section 4) and `limits@openssh.com` (PROTOCOL,
//! section 4.8).

use crate::wire::{Fields, Malformed};

/// The maximum data per packet if a server does not report it: the draft requires packets of 34,000 bytes, including
/// the header.
const DATA_BYTES_DEFAULT: u32 = 32 * 1024;
/// The maximum of OpenSSH's server, which cuts longer reads and exits after longer writes.
const DATA_BYTES_MAX: u64 = 255 * 1024;
/// The minimum: a client cannot work with servers that accept less.
const DATA_BYTES_MIN: u64 = 4 * 1024;
/// The maximum number of open files if a server does not report it.
const HANDLES_DEFAULT: u64 = 64;
const HANDLES_MAX: u64 = 4096;

/// A supported extension, in the supported version.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extension {
    /// `posix-rename@openssh.com`, version 1.
    PosixRename,
    /// `hardlink@openssh.com`, version 1.
    HardLink,
    /// `fsync@openssh.com`, version 1.
    Fsync,
    /// `lsetstat@openssh.com`, version 1.
    LsetStat,
    /// `statvfs@openssh.com`, version 2.
    StatVfs,
    /// `expand-path@openssh.com`, version 1.
    ExpandPath,
    /// `limits@openssh.com`, version 1.
    Limits,
}

impl Extension {
    /// All supported extensions.
    pub const ALL: [Self; 7] = [
        Self::PosixRename,
        Self::HardLink,
        Self::Fsync,
        Self::LsetStat,
        Self::StatVfs,
        Self::ExpandPath,
        Self::Limits,
    ];

    /// Returns the name and version as a server announces them.
    #[must_use]
    pub fn announced(self) -> (&'static str, &'static str) {
        match self {
            Self::PosixRename => ("posix-rename@openssh.com", "1"),
            Self::HardLink => ("hardlink@openssh.com", "1"),
            Self::Fsync => ("fsync@openssh.com", "1"),
            Self::LsetStat => ("lsetstat@openssh.com", "1"),
            Self::StatVfs => ("statvfs@openssh.com", "2"),
            Self::ExpandPath => ("expand-path@openssh.com", "1"),
            Self::Limits => ("limits@openssh.com", "1"),
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The maximum data of one read, in bytes.
    pub read_bytes: u32,
    /// The maximum data of one write, in bytes.
    pub write_bytes: u32,
    /// The maximum number of open files.
    pub handles: u32,
}

impl Default for Limits {
    /// Returns the limits of a server that reports none.
    fn default() -> Self {
        let handles = HANDLES_DEFAULT as u32;
        Self { read_bytes: DATA_BYTES_DEFAULT, write_bytes: DATA_BYTES_DEFAULT, handles }
    }
}

impl Limits {
    /// Reads an answer. 0 stands for an unreported limit.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body, "list of limits");
        let _packet_bytes = fields.u64()?;
        let data = |said: u64| match said {
            0 => DATA_BYTES_DEFAULT,
            said => said.clamp(DATA_BYTES_MIN, DATA_BYTES_MAX) as u32,
        };
        let (read_bytes, write_bytes) = (data(fields.u64()?), data(fields.u64()?));
        let handles = match fields.u64()? {
            0 => HANDLES_DEFAULT,
            said => said.min(HANDLES_MAX),
        };
        Ok(Self { read_bytes, write_bytes, handles: handles as u32 })
    }
}

/// A server, as far as it has described itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Server {
    pub(crate) extensions: u8,
    /// The answer to `limits@openssh.com`, or the defaults if there is none.
    pub limits: Limits,
}

impl Server {
    /// Returns whether the server has an extension in the supported version.
    #[must_use]
    pub fn has(&self, extension: Extension) -> bool {
        self.extensions & extension.bit() != 0
    }

    /// Reads a `VERSION` packet, without its type.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body, "greeting");
        let version = fields.u32()?;
        if version != 3 {
            return Err(Malformed::Version { version });
        }
        let mut server = Self::default();
        while !fields.is_empty() {
            let (name, version) = (fields.string()?, fields.string()?);
            let found = Extension::ALL.into_iter().find(|extension| {
                let announced = extension.announced();
                (announced.0.as_bytes(), announced.1.as_bytes()) == (name, version)
            });
            server.extensions |= found.map_or(0, Extension::bit);
        }
        Ok(server)
    }
}
