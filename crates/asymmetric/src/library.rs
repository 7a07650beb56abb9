//! AWS-LC's keys, called through C: the only module with `unsafe` in this crate.
//!
//! **Guarantees:** every pointer passed to C is to a slice with its length, or to an object that lives through the
//! call; each object is freed once by its owner; the library's error queue is empty after a failure.

#![allow(unsafe_code)]

use crate::der;
use aws_lc_sys as c;
use sealane_client::{Hash, KeyKind, MlDsaSet, PssLimits};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null, null_mut};
use zeroize::{Zeroize as _, Zeroizing};

/// The error of a library function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct No;

/// Returns the outcome of a function that returns 1 for success.
fn yes(outcome: c_int) -> Result<(), No> {
    if outcome == 1 {
        return Ok(());
    }
    // SAFETY: the function takes no arguments and accesses the thread's own queue.
    unsafe { c::ERR_clear_error() };
    Err(No)
}

fn some<T>(pointer: *mut T) -> Result<NonNull<T>, No> {
    NonNull::new(pointer).ok_or_else(|| {
        // SAFETY: the function takes no arguments and accesses the thread's own queue.
        unsafe { c::ERR_clear_error() };
        No
    })
}

/// An `EVP_PKEY`, private or public.
#[derive(Debug)]
pub(crate) struct Pkey(NonNull<c::EVP_PKEY>);

// SAFETY: openssl/evp.h: an EVP_PKEY may be used by several threads at once as long as none changes it, and nothing
// here does.
unsafe impl Send for Pkey {}
// SAFETY: an EVP_PKEY is only read through shared references, and its count of references is atomic.
unsafe impl Sync for Pkey {}

impl Drop for Pkey {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference.
        unsafe { c::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

/// An `EVP_PKEY_CTX`, one operation.
struct Context(NonNull<c::EVP_PKEY_CTX>);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this value owns it.
        unsafe { c::EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}

/// An `EVP_MD_CTX`.
struct DigestContext(NonNull<c::EVP_MD_CTX>);

impl Drop for DigestContext {
    fn drop(&mut self) {
        // SAFETY: this value owns it.
        unsafe { c::EVP_MD_CTX_free(self.0.as_ptr()) };
    }
}

/// An `EC_KEY`.
struct EcKey(NonNull<c::EC_KEY>);

impl Drop for EcKey {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference.
        unsafe { c::EC_KEY_free(self.0.as_ptr()) };
    }
}

/// An `EC_POINT`.
struct Point(NonNull<c::EC_POINT>);

impl Drop for Point {
    fn drop(&mut self) {
        // SAFETY: this value owns it.
        unsafe { c::EC_POINT_free(self.0.as_ptr()) };
    }
}

/// The padding of RSA.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Padding {
    /// PKCS#1 version 1.5; signatures contain the digest's algorithm, if there is one.
    Pkcs1(Option<Hash>),
    /// PSS. Without a length of the salt, verification reads it from the signature.
    Pss { hash: Hash, mask: Hash, salt_bytes: Option<u16> },
    /// OAEP with an empty label.
    Oaep { hash: Hash, mask: Hash },
    /// None: the content is as long as the modulus.
    None,
}

fn digest(hash: Hash) -> *const c::EVP_MD {
    // SAFETY: each function returns a static table.
    unsafe {
        match hash {
            Hash::Sha1 => c::EVP_sha1(),
            Hash::Sha224 => c::EVP_sha224(),
            Hash::Sha256 => c::EVP_sha256(),
            Hash::Sha384 => c::EVP_sha384(),
            Hash::Sha512 => c::EVP_sha512(),
        }
    }
}

fn reader(bytes: &[u8]) -> c::CBS {
    let mut reader = MaybeUninit::uninit();
    // SAFETY: it fills the structure with the slice's address and length.
    unsafe {
        c::CBS_init(reader.as_mut_ptr(), bytes.as_ptr(), bytes.len());
        reader.assume_init()
    }
}

/// Returns the bytes that a function writes into a builder.
fn built(write: impl FnOnce(*mut c::CBB) -> c_int) -> Result<Zeroizing<Vec<u8>>, No> {
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
        let content = std::slice::from_raw_parts_mut(data, length);
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
) -> Result<Zeroizing<Vec<u8>>, No> {
    let mut out = Zeroizing::new(vec![0; capacity]);
    let mut length = capacity;
    yes(write(out.as_mut_ptr(), &mut length))?;
    out.truncate(length);
    Ok(out)
}

