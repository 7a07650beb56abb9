//! FQ-CoDel (RFC 8290): flows take turns, those that send little first, and each has a CoDel of its own.
//!
//! Guarantees: parcels of one flow leave in their order; a parcel leaves whole, or loses segments by CoDel, or is lost as a
//! whole when the memory is full, and then it is one of a flow that has (within a factor of two) the most, or of a flood of flows that
//! were never seen before; a flow that waits has its turn after at most one turn of every other flow and `SPARSE_BYTES` of new flows
//! for each of them; memory is bounded by the charges of the parcels; there is no allocation once the queue was full. Time is a value,
//! in nanoseconds.

use super::codel::Codel;

/// The number of places of a set. Flows share a turn if more of their set have packets.
pub const WAYS: usize = 8;
/// The time for which the place of a flow that has nothing is kept.
const KNOWN_NS: u64 = 1_000_000_000;
/// The bytes that new flows send at most before one that is not new has a turn: a flood of new flows stops nobody.
const SPARSE_BYTES: u32 = 2 * 1514;

/// No flow, or no node.
const NONE: u32 = u32::MAX;
/// Weights of flows are told apart by their powers of two.
const CLASSES: usize = 32;

/// A thing that waits: a packet, or a GSO packet of several segments.
pub trait Parcel {
    /// Returns the bytes of the segments that are left.
    fn left_bytes(&self) -> u32;
    /// Returns the bytes of memory that it takes.
    fn charge_bytes(&self) -> u32;
    /// Removes the first segment that is left, and returns its bytes.
    fn lose_segment(&mut self) -> u32;
    /// Marks what is left as having met congestion; returns `false` if its sender does not know such marks.
    fn mark(&mut self) -> bool;
}

/// Tells the memory behind a parcel.
#[cfg(test)]
pub(super) trait Memory {
    fn memory_bytes(&self) -> usize;
}

/// The fate of something that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was marked by CoDel.
    Marked,
    /// CoDel lost a segment.
    Lost,
    /// Memory was full: these segments were lost with their parcel.
    Full,
}

/// The amount that leaves at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The bytes of the segments together.
    pub most_bytes: u32,
    /// The bytes of a flow's turn.
    pub quantum: i32,
    /// Parcels are not cut: one leaves whole, though it is longer than a turn.
    pub is_whole: bool,
}

/// The user of a queue.
pub trait Taker<T> {
    /// Takes segments of `parcel`, as many as have `most_bytes` together, but one at least. Returns their bytes; 0 if there is
    /// no room for the next one. `waited_ns` is the time since the parcel came.
    fn take(&mut self, parcel: &mut T, most_bytes: u32, waited_ns: u64) -> u32;
    /// Is told what became of a parcel.
    fn met(&mut self, fate: Fate, parcel: &T);
    /// Gets a parcel back that has no segment left, or whose segments are lost.
    fn retire(&mut self, parcel: T);
}

#[derive(Debug)]
struct Node<T> {
    /// `None` in a node that is free.
    parcel: Option<T>,
    since_ns: u64,
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    Idle,
    /// Its first packets wait.
    Fresh,
    /// It was seen before, and sent nothing for a while.
    New,
    Old,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    head: u32,
    tail: u32,
    /// The bytes of its segments, and of their memory.
    bytes: u32,
    charge: u32,
    deficit: i32,
    rank: Rank,
    /// It has sent more than one parcel.
    is_known: bool,
    /// The time of its newest parcel.
    last_ns: u64,
    /// The flow behind it in its list.
    next: u32,
    /// Its neighbours of the same weight.
    before: u32,
    behind: u32,
    codel: Codel,
}

const IDLE: Flow = Flow {
    head: NONE,
    tail: NONE,
    bytes: 0,
    charge: 0,
    deficit: 0,
    rank: Rank::Idle,
    is_known: false,
    last_ns: 0,
    next: NONE,
    before: NONE,
    behind: NONE,
    codel: Codel::NEW,
};

/// Flows in the order of their turns.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn push(&mut self, flows: &mut [Flow], id: u32) {
        flows[id as usize].next = NONE;
        match self.last {
            NONE => self.first = id,
            last => flows[last as usize].next = id,
        }
        self.last = id;
    }

    fn pop(&mut self, flows: &[Flow]) -> Option<u32> {
        let id = self.first;
        if id == NONE {
            return None;
        }
        self.first = flows[id as usize].next;
        if self.first == NONE {
            self.last = NONE;
        }
        Some(id)
    }
}

