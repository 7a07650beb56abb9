//! `--include` and `--exclude`, in the order in which they were given across both: the first match wins, so the order
//! is their meaning, and clap's derived fields would lose it.

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use sealane_copy::Pattern;

/// The patterns, in the order given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters(pub Vec<Pattern>);

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";

impl Args for Filters {
    fn augment_args(command: Command) -> Command {
        let pattern = |name| Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append);
        let heading = "Which files";
        command
            .arg(
                pattern(EXCLUDE)
                    .help("Leave out what matches; the first pattern that matches a path decides")
                    .long_help(
                        "Leave out what matches, and do not descend into it. As in rsync: `*` and `?` stop at `/`, `**` \
                         does not; a pattern with `/` at its start counts from the source on, any other one matches the \
                         end of a path; with `/` at its end it means folders only, with `/***` a folder and what is in \
                         it. Of --include and --exclude, in the order given, the first that matches a path decides.",
                    )
                    .help_heading(heading),
            )
            .arg(pattern(INCLUDE).help("Take what matches, although a later pattern leaves it out").help_heading(heading))
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
        placed.sort_by_key(|&(index, _)| index);
        Ok(Self(placed.into_iter().map(|(_, pattern)| pattern).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