impl Pkey {
    pub(crate) fn generate(kind: KeyKind) -> Result<Self, No> {
        let (id, curve) = match kind {
            KeyKind::Rsa { .. } | KeyKind::RsaPss { .. } => (c::EVP_PKEY_RSA, None),
            KeyKind::P256 => (c::EVP_PKEY_EC, Some(c::NID_X9_62_prime256v1)),
            KeyKind::P384 => (c::EVP_PKEY_EC, Some(c::NID_secp384r1)),
            KeyKind::P521 => (c::EVP_PKEY_EC, Some(c::NID_secp521r1)),
            KeyKind::Ed25519 => (c::EVP_PKEY_ED25519, None),
            KeyKind::X25519 => (c::EVP_PKEY_X25519, None),
            KeyKind::MlDsa(_) => return Err(No),
        };
        let mut key = null_mut();
        // SAFETY: the context lives through the calls, and the key that is written is owned by the value returned.
        unsafe {
            let context = Context(some(c::EVP_PKEY_CTX_new_id(id, null_mut()))?);
            let raw = context.0.as_ptr();
            yes(c::EVP_PKEY_keygen_init(raw))?;
            if let Some(bits) = kind.modulus_bits() {
                yes(c::EVP_PKEY_CTX_set_rsa_keygen_bits(raw, bits.into()))?;
            }
            if let Some(curve) = curve {
                yes(c::EVP_PKEY_CTX_set_ec_paramgen_curve_nid(raw, curve))?;
            }
            yes(c::EVP_PKEY_keygen(raw, &mut key))?;
            some(key).map(Self)
        }
    }

    /// Reads unencrypted PKCS#8 in DER.
    pub(crate) fn of_pkcs8(der: &[u8]) -> Result<Self, No> {
        let mut reader = reader(der);
        // SAFETY: the reader is over the slice, and the returned key is owned here.
        let key = unsafe { Self(some(c::EVP_parse_private_key(&mut reader))?) };
        if reader.len == 0 { Ok(key) } else { Err(No) }
    }

    /// Reads encrypted PKCS#8 in DER.
    pub(crate) fn of_encrypted_pkcs8(der: &[u8], passphrase: &[u8]) -> Result<Self, No> {
        let mut reader = reader(der);
        // SAFETY: both slices live through the call with their lengths.
        unsafe {
            let key = c::PKCS8_parse_encrypted_private_key(
                &mut reader,
                passphrase.as_ptr().cast(),
                passphrase.len(),
            );
            some(key).map(Self)
        }
    }

    /// Returns the only key of a PKCS#12 file. `passphrase` ends with a zero byte.
    pub(crate) fn of_pkcs12(der: &[u8], passphrase: &std::ffi::CStr) -> Result<Self, No> {
        let mut reader = reader(der);
        let mut key = null_mut();
        // SAFETY: the stack is made and freed here with what was put on it; the passphrase ends with a zero byte.
        unsafe {
            let certificates = some(c::OPENSSL_sk_new_null())?.as_ptr();
            let outcome =
                c::PKCS12_get_key_and_certs(&mut key, certificates.cast(), &mut reader, passphrase.as_ptr());
            while let Some(certificate) = NonNull::new(c::OPENSSL_sk_pop(certificates)) {
                c::X509_free(certificate.as_ptr().cast());
            }
            c::OPENSSL_sk_free(certificates);
            yes(outcome)?;
            some(key).map(Self)
        }
    }

    /// Returns the first private key of a PEM file: PKCS#8, PKCS#1 or SEC 1, encrypted or not.
    pub(crate) fn of_pem(pem: &[u8], passphrase: &[u8]) -> Result<Self, No> {
        let length = pem.len().try_into().map_err(|_| No)?;
        let mut passphrase = passphrase;
        // SAFETY: the memory of the BIO and the passphrase live through the call; the callback reads the latter.
        unsafe {
            let bio = some(c::BIO_new_mem_buf(pem.as_ptr().cast(), length))?;
            let secret: *mut &[u8] = &mut passphrase;
            let key =
                c::PEM_read_bio_PrivateKey(bio.as_ptr(), null_mut(), Some(give_passphrase), secret.cast());
            c::BIO_free(bio.as_ptr());
            some(key).map(Self)
        }
    }

