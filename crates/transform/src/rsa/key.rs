//! RSA keys: checked once, prepared for all tiers, wiped when dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_native::Refused;
use sealane_native::number::{self as numbers, Natural};
use sealane_native::rsa::{self as library, Components};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::debug_only;
use crate::montgomery::reference::{self, Modulus, Words, from_bytes, is_below};
use crate::montgomery::{AcrossConstants, Constants, TopAndOne, limbs, split};

/// Why numbers are no RSA key of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RsaKeyError {
    /// The modulus has another length.
    #[error("a modulus of {bits} bits; RSA keys have 2048, 3072 or 4096")]
    Size {
        /// The length of the modulus without leading zeros.
        bits: usize,
    },
    /// The modulus is even.
    #[error("the modulus is even")]
    EvenModulus,
    /// The public exponent is even, below 3, or not below the modulus.
    #[error("the public exponent is even, below 3, or not below the modulus")]
    Exponent,
    /// The primes have not half the bits of the modulus each.
    #[error("the primes have not half the bits of the modulus each")]
    PrimeSize,
    /// The numbers do not belong together: n = p q, e d = 1, the parts of d, or 1 / q.
    #[error("the numbers of the key do not belong together")]
    Inconsistent,
    /// The DER encoding is none of PKCS #8 or PKCS #1 of an RSA key with its primes.
    #[error("the encoding is no RSA private key in PKCS #8 or PKCS #1 with its primes")]
    Encoding,
}

/// Uses of a blinding pair before a fresh one takes its place, as in AWS-LC.
const PAIR_USES: u32 = 32;

/// Fresh pairs that one inversion makes.
const PAIRS: usize = 8;

/// Removes leading zeros.
fn trimmed(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..]
}

/// Returns the length of a big-endian number without leading zeros in bits.
fn bit_length(bytes: &[u8]) -> usize {
    let bytes = trimmed(bytes);
    bytes.first().map_or(0, |first| 8 * bytes.len() - first.leading_zeros() as usize)
}

/// An RSA public key of 2048, 3072 or 4096 bits with any odd exponent of at least 3.
pub struct RsaPublicKey {
    bits: usize,
    modulus: Modulus,
    bounds: TopAndOne,
    exponent: Vec<u64>,
    constants: Constants,
    library: library::Key,
}

debug_only!(RsaPublicKey { bits });

impl RsaPublicKey {
    /// Takes modulus and exponent, big-endian; leading zeros are ignored.
    ///
    /// # Errors
    /// The modulus has another size than 2048, 3072 or 4096 bits or is even, or the exponent is even, below 3
    /// or not below the modulus.
    pub fn new(n: &[u8], e: &[u8]) -> Result<Self, RsaKeyError> {
        let (n, e) = (trimmed(n), trimmed(e));
        let bits = bit_length(n);
        if ![2048, 3072, 4096].contains(&bits) {
            return Err(RsaKeyError::Size { bits });
        }
        let words = from_bytes(n, bits / 64);
        let modulus = Modulus::new(&words).ok_or(RsaKeyError::EvenModulus)?;
        let is_odd = e.last().is_some_and(|last| last & 1 == 1);
        if !is_odd
            || bit_length(e) < 2
            || e.len() > n.len()
            || is_below(&from_bytes(e, bits / 64), &words) == 0
        {
            return Err(RsaKeyError::Exponent);
        }
        let library = library::Key::public(n, e).map_err(|_| RsaKeyError::Exponent)?;
        let bounds = TopAndOne::new(&modulus);
        let exponent = from_bytes(e, e.len().div_ceil(8)).to_vec();
        let constants = Constants::new(&modulus, bits);
        Ok(Self { bits, modulus, bounds, exponent, constants, library })
    }

    /// Returns the length of the modulus in bits: 2048, 3072 or 4096.
    pub const fn bits(&self) -> usize {
        self.bits
    }

