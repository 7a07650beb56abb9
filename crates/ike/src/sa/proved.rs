//! The proof of a peer, judged again when the configuration has changed.
//!
//! Guarantees: a peer stays only if it could prove itself anew; a negotiation that has not come to an end is begun anew.

use subtle::ConstantTimeEq as _;

use super::{Context, Parts, Sa, auth::X509};
use crate::config::{Expect, Peer};

impl Sa {
    /// Keeps the certificates that a peer's proof was made with.
    pub(super) fn keep_certificates(&mut self, parts: &Parts) {
        if matches!(self.peer.expect, Expect::Certificate(_)) {
            let of_x509 = parts.certificates.iter().filter(|(encoding, _)| *encoding == X509);
            self.chain = of_x509.map(|(_, der)| der.clone()).collect();
        }
    }

    /// Returns whether the peer could prove itself anew, were `peer` its configuration.
    pub(crate) fn would_be_proved(&self, context: &Context<'_>, peer: &Peer) -> bool {
        let unix_time = context.settings.unix_time(context.now);
        let Some(holder) = &self.holder else { return false };
        let chain: Vec<&[u8]> = self.chain.iter().map(Vec::as_slice).collect();
        match (&self.peer.expect, &peer.expect) {
            (Expect::SharedKey(old), Expect::SharedKey(new)) => bool::from(old.ct_eq(new)),
            (Expect::PublicKeys(old), Expect::PublicKeys(new)) => old == new,
            (Expect::Certificate(_), Expect::Certificate(authorities)) => {
                authorities.verify(&chain, &holder.identity, unix_time).is_ok()
            }
            (Expect::Eap(old), Expect::Eap(new)) => match (&holder.user, &new.tls) {
                (Some(_), Some(tls)) if !chain.is_empty() => {
                    tls.authorities.verify_anybody(&chain, unix_time).is_ok()
                }
                (Some(user), _) if chain.is_empty() => new.users.has_same(&old.users, user),
                _ => false,
            },
            // Our own proof is the peer's, too: its certificate was verified within the conversation.
            (Expect::EapOnly, Expect::EapOnly) => true,
            _ => false,
        }
    }
}
