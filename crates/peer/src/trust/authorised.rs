//! `authorised-peers`: the clients that a server admits, and the rights of each.
//!
//! ```text
//! # key             name          what it may do
//! sealane1:aaaa…    ada@laptop    rights=read,write path=/srv/data rate=100M connections=4
//! ```
//!
//! `rights=` is required: `read`, `write` or both; besides, `delete` (it may delete entries that its source does not
//! have), and with `write` also `owner` (it may set the owners of its files), `set-id` (it may make files that run
//! as their owner or group), `devices` (it may make devices, pipes and sockets) and `privileges` (it may set the extended
//! attributes of `security.` and `trusted.`, capabilities among them). The others restrict further: `path=` confines the peer to a directory (absolute,
//! percent-encoded if a byte is not printable ASCII), `rate=` is in bytes per second with an optional decimal suffix
//! `K`, `M`, `G` or `T`, `connections=` bounds simultaneous connections.

use std::ffi::OsStr;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::file::{self, LineFault};
use crate::error::{PeerError, TrustFault};
use crate::key::PublicKey;
use crate::location::percent_decode;

const MAX_NAME_BYTES: usize = 64;

const READ: &str = "read";
const WRITE: &str = "write";
const DELETE: &str = "delete";
const OWNER: &str = "owner";
const SET_ID: &str = "set-id";
const DEVICES: &str = "devices";
const PRIVILEGES: &str = "privileges";

/// The fault of rights that make no sense.
const RIGHTS_FAULT: &str = "expected `read`, `write` or both, then `delete`, and with `write` also `owner`, `set-id`, `devices` \
                            and `privileges`, between commas";

/// A peer's rights on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// Whether it may list and fetch.
    pub read: bool,
    /// Whether it may create and change.
    pub write: bool,
    /// Whether it may delete entries that its source does not have.
    pub delete: bool,
    /// Whether it may set the owners of its files.
    pub owner: bool,
    /// Whether it may set the set-user-id and set-group-id bits.
    pub set_id: bool,
    /// Whether it may make devices, pipes and sockets.
    pub devices: bool,
    /// Whether it may set extended attributes of `security.` and `trusted.`.
    pub privileges: bool,
}

/// One line of `authorised-peers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorisedPeer {
    /// The key that identifies it.
    pub key: PublicKey,
    /// Its name in logs: 1 to 64 of `A-Z a-z 0-9 . _ @ -`.
    pub name: String,
    /// The rights that the line grants; there are no others.
    pub rights: Rights,
    /// The directory it is confined to; absolute and without `..`.
    pub path: Option<PathBuf>,
    /// Most bytes per second that it may move.
    pub rate_bytes_per_s: Option<NonZeroU64>,
    /// Most simultaneous connections that it may have.
    pub connections: Option<NonZeroU32>,
}

impl fmt::Display for AuthorisedPeer {
    /// Writes the line of the file, without its line feed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rights { read, write, delete, owner, set_id, devices, privileges } = self.rights;
        write!(f, "{} {} rights=", self.key, self.name)?;
        let rights = [
            (read, READ),
            (write, WRITE),
            (delete, DELETE),
            (owner, OWNER),
            (set_id, SET_ID),
            (devices, DEVICES),
            (privileges, PRIVILEGES),
        ];
        for (index, (_, word)) in rights.iter().filter(|(has, _)| *has).enumerate() {
            write!(f, "{}{word}", if index > 0 { "," } else { "" })?;
        }
        if let Some(path) = &self.path {
            f.write_str(" path=")?;
            for &byte in path.as_os_str().as_bytes() {
                if byte.is_ascii_graphic() && byte != b'%' {
                    write!(f, "{}", char::from(byte))?;
                } else {
                    write!(f, "%{byte:02X}")?;
                }
            }
        }
        if let Some(rate) = self.rate_bytes_per_s {
            write!(f, " rate={rate}")?;
        }
        if let Some(connections) = self.connections {
            write!(f, " connections={connections}")?;
        }
        Ok(())
    }
}

/// The clients that a server admits. No key and no name occurs twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorisedPeers {
    peers: Vec<(usize, AuthorisedPeer)>,
}

