//! `known-peers`: the key that each server must show. Each line has the form `host:port key`.
//!
//! A server may have several lines, so that its operator can change keys: any of them is accepted. A server with
//! lines but another key is never accepted, whatever the policy.

use std::path::{Path, PathBuf};

use super::file::{self, LineFault};
use crate::address::HostPort;
use crate::error::{PeerError, TrustFault};
use crate::key::PublicKey;

/// One line of `known-peers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeer {
    /// The address at which the server listens.
    pub address: HostPort,
    /// A key that it may show.
    pub key: PublicKey,
}

/// The servers whose keys are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownPeers {
    peers: Vec<(usize, KnownPeer)>,
}

impl KnownPeers {
    /// The default file in a user's configuration directory.
    pub const FILE_NAME: &str = "known-peers";

    /// Parses the text of such a file.
    ///
    /// # Errors
    /// Fails at the first malformed line.
    pub fn parse(bytes: &[u8]) -> Result<Self, PeerError> {
        Self::parse_lines(bytes).map_err(file::at(None))
    }

    /// Reads such a file; one that does not exist knows no server.
    ///
    /// # Errors
    /// Fails if the file cannot be read, other users may write to it, or a line is malformed.
    pub fn load(path: &Path) -> Result<Self, PeerError> {
        Self::parse_lines(&file::read(path)?).map_err(file::at(Some(path)))
    }

    /// Returns all entries in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &KnownPeer> {
        self.peers.iter().map(|(_, peer)| peer)
    }

    /// Returns the keys that this server may show.
    pub fn keys<'a>(&'a self, address: &'a HostPort) -> impl Iterator<Item = PublicKey> + 'a {
        self.iter().filter(move |peer| peer.address == *address).map(|peer| peer.key)
    }

    /// Adds a line to the file, unless it is there already. The file is created if it does not exist.
    ///
    /// # Errors
    /// Fails if the file is malformed, or cannot be changed.
    pub fn append(path: &Path, peer: &KnownPeer) -> Result<(), PeerError> {
        Self::append_if(path, peer, |_| Ok(()))
    }

    /// Adds the server's first line, for trust on first use. Another process may have been faster; if it wrote
    /// another key, that is a mismatch like any other.
    pub(crate) fn append_first(path: &Path, peer: &KnownPeer) -> Result<(), PeerError> {
        Self::append_if(path, peer, |known| match known.keys(&peer.address).next() {
            Some(other) => Err(PeerError::WrongServer {
                address: peer.address.clone(),
                found: peer.key,
                known: other,
                place: path.display().to_string().into(),
            }),
            None => Ok(()),
        })
    }

    /// Removes all lines of this server, and returns their number.
    ///
    /// # Errors
    /// Fails if the file is malformed, or cannot be changed.
    pub fn remove(path: &Path, address: &HostPort) -> Result<usize, PeerError> {
        let mut removed = 0;
        file::edit(path, |bytes| {
            let known = Self::parse_lines(&bytes).map_err(file::at(Some(path)))?;
            let lines: Vec<_> = known
                .peers
                .iter()
                .filter(|(_, peer)| peer.address == *address)
                .map(|(line, _)| *line)
                .collect();
            removed = lines.len();
            Ok((removed > 0).then(|| file::without_lines(&bytes, &lines)))
        })?;
        Ok(removed)
    }

    fn append_if(
        path: &Path,
        peer: &KnownPeer,
        admit: impl FnOnce(&Self) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        file::edit(path, |bytes| {
            let known = Self::parse_lines(&bytes).map_err(file::at(Some(path)))?;
            if known.iter().any(|p| p == peer) {
                return Ok(None);
            }
            admit(&known)?;
            let bytes = file::with_line(bytes, &format!("{} {}", peer.address, peer.key));
            // Every file that we write can be read: a full file is refused here and not at the next start.
            Self::parse_lines(&bytes).map_err(file::at(Some(path)))?;
            Ok(Some(bytes))
        })
    }

    fn parse_lines(bytes: &[u8]) -> Result<Self, LineFault> {
        let entry = |text: &str| {
            let mut words = text.split_ascii_whitespace();
            let address = words.next().ok_or(TrustFault::Address)?;
            // The port is required, so that no entry depends on the default port.
            let (_, port) = address.rsplit_once(':').ok_or(TrustFault::Address)?;
            if port.ends_with(']') {
                return Err(TrustFault::Address);
            }
            let address = address.parse().map_err(|_| TrustFault::Address)?;
            let key = words.next().ok_or(TrustFault::Missing { field: "key" })?.parse()?;
            match words.next() {
                Some(text) => Err(TrustFault::Unexpected { text: text.to_owned() }),
                None => Ok(KnownPeer { address, key }),
            }
        };
        let peers = file::entries(bytes).map(|line| {
            let (line, text) = line?;
            Ok((line, entry(text).map_err(|fault| (line, fault))?))
        });
        Ok(Self { peers: peers.collect::<Result<_, LineFault>>()? })
    }
}

