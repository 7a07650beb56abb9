//! Arguments of `sealane speed`.

use crate::units;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use sealane_lab::experiment::Profile;
use sealane_lab::speed::{CacheState, PARTS, Peer, Rule};
use sealane_transform::{Algorithm, Asymmetric, Direction, Isa, Tier};
use std::path::PathBuf;
use std::sync::LazyLock;

pub(super) const LONG_ABOUT: &str = "\
Measure ciphers, digests and MACs on this machine: every algorithm of the catalogue, in four tiers, by message length, \
lanes and batch size, beside other libraries. Public-key algorithms, as rsa-2048 or x25519, have a line for every kind of \
operation and for 1, 8 and 64 operations at a time; `public-key` names all of them.

Our kernel and the other library's take turns in short slices of one run, and the median counts, so ratios hold even on a \
busy machine. MB/s is of all lanes together; ns a message and cycles a byte (of the time stamp counter) are of one lane. \
Other libraries process one message or operation after the other, as their interfaces require; only ipsec-mb and \
crypto-mb take batches.

With --json a line of a public-key operation has these fields: algorithm, step (the kind of operation), tier, isa, lanes, \
batch (operations at a time), ops_per_s (operations a second of all lanes), us_per_operation (microseconds of one lane), \
peer, peer_ops_per_s and ratio.";

/// Arguments of `sealane speed`.
#[derive(Debug, Args)]
pub struct SpeedArgs {
    /// Algorithms by name, `all` ciphers and digests, or `public-key`; by default well-known ones, and tables of what to use here
    #[arg(value_name = "ALGORITHM", value_delimiter = ',', value_parser = algorithm(), hide_possible_values = true)]
    pub names: Vec<AlgorithmArg>,
    /// The same, as an option
    #[arg(short, long, value_name = "NAME", value_delimiter = ',', value_parser = algorithm())]
    pub algorithm: Vec<AlgorithmArg>,
    /// How the algorithm is computed
    #[arg(long, value_name = "TIER", value_delimiter = ',', default_value = "auto")]
    pub tier: Vec<TierArg>,
    /// Instruction sets; by default the best of this machine
    #[arg(long, value_name = "ISA", value_delimiter = ',', value_parser = super::one_of(&Isa::ALL, |isa| isa.name()))]
    pub isa: Vec<Isa>,
    /// Lengths of messages, as in 64,1408,16KiB; rounded down to whole blocks where the algorithm needs that
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = units::size)]
    pub bytes: Vec<u64>,
    /// Numbers of lanes (threads), each with its own batches
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lanes: Vec<u16>,
    /// Messages or operations in a batch; by default 512 messages, beside one alone where the choice of algorithms or a
    /// comparison is at stake, and 1, 8 and 64 public-key operations
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub batch: Vec<u32>,
    /// Number of keys that the messages of a batch use in turn
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub keys: u32,
    /// Time for each side of each line, in seconds; 0.2 by default
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// How thorough: 0.2 or 2 seconds for each side of each line; `paper` takes the mean of ten runs of 30 s, each after 30 s of
    /// warming up, with a 90 % interval, so name what is wanted
    #[arg(long, value_parser = super::profile(), conflicts_with = "seconds")]
    pub profile: Option<Profile>,
    /// Other libraries to compare with
    #[arg(long, value_name = "PEER", value_delimiter = ',', value_parser = peer())]
    pub vs: Vec<Peer>,
    /// Location of messages: the same batch each time (hot), the second-level cache (l2), or memory (out)
    #[arg(long, value_name = "STATE", default_value = "hot", value_parser = super::one_of(&CacheState::ALL, |state| state.name()))]
    pub cache: CacheState,
    /// Also measure a mix of 64, 576 and 1500 bytes as 7 : 4 : 1, with a key for every message
    #[arg(long)]
    pub imix: bool,
    /// Direction of ciphers
    #[arg(long, value_name = "WAY", default_value = "encrypt")]
    pub direction: DirectionArg,
    /// Repeat the papers' tables instead: gains of tiers, instruction mixes, table sizes, parallelism over flows and blocks, caches
    #[arg(long, conflicts_with_all = ["names", "algorithm", "tier", "isa", "bytes", "batch", "keys", "vs", "cache", "imix", "direction", "json"])]
    pub story: bool,
    /// Tables of the story; all by default
    #[arg(long, value_name = "ID", value_delimiter = ',', requires = "story", value_parser = PossibleValuesParser::new(PARTS), ignore_case = true)]
    pub only: Vec<String>,
    /// Print tables of 140 columns, where more of them have room
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

