//! The catalogue: every algorithm by name, with its facts as data.
//!
//! A name parses to exactly one [`Algorithm`] and prints back the same; [`Algorithm::all`] lists them all.
//! The facts are those of NPCryptBench's Table II (block, rounds, key, table bytes), widened by what a caller
//! must know to use the algorithm (IV, output, chaining, byte order) and to judge it (status, source).

use core::fmt;
use core::str::FromStr;

/// Digests and message authentication codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// Touches nothing: the cost of a job that does no work.
    Null,
    /// Reads every byte once (XOR of all 64-bit words): the cost of touching the data.
    Touch,
    /// The Internet checksum, RFC 1071.
    InternetChecksum,
    /// MD5, RFC 1321.
    Md5,
    /// SHA-1, FIPS 180-4.
    Sha1,
    /// SHA-256, FIPS 180-4.
    Sha256,
    /// BLAKE3, unkeyed.
    Blake3,
    /// Our reconstruction of an alternate hash with four independent MD5 chains; for measurement only.
    AhaI,
    /// HMAC with MD5, RFC 2104.
    HmacMd5,
    /// HMAC with SHA-1, RFC 2104.
    HmacSha1,
    /// HMAC with SHA-256, RFC 4868.
    HmacSha256,
    /// Rogaway's bucket hash with 140 buckets, finished by Poly1305.
    Bh140,
}

/// Block ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockCipher {
    /// DES, FIPS 46-3.
    Des,
    /// Triple DES with three keys (encrypt, decrypt, encrypt), FIPS 46-3.
    TripleDes,
    /// AES with a 128-bit key, FIPS 197.
    Aes128,
    /// AES with a 192-bit key.
    Aes192,
    /// AES with a 256-bit key.
    Aes256,
    /// RC5-32/12/16, RFC 2040.
    Rc5,
    /// RC5-32/16/16, the rounds of NPCryptBench's table.
    Rc5R16,
    /// RC6-32/20, the AES candidate.
    Rc6,
    /// Blowfish, Schneier 1993.
    Blowfish,
    /// IDEA, Lai and Massey 1991.
    Idea,
}

/// How a block cipher is chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each block alone.
    Ecb,
    /// Cipher block chaining; the length must be a multiple of the block.
    Cbc,
    /// Counter mode: the IV is the first counter block, counted big-endian over the whole block.
    Ctr,
}

/// Ciphers without authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// Copies.
    Null,
    /// A block cipher in a mode.
    Block(BlockCipher, Mode),
    /// RC4: the key's stream from its start.
    Rc4,
    /// SEAL 3.0: the stream of the index in the first four IV bytes (big-endian), big-endian words.
    Seal3,
}

/// Authenticated encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-128-GCM, SP 800-38D, 96-bit nonce, 128-bit tag.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305, RFC 8439.
    ChaCha20Poly1305,
}

/// Authentication without encryption, by an AEAD that is given nothing to encrypt.
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

/// How far an algorithm may be trusted today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// In use and unbroken.
    Current,
    /// Unbroken in practice but outdated (64-bit blocks, no analysis in years).
    Legacy,
    /// Broken: refused outside measurement and interoperation.
    Broken,
    /// Not a cryptographic protection at all.
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

/// Lengths of key that an algorithm accepts, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyBytes {
    /// Shortest.
    pub min: usize,
    /// Longest.
    pub max: usize,
    /// What we use when free to choose.
    pub usual: usize,
}

/// What is known of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes per block of the primitive; 1 for byte streams.
    pub block_bytes: usize,
    /// Rounds (steps for hashes) per block; 0 where the notion does not apply.
    pub rounds: usize,
    /// Key lengths.
    pub key_bytes: KeyBytes,
    /// IV or nonce bytes a job carries.
    pub iv_bytes: usize,
    /// Digest or tag bytes; 0 for ciphers.
    pub output_bytes: usize,
    /// Constant or key-dependent tables in the reference form, bytes.
    pub table_bytes: usize,
    /// What one association keeps hot: expanded key and tables, bytes.
    pub working_set_bytes: usize,
    /// Whether a message's blocks depend on each other when sealing.
    pub chained: bool,
    /// Byte order of the primitive.
    pub byte_order: ByteOrder,
    /// Standing today.
    pub standing: Standing,
    /// The definition.
    pub source: &'static str,
}

