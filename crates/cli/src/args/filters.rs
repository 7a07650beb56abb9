//! `--include` and `--exclude`, in the order in which they were given across both: the first match wins, so the order
//! is their meaning, and clap's derived fields would lose it.

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use sealane_copy::Pattern;
use std::fs::File;
use std::io::Read;

/// The patterns, in the order given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters(pub Vec<Pattern>);

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";
const INCLUDE_FROM: &str = "include-from";
const EXCLUDE_FROM: &str = "exclude-from";

/// The maximum length of a list of patterns, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// The patterns of a file.
#[derive(Debug, Clone)]
struct List(Vec<Pattern>);

/// Reads a file of patterns, one per line, as rsync does: empty lines and those that begin with `#` or `;` are
/// ignored, and `+ ` or `- ` before a pattern includes or excludes it, regardless of the file's default.
fn list(path: &str, otherwise: fn(String) -> Pattern) -> Result<List, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(LIST_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LIST_BYTES_MAX {
        return Err("it is longer than 1 MiB, the most that a list of patterns may be".to_owned());
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', ';']));
    let pattern = |line: &str| match (line.strip_prefix("+ "), line.strip_prefix("- ")) {
        (Some(pattern), _) => Pattern::Include(pattern.to_owned()),
        (_, Some(pattern)) => Pattern::Exclude(pattern.to_owned()),
        _ => otherwise(line.to_owned()),
    };
    Ok(List(lines.map(pattern).collect()))
}

impl Args for Filters {
    fn augment_args(command: Command) -> Command {
        let pattern = |name| Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append);
        let from = |name| Arg::new(name).long(name).value_name("FILE").action(ArgAction::Append);
        let heading = "Which files";
        command
            .arg(
                pattern(EXCLUDE)
                    .help("Leave out paths that match; the first pattern that matches a path decides")
                    .long_help(
                        "Leave out paths that match, and everything below them. Patterns are those of rsync: `*` and `?` \
                         do not match `/`, `**` does. A pattern that starts with `/` is matched from the source on, any \
                         other one against the end of the path. One that ends with `/` matches folders only, one that \
                         ends with `/***` a folder and its contents. The first --include or --exclude that matches a \
                         path decides.",
                    )
                    .help_heading(heading),
            )
            .arg(pattern(INCLUDE).help("Copy paths that match, even if a later pattern excludes them").help_heading(heading))
            .arg(
                from(EXCLUDE_FROM)
                    .value_parser(|path: &str| list(path, Pattern::Exclude))
                    .help("Read patterns to exclude from FILE, one a line; # begins a comment, `+ ` includes")
                    .help_heading(heading),
            )
            .arg(
                from(INCLUDE_FROM)
                    .value_parser(|path: &str| list(path, Pattern::Include))
                    .help("Read patterns to include from FILE, one a line; # begins a comment, `- ` excludes")
                    .help_heading(heading),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Filters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut placed: Vec<(usize, Pattern)> = Vec::new();
        for (name, pattern) in [
            (INCLUDE, Pattern::Include as fn(String) -> Pattern),
            (EXCLUDE, Pattern::Exclude as fn(String) -> Pattern),
        ] {
            let indices = matches.indices_of(name).into_iter().flatten();
            let texts = matches.get_many::<String>(name).into_iter().flatten();
            placed.extend(indices.zip(texts).map(|(index, text)| (index, pattern(text.clone()))));
        }
        for name in [INCLUDE_FROM, EXCLUDE_FROM] {
            let indices = matches.indices_of(name).into_iter().flatten();
            let lists = matches.get_many::<List>(name).into_iter().flatten();
            let patterns = |(index, List(patterns)): (usize, &List)| {
                patterns.iter().map(move |pattern| (index, pattern.clone())).collect::<Vec<_>>()
            };
            placed.extend(indices.zip(lists).flat_map(patterns));
        }
        placed.sort_by_key(|&(index, _)| index);
        Ok(Self(placed.into_iter().map(|(_, pattern)| pattern).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
