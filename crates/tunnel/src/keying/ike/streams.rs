//! Peers that are reached by TCP (RFC 9329) where UDP does not pass.
//!
//! Guarantees: UDP is tried first, and TCP once [`PATIENCE`] has passed without an answer; while packets go in a stream, UDP is
//! tried again and again with growing pauses, by an IKE SA of its own, and packets move when it carries them; a stream that is
//! gone is made again by the end that made it; an attempt by UDP beside a stream is logged by nobody.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_ike::{Event, IkeId, Path, Reason};

use super::{Ike, PAUSE, PAUSE_MAX, selectors::trigger};
use crate::streams::{Connection, News};

/// The time without an answer after which TCP is tried; also that of an attempt by UDP beside a stream.
const PATIENCE: Duration = Duration::from_secs(3);
/// The first pause before UDP is tried beside a stream; it doubles up to [`PAUSE_MAX`].
const AGAIN: Duration = Duration::from_secs(5);

/// The state of a peer's streams.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// The port of the peer's end; `None` if only UDP is used.
    pub(super) port: Option<u16>,
    /// When a connection is asked for, unless UDP has answered by then.
    call_at: Option<Instant>,
    /// A connection has been asked for.
    is_called: bool,
    /// The pause before the next connection.
    pause: Duration,
    /// The stream that carries the peer's messages, or did before it was gone.
    stream: Option<u32>,
    /// When UDP is tried again, and the pause after that.
    again_at: Option<Instant>,
    again: Duration,
    /// The attempt by UDP beside a stream, and its end.
    attempt: Option<(IkeId, Instant)>,
    /// Negotiations that have been given up: nobody needs to hear of their ends.
    given_up: BTreeSet<IkeId>,
}

impl Ways {
    pub(super) fn to(port: Option<u16>) -> Self {
        Self { port, pause: PAUSE, again: AGAIN, ..Self::default() }
    }

    fn due(&self) -> Option<Instant> {
        let attempt = self.attempt.map(|(_, until)| until);
        [self.call_at, self.again_at, attempt].into_iter().flatten().min()
    }
}

/// Returns the path in a connection.
fn path(connection: &Connection) -> Path {
    Path { local: connection.local, remote: connection.remote, stream: Some(connection.id) }
}

