//! Builds the two ends according to the agreement.
//!
//! Guarantees: the bytes in flight at an end are bounded by [`FLIGHT_BYTES`], whatever the number of streams;
//! unacknowledged content, and so what a cut can cause to be sent again, by [`WINDOW_BYTES`].

use std::{
    num::NonZeroU64,
    sync::{Arc, Barrier, Mutex, OnceLock, atomic::AtomicBool},
};

use crossbeam_channel::Sender;
use sealane_engine::{Engine, record::Secret};
use sealane_lanes::{Bells, Clock, Limiter, Placement};
use sealane_tree::{
    Backups, Basis, Changes, EntryType, MODE_BITS, RelativePath, Target, TargetOptions, Writer, Xattrs,
};

use crate::{
    error::Error,
    journal::{Identity, Journal, State as JournalState},
    options::{Backup, Compression, Delta, Level, MeasuredEnd, ModeRules, Sink, Wishes},
    proto::{entry::identity, record::DATA_BYTES_MAX},
    receive::{
        self,
        files::{Destination, Files, Intake, Treatment},
        lane::Receiving,
        permit::{ITSELF, Permit},
        stream::ReceiveStream,
    },
    send::{
        self,
        batch::record_bytes_max,
        compress::Governor,
        fill::{Counters, Filling, Possessions},
        lane::{Hold, Sending},
        manifest::{Manifest, Outgoing},
        removal::Sent,
        stream::SendStream,
        window::Window,
        work::Queue,
    },
    shared::{self, Stop},
    summary::{Notice, Progress},
    transfer::{claims, terms::Terms},
};

/// The length of the buffers of one end over all streams, in bytes.
pub(crate) const FLIGHT_BYTES: usize = 24 << 20;
/// Unacknowledged content over all streams.
pub(crate) const WINDOW_BYTES: u64 = 64 << 20;
/// The part of the window that is permitted on the shortest path.
const SHORT_WINDOW_BYTES: u64 = 4 << 20;
/// The maximum number of records per batch: 512 KiB stay in a core's second-level cache from the read to the write.
const BATCH_RECORDS_MAX: usize = 8;
const BATCH_RECORDS_MIN: usize = 2;
/// The number of sealed batches that wait for one socket.
const RING: usize = 2;
/// The number of batches of one stream that lanes process at once.
const RECEIVE_RING: usize = 16;

/// Returns the maximum number of unfinished large files of a sender with this many lanes: each lane works on one at a
/// time, a stream that was cut leaves one, and a file with a batch on a slow stream waits for it. Batches have their
/// smallest size in this calculation, which occurs only with more streams than are added automatically; that leaves
/// room for batches that earlier streams have in flight beyond their share when others are added.
pub(crate) fn open_files_max(lanes: u16, streams: u16) -> usize {
    let batches = WINDOW_BYTES as usize / (BATCH_RECORDS_MIN * DATA_BYTES_MAX);
    2 * (usize::from(lanes) + usize::from(streams)) + batches
}

/// The parameters from which both ends are built.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) terms: Terms,
    /// The user's wishes, as far as the receiving end can meet them.
    pub(crate) wishes: Wishes,
    /// The engine that seals and opens records at this end.
    pub(crate) engine: Arc<dyn Engine>,
    /// The common limiter of all transfers of the peer.
    pub(crate) shared_rate: Option<Arc<Limiter>>,
    /// The maximum number of unfinished large files.
    pub(crate) open_files_max: usize,
    /// Changes of what a sending end reads.
    pub(crate) changes: Arc<Changes>,
    /// The key of the digests by which folders are compared, at ends that can do that.
    pub(crate) folders_key: Option<Secret>,
    /// The key of the hashes by which versions of a file are compared, at ends that can do that.
    pub(crate) delta_key: Option<Secret>,
}

impl Plan {
    /// Returns the plan of an end that has no keys and opens as many files as it likes.
    pub(crate) fn of(wishes: Wishes, terms: Terms, engine: Arc<dyn Engine>) -> Self {
        Self {
            terms,
            wishes,
            engine,
            shared_rate: None,
            open_files_max: usize::MAX,
            changes: Arc::default(),
            folders_key: None,
            delta_key: None,
        }
    }

    /// Returns whether an existing file counts only if its content was read and is that of the source: a digest states
    /// what was read.
    pub(crate) fn compares_content(&self) -> bool {
        self.wishes.upkeep.checksum || (self.wishes.digest && !self.wishes.dry_run)
    }

    /// Returns whether large files may be compared with the target's versions of them.
    pub(crate) fn compares_versions(&self) -> bool {
        self.terms.delta != Delta::Never && self.wishes.sink == Sink::Files && !self.wishes.dry_run
    }

    /// Returns whether files are looked for that were renamed or moved: in mirrors, which delete them under their old names.
    pub(crate) fn finds_moved(&self) -> bool {
        self.compares_versions() && self.wishes.upkeep.delete.is_some()
    }

