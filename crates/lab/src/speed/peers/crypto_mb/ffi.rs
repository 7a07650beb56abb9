//! Intel's crypto_mb, loaded at run time: eight ways of numbers and strings behind safe calls.
//!
//! It needs `unsafe` to load a library and to call C. Guarantees: the library is never unloaded; every way of every
//! column has as many words as the function reads or writes there; a way that is not filled is null in every column,
//! which the library skips.
#![allow(unsafe_code, non_snake_case)]

use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// Ways of a call.
pub(super) const WAYS: usize = 8;

/// The places of the library: where `cargo xtask peers` unpacks Debian's package, and the system's own.
const NAMES: [&str; 2] = [
    "/usr/local/lib/sealane-peers/crypto-mb/usr/lib/x86_64-linux-gnu/libcrypto_mb.so.13",
    "libcrypto_mb.so.13",
];

/// Bytes to which work buffers are aligned.
const ALIGNMENT_BYTES: usize = 64;

/// A pointer to each way's data.
type Pointers = *const *mut c_void;
/// mbx_RSA_Method.
type Method = *const c_void;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// Addresses of the functions used.
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) -> $result,)* }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the headers of the interface's major version 13.
                unsafe {
                    Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* })
                }
            }
        }
    };
}

functions! {
    mbx_getversion() -> *const Version;
    mbx_is_crypto_mb_applicable(u64) -> c_int;
    mbx_x25519_public_key_mb8(Pointers, Pointers) -> u32;
    mbx_x25519_mb8(Pointers, Pointers, Pointers) -> u32;
    mbx_ed25519_public_key_mb8(Pointers, Pointers) -> u32;
    mbx_ed25519_sign_mb8(Pointers, Pointers, Pointers, *const u32, Pointers, Pointers) -> u32;
    mbx_ed25519_verify_mb8(Pointers, Pointers, Pointers, *const u32, Pointers) -> u32;
    mbx_nistp256_ecpublic_key_mb8(Pointers, Pointers, Pointers, Pointers, *mut u8) -> u32;
    mbx_nistp256_ecdh_mb8(Pointers, Pointers, Pointers, Pointers, Pointers, *mut u8) -> u32;
    mbx_nistp256_ecdsa_sign_mb8(Pointers, Pointers, Pointers, Pointers, Pointers, *mut u8) -> u32;
    mbx_nistp256_ecdsa_verify_mb8(Pointers, Pointers, Pointers, Pointers, Pointers, Pointers, *mut u8) -> u32;
    mbx_RSA_pub65537_Method(c_int) -> Method;
    mbx_RSA_private_crt_Method(c_int) -> Method;
    mbx_RSA_Method_BufSize(Method) -> c_int;
    mbx_rsa_public_mb8(Pointers, Pointers, Pointers, c_int, Method, *mut u8) -> u32;
    mbx_rsa_private_crt_mb8(
        Pointers, Pointers, Pointers, Pointers, Pointers, Pointers, Pointers, c_int, Method, *mut u8
    ) -> u32;
    mbx_exp_BufferSize(c_int) -> c_int;
    mbx_exp_mb8(Pointers, Pointers, Pointers, c_int, Pointers, c_int, *mut u8, c_int) -> u32;
}

/// mbxVersion, as far as it is read.
#[repr(C)]
struct Version {
    numbers: [c_int; 3],
    cpu: [c_char; 4],
    name: *const c_char,
    date: *const c_char,
    text: *const c_char,
}

/// The loaded library.
pub(super) struct CryptoMb {
    functions: Functions,
    version: String,
    /// The library is never unloaded, because it contains the functions above.
    _library: Library,
}

