//! The order of one flow: assigned before the work fans out, restored after the lanes.
//!
//! Guarantees: places are given in order, to one caller at a time, together with all other values that must be given
//! in order (sequence numbers, keys, timestamps); items leave in the order of their places, each once, in whatever
//! order they came back; at most `capacity` places are out, so a flow that is not drained gives no more
//! (back-pressure); items whose places were given before a cut never leave after it. No lock is held during work: a
//! lane that brings an item back while another lane drains the flow leaves it there, and the other lane takes it
//! along.

use std::fmt;

use crate::{
    OrderRing,
    sync::{AtomicU64, Mutex, MutexGuard, SeqCst},
};

/// A place in a flow's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    /// The number of the flow's opening; it grows with every cut.
    pub generation: u32,
    /// The number of the place in that opening, from 0 on.
    pub number: u64,
}

/// The reason for which an item could not be brought back; it contains the item.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The flow was cut since its place was given.
    Stale(T),
    /// Its place was never given, or has been filled: a mistake of the caller.
    Misplaced(T),
}

impl<T> Refused<T> {
    /// Returns the item.
    pub fn into_inner(self) -> T {
        match self {
            Self::Stale(item) | Self::Misplaced(item) => item,
        }
    }
}

struct Give<G> {
    /// The next place to be given; its generation is the flow's.
    next: Ticket,
    open: bool,
    state: G,
}

struct Ring<T> {
    generation: u32,
    items: OrderRing<T>,
}

/// The value has its own cache lines; otherwise lanes that give and lanes that restore would take the lines from each
/// other at every place.
#[repr(align(128))]
struct Apart<T>(T);

/// One flow's order. `G` is the state in whose order places are given, `T` the type of the items that are brought
/// back, `R` the state that takes them in order.
pub struct Flow<G, T, R> {
    give: Apart<Mutex<Give<G>>>,
    ring: Apart<Mutex<Ring<T>>>,
    restore: Apart<Mutex<R>>,
    /// The oldest place that is out; giving reads it without a lock of the other side.
    head: Apart<AtomicU64>,
    /// The next place to be given, for reads without a lock; [`CLOSED`] while the flow is closed.
    next: Apart<AtomicU64>,
    capacity: u64,
}

impl<G, T, R> fmt::Debug for Flow<G, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("head", &self.head.0)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// A value beyond any place.
const CLOSED: u64 = u64::MAX;

const HELD: &str = "no lane panics holding a flow";

impl<G, T, R> Flow<G, T, R> {
    /// Returns an open flow of which at most `capacity` places (at least 1) are out at a time.
    pub fn new(capacity: usize, given: G, restored: R) -> Self {
        let capacity = capacity.max(1);
        Self {
            give: Apart(Mutex::new(Give { next: Ticket::default(), open: true, state: given })),
            ring: Apart(Mutex::new(Ring { generation: 0, items: OrderRing::new(0, capacity) })),
            restore: Apart(Mutex::new(restored)),
            head: Apart(AtomicU64::new(0)),
            next: Apart(AtomicU64::new(0)),
            capacity: capacity as u64,
        }
    }

