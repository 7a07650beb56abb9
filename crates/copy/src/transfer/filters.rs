//! The user's filters, as both ends of a transfer apply them.

use std::sync::Arc;

use sealane_tree::{Filter, FilterFile, RelativePath, Rule, WalkOptions};

use crate::{
    error::{Error, ErrorKind},
    options::{Pattern, Wishes},
    transfer::ends::Plan,
};

/// The maximum number of names of filter files.
const FILTER_FILES_MAX: usize = 8;

/// Turns the user's filters into a walk.
pub(crate) fn walk_options(plan: &Plan) -> Result<WalkOptions, Error> {
    let wishes = &plan.wishes;
    Ok(WalkOptions {
        recursive: wishes.recursive,
        one_file_system: wishes.one_file_system,
        owner: wishes.preserve.owner.is_wanted(),
        xattrs: wishes.preserve.kinds_of_xattrs(),
        filter: filter(&wishes.patterns)?,
        changes: Arc::clone(&plan.changes),
    })
}

/// Compiles the user's filters.
pub(crate) fn filter(patterns: &[Pattern]) -> Result<Filter, Error> {
    let rule = |pattern: &Pattern| match pattern {
        Pattern::Include(glob) => Some(Rule::Include(glob.clone())),
        Pattern::Exclude(glob) => Some(Rule::Exclude(glob.clone())),
        Pattern::File(_) | Pattern::GitIgnore => None,
    };
    let file = |pattern: &Pattern| match pattern {
        Pattern::File(name) => Some(FilterFile::Patterns(name.clone())),
        Pattern::GitIgnore => Some(FilterFile::GitIgnore),
        Pattern::Include(_) | Pattern::Exclude(_) => None,
    };
    let usage = |message| Error::new(ErrorKind::Usage, message);
    let files: Vec<_> = patterns.iter().filter_map(file).collect();
    if files.len() > FILTER_FILES_MAX {
        return Err(usage(format!("--filter-file: more than {FILTER_FILES_MAX} names are too many")));
    }
    let is_name = |name: &str| RelativePath::new(name).is_ok_and(|name| name.components().count() == 1);
    if let Some(Pattern::File(name)) =
        patterns.iter().find(|pattern| matches!(pattern, Pattern::File(name) if !is_name(name)))
    {
        return Err(usage(format!("--filter-file: {name:?} is no name of a file")));
    }
    let filter = Filter::new(patterns.iter().filter_map(rule));
    filter.map(|filter| filter.with_files(files)).map_err(|error| usage(sealane_peer::chain(&error)))
}

/// Compiles the filters of entries that a deletion spares: none if it takes excluded entries too.
pub(crate) fn deletion_filter(wishes: &Wishes) -> Result<Filter, Error> {
    match wishes.upkeep.delete.is_some_and(|deletion| deletion.excluded) {
        true => Ok(Filter::default()),
        false => filter(&wishes.patterns),
    }
}
