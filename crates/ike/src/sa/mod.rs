//! The state machine of one IKE SA.
//!
//! Guarantees: messages are handled in the order of their arrival; one request of ours is under way at a time, and
//! others wait in a bounded queue; each request of the peer is answered once, and its repetition with the same bytes;
//! one table says which exchange is legal in which state ([`Phase::allows`]).

mod addresses;
mod answer;
mod auth;
mod child;
mod create;
mod eap;
mod establish;
mod exchange;
#[cfg(test)]
mod hostile;
mod inform;
mod nat;
mod open;
mod opening;
mod parts;
mod proved;
mod rekey;
mod respond;
mod under_way;

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

pub(crate) use addresses::Addresses;
pub(crate) use child::Child;
use child::Standing;
pub(crate) use nat::Nat;
pub(crate) use opening::Opening;
pub(crate) use parts::Parts;
pub(crate) use respond::{Agreed, Answer, FirstMessage, only_notify};

#[cfg(test)]
use self::under_way::InFlight as InFlightForTests;
use self::under_way::{Followup, Outstanding, Replies};
use crate::{
    brake::Brake,
    config::{Peer, Settings},
    event::{Event, Path, Reason, Transmit},
    id::{ChildId, IkeId},
    keys::{IkeKeys, KeyPlan},
    message::Envelope,
    pool::{Holder, Leases},
    random::Random,
    wire::{Announcement, Exchange, Header, Spis, TrafficSelector},
};

/// Maximum number of waiting tasks.
const MAX_TASKS: usize = 64;
/// Maximum number of deletions that may have overtaken an answer.
const MAX_OVERTAKEN: usize = 16;
/// Maximum number of times that the pause after a refusal doubles.
const MAX_DOUBLINGS: u32 = 6;
/// Maximum number of children of one IKE SA; a peer may request that many.
const MAX_CHILDREN: usize = 256;

/// The role of this end in the IKE SA's negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

/// Optional features that both ends support.
#[derive(Clone, Debug, Default)]
pub(crate) struct Features {
    pub(crate) fragmentation: bool,
    pub(crate) mobike: bool,
    pub(crate) childless: bool,
    pub(crate) hashes: Vec<u16>,
    /// The methods that the other end has announced (RFC 9593).
    pub(crate) methods: Option<Vec<Announcement>>,
}

/// The states of an IKE SA.
pub(crate) enum Phase {
    /// At least one end has not proved its identity.
    Opening(Box<Opening>),
    Established,
    /// The IKE SA has no children. Either its successor has them, and the end that began the rekeying deletes this
    /// IKE SA; or it is itself a successor, and a collision decides whether it gets them.
    Spare,
    /// Our deletion is under way.
    Closing,
    /// Nothing is left except an answer that may have to be sent again, until the deadline.
    Finished,
}

impl Phase {
    /// Returns whether a request of the peer is legal now (RFC 7296, sections 1.2 and 2.21; RFC 9242, section 3.2). A
    /// child before both ends have proved their identities would carry a stranger's traffic.
    fn allows(&self, exchange: Exchange) -> bool {
        match (self, exchange) {
            (Self::Opening(opening), Exchange::Intermediate) => opening.expects_intermediate(),
            (Self::Opening(opening), Exchange::Auth) => opening.expects_auth(),
            (Self::Opening(_), _) => false,
            (
                Self::Established | Self::Spare | Self::Closing,
                Exchange::CreateChild | Exchange::Informational | Exchange::FollowupKe,
            ) => true,
            (Self::Established | Self::Spare | Self::Closing | Self::Finished, _) => false,
        }
    }
}

/// A request that is still to be sent to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    AddChild {
        policy: usize,
        trigger: Option<(TrafficSelector, TrafficSelector)>,
        resource: Option<u32>,
    },
    RekeyChild(ChildId),
    DeleteChild(ChildId),
    RekeyIke,
    DeleteIke(Reason),
    Probe,
    /// Announces our new address to the peer.
    Move,
    /// Asks for proof that the peer can be reached at its new address.
    CheckPath {
        cookie: Vec<u8>,
        path: Path,
    },
}

/// A request of the peer, without its content.
#[derive(Clone, Copy)]
struct Incoming<'a> {
    header: &'a Header,
    path: Path,
}

/// The parts of the endpoint that an IKE SA needs.
pub(crate) struct Context<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) peers: &'a [Arc<Peer>],
    pub(crate) random: &'a mut Random,
    pub(crate) output: &'a mut Output,
    pub(crate) now: Instant,
}

