//! Completions and manual pages, generated from the definitions of the arguments.

use crate::args::{command, examples::EXAMPLES, tells_exit_statuses};
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use anyhow::Context as _;
use clap_complete::Shell;
use sealane_terminal::documents;
use std::io;
use std::path::Path;

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let script = script(shell).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    print(&script)
}

/// Returns the completions for `shell`; bash and zsh complete paths at far ends too, as they do for scp.
fn script(shell: Shell) -> anyhow::Result<String> {
    let text = documents::completions(shell, command(), "sealane")?;
    Ok(match shell {
        Shell::Bash => format!("{text}\n{}", include_str!("documents/far_paths.bash")),
        Shell::Zsh => {
            // The generated function completes all but far paths, under another name.
            let whole = "\n_sealane() {\n";
            anyhow::ensure!(
                text.matches(whole).count() == 1,
                "zsh's completions have another form than expected"
            );
            let here = text.replacen(whole, "\n_sealane_here() {\n", 1);
            let (definitions, start) = here.split_once("\nif [ \"$funcstack[1]\"").context("no start")?;
            format!(
                "{definitions}\n{}\nif [ \"$funcstack[1]\"{start}",
                include_str!("documents/far_paths.zsh")
            )
        }
        _ => text,
    })
}

/// Writes `sealane.1` and one page for each command into `directory`.
pub(crate) fn man(directory: &Path) -> Result<(), Failure> {
    documents::write(directory, pages()).map_err(|error| Failure::new(ExitStatus::Io, error))
}

/// Returns the file name and the text of every page.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = documents::pages("sealane", command(), EXAMPLES, tells_exit_statuses)?;
    // The laboratory has a page of this name for itself.
    pages.retain(|(name, _)| name != "sealane-lab.1");
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_terminal::help::examples_of;

    #[test]
    fn every_command_has_a_page() {
        let pages = pages().expect("rendering into memory succeeds");
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "sealane.1",
            #[cfg(feature = "copy")]
            "sealane-cp.1",
            #[cfg(feature = "copy")]
            "sealane-serve.1",
            #[cfg(feature = "tunnel")]
            "sealane-tunnel-up.1",
            #[cfg(feature = "engine")]
            "sealane-engine-serve.1",
            "sealane-id.1",
            "sealane-speed.1",
            "sealane-md5.1",
            "sealane-sha1.1",
            "sealane-sha256.1",
            "sealane-sha512.1",
            "sealane-sha3-256.1",
            "sealane-kt128.1",
            "sealane-blake3.1",
        ] {
            assert!(names.contains(&name), "{name} is missing among {names:?}");
        }
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page);
            let examples = page.split_once(".SH EXAMPLES\n").map(|(_, examples)| examples);
            assert!(examples.is_some_and(|examples| examples.starts_with(".TP\n")), "{name} has no example");
        }
    }

    #[cfg(feature = "copy")]
    #[test]
    fn the_page_of_cp_has_its_exit_statuses_once_and_nothing_hidden() {
        let pages = pages().expect("rendering into memory succeeds");
        let (_, cp) = pages.into_iter().find(|(name, _)| name == "sealane-cp.1").expect("the page");
        let cp = String::from_utf8(cp).expect("pages are UTF-8");
        for text in [".SH \"EXIT STATUS\"", "\\fB130\\fR", "through\\-ssh", "limit\\-rate"] {
            assert!(cp.contains(text), "{text} is missing in the page of cp");
        }
        assert!(!cp.contains(".SH EXTRA"), "the exit statuses are in the page of cp twice");
        assert!(!cp.contains("\\-\\-end "), "a hidden option is in the page of cp");
    }

    #[test]
    fn every_example_is_a_command() {
        for name in pages().expect("rendering into memory succeeds").iter().map(|(name, _)| name) {
            for (example, _) in examples_of(EXAMPLES, name.trim_end_matches(".1")) {
                let line = example.split_once("| ").map_or(*example, |(_, line)| line);
                let line = line.split_once(" > ").map_or(line, |(line, _)| line).replace('\'', "");
                let found = command().try_get_matches_from(line.split(' '));
                assert!(found.is_ok(), "{example}: {}", found.expect_err("it fails"));
            }
        }
    }

    #[test]
    fn every_shell_has_completions() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell).expect("completions are made");
            let completes_far = matches!(shell, Shell::Bash | Shell::Zsh);
            assert_eq!(script.contains("_sealane_far"), completes_far, "{shell}");
            assert!(script.contains("ignore-missing"), "{shell} knows no --ignore-missing");
        }
    }

    #[cfg(feature = "copy")]
    #[test]
    fn completions_of_cp_have_its_flags_and_their_values() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell).expect("completions are made");
            assert!(script.contains("through-ssh"), "{shell} knows no --through-ssh");
            // Elvish and PowerShell complete no values.
            let has_values = matches!(shell, Shell::Bash | Shell::Zsh | Shell::Fish);
            for value in ["authenticated", "chacha20-poly1305"] {
                assert_eq!(script.contains(value), has_values, "{shell}: {value}");
            }
        }
    }
}
