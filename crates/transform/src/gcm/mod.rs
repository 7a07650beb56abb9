//! AES-GCM, SP 800-38D, with 96-bit nonces and 128-bit tags; without data it is GMAC.
//!
//! A field element is a `u128` whose most significant bit is the coefficient of x^0: a block read big-endian.

pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod kernel;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vector;

use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::aead::AeadJob;
use crate::aes;
use crate::cost::{AeadCost, AeadCosts};
use crate::descriptor::{AeadDescriptor, PeerNames, Promise, only_usual};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::job::Status;
use crate::modes;
use crate::modes::{Direction, Mode};
use crate::schedule::AeadSchedule;

/// AES-128-GCM as the catalogue knows it.
pub(crate) static AES_128_GCM: AeadDescriptor = AeadDescriptor {
    name: "aes-128-gcm",
    facts: facts(16),
    takes: only_usual,
    expand: |key| Some(AeadSchedule::Gcm(Key::new(key))),
    portable,
    native: None,
    instructions: run_widest::<10>,
    costs: |features, direction| costs(features, direction, COSTS_128),
    peers: PeerNames::NONE.openssl("AES-128-GCM").aws_lc("AES_128_GCM").ipsec_mb("GCM"),
    promises: &[
        Promise::new("3gcm6kernel10all_avx512", "vpclmulqdq", 64),
        Promise::new("3gcm6kernel10all_avx512", "vaesenc", 64),
        Promise::new("3gcm6kernel8all_vaes", "vpclmulqdq", 32),
        Promise::new("3gcm6kernel8all_vaes", "vaesenc", 32),
        Promise::new("3gcm6kernel8all_avx2", "vpclmulqdq", 16),
        Promise::new("3gcm6kernel8all_avx2", "vaesenc", 16),
    ],
};

/// AES-256-GCM, of the same kernels.
pub(crate) static AES_256_GCM: AeadDescriptor = AeadDescriptor {
    name: "aes-256-gcm",
    facts: facts(32),
    takes: only_usual,
    expand: |key| Some(AeadSchedule::Gcm(Key::new(key))),
    portable,
    native: None,
    instructions: run_widest::<14>,
    costs: |features, direction| costs(features, direction, COSTS_256),
    peers: PeerNames::NONE.openssl("AES-256-GCM").aws_lc("AES_256_GCM").ipsec_mb("GCM"),
    promises: &[],
};

const fn facts(key_bytes: usize) -> Facts {
    let rounds = key_bytes / 4 + 6;
    Facts {
        block_bytes: 16,
        rounds,
        key_bytes: KeyBytes::exactly(key_bytes),
        iv_bytes: 12,
        output_bytes: 16,
        table_bytes: 512,
        // Besides the round keys this counts the powers of the hash key, which all but short messages use completely.
        working_set_bytes: 512 + 16 * (rounds + 1) + POWERS_BYTES,
        chained: false,
        byte_order: ByteOrder::Bytes,
        standing: Standing::Current,
        limits: Limits { blocks_a_key: 1 << 48, bytes_a_nonce: MAX_BYTES },
        source: "SP 800-38D",
    }
}

fn portable(tier: Tier, direction: Direction, job: &mut AeadJob<'_>) {
    let AeadSchedule::Gcm(key) = job.key.schedule() else { return };
    if tier == Tier::Reference {
        reference::seal_or_open(key, direction, job);
    } else {
        generic::seal_or_open(key, direction, job);
    }
}

/// Runs the pending jobs, by the largest instruction set available.
fn run_widest<const ROUNDS: usize>(features: Features, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    #[cfg(target_arch = "x86_64")]
    match features {
        Features { avx512: Some(proof), .. } => kernel::avx512::<ROUNDS>(proof, direction, jobs),
        Features { vaes: Some(proof), .. } => kernel::vaes::<ROUNDS>(proof, direction, jobs),
        Features { avx2: Some(proof), .. } => kernel::avx2::<ROUNDS>(proof, direction, jobs),
        _ => {}
    }
}

/// Costs of an AEAD on one instruction set, for sealing and opening.
type BothWays = [AeadCosts; 2];

/// Returns the costs of the kernel that [`run_widest`] takes, from a table with the widest first.
fn costs(features: Features, direction: Direction, [avx512, vaes, avx2]: [BothWays; 3]) -> Option<AeadCosts> {
    let both = match features {
        Features { avx512: Some(_), .. } => avx512,
        Features { vaes: Some(_), .. } => vaes,
        Features { avx2: Some(_), .. } => avx2,
        _ => return None,
    };
    Some(both[usize::from(direction == Direction::Decrypt)])
}

/// Our kernels run few messages as they run many: the cost of a call is for setup and wiping.
const fn costs_of(own: [u32; 4], library: [u32; 4]) -> AeadCosts {
    let own = AeadCost::new(own);
    AeadCosts { alone: own, together: own, few: 0, library: AeadCost::new(library) }
}

