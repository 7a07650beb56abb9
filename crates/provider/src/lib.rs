//! The OpenSSL 3 provider: programs use keys that stay in the engine service; they are configured, not changed.
//!
//! A key is named by `sealane:NAME`, which a store loader reads (curl, `openssl`), or by a PEM file that contains this
//! reference, which a decoder reads (nginx, HAProxy). Its private operations go to the service; public operations,
//! keys that the program itself has, and symmetric algorithms are computed in process by AWS-LC, and ML-DSA and, where
//! there is AVX-512, ChaCha20-Poly1305 by Sealane: a wake-up of the service takes as long as 250 KB of AES-GCM. For algorithms that
//! this provider does not have, OpenSSL uses its default provider. Digests and HMAC are among these: AWS-LC has no hash
//! function that is faster than OpenSSL's at any length, and SHA-512 takes half as long again. Counters of operations
//! show which one has computed.
//!
//! The dispatch tables are written by hand ([`ffi`]): OpenSSL's numbers never changed their meaning from 3.0 to 3.5,
//! so one library serves all of these versions, is built without OpenSSL's headers, and links no part of OpenSSL.
//! **Guarantees:** a panic never crosses into C; OpenSSL's data are read within the lengths that it states; no bytes
//! of the service's private keys are here; the library may be loaded before fork(2), because it connects in the
//! thread that needs it.

#![deny(unsafe_code)]

mod ciphering;
mod counters;
mod engine;
#[doc(hidden)]
pub mod ffi;
mod identifiers;
mod key;
mod library;
mod ml_dsa;
mod reason;
mod signing;