/// Output of IKE SAs for the endpoint.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
    /// IKE SAs that a rekeying has created.
    pub(crate) spawned: Vec<Sa>,
    /// Children and tasks for IKE SAs that already belong to the endpoint.
    pub(crate) handed_over: Vec<HandOver>,
    /// Peers that announced that none of their earlier IKE SAs is left.
    pub(crate) initial_contacts: Vec<InitialContact>,
    /// Whether no other IKE SA with the peer is established or being negotiated; used for one that we initiate.
    pub(crate) is_first_contact: bool,
    /// Inbound SPIs of ESP that are in use.
    pub(crate) esp_spis: HashSet<u32>,
    pub(crate) next_child: u64,
    /// Leases of each pool.
    pub(crate) leases: Vec<Leases>,
    /// Failed proofs of strangers.
    pub(crate) brake: Brake,
}

/// A peer that has proved its identity and announced that it has no earlier IKE SA.
pub(crate) struct InitialContact {
    pub(crate) peer: usize,
    pub(crate) holder: Holder,
    /// When its negotiation began: IKE SAs that were established before are gone, later ones are not.
    pub(crate) began: Instant,
    /// The address and port that it comes from.
    pub(crate) from: std::net::SocketAddr,
}

/// Children and tasks of an IKE SA on their way to its successor.
pub(crate) struct HandOver {
    pub(crate) ike: IkeId,
    pub(crate) peer: usize,
    /// Our SPI of the successor.
    pub(crate) to: u64,
    pub(crate) children: Vec<Child>,
    pub(crate) tasks: VecDeque<Task>,
}

impl Output {
    pub(crate) fn event(&mut self, event: Event) {
        if let Event::Down { ike, .. } = event {
            self.leases.iter_mut().for_each(|leases| leases.release(ike));
        }
        self.events.push_back(event);
    }

    fn child_id(&mut self) -> ChildId {
        self.next_child += 1;
        ChildId(self.next_child)
    }
}

impl Context<'_> {
    /// Returns an unused inbound SPI of ESP, not below 256 (RFC 4303, section 2.1).
    fn esp_spi(&mut self) -> u32 {
        loop {
            let spi = u32::from_be_bytes(self.random.bytes());
            if spi >= 0x100 && self.output.esp_spis.insert(spi) {
                return spi;
            }
        }
    }
}

/// An IKE SA.
pub(crate) struct Sa {
    pub(crate) id: IkeId,
    pub(crate) role: Role,
    pub(crate) spis: Spis,
    /// The peer's place and configuration; for a responder that does not know the peer's identity yet, those of the
    /// first candidate.
    pub(crate) peer_index: usize,
    pub(crate) peer: Arc<Peer>,
    pub(crate) path: Path,
    pub(crate) nat: Nat,
    pub(crate) features: Features,
    pub(crate) plan: Option<KeyPlan>,
    pub(crate) keys: Option<IkeKeys>,
    pub(crate) phase: Phase,
    /// The peer's identity as the owner of addresses, after the peer has proved it.
    pub(crate) holder: Option<Holder>,
    /// The certificates that the peer has proved itself with, its own first.
    chain: Vec<Vec<u8>>,
    pub(crate) addresses: Addresses,
    /// The role of this end in the negotiation of the first of the IKE SAs that have replaced each other.
    pub(crate) origin: Role,
    pub(crate) began: Instant,
    pub(crate) stands_since: Option<Instant>,
    pub(crate) children: Vec<Child>,
    outstanding: Option<Outstanding>,
    next_request: u32,
    replies: Replies,
    tasks: VecDeque<Task>,
    delayed: Vec<(Instant, Task)>,
    /// A negotiation of the peer that continues in IKE_FOLLOWUP_KE.
    followup: Option<Box<Followup>>,
    /// The peer's SPIs of children that it has deleted while a child of ours was being made: the deletion may have overtaken
    /// the answer that makes the child.
    overtaken: Vec<u32>,
    /// When the negotiation is forgotten, if the peer does not continue it.
    followup_until: Option<Instant>,
    heard: Instant,
    rekey_at: Option<Instant>,
    /// Whether another IKE SA with the same number has replaced this one, or its end is reported already, so that its end
    /// is not reported.
    is_spare: bool,
    /// Somebody with the same identity has said that this IKE SA is gone; it is, unless the peer is heard.
    is_doubted: bool,
    /// The peer seems to have lost its state: it gets fewer tries to answer.
    is_suspected: bool,
    /// Number of times that the peer has refused a successor of this IKE SA.
    refusals: u32,
    /// When the IKE SA ends in any case; set if it is half-open, replaced or finished.
    expires_at: Option<Instant>,
    keepalive_at: Option<Instant>,
}