    /// Returns the length of the modulus, and so of every block, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bits / 8
    }

    /// Returns whether the public operation takes the block: it is below n.
    pub(crate) fn takes_public(&self, block: &[u8]) -> bool {
        block.len() == self.bytes() && is_below(&from_bytes(block, self.bits / 64), self.modulus.words()) != 0
    }

    /// Returns whether the private operation takes the block: it is above 1 and below n - 1.
    pub(crate) fn takes_private(&self, block: &[u8]) -> bool {
        block.len() == self.bytes() && self.bounds.hold(&from_bytes(block, self.bits / 64))
    }

    pub(crate) const fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    pub(crate) fn exponent(&self) -> &[u64] {
        &self.exponent
    }

    pub(crate) const fn constants(&self) -> &Constants {
        &self.constants
    }

    pub(crate) const fn library(&self) -> &library::Key {
        &self.library
    }
}

/// The secret numbers of a key, for the reference and the ways.
pub(crate) struct Secret {
    /// The first prime.
    pub(crate) p: Modulus,
    /// The second prime.
    pub(crate) q: Modulus,
    /// d mod p - 1, as long as p.
    pub(crate) dp: Words,
    /// d mod q - 1, as long as q.
    pub(crate) dq: Words,
    /// 1 / q mod p.
    pub(crate) qinv: Words,
    /// p for the ways.
    pub(crate) p_ways: Constants,
    /// q for the ways.
    pub(crate) q_ways: Constants,
    /// 1 / q mod p in Montgomery's form for the ways.
    pub(crate) qinv_ways: Zeroizing<Box<[u64]>>,
    /// p and q for an operation in halves: across the elements, and by AWS-LC.
    pub(crate) across: [AcrossConstants; 2],
    pub(crate) library: [numbers::Modulus; 2],
    /// n for the check of such an operation, if it is short enough.
    pub(crate) n_across: Option<AcrossConstants>,
}

/// A blinding pair in Montgomery's form for the ways, modulo n.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Pair {
    /// r^e, by which a block is multiplied.
    pub(crate) blind: Box<[u64]>,
    /// 1 / r, by which the result is multiplied.
    pub(crate) unblind: Box<[u64]>,
    /// Operations that used the pair or one of its roots.
    uses: u32,
}

/// A blinding pair of plain numbers modulo n: r^e and 1 / r, as in [`Pair`].
pub(crate) struct PlainPair {
    pub(crate) blind: Natural,
    pub(crate) unblind: Natural,
    uses: u32,
}

/// Blinding pairs of one form that no operation uses at the moment.
struct Pool<P>(Mutex<Vec<P>>);

impl<P> Pool<P> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn pairs(&self) -> MutexGuard<'_, Vec<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a pair out, so that no other operation uses it, of `fresh` ones if there is none.
    fn take(&self, fresh: impl FnOnce() -> Option<Vec<P>>) -> Option<P> {
        if let Some(pair) = self.pairs().pop() {
            return Some(pair);
        }
        let mut pairs = fresh()?;
        let pair = pairs.pop();
        self.pairs().append(&mut pairs);
        pair
    }
}

/// An RSA private key of 2048, 3072 or 4096 bits with two primes.
pub struct RsaPrivateKey {
    public: Arc<RsaPublicKey>,
    secret: Secret,
    library: library::Key,
    /// Pairs in Montgomery's form for the ways.
    pool: Pool<Pair>,
    /// Pairs of plain numbers, for operations in halves.
    plain: Pool<PlainPair>,
    /// n for these.
    modulus: numbers::Modulus,
}

debug_only!(self: RsaPrivateKey { bits: self.public.bits });

