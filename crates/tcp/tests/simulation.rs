//! Ten thousand seeded conversations in virtual time, over a network that loses, reorders, repeats and delays,
//! between ends that stop reading, close, or break off. For every seed: bytes arrive as they were sent, every slot
//! comes back once, invariants hold after every step, lists do not grow, and the conversation ends.
//!
//! `SEALANE_TCP_SEED=17 cargo test -p sealane-tcp --test simulation` runs one seed alone and prints every segment.

mod common;

use common::{Pool, Random, capacities, content};
use sealane_tcp::{
    Answer, Config, Congestion, Connection, Event, HEADER_BYTES_MAX, Header, KeepAlive, Listener, Out,
    Payload, Ports, Reason, Secrets, Segment, Seq, State, Time, decode, encode, reset_for,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const SEEDS: u64 = 10_000;
/// More steps than any honest conversation takes.
const STEPS_MAX: u64 = 200_000;

const MS: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Both close when they have sent everything.
    Both,
    /// The first host breaks off midway.
    Abort,
    /// The network dies midway.
    Dead,
}

/// A packet under way: header and bytes.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    at: Time,
    number: u64,
    to: usize,
    header: Header,
    bytes: Vec<u8>,
}

impl Ord for Packet {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
struct Link {
    random: Random,
    delay: Duration,
    jitter_ns: u64,
    loss_permille: u64,
    repeat_permille: u64,
    reorder_permille: u64,
    is_dead: bool,
    is_traced: bool,
    packets: BinaryHeap<Reverse<Packet>>,
    number: u64,
}

impl Link {
    fn send(&mut self, now: Time, to: usize, header: Header, bytes: Vec<u8>) {
        let Header { seq, ack, flags, window, options } = header;
        if self.is_traced {
            let ms = now.as_ns() as f64 / 1e6;
            println!(
                "{ms:.3} to {to}: {flags:?} {seq:?}+{} ack {ack:?} window {window} {:?}",
                bytes.len(),
                options.sack
            );
        }
        // Through bytes, as on a wire.
        let mut buffer = [0; HEADER_BYTES_MAX];
        let length = encode(Ports::default(), &header, &mut buffer).expect("room for a header");
        let (_, decoded, _) = decode(&buffer[..length]).expect("what was encoded");
        assert_eq!(decoded, header);
        let copies = 1 + usize::from(self.random.permille(self.repeat_permille));
        for _ in 0..copies {
            if self.is_dead || self.random.permille(self.loss_permille) {
                continue;
            }
            let mut delay = self.delay + Duration::from_nanos(self.random.below(self.jitter_ns + 1));
            if self.random.permille(self.reorder_permille) {
                delay += self.delay * self.random.within(1, 4) as u32;
            }
            self.number += 1;
            let packet = Packet { at: now + delay, number: self.number, to, header, bytes: bytes.clone() };
            self.packets.push(Reverse(packet));
        }
    }
}

struct Host {
    index: usize,
    config: Config,
    connection: Option<Box<Connection>>,
    listener: Option<Listener<u32>>,
    secrets: Secrets,
    pool: Pool,
    out: Out,
    capacities: [usize; 6],
    /// The number of bytes to send in all, and of those queued so far.
    total: u64,
    queued: u64,
    received: u64,
    unconsumed: u64,
    /// Reads nothing until then.
    reads_from: Time,
    /// Does something next.
    acts_at: Time,
    idle_acts: u32,
    message_max: u64,
    is_established: bool,
    is_closed_here: bool,
    is_peer_closed: bool,
    ended: Option<Reason>,
}

impl Host {
    /// Returns whether any data is left to be sent or read, or the end is left to be closed.
    fn wants_to_act(&self) -> bool {
        self.ended.is_none() && self.connection.is_some() && (!self.is_closed_here || self.unconsumed > 0)
    }

    fn deadline(&self) -> Option<Time> {
        let connection = self.connection.as_ref().and_then(|connection| connection.deadline());
        let listener = self.listener.as_ref().and_then(Listener::deadline);
        let acts = self.wants_to_act().then_some(self.acts_at);
        [connection, listener, acts].into_iter().flatten().min()
    }

    /// Returns the host's state, for a failure's message.
    fn told(&self) -> String {
        let connection = self.connection.as_ref().map(|connection| {
            (
                connection.state(),
                connection.deadline(),
                connection.in_flight_bytes(),
                connection.unsent_bytes(),
            )
        });
        let bytes = (self.total, self.queued, self.received, self.unconsumed);
        format!("{connection:?}, {bytes:?} bytes, {:?}, {:?}", self.ended, self.config)
    }

