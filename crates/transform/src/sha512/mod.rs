//! SHA-384 and SHA-512, FIPS 180-4: 64-bit words, blocks of 128 bytes. This module has HMAC with them too, as in RFC
//! 4868.
//!
//! Single messages run by AWS-LC, whose kernels are at least as fast as ours; several run side by side by our own.

pub(crate) mod abreast;
pub(crate) mod longs;
pub(crate) mod reference;
pub(crate) mod rounds;

use aws_lc_rs::{digest, hmac};
use zeroize::Zeroize as _;

use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames, Promise, Together};
use crate::facts::{ByteOrder, Facts, Standing};
use crate::hash;
use crate::isa::{Features, Tier};
use crate::key::OwnKey;
use crate::order::{Totals, WaysCost};

/// SHA-384 as the catalogue knows it.
pub(crate) static SHA384: DigestDescriptor = DigestDescriptor {
    name: "sha384",
    facts: FACTS_384,
    making: Making::Own(own::<384>()),
    peers: PeerNames::NONE.openssl("SHA2-384").aws_lc("SHA384").rust_crypto("sha2").ipsec_mb("SHA_384"),
    promises: &[],
};

/// SHA-512 as the catalogue knows it.
pub(crate) static SHA512: DigestDescriptor = DigestDescriptor {
    name: "sha512",
    facts: FACTS_512,
    making: Making::Own(own::<512>()),
    peers: PeerNames::NONE.openssl("SHA2-512").aws_lc("SHA512").rust_crypto("sha2").ipsec_mb("SHA_512"),
    promises: &[
        Promise::new("6sha5126rounds6avx512", "vprolq", 64),
        Promise::new("6sha5126rounds4avx2", "vpsrlq", 32),
    ],
};

pub(crate) const FACTS_384: Facts = facts(48);
pub(crate) const FACTS_512: Facts = facts(64);

const fn facts(output_bytes: usize) -> Facts {
    Facts {
        block_bytes: BLOCK,
        working_set_bytes: BLOCK + 64,
        ..hash::facts(80, output_bytes, ByteOrder::Big, Standing::Current, "FIPS 180-4")
    }
}

/// Returns the functions of the hash of `BITS`.
const fn own<const BITS: usize>() -> OwnDigest {
    OwnDigest {
        expand: |_| None,
        tier: |tier, features| if features.have_libraries() { tier } else { tier.min(Tier::Generic) },
        digest: |_, tier, job| {
            match tier {
                Tier::Reference => job.output = hash(reference::blocks, initial(BITS), 0, job.input),
                Tier::Generic => job.output = hash(rounds::one, initial(BITS), 0, job.input),
                Tier::Native | Tier::Batch => {
                    let algorithm = if BITS == 384 { &digest::SHA384 } else { &digest::SHA512 };
                    let made = digest::digest(algorithm, job.input);
                    job.output[..BITS / 8].copy_from_slice(made.as_ref());
                }
            }
            job.output[BITS / 8..].fill(0);
        },
        trace: |_, _, _| None,
        together: Some(Together { cost: ways_cost, run: abreast::run_widest::<BITS> }),
    }
}

/// Returns the functions of HMAC with the hash of `BITS`.
pub(crate) const fn own_hmac<const BITS: usize>() -> OwnDigest {
    OwnDigest {
        expand: expand::<BITS>,
        digest: |_, tier, job| {
            let Some(key) = job.key.own::<HmacKey>() else { return };
            match tier {
                Tier::Reference => job.output = key.tag::<BITS>(reference::blocks, job.input),
                Tier::Generic => job.output = key.tag::<BITS>(rounds::one, job.input),
                Tier::Native | Tier::Batch => {
                    let made = hmac::sign(&key.library, job.input);
                    job.output[..BITS / 8].copy_from_slice(made.as_ref());
                }
            }
            job.output[BITS / 8..].fill(0);
        },
        together: Some(Together { cost: hmac_ways_cost, run: abreast::run_widest::<BITS> }),
        ..own::<BITS>()
    }
}

/// Returns the cost of several messages of SHA-384 or SHA-512 side by side, measured against AWS-LC.
fn ways_cost(features: Features, of: Totals) -> Option<WaysCost> {
    match (features.avx512, features.avx2) {
        // All end with their first block.
        (Some(_), _) if of.longest < BLOCK - LENGTH_BYTES => {
            Some(WaysCost { few: 4, fixed_bytes: 0, job_bytes: 0 })
        }
        (Some(_), _) => Some(WaysCost { few: 2, fixed_bytes: 960, job_bytes: 64 }),
        (_, Some(_)) => Some(WaysCost { few: 3, fixed_bytes: 2048, job_bytes: 64 }),
        _ => None,
    }
}

/// Returns the cost with HMAC: every message has one more block than for [`ways_cost`], the outer hash's.
fn hmac_ways_cost(features: Features, of: Totals) -> Option<WaysCost> {
    let cost = ways_cost(features, of)?;
    if features.avx512.is_none() {
        return Some(cost);
    }
    Some(WaysCost { few: 2, fixed_bytes: cost.fixed_bytes.min(768), ..cost })
}

/// Bytes of a block.
pub(crate) const BLOCK: usize = 128;

/// Bytes at the end of the last block that hold the length of the message.
const LENGTH_BYTES: usize = 16;

/// Absorbs whole blocks.
pub(crate) type Compress = fn(&mut [u64; 8], &[u8]);

/// Returns the initial state (FIPS 180-4 sections 5.3.4 and 5.3.5).
pub(crate) const fn initial(bits: usize) -> &'static [u64; 8] {
    if bits == 384 { &INITIAL_384 } else { &INITIAL_512 }
}

