//! Diffie-Hellman in the MODP groups 14, 15 and 16 (RFC 3526), for clients that support nothing else.
//!
//! Guarantees: exponentiation takes the same time for every exponent of a group; a public value outside 2 to p - 2 is
//! refused. The primes are safe primes, so no other value falls into a small subgroup.

use std::sync::LazyLock;

use crypto_bigint::{
    Odd, U320, U2048, U3072, U4096, Uint,
    modular::{FixedMontyForm, FixedMontyParams},
};
use zeroize::{Zeroize as _, Zeroizing};

use super::{CryptoError, KeyExchange, prf::Secret};

/// Bits of a private exponent: twice the strength of the strongest of the groups (NIST SP 800-56A, appendix D).
const EXPONENT_BITS: u32 = 320;

/// A private exponent.
pub(super) struct Private(Zeroizing<U320>);

struct Group<const LIMBS: usize>(FixedMontyParams<LIMBS>);

static MODP_2048: LazyLock<Group<{ U2048::LIMBS }>> = LazyLock::new(|| {
    Group::new(concat!(
        "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd",
        "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed",
        "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f",
        "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b",
        "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510",
        "15728e5a8aacaa68ffffffffffffffff",
    ))
});

static MODP_3072: LazyLock<Group<{ U3072::LIMBS }>> = LazyLock::new(|| {
    Group::new(concat!(
        "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd",
        "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed",
        "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f",
        "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b",
        "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510",
        "15728e5a8aaac42dad33170d04507a33a85521abdf1cba64ecfb850458dbef0a8aea71575d060c7db3970f85a6e1e4c7",
        "abf5ae8cdb0933d71e8c94e04a25619dcee3d2261ad2ee6bf12ffa06d98a0864d87602733ec86a64521f2b18177b200c",
        "bbe117577a615d6c770988c0bad946e208e24fa074e5ab3143db5bfce0fd108e4b82d120a93ad2caffffffffffffffff",
    ))
});

static MODP_4096: LazyLock<Group<{ U4096::LIMBS }>> = LazyLock::new(|| {
    Group::new(concat!(
        "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd",
        "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed",
        "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f",
        "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b",
        "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510",
        "15728e5a8aaac42dad33170d04507a33a85521abdf1cba64ecfb850458dbef0a8aea71575d060c7db3970f85a6e1e4c7",
        "abf5ae8cdb0933d71e8c94e04a25619dcee3d2261ad2ee6bf12ffa06d98a0864d87602733ec86a64521f2b18177b200c",
        "bbe117577a615d6c770988c0bad946e208e24fa074e5ab3143db5bfce0fd108e4b82d120a92108011a723c12a787e6d7",
        "88719a10bdba5b2699c327186af4e23c1a946834b6150bda2583e9ca2ad44ce8dbbbc2db04de8ef92e8efc141fbecaa6",
        "287c59474e6bc05d99b2964fa090c3a2233ba186515be7ed1f612970cee2d7afb81bdd762170481cd0069127d5b05aa9",
        "93b4ea988d8fddc186ffb7dc90a6c08f4df435c934063199ffffffffffffffff",
    ))
});

impl<const LIMBS: usize> Group<LIMBS> {
    /// The prime is public, so its constants may be computed in a time that depends on it.
    fn new(prime: &str) -> Self {
        Self(FixedMontyParams::new_vartime(Odd::from_be_hex(prime)))
    }

    fn power(&self, base: &Uint<LIMBS>, exponent: &Private) -> Uint<LIMBS> {
        FixedMontyForm::new(base, &self.0).pow_bounded_exp(&*exponent.0, EXPONENT_BITS).retrieve()
    }

    /// Returns the value of `bytes`, which must have exactly the prime's length and lie within 2 to p - 2.
    fn public(&self, bytes: &[u8]) -> Option<Uint<LIMBS>> {
        if bytes.len() != Uint::<LIMBS>::BYTES {
            return None;
        }
        let value = Uint::from_be_slice(bytes);
        let last = self.0.modulus().wrapping_sub(&Uint::from_u8(2));
        (value > Uint::ONE && value <= last).then_some(value)
    }

    fn bytes(value: &Uint<LIMBS>) -> Secret {
        // Limbs are stored from the least significant on.
        Zeroizing::new(value.as_limbs().iter().rev().flat_map(|limb| limb.0.to_be_bytes()).collect())
    }

    fn generate(&self, exponent: &Private) -> Vec<u8> {
        Self::bytes(&self.power(&Uint::from_u8(2), exponent)).to_vec()
    }

    fn agree(&self, exponent: &Private, theirs: &[u8]) -> Option<Secret> {
        let mut secret = self.power(&self.public(theirs)?, exponent);
        let bytes = Self::bytes(&secret);
        secret.zeroize();
        Some(bytes)
    }
}

/// Returns a private exponent and its public value, which is as long as the prime.
pub(super) fn generate(method: KeyExchange) -> Result<(Private, Vec<u8>), CryptoError> {
    let mut bytes = Zeroizing::new([0; EXPONENT_BITS as usize / 8]);
    aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| CryptoError::Library)?;
    let private = Private(Zeroizing::new(U320::from_be_slice(&*bytes)));
    let public = match method {
        KeyExchange::Modp2048 => MODP_2048.generate(&private),
        KeyExchange::Modp3072 => MODP_3072.generate(&private),
        KeyExchange::Modp4096 => MODP_4096.generate(&private),
        _ => return Err(CryptoError::Library),
    };
    Ok((private, public))
}

/// Returns the secret of our exponent and the other end's value; it is as long as the prime.
pub(super) fn agree(method: KeyExchange, private: &Private, theirs: &[u8]) -> Result<Secret, CryptoError> {
    let secret = match method {
        KeyExchange::Modp2048 => MODP_2048.agree(private, theirs),
        KeyExchange::Modp3072 => MODP_3072.agree(private, theirs),
        KeyExchange::Modp4096 => MODP_4096.agree(private, theirs),
        _ => return Err(CryptoError::Library),
    };
    secret.ok_or(CryptoError::PublicValue { method })
}
