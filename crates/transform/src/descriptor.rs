//! Descriptors: what an algorithm's folder says of it. Catalogue, keys, dispatch, traces, measurements and tests ask these,
//! and name no algorithm themselves.
//!
//! A descriptor is asked once a batch, never once a block: what it gives out for that is a function.

use core::any::Any;

use crate::aead::{AeadJob, AeadSchedule};
use crate::catalogue::{Facts, Mode};
use crate::cipher_lanes::HandOver;
use crate::cost::AeadCosts;
use crate::hash::Hash;
use crate::isa::{Features, Isa, Tier};
use crate::job::{Buffer, CipherJob, DigestJob, Direction};
use crate::key::{DigestKey, Schedule};
use crate::order::{LaneCost, Totals};
use crate::word::Event;

/// What other libraries call an algorithm; `None` where they do not have it.
///
/// A block cipher's name goes without a mode, and HMAC's is its hash's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerNames {
    /// OpenSSL's name for its fetch functions.
    pub openssl: Option<&'static str>,
    /// The constant of aws-lc-rs.
    pub aws_lc: Option<&'static str>,
    /// The crate and, where that holds several, the type of RustCrypto.
    pub rust_crypto: Option<&'static str>,
    /// Intel's multi-buffer library: the name in its IMB constants.
    pub ipsec_mb: Option<&'static str>,
}

impl PeerNames {
    /// Nobody else has it.
    pub const NONE: Self = Self { openssl: None, aws_lc: None, rust_crypto: None, ipsec_mb: None };
}

/// An instruction that one of an algorithm's kernels promises to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// A piece of the function's mangled name.
    pub function: &'static str,
    /// The instruction, as disassemblers spell it.
    pub instruction: &'static str,
    /// Bytes of its first operand; 0 if that does not matter.
    pub operand_bytes: usize,
}

impl Promise {
    pub(crate) const fn new(function: &'static str, instruction: &'static str, operand_bytes: usize) -> Self {
        Self { function, instruction, operand_bytes }
    }
}

/// Runs one message, whose key is of the descriptor's algorithm and whose length the mode takes.
pub(crate) type Alone = fn(&Schedule, Mode, Direction, &[u8; 16], &mut Buffer<'_>);

/// Runs the jobs that a list of indices, longest first, names; all are pending, of the descriptor's algorithm, and of lengths
/// that the mode takes. Without lanes on this machine it is not called.
pub(crate) type RunLanes = for<'k> fn(Features, Mode, Direction, &mut [CipherJob<'k>], &[u16], &HandOver<'_>);

/// The lane kernels of a cipher.
pub(crate) struct CipherLanes {
    /// What lanes cost so many jobs, as the `crossover` example measures it. `None` where there are none.
    pub(crate) cost: fn(Mode, Direction, Isa, usize) -> Option<LaneCost>,
    /// Of fewer bytes neither lanes nor pieces ever pay. Looked at first: a short message is done in the time of a call.
    pub(crate) least_bytes: LeastBytes,
    /// What messages are cut for whose blocks need not wait for each other.
    pub(crate) cut: Option<CutFor>,
    pub(crate) run: RunLanes,
}

/// Bytes of a batch below which lanes never pay, whatever its messages.
#[derive(Clone, Copy)]
pub(crate) struct LeastBytes {
    /// Where each block waits for the one before: beside the longest message, which gains nothing.
    pub(crate) chained: usize,
    /// Where the blocks of a message could run side by side, and for stream ciphers.
    pub(crate) free: usize,
}

/// What messages are cut for.
#[derive(Clone, Copy)]
pub(crate) struct CutFor {
    /// Lanes of the widest kernel of each instruction set, the smallest set first; 1 where messages are not cut.
    pub(crate) lanes: [usize; 3],
    /// Lanes that are set up in the time in which the narrowest kernel runs one chunk of each of its lanes; measured.
    pub(crate) set_up: usize,
}

/// The words of a key, and those of its tables.
pub(crate) type Words = (Vec<u32>, Vec<u32>);

/// A cipher.
pub(crate) struct CipherDescriptor {
    pub(crate) name: &'static str,
    /// A block cipher's are those of CBC.
    pub(crate) facts: Facts,
    /// Expands a key, whose length is among the facts.
    pub(crate) expand: fn(&[u8]) -> Option<Schedule>,
    /// The kernel of a tier for single messages, for a mode and direction.
    pub(crate) alone: fn(Features, Tier, Mode, Direction) -> Alone,
    /// Whether single messages run by instructions that were made for this cipher.
    pub(crate) has_instructions: fn(Features) -> bool,
    pub(crate) lanes: Option<CipherLanes>,
    /// Encrypts whole blocks in ECB by the reference kernel, telling what it does, and of each block when it ends.
    pub(crate) trace: fn(&Schedule, &mut [u8], &mut dyn FnMut(Event)),
    /// The key and the tables as NPCryptBench's machines hold them, if they run it.
    pub(crate) words: fn(&Schedule) -> Option<Words>,
    pub(crate) peers: PeerNames,
    pub(crate) promises: &'static [Promise],
}

