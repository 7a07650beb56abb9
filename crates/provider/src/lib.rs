//! The OpenSSL 3 provider: programs use keys that stay in the engine service, and are configured, not changed.
//!
//! A key is named by `sealane:NAME`, which a store loader takes (curl, `openssl`), or by a PEM file that holds that reference, which a
//! decoder takes (nginx, HAProxy). Its private operations go to the service; everything public, and keys that the
//! program has itself, are computed in process by AWS-LC. What this provider does not have, OpenSSL finds in its default one.
//!
//! The dispatch tables are written by hand ([`ffi`]): OpenSSL's numbers never changed their meaning from 3.0 to 3.5, so one library
//! serves them all, is built without OpenSSL's headers, and links nothing of OpenSSL. **Guarantees:** a panic
//! never crosses into C; what OpenSSL hands in is read within the lengths that it states; a private key of the service has no bytes here; the
//! library may be loaded before fork(2), because it connects in the thread that needs it.

#![deny(unsafe_code)]

mod asn1;
mod engine;
#[doc(hidden)]
pub mod ffi;
mod key;
mod reason;
mod signing;