impl Sa {
    pub(crate) fn new(
        id: IkeId,
        role: Role,
        spis: Spis,
        (peer_index, peer): (usize, Arc<Peer>),
        path: Path,
        phase: Phase,
        now: Instant,
    ) -> Self {
        Self {
            id,
            role,
            spis,
            peer_index,
            peer,
            path,
            nat: Nat::default(),
            features: Features::default(),
            plan: None,
            keys: None,
            phase,
            holder: None,
            chain: Vec::new(),
            addresses: Addresses::default(),
            origin: role,
            began: now,
            stands_since: None,
            children: Vec::new(),
            outstanding: None,
            next_request: 0,
            replies: Replies::default(),
            tasks: VecDeque::new(),
            delayed: Vec::new(),
            followup: None,
            overtaken: Vec::new(),
            followup_until: None,
            heard: now,
            rekey_at: None,
            is_spare: false,
            is_doubted: false,
            is_suspected: false,
            refusals: 0,
            expires_at: None,
            keepalive_at: None,
        }
    }

    /// Returns our SPI, by which its messages are found.
    pub(crate) fn local_spi(&self) -> u64 {
        match self.role {
            Role::Initiator => self.spis.initiator,
            Role::Responder => self.spis.responder,
        }
    }

    /// Forgets the request under way, so that a test can send another.
    #[cfg(test)]
    fn forget_request_for_tests(&mut self) {
        self.outstanding = None;
    }

    /// Returns whether the configuration of a peer is in use. An initiator that has not proved itself is judged by the
    /// configuration of that time.
    pub(crate) fn is_with(&self, place: usize) -> bool {
        let is_judged = match &self.phase {
            Phase::Opening(opening) => opening.rounds.is_some() || self.role == Role::Initiator,
            _ => true,
        };
        is_judged && self.peer_index == place
    }

    pub(crate) fn is_half_open(&self) -> bool {
        self.role == Role::Responder && matches!(self.phase, Phase::Opening(_))
    }

