//! The words of a `[peers.ike]` table by which both ends prove who they are.
//!
//! Guarantees: an accepted table names one proof of each end; words that belong to another one are refused.

use std::path::PathBuf;

use sealane_peer::PublicKey;
use toml::Spanned;

use super::{IDENTITY_BYTES_MAX, Known, Proof, RawIke, Trust, UserSecret};
use crate::site::{SiteError, Text};

/// Reads how both ends prove who they are; `at` is where the table begins.
pub(super) fn read(place: &Text<'_>, at: usize, raw: &RawIke) -> Result<Proof, SiteError> {
    let RawIke { psk_file, private_key, certificate, ca, public_key, key, .. } = raw;
    if raw.any {
        return clients(place, at, raw);
    }
    let of_clients = [word(&raw.users_file), word(&raw.users_ca)];
    refuse(place, of_clients, "this belongs to an entry with `any`, which stands for many clients")?;
    if let (None, Some(list)) = (ca, raw.crls.first()) {
        return Err(place.error(Some(list.span().start), "lists of revoked certificates belong to a `ca`"));
    }
    if let Some(user) = &raw.user {
        return own_user(place, raw, user);
    }
    refuse(place, [word(&raw.password_file)], "whose password is it? Give the `user` too")?;
    if let Some(psk) = psk_file {
        let others = [word(private_key), word(certificate), word(ca), word(public_key), word(key)];
        refuse(place, others, "`psk-file` stands alone: with it both ends prove who they are")?;
        return Ok(Proof::Shared(place.beside(psk.get_ref())));
    }
    let peer = match (ca, public_key, key) {
        (Some(ca), None, None) => Known::Authorities(trust(place, raw, ca)),
        (None, Some(file), None) => Known::PublicKey(place.beside(file.get_ref())),
        (None, None, Some(key)) => {
            let known: PublicKey = place.parsed(key)?;
            if known.ed25519().is_none() {
                let message = "IKE has no hybrid keys: use the peer's `key` outside [peers.ike] (the protocol of sealane), an \
                               identity of Ed25519 alone at the peer, or certificates of ML-DSA (`ml-dsa = true`)";
                return Err(place.error(Some(key.span().start), message));
            }
            Known::Key(known)
        }
        (None, None, None) => {
            let message = match private_key {
                None => {
                    "no proof: give `psk-file`, or `private-key` with `certificate` and `ca`, or the `key` that `sealane id` \
                     prints at the peer"
                }
                Some(_) => {
                    "how is the peer known? By `ca`, the file of its authority, by `public-key`, or by `key`"
                }
            };
            let at = private_key.as_ref().map_or(at, |private| private.span().start);
            return Err(place.error(Some(at), message));
        }
        (ca, file, _) => {
            let second = if ca.is_some() && file.is_some() { word(public_key) } else { word(key) };
            let message = "the peer is known twice: by `ca`, by `public-key` or by `key`";
            return Err(place.error(second.map(Located::at), message));
        }
    };
    if private_key.is_none() && (certificate.is_some() || !matches!(peer, Known::Key(_))) {
        let message = "no proof of ours: give `private-key`; only beside `key` it is the gateway's own, as `sealane id` makes it";
        return Err(place.error(Some(at), message));
    }
    let file = |file: &Spanned<PathBuf>| place.beside(file.get_ref());
    Ok(Proof::Keys {
        private: private_key.as_ref().map(file),
        certificate: certificate.as_ref().map(file),
        peer,
    })
}

/// Reads how we prove ourselves as a user of the peer.
fn own_user(place: &Text<'_>, raw: &RawIke, user: &Spanned<String>) -> Result<Proof, SiteError> {
    let fail = |message: &str| Err(place.error(Some(user.span().start), message));
    let others = [word(&raw.psk_file), word(&raw.public_key), word(&raw.key)];
    refuse(place, others, "a `user` knows the peer by `ca`, the authority of its certificate")?;
    let file = |file: &Spanned<PathBuf>| place.beside(file.get_ref());
    let secret = match (&raw.password_file, &raw.private_key, &raw.certificate) {
        (Some(password), None, None) => UserSecret::Password(file(password)),
        (None, Some(private), Some(certificate)) => {
            UserSecret::Certificate { private: file(private), certificate: file(certificate) }
        }
        _ => {
            return fail("a `user` has `password-file`, or `private-key` with `certificate`");
        }
    };
    let Some(ca) = &raw.ca else {
        return fail("a `user` knows the peer by `ca`, the file of the authority of its certificate");
    };
    let name = user.get_ref();
    if !(1..=IDENTITY_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
        return fail("a user's name has 1 to 255 bytes, and no control characters");
    }
    Ok(Proof::User { name: name.clone(), secret, server: trust(place, raw, ca) })
}

/// Reads how many clients prove themselves.
fn clients(place: &Text<'_>, at: usize, raw: &RawIke) -> Result<Proof, SiteError> {
    let message = "clients that have a shared secret could pass for the gateway to each other: give them passwords in \
                   `users-file`, or certificates";
    refuse(place, [word(&raw.psk_file)], message)?;
    let others = [word(&raw.public_key), word(&raw.key), word(&raw.user), word(&raw.password_file)];
    refuse(
        place,
        others,
        "an entry with `any` stands for many clients: they have `users-file`, `users-ca` or `ca`",
    )?;
    refuse(place, [word(&raw.virtual_addresses)], "clients get addresses from us, by `[pool]`")?;
    let (Some(private), Some(certificate)) = (&raw.private_key, &raw.certificate) else {
        let message = "clients know the gateway by its certificate: give `private-key` and `certificate`, as `sealane tunnel pki` \
                       makes them";
        return Err(place.error(Some(at), message));
    };
    if raw.users_file.is_none() && raw.users_ca.is_none() && raw.ca.is_none() {
        let message = "how do clients prove who they are? By passwords in `users-file`, by certificates of `users-ca` within EAP, \
                       or by certificates of `ca`";
        return Err(place.error(Some(at), message));
    }
    let file = |file: &Spanned<PathBuf>| place.beside(file.get_ref());
    let trust = |ca: &Spanned<PathBuf>| trust(place, raw, ca);
    Ok(Proof::Clients {
        private: file(private),
        certificate: file(certificate),
        users: raw.users_file.as_ref().map(file),
        users_trust: raw.users_ca.as_ref().map(trust),
        trust: raw.ca.as_ref().map(trust),
    })
}

/// Returns the authorities in the file `ca`, with the entry's lists of revoked certificates.
fn trust(place: &Text<'_>, raw: &RawIke, ca: &Spanned<PathBuf>) -> Trust {
    Trust {
        authorities: place.beside(ca.get_ref()),
        revocations: raw.crls.iter().map(|file| place.beside(file.get_ref())).collect(),
    }
}

/// Refuses the first of the given words, which do not fit beside others.
fn refuse<'w>(
    place: &Text<'_>,
    words: impl IntoIterator<Item = Option<&'w dyn Located>>,
    message: &str,
) -> Result<(), SiteError> {
    match words.into_iter().flatten().next() {
        None => Ok(()),
        Some(word) => Err(place.error(Some(word.at()), message)),
    }
}

/// A word of the file.
trait Located {
    fn at(&self) -> usize;
}

impl<T> Located for Spanned<T> {
    fn at(&self) -> usize {
        self.span().start
    }
}

/// Returns a word's place, if there is the word.
fn word<T>(word: &Option<Spanned<T>>) -> Option<&dyn Located> {
    word.as_ref().map(|word| word as &dyn Located)
}
