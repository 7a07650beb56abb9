//! The system's libcrypto, loaded at run time: the functions of a packet path, behind safe contexts.
//!
//! It needs `unsafe` to load a library and to call C. Guarantees: contexts and algorithms are freed once, by their
//! own library, which is never unloaded; every pointer passed to it is a live slice with its own length, and every
//! output buffer is as long as the algorithm requires.
#![allow(unsafe_code, non_snake_case)]

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// The length of the library's longest digest.
pub(super) const DIGEST_BYTES_MAX: usize = 64;

/// Names of the library, the usual one first.
const NAMES: [&str; 2] = ["libcrypto.so.3", "libcrypto.so.4"];

pub(super) type Handle = *mut c_void;

/// Defines a type with the addresses of functions.
macro_rules! functions {
    ($type:ident $($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// Addresses of the functions used.
        pub(super) struct $type { $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)* }

        impl $type {
            pub(super) fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of OpenSSL 3's headers, which later versions keep.
                unsafe {
                    Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* })
                }
            }
        }
    };
}
functions! { Functions
    OpenSSL_version(c_int) -> *const c_char;
    OSSL_PROVIDER_load(Handle, *const c_char) -> Handle;
    ERR_clear_error() -> ();
    EVP_MD_fetch(Handle, *const c_char, *const c_char) -> Handle;
    EVP_MD_free(Handle) -> ();
    EVP_MD_CTX_new() -> Handle;
    EVP_MD_CTX_free(Handle) -> ();
    EVP_DigestInit_ex2(Handle, Handle, *const c_void) -> c_int;
    EVP_DigestUpdate(Handle, *const c_void, usize) -> c_int;
    EVP_DigestFinal_ex(Handle, *mut c_uchar, *mut c_uint) -> c_int;
    EVP_MAC_fetch(Handle, *const c_char, *const c_char) -> Handle;
    EVP_MAC_free(Handle) -> ();
    EVP_MAC_CTX_new(Handle) -> Handle;
    EVP_MAC_CTX_free(Handle) -> ();
    EVP_MAC_init(Handle, *const c_uchar, usize, *const Parameter) -> c_int;
    EVP_MAC_update(Handle, *const c_uchar, usize) -> c_int;
    EVP_MAC_final(Handle, *mut c_uchar, *mut usize, usize) -> c_int;
    EVP_CIPHER_fetch(Handle, *const c_char, *const c_char) -> Handle;
    EVP_CIPHER_free(Handle) -> ();
    EVP_CIPHER_CTX_new() -> Handle;
    EVP_CIPHER_CTX_free(Handle) -> ();
    EVP_CIPHER_CTX_set_padding(Handle, c_int) -> c_int;
    EVP_CIPHER_CTX_ctrl(Handle, c_int, c_int, *mut c_void) -> c_int;
    EVP_CipherInit_ex2(Handle, Handle, *const c_uchar, *const c_uchar, c_int, *const c_void) -> c_int;
    EVP_CipherUpdate(Handle, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
    EVP_CipherFinal_ex(Handle, *mut c_uchar, *mut c_int) -> c_int;
}

// Functions of public-key operations.
functions! { KeyFunctions
    EVP_PKEY_CTX_new_from_name(Handle, *const c_char, *const c_char) -> Handle;
    EVP_PKEY_CTX_new_from_pkey(Handle, Handle, *const c_char) -> Handle;
    EVP_PKEY_CTX_free(Handle) -> ();
    EVP_PKEY_CTX_set_params(Handle, *const Parameter) -> c_int;
    EVP_PKEY_free(Handle) -> ();
    EVP_PKEY_keygen_init(Handle) -> c_int;
    EVP_PKEY_generate(Handle, *mut Handle) -> c_int;
    EVP_PKEY_get_bn_param(Handle, *const c_char, *mut Handle) -> c_int;
    EVP_PKEY_get_raw_private_key(Handle, *mut c_uchar, *mut usize) -> c_int;
    EVP_PKEY_get_raw_public_key(Handle, *mut c_uchar, *mut usize) -> c_int;
    BN_num_bits(Handle) -> c_int;
    BN_bn2lebinpad(Handle, *mut c_uchar, c_int) -> c_int;
    BN_clear_free(Handle) -> ();
    EVP_PKEY_sign_init(Handle) -> c_int;
    EVP_PKEY_sign(Handle, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
    EVP_PKEY_verify_init(Handle) -> c_int;
    EVP_PKEY_verify(Handle, *const c_uchar, usize, *const c_uchar, usize) -> c_int;
    EVP_PKEY_encrypt_init(Handle) -> c_int;
    EVP_PKEY_encrypt(Handle, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
    EVP_PKEY_decrypt_init(Handle) -> c_int;
    EVP_PKEY_decrypt(Handle, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
    EVP_PKEY_derive_init(Handle) -> c_int;
    EVP_PKEY_derive_set_peer(Handle, Handle) -> c_int;
    EVP_PKEY_derive(Handle, *mut c_uchar, *mut usize) -> c_int;
    EVP_PKEY_encapsulate_init(Handle, *const Parameter) -> c_int;
    EVP_PKEY_encapsulate(Handle, *mut c_uchar, *mut usize, *mut c_uchar, *mut usize) -> c_int;
    EVP_PKEY_decapsulate_init(Handle, *const Parameter) -> c_int;
    EVP_PKEY_decapsulate(Handle, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
    EVP_MD_CTX_new() -> Handle;
    EVP_MD_CTX_free(Handle) -> ();
    EVP_DigestSignInit_ex(
        Handle, *mut Handle, *const c_char, Handle, *const c_char, Handle, *const Parameter
    ) -> c_int;
    EVP_DigestSign(Handle, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
    EVP_DigestVerifyInit_ex(
        Handle, *mut Handle, *const c_char, Handle, *const c_char, Handle, *const Parameter
    ) -> c_int;
    EVP_DigestVerify(Handle, *const c_uchar, usize, *const c_uchar, usize) -> c_int;
}

/// OSSL_PARAM.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) key: *const c_char,
    pub(super) data_type: c_uint,
    pub(super) data: *mut c_void,
    pub(super) data_size: usize,
    pub(super) return_size: usize,
}

/// OSSL_PARAM_UTF8_STRING.
pub(super) const UTF8_STRING: c_uint = 4;
/// EVP_CTRL_AEAD_SET_IVLEN.
const SET_IV_BYTES: c_int = 0x9;
/// EVP_CTRL_AEAD_GET_TAG.
const GET_TAG: c_int = 0x10;
/// EVP_CTRL_AEAD_SET_TAG.
const SET_TAG: c_int = 0x11;
/// Bytes of an AEAD's tag.
pub(super) const TAG_BYTES: usize = 16;

/// The loaded library.
pub(in super::super) struct OpenSsl {
    functions: Functions,
    /// The functions of public-key operations.
    pub(super) keys: KeyFunctions,
    version: String,
    /// The library is never unloaded, because it contains the functions above.
    _library: Library,
}

impl OpenSsl {
    /// Loads it at the first call.
    pub(in super::super) fn get() -> Result<&'static Self, &'static str> {
        static LOADED: OnceLock<Result<OpenSsl, String>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Self, String> {
        let mut reasons = Vec::new();
        for name in NAMES {
            // SAFETY: libcrypto's initialisers are meant to run in any process that loads it.
            match unsafe { Library::new(name) } {
                Ok(library) => {
                    let wrong = |error| format!("{name} is not the library expected: {error}");
                    let functions = Functions::find(&library).map_err(wrong)?;
                    let keys = KeyFunctions::find(&library).map_err(wrong)?;
                    return Ok(Self::set_up(functions, keys, library));
                }
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(format!("cannot be loaded ({}); Debian's package is libssl3", reasons.join("; ")))
    }

    fn set_up(functions: Functions, keys: KeyFunctions, library: Library) -> Self {
        // SAFETY: these are plain calls of the loaded library; the version is a static C string, and a missing
        // provider is null, which means that its algorithms will not be found.
        let version = unsafe {
            for provider in [c"default", c"legacy"] {
                (functions.OSSL_PROVIDER_load)(null_mut(), provider.as_ptr());
            }
            (functions.ERR_clear_error)();
            CStr::from_ptr((functions.OpenSSL_version)(0)).to_string_lossy().into_owned()
        };
        Self { functions, keys, version, _library: library }
    }

    /// Returns the version in the library's words.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Returns a handle unless it is null.
    pub(super) fn found(&self, handle: Handle) -> Option<Handle> {
        self.good(c_int::from(!handle.is_null())).then_some(handle)
    }

    /// Returns whether the result of a call is success.
    pub(super) fn good(&self, result: c_int) -> bool {
        if result != 1 {
            // SAFETY: the call drops the reason from this thread's queue, where later calls would find it.
            unsafe { (self.functions.ERR_clear_error)() };
        }
        result == 1
    }

    /// Returns a hash by the library's name.
    pub(super) fn hash(&'static self, name: &str) -> Option<Hash> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is a C string; the result is owned by the contexts that are made from it below.
        unsafe {
            let algorithm = self.found((self.functions.EVP_MD_fetch)(null_mut(), name.as_ptr(), null()))?;
            let context = (self.functions.EVP_MD_CTX_new)();
            Some(Hash { library: self, algorithm, context }).filter(|hash| !hash.context.is_null())
        }
    }

    /// Returns an HMAC over a hash, under a key.
    pub(super) fn hmac(&'static self, hash: &str, key: &[u8]) -> Option<Mac> {
        let hash = CString::new(hash).ok()?;
        let parameters = [
            Parameter {
                key: c"digest".as_ptr(),
                data_type: UTF8_STRING,
                data: hash.as_ptr().cast_mut().cast(),
                data_size: hash.as_bytes().len(),
                return_size: usize::MAX,
            },
            Parameter { key: null(), data_type: 0, data: null_mut(), data_size: 0, return_size: 0 },
        ];
        // SAFETY: names and parameters live until the calls return; the library copies key and parameters.
        unsafe {
            let algorithm =
                self.found((self.functions.EVP_MAC_fetch)(null_mut(), c"HMAC".as_ptr(), null()))?;
            let context = (self.functions.EVP_MAC_CTX_new)(algorithm);
            let mac = Mac { library: self, algorithm, context };
            let ready = !context.is_null()
                && (self.functions.EVP_MAC_init)(context, key.as_ptr(), key.len(), parameters.as_ptr()) == 1;
            Some(mac).filter(|_| ready)
        }
    }

    /// Returns whether the library has a cipher of that name.
    pub(super) fn has_cipher(&'static self, name: &str) -> bool {
        self.fetch_cipher(name).is_some_and(|algorithm| {
            // SAFETY: it was just fetched and is not used anywhere else.
            unsafe { (self.functions.EVP_CIPHER_free)(algorithm) };
            true
        })
    }

    fn fetch_cipher(&self, name: &str) -> Option<Handle> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is a C string.
        self.found(unsafe { (self.functions.EVP_CIPHER_fetch)(null_mut(), name.as_ptr(), null()) })
    }

    /// Returns a cipher under a key; `key` has the length that the library expects for it.
    pub(super) fn cipher(&'static self, name: &str, key: &[u8], encrypts: bool) -> Option<CipherContext> {
        let algorithm = self.fetch_cipher(name)?;
        // SAFETY: the key is as long as the algorithm's usual one, which is the length that the library reads.
        unsafe {
            let context = (self.functions.EVP_CIPHER_CTX_new)();
            let is_ccm = name.ends_with("-CCM");
            let cipher = CipherContext { library: self, algorithm, context, is_ccm };
            let direction = c_int::from(encrypts);
            let initialise = |algorithm, key| {
                (self.functions.EVP_CipherInit_ex2)(context, algorithm, key, null(), direction, null()) == 1
            };
            let lengths = [(SET_IV_BYTES, 12), (SET_TAG, TAG_BYTES as c_int)];
            // The lengths of CCM are part of its key.
            let ready = !context.is_null()
                && initialise(algorithm, null())
                && (!is_ccm
                    || lengths.into_iter().all(|(which, bytes)| {
                        (self.functions.EVP_CIPHER_CTX_ctrl)(context, which, bytes, null_mut()) == 1
                    }))
                && initialise(null_mut(), key.as_ptr())
                && (self.functions.EVP_CIPHER_CTX_set_padding)(context, 0) == 1;
            Some(cipher).filter(|_| ready)
        }
    }
}

/// A hash that is reused for message after message.
pub(super) struct Hash {
    library: &'static OpenSsl,
    algorithm: Handle,
    context: Handle,
}

impl Hash {
    /// Returns the digest of a message.
    pub(super) fn digest(&mut self, message: &[u8], output: &mut [u8; DIGEST_BYTES_MAX]) -> bool {
        let functions = &self.library.functions;
        // SAFETY: the context is live; the message is a slice; the output has room for the longest digest.
        unsafe {
            (functions.EVP_DigestInit_ex2)(self.context, self.algorithm, null()) == 1
                && (functions.EVP_DigestUpdate)(self.context, message.as_ptr().cast(), message.len()) == 1
                && (functions.EVP_DigestFinal_ex)(self.context, output.as_mut_ptr(), null_mut()) == 1
        }
    }
}

impl Drop for Hash {
    fn drop(&mut self) {
        // SAFETY: both are ours, freed once; null is allowed.
        unsafe {
            (self.library.functions.EVP_MD_CTX_free)(self.context);
            (self.library.functions.EVP_MD_free)(self.algorithm);
        }
    }
}

/// A MAC under one key.
pub(super) struct Mac {
    library: &'static OpenSsl,
    algorithm: Handle,
    context: Handle,
}

impl Mac {
    /// Returns the tag of a message.
    pub(super) fn tag(&mut self, message: &[u8], output: &mut [u8; DIGEST_BYTES_MAX]) -> bool {
        let functions = &self.library.functions;
        let mut bytes = 0;
        // SAFETY: the context is live and keyed; without key and parameters the present ones are used.
        unsafe {
            (functions.EVP_MAC_init)(self.context, null(), 0, null()) == 1
                && (functions.EVP_MAC_update)(self.context, message.as_ptr(), message.len()) == 1
                && (functions.EVP_MAC_final)(
                    self.context,
                    output.as_mut_ptr(),
                    &raw mut bytes,
                    DIGEST_BYTES_MAX,
                ) == 1
        }
    }
}

impl Drop for Mac {
    fn drop(&mut self) {
        // SAFETY: this value owns both, and frees each once.
        unsafe {
            (self.library.functions.EVP_MAC_CTX_free)(self.context);
            (self.library.functions.EVP_MAC_free)(self.algorithm);
        }
    }
}

/// A cipher or AEAD under one key, in one direction.
pub(super) struct CipherContext {
    library: &'static OpenSsl,
    algorithm: Handle,
    context: Handle,
    /// CCM must know a message's length and tag before its bytes.
    is_ccm: bool,
}

impl CipherContext {
    /// Processes one message in place, without padding. Without an IV the stream continues.
    pub(super) fn run(&mut self, iv: Option<&[u8; 16]>, data: &mut [u8]) -> bool {
        let functions = &self.library.functions;
        let Ok(bytes) = c_int::try_from(data.len()) else { return false };
        let mut written = 0;
        let mut rest = [0; 32];
        // SAFETY: the context is live and keyed; no IV of these ciphers is longer than 16 bytes; without padding the
        // output is as long as the input, and the final call writes nothing.
        unsafe {
            iv.is_none_or(|iv| {
                (functions.EVP_CipherInit_ex2)(self.context, null_mut(), null(), iv.as_ptr(), -1, null()) == 1
            }) && (functions.EVP_CipherUpdate)(
                self.context,
                data.as_mut_ptr(),
                &raw mut written,
                data.as_ptr(),
                bytes,
            ) == 1
                && (iv.is_none()
                    || (functions.EVP_CipherFinal_ex)(self.context, rest.as_mut_ptr(), &raw mut written) == 1)
        }
    }

    /// Seals one message in place and writes its tag.
    pub(super) fn seal(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; TAG_BYTES],
    ) -> bool {
        let input = data.as_ptr();
        // SAFETY: the data is its own input and output; the tag has the requested length.
        unsafe {
            self.authenticated(nonce, aad, input, data, null_mut())
                && (self.library.functions.EVP_CIPHER_CTX_ctrl)(
                    self.context,
                    GET_TAG,
                    TAG_BYTES as c_int,
                    tag.as_mut_ptr().cast(),
                ) == 1
        }
    }

    /// Opens one message into `output`, which has the same length; returns `false` if the tag is wrong.
    pub(super) fn open(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        sealed: &[u8],
        tag: &[u8; TAG_BYTES],
        output: &mut [u8],
    ) -> bool {
        if sealed.len() != output.len() {
            return false;
        }
        let tag = tag.as_ptr().cast_mut().cast();
        // SAFETY: both slices are of one length; setting a tag only reads it.
        unsafe { self.authenticated(nonce, aad, sealed.as_ptr(), output, tag) }
    }

    /// # Safety
    /// The context is keyed for an AEAD with a vector of 12 bytes. `input` is readable for `output.len()`
    /// bytes, and is `output` or does not overlap it; `tag` is null, or readable for [`TAG_BYTES`].
    unsafe fn authenticated(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        input: *const u8,
        output: &mut [u8],
        tag: *mut c_void,
    ) -> bool {
        let functions = &self.library.functions;
        let (Ok(bytes), Ok(aad_bytes)) = (c_int::try_from(output.len()), c_int::try_from(aad.len())) else {
            return false;
        };
        let mut written = 0;
        let mut rest = [0; 32];
        // SAFETY: the contract: a context of such an AEAD, and as many bytes of input and tag as are read;
        // slices have their lengths.
        unsafe {
            let set_tag = || {
                tag.is_null()
                    || (functions.EVP_CIPHER_CTX_ctrl)(self.context, SET_TAG, TAG_BYTES as c_int, tag) == 1
            };
            let mut update = |to, from, bytes| {
                (functions.EVP_CipherUpdate)(self.context, to, &raw mut written, from, bytes) == 1
            };
            (!self.is_ccm || set_tag())
                && (functions.EVP_CipherInit_ex2)(self.context, null_mut(), null(), nonce.as_ptr(), -1, null())
                    == 1
                && (!self.is_ccm || update(null_mut(), null(), bytes))
                && (aad.is_empty() || update(null_mut(), aad.as_ptr(), aad_bytes))
                && update(output.as_mut_ptr(), input, bytes)
                // The last of these compares the tag of CCM, and the final call that of others.
                && (self.is_ccm
                    || set_tag()
                        && (functions.EVP_CipherFinal_ex)(self.context, rest.as_mut_ptr(), &raw mut written) == 1)
        }
    }
}

impl Drop for CipherContext {
    fn drop(&mut self) {
        // SAFETY: this value owns both, and frees each once.
        unsafe {
            (self.library.functions.EVP_CIPHER_CTX_free)(self.context);
            (self.library.functions.EVP_CIPHER_free)(self.algorithm);
        }
    }
}
