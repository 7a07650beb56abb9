//! OpenSSL's libcrypto, loaded at run time with its legacy provider, as an oracle that shares no code with ours.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod common;
#[path = "../../../testing/skip.rs"]
mod skip;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};

use common::every_kernel;
use sealane_transform::{
    BlockCipher, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey, Direction, Mode,
};

type Fetch = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// The functions of libcrypto that the tests call.
struct OpenSsl {
    load: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
    fetch_cipher: Fetch,
    fetch_md: Fetch,
    new_context: unsafe extern "C" fn() -> *mut c_void,
    free_context: unsafe extern "C" fn(*mut c_void),
    init:
        unsafe extern "C" fn(*mut c_void, *const c_void, *const u8, *const u8, c_int, *const c_void) -> c_int,
    set_padding: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    update: unsafe extern "C" fn(*mut c_void, *mut u8, *mut c_int, *const u8, c_int) -> c_int,
    digest:
        unsafe extern "C" fn(*const c_void, usize, *mut u8, *mut u32, *const c_void, *mut c_void) -> c_int,
    hmac: unsafe extern "C" fn(
        *const c_void,
        *const c_void,
        c_int,
        *const u8,
        usize,
        *mut u8,
        *mut u32,
    ) -> *mut u8,
}

impl OpenSsl {
    /// Loads the library, or prints that the test is skipped.
    fn load() -> Option<Self> {
        // SAFETY: libcrypto has no constructors that ask anything of the process.
        let library = unsafe { libc::dlopen(c"libcrypto.so.3".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            skip::skip("libcrypto.so.3 is not installed");
            return None;
        }
        macro_rules! symbol {
            ($name:literal) => {{
                // SAFETY: a symbol of that name has the documented type, which is the field's.
                let symbol = unsafe { libc::dlsym(library, $name.as_ptr()) };
                assert!(!symbol.is_null(), "libcrypto.so.3 lacks {:?}", $name);
                // SAFETY: the symbol of that name has the documented type, which is the field's; both are
                // pointers.
                unsafe { core::mem::transmute_copy(&symbol) }
            }};
        }
        let made = Self {
            load: symbol!(c"OSSL_PROVIDER_load"),
            fetch_cipher: symbol!(c"EVP_CIPHER_fetch"),
            fetch_md: symbol!(c"EVP_MD_fetch"),
            new_context: symbol!(c"EVP_CIPHER_CTX_new"),
            free_context: symbol!(c"EVP_CIPHER_CTX_free"),
            init: symbol!(c"EVP_CipherInit_ex2"),
            set_padding: symbol!(c"EVP_CIPHER_CTX_set_padding"),
            update: symbol!(c"EVP_CipherUpdate"),
            digest: symbol!(c"EVP_Digest"),
            hmac: symbol!(c"HMAC"),
        };
        for provider in [c"legacy", c"default"] {
            // SAFETY: a context of null is the default one; the name is a C string.
            if unsafe { (made.load)(null_mut(), provider.as_ptr()) }.is_null() {
                skip::skip(format_args!("OpenSSL has no provider {provider:?}"));
            }
        }
        Some(made)
    }

    fn cipher(&self, name: &CStr, encrypt: bool, key: &[u8], iv: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; data.len() + 64];
        let mut written = 0;
        // SAFETY: documented calls with valid pointers; `out` has room for a block more than the data.
        unsafe {
            let cipher = (self.fetch_cipher)(null_mut(), name.as_ptr(), null());
            if cipher.is_null() {
                return None;
            }
            let context = (self.new_context)();
            let iv = if iv.is_empty() { null() } else { iv.as_ptr() };
            assert_eq!((self.init)(context, cipher, key.as_ptr(), iv, c_int::from(encrypt), null()), 1);
            (self.set_padding)(context, 0);
            let bytes = data.len() as c_int;
            assert_eq!((self.update)(context, out.as_mut_ptr(), &raw mut written, data.as_ptr(), bytes), 1);
            (self.free_context)(context);
        }
        out.truncate(written as usize);
        Some(out)
    }

    fn digest(&self, name: &CStr, key: Option<&[u8]>, data: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; 64];
        let mut written = 0u32;
        // SAFETY: documented calls with valid pointers; no digest is longer than 64 bytes.
        unsafe {
            let md = (self.fetch_md)(null_mut(), name.as_ptr(), null());
            if md.is_null() {
                return None;
            }
            let (to, bytes) = (out.as_mut_ptr(), &raw mut written);
            match key {
                None => {
                    let done = (self.digest)(data.as_ptr().cast(), data.len(), to, bytes, md, null_mut());
                    assert_eq!(done, 1);
                }
                Some(key) => {
                    let length = key.len() as c_int;
                    let tag =
                        (self.hmac)(md, key.as_ptr().cast(), length, data.as_ptr(), data.len(), to, bytes);
                    assert!(!tag.is_null());
                }
            }
        }
        out.truncate(written as usize);
        Some(out)
    }
}

