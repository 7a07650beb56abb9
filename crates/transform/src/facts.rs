//! [`Facts`]: the data that the catalogue states about an algorithm.

/// The facts of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes per block of the primitive; 1 for byte streams.
    pub block_bytes: usize,
    /// Rounds (steps for hashes) per block; 0 if the notion does not apply.
    pub rounds: usize,
    /// Key lengths.
    pub key_bytes: KeyBytes,
    /// IV or nonce bytes per job.
    pub iv_bytes: usize,
    /// Digest or tag bytes; 0 for ciphers.
    pub output_bytes: usize,
    /// Constant or key-dependent tables in the reference form, bytes.
    pub table_bytes: usize,
    /// Bytes of expanded key and tables that one association keeps in caches.
    pub working_set_bytes: usize,
    /// Whether a message's blocks depend on each other when sealing.
    pub chained: bool,
    /// Byte order of the primitive.
    pub byte_order: ByteOrder,
    /// Standing today.
    pub standing: Standing,
    /// Limits of a key and of a nonce.
    pub limits: Limits,
    /// The definition.
    pub source: &'static str,
}

/// The trust that an algorithm deserves today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// In use and unbroken.
    Current,
    /// It is unbroken in practice but outdated (64-bit blocks, no analysis in years).
    Legacy,
    /// It is broken, and refused outside measurement and interoperation.
    Broken,
    /// It is not a cryptographic protection.
    Benchmark,
}

/// The order in which an algorithm reads words from bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
    /// Works on bytes.
    Bytes,
}

/// The key lengths that an algorithm accepts, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyBytes {
    /// Shortest.
    pub min: usize,
    /// Longest.
    pub max: usize,
    /// The length that we use by default.
    pub usual: usize,
}

impl KeyBytes {
    /// No key.
    pub(crate) const NONE: Self = Self::exactly(0);

    /// Returns a range of one length.
    pub(crate) const fn exactly(bytes: usize) -> Self {
        Self { min: bytes, max: bytes, usual: bytes }
    }
}

/// The amounts that may be protected before a key or a nonce must change; `u64::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks of the primitive under one key.
    pub blocks_a_key: u64,
    /// Bytes of the longest message, which has one nonce.
    pub bytes_a_nonce: u64,
}

impl Limits {
    /// No limits.
    pub(crate) const NONE: Self = Self { blocks_a_key: u64::MAX, bytes_a_nonce: u64::MAX };
    /// The limits of ciphers with 64-bit blocks: SP 800-67 revision 2, section 3.3, sets them for triple DES.
    pub(crate) const NARROW_BLOCKS: Self = Self { blocks_a_key: 1 << 20, bytes_a_nonce: u64::MAX };
    /// The limits of ciphers with 128-bit blocks: two of that many blocks are equal with a probability of about
    /// 2^-33.
    pub(crate) const WIDE_BLOCKS: Self = Self { blocks_a_key: 1 << 48, bytes_a_nonce: u64::MAX };
}
