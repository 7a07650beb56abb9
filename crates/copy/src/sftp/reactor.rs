//! Connections to one far host and the tasks that use them, on one thread.
//!
//! Guarantees: a task that waits for a reply gets it, or an error if its connection is lost; a server that is silent
//! while it owes a reply is given up after the agreed time; the thread sleeps in one place, and wakes for replies,
//! room to send, bells, timers and the end.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sealane_lanes::Bells;

use crate::{
    error::{Error, ErrorKind},
    sftp::{link::Link, sums::Sums},
    summary::Progress,
};

/// The longest interval between two checks whether the thread must stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Deadlines of tasks that sleep.
#[derive(Default)]
struct Timers {
    next: u64,
    wakers: BTreeMap<(Instant, u64), Waker>,
}

/// All connections of a transfer.
pub(super) struct Reactor {
    links: RefCell<Vec<Rc<Link>>>,
    /// The far host's program for digests, while it is used.
    sums: RefCell<Option<Rc<Sums>>>,
    timers: RefCell<Timers>,
    progress: Arc<Progress>,
    timeout: Duration,
    /// Bells that may ring for the main task, each with its index.
    bells: RefCell<Vec<Arc<Bells>>>,
    fatal: RefCell<Option<Error>>,
    scratch: RefCell<Vec<u8>>,
    is_ending: Cell<bool>,
}

/// The bell of a task that waits alone.
const OWN: usize = 0;

impl Reactor {
    pub(super) fn new(progress: Arc<Progress>, timeout: Duration) -> Self {
        Self {
            links: RefCell::default(),
            sums: RefCell::default(),
            timers: RefCell::default(),
            progress,
            timeout,
            bells: RefCell::default(),
            fatal: RefCell::default(),
            scratch: RefCell::new(vec![0; 64 << 10]),
            is_ending: Cell::new(false),
        }
    }

    pub(super) fn add(&self, link: Rc<Link>) {
        self.links.borrow_mut().push(link);
    }

    pub(super) fn add_sums(&self, sums: Rc<Sums>) {
        *self.sums.borrow_mut() = Some(sums);
    }

    /// Returns the usable connections.
    pub(super) fn live(&self) -> Vec<Rc<Link>> {
        self.links.borrow().iter().filter(|link| !link.is_lost()).cloned().collect()
    }

    pub(super) fn has_lost(&self) -> bool {
        self.links.borrow().iter().any(|link| link.is_greeted() && link.is_lost())
    }

    /// Lets these bells wake the main task from now on.
    pub(super) fn hear(&self, bells: Vec<Arc<Bells>>) {
        *self.bells.borrow_mut() = bells;
    }

    /// Makes the transfer as a whole fail.
    pub(super) fn fail(&self, error: Error) {
        self.fatal.borrow_mut().get_or_insert(error);
    }

    /// From now on tasks run even after the user has requested the end.
    pub(super) fn is_ending(&self) {
        self.is_ending.set(true);
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        if duration.is_zero() {
            return;
        }
        let at = Instant::now() + duration;
        let mut key = None;
        poll_fn(|context| {
            let mut timers = self.timers.borrow_mut();
            if let Some(key) = key.take() {
                timers.wakers.remove(&key);
            }
            if Instant::now() >= at {
                return Poll::Ready(());
            }
            timers.next += 1;
            let number = timers.next;
            key = Some((at, number));
            timers.wakers.insert((at, number), context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Runs a task to its end. It is polled after every event, so it may also check state without a waker.
    ///
    /// # Errors
    /// Fails if the task fails, the whole transfer fails, the user requests the end, or every connection is lost.
    pub(super) fn run<T>(&self, task: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut task = pin!(task);
        loop {
            let bells = self.bells.borrow().clone();
            bells.iter().for_each(|bells| bells.announce(OWN));
            woken.0.store(false, SeqCst);
            if let Poll::Ready(outcome) = task.as_mut().poll(&mut context) {
                bells.iter().for_each(|bells| bells.awake(OWN));
                return outcome;
            }
            if let Some(error) = self.fatal.borrow_mut().take() {
                return Err(error);
            }
            if self.progress.cancel.load(Relaxed) && !self.is_ending.get() {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            }
            let sleep = if woken.0.load(SeqCst) { Duration::ZERO } else { LONGEST_SLEEP };
            self.turn(sleep, &bells);
            bells.iter().for_each(|bells| bells.awake(OWN));
        }
    }

    /// Moves bytes, and sleeps for at most `sleep` if there are none to move.
    fn turn(&self, sleep: Duration, bells: &[Arc<Bells>]) {
        let live = self.live();
        for link in &live {
            link.flush();
        }
        let sums = self.sums.borrow().clone().filter(|sums| !sums.is_over());
        let now = Instant::now();
        let next = self.timers.borrow().wakers.keys().next().map(|(at, _)| at.saturating_duration_since(now));
        let sleep = next.map_or(sleep, |next| next.min(sleep));
        let links: Vec<_> = live.iter().filter(|link| !link.is_lost()).collect();
        let interest = |wants_to_send| match wants_to_send {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        let mut fds: Vec<_> = links
            .iter()
            .map(|link| PollFd::from_borrowed_fd(link.fd(), interest(link.wants_to_send())))
            .collect();
        fds.extend(
            sums.iter().map(|sums| PollFd::from_borrowed_fd(sums.fd(), interest(sums.wants_to_send()))),
        );
        fds.extend(bells.iter().map(|bells| PollFd::from_borrowed_fd(bells.fd(OWN), PollFlags::IN)));
        let timeout = Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => self.fail(Error::io("cannot wait for the far end", &error.into())),
        }
        let ready: Vec<_> = fds.iter().take(links.len()).map(|fd| fd.revents()).collect();
        for (link, ready) in links.into_iter().zip(ready) {
            if ready.intersects(PollFlags::OUT) {
                link.flush();
            }
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                link.receive(&mut self.scratch.borrow_mut());
            }
            link.check_silence(self.timeout);
        }
        if let Some(sums) = &sums {
            sums.turn();
        }
        let now = Instant::now();
        let mut timers = self.timers.borrow_mut();
        while let Some(due) = timers.wakers.first_entry().filter(|entry| entry.key().0 <= now) {
            due.remove().wake();
        }
    }
}
