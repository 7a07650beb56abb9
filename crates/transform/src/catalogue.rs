//! The catalogue: every algorithm by name, with its facts as data.
//!
//! A name parses to exactly one [`Algorithm`] and prints back the same; [`Algorithm::all`] lists them all. `list.rs`
//! lists the algorithms, and their descriptors have the facts of each. The facts are those of NPCryptBench's Table II
//! (block, rounds, key, table bytes), extended by the facts that a caller needs to use the algorithm (IV, output,
//! chaining, byte order) and to judge it (status, source).

use core::fmt;
use core::str::FromStr;

use crate::aead::AeadLengths;
use crate::algorithm::{Aead, Algorithm, Asymmetric, BlockCipher, Cipher, Digest, Gmac};
use crate::asymmetric::{AsymmetricDescriptor, AsymmetricFacts, AsymmetricStep};
use crate::descriptor::{AeadDescriptor, CipherDescriptor, DigestDescriptor, PeerNames, Promise};
use crate::facts::Facts;
use crate::modes::Mode;

/// Leads from an enum of a list's algorithms to their descriptors.
macro_rules! describe {
    ($name:ident: $type:ty { $($folder:ident { $($variant:ident = $descriptor:ident $(($key:ident))? $doc:literal),* })* }) => {
        impl $name {
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

macro_rules! describe_digests {
    (digest { $($list:tt)* }) => {
        describe! { Digest: DigestDescriptor { $($list)* } }
    };
}
digests!(describe_digests);

macro_rules! describe_aeads {
    (aead { $($folder:ident($name:ident: $key:ident) { $($list:tt)* })* }) => {
        describe! { Aead: AeadDescriptor { $($folder { $($list)* })* } }
    };
}
aeads!(describe_aeads);

macro_rules! describe_asymmetrics {
    (asymmetric { $($folder:ident($name:ident) { $($list:tt)* })* }) => {
        describe! { Asymmetric: AsymmetricDescriptor { $($folder { $($list)* })* } }
    };
}
asymmetrics!(describe_asymmetrics);

macro_rules! describe_ciphers {
    (
        block { $($list:tt)* }
        stream { $($folder:ident { $($variant:ident = $descriptor:ident($key:ident) $doc:literal),* })* }
    ) => {
        describe! { BlockCipher: CipherDescriptor { $($list)* } }

        impl Cipher {
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
ciphers!(describe_ciphers);

impl Digest {
    /// Returns the length of the digest or tag in bytes.
    pub const fn output_bytes(self) -> usize {
        self.facts().output_bytes
    }

    /// Returns lengths, limits, standing and source.
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
    /// Returns whether it has nonces and tags of these lengths.
    pub fn takes(self, lengths: AeadLengths) -> bool {
        (self.descriptor().takes)(lengths)
    }

    /// Returns whether aws-lc-rs has it too, so that there is a choice of who runs it.
    pub const fn is_in_library(self) -> bool {
        self.peers().aws_lc.is_some()
    }

    /// Returns the usual length of the key in bytes.
    pub const fn key_bytes(self) -> usize {
        self.facts().key_bytes.usual
    }

    /// Returns lengths, limits, standing and source.
    pub const fn facts(self) -> Facts {
        self.descriptor().facts
    }
}

impl Asymmetric {
    /// Returns strength, lengths, standing and source.
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

    /// Returns lengths, limits, standing and source.
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
