//! One direction of a tunnel: loads are taken in order of arrival, processed on any lane, and sent on in that order.
//!
//! Guarantees: the load that was taken first is sent first, whatever the number of lanes and the order in which an
//! engine answers; the number of loads under way, beyond those in the lanes' hands, is at most [`PLACES`], or
//! [`LOADS`] per lane if that is more, and one that waits for its turn among other pipelines; no lock is held while a load is processed; a lane that has loads at an engine
//! sleeps until the engine or the source has something, and one that has none blocks only in the source. No lane sleeps
//! while something waits behind the order.

use std::{
    cell::{Cell, RefCell},
    io,
    num::NonZeroUsize,
    os::fd::BorrowedFd,
    thread,
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::{Submitter, Work};
use sealane_lanes::{Flow, LONGEST_SLEEP, Pool, Recycle, Ticket, wait};

/// The number of loads between being taken and leaving, beyond the one in each lane's hands.
pub const PLACES: usize = 16;

/// The maximum number of loads that a lane has at its engine.
pub const LOADS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// A lane's access to its engine. The note of a load is its place in the order; a load that is processed
/// synchronously has none.
pub type Loads<T> = Submitter<Option<(Ticket, T)>>;

/// The operations of a lane on a load, before and after an engine runs its jobs.
pub trait Processor<T> {
    /// Writes the load's jobs and takes out the work. Returns `None` if the load needs no engine.
    fn begin(&mut self, load: &mut T) -> Option<Work>;

    /// Puts back the work, all of whose jobs have an outcome, and processes the outcomes.
    fn end(&mut self, load: &mut T, work: Work);

    /// Returns the engine of the lane.
    fn engine(&mut self) -> &mut Loads<T>;

    /// Processes a load from beginning to end. The lane must have no other load under way.
    fn work(&mut self, load: &mut T) {
        if let Some(mut work) = self.begin(load) {
            self.engine().run(&mut work);
            self.end(load, work);
        }
    }
}

/// A queue behind the order, in which loads wait when they have been sent on.
pub trait Behind<R> {
    /// Returns whether something waits.
    fn waits(&self) -> bool;

    /// Passes on some of what waits.
    ///
    /// # Errors
    /// Returns the error of the destination.
    fn serve(&mut self, to: &mut R) -> io::Result<()>;
}

/// The outcome of sending a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it has left.
    Whole,
    /// Another pipeline has to send before. The load, and those behind it, stay until somebody calls [`Pipeline::go_on`].
    Waits,
}

/// Nothing waits behind the order.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl<R> Behind<R> for Nothing {
    fn waits(&self) -> bool {
        false
    }

    fn serve(&mut self, _: &mut R) -> io::Result<()> {
        Ok(())
    }
}

/// A destination, and the load that waits for its turn there.
#[derive(Debug)]
struct Exit<T, R> {
    to: R,
    held: Option<T>,
}

/// One direction of a tunnel: a source of loads, and a destination to which they go in the order of the source.
#[derive(Debug)]
pub struct Pipeline<G, T, R> {
    flow: Flow<G, T, Exit<T, R>>,
    loads: Pool<T>,
}