    /// Returns whether entries that arrived are removed from the source.
    pub(crate) fn removes_sources(&self) -> bool {
        self.wishes.upkeep.remove_sources && !self.wishes.dry_run
    }
}

#[cfg(test)]
impl Plan {
    /// Returns a plan of two streams and a lane, without security, that discards its data.
    pub(crate) fn bare() -> Self {
        let terms = Terms {
            level: Level::Clear,
            suite: sealane_engine::Suite::Null,
            streams: 2,
            streams_max: 2,
            lanes: 1,
            placement: Placement::Connection,
            compression: Compression::None,
            delta: Delta::Never,
        };
        let wishes =
            Wishes { sink: Sink::Null, timeout: std::time::Duration::from_secs(5), ..Wishes::default() };
        Self { open_files_max: 1, ..Self::of(wishes, terms, Arc::new(sealane_engine::Inline::default())) }
    }
}

/// Returns the size of a buffer: some records, and room for a closing record.
fn buffer_bytes(plan: &Plan, buffers: usize) -> usize {
    let record = record_bytes_max(plan.terms.suite, DATA_BYTES_MAX);
    let records = (FLIGHT_BYTES / buffers / record).clamp(BATCH_RECORDS_MIN, BATCH_RECORDS_MAX);
    records * record + 4096
}

/// Returns the limiter that holds a sender to a rate.
pub(crate) fn limiter(plan: &Plan, rate: Option<u64>) -> Limiter {
    // A lane that wakes up late on a busy machine may catch up for as much as 50 ms.
    let batches = u64::from(plan.terms.lanes) * (BATCH_RECORDS_MAX * DATA_BYTES_MAX) as u64;
    let burst = batches.max(1 << 20).max(rate.unwrap_or(0) / 20);
    Limiter::new(rate.and_then(NonZeroU64::new), burst).beside(plan.shared_rate.clone())
}

/// Builds a sending end.
pub(crate) fn sending(
    plan: &Plan,
    possessions: Possessions,
    notices: Sender<Notice>,
    progress: Arc<Progress>,
) -> Result<Sending, Error> {
    let terms = plan.terms;
    let (streams, lanes) = (usize::from(terms.streams_max), usize::from(terms.lanes));
    // Sealing everything beforehand takes unbounded memory: the laboratory chooses small inputs.
    let hold = (plan.wishes.measured_end == MeasuredEnd::Receive).then(|| {
        let busy = match terms.placement {
            Placement::Connection => lanes.min(streams),
            _ => lanes,
        };
        Hold { barrier: Barrier::new(busy), released: AtomicBool::new(false) }
    });
    let (ring, window, buffers) = match hold {
        Some(_) => (1 << 20, Window::new(u64::MAX, u64::MAX), 1 << 20),
        None => {
            // Streams share it as they are opened.
            let window = Window::new(SHORT_WINDOW_BYTES, WINDOW_BYTES);
            (RING.max(lanes), window, streams * RING + 2 * lanes)
        }
    };
    let sized_for = streams * RING + 2 * lanes;
    let stream = |index| {
        Arc::new(SendStream::new(index, terms.suite, window.clone(), ring, plan.wishes.timeout, Clock::Real))
    };
    let bells = |count| Bells::new(count).map_err(|error| Error::io("cannot make event descriptors", &error));
    let delta_key = plan.delta_key.as_ref().map(|key| sealane_delta::Key::new(key.expose()));
    Ok(Sending {
        filling: Filling {
            queue: Queue::default(),
            possessions,
            manifest: Manifest::new(plan.wishes.upkeep.delete.is_some()),
            preview: Outgoing::entries(),
            sent: Sent::new(plan.wishes.upkeep.remove_sources),
            checksum: plan.compares_content(),
            wishes: plan.wishes.clone(),
            changes: Arc::clone(&plan.changes),
            both_digest: plan.wishes.digest && terms.level < Level::Safe,
            notices,
            progress,
            counters: Counters::default(),
            inodes: Mutex::default(),
            deltas: send::fill::delta::Deltas::new(terms.delta, delta_key, lanes, plan.wishes.limit_rate)
                .in_place(plan.wishes.upkeep.in_place),
        },
        streams: (0..terms.streams_max).map(stream).collect(),
        pool: shared::buffers(buffers, buffer_bytes(plan, sized_for)),
        engine: Arc::clone(&plan.engine),
        suite: terms.suite,
        placement: terms.placement,
        lanes,
        limiter: limiter(plan, plan.wishes.limit_rate),
        compression: Governor::new(terms.compression),
        bells: Arc::new(bells(lanes)?),
        stop: Arc::new(Stop::new()),
        hold,
        first_byte: OnceLock::new(),
        last_byte: OnceLock::new(),
        control: Arc::new(bells(2)?),
        stalled: AtomicBool::new(false),
    })
}

