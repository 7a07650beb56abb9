//! The ten algorithms of the paper, as traces.

pub use sealane_transform::TEN;
use sealane_transform::{Algorithm, Event, Region, code_sites, trace};

/// What is traced of an algorithm: a lap. Two of SEAL's kilobytes, whole blocks of all others.
const TRACED_BYTES: usize = 2048;

/// An algorithm and what its kernel does.
#[derive(Clone, Debug)]
pub struct Work {
    /// Its name, as [`TEN`] has it.
    pub name: &'static str,
    /// What the kernel tells for a lap.
    pub events: Vec<Event>,
    /// What each place of the kernel's source does.
    pub sites: Vec<Event>,
    /// Bytes of a lap.
    pub bytes: u32,
    /// Bytes between two ends of a block.
    pub block_bytes: u32,
    /// Whether offsets of the message count from its start instead of the block's.
    pub is_stream: bool,
    /// Whether blocks may be shared out among threads: no chain ties them.
    pub is_divisible: bool,
    /// Whether tables depend on the key.
    pub has_keyed_tables: bool,
}

impl Work {
    /// Traces one of [`TEN`].
    pub fn new(name: &str) -> Option<Self> {
        let name = TEN.into_iter().find(|found| *found == name || short(found) == name)?;
        let algorithm: Algorithm = name.parse().ok()?;
        let mut events = Vec::new();
        trace(algorithm, TRACED_BYTES, |event| events.push(event))?;
        let block_bytes = match name {
            "md5" | "sha1" | "rc4" => 64,
            "seal3" => 1024,
            "aes-128-ecb" | "rc6-ecb" => 16,
            _ => 8,
        };
        Some(Self {
            name,
            events,
            sites: code_sites(algorithm, TRACED_BYTES)?,
            bytes: TRACED_BYTES as u32,
            block_bytes,
            is_stream: matches!(name, "rc4" | "seal3"),
            is_divisible: !matches!(name, "md5" | "sha1" | "rc4"),
            has_keyed_tables: matches!(name, "rc4" | "seal3" | "blowfish-ecb"),
        })
    }

    /// The kernel's code instead of its run: every place once. Where a multiplication is shift and add, one turn of its loop
    /// stands for it.
    pub(crate) fn code(&self) -> Self {
        let once = |event: &Event| match event {
            Event::Multiply { .. } => Event::Multiply { bits: 1 },
            event => *event,
        };
        Self { events: self.sites.iter().map(once).collect(), sites: Vec::new(), ..*self }
    }

    /// What level 0 fetches of the message at once.
    pub(crate) fn fetch_bytes(&self, rc4_fetch_bytes: u64) -> u64 {
        match self.name {
            "rc4" => rc4_fetch_bytes,
            "seal3" => 16,
            _ => u64::from(self.block_bytes),
        }
    }

    /// Whether a kernel reads a region from its beginning on.
    pub(crate) fn reads_in_order(&self, region: Region) -> bool {
        region == Region::Key || self.name == "seal3" && matches!(region, Region::Table("S" | "R"))
    }

    /// Whether a region is data that a machine must keep for it.
    pub(crate) fn is_kept(region: Region) -> bool {
        matches!(region, Region::Key | Region::Table(_))
    }
}

/// An algorithm's name without mode and size of key.
pub(crate) fn short(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}