/// Which servers a client accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTrust {
    /// Trusts only servers in this `known-peers` file. The default.
    Pinned {
        /// The path of the file, which is only read.
        file: PathBuf,
    },
    /// Trusts servers in this file, and unknown servers, which are added to it. A known server with another key is
    /// refused.
    AcceptNew {
        /// The path of the file, to which unknown servers are added.
        file: PathBuf,
    },
    /// Trusts only the owner of this key; no file is read.
    Exactly(
        /// The key that the server has to prove.
        PublicKey,
    ),
}

/// Whether a server's key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recognition {
    /// It is a known key of the server.
    Known,
    /// The server has no known key, and this one may be accepted once the server has proved to own it.
    New,
    /// The server has no known key, and this one may not be accepted.
    Unknown,
    /// We know this other one.
    Mismatch(PublicKey),
}

impl ServerTrust {
    /// Trusts only servers in this `known-peers` file.
    pub fn pinned(file: impl Into<PathBuf>) -> Self {
        Self::Pinned { file: file.into() }
    }

    /// Trusts servers in this file, and unknown servers, which are added to it.
    pub fn accept_new(file: impl Into<PathBuf>) -> Self {
        Self::AcceptNew { file: file.into() }
    }

    /// Trusts only the owner of this key.
    #[must_use]
    pub fn exactly(key: PublicKey) -> Self {
        Self::Exactly(key)
    }

