//! The end that sends, client or server.
//!
//! Guarantees: what the receiver claims to have is bounded, ordered, and known before the first byte is sent.

use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex},
    time::Instant,
};

use crossbeam_channel::Sender;
use sealane_tree::{Filter, Kind, Rule, ShownPath, WalkOptions};

use crate::{
    error::{Error, ErrorKind},
    options::{Pattern, Preserve},
    proto::{
        entry::{Announcement, Entry},
        message::{Have, Message},
    },
    send::{
        fill::Possessions,
        work::{Bytes, Queue, SendFile},
    },
    session::{
        control::{self, Control, Outcome},
        ends::{self, POSSESSIONS_MAX, Plan},
        line::Lines,
        place::{self, Confinement},
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
    let rule = |pattern: &Pattern| match pattern {
        Pattern::Include(glob) => Rule::Include(glob.clone()),
        Pattern::Exclude(glob) => Rule::Exclude(glob.clone()),
    };
    let filter = Filter::new(patterns.iter().map(rule))
        .map_err(|error| Error::new(ErrorKind::Usage, crate::error::chain(&error)))?;
    Ok(WalkOptions { recursive, one_file_system, owner: preserve.owner, xattrs: preserve.xattrs, filter })
}

/// The end that sends, client or server.
pub(crate) struct SendingSide<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) paths: &'a [Vec<u8>],
    /// What the target calls the only source.
    pub(crate) name: Option<&'a [u8]>,
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
        let sources = if self.standard_input {
            None
        } else {
            Some(place::sources(self.paths, self.name, self.confinement)?)
        };
        let possessions = possessions(control)?;
        let resumed: u64 = possessions.partial.values().flatten().map(|range| range.end - range.start).sum();
        if resumed > 0 || !possessions.done.is_empty() {
            let _ = self.notices.try_send(Notice::Resuming { bytes: resumed });
        }
        let sending = ends::sending(self.plan, possessions, self.notices, control.progress.clone())?;
        let sending = Arc::new(sending);
        let mut source = match sources {
            Some(sources) => sources,
            None => {
                sending.filling.queue.push_file(standard_input(&sending.filling.queue, self.name)?);
                place::no_sources()
            }
        };
        for (path, error) in source.missing.drain(..) {
            sending.filling.failed(&ShownPath::new(path), error.message);
        }
        let walk = (!self.standard_input).then(|| source.source.walk(self.walk));
        control.send_all(&sending, walk, || source.source.reader(), keep)
    }
}

fn standard_input(queue: &Queue, name: Option<&[u8]>) -> Result<Arc<SendFile>, Error> {
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

/// Reads what the receiver has.
fn possessions(control: &mut Control<'_>) -> Result<Possessions, Error> {
    let mut possessions = Possessions::default();
    loop {
        let deadline = Instant::now() + control.timeout;
        match control::receive(control.channel, deadline)?.0 {
            Message::Have(Have { done, partial }) => {
                possessions.done.extend(done);
                for partial in partial {
                    let ranges: Vec<_> = partial.ranges.into_iter().map(|(start, end)| start..end).collect();
                    let ordered = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
                    if !ordered || ranges.iter().any(|range| range.start >= range.end) {
                        return Err(Error::protocol("the receiver's account of what it has makes no sense"));
                    }
                    possessions.partial.insert(partial.identity, ranges);
                }
                if possessions.done.len() + possessions.partial.len() > 2 * POSSESSIONS_MAX {
                    return Err(Error::protocol("the receiver claims to have more than can be kept in mind"));
                }
            }
            Message::HaveEnd => return Ok(possessions),
            Message::Abort(abort) => return Err(abort.into()),
            _ => return Err(Error::protocol("the receiver does not say what it has")),
        }
    }
}
