//! The algorithms as values: one enum per kind, generated from the list in `list.rs`.
//!
//! Guarantees: a value names exactly one algorithm of the catalogue, which leads from it to facts and kernels.

use crate::modes::Mode;

/// Defines an enum of a list's algorithms.
macro_rules! enumerate {
    (
        $(#[$attribute:meta])*
        $name:ident {
            $($folder:ident { $($variant:ident = $descriptor:ident $(($key:ident))? $doc:literal),* })*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $( #[doc = $doc] $variant, )* )*
        }

        impl $name {
            /// All of them, in the order of the list.
            pub const ALL: [Self; [$( $( Self::$variant, )* )*].len()] = [$( $( Self::$variant, )* )*];
        }
    };
}

macro_rules! enumerate_digests {
    (digest { $($list:tt)* }) => {
        enumerate! {
            /// Digests and message authentication codes.
            Digest { $($list)* }
        }
    };
}
digests!(enumerate_digests);

macro_rules! enumerate_aeads {
    (aead { $($folder:ident($name:ident: $key:ident) { $($list:tt)* })* }) => {
        enumerate! {
            /// Authenticated encryption.
            Aead { $($folder { $($list)* })* }
        }
    };
}
aeads!(enumerate_aeads);

macro_rules! enumerate_asymmetrics {
    (asymmetric { $($folder:ident($name:ident) { $($list:tt)* })* }) => {
        enumerate! {
            /// Public-key algorithms.
            Asymmetric { $($folder { $($list)* })* }
        }
    };
}
asymmetrics!(enumerate_asymmetrics);

macro_rules! enumerate_ciphers {
    (
        block { $($list:tt)* }
        stream { $($folder:ident { $($variant:ident = $descriptor:ident($key:ident) $doc:literal),* })* }
    ) => {
        enumerate! {
            /// Block ciphers, which a mode makes into a [`Cipher`].
            BlockCipher { $($list)* }
        }

        /// Ciphers without authentication.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Cipher {
            /// Copies.
            Null,
            /// A block cipher in a mode.
            Block(BlockCipher, Mode),
            $( $( #[doc = $doc] $variant, )* )*
        }

        impl Cipher {
            /// All algorithms that are not a block cipher in a mode.
            pub(crate) const STREAMS: &'static [Self] = &[Self::Null, $( $( Self::$variant, )* )*];
        }
    };
}
ciphers!(enumerate_ciphers);

/// Authentication without encryption, by an AEAD without data to encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gmac {
    /// AES-128-GMAC, SP 800-38D: AES-128-GCM with the message as associated data.
    Aes128,
    /// AES-256-GMAC.
    Aes256,
}

/// Any algorithm of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A digest or MAC.
    Digest(Digest),
    /// A cipher without authentication.
    Cipher(Cipher),
    /// A cipher with authentication, and with a nonce for each message.
    Aead(Aead),
    /// A MAC that needs a nonce.
    Gmac(Gmac),
}
