//! Arguments of the time trial, which `sealane md5 -t` starts.

use crate::units;
use clap::Args;

/// Arguments of `sealane md5 -t`.
#[derive(Debug, Args)]
pub struct TrialArgs {
    /// The trial; it is the only thing that this command does
    #[arg(short = 't', long, required = true)]
    pub time_trial: bool,
    /// Number of blocks
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    /// Length of a block
    #[arg(short, long, value_name = "SIZE", value_parser = units::size)]
    pub length: Option<u64>,
    /// Do not initialise the block, so that its first access is part of the trial
    #[arg(short, long)]
    pub skip_initialisation: bool,
    /// Use pseudo-random bytes instead of 0, 1, 2, …
    #[arg(short, long)]
    pub random: bool,
    /// Use more copies of the block than the caches hold
    #[arg(short, long)]
    pub double_buffer: bool,
}
