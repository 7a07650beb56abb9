//! `sealane lab`: studies of the lab, with progress on standard error and results on standard output.

use crate::args::{
    ALL_STUDIES, CardsArgs, FamilyCommand, LabCommand, LabFleetArgs, LabFleetCommand, LabShared, LabShown,
    LabTunnelArgs, MacroArgs, NullTunnelArgs, QuickArgs, RunArgs, SiteArgs, StacksArgs, TransferArgs,
};
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use crate::signals::Interrupts;
use crate::{study, text};
use sealane_lab::LabError;
use sealane_lab::report::number::duration;
use sealane_lab::report::{Files, Report, outcome_text};
use sealane_lab::request::{Copies, Hosts, Request};
use sealane_lab::rng::Rng;
use sealane_lab::studies::{self, Family, Planned};
use sealane_lab::times::Times;
use sealane_lab::tunnel::{Topology, run_null};
use sealane_lab::{site, stacks, transfer};
use sealane_peer::chain;
use sealane_terminal::environment;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::Instant;

mod gateway;
mod link;
mod network_processor;
pub(crate) mod output;

use output::{Output, columns, failed, prepare_page, show, surroundings};

/// Runs one command.
pub(crate) fn run(command: LabCommand) -> Result<ExitStatus, Failure> {
    let _interrupts = measures(&command).then(end_on_signal).transpose()?;
    match command {
        LabCommand::Quick(QuickArgs { tree, limit, shared }) => {
            let copies = Copies { tree, limit, ..copies(&shared) };
            let request = Request { copies, ..request_of_copies(&shared) };
            conduct(Family::of("lab quick").run, &request, &files(&shared, "sealane-report", false)?)
        }
        LabCommand::Predict(arguments) => {
            let (stack, lanes) = (arguments.stack.to_string(), arguments.lanes.map(usize::from));
            let predict = |request: &Request, progress: &mut dyn Write| {
                stacks::predict(&stack, lanes, request, progress)
            };
            conduct(predict, &request(None), &shown(&arguments.shown)?)
        }
        LabCommand::NullTunnel(NullTunnelArgs { device, own, peer }) => {
            match run_null(&device, own, peer).map_err(|error| Failure::new(ExitStatus::Io, error))? {}
        }
        LabCommand::Gateway(arguments) => gateway::run(&arguments),
        LabCommand::KeepHost => gateway::keep_host(),
        LabCommand::Link(arguments) => link::run(&arguments),
        LabCommand::Capture(arguments) => {
            stacks::capture(&arguments.stack, &arguments.file).map_err(failed)?;
            Ok(ExitStatus::Success)
        }
        LabCommand::List(arguments) => {
            let text = if arguments.json {
                let lines = times().listed().into_iter().map(|study| serde_json::to_string(&study));
                let lines: Vec<String> =
                    lines.collect::<Result<_, _>>().map_err(|error| Failure::new(ExitStatus::Io, error))?;
                lines.join("\n")
            } else {
                [studies::table(times().listed()), studies::absent_table(), studies::left_out_table()]
                    .map(|table| outcome_text(&table, columns()))
                    .join("\n")
            };
            print(&(text + "\n"))?;
            Ok(ExitStatus::Success)
        }
        LabCommand::Run(RunArgs { family: Some(family), .. }) | LabCommand::Family(family) => {
            run_family(family)
        }
        LabCommand::Run(arguments) => run_studies(&arguments),
        LabCommand::Fleet(LabFleetArgs { command: LabFleetCommand::Run(arguments) }) => {
            study::run(&arguments)
        }
        LabCommand::Fleet(LabFleetArgs { command: LabFleetCommand::Work(arguments) }) => {
            study::work(arguments)
        }
        LabCommand::Site(arguments) => build_site(&arguments),
    }
}

/// Runs one family of studies by its own options.
fn run_family(family: FamilyCommand) -> Result<ExitStatus, Failure> {
    let (command, request, output) = match family {
        FamilyCommand::Transfer(TransferArgs { profile, ends, only, lanes, behind_link, shared }) => {
            let copies = Copies { ends, ..copies(&shared) };
            let lanes = counts(&lanes);
            let request = Request { profile, only, lanes, copies, ..request_of_copies(&shared) };
            // Behind a link the lab that made the link writes the report.
            let output = files(&shared, "sealane-transfer", behind_link)?;
            if behind_link {
                return conduct(transfer::behind, &request, &output);
            }
            ("lab transfer", request, output)
        }
        FamilyCommand::Stacks(StacksArgs { profile, only, lanes, engine, seed, shown: asked }) => {
            let lanes = counts(&lanes);
            ("lab stacks", Request { profile, only, engine, lanes, ..request(seed) }, shown(&asked)?)
        }
        FamilyCommand::Tunnel(arguments) => {
            let LabTunnelArgs { only, profile, program, seconds, congestion_control, .. } = arguments;
            let hosts = hosts(arguments.topology, arguments.between, arguments.rounds);
            let hosts = Hosts { seconds, congestion_control, ..hosts };
            (
                "lab tunnel",
                Request { only, profile, program, hosts, ..request(None) },
                shown(&arguments.shown)?,
            )
        }
        FamilyCommand::Macro(arguments) => {
            let MacroArgs { only, profile, program, tree, build, .. } = arguments;
            let hosts = hosts(arguments.topology, arguments.between, arguments.rounds);
            let hosts = Hosts { tree, build: Some(build), ..hosts };
            (
                "lab macro",
                Request { only, profile, program, hosts, ..request(None) },
                shown(&arguments.shown)?,
            )
        }
        FamilyCommand::Cards(CardsArgs { profile, only, shown: asked }) => {
            ("lab cards", Request { profile, only, ..request(None) }, shown(&asked)?)
        }
        FamilyCommand::NetworkProcessor(arguments) => return network_processor::run(&arguments),
    };
    conduct(Family::of(command).run, &request, &output)
}

