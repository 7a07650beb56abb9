//! One direction of a tunnel: loads are taken in arrival order, worked on by any lane, and sent on in that order.
//!
//! Guarantees: what was taken first is sent first, whatever the number of lanes; at most [`PLACES`] loads are under way beyond
//! those in the lanes' hands; no lock is held over work.

use std::{io, thread};

use sealane_stack::{Flow, Pool, Recycle};

/// Loads between being taken and leaving, beyond the one in each lane's hands.
pub const PLACES: usize = 16;

/// One direction of a tunnel: where loads come from, and where they go in the order in which they came.
#[derive(Debug)]
pub struct Way<G, T, R> {
    flow: Flow<G, T, R>,
    loads: Pool<T>,
}

impl<G, T: Recycle + std::fmt::Debug + Send + 'static, R> Way<G, T, R> {
    /// Without a load under way.
    pub fn new(lanes: usize, make: fn() -> T, from: G, to: R) -> Self {
        let loads = Pool::of(PLACES + lanes, make);
        Self { flow: Flow::new(PLACES, from, to), loads }
    }

    /// A lane's life: takes a load in arrival order, works on it beside other lanes, and lets whoever finds the next one in
    /// order send it on. Ports block, so a lane without work sleeps in the kernel.
    ///
    /// # Errors
    /// What `take` or `send` says; the lane ends.
    pub fn run(
        &self,
        mut take: impl FnMut(&mut G, &mut T) -> io::Result<()>,
        mut work: impl FnMut(&mut T),
        mut send: impl FnMut(&mut R, &mut T) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            let mut load = self.loads.take().expect("a load for every place and every lane");
            let mut failure = None;
            let given =
                self.flow.give(|from, _| take(from, &mut load).map_err(|error| failure = Some(error)).ok());
            if let Some(error) = failure {
                self.loads.give(load);
                return Err(error);
            }
            if let Some((ticket, ())) = given {
                work(&mut load);
                self.flow.restore(ticket, load).expect("a place of an open flow");
            } else {
                // Every place is out: wait for the lane that sends, and take along what it left while we looked.
                self.loads.give(load);
                self.flow.with_restored(|_| ());
                thread::yield_now();
            }
            self.drain(&mut send)?;
        }
    }

    /// Sends on what is next in order.
    fn drain(&self, send: &mut impl FnMut(&mut R, &mut T) -> io::Result<()>) -> io::Result<()> {
        let mut failed = None;
        self.flow.drain(
            |_| true,
            |to, mut load| {
                if let Err(error) = send(to, &mut load) {
                    failed.get_or_insert(error);
                }
                self.loads.give(load);
            },
        );
        failed.map_or(Ok(()), Err)
    }
}
