//! One peer's associations through time: when to call, what to install, what to drop. No socket, no clock, no thread.
//!
//! Guarantees: an association is received under before anybody is told to send under it, and an old one is received under for
//! [`Timing::grace`] after its successor, so a rekey loses no packet; a peer has [`INBOUND_MAX`] inbound associations at most,
//! and its offers are taken no faster than [`Timing::offers`], whatever it does; two ends that call at the same moment end with
//! one and the same newest pair.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_engine::Implementations;
use sealane_ipsec::{
    association::{Inbound, Kind, Outbound, Parameters, Protocol},
    database::{Database, Request},
    lifetime::{Lifetime, Limits},
    policy::PeerId,
    sequence::SequenceBits,
};

use crate::keying::agreement::{Answer, Material, Offer, Refusal, Seen};

/// Most inbound associations of a peer: the newest, one to come, and those that still drain.
pub const INBOUND_MAX: usize = 8;

/// How long things take and last.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Age at which an association gets a successor.
    pub rekey: Duration,
    /// For so long an old association is received under.
    pub grace: Duration,
    /// A peer that answers nothing for so long is called anew.
    pub dead: Duration,
    /// A peer that hears nothing from us for so long after it sent gets a dummy.
    pub keep_alive: Duration,
    /// The first pause between calls that fail; it doubles up to `retry_max`.
    pub retry: Duration,
    /// The longest pause.
    pub retry_max: Duration,
    /// Pause between offers of the peer that are taken, beyond a burst of [`OFFERS_BURST`].
    pub offers: Duration,
}

/// Offers of a peer that are taken at once.
const OFFERS_BURST: u32 = 4;

impl Timing {
    /// With associations of this age.
    pub fn rekeyed_after(rekey: Duration) -> Self {
        let s = Duration::from_secs;
        Self {
            rekey,
            grace: s(10),
            dead: s(15),
            keep_alive: s(10),
            retry: s(1),
            retry_max: s(16),
            // No end of ours asks more often than this by time; by bytes and packets it takes longer.
            offers: rekey.min(s(5)) / 2,
        }
    }
}

/// What is known of the traffic with the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets sent to it, dummies left aside.
    pub sent: u64,
    /// Packets of it that were passed on.
    pub received: u64,
    /// When its newest genuine packet came, in milliseconds of a clock of the gateway's; 0: none yet.
    pub heard_ms: u64,
    /// The peer's endpoint is known.
    pub has_endpoint: bool,
}

/// What whoever holds the sockets is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Call the peer, then [`PeerKeys::begin`].
    Call,
    /// Send it a dummy packet (RFC 4303, section 2.6).
    KeepAlive,
}

/// An inbound association that is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    spi: u32,
    /// When it goes; `None`: it is the newest, or to be.
    until: Option<Instant>,
}

/// What a called end holds until the caller receives.
#[derive(Debug)]
struct Promised {
    outbound: Arc<Outbound>,
    inbound: Arc<Inbound>,
}

/// One peer's keys.
#[derive(Debug)]
pub struct PeerKeys {
    id: PeerId,
    kind: Kind,
    window_packets: u32,
    implementations: Implementations,
    timing: Timing,
    /// It has an end point to call.
    may_call: bool,
    /// Of two that call at once, this end's call goes on.
    goes_first: bool,
    wanted: bool,
    calling: bool,
    call_not_before: Option<Instant>,
    pause: Duration,
    inbound: Vec<Kept>,
    promised: Option<Promised>,
    /// Offers that may be taken now, and since when that is counted.
    offers: (u32, Option<Instant>),
    last: Traffic,
    /// Since when it has answered nothing to what we sent.
    unanswered_since: Option<Instant>,
    /// Since when we owe it a sign of life.
    owed_since: Option<Instant>,
    /// It is to learn where we are.
    greets: bool,
}

/// Who a peer is to its keys.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// Its id.
    pub id: PeerId,
    /// How packets are protected.
    pub kind: Kind,
    /// Of the replay window.
    pub window_packets: u32,
    /// It has an end point to call.
    pub may_call: bool,
    /// Of two that call at once, this end's call goes on: its key is the smaller one.
    pub goes_first: bool,
}

