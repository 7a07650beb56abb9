//! Operations on a job's bytes, in terms of the transforms' catalogue.
//!
//! Guarantees: this module provides every length that a caller must know.

use sealane_transform::{Aead, AeadLengths, BlockCipher, Cipher, Digest};

/// A function that makes tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mac {
    /// A digest or MAC of the catalogue. A digest without a key only detects accidental changes.
    Digest(Digest),
    /// BLAKE3 in keyed mode.
    KeyedBlake3,
    /// Instead of a tag, the chaining value of one subtree of BLAKE3's tree, written in both directions:
    /// [`crate::Work::cut_tree`] makes such jobs of a long message. [`crate::Job::iv`] starts with the number of the
    /// subtree's first leaf, 8 bytes, little-endian.
    Subtree {
        /// Whether the tree is that of keyed mode.
        is_keyed: bool,
    },
}

impl Mac {
    /// Returns the length of an untruncated tag in bytes.
    pub const fn output_bytes(self) -> usize {
        match self {
            Self::Digest(digest) => digest.output_bytes(),
            Self::KeyedBlake3 | Self::Subtree { .. } => 32,
        }
    }

    /// Returns the length of the key in bytes.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Digest(digest) => digest.facts().key_bytes.usual,
            Self::KeyedBlake3 | Self::Subtree { is_keyed: true } => 32,
            Self::Subtree { is_keyed: false } => 0,
        }
    }

    /// Returns the maximum length of a message in bytes.
    pub const fn message_bytes_max(self) -> usize {
        match self {
            Self::Digest(digest) => {
                let bytes = digest.facts().limits.bytes_a_nonce;
                if bytes < usize::MAX as u64 { bytes as usize } else { usize::MAX }
            }
            Self::KeyedBlake3 | Self::Subtree { .. } => usize::MAX,
        }
    }

    /// Returns the function that computes the subtrees of its tree, if it has one.
    pub const fn subtree(self) -> Option<Self> {
        match self {
            Self::Digest(Digest::Blake3) => Some(Self::Subtree { is_keyed: false }),
            Self::KeyedBlake3 => Some(Self::Subtree { is_keyed: true }),
            Self::Digest(_) | Self::Subtree { .. } => None,
        }
    }
}

/// The operations of a session on its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// No operation.
    Null,
    /// The body is enciphered; nothing is authenticated.
    Cipher(Cipher),
    /// The body is enciphered and authenticated with `clear`. With an empty body and GCM, this is GMAC.
    Aead(Aead),
    /// The same, with nonces or tags that are shorter than usual, as IPsec's CCM has them (RFC 4309).
    ShortAead {
        /// Only AES-CCM has such lengths.
        aead: Aead,
        /// A session is refused unless [`Aead::takes`] them.
        lengths: AeadLengths,
    },
    /// All bytes are authenticated; none is enciphered.
    Mac {
        /// The function that makes the tag.
        mac: Mac,
        /// The length of the tag, which may be truncated.
        tag_bytes: u8,
    },
    /// The body is enciphered, then all bytes are authenticated in the form in which they are sent; a job is opened
    /// only if it is genuine.
    EncryptThenMac {
        /// The cipher of the body.
        cipher: Cipher,
        /// The function that makes the tag.
        mac: Mac,
        /// The length of the tag, which may be truncated.
        tag_bytes: u8,
    },
    /// As [`Self::EncryptThenMac`] in CBC mode, in chains that do not depend on one another: few long bodies then
    /// fill all ways of a kernel. Chain *n* begins with the number [`crate::Job::iv`]` + n` (big-endian, one block), enciphered
    /// under a separate key, so that nobody can predict it (NIST SP 800-38A, appendix C).
    ChainsThenMac {
        /// The cipher of the body.
        cipher: BlockCipher,
        /// The length of all chains but the last in bytes, in whole blocks.
        chain_bytes: u16,
        /// The function that makes the tag.
        mac: Mac,
        /// The length of the tag, which may be truncated.
        tag_bytes: u8,
    },
}

