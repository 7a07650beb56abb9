//! Keys of RSA, of NIST's curves, and of Curve25519, with everything that is done with them; those of ML-DSA are only read.
//!
//! **Guarantees:** bytes are taken whole or not at all; what is returned of a private key, or decrypted with it, is wiped when
//! dropped, and the key too.
#![allow(unsafe_code)]

mod operations;
mod reading;

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};

use aws_lc_sys as c;
use zeroize::{Zeroize as _, Zeroizing};

use crate::digest::Hash;
use crate::number;
use crate::outcome::{Refused, owned, some, yes};

owned! {
    /// A key, private or public.
    pub struct Key(c::EVP_PKEY), EVP_PKEY_free
}

// SAFETY: openssl/evp.h: an EVP_PKEY may be used by several threads at once as long as none changes it, and nothing here does.
unsafe impl Send for Key {}
// SAFETY: an EVP_PKEY is only read through shared references; its count of references is atomic, and RSA's blinding locked.
unsafe impl Sync for Key {}

owned! {
    /// One operation.
    pub(crate) struct Context(c::EVP_PKEY_CTX), EVP_PKEY_CTX_free
}

owned! {
    /// A key of a curve.
    struct EcKey(c::EC_KEY), EC_KEY_free
}

owned! {
    /// A point of a curve.
    struct Point(c::EC_POINT), EC_POINT_free
}

/// An algorithm with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RSA without limits.
    Rsa {
        /// The length of the modulus in bits.
        bits: u32,
    },
    /// ECDSA and ECDH on P-256.
    P256,
    /// ECDSA and ECDH on P-384.
    P384,
    /// ECDSA and ECDH on P-521.
    P521,
    /// Signatures by Ed25519 (RFC 8032).
    Ed25519,
    /// Agreement by X25519 (RFC 7748).
    X25519,
}

/// The parameters to which a key for RSASSA-PSS is bound (RFC 4055, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PssLimits {
    /// The hash of the message.
    pub hash: Hash,
    /// The hash of the mask.
    pub mask: Hash,
    /// The least length of the salt in bytes.
    pub salt_bytes: u16,
}

/// The padding of RSA.
#[derive(Clone, Copy, Debug)]
pub enum Padding {
    /// PKCS#1 version 1.5; signatures contain the digest's algorithm, if there is one.
    Pkcs1(Option<Hash>),
    /// PSS. Without a length of the salt, verification reads it from the signature.
    Pss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of the mask.
        mask: Hash,
        /// The length of the salt in bytes.
        salt_bytes: Option<u16>,
    },
    /// OAEP with an empty label.
    Oaep {
        /// The hash of the label.
        hash: Hash,
        /// The hash of the mask.
        mask: Hash,
    },
    /// None: the content is as long as the modulus.
    None,
}

/// Returns a reader over bytes, which must outlive it.
pub(crate) fn reader(bytes: &[u8]) -> c::CBS {
    c::CBS { data: bytes.as_ptr(), len: bytes.len() }
}

/// Returns the bytes that a function writes into a builder.
pub(crate) fn built(write: impl FnOnce(*mut c::CBB) -> c_int) -> Result<Zeroizing<Vec<u8>>, Refused> {
    let mut builder = MaybeUninit::<c::CBB>::uninit();
    let (mut data, mut length) = (null_mut(), 0);
    // SAFETY: the builder is initialised before it is used, and finished or cleaned up once; its output is copied,
    // wiped and freed.
    unsafe {
        yes(c::CBB_init(builder.as_mut_ptr(), 512))?;
        let builder = builder.as_mut_ptr();
        if write(builder) != 1 || c::CBB_finish(builder, &mut data, &mut length) != 1 {
            c::CBB_cleanup(builder);
            return yes(0).map(|()| Zeroizing::default());
        }
        let content = core::slice::from_raw_parts_mut(data, length);
        let copy = Zeroizing::new(content.to_vec());
        content.zeroize();
        c::OPENSSL_free(data.cast());
        Ok(copy)
    }
}

/// Returns the bytes that a function writes into memory of `capacity` bytes; the function sets the length.
fn filled(
    capacity: usize,
    write: impl FnOnce(*mut u8, *mut usize) -> c_int,
) -> Result<Zeroizing<Vec<u8>>, Refused> {
    let mut out = Zeroizing::new(vec![0; capacity]);
    let mut length = capacity;
    yes(write(out.as_mut_ptr(), &mut length))?;
    out.truncate(length);
    Ok(out)
}

impl Context {
    /// Returns one for an algorithm.
    pub(crate) fn of_algorithm(id: c_int) -> Result<Self, Refused> {
        // SAFETY: the function takes a number, and no engine; the context is new.
        unsafe { Self::take(c::EVP_PKEY_CTX_new_id(id, null_mut())) }
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "whatever takes the pointer changes the object")]
    pub(crate) const fn context(&mut self) -> *mut c::EVP_PKEY_CTX {
        self.as_ptr()
    }
}