impl PeerKeys {
    /// Without associations; one that may call wants the first at once.
    pub fn new(who: Who, implementations: Implementations, timing: Timing) -> Self {
        let Who { id, kind, window_packets, may_call, goes_first } = who;
        Self {
            id,
            kind,
            window_packets,
            implementations,
            timing,
            may_call,
            goes_first,
            wanted: may_call,
            calling: false,
            call_not_before: None,
            pause: timing.retry,
            inbound: Vec::new(),
            promised: None,
            offers: (OFFERS_BURST, None),
            last: Traffic::default(),
            unanswered_since: None,
            owed_since: None,
            greets: false,
        }
    }

    /// Whether the last call came to nothing.
    pub fn has_failed(&self) -> bool {
        self.call_not_before.is_some()
    }

    /// The lanes ask for an association.
    pub fn request(&mut self, request: Request) {
        debug_assert_eq!(request.peer(), self.id);
        self.wanted = true;
    }

    /// Looks at the traffic and at what is due. To be called some times a second; says what is to be done, one at a
    /// time. A call that is due waits until `may_call`.
    pub fn poll(
        &mut self,
        database: &Database,
        traffic: Traffic,
        may_call: bool,
        now: Instant,
    ) -> Option<Errand> {
        self.drain(database, now);
        // The caller may have received our answer although its last word was lost: then it sends.
        if self.promised.as_ref().is_some_and(|promised| promised.inbound.window().top() > 0) {
            self.ready(database, now);
        }
        if traffic.received > self.last.received {
            self.owed_since.get_or_insert(now);
        }
        if traffic.sent > self.last.sent {
            self.unanswered_since.get_or_insert(now);
            self.owed_since = None;
        }
        if traffic.heard_ms != self.last.heard_ms {
            self.unanswered_since = None;
        }
        self.last = traffic;
        let passed = |since: Option<Instant>, pause| since.is_some_and(|since| now >= since + pause);
        if passed(self.unanswered_since, self.timing.dead) {
            self.unanswered_since = None;
            self.wanted = true;
        }
        if self.greets && traffic.has_endpoint || passed(self.owed_since, self.timing.keep_alive) {
            self.greets = false;
            self.owed_since = None;
            return Some(Errand::KeepAlive);
        }
        let may_call_now = self.call_not_before.is_none_or(|at| now >= at);
        if self.wanted && self.may_call && !self.calling && may_call_now && may_call {
            self.calling = true;
            return Some(Errand::Call);
        }
        None
    }

    fn parameters(&self, spi: u32, is_caller: bool) -> Parameters {
        // The caller of an association is the one to call again; the other end waits a little longer for it.
        let rekey = if is_caller { self.timing.rekey } else { self.timing.rekey * 5 / 4 };
        let lifetime = Lifetime {
            soft: Limits { bytes: Some(1 << 40), packets: Some(1 << 31), age: Some(rekey) },
            hard: Limits { bytes: Some(1 << 42), packets: Some(1 << 33), age: Some(3 * self.timing.rekey) },
        };
        Parameters {
            spi,
            peer: self.id,
            protocol: self.kind.protocol,
            mode: self.kind.mode,
            suite: self.kind.suite,
            sequence: SequenceBits::Extended,
            lifetime,
        }
    }

    /// The offer of a call: an index of our choice, from `random`, that no inbound association has, and `seen`, our
    /// view of the peer.
    pub fn begin(&self, database: &Database, seen: Seen, random: impl FnMut() -> u32) -> Offer {
        Offer { spi: free_spi(database, self.kind.protocol, random), seen, kind: self.kind }
    }

    /// The called end, whose view of the caller is `seen`, takes an offer: it receives from now on, and sends when
    /// the caller is [`Self::ready`] to receive.
    ///
    /// # Errors
    /// Why not.
    pub fn offered(
        &mut self,
        database: &Database,
        offer: Offer,
        seen: Seen,
        now: Instant,
        random: impl FnMut() -> u32,
        export: impl FnOnce(u32) -> Option<Material>,
    ) -> Result<Answer, Refusal> {
        if offer.kind != self.kind {
            return Err(Refusal::Suite);
        }
        if self.calling && self.goes_first {
            return Err(Refusal::Busy);
        }
        self.take_offer(now)?;
        let spi = free_spi(database, self.kind.protocol, random);
        let material = export(spi).ok_or(Refusal::TooOften)?;
        let pair = self.pair(false, spi, offer.spi, &material.forth, &material.back, now);
        let (inbound, outbound) = pair.ok_or(Refusal::Suite)?;
        self.receive_under(database, &inbound, now);
        self.promised = Some(Promised { outbound, inbound });
        Ok(Answer::Taken { spi, seen })
    }

