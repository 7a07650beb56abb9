//! Keys of an IKE SA and of its children (RFC 7296, sections 2.13 to 2.18; RFC 9370, section 2.2).

use zeroize::Zeroizing;

use crate::{
    crypto::{CryptoError, Encryption, Integrity, Prf, Sealer, SharedSecret, prf::Secret},
    wire::Spis,
};

/// The algorithms for which the keys of an IKE SA are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPlan {
    /// Encryption of messages.
    pub encryption: Encryption,
    /// Integrity of messages, unless the encryption provides it.
    pub integrity: Option<Integrity>,
    /// The function that derives keys.
    pub prf: Prf,
}

/// Both nonces of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonces {
    /// The initiator's nonce.
    pub initiator: Vec<u8>,
    /// The responder's nonce.
    pub responder: Vec<u8>,
}

impl Nonces {
    /// Returns the lower of the two nonces, which decides between colliding exchanges (RFC 7296, section 2.8.1).
    pub fn lowest(&self) -> &[u8] {
        self.initiator.as_slice().min(&self.responder)
    }
}

/// The keys of an IKE SA.
pub struct IkeKeys {
    /// SK_d, from which the keys of children and of a successor are derived.
    pub derive: Secret,
    /// The keys of messages from the initiator of the IKE SA.
    pub initiator: Sealer,
    /// The keys of messages from its responder.
    pub responder: Sealer,
    /// SK_pi, which binds the initiator's identity into its proof.
    pub proof_initiator: Secret,
    /// SK_pr, which binds the responder's identity into its proof.
    pub proof_responder: Secret,
}

impl std::fmt::Debug for IkeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IkeKeys")
    }
}

/// Returns the SKEYSEED of a new IKE SA: prf(Ni | Nr, g^ir).
pub fn seed(prf: Prf, nonces: &Nonces, shared: &SharedSecret) -> Secret {
    let key = Zeroizing::new([nonces.initiator.as_slice(), &nonces.responder].concat());
    prf.compute(&key, &[shared])
}

/// Returns the SKEYSEED of an IKE SA that replaces one with the given function and SK_d: prf(SK_d, g^ir | Ni | Nr |
/// SK(1) | …).
pub fn rekeyed_seed(prf: Prf, derive: &Secret, nonces: &Nonces, shared: &[SharedSecret]) -> Secret {
    let (first, additional) = shared.split_first().expect("an IKE SA is rekeyed with a key exchange");
    let mut parts: Vec<&[u8]> = vec![first, &nonces.initiator, &nonces.responder];
    parts.extend(additional.iter().map(|secret| secret.as_slice()));
    prf.compute(derive, &parts)
}

/// Returns the SKEYSEED after an additional key exchange in IKE_INTERMEDIATE: prf(SK_d, SK(n) | Ni | Nr).
pub fn mixed_seed(prf: Prf, derive: &Secret, nonces: &Nonces, shared: &SharedSecret) -> Secret {
    prf.compute(derive, &[shared, &nonces.initiator, &nonces.responder])
}

impl IkeKeys {
    /// Derives all keys from a SKEYSEED: prf+(SKEYSEED, Ni | Nr | SPIi | SPIr), cut in the order of RFC 7296.
    ///
    /// # Errors
    /// Fails if the algorithms do not belong together.
    pub fn derive(plan: KeyPlan, seed: &Secret, nonces: &Nonces, spis: Spis) -> Result<Self, CryptoError> {
        let preferred = plan.prf.output_bytes();
        let integrity = plan.integrity.map_or(0, Integrity::key_bytes);
        let encryption = plan.encryption.key_bytes() + plan.encryption.salt_bytes();
        let lengths = [preferred, integrity, integrity, encryption, encryption, preferred, preferred];
        let all = plan.prf.plus(
            seed,
            &[&nonces.initiator, &nonces.responder, &spis.to_bytes()],
            lengths.iter().sum(),
        );
        let mut rest = all.as_slice();
        let [derive, ai, ar, ei, er, pi, pr] = lengths.map(|length| {
            let (key, behind) = rest.split_at(length);
            rest = behind;
            key
        });
        let sealer = |e, a| Sealer::new(plan.encryption, plan.integrity, e, a);
        Ok(Self {
            derive: Zeroizing::new(derive.to_vec()),
            initiator: sealer(ei, ai)?,
            responder: sealer(er, ar)?,
            proof_initiator: Zeroizing::new(pi.to_vec()),
            proof_responder: Zeroizing::new(pr.to_vec()),
        })
    }
}

/// Key material of a pair of associations: encryption key, salt, integrity key, with the lengths of
/// [`crate::ChildSuite`].
pub struct ChildKeys {
    /// The key material that the initiator of the exchange sends with.
    pub from_initiator: Secret,
    /// The key material that its responder sends with.
    pub from_responder: Secret,
}

impl ChildKeys {
    /// Derives the key material: KEYMAT = prf+(SK_d, [g^ir |] Ni | Nr [| SK(1) | …]).
    pub fn derive(
        prf: Prf,
        derive: &Secret,
        nonces: &Nonces,
        shared: &[SharedSecret],
        material_bytes: usize,
    ) -> Self {
        let mut seed: Vec<&[u8]> = shared.iter().take(1).map(|secret| secret.as_slice()).collect();
        seed.extend([nonces.initiator.as_slice(), &nonces.responder]);
        seed.extend(shared.iter().skip(1).map(|secret| secret.as_slice()));
        let all = prf.plus(derive, &seed, 2 * material_bytes);
        let (from_initiator, from_responder) = all.split_at(material_bytes);
        Self {
            from_initiator: Zeroizing::new(from_initiator.to_vec()),
            from_responder: Zeroizing::new(from_responder.to_vec()),
        }
    }
}
