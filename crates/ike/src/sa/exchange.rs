//! Requests and responses: one request of ours may be under way, and our last answer is kept.
//!
//! Guarantees: the window is 1 in both directions; no part of a message is evaluated before the message has been
//! found genuine; a message that is not genuine does not change the state.

use super::{
    Context, Incoming, Parts, Phase, Role, Sa, Task,
    under_way::{Creating, InFlight, Outstanding},
};
use crate::{
    crypto::{CryptoError, Sealer},
    event::{Path, Reason, Transmit},
    id::ChildId,
    message::{Arrived, Assembly, Opened},
    wire::{Delete, Exchange, Header, NotifyType, Payloads},
};

/// Maximum number of repetitions to a peer that seems to have lost its state.
const SUSPECTED_TRIES: u32 = 2;

impl Sa {
    /// Returns the keys of a direction.
    fn sealer(&mut self, is_ours: bool) -> Option<&mut Sealer> {
        let keys = self.keys.as_mut()?;
        Some(if is_ours == (self.role == Role::Initiator) {
            &mut keys.initiator
        } else {
            &mut keys.responder
        })
    }

    pub(super) fn transmit(&self, context: &mut Context<'_>, path: Path, datagrams: &[Vec<u8>]) {
        let marker: &[u8] = if path.has_marker(context.settings.ike_port) { &[0; 4] } else { &[] };
        let is_answer = self.is_called();
        for datagram in datagrams {
            let bytes = [marker, datagram].concat();
            context.output.transmits.push_back(Transmit { path, is_answer, bytes });
        }
    }

    fn sealed(
        &mut self,
        context: &Context<'_>,
        exchange: Exchange,
        is_response: bool,
        message_id: u32,
        payloads: &Payloads,
    ) -> Result<Vec<Vec<u8>>, CryptoError> {
        let envelope = self.envelope(exchange, is_response, message_id);
        // A stream takes messages of any length (RFC 9329, section 6.3).
        let is_cut = self.features.fragmentation && self.path.stream.is_none();
        let fragment_bytes = is_cut.then_some(context.settings.fragment_bytes);
        let sealer = self.sealer(true).ok_or(CryptoError::Library)?;
        envelope.sealed(sealer, payloads, fragment_bytes)
    }

    /// Sends a request of ours; `in_flight` is its purpose.
    pub(super) fn request(
        &mut self,
        context: &mut Context<'_>,
        exchange: Exchange,
        payloads: &Payloads,
        in_flight: InFlight,
    ) {
        debug_assert!(self.outstanding.is_none(), "one request at a time");
        let message_id = self.next_request;
        let datagrams = if exchange == Exchange::Init {
            Ok(vec![self.envelope(exchange, false, message_id).plain(payloads)])
        } else {
            self.sealed(context, exchange, false, message_id, payloads)
        };
        let datagrams = match datagrams {
            Ok(datagrams) => datagrams,
            Err(error) => return self.fail(context, error.into()),
        };
        self.next_request = message_id + 1;
        self.transmit(context, self.path, &datagrams);
        let next_at = context.now + context.settings.retransmission.pause(0);
        let assembly = Assembly::default();
        let (sent, along) = (0, self.path.stream);
        self.outstanding =
            Some(Outstanding { message_id, exchange, datagrams, sent, along, next_at, in_flight, assembly });
    }

    /// Returns the first datagram of the request under way.
    pub(super) fn request_bytes(&self) -> Option<&[u8]> {
        self.outstanding.as_ref()?.datagrams.first().map(Vec::as_slice)
    }

    /// Answers the peer's request along the path on which it arrived.
    pub(super) fn respond(&mut self, context: &mut Context<'_>, incoming: Incoming<'_>, payloads: &Payloads) {
        match self.sealed(context, incoming.header.exchange, true, incoming.header.message_id, payloads) {
            Ok(datagrams) => {
                self.transmit(context, incoming.path, &datagrams);
                self.replies.last = datagrams;
            }
            Err(error) => self.fail(context, error.into()),
        }
    }