/// The costs with AVX-512 are those of a Zen 5 host: ours by `docs/results/crossover-zen5`, AWS-LC's by its rates
/// with packets and with records of 64 KiB. The costs with VAES are those of a Zen 4 host without its AVX-512, where
/// AWS-LC 5.12 has no kernel of that width. The costs with AVX2 alone are those of a Zen 3 host: AWS-LC's bytes are
/// cheaper, its messages more expensive.
const COSTS_128: [BothWays; 3] = [
    [costs_of([43, 13, 30, 26], [0, 113, 33, 33]), costs_of([43, 13, 31, 27], [0, 104, 39, 39])],
    [costs_of([26, 19, 95, 58], [0, 132, 210, 121]), costs_of([28, 22, 103, 57], [0, 126, 216, 118])],
    [costs_of([65, 45, 440, 270], [0, 135, 246, 140]), costs_of([48, 47, 403, 270], [0, 128, 244, 139])],
];
/// The costs come from the same hosts as [`COSTS_128`].
const COSTS_256: [BothWays; 3] = [
    [costs_of([46, 14, 38, 26], [0, 120, 38, 33]), costs_of([40, 14, 35, 27], [0, 118, 39, 39])],
    [costs_of([29, 22, 112, 57], [0, 138, 226, 118]), costs_of([24, 23, 117, 59], [0, 135, 227, 122])],
    [costs_of([65, 58, 495, 283], [0, 150, 280, 150]), costs_of([60, 62, 440, 275], [0, 145, 261, 140])],
];

/// Number of stored powers of the hash key, and so of blocks that are hashed with one reduction.
pub(crate) const POWERS: usize = 128;

/// Bytes of the powers and of the sums of their halves.
const POWERS_BYTES: usize = 2 * 16 * (POWERS + 4);

/// Most bytes of a message: the 32-bit counter starts at 2 and must not come back to 1 (section 5.2.1.1).
pub(crate) const MAX_BYTES: u64 = ((1 << 32) - 2) * 16;

/// Cipher and hash key of an association.
#[repr(C, align(64))]
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// H^128/x down to H^1/x, then zeros for vectors that reach past the end. Dividing by x compensates for the
    /// missing bit of a product of two elements in this bit order.
    powers: [u128; POWERS + 4],
    /// The sums of the powers' halves, in the low halves.
    sums: [u128; POWERS + 4],
    /// H.
    hash: u128,
    cipher: aes::Key,
}

/// The expanded key in [`AeadSchedule`]. It has cache lines of its own, with the powers of the hash key.
pub(crate) type BoxedKey = Box<Key>;

impl Key {
    /// Expands 16 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Box<Self> {
        let cipher = aes::Key::new(key);
        let mut zero = [0; 16];
        aes::generic::encrypt(&cipher, &mut zero);
        let hash = u128::from_be_bytes(zero);
        zero.zeroize();
        let mut made = Box::new(Self { powers: [0; POWERS + 4], sums: [0; POWERS + 4], hash, cipher });
        let mut power = over_x(hash);
        for place in (0..POWERS).rev() {
            made.powers[place] = power;
            made.sums[place] = u128::from(power as u64 ^ (power >> 64) as u64);
            power = generic::multiply(power, hash);
        }
        made
    }
}

/// Returns the element divided by x.
fn over_x(element: u128) -> u128 {
    let carry = (element >> 127).wrapping_neg();
    element << 1 ^ carry & (0xc2 << 120 | 1)
}

/// Returns the counter block with a number (section 7.1): 1 for the tag's, from 2 on for the data's.
fn counter_block(nonce: &[u8; 12], number: u32) -> [u8; 16] {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&number.to_be_bytes());
    block
}

/// Returns GHASH, continued from `y`, over `bytes` padded with zeros to whole blocks.
fn absorb(y: u128, bytes: &[u8], times_h: impl Fn(u128) -> u128) -> u128 {
    bytes.chunks(16).fold(y, |y, bytes| {
        let mut block = [0; 16];
        block[..bytes.len()].copy_from_slice(bytes);
        times_h(y ^ u128::from_be_bytes(block))
    })
}

/// Returns the two lengths in bits that end the hashed text.
const fn lengths(aad_bytes: usize, data_bytes: usize) -> u128 {
    (aad_bytes as u128) << 67 | (data_bytes as u128) << 3
}

