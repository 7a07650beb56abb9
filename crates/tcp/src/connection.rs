//! A connection: its state, the calls of the application, and its timers. Module `arrival` handles segments that
//! arrive, and `output` those that leave.

use crate::event::{Event, Reason};
use crate::limiter::Limiter;
use crate::receiver::{Receiver, SCALE_MAX};
use crate::segment::{Header, Options, Payload};
use crate::sender::{Fin, Next, Sender};
use crate::timers::{Timer, Timers};
use crate::{Config, Out, Secrets, Stats, Time};
use core::fmt;

/// The states of RFC 9293, section 3.3.2. LISTEN is not among them: [`Listener`](crate::Listener) has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// SYN was sent.
    SynSent,
    /// SYN came and was answered.
    SynReceived,
    /// Data goes both ways.
    Established,
    /// This end has closed; FIN is not yet acknowledged.
    FinWait1,
    /// This end has closed, and FIN is acknowledged; the peer may still send.
    FinWait2,
    /// The peer has closed; this end may still send.
    CloseWait,
    /// Both have closed at once.
    Closing,
    /// The peer has closed, then this end; FIN is not yet acknowledged.
    LastAck,
    /// Both directions are closed; the connection waits for late segments.
    TimeWait,
    /// There is no connection.
    Closed,
}

/// The connection is closed for sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closing;

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed for sending")
    }
}

impl core::error::Error for Closing {}

/// One end of a connection.
///
/// Its methods are of three kinds. Something happened: [`receive`](Self::receive), [`on_deadline`](Self::on_deadline).
/// The application wants something: [`send`](Self::send), [`consume`](Self::consume), [`close`](Self::close),
/// [`abort`](Self::abort). Questions: [`deadline`](Self::deadline), [`state`](Self::state), [`stats`](Self::stats).
#[derive(Debug)]
pub struct Connection {
    pub(crate) send: Sender,
    pub(crate) receive: Receiver,
    pub(crate) timers: Timers,
    pub(crate) state: State,
    /// Timestamps were agreed on.
    pub(crate) is_stamped: bool,
    /// The peer offered to scale windows.
    pub(crate) is_scaled: bool,
    /// SYN came before we sent one.
    pub(crate) is_passive: bool,
    /// Whether more could be sent than [`Out`] had room for.
    pub(crate) is_more_due: bool,
    pub(crate) timestamp_offset: u32,
    pub(crate) stats: Stats,
    pub(crate) limiter: Limiter,
    /// Keep-alive probes without an answer.
    pub(crate) silent_probes: u32,
    pub(crate) config: Config,
}

impl Connection {
    fn new(config: &Config, secrets: Secrets, state: State) -> Self {
        Self {
            send: Sender::new(config, secrets.isn),
            receive: Receiver::new(config),
            timers: Timers::new(),
            state,
            is_stamped: config.timestamps,
            is_scaled: true,
            is_passive: false,
            is_more_due: false,
            timestamp_offset: secrets.timestamp_offset,
            stats: Stats::default(),
            limiter: Limiter::default(),
            silent_probes: 0,
            config: config.clone(),
        }
    }

    /// Opens a connection actively: sends SYN.
    pub fn connect(config: &Config, secrets: Secrets, now: Time, out: &mut Out) -> Self {
        let mut connection = Self::new(config, secrets, State::SynSent);
        connection.send.nxt += 1;
        connection.send_syn(now, out);
        connection
    }

    /// Opens a connection passively: answers the SYN that has this header. [`Listener`](crate::Listener), or the
    /// caller, decides whether it is to be answered.
    pub fn accept(config: &Config, secrets: Secrets, syn: &Header, now: Time, out: &mut Out) -> Self {
        let mut connection = Self::answered(config, secrets, syn, now);
        connection.send_syn(now, out);
        connection
    }

    /// Returns the connection in the state after that SYN has been answered.
    pub(crate) fn answered(config: &Config, secrets: Secrets, syn: &Header, now: Time) -> Self {
        let mut connection = Self::new(config, secrets, State::SynReceived);
        connection.is_passive = true;
        connection.agree(&syn.options);
        connection.receive.open(syn.seq);
        connection.note_stamp(syn, now);
        connection.send.nxt += 1;
        connection.receive.offer(0);
        connection.timers.set(Timer::Retransmit, now + connection.send.rtt.timeout());
        connection
    }