const NO_KEY: KeyBytes = KeyBytes { min: 0, max: 0, usual: 0 };
const fn key(bytes: usize) -> KeyBytes {
    KeyBytes { min: bytes, max: bytes, usual: bytes }
}

impl Digest {
    /// All digests and MACs.
    pub const ALL: [Self; 12] = [
        Self::Null,
        Self::Touch,
        Self::InternetChecksum,
        Self::Md5,
        Self::Sha1,
        Self::Sha256,
        Self::Blake3,
        Self::AhaI,
        Self::HmacMd5,
        Self::HmacSha1,
        Self::HmacSha256,
        Self::Bh140,
    ];

    /// The catalogue's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Touch => "touch",
            Self::InternetChecksum => "inet",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Blake3 => "blake3",
            Self::AhaI => "aha-i",
            Self::HmacMd5 => "hmac-md5",
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha256 => "hmac-sha256",
            Self::Bh140 => "bh-140",
        }
    }

    /// Bytes of digest or tag.
    pub const fn output_bytes(self) -> usize {
        self.facts().output_bytes
    }

    /// Facts.
    pub const fn facts(self) -> Facts {
        match self {
            Self::Null => plain_digest(1, 0, ByteOrder::Bytes, "no work"),
            Self::Touch => plain_digest(8, 8, ByteOrder::Little, "XOR of all 64-bit words"),
            Self::InternetChecksum => plain_digest(2, 2, ByteOrder::Big, "RFC 1071"),
            Self::Md5 => hash_facts(64, 16, ByteOrder::Little, Standing::Broken, "RFC 1321"),
            Self::Sha1 => hash_facts(80, 20, ByteOrder::Big, Standing::Broken, "FIPS 180-4"),
            Self::Sha256 => hash_facts(64, 32, ByteOrder::Big, Standing::Current, "FIPS 180-4"),
            // Blocks are chained within a chunk of 1,024 bytes; chunks are not.
            Self::Blake3 => hash_facts(7, 32, ByteOrder::Little, Standing::Current, "BLAKE3, 2020"),
            Self::AhaI => hash_facts(
                16,
                16,
                ByteOrder::Little,
                Standing::Benchmark,
                "our interpretation; the original definition was not found",
            ),
            Self::HmacMd5 => keyed(Self::Md5.facts(), Standing::Legacy, "RFC 2104, RFC 2202"),
            Self::HmacSha1 => keyed(Self::Sha1.facts(), Standing::Legacy, "RFC 2104, RFC 2202"),
            Self::HmacSha256 => keyed(Self::Sha256.facts(), Standing::Current, "RFC 2104, RFC 4868"),
            Self::Bh140 => Facts {
                block_bytes: 4,
                rounds: 1,
                key_bytes: key(48),
                iv_bytes: 12,
                output_bytes: 16,
                table_bytes: 3 * crate::BUCKET_WORDS,
                working_set_bytes: 3 * crate::BUCKET_WORDS + 560,
                chained: false,
                byte_order: ByteOrder::Little,
                standing: Standing::Legacy,
                source: "Rogaway, J. Cryptology 12 (1999) 91-115; parameters are this project's",
            },
        }
    }
}

const fn plain_digest(
    block_bytes: usize,
    output_bytes: usize,
    byte_order: ByteOrder,
    source: &'static str,
) -> Facts {
    Facts {
        block_bytes,
        rounds: 0,
        key_bytes: NO_KEY,
        iv_bytes: 0,
        output_bytes,
        table_bytes: 0,
        working_set_bytes: 0,
        chained: false,
        byte_order,
        standing: Standing::Benchmark,
        source,
    }
}

const fn hash_facts(
    rounds: usize,
    output_bytes: usize,
    byte_order: ByteOrder,
    standing: Standing,
    source: &'static str,
) -> Facts {
    Facts {
        block_bytes: 64,
        rounds,
        key_bytes: NO_KEY,
        iv_bytes: 0,
        output_bytes,
        table_bytes: 0,
        working_set_bytes: 64 + output_bytes,
        chained: true,
        byte_order,
        standing,
        source,
    }
}

