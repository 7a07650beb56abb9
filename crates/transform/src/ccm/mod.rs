//! AES-CCM, SP 800-38C and RFC 3610: CBC-MAC over the text and counter mode over text and tag.
//!
//! The lengths of nonce and tag belong to the key, because they are authenticated: a shorter tag is another tag, and
//! not the beginning of a longer one.

#[cfg(target_arch = "x86_64")]
mod alone;
mod format;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod library;
mod reference;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod ways;

use subtle::ConstantTimeEq as _;

use crate::aead::{AeadJob, AeadLengths};
use crate::aes;
use crate::descriptor::{AeadDescriptor, PeerNames, Promise};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::job::Status;
use crate::modes::Direction;
use crate::schedule::AeadSchedule;

/// AES-128-CCM as the catalogue knows it.
pub(crate) static AES_128_CCM: AeadDescriptor = AeadDescriptor {
    name: "aes-128-ccm",
    facts: facts(16),
    peers: PeerNames::NONE.openssl("AES-128-CCM"),
    promises: &[
        Promise::new("3ccm4ways13absorb_avx512", "vaesenc", 64),
        Promise::new("3ccm4ways11absorb_avx2", "vaesenc", 16),
        Promise::new("3ccm5alone12seal_or_open", "vaesenc", 16),
    ],
    ..ANY
};

/// AES-256-CCM, of the same kernels.
pub(crate) static AES_256_CCM: AeadDescriptor = AeadDescriptor {
    name: "aes-256-ccm",
    facts: facts(32),
    peers: PeerNames::NONE.openssl("AES-256-CCM"),
    ..ANY
};

/// The properties that both share.
const ANY: AeadDescriptor = AeadDescriptor {
    name: "aes-ccm",
    facts: facts(16),
    // RFC 3610, section 2: the counter has the bytes that the nonce leaves; tags have even lengths. A job has no room
    // for nonces of 13 bytes.
    takes: |AeadLengths { nonce_bytes, tag_bytes }| {
        matches!(nonce_bytes, 7..=12) && matches!(tag_bytes, 4 | 6 | 8 | 10 | 12 | 14 | 16)
    },
    expand: |key| Some(AeadSchedule::Ccm(Box::new(Key::new(key)?))),
    portable,
    native: NATIVE,
    instructions,
    // AWS-LC's CCM is not in aws-lc-rs, so there is nobody to compare with.
    costs: |_, _| None,
    peers: PeerNames::NONE,
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
        working_set_bytes: 512 + 16 * (rounds + 1),
        chained: true,
        byte_order: ByteOrder::Bytes,
        standing: Standing::Current,
        limits: Limits { bytes_a_nonce: MAX_BYTES, ..Limits::WIDE_BLOCKS },
        source: "SP 800-38C",
    }
}

/// Most bytes of a message: its length has three bytes beside the longest nonce.
const MAX_BYTES: u64 = (1 << 24) - 1;

/// The expanded key in [`AeadSchedule`].
pub(crate) type BoxedKey = Box<Key>;

/// An expanded key.
pub(crate) struct Key {
    cipher: aes::Key,
    #[cfg(any(test, not(target_arch = "x86_64")))]
    library: sealane_native::aes::Key,
}

impl Key {
    fn new(key: &[u8]) -> Option<Self> {
        Some(Self {
            cipher: aes::Key::new(key),
            #[cfg(any(test, not(target_arch = "x86_64")))]
            library: sealane_native::aes::Key::encrypting(key).ok()?,
        })
    }
}

/// Returns a job's key, if it is one of CCM.
#[inline(always)]
fn key_of<'k>(job: &AeadJob<'k>) -> Option<&'k Key> {
    match job.key.schedule() {
        AeadSchedule::Ccm(key) => Some(key),
        _ => None,
    }
}

fn portable(tier: Tier, direction: Direction, job: &mut AeadJob<'_>) {
    let Some(key) = key_of(job) else { return };
    if tier == Tier::Reference {
        reference::seal_or_open(direction, job, |block| {
            aes::reference::plain(&key.cipher, Direction::Encrypt, block);
        });
    } else {
        reference::seal_or_open(direction, job, |block| aes::generic::encrypt(&key.cipher, block));
    }
}

#[cfg(target_arch = "x86_64")]
const NATIVE: Option<fn(Direction, &mut AeadJob<'_>)> = None;

#[cfg(not(target_arch = "x86_64"))]
const NATIVE: Option<fn(Direction, &mut AeadJob<'_>)> = Some(library::seal_or_open);

/// Runs the pending jobs, short ones alone and long ones side by side.
fn instructions(features: Features, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = features.avx2 {
        ways::run_widest(avx2, features, direction, jobs);
        crate::wipe::registers(features);
    }
}

/// Ends a job whose data are crypted: writes its tag, or compares it and, if it is wrong, clears the data.
fn conclude(direction: Direction, job: &mut AeadJob<'_>, tag: &[u8; 16]) {
    let tag_bytes = usize::from(job.key.lengths().tag_bytes);
    job.status = match direction {
        Direction::Encrypt => {
            job.tag = [0; 16];
            job.tag[..tag_bytes].copy_from_slice(&tag[..tag_bytes]);
            Status::Done
        }
        Direction::Decrypt if bool::from(tag[..tag_bytes].ct_eq(&job.tag[..tag_bytes])) => Status::Done,
        Direction::Decrypt => {
            job.data.copied_in_place().fill(0);
            Status::Forged
        }
    };
}