/// Builds a receiving end.
pub(crate) fn receiving(
    plan: &Plan,
    destination: Destination,
    permit: Permit,
    journal: Option<(Journal, JournalState)>,
    notices: Sender<Notice>,
    progress: Arc<Progress>,
) -> Result<Receiving, Error> {
    let terms = plan.terms;
    let (streams, lanes) = (usize::from(terms.streams_max), usize::from(terms.lanes));
    let blind = plan.wishes.measured_end == MeasuredEnd::Send;
    let buffers = streams + 2 * lanes;
    let stream = |index| Arc::new(ReceiveStream::new(index, terms.suite, RECEIVE_RING));
    let bells = |count| Bells::new(count).map_err(|error| Error::io("cannot make event descriptors", &error));
    let (journal, resumable) =
        journal.map_or_else(Default::default, |(journal, state)| (Some(journal), state));
    let intake = Intake {
        permit,
        treatment: Treatment::of(&plan.wishes),
        verify_digests: plan.wishes.digest && terms.level < Level::Safe,
        compressed: terms.compression != Compression::None,
        open_max: plan.open_files_max,
    };
    let control = Arc::new(bells(2)?);
    let key = plan.delta_key.as_ref().filter(|_| plan.compares_versions());
    let deltas = key.map(|key| receive::files::versions::Deltas::new(key.expose(), Arc::clone(&control)));
    let files = Files::new(destination, intake, journal, resumable, notices, progress);
    Ok(Receiving {
        files: files.comparing(deltas),
        streams: (0..terms.streams_max).map(stream).collect(),
        pool: shared::buffers(buffers, buffer_bytes(plan, buffers)),
        engine: Arc::clone(&plan.engine),
        placement: terms.placement,
        lanes,
        // The sender itself observes the requested limit.
        limiter: limiter(plan, None),
        bells: Arc::new(bells(lanes)?),
        stop: Arc::new(Stop::new()),
        first_byte: OnceLock::new(),
        control,
        blind,
    })
}

/// Returns the place of backups of replaced or deleted entries. `sole` is the target's name for its only source.
pub(crate) fn backups(plan: &Plan, sole: Option<&[u8]>) -> Option<Backups> {
    let Backup { suffix, folder } = plan.wishes.upkeep.backup.clone()?;
    let within = sole.filter(|&name| name != ITSELF).and_then(|name| RelativePath::new(name).ok());
    Some(Backups { suffix, folder, within })
}

/// Returns the options for writing a tree.
pub(crate) fn target_options(
    plan: &Plan,
    may_own: bool,
    modes: ModeRules,
    journal: Option<[u8; 16]>,
    sole: Option<&[u8]>,
    bases: Vec<Basis>,
) -> TargetOptions {
    let preserve = &plan.wishes.preserve;
    let basis_use = plan.wishes.upkeep.bases.as_ref().map(|bases| bases.basis_use);
    let number = |key| u128::from_be_bytes(key) as u64;
    TargetOptions {
        mode_mask: MODE_BITS & !modes.removed,
        default_umask: modes.umask,
        ownership: preserve.owner.is_wanted() && may_own,
        // A list gives rights to others than the owner.
        xattrs: Xattrs { acls: preserve.acls && may_own, ..preserve.kinds_of_xattrs() },
        change_existing_directories: preserve.folder_modes,
        replaces_other_kinds: plan.wishes.upkeep.delete.is_some(),
        in_place: plan.wishes.upkeep.in_place,
        backup: backups(plan, sole),
        resumable_as: journal.map(number),
        bases: bases.into(),
        basis_use: basis_use.unwrap_or_default(),
        time_window_seconds: plan.wishes.upkeep.sameness.window_seconds(),
        ..TargetOptions::default()
    }
}

/// Keeps only the entries of a journal that really exist: the user may have removed or changed some after an
/// interruption. Files of which nothing has arrived are removed: if their sources have changed, nobody would take them up.
pub(crate) fn check_presence(target: &Target, state: &mut JournalState) {
    // The order of their paths ensures that every parent is opened once.
    let mut done: Vec<_> = std::mem::take(&mut state.done).into_iter().collect();
    done.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    let mut writer = target.writer();
    done.retain(|(known, path)| is_finished(&mut writer, path, known));
    state.done = done.into_iter().collect();
    state.partial.retain(|_, partial| {
        let is_begun =
            partial.ledger.ranges().next().is_some() && claims::open(&mut writer, partial).is_some();
        if !is_begun {
            partial.discard(&mut writer);
        }
        is_begun
    });
}

/// Restores the modes of directories that an interrupted run made writable, at the end of this one.
pub(crate) fn restore_modes(target: &Target, state: &JournalState) {
    let mut writer = target.writer();
    for (path, &mode) in &state.opened {
        if let Ok(path) = RelativePath::new(path) {
            writer.restore_mode(&path, mode);
        }
    }
}

/// Returns whether a file has its final name, and still the size and time with which it was finished.
pub(crate) fn is_finished(writer: &mut Writer, path: &[u8], known: &Identity) -> bool {
    let Ok(path) = RelativePath::new(path) else { return false };
    match writer.existing(&path) {
        Ok(Some(found)) => found.entry_type == EntryType::File && identity(&path, &found.metadata) == *known,
        Ok(None) | Err(_) => false,
    }
}