/// The kinds of calls, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Public key; private key.
    X25519Public,
    /// Secret; private key, the peer's public key.
    X25519,
    /// Public key; private key.
    Ed25519Public,
    /// r, s; message, private key, public key.
    Ed25519Sign,
    /// r, s, message, public key.
    Ed25519Verify,
    /// x, y; private key.
    P256Public,
    /// Secret; private key, the peer's x, y.
    P256Agree,
    /// r, s; digest, nonce, private key.
    P256Sign,
    /// r, s, digest, x, y.
    P256Verify,
    /// Result; block, modulus. The number is that of the modulus' bits.
    RsaPublic(usize),
    /// Result; block, p, q, both exponents, the coefficient. The number is that of the modulus' bits.
    RsaPrivate(usize),
    /// Result; base, exponent, modulus. The numbers are the bits of modulus and exponent.
    Exponentiation(usize, usize),
}

/// Data of one parameter in all ways; strings lie in words as they lie in memory.
pub(super) type Column = [Vec<u64>; WAYS];

/// Columns of a function, with its work buffer.
pub(super) struct Call {
    library: &'static CryptoMb,
    function: Function,
    columns: Vec<Column>,
    method: Method,
    buffer: Vec<u8>,
}

/// Returns the least words of each way in the columns of a function.
fn words(function: Function) -> Vec<usize> {
    let of = |bits: usize| bits / 64;
    match function {
        Function::X25519Public | Function::Ed25519Public => vec![4; 2],
        Function::X25519 | Function::P256Public => vec![4; 3],
        Function::Ed25519Sign | Function::P256Sign | Function::P256Verify => vec![4; 5],
        Function::Ed25519Verify | Function::P256Agree => vec![4; 4],
        Function::RsaPublic(bits) => vec![of(bits); 3],
        Function::RsaPrivate(bits) => [vec![of(bits); 2], vec![of(bits / 2); 5]].concat(),
        Function::Exponentiation(bits, exponent_bits) => {
            vec![of(bits), of(bits), of(exponent_bits), of(bits)]
        }
    }
}

impl CryptoMb {
    /// Loads it at the first call.
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        static LOADED: OnceLock<Result<CryptoMb, String>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Self, String> {
        let mut reasons = Vec::new();
        for name in NAMES {
            // SAFETY: the library has no initialisers of consequence.
            let library = match unsafe { Library::new(name) } {
                Ok(library) => library,
                Err(error) => {
                    reasons.push(error.to_string());
                    continue;
                }
            };
            let functions = Functions::find(&library)
                .map_err(|error| format!("{name} is not the library expected: {error}"))?;
            // SAFETY: zero asks about this processor.
            if unsafe { (functions.mbx_is_crypto_mb_applicable)(0) } != 1 {
                return Err("needs a processor with AVX-512 IFMA".to_owned());
            }
            // SAFETY: the version and its text are static.
            let version = unsafe {
                let version = (functions.mbx_getversion)();
                if version.is_null() || (*version).text.is_null() {
                    "crypto_mb".to_owned()
                } else {
                    CStr::from_ptr((*version).text).to_string_lossy().into_owned()
                }
            };
            return Ok(Self { functions, version, _library: library });
        }
        Err(format!(
            "cannot be loaded ({}); `cargo xtask peers` brings Debian's package libcrypto-mb12",
            reasons.join("; ")
        ))
    }

    /// Returns the version in the library's words.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Returns a call of a function; `None` if the library has no method for the length, or a way of a column is too
    /// short.
    pub(super) fn call(&'static self, function: Function, columns: Vec<Column>) -> Option<Call> {
        let words = words(function);
        let fits = |(column, words): (&Column, &usize)| column.iter().all(|way| way.len() >= *words);
        if columns.len() != words.len() || !columns.iter().zip(&words).all(fits) {
            return None;
        }
        let functions = &self.functions;
        let mut method = null();
        // SAFETY: the calls take a length, or the method just found.
        let buffer_bytes = unsafe {
            match function {
                Function::RsaPublic(bits) => method = (functions.mbx_RSA_pub65537_Method)(bits as c_int),
                Function::RsaPrivate(bits) => method = (functions.mbx_RSA_private_crt_Method)(bits as c_int),
                _ => {}
            }
            match function {
                Function::RsaPublic(_) | Function::RsaPrivate(_) if method.is_null() => return None,
                Function::RsaPublic(_) | Function::RsaPrivate(_) => {
                    (functions.mbx_RSA_Method_BufSize)(method)
                }
                Function::Exponentiation(bits, _) => (functions.mbx_exp_BufferSize)(bits as c_int),
                _ => 0,
            }
        };
        let buffer = vec![0; usize::try_from(buffer_bytes).ok()? + ALIGNMENT_BYTES];
        Some(Call { library: self, function, columns, method, buffer })
    }
}