    /// Reads a SubjectPublicKeyInfo in DER.
    pub(crate) fn of_public(der: &[u8]) -> Result<Self, No> {
        let mut reader = reader(der);
        // SAFETY: the reader is over the slice, and the returned key is owned here.
        let key = unsafe { Self(some(c::EVP_parse_public_key(&mut reader))?) };
        if reader.len == 0 { Ok(key) } else { Err(No) }
    }

    /// Returns the parameter set of a key of ML-DSA.
    pub(crate) fn ml_dsa_set(&self) -> Option<MlDsaSet> {
        if self.id() != c::EVP_PKEY_PQDSA {
            return None;
        }
        let signature_bytes = self.size();
        MlDsaSet::ALL.into_iter().find(|set| set.signature_bytes() == signature_bytes)
    }

    /// Returns the expanded private key of ML-DSA.
    pub(crate) fn expanded(&self) -> Result<Zeroizing<Vec<u8>>, No> {
        // SAFETY: the key lives, and `filled` provides memory of the stated length.
        filled(EXPANDED_BYTES_MAX, |out, length| unsafe {
            c::EVP_PKEY_get_raw_private_key(self.0.as_ptr(), out, length)
        })
    }

    /// Returns a public key of a peer for ECDH with this key.
    fn peer(&self, bytes: &[u8]) -> Result<Self, No> {
        // SAFETY: pointers returned by C belong to `self` (the group) or are owned by values here; slices have their
        // lengths.
        unsafe {
            if self.id() == c::EVP_PKEY_X25519 {
                let key = c::EVP_PKEY_new_raw_public_key(
                    c::EVP_PKEY_X25519,
                    null_mut(),
                    bytes.as_ptr(),
                    bytes.len(),
                );
                return some(key).map(Self);
            }
            let group = c::EC_KEY_get0_group(c::EVP_PKEY_get0_EC_KEY(self.0.as_ptr()));
            if group.is_null() {
                return Err(No);
            }
            let ec = EcKey(some(c::EC_KEY_new())?);
            yes(c::EC_KEY_set_group(ec.0.as_ptr(), group))?;
            let point = Point(some(c::EC_POINT_new(group))?);
            yes(c::EC_POINT_oct2point(group, point.0.as_ptr(), bytes.as_ptr(), bytes.len(), null_mut()))?;
            yes(c::EC_KEY_set_public_key(ec.0.as_ptr(), point.0.as_ptr()))?;
            let key = Self(some(c::EVP_PKEY_new())?);
            yes(c::EVP_PKEY_set1_EC_KEY(key.0.as_ptr(), ec.0.as_ptr()))?;
            Ok(key)
        }
    }

    fn id(&self) -> c_int {
        // SAFETY: the key lives.
        unsafe { c::EVP_PKEY_id(self.0.as_ptr()) }
    }

    /// Returns a key that can do all that its numbers can, and its kind, if the engine supports it. The library would keep a key for
    /// RSA-PSS to its limits, but does not write it.
    pub(crate) fn unbound(self) -> Option<(Self, KeyKind)> {
        if self.id() != c::EVP_PKEY_RSA_PSS {
            let kind = self.kind()?;
            return Some((self, kind));
        }
        let limits = self.pss_limits().ok()?;
        // SAFETY: the key lives, and the new one takes its own reference to the numbers, which nothing changes.
        let plain = unsafe {
            let plain = Self(some(c::EVP_PKEY_new()).ok()?);
            let numbers = some(c::EVP_PKEY_get0_RSA(self.0.as_ptr())).ok()?;
            yes(c::EVP_PKEY_set1_RSA(plain.0.as_ptr(), numbers.as_ptr())).ok()?;
            plain
        };
        let bits = plain.kind()?.modulus_bits()?;
        Some((plain, KeyKind::RsaPss { bits, limits }))
    }

    /// Returns the limits of a key for RSA-PSS: a verification begins with them.
    fn pss_limits(&self) -> Result<Option<PssLimits>, No> {
        let context = self.context()?;
        let raw = context.0.as_ptr();
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
        let hash_of = |table| Hash::ALL.into_iter().find(|hash| digest(*hash) == table).ok_or(No);
        let salt_bytes = u16::try_from(salt_bytes).map_err(|_| No)?;
        Ok(Some(PssLimits { hash: hash_of(hash)?, mask: hash_of(mask)?, salt_bytes }))
    }