impl Key {
    /// Takes the result of a function that reads or makes a key.
    ///
    /// # Safety
    /// The pointer is null, or to a key with a reference that nobody else gives back.
    pub(crate) unsafe fn read(key: *mut c::EVP_PKEY) -> Result<Self, Refused> {
        // SAFETY: the contract: the reference is this value's own.
        unsafe { Self::take(key) }
    }

    /// Returns the pointer for AWS-LC's calls, valid while `self` is.
    pub(crate) const fn key(&self) -> *mut c::EVP_PKEY {
        self.as_ptr()
    }

    /// Makes a new private key.
    ///
    /// # Errors
    /// AWS-LC does not make RSA keys of that length.
    pub fn generate(kind: Kind) -> Result<Self, Refused> {
        let (id, curve) = match kind {
            Kind::Rsa { .. } => (c::EVP_PKEY_RSA, None),
            Kind::P256 => (c::EVP_PKEY_EC, Some(c::NID_X9_62_prime256v1)),
            Kind::P384 => (c::EVP_PKEY_EC, Some(c::NID_secp384r1)),
            Kind::P521 => (c::EVP_PKEY_EC, Some(c::NID_secp521r1)),
            Kind::Ed25519 => (c::EVP_PKEY_ED25519, None),
            Kind::X25519 => (c::EVP_PKEY_X25519, None),
        };
        let mut context = Context::of_algorithm(id)?;
        let raw = context.context();
        let mut key = null_mut();
        // SAFETY: the context lives through the calls, and the key that is written is new.
        unsafe {
            yes(c::EVP_PKEY_keygen_init(raw))?;
            if let Kind::Rsa { bits } = kind {
                let bits = bits.try_into().map_err(|_| Refused)?;
                yes(c::EVP_PKEY_CTX_set_rsa_keygen_bits(raw, bits))?;
            }
            if let Some(curve) = curve {
                yes(c::EVP_PKEY_CTX_set_ec_paramgen_curve_nid(raw, curve))?;
            }
            yes(c::EVP_PKEY_keygen(raw, &mut key))?;
            Self::take(key)
        }
    }

    fn id(&self) -> c_int {
        // SAFETY: the key lives.
        unsafe { c::EVP_PKEY_id(self.as_ptr()) }
    }