/// Expanded key of a digest that is no Merkle-Damgard hash; wipes itself.
pub(crate) type OwnKey = Option<Box<dyn Any + Send + Sync>>;

/// How a digest is made.
pub(crate) enum Making {
    /// A Merkle-Damgard hash.
    Hash(&'static Hash),
    /// HMAC with such a hash.
    Hmac(&'static Hash),
    /// In its own way, one message at a time.
    Own(OwnDigest),
}

/// Digests by a kernel that tells a sink what it does.
pub(crate) type TraceDigest = fn(&DigestKey, &[u8], &mut dyn FnMut(Event)) -> Option<Vec<u8>>;

/// A digest that is no Merkle-Damgard hash of 32-bit words.
pub(crate) struct OwnDigest {
    /// Expands a key, whose length is among the facts.
    pub(crate) expand: fn(&[u8]) -> OwnKey,
    /// The tier of the kernel that runs where that of the first argument is allowed.
    pub(crate) tier: fn(Tier, Features) -> Tier,
    /// Digests a message that is no longer than the limit, by the kernel of a tier.
    pub(crate) digest: fn(Tier, &mut DigestJob<'_>),
    /// Digests by the reference kernel, telling what it does; `None` if nothing is told of it.
    pub(crate) trace: TraceDigest,
    /// Kernels for several messages, if there are any.
    pub(crate) together: Option<Together>,
}

/// Runs the jobs that a list of indices, longest first, names; all are of the descriptor's algorithm, and of lengths that it
/// takes. With at most so many busy lanes and no jobs waiting, messages end one by one.
pub(crate) type RunTogether = fn(Features, usize, &mut [DigestJob<'_>], &[u16]);

/// Kernels for several messages of a digest that is no Merkle-Damgard hash of 32-bit words.
pub(crate) struct Together {
    /// What they cost such messages, as the `crossover` example measures it. `None` where there are none.
    pub(crate) cost: fn(Features, Totals) -> Option<LaneCost>,
    pub(crate) run: RunTogether,
}

/// A digest or MAC.
pub(crate) struct DigestDescriptor {
    pub(crate) name: &'static str,
    pub(crate) facts: Facts,
    pub(crate) making: Making,
    pub(crate) peers: PeerNames,
    pub(crate) promises: &'static [Promise],
}

/// An AEAD.
pub(crate) struct AeadDescriptor {
    pub(crate) name: &'static str,
    pub(crate) facts: Facts,
    /// Expands a key of the right length.
    pub(crate) expand: fn(&[u8]) -> Option<AeadSchedule>,
    /// Runs a job without instructions, by the kernel of a tier.
    pub(crate) portable: fn(Tier, Direction, &mut AeadJob<'_>),
    /// Runs the pending jobs with what this machine has instructions for; others stay pending.
    pub(crate) instructions: fn(Features, Direction, &mut [AeadJob<'_>]),
    /// The costs of these kernels and of AWS-LC; `None` where this machine has no instructions for ours.
    pub(crate) costs: fn(Features, Direction) -> Option<AeadCosts>,
    pub(crate) peers: PeerNames,
    pub(crate) promises: &'static [Promise],
}

/// Single messages run by ordinary code.
pub(crate) const fn no_instructions(_: Features) -> bool {
    false
}

/// No words: NPCryptBench's machines do not run it.
pub(crate) const fn no_words(_: &Schedule) -> Option<Words> {
    None
}

/// Words as a trace gives them out.
pub(crate) fn words_to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Names a function for single messages of a cipher that runs block after block.
macro_rules! block_after_block {
    ($name:ident, $($schedule:ident)|+ => $crypt:expr) => {
        fn $name(
            key: &$crate::key::Schedule,
            mode: $crate::catalogue::Mode,
            direction: $crate::job::Direction,
            iv: &[u8; 16],
            data: &mut $crate::job::Buffer<'_>,
        ) {
            if let $($crate::key::Schedule::$schedule(key))|+ = key {
                $crate::modes::crypt_blocks(mode, direction, iv, data.copied_in_place(), |d, b| $crypt(key, d, b));
            }
        }
    };
}
pub(crate) use block_after_block;