    /// Returns the time of an initiator's first message if it has sent no other one, or if its proof was wrong.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        let is_silent = self.is_finished() || self.replies.expected <= 1;
        is_silent.then_some(self.began)
    }

    /// Returns whether we initiated the IKE SA, and it is not established yet.
    pub(crate) fn is_beginning(&self) -> bool {
        self.role == Role::Initiator && matches!(self.phase, Phase::Opening(_))
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Established)
    }

    /// Returns whether the peer has begun the negotiation, at an address of ours.
    pub(crate) fn is_called(&self) -> bool {
        self.origin == Role::Responder
    }

    /// Returns the time of the peer's last genuine message or packet.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// Returns the time at which the IKE SA is rekeyed.
    pub(crate) fn rekey_at(&self) -> Option<Instant> {
        self.rekey_at
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished)
    }

    /// Returns whether the endpoint can forget the IKE SA.
    pub(crate) fn is_gone(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Finished) && self.expires_at.is_none_or(|at| at <= now)
    }

    fn envelope(&self, exchange: Exchange, is_response: bool, message_id: u32) -> Envelope {
        Envelope {
            spis: self.spis,
            exchange,
            is_from_initiator: self.role == Role::Initiator,
            is_response,
            message_id,
        }
    }

    /// Appends a task to the queue, unless it is already waiting.
    pub(crate) fn enqueue(&mut self, task: Task) {
        if self.tasks.len() < MAX_TASKS && !self.tasks.contains(&task) {
            self.tasks.push_back(task);
        }
    }

    /// Schedules another attempt at a task.
    fn retry(&mut self, context: &mut Context<'_>, task: Task) {
        self.retry_after(context, task, 0);
    }

    /// Schedules another attempt at a task that has been refused `refusals` times before: each pause is twice the one before.
    fn retry_after(&mut self, context: &mut Context<'_>, task: Task, refusals: u32) {
        let pause = context.settings.retransmission.first * (1 << refusals.min(MAX_DOUBLINGS));
        let at = context.random.later(context.now + pause, pause * 4);
        if self.delayed.len() < MAX_TASKS && !self.delayed.iter().any(|(_, waiting)| *waiting == task) {
            self.delayed.push((at, task));
        }
    }

    /// Ends the children, then the IKE SA. An answer that was sent may still be repeated for a while.
    pub(crate) fn fail(&mut self, context: &mut Context<'_>, reason: Reason) {
        if matches!(self.phase, Phase::Finished) {
            return;
        }
        for child in std::mem::take(&mut self.children) {
            child.end(context, &reason);
        }
        self.release_pending(context);
        self.report_end(context, reason);
        self.phase = Phase::Finished;
        self.outstanding = None;
        self.tasks.clear();
        self.delayed.clear();
        self.rekey_at = None;
        self.keepalive_at = None;
        self.expires_at = Some(context.now + context.settings.retransmission.total());
    }

    /// Returns the time after which the peer has done what it is to do, or does not do it.
    fn patience(&self, context: &Context<'_>) -> std::time::Duration {
        2 * context.settings.retransmission.total()
    }

    /// Gives children that the peer is to delete a deadline: if it does not, we do.
    fn limit_children(&mut self, context: &Context<'_>) {
        let until = context.now + self.patience(context);
        let ending = self.children.iter_mut().filter(|child| child.standing != Standing::Active);
        ending.for_each(|child| {
            child.ends_at.get_or_insert(until);
        });
    }

    /// Reports the end, once.
    fn report_end(&mut self, context: &mut Context<'_>, reason: Reason) {
        if !std::mem::replace(&mut self.is_spare, true) {
            let peer = (!self.is_half_open()).then_some(self.peer_index);
            let from = self.path.remote;
            if let (true, Reason::Authentication { identity, .. }) = (self.is_half_open(), &reason) {
                context.output.brake.fail(from.ip(), identity, context.now);
            }
            context.output.event(Event::Down { ike: self.id, peer, from, reason });
        }
    }

    /// Ends the IKE SA here and now, and tells the peer.
    pub(crate) fn end_at_once(&mut self, context: &mut Context<'_>, reason: Reason) {
        if !self.is_established() || self.outstanding.is_some() {
            // The peer hears of one request at a time, and does not answer the one under way.
            return self.fail(context, reason);
        }
        for child in std::mem::take(&mut self.children) {
            child.end(context, &reason);
        }
        self.release_pending(context);
        self.report_end(context, reason.clone());
        self.tasks.clear();
        self.delayed.clear();
        self.rekey_at = None;
        self.keepalive_at = None;
        self.request_deletion(context, reason);
        // Nobody waits for the answer, and those who begin again and again leave little behind.
        self.expires_at = Some(context.now + context.settings.retransmission.pause(0) * 4);
    }

    /// Asks the peer whether it has this IKE SA, because somebody with the same identity says that it is gone. Unless the
    /// peer answers, it has been replaced.
    pub(crate) fn doubt(&mut self, context: &mut Context<'_>) {
        self.is_doubted = true;
        self.probe(context);
    }

    /// Asks the peer whether it is alive, because something seems to say that it has lost its state.
    pub(crate) fn suspect(&mut self, context: &mut Context<'_>) {
        if self.is_established() && !self.is_suspected {
            self.is_suspected = true;
            self.probe(context);
        }
    }

    /// Returns the time of the next action.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        // An IKE SA that is ending renews nothing: a deadline without an action would recur endlessly.
        let stands = self.is_established();
        let rekey = self.rekey_at.filter(|_| stands);
        let times = |child: &Child| child.rekey_at.into_iter().chain(child.ends_at);
        let children = self.children.iter().flat_map(times).filter(|_| stands);
        let followup = self.followup_until.filter(|_| stands);
        let is_idle = self.outstanding.is_none();
        let delayed = self.delayed.iter().map(|(at, _)| *at).filter(|_| stands && is_idle);
        let request = self.outstanding.as_ref().map(|outstanding| outstanding.next_at);
        [request, rekey, followup, self.expires_at, self.keepalive_at, self.probe_at()]
            .into_iter()
            .flatten()
            .chain(children)
            .chain(delayed)
            .min()
    }

    fn probe_at(&self) -> Option<Instant> {
        let after = self.peer.probe_after.filter(|_| self.is_established() && self.outstanding.is_none())?;
        Some(self.heard + after)
    }

    /// Performs the actions that are due.
    pub(crate) fn handle_timeout(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.expires_at) {
            let reason = if self.is_half_open() { Reason::Abandoned } else { Reason::Timeout };
            self.fail(context, reason);
            self.expires_at = None;
            return;
        }
        if is_due(self.outstanding.as_ref().map(|o| o.next_at)) && !self.retransmit(context) {
            let reason = self.timeout_reason();
            self.fail(context, reason);
            return;
        }
        if is_due(self.keepalive_at) {
            self.send_keepalive(context);
        }
        if !self.is_established() {
            return;
        }
        // Whatever becomes of an attempt, there is another one, unless the first has succeeded.
        let again = Some(now + self.patience(context));
        if is_due(self.followup_until) {
            self.forget_followup(context);
        }
        if is_due(self.rekey_at) {
            self.rekey_at = again;
            self.enqueue(Task::RekeyIke);
        }
        let mut due = Vec::new();
        for child in &mut self.children {
            if is_due(child.rekey_at) {
                child.rekey_at = again;
                due.push(Task::RekeyChild(child.id));
            }
            if is_due(child.ends_at) {
                child.ends_at = again;
                due.push(Task::DeleteChild(child.id));
            }
        }
        due.into_iter().for_each(|task| self.enqueue(task));
        let (ready, waiting) = std::mem::take(&mut self.delayed).into_iter().partition(|(at, _)| *at <= now);
        self.delayed = waiting;
        let ready: Vec<(Instant, Task)> = ready;
        ready.into_iter().for_each(|(_, task)| self.enqueue(task));
        if is_due(self.probe_at()) {
            self.enqueue(Task::Probe);
        }
        self.run_tasks(context);
    }
}