fn bytes(count: usize, salt: usize) -> Vec<u8> {
    let mut word = salt as u64 * 2 + 1;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Returns ragged lengths, enough for every kernel's ways, some of them longer than the rest.
fn lengths() -> impl Iterator<Item = usize> {
    (0..140).map(|i| if i % 29 == 0 { 1500 - i } else { i * 5 % 330 })
}

const CIPHERS: [(BlockCipher, Mode, &CStr); 15] = [
    (BlockCipher::Des, Mode::Ecb, c"DES-ECB"),
    (BlockCipher::Des, Mode::Cbc, c"DES-CBC"),
    (BlockCipher::TripleDes, Mode::Ecb, c"DES-EDE3-ECB"),
    (BlockCipher::TripleDes, Mode::Cbc, c"DES-EDE3-CBC"),
    (BlockCipher::Aes128, Mode::Ecb, c"AES-128-ECB"),
    (BlockCipher::Aes128, Mode::Cbc, c"AES-128-CBC"),
    (BlockCipher::Aes128, Mode::Ctr, c"AES-128-CTR"),
    (BlockCipher::Aes192, Mode::Cbc, c"AES-192-CBC"),
    (BlockCipher::Aes192, Mode::Ctr, c"AES-192-CTR"),
    (BlockCipher::Aes256, Mode::Cbc, c"AES-256-CBC"),
    (BlockCipher::Aes256, Mode::Ctr, c"AES-256-CTR"),
    (BlockCipher::Blowfish, Mode::Ecb, c"BF-ECB"),
    (BlockCipher::Blowfish, Mode::Cbc, c"BF-CBC"),
    (BlockCipher::Idea, Mode::Cbc, c"IDEA-CBC"),
    (BlockCipher::Rc5, Mode::Cbc, c"RC5-CBC"),
];

fn compare_cipher(openssl: &OpenSsl, algorithm: Cipher, name: &CStr) {
    let facts = algorithm.facts();
    let raw: Vec<_> = (0..5).map(|i| bytes(facts.key_bytes.usual, 100 + i)).collect();
    let keys: Vec<_> = raw.iter().map(|raw| CipherKey::new(algorithm, raw).unwrap()).collect();
    let granule = algorithm.granule_bytes();
    let messages: Vec<_> =
        lengths().enumerate().map(|(i, length)| bytes(length / granule * granule, 200 + i)).collect();
    let ivs: Vec<_> = (0..messages.len()).map(|i| bytes(facts.iv_bytes, 500 + i)).collect();
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let encrypt = direction == Direction::Encrypt;
        let expected: Option<Vec<_>> = (0..messages.len())
            .map(|i| openssl.cipher(name, encrypt, &raw[i % 5], &ivs[i], &messages[i]))
            .collect();
        let Some(expected) = expected else {
            skip::say(format_args!("this OpenSSL has no {name:?}"));
            return;
        };
        for (tier, kernels) in every_kernel() {
            let mut data = messages.clone();
            let mut jobs: Vec<_> = data
                .iter_mut()
                .enumerate()
                .map(|(i, data)| CipherJob::new(&keys[i % 5], &ivs[i], Buffer::in_place(data)))
                .collect();
            assert_eq!(kernels.cipher(algorithm, direction, &mut jobs), 0);
            drop(jobs);
            for (i, (ours, theirs)) in data.iter().zip(&expected).enumerate() {
                assert!(ours == theirs, "{algorithm} {direction:?} {tier}: job {i} of {} bytes", ours.len());
            }
        }
    }
}

#[test]
fn ciphers_agree_with_openssl() {
    let Some(openssl) = OpenSsl::load() else { return };
    for (cipher, mode, name) in CIPHERS {
        compare_cipher(&openssl, Cipher::Block(cipher, mode), name);
    }
    compare_cipher(&openssl, Cipher::Rc4, c"RC4");
}

#[test]
fn digests_agree_with_openssl() {
    let Some(openssl) = OpenSsl::load() else { return };
    let digests = [
        (Digest::Md5, c"MD5", false),
        (Digest::Sha1, c"SHA1", false),
        (Digest::Sha256, c"SHA256", false),
        (Digest::HmacMd5, c"MD5", true),
        (Digest::HmacSha1, c"SHA1", true),
        (Digest::HmacSha256, c"SHA256", true),
        (Digest::Sha224, c"SHA224", false),
        (Digest::Sha3_256, c"SHA3-256", false),
        (Digest::Sha384, c"SHA384", false),
        (Digest::Sha512, c"SHA512", false),
        (Digest::HmacSha384, c"SHA384", true),
        (Digest::HmacSha512, c"SHA512", true),
    ];
    for (algorithm, name, keyed) in digests {
        let raw = if keyed { bytes(20, 1) } else { Vec::new() };
        let key = DigestKey::new(algorithm, &raw).unwrap();
        let messages: Vec<_> = lengths().enumerate().map(|(i, length)| bytes(length, i)).collect();
        for (tier, kernels) in every_kernel() {
            let mut jobs: Vec<_> = messages.iter().map(|message| DigestJob::new(&key, message)).collect();
            assert_eq!(kernels.digest(algorithm, &mut jobs), 0);
            for job in &jobs {
                let Some(theirs) = openssl.digest(name, keyed.then_some(&raw), job.input) else {
                    skip::say(format_args!("this OpenSSL has no {name:?}"));
                    return;
                };
                assert_eq!(job.digest(), theirs, "{} {tier}, {} bytes", algorithm.name(), job.input.len());
            }
        }
    }
}