/// Runs one message, block by block, with the given multiplication and block cipher.
fn seal_or_open_by(
    key: &Key,
    direction: Direction,
    job: &mut AeadJob<'_>,
    multiply: impl Fn(u128, u128) -> u128,
    crypt: impl Fn(&aes::Key, &mut [u8; 16]),
) {
    let times_h = |element| multiply(element, key.hash);
    let data = job.data.copied_in_place();
    let stream = |data: &mut [u8]| {
        let first = counter_block(&job.nonce, 2);
        modes::crypt_blocks(Mode::Ctr, direction, &first, data, |_, block| crypt(&key.cipher, block));
    };
    if direction == Direction::Encrypt {
        stream(data);
    }
    let y = absorb(absorb(0, job.aad, times_h), data, times_h);
    let y = times_h(y ^ lengths(job.aad.len(), data.len()));
    let mut mask = counter_block(&job.nonce, 1);
    crypt(&key.cipher, &mut mask);
    let tag = (y ^ u128::from_be_bytes(mask)).to_be_bytes();
    mask.zeroize();
    job.status = match direction {
        Direction::Encrypt => {
            job.tag = tag;
            Status::Done
        }
        Direction::Decrypt if bool::from(tag.ct_eq(&job.tag)) => {
            stream(data);
            Status::Done
        }
        Direction::Decrypt => {
            data.zeroize();
            Status::Forged
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{AeadTotals, Cheaper};
    use proptest::prelude::*;

    /// These are a tunnel's bursts under its default suite.
    #[test]
    fn with_avx512_or_vaes_bursts_are_ours_whatever_the_key() {
        let burst = AeadTotals { messages: 44, data_bytes: 44 * 1408, clear_bytes: 44 * 8 };
        for [avx512, vaes, _] in [COSTS_128, COSTS_256] {
            assert!(avx512.iter().chain(&vaes).all(|costs| costs.is_own_cheaper(burst)));
        }
    }

    /// The costs cross between short and full packets.
    #[test]
    fn with_avx2_short_messages_are_ours_and_long_ones_the_librarys() {
        let of = |messages: usize, bytes: usize| AeadTotals {
            messages,
            data_bytes: messages * bytes,
            clear_bytes: 8 * messages,
        };
        for [.., avx2] in [COSTS_128, COSTS_256] {
            for costs in avx2 {
                assert_eq!(costs.cheaper(), Cheaper::Depends);
                assert!(costs.is_own_cheaper(of(16, 64)) && !costs.is_own_cheaper(of(16, 1408)));
            }
        }
    }

    #[test]
    fn powers_end_with_h_and_zeros() {
        let key = Key::new(&[7; 16]);
        assert_eq!(key.powers[POWERS - 1], over_x(key.hash));
        assert_eq!(key.powers[POWERS - 2], over_x(reference::multiply(key.hash, key.hash)));
        assert_eq!(key.powers[POWERS..], [0; 4]);
    }

    proptest! {
        /// A processor runs the widest kernel that it has; these are all that this one could run.
        #[cfg(target_arch = "x86_64")]
        #[test]
        fn every_width_seals_as_the_portable_kernel_and_opens_again(
            lengths in proptest::collection::vec((0..700_usize, 0..80_usize), 1..11), seed in any::<u8>()
        ) {
            use crate::algorithm::Aead;
            use crate::{AeadKey, Buffer};

            let all = Features::detect();
            let narrower = Features { avx512: None, ..all };
            let keys = [1, 2].map(|n| AeadKey::new(Aead::Aes256Gcm, &[n ^ seed; 32]).unwrap());
            let texts: Vec<(Vec<u8>, Vec<u8>)> = lengths
                .iter()
                .map(|&(data, aad)| [data, aad].map(|bytes| (0..bytes).map(|n| n as u8 ^ seed).collect()).into())
                .collect();
            let run = |seal: &dyn Fn(Direction, &mut [AeadJob<'_>])| {
                let mut datas: Vec<_> = texts.iter().map(|(data, _)| data.clone()).collect();
                let nonce = |n: usize| [n as u8; 12];
                let with = datas.iter_mut().zip(&texts).enumerate();
                let mut jobs: Vec<_> = with
                    .map(|(n, (data, (_, aad)))| {
                        AeadJob::seal(&keys[n & 1], nonce(n / 2), aad, Buffer::in_place(data))
                    })
                    .collect();
                seal(Direction::Encrypt, &mut jobs);
                let tags: Vec<_> = jobs.iter().map(|job| job.tag).collect();
                let sealed = datas.clone();
                let with = datas.iter_mut().zip(&texts).zip(&tags).enumerate();
                let mut jobs: Vec<_> = with
                    .map(|(n, ((data, (_, aad)), &tag))| {
                        AeadJob::open(&keys[n & 1], nonce(n / 2), aad, Buffer::in_place(data), tag)
                    })
                    .collect();
                seal(Direction::Decrypt, &mut jobs);
                let is_open = jobs.iter().all(|job| job.status == Status::Done);
                let is_same = datas.iter().zip(&texts).all(|(data, (text, _))| data == text);
                (sealed, tags, is_open && is_same)
            };
            let portable = run(&|direction, jobs| {
                jobs.iter_mut().for_each(|job| portable(Tier::Generic, direction, job));
            });
            prop_assert!(portable.2);
            for features in [all, narrower, Features { vaes: None, ..narrower }] {
                if features.avx2.is_some() {
                    prop_assert_eq!(&run(&|direction, jobs| run_widest::<14>(features, direction, jobs)), &portable);
                }
            }
        }

        #[test]
        fn the_two_multiplications_agree(a in any::<u128>(), b in any::<u128>()) {
            prop_assert_eq!(reference::multiply(a, b), generic::multiply(a, b));
            // x is the element with only the second bit set.
            prop_assert_eq!(reference::multiply(over_x(a), 1 << 126), a);
        }
    }
}
