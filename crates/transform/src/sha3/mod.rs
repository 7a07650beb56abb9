//! SHA-3 and SHAKE, FIPS 202, over [`crate::keccak`].
//!
//! Single messages of SHA-3 run by AWS-LC, whose permutation is as fast as any; several run side by side, four in vectors of AVX2.
//! SHAKE gives as many bytes as its strength asks for: 32 and 64.

mod abreast;

use aws_lc_rs::digest::{self, Algorithm};

use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames, Promise, Together};
use crate::facts::{ByteOrder, Facts, Standing};
use crate::hash;
use crate::isa::{Features, Tier};
use crate::job::DigestJob;
use crate::keccak::{self, ROUNDS, SHA3_256 as SPONGE_256, SHA3_512 as SPONGE_512, Sponge, reference};
use crate::order::{LaneCost, Totals};

/// A function of FIPS 202.
struct Function {
    sponge: Sponge,
    output_bytes: usize,
    /// AWS-LC's, if it has it.
    library: Option<&'static Algorithm>,
}

const fn function(sponge: Sponge, output_bytes: usize, library: Option<&'static Algorithm>) -> Function {
    Function { sponge, output_bytes, library }
}

/// Sections 6.1 and 6.2.
static FUNCTIONS: [Function; 6] = [
    function(Sponge { rate_bytes: 144, suffix: 0x06 }, 28, None),
    function(SPONGE_256, 32, Some(&digest::SHA3_256)),
    function(Sponge { rate_bytes: 104, suffix: 0x06 }, 48, Some(&digest::SHA3_384)),
    function(SPONGE_512, 64, Some(&digest::SHA3_512)),
    function(keccak::SHAKE128, 32, None),
    function(keccak::SHAKE256, 64, None),
];

const PROMISES: [Promise; 1] = [Promise::new("6keccak7abreast4avx2", "vpandn", 32).times(25)];

const fn peers(openssl: &'static str, aws_lc: Option<&'static str>) -> PeerNames {
    PeerNames { openssl: Some(openssl), aws_lc, ..PeerNames::NONE }
}

const fn descriptor<const N: usize>(
    name: &'static str,
    rate_bytes: usize,
    output_bytes: usize,
    peers: PeerNames,
) -> DigestDescriptor {
    DigestDescriptor {
        name,
        facts: Facts {
            block_bytes: rate_bytes,
            working_set_bytes: 200 + rate_bytes,
            ..hash::facts(ROUNDS, output_bytes, ByteOrder::Little, Standing::Current, "FIPS 202")
        },
        making: Making::Own(own::<N>()),
        peers,
        promises: &PROMISES,
    }
}

/// SHA3-224 as the catalogue knows it.
pub(crate) static SHA3_224: DigestDescriptor = descriptor::<0>("sha3-224", 144, 28, peers("SHA3-224", None));
/// SHA3-256 as the catalogue knows it.
pub(crate) static SHA3_256: DigestDescriptor =
    descriptor::<1>("sha3-256", 136, 32, peers("SHA3-256", Some("SHA3_256")));
/// SHA3-384 as the catalogue knows it.
pub(crate) static SHA3_384: DigestDescriptor =
    descriptor::<2>("sha3-384", 104, 48, peers("SHA3-384", Some("SHA3_384")));
/// SHA3-512 as the catalogue knows it.
pub(crate) static SHA3_512: DigestDescriptor =
    descriptor::<3>("sha3-512", 72, 64, peers("SHA3-512", Some("SHA3_512")));
/// SHAKE128 as the catalogue knows it.
pub(crate) static SHAKE_128: DigestDescriptor = descriptor::<4>("shake128", 168, 32, PeerNames::NONE);
/// SHAKE256 as the catalogue knows it.
pub(crate) static SHAKE_256: DigestDescriptor = descriptor::<5>("shake256", 136, 64, PeerNames::NONE);

/// Returns the functions of a member of [`FUNCTIONS`].
const fn own<const N: usize>() -> OwnDigest {
    OwnDigest {
        expand: |_| None,
        tier: |tier, features| {
            let has_library = FUNCTIONS[N].library.is_some() && features.have_libraries();
            if has_library { tier } else { tier.min(Tier::Generic) }
        },
        digest: |tier, job| one(&FUNCTIONS[N], tier, job),
        trace: |_, _, _| None,
        together: Some(Together {
            cost: lane_cost,
            run: |features, few, jobs, order| {
                abreast::run(&FUNCTIONS[N], features, few, jobs, order);
            },
        }),
    }
}

fn one(function: &Function, tier: Tier, job: &mut DigestJob<'_>) {
    let bytes = function.output_bytes;
    job.output = [0; 64];
    match (tier, function.library) {
        (Tier::Reference, _) => {
            reference::Squeezing::new(function.sponge, &[job.input]).squeeze(&mut job.output[..bytes]);
        }
        (Tier::Native | Tier::Batch, Some(algorithm)) => {
            job.output[..bytes].copy_from_slice(digest::digest(algorithm, job.input).as_ref());
        }
        _ => abreast::alone(function, job),
    }
}

/// Returns the cost of lanes: in a prototype beside AWS-LC four permutations took the time of 1.6 of its own, so that two messages gain
/// already. A processor without vectors gains nothing.
fn lane_cost(features: Features, _: Totals) -> Option<LaneCost> {
    features.avx2.map(|_| LaneCost { few: 1, fixed_bytes: 64, job_bytes: 8 })
}
