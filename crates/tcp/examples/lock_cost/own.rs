//! This crate behind a mutex. The mutex is an unfair one on purpose: a lock that is granted in the order of requests
//! collapses when a virtual processor is descheduled while it waits in the queue.

use super::{Held, Lane, MESSAGE_BYTES, MTU, Stack};
use sealane_tcp::{Config, Connection, Flags, Header, Options, Out, Payload, Secrets, Segment, Seq, Time};
use std::sync::Mutex;
use std::time::Instant;

const IRS: Seq = Seq(500);

pub(crate) struct Own {
    shared: Mutex<Connection>,
    start: Instant,
}

/// Timestamps are off, because smoltcp does not send them by default.
pub(crate) fn config() -> Config {
    Config {
        mss: (MTU - 40) as u16,
        nagle: false,
        join_messages: false,
        timestamps: false,
        ..Config::default()
    }
}

impl Own {
    pub(crate) fn new() -> Self {
        let mut out = Out::new(&config(), 64);
        let secrets = Secrets { isn: Seq(1000), timestamp_offset: 0 };
        let mut connection = Connection::connect(&config(), secrets, Time::ZERO, &mut out);
        let options =
            Options { mss: Some(4312), window_scale: Some(7), sack_permitted: true, ..Options::default() };
        let header =
            Header { seq: IRS, ack: Seq(1001), flags: Flags::SYN | Flags::ACK, window: u16::MAX, options };
        connection.receive(&[Segment { header, ..Segment::default() }], Time::from_ns(1000), &mut out);
        Self { shared: Mutex::new(connection), start: Instant::now() }
    }
}

impl Stack for Own {
    fn pass(&self, lane: &mut Lane, batch: usize, held: &mut Held) {
        let messages: [Payload; 64] =
            std::array::from_fn(|slot| Payload { slot: slot as u32, start: 0, bytes: MESSAGE_BYTES });
        let now = Time::from_ns(self.start.elapsed().as_nanos() as u64);
        lane.out.clear();
        {
            let mut connection = self.shared.lock().expect("no lane panics");
            let taken_at = Instant::now();
            connection.send(&messages[..batch], now, &mut lane.out).expect("it is open");
            held.ns += taken_at.elapsed().as_nanos() as u64;
        }
        held.locks += 1;
        // The driver plays the peer: it has seen these segments, and acknowledges the last.
        let last = lane.out.send.last().map(|last| last.header.seq + last.parts.bytes());
        let Some(ack) = last.or(lane.owed) else { return };
        let header =
            Header { seq: IRS + 1, ack, flags: Flags::ACK, window: u16::MAX, options: Options::default() };
        lane.out.clear();
        {
            let mut connection = self.shared.lock().expect("no lane panics");
            let taken_at = Instant::now();
            connection.receive(&[Segment { header, payload: Payload::EMPTY }], now, &mut lane.out);
            held.ns += taken_at.elapsed().as_nanos() as u64;
        }
        // The next pass acknowledges the segments that this acknowledgement let out.
        lane.owed = lane.out.send.last().map(|last| last.header.seq + last.parts.bytes());
        held.locks += 1;
        held.messages += lane.out.acked.len() as u64;
    }
}
