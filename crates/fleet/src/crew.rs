//! The movers of a run: one process on each host for each of its places, kept running as long as there is work.
//!
//! Guarantees: a mover that is lost is started again, and a host that fails repeatedly is left out and named; the first
//! login to a host precedes the others, so a user is asked once; the end of this process ends its movers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use sealane_copy::{Location, Options};
use sealane_peer::{Channel, PublicKey, RemoteCommand, StderrMode, chain, spawn_local_worker};

use crate::error::{FleetError, Result};
use crate::hosts::shown_host;
use crate::news::News;
use crate::queue::{CoordinatorQueue, Job};
use crate::record::LeftOut;
use crate::serve::serve;
use crate::wire::Part;

/// The interval at which a coordinator looks at results and signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// A host that could not be used this many times in a row is left out.
const STARTS_MAX: u32 = 3;
/// A mover that was lost this many times in a row, without a result in between, is left out.
const LOSSES_MAX: u32 = 10;
/// The pause before a mover is started again.
const PAUSE: Duration = Duration::from_millis(500);

/// The maximum number of messages that wait for the user while a host adds lines of its own.
const LINES_MAX: usize = 1000;

/// A host's place in the run.
struct Seat {
    is_leaving: AtomicBool,
}

/// The state that the threads of movers share.
pub(crate) struct Shared {
    pub(crate) queue: Box<dyn CoordinatorQueue>,
    pub(crate) options: Options,
    /// The key of the run.
    key: PublicKey,
    /// The jobs that workers may put.
    pub(crate) may_put: fn(&Job) -> bool,
    pub(crate) is_stopped: AtomicBool,
    pub(crate) movers: AtomicU64,
    news: Mutex<VecDeque<News>>,
    /// The failure of the last mover that ended.
    last: Mutex<String>,
}

impl Shared {
    /// Returns the state before any mover has begun.
    pub(crate) fn new(
        queue: Box<dyn CoordinatorQueue>,
        options: Options,
        key: PublicKey,
        may_put: fn(&Job) -> bool,
    ) -> Self {
        let (is_stopped, movers) = (AtomicBool::new(false), AtomicU64::new(0));
        Self {
            queue,
            options,
            key,
            may_put,
            is_stopped,
            movers,
            news: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// Returns what a worker of this name is started for.
    pub(crate) fn part(&self, host: &str, number: u32) -> Part {
        Part::Work { host: host.to_owned(), number, key: self.key.to_string() }
    }

    /// Returns the messages for the user that have come since the last call.
    pub(crate) fn news(&self) -> VecDeque<News> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the error that says that no host is left.
    pub(crate) fn nobody_left(&self) -> FleetError {
        FleetError::NobodyLeft { last: self.last.lock().unwrap_or_else(PoisonError::into_inner).clone() }
    }

    /// Queues a message for the user.
    pub(crate) fn tell(&self, news: News) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push_back(news);
    }

    /// Queues a line that ssh or a host has written, as far as the user keeps up with them.
    fn said(&self, host: &str, line: &str) {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        if news.len() < LINES_MAX {
            news.push_back(News::Said { host: host.to_owned(), line: line.to_owned() });
        }
    }
}

/// The hosts that take part, and the threads that keep their movers.
#[derive(Default)]
pub(crate) struct Crew<'scope> {
    seats: BTreeMap<Vec<u8>, Arc<Seat>>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> Crew<'scope> {
    /// Lets exactly these places take part, with this number of movers each: new ones begin, and others end after the
    /// jobs that they hold. Joining is reported, unless the run has just begun.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn staff(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        shared: &Arc<Shared>,
        places: Vec<Vec<u8>>,
        movers: u16,
        is_first: bool,
    ) -> Result<()> {
        let wanted: BTreeSet<Vec<u8>> = places.into_iter().collect();
        self.seats.retain(|place, seat| {
            let stays = wanted.contains(place);
            seat.is_leaving.fetch_or(!stays, SeqCst);
            stays
        });
        for place in wanted {
            if self.seats.contains_key(&place) {
                continue;
            }
            let seat = Arc::new(Seat { is_leaving: AtomicBool::new(false) });
            self.seats.insert(place.clone(), Arc::clone(&seat));
            let is_reached = Arc::new(AtomicBool::new(false));
            for number in 0..u32::from(movers) {
                let (shared, seat, place) = (Arc::clone(shared), Arc::clone(&seat), place.clone());
                let is_reached = Arc::clone(&is_reached);
                let thread = thread::Builder::new().name(format!("mover {number}"));
                let started =
                    thread.spawn_scoped(scope, move || tend(&shared, &seat, &place, number, &is_reached));
                self.threads.push(started.map_err(FleetError::Thread)?);
            }
            if !is_first {
                shared.tell(News::Joined { host: shown_host(&place) });
            }
        }
        Ok(())
    }

    /// Returns whether no mover is kept any more.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.threads.retain(|thread| !thread.is_finished());
        self.threads.is_empty()
    }

    /// Returns the names of the hosts that take part.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.seats.keys().map(|place| shown_host(place)).collect()
    }
}