impl RsaPrivateKey {
    /// Takes the numbers of a key, big-endian: modulus, public exponent, private exponent (computed if
    /// absent), primes, d mod p - 1, d mod q - 1, and 1 / q mod p. AWS-LC checks that they belong together.
    ///
    /// # Errors
    /// The public part is none of [`RsaPublicKey::new`], a prime has not half the bits of the modulus, or the
    /// numbers do not belong together.
    #[expect(clippy::too_many_arguments, reason = "the numbers of PKCS #1, in its order")]
    pub fn from_components(
        n: &[u8],
        e: &[u8],
        d: Option<&[u8]>,
        p: &[u8],
        q: &[u8],
        dp: &[u8],
        dq: &[u8],
        qinv: &[u8],
    ) -> Result<Self, RsaKeyError> {
        let public = RsaPublicKey::new(n, e)?;
        let half = public.bits / 2;
        if bit_length(p) != half || bit_length(q) != half {
            return Err(RsaKeyError::PrimeSize);
        }
        let [dp, dq, qinv] = [dp, dq, qinv].map(trimmed);
        if [dp, dq, qinv].iter().any(|number| bit_length(number) > half) {
            return Err(RsaKeyError::Inconsistent);
        }
        let library = Self::checked(n, e, d, [p, q, dp, dq, qinv]).map_err(|_| RsaKeyError::Inconsistent)?;
        let natural_of =
            |bytes: &[u8]| numbers::Modulus::new(trimmed(bytes)).map_err(|_| RsaKeyError::Inconsistent);
        let natural = [natural_of(p)?, natural_of(q)?];
        let words = |bytes: &[u8]| from_bytes(bytes, half / 64);
        let prime = |bytes: &[u8]| Modulus::new(&words(bytes)).ok_or(RsaKeyError::Inconsistent);
        let (p, q, qinv) = (prime(p)?, prime(q)?, words(qinv));
        let (p_ways, q_ways) = (Constants::new(&p, half), Constants::new(&q, half));
        let r = p.power_of_two(limbs(half) * 52);
        let qinv_ways = Zeroizing::new(split(&p.multiply(&qinv, &r), limbs(half)));
        let across = [AcrossConstants::new(&p, half), AcrossConstants::new(&q, half)];
        let n_across = (public.bits == 2048).then(|| AcrossConstants::new(&public.modulus, 2048));
        let secret = Secret {
            p,
            q,
            dp: words(dp),
            dq: words(dq),
            qinv,
            p_ways,
            q_ways,
            qinv_ways,
            across,
            library: natural,
            n_across,
        };
        let modulus = natural_of(n)?;
        Ok(Self { public: Arc::new(public), secret, library, pool: Pool::new(), plain: Pool::new(), modulus })
    }

    /// Has AWS-LC check the numbers, and returns its key.
    fn checked(n: &[u8], e: &[u8], d: Option<&[u8]>, parts: [&[u8]; 5]) -> Result<library::Key, Refused> {
        let (n, e) = (Natural::from_bytes(n)?, Natural::from_bytes(e)?);
        let d = match d {
            Some(d) => Natural::from_bytes(d)?,
            None => numbers::private_exponent(&e, parts[0], parts[1])?,
        };
        let [p, q, dp, dq, qinv] = parts.map(Natural::from_bytes);
        library::Key::private([&n, &e, &d, &p?, &q?, &dp?, &dq?, &qinv?])
    }

    /// Reads a key in PKCS #8 (`PrivateKeyInfo`) or PKCS #1 (`RSAPrivateKey`), DER.
    ///
    /// # Errors
    /// The encoding is none of these or lacks the primes, or the key is none of
    /// [`RsaPrivateKey::from_components`].
    pub fn from_der(der: &[u8]) -> Result<Self, RsaKeyError> {
        let Components { public: [n, e], secret: [d, p, q, dp, dq, qinv] } =
            library::Key::of_der(der).map_err(|_| RsaKeyError::Encoding)?.components();
        if [&e, &d, &p, &q, &dp, &dq, &qinv].iter().any(|number| number.is_empty()) {
            return Err(RsaKeyError::Encoding);
        }
        Self::from_components(&n, &e, Some(&d), &p, &q, &dp, &dq, &qinv)
    }

    /// Returns the public part.
    pub fn public(&self) -> &RsaPublicKey {
        &self.public
    }

    /// Returns the public part to be kept.
    pub fn share_public(&self) -> Arc<RsaPublicKey> {
        Arc::clone(&self.public)
    }

