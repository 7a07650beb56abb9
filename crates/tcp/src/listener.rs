//! LISTEN: half-open connections, in records of about a hundred bytes. A connection with its rings is only made once
//! the peer has proved its address (RFC 4987, section 3.2).

use crate::connection::Connection;
use crate::receiver::first_offer;
use crate::segment::{Flags, Header, Options, Segment, Timestamps, reset_for};
use crate::{Config, Out, Secrets, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

#[derive(Debug)]
struct HalfOpen<K> {
    key: K,
    syn: Header,
    secrets: Secrets,
    retries: u32,
    due_at: Time,
}

/// Most doublings of the time until the answer is sent again.
const BACKOFF_MAX: u32 = 6;

/// A port that is listened on. `K` names a peer: its address and port, and ours where there are several.
///
/// There are no SYN cookies: while the backlog is full of peers that were answered once only, further peers are
/// ignored.
#[derive(Debug)]
pub struct Listener<K> {
    config: Config,
    backlog: usize,
    half_open: Vec<HalfOpen<K>>,
    dropped: u64,
}

/// The reaction to a segment that belongs to no connection.
#[derive(Debug)]
pub enum Answer {
    /// Nothing is sent.
    Nothing,
    /// This header is to be sent back, without payload.
    Reply(Header),
    /// The handshake is complete: the connection has taken the segment with its payload, and [`Out`] has its results.
    Opened(Box<Connection>),
}

impl<K: Copy + Eq> Listener<K> {
    /// Listens with at most `backlog` half-open connections; opened connections have this configuration.
    pub fn new(config: &Config, backlog: usize) -> Self {
        let backlog = backlog.max(1);
        Self { config: config.clone(), backlog, half_open: Vec::with_capacity(backlog), dropped: 0 }
    }

    /// Takes a segment for which the caller has found no connection (RFC 9293, section 3.10.7.2). It calls `secrets`
    /// for a new peer. The payload stays the caller's, unless a connection opens.
    pub fn receive(
        &mut self,
        peer: K,
        segment: &Segment,
        secrets: impl FnOnce() -> Secrets,
        now: Time,
        out: &mut Out,
    ) -> Answer {
        let header = &segment.header;
        let known = self.half_open.iter().position(|half_open| half_open.key == peer);
        if header.flags.has(Flags::RST) {
            // RFC 5961, section 3: a reset is believed only with the very next number.
            if let Some(index) = known
                && header.seq == self.half_open[index].syn.seq + 1
            {
                self.half_open.swap_remove(index);
            }
            return Answer::Nothing;
        }
        if header.flags.has(Flags::ACK) {
            return self.receive_ack(known, segment, now, out);
        }
        if !header.flags.has(Flags::SYN) {
            return Answer::Nothing;
        }
        if let Some(index) = known {
            let half_open = &self.half_open[index];
            // Another SYN is an old duplicate, or a new start of a peer that forgot: the first answer stands until it
            // times out.
            return if half_open.syn.seq == header.seq {
                Answer::Reply(answer(&self.config, half_open.secrets, &half_open.syn, now))
            } else {
                Answer::Nothing
            };
        }
        if self.half_open.len() == self.backlog && !self.evict() {
            self.dropped += 1;
            return Answer::Nothing;
        }
        let secrets = secrets();
        let due_at = now + self.config.rto_initial;
        self.half_open.push(HalfOpen { key: peer, syn: *header, secrets, retries: 0, due_at });
        Answer::Reply(answer(&self.config, secrets, header, now))
    }

    fn receive_ack(&mut self, known: Option<usize>, segment: &Segment, now: Time, out: &mut Out) -> Answer {
        let header = &segment.header;
        let reset = || reset_for(header, segment.payload.bytes).map_or(Answer::Nothing, Answer::Reply);
        let Some(index) = known else { return reset() };
        let half_open = &self.half_open[index];
        if header.flags.has(Flags::SYN) || header.ack != half_open.secrets.isn + 1 {
            return reset();
        }
        let mut connection = Connection::answered(&self.config, half_open.secrets, &half_open.syn, now);
        connection.receive(&[*segment], now, out);
        self.half_open.swap_remove(index);
        Answer::Opened(Box::new(connection))
    }

    /// Makes room by forgetting the oldest peer that has not answered a second time.
    fn evict(&mut self) -> bool {
        let silent = self.half_open.iter().enumerate().filter(|(_, half_open)| half_open.retries > 0);
        let Some((index, _)) = silent.max_by_key(|(_, half_open)| half_open.retries) else { return false };
        self.half_open.swap_remove(index);
        self.dropped += 1;
        true
    }

    /// Returns the time at which [`on_deadline`](Self::on_deadline) is to be called.
    pub fn deadline(&self) -> Option<Time> {
        self.half_open.iter().map(|half_open| half_open.due_at).min()
    }

    /// Repeats the answers that are due by handing them to `send`, and forgets peers that stay silent.
    pub fn on_deadline(&mut self, now: Time, mut send: impl FnMut(K, Header)) {
        let config = &self.config;
        self.half_open.retain_mut(|half_open| {
            if half_open.due_at > now {
                return true;
            }
            if half_open.retries >= config.syn_retries {
                return false;
            }
            half_open.retries += 1;
            half_open.due_at = now + backed_off(config.rto_initial, half_open.retries);
            send(half_open.key, answer(config, half_open.secrets, &half_open.syn, now));
            true
        });
    }

    /// Returns the number of half-open connections.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Returns the number of peers that found no room, or lost it.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn backed_off(first: Duration, retries: u32) -> Duration {
    first * (1 << retries.min(BACKOFF_MAX))
}

/// Returns the SYN and ACK as the connection with this peer would send it.
fn answer(config: &Config, secrets: Secrets, syn: &Header, now: Time) -> Header {
    let (window, scale) = first_offer(config);
    let value = now.as_ms_wrapping().wrapping_add(secrets.timestamp_offset);
    let stamp = syn.options.timestamps.filter(|_| config.timestamps);
    Header {
        seq: secrets.isn,
        ack: syn.seq + 1,
        flags: Flags::SYN | Flags::ACK,
        window,
        options: Options {
            mss: Some(config.mss),
            window_scale: syn.options.window_scale.map(|_| scale),
            sack_permitted: config.sack && syn.options.sack_permitted,
            timestamps: stamp.map(|stamp| Timestamps { value, echo: stamp.value }),
            ..Options::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Seq, State};

    fn syn(seq: u32) -> Segment {
        let options =
            Options { mss: Some(1000), window_scale: Some(3), sack_permitted: true, ..Options::default() };
        let header = Header { seq: Seq(seq), flags: Flags::SYN, window: 500, options, ..Header::default() };
        Segment { header, ..Segment::default() }
    }

    fn secrets() -> Secrets {
        Secrets { isn: Seq(7000), timestamp_offset: 0 }
    }

    fn reply(answer: Answer) -> Header {
        match answer {
            Answer::Reply(header) => header,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_handshake_makes_a_connection_and_says_what_the_connection_would() {
        let config = Config::default();
        let mut out = Out::new(&config, 1);
        let mut listener = Listener::new(&config, 4);
        let first = reply(listener.receive(1, &syn(100), secrets, Time::ZERO, &mut out));
        let again = reply(listener.receive(1, &syn(100), || panic!("known"), Time::ZERO, &mut out));
        assert_eq!(first, again);
        Connection::accept(&config, secrets(), &syn(100).header, Time::ZERO, &mut out);
        assert_eq!(out.send[0].header, first);
        out.clear();
        let header =
            Header { seq: Seq(101), ack: Seq(7001), flags: Flags::ACK, window: 9, ..Header::default() };
        let wrong = Segment { header: Header { ack: Seq(7002), ..header }, ..Segment::default() };
        let reset = reply(listener.receive(1, &wrong, secrets, Time::ZERO, &mut out));
        assert_eq!((reset.flags, reset.seq), (Flags::RST, Seq(7002)));
        let right = Segment { header, ..Segment::default() };
        let Answer::Opened(connection) = listener.receive(1, &right, secrets, Time::ZERO, &mut out) else {
            panic!("the third segment opens");
        };
        assert_eq!((connection.state(), &*out.events), (State::Established, &[Event::Established][..]));
        connection.assert_invariants();
        assert_eq!((listener.half_open(), listener.deadline()), (0, None));
    }

    #[test]
    fn a_flood_costs_no_more_than_the_backlog() {
        let config = Config { syn_retries: 2, ..Config::default() };
        let mut out = Out::new(&config, 1);
        let mut listener = Listener::new(&config, 4);
        for peer in 0..10 {
            let answer = listener.receive(peer, &syn(peer), secrets, Time::ZERO, &mut out);
            assert_eq!(matches!(answer, Answer::Reply(_)), peer < 4);
        }
        assert_eq!((listener.half_open(), listener.dropped()), (4, 6));
        let mut repeated = 0;
        let mut now = listener.deadline().expect("answers to repeat");
        listener.on_deadline(now, |_, header| {
            assert!(header.flags.has(Flags::SYN | Flags::ACK));
            repeated += 1;
        });
        assert_eq!(repeated, 4);
        // A peer that did not react makes room for another.
        assert!(matches!(listener.receive(50, &syn(5), secrets, now, &mut out), Answer::Reply(_)));
        assert_eq!(listener.half_open(), 4);
        for _ in 0..10 {
            now = listener.deadline().unwrap_or(now);
            listener.on_deadline(now, |_, _| {});
        }
        assert_eq!(listener.half_open(), 0, "the silent are forgotten");
    }

    #[test]
    fn resets_are_believed_with_the_next_number_only_and_never_answered() {
        let config = Config::default();
        let mut out = Out::new(&config, 1);
        let mut listener = Listener::new(&config, 4);
        listener.receive(1, &syn(100), secrets, Time::ZERO, &mut out);
        for (seq, left) in [(100, 1), (102, 1), (101, 0)] {
            let header = Header { seq: Seq(seq), flags: Flags::RST, ..Header::default() };
            let segment = Segment { header, ..Segment::default() };
            assert!(matches!(listener.receive(1, &segment, secrets, Time::ZERO, &mut out), Answer::Nothing));
            assert_eq!(listener.half_open(), left);
        }
    }
}
