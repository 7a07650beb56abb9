//! Associations whose keys come from files (RFC 4301, section 4.5.1).
//!
//! Guarantees: no number is used that an earlier process may have used: numbers are reserved on disk before use, so
//! that peers accept the packets of a restarted gateway at once. No two directions have the same key material,
//! whatever the names of its files: their numbers are counted separately, so nonces would be repeated. A suite with
//! counted nonces, and a broken one, are refused unless they are allowed explicitly.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_engine::Implementations;
use sealane_engine::debug_only;
use sealane_ipsec::{
    association::{AssociationError, Inbound, Outbound, Parameters},
    database::{Request, SpiInUse},
    key_maker::KeyMaker,
    lifetime::Lifetime,
    policy::PeerId,
};

use zeroize::Zeroizing;

use crate::{
    counter_file::{CounterError, CounterFile},
    heard_file::HeardFile,
    key_file::{self, KeyFileError},
    peers::Peers,
    site::{Keys, PeerSite},
};

/// The number of sequence numbers reserved at a time: seconds of the fastest traffic, and a thousandth of the 32-bit
/// numbers.
const RESERVED_NUMBERS: u64 = 1 << 22;

/// The unsafe options that the user allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Allows counted nonces under keys from files.
    pub manual_counter: bool,
    /// Allows broken algorithms.
    pub legacy: bool,
}

/// Reasons why a peer's associations cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ManualError {
    /// The suite has counted nonces, and that was not allowed.
    #[error(
        "peer {peer:?}: {suite} must not be used with keys from files, because a nonce that comes twice gives everything away \
         (RFC 4106, section 8.1); choose a suite such as aes-128-cbc+hmac-sha256-128, or, for a laboratory, \
         --allow-manual-counter"
    )]
    Counted {
        /// The peer's name in the site file.
        peer: String,
        /// The peer's suite.
        suite: String,
    },
    /// The suite is broken, and that was not allowed.
    #[error("peer {peer:?}: {suite} is broken; --allow-legacy takes it for a laboratory")]
    Legacy {
        /// The peer's name in the site file.
        peer: String,
        /// The peer's suite.
        suite: String,
    },
    /// A key file is refused.
    #[error("peer {peer:?}: {source}")]
    KeyFile {
        /// The peer's name in the site file.
        peer: String,
        /// The cause.
        source: KeyFileError,
    },
    /// Two files contain the same key material.
    #[error(
        "peer {peer:?}: {} and {} hold the same key; each direction of each peer has a key of its own, made by \
         `openssl rand -hex`",
        first.display(),
        second.display()
    )]
    Twice {
        /// The peer of the second file.
        peer: String,
        /// The file that was read first.
        first: PathBuf,
        /// The second file.
        second: PathBuf,
    },
    /// Sequence numbers cannot be reserved.
    #[error("peer {peer:?}: {source}")]
    Counter {
        /// The peer's name in the site file.
        peer: String,
        /// The cause.
        source: CounterError,
    },
    /// The parameters contradict each other.
    #[error("peer {peer:?}: {source}")]
    Association {
        /// The peer's name in the site file.
        peer: String,
        /// The cause.
        source: AssociationError,
    },
    /// The SPI is in use.
    #[error("peer {peer:?}: {source}")]
    Spi {
        /// The peer's name in the site file.
        peer: String,
        /// The cause.
        source: SpiInUse,
    },
}

/// Checks that the suite of `peer` is allowed.
///
/// # Errors
/// Fails if it is not.
pub fn check(peer: &PeerSite, allowed: Allowed) -> Result<(), ManualError> {
    let suite = &peer.suite();
    let (name, text) = (|| peer.name.clone(), || suite.to_string());
    let is_manual = matches!(peer.keys, Keys::Manual(_));
    if is_manual && suite.iv().is_counted() && !allowed.manual_counter {
        return Err(ManualError::Counted { peer: name(), suite: text() });
    }
    if let Some(suite) = peer.suites().into_iter().find(|suite| suite.is_legacy())
        && !allowed.legacy
    {
        return Err(ManualError::Legacy { peer: name(), suite: suite.to_string() });
    }
    Ok(())
}

/// The key material read so far, with its files. It contains digests under a key of its own: nothing can be learnt
/// about the material from them, nor from the time that a comparison takes.
pub struct Seen {
    key: Zeroizing<[u8; blake3::KEY_LEN]>,
    files: HashMap<[u8; blake3::OUT_LEN], PathBuf>,
}

debug_only!(self: Seen { files: self.files.len() });

impl Default for Seen {
    fn default() -> Self {
        let mut key = Zeroizing::new([0; blake3::KEY_LEN]);
        getrandom::fill(&mut key[..]).expect("the system has random bytes once it has booted");
        Self { key, files: HashMap::new() }
    }
}

/// The key materials to send and to receive under.
type Both = [Zeroizing<Vec<u8>>; 2];

