//! `sealane lab network-processor`: the study of ciphers on processors without caches, or one machine's figures.

use super::{conduct, request, shown};
use crate::args::{NetworkProcessorArgs, ParallelismArg};
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use anyhow::anyhow;
use sealane_lab::network_processor::report;
use sealane_lab::request::Request;
use sealane_lab::studies::Family;
use sealane_simulator::study::{self, Bench};
use sealane_simulator::{
    BUILT_IN, MACHINE_FILE_BYTES_MAX, Machine, Optimisation, Parallelism, TEN, TracedKernel,
};
use std::fs::File;
use std::io::{Read as _, Write};

/// Runs the study, or one machine.
pub(super) fn run(arguments: &NetworkProcessorArgs) -> Result<ExitStatus, Failure> {
    let output = shown(&arguments.shown)?;
    let Some(name) = &arguments.machine else {
        let option = if arguments.compilers { " --compilers" } else { "" };
        let family = Family::of(&format!("lab network-processor{option}"));
        return conduct(family.run, &request(None), &output);
    };
    let machine = machine(name)?;
    if arguments.print_machine {
        print(&machine.to_toml())?;
        return Ok(ExitStatus::Success);
    }
    let figure = one(arguments, machine)?;
    let told = |_: &Request, _: &mut dyn Write| Ok(report(std::slice::from_ref(&figure)));
    conduct(told, &request(None), &output)
}

/// Returns a built-in machine, or the machine that a file describes.
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
    // One byte more than the maximum is read, to detect a file that is too long.
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
            TracedKernel::new(name).ok_or_else(|| usage(format!("{name} is not one of {}", TEN.join(", "))))
        };
        arguments.algorithm.iter().map(work).collect::<Result<_, _>>()?
    };
    let parallelism = match arguments.parallelism {
        ParallelismArg::Flow => Parallelism::Flow,
        ParallelismArg::Block => Parallelism::Block,
    };
    let level = Optimisation::ALL[usize::from(arguments.level)];
    let mut bench = Bench::new(vec![machine], &works);
    Ok(study::one(&mut bench, level, arguments.engines, arguments.threads, parallelism))
}
