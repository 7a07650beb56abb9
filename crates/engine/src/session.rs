//! A protection with its key material.
//!
//! Guarantees: key bytes are wiped when the session ends and never printed; an engine derives its data from a session
//! once (expanded keys, a handle on a card), whichever lane asks first, and these data are dropped with the session.

use std::{
    any::Any,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use sealane_transform::debug_only;
use sealane_transform::{AeadLengths, Kernels, KeyLengthError};
use zeroize::Zeroizing;

use crate::{
    CHAINING_BYTES, Implementations, Mac, Protection,
    keys::{self, Keys},
};

/// The error for keys that a protection does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key material has another length.
    #[error("{given} bytes of key material, not {expected}")]
    Length {
        /// The length that the protection takes, in bytes.
        expected: usize,
        /// The given length.
        given: usize,
    },
    /// The algorithm does not take a key of that length.
    #[error(transparent)]
    Key(#[from] KeyLengthError),
    /// The AEAD has no such nonces or tags.
    #[error("no nonces of {} bytes with tags of {}", .0.nonce_bytes, .0.tag_bytes)]
    Lengths(AeadLengths),
    /// A tag without bytes, or longer than the MAC's output.
    #[error("a tag of {tag_bytes} bytes, not of 1 to {longest}")]
    Tag {
        /// The requested length.
        tag_bytes: usize,
        /// The length of the MAC's output.
        longest: usize,
    },
}

/// Limits for the jobs of a protection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tag_bytes: u32,
    /// The number of bytes of which a body's length is a multiple.
    pub(crate) granule_bytes: u32,
    /// The maximum length of the message that a MAC takes.
    pub(crate) message_bytes_max: usize,
}

impl Limits {
    fn of(protection: Protection) -> Self {
        Self {
            tag_bytes: protection.tag_bytes() as u32,
            granule_bytes: protection.granule_bytes() as u32,
            message_bytes_max: protection.mac().map_or(usize::MAX, Mac::message_bytes_max),
        }
    }
}

/// One association's protection and key material; used from any lane, by shared reference.
///
/// Making a session expands no key. Each engine derives its data from a session by [`Self::made`], when the first job
/// comes.
pub struct Session {
    protection: Protection,
    limits: Limits,
    /// The code that software engines run for it; engines with code or hardware of their own ignore it.
    implementations: Implementations,
    material: Zeroizing<Vec<u8>>,
    /// The length of the cipher's part of the material.
    cipher_bytes: usize,
    /// The software engines' expanded keys. They are shared by all software engines, and have a separate field
    /// because they are read several times per job.
    software: OnceLock<Keys>,
    /// The first element of the list of data that other engines have derived.
    made: OnceLock<Box<Made>>,
    /// The session for the subtrees of messages that are hashed by a tree.
    subtrees: Option<Arc<Self>>,
}

impl Session {
    /// Takes exactly [`Protection::key_bytes`] bytes of key material.
    ///
    /// # Errors
    /// Fails if the material has another length, or MAC or AEAD cannot make such tags.
    pub fn with(
        implementations: impl Into<Implementations>,
        protection: Protection,
        material: &[u8],
    ) -> Result<Self, KeyError> {
        let (expected, given) = (protection.key_bytes(), material.len());
        if given != expected {
            return Err(KeyError::Length { expected, given });
        }
        let (cipher, mac) = material.split_at(protection.cipher_key_bytes());
        Self::with_keys(implementations, protection, cipher, mac)
    }

    /// Takes keys of any length that the algorithms take.
    ///
    /// # Errors
    /// Fails if the keys have other lengths, or MAC or AEAD cannot make such tags.
    pub fn with_keys(
        implementations: impl Into<Implementations>,
        protection: Protection,
        cipher_key: &[u8],
        mac_key: &[u8],
    ) -> Result<Self, KeyError> {
        if let Some(mac) = protection.mac() {
            let (tag_bytes, longest) = (protection.tag_bytes(), mac.output_bytes());
            if tag_bytes == 0 || tag_bytes > longest {
                return Err(KeyError::Tag { tag_bytes, longest });
            }
        }
        if let Some((aead, lengths)) = protection.aead()
            && !aead.takes(lengths)
        {
            return Err(KeyError::Lengths(lengths));
        }
        keys::check(protection, cipher_key, mac_key)?;
        let implementations = implementations.into();
        Ok(Self {
            protection,
            limits: Limits::of(protection),
            implementations,
            material: Zeroizing::new([cipher_key, mac_key].concat()),
            cipher_bytes: cipher_key.len(),
            software: OnceLock::new(),
            made: OnceLock::new(),
            subtrees: Self::of_subtrees(implementations, protection, mac_key)?.map(Arc::new),
        })
    }

