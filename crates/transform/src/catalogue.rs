//! The catalogue: every algorithm by name, with its facts as data.
//!
//! A name parses to exactly one [`Algorithm`] and prints back the same; [`Algorithm::all`] lists them all. `list.rs`
//! lists the algorithms, and their descriptors have the facts of each. The facts are those of NPCryptBench's Table II
//! (block, rounds, key, table bytes), extended by the facts that a caller needs to use the algorithm (IV, output,
//! chaining, byte order) and to judge it (status, source).

use core::fmt;
use core::str::FromStr;

use crate::asymmetric::{AsymmetricDescriptor, AsymmetricFacts, AsymmetricStep};
use crate::descriptor::{AeadDescriptor, CipherDescriptor, DigestDescriptor, PeerNames, Promise};
use crate::job::Direction;

/// Defines an enum of a list's algorithms.
macro_rules! enumerate {
    (
        $(#[$attribute:meta])*
        $name:ident: $type:ty {
            $($folder:ident { $($variant:ident = $descriptor:ident $(($key:ident))? $doc:literal),* })*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $( #[doc = $doc] $variant, )* )*
        }

        impl $name {
            /// All of them, in the order of the list.
            pub const ALL: [Self; [$( $( Self::$variant, )* )*].len()] = [$( $( Self::$variant, )* )*];

            pub(crate) const fn descriptor(self) -> &'static $type {
                match self {
                    $( $( Self::$variant => &crate::$folder::$descriptor, )* )*
                }
            }

            /// Returns the catalogue's name; for a block cipher, without a mode.
            pub const fn name(self) -> &'static str {
                self.descriptor().name
            }

            /// Returns its names in other libraries.
            pub const fn peers(self) -> PeerNames {
                self.descriptor().peers
            }

            /// Returns instructions that its kernels promise to contain.
            pub const fn promises(self) -> &'static [Promise] {
                self.descriptor().promises
            }
        }
    };
}

macro_rules! enumerate_digests {
    (digest { $($list:tt)* }) => {
        enumerate! {
            /// Digests and message authentication codes.
            Digest: DigestDescriptor { $($list)* }
        }
    };
}
digests!(enumerate_digests);

macro_rules! enumerate_aeads {
    (aead { $($list:tt)* }) => {
        enumerate! {
            /// Authenticated encryption.
            Aead: AeadDescriptor { $($list)* }
        }
    };
}
aeads!(enumerate_aeads);

macro_rules! enumerate_asymmetrics {
    (asymmetric { $($folder:ident($name:ident) { $($list:tt)* })* }) => {
        enumerate! {
            /// Public-key algorithms.
            Asymmetric: AsymmetricDescriptor { $($folder { $($list)* })* }
        }
    };
}
asymmetrics!(enumerate_asymmetrics);

macro_rules! enumerate_ciphers {
    (
        block { $($list:tt)* }
        stream { $($folder:ident { $($variant:ident = $descriptor:ident($key:ident) $doc:literal),* })* }
    ) => {
        enumerate! {
            /// Block ciphers.
            BlockCipher: CipherDescriptor { $($list)* }
        }

        /// Ciphers without authentication.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Cipher {
            /// Copies.
            Null,
            /// A block cipher in a mode.
            Block(BlockCipher, Mode),
            $( $( #[doc = $doc] $variant, )* )*
        }

        impl Cipher {
            /// All algorithms that are not a block cipher in a mode.
            const STREAMS: &'static [Self] = &[Self::Null, $( $( Self::$variant, )* )*];

            pub(crate) const fn descriptor(self) -> &'static CipherDescriptor {
                match self {
                    Self::Null => &crate::copy::COPY,
                    Self::Block(cipher, _) => cipher.descriptor(),
                    $( $( Self::$variant => &crate::$folder::$descriptor, )* )*
                }
            }
        }
    };
}
ciphers!(enumerate_ciphers);

/// A mode of a block cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each block alone.
    Ecb,
    /// Cipher block chaining; the length must be a multiple of the block.
    Cbc,
    /// Counter mode: the IV is the first counter block, counted big-endian over the whole block.
    Ctr,
}