const fn keyed(hash: Facts, standing: Standing, source: &'static str) -> Facts {
    Facts {
        key_bytes: KeyBytes { min: 0, max: usize::MAX, usual: hash.output_bytes },
        working_set_bytes: hash.working_set_bytes + 2 * hash.output_bytes,
        standing,
        source,
        ..hash
    }
}

impl BlockCipher {
    /// All block ciphers.
    pub const ALL: [Self; 10] = [
        Self::Des,
        Self::TripleDes,
        Self::Aes128,
        Self::Aes192,
        Self::Aes256,
        Self::Rc5,
        Self::Rc5R16,
        Self::Rc6,
        Self::Blowfish,
        Self::Idea,
    ];

    /// The catalogue's name, without a mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Des => "des",
            Self::TripleDes => "3des",
            Self::Aes128 => "aes-128",
            Self::Aes192 => "aes-192",
            Self::Aes256 => "aes-256",
            Self::Rc5 => "rc5",
            Self::Rc5R16 => "rc5-r16",
            Self::Rc6 => "rc6",
            Self::Blowfish => "blowfish",
            Self::Idea => "idea",
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::Aes128 | Self::Aes192 | Self::Aes256 | Self::Rc6 => 16,
            _ => 8,
        }
    }

    /// Facts of the bare cipher; `iv_bytes` and `chained` depend on the mode and are those of CBC.
    pub const fn facts(self) -> Facts {
        let (rounds, key_bytes, table_bytes, schedule, byte_order, standing, source) = match self {
            Self::Des => (16, key(8), 512, 128, ByteOrder::Big, Standing::Broken, "FIPS 46-3"),
            Self::TripleDes => (48, key(24), 512, 384, ByteOrder::Big, Standing::Legacy, "FIPS 46-3"),
            Self::Aes128 => (10, key(16), 512, 176, ByteOrder::Bytes, Standing::Current, "FIPS 197"),
            Self::Aes192 => (12, key(24), 512, 208, ByteOrder::Bytes, Standing::Current, "FIPS 197"),
            Self::Aes256 => (14, key(32), 512, 240, ByteOrder::Bytes, Standing::Current, "FIPS 197"),
            Self::Rc5 => (
                12,
                KeyBytes { min: 0, max: 255, usual: 16 },
                0,
                104,
                ByteOrder::Little,
                Standing::Legacy,
                "RFC 2040",
            ),
            Self::Rc5R16 => (
                16,
                KeyBytes { min: 0, max: 255, usual: 16 },
                0,
                136,
                ByteOrder::Little,
                Standing::Legacy,
                "Rivest 1994",
            ),
            Self::Rc6 => (
                20,
                KeyBytes { min: 0, max: 255, usual: 16 },
                0,
                176,
                ByteOrder::Little,
                Standing::Legacy,
                "Rivest, Robshaw, Sidney, Yin 1998",
            ),
            Self::Blowfish => (
                16,
                KeyBytes { min: 4, max: 56, usual: 16 },
                4096,
                4168,
                ByteOrder::Big,
                Standing::Legacy,
                "Schneier 1993",
            ),
            Self::Idea => (9, key(16), 0, 104, ByteOrder::Big, Standing::Legacy, "Lai 1992"),
        };
        Facts {
            block_bytes: self.block_bytes(),
            rounds,
            key_bytes,
            iv_bytes: self.block_bytes(),
            output_bytes: 0,
            table_bytes,
            working_set_bytes: table_bytes + schedule,
            chained: true,
            byte_order,
            standing,
            source,
        }
    }
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Ecb, Self::Cbc, Self::Ctr];

    /// The catalogue's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ecb => "ecb",
            Self::Cbc => "cbc",
            Self::Ctr => "ctr",
        }
    }
}

