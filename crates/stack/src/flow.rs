//! The order of one flow: given before work fans out, restored behind the lanes.
//!
//! Guarantees: places are given in order, one holder at a time, and with them whatever else must be given in order
//! (sequence numbers, keys, timestamps); what comes back leaves in the order of the places, each once, whatever order it
//! came in; at most `capacity` places are out, so a flow that is not drained gives no more (back-pressure); what was
//! given before a cut never leaves after it. No lock is held over work: a lane that brings an item back while another
//! drains the flow leaves it there, and the other takes it along.

use std::fmt;

use crate::{
    OrderRing,
    sync::{AtomicU64, Mutex, MutexGuard, SeqCst},
};

/// A place in a flow's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    /// Which opening of the flow; it grows with every cut.
    pub generation: u32,
    /// Which place in that opening, from 0 on.
    pub number: u64,
}

/// Why an item could not be brought back; the item is handed back with it.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The flow was cut since its place was given.
    Stale(T),
    /// Its place was never given, or has been filled: a fault of the caller.
    Misplaced(T),
}

impl<T> Refused<T> {
    /// The item.
    pub fn into_inner(self) -> T {
        match self {
            Self::Stale(item) | Self::Misplaced(item) => item,
        }
    }
}

struct Give<G> {
    /// Next to be given; its generation is the flow's.
    next: Ticket,
    open: bool,
    state: G,
}

struct Ring<T> {
    generation: u32,
    items: OrderRing<T>,
}

/// On cache lines of its own: lanes that give and lanes that restore would else take them from each other at every place.
#[repr(align(128))]
struct Apart<T>(T);

/// One flow's order. `G` is the state in whose order places are given, `T` what is brought back, `R` the state that
/// takes it in order.
pub struct Flow<G, T, R> {
    give: Apart<Mutex<Give<G>>>,
    ring: Apart<Mutex<Ring<T>>>,
    restore: Apart<Mutex<R>>,
    /// The oldest place that is out, for whoever gives: a look at it needs no lock of the other side.
    head: Apart<AtomicU64>,
    /// The next place to be given, for whoever only looks; [`CLOSED`] while there is none.
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

/// Further than any place.
const CLOSED: u64 = u64::MAX;

const HELD: &str = "no lane panics holding a flow";

impl<G, T, R> Flow<G, T, R> {
    /// An open flow of which at most `capacity` places (at least 1) are out at a time.
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

    /// Whether a place could be given now, without a lock: lanes that find nothing to do ask again and again.
    pub fn has_room(&self) -> bool {
        let next = self.next.0.load(SeqCst);
        next.saturating_sub(self.head.0.load(SeqCst)) < self.capacity
    }

    /// Gives the next place, and whatever `take` takes in the same order. `None` when the flow is cut, as many places
    /// are out as there may be, or `take` has nothing: then no place is given.
    pub fn give<O>(&self, take: impl FnOnce(&mut G, Ticket) -> Option<O>) -> Option<(Ticket, O)> {
        self.give_held(&mut self.giving(), take)
    }

    /// [`Self::give`] that does not wait for another lane: `None` also while one gives.
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

    /// Looks at the state of whoever gives, between two places.
    pub fn with_given<O>(&self, look: impl FnOnce(&mut G) -> O) -> O {
        look(&mut self.giving().state)
    }

    /// Brings an item back to its place.
    ///
    /// # Errors
    /// Hands it back if the flow was cut meanwhile, or if the place is not its own.
    pub fn restore(&self, ticket: Ticket, item: T) -> Result<(), Refused<T>> {
        let mut ring = self.ring();
        if ring.generation != ticket.generation {
            return Err(Refused::Stale(item));
        }
        ring.items.insert(ticket.number, item).map_err(Refused::Misplaced)
    }

    /// How many places before this one are still out or waited for.
    pub fn ahead(&self, ticket: Ticket) -> u64 {
        ticket.number.saturating_sub(self.head.0.load(SeqCst))
    }

    /// Whether the next item in order is there.
    pub fn is_ready(&self) -> bool {
        self.ring().items.is_ready()
    }

    /// How many places are out: given, and not yet taken in order.
    pub fn out(&self) -> u64 {
        let give = self.giving();
        give.next.number - self.head.0.load(SeqCst)
    }

    /// Hands every item that is next in order to `take`, until one is missing or `may_take` says no. Returns how many;
    /// 0 also when another lane is at it, which then takes along what is there. `may_take` is asked before each item and
    /// again behind the last one, so that it may finish what `take` has begun. Neither may cut or give on this flow.
    pub fn drain(&self, may_take: impl FnMut(&mut R) -> bool, take: impl FnMut(&mut R, T)) -> usize {
        self.visit(may_take, take, |_| ())
    }

    /// [`Self::drain`], and a `look` at the state that has taken all there was, by the same lane in the same hold. What
    /// another lane leaves meanwhile is taken and looked at as well.
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
                    // `may_take` may be what sends the item on. The look behind the release, which is due in any case,
                    // sees an item that has come meanwhile: the ring need not be locked once more for that.
                    held_back = !may_take(&mut state);
                    break;
                }
            }
            look(&mut state);
            drop(state);
            // What came between the last look and the release found the lock taken; its bringer relies on this look.
            if held_back || !self.is_ready() {
                return taken;
            }
        }
    }

    /// Looks at the state that takes in order, once no lane takes. What is brought meanwhile waits for the next
    /// [`Self::drain`]: whoever looks and relies on nobody to come after him uses [`Self::visit`].
    pub fn with_restored<O>(&self, look: impl FnOnce(&mut R) -> O) -> O {
        look(&mut self.restore.0.lock().expect(HELD))
    }

    /// Gives no more places until [`Self::open`]; what is out may still be brought back, and leaves in order.
    pub fn close<O>(&self, end: impl FnOnce(&mut G) -> O) -> O {
        let mut give = self.giving();
        give.open = false;
        self.next.0.store(CLOSED, SeqCst);
        end(&mut give.state)
    }

    /// Ends this opening: no more places are given, items that wait are handed over in order, and items that are still
    /// out will be refused as stale. `end` sees both states, while nobody else does.
    pub fn cut<O>(&self, end: impl FnOnce(&mut G, &mut R, Vec<T>) -> O) -> O {
        let mut give = self.giving();
        let mut restore = self.restore.0.lock().expect(HELD);
        let mut ring = self.ring();
        give.open = false;
        self.next.0.store(CLOSED, SeqCst);
        // Anew from number 0 of a generation that no ticket has yet.
        let generation = ring.generation.checked_add(1).expect("fewer cuts than 2^32");
        give.next = Ticket { generation, number: 0 };
        ring.generation = generation;
        let waiting = ring.items.drain().collect();
        ring.items = OrderRing::new(0, ring.items.capacity());
        self.head.0.store(0, SeqCst);
        drop(ring);
        end(&mut give.state, &mut restore, waiting)
    }

    /// Opens the flow again after [`Self::cut`] or [`Self::close`], with both states as `begin` leaves them. Returns the generation.
    pub fn open(&self, begin: impl FnOnce(&mut G, &mut R)) -> u32 {
        let mut give = self.giving();
        let mut restore = self.restore.0.lock().expect(HELD);
        begin(&mut give.state, &mut restore);
        give.open = true;
        self.next.0.store(give.next.number, SeqCst);
        give.next.generation
    }

    /// Which opening is or comes next.
    pub fn generation(&self) -> u32 {
        self.giving().next.generation
    }
}
