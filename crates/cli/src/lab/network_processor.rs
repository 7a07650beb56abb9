//! `sealane lab network-processor`: the study of ciphers on processors without caches, or one machine's figures.

use super::prepare_page;
use super::surroundings;
use crate::args::{NetworkProcessorArgs, ParallelismArg};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::speed::write_page;
use crate::text;
use anyhow::anyhow;
use sealane_lab::network_processor::{compare, compilers_report, report, study_report};
use sealane_lab::report::outcomes_text;
use sealane_simulator::study::{self, Bench};
use sealane_simulator::{BUILT_IN, Level, MACHINE_FILE_BYTES_MAX, Machine, Parallelism, TEN, Work};
use serde::Serialize;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::time::Instant;

/// Runs the study, or one machine.
pub(super) fn run(arguments: &NetworkProcessorArgs) -> Result<ExitStatus, Failure> {
    let start = Instant::now();
    prepare_page(arguments.report.as_deref())?;
    let (json, mut report) = match &arguments.machine {
        None if arguments.compilers => {
            let shows_progress = io::stderr().is_terminal();
            let found = compare(&surroundings(), |what| {
                if shows_progress {
                    text::say(&format!("compilers: {what}"));
                }
            });
            let found = found.map_err(super::failed)?;
            (json(&found)?, compilers_report(&found))
        }
        Some(name) => {
            let machine = machine(name)?;
            if arguments.print_machine {
                print(&machine.to_toml())?;
                return Ok(ExitStatus::Success);
            }
            let figure = one(arguments, machine)?;
            (json(&figure)?, report(std::slice::from_ref(&figure)))
        }
        None => {
            let shows_progress = io::stderr().is_terminal();
            let study = study::run(|done, total| {
                if shows_progress {
                    text::say(&format!("{done} of {total} sets of guesses"));
                }
            });
            (json(&study)?, study_report(&study))
        }
    };
    if arguments.json {
        print(&json)?;
    } else {
        print(&outcomes_text(&report, super::columns()))?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    write_page(&report, arguments.report.as_deref())?;
    Ok(ExitStatus::Success)
}

/// A built-in machine, or what a file describes.
fn machine(name: &str) -> Result<Machine, Failure> {
    if let Some(machine) = Machine::built_in(name) {
        return Ok(machine);
    }
    let usage = |message: String| Failure::new(ExitStatus::Usage, anyhow!(message));
    let file = File::open(name).map_err(|error| {
        let names = BUILT_IN.map(|(name, _)| name).join(", ");
        usage(format!("{name} is neither a built-in machine ({names}) nor a file that can be read: {error}"))
    })?;
    let mut text = String::new();
    // One byte more than is taken, so that too much is noticed.
    file.take(MACHINE_FILE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| usage(format!("cannot read {name}: {error}")))?;
    Machine::parse(&text).map_err(|error| usage(format!("{name}: {error}")))
}

fn one(arguments: &NetworkProcessorArgs, machine: Machine) -> Result<study::Figure, Failure> {
    let usage = |message: String| Failure::new(ExitStatus::Usage, anyhow!(message));
    for (what, asked, has) in
        [("engines", arguments.engines, machine.engines), ("threads", arguments.threads, machine.threads)]
    {
        if asked > has {
            return Err(usage(format!("{} has {has} {what}, not {asked}", machine.name)));
        }
    }
    let works = if arguments.algorithm.is_empty() {
        study::works()
    } else {
        let work = |name: &String| {
            Work::new(name).ok_or_else(|| usage(format!("{name} is not one of {}", TEN.join(", "))))
        };
        arguments.algorithm.iter().map(work).collect::<Result<_, _>>()?
    };
    let parallelism = match arguments.parallelism {
        ParallelismArg::Flow => Parallelism::Flow,
        ParallelismArg::Block => Parallelism::Block,
    };
    let level = Level::ALL[usize::from(arguments.level)];
    let mut bench = Bench::new(vec![machine], &works);
    Ok(study::one(&mut bench, level, arguments.engines, arguments.threads, parallelism))
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    Ok(text + "\n")
}

pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)
}
