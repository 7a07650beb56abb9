//! `sealane lab list` and `sealane lab run`: the papers' studies by their ids.

use super::network_processor::print;
use super::stacks::line;
use crate::args::{Cli, Command, ListArgs, RunArgs};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::{speed, text};
use clap::Parser as _;
use sealane_lab::report::outcome_text;
use sealane_lab::studies::{self, STUDIES, commands};
use std::fs;
use std::path::Path;

/// Prints every study.
pub(super) fn list(arguments: &ListArgs) -> Result<ExitStatus, Failure> {
    if arguments.json {
        STUDIES.iter().try_for_each(line)?;
    } else {
        print(&(outcome_text(&studies::table(), super::columns()) + "\n"))?;
    }
    Ok(ExitStatus::Success)
}

/// Runs what was named, each command once. The worst of their statuses is the one that is passed on.
pub(super) fn run(arguments: &RunArgs) -> Result<ExitStatus, Failure> {
    let commands = commands(&arguments.ids);
    if let Some(directory) = &arguments.report {
        fs::create_dir_all(directory).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    }
    let mut worst = ExitStatus::Success;
    for (index, mut words) in commands.iter().cloned().enumerate() {
        options(&mut words, arguments);
        text::complain(format_args!("{} of {}: sealane {}", index + 1, commands.len(), words.join(" ")));
        let parsed = Cli::try_parse_from(["sealane".to_owned()].into_iter().chain(words));
        let cli = parsed.map_err(|error| Failure::new(ExitStatus::Usage, error))?;
        let status = match cli.command {
            Command::Lab(lab) => super::run(lab.command)?,
            Command::Speed(arguments) => speed::run(&arguments)?,
            other => unreachable!("no study is run by {other:?}"),
        };
        if status != ExitStatus::Success {
            worst = status;
        }
    }
    Ok(worst)
}

/// Adds what the user asked of all studies, as far as this one takes it.
fn options(words: &mut Vec<String>, arguments: &RunArgs) {
    let is = |words: &[String], name: &str| words.iter().any(|word| word == name);
    let transfer = is(words, "transfer");
    if transfer || is(words, "stacks") || is(words, "speed") {
        words.extend(["--profile".to_owned(), arguments.profile.name().to_owned()]);
    }
    if arguments.json {
        words.push("--json".to_owned());
    }
    match &arguments.report {
        // It names its files itself.
        Some(directory) if transfer => {
            words.extend(["--report".to_owned(), directory.display().to_string()]);
        }
        Some(directory) => {
            let own = words.iter().take_while(|word| !["--only", "--profile", "--json"].contains(&&***word));
            let name: Vec<&str> =
                own.map(|word| word.trim_start_matches("--")).filter(|word| *word != "lab").collect();
            let file = format!("sealane-{}.html", name.join("-"));
            words.extend(["--report".to_owned(), Path::new(directory).join(file).display().to_string()]);
        }
        None if transfer => words.push("--no-report".to_owned()),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_lab::experiment::Profile;

    /// A study that names a command which is not there could never be run.
    #[test]
    fn every_study_has_a_command_that_parses() {
        for study in STUDIES {
            for report in [None, Some("reports".into())] {
                let mut words = commands(&[study.id]).remove(0);
                let json = !words.contains(&"--story".to_owned());
                let ids = vec![study.id.to_owned()];
                options(&mut words, &RunArgs { ids, profile: Profile::Full, json, report });
                let parsed = Cli::try_parse_from(["sealane".to_owned()].into_iter().chain(words));
                assert!(parsed.is_ok(), "{}: {}", study.id, parsed.unwrap_err());
            }
        }
    }
}
