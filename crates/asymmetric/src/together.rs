//! Operations of several private keys side by side.
//!
//! **Guarantees:** each request has an answer that [`PrivateKey::run`] could give alone (signatures by ECDSA and PSS
//! have random parts); an operation or a key that the kernels do not have, AWS-LC computes. A signature by RSA
//! leaves only after it was verified.

use crate::PrivateKey;
use crate::private::KernelKey;
use crate::scrypt::random;
use sealane_client::{Answer, Hash, KeyKind, Operation, Status};
use sealane_transform::rsa::{RsaHash, pkcs1_block, pss_block};
use sealane_transform::{
    ASYMMETRIC_WAYS, AsymmetricJob, AsymmetricOperation, Kernels, Refusal, ed25519, p256, rsa, x25519,
};
use std::sync::Arc;
use zeroize::Zeroizing;

/// An operation with a private key.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The key that computes; each request may have another one.
    pub key: &'a PrivateKey,
    /// The operation; [`Status::WrongKind`] is the answer if it does not suit the key.
    pub operation: Operation,
    /// The digest, message, ciphertext or public key that the operation takes.
    pub content: &'a [u8],
}

/// The least number of requests for which [`run_together`] may be faster than one call for each: that of RSA, the
/// dearest of the usual operations.
pub const WORTHWHILE: usize = 3;

/// Returns the number of operations with keys of a kind that fill one pass of the kernels. One of RSA takes two ways, a
/// way for each prime.
pub fn pass(kind: KeyKind) -> usize {
    match kind {
        KeyKind::Rsa { .. } | KeyKind::RsaPss { .. } => ASYMMETRIC_WAYS / 2,
        KeyKind::P256
        | KeyKind::P384
        | KeyKind::P521
        | KeyKind::Ed25519
        | KeyKind::X25519
        | KeyKind::MlDsa(_) => ASYMMETRIC_WAYS,
    }
}

/// Answers all requests, in their order.
pub fn run_together(kernels: &Kernels, requests: &[Request<'_>]) -> Vec<Answer> {
    let alone = |request: &Request<'_>| request.key.run(request.operation, request.content);
    if requests.len() < WORTHWHILE {
        return requests.iter().map(alone).collect();
    }
    let mut jobs: Vec<Option<AsymmetricJob>> =
        requests.iter().map(|request| request.operation().map(AsymmetricJob::new)).collect();
    kernels.asymmetric(jobs.iter_mut().flatten());
    let answer = |(request, job): (&Request<'_>, Option<AsymmetricJob>)| match job {
        Some(job) => request.answer(job),
        None => alone(request),
    };
    requests.iter().zip(jobs).map(answer).collect()
}

impl Request<'_> {
    /// Returns the operation for the kernels that compute several at once, if they have it. Requests that are refused are not for them.
    pub(crate) fn operation(&self) -> Option<AsymmetricOperation> {
        if !self.operation.suits(self.key.kind()) {
            return None;
        }
        if let Operation::SignMlDsa { is_deterministic } = self.operation {
            return self.key.ml_dsa_signing(self.content, is_deterministic);
        }
        let operation = match (self.operation, self.key.for_kernels()?) {
            (Operation::SignPkcs1(Some(hash)), KernelKey::Rsa(key)) => {
                let mut block = block(key);
                pkcs1_block(rsa_hash(hash)?, self.content, &mut block).ok()?;
                rsa::Operation::Private { key: Arc::clone(key), block }.into()
            }
            (Operation::SignPss { hash, mask, salt_bytes }, KernelKey::Rsa(key)) => {
                let (mut block, salt) = (block(key), random::<64>());
                let salt = salt.get(..usize::from(salt_bytes))?;
                pss_block(rsa_hash(hash)?, rsa_hash(mask)?, self.content, salt, &mut block).ok()?;
                rsa::Operation::Private { key: Arc::clone(key), block }.into()
            }
            (Operation::SignEcdsa, KernelKey::P256(key)) => {
                let digest = self.content.try_into().ok().filter(|_| self.content.len() >= 20)?;
                p256::Operation::Sign { key: Arc::clone(key), digest, hedge: Some(random()) }.into()
            }
            (Operation::SignEd25519, KernelKey::Ed25519(key)) => {
                let message = self.content.to_vec();
                ed25519::Operation::Sign { key: Arc::clone(key), message }.into()
            }
            (Operation::Derive, KernelKey::P256(key)) => {
                let peer = self.content.try_into().ok().filter(|_| self.content.len() == 65)?;
                p256::Operation::Agree { key: Arc::clone(key), peer }.into()
            }
            (Operation::Derive, KernelKey::X25519(key)) => {
                x25519::Operation::Agree { key: Arc::clone(key), peer: self.content.try_into().ok()? }.into()
            }
            _ => return None,
        };
        Some(operation)
    }

    /// Returns a job's answer in the form of [`PrivateKey::run`].
    fn answer(&self, job: AsymmetricJob) -> Answer {
        match (job.into_answer(), self.operation) {
            (Ok(signature), Operation::SignEcdsa) => {
                let signature = signature.as_slice().try_into().map_err(|_| Status::Failed)?;
                Ok(Zeroizing::new(p256::signature_to_der(signature).to_vec()))
            }
            (Ok(answer), _) => Ok(answer),
            (Err(refusal), _) => Err(status(refusal)),
        }
    }
}