fn counts(lanes: &[u16]) -> Vec<usize> {
    lanes.iter().copied().map(usize::from).collect()
}

/// Returns whether a command measures, and so starts processes and leaves files until its end.
fn measures(command: &LabCommand) -> bool {
    match command {
        LabCommand::Quick(_) | LabCommand::Predict(_) | LabCommand::Family(_) | LabCommand::Run(_) => true,
        // A link becomes its command, a tunnel is a daemon, and a fleet has an end of its own.
        LabCommand::Link(_)
        | LabCommand::NullTunnel(_)
        | LabCommand::Gateway(_)
        | LabCommand::KeepHost
        | LabCommand::Fleet(_)
        | LabCommand::Capture(_)
        | LabCommand::List(_)
        | LabCommand::Site(_) => false,
    }
}

/// Makes a signal end the processes of the lab, remove what the lab would leave on its host, and end the program.
fn end_on_signal() -> Result<Interrupts, Failure> {
    let end = |signal| {
        sealane_lab::stop_everything();
        process::exit(ExitStatus::Interrupted { signal }.code().into())
    };
    Interrupts::listen(end).map_err(|error| Failure::new(ExitStatus::Io, error))
}

/// Builds the site, and says which studies it has no result for.
fn build_site(arguments: &SiteArgs) -> Result<ExitStatus, Failure> {
    let SiteArgs { directory, from, add } = arguments;
    let built = site::build(from, add, directory, &times()).map_err(failed)?;
    for skipped in &built.skipped {
        text::complain(format_args!("skipped: {skipped}"));
    }
    if !built.missing.is_empty() {
        let missing = built.missing.join(" ");
        text::complain(format_args!("no result yet: `sealane lab run {missing}` measures them"));
    }
    print(&format!("{}: {} studies with results\n", built.index.display(), built.measured))?;
    Ok(ExitStatus::Success)
}

/// Runs the named studies, those of one command together. Returns the worst of their statuses.
///
/// A run that fails ends the command, unless all studies are asked for: then it is named, and the others are run.
fn run_studies(arguments: &RunArgs) -> Result<ExitStatus, Failure> {
    let is_all = arguments.ids.iter().any(|id| id.eq_ignore_ascii_case(ALL_STUDIES));
    let lanes = counts(&arguments.lanes);
    let topologies =
        if arguments.topology.is_empty() { Topology::ALL.to_vec() } else { arguments.topology.clone() };
    let asked = Request {
        profile: arguments.profile,
        lanes,
        hosts: Hosts { topologies, ..Hosts::default() },
        ..request(None)
    };
    let runs = if is_all { studies::everything(&asked) } else { studies::runs(&arguments.ids, &asked) };
    let usual = is_all.then(|| PathBuf::from(site::RESULTS));
    let directory = arguments.report.clone().or(usual);
    if let Some(directory) = &directory {
        fs::create_dir_all(directory).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    }
    let mut worst = ExitStatus::Success;
    let mut times = times();
    let mut left = TimeLeft::new(&runs, &times);
    for (index, run) in runs.iter().enumerate() {
        let Planned { family, request, .. } = run;
        let only = if request.only.is_empty() {
            String::new()
        } else {
            format!(" --only {}", request.only.join(","))
        };
        let words = left.words();
        text::complain(format_args!(
            "{} of {}: sealane {}{only}{words}",
            index + 1,
            runs.len(),
            family.words()
        ));
        let files = |directory: &PathBuf| Files::prepare(directory, &run.name);
        let files = directory.as_ref().map(files).transpose().map_err(failed)?;
        let claim = arguments.claim.clone();
        let output = Output { is_json: arguments.json, is_brief: true, claim, page: None, files };
        let began = Instant::now();
        let status = match conduct(family.run, request, &output) {
            Err(Failure::Failed { status, error }) if is_all => {
                text::complain(format_args!("sealane {}: {}", family.words(), chain(error.as_ref())));
                status
            }
            // The reports of the other runs are wanted although nobody reads the tables any more.
            Err(Failure::BrokenPipe) if directory.is_some() => ExitStatus::Success,
            status => status?,
        };
        if status != ExitStatus::Success {
            worst = status;
        }
        if status == ExitStatus::Success {
            times.note(run, began.elapsed().as_secs_f64());
        }
        left.done();
    }
    remember(&times);
    if let Some(directory) = &directory {
        let directory = directory.display();
        text::complain(format_args!("`sealane lab site DIR --from {directory}` makes a site of the results"));
    }
    Ok(worst)
}

