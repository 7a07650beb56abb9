//! Descriptors: the facts and functions of the algorithms in a folder. Catalogue, keys, dispatch, traces,
//! measurements and tests use them, and name no algorithm themselves.
//!
//! A descriptor is used once per batch, never once per block: for blocks it gives out a function.

use crate::aead::{AeadJob, AeadLengths};
use crate::cipher_ways::HandOver;
use crate::cost::AeadCosts;
use crate::facts::Facts;
use crate::hash::Hash;
use crate::isa::{Features, Isa, Tier};
use crate::job::{Buffer, CipherJob, DigestJob};
use crate::key::{DigestKey, Keyed, OwnKey};
use crate::modes::{Direction, Mode};
use crate::order::{Totals, WaysCost};
use crate::schedule::{AeadSchedule, Schedule};
use crate::word::Event;

/// Names of an algorithm in other libraries; `None` if a library does not have it.
///
/// A block cipher's name has no mode, and HMAC's is its hash's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerNames {
    /// OpenSSL's name for its fetch functions.
    pub openssl: Option<&'static str>,
    /// The constant of aws-lc-rs.
    pub aws_lc: Option<&'static str>,
    /// The crate of RustCrypto and, if that has several, the type.
    pub rust_crypto: Option<&'static str>,
    /// Intel's multi-buffer library: the name in its IMB constants.
    pub ipsec_mb: Option<&'static str>,
}

impl PeerNames {
    /// Nobody else has it.
    pub const NONE: Self = Self { openssl: None, aws_lc: None, rust_crypto: None, ipsec_mb: None };

    pub(crate) const fn openssl(self, name: &'static str) -> Self {
        Self { openssl: Some(name), ..self }
    }

    pub(crate) const fn aws_lc(self, name: &'static str) -> Self {
        Self { aws_lc: Some(name), ..self }
    }

    pub(crate) const fn rust_crypto(self, name: &'static str) -> Self {
        Self { rust_crypto: Some(name), ..self }
    }

    pub(crate) const fn ipsec_mb(self, name: &'static str) -> Self {
        Self { ipsec_mb: Some(name), ..self }
    }
}

/// An instruction that one of an algorithm's kernels promises to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// A part of the function's mangled name.
    pub function: &'static str,
    /// The instruction, as disassemblers spell it.
    pub instruction: &'static str,
    /// Bytes of the instruction's first operand; 0 if that does not matter.
    pub operand_bytes: usize,
    /// The least number of times that the function has it: more than one where a loop would be slower.
    pub count: usize,
}

impl Promise {
    pub(crate) const fn new(function: &'static str, instruction: &'static str, operand_bytes: usize) -> Self {
        Self { function, instruction, operand_bytes, count: 1 }
    }

