//! A host for one connection of ours, with packets as bytes on both sides of it, and an application that sends a stream
//! and keeps what it receives.

use super::Pool;
use super::ip::{Address, packet, parse};
use sealane_tcp::{
    Answer, Config, Connection, Event, Listener, Out, Payload, Reason, Secrets, Segment, Seq, State, Time,
    reset_for,
};
use std::collections::VecDeque;

pub(crate) struct Node {
    pub(crate) connection: Option<Box<Connection>>,
    listener: Listener<(u32, u16)>,
    config: Config,
    pub(crate) pool: Pool,
    out: Out,
    local: Address,
    remote: Option<Address>,
    /// The stream to be sent, and the number of its bytes queued so far.
    pub(crate) stream: Vec<u8>,
    queued: usize,
    /// Whether to close once the stream is sent.
    pub(crate) closes: bool,
    pub(crate) received: Vec<u8>,
    pub(crate) is_peer_closed: bool,
    pub(crate) ended: Option<Reason>,
    /// Packets to be sent.
    pub(crate) packets: VecDeque<Vec<u8>>,
}

fn secrets(now: Time) -> Secrets {
    Secrets { isn: Seq::initial(now, 0xffff_0000), timestamp_offset: 0xffff_ff00 }
}

impl Node {
    /// Listens at `local`.
    pub(crate) fn listen(config: &Config, local: Address) -> Self {
        Self {
            connection: None,
            listener: Listener::new(config, 4),
            config: config.clone(),
            pool: Pool::default(),
            out: Out::new(config, 16),
            local,
            remote: None,
            stream: Vec::new(),
            queued: 0,
            closes: false,
            received: Vec::new(),
            is_peer_closed: false,
            ended: None,
            packets: VecDeque::new(),
        }
    }

    /// Connects from `local` to `remote`.
    pub(crate) fn connect(config: &Config, local: Address, remote: Address, now: Time) -> Self {
        let mut node = Self::listen(config, local);
        let connection = Connection::connect(&node.config, secrets(now), now, &mut node.out);
        node.connection = Some(Box::new(connection));
        node.remote = Some(remote);
        node.drain(now);
        node
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let connection = self.connection.as_ref().and_then(|connection| connection.deadline());
        [connection, self.listener.deadline()].into_iter().flatten().min()
    }

    pub(crate) fn on_packet(&mut self, bytes: &[u8], now: Time) {
        let Some((from, to, header, body)) = parse(bytes) else { return };
        if to != self.local {
            return;
        }
        let payload = if body.is_empty() { Payload::EMPTY } else { self.pool.put(body) };
        let segment = Segment { header, payload };
        let key = (u32::from_be_bytes(from.ip), from.port);
        let is_ours = self.remote.is_none_or(|remote| remote == from);
        let mut answer = None;
        let mut is_taken = false;
        match &mut self.connection {
            Some(connection) if is_ours && connection.state() != State::Closed => {
                is_taken = connection.receive(&[segment], now, &mut self.out) == 1;
            }
            None => match self.listener.receive(key, &segment, || secrets(now), now, &mut self.out) {
                Answer::Opened(connection) => {
                    self.connection = Some(connection);
                    self.remote = Some(from);
                    is_taken = true;
                }
                Answer::Reply(header) => answer = Some(header),
                Answer::Nothing => {}
            },
            Some(_) => answer = reset_for(&header, payload.bytes),
        }
        if let Some(header) = answer {
            self.packets.push_back(packet(self.local, from, &header, &[]));
        }
        if !is_taken && payload.bytes > 0 {
            self.pool.free(payload.slot);
        }
        self.drain(now);
    }

    /// Handles deadlines, sends as much as there is room for, and closes.
    pub(crate) fn poll(&mut self, now: Time) {
        let local = self.local;
        let packets = &mut self.packets;
        self.listener.on_deadline(now, |(ip, port), header| {
            packets.push_back(packet(local, Address { ip: ip.to_be_bytes(), port }, &header, &[]));
        });
        while let Some(connection) = &mut self.connection
            && connection.deadline().is_some_and(|deadline| deadline <= now)
        {
            connection.on_deadline(now, &mut self.out);
            self.drain(now);
        }
        while let Some(connection) = &mut self.connection
            && self.queued < self.stream.len()
            && matches!(connection.state(), State::Established | State::CloseWait)
        {
            let end = self.stream.len().min(self.queued + 4096);
            let message = self.pool.put(self.stream[self.queued..end].to_vec());
            let taken = connection.send(&[message], now, &mut self.out);
            if taken == Ok(1) {
                self.queued = end;
            } else {
                self.pool.free(message.slot);
            }
            self.drain(now);
            if taken != Ok(1) {
                break;
            }
        }
        if let Some(connection) = &mut self.connection
            && self.closes
            && self.queued == self.stream.len()
        {
            connection.close(now, &mut self.out);
            self.drain(now);
        }
    }

    /// Breaks off.
    pub(crate) fn abort(&mut self, now: Time) {
        if let Some(connection) = &mut self.connection {
            connection.abort(now, &mut self.out);
        }
        self.drain(now);
    }

    fn drain(&mut self, now: Time) {
        loop {
            let remote = self.remote;
            for transmit in self.out.send.drain(..) {
                let body = self.pool.gather(&transmit);
                let to = remote.expect("a connection has a peer");
                self.packets.push_back(packet(self.local, to, &transmit.header, &body));
            }
            let mut consumed = 0;
            for payload in self.out.deliver.drain(..) {
                self.received.extend_from_slice(self.pool.get(payload));
                consumed += payload.bytes;
                self.pool.free(payload.slot);
            }
            for list in [&mut self.out.acked, &mut self.out.refused, &mut self.out.abandoned] {
                for slot in list.drain(..) {
                    self.pool.free(slot);
                }
            }
            for event in self.out.events.drain(..) {
                match event {
                    Event::Established => {}
                    Event::PeerClosed => self.is_peer_closed = true,
                    Event::Closed(reason) => self.ended = Some(reason),
                }
            }
            let Some(connection) = &mut self.connection else { break };
            connection.assert_invariants();
            if consumed == 0 {
                break;
            }
            connection.consume(consumed, now, &mut self.out);
        }
    }
}
