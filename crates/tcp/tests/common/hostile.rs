//! A peer that lies: its segments are made of any bytes, with numbers near the right ones, so that they look genuine.
//! Invariants hold after every call, every slot comes back once, and queued data stays bounded.

use sealane_tcp::{
    Config, Congestion, Connection, Flags, Header, KeepAlive, Options, Out, Payload, Secrets, Segment, Seq,
    State, Time, Timestamps,
};
use std::time::Duration;

/// Bytes, taken one by one; after the last one come zeros.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    fn half(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Returns a number that is mostly near zero, to be added to a right number.
    fn near(&mut self) -> u32 {
        match self.byte() {
            kind @ 0..=99 => u32::from(kind / 50),
            100..=149 => (i32::from(self.byte() as i8)) as u32,
            150..=229 => (i32::from(self.half() as i16)) as u32,
            _ => u32::from(self.half()) << 16 | u32::from(self.half()),
        }
    }
}

struct Host {
    connection: Connection,
    out: Out,
    /// The slots that the connection owns: even ones are sent, odd ones received.
    owned: Vec<bool>,
    /// The numbers that a right answer to the last segments has.
    next: Seq,
    ack: Seq,
    stamp: u32,
    unconsumed: u32,
}

impl Host {
    fn slot(&mut self, is_received: bool) -> u32 {
        let parity = usize::from(is_received);
        let free = (0..self.owned.len()).find(|&slot| slot % 2 == parity && !self.owned[slot]);
        let slot = free.unwrap_or(self.owned.len() + (self.owned.len() + parity) % 2);
        self.owned.resize(self.owned.len().max(slot + 1), false);
        self.owned[slot] = true;
        assert!(slot < 400, "slots pile up");
        slot as u32
    }

    fn drain(&mut self) {
        for transmit in self.out.send.drain(..) {
            let header = transmit.header;
            let extra = u32::from(header.flags.has(Flags::SYN)) + u32::from(header.flags.has(Flags::FIN));
            self.next = self.next.later(header.seq + transmit.parts.bytes() + extra);
            if header.flags.has(Flags::ACK) {
                self.ack = header.ack;
            }
            if let Some(stamp) = header.options.timestamps {
                self.stamp = stamp.value;
            }
            assert!(
                transmit.parts.iter().all(|part| self.owned[part.slot as usize]),
                "a slot was sent after its end"
            );
        }
        let delivered = self.out.deliver.drain(..).map(|payload| {
            self.unconsumed += payload.bytes;
            payload.slot
        });
        let back: Vec<u32> = delivered.collect();
        let lists = [&mut self.out.acked, &mut self.out.refused, &mut self.out.abandoned];
        for slot in lists.into_iter().flat_map(|list| list.drain(..)).chain(back) {
            assert!(std::mem::take(&mut self.owned[slot as usize]), "slot {slot} came back twice");
        }
        self.out.events.clear();
        self.connection.assert_invariants();
    }
}

/// Converses as `input` says; returns the number of segments taken.
pub(crate) fn converse(input: &[u8]) -> usize {
    let mut bytes = Bytes(input);
    let bits = bytes.byte();
    let config = Config {
        mss: [100, 1460][usize::from(bits & 1)],
        sack: bits & 2 == 0,
        timestamps: bits & 4 != 0,
        nagle: bits & 8 != 0,
        congestion: if bits & 16 == 0 { Congestion::Cubic } else { Congestion::NewReno },
        receive_bytes: 5000,
        reassembly_segments: 8,
        send_messages: 16,
        flight_segments: 16,
        retries: 3,
        keep_alive: (bits & 32 != 0).then_some(KeepAlive {
            idle: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            probes: 2,
        }),
        ..Config::default()
    };
    let mut now = Time::ZERO;
    let mut out = Out::new(&config, 4);
    let secrets = Secrets { isn: Seq(u32::MAX - 1000), timestamp_offset: u32::MAX - 5 };
    let connection = if bits & 64 == 0 {
        Connection::connect(&config, secrets, now, &mut out)
    } else {
        let syn = segment(&mut bytes, Seq(0), Seq(0), 0).header;
        Connection::accept(&config, secrets, &syn, now, &mut out)
    };
    let mut host =
        Host { connection, out, owned: Vec::new(), next: secrets.isn, ack: Seq(0), stamp: 0, unconsumed: 0 };
    host.drain();
    let mut taken = 0;
    while !bytes.0.is_empty() && host.connection.state() != State::Closed {
        match bytes.byte() % 16 {
            0 => {
                let slot = host.slot(false);
                let message = Payload { slot, start: 0, bytes: u32::from(bytes.half() % 4000) };
                if host.connection.send(&[message], now, &mut host.out) != Ok(1) {
                    host.owned[slot as usize] = false;
                }
            }
            1 => host.connection.close(now, &mut host.out),
            2 => {
                let consumed = u32::from(bytes.half()).min(host.unconsumed);
                host.unconsumed -= consumed;
                host.connection.consume(consumed, now, &mut host.out);
            }
            3 => now = now + Duration::from_millis(u64::from(bytes.byte())),
            4 | 5 => {
                now = host.connection.deadline().map_or(now, |deadline| now.max(deadline));
                host.connection.on_deadline(now, &mut host.out);
            }
            6 if bytes.byte() < 8 => host.connection.abort(now, &mut host.out),
            _ => {
                let count = 1 + usize::from(bytes.byte() % 3);
                let (next, ack, stamp) = (host.next, host.ack, host.stamp);
                let segments: Vec<Segment> = (0..count)
                    .map(|_| {
                        let mut segment = segment(&mut bytes, ack, next, stamp);
                        if segment.payload.bytes > 0 {
                            segment.payload.slot = host.slot(true);
                        }
                        segment
                    })
                    .collect();
                assert_eq!(host.connection.receive(&segments, now, &mut host.out), count);
                taken += count;
            }
        }
        host.drain();
    }
    host.connection.abort(now, &mut host.out);
    host.drain();
    assert!(host.owned.iter().all(|&is_owned| !is_owned), "slots were kept");
    taken
}

/// Returns a segment whose right number is `seq` and whose right acknowledgement is `ack`; its own may be others.
fn segment(bytes: &mut Bytes<'_>, seq: Seq, ack: Seq, stamp: u32) -> Segment {
    let flags = match bytes.byte() {
        0..=159 => Flags::ACK,
        160..=189 => Flags::ACK | Flags::FIN,
        190..=219 => Flags::SYN | Flags::ACK,
        _ => Flags(bytes.byte()),
    };
    let (seq, ack) = (seq + bytes.near(), ack + bytes.near());
    let bits = bytes.byte();
    let mut options = Options::default();
    if bits & 1 != 0 {
        options.mss = Some(bytes.half());
        options.window_scale = Some(bytes.byte());
    }
    options.sack_permitted = bits & 2 != 0;
    if bits & 4 == 0 {
        options.timestamps = Some(Timestamps { value: bytes.near(), echo: stamp.wrapping_add(bytes.near()) });
    }
    if bits & 24 == 24 {
        for _ in 0..bits >> 5 {
            let from = ack + bytes.near();
            options.sack.push(from, from + bytes.near());
        }
    }
    let window = if bits & 32 == 0 { 5000 } else { bytes.half() };
    let header = Header { seq, ack, flags, window, options };
    let length = match bits >> 6 {
        0 => 0,
        1 => u32::from(bytes.byte()),
        _ => u32::from(bytes.half() % 3000),
    };
    Segment { header, payload: Payload { slot: 0, start: 0, bytes: length } }
}