impl<G, T: Recycle + std::fmt::Debug + Send + 'static, R> Pipeline<G, T, R> {
    /// Returns a pipeline without a load under way.
    pub fn new(lanes: usize, make: fn() -> T, from: G, to: R) -> Self {
        // A lane that found every place in use would have nothing to wake it from sleep.
        let places = PLACES.max(lanes * LOADS.get());
        let to = Exit { to, held: None };
        // A load that waits for its turn has no place any more.
        Self { flow: Flow::new(places, from, to), loads: Pool::of(places + lanes + 1, make) }
    }

    /// Runs a lane: takes a load in order of arrival, and processes it beside other lanes; the lane that finds the
    /// next load in order sends it on. If the engine answers at once, the lane blocks only in `take`. While loads are
    /// at the engine, the lane first asks `source` for a descriptor that becomes readable when there is a load;
    /// `None` if `take` never blocks.
    ///
    /// # Errors
    /// Returns the error of `take` or `send`; after an error of `take`, the lane first finishes its loads at the
    /// engine.
    pub fn run(
        &self,
        processor: &mut impl Processor<T>,
        source: impl Fn(&G) -> Option<BorrowedFd<'_>>,
        mut take: impl FnMut(&mut G, &mut T) -> io::Result<()>,
        mut send: impl FnMut(&mut R, &mut T) -> io::Result<()>,
    ) -> io::Result<()> {
        let send = |to: &mut R, load: &mut T| send(to, load).map(|()| Sent::Whole);
        self.run_whole(processor, Nothing, source, |from, load, _| take(from, load), send, || Ok(()))
    }

    /// Does the same beside other pipelines, before some of whose loads those of this one may have to wait: then `send` returns
    /// [`Sent::Waits`], and continues with the same load later. `settle` is called after loads were sent, and after one had to wait,
    /// while the lane holds nothing: it calls [`Self::go_on`] of each pipeline that need not wait any more.
    ///
    /// # Errors
    /// As for [`Self::run`], and returns errors of `settle`.
    pub fn run_beside(
        &self,
        processor: &mut impl Processor<T>,
        source: impl Fn(&G) -> Option<BorrowedFd<'_>>,
        mut take: impl FnMut(&mut G, &mut T) -> io::Result<()>,
        send: impl FnMut(&mut R, &mut T) -> io::Result<Sent>,
        settle: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        self.run_whole(processor, Nothing, source, |from, load, _| take(from, load), send, settle)
    }

    /// Does the same as [`Self::run`], with a queue `behind` the destination: while something waits there, `take` is told not to wait,
    /// and returns [`io::ErrorKind::WouldBlock`] if there is no load; then some of what waits is passed on.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_before(
        &self,
        processor: &mut impl Processor<T>,
        behind: impl Behind<R>,
        source: impl Fn(&G) -> Option<BorrowedFd<'_>>,
        take: impl FnMut(&mut G, &mut T, bool) -> io::Result<()>,
        mut send: impl FnMut(&mut R, &mut T) -> io::Result<()>,
    ) -> io::Result<()> {
        let send = |to: &mut R, load: &mut T| send(to, load).map(|()| Sent::Whole);
        self.run_whole(processor, behind, source, take, send, || Ok(()))
    }

    fn run_whole(
        &self,
        processor: &mut impl Processor<T>,
        mut behind: impl Behind<R>,
        source: impl Fn(&G) -> Option<BorrowedFd<'_>>,
        mut take: impl FnMut(&mut G, &mut T, bool) -> io::Result<()>,
        mut send: impl FnMut(&mut R, &mut T) -> io::Result<Sent>,
        mut settle: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut failure = None;
        loop {
            self.bring_back(processor, &mut send)?;
            settle()?;
            let under_way = processor.engine().in_hand();
            if let Some(error) = failure.take_if(|_| under_way == 0) {
                return Err(error);
            }
            let waits = behind.waits();
            if failure.is_some() || under_way >= LOADS.get() {
                match waits {
                    true => self.flow.with_restored(|exit| behind.serve(&mut exit.to))?,
                    false => sleep(processor.engine(), None).map(drop)?,
                }
                continue;
            }
            let mut load = self.loads.take().expect("a load for every place and every lane");
            let mut has_looked = false;
            let mut take = |from: &mut G| match take(from, &mut load, !waits) {
                Err(error) if waits && error.kind() == io::ErrorKind::WouldBlock => None,
                taken => taken.map_err(|error| failure = Some(error)).ok(),
            };
            let given = if waits {
                // The lane that has the source may be asleep there.
                self.flow.try_give(|from, _| take(from))
            } else if under_way == 0 {
                self.flow.give(|from, _| take(from))
            } else {
                // Other lanes wait for the source behind this one, which releases it as soon as its engine has
                // something.
                self.flow.try_give(|from, _| {
                    has_looked = true;
                    let is_ready = match source(from) {
                        None => true,
                        fd => sleep(processor.engine(), fd).unwrap_or(true),
                    };
                    if is_ready { take(from) } else { None }
                })
            };
            match given {
                Some((ticket, ())) => match processor.begin(&mut load) {
                    Some(work) => processor.engine().submit(work, Some((ticket, load))),
                    None => self.restore(ticket, load),
                },
                None => {
                    self.loads.give(load);
                    if waits {
                        self.flow.with_restored(|exit| behind.serve(&mut exit.to))?;
                    } else if under_way > 0 && !has_looked {
                        sleep(processor.engine(), None)?;
                    } else if under_way == 0 && failure.is_none() {
                        // Every place is in use: wait for the lane that sends, and take over loads that came in
                        // meanwhile.
                        self.flow.with_restored(|_| ());
                        thread::yield_now();
                    }
                }
            }
        }
    }

    /// Takes back the loads that the engine has finished, and sends on those that are next in order.
    fn bring_back(
        &self,
        processor: &mut impl Processor<T>,
        send: &mut impl FnMut(&mut R, &mut T) -> io::Result<Sent>,
    ) -> io::Result<()> {
        while let Some((work, note)) = processor.engine().finished() {
            let (ticket, mut load) =
                note.expect("a lane works on loads at once only before and after its life");
            processor.end(&mut load, work);
            self.restore(ticket, load);
        }
        self.go_on(send)
    }

    fn restore(&self, ticket: Ticket, load: T) {
        self.flow.restore(ticket, load).expect("a place of an open flow");
    }

    /// Sends on the load that waits for its turn, and those behind it that are next in order.
    ///
    /// # Errors
    /// Returns the error of `send`.
    pub fn go_on(&self, send: &mut impl FnMut(&mut R, &mut T) -> io::Result<Sent>) -> io::Result<()> {
        let failed = Cell::new(None);
        // Sends a load, or keeps it at the exit. Returns whether it has left.
        let mut leave = |exit: &mut Exit<T, R>, mut load: T| match send(&mut exit.to, &mut load) {
            Ok(Sent::Waits) => {
                exit.held = Some(load);
                false
            }
            outcome => {
                if let Err(error) = outcome {
                    failed.set(failed.take().or(Some(error)));
                }
                self.loads.give(load);
                true
            }
        };
        let leave = RefCell::new(&mut leave);
        self.flow.drain(
            |exit| exit.held.take().is_none_or(|load| (*leave.borrow_mut())(exit, load)),
            |exit, load| {
                (*leave.borrow_mut())(exit, load);
            },
        );
        failed.take().map_or(Ok(()), Err)
    }
}

/// Sleeps until the engine or the source may have something. Returns whether the source has.
fn sleep<T>(engine: &Loads<T>, source: Option<BorrowedFd<'_>>) -> io::Result<bool> {
    let input = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    match (source, engine.fd()) {
        (Some(source), Some(engine)) => {
            let mut fds = [input(source), input(engine)];
            wait(&mut fds, LONGEST_SLEEP)?;
            Ok(!fds[0].revents().is_empty())
        }
        (None, Some(engine)) => wait(&mut [input(engine)], LONGEST_SLEEP).map(|_| false),
        (_, None) => Ok(false),
    }
}