    /// Returns its kind, if the engine supports it.
    fn kind(&self) -> Option<KeyKind> {
        let id = self.id();
        if id == c::EVP_PKEY_RSA {
            // SAFETY: the key lives.
            let bits = unsafe { c::EVP_PKEY_bits(self.0.as_ptr()) };
            let bits =
                u16::try_from(bits).ok().filter(|bits| (2048..=8192).contains(bits) && bits % 8 == 0)?;
            return Some(KeyKind::Rsa { bits });
        }
        if id == c::EVP_PKEY_EC {
            // SAFETY: the key lives, and the group is a part of it.
            let curve = unsafe {
                let group = c::EC_KEY_get0_group(c::EVP_PKEY_get0_EC_KEY(self.0.as_ptr()));
                if group.is_null() { 0 } else { c::EC_GROUP_get_curve_name(group) }
            };
            return match curve {
                c::NID_X9_62_prime256v1 => Some(KeyKind::P256),
                c::NID_secp384r1 => Some(KeyKind::P384),
                c::NID_secp521r1 => Some(KeyKind::P521),
                _ => None,
            };
        }
        match id {
            c::EVP_PKEY_ED25519 => Some(KeyKind::Ed25519),
            c::EVP_PKEY_X25519 => Some(KeyKind::X25519),
            _ => None,
        }
    }

    pub(crate) fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, No> {
        // SAFETY: key and builder live through the call.
        built(|builder| unsafe { c::EVP_marshal_private_key(builder, self.0.as_ptr()) })
    }

    /// Returns the 32 bytes of a private key of P-256, Ed25519 or X25519.
    pub(crate) fn raw_private(&self) -> Result<Zeroizing<Vec<u8>>, No> {
        let mut out = Zeroizing::new(vec![0; 32]);
        let mut length = out.len();
        // SAFETY: the key lives; both functions write at most the length given; the number belongs to the key.
        let outcome = unsafe {
            if self.id() == c::EVP_PKEY_EC {
                let number = c::EC_KEY_get0_private_key(c::EVP_PKEY_get0_EC_KEY(self.0.as_ptr()));
                if number.is_null() { 0 } else { c::BN_bn2bin_padded(out.as_mut_ptr(), length, number) }
            } else {
                c::EVP_PKEY_get_raw_private_key(self.0.as_ptr(), out.as_mut_ptr(), &mut length)
            }
        };
        yes(outcome).map(|()| out)
    }

    /// Returns the SubjectPublicKeyInfo of an unbound key of a kind.
    pub(crate) fn to_public_of(&self, kind: KeyKind) -> Option<Vec<u8>> {
        let der = self.to_public().ok()?;
        match kind {
            KeyKind::RsaPss { .. } => der::of_public(&der).map(|numbers| der::public_of(kind, numbers)),
            _ => Some(der),
        }
    }

    fn to_public(&self) -> Result<Vec<u8>, No> {
        // SAFETY: key and builder live through the call.
        let der = built(|builder| unsafe { c::EVP_marshal_public_key(builder, self.0.as_ptr()) })?;
        Ok(der.to_vec())
    }

    /// Returns the maximum length of a signature, a plaintext or a secret.
    fn size(&self) -> usize {
        // SAFETY: the key lives.
        usize::try_from(unsafe { c::EVP_PKEY_size(self.0.as_ptr()) }).unwrap_or(0)
    }

    fn context(&self) -> Result<Context, No> {
        // SAFETY: the key lives, and the context takes its own reference.
        some(unsafe { c::EVP_PKEY_CTX_new(self.0.as_ptr(), null_mut()) }).map(Context)
    }

    /// Signs a digest.
    pub(crate) fn sign(&self, padding: Option<Padding>, digest: &[u8]) -> Result<Zeroizing<Vec<u8>>, No> {
        let context = self.context()?;
        // SAFETY: the context lives; slices have their lengths.
        unsafe { yes(c::EVP_PKEY_sign_init(context.0.as_ptr()))? };
        context.pad(padding)?;
        // SAFETY: the context lives and was initialised to sign; slices have their lengths, and `filled`
        // provides memory of the stated length.
        filled(self.size(), |out, length| unsafe {
            c::EVP_PKEY_sign(context.0.as_ptr(), out, length, digest.as_ptr(), digest.len())
        })
    }