impl Seen {
    /// Reads both key files of a peer; `None` if its keys do not come from files.
    ///
    /// # Errors
    /// Fails if a file is refused, or contains the same material as an earlier one.
    pub fn read(&mut self, site: &PeerSite) -> Result<Option<Both>, ManualError> {
        let Keys::Manual(manual) = &site.keys else { return Ok(None) };
        let bytes = manual.suite.material_bytes();
        let mut read = |file: &PathBuf| {
            let material = key_file::read(file, bytes)
                .map_err(|source| ManualError::KeyFile { peer: site.name.clone(), source })?;
            let digest = *blake3::keyed_hash(&self.key, &material).as_bytes();
            match self.files.insert(digest, file.clone()) {
                Some(first) if bytes > 0 => {
                    Err(ManualError::Twice { peer: site.name.clone(), first, second: file.clone() })
                }
                _ => Ok(material),
            }
        };
        Ok(Some([read(&manual.send.file)?, read(&manual.receive.file)?]))
    }
}

/// An outbound association whose numbers are reserved on disk.
#[derive(Debug)]
struct Reserved {
    outbound: Arc<Outbound>,
    counter: CounterFile,
    last: u64,
}

/// An inbound association whose accepted numbers are recorded on disk.
#[derive(Debug)]
struct Heard {
    inbound: Arc<Inbound>,
    file: HeardFile,
}

/// The associations of all manual peers.
#[derive(Debug, Default)]
pub struct Manuals {
    reserved: Vec<Reserved>,
    seen: Seen,
    heard: Vec<Heard>,
    /// The messages about numbers that cannot be reserved, already reported.
    told: Vec<String>,
    /// The messages that are still to be reported.
    news: VecDeque<String>,
    looked: Option<Instant>,
}

/// The interval between checks of the numbers. The fastest traffic uses up a reservation in seconds.
const LOOK: Duration = Duration::from_millis(100);

impl Manuals {
    /// Makes and installs both associations of `peer`, if its keys come from files.
    ///
    /// # Errors
    /// Fails if its suite is not allowed, or if a file is refused.
    pub fn install(
        &mut self,
        implementations: Implementations,
        peers: &Peers,
        id: PeerId,
        site: &PeerSite,
        allowed: Allowed,
        now: Instant,
    ) -> Result<(), ManualError> {
        check(site, allowed)?;
        let Keys::Manual(manual) = &site.keys else { return Ok(()) };
        let peer = || site.name.clone();
        let Some([to_send, to_receive]) = self.seen.read(site)? else { return Ok(()) };
        let kind = site.kind();
        let parameters = |spi| Parameters {
            spi,
            peer: id,
            protocol: kind.protocol,
            mode: kind.mode,
            suite: kind.suite,
            sequence: manual.sequence,
            lifetime: Lifetime::default(),
        };
        let association = |source| ManualError::Association { peer: peer(), source };
        let inbound = Inbound::new(
            implementations,
            parameters(manual.receive.spi),
            &to_receive,
            site.window_packets,
            now,
        )
        .map_err(association)?;
        let counter_error = |source| ManualError::Counter { peer: peer(), source };
        // A number used twice would reveal the secrets of a counted suite, and any suite's receiver would treat it as
        // a replay.
        let mut counter = CounterFile::open(&manual.send.file).map_err(counter_error)?;
        let range = counter.reserve(RESERVED_NUMBERS, manual.sequence.last()).map_err(counter_error)?;
        let outbound =
            Outbound::new(implementations, parameters(manual.send.spi), &to_send, range.start, now)
                .map_err(association)?;
        let outbound = Arc::new(outbound);
        outbound.numbers().set_limit(range.end - 1);
        let inbound = Arc::new(inbound);
        let file = HeardFile::open(&manual.receive.file).map_err(counter_error)?;
        peers.may_be_replayed_up_to(id, file.before());
        self.heard.push(Heard { inbound: Arc::clone(&inbound), file });
        self.looked = Some(now);
        peers
            .database()
            .install_inbound(inbound)
            .map_err(|source| ManualError::Spi { peer: peer(), source })?;
        peers.database().install_outbound(Arc::clone(&outbound));
        self.reserved.push(Reserved { outbound, counter, last: manual.sequence.last() });
        Ok(())
    }
}

impl KeyMaker for Manuals {
    /// There are no successors: when an association ends, the traffic ends.
    fn request(&mut self, _: Request, _: Instant) {}

    /// Returns `None` if no peer's keys are from files.
    fn poll_timeout(&self) -> Option<Instant> {
        let is_needed = !self.reserved.is_empty() || !self.heard.is_empty();
        self.looked.filter(|_| is_needed).map(|looked| looked + LOOK)
    }

    /// Reserves further numbers when half of them are used, and records the peers' highest numbers. If the
    /// reservation fails, the association ends with its numbers.
    fn handle_timeout(&mut self, now: Instant) {
        self.looked = Some(now);
        let mut errors = Vec::new();
        for Reserved { outbound, counter, last } in &mut self.reserved {
            if outbound.numbers().left() >= RESERVED_NUMBERS / 2 {
                continue;
            }
            match counter.reserve(RESERVED_NUMBERS, *last) {
                Ok(range) => outbound.numbers().set_limit(range.end - 1),
                Err(error) => errors.push(error),
            }
        }
        for Heard { inbound, file } in &mut self.heard {
            let top = inbound.window().top();
            errors.extend(file.look(top).err());
        }
        for text in errors.iter().map(ToString::to_string) {
            if !self.told.contains(&text) {
                self.told.push(text.clone());
                self.news.push_back(text);
            }
        }
    }

    fn poll_news(&mut self) -> Option<String> {
        self.news.pop_front()
    }
}