impl Ike<'_> {
    /// Notes that a negotiation by UDP has begun with a peer that has no IKE SA.
    pub(super) fn watch_datagrams(&mut self, place: usize, now: Instant) {
        let ways = &mut self.known[place].streams;
        let is_tried = ways.call_at.is_some() || ways.is_called || ways.stream.is_some();
        if ways.port.is_some() && !is_tried {
            ways.call_at = Some(now + PATIENCE);
        }
    }

    /// Notes that an IKE SA is established. Returns whether it is the attempt by UDP that takes the place of a stream.
    pub(super) fn note_established(&mut self, place: usize, ike: IkeId, now: Instant) -> bool {
        let path = self.endpoint.path(ike);
        let ways = &mut self.known[place].streams;
        ways.call_at = None;
        ways.pause = PAUSE;
        if let Some(stream) = path.and_then(|path| path.stream) {
            if let Some(streams) = self.peers.streams() {
                streams.prove(stream);
            }
            if ways.stream == Some(stream) {
                ways.again_at = Some(now + ways.again);
            }
            return false;
        }
        let is_attempt = ways.attempt.take_if(|(own, _)| *own == ike).is_some();
        (ways.again_at, ways.again) = (None, AGAIN);
        is_attempt
    }

    /// Returns whether the end of a negotiation concerns nobody.
    pub(super) fn is_given_up(&mut self, place: usize, ike: IkeId) -> bool {
        let ways = &mut self.known[place].streams;
        let is_attempt = ways.attempt.take_if(|(own, _)| *own == ike).is_some();
        ways.given_up.remove(&ike) || is_attempt
    }

    /// Returns the time of the next action; a time in the past if there are news.
    pub(super) fn streams_due(&self) -> Option<Instant> {
        let has_news = self.peers.streams()?.has_news();
        let news = has_news.then_some(self.look_at.min(self.begun));
        self.known.iter().filter_map(|known| known.streams.due()).chain(news).min()
    }

    /// Performs the actions that are due.
    pub(super) fn look_at_streams(&mut self, now: Instant) {
        let Some(streams) = self.peers.streams() else { return };
        while let Some(news) = streams.poll_news() {
            self.hear_of_stream(news, now);
        }
        for place in 0..self.known.len() {
            let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            let ways = &mut self.known[place].streams;
            if ways.attempt.is_some_and(|(_, until)| until <= now)
                && let Some((ike, _)) = ways.attempt.take()
            {
                ways.given_up.insert(ike);
                self.endpoint.end(ike, &Reason::Timeout, now);
            }
            let ways = &mut self.known[place].streams;
            if is_due(ways.call_at) {
                ways.call_at = None;
                let in_stream = ways.stream.is_some();
                if in_stream || !self.stands_with(place) {
                    self.call(place);
                }
            }
            if is_due(self.known[place].streams.again_at) {
                self.try_datagrams(place, now);
            }
        }
    }

    /// Asks for a connection to a peer.
    fn call(&mut self, place: usize) {
        if self.is_closing || self.known[place].is_gone || !self.find_way(place) {
            return;
        }
        let known = &self.known[place];
        let remote = known.address.or_else(|| Some(self.peers.endpoint(known.id)?.ip().to_canonical()));
        let (Some(remote), Some(port), Some(streams)) = (remote, known.streams.port, self.peers.streams())
        else {
            return;
        };
        streams.connect(place, SocketAddr::new(remote, port));
        self.known[place].streams.is_called = true;
    }

    fn hear_of_stream(&mut self, news: News, now: Instant) {
        match news {
            News::Connected { token: place, connection } => self.use_stream(place, &connection, now),
            News::Failed { token: place, problem } => {
                let ways = &mut self.known[place].streams;
                ways.is_called = false;
                ways.call_at = Some(now + ways.pause);
                ways.pause = (2 * ways.pause).min(PAUSE_MAX);
                if !self.stands_with(place) {
                    self.show_problem(place, Some(format!("neither UDP nor TCP: {problem}")));
                }
                self.tell(place, format!("no answer by UDP, and {problem}"));
            }
            News::Over { id } => {
                let is_own = |place: &usize| self.known[*place].streams.stream == Some(id);
                let Some(place) = (0..self.known.len()).find(is_own) else { return };
                let is_used = self.endpoint.is_beginning(place, true)
                    || self
                        .sas
                        .keys()
                        .any(|ike| self.endpoint.path(*ike).is_some_and(|path| path.stream == Some(id)));
                let ways = &mut self.known[place].streams;
                match is_used {
                    true => {
                        ways.call_at = Some(now + ways.pause);
                        ways.pause = (2 * ways.pause).min(PAUSE_MAX);
                    }
                    false => (ways.stream, ways.again_at) = (None, None),
                }
            }
        }
    }

    /// Uses a new connection: what went in an earlier one continues in it, or an IKE SA is begun.
    fn use_stream(&mut self, place: usize, connection: &Arc<Connection>, now: Instant) {
        let path = path(connection);
        let ways = &mut self.known[place].streams;
        ways.is_called = false;
        let before = ways.stream.replace(connection.id);
        if let Some(before) = before {
            self.endpoint.continue_along(place, before, path, now);
            self.close_stream(before);
            self.take_events(now);
            return self.end_unused_stream(place);
        }
        if self.stands_with(place) || self.is_closing || self.known[place].is_gone {
            // UDP has answered in the meantime.
            self.known[place].streams.stream = None;
            self.close_stream(connection.id);
            return;
        }
        let given_up = self.endpoint.abandon(place, now);
        let ways = &mut self.known[place].streams;
        ways.given_up.extend(given_up);
        let known = &self.known[place];
        let wanted = known.wanted.map(|flow| trigger(&flow));
        let policy = self.policy_for(place);
        self.endpoint.initiate_along(place, Some(policy), wanted, path, now);
        self.tell(place, format!("no answer by UDP; TCP to {} is tried", connection.remote));
        self.take_events(now);
    }

    /// Begins an IKE SA by UDP beside the one in a stream.
    fn try_datagrams(&mut self, place: usize, now: Instant) {
        let ways = &mut self.known[place].streams;
        ways.again = (2 * ways.again).min(PAUSE_MAX);
        ways.again_at = Some(now + ways.again);
        if ways.attempt.is_some() || self.is_closing || !self.find_way(place) {
            return;
        }
        if let Some(ike) = self.endpoint.initiate(place, Some(0), None, now) {
            self.known[place].streams.attempt = Some((ike, now + PATIENCE));
        }
    }

    /// Makes the IKE SA by UDP take the place of those in streams, when it carries packets.
    pub(super) fn leave_streams(&mut self, place: usize, now_by: IkeId) {
        for (ike, stands) in &mut self.sas {
            if stands.place == place && *ike != now_by {
                stands.is_worn = true;
            }
        }
        self.tell(place, "UDP answers again, and takes the place of TCP".to_owned());
    }

    /// Closes the peer's stream if nothing uses it any more.
    pub(super) fn end_unused_stream(&mut self, place: usize) {
        let Some(id) = self.known[place].streams.stream else { return };
        let is_used = self.endpoint.is_beginning(place, true)
            || self.sas.iter().any(|(ike, stands)| {
                stands.place == place && self.endpoint.path(*ike).is_some_and(|path| path.stream == Some(id))
            });
        if !is_used {
            let ways = &mut self.known[place].streams;
            (ways.stream, ways.again_at, ways.call_at) = (None, None, None);
            self.close_stream(id);
        }
    }

    fn close_stream(&self, id: u32) {
        if let Some(streams) = self.peers.streams() {
            streams.close(id);
        }
    }

    /// Notes the event that an IKE SA is carried by a stream: somebody known is at its other end.
    pub(super) fn prove_stream(&self, event: &Event) {
        let path = match event {
            Event::Install(install) => install.path,
            Event::Moved { path, .. } => *path,
            _ => return,
        };
        if let (Some(id), Some(streams)) = (path.stream, self.peers.streams()) {
            streams.prove(id);
        }
    }
}
