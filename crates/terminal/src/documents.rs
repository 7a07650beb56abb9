//! Manual pages and completions, made from the definitions of arguments.
//!
//! Guarantees: every command that help shows has a page with examples; a file that cannot be written is an error that names it.

use crate::exit::EXIT_STATUSES;
use crate::help::{Examples, examples_of};
use anyhow::Context as _;
use clap::builder::Resettable;
use clap_complete::Shell;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Returns the completions of `command` for `shell`, as text.
///
/// # Errors
/// Fails if the generator makes something else than text.
pub fn completions(shell: Shell, mut command: clap::Command, name: &str) -> anyhow::Result<String> {
    // The script is generated in memory first, because the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8(script).context("completions are text")
}

/// Writes the pages into `directory`, which is made if it is missing.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(directory: &Path, pages: io::Result<Vec<(String, Vec<u8>)>>) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    for (name, page) in pages? {
        let path = directory.join(name);
        fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Returns the file name and the text of every page of `root`, whose name is `name`. `tells_exit_statuses` says whether the page
/// of a name has the table of exit statuses.
///
/// # Errors
/// Fails if the generator fails.
pub fn pages(
    name: &str,
    mut root: clap::Command,
    examples: &Examples,
    tells_exit_statuses: fn(&str) -> bool,
) -> io::Result<Vec<(String, Vec<u8>)>> {
    root.build();
    let mut pages = Vec::new();
    collect(name, root, &mut pages, examples, tells_exit_statuses)?;
    Ok(pages)
}

/// `name` is the name of the page: the words of the command joined by `-`.
fn collect(
    name: &str,
    command: clap::Command,
    pages: &mut Vec<(String, Vec<u8>)>,
    examples: &Examples,
    tells_exit_statuses: fn(&str) -> bool,
) -> io::Result<()> {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for sub in subcommands {
        let name = format!("{name}-{}", sub.get_name());
        collect(&name, sub.clone(), pages, examples, tells_exit_statuses)?;
    }
    // The text below the options gets sections of its own instead of one called "extra".
    let command = command.after_long_help(Resettable::Reset).display_name(name.to_owned());
    let source = concat!("sealane ", env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command).title(name.to_uppercase()).source(source).render(&mut page)?;
    writeln!(page, ".SH EXAMPLES")?;
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    for (command, what) in examples_of(examples, name) {
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
