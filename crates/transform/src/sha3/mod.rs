//! SHA-3 and SHAKE, FIPS 202, TurboSHAKE, KT128 and KT256, RFC 9861, over [`crate::keccak`].
//!
//! Single messages of SHA-3 run by AWS-LC, whose permutation is as fast as any; several run side by side, four in vectors of AVX2 and
//! eight in those of AVX-512. KT128 and KT256 (KangarooTwelve) run chunks of one long message side by side too. SHAKE and its relatives
//! give as many bytes as their strength asks for: 32 and 64.

mod abreast;
mod kangaroo;
mod stream;

pub use stream::KeccakStream;

use aws_lc_rs::digest::{self, Algorithm};

use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames, Promise, Together};
use crate::facts::{ByteOrder, Facts, Standing};
use crate::hash;
use crate::isa::{Features, Tier};
use crate::job::DigestJob;
use crate::keccak::{self, SHA3_256 as SPONGE_256, SHA3_512 as SPONGE_512, Sponge, reference};
use crate::order::{Totals, WaysCost};

/// A function of the family.
struct Function {
    name: &'static str,
    sponge: Sponge,
    output_bytes: usize,
    /// AWS-LC's, if it has it.
    library: Option<&'static Algorithm>,
    /// Bytes of a chunk's chaining value, if messages are cut into chunks.
    value_bytes: Option<usize>,
}

impl Function {
    /// Returns what follows every message that is one sponge.
    const fn tail(&self) -> &'static [u8] {
        if self.value_bytes.is_some() { kangaroo::TAIL } else { &[] }
    }
}

const fn function(
    name: &'static str,
    sponge: Sponge,
    output_bytes: usize,
    library: Option<&'static Algorithm>,
) -> Function {
    Function { name, sponge, output_bytes, library, value_bytes: None }
}

/// TurboSHAKE without a domain of its own: the byte 1f is the default of RFC 9861, section 2.1.
const TURBO_128: Sponge = Sponge::turbo(168, 0x1f);
const TURBO_256: Sponge = Sponge::turbo(136, 0x1f);

const fn tree(name: &'static str, sponge: Sponge, bytes: usize) -> Function {
    let sponge = sponge.with_suffix(kangaroo::SINGLE);
    Function { value_bytes: Some(bytes), ..function(name, sponge, bytes, None) }
}

/// FIPS 202, sections 6.1 and 6.2; RFC 9861, sections 2 and 3.
static FUNCTIONS: [Function; 10] = [
    function("sha3-224", Sponge::new(144, 0x06), 28, None),
    function("sha3-256", SPONGE_256, 32, Some(&digest::SHA3_256)),
    function("sha3-384", Sponge::new(104, 0x06), 48, Some(&digest::SHA3_384)),
    function("sha3-512", SPONGE_512, 64, Some(&digest::SHA3_512)),
    function("shake128", keccak::SHAKE128, 32, None),
    function("shake256", keccak::SHAKE256, 64, None),
    function("turboshake128", TURBO_128, 32, None),
    function("turboshake256", TURBO_256, 64, None),
    tree("kt128", TURBO_128, 32),
    tree("kt256", TURBO_256, 64),
];

const PROMISES: [Promise; 2] = [
    Promise::new("6keccak7abreast4avx2", "vpandn", 32).times(25),
    Promise::new("6keccak7abreast6avx512", "vprolq", 64).times(29),
];

const fn peers(openssl: &'static str, aws_lc: Option<&'static str>) -> PeerNames {
    PeerNames { openssl: Some(openssl), aws_lc, ..PeerNames::NONE }
}

const fn descriptor<const N: usize>(peers: PeerNames) -> DigestDescriptor {
    let function = &FUNCTIONS[N];
    let Sponge { rate_bytes, rounds, .. } = function.sponge;
    let source = if rounds == keccak::ROUNDS { "FIPS 202" } else { "RFC 9861" };
    DigestDescriptor {
        name: function.name,
        facts: Facts {
            block_bytes: rate_bytes,
            working_set_bytes: 200 + rate_bytes,
            ..hash::facts(rounds, function.output_bytes, ByteOrder::Little, Standing::Current, source)
        },
        making: Making::Own(own::<N>()),
        peers,
        promises: &PROMISES,
    }
}