impl Protection {
    /// Returns the length of a session's key material in bytes: [`Self::cipher_key_bytes`], then the MAC's key.
    pub const fn key_bytes(self) -> usize {
        let mac_bytes = match self.mac() {
            Some(mac) => mac.key_bytes(),
            None => 0,
        };
        self.cipher_key_bytes() + mac_bytes
    }

    /// Returns the length of the key material of the cipher or AEAD in bytes; with chains, this is the data's key,
    /// then the IVs' key.
    pub const fn cipher_key_bytes(self) -> usize {
        match self {
            Self::Null | Self::Mac { .. } => 0,
            Self::Cipher(cipher) | Self::EncryptThenMac { cipher, .. } => cipher.facts().key_bytes.usual,
            Self::Aead(aead) | Self::ShortAead { aead, .. } => aead.key_bytes(),
            Self::ChainsThenMac { cipher, .. } => 2 * cipher.facts().key_bytes.usual,
        }
    }

    /// Returns the AEAD and its lengths, if it is one that protects.
    pub const fn aead(self) -> Option<(Aead, AeadLengths)> {
        match self {
            Self::Aead(aead) => Some((aead, AeadLengths::USUAL)),
            Self::ShortAead { aead, lengths } => Some((aead, lengths)),
            Self::Null
            | Self::Cipher(_)
            | Self::Mac { .. }
            | Self::EncryptThenMac { .. }
            | Self::ChainsThenMac { .. } => None,
        }
    }

    /// Returns the function that makes tags, unless that is an AEAD.
    pub const fn mac(self) -> Option<Mac> {
        match self {
            Self::Null | Self::Cipher(_) | Self::Aead(_) | Self::ShortAead { .. } => None,
            Self::Mac { mac, .. } | Self::EncryptThenMac { mac, .. } | Self::ChainsThenMac { mac, .. } => {
                Some(mac)
            }
        }
    }

    /// Returns whether bodies are enciphered.
    pub const fn encrypts(self) -> bool {
        match self {
            Self::Null | Self::Mac { .. } => false,
            Self::Cipher(_)
            | Self::Aead(_)
            | Self::ShortAead { .. }
            | Self::EncryptThenMac { .. }
            | Self::ChainsThenMac { .. } => true,
        }
    }

    /// Returns the number of bytes of [`crate::Job::iv`] that are used.
    pub const fn iv_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Cipher(cipher) | Self::EncryptThenMac { cipher, .. } => cipher.facts().iv_bytes,
            Self::Aead(aead) => aead.facts().iv_bytes,
            Self::ShortAead { lengths, .. } => lengths.nonce_bytes as usize,
            Self::Mac { mac: Mac::Digest(digest), .. } => digest.facts().iv_bytes,
            Self::Mac { mac: Mac::Subtree { .. }, .. } => 8,
            Self::Mac { .. } => 0,
            Self::ChainsThenMac { cipher, .. } => cipher.block_bytes(),
        }
    }

    /// Returns the length of [`crate::Job::tag`] in bytes.
    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::Null | Self::Cipher(_) => 0,
            Self::Aead(aead) => aead.facts().output_bytes,
            Self::ShortAead { lengths, .. } => lengths.tag_bytes as usize,
            Self::Mac { tag_bytes, .. }
            | Self::EncryptThenMac { tag_bytes, .. }
            | Self::ChainsThenMac { tag_bytes, .. } => tag_bytes as usize,
        }
    }

    /// Returns the number of bytes of which the length of [`crate::Job::body`] must be a multiple.
    pub const fn granule_bytes(self) -> usize {
        match self {
            Self::Cipher(cipher) | Self::EncryptThenMac { cipher, .. } => cipher.granule_bytes(),
            Self::ChainsThenMac { cipher, .. } => cipher.block_bytes(),
            Self::Null | Self::Aead(_) | Self::ShortAead { .. } | Self::Mac { .. } => 1,
        }
    }
}
