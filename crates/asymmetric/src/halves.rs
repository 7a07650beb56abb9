//! A signature by RSA in two halves, which two threads can compute at the same time.
//!
//! **Guarantees:** the answer is one that [`crate::PrivateKey::run`] could give; it leaves only after it was verified.
//! Decryptions are not divided: AWS-LC removes their padding in constant time, and only of its own results.

use crate::Request;
use crate::together::status;
use sealane_client::{Answer, Operation};
use sealane_transform::rsa::{self, Half, Prime, Spent};
use sealane_transform::{AsymmetricOperation, Kernels};

/// An operation that has begun.
#[derive(Debug)]
pub struct Halves(rsa::Halves);

impl Halves {
    /// Begins a request; returns `None` if it has no halves, or is refused. The numbers that it has spent are renewed best
    /// while another thread has the second half.
    pub fn begin(kernels: &Kernels, request: &Request<'_>) -> Option<(Self, Spent)> {
        if !Self::are_possible(request) {
            return None;
        }
        let AsymmetricOperation::Rsa(operation) = request.operation()? else { return None };
        kernels.halves(operation).map(|(halves, spent)| (Self(halves), spent))
    }

    /// Returns whether a request may have halves, by its kind alone.
    pub fn are_possible(request: &Request<'_>) -> bool {
        request.key.kind().modulus_bits().is_some()
            && matches!(request.operation, Operation::SignPkcs1(Some(_)) | Operation::SignPss { .. })
    }

    /// Computes one half; returns `None` if the library fails.
    pub fn half(&self, prime: Prime) -> Option<Half> {
        self.0.half(prime)
    }

    /// Joins the halves modulo the first and the second prime.
    ///
    /// # Errors
    /// Fails with [`sealane_client::Status::Failed`] if the result does not pass its check.
    pub fn join(&self, p: &Half, q: &Half) -> Answer {
        self.0.join(p, q).map_err(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PrivateKey, PublicKey, Verification};
    use sealane_client::{Hash, KeyKind, Status};

    #[test]
    fn halves_sign_what_the_whole_signs() {
        let (hash, mask) = (Hash::Sha256, Hash::Sha384);
        for bits in [2048, 3072, 4096] {
            let key = PrivateKey::generate(KeyKind::Rsa { bits }).unwrap();
            let public = PublicKey::of_der(key.public()).unwrap();
            for (operation, how) in [
                (Operation::SignPkcs1(Some(hash)), Verification::Pkcs1(Some(hash))),
                (
                    Operation::SignPss { hash, mask, salt_bytes: 32 },
                    Verification::Pss { hash, mask, salt_bytes: Some(32) },
                ),
            ] {
                let request = Request { key: &key, operation, content: &[7; 32] };
                let (halves, spent) = Halves::begin(&Kernels::best(), &request).unwrap();
                spent.renew();
                let [p, q] = [Prime::P, Prime::Q].map(|prime| halves.half(prime).unwrap());
                let signature = halves.join(&p, &q).unwrap();
                assert!(public.verifies(how, &[7; 32], &signature), "{bits} bits, {operation:?}");
                if let Operation::SignPkcs1(_) = operation {
                    assert_eq!(Ok(signature), key.run(operation, &[7; 32]));
                }
                assert_eq!(halves.join(&q, &p), Err(Status::Failed));
            }
        }
    }

    #[test]
    fn other_requests_have_no_halves() {
        let rsa = PrivateKey::generate(KeyKind::Rsa { bits: 2048 }).unwrap();
        let pss = PrivateKey::generate(KeyKind::RsaPss { bits: 2048, limits: None }).unwrap();
        let ec = PrivateKey::generate(KeyKind::P256).unwrap();
        let cases: [(&PrivateKey, Operation, &[u8]); 6] = [
            (&pss, Operation::SignPkcs1(Some(Hash::Sha256)), &[1; 32]),
            (&rsa, Operation::SignPkcs1(Some(Hash::Sha256)), &[1; 31]),
            (&rsa, Operation::SignPkcs1(None), &[1; 32]),
            (&rsa, Operation::DecryptPkcs1, &[1; 256]),
            (&rsa, Operation::Derive, &[1; 32]),
            (&ec, Operation::SignEcdsa, &[1; 32]),
        ];
        for (key, operation, content) in cases {
            let request = Request { key, operation, content };
            assert!(Halves::begin(&Kernels::best(), &request).is_none(), "{request:?}");
        }
    }
}