    /// Fails unless the signature of the digest was made with this key.
    pub(crate) fn verify(&self, padding: Option<Padding>, digest: &[u8], signature: &[u8]) -> Result<(), No> {
        let context = self.context()?;
        // SAFETY: the context lives; slices have their lengths.
        unsafe { yes(c::EVP_PKEY_verify_init(context.0.as_ptr()))? };
        context.pad(padding)?;
        // SAFETY: the context lives and was initialised to verify; slices have their lengths.
        yes(unsafe {
            let (signature, length) = (signature.as_ptr(), signature.len());
            c::EVP_PKEY_verify(context.0.as_ptr(), signature, length, digest.as_ptr(), digest.len())
        })
    }

    /// Returns the bytes from which a signature was made, without their padding.
    pub(crate) fn recover(&self, padding: Padding, signature: &[u8]) -> Result<Zeroizing<Vec<u8>>, No> {
        let context = self.context()?;
        // SAFETY: the context lives; slices have their lengths.
        unsafe { yes(c::EVP_PKEY_verify_recover_init(context.0.as_ptr()))? };
        context.pad(Some(padding))?;
        // SAFETY: the context lives and was initialised to recover; slices have their lengths, and `filled`
        // provides memory of the stated length.
        filled(self.size(), |out, length| unsafe {
            c::EVP_PKEY_verify_recover(context.0.as_ptr(), out, length, signature.as_ptr(), signature.len())
        })
    }

    /// Signs a message by Ed25519.
    pub(crate) fn sign_message(&self, message: &[u8]) -> Result<Zeroizing<Vec<u8>>, No> {
        // SAFETY: context and key live; slices have their lengths.
        unsafe {
            let context = DigestContext(some(c::EVP_MD_CTX_new())?);
            let raw = context.0.as_ptr();
            yes(c::EVP_DigestSignInit(raw, null_mut(), null(), null_mut(), self.0.as_ptr()))?;
            filled(64, |out, length| c::EVP_DigestSign(raw, out, length, message.as_ptr(), message.len()))
        }
    }

    /// Fails unless the Ed25519 signature of the message was made with this key.
    pub(crate) fn verify_message(&self, message: &[u8], signature: &[u8]) -> Result<(), No> {
        // SAFETY: context and key live; slices have their lengths.
        unsafe {
            let context = DigestContext(some(c::EVP_MD_CTX_new())?);
            let raw = context.0.as_ptr();
            yes(c::EVP_DigestVerifyInit(raw, null_mut(), null(), null_mut(), self.0.as_ptr()))?;
            let (signature, length) = (signature.as_ptr(), signature.len());
            yes(c::EVP_DigestVerify(raw, signature, length, message.as_ptr(), message.len()))
        }
    }

    pub(crate) fn decrypt(&self, padding: Padding, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u8>>, No> {
        let context = self.context()?;
        // SAFETY: the context lives; slices have their lengths.
        unsafe { yes(c::EVP_PKEY_decrypt_init(context.0.as_ptr()))? };
        context.pad(Some(padding))?;
        // SAFETY: the context lives and was initialised to decrypt; slices have their lengths, and `filled`
        // provides memory of the stated length.
        filled(self.size(), |out, length| unsafe {
            c::EVP_PKEY_decrypt(context.0.as_ptr(), out, length, ciphertext.as_ptr(), ciphertext.len())
        })
    }

    pub(crate) fn encrypt(&self, padding: Padding, plaintext: &[u8]) -> Result<Vec<u8>, No> {
        let context = self.context()?;
        // SAFETY: the context lives; slices have their lengths.
        unsafe { yes(c::EVP_PKEY_encrypt_init(context.0.as_ptr()))? };
        context.pad(Some(padding))?;
        // SAFETY: the context lives and was initialised to encrypt; slices have their lengths, and `filled`
        // provides memory of the stated length.
        let out = filled(self.size(), |out, length| unsafe {
            c::EVP_PKEY_encrypt(context.0.as_ptr(), out, length, plaintext.as_ptr(), plaintext.len())
        })?;
        Ok(out.to_vec())
    }

    /// Returns the secret shared with the owner of a public key, which is an uncompressed point or 32 bytes.
    pub(crate) fn derive(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, No> {
        let peer = self.peer(peer)?;
        let context = self.context()?;
        // SAFETY: context and keys live; `filled` provides memory of the stated length.
        unsafe {
            yes(c::EVP_PKEY_derive_init(context.0.as_ptr()))?;
            yes(c::EVP_PKEY_derive_set_peer(context.0.as_ptr(), peer.0.as_ptr()))?;
            filled(self.size().max(32), |out, length| c::EVP_PKEY_derive(context.0.as_ptr(), out, length))
        }
    }
}

impl Context {
    fn pad(&self, padding: Option<Padding>) -> Result<(), No> {
        let Some(padding) = padding else { return Ok(()) };
        let raw = self.0.as_ptr();
        // SAFETY: the context lives, and tables of digests are static.
        unsafe {
            match padding {
                Padding::Pkcs1(hash) => {
                    yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_PADDING))?;
                    hash.map_or(Ok(()), |hash| yes(c::EVP_PKEY_CTX_set_signature_md(raw, digest(hash))))
                }
                Padding::Pss { hash, mask, salt_bytes } => {
                    yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_PSS_PADDING))?;
                    yes(c::EVP_PKEY_CTX_set_signature_md(raw, digest(hash)))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_mgf1_md(raw, digest(mask)))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_pss_saltlen(raw, salt_bytes.map_or(-2, c_int::from)))
                }
                Padding::None => yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_NO_PADDING)),
                Padding::Oaep { hash, mask } => {
                    yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_OAEP_PADDING))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_oaep_md(raw, digest(hash)))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_mgf1_md(raw, digest(mask)))
                }
            }
        }
    }
}

