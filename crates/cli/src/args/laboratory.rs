//! Arguments that this program hands to the laboratory unread.

use clap::Args;
use std::ffi::OsString;

pub(super) const LAB_ABOUT: &str = "\
Measure what security costs on this machine.

The laboratory is a program of its own, `sealane-lab`, which measures this one. `sealane lab --help` lists its commands.";

pub(super) const SPEED_ABOUT: &str = "\
Show the rates of the unbroken algorithms on this machine, one core, in a second.

With arguments the laboratory, `sealane-lab`, measures whatever they name: every algorithm of the catalogue, in four tiers, by \
message length, lanes and batch size, beside other libraries. `sealane speed --help` lists them.";

/// Words for the laboratory.
#[derive(Debug, Args)]
pub struct LaboratoryArgs {
    /// Arguments of the laboratory
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}
