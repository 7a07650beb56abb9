//! The parts of help that are the same for every command: examples, exit statuses, and words to choose from.

use crate::exit::EXIT_STATUSES;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use sealane_engine::Kind;

/// An example: the command, and its effect.
pub type Example = (&'static str, &'static str);

/// Examples by the words of the command, joined by `-`.
pub type Examples = [(&'static str, &'static [Example])];

/// Returns the examples of the command whose words, joined by `-`, are `name`.
pub fn examples_of(examples: &Examples, name: &str) -> &'static [Example] {
    examples.iter().find(|(found, _)| *found == name).map_or(&[], |(_, examples)| examples)
}

/// Returns the examples as a section of the help text: each command, and its effect below it.
fn section(examples: &Examples, name: &str) -> String {
    let lines =
        examples_of(examples, name).iter().map(|(command, what)| format!("  {command}\n      {what}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Adds the text below the options to the help of `command`, whose words joined by `-` are `name`: examples, and the sections
/// that `more` returns for a name.
pub fn explained(
    name: &str,
    command: clap::Command,
    examples: &Examples,
    more: &dyn Fn(&str) -> Vec<String>,
) -> clap::Command {
    let command = command.mut_subcommands(|sub| {
        let name = format!("{name}-{}", sub.get_name());
        explained(&name, sub, examples, more)
    });
    // A spelling that is not shown has none.
    let own = Some(section(examples, name)).filter(|_| !examples_of(examples, name).is_empty());
    let sections = own.into_iter().chain(more(name));
    command.after_long_help(sections.collect::<Vec<_>>().join("\n\n"))
}

/// Returns the table of exit statuses as a section of the help text.
pub fn exit_status_text() -> String {
    let rows = EXIT_STATUSES.iter().map(|(code, meaning)| format!("  {code:>3}  {meaning}"));
    format!("Exit status:\n{}", rows.collect::<Vec<_>>().join("\n"))
}

/// Accepts the names of `all`, so that help and completions list them.
pub fn one_of<T: Clone + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(name)).map(move |word| {
        let found = all.iter().find(|value| name(value) == word);
        found.expect("clap accepts only the names listed").clone()
    })
}

/// Explains `--engine`, with all the values that `kinds` accept.
pub fn engines(kinds: &[Kind]) -> String {
    let kinds = kinds.iter().map(|kind| format!("{}: {}", kind.form, kind.about)).collect::<Vec<_>>();
    format!("Engine that encrypts and decrypts at this end; {}", kinds.join("; "))
}