/// Returns the class of a weight, which is not 0.
fn class(charge: u32) -> usize {
    charge.ilog2() as usize
}

/// The queue.
#[derive(Debug)]
pub struct Fair<T> {
    /// The flows, set by set, and the parts of their hashes by which those of a set are told apart; 0 where there was none. Behind them
    /// is one for each set, which all flows share that find no place there.
    flows: Box<[Flow]>,
    tags: Box<[u32]>,
    nodes: Vec<Node<T>>,
    free: u32,
    fresh: List,
    new: List,
    old: List,
    /// A fresh flow has its turn before a new one.
    is_freshs_turn: bool,
    /// Flows by weight.
    classes: [u32; CLASSES],
    /// The classes that have flows.
    occupied: u32,
    charge: u32,
    /// The charge of the flows that are fresh.
    fresh_charge: u32,
    bytes: u32,
    limit: u32,
    /// The bytes that new flows have sent since an old one had its turn.
    sparse: u32,
}

impl<T: Parcel> Fair<T> {
    /// Returns an empty queue for about `flows` flows, whose parcels take at most `limit_bytes` of memory.
    pub fn new(flows: usize, limit_bytes: u32) -> Self {
        let flows = flows.next_multiple_of(WAYS).max(WAYS);
        Self {
            flows: vec![IDLE; flows / WAYS * (WAYS + 1)].into(),
            tags: vec![0; flows].into(),
            nodes: Vec::new(),
            free: NONE,
            fresh: List::EMPTY,
            is_freshs_turn: false,
            new: List::EMPTY,
            old: List::EMPTY,
            classes: [NONE; CLASSES],
            occupied: 0,
            charge: 0,
            fresh_charge: 0,
            bytes: 0,
            limit: limit_bytes,
            sparse: 0,
        }
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.charge == 0
    }

    /// Returns the bytes of all segments that wait.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns the bytes of memory that is charged.
    pub fn charge(&self) -> u32 {
        self.charge
    }

    /// Returns the place of a flow: its own, one that is free in its set, or that of all flows of the set which find none. As long as
    /// packets wait in that one, flows without a place of their own go there, so that a flow's packets are in one place.
    fn place(&mut self, hash: u64, now_ns: u64) -> u32 {
        let set = hash as usize % (self.tags.len() / WAYS);
        let (first, tag) = (set * WAYS, (hash >> 32) as u32 | 1);
        if let Some(way) = self.tags[first..first + WAYS].iter().position(|own| *own == tag) {
            self.flows[first + way].is_known = true;
            return (first + way) as u32;
        }
        let shared = self.tags.len() + set;
        if self.flows[shared].rank != Rank::Idle {
            return shared as u32;
        }
        let flows = &mut self.flows[first..first + WAYS];
        // Flows that have sent one parcel are forgotten first: a flood of new flows makes nobody unknown.
        let is_old = |flow: &Flow| !flow.is_known || now_ns.saturating_sub(flow.last_ns) > KNOWN_NS;
        let is_free = |flow: &Flow| flow.rank == Rank::Idle && is_old(flow);
        let unknown = flows.iter().position(|flow| is_free(flow) && !flow.is_known);
        let Some(way) = unknown.or_else(|| flows.iter().position(is_free)) else { return shared as u32 };
        (flows[way].is_known, flows[way].codel) = (false, Codel::NEW);
        self.tags[first + way] = tag;
        (first + way) as u32
    }

    /// Returns the memory that is really used.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize
    where
        T: Memory,
    {
        let parcels: usize = self.nodes.iter().flat_map(|node| &node.parcel).map(Memory::memory_bytes).sum();
        let flows = self.flows.len() * (size_of::<Flow>() + size_of::<u32>());
        parcels + flows + self.nodes.capacity() * size_of::<Node<T>>()
    }