impl SpeedArgs {
    /// Returns the rule for the time that each side of each line is measured.
    pub(crate) fn rule(&self) -> Rule {
        self.profile.map_or_else(|| Rule::Slices { seconds: self.seconds.unwrap_or(0.2) }, Rule::from)
    }
}

/// An algorithm, or all of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmArg {
    /// The whole catalogue of ciphers, digests and AEADs.
    All,
    /// One of these.
    One(Algorithm),
    /// All public-key algorithms.
    PublicKey,
    /// One of these.
    OnePublicKey(Asymmetric),
}

impl AlgorithmArg {
    /// Returns the ciphers, digests and AEADs that it names.
    pub fn algorithms(self) -> Vec<Algorithm> {
        match self {
            Self::All => Algorithm::all().collect(),
            Self::One(algorithm) => vec![algorithm],
            Self::PublicKey | Self::OnePublicKey(_) => Vec::new(),
        }
    }

    /// Returns the public-key algorithms that it names.
    pub fn public_key(self) -> Vec<Asymmetric> {
        match self {
            Self::PublicKey => Asymmetric::ALL.to_vec(),
            Self::OnePublicKey(algorithm) => vec![algorithm],
            Self::All | Self::One(_) => Vec::new(),
        }
    }
}

/// Tiers to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TierArg {
    /// Plain code, close to the definition
    Reference,
    /// Tables and unrolled rounds, without CPU features
    Generic,
    /// Instructions of this CPU, one message at a time
    Native,
    /// Many messages side by side in vector registers
    Batch,
    /// The fastest for a batch of this size
    Auto,
    /// All four tiers
    All,
}

impl TierArg {
    /// Returns the tiers; `None` leaves the choice to the dispatcher.
    pub fn tiers(self) -> Vec<Option<Tier>> {
        match self {
            Self::Reference => vec![Some(Tier::Reference)],
            Self::Generic => vec![Some(Tier::Generic)],
            Self::Native => vec![Some(Tier::Native)],
            Self::Batch => vec![Some(Tier::Batch)],
            Self::Auto => vec![None],
            Self::All => Tier::ALL.into_iter().map(Some).collect(),
        }
    }
}

/// Ways to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// Encrypt plaintext
    #[value(alias = "seal")]
    Encrypt,
    /// Decrypt ciphertext
    #[value(alias = "open")]
    Decrypt,
    /// Both, one after the other
    Both,
}

impl DirectionArg {
    /// Returns the directions in the order in which they are measured.
    pub fn directions(self) -> Vec<Direction> {
        match self {
            Self::Encrypt => vec![Direction::Encrypt],
            Self::Decrypt => vec![Direction::Decrypt],
            Self::Both => vec![Direction::Encrypt, Direction::Decrypt],
        }
    }
}

/// Accepts the catalogue's names; help lists them, and the error for a near miss suggests the name.
fn algorithm() -> impl TypedValueParser<Value = AlgorithmArg> {
    // Completions keep names for as long as the program runs, so they are created once and kept.
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let names = Algorithm::all().map(|algorithm| algorithm.to_string());
        let names = ["all".to_owned()].into_iter().chain(names).map(|name| &*name.leak());
        names.chain(["public-key"]).chain(Asymmetric::ALL.map(Asymmetric::name)).collect()
    });
    PossibleValuesParser::new(NAMES.iter().copied()).map(|name| match (name.parse(), name.parse()) {
        (Ok(algorithm), _) => AlgorithmArg::One(algorithm),
        (_, Ok(algorithm)) => AlgorithmArg::OnePublicKey(algorithm),
        _ if name == "all" => AlgorithmArg::All,
        _ => AlgorithmArg::PublicKey,
    })
}

/// Accepts the names of other libraries, and `aws-lc` for the library behind aws-lc-rs.
fn peer() -> impl TypedValueParser<Value = Peer> {
    let value = |peer: &Peer| {
        let value = PossibleValue::new(peer.name());
        if *peer == Peer::AwsLc { value.alias("aws-lc") } else { value }
    };
    PossibleValuesParser::new(Peer::ALL.iter().map(value)).map(|word| {
        // The other word that clap accepts is the alias.
        Peer::ALL.into_iter().find(|peer| peer.name() == word).unwrap_or(Peer::AwsLc)
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number of seconds such as 0.5".to_owned())?;
    if (0.001..=3600.0).contains(&value) {
        Ok(value)
    } else {
        Err("expected 0.001 to 3600 seconds".to_owned())
    }
}