    /// Returns the file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Pinned { file } | Self::AcceptNew { file } => Some(file),
            Self::Exactly(_) => None,
        }
    }

    /// Judges the key that the server at `address` shows, by the entries of the file.
    pub(crate) fn judge(&self, known: &KnownPeers, address: &HostPort, key: &PublicKey) -> Recognition {
        if let Self::Exactly(pinned) = self {
            return if pinned == key { Recognition::Known } else { Recognition::Mismatch(*pinned) };
        }
        let mut other = None;
        for candidate in known.keys(address) {
            if candidate == *key {
                return Recognition::Known;
            }
            other.get_or_insert(candidate);
        }
        match (other, self) {
            (Some(other), _) => Recognition::Mismatch(other),
            (None, Self::AcceptNew { .. }) => Recognition::New,
            (None, _) => Recognition::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn peer(address: &str, n: u8) -> KnownPeer {
        KnownPeer { address: address.parse().unwrap(), key: key(n) }
    }

    #[track_caller]
    fn check_fault(text: &str, want_line: usize, want: TrustFault) {
        match KnownPeers::parse(text.as_bytes()) {
            Err(PeerError::TrustLine { path: None, line, fault }) => {
                assert_eq!((line, fault), (want_line, want))
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn lines_and_faults() {
        let text = format!("# servers\n\n  a:1\t{}  \n[::1]:2 {}\na:1 {}", key(1), key(2), key(3));
        let known = KnownPeers::parse(text.as_bytes()).unwrap();
        assert_eq!(
            known.iter().cloned().collect::<Vec<_>>(),
            [peer("a:1", 1), peer("[::1]:2", 2), peer("a:1", 3)]
        );
        let k = key(1);
        check_fault("a:1", 1, TrustFault::Missing { field: "key" });
        check_fault(&format!("\n# x\na {k}"), 3, TrustFault::Address);
        check_fault(&format!("[::1] {k}"), 1, TrustFault::Address);
        check_fault(&format!("a:1 {k} x"), 1, TrustFault::Unexpected { text: "x".into() });
        check_fault(&format!("a:1 {k}\r\nb:1 {k}\u{e9}"), 2, TrustFault::NotAscii);
        check_fault("a:1 sealane1:abc", 1, TrustFault::Key(crate::KeyFault::Length { chars: 3 }));
        let many = format!("a:1 {k}\n").repeat(file::MAX_ENTRIES + 1);
        check_fault(&many, file::MAX_ENTRIES + 1, TrustFault::TooManyEntries { limit: file::MAX_ENTRIES });
        let long = "\n".repeat(file::MAX_FILE_BYTES + 1);
        check_fault(&long, 1, TrustFault::FileTooLong { limit_bytes: file::MAX_FILE_BYTES });
    }

    #[test]
    fn policies() {
        let known = KnownPeers::parse(format!("a:1 {}\na:1 {}", key(1), key(2)).as_bytes()).unwrap();
        let (a, b) = ("a:1".parse().unwrap(), "a:2".parse().unwrap());
        let (pinned, new, exactly) =
            (ServerTrust::pinned("f"), ServerTrust::accept_new("f"), ServerTrust::exactly(key(9)));
        for (trust, address, n, want) in [
            (&pinned, &a, 1, Recognition::Known),
            (&pinned, &a, 2, Recognition::Known),
            (&pinned, &a, 3, Recognition::Mismatch(key(1))),
            (&pinned, &b, 1, Recognition::Unknown),
            (&new, &a, 2, Recognition::Known),
            (&new, &a, 3, Recognition::Mismatch(key(1))),
            (&new, &b, 3, Recognition::New),
            (&exactly, &a, 1, Recognition::Mismatch(key(9))),
            (&exactly, &b, 9, Recognition::Known),
        ] {
            assert_eq!(trust.judge(&known, address, &key(n)), want, "{trust:?} {address} {n}");
        }
    }

    #[test]
    fn append_and_remove_keep_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/known-peers");
        assert_eq!(KnownPeers::load(&path).unwrap(), KnownPeers::default());
        KnownPeers::append(&path, &peer("a:1", 1)).unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("# a comment without line feed");
        std::fs::write(&path, &text).unwrap();
        KnownPeers::append(&path, &peer("b:1", 2)).unwrap();
        KnownPeers::append(&path, &peer("b:1", 2)).unwrap();
        let want = format!("a:1 {}\n# a comment without line feed\nb:1 {}\n", key(1), key(2));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
        let first = KnownPeers::append_first(&path, &peer("b:1", 3)).unwrap_err();
        assert!(matches!(first, PeerError::WrongServer { .. }), "{first}");
        assert_eq!(KnownPeers::remove(&path, &"a:1".parse().unwrap()).unwrap(), 1);
        assert_eq!(KnownPeers::remove(&path, &"a:1".parse().unwrap()).unwrap(), 0);
        let want = format!("# a comment without line feed\nb:1 {}\n", key(2));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), want);
    }

    #[test]
    fn a_file_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known-peers");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
        let error = KnownPeers::load(&path).unwrap_err();
        assert!(matches!(error, PeerError::TrustExposed { mode: 0o664, .. }), "{error}");
    }

    #[test]
    fn appends_from_many_threads_are_all_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known-peers");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || KnownPeers::append(path, &peer(&format!("h{n}:1"), n)).unwrap());
            }
        });
        assert_eq!(KnownPeers::load(&path).unwrap().iter().count(), 8);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = KnownPeers::parse(&bytes);
        }

        #[test]
        fn round_trip(entries in prop::collection::vec(("[a-z][a-z0-9.]{0,9}", 1u16.., any::<[u8; 32]>()), 0..20)) {
            let text: String = entries
                .iter()
                .map(|(h, p, k)| format!("{h}:{p} {}\n", PublicKey::from_bytes(*k)))
                .collect();
            let known = KnownPeers::parse(text.as_bytes()).unwrap();
            let again: String = known.iter().map(|p| format!("{} {}\n", p.address, p.key)).collect();
            prop_assert_eq!(again, text);
        }
    }
}
