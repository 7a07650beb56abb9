//! Associations whose keys come from files (RFC 4301, section 4.5.1).
//!
//! Guarantees: no number is used that an earlier process may have used: numbers are reserved on disk ahead of use,
//! so that a gateway that was restarted is heard at once. No two directions have the same key material, whatever
//! its files are called: their numbers are counted apart, so nonces would come twice. A suite whose nonces are
//! counted, and a broken one, are refused unless that was allowed.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_engine::Implementations;
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

/// Numbers reserved at a time: seconds of the fastest traffic, and a thousandth of what 32 bits have.
const RESERVED_NUMBERS: u64 = 1 << 22;

/// What the user allows that is not safe in general.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Counted nonces under keys from files.
    pub manual_counter: bool,
    /// Broken algorithms.
    pub legacy: bool,
}

/// Why a peer's associations cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ManualError {
    /// A counted suite that was not allowed.
    #[error(
        "peer {peer:?}: {suite} must not be used with keys from files, because a nonce that comes twice gives everything away \
         (RFC 4106, section 8.1); choose a suite such as aes-128-cbc+hmac-sha256-128, or, for a laboratory, \
         --allow-manual-counter"
    )]
    Counted {
        /// The peer.
        peer: String,
        /// Its suite.
        suite: String,
    },
    /// A broken suite that was not allowed.
    #[error("peer {peer:?}: {suite} is broken; --allow-legacy takes it for a laboratory")]
    Legacy {
        /// The peer.
        peer: String,
        /// Its suite.
        suite: String,
    },
    /// A key file that is not taken.
    #[error("peer {peer:?}: {source}")]
    KeyFile {
        /// The peer.
        peer: String,
        /// Why.
        source: KeyFileError,
    },
    /// Material that stands in two files.
    #[error(
        "peer {peer:?}: {} and {} hold the same key; each direction of each peer has a key of its own, made by \
         `openssl rand -hex`",
        first.display(),
        second.display()
    )]
    Twice {
        /// The peer of the second one.
        peer: String,
        /// The file that was read first.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// Numbers that cannot be reserved.
    #[error("peer {peer:?}: {source}")]
    Counter {
        /// The peer.
        peer: String,
        /// Why.
        source: CounterError,
    },
    /// Parameters that contradict each other.
    #[error("peer {peer:?}: {source}")]
    Association {
        /// The peer.
        peer: String,
        /// Why.
        source: AssociationError,
    },
    /// An index that is in use.
    #[error("peer {peer:?}: {source}")]
    Spi {
        /// The peer.
        peer: String,
        /// Why.
        source: SpiInUse,
    },
}

/// Whether `peer` may have its suite.
///
/// # Errors
/// It may not.
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

/// Which key material has been seen, and where. It keeps digests under a key of its own: nothing can be learnt of
/// the material from it, nor from how long a comparison takes.
pub struct Seen {
    key: Zeroizing<[u8; blake3::KEY_LEN]>,
    files: HashMap<[u8; blake3::OUT_LEN], PathBuf>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Default for Seen {
    fn default() -> Self {
        let mut key = Zeroizing::new([0; blake3::KEY_LEN]);
        getrandom::fill(&mut key[..]).expect("the system has random bytes once it has booted");
        Self { key, files: HashMap::new() }
    }
}

/// Material to send and to receive under.
type Both = [Zeroizing<Vec<u8>>; 2];

impl Seen {
    /// Reads both key files of a peer; `None` where its keys do not come from files.
    ///
    /// # Errors
    /// A file is not taken, or holds what another one did.
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

/// An inbound association whose numbers are written down as they are taken.
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
    /// What was said of numbers that cannot be reserved.
    told: Vec<String>,
    /// What is still to be said.
    news: VecDeque<String>,
    looked: Option<Instant>,
}

/// Between two looks at the numbers. The fastest traffic uses up a reservation in seconds.
const LOOK: Duration = Duration::from_millis(100);

impl Manuals {
    /// Makes and installs both associations of `peer`, if its keys come from files.
    ///
    /// # Errors
    /// It may not have its suite, or a file is not taken.
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
        // A number that came twice would give a counted suite away, and to any suite's receiver it would be a replay.
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
    /// There are no others: an association that ends ends the traffic.
    fn request(&mut self, _: Request, _: Instant) {}

    /// None, where no peer's keys are from files.
    fn poll_timeout(&self) -> Option<Instant> {
        let is_needed = !self.reserved.is_empty() || !self.heard.is_empty();
        self.looked.filter(|_| is_needed).map(|looked| looked + LOOK)
    }

    /// Reserves further numbers where half of them are used, and writes down how far the peers have got. Where the
    /// first fails, the association stops with its numbers.
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