/// SHA3-224 as the catalogue knows it.
pub(crate) static SHA3_224: DigestDescriptor = descriptor::<0>(peers("SHA3-224", None));
/// SHA3-256 as the catalogue knows it.
pub(crate) static SHA3_256: DigestDescriptor = descriptor::<1>(peers("SHA3-256", Some("SHA3_256")));
/// SHA3-384 as the catalogue knows it.
pub(crate) static SHA3_384: DigestDescriptor = descriptor::<2>(peers("SHA3-384", Some("SHA3_384")));
/// SHA3-512 as the catalogue knows it.
pub(crate) static SHA3_512: DigestDescriptor = descriptor::<3>(peers("SHA3-512", Some("SHA3_512")));
/// SHAKE128 as the catalogue knows it.
pub(crate) static SHAKE_128: DigestDescriptor = descriptor::<4>(PeerNames::NONE);
/// SHAKE256 as the catalogue knows it.
pub(crate) static SHAKE_256: DigestDescriptor = descriptor::<5>(PeerNames::NONE);
/// TurboSHAKE128 as the catalogue knows it.
pub(crate) static TURBO_SHAKE_128: DigestDescriptor = descriptor::<6>(PeerNames::NONE);
/// TurboSHAKE256 as the catalogue knows it.
pub(crate) static TURBO_SHAKE_256: DigestDescriptor = descriptor::<7>(PeerNames::NONE);
/// KT128 as the catalogue knows it.
pub(crate) static KT_128: DigestDescriptor = descriptor::<8>(PeerNames::NONE);
/// KT256 as the catalogue knows it.
pub(crate) static KT_256: DigestDescriptor = descriptor::<9>(PeerNames::NONE);

/// Returns the functions of a member of [`FUNCTIONS`].
const fn own<const N: usize>() -> OwnDigest {
    OwnDigest {
        expand: |_| None,
        tier: |tier, features| {
            let function = &FUNCTIONS[N];
            let has_library = function.library.is_some() && features.have_libraries();
            // A single message has chunks for the ways.
            let has_ways = function.value_bytes.is_some() && features.avx2.is_some();
            if has_library || has_ways { tier } else { tier.min(Tier::Generic) }
        },
        digest: |features, tier, job| one(&FUNCTIONS[N], features, tier, job),
        trace: |_, _, _| None,
        together: Some(Together {
            cost: ways_cost::<N>,
            run: |features, few, jobs, order| {
                abreast::run(&FUNCTIONS[N], features, few, jobs, order);
            },
        }),
    }
}

fn one(function: &Function, features: Features, tier: Tier, job: &mut DigestJob<'_>) {
    let bytes = function.output_bytes;
    job.output = [0; 64];
    let output = &mut job.output[..bytes];
    match (tier, function.library, function.value_bytes) {
        (Tier::Reference, _, None) => {
            reference::Squeezing::new(function.sponge, &[job.input]).squeeze(output);
        }
        (Tier::Reference, _, Some(values)) => kangaroo::reference(function, values, job.input, output),
        (Tier::Generic, _, Some(values)) => {
            kangaroo::digest(function, values, Features::NONE, job.input, output);
        }
        (_, _, Some(values)) => kangaroo::digest(function, values, features, job.input, output),
        (Tier::Native | Tier::Batch, Some(algorithm), _) => {
            output.copy_from_slice(digest::digest(algorithm, job.input).as_ref());
        }
        _ => abreast::alone(function, job),
    }
}

/// Returns the cost of ways in bytes of single messages, which functions of half the rounds have twice as many of in the same time.
/// Four permutations by AVX2 take the time of 1.6 of AWS-LC's, and eight by AVX-512 that of 1.4, so that two messages gain already.
/// A processor without vectors gains nothing.
fn ways_cost<const N: usize>(features: Features, _: Totals) -> Option<WaysCost> {
    let speed = (keccak::ROUNDS / FUNCTIONS[N].sponge.rounds) as u32;
    let cost = |fixed_bytes, job_bytes| {
        Some(WaysCost { few: 1, fixed_bytes: speed * fixed_bytes, job_bytes: speed * job_bytes })
    };
    match (features.avx512, features.avx2) {
        (Some(_), _) => cost(256, 32),
        (_, Some(_)) => cost(64, 8),
        _ => None,
    }
}
