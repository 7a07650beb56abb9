//! `sealane lab tunnel`: what IPsec costs through our gateways.

use super::network_processor::print;
use super::prepare_page;
use super::stacks::line;
use crate::args::LabTunnelArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::speed::write_page;
use sealane_lab::LabError;
use sealane_lab::report::outcomes_text;
use sealane_lab::tunnel::{self, Options, Topology};
use std::env;
use std::io;
use std::sync::Arc;
use std::time::Instant;

fn failed(error: LabError) -> Failure {
    Failure::new(ExitStatus::Io, error)
}

/// Runs the study.
pub(super) fn run(arguments: &LabTunnelArgs) -> Result<ExitStatus, Failure> {
    let start = Instant::now();
    prepare_page(arguments.report.as_deref())?;
    let program = arguments.program.clone().map_or_else(env::current_exe, Ok);
    let program = program.map_err(|error| Failure::new(ExitStatus::Io, error))?;
    let topologies = match &arguments.topology[..] {
        [] => Topology::ALL.to_vec(),
        some => some.to_vec(),
    };
    let tests = arguments.only.clone();
    let options = Options {
        surroundings: Arc::new(super::surroundings()),
        program,
        topologies,
        tests,
        peers: arguments.between.clone(),
        rounds: arguments.rounds,
        seconds: arguments.seconds,
    };
    let study = tunnel::run(&options, &mut io::stderr()).map_err(failed)?;
    let mut report = tunnel::report(&study);
    if arguments.json {
        study.runs.iter().try_for_each(line)?;
    } else {
        print(&outcomes_text(&report, super::columns()))?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    write_page(&report, arguments.report.as_deref())?;
    Ok(ExitStatus::Success)
}

#[cfg(test)]
mod tests {
    /// Crates of the lab know no tunnel, and the headline is of the suite that most users have.
    #[test]
    fn the_headline_is_of_the_default_suite() {
        assert_eq!(super::tunnel::DEFAULT_SUITE, sealane_tunnel::site::SUITE_DEFAULT);
    }
}