    /// Returns the session for subtrees, if the tag's place can hold a chaining value.
    fn of_subtrees(
        implementations: Implementations,
        protection: Protection,
        key: &[u8],
    ) -> Result<Option<Self>, KeyError> {
        let Protection::Mac { mac, tag_bytes } = protection else { return Ok(None) };
        let subtree = mac.subtree().filter(|_| usize::from(tag_bytes) == CHAINING_BYTES);
        let session = |mac| Self::with_keys(implementations, Protection::Mac { mac, tag_bytes }, &[], key);
        subtree.map(session).transpose()
    }

    /// Returns a session of the same protection and keys with other implementations.
    pub fn reopen(&self, implementations: impl Into<Implementations>) -> Self {
        let (cipher, mac) = self.keys_given();
        Self::with_keys(implementations, self.protection, cipher, mac).expect("the keys were taken before")
    }

    /// Returns the name of the code that software engines run for packets, for reports.
    pub fn name_of_packets(&self) -> &'static str {
        self.implementations.name_of_packets(self.protection)
    }

    /// Returns the algorithms, which also fix the lengths of keys and tags.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Returns the keys as they were given, the cipher's and the MAC's, for an engine that expands them elsewhere.
    pub fn keys_given(&self) -> (&[u8], &[u8]) {
        self.material.split_at(self.cipher_bytes)
    }

    /// Returns the session that runs the subtrees of its jobs, if they can be cut ([`crate::Work::cut_tree`]).
    pub fn subtrees(&self) -> Option<&Arc<Self>> {
        self.subtrees.as_ref()
    }

    /// Returns whether the cipher takes much longer than copying its bytes: only then it pays to move a part to other
    /// lanes.
    pub fn is_slower_than_a_copy(&self) -> bool {
        !matches!(self.protection, Protection::Cipher(cipher) if self.kernels().has_instructions(cipher))
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn kernels(&self) -> Kernels {
        self.implementations.kernels
    }

    /// Returns the software engines' expanded keys.
    pub(crate) fn keys(&self) -> &Keys {
        self.software.get_or_init(|| {
            let (cipher, mac) = self.keys_given();
            Keys::new(self.implementations, self.protection, cipher, mac)
                .expect("a session has only keys whose lengths were checked")
        })
    }

    /// Returns the value that an engine has derived from this session: `make` is called once per `maker`, when the
    /// value is first asked for. Other lanes that ask at the same time wait. The value is dropped with the session.
    ///
    /// # Panics
    /// Panics if one maker asks for values of two types.
    pub fn made<T: Any + Send + Sync>(&self, maker: Maker, make: impl FnOnce(&Self) -> T) -> &T {
        let mut make = Some(make);
        let mut place = &self.made;
        loop {
            let made = place.get_or_init(|| {
                let make = make.take().expect("the list ends where this maker's value is put");
                Box::new(Made { maker, value: Box::new(make(self)), next: OnceLock::new() })
            });
            if made.maker == maker {
                return made.value.downcast_ref().expect("a maker makes values of one type");
            }
            place = &made.next;
        }
    }
}

debug_only!(Session { protection });

/// The identity of an engine within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker(u64);

impl Maker {
    /// Returns an identity that equals no other one of this process.
    #[expect(clippy::new_without_default, reason = "no two are equal, which a default would promise")]
    pub fn new() -> Self {
        static MAKERS: AtomicU64 = AtomicU64::new(0);
        Self(MAKERS.fetch_add(1, Relaxed))
    }
}

/// An engine's value, and those of the engines that came later: the list only grows, so lanes read it without a lock.
struct Made {
    maker: Maker,
    value: Box<dyn Any + Send + Sync>,
    next: OnceLock<Box<Self>>,
}
