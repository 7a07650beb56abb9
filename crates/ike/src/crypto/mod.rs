//! The algorithms of IKEv2, each a value with its number on the wire and its name in files.
//!
//! Guarantees: secrets are wiped when they are dropped and never printed; check values are compared in constant time;
//! no value from a peer makes a key exchange panic, and a value whose result the peer could know beforehand is
//! refused.

pub mod algorithm;
pub mod exchange;
mod legacy;
pub mod prf;
pub mod seal;
pub mod sign;

pub use algorithm::{Encryption, Integrity, KeyExchange, Prf};
pub use exchange::{Ongoing, SharedSecret};
pub use seal::Sealer;

/// A cryptographic step failed: a peer's value is not valid, or a message is not genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// A public value is not valid for its key exchange.
    #[error("the peer's public value is not one of {}", method.name())]
    PublicValue {
        /// The key exchange.
        method: KeyExchange,
    },
    /// A message was not made by a holder of the keys.
    #[error("a message is not genuine")]
    NotGenuine,
    /// The library or the system's source of randomness refused.
    #[error("the cryptographic library failed")]
    Library,
}