    /// Appends a parcel to its flow, which `hash` tells. If the memory is full, other parcels are lost, or this one.
    pub fn push(&mut self, hash: u64, parcel: T, now_ns: u64, quantum: i32, taker: &mut impl Taker<T>) {
        let id = self.place(hash, now_ns);
        let (bytes, charge) = (parcel.left_bytes(), parcel.charge_bytes());
        let node = Node { parcel: Some(parcel), since_ns: now_ns, next: NONE };
        let at = match self.free {
            NONE => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            free => {
                self.free = self.nodes[free as usize].next;
                self.nodes[free as usize] = node;
                free
            }
        };
        let flow = &mut self.flows[id as usize];
        match flow.tail {
            NONE => flow.head = at,
            tail => self.nodes[tail as usize].next = at,
        }
        flow.tail = at;
        flow.last_ns = now_ns;
        if flow.rank == Rank::Idle {
            flow.deficit = quantum;
            flow.rank = if flow.is_known { Rank::New } else { Rank::Fresh };
            let list = if flow.is_known { &mut self.new } else { &mut self.fresh };
            list.push(&mut self.flows, id);
        }
        self.bytes += bytes;
        self.flows[id as usize].bytes += bytes;
        self.weigh(id, i64::from(charge));
        while self.charge > self.limit {
            self.lose_of_heaviest(taker);
        }
    }

    /// Changes the charge of a flow, and its class with it.
    fn weigh(&mut self, id: u32, change: i64) {
        let flow = &mut self.flows[id as usize];
        let old = flow.charge;
        flow.charge = (i64::from(old) + change) as u32;
        self.charge = (i64::from(self.charge) + change) as u32;
        if flow.rank == Rank::Fresh {
            self.fresh_charge = (i64::from(self.fresh_charge) + change) as u32;
        }
        let new = flow.charge;
        let is_same = old > 0 && new > 0 && class(old) == class(new);
        if is_same {
            return;
        }
        if old > 0 {
            let Flow { before, behind, .. } = *flow;
            match before {
                NONE => {
                    self.classes[class(old)] = behind;
                    if behind == NONE {
                        self.occupied &= !(1 << class(old));
                    }
                }
                before => self.flows[before as usize].behind = behind,
            }
            if behind != NONE {
                self.flows[behind as usize].before = before;
            }
        }
        if new > 0 {
            let first = self.classes[class(new)];
            let flow = &mut self.flows[id as usize];
            (flow.before, flow.behind) = (NONE, first);
            if first != NONE {
                self.flows[first as usize].before = id;
            }
            self.classes[class(new)] = id;
            self.occupied |= 1 << class(new);
        }
    }

    /// Removes the parcel at the front of a flow.
    fn pop(&mut self, id: u32) -> Option<T> {
        let flow = &mut self.flows[id as usize];
        let at = flow.head;
        let node = self.nodes.get_mut(at as usize)?;
        let parcel = node.parcel.take()?;
        flow.head = node.next;
        if flow.head == NONE {
            flow.tail = NONE;
        }
        (node.next, self.free) = (self.free, at);
        let left = parcel.left_bytes();
        flow.bytes -= left;
        self.bytes -= left;
        self.weigh(id, -i64::from(parcel.charge_bytes()));
        Some(parcel)
    }

    /// Loses the first parcel of a flow that has the most; if fresh flows have more than half of the memory, of the oldest of those,
    /// so that a flood of flows loses its own.
    pub fn lose_of_heaviest(&mut self, taker: &mut impl Taker<T>) {
        if self.is_empty() {
            return;
        }
        let flood = self.fresh.first;
        let is_flood = flood != NONE && self.fresh_charge > self.limit / 2;
        let of_flood = if is_flood { self.pop(flood) } else { None };
        let heaviest = CLASSES - 1 - self.occupied.leading_zeros() as usize;
        let parcel = of_flood.or_else(|| self.pop(self.classes[heaviest]));
        let parcel = parcel.expect("a flow of weight has a parcel");
        taker.met(Fate::Full, &parcel);
        taker.retire(parcel);
    }

