//! AES, FIPS 197, with 128-, 192- and 256-bit keys.

pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ni;
pub(crate) mod reference;
pub(crate) mod tables;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::descriptor::{
    Alone, CipherDescriptor, CipherWays, LeastBytes, PeerNames, Promise, Words, block_after_block,
};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Isa, Tier};
use crate::job::Buffer;
use crate::modes::{Direction, Mode};
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, Event, trace_blocks};

/// AES-128 as the catalogue knows it.
pub(crate) static AES_128: CipherDescriptor = CipherDescriptor {
    name: "aes-128",
    facts: facts(16),
    expand: |key| Some(Schedule::Aes128(Box::new(Key::new(key)))),
    peers: peers("AES-128", "AES_128"),
    promises: &[
        Promise::new("3aes4ways10run_avx512", "vaesenc", 64),
        Promise::new("3aes4ways10run_avx512", "vaesdeclast", 64),
        Promise::new("3aes4ways8run_avx2", "vaesenc", 16),
        Promise::new("3aes2ni6run_ni", "vaesenc", 16),
        Promise::new("3aes2ni8run_vaes", "vaesenc", 64),
        Promise::new("3aes2ni8run_vaes", "vaesdeclast", 64),
    ],
    ..ANY
};

/// AES-192, of the same kernels.
pub(crate) static AES_192: CipherDescriptor = CipherDescriptor {
    name: "aes-192",
    facts: facts(24),
    expand: |key| Some(Schedule::Aes192(Box::new(Key::new(key)))),
    peers: peers("AES-192", "AES_192"),
    ..ANY
};

/// AES-256, of the same kernels.
pub(crate) static AES_256: CipherDescriptor = CipherDescriptor {
    name: "aes-256",
    facts: facts(32),
    expand: |key| Some(Schedule::Aes256(Box::new(Key::new(key)))),
    peers: peers("AES-256", "AES_256"),
    ..ANY
};

/// The properties that the three ciphers share.
const ANY: CipherDescriptor = CipherDescriptor {
    name: "aes",
    facts: facts(16),
    expand: |_| None,
    alone,
    has_instructions: |features| features.avx2.is_some(),
    ways: WAYS,
    trace,
    words,
    peers: PeerNames::NONE,
    promises: &[],
};

const fn facts(key_bytes: usize) -> Facts {
    let rounds = key_bytes / 4 + 6;
    Facts {
        block_bytes: 16,
        rounds,
        key_bytes: KeyBytes::exactly(key_bytes),
        iv_bytes: 16,
        output_bytes: 0,
        table_bytes: 512,
        working_set_bytes: 512 + 16 * (rounds + 1),
        chained: true,
        byte_order: ByteOrder::Bytes,
        standing: Standing::Current,
        limits: Limits::WIDE_BLOCKS,
        source: "FIPS 197",
    }
}

const fn peers(openssl: &'static str, aws_lc: &'static str) -> PeerNames {
    PeerNames::NONE.openssl(openssl).aws_lc(aws_lc).rust_crypto("aes").ipsec_mb("AES")
}

fn alone(features: Features, tier: Tier, mode: Mode, direction: Direction) -> Alone {
    #[cfg(target_arch = "x86_64")]
    if let (Tier::Native, Some(kernel)) = (tier, ni::kernel(features, mode, direction)) {
        return kernel;
    }
    if tier == Tier::Reference { by_reference } else { by_tables }
}

block_after_block!(by_reference, Aes128 | Aes192 | Aes256 => reference::plain);

fn by_tables(key: &Schedule, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if let Some(key) = key_of(key) {
        generic::crypt_message(key, mode, direction, iv, data.copied_in_place());
    }
}

fn trace(key: &Schedule, data: &mut [u8], sink: &mut dyn FnMut(Event)) {
    if let Some(key) = key_of(key) {
        trace_blocks(data, sink, |block| tables::encrypt::<Counted>(key, block));
    }
}

fn words(key: &Schedule) -> Option<Words> {
    let key = key_of(key)?;
    let rounds = &key.encrypt.as_flattened()[..16 * (key.rounds + 1)];
    let words = rounds.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let tables = generic::ENCRYPT.as_flattened().iter().copied();
    Some((words, tables.chain(S.map(u32::from)).collect()))
}

#[cfg(not(target_arch = "x86_64"))]
const WAYS: Option<CipherWays> = None;

