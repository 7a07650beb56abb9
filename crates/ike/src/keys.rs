//! Keys of an IKE SA and of its children (RFC 7296, sections 2.13 to 2.18; RFC 9370, section 2.2).

use zeroize::Zeroizing;

use crate::{
    crypto::{CryptoError, Encryption, Integrity, Prf, Sealer, SharedSecret, prf::Secret},
    wire::Spis,
};

/// What the keys of an IKE SA follow from, besides secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPlan {
    /// Encryption of messages.
    pub encryption: Encryption,
    /// Integrity of messages, unless the encryption has it.
    pub integrity: Option<Integrity>,
    /// The function that derives keys.
    pub prf: Prf,
}

/// Both nonces of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonces {
    /// Of who began the exchange.
    pub initiator: Vec<u8>,
    /// Of who answered.
    pub responder: Vec<u8>,
}

impl Nonces {
    /// The lesser of the two, by which colliding exchanges are told apart (RFC 7296, section 2.8.1).
    pub fn lowest(&self) -> &[u8] {
        self.initiator.as_slice().min(&self.responder)
    }
}

/// The keys of an IKE SA.
pub struct IkeKeys {
    /// SK_d, which children's keys and those of a successor come from.
    pub derive: Secret,
    /// Messages of who began the IKE SA.
    pub initiator: Sealer,
    /// Messages of who answered.
    pub responder: Sealer,
    /// SK_pi: binds the initiator's identity into its proof.
    pub proof_initiator: Secret,
    /// SK_pr.
    pub proof_responder: Secret,
}

impl std::fmt::Debug for IkeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IkeKeys")
    }
}

/// SKEYSEED of a new IKE SA: prf(Ni | Nr, g^ir).
pub fn seed(prf: Prf, nonces: &Nonces, shared: &SharedSecret) -> Secret {
    let key = Zeroizing::new([nonces.initiator.as_slice(), &nonces.responder].concat());
    prf.compute(&key, &[shared])
}

/// SKEYSEED of an IKE SA that replaces one whose function and SK_d are given: prf(SK_d, g^ir | Ni | Nr | SK(1) | …).
pub fn rekeyed_seed(prf: Prf, derive: &Secret, nonces: &Nonces, shared: &[SharedSecret]) -> Secret {
    let (first, additional) = shared.split_first().expect("an IKE SA is rekeyed with a key exchange");
    let mut parts: Vec<&[u8]> = vec![first, &nonces.initiator, &nonces.responder];
    parts.extend(additional.iter().map(|secret| secret.as_slice()));
    prf.compute(derive, &parts)
}

/// SKEYSEED after an additional key exchange in IKE_INTERMEDIATE: prf(SK_d, SK(n) | Ni | Nr).
pub fn mixed_seed(prf: Prf, derive: &Secret, nonces: &Nonces, shared: &SharedSecret) -> Secret {
    prf.compute(derive, &[shared, &nonces.initiator, &nonces.responder])
}

impl IkeKeys {
    /// All keys of a SKEYSEED: prf+(SKEYSEED, Ni | Nr | SPIi | SPIr), cut in the order of RFC 7296.
    ///
    /// # Errors
    /// The algorithms do not belong together.
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

/// Key material of a pair of associations, as [`crate::EspSuite`] says how long: encryption key, salt, integrity key.
pub struct ChildKeys {
    /// What the exchange's initiator sends with.
    pub from_initiator: Secret,
    /// What its responder sends with.
    pub from_responder: Secret,
}

impl ChildKeys {
    /// KEYMAT = prf+(SK_d, [g^ir |] Ni | Nr [| SK(1) | …]).
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