impl AuthorisedPeers {
    /// The default file in a user's configuration directory.
    pub const FILE_NAME: &str = "authorised-peers";

    /// Parses the text of such a file.
    ///
    /// # Errors
    /// Fails at the first malformed line.
    pub fn parse(bytes: &[u8]) -> Result<Self, PeerError> {
        Self::parse_lines(bytes).map_err(file::at(None))
    }

    /// Reads such a file; one that does not exist admits nobody.
    ///
    /// # Errors
    /// Fails if the file cannot be read, other users may write to it, or a line is malformed.
    pub fn load(path: &Path) -> Result<Self, PeerError> {
        Self::parse_lines(&file::read(path)?).map_err(file::at(Some(path)))
    }

    /// Returns all entries in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &AuthorisedPeer> {
        self.peers.iter().map(|(_, peer)| peer)
    }

    /// Returns the entry of this key.
    #[must_use]
    pub fn find(&self, key: &PublicKey) -> Option<&AuthorisedPeer> {
        self.iter().find(|peer| peer.key == *key)
    }

    /// Sets the line of `key` to the result of `change` for its present line, if there is one, under the same name.
    /// The file is created if it does not exist. Returns the old and the new entry.
    ///
    /// # Errors
    /// Fails if the name belongs to another key, or the key has another name; if the parser would refuse the entry;
    /// or if the file cannot be changed.
    pub fn set(
        path: &Path,
        key: &PublicKey,
        change: impl FnOnce(Option<&AuthorisedPeer>) -> AuthorisedPeer,
    ) -> Result<(Option<AuthorisedPeer>, AuthorisedPeer), PeerError> {
        let mut outcome = None;
        file::edit(path, |bytes| {
            let peers = Self::parse_lines(&bytes).map_err(file::at(Some(path)))?.peers;
            let old = peers.iter().find(|(_, peer)| peer.key == *key);
            let peer = change(old.map(|(_, peer)| peer));
            let text = peer.to_string();
            // The caller's name could contain spaces or a line of its own.
            let number = old.map_or(peers.len() + 1, |&(line, _)| line);
            let only = Self::parse_lines(text.as_bytes()).map_err(|(_, fault)| (number, fault));
            match &only.map_err(file::at(Some(path)))?.peers[..] {
                [(_, only)] if *only == peer && only.key == *key => {}
                _ => return Err(file::at(Some(path))((number, TrustFault::Name))),
            }
            // A silent change of the name would hide the peer's identity in the log.
            if let Some(&(first_line, _)) = old.filter(|(_, old)| old.name != peer.name) {
                return Err(file::at(Some(path))((
                    number,
                    TrustFault::Duplicate { field: "key", first_line },
                )));
            }
            let changed = match old {
                Some(&(line, _)) => file::with_line_at(&bytes, line, &text),
                None => file::with_line(bytes, &text),
            };
            Self::parse_lines(&changed).map_err(file::at(Some(path)))?;
            outcome = Some((old.map(|(_, peer)| peer.clone()), peer));
            Ok(Some(changed))
        })?;
        Ok(outcome.expect("an edit that succeeds has changed the file"))
    }

    /// Removes the line of this key, and returns whether there was one.
    ///
    /// # Errors
    /// Fails if the file is malformed, or cannot be changed.
    pub fn remove(path: &Path, key: &PublicKey) -> Result<bool, PeerError> {
        let mut found = false;
        file::edit(path, |bytes| {
            let peers = Self::parse_lines(&bytes).map_err(file::at(Some(path)))?.peers;
            let line = peers.iter().find(|(_, peer)| peer.key == *key).map(|(line, _)| *line);
            found = line.is_some();
            Ok(line.map(|line| file::without_lines(&bytes, &[line])))
        })?;
        Ok(found)
    }

    fn parse_lines(bytes: &[u8]) -> Result<Self, LineFault> {
        let mut keys = std::collections::HashMap::new();
        let mut names = std::collections::HashMap::new();
        let mut peers = Vec::new();
        for entry in file::entries(bytes) {
            let (line, text) = entry?;
            let peer = parse_entry(text).map_err(|fault| (line, fault))?;
            // With two lines for one key it would be unclear which restrictions hold; with two keys of one name,
            // which peer a log means.
            if let Some(first_line) = keys.insert(peer.key, line) {
                return Err((line, TrustFault::Duplicate { field: "key", first_line }));
            }
            if let Some(first_line) = names.insert(peer.name.clone(), line) {
                return Err((line, TrustFault::Duplicate { field: "name", first_line }));
            }
            peers.push((line, peer));
        }
        Ok(Self { peers })
    }
}