/// Returns the status of an operation that the kernels have refused.
pub(crate) fn status(refusal: Refusal) -> Status {
    match refusal {
        Refusal::BadInput | Refusal::NotVerified => Status::BadContent,
        Refusal::Fault => Status::Failed,
    }
}

/// Returns an empty block of a key's length.
fn block(key: &rsa::RsaPrivateKey) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(vec![0; key.public().bytes()])
}

fn rsa_hash(hash: Hash) -> Option<RsaHash> {
    match hash {
        Hash::Sha1 => Some(RsaHash::Sha1),
        Hash::Sha256 => Some(RsaHash::Sha256),
        Hash::Sha384 => Some(RsaHash::Sha384),
        Hash::Sha512 => Some(RsaHash::Sha512),
        Hash::Sha224 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PublicKey, Verification};
    use sealane_client::{KeyKind, MlDsaSet};

    /// Returns every operation that signs or agrees, with a kind of key and a content, and how it is verified.
    fn cases() -> Vec<(KeyKind, Operation, Vec<u8>, Option<Verification>)> {
        let rsa = KeyKind::Rsa { bits: 2048 };
        let (hash, mask) = (Hash::Sha256, Hash::Sha384);
        let peer = |kind| {
            let key = PrivateKey::generate(kind).unwrap();
            let length = if kind == KeyKind::P256 { 65 } else { 32 };
            key.public()[key.public().len() - length..].to_vec()
        };
        let pss = Verification::Pss { hash, mask, salt_bytes: Some(32) };
        let pkcs1 = |hash| Verification::Pkcs1(Some(hash));
        let sign_ml_dsa = Operation::SignMlDsa { is_deterministic: false };
        vec![
            (rsa, Operation::SignPkcs1(Some(hash)), vec![7; 32], Some(pkcs1(hash))),
            (rsa, Operation::SignPkcs1(Some(Hash::Sha224)), vec![7; 28], Some(pkcs1(Hash::Sha224))),
            (rsa, Operation::SignPss { hash, mask, salt_bytes: 32 }, vec![8; 32], Some(pss)),
            (
                KeyKind::RsaPss { bits: 2048, limits: None },
                Operation::SignPss { hash, mask, salt_bytes: 32 },
                vec![8; 32],
                Some(pss),
            ),
            (KeyKind::P256, Operation::SignEcdsa, vec![9; 32], Some(Verification::Ecdsa)),
            (KeyKind::P384, Operation::SignEcdsa, vec![9; 48], Some(Verification::Ecdsa)),
            (KeyKind::P521, Operation::SignEcdsa, vec![9; 64], Some(Verification::Ecdsa)),
            (KeyKind::Ed25519, Operation::SignEd25519, b"a message".to_vec(), Some(Verification::Ed25519)),
            (KeyKind::MlDsa(MlDsaSet::MlDsa44), sign_ml_dsa, vec![7; 64], Some(Verification::MlDsa)),
            (KeyKind::MlDsa(MlDsaSet::MlDsa65), sign_ml_dsa, vec![8; 64], Some(Verification::MlDsa)),
            (KeyKind::MlDsa(MlDsaSet::MlDsa87), sign_ml_dsa, vec![9; 64], Some(Verification::MlDsa)),
            (KeyKind::P256, Operation::Derive, peer(KeyKind::P256), None),
            (KeyKind::X25519, Operation::Derive, peer(KeyKind::X25519), None),
        ]
    }

    #[test]
    fn every_request_has_the_answer_that_it_has_alone() {
        let cases = cases();
        let keys: Vec<PrivateKey> =
            cases.iter().map(|(kind, ..)| PrivateKey::generate(*kind).unwrap()).collect();
        let requests: Vec<Request<'_>> = (0..6)
            .flat_map(|_| keys.iter().zip(&cases))
            .map(|(key, (_, operation, content, _))| Request { key, operation: *operation, content })
            .collect();
        let answers = run_together(&Kernels::best(), &requests);
        assert_eq!(answers.len(), requests.len());
        for ((request, answer), (.., how)) in requests.iter().zip(answers).zip(cases.iter().cycle()) {
            let answer = answer.unwrap();
            match how {
                Some(how) => {
                    let public = PublicKey::of_der(request.key.public()).unwrap();
                    assert!(public.verifies(*how, request.content, &answer), "{request:?}");
                }
                None => assert_eq!(Ok(answer), request.key.run(request.operation, request.content)),
            }
        }
    }

    #[test]
    fn requests_that_make_no_sense_are_refused_beside_others() {
        let rsa = PrivateKey::generate(KeyKind::Rsa { bits: 2048 }).unwrap();
        let x25519 = PrivateKey::generate(KeyKind::X25519).unwrap();
        let sign = Operation::SignPkcs1(Some(Hash::Sha256));
        let cases: [(&PrivateKey, Operation, &[u8]); 6] = [
            (&rsa, sign, &[1; 32]),
            (&rsa, sign, &[1; 31]),
            (&x25519, sign, &[1; 32]),
            (&x25519, Operation::Derive, &[0; 32]),
            (&x25519, Operation::Derive, &[9; 31]),
            (&x25519, Operation::Derive, &[9; 32]),
        ];
        let requests = cases.map(|(key, operation, content)| Request { key, operation, content });
        let answers = run_together(&Kernels::best(), &requests);
        for (request, answer) in requests.iter().zip(answers) {
            assert_eq!(answer, request.key.run(request.operation, request.content), "{request:?}");
        }
    }
}