impl Cipher {
    /// Facts, with the mode's IV and chaining.
    pub const fn facts(self) -> Facts {
        match self {
            Self::Null => plain_digest(1, 0, ByteOrder::Bytes, "copies"),
            Self::Block(cipher, mode) => Facts {
                iv_bytes: match mode {
                    Mode::Ecb => 0,
                    Mode::Cbc | Mode::Ctr => cipher.block_bytes(),
                },
                chained: matches!(mode, Mode::Cbc),
                ..cipher.facts()
            },
            Self::Rc4 => Facts {
                block_bytes: 1,
                rounds: 1,
                key_bytes: KeyBytes { min: 1, max: 256, usual: 16 },
                iv_bytes: 0,
                output_bytes: 0,
                table_bytes: 256,
                working_set_bytes: 1024,
                chained: true,
                byte_order: ByteOrder::Bytes,
                standing: Standing::Broken,
                source: "Rivest 1987; RFC 6229 (vectors)",
            },
            Self::Seal3 => Facts {
                block_bytes: 16,
                rounds: 8,
                key_bytes: key(20),
                iv_bytes: 4,
                output_bytes: 0,
                table_bytes: 3072 + 64,
                working_set_bytes: 3072 + 1024,
                chained: true,
                byte_order: ByteOrder::Big,
                standing: Standing::Legacy,
                source: "Rogaway and Coppersmith, J. Cryptology 11 (1998) 273-287",
            },
        }
    }

    /// Bytes to which a job's length must be a multiple.
    pub const fn granule_bytes(self) -> usize {
        match self {
            Self::Block(cipher, Mode::Ecb | Mode::Cbc) => cipher.block_bytes(),
            _ => 1,
        }
    }
}

impl Aead {
    /// All AEADs.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The catalogue's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// Bytes of key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Facts.
    pub const fn facts(self) -> Facts {
        let (block_bytes, rounds, table_bytes, schedule, source) = match self {
            // Beside the round keys the powers of the hash key, which all but short messages go through.
            Self::Aes128Gcm => (16, 10, 512, 176 + crate::gcm::POWERS_BYTES, "SP 800-38D"),
            Self::Aes256Gcm => (16, 14, 512, 240 + crate::gcm::POWERS_BYTES, "SP 800-38D"),
            Self::ChaCha20Poly1305 => (64, 20, 0, 64, "RFC 8439"),
        };
        Facts {
            block_bytes,
            rounds,
            key_bytes: key(self.key_bytes()),
            iv_bytes: 12,
            output_bytes: 16,
            table_bytes,
            working_set_bytes: table_bytes + schedule,
            chained: false,
            byte_order: if block_bytes == 64 { ByteOrder::Little } else { ByteOrder::Bytes },
            standing: Standing::Current,
            source,
        }
    }
}

impl Gmac {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Aes128, Self::Aes256];

    /// The catalogue's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "aes-128-gmac",
            Self::Aes256 => "aes-256-gmac",
        }
    }

    /// The AEAD whose kernels run it, with the message as [`crate::AeadJob::aad`] and no data.
    pub const fn aead(self) -> Aead {
        match self {
            Self::Aes128 => Aead::Aes128Gcm,
            Self::Aes256 => Aead::Aes256Gcm,
        }
    }
}

impl Algorithm {
    /// The whole catalogue, in a stable order.
    pub fn all() -> impl Iterator<Item = Self> {
        let block = BlockCipher::ALL
            .into_iter()
            .flat_map(|cipher| Mode::ALL.into_iter().map(move |mode| Cipher::Block(cipher, mode)));
        Digest::ALL
            .into_iter()
            .map(Self::Digest)
            .chain([Cipher::Null, Cipher::Rc4, Cipher::Seal3].into_iter().chain(block).map(Self::Cipher))
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
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("copy"),
            Self::Block(cipher, mode) => write!(f, "{}-{}", cipher.name(), mode.name()),
            Self::Rc4 => f.write_str("rc4"),
            Self::Seal3 => f.write_str("seal3"),
        }
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

/// A name that is not in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such algorithm")]
pub struct UnknownAlgorithm;

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        // Forty-odd entries, parsed once per program: a scan is the table's own proof of being the inverse.
        Self::all().find(|algorithm| algorithm.to_string() == name).ok_or(UnknownAlgorithm)
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