    /// Applies the options of the peer's SYN.
    pub(crate) fn agree(&mut self, peer: &Options) {
        self.is_stamped = self.config.timestamps && peer.timestamps.is_some();
        let stamp_bytes = if self.is_stamped { 12 } else { 0 };
        // RFC 9293, section 3.7.1: the default is 536. A lower bound protects from a peer that asks for tiny
        // segments.
        let peer_mss = u32::from(peer.mss.unwrap_or(536)).max(64);
        let payload_max = peer_mss.min(u32::from(self.config.mss).max(64)) - stamp_bytes;
        self.is_scaled = peer.window_scale.is_some();
        let scale = match peer.window_scale {
            Some(scale) => scale.min(SCALE_MAX),
            None => {
                self.receive.scale = 0;
                0
            }
        };
        self.send.agree(&self.config, payload_max, scale, self.config.sack && peer.sack_permitted);
    }

    /// Queues messages, as many as there is room for, and sends what may be sent. Returns how many it took: the rest
    /// stays the caller's, to be offered again when slots have come back. Messages of no bytes come back at once.
    ///
    /// # Errors
    /// Fails after [`close`](Self::close), and after the connection has ended. Then it took no messages.
    pub fn send(&mut self, messages: &[Payload], now: Time, out: &mut Out) -> Result<usize, Closing> {
        let may_send =
            matches!(self.state, State::SynSent | State::SynReceived | State::Established | State::CloseWait);
        if !may_send || self.send.fin != Fin::Open {
            return Err(Closing);
        }
        let mut taken = 0;
        for &message in messages {
            if message.bytes == 0 {
                if out.acked.len() == out.acked.capacity() {
                    break;
                }
                out.acked.push(message.slot);
            } else if !self.send.queue.push(message, self.send.una) {
                break;
            }
            taken += 1;
        }
        self.transmit(now, out);
        Ok(taken)
    }

    /// Notes that the application is done with `bytes` of delivered payload: the window may grow again.
    pub fn consume(&mut self, bytes: u32, now: Time, out: &mut Out) {
        let is_update_due = self.receive.consume(bytes);
        if is_update_due && self.may_receive() {
            self.send_ack(now, out);
        }
    }

    /// Sends the queued messages, then FIN. The peer may go on sending, and its data is still delivered.
    pub fn close(&mut self, now: Time, out: &mut Out) {
        if self.send.fin != Fin::Open {
            return;
        }
        match self.state {
            State::SynSent if self.send.queue.len() == 0 => self.end(Reason::Aborted, out),
            // FIN waits for the handshake.
            State::SynSent | State::SynReceived => self.send.fin = Fin::Queued,
            State::Established | State::CloseWait => {
                self.send.fin = Fin::Queued;
                self.state = if self.state == State::Established { State::FinWait1 } else { State::LastAck };
                self.transmit(now, out);
            }
            _ => {}
        }
    }

    /// Ends the connection at once, and sends the peer a reset.
    pub fn abort(&mut self, now: Time, out: &mut Out) {
        if matches!(self.state, State::Closed) {
            return;
        }
        if !matches!(self.state, State::SynSent | State::TimeWait) {
            self.send_reset(now, out);
        }
        self.end(Reason::Aborted, out);
    }