/// Keeps one mover running on a host, as long as there is work.
fn tend(shared: &Arc<Shared>, seat: &Seat, place: &[u8], number: u32, is_reached: &AtomicBool) {
    let host = shown_host(place);
    let is_over = || shared.is_stopped.load(SeqCst) || seat.is_leaving.load(SeqCst);
    // The first login may ask its user for something: the others follow when it has succeeded.
    while number > 0 && !is_reached.load(SeqCst) {
        if is_over() {
            return;
        }
        thread::sleep(LOOK);
    }
    let (mut starts, mut losses) = (0, 0);
    while !is_over() {
        let error = match start(shared, place, &host) {
            Err(error) => {
                starts += 1;
                error
            }
            Ok(mut channel) => {
                shared.movers.fetch_add(1, Relaxed);
                let part = shared.part(&host, number);
                let reached = || is_reached.store(true, SeqCst);
                let (leaving, stopped) = (&seat.is_leaving, &shared.is_stopped);
                let served =
                    serve(&mut channel, &*shared.queue, part, shared.may_put, leaving, stopped, &reached);
                shared.movers.fetch_sub(1, Relaxed);
                match served.ended {
                    Ok(()) => return,
                    Err(error) => {
                        match (served.was_heard, served.finished) {
                            (false, _) => starts += 1,
                            (true, 0) => losses += 1,
                            (true, _) => (starts, losses) = (0, 0),
                        }
                        error
                    }
                }
            }
        };
        let reason = chain(&error);
        shared.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&format!("{host}: {reason}"));
        if starts >= STARTS_MAX || losses >= LOSSES_MAX || is_final(&error) {
            // The others need not wait for an unreachable host.
            let is_new = !seat.is_leaving.swap(true, SeqCst);
            if is_new {
                shared.tell(News::LeftOut(LeftOut { host, reason }));
            }
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Returns whether the host takes no part any more: another start would end in the same way, or it cannot be trusted.
fn is_final(error: &FleetError) -> bool {
    matches!(error, FleetError::Unfit(_) | FleetError::Overreach(_))
}

fn start(shared: &Arc<Shared>, place: &[u8], host: &str) -> Result<Channel> {
    // No host's text reaches the terminal as it is.
    let (told, named) = (Arc::clone(shared), host.to_owned());
    let stderr = StderrMode::Relay(Arc::new(move |line: &str| told.said(&named, line)));
    let child = match Location::parse(OsStr::from_bytes(place))? {
        Location::Ssh { user, host, port, .. } => {
            let mut command = shared.options.remote.ssh_command(user, host, port);
            command.stderr = stderr;
            command.spawn(RemoteCommand::Fleet)?
        }
        _ => spawn_local_worker(&stderr)?,
    };
    Ok(Channel::from_child(child)?)
}
