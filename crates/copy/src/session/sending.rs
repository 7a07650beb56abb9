//! The end that sends, client or server.
//!
//! Guarantees: the receiver's claims of existing entries are bounded, ordered, and complete before the first byte is
//! sent.

use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::Instant,
};

use crossbeam_channel::Sender;
use sealane_tree::{Filter, Kind, Rule, ShownPath, SourceRoot, WalkOptions};

use crate::{
    error::{Error, ErrorKind},
    options::{Pattern, Preserve},
    proto::{
        entry::{Announcement, Entry},
        message::{Dated, Have, Held, Message},
    },
    send::{
        fill::Possessions,
        removal::Removal,
        work::{Bytes, Queue, SendFile},
    },
    session::{
        control::{self, Control, Outcome},
        ends::{self, POSSESSIONS_MAX, Plan, RANGES_MAX},
        line::Lines,
        place::{self, Confinement, Sought},
    },
    summary::Notice,
};

/// Turns the user's filters into a walk.
pub(crate) fn walk_options(
    recursive: bool,
    one_file_system: bool,
    preserve: &Preserve,
    patterns: &[Pattern],
) -> Result<WalkOptions, Error> {
    let filter = filter(patterns)?;
    Ok(WalkOptions {
        recursive,
        one_file_system,
        owner: preserve.owner.is_wanted(),
        xattrs: preserve.xattrs,
        filter,
    })
}

/// Compiles the user's filters.
pub(crate) fn filter(patterns: &[Pattern]) -> Result<Filter, Error> {
    let rule = |pattern: &Pattern| match pattern {
        Pattern::Include(glob) => Rule::Include(glob.clone()),
        Pattern::Exclude(glob) => Rule::Exclude(glob.clone()),
    };
    Filter::new(patterns.iter().map(rule))
        .map_err(|error| Error::new(ErrorKind::Usage, sealane_peer::chain(&error)))
}

/// The end that sends, client or server.
pub(crate) struct SendingSide<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sought: Sought<'a>,
    pub(crate) confinement: Option<&'a Confinement>,
    pub(crate) walk: WalkOptions,
    /// The only source is standard input.
    pub(crate) standard_input: bool,
    pub(crate) notices: Sender<Notice>,
}

impl SendingSide<'_> {
    pub(crate) fn run(
        self,
        control: &mut Control<'_>,
        keep: impl FnOnce(&Lines) + Send,
    ) -> Result<Outcome, Error> {
        let sources =
            if self.standard_input { None } else { Some(place::sources(self.sought, self.confinement)?) };
        let possessions = possessions(control)?;
        let resumed: u64 = possessions.partial.values().flatten().map(|range| range.end - range.start).sum();
        if resumed > 0 {
            let _ = self.notices.try_send(Notice::Resuming { bytes: resumed });
        }
        let sending = ends::sending(self.plan, possessions, self.notices, control.progress.clone())?;
        let sending = Arc::new(sending);
        let mut source = match sources {
            Some(sources) => sources,
            None => {
                sending.filling.queue.push_file(standard_input(&sending.filling.queue, self.sought.name)?);
                place::no_sources()
            }
        };
        for (path, error) in source.missing.drain(..) {
            sending.filling.failed(&ShownPath::new(path), error.message);
        }
        let unnamed =
            |root: &SourceRoot| root.prefix().is_none() && root.is_directory() && !root.is_selected();
        if source.source.roots().iter().any(unnamed) {
            sending.filling.manifest.list_target();
        }
        let removal = self
            .plan
            .removes_sources()
            .then(|| Removal { source: source.source.clone(), walk: self.walk.clone() });
        let walk = (!self.standard_input).then(|| source.source.walk(self.walk));
        control.send_all(&sending, walk, removal, || source.source.reader(), keep)
    }
}

/// Returns standard input as a file of this name.
pub(crate) fn standard_input(queue: &Queue, name: Option<&[u8]>) -> Result<Arc<SendFile>, Error> {
    let name = name.ok_or_else(|| {
        Error::new(
            ErrorKind::Usage,
            "standard input needs a target with a file name; the target is a directory",
        )
    })?;
    let path = sealane_tree::RelativePath::new(name).map_err(sealane_tree::Error::from)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let metadata = sealane_tree::Metadata {
        mode: 0o644,
        modified: sealane_tree::Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() },
        ..sealane_tree::Metadata::default()
    };
    let entry = Entry { path, kind: Kind::File, metadata, digest: None };
    let input = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Error::io("cannot read standard input", &error))?;
    let announcement = Announcement { entry, growing: true };
    let shown = ShownPath::new(*b"standard input");
    let bytes = Bytes::Pipe(Mutex::new(input.into()));
    Ok(Arc::new(SendFile::new(
        queue.next_file(),
        announcement,
        shown,
        bytes,
        std::iter::once(0..u64::MAX),
        Vec::new(),
        None,
    )))
}