/// Fills the slice with random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    // SAFETY: the slice has its length. The function never fails: without entropy the library ends the process.
    unsafe { c::RAND_bytes(bytes.as_mut_ptr(), bytes.len()) };
}

/// The length of the longest expanded private key of ML-DSA in bytes (FIPS 204, table 2).
const EXPANDED_BYTES_MAX: usize = 4896;

/// Derives a key by scrypt (RFC 7914) with r = 8 and p = 1.
pub(crate) fn scrypt(passphrase: &[u8], salt: &[u8], log_n: u8, key: &mut [u8]) -> Result<(), No> {
    let n = 1u64.checked_shl(log_n.into()).ok_or(No)?;
    // SAFETY: slices have their lengths.
    yes(unsafe {
        let (secret, length) = (passphrase.as_ptr().cast(), passphrase.len());
        let memory_max = 64 << 20;
        c::EVP_PBE_scrypt(
            secret,
            length,
            salt.as_ptr(),
            salt.len(),
            n,
            8,
            1,
            memory_max,
            key.as_mut_ptr(),
            key.len(),
        )
    })
}

/// Seals or opens a text by AES-256-GCM with a nonce of 12 bytes and a tag of 16.
pub(crate) fn gcm(
    seal: bool,
    key: &[u8; 32],
    nonce: &[u8; 12],
    associated: &[u8],
    text: &[u8],
) -> Result<Zeroizing<Vec<u8>>, No> {
    // SAFETY: the context is freed after its one use; slices have their lengths.
    unsafe {
        let context = some(c::EVP_AEAD_CTX_new(c::EVP_aead_aes_256_gcm(), key.as_ptr(), key.len(), 16))?;
        let run = if seal { c::EVP_AEAD_CTX_seal } else { c::EVP_AEAD_CTX_open };
        let capacity = text.len() + 16;
        let (nonce, nonce_length) = (nonce.as_ptr(), nonce.len());
        let (data, data_length) = (associated.as_ptr(), associated.len());
        let out = filled(capacity, |out, length| {
            let raw = context.as_ptr();
            run(raw, out, length, capacity, nonce, nonce_length, text.as_ptr(), text.len(), data, data_length)
        });
        c::EVP_AEAD_CTX_free(context.as_ptr());
        out
    }
}

/// Copies the passphrase to which `secret` points.
///
/// # Safety
/// AWS-LC calls it, as the callback of a function that reads PEM (openssl/pem.h): `out` is writable for
/// `size` bytes, and `secret` is the pointer that was given with it, which points to a `&[u8]` that outlives
/// the call.
unsafe extern "C" fn give_passphrase(
    out: *mut std::ffi::c_char,
    size: c_int,
    _: c_int,
    secret: *mut std::ffi::c_void,
) -> c_int {
    // SAFETY: the contract: `of_pem` passes a pointer to a slice that outlives the call, and the library
    // passes `size` bytes to write to, with which the passphrase was compared.
    unsafe {
        let passphrase: &[u8] = *secret.cast::<&[u8]>();
        let capacity = usize::try_from(size).unwrap_or(0);
        if passphrase.is_empty() || passphrase.len() > capacity {
            return 0;
        }
        std::ptr::copy_nonoverlapping(passphrase.as_ptr(), out.cast(), passphrase.len());
        passphrase.len() as c_int
    }
}
