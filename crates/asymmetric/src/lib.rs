//! Public-key operations for the engine service and the OpenSSL provider: reading, making and using private keys,
//! verifying signatures, agreeing on secrets.
//!
//! AWS-LC computes one operation at a time, and [`run_together`] several side by side; [`Halves`] divide one of RSA between two
//! threads. All blind RSA's private operation and check its result before returning it. **Guarantees:** every key is of a [`sealane_client::KeyKind`]; every operation accepts any bytes and returns
//! an answer or a status; private bytes are zeroed when dropped and appear in no `Debug` output.

#![forbid(unsafe_code)]

pub mod der;
pub mod formats;
mod halves;
mod library;
mod ml_dsa;
mod private;
mod public;
mod scrypt;
mod together;

pub use halves::Halves;
pub use ml_dsa::{MlDsaFault, PREPARED_MAX};
pub use private::{ImportError, NoKey, PrivateKey};
pub use public::{PublicKey, Verification};
pub use scrypt::{SCRYPT_LOG_N, Sealer, random};
pub use sealane_transform::rsa::{Half, Prime, Spent};
pub use together::{Request, WORTHWHILE, pass, run_together};