/// Receives the list of the receiver's entries.
fn possessions(control: &mut Control<'_>) -> Result<Possessions, Error> {
    let mut claims = Claims::default();
    loop {
        if control.progress.cancel.load(Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        let deadline = Instant::now() + control.timeout;
        match control::receive(control.channel, deadline)?.0 {
            Message::Have(have) => claims.take(have)?,
            Message::HaveEnd => return Ok(claims.kept),
            Message::Abort(abort) => return Err(abort.into()),
            _ => return Err(Error::protocol("the receiver does not say what it has")),
        }
    }
}

/// The receiver's claims of existing entries, up to the bound.
#[derive(Default)]
struct Claims {
    kept: Possessions,
    ranges: usize,
    messages: usize,
}

impl Claims {
    fn take(&mut self, Have { done, partial, dated }: Have) -> Result<(), Error> {
        self.messages += 1;
        if self.messages > HAVE_MESSAGES_MAX {
            return Err(Error::protocol("the receiver claims to have more than can be kept in memory"));
        }
        for Held { identity, attributes } in done {
            // Entries beyond the bound are sent again.
            if self.kept.done.len() < POSSESSIONS_MAX {
                self.kept.done.insert(identity, attributes);
            }
        }
        for Dated { path, modified } in dated {
            if self.kept.dated.len() < POSSESSIONS_MAX {
                self.kept.dated.insert(path, modified);
            }
        }
        for partial in partial {
            let ranges: Vec<_> = partial.ranges.into_iter().map(|(start, end)| start..end).collect();
            let ordered = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
            if !ordered || ranges.iter().any(|range| range.start >= range.end) {
                return Err(Error::protocol("the receiver's account of what it has makes no sense"));
            }
            // A file takes as much room as some ranges, even one without any.
            let cost = PARTIAL_COST + ranges.len();
            if self.ranges + cost <= RANGES_MAX {
                self.ranges += cost;
                self.kept.partial.insert(partial.identity, ranges);
            }
        }
        Ok(())
    }
}

/// The cost of a file, in ranges, besides its own.
const PARTIAL_COST: usize = 4;
/// More than any honest receiver needs, whatever it has.
const HAVE_MESSAGES_MAX: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::Partial;

    fn identity(number: usize) -> [u8; 16] {
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&number.to_le_bytes());
        identity
    }

    #[test]
    fn claims_are_bounded_by_their_ranges_as_well() {
        let mut claims = Claims::default();
        let ranges: Vec<_> = (0..4096).map(|at| (2 * at, 2 * at + 1)).collect();
        for number in 0..2 * RANGES_MAX / ranges.len() {
            let partial = vec![Partial { identity: identity(number), ranges: ranges.clone() }];
            claims.take(Have { partial, ..Have::default() }).unwrap();
        }
        let kept: usize = claims.kept.partial.values().map(Vec::len).sum();
        assert!(kept <= RANGES_MAX && kept > RANGES_MAX / 2, "{kept}");
        let empty = |number| Partial { identity: identity(number), ranges: Vec::new() };
        for number in 0..RANGES_MAX / 1000 {
            let partial = (0..1000).map(|at| empty((1 << 40) + number * 1000 + at)).collect();
            claims.take(Have { partial, ..Have::default() }).unwrap();
        }
        assert!(claims.kept.partial.len() < RANGES_MAX / PARTIAL_COST);
    }

    #[test]
    fn claims_of_no_sense_and_without_end_are_refused() {
        let backwards =
            |ranges| Have { partial: vec![Partial { identity: [0; 16], ranges }], ..Have::default() };
        for ranges in [vec![(5, 5)], vec![(5, 4)], vec![(0, 5), (4, 9)]] {
            assert!(Claims::default().take(backwards(ranges)).is_err());
        }
        let mut claims = Claims::default();
        assert!((0..=HAVE_MESSAGES_MAX).any(|_| claims.take(Have::default()).is_err()));
    }
}