    pub(crate) const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the secret numbers for a test that makes a fault.
    #[cfg(test)]
    pub(crate) const fn secret_mut(&mut self) -> &mut Secret {
        &mut self.secret
    }

    pub(crate) const fn library(&self) -> &library::Key {
        &self.library
    }

    /// Takes a blinding pair in Montgomery's form for the ways, which no other operation uses; `None` if the library fails.
    pub(crate) fn take_pair(&self) -> Option<Pair> {
        self.pool.take(|| {
            let n = &self.public;
            let mut buffer = Zeroizing::new(vec![0; n.bytes()]);
            let r = n.modulus.power_of_two(limbs(n.bits) * 52);
            let mut form = |number: &Natural| {
                number.to_bytes(&mut buffer).ok()?;
                let words = from_bytes(&buffer, n.bits / 64);
                Some(split(&n.modulus.multiply(&words, &r), limbs(n.bits)))
            };
            let pairs = self.fresh_pairs().ok()?;
            pairs
                .iter()
                .map(|pair| Some(Pair { blind: form(&pair.blind)?, unblind: form(&pair.unblind)?, uses: 0 }))
                .collect()
        })
    }

    /// Puts a pair back after its squares have taken its place, or drops it after [`PAIR_USES`] uses.
    pub(crate) fn return_pair(&self, mut pair: Pair) {
        pair.uses += 1;
        if pair.uses < PAIR_USES {
            self.pool.pairs().push(pair);
        }
    }

    /// Takes a blinding pair of plain numbers, which no other operation uses; `None` if the library fails.
    pub(crate) fn take_plain_pair(&self) -> Option<PlainPair> {
        self.plain.take(|| self.fresh_pairs().ok())
    }

    /// Puts the squares of a pair into its place; drops the pair after [`PAIR_USES`] uses, or if the library fails.
    pub(crate) fn renew_plain_pair(&self, pair: &PlainPair) {
        let square = |number| self.modulus.multiply(number, number);
        if pair.uses + 1 < PAIR_USES
            && let (Ok(blind), Ok(unblind)) = (square(&pair.blind), square(&pair.unblind))
        {
            self.plain.pairs().push(PlainPair { blind, unblind, uses: pair.uses + 1 });
        }
    }

    /// Writes a b modulo n to all of `out`; `a` is big-endian like the result, and both are below n.
    pub(crate) fn multiply(&self, a: &[u8], b: &Natural, out: &mut [u8]) -> Result<(), Refused> {
        self.modulus.multiply(&Natural::from_bytes(a)?, b)?.to_bytes(out)
    }

    /// Makes [`PAIRS`] pairs by one inversion: the inverse of the product of all r, times the product of the
    /// others.
    fn fresh_pairs(&self) -> Result<Vec<PlainPair>, Refused> {
        let (n, modulus) = (&self.public, &self.modulus);
        let mut exponent = vec![0; 8 * n.exponent.len()];
        reference::to_bytes(&n.exponent, &mut exponent);
        let exponent = Natural::from_bytes(&exponent)?;
        let mut randoms = Vec::with_capacity(PAIRS);
        // Product i is that of the randoms 0 to i.
        let mut products: Vec<Natural> = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            let random = modulus.random()?;
            let product = match products.last() {
                Some(last) => modulus.multiply(last, &random)?,
                None => modulus.multiply(&Natural::from_bytes(&[1])?, &random)?,
            };
            randoms.push(random);
            products.push(product);
        }
        let mut inverse = modulus.inverse(products.last().ok_or(Refused)?)?;
        let mut pairs = Vec::with_capacity(PAIRS);
        for i in (0..PAIRS).rev() {
            let unblind = match i.checked_sub(1) {
                Some(before) => modulus.multiply(&inverse, &products[before])?,
                None => modulus.multiply(&inverse, &Natural::from_bytes(&[1])?)?,
            };
            let blind = modulus.power_public(&randoms[i], &exponent)?;
            pairs.push(PlainPair { blind, unblind, uses: 0 });
            inverse = modulus.multiply(&inverse, &randoms[i])?;
        }
        Ok(pairs)
    }
}