fn parse_entry(text: &str) -> Result<AuthorisedPeer, TrustFault> {
    let mut words = text.split_ascii_whitespace();
    let key = words.next().ok_or(TrustFault::Missing { field: "key" })?.parse()?;
    let name = words.next().ok_or(TrustFault::Missing { field: "name" })?;
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'@' | b'-');
    if name.len() > MAX_NAME_BYTES || !name.bytes().all(fine) {
        return Err(TrustFault::Name);
    }
    let (mut rights, mut path, mut rate, mut connections) = (None, None, None, None);
    for word in words {
        let unexpected = || TrustFault::Unexpected { text: word.to_owned() };
        let (field, value) = word.split_once('=').ok_or_else(unexpected)?;
        match field {
            "rights" => once("rights", &mut rights, parse_rights(value))?,
            "path" => once("path", &mut path, parse_path(value))?,
            "rate" => once("rate", &mut rate, parse_rate(value))?,
            "connections" => once("connections", &mut connections, parse_connections(value))?,
            _ => return Err(unexpected()),
        }
    }
    let rights = rights.ok_or(TrustFault::Missing { field: "rights=" })?;
    Ok(AuthorisedPeer { key, name: name.to_owned(), rights, path, rate_bytes_per_s: rate, connections })
}

fn once<T>(
    field: &'static str,
    slot: &mut Option<T>,
    value: Result<T, &'static str>,
) -> Result<(), TrustFault> {
    let value = value.map_err(|fault| TrustFault::Value { field, fault })?;
    match slot.replace(value) {
        Some(_) => Err(TrustFault::Twice { field }),
        None => Ok(()),
    }
}

fn parse_rights(value: &str) -> Result<Rights, &'static str> {
    let mut rights = Rights::default();
    for word in value.split(',') {
        let right = match word {
            READ => &mut rights.read,
            WRITE => &mut rights.write,
            DELETE => &mut rights.delete,
            OWNER => &mut rights.owner,
            SET_ID => &mut rights.set_id,
            DEVICES => &mut rights.devices,
            PRIVILEGES => &mut rights.privileges,
            _ => return Err(RIGHTS_FAULT),
        };
        if std::mem::replace(right, true) {
            return Err(RIGHTS_FAULT);
        }
    }
    let Rights { read, write, owner, set_id, devices, privileges, .. } = rights;
    let needs_write = owner || set_id || devices || privileges;
    if write || read && !needs_write { Ok(rights) } else { Err(RIGHTS_FAULT) }
}

fn parse_path(value: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(std::ffi::OsString::from_vec(percent_decode(value.as_bytes())?));
    if !path.is_absolute() {
        return Err("a path begins with `/`");
    }
    // `..` is refused and not resolved: its meaning depends on links that may change.
    if path.components().any(|c| matches!(c, Component::ParentDir) || c.as_os_str() == OsStr::new("..")) {
        return Err("a path has no `..`");
    }
    Ok(path)
}

fn parse_rate(value: &str) -> Result<NonZeroU64, &'static str> {
    let fault = "expected bytes a second such as `500000`, `100M` or `2G`";
    let (digits, scale) = match value.as_bytes().last() {
        Some(b'K') => (&value[..value.len() - 1], 1_000),
        Some(b'M') => (&value[..value.len() - 1], 1_000_000),
        Some(b'G') => (&value[..value.len() - 1], 1_000_000_000),
        Some(b'T') => (&value[..value.len() - 1], 1_000_000_000_000),
        _ => (value, 1_u64),
    };
    let number: u64 = number(digits).ok_or(fault)?;
    number.checked_mul(scale).and_then(NonZeroU64::new).ok_or(fault)
}