    /// Processes the results that the connection left in `Out`.
    fn drain(&mut self, now: Time, link: &mut Link) {
        for transmit in self.out.send.drain(..) {
            link.send(now, 1 - self.index, transmit.header, self.pool.gather(&transmit));
        }
        for payload in self.out.deliver.drain(..) {
            for &byte in self.pool.get(payload) {
                assert_eq!(byte, content(1 - self.index as u64, self.received), "byte {}", self.received);
                self.received += 1;
            }
            self.unconsumed += u64::from(payload.bytes);
            self.pool.free(payload.slot);
        }
        for list in [&mut self.out.acked, &mut self.out.refused, &mut self.out.abandoned] {
            for slot in list.drain(..) {
                self.pool.free(slot);
            }
        }
        for event in self.out.events.drain(..) {
            assert_eq!(self.ended, None, "nothing happens after the end");
            match event {
                Event::Established => self.is_established = true,
                Event::PeerClosed => {
                    assert!(!self.is_peer_closed);
                    self.is_peer_closed = true;
                }
                Event::Closed(reason) => self.ended = Some(reason),
            }
        }
        assert_eq!(capacities(&self.out), self.capacities, "a list has grown");
        if let Some(connection) = &self.connection {
            connection.assert_invariants();
        }
    }

    fn receive(&mut self, packets: Vec<Packet>, now: Time, link: &mut Link) {
        let mut segments: Vec<Segment> = packets
            .into_iter()
            .map(|packet| {
                let payload =
                    if packet.bytes.is_empty() { Payload::EMPTY } else { self.pool.put(packet.bytes) };
                Segment { header: packet.header, payload }
            })
            .collect();
        while !segments.is_empty() {
            if let (None, Some(listener)) = (&self.connection, &mut self.listener) {
                let segment = segments.remove(0);
                let secrets = self.secrets;
                match listener.receive(7, &segment, || secrets, now, &mut self.out) {
                    Answer::Opened(connection) => self.connection = Some(connection),
                    answer => {
                        if let Answer::Reply(header) = answer {
                            link.send(now, 1 - self.index, header, Vec::new());
                        }
                        if segment.payload.bytes > 0 {
                            self.pool.free(segment.payload.slot);
                        }
                    }
                }
            } else if self.ended.is_none()
                && let Some(connection) = &mut self.connection
            {
                let taken = connection.receive(&segments, now, &mut self.out);
                assert!(taken > 0, "a drained list has room");
                segments.drain(..taken);
            } else {
                let segment = segments.remove(0);
                if let Some(header) = reset_for(&segment.header, segment.payload.bytes) {
                    link.send(now, 1 - self.index, header, Vec::new());
                }
                if segment.payload.bytes > 0 {
                    self.pool.free(segment.payload.slot);
                }
            }
            self.drain(now, link);
        }
    }