/// Authentication without encryption, by an AEAD without data to encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gmac {
    /// AES-128-GMAC, SP 800-38D: AES-128-GCM with the message as associated data.
    Aes128,
    /// AES-256-GMAC.
    Aes256,
}

/// Any algorithm of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A digest or MAC.
    Digest(Digest),
    /// A cipher.
    Cipher(Cipher),
    /// An AEAD.
    Aead(Aead),
    /// A MAC that needs a nonce.
    Gmac(Gmac),
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

impl Digest {
    /// Returns the length of the digest or tag in bytes.
    pub const fn output_bytes(self) -> usize {
        self.facts().output_bytes
    }

    /// Facts.
    pub const fn facts(self) -> Facts {
        self.descriptor().facts
    }
}

impl BlockCipher {
    /// Returns the length of a block in bytes.
    pub const fn block_bytes(self) -> usize {
        self.facts().block_bytes
    }

    /// Returns the facts of the bare cipher; `iv_bytes` and `chained` depend on the mode and are those of CBC.
    pub const fn facts(self) -> Facts {
        self.descriptor().facts
    }
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Ecb, Self::Cbc, Self::Ctr];

    /// The mode that a block cipher's bare name implies.
    const USUAL: Self = Self::Cbc;

    /// Returns the catalogue's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ecb => "ecb",
            Self::Cbc => "cbc",
            Self::Ctr => "ctr",
        }
    }

    /// Returns whether no block needs the result of another one, so that a message can be cut.
    pub(crate) const fn can_cut(self, direction: Direction) -> bool {
        !matches!((self, direction), (Self::Cbc, Direction::Encrypt))
    }
}

impl Cipher {
    /// Returns all ciphers; the modes of a block cipher are adjacent.
    pub fn all() -> impl Iterator<Item = Self> {
        let modes = |cipher| Mode::ALL.into_iter().map(move |mode| Self::Block(cipher, mode));
        Self::STREAMS.iter().copied().chain(BlockCipher::ALL.into_iter().flat_map(modes))
    }

    /// Returns a block cipher's bare name, if this is the mode that the name implies.
    pub const fn alias(self) -> Option<&'static str> {
        match self {
            Self::Block(cipher, Mode::USUAL) => Some(cipher.name()),
            _ => None,
        }
    }

    /// Returns the facts, with the mode's IV and chaining.
    pub const fn facts(self) -> Facts {
        let facts = self.descriptor().facts;
        match self {
            Self::Block(_, Mode::Ecb) => Facts { iv_bytes: 0, chained: false, ..facts },
            Self::Block(_, Mode::Ctr) => Facts { chained: false, ..facts },
            _ => facts,
        }
    }

    /// Returns the number of bytes of which a job's length must be a multiple; a power of two.
    pub const fn granule_bytes(self) -> usize {
        match self {
            Self::Block(cipher, Mode::Ecb | Mode::Cbc) => cipher.block_bytes(),
            _ => 1,
        }
    }
}

impl Aead {
    /// Returns the usual length of the key in bytes.
    pub const fn key_bytes(self) -> usize {
        self.facts().key_bytes.usual
    }

    /// Facts.
    pub const fn facts(self) -> Facts {
        self.descriptor().facts
    }
}

impl Asymmetric {
    /// Facts.
    pub const fn facts(self) -> AsymmetricFacts {
        self.descriptor().facts
    }

    /// Returns its kinds of operations.
    pub const fn steps(self) -> &'static [AsymmetricStep] {
        self.descriptor().steps
    }
}

impl Gmac {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Aes128, Self::Aes256];

    /// Returns the catalogue's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "aes-128-gmac",
            Self::Aes256 => "aes-256-gmac",
        }
    }

    /// Returns the AEAD whose kernels compute it, with the message as [`crate::AeadJob::aad`] and no data.
    pub const fn aead(self) -> Aead {
        match self {
            Self::Aes128 => Aead::Aes128Gcm,
            Self::Aes256 => Aead::Aes256Gcm,
        }
    }
}