    /// Promises the instruction that many times.
    pub(crate) const fn times(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

/// Runs one message, whose key belongs to the descriptor's algorithm and whose length is valid for the mode.
pub(crate) type Alone = fn(&Schedule, Mode, Direction, &[u8; 16], &mut Buffer<'_>);

/// Runs the jobs that a list of indices, longest first, names; all are pending, belong to the descriptor's algorithm,
/// and have lengths that are valid for the mode. It is not called if this machine has no ways for the algorithm.
pub(crate) type RunWays = for<'k> fn(Features, Mode, Direction, &mut [CipherJob<'k>], &[u16], &HandOver<'_>);

/// The multi-way kernels of a cipher.
pub(crate) struct CipherWays {
    /// The cost of this many jobs side by side, as the `crossover` example measures it. `None` if there are no ways.
    pub(crate) cost: fn(Mode, Direction, Isa, usize) -> Option<WaysCost>,
    /// Least bytes for which ways or pieces ever pay. This is checked first, because a short message is done in the
    /// time of a call.
    pub(crate) least_bytes: LeastBytes,
    /// The ways for which messages are cut if their blocks do not depend on each other.
    pub(crate) cut: Option<CutFor>,
    pub(crate) run: RunWays,
}

/// Least bytes of a batch for which ways ever pay, whatever its messages.
#[derive(Clone, Copy)]
pub(crate) struct LeastBytes {
    /// For chained blocks: without the longest message, which gains nothing.
    pub(crate) chained: usize,
    /// For messages whose blocks could run side by side, and for stream ciphers.
    pub(crate) free: usize,
}

/// The ways for which messages are cut.
#[derive(Clone, Copy)]
pub(crate) struct CutFor {
    /// Ways of the widest kernel per instruction set, the smallest set first; 1 if messages are not cut.
    pub(crate) ways: [usize; 3],
    /// Number of ways that are set up in the time in which the narrowest kernel runs one chunk of each of its ways;
    /// measured.
    pub(crate) set_up: usize,
}

/// The words of a key, and those of its tables.
pub(crate) type Words = (Vec<u32>, Vec<u32>);

/// The properties and kernels of a cipher.
pub(crate) struct CipherDescriptor {
    pub(crate) name: &'static str,
    /// The facts of a block cipher are those of CBC.
    pub(crate) facts: Facts,
    /// Expands a key, whose length is one of those in the facts.
    pub(crate) expand: fn(&[u8]) -> Option<Schedule>,
    /// Returns the kernel of a tier for single messages, for a mode and direction.
    pub(crate) alone: fn(Features, Tier, Mode, Direction) -> Alone,
    /// Returns whether the CPU has instructions made for this cipher, which then run single messages.
    pub(crate) has_instructions: fn(Features) -> bool,
    pub(crate) ways: Option<CipherWays>,
    /// Encrypts whole blocks in ECB by the reference kernel, and reports its operations and the end of each block.
    pub(crate) trace: fn(&Schedule, &mut [u8], &mut dyn FnMut(Event)),
    /// Returns the key and the tables in the form of NPCryptBench's machines, if they run it.
    pub(crate) words: fn(&Schedule) -> Option<Words>,
    pub(crate) peers: PeerNames,
    pub(crate) promises: &'static [Promise],
}

/// The construction of a digest.
pub(crate) enum Making {
    /// A Merkle-Damgard hash.
    Hash(&'static Hash),
    /// HMAC with such a hash.
    Hmac(&'static Hash),
    /// A construction of its own, for one message at a time.
    Own(OwnDigest),
}

impl Making {
    /// Returns the use of a key, whose length is one of those in the facts.
    pub(crate) fn keyed(&self, key: &[u8]) -> Keyed {
        match self {
            Self::Hash(_) => Keyed::Own(None),
            Self::Hmac(hash) => {
                let (inner, outer) = hash.hmac_states(key);
                Keyed::Hmac { inner, outer }
            }
            Self::Own(own) => Keyed::Own((own.expand)(key)),
        }
    }
}

/// Digests by a kernel that reports its operations to a sink.
pub(crate) type TraceDigest = fn(&DigestKey, &[u8], &mut dyn FnMut(Event)) -> Option<Vec<u8>>;

/// A digest that is not a Merkle-Damgard hash of 32-bit words.
pub(crate) struct OwnDigest {
    /// Expands a key, whose length is one of those in the facts.
    pub(crate) expand: fn(&[u8]) -> OwnKey,
    /// Returns the tier of the kernel that runs if the tier of the first argument is allowed.
    pub(crate) tier: fn(Tier, Features) -> Tier,
    /// Digests a message that is no longer than the limit, by the kernel of a tier.
    pub(crate) digest: fn(Features, Tier, &mut DigestJob<'_>),
    /// Digests by the reference kernel, which reports its operations; returns `None` if it does not report.
    pub(crate) trace: TraceDigest,
    /// Kernels for several messages, if there are any.
    pub(crate) together: Option<Together>,
}

/// Runs the jobs that a list of indices, longest first, names; all belong to the descriptor's algorithm, and have
/// valid lengths. With at most that many busy ways and no jobs waiting, messages end one by one.
pub(crate) type RunTogether = fn(Features, usize, &mut [DigestJob<'_>], &[u16]);

/// Kernels for several messages of a digest that is not a Merkle-Damgard hash of 32-bit words.
pub(crate) struct Together {
    /// The cost of such messages side by side, as the `crossover` example measures it. `None` if there are no ways.
    pub(crate) cost: fn(Features, Totals) -> Option<WaysCost>,
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

/// The properties and kernels of an AEAD.
pub(crate) struct AeadDescriptor {
    pub(crate) name: &'static str,
    pub(crate) facts: Facts,
    /// Returns whether it has nonces and tags of these lengths.
    pub(crate) takes: fn(AeadLengths) -> bool,
    /// Expands a key of the right length.
    pub(crate) expand: fn(&[u8]) -> Option<AeadSchedule>,
    /// Runs a job by the kernel of a tier, without special instructions.
    pub(crate) portable: fn(Tier, Direction, &mut AeadJob<'_>),
    /// Runs a job by a library that finds the machine's instructions itself, where there are no kernels of ours for
    /// them.
    pub(crate) native: Option<fn(Direction, &mut AeadJob<'_>)>,
    /// Runs the pending jobs for which this machine has instructions; others stay pending.
    pub(crate) instructions: fn(Features, Direction, &mut [AeadJob<'_>]),
    /// The costs of these kernels and of AWS-LC; `None` if this machine has no instructions for ours.
    pub(crate) costs: fn(Features, Direction) -> Option<AeadCosts>,
    pub(crate) peers: PeerNames,
    pub(crate) promises: &'static [Promise],
}

/// Returns whether these are the lengths of an AEAD that has no others.
pub(crate) fn only_usual(lengths: AeadLengths) -> bool {
    lengths == AeadLengths::USUAL
}

/// Returns false: single messages run by ordinary code.
pub(crate) const fn no_instructions(_: Features) -> bool {
    false
}

/// Returns no words: NPCryptBench's machines do not run the cipher.
pub(crate) const fn no_words(_: &Schedule) -> Option<Words> {
    None
}

/// Returns words as bytes, in the order of a trace.
pub(crate) fn words_to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Defines a function for single messages of a cipher that runs block after block.
macro_rules! block_after_block {
    ($name:ident, $($schedule:ident)|+ => $crypt:expr) => {
        fn $name(
            key: &$crate::schedule::Schedule,
            mode: $crate::modes::Mode,
            direction: $crate::modes::Direction,
            iv: &[u8; 16],
            data: &mut $crate::job::Buffer<'_>,
        ) {
            if let $($crate::schedule::Schedule::$schedule(key))|+ = key {
                $crate::modes::crypt_blocks(mode, direction, iv, data.copied_in_place(), |d, b| $crypt(key, d, b));
            }
        }
    };
}
pub(crate) use block_after_block;