/// The file with the times of studies on this machine, which may be removed at any time.
const TIMES: &str = "lab-times.json";

/// Returns the times of studies on this machine.
fn times() -> Times {
    environment::state_dir().map_or_else(Times::default, |folder| Times::read(&folder.join(TIMES)))
}

/// Keeps the times of studies, unless the user has no home. Where that fails the next list has estimates, which is no failure
/// of the studies.
fn remember(times: &Times) {
    if let Some(Err(error)) = environment::state_dir().map(|folder| times.write(&folder.join(TIMES))) {
        text::complain(format_args!("the times of these studies are not kept: {error}"));
    }
}

/// The time that a list of runs takes: as they took it here or are estimated, corrected by the runs that are over.
struct TimeLeft {
    began: Instant,
    /// Seconds of the runs that are over, and of each of the others, the last one first.
    done: f64,
    left: Vec<f64>,
    /// Whether these seconds are those of this profile.
    is_known: bool,
}

impl TimeLeft {
    fn new(runs: &[Planned], times: &Times) -> Self {
        let (left, is_known): (Vec<f64>, Vec<bool>) = runs.iter().rev().map(|run| times.of(run)).unzip();
        Self { began: Instant::now(), done: 0.0, left, is_known: is_known.into_iter().all(|known| known) }
    }

    fn done(&mut self) {
        self.done += self.left.pop().unwrap_or(0.0);
    }

    /// Returns the time left in words; empty if nothing is known yet.
    fn words(&self) -> String {
        let pace = match self.done > 0.0 {
            true => self.began.elapsed().as_secs_f64() / self.done,
            false if self.is_known => 1.0,
            false => return String::new(),
        };
        format!(", about {} left", duration(pace * self.left.iter().sum::<f64>()))
    }
}

/// Returns an output with one page, after a check that it can be written.
fn shown(arguments: &LabShown) -> Result<Output, Failure> {
    prepare_page(arguments.report.as_deref())?;
    let page = arguments.report.clone();
    Ok(Output { is_json: arguments.json, is_brief: true, claim: None, page, files: None })
}

/// Returns an output with a page and its data, after a check that they can be written, unless `none` is set.
fn files(shared: &LabShared, name: &str, none: bool) -> Result<Output, Failure> {
    let files = (!shared.no_report && !none)
        .then(|| Files::prepare(&shared.report, name))
        .transpose()
        .map_err(failed)?;
    Ok(Output { is_json: shared.json, is_brief: false, claim: None, page: None, files })
}

/// Runs a study, writes its report, and prints what it found. A check with findings has a status of its own, because
/// the report was made.
fn conduct(
    run: impl Fn(&Request, &mut dyn Write) -> Result<Report, LabError>,
    request: &Request,
    output: &Output,
) -> Result<ExitStatus, Failure> {
    let began = Instant::now();
    let mut report = run(request, &mut io::stderr()).map_err(failed)?;
    report.seconds = began.elapsed().as_secs_f64();
    show(&report, output)
}

/// Returns the settings that every study gets.
fn request(seed: Option<u64>) -> Request {
    let surroundings = Arc::new(surroundings());
    Request { surroundings, seed: seed.unwrap_or_else(Rng::fresh_seed), ..Request::default() }
}

fn request_of_copies(shared: &LabShared) -> Request {
    Request { program: shared.program.clone(), copies: copies(shared), ..request(shared.seed) }
}

fn copies(shared: &LabShared) -> Copies {
    Copies {
        peers: !shared.no_peers,
        file_bytes_max: shared.size,
        work_directory: shared.work_directory.clone(),
        ..Copies::default()
    }
}

/// Returns the settings of a study between hosts: their topologies and the names of connections, all if none is given,
/// and the number of rounds if it is not the profile's.
fn hosts(topologies: Vec<Topology>, between: Vec<String>, rounds: Option<u32>) -> Hosts {
    let topologies = if topologies.is_empty() { Topology::ALL.to_vec() } else { topologies };
    Hosts { topologies, between, rounds: rounds.map(|rounds| rounds as usize), ..Hosts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser as _;

    /// A study that names a missing command could never be run by hand.
    #[test]
    fn every_study_has_a_command_that_parses() {
        for study in studies::listed() {
            let command = study.command.strip_prefix("lab ").unwrap_or(&study.command);
            let words = ["sealane-lab"].into_iter().chain(command.split(' '));
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{}: {}", study.id, parsed.unwrap_err());
        }
    }

    /// The lab's crates do not know the tunnel, and the headline is about the suite that most users have.
    #[test]
    fn the_headline_is_of_the_default_suite() {
        assert_eq!(sealane_lab::tunnel::DEFAULT_SUITE, sealane_tunnel::site::SUITE_DEFAULT);
    }
}