    /// Sends our request again. Returns `false` if that has been done often enough.
    pub(super) fn retransmit(&mut self, context: &mut Context<'_>) -> bool {
        let schedule = context.settings.retransmission;
        let path = self.path;
        let tries = if self.is_suspected { schedule.tries.min(SUSPECTED_TRIES) } else { schedule.tries };
        let Some(outstanding) = &mut self.outstanding else { return true };
        if outstanding.sent >= tries {
            return false;
        }
        outstanding.sent += 1;
        outstanding.next_at = context.now + schedule.pause(outstanding.sent);
        // A stream loses nothing as long as it stands (RFC 9329, section 6.2).
        if path.stream.is_some() && outstanding.along == path.stream {
            return true;
        }
        outstanding.along = path.stream;
        let datagrams = std::mem::take(&mut outstanding.datagrams);
        self.transmit(context, path, &datagrams);
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.datagrams = datagrams;
        }
        true
    }

    /// Returns the reason why nobody answered.
    pub(super) fn timeout_reason(&mut self) -> Reason {
        match self.outstanding.take().map(|outstanding| outstanding.in_flight) {
            Some(InFlight::DeleteIke(reason)) => reason,
            _ if self.is_doubted => Reason::Replaced,
            _ => Reason::Timeout,
        }
    }

    /// Begins the next task, if no request is under way.
    pub(crate) fn run_tasks(&mut self, context: &mut Context<'_>) {
        self.limit_children(context);
        while self.outstanding.is_none() && matches!(self.phase, Phase::Established) {
            let gives_way = self.gives_way();
            let may_run =
                |task: &Task| !gives_way || matches!(task, Task::Probe | Task::Move | Task::CheckPath { .. });
            let Some(at) = self.tasks.iter().position(may_run) else { return };
            let Some(task) = self.tasks.remove(at) else { return };
            match task {
                Task::AddChild { policy, trigger, resource } => {
                    let resource = resource.map(|number| number.to_be_bytes().to_vec());
                    self.request_child(context, policy, None, trigger, resource);
                }
                Task::RekeyChild(child) => self.request_child_rekey(context, child),
                Task::DeleteChild(child) => self.request_child_deletion(context, child),
                Task::RekeyIke => self.request_rekey(context, None),
                Task::DeleteIke(reason) => self.request_deletion(context, reason),
                Task::Probe => {
                    self.request(context, Exchange::Informational, &Payloads::new(), InFlight::Probe)
                }
                Task::Move => self.request_move(context),
                Task::CheckPath { cookie, path } => self.request_path_check(context, cookie, path),
            }
        }
    }

    /// Handles a message with this IKE SA's SPIs, other than first messages.
    pub(crate) fn handle(&mut self, context: &mut Context<'_>, header: &Header, message: &[u8], path: Path) {
        let is_from_peer = header.is_from_initiator == (self.role == Role::Responder);
        if !is_from_peer {
            return;
        }
        if header.is_response {
            self.handle_response(context, header, message, path);
        } else {
            self.handle_request(context, header, message, path);
        }
        self.run_tasks(context);
    }

    /// Returns whether a message of the peer is genuine under the current keys, or under those of the previous
    /// exchange.
    fn is_genuine(&mut self, header: &Header, message: &[u8]) -> bool {
        let mut scratch = Assembly::default();
        let by_current =
            self.sealer(false).is_some_and(|sealer| is_whole_or_first(&mut scratch, sealer, header, message));
        let Phase::Opening(opening) = &self.phase else { return by_current };
        let previous = opening.previous_keys.as_ref().map(|keys| &keys.initiator);
        by_current || previous.is_some_and(|sealer| is_whole_or_first(&mut scratch, sealer, header, message))
    }

    fn handle_request(&mut self, context: &mut Context<'_>, header: &Header, message: &[u8], path: Path) {
        // A responder may establish the IKE SA before its answer has arrived here; it repeats its request after that.
        if self.role == Role::Initiator && matches!(self.phase, Phase::Opening(_)) {
            return;
        }
        if header.message_id.wrapping_add(1) == self.replies.expected {
            if !self.replies.last.is_empty() && self.is_genuine(header, message) {
                self.transmit(context, path, &self.replies.last);
            }
            return;
        }
        if header.message_id != self.replies.expected || matches!(self.phase, Phase::Finished) {
            return;
        }
        let mut assembly = std::mem::take(&mut self.replies.assembly);
        let arrived = self.sealer(false).map(|sealer| assembly.open(sealer, header, message));
        self.replies.assembly = assembly;
        let Some(Ok(Arrived::Message(opened))) = arrived else { return };
        let parsed = Parts::parse(opened.first, &opened.clear);
        // A collision of two successors may be undecided here. Until it is decided, a successor without children only
        // answers its own deletion. The peer repeats its other requests later: if we answered now that a child does
        // not exist, that child would remain here for ever.
        let is_undecided = matches!(self.phase, Phase::Spare) && self.replies.expected == 0;
        let is_end = parsed.as_ref().is_ok_and(|parts| parts.deletes.contains(&Delete::Ike));
        if is_undecided && !is_end {
            return;
        }
        if header.exchange == Exchange::Auth
            && parsed.as_ref().is_ok_and(|parts| self.is_braked(context, parts, path))
        {
            return;
        }
        self.replies.expected += 1;
        self.replies.last.clear();
        self.note_life(context, header, path);
        let incoming = Incoming { header, path };
        let parts = match parsed {
            Ok(parts) => parts,
            Err(crate::wire::Malformed::UnknownCritical { number }) => {
                return self.refuse(
                    context,
                    incoming,
                    NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD,
                    vec![number],
                );
            }
            Err(_) => return self.refuse(context, incoming, NotifyType::INVALID_SYNTAX, Vec::new()),
        };
        if !self.phase.allows(header.exchange) {
            return self.refuse(context, incoming, NotifyType::INVALID_SYNTAX, Vec::new());
        }
        match header.exchange {
            Exchange::Intermediate => self.answer_intermediate(context, incoming, &opened, &parts),
            Exchange::Auth => self.answer_auth(context, incoming, parts),
            Exchange::CreateChild => self.answer_create(context, incoming, parts),
            Exchange::FollowupKe => self.answer_followup(context, incoming, &parts),
            _ => self.answer_informational(context, incoming, &parts),
        }
    }

    /// Answers a request with only a notification that it failed.
    pub(super) fn refuse(
        &mut self,
        context: &mut Context<'_>,
        incoming: Incoming<'_>,
        kind: NotifyType,
        data: Vec<u8>,
    ) {
        let mut payloads = Payloads::new();
        payloads.notify(kind, data);
        self.respond(context, incoming, &payloads);
    }

    fn handle_response(&mut self, context: &mut Context<'_>, header: &Header, message: &[u8], path: Path) {
        let Some(mut outstanding) = self.outstanding.take() else { return };
        let is_ours = outstanding.message_id == header.message_id && outstanding.exchange == header.exchange;
        let arrived = match self.sealer(false) {
            Some(sealer) if is_ours => outstanding.assembly.open(sealer, header, message).ok(),
            _ => None,
        };
        let Some(Arrived::Message(opened)) = arrived else {
            self.outstanding = Some(outstanding);
            return;
        };
        self.note_life(context, header, path);
        match Parts::parse(opened.first, &opened.clear) {
            Ok(parts) => self.take_response(context, outstanding, &opened, parts),
            Err(malformed) => self.fail(context, Reason::Protocol(malformed.to_string())),
        }
    }

    fn take_response(
        &mut self,
        context: &mut Context<'_>,
        outstanding: Outstanding,
        opened: &Opened,
        parts: Parts,
    ) {
        match outstanding.in_flight {
            // The response is not encrypted, and is handled separately.
            InFlight::Init => {}
            InFlight::Intermediate { ongoing } => self.take_intermediate(context, ongoing, opened, &parts),
            InFlight::Auth => self.take_auth(context, parts),
            InFlight::Create(creating) => self.take_created(context, creating, parts),
            InFlight::DeleteChild(child) => self.take_child_deleted(context, child),
            InFlight::DeleteIke(reason) => self.fail(context, reason),
            InFlight::Probe => {}
            InFlight::Move => self.take_moved(context, &parts),
            InFlight::CheckPath { cookie, path } => self.take_path_checked(context, &cookie, path, &parts),
        }
    }

    /// Completes the request in flight if it is a first message.
    pub(super) fn take_init(&mut self) -> Option<()> {
        let is_init = self.outstanding.as_ref().is_some_and(|o| matches!(o.in_flight, InFlight::Init));
        is_init.then(|| self.outstanding = None)
    }

    /// Handles the arrival of a genuine message: the peer is alive, and at the address that the message came from.
    fn note_life(&mut self, context: &mut Context<'_>, header: &Header, path: Path) {
        self.heard = context.now;
        self.is_doubted = false;
        self.is_suspected = false;
        // The message's number shows whether an answer is current. A peer behind a NAT is followed to its new mapping
        // (RFC 7296, section 2.23); a peer that is not behind one announces its new address (RFC 4555).
        let is_opening = matches!(self.phase, Phase::Opening(_));
        // Whoever has begun chooses between datagrams and streams, and replaces a stream that is gone (RFC 9329, section 6).
        let is_other_stream = self.path.stream != path.stream && self.is_called();
        let follows = self.nat.remote_behind || (is_opening && !header.is_response) || is_other_stream;
        if follows && self.path != path {
            self.set_path(context, path);
        }
    }

    /// Returns the creation that is under way.
    pub(super) fn creating(&mut self) -> Option<&mut Creating> {
        match &mut self.outstanding.as_mut()?.in_flight {
            InFlight::Create(creating) => Some(creating),
            _ => None,
        }
    }

    /// Returns the creation that is under way.
    pub(super) fn creating_now(&self) -> Option<&Creating> {
        match &self.outstanding.as_ref()?.in_flight {
            InFlight::Create(creating) => Some(creating),
            _ => None,
        }
    }

    /// Returns the child whose deletion is under way.
    pub(super) fn deleting(&self) -> Option<ChildId> {
        match self.outstanding.as_ref()?.in_flight {
            InFlight::DeleteChild(child) => Some(child),
            _ => None,
        }
    }

    /// Releases the resources that a request under way has reserved.
    pub(super) fn release_pending(&mut self, context: &mut Context<'_>) {
        if let Some(spi) = self.creating().and_then(|creating| creating.inbound_spi()) {
            context.output.esp_spis.remove(&spi);
        }
        self.forget_followup(context);
        if let Phase::Opening(opening) = &self.phase {
            opening.release(context);
        }
    }

    /// Returns whether the peer is about to complete a successor of this IKE SA, to which children and tasks will move: a
    /// request that is under way then would be about children of the successor.
    fn gives_way(&self) -> bool {
        self.followup.as_ref().is_some_and(|followup| followup.is_of_ike())
    }

    /// Takes the waiting tasks, for a successor. A deletion whose answer has not come is among them: the peer answers it on
    /// the successor, too.
    pub(super) fn take_tasks(&mut self) -> std::collections::VecDeque<Task> {
        let under_way = self.deleting().map(Task::DeleteChild);
        let delayed = std::mem::take(&mut self.delayed).into_iter().map(|(_, task)| task);
        let of_children = |task: &Task| {
            matches!(
                task,
                Task::AddChild { .. } | Task::RekeyChild(_) | Task::DeleteChild(_) | Task::DeleteIke(_)
            )
        };
        let waiting = std::mem::take(&mut self.tasks).into_iter().chain(delayed);
        under_way.into_iter().chain(waiting).filter(of_children).collect()
    }
}

fn is_whole_or_first(scratch: &mut Assembly, sealer: &Sealer, header: &Header, message: &[u8]) -> bool {
    match scratch.open(sealer, header, message) {
        Ok(Arrived::Message(_) | Arrived::Fragment { is_first: true }) => true,
        Ok(Arrived::Fragment { is_first: false }) | Err(_) => false,
    }
}
