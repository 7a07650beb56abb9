//! A client's request, judged by the rules of a server.
//!
//! Guarantees: nothing is opened here; a list is bounded by its announcement; a peer without the right to read, write or
//! delete is refused.

use std::time::Instant;

use sealane_peer::Channel;
use sealane_tree::RelativePath;
use zeroize::Zeroizing;

use super::{Doors, Rules};
use crate::{
    error::{Error, ErrorKind},
    options::Sink,
    proto::message::{Hello, LISTED_MESSAGES_MAX, Message, Request, Role},
    session::{agree, messages},
    transfer::{
        place::{self, ResolvedTarget},
        terms::{Terms, processors},
    },
};

/// The maximum number of sources per request.
const SOURCES_MAX: usize = 1024;
/// Streams take at most this fraction of a peer's descriptors, unless they are requested.
const STREAMS_SHARE: usize = 16;

/// A request, its encoding as it crossed the channel, and the list that belongs to it.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) frame: Zeroizing<Vec<u8>>,
    pub(super) listed: Option<Vec<RelativePath>>,
}

impl Asked {
    pub(super) fn receive(channel: &mut Channel, deadline: Instant) -> Result<Self, Error> {
        let (request, frame) = match messages::receive(channel, deadline)? {
            (Message::Request(request), frame) => (*request, Zeroizing::new(frame)),
            (Message::Abort(abort), _) => return Err(abort.into()),
            _ => return Err(Error::protocol("the client makes no request")),
        };
        let listed = listed(channel, &request, deadline)?;
        let paths = listed.as_deref().map_or(0, <[_]>::len);
        let may_be_portion = request.wishes.fit_portion(paths) && request.journal.is_some();
        if request.wishes.portion.is_some() && !may_be_portion {
            return Err(Error::protocol("a part of a file is one listed path, without a digest"));
        }
        Ok(Self { request, frame, listed })
    }
}

/// Receives the list that a request announces.
fn listed(
    channel: &mut Channel,
    request: &Request,
    deadline: Instant,
) -> Result<Option<Vec<RelativePath>>, Error> {
    let Some(messages) = request.listed else { return Ok(None) };
    if messages > LISTED_MESSAGES_MAX || request.paths.len() != 1 {
        return Err(Error::protocol("a list of paths is bounded, and below one source"));
    }
    let mut listed = Vec::new();
    for _ in 0..messages {
        match messages::receive(channel, deadline)?.0 {
            Message::Listed(paths) => listed.extend(paths),
            Message::Abort(abort) => return Err(abort.into()),
            _ => return Err(Error::protocol("the client does not send the list that it has announced")),
        }
    }
    Ok(Some(listed))
}

/// Returns the terms of the transfer.
pub(super) fn terms(
    request: &Request,
    hello: &Hello,
    rules: &Rules,
    doors: &Doors<'_>,
) -> Result<Terms, Error> {
    let mut terms = agree::judge(request, rules.policy, processors(), hello.processors)?;
    if let Doors::Shared { budget, .. } = doors {
        // If descriptors are scarce, none are reserved for streams that may never be opened.
        let spare = u16::try_from(budget.share() / STREAMS_SHARE).unwrap_or(u16::MAX);
        terms.streams_max = terms.streams_max.min(spare).max(terms.streams);
    }
    terms.delta = agree::delta(request, rules.may_read)?;
    Ok(terms)
}

/// Refuses a request for which the peer has no right, or with too many sources.
pub(super) fn rights(request: &Request, rules: &Rules) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::new(ErrorKind::Refused, message));
    let (is_permitted, what, deletes) = match request.role {
        Role::Push => (rules.may_write, "write", request.wishes.upkeep.delete.is_some()),
        Role::Pull => (rules.may_read, "read", request.wishes.upkeep.remove_sources),
    };
    if !is_permitted {
        return refuse(format!("this peer has no right to {what} here"));
    }
    if deletes && !rules.may_delete {
        return refuse("this peer has no right to delete here".into());
    }
    let sources = request.paths.len();
    if sources > SOURCES_MAX {
        return refuse(format!("{sources} sources are too many; the limit is {SOURCES_MAX} at once"));
    }
    Ok(())
}

/// Returns the place where a push writes, unless its content is dropped.
pub(super) fn target(request: &Request, rules: &Rules) -> Result<Option<ResolvedTarget>, Error> {
    match request.paths.as_slice() {
        [path] if request.role == Role::Push && request.wishes.sink == Sink::Files => {
            let journal = request.journal.map(|name| rules.journal(name));
            let (into_directory, as_named) = (request.into_directory, request.wishes.as_named);
            let asked = place::Asked { path, into_directory, as_named, journal };
            place::target(asked, rules.confinement.as_ref()).map(Some)
        }
        [_] => Ok(None),
        [_, ..] if request.role == Role::Pull => Ok(None),
        _ => Err(Error::protocol("a request needs a path, and a target only one")),
    }
}
