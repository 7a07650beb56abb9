//! What can be done to a job's bytes, in terms of the transforms' catalogue.
//!
//! Guarantees: every length that a caller must know is asked here.

use sealane_transform::{Aead, BlockCipher, Cipher, Digest};

/// What makes tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mac {
    /// A digest or MAC of the catalogue. One without a key only shows that nothing changed by accident.
    Digest(Digest),
    /// BLAKE3 in keyed mode.
    KeyedBlake3,
    /// No tag, but the chaining value of one subtree of BLAKE3's tree, written whichever way a job runs: what
    /// [`crate::Work::cut_tree`] makes of a long message. [`crate::Job::iv`] starts with the number of the subtree's first
    /// leaf, 8 bytes, little-endian.
    Subtree {
        /// In keyed mode.
        is_keyed: bool,
    },
}

impl Mac {
    /// Bytes of an untruncated tag.
    pub const fn output_bytes(self) -> usize {
        match self {
            Self::Digest(digest) => digest.output_bytes(),
            Self::KeyedBlake3 | Self::Subtree { .. } => 32,
        }
    }

    /// Bytes of key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Digest(digest) => digest.facts().key_bytes.usual,
            Self::KeyedBlake3 | Self::Subtree { is_keyed: true } => 32,
            Self::Subtree { is_keyed: false } => 0,
        }
    }

    /// The longest message.
    pub const fn message_bytes_max(self) -> usize {
        match self {
            Self::Digest(digest) => {
                let bytes = digest.facts().limits.bytes_a_nonce;
                if bytes < usize::MAX as u64 { bytes as usize } else { usize::MAX }
            }
            Self::KeyedBlake3 | Self::Subtree { .. } => usize::MAX,
        }
    }

    /// What computes the subtrees of its tree, if it has one.
    pub const fn subtree(self) -> Option<Self> {
        match self {
            Self::Digest(Digest::Blake3) => Some(Self::Subtree { is_keyed: false }),
            Self::KeyedBlake3 => Some(Self::Subtree { is_keyed: true }),
            Self::Digest(_) | Self::Subtree { .. } => None,
        }
    }
}

/// What a session does to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// Nothing.
    Null,
    /// The body is enciphered, nothing is authenticated.
    Cipher(Cipher),
    /// The body is enciphered and authenticated with `clear`. With an empty body and a GCM this is GMAC.
    Aead(Aead),
    /// Everything is authenticated, nothing enciphered.
    Mac {
        /// What makes the tag.
        mac: Mac,
        /// How much of it there is.
        tag_bytes: u8,
    },
    /// The body is enciphered, then everything authenticated as it travels; opened only if it is genuine.
    EncryptThenMac {
        /// For the body.
        cipher: Cipher,
        /// What makes the tag.
        mac: Mac,
        /// How much of it there is.
        tag_bytes: u8,
    },
    /// As [`Self::EncryptThenMac`] in CBC mode, in chains that do not wait for one another: few long bodies then fill all
    /// lanes. Chain *n* begins with the number [`crate::Job::iv`]` + n` (big-endian, one block), enciphered under a key of
    /// its own, which nobody can predict (NIST SP 800-38A, appendix C).
    ChainsThenMac {
        /// For the body.
        cipher: BlockCipher,
        /// Bytes of all chains but the last; whole blocks.
        chain_bytes: u16,
        /// What makes the tag.
        mac: Mac,
        /// How much of it there is.
        tag_bytes: u8,
    },
}

impl Protection {
    /// Key material of a session: [`Self::cipher_key_bytes`], then the MAC's.
    pub const fn key_bytes(self) -> usize {
        let mac_bytes = match self.mac() {
            Some(mac) => mac.key_bytes(),
            None => 0,
        };
        self.cipher_key_bytes() + mac_bytes
    }

    /// Key material of the cipher or AEAD; of one in chains the data's key, then the IVs'.
    pub const fn cipher_key_bytes(self) -> usize {
        match self {
            Self::Null | Self::Mac { .. } => 0,
            Self::Cipher(cipher) | Self::EncryptThenMac { cipher, .. } => cipher.facts().key_bytes.usual,
            Self::Aead(aead) => aead.key_bytes(),
            Self::ChainsThenMac { cipher, .. } => 2 * cipher.facts().key_bytes.usual,
        }
    }

    /// What makes tags, unless that is an AEAD.
    pub const fn mac(self) -> Option<Mac> {
        match self {
            Self::Null | Self::Cipher(_) | Self::Aead(_) => None,
            Self::Mac { mac, .. } | Self::EncryptThenMac { mac, .. } | Self::ChainsThenMac { mac, .. } => {
                Some(mac)
            }
        }
    }

    /// Whether bodies are enciphered.
    pub const fn encrypts(self) -> bool {
        match self {
            Self::Null | Self::Mac { .. } => false,
            Self::Cipher(_) | Self::Aead(_) | Self::EncryptThenMac { .. } | Self::ChainsThenMac { .. } => {
                true
            }
        }
    }

    /// How much of [`crate::Job::iv`] is taken.
    pub const fn iv_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Cipher(cipher) | Self::EncryptThenMac { cipher, .. } => cipher.facts().iv_bytes,
            Self::Aead(aead) => aead.facts().iv_bytes,
            Self::Mac { mac: Mac::Digest(digest), .. } => digest.facts().iv_bytes,
            Self::Mac { mac: Mac::Subtree { .. }, .. } => 8,
            Self::Mac { .. } => 0,
            Self::ChainsThenMac { cipher, .. } => cipher.block_bytes(),
        }
    }

    /// Length of [`crate::Job::tag`].
    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::Null | Self::Cipher(_) => 0,
            Self::Aead(aead) => aead.facts().output_bytes,
            Self::Mac { tag_bytes, .. }
            | Self::EncryptThenMac { tag_bytes, .. }
            | Self::ChainsThenMac { tag_bytes, .. } => tag_bytes as usize,
        }
    }

    /// What the length of [`crate::Job::body`] must be a multiple of.
    pub const fn granule_bytes(self) -> usize {
        match self {
            Self::Cipher(cipher) | Self::EncryptThenMac { cipher, .. } => cipher.granule_bytes(),
            Self::ChainsThenMac { cipher, .. } => cipher.block_bytes(),
            Self::Null | Self::Aead(_) | Self::Mac { .. } => 1,
        }
    }
}
