//! `sealane lab stacks` and `sealane lab predict`: protocol stacks on several lanes, and what more would gain.

use super::network_processor::print;
use super::prepare_page;
use crate::args::{CaptureArgs, PredictArgs, StacksArgs};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::speed::write_page;
use sealane_lab::LabError;
use sealane_lab::report::{Report, outcomes_text};
use sealane_lab::stacks::{self, Options};
use serde::Serialize;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

fn failed(error: LabError) -> Failure {
    let status = match &error {
        LabError::Stack(_) => ExitStatus::Usage,
        _ => ExitStatus::Io,
    };
    Failure::new(status, error)
}

/// Runs the study.
pub(super) fn run(arguments: &StacksArgs) -> Result<ExitStatus, Failure> {
    let start = Instant::now();
    prepare_page(arguments.report.as_deref())?;
    let StacksArgs { only, profile, engine, seed, .. } = arguments;
    let options = Options { only: only.clone(), profile: *profile, engine: engine.clone(), seed: *seed };
    let study = stacks::run(&options, &mut io::stderr()).map_err(failed)?;
    let report = stacks::report(&study);
    if arguments.json {
        study.cells.iter().try_for_each(line)?;
        study.pairs.iter().try_for_each(line)?;
        study.predictions.iter().try_for_each(line)?;
        study.passes.iter().try_for_each(line)?;
        stacks::sentences(&study).iter().try_for_each(line)?;
    } else {
        print(&outcomes_text(&report, super::columns()))?;
    }
    let report = Report { profile: Some(arguments.profile), ..report };
    page(report, arguments.report.as_deref(), start)
}

/// Writes one stack's packets to a file.
pub(super) fn capture(arguments: &CaptureArgs) -> Result<ExitStatus, Failure> {
    stacks::capture(&arguments.stack, &arguments.file).map_err(failed)?;
    Ok(ExitStatus::Success)
}

/// Predicts one stack's curve.
pub(super) fn predict(arguments: &PredictArgs) -> Result<ExitStatus, Failure> {
    let start = Instant::now();
    prepare_page(arguments.report.as_deref())?;
    let predictions =
        stacks::predict(&arguments.stack.to_string(), arguments.lanes.into()).map_err(failed)?;
    let report = stacks::predicted(&predictions);
    if arguments.json {
        predictions.iter().try_for_each(line)?;
    } else {
        print(&outcomes_text(&report, super::columns()))?;
    }
    page(report, arguments.report.as_deref(), start)
}

/// One object a line.
pub(super) fn line(object: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(object).map_err(|error| Failure::new(ExitStatus::Io, error))? + "\n";
    io::stdout().write_all(text.as_bytes()).map_err(Failure::output)
}

fn page(report: Report, path: Option<&Path>, start: Instant) -> Result<ExitStatus, Failure> {
    write_page(&Report { seconds: start.elapsed().as_secs_f64(), ..report }, path)?;
    Ok(ExitStatus::Success)
}
