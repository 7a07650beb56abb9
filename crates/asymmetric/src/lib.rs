//! Public-key operations as the engine service and the OpenSSL provider need them: private keys read, made and used; signatures
//! verified; secrets agreed.
//!
//! AWS-LC computes, one operation at a time. It blinds RSA's private operation and checks its result before anybody sees it.
//! **Guarantees:** a key is of a [`sealane_client::KeyKind`] or is none; every operation takes any bytes and gives an answer or a
//! status; private bytes are zeroed when dropped and appear in no `Debug`.

#![deny(unsafe_code)]

mod library;
mod private;
mod public;
mod scrypt;

pub use private::{NoKey, PrivateKey};
pub use public::{PublicKey, Verification};
pub use scrypt::{SCRYPT_LOG_N, Sealer, random};
