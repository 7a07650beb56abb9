//! ML-KEM (FIPS 203): pairs of keys, and public keys.

use sealane_native::Refused;
use sealane_native::ml_kem::{Key, SECRET_BYTES, SEED_BYTES, Set};
use sealane_transform::ml_kem::MlKemSet;
use zeroize::Zeroizing;

/// Returns the place of the encapsulation key within the decapsulation key: its hash and a secret value are behind it
/// (FIPS 203, algorithm 16).
fn public_at(set: MlKemSet) -> usize {
    set.decapsulation_key_bytes() - 64 - set.encapsulation_key_bytes()
}

/// Returns AWS-LC's name of a parameter set.
const fn set_of(set: MlKemSet) -> Set {
    match set {
        MlKemSet::MlKem512 => Set::MlKem512,
        MlKemSet::MlKem768 => Set::MlKem768,
        MlKemSet::MlKem1024 => Set::MlKem1024,
    }
}

/// An encapsulation key, with or without its decapsulation key.
#[derive(Debug)]
pub(crate) struct Kem {
    set: MlKemSet,
    key: Key,
    seed: Option<Zeroizing<[u8; SEED_BYTES]>>,
    has_private: bool,
}

impl Kem {
    /// Makes a new pair of keys.
    pub(crate) fn generate(set: MlKemSet) -> Result<Self, Refused> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        aws_lc_rs::rand::fill(&mut *seed).map_err(|_| Refused)?;
        Self::of_seed(set, &seed)
    }

    /// Makes the pair of keys of a seed.
    pub(crate) fn of_seed(set: MlKemSet, seed: &[u8; SEED_BYTES]) -> Result<Self, Refused> {
        let key = Key::of_seed(set_of(set), seed)?;
        Ok(Self { set, key, seed: Some(Zeroizing::new(*seed)), has_private: true })
    }

    /// Reads an encapsulation key.
    ///
    /// # Errors
    /// Fails if it does not have the form of one.
    pub(crate) fn of_public(set: MlKemSet, public: &[u8]) -> Result<Self, Refused> {
        let key = Key::of_public(set_of(set), public)?;
        let kem = Self { set, key, seed: None, has_private: false };
        // The coefficients are checked by the first use (FIPS 203, 7.2).
        kem.encapsulate().map(|_| ())?;
        Ok(kem)
    }

    /// Reads a decapsulation key, which contains its encapsulation key.
    ///
    /// # Errors
    /// Fails if the two do not belong together.
    pub(crate) fn of_private(set: MlKemSet, private: &[u8]) -> Result<Self, Refused> {
        if private.len() != set.decapsulation_key_bytes() {
            return Err(Refused);
        }
        let public = &private[public_at(set)..][..set.encapsulation_key_bytes()];
        let key = Key::of_both(set_of(set), public, private)?;
        Ok(Self { set, key, seed: None, has_private: true })
    }

    pub(crate) fn set(&self) -> MlKemSet {
        self.set
    }

    pub(crate) fn seed(&self) -> Option<&[u8; SEED_BYTES]> {
        self.seed.as_deref()
    }

    pub(crate) fn has_private(&self) -> bool {
        self.has_private
    }

    pub(crate) fn public(&self) -> Result<Vec<u8>, Refused> {
        let mut public = vec![0; self.set.encapsulation_key_bytes()];
        self.key.write_public(&mut public)?;
        Ok(public)
    }

    pub(crate) fn private(&self) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let mut private = Zeroizing::new(vec![0; self.set.decapsulation_key_bytes()]);
        self.key.write_private(&mut private)?;
        Ok(private)
    }

    /// Makes a shared secret and a ciphertext for the owner of the decapsulation key.
    pub(crate) fn encapsulate(&self) -> Result<(Vec<u8>, Zeroizing<[u8; SECRET_BYTES]>), Refused> {
        let mut ciphertext = vec![0; self.set.ciphertext_bytes()];
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        self.key.encapsulate(None, &mut ciphertext, &mut secret)?;
        Ok((ciphertext, secret))
    }

    /// Returns the secret of a ciphertext; one that was changed has a secret that nobody else knows.
    pub(crate) fn decapsulate(&self, ciphertext: &[u8]) -> Result<Zeroizing<[u8; SECRET_BYTES]>, Refused> {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        self.key.decapsulate(ciphertext, &mut secret)?;
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_same_secret() {
        for set in MlKemSet::ALL {
            let pair = Kem::generate(set).unwrap();
            let public = Kem::of_public(set, &pair.public().unwrap()).unwrap();
            assert!(!public.has_private() && pair.has_private());
            let again = Kem::of_private(set, &pair.private().unwrap()).unwrap();
            let (ciphertext, secret) = public.encapsulate().unwrap();
            for key in [&pair, &again, &Kem::of_seed(set, pair.seed().unwrap()).unwrap()] {
                assert_eq!(*key.decapsulate(&ciphertext).unwrap(), *secret);
            }
            let mut changed = ciphertext.clone();
            changed[7] ^= 1;
            assert_ne!(*pair.decapsulate(&changed).unwrap(), *secret);
            assert_eq!(pair.decapsulate(&ciphertext[1..]), Err(Refused));
            let mut private = pair.private().unwrap();
            private[public_at(set)] ^= 1;
            assert!(Kem::of_private(set, &private).is_err());
            // All coefficients are 4095, above the modulus.
            assert!(Kem::of_public(set, &vec![0xff; set.encapsulation_key_bytes()]).is_err());
            for other in MlKemSet::ALL.into_iter().filter(|other| *other != set) {
                assert!(Kem::of_public(other, &pair.public().unwrap()).is_err());
                assert!(Kem::of_private(other, &pair.private().unwrap()).is_err());
            }
        }
    }
}
