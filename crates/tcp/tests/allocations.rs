//! Proves that an open connection allocates nothing: not for data, not for acknowledgements, not for losses and gaps.

#[path = "../../../testing/allocations.rs"]
mod allocations;

use sealane_tcp::{Config, Connection, Out, Payload, Secrets, Segment, Seq, Time};
use std::time::Duration;

/// Carries segments as a link would; `is_lost` names the slots whose segments are dropped. Messages here are segments
/// of one part.
fn carry(out: &mut Out, to: &mut Vec<Segment>, is_lost: impl Fn(u32) -> bool) {
    to.clear();
    for transmit in out.send.drain(..) {
        let payload = transmit.parts.first().copied().unwrap_or(Payload::EMPTY);
        if payload.bytes == 0 || !is_lost(payload.slot) {
            to.push(Segment { header: transmit.header, payload });
        }
    }
}

/// Hands `segments` over, and counts delivered bytes.
fn receive(connection: &mut Connection, segments: &[Segment], now: Time, out: &mut Out) -> usize {
    let mut delivered = 0;
    for batch in segments.chunks(out.batch_max()) {
        assert_eq!(connection.receive(batch, now, out), batch.len());
        delivered += out.deliver.len();
        out.deliver.clear();
        out.acked.clear();
        out.refused.clear();
    }
    delivered
}

#[test]
fn an_open_connection_allocates_nothing() {
    let config = Config {
        mss: 4312,
        nagle: false,
        join_messages: false,
        ack_delay: Duration::from_millis(1),
        ..Config::default()
    };
    let (mut out, mut back) = (Out::new(&config, 64), Out::new(&config, 64));
    let mut segments = Vec::with_capacity(1024);
    let secrets = Secrets { isn: Seq(u32::MAX - 1000), timestamp_offset: 0 };
    let mut now = Time::ZERO;
    let mut sender = Connection::connect(&config, secrets, now, &mut out);
    carry(&mut out, &mut segments, |_| false);
    let mut receiver = Connection::accept(&config, secrets, &segments[0].header, now, &mut back);

    let mut before = 0;
    let mut delivered = 0;
    for round in 0..2000_u32 {
        if round == 1 {
            // The handshake is over.
            before = allocations::count();
        }
        let messages: [Payload; 8] =
            std::array::from_fn(|slot| Payload { slot: slot as u32, start: 0, bytes: 4096 });
        sender.send(&messages, now, &mut out).expect("it is open");
        for turn in 0..5 {
            // Every fifty rounds a segment is lost, which causes gaps, selective acknowledgements and recovery.
            carry(&mut out, &mut segments, |slot| round % 50 == 49 && turn == 0 && slot == 3);
            let bytes = 4096 * receive(&mut receiver, &segments, now, &mut back);
            receiver.consume(bytes as u32, now, &mut back);
            delivered += bytes / 4096;
            carry(&mut back, &mut segments, |_| false);
            receive(&mut sender, &segments, now, &mut out);
        }
        now = now + Duration::from_millis(10);
        receiver.on_deadline(now, &mut back);
        sender.on_deadline(now, &mut out);
        out.events.clear();
        back.events.clear();
    }
    assert_eq!(allocations::count() - before, 0, "allocations");
    assert!(delivered > 15_000, "{delivered} messages were delivered");
    assert!(sender.stats().fast_recoveries > 10, "{:?}", sender.stats());
}
