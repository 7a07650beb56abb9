//! Completions and manual pages of the laboratory.

use crate::args::{command, examples::EXAMPLES};
use clap_complete::Shell;
use sealane_terminal::documents;
use sealane_terminal::exit::ExitStatus;
use sealane_terminal::failure::{Failure, print};
use sealane_terminal::laboratory::LABORATORY;
use std::io;
use std::path::Path;

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let script = documents::completions(shell, command(), LABORATORY)
        .map_err(|error| Failure::new(ExitStatus::Io, error))?;
    // The generator for bash takes the hyphen of the program's name for one between commands in one of two places.
    let script = script.replace("sealane__subcmd__lab", "sealane__lab");
    print(&script)
}

/// Writes one page for each command into `directory`.
pub(crate) fn man(directory: &Path) -> Result<(), Failure> {
    documents::write(directory, pages()).map_err(|error| Failure::new(ExitStatus::Io, error))
}

fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    documents::pages(LABORATORY, command(), EXAMPLES, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_terminal::help::examples_of;

    #[test]
    fn every_command_has_a_page_with_an_example_that_parses() {
        let pages = pages().expect("rendering into memory succeeds");
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.trim_end_matches(".1")).collect();
        for name in ["sealane-lab", "sealane-lab-quick", "sealane-lab-speed", "sealane-lab-fleet-run"] {
            assert!(names.contains(&name), "{name} is missing among {names:?}");
        }
        for name in names {
            let examples = examples_of(EXAMPLES, name);
            assert!(!examples.is_empty(), "{name} has no example");
            for (example, _) in examples {
                let line = example.split_once(" > ").map_or(*example, |(line, _)| line).replace('\'', "");
                // `sealane lab …` and `sealane speed …` start this program.
                let words =
                    line.strip_prefix("sealane lab").or_else(|| line.strip_prefix("sealane")).expect("ours");
                let words = [LABORATORY].into_iter().chain(words.split_whitespace());
                let found = command().try_get_matches_from(words);
                assert!(found.is_ok(), "{example}: {}", found.expect_err("it fails"));
            }
        }
    }
}