impl Call {
    pub(super) fn columns(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Computes the first `filled` ways; returns which of them the library accepted, a bit for each.
    pub(super) fn run(&mut self, filled: usize) -> u8 {
        let mut pointers = [[null_mut::<c_void>(); WAYS]; 7];
        for (pointers, column) in pointers.iter_mut().zip(&mut self.columns) {
            for (pointer, way) in pointers.iter_mut().zip(column).take(filled) {
                *pointer = way.as_mut_ptr().cast();
            }
        }
        let [a, b, c, d, e, f, g] = pointers.each_ref().map(|pointers| pointers.as_ptr());
        let lengths = self.columns[2..]
            .first()
            .map_or([0; WAYS], |messages| messages.each_ref().map(|message| (8 * message.len()) as u32));
        let lengths = lengths.as_ptr();
        let functions = &self.library.functions;
        let offset = self.buffer.as_ptr().align_offset(ALIGNMENT_BYTES);
        let buffer_bytes = (self.buffer.len() - ALIGNMENT_BYTES) as c_int;
        let buffer = self.buffer[offset..].as_mut_ptr();
        let method = self.method;
        // SAFETY: `call` has checked that there are all columns, and that their ways have the words that the function
        // reads or writes; messages have the lengths given; the buffer has the size that the library asked for; without
        // a buffer the functions of curves use their own.
        let status = unsafe {
            match self.function {
                Function::X25519Public => (functions.mbx_x25519_public_key_mb8)(a, b),
                Function::X25519 => (functions.mbx_x25519_mb8)(a, b, c),
                Function::Ed25519Public => (functions.mbx_ed25519_public_key_mb8)(a, b),
                Function::Ed25519Sign => (functions.mbx_ed25519_sign_mb8)(a, b, c, lengths, d, e),
                Function::Ed25519Verify => (functions.mbx_ed25519_verify_mb8)(a, b, c, lengths, d),
                Function::P256Public => {
                    (functions.mbx_nistp256_ecpublic_key_mb8)(a, b, null(), c, null_mut())
                }
                Function::P256Agree => (functions.mbx_nistp256_ecdh_mb8)(a, b, c, d, null(), null_mut()),
                Function::P256Sign => (functions.mbx_nistp256_ecdsa_sign_mb8)(a, b, c, d, e, null_mut()),
                Function::P256Verify => {
                    (functions.mbx_nistp256_ecdsa_verify_mb8)(a, b, c, d, e, null(), null_mut())
                }
                Function::RsaPublic(bits) => {
                    (functions.mbx_rsa_public_mb8)(b, a, c, bits as c_int, method, buffer)
                }
                Function::RsaPrivate(bits) => {
                    (functions.mbx_rsa_private_crt_mb8)(b, a, c, d, e, f, g, bits as c_int, method, buffer)
                }
                Function::Exponentiation(bits, exponent_bits) => {
                    let (bits, exponent_bits) = (bits as c_int, exponent_bits as c_int);
                    (functions.mbx_exp_mb8)(a, b, c, exponent_bits, d, bits, buffer, buffer_bytes)
                }
            }
        };
        (0..filled.min(WAYS))
            .filter(|way| status >> (4 * way) & 0xf == 0)
            .fold(0, |bits, way| bits | 1 << way)
    }
}