/// Finishes a state that has absorbed that many bytes, in whole blocks, with the rest of a message; returns its
/// words.
fn hash(compress: Compress, state: &[u64; 8], absorbed_bytes: u64, rest: &[u8]) -> [u8; 64] {
    let mut state = *state;
    let (whole, tail) = rest.split_at(rest.len() & !(BLOCK - 1));
    compress(&mut state, whole);
    let mut padded = [0; 2 * BLOCK];
    let bytes = pad(tail, absorbed_bytes + rest.len() as u64, &mut padded);
    compress(&mut state, &padded[..bytes]);
    bytes_of(&state)
}

/// Lays out the last one or two blocks of a message: its tail of less than a block, the padding and its length.
/// Returns their bytes.
pub(crate) fn pad(tail: &[u8], message_bytes: u64, padded: &mut [u8; 2 * BLOCK]) -> usize {
    // A bit, and the length.
    let bytes = if tail.len() < BLOCK - LENGTH_BYTES { BLOCK } else { 2 * BLOCK };
    padded[..tail.len()].copy_from_slice(tail);
    padded[tail.len()] = 0x80;
    padded[tail.len() + 1..bytes - LENGTH_BYTES].fill(0);
    padded[bytes - LENGTH_BYTES..bytes].copy_from_slice(&(8 * u128::from(message_bytes)).to_be_bytes());
    bytes
}

/// Returns the words of a state in the digest's byte order.
pub(crate) fn bytes_of(state: &[u64; 8]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

/// The states of HMAC after the key blocks, and the library's key.
pub(crate) struct HmacKey {
    pub(crate) inner: [u64; 8],
    pub(crate) outer: [u64; 8],
    library: hmac::Key,
}

impl Drop for HmacKey {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

impl HmacKey {
    fn tag<const BITS: usize>(&self, compress: Compress, message: &[u8]) -> [u8; 64] {
        let inner = hash(compress, &self.inner, BLOCK as u64, message);
        hash(compress, &self.outer, BLOCK as u64, &inner[..BITS / 8])
    }
}

fn expand<const BITS: usize>(key: &[u8]) -> OwnKey {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        let digest = hash(rounds::one, initial(BITS), 0, key);
        block[..BITS / 8].copy_from_slice(&digest[..BITS / 8]);
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let absorb = |mask: u8| {
        let mut padded = block.map(|byte| byte ^ mask);
        let mut state = *initial(BITS);
        rounds::one(&mut state, &padded);
        padded.zeroize();
        state
    };
    let algorithm = if BITS == 384 { hmac::HMAC_SHA384 } else { hmac::HMAC_SHA512 };
    let (inner, outer) = (absorb(0x36), absorb(0x5c));
    block.zeroize();
    Some(Box::new(HmacKey { inner, outer, library: hmac::Key::new(algorithm, key) }))
}

/// FIPS 180-4 section 5.3.5.
const INITIAL_512: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// FIPS 180-4 section 5.3.4.
const INITIAL_384: [u64; 8] = [
    0xcbbb_9d5d_c105_9ed8,
    0x629a_292a_367c_d507,
    0x9159_015a_3070_dd17,
    0x152f_ecd8_f70e_5939,
    0x6733_2667_ffc0_0b31,
    0x8eb4_4a87_6858_1511,
    0xdb0c_2e0d_64f9_8fa7,
    0x47b5_481d_befa_4fa4,
];

/// FIPS 180-4 section 4.2.3: cube roots of the first 80 primes.
#[rustfmt::skip]
pub(crate) const CONSTANTS: [u64; 80] = [
    0x428a_2f98_d728_ae22, 0x7137_4491_23ef_65cd, 0xb5c0_fbcf_ec4d_3b2f, 0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538, 0x59f1_11f1_b605_d019, 0x923f_82a4_af19_4f9b, 0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242, 0x1283_5b01_4570_6fbe, 0x2431_85be_4ee4_b28c, 0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f, 0x80de_b1fe_3b16_96b1, 0x9bdc_06a7_25c7_1235, 0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2, 0xefbe_4786_384f_25e3, 0x0fc1_9dc6_8b8c_d5b5, 0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275, 0x4a74_84aa_6ea6_e483, 0x5cb0_a9dc_bd41_fbd4, 0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab, 0xa831_c66d_2db4_3210, 0xb003_27c8_98fb_213f, 0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2, 0xd5a7_9147_930a_a725, 0x06ca_6351_e003_826f, 0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc, 0x2e1b_2138_5c26_c926, 0x4d2c_6dfc_5ac4_2aed, 0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de, 0x766a_0abb_3c77_b2a8, 0x81c2_c92e_47ed_aee6, 0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364, 0xa81a_664b_bc42_3001, 0xc24b_8b70_d0f8_9791, 0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218, 0xd699_0624_5565_a910, 0xf40e_3585_5771_202a, 0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8, 0x1e37_6c08_5141_ab53, 0x2748_774c_df8e_eb99, 0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63, 0x4ed8_aa4a_e341_8acb, 0x5b9c_ca4f_7763_e373, 0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc, 0x78a5_636f_4317_2f60, 0x84c8_7814_a1f0_ab72, 0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28, 0xa450_6ceb_de82_bde9, 0xbef9_a3f7_b2c6_7915, 0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c, 0xd186_b8c7_21c0_c207, 0xeada_7dd6_cde0_eb1e, 0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba, 0x0a63_7dc5_a2c8_98a6, 0x113f_9804_bef9_0dae, 0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84, 0x32ca_ab7b_40c7_2493, 0x3c9e_be0a_15c9_bebc, 0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6, 0x597f_299c_fc65_7e2a, 0x5fcb_6fab_3ad6_faec, 0x6c44_198c_4a47_5817,
];
