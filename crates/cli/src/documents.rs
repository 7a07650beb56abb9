//! Completions and manual pages, generated from the definitions of the arguments.

use crate::args::{command, examples, tells_exit_statuses};
use crate::exit::{EXIT_STATUSES, ExitStatus};
use crate::failure::Failure;
use anyhow::Context;
use clap::builder::Resettable;
use clap_complete::Shell;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let script = script(shell).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    io::stdout().write_all(&script).and_then(|()| io::stdout().flush()).map_err(Failure::output)
}

/// Returns the completions for `shell`; bash and zsh complete paths at far ends too, as they do for scp.
fn script(shell: Shell) -> anyhow::Result<Vec<u8>> {
    // The script is generated in memory first, because the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "sealane", &mut script);
    let text = String::from_utf8(script).context("completions are text")?;
    let text = match shell {
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
    };
    Ok(text.into_bytes())
}

/// Writes `sealane.1` and one page for each command into `directory`.
pub(crate) fn man(directory: &Path) -> Result<(), Failure> {
    let write = || -> anyhow::Result<()> {
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
        for (name, page) in pages()? {
            let path = directory.join(name);
            fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    };
    write().map_err(|error| Failure::new(ExitStatus::Io, error))
}

/// Returns the file name and the text of every page.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = command();
    root.build();
    let mut pages = Vec::new();
    collect("sealane", root, &mut pages)?;
    Ok(pages)
}

/// `name` is the name of the page: the words of the command joined by `-`.
fn collect(name: &str, command: clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for sub in subcommands {
        collect(&format!("{name}-{}", sub.get_name()), sub.clone(), pages)?;
    }
    // The text below the options gets sections of its own instead of one called "extra".
    let command = command.after_long_help(Resettable::Reset).display_name(name.to_owned());
    let source = concat!("sealane ", env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command).title(name.to_uppercase()).source(source).render(&mut page)?;
    writeln!(page, ".SH EXAMPLES")?;
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    for (command, what) in examples::of(name) {
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(command), escaped(what))?;
    }
    if tells_exit_statuses(name) {
        writeln!(page, ".SH \"EXIT STATUS\"")?;
        for (code, meaning) in EXIT_STATUSES {
            writeln!(page, ".TP\n\\fB{code}\\fR\n{}", meaning.replace('-', "\\-"))?;
        }
    }
    pages.push((format!("{name}.1"), page));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let pages = pages().expect("rendering into memory succeeds");
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "sealane.1",
            "sealane-cp.1",
            "sealane-serve.1",
            "sealane-id.1",
            "sealane-speed.1",
            "sealane-md5.1",
            "sealane-sha1.1",
            "sealane-sha256.1",
            "sealane-sha512.1",
            "sealane-blake3.1",
        ] {
            assert!(names.contains(&name), "{name} is missing among {names:?}");
        }
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page);
            let examples = page.split_once(".SH EXAMPLES\n").map(|(_, examples)| examples);
            assert!(examples.is_some_and(|examples| examples.starts_with(".TP\n")), "{name} has no example");
        }
        let (_, cp) = pages.iter().find(|(name, _)| name == "sealane-cp.1").expect("checked above");
        let cp = String::from_utf8(cp.clone()).expect("pages are UTF-8");
        for text in [".SH \"EXIT STATUS\"", "\\fB130\\fR", "through\\-ssh", "limit\\-rate"] {
            assert!(cp.contains(text), "{text} is missing in the page of cp");
        }
        assert!(!cp.contains(".SH EXTRA"), "the exit statuses are in the page of cp twice");
        assert!(!cp.contains("\\-\\-end "), "a hidden option is in the page of cp");
    }

    #[test]
    fn every_example_is_a_command() {
        for name in pages().expect("rendering into memory succeeds").iter().map(|(name, _)| name) {
            for (example, _) in examples::of(name.trim_end_matches(".1")) {
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
            let script = String::from_utf8(script).expect("completions are UTF-8");
            let completes_far = matches!(shell, Shell::Bash | Shell::Zsh);
            assert_eq!(script.contains("_sealane_far"), completes_far, "{shell}");
            for flag in ["through-ssh", "imix", "ignore-missing"] {
                assert!(script.contains(flag), "{shell} knows no {flag}");
            }
            // Elvish and PowerShell complete no values.
            let has_values = matches!(shell, Shell::Bash | Shell::Zsh | Shell::Fish);
            for value in ["authenticated", "chacha20-poly1305", "rustcrypto"] {
                assert_eq!(script.contains(value), has_values, "{shell}: {value}");
            }
        }
    }
}
