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

/// Returns the completions for `shell`. In bash and zsh the laboratory completes its own words, and paths at far ends are
/// completed as they are for scp.
fn script(shell: Shell) -> anyhow::Result<String> {
    let text = documents::completions(shell, command(), "sealane")?;
    let (laboratory, far_paths) = match shell {
        Shell::Bash => (include_str!("documents/laboratory.bash"), include_str!("documents/far_paths.bash")),
        Shell::Zsh => (include_str!("documents/laboratory.zsh"), include_str!("documents/far_paths.zsh")),
        _ => return Ok(text),
    };
    // `_sealane` asks `_sealane_product`: the generated function, or one that asks it where no far path is completed.
    let (name, far_paths) = match cfg!(feature = "copy") {
        true => ("_sealane_here", far_paths),
        false => ("_sealane_product", ""),
    };
    let (functions, start) = text.rsplit_once("\nif ").context("the completions have no end")?;
    let (head, body) = functions.split_once("_sealane() {\n").context("the completions have no start")?;
    Ok(format!("{head}{name}() {{\n{body}\n{laboratory}\n{far_paths}\nif {start}"))
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
            #[cfg(feature = "serve")]
            "sealane-serve.1",
            #[cfg(feature = "tunnel")]
            "sealane-tunnel-up.1",
            #[cfg(feature = "engine")]
            "sealane-engine-serve.1",
            #[cfg(any(feature = "copy", feature = "tunnel"))]
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

    /// The faces, whether each is built, and words that only the documents of that face have.
    const FACES: [(&str, bool, &[&str]); 6] = [
        (
            "copy",
            cfg!(feature = "copy"),
            &[
                "sealane cp",
                "sealane peers",
                "_sealane_far",
                "ssh",
                "rsync",
                "--recursive",
                "during the copy",
            ],
        ),
        ("serve", cfg!(feature = "serve"), &["sealane authorise", "--listen", "--authorised-peers"]),
        ("fleet", cfg!(feature = "fleet"), &["sealane fleet", "many hosts", "--movers"]),
        ("nats", cfg!(feature = "nats"), &["NATS", "--queue"]),
        ("tunnel", cfg!(feature = "tunnel"), &["sealane tunnel", "IPsec", "--system", "site.toml"]),
        (
            "engine",
            cfg!(feature = "engine"),
            &["sealane engine keys", "private keys in a process", "SEALANE_ENGINE"],
        ),
    ];

    /// Returns the help of a command and of all that are shown below it.
    fn help(mut command: clap::Command) -> String {
        let own = [command.render_help().to_string(), command.render_long_help().to_string()].concat();
        let below = command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
        own + &below.map(help).collect::<String>()
    }

    #[test]
    fn documents_have_what_is_built_and_nothing_else() {
        let pages = pages().expect("rendering into memory succeeds");
        let pages =
            pages.iter().map(|(_, page)| String::from_utf8_lossy(page).replace('\\', "")).collect::<String>();
        let mut whole = command();
        whole.build();
        let shells = [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell];
        let scripts: String = shells.map(|shell| script(shell).expect("completions are made")).concat();
        let texts = [("help", help(whole)), ("pages", pages), ("completions", scripts)];
        let mut faults = Vec::new();
        for (face, is_built, words) in FACES {
            for word in words {
                let found = texts.iter().filter(|(_, text)| text.contains(word)).map(|(name, _)| *name);
                let found: Vec<&str> = found.collect();
                if found.is_empty() == is_built {
                    faults.push(format!("{word:?} of {face} is in {found:?}"));
                }
            }
        }
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn every_shell_has_completions() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell).expect("completions are made");
            let completes_far = matches!(shell, Shell::Bash | Shell::Zsh);
            assert_eq!(script.contains("_sealane_far"), completes_far && cfg!(feature = "copy"), "{shell}");
            assert_eq!(script.contains("_sealane_product"), completes_far, "{shell}");
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
