//! The roles of the ends of a copy, and requests that make no sense.
//!
//! Guarantees: a request that is refused here has reached no other host and changed nothing.

use std::path::Path;

use sealane_peer::Location;
use sealane_tree::RelativePath;

use crate::{
    error::{Error, ErrorKind},
    options::{Options, Sink},
    proto::message::{LISTED_BYTES, LISTED_MESSAGES_MAX, Role},
    transfer::{
        far_place::{FarPlace, far_path},
        sense,
    },
};

pub(crate) fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}

pub(crate) fn is_standard_stream(location: &Location) -> bool {
    matches!(location, Location::Local(path) if path == Path::new("-"))
}

/// The role of this end.
pub(crate) enum Roles {
    Here {
        role: Role,
        far: FarPlace,
    },
    /// Both ends are remote.
    Neither,
}

pub(crate) fn roles(sources: &[Location], target: &Location) -> Result<Roles, Error> {
    let remote = |location: &Location| !matches!(location, Location::Local(_));
    let first = sources.first().ok_or_else(|| usage("there is nothing to copy"))?;
    if is_standard_stream(target) && sources.len() > 1 {
        return Err(usage("standard output takes one source"));
    }
    if sources.len() > 1 && sources.iter().any(is_standard_stream) {
        return Err(usage("standard input cannot be copied together with other sources"));
    }
    match (sources.iter().any(remote), remote(target)) {
        (true, true) => Ok(Roles::Neither),
        (true, false) => {
            let same_host = sources.iter().all(|source| FarPlace::of(source) == FarPlace::of(first));
            if !same_host {
                return Err(usage("all sources must be on the same host"));
            }
            Ok(Roles::Here { role: Role::Pull, far: FarPlace::of(first) })
        }
        // For standard output, the content must come from another host.
        (false, false) if is_standard_stream(target) => {
            Ok(Roles::Here { role: Role::Pull, far: FarPlace::Here })
        }
        (false, _) => Ok(Roles::Here { role: Role::Push, far: FarPlace::of(target) }),
    }
}

/// Returns a path on this machine.
fn local_path(location: &Location) -> Option<&Path> {
    match location {
        Location::Local(path) if path != Path::new("-") => Some(path),
        _ => None,
    }
}

/// Refuses senseless requests, as far as they are recognisable without the far end.
pub(crate) fn make_sense(sources: &[Location], target: &Location, options: &Options) -> Result<(), Error> {
    if options.wishes.upkeep.delete.is_some() {
        sense::deletable(sources.iter().map(far_path), options.wishes.recursive)?;
    }
    if let Some(listed) = &options.listed {
        if sources.len() != 1 || is_standard_stream(&sources[0]) || is_standard_stream(target) {
            return Err(usage("--files-from needs one folder as the source, and a folder as the target"));
        }
        if list_messages(Some(listed)).count() > usize::from(LISTED_MESSAGES_MAX) {
            return Err(usage("the list of files is longer than 8 MiB; copy its parts one after the other"));
        }
    }
    if options.wishes.portion.is_some() {
        let paths = options.listed.as_deref().map_or(0, <[_]>::len);
        if !options.wishes.fit_portion(paths) || !options.resume {
            return Err(usage("a part of a file is one listed path, without a digest, and can be resumed"));
        }
    }
    let Some(sources) = sources.iter().map(local_path).collect::<Option<Vec<_>>>() else { return Ok(()) };
    sense::something_to_copy(&sources)?;
    match local_path(target) {
        // Listed entries come from below the source, and keep their own paths.
        Some(target) if options.wishes.sink == Sink::Files && options.listed.is_none() => {
            sense::not_into_itself(&sources, target, options.wishes.as_named, options.wishes.following)
        }
        _ => Ok(()),
    }
}

/// Returns the parts of a list that each fit into a message.
pub(crate) fn list_messages(listed: Option<&[RelativePath]>) -> impl Iterator<Item = &[RelativePath]> {
    let mut rest = listed.unwrap_or_default();
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |path: &&RelativePath| {
            bytes += path.as_bytes().len() + 2;
            bytes <= LISTED_BYTES
        };
        let count = rest.iter().take_while(fits).count();
        let (part, after) = rest.split_at(count);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}
