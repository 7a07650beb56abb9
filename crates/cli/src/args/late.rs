//! Arguments that are defined only once their command is used.
//!
//! The program has some five hundred options; to define those of other commands than the one that runs took a sixth of the time in
//! which it starts.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use std::{cell::Cell, ops::Deref};

thread_local! {
    /// Whether arguments are defined at once.
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// Returns the command that `make` makes, with the arguments of all commands in it.
pub(super) fn whole(make: impl FnOnce() -> Command) -> Command {
    AT_ONCE.set(true);
    let made = make();
    AT_ONCE.set(false);
    made
}

/// The arguments of a command, defined late. The command has a short and a long text about it.
#[derive(Clone, Debug)]
pub struct Late<T>(pub T);

impl<T> Deref for Late<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches> FromArgMatches for Late<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Late<T> {
    fn augment_args(command: Command) -> Command {
        if AT_ONCE.get() {
            return T::augment_args(command);
        }
        command.defer(|command| {
            // The text about a command stands beside its name; that about its arguments is for those who read the code.
            let own = [command.get_about(), command.get_long_about()];
            let [short, long] = own.map(|text| text.cloned().unwrap_or_default());
            T::augment_args(command).about(short).long_about(long)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}