impl Algorithm {
    /// Returns the whole catalogue, in a stable order.
    pub fn all() -> impl Iterator<Item = Self> {
        Digest::ALL
            .into_iter()
            .map(Self::Digest)
            .chain(Cipher::all().map(Self::Cipher))
            .chain(Aead::ALL.into_iter().map(Self::Aead))
            .chain(Gmac::ALL.into_iter().map(Self::Gmac))
    }

    /// Facts.
    pub const fn facts(self) -> Facts {
        match self {
            Self::Digest(digest) => digest.facts(),
            Self::Cipher(cipher) => cipher.facts(),
            Self::Aead(aead) => aead.facts(),
            Self::Gmac(gmac) => gmac.aead().facts(),
        }
    }

    /// Returns its names in other libraries.
    pub const fn peers(self) -> PeerNames {
        match self {
            Self::Digest(digest) => digest.peers(),
            Self::Cipher(cipher) => cipher.descriptor().peers,
            Self::Aead(aead) => aead.peers(),
            Self::Gmac(gmac) => gmac.aead().peers(),
        }
    }

    /// Returns instructions that its kernels promise to contain.
    pub const fn promises(self) -> &'static [Promise] {
        match self {
            Self::Digest(digest) => digest.promises(),
            Self::Cipher(cipher) => cipher.descriptor().promises,
            Self::Aead(aead) => aead.promises(),
            Self::Gmac(gmac) => gmac.aead().promises(),
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.descriptor().name)?;
        if let Self::Block(_, mode) = self { write!(f, "-{}", mode.name()) } else { Ok(()) }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest(digest) => f.write_str(digest.name()),
            Self::Cipher(cipher) => cipher.fmt(f),
            Self::Aead(aead) => f.write_str(aead.name()),
            Self::Gmac(gmac) => f.write_str(gmac.name()),
        }
    }
}

/// The error of a name that is not in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such algorithm")]
pub struct UnknownAlgorithm;

impl FromStr for Cipher {
    type Err = UnknownAlgorithm;

    /// Finds an algorithm by its name, or by a block cipher's alias.
    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        let is_it = |cipher: &Self| cipher.alias() == Some(name) || cipher.to_string() == name;
        Self::all().find(is_it).ok_or(UnknownAlgorithm)
    }
}

impl fmt::Display for Asymmetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Asymmetric {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name).ok_or(UnknownAlgorithm)
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        // There are some forty entries, parsed once per program: with a scan, parsing is the inverse of printing by
        // construction.
        let named = Self::all().find(|algorithm| algorithm.to_string() == name);
        named.or_else(|| name.parse().ok().map(Self::Cipher)).ok_or(UnknownAlgorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for algorithm in Algorithm::all() {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        assert_eq!("rot13".parse::<Algorithm>(), Err(UnknownAlgorithm));
        // The bare name of a block cipher means CBC.
        assert_eq!("3des".parse(), Ok(Algorithm::Cipher(Cipher::Block(BlockCipher::TripleDes, Mode::Cbc))));
        assert_eq!(Cipher::Rc4.alias(), None);
    }

    #[test]
    fn granules_are_powers_of_two() {
        for cipher in Cipher::all() {
            assert!(cipher.granule_bytes().is_power_of_two(), "{cipher}");
        }
    }

    #[test]
    fn table_ii_of_npcryptbench() {
        let facts = |name: &str| name.parse::<Algorithm>().map(Algorithm::facts).unwrap();
        let rows = [
            ("aes-128-ecb", 16, 10, 16),
            ("des-ecb", 8, 16, 8),
            ("rc5-r16-ecb", 8, 16, 16),
            ("rc6-ecb", 16, 20, 16),
            ("blowfish-ecb", 8, 16, 16),
            ("idea-ecb", 8, 9, 16),
        ];
        for (name, block, rounds, usual) in rows {
            let facts = facts(name);
            assert_eq!(
                (facts.block_bytes, facts.rounds, facts.key_bytes.usual),
                (block, rounds, usual),
                "{name}"
            );
        }
        assert_eq!(facts("md5").rounds, 64);
        assert_eq!(facts("sha1").rounds, 80);
        assert_eq!(facts("seal3").key_bytes.usual, 20);
    }
}