    fn giving(&self) -> MutexGuard<'_, Give<G>> {
        self.give.0.lock().expect(HELD)
    }

    fn ring(&self) -> MutexGuard<'_, Ring<T>> {
        self.ring.0.lock().expect(HELD)
    }

    fn has_place(&self, give: &Give<G>) -> bool {
        give.open && give.next.number - self.head.0.load(SeqCst) < self.capacity
    }

    /// Returns whether a place could be given now, without a lock: idle lanes call this repeatedly.
    pub fn has_room(&self) -> bool {
        let next = self.next.0.load(SeqCst);
        next.saturating_sub(self.head.0.load(SeqCst)) < self.capacity
    }

    /// Gives the next place together with the value that `take` returns. Returns `None` if the flow is cut,
    /// `capacity` places are out, or `take` returns `None`: then no place is given.
    pub fn give<O>(&self, take: impl FnOnce(&mut G, Ticket) -> Option<O>) -> Option<(Ticket, O)> {
        self.give_held(&mut self.giving(), take)
    }

    /// Does the same as [`Self::give`] without waiting for another lane: returns `None` also while another lane
    /// gives.
    pub fn try_give<O>(&self, take: impl FnOnce(&mut G, Ticket) -> Option<O>) -> Option<(Ticket, O)> {
        self.give_held(&mut *self.give.0.try_lock().ok()?, take)
    }

    fn give_held<O>(
        &self,
        give: &mut Give<G>,
        take: impl FnOnce(&mut G, Ticket) -> Option<O>,
    ) -> Option<(Ticket, O)> {
        if !self.has_place(give) {
            return None;
        }
        let ticket = give.next;
        let taken = take(&mut give.state, ticket)?;
        give.next.number += 1;
        self.next.0.store(give.next.number, SeqCst);
        Some((ticket, taken))
    }

    /// Calls `look` with the state of the giving side, between two places.
    pub fn with_given<O>(&self, look: impl FnOnce(&mut G) -> O) -> O {
        look(&mut self.giving().state)
    }

    /// Brings an item back to its place.
    ///
    /// # Errors
    /// Hands the item back if the flow was cut meanwhile, or if the place is not its own.
    pub fn restore(&self, ticket: Ticket, item: T) -> Result<(), Refused<T>> {
        let mut ring = self.ring();
        if ring.generation != ticket.generation {
            return Err(Refused::Stale(item));
        }
        ring.items.insert(ticket.number, item).map_err(Refused::Misplaced)
    }

    /// Returns the number of places before this one that are still out or waited for.
    pub fn ahead(&self, ticket: Ticket) -> u64 {
        ticket.number.saturating_sub(self.head.0.load(SeqCst))
    }

    /// Returns whether the next item in order is there.
    pub fn is_ready(&self) -> bool {
        self.ring().items.is_ready()
    }

    /// Returns the number of places that are out: given, and not yet taken in order.
    pub fn out(&self) -> u64 {
        let give = self.giving();
        give.next.number - self.head.0.load(SeqCst)
    }

    /// Passes every item that is next in order to `take`, until one is missing or `may_take` returns false. Returns
    /// the number of items; 0 also if another lane is draining, which then takes along the items that are there.
    /// `may_take` is called before each item and again after the last one, so that it may finish an operation that
    /// `take` has begun. Neither function may cut this flow or give places on it.
    pub fn drain(&self, may_take: impl FnMut(&mut R) -> bool, take: impl FnMut(&mut R, T)) -> usize {
        self.visit(may_take, take, |_| ())
    }

    /// Does the same as [`Self::drain`], and calls `look` with the state that has taken all items, from the same lane
    /// while it holds the state. Items that another lane leaves meanwhile are taken and looked at as well.
    pub fn visit(
        &self,
        mut may_take: impl FnMut(&mut R) -> bool,
        mut take: impl FnMut(&mut R, T),
        mut look: impl FnMut(&mut R),
    ) -> usize {
        let mut taken = 0;
        loop {
            let Ok(mut state) = self.restore.0.try_lock() else { return taken };
            let mut held_back = false;
            loop {
                if !may_take(&mut state) {
                    held_back = true;
                    break;
                }
                let (item, is_last) = {
                    let mut ring = self.ring();
                    let item = ring.items.pop();
                    self.head.0.store(ring.items.head(), SeqCst);
                    (item, !ring.items.is_ready())
                };
                let Some(item) = item else { break };
                take(&mut state, item);
                taken += 1;
                if is_last {
                    // `may_take` may be the function that sends the item on. The look after the release, which is
                    // necessary in any case, detects an item that has come meanwhile: the ring need not be locked
                    // once more for that.
                    held_back = !may_take(&mut state);
                    break;
                }
            }
            look(&mut state);
            drop(state);
            // A lane that brought an item between the last look and the release found the lock taken, and relies on
            // this look.
            if held_back || !self.is_ready() {
                return taken;
            }
        }
    }

    /// Calls `look` with the state that takes in order, once no lane takes. Items that are brought meanwhile wait for
    /// the next call of [`Self::drain`]; a caller that cannot rely on another one to follow uses [`Self::visit`].
    pub fn with_restored<O>(&self, look: impl FnOnce(&mut R) -> O) -> O {
        look(&mut self.restore.0.lock().expect(HELD))
    }

    /// Gives no more places until [`Self::open`]; items that are out may still be brought back, and leave in order.
    pub fn close<O>(&self, end: impl FnOnce(&mut G) -> O) -> O {
        let mut give = self.giving();
        give.open = false;
        self.next.0.store(CLOSED, SeqCst);
        end(&mut give.state)
    }

    /// Ends this opening: no more places are given, waiting items are handed over in order, and items that are still
    /// out will be refused as stale. `end` gets both states, while nobody else has access to them.
    pub fn cut<O>(&self, end: impl FnOnce(&mut G, &mut R, Vec<T>) -> O) -> O {
        let mut give = self.giving();
        let mut restore = self.restore.0.lock().expect(HELD);
        let mut ring = self.ring();
        give.open = false;
        self.next.0.store(CLOSED, SeqCst);
        // Places restart from number 0 of a generation that no ticket has yet.
        let generation = ring.generation.checked_add(1).expect("fewer cuts than 2^32");
        give.next = Ticket { generation, number: 0 };
        ring.generation = generation;
        let waiting = ring.items.drain().collect();
        ring.items = OrderRing::new(0, ring.items.capacity());
        self.head.0.store(0, SeqCst);
        drop(ring);
        end(&mut give.state, &mut restore, waiting)
    }

    /// Opens the flow again after [`Self::cut`] or [`Self::close`]; `begin` may set both states. Returns the
    /// generation.
    pub fn open(&self, begin: impl FnOnce(&mut G, &mut R)) -> u32 {
        let mut give = self.giving();
        let mut restore = self.restore.0.lock().expect(HELD);
        begin(&mut give.state, &mut restore);
        give.open = true;
        self.next.0.store(give.next.number, SeqCst);
        give.next.generation
    }

    /// Returns the generation of the present opening, or of the next one if the flow is closed.
    pub fn generation(&self) -> u32 {
        self.giving().next.generation
    }
}
