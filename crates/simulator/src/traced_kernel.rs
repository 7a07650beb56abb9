//! The ten algorithms of the paper, as traces.

pub use sealane_transform::TEN;
use sealane_transform::{Algorithm, Event, PublicLoop, Region, code_sites, trace};

/// Bytes of an algorithm's message that are traced: a lap. That is two of SEAL's kilobytes, and whole blocks of all
/// others.
const TRACED_BYTES: usize = 2048;

/// An algorithm and the trace of its kernel.
#[derive(Clone, Debug)]
pub struct TracedKernel {
    /// Its name, as [`TEN`] has it.
    pub name: &'static str,
    /// The events of the kernel for a lap.
    pub events: Vec<Event>,
    /// The event of each place of the kernel's source.
    pub sites: Vec<Event>,
    /// Bytes of a lap.
    pub bytes: u32,
    /// Bytes between two ends of a block.
    pub block_bytes: u32,
    /// Whether offsets of the message count from its start and not from the block's.
    pub is_stream: bool,
    /// Whether blocks can be distributed among threads, because no chain links them.
    pub is_divisible: bool,
    /// Whether tables depend on the key.
    pub has_keyed_tables: bool,
}

impl TracedKernel {
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

    /// Traces one pass of a loop of a public-key operation, whose numbers count as a key; a pass counts as 4 bytes of a
    /// message.
    pub fn of_loop(one: &PublicLoop) -> Self {
        let mut events = Vec::new();
        one.trace(|event| events.push(event));
        Self {
            name: one.name,
            events,
            sites: Vec::new(),
            bytes: 4,
            block_bytes: 4,
            is_stream: false,
            is_divisible: true,
            has_keyed_tables: false,
        }
    }

    /// Returns the kernel's code in place of its run, with every place once. For multiplication by shift and add, one
    /// turn of its loop counts.
    pub(crate) fn code(&self) -> Self {
        let once = |event: &Event| match event {
            Event::Multiply { .. } => Event::Multiply { bits: 1 },
            event => *event,
        };
        Self { events: self.sites.iter().map(once).collect(), sites: Vec::new(), ..*self }
    }

    /// Returns the number of bytes of the message that level 0 fetches at once.
    pub(crate) fn fetch_bytes(&self, rc4_fetch_bytes: u64) -> u64 {
        match self.name {
            "rc4" => rc4_fetch_bytes,
            "seal3" => 16,
            _ => u64::from(self.block_bytes),
        }
    }

    /// Returns whether a kernel reads a region in order from its beginning.
    pub(crate) fn reads_in_order(&self, region: Region) -> bool {
        region == Region::Key || self.name == "seal3" && matches!(region, Region::Table("S" | "R"))
    }

    /// Returns whether a machine must keep the data of a region for the kernel.
    pub(crate) fn is_kept(region: Region) -> bool {
        matches!(region, Region::Key | Region::Table(_))
    }
}

/// Returns an algorithm's name without mode and size of key.
pub(crate) fn short(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}