/// Ways are for sealing by CBC only: in other modes one message keeps the AES units busy, and ways would only add
/// transpositions.
#[cfg(target_arch = "x86_64")]
const WAYS: Option<CipherWays> = Some(CipherWays {
    cost: |mode, direction, isa, count| match (mode.can_cut(direction), isa) {
        (_, Isa::Portable) => None,
        (true, _) => Some(WaysCost::NEVER),
        // Few jobs take eight ways, and more take 32.
        (false, Isa::Avx512) if count > 32 => Some(WaysCost { few: 5, fixed_bytes: 640, job_bytes: 60 }),
        (false, _) => Some(WaysCost { few: 2, fixed_bytes: 256, job_bytes: 72 }),
    },
    least_bytes: LeastBytes { chained: 600, free: usize::MAX },
    cut: None,
    run: ways::run_widest,
});

/// The expanded key in [`Schedule`].
pub(crate) type BoxedKey = Box<Key>;

/// Returns the key, if it is an AES key.
#[inline(always)]
pub(crate) fn key_of(schedule: &Schedule) -> Option<&Key> {
    match schedule {
        Schedule::Aes128(key) | Schedule::Aes192(key) | Schedule::Aes256(key) => Some(key),
        _ => None,
    }
}

/// Returns the product with x in GF(2^8).
pub(crate) const fn times_x(byte: u8) -> u8 {
    (byte << 1) ^ ((byte >> 7) * 0x1b)
}

/// The S-box and its inverse, computed by their definition: inversion in GF(2^8) and an affine map.
pub(crate) const S: [u8; 256] = {
    let mut table = [0; 256];
    // 3 generates the field: p walks through all elements, and q through their inverses.
    let (mut p, mut q) = (1u8, 1u8);
    loop {
        p ^= times_x(p);
        q ^= q << 1;
        q ^= q << 2;
        q ^= q << 4;
        if q & 0x80 != 0 {
            q ^= 0x09;
        }
        table[p as usize] =
            q ^ q.rotate_left(1) ^ q.rotate_left(2) ^ q.rotate_left(3) ^ q.rotate_left(4) ^ 0x63;
        if p == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
};

/// The inverse S-box.
pub(crate) const INVERSE_S: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[S[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// 10, 12 or 14.
    pub(crate) rounds: usize,
    /// Round keys in the order of encryption.
    pub(crate) encrypt: [[u8; 16]; 15],
    /// Round keys of the equivalent inverse cipher (FIPS 197 section 5.3.5), in the order of decryption.
    pub(crate) decrypt: [[u8; 16]; 15],
}

impl Key {
    /// Expands 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let words = key.len() / 4;
        let rounds = words + 6;
        let mut encrypt = [[0; 16]; 15];
        let flat = encrypt.as_flattened_mut();
        flat[..key.len()].copy_from_slice(key);
        let mut constant = 1;
        for i in words..4 * (rounds + 1) {
            let mut word = [0, 1, 2, 3].map(|j| flat[4 * i - 4 + j]);
            if i % words == 0 {
                word.rotate_left(1);
                word = word.map(|byte| S[usize::from(byte)]);
                word[0] ^= constant;
                constant = times_x(constant);
            } else if words == 8 && i % 8 == 4 {
                word = word.map(|byte| S[usize::from(byte)]);
            }
            for (j, byte) in word.into_iter().enumerate() {
                flat[4 * i + j] = flat[4 * (i - words) + j] ^ byte;
            }
        }
        let mut decrypt = [[0; 16]; 15];
        for round in 0..=rounds {
            decrypt[round] = encrypt[rounds - round];
            if round != 0 && round != rounds {
                for column in decrypt[round].as_chunks_mut().0 {
                    *column = inverse_mix(*column);
                }
            }
        }
        Self { rounds, encrypt, decrypt }
    }
}

/// InvMixColumns on one column.
fn inverse_mix(column: [u8; 4]) -> [u8; 4] {
    let times = |byte: u8, by: u8| {
        let (two, four) = (times_x(byte), times_x(times_x(byte)));
        let eight = times_x(four);
        (if by & 8 != 0 { eight } else { 0 })
            ^ (if by & 4 != 0 { four } else { 0 })
            ^ (if by & 2 != 0 { two } else { 0 })
            ^ (if by & 1 != 0 { byte } else { 0 })
    };
    core::array::from_fn(|i| {
        times(column[i], 14)
            ^ times(column[(i + 1) % 4], 11)
            ^ times(column[(i + 2) % 4], 13)
            ^ times(column[(i + 3) % 4], 9)
    })
}