    fn act(&mut self, random: &mut Random, now: Time, link: &mut Link) {
        // A host that can do nothing waits ever longer: conversations with long timeouts take few steps.
        let pause_ns = random.within(10_000, 1_000_000 + 3 * link.delay.as_nanos() as u64);
        let factor = 1 << self.idle_acts.min(8);
        self.acts_at = now + (Duration::from_nanos(pause_ns) * factor).min(Duration::from_secs(1));
        let before = (self.queued, self.unconsumed, self.is_closed_here);
        let mut messages = Vec::new();
        if !self.is_closed_here {
            for _ in 0..random.within(1, 12) {
                let bytes = random.within(1, self.message_max).min(self.total - self.queued);
                if bytes == 0 {
                    break;
                }
                let body =
                    (self.queued..self.queued + bytes).map(|at| content(self.index as u64, at)).collect();
                self.queued += bytes;
                messages.push(self.pool.put(body));
            }
        }
        let connection = self.connection.as_mut().expect("there is a connection");
        if !messages.is_empty() {
            let taken = connection.send(&messages, now, &mut self.out).unwrap_or(0);
            for payload in &messages[taken..] {
                self.queued -= u64::from(payload.bytes);
                self.pool.free(payload.slot);
            }
            self.drain(now, link);
        }
        let connection = self.connection.as_mut().expect("there is a connection");
        if now >= self.reads_from && self.unconsumed > 0 {
            let bytes = random.within(1, self.unconsumed);
            self.unconsumed -= bytes;
            connection.consume(bytes as u32, now, &mut self.out);
        } else if random.once_in(40) {
            self.reads_from = now + MS * random.within(1, 5_000) as u32;
        }
        // A host that closed before the handshake, with nothing to send, would never hear of a failure.
        let is_worth_it = self.total > 0 || self.is_established;
        if self.queued == self.total && is_worth_it && !self.is_closed_here && random.once_in(3) {
            self.is_closed_here = true;
            connection.close(now, &mut self.out);
        }
        self.drain(now, link);
        let is_idle = before == (self.queued, self.unconsumed, self.is_closed_here);
        self.idle_acts = if is_idle { self.idle_acts + 1 } else { 0 };
    }
}

fn configuration(random: &mut Random, ending: Ending) -> Config {
    let keep_alive = KeepAlive { idle: 2000 * MS, interval: 500 * MS, probes: 20 };
    Config {
        mss: random.one_of(&[64, 536, 1460, 1460, 4312, 8960]),
        congestion: random.one_of(&[Congestion::NewReno, Congestion::Cubic]),
        nagle: random.once_in(2),
        join_messages: !random.once_in(4),
        sack: !random.once_in(3),
        timestamps: !random.once_in(3),
        ack_delay: MS * random.one_of(&[1, 40, 200]),
        receive_bytes: random.one_of(&[1, 1000, 5000, 20_000, 65_535, 65_536, 1 << 20]),
        reassembly_segments: random.one_of(&[1, 4, 64]),
        send_messages: random.one_of(&[1, 4, 64]),
        flight_segments: random.one_of(&[1, 4, 256]),
        rto_min: MS * random.one_of(&[10, 200, 1000]),
        time_wait: MS * random.within(1_000, 60_000) as u32,
        // Only probes discover that a silent peer has gone.
        keep_alive: (ending != Ending::Both || random.once_in(4)).then_some(keep_alive),
        ..Config::default()
    }
}

fn host(index: usize, random: &mut Random, ending: Ending) -> Host {
    let config = configuration(random, ending);
    let batch = random.one_of(&[1, 2, 8, 32]);
    let out = Out::new(&config, batch);
    // With a window of one byte, one byte moves per round trip.
    let total_max = random.one_of(&[0, 1, 3_000, 30_000, 60_000]);
    Host {
        index,
        capacities: capacities(&out),
        connection: None,
        listener: None,
        // Half of the conversations pass the end of the sequence numbers.
        secrets: Secrets {
            isn: Seq(if random.once_in(2) {
                u32::MAX - random.below(30_000) as u32
            } else {
                random.next() as u32
            }),
            timestamp_offset: if random.once_in(2) { u32::MAX - 500 } else { random.next() as u32 },
        },
        pool: Pool::default(),
        out,
        total: random.within(0, total_max),
        queued: 0,
        received: 0,
        unconsumed: 0,
        reads_from: Time::ZERO,
        acts_at: Time::ZERO,
        idle_acts: 0,
        message_max: random.one_of(&[10, 1000, 4096, 20_000]),
        is_established: false,
        is_closed_here: false,
        is_peer_closed: false,
        ended: None,
        config,
    }
}

/// Properties of a conversation, by which the test proves that all corners are reached.
#[derive(Debug, Default)]
struct Seen {
    resent: u64,
    timeouts: u64,
    fast: u64,
    early: u64,
    paws: u64,
    probes: u64,
    challenges: u64,
    time_waits: u64,
    resets: u64,
    timed_out: u64,
    delivered: u64,
    simultaneous: u64,
}

fn converse(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let ending =
        random.one_of(&[Ending::Both, Ending::Both, Ending::Both, Ending::Both, Ending::Abort, Ending::Dead]);
    let mut hosts = [host(0, &mut random, ending), host(1, &mut random, ending)];
    // Tiny windows move little data per round trip.
    for index in 0..2 {
        let (config, peer) = (&hosts[index].config, &hosts[1 - index].config);
        let queue = u64::from(config.send_messages) * hosts[index].message_max / 2;
        let segment = 2 * hosts[index].message_max;
        let narrow =
            queue.min(segment).min(peer.receive_bytes.into()).min(peer.mss.into()).min(config.mss.into());
        hosts[index].total = hosts[index].total.min(300 * narrow);
    }
    let is_clean = random.once_in(4);
    let mut link = Link {
        delay: Duration::from_micros(random.one_of(&[20, 1_000, 20_000, 150_000])),
        jitter_ns: random.one_of(&[0, 0, 10_000, 3_000_000]),
        loss_permille: if is_clean { 0 } else { random.one_of(&[1, 10, 50, 150]) },
        repeat_permille: if is_clean { 0 } else { random.one_of(&[0, 5, 50]) },
        reorder_permille: if is_clean { 0 } else { random.one_of(&[0, 5, 100]) },
        random: Random::new(random.next()),
        is_dead: false,
        is_traced: std::env::var_os("SEALANE_TCP_SEED").is_some(),
        packets: BinaryHeap::new(),
        number: 0,
    };
    let breaks_at = Time::ZERO + MS * random.within(1, 2_000) as u32;
    let mut now = Time::from_ns(random.one_of(&[0, 5_000_000_000, (1 << 52) + 7]));
    let breaks_at = now + breaks_at.since(Time::ZERO);
    for host in &mut hosts {
        host.acts_at = now;
        host.reads_from = now;
    }
    let is_simultaneous = random.once_in(8);
    seen.simultaneous += u64::from(is_simultaneous);
    for host in &mut hosts {
        if host.index == 0 || is_simultaneous {
            let connection = Connection::connect(&host.config, host.secrets, now, &mut host.out);
            host.connection = Some(Box::new(connection));
            host.drain(now, &mut link);
        } else {
            host.listener = Some(Listener::new(&host.config, 2));
        }
    }
    let mut steps = 0;
    let mut is_broken = false;
    while hosts.iter().any(|host| host.ended.is_none()) {
        steps += 1;
        assert!(steps < STEPS_MAX, "it does not end: at {now:?} {:?}", hosts.each_ref().map(Host::told));
        let mut next = link.packets.peek().map(|Reverse(packet)| packet.at);
        for host in &hosts {
            next = [next, host.deadline()].into_iter().flatten().min();
        }
        now = now.max(next.expect("something is waited for"));
        if ending != Ending::Both && now >= breaks_at && !is_broken {
            is_broken = true;
            if ending == Ending::Dead {
                link.is_dead = true;
            } else if let Some(connection) = &mut hosts[0].connection
                && hosts[0].ended.is_none()
            {
                connection.abort(now, &mut hosts[0].out);
                hosts[0].drain(now, &mut link);
            }
        }
        for host in &mut hosts {
            let mut arrived = Vec::new();
            while let Some(Reverse(packet)) = link.packets.peek()
                && packet.at <= now
                && packet.to == host.index
            {
                arrived.extend(link.packets.pop().map(|Reverse(packet)| packet));
            }
            host.receive(arrived, now, &mut link);
            if let Some(connection) = &mut host.connection
                && connection.deadline().is_some_and(|deadline| deadline <= now)
            {
                if connection.state() == State::TimeWait {
                    seen.time_waits += 1;
                }
                connection.on_deadline(now, &mut host.out);
                host.drain(now, &mut link);
            }
            if let Some(listener) = &mut host.listener {
                listener.on_deadline(now, |_, header| link.send(now, 1 - host.index, header, Vec::new()));
                // The peer never came, and there is nothing to wait for.
                if is_broken && host.connection.is_none() && listener.half_open() == 0 {
                    host.ended = Some(Reason::TimedOut);
                }
            }
            if host.wants_to_act() && host.acts_at <= now {
                host.act(&mut random, now, &mut link);
            }
        }
    }
    for index in 0..2 {
        let (host, peer) = (&hosts[index], &hosts[1 - index]);
        assert_eq!(host.pool.in_use(), 0, "slots were kept");
        if ending == Ending::Both {
            assert_eq!((host.received, host.is_peer_closed), (peer.total, true), "{:?}", host.ended);
            // The last acknowledgement may have been lost until the peer had forgotten the connection.
            assert!(matches!(host.ended, Some(Reason::Finished | Reason::Reset)), "{:?}", host.ended);
        }
        assert!(host.received <= peer.queued);
        seen.resets += u64::from(matches!(host.ended, Some(Reason::Reset | Reason::Refused)));
        seen.timed_out += u64::from(host.ended == Some(Reason::TimedOut));
        seen.delivered += host.received;
        if let Some(connection) = &host.connection {
            let stats = connection.stats();
            assert_eq!(stats.delivered_bytes, host.received);
            seen.resent += stats.resent_segments;
            seen.timeouts += stats.timeouts;
            seen.fast += stats.fast_recoveries;
            seen.early += stats.early_segments;
            seen.paws += stats.paws_segments;
            seen.probes += stats.probes;
            seen.challenges += stats.challenges;
        }
    }
}

#[test]
fn ten_thousand_conversations() {
    let mut seen = Seen::default();
    if let Some(seed) = std::env::var_os("SEALANE_TCP_SEED") {
        let seed = seed.to_str().and_then(|seed| seed.parse().ok()).expect("SEALANE_TCP_SEED is a number");
        return converse(seed, &mut seen);
    }
    let mut failed = Vec::new();
    for seed in 0..SEEDS {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| converse(seed, &mut seen)));
        if result.is_err() {
            eprintln!("that was seed {seed}");
            failed.push(seed);
        }
        assert!(failed.len() < 20, "seeds {failed:?}: see above");
    }
    assert_eq!(failed, [0; 0]);
    println!("{seen:?}");
    let Seen { resent, timeouts, fast, early, probes, challenges, time_waits, resets, timed_out, .. } = seen;
    for count in [resent, timeouts, fast, early, probes, challenges, time_waits, resets, timed_out] {
        assert!(count > 1000, "a part that the seeds do not reach: {seen:?}");
    }
    assert!(seen.simultaneous > 1000 && seen.delivered > 50_000_000, "{seen:?}");
}
