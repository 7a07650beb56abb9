//! The proof that an end owns the key it shows: one signature of the handshake's transcript (RFC 8446, section 4.4.3).
//!
//! A hybrid key proves itself by one composite signature in `CertificateVerify`, under a scheme of the range for private use.
//! Both halves so sign the same transcript, in which both ends' nonces, shares, offered schemes and shown keys are, and the
//! library that checks the order of the handshake's messages knows of no second proof that could be left out. The other way, a
//! second signature of the exporter's value (RFC 9266) in first messages of our own, would need a state in which an end is
//! trusted by half, in the daemon, the gateway and the client, and one more round trip.
//!
//! **There is nothing to negotiate down.** An end has one key of one kind. Who judges it compares the whole key with its file
//! before the signature is looked at, and then takes no scheme but the key's own. Removing the composite scheme from an offer
//! makes an end with a hybrid key fail, and alters the transcript.

use std::sync::Arc;

use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use crate::composite::CompositeKey;
use sealane_transform::debug_only;

/// ML-DSA-65 with Ed25519, in the range for private use (RFC 8446, section 4.2.3): the drafts' own numbers are not assigned yet,
/// and nobody but our ends meets it.
pub(crate) const COMPOSITE: SignatureScheme = SignatureScheme::Unknown(0xfe30);

/// A hybrid key as TLS uses it.
#[derive(Clone)]
pub(crate) struct CompositeSigner(pub(crate) Arc<CompositeKey>);

debug_only!(CompositeSigner {});

impl SigningKey for CompositeSigner {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&COMPOSITE).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        let [_, low] = COMPOSITE.to_array();
        SignatureAlgorithm::Unknown(low)
    }
}

impl Signer for CompositeSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.0.sign(message).ok_or_else(|| rustls::Error::General("the hybrid key cannot sign".into()))
    }

    fn scheme(&self) -> SignatureScheme {
        COMPOSITE
    }
}
