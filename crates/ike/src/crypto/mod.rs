//! The algorithms of IKEv2, each a value with its number on the wire and its word in files.
//!
//! Guarantees: secrets are wiped when they are dropped and never printed; check values are compared in constant time; no value
//! that a peer sends makes a key exchange panic, and one whose result the peer could know beforehand is refused.

pub mod algorithm;
pub mod exchange;
mod legacy;
mod modp;
pub mod prf;
pub mod seal;
pub mod sign;

pub use algorithm::{Encryption, Integrity, KeyExchange, Prf};
pub use exchange::{Ongoing, SharedSecret};
pub use seal::Sealer;

/// A cryptographic step failed: a peer's value is no value of its kind, or a message is not genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// A public value that is none.
    #[error("the peer's public value is not one of {}", method.name())]
    PublicValue {
        /// The exchange that it was meant for.
        method: KeyExchange,
    },
    /// A message that does not come from who has the keys.
    #[error("a message is not genuine")]
    NotGenuine,
    /// The library or the system's source of randomness refused.
    #[error("the cryptographic library failed")]
    Library,
}