    /// Returns its algorithm, if it is one of [`Kind`].
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match self.id() {
            c::EVP_PKEY_RSA => {
                // SAFETY: the key lives.
                let bits = unsafe { c::EVP_PKEY_bits(self.as_ptr()) };
                bits.try_into().ok().map(|bits| Kind::Rsa { bits })
            }
            c::EVP_PKEY_EC => {
                // SAFETY: the group lives as long as the key.
                match unsafe { c::EC_GROUP_get_curve_name(self.group()?) } {
                    c::NID_X9_62_prime256v1 => Some(Kind::P256),
                    c::NID_secp384r1 => Some(Kind::P384),
                    c::NID_secp521r1 => Some(Kind::P521),
                    _ => None,
                }
            }
            c::EVP_PKEY_ED25519 => Some(Kind::Ed25519),
            c::EVP_PKEY_X25519 => Some(Kind::X25519),
            _ => None,
        }
    }

    /// Returns whether it is a key of ML-DSA.
    #[must_use]
    pub fn is_ml_dsa(&self) -> bool {
        self.id() == c::EVP_PKEY_PQDSA
    }

    /// Returns whether it is a key for RSASSA-PSS alone.
    #[must_use]
    pub fn is_rsa_pss(&self) -> bool {
        self.id() == c::EVP_PKEY_RSA_PSS
    }

    /// Returns the curve of a key of one, which belongs to the key.
    fn group(&self) -> Option<*const c::EC_GROUP> {
        // SAFETY: the key lives; one of another algorithm gives null.
        let key = some(unsafe { c::EVP_PKEY_get0_EC_KEY(self.as_ptr()) }).ok()?;
        // SAFETY: this is a key of a curve, and the group is a part of it.
        let group = unsafe { c::EC_KEY_get0_group(key.as_ptr()) };
        (!group.is_null()).then_some(group)
    }

    /// Returns the maximum length of a signature, a plaintext or a secret, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        // SAFETY: the key lives.
        usize::try_from(unsafe { c::EVP_PKEY_size(self.as_ptr()) }).unwrap_or(0)
    }

    /// Returns a key of RSA that can do all that its numbers can, of one that is bound.
    ///
    /// # Errors
    /// It is not of RSA.
    pub fn to_unbound(&self) -> Result<Self, Refused> {
        // SAFETY: the functions take keys that live, or null; the new one takes its own reference to the numbers, which nothing
        // changes.
        unsafe {
            let plain = Self::take(c::EVP_PKEY_new())?;
            let numbers = some(c::EVP_PKEY_get0_RSA(self.as_ptr()))?;
            yes(c::EVP_PKEY_set1_RSA(plain.as_ptr(), numbers.as_ptr()))?;
            Ok(plain)
        }
    }

    /// Returns the limits of a key for RSASSA-PSS, if there are any: a verification begins with them.
    ///
    /// # Errors
    /// The key is another, or limited to other hashes than SHA-1 and SHA-2's.
    pub fn pss_limits(&self) -> Result<Option<PssLimits>, Refused> {
        if !self.is_rsa_pss() {
            return Err(Refused);
        }
        let mut context = self.context()?;
        let raw = context.context();
        let (mut hash, mut mask, mut salt_bytes) = (null(), null(), 0);
        // SAFETY: the context lives, and what is written are pointers to static tables and a number.
        unsafe {
            yes(c::EVP_PKEY_verify_init(raw))?;
            yes(c::EVP_PKEY_CTX_get_signature_md(raw, &mut hash))?;
            if hash.is_null() {
                return Ok(None);
            }
            yes(c::EVP_PKEY_CTX_get_rsa_mgf1_md(raw, &mut mask))?;
            yes(c::EVP_PKEY_CTX_get_rsa_pss_saltlen(raw, &mut salt_bytes))?;
        }
        let hashes = [Hash::Sha1, Hash::Sha224, Hash::Sha256, Hash::Sha384, Hash::Sha512];
        let hash_of = |table| hashes.into_iter().find(|hash| hash.table() == table).ok_or(Refused);
        let salt_bytes = u16::try_from(salt_bytes).map_err(|_| Refused)?;
        Ok(Some(PssLimits { hash: hash_of(hash)?, mask: hash_of(mask)?, salt_bytes }))
    }

    /// Writes a private key as PKCS#8 in DER.
    ///
    /// # Errors
    /// The key is not private.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, Refused> {
        // SAFETY: key and builder live through the call.
        built(|builder| unsafe { c::EVP_marshal_private_key(builder, self.as_ptr()) })
    }

    /// Writes its public half as SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// There is no memory.
    pub fn to_public(&self) -> Result<Vec<u8>, Refused> {
        // SAFETY: key and builder live through the call.
        let der = built(|builder| unsafe { c::EVP_marshal_public_key(builder, self.as_ptr()) })?;
        Ok(der.to_vec())
    }

    /// Returns the bare private key of Ed25519, X25519 or ML-DSA, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// The key is of another algorithm, or longer.
    pub fn raw_private(&self, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, Refused> {
        // SAFETY: the key lives, and `filled` provides memory of the stated length.
        filled(bytes_max, |out, length| unsafe {
            c::EVP_PKEY_get_raw_private_key(self.as_ptr(), out, length)
        })
    }

    /// Returns the private number of a key of a curve, in `bytes` bytes.
    ///
    /// # Errors
    /// The key is of another algorithm, not private, or longer.
    pub fn scalar(&self, bytes: usize) -> Result<Zeroizing<Vec<u8>>, Refused> {
        self.group().ok_or(Refused)?;
        let mut out = Zeroizing::new(vec![0; bytes]);
        // SAFETY: the key lives and is one of a curve; the number belongs to it.
        unsafe {
            let key = c::EVP_PKEY_get0_EC_KEY(self.as_ptr());
            number::write(c::EC_KEY_get0_private_key(key), &mut out)?;
        }
        Ok(out)
    }

    /// Returns a context for an operation with this key.
    pub(crate) fn context(&self) -> Result<Context, Refused> {
        // SAFETY: the key lives, and the context, which is new, takes its own reference.
        unsafe { Context::take(c::EVP_PKEY_CTX_new(self.as_ptr(), null_mut())) }
    }

    /// Returns a public key of a peer for an agreement with this key.
    fn peer(&self, bytes: &[u8]) -> Result<Self, Refused> {
        if self.id() == c::EVP_PKEY_X25519 {
            // SAFETY: the bytes are a slice with its length; the key is new.
            return unsafe {
                Self::take(c::EVP_PKEY_new_raw_public_key(
                    c::EVP_PKEY_X25519,
                    null_mut(),
                    bytes.as_ptr(),
                    bytes.len(),
                ))
            };
        }
        let group = self.group().ok_or(Refused)?;
        // SAFETY: the group lives as long as `self`; all other objects are new and owned by values here; the slice has its
        // length.
        unsafe {
            let key = EcKey::take(c::EC_KEY_new())?;
            yes(c::EC_KEY_set_group(key.as_ptr(), group))?;
            let point = Point::take(c::EC_POINT_new(group))?;
            yes(c::EC_POINT_oct2point(group, point.as_ptr(), bytes.as_ptr(), bytes.len(), null_mut()))?;
            yes(c::EC_KEY_set_public_key(key.as_ptr(), point.as_ptr()))?;
            let peer = Self::take(c::EVP_PKEY_new())?;
            yes(c::EVP_PKEY_set1_EC_KEY(peer.as_ptr(), key.as_ptr()))?;
            Ok(peer)
        }
    }
}