    /// Passes segments to `taker` in the order of the flows' turns, until they have `most_bytes`, `taker` has no room or nothing
    /// waits. Returns the bytes of the segments.
    pub fn serve(&mut self, now_ns: u64, turn: Turn, taker: &mut impl Taker<T>) -> u32 {
        let Turn { most_bytes, quantum, is_whole } = turn;
        let mut served = 0;
        while served < most_bytes {
            let from = self.turn_of();
            if from != Rank::Old {
                self.reap();
            }
            let id = self.list(from).first;
            if id == NONE {
                break;
            }
            if self.flows[id as usize].deficit <= 0 {
                self.flows[id as usize].deficit += quantum;
                self.leave(from, id, true);
                continue;
            }
            self.lose_due(id, now_ns, taker);
            let flow = &mut self.flows[id as usize];
            let Some(node) = self.nodes.get_mut(flow.head as usize) else {
                // RFC 8290, section 4.2: a new flow passes through the old ones, lest it be new again at once.
                let stays = from != Rank::Old && self.old.first != NONE;
                self.leave(from, id, stays);
                continue;
            };
            let parcel = node.parcel.as_mut().expect("a flow's nodes have parcels");
            let left = parcel.left_bytes();
            if is_whole && served > 0 && served + left > most_bytes {
                break;
            }
            let most = if is_whole { left } else { (flow.deficit as u32).min(most_bytes - served) };
            let waited_ns = now_ns.saturating_sub(node.since_ns);
            let bytes = taker.take(parcel, most, waited_ns);
            let is_done = parcel.left_bytes() == 0;
            flow.bytes -= bytes;
            flow.deficit -= bytes as i32;
            self.bytes -= bytes;
            served += bytes;
            self.sparse = if from == Rank::Old { 0 } else { self.sparse.saturating_add(bytes) };
            if is_done && let Some(parcel) = self.pop(id) {
                taker.retire(parcel);
            }
            if bytes == 0 && !is_done {
                break;
            }
        }
        served
    }

    fn list(&mut self, rank: Rank) -> &mut List {
        match rank {
            Rank::Fresh => &mut self.fresh,
            Rank::New => &mut self.new,
            Rank::Old | Rank::Idle => &mut self.old,
        }
    }

    /// Returns the flows of which the next one is: those that send little first, the two kinds of them in turns.
    fn turn_of(&self) -> Rank {
        let [fresh, new, old] = [self.fresh, self.new, self.old].map(|list| list.first != NONE);
        if !fresh && !new || old && self.sparse >= SPARSE_BYTES {
            return Rank::Old;
        }
        if fresh && (!new || self.is_freshs_turn) { Rank::Fresh } else { Rank::New }
    }

    /// Takes flows that have nothing out of the front of the old ones, more than one flow becomes old by: otherwise a flood of
    /// flows of one packet each would leave all flows old, and a sender's own turn would be far.
    fn reap(&mut self) {
        for _ in 0..2 {
            let id = self.old.first;
            if id == NONE || self.flows[id as usize].head != NONE {
                return;
            }
            self.leave(Rank::Old, id, false);
        }
    }

    /// Takes the first flow out of its list, and appends it to the old ones if it `stays`.
    fn leave(&mut self, from: Rank, id: u32, stays: bool) {
        let mut list = *self.list(from);
        let _ = list.pop(&self.flows);
        *self.list(from) = list;
        match from {
            Rank::Fresh => {
                self.fresh_charge -= self.flows[id as usize].charge;
                self.is_freshs_turn = false;
            }
            Rank::New => self.is_freshs_turn = true,
            _ => {}
        }
        self.flows[id as usize].rank = if stays { Rank::Old } else { Rank::Idle };
        if stays {
            self.old.push(&mut self.flows, id);
        }
    }

    /// Has CoDel mark the parcel at the front of a flow, or lose segments.
    fn lose_due(&mut self, id: u32, now_ns: u64, taker: &mut impl Taker<T>) {
        loop {
            let flow = &mut self.flows[id as usize];
            let Some(node) = self.nodes.get_mut(flow.head as usize) else { return };
            let waited_ns = now_ns.saturating_sub(node.since_ns);
            if !flow.codel.is_due(now_ns, waited_ns, flow.bytes) {
                return;
            }
            let parcel = node.parcel.as_mut().expect("a flow's nodes have parcels");
            if parcel.mark() {
                taker.met(Fate::Marked, parcel);
                return;
            }
            taker.met(Fate::Lost, parcel);
            let lost = parcel.lose_segment();
            let is_done = parcel.left_bytes() == 0;
            flow.bytes -= lost;
            self.bytes -= lost;
            if is_done && let Some(parcel) = self.pop(id) {
                taker.retire(parcel);
            }
        }
    }
}

#[cfg(test)]
mod tests;