    /// Returns the time at which [`on_deadline`](Self::on_deadline) is to be called; `None` while no timer runs. The
    /// time may already have passed, if [`Out`] had no room for all that is due.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_more_due { Some(Time::ZERO) } else { self.timers.earliest() }
    }

    /// Performs the work that is due at `now`.
    pub fn on_deadline(&mut self, now: Time, out: &mut Out) {
        if self.timers.take_due(Timer::TimeWait, now) {
            return self.end(Reason::Finished, out);
        }
        if self.timers.take_due(Timer::Retransmit, now) {
            self.on_retransmit(now, out);
        }
        if self.timers.take_due(Timer::Persist, now) {
            self.on_persist(now, out);
        }
        if self.timers.take_due(Timer::KeepAlive, now) {
            self.on_keep_alive(now, out);
        }
        if self.timers.take_due(Timer::Ack, now) {
            self.receive.is_ack_due |= self.receive.is_ack_delayed;
        }
        self.flush(now, out);
    }

    fn on_retransmit(&mut self, now: Time, out: &mut Out) {
        let retries_max = match self.state {
            State::SynSent | State::SynReceived => self.config.syn_retries,
            _ => self.config.retries,
        };
        if self.send.retries >= retries_max {
            if self.state != State::SynSent {
                self.send_reset(now, out);
            }
            return self.end(Reason::TimedOut, out);
        }
        self.stats.timeouts += 1;
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.send.retries += 1;
            self.send.rtt.back_off();
            self.stats.resent_segments += 1;
            return self.send_syn(now, out);
        }
        self.send.on_timeout();
        if self.send.wnd == 0 {
            self.stats.probes += 1;
        }
        self.resend(0, now, out);
        self.timers.set(Timer::Retransmit, now + self.send.rtt.timeout());
    }

    fn on_persist(&mut self, now: Time, out: &mut Out) {
        if let Next::New { bytes, fin } = self.send.next_new(true) {
            if out.is_send_full() {
                self.timers.set(Timer::Persist, now);
                return;
            }
            self.stats.probes += 1;
            self.send.rtt.back_off();
            self.send_new(bytes, fin, now, out);
        }
    }

    fn on_keep_alive(&mut self, now: Time, out: &mut Out) {
        let Some(keep_alive) = self.config.keep_alive else { return };
        if !self.send.flight.is_empty() {
            // The retransmission timer finds out whether the peer lives.
            self.timers.set(Timer::KeepAlive, now + keep_alive.idle);
            return;
        }
        if self.silent_probes >= keep_alive.probes {
            self.send_reset(now, out);
            return self.end(Reason::TimedOut, out);
        }
        self.silent_probes += 1;
        self.stats.probes += 1;
        self.send_probe(now, out);
        self.timers.set(Timer::KeepAlive, now + keep_alive.interval);
    }

    /// Notes that something arrived, so the peer lives.
    pub(crate) fn note_life(&mut self, now: Time) {
        if let Some(keep_alive) = self.config.keep_alive
            && !matches!(self.state, State::SynSent | State::SynReceived | State::TimeWait | State::Closed)
        {
            self.silent_probes = 0;
            self.timers.set(Timer::KeepAlive, now + keep_alive.idle);
        }
    }

    pub(crate) fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers.clear_all();
        self.timers.set(Timer::TimeWait, now + self.config.time_wait);
    }

    /// Ends the connection and hands all slots back.
    pub(crate) fn end(&mut self, reason: Reason, out: &mut Out) {
        self.state = State::Closed;
        self.timers.clear_all();
        self.is_more_due = false;
        self.receive.is_ack_due = false;
        self.send.queue.abandon(&mut out.abandoned);
        self.receive.reassembly.clear(&mut out.refused);
        out.events.push(Event::Closed(reason));
    }

    /// Returns whether the peer may still send.
    pub(crate) fn may_receive(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Returns the connection's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns the number of bytes in flight, payload and FIN.
    pub fn in_flight_bytes(&self) -> u32 {
        self.send.flight.bytes()
    }

    /// Returns the number of bytes queued and not yet sent.
    pub fn unsent_bytes(&self) -> u32 {
        self.send.unsent_bytes()
    }

    /// Returns the congestion window, in bytes.
    pub fn congestion_window_bytes(&self) -> u32 {
        self.send.window_bytes()
    }

    /// Returns the smoothed round trip, or `None` before the first sample.
    pub fn round_trip(&self) -> Option<core::time::Duration> {
        self.send.rtt.smoothed()
    }

    /// Asserts the invariants that hold between any two calls, for simulations and fuzzers.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a bug of this crate.
    pub fn assert_invariants(&self) {
        match self.state {
            State::SynSent | State::SynReceived => {
                assert!(self.timers.is_set(Timer::Retransmit), "SYN in flight without a timer");
                return;
            }
            State::Closed => {
                assert_eq!(self.deadline(), None, "nothing is waited for where nothing is");
                assert!(self.send.queue.len() == 0 && self.receive.reassembly.is_empty(), "slots were kept");
                return;
            }
            _ => {}
        }
        self.send.assert_invariants();
        self.receive.assert_invariants();
        if self.state == State::TimeWait {
            assert!(self.timers.is_set(Timer::TimeWait), "TIME-WAIT without an end");
            return;
        }
        if !self.send.flight.is_empty() {
            assert!(self.timers.is_set(Timer::Retransmit), "a flight without a timer");
        } else if self.send.has_unsent() {
            let is_waited_for = self.timers.is_set(Timer::Persist) || self.is_more_due;
            assert!(is_waited_for, "unsent data without a timer");
        }
        let is_acked = !self.receive.is_ack_delayed || self.timers.is_set(Timer::Ack);
        assert!(is_acked || self.is_more_due, "a delayed acknowledgement without a timer");
        let is_fin_sent = self.send.fin == Fin::Sent && self.send.flight.is_empty() && !self.is_more_due;
        assert!(
            !(is_fin_sent && matches!(self.state, State::FinWait1 | State::Closing | State::LastAck)),
            "FIN was acknowledged and the state does not know"
        );
        assert_eq!(
            self.receive.is_finished,
            matches!(self.state, State::CloseWait | State::Closing | State::LastAck),
            "the state and the peer's FIN"
        );
    }
}