    /// The caller of the last offer receives: this end sends under it.
    pub fn ready(&mut self, database: &Database, now: Instant) {
        if let Some(Promised { outbound, inbound }) = self.promised.take() {
            self.send_under(database, outbound, inbound.association().parameters().spi, now);
            // The caller learns that packets come through this way too.
            self.greets = true;
        }
    }

    /// A call has come to an end: with what the exporter gave for the offer and the index of the called end, or with nothing.
    /// Says whether there is a new pair; then the called end is to be told that we receive.
    pub fn called(
        &mut self,
        database: &Database,
        outcome: Option<(Offer, u32, &Material)>,
        now: Instant,
    ) -> bool {
        self.calling = false;
        let pair = outcome.and_then(|(offer, theirs, material)| {
            self.pair(true, offer.spi, theirs, &material.back, &material.forth, now)
        });
        let Some((inbound, outbound)) = pair else {
            self.call_not_before = Some(now + self.pause);
            self.pause = (2 * self.pause).min(self.timing.retry_max);
            return false;
        };
        let spi = inbound.association().parameters().spi;
        self.receive_under(database, &inbound, now);
        // What an older offer of theirs promised is older than this.
        self.promised = None;
        self.send_under(database, outbound, spi, now);
        self.greets = true;
        true
    }

    /// Removes what has drained.
    pub fn drain(&mut self, database: &Database, now: Instant) {
        self.inbound.retain(|kept| {
            let stays = kept.until.is_none_or(|until| now < until);
            if !stays {
                database.remove_inbound(self.kind.protocol, kept.spi);
            }
            stays
        });
    }

    fn take_offer(&mut self, now: Instant) -> Result<(), Refusal> {
        let (left, since) = &mut self.offers;
        let began = *since.get_or_insert(now);
        let earned = (now - began).as_nanos() / self.timing.offers.as_nanos().max(1);
        if earned > 0 {
            *left = u32::try_from(earned).unwrap_or(u32::MAX).saturating_add(*left).min(OFFERS_BURST);
            *since = Some(now);
        }
        *left = left.checked_sub(1).ok_or(Refusal::TooOften)?;
        Ok(())
    }

    fn pair(
        &self,
        is_caller: bool,
        own_spi: u32,
        their_spi: u32,
        inward: &[u8],
        outward: &[u8],
        now: Instant,
    ) -> Option<(Arc<Inbound>, Arc<Outbound>)> {
        let (kernels, window) = (self.implementations, self.window_packets);
        let inbound = Inbound::new(kernels, self.parameters(own_spi, is_caller), inward, window, now).ok()?;
        let outbound = Outbound::new(kernels, self.parameters(their_spi, is_caller), outward, 1, now).ok()?;
        Some((Arc::new(inbound), Arc::new(outbound)))
    }

    fn receive_under(&mut self, database: &Database, inbound: &Arc<Inbound>, now: Instant) {
        let spi = inbound.association().parameters().spi;
        if self.inbound.len() == INBOUND_MAX {
            // The oldest that drains, or the oldest of those that never came to anything.
            let drains = self.inbound.iter().position(|kept| kept.until.is_some());
            let oldest = self.inbound.remove(drains.unwrap_or(0));
            database.remove_inbound(self.kind.protocol, oldest.spi);
        }
        // The index was free when it was chosen; somebody else's choice of the same one in between would end this pair early.
        if database.install_inbound(Arc::clone(inbound)).is_ok() {
            let until = Some(now + self.timing.rekey + self.timing.grace);
            self.inbound.push(Kept { spi, until });
        }
    }

    /// Sends under `outbound`; what is older than its inbound side drains.
    fn send_under(&mut self, database: &Database, outbound: Arc<Outbound>, newest_spi: u32, now: Instant) {
        database.install_outbound(outbound);
        let last = now + self.timing.grace;
        for kept in &mut self.inbound {
            kept.until = match kept.until {
                _ if kept.spi == newest_spi => None,
                Some(until) => Some(until.min(last)),
                None => Some(last),
            };
        }
        self.wanted = false;
        self.pause = self.timing.retry;
        self.call_not_before = None;
        self.unanswered_since = None;
    }
}

/// An index that no inbound association has. Random, so that a restarted end does not meet its old ones.
fn free_spi(database: &Database, protocol: Protocol, mut random: impl FnMut() -> u32) -> u32 {
    let snapshot = database.snapshot();
    loop {
        let spi = random();
        if spi >= 0x100 && !snapshot.inbound.contains_key(&(protocol, spi)) {
            return spi;
        }
    }
}

#[cfg(test)]
mod tests;
