//! The associations of one peer over time: decides when to call, which associations to install, and which to remove.
//! The module has no socket, no clock and no thread.
//!
//! Guarantees: an end receives under an association before the other end is asked to send under it, and receives
//! under an old one for [`Timing::grace`] after its successor, so a rekey loses no packet; a peer has at most
//! [`INBOUND_MAX`] inbound associations, and its offers are accepted no faster than [`Timing::offers`], whatever it
//! does; two ends that call at the same moment end with the same newest pair.

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

/// The maximum number of inbound associations of a peer: the newest, the next one, and those that still drain.
pub const INBOUND_MAX: usize = 8;

/// Time limits and intervals.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The age at which an association gets a successor.
    pub rekey: Duration,
    /// The time for which an end still receives under an old association.
    pub grace: Duration,
    /// The time without any answer after which a peer is called again.
    pub dead: Duration,
    /// The time after a packet of the peer at which it gets a dummy, if it has received nothing from us.
    pub keep_alive: Duration,
    /// The first pause between calls that fail; it doubles up to `retry_max`.
    pub retry: Duration,
    /// The longest pause.
    pub retry_max: Duration,
    /// The pause between accepted offers of the peer, beyond a burst of [`OFFERS_BURST`].
    pub offers: Duration,
}

/// The number of offers of a peer that are accepted at once.
const OFFERS_BURST: u32 = 4;

impl Timing {
    /// Returns the timing for associations that are replaced at this age.
    pub fn rekeyed_after(rekey: Duration) -> Self {
        let s = Duration::from_secs;
        Self {
            rekey,
            grace: s(10),
            dead: s(15),
            keep_alive: s(10),
            retry: s(1),
            retry_max: s(16),
            // No end of ours makes requests by time more often than this; requests by bytes and packets take longer.
            offers: rekey.min(s(5)) / 2,
        }
    }
}

/// The state of the traffic with the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of packets sent to the peer, without dummies.
    pub sent: u64,
    /// The number of packets of the peer that were passed on.
    pub received: u64,
    /// The time of the newest genuine packet, in milliseconds of a clock of the gateway's; 0 if there is none yet.
    pub heard_ms: u64,
    /// The peer's endpoint is known.
    pub has_endpoint: bool,
}

/// A task for the owner of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Call the peer, then [`PeerKeys::begin`].
    Call,
    /// Send the peer a dummy packet (RFC 4303, section 2.6).
    KeepAlive,
}

/// An inbound association that is still in use.
#[derive(Clone, Copy, Debug)]
struct Kept {
    spi: u32,
    /// The time of its removal; `None` if it is the newest or the next one.
    until: Option<Instant>,
}

/// The pair that a called end keeps until the caller receives.
#[derive(Debug)]
struct Promised {
    outbound: Arc<Outbound>,
    inbound: Arc<Inbound>,
}

/// The keys of one peer.
#[derive(Debug)]
pub struct PeerKeys {
    id: PeerId,
    kind: Kind,
    window_packets: u32,
    implementations: Implementations,
    timing: Timing,
    /// The peer has an endpoint to call.
    may_call: bool,
    /// If both ends call at once, this end's call continues.
    goes_first: bool,
    wanted: bool,
    calling: bool,
    call_not_before: Option<Instant>,
    pause: Duration,
    inbound: Vec<Kept>,
    promised: Option<Promised>,
    /// The number of offers that may be accepted now, and the time of that count.
    offers: (u32, Option<Instant>),
    last: Traffic,
    /// The time since which the peer has not answered packets of ours.
    unanswered_since: Option<Instant>,
    /// The time since which a packet to the peer is due as a sign of life.
    owed_since: Option<Instant>,
    /// The peer has to be informed of our endpoint.
    greets: bool,
}

/// The properties of a peer that its keys depend on.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// The peer's id.
    pub id: PeerId,
    /// The kind of protection.
    pub kind: Kind,
    /// The size of the replay window.
    pub window_packets: u32,
    /// The peer has an endpoint to call.
    pub may_call: bool,
    /// If both ends call at once, this end's call continues, because its key is the smaller one.
    pub goes_first: bool,
}

impl PeerKeys {
    /// Returns keys without associations; if this end may call, it does so at once.
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

    /// Returns whether the last call failed.
    pub fn has_failed(&self) -> bool {
        self.call_not_before.is_some()
    }

    /// Handles a request of the lanes for an association.
    pub fn request(&mut self, request: Request) {
        debug_assert_eq!(request.peer(), self.id);
        self.wanted = true;
    }

    /// Checks the traffic and the due times. It is to be called several times per second; it returns one task at a
    /// time. A call that is due waits until `may_call`.
    pub fn poll(
        &mut self,
        database: &Database,
        traffic: Traffic,
        may_call: bool,
        now: Instant,
    ) -> Option<Errand> {
        self.drain(database, now);
        // The caller may have received our answer although its last message was lost: then it sends.
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
        // The caller of an association is the one to call again; the other end waits a little longer.
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

    /// Returns the offer of a call, with a new SPI from `random` that no inbound association has, and with `seen`,
    /// our view of the peer.
    pub fn begin(&self, database: &Database, seen: Seen, random: impl FnMut() -> u32) -> Offer {
        Offer { spi: free_spi(database, self.kind.protocol, random), seen, kind: self.kind }
    }

    /// Accepts an offer at the called end, whose view of the caller is `seen`: it receives from now on, and sends
    /// when the caller is [`Self::ready`] to receive.
    ///
    /// # Errors
    /// Fails with the reason for which the offer is refused.
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

    /// The caller of the last offer receives: this end sends under the association from now on.
    pub fn ready(&mut self, database: &Database, now: Instant) {
        if let Some(Promised { outbound, inbound }) = self.promised.take() {
            self.send_under(database, outbound, inbound.association().parameters().spi, now);
            // The caller learns that packets arrive through this path too.
            self.greets = true;
        }
    }

    /// Processes the end of a call. `outcome` has the offer, the SPI of the called end, and the exported material, or
    /// is `None` if the call failed. Returns whether there is a new pair; the caller then has to confirm to the
    /// called end that it receives.
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
        // A pair from an earlier offer of the peer is older than this one.
        self.promised = None;
        self.send_under(database, outbound, spi, now);
        self.greets = true;
        true
    }

    /// Removes associations that have drained.
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
            // The oldest association that drains, or else the oldest one that was never used.
            let drains = self.inbound.iter().position(|kept| kept.until.is_some());
            let oldest = self.inbound.remove(drains.unwrap_or(0));
            database.remove_inbound(self.kind.protocol, oldest.spi);
        }
        // The SPI was free when it was chosen; if another peer chose the same one in between, this pair would end
        // early.
        if database.install_inbound(Arc::clone(inbound)).is_ok() {
            let until = Some(now + self.timing.rekey + self.timing.grace);
            self.inbound.push(Kept { spi, until });
        }
    }

    /// Sends under `outbound`; associations older than its inbound side drain.
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

/// Returns an SPI that no inbound association has. It is random, so that a restarted end does not use its old ones.
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
