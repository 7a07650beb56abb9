//! `sealane md5 -t`: the time trial of the ATOMIC-2 project's driver, with a report of that driver's format.

use crate::args::TrialArgs;
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use sealane_lab::speed::trial::{self, TrialOptions};
use sealane_terminal::environment;

/// Runs the trial.
pub(crate) fn run(arguments: &TrialArgs) -> Result<ExitStatus, Failure> {
    let wrong = |error: anyhow::Error| Failure::new(ExitStatus::Usage, error);
    let default = TrialOptions::default();
    let options = TrialOptions {
        count: arguments.count.unwrap_or(default.count),
        length: arguments.length.map_or(Ok(default.length), usize::try_from).unwrap_or(usize::MAX),
        skips_initialisation: arguments.skip_initialisation,
        is_random: arguments.random,
        leaves_cache: arguments.double_buffer,
    };
    let kernels = environment::kernels().map_err(wrong)?;
    let report = trial::run(kernels, &options).map_err(|error| wrong(error.into()))?;
    print(&report.to_string())?;
    Ok(if report.is_right() { ExitStatus::Success } else { ExitStatus::Integrity })
}