fn parse_connections(value: &str) -> Result<NonZeroU32, &'static str> {
    number(value).and_then(NonZeroU32::new).ok_or("expected a number from 1")
}

/// Only decimal digits are accepted: `parse` alone would accept a plus sign.
fn number<T: std::str::FromStr>(digits: &str) -> Option<T> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    #[track_caller]
    fn check_fault(text: &str, want_line: usize, want: TrustFault) {
        match AuthorisedPeers::parse(text.as_bytes()) {
            Err(PeerError::TrustLine { path: None, line, fault }) => {
                assert_eq!((line, fault), (want_line, want))
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn all_fields() {
        let text = format!(
            "# admitted\n{} ada@laptop rights=write,read path=/srv/my%20data rate=100M connections=4\n\t{} b rights=read",
            key(1),
            key(2)
        );
        let peers = AuthorisedPeers::parse(text.as_bytes()).unwrap();
        let ada = peers.find(&key(1)).unwrap();
        let want = AuthorisedPeer {
            key: key(1),
            name: "ada@laptop".into(),
            rights: Rights { read: true, write: true, ..Rights::default() },
            path: Some("/srv/my data".into()),
            rate_bytes_per_s: NonZeroU64::new(100_000_000),
            connections: NonZeroU32::new(4),
        };
        assert_eq!(*ada, want);
        let line = format!(
            "{} ada@laptop rights=read,write path=/srv/my%20data rate=100000000 connections=4",
            key(1)
        );
        assert_eq!(ada.to_string(), line);
        let b = peers.find(&key(2)).unwrap();
        assert_eq!((b.rights, &b.path), (Rights { read: true, ..Rights::default() }, &None));
        assert_eq!(peers.find(&key(3)), None);
    }

    #[test]
    fn faults() {
        let k = key(1);
        let value = |field, fault| TrustFault::Value { field, fault };
        check_fault(&format!("\n{k}"), 2, TrustFault::Missing { field: "name" });
        check_fault(&format!("{k} a"), 1, TrustFault::Missing { field: "rights=" });
        check_fault(&format!("{k} a!"), 1, TrustFault::Name);
        check_fault(&format!("{k} {}", "a".repeat(65)), 1, TrustFault::Name);
        check_fault(&format!("{k} a read"), 1, TrustFault::Unexpected { text: "read".into() });
        check_fault(&format!("{k} a right=read"), 1, TrustFault::Unexpected { text: "right=read".into() });
        check_fault(&format!("{k} a rights=read rights=read"), 1, TrustFault::Twice { field: "rights" });
        for rights in
            ["", "Read", "read,", "read,read", "all", "owner", "read,set-id", "devices", "read,privileges"]
        {
            check_fault(&format!("{k} a rights={rights}"), 1, value("rights", RIGHTS_FAULT));
        }
        for (path, fault) in [
            ("srv", "a path begins with `/`"),
            ("", "a path begins with `/`"),
            ("/a/../b", "a path has no `..`"),
            ("/a/%2e%2E", "a path has no `..`"),
            ("/a%00", "a path has no NUL byte"),
            ("/a%0", "two hex digits follow a `%`"),
        ] {
            check_fault(&format!("{k} a rights=read path={path}"), 1, value("path", fault));
        }
        for rate in ["", "0", "M", "+1", "1m", "1KB", "-1", "18446744073709551615K"] {
            let fault = value("rate", "expected bytes a second such as `500000`, `100M` or `2G`");
            check_fault(&format!("{k} a rights=read rate={rate}"), 1, fault);
        }
        check_fault(
            &format!("{k} a rights=read connections=0"),
            1,
            value("connections", "expected a number from 1"),
        );
        let two = format!("{k} a rights=read\n{k} b rights=read");
        check_fault(&two, 2, TrustFault::Duplicate { field: "key", first_line: 1 });
        let two = format!("{k} a rights=read\n{} a rights=read", key(2));
        check_fault(&two, 2, TrustFault::Duplicate { field: "name", first_line: 1 });
    }

    #[test]
    fn what_could_not_be_read_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authorised-peers");
        let mut peer = AuthorisedPeer {
            key: key(1),
            name: "a".into(),
            rights: Rights { read: true, ..Rights::default() },
            path: None,
            rate_bytes_per_s: None,
            connections: None,
        };
        let set = |peer: &AuthorisedPeer| AuthorisedPeers::set(&path, &peer.key, |_| peer.clone());
        set(&peer).unwrap();
        peer.key = key(2);
        assert!(set(&peer).is_err(), "the name is taken");
        for name in ["b\nsealane1:x", "b rights=write", "", "#b"] {
            peer.name = name.into();
            assert!(set(&peer).is_err(), "{name:?} is no name");
        }
        peer.name = "b".into();
        peer.rights = Rights::default();
        assert!(set(&peer).is_err(), "no rights at all");
        assert_eq!(AuthorisedPeers::load(&path).unwrap().iter().count(), 1);
        assert!(AuthorisedPeers::remove(&path, &key(1)).unwrap());
        assert!(!AuthorisedPeers::remove(&path, &key(1)).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_key_keeps_its_line_when_its_entry_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authorised-peers");
        let text = format!("# ours\n{} ada rights=read path=/a\n\n{} eve rights=read", key(1), key(2));
        std::fs::write(&path, text).unwrap();
        let write = Rights { read: true, write: true, ..Rights::default() };
        let renamed = AuthorisedPeers::set(&path, &key(2), |old| AuthorisedPeer {
            name: "adam".into(),
            ..old.unwrap().clone()
        });
        assert!(matches!(
            renamed,
            Err(PeerError::TrustLine { fault: TrustFault::Duplicate { field: "key", first_line: 4 }, .. })
        ));
        for (n, name) in [(1, "ada"), (2, "eve"), (3, "bob")] {
            let changed = AuthorisedPeers::set(&path, &key(n), |old| match old {
                Some(old) => AuthorisedPeer { rights: write, name: name.into(), ..old.clone() },
                None => AuthorisedPeer {
                    key: key(n),
                    name: name.into(),
                    rights: write,
                    path: None,
                    rate_bytes_per_s: None,
                    connections: None,
                },
            });
            assert_eq!(changed.unwrap().0.is_some(), n < 3);
        }
        let want = format!(
            "# ours\n{} ada rights=read,write path=/a\n\n{} eve rights=read,write\n{} bob rights=read,write\n",
            key(1),
            key(2),
            key(3)
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
    }

    fn any_peer() -> impl Strategy<Value = AuthorisedPeer> {
        let path = prop::collection::vec(1u8.., 0..20).prop_map(|bytes| {
            let mut path = b"/".to_vec();
            path.extend(bytes.into_iter().map(|b| if b == b'.' { b'_' } else { b }));
            PathBuf::from(std::ffi::OsString::from_vec(path))
        });
        let rights =
            any::<[bool; 7]>().prop_map(|[read, write, delete, owner, set_id, devices, privileges]| {
                let [owner, set_id, devices, privileges] =
                    [owner, set_id, devices, privileges].map(|right| right && write);
                Rights { read: read || !write, write, delete, owner, set_id, devices, privileges }
            });
        (
            any::<[u8; 32]>(),
            "[a-zA-Z0-9._@-]{1,64}",
            rights,
            prop::option::of(path),
            any::<u64>(),
            any::<u32>(),
        )
            .prop_map(|(key, name, rights, path, rate, connections)| AuthorisedPeer {
                key: PublicKey::from_bytes(key),
                name,
                rights,
                path,
                rate_bytes_per_s: NonZeroU64::new(rate),
                connections: NonZeroU32::new(connections),
            })
    }

    proptest! {
        #[test]
        fn round_trip(peer in any_peer()) {
            let peers = AuthorisedPeers::parse(peer.to_string().as_bytes()).unwrap();
            prop_assert_eq!(peers.find(&peer.key), Some(&peer));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = AuthorisedPeers::parse(&bytes);
        }

        #[test]
        fn no_fields_panic(tail in "[ -~]{0,60}") {
            let _ = AuthorisedPeers::parse(format!("{} a rights=read {tail}", key(1)).as_bytes());
        }
    }
}
