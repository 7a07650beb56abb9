//! One transfer as it is asked for, and what both ends of it share, whatever the far end is.
//!
//! Guarantees: nothing here knows how a far end is reached, or what it says.

pub(crate) mod claims;
pub(crate) mod complaints;
pub(crate) mod ends;
pub(crate) mod far_place;
pub(crate) mod filters;
pub(crate) mod known;
pub(crate) mod leftovers;
pub(crate) mod outcome;
pub(crate) mod place;
pub(crate) mod receiving;
mod resumption;
pub(crate) mod roles;
mod sense;
pub(crate) mod sources;
pub(crate) mod terms;

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use crossbeam_channel::Sender;
use sealane_peer::Location;
use sealane_tree::is_pattern;

use crate::{
    error::{Error, ErrorKind},
    options::{ModeRules, Options, Preserve, Sink},
    proto::message::Role,
    receive::permit::Permit,
    summary::{Agreement, Notice, Observer, Progress},
    transfer::{
        ends::Plan,
        far_place::{FarPlace, far_path},
        place::{Asked, ResolvedTarget, Sought},
        receiving::{ReceivingSide, this_boot},
        roles::is_standard_stream,
    },
};

/// The maximum number of notices that wait for the thread that passes them on.
pub(crate) const NOTICES_MAX: usize = 1024;
/// The default time for logging in that sshd grants (sshd_config, LoginGraceTime).
const LOGIN_TIME: Duration = Duration::from_secs(120);

/// One transfer, as requested from one far end.
#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    pub(crate) sources: &'a [Location],
    pub(crate) target: &'a Location,
    pub(crate) options: &'a Options,
    pub(crate) progress: &'a Arc<Progress>,
    pub(crate) role: Role,
    pub(crate) far: &'a FarPlace,
    pub(crate) started: Instant,
    /// The identity of the host of far sources, once that is asked for.
    pub(crate) far_host: &'a OnceLock<Vec<u8>>,
}

impl Transfer<'_> {
    /// Returns the sources of a push, which are at `paths` here; `name` is the target's for the only one. Their patterns were the
    /// local shell's.
    pub(crate) fn sought<'a>(&'a self, paths: &'a [Vec<u8>], name: Option<&'a [u8]>) -> Sought<'a> {
        let following = self.options.wishes.following;
        Sought { paths, name, following, globs: false, listed: self.options.listed.as_deref() }
    }

    /// Returns which names may be made at the target, where `name` is that of the only source: those of the sources, or of a
    /// list.
    pub(crate) fn permit(&self, name: Option<&[u8]>) -> Permit {
        let wishes = &self.options.wishes;
        let (recursive, hard_links) = (wishes.recursive, wishes.preserve.hard_links);
        let paths: Vec<_> = self.sources.iter().map(far_path).collect();
        let names = paths.iter().map(Vec::as_slice);
        match &self.options.listed {
            Some(listed) => Permit::listed(listed, recursive, hard_links),
            None if self.role == Role::Pull && self.has_globs() => {
                Permit::matching(names, recursive, hard_links)
            }
            None => Permit::new(name, names, recursive, hard_links),
        }
    }

    /// Returns the receiving side at this end of a pull.
    pub(crate) fn receiving_side<'a>(
        &'a self,
        plan: &'a Plan,
        own_place: Option<ResolvedTarget>,
        notices: Sender<Notice>,
    ) -> Result<ReceivingSide<'a>, Error> {
        let permit = self.permit(own_place.as_ref().and_then(|place| place.name.as_deref()));
        Ok(ReceivingSide {
            plan,
            permit: permit.with_specials(self.options.wishes.preserve.specials),
            modes: ModeRules::default(),
            may_own: true,
            place: own_place,
            standard_output: self.standard_output()?,
            notices,
        })
    }

    /// Returns the time that the far end has for its greeting. If ssh can prompt its user, the user may take as long
    /// as sshd waits.
    pub(crate) fn patience(&self) -> Duration {
        let asks = matches!(self.far, FarPlace::Ssh { .. }) && std::fs::File::open("/dev/tty").is_ok();
        if asks { self.options.wishes.timeout.max(LOGIN_TIME) } else { self.options.wishes.timeout }
    }

    pub(crate) fn standard_output(&self) -> Result<Option<OwnedFd>, Error> {
        let output = is_standard_stream(self.target).then(|| std::io::stdout().as_fd().try_clone_to_owned());
        output.transpose().map_err(|error| Error::io("cannot write to standard output", &error))
    }

    /// Returns the place where this end writes, if it receives files.
    pub(crate) fn own_place(&self) -> Result<Option<ResolvedTarget>, Error> {
        let writes = self.role == Role::Pull
            && self.options.wishes.sink == Sink::Files
            && !is_standard_stream(self.target);
        writes
            .then(|| {
                let journal = self.journal_name().map(this_boot);
                let path = far_path(self.target);
                let (into_directory, as_named) = (self.takes_several(), self.options.wishes.as_named);
                place::target(Asked { path: &path, into_directory, as_named, journal }, None)
            })
            .transpose()
    }

    /// Returns whether a source may be a pattern, which the end at its host expands. The local shell has already
    /// expanded local patterns.
    pub(crate) fn has_globs(&self) -> bool {
        *self.far != FarPlace::Here && self.sources.iter().any(|source| is_pattern(&far_path(source)))
    }

    /// Returns whether the target must be a directory for several sources.
    pub(crate) fn takes_several(&self) -> bool {
        self.sources.len() > 1
            || self.options.listed.is_some()
            || (self.role == Role::Pull && self.has_globs())
    }

    /// Tells the user the terms, and which attributes are not kept.
    pub(crate) fn tell_agreement(&self, agreement: Agreement, kept: &Preserve, observer: &mut dyn Observer) {
        observer.notice(Notice::Agreed(agreement));
        let asked = &self.options.wishes.preserve;
        if kept.owner != asked.owner {
            observer.notice(Notice::OwnersNotKept);
        }
        if kept.privileges != asked.privileges {
            observer.notice(Notice::PrivilegesNotKept);
        }
    }
}

/// Returns the CPU time of this process from its start: user and system.
pub(crate) fn own_process_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns random bytes from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Io, format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}
