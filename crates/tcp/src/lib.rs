//! TCP (RFC 9293) as a value: batches of segments by reference and `now` go in; segments, deliveries and deadlines
//! come out. The crate has no socket, no clock, no thread and no source of randomness.
//!
//! It is built to stand under one short lock, which several lanes take for the packets of one connection:
//!
//! - A payload is a slot and a range in a pool of the caller's, never bytes. Checksums, digests and ciphers run
//!   before or after the lock, on any lane; slots are freed after it.
//! - A call takes a batch, so the lock is taken once per batch.
//! - Rings are allocated when a connection is opened, and there is no allocation after that.
//!
//! It implements: open (active, passive, simultaneous), transfer and close of RFC 9293; RFC 5961 against blind
//! attacks; window scaling, timestamps and PAWS (RFC 7323); SACK (RFC 2018, RFC 6675), or NewReno's recovery without
//! it (RFC 6582); PRR (RFC 6937); NewReno and CUBIC (RFC 5681, RFC 9438); the timer of RFC 6298; limited transmit
//! (RFC 3042); delayed acknowledgements, Nagle's rule, silly window avoidance, probes of closed windows, keep-alive.
//!
//! It does not implement ECN, path MTU discovery and pacing; urgent data is delivered in line (RFC 6093), and data on
//! SYN is ignored. Data segments carry no SACK blocks: an end that has a gap to report sends a separate
//! acknowledgement.
//!
//! # The contract
//!
//! - `now` never goes back.
//! - After every call, drain [`Out`]: send, deliver, free. A connection takes no more segments than there is room for
//!   in `Out` for their results.
//! - Call [`Connection::on_deadline`] when [`Connection::deadline`] has come.
//! - Segments are taken in the order of their arrival, whatever lane brings them: lanes take a ticket when a packet
//!   arrives and hand batches on in ticket order. Wrong order is not an error, but it looks like loss to the peer.
//! - The bytes of a message must not change until its slot comes back in [`Out::acked`] or [`Out::abandoned`]: they
//!   may be sent again. A layer below that changes bytes writes to another buffer.
//!
//! # Example
//!
//! Two ends in one program. The network is a pair of vectors, and a slot's number is an index into `pool`.
//!
//! ```
//! use sealane_tcp::{Config, Connection, Out, Payload, Secrets, Segment, Seq, Time};
//!
//! let config = Config::default();
//! let mut out = Out::new(&config, 8);
//! let pool = [b"sealed".to_vec(), b"lanes".to_vec()];
//! // A link lays the parts of a segment one behind the other. Here each has one part at most.
//! let carry = |out: &mut Out| -> Vec<Segment> {
//!     let part = |parts: &[Payload]| parts.first().copied().unwrap_or(Payload::EMPTY);
//!     out.send.drain(..).map(|sent| Segment { header: sent.header, payload: part(&sent.parts) }).collect()
//! };
//!
//! let now = Time::ZERO;
//! let mut client = Connection::connect(&config, Secrets { isn: Seq(1000), timestamp_offset: 0 }, now, &mut out);
//! let syn = carry(&mut out);
//! let mut server =
//!     Connection::accept(&config, Secrets { isn: Seq(9000), timestamp_offset: 0 }, &syn[0].header, now, &mut out);
//! let syn_ack = carry(&mut out);
//! client.receive(&syn_ack, now, &mut out);
//!
//! let messages = [(0, 6), (1, 5)].map(|(slot, bytes)| Payload { slot, start: 0, bytes });
//! assert_eq!(client.send(&messages, now, &mut out), Ok(2));
//! let segments = carry(&mut out);
//! server.receive(&segments, now, &mut out);
//! // The second message waits for an acknowledgement: `Config::nagle`.
//! assert_eq!(out.deliver.len(), 1);
//! let first = out.deliver[0];
//! assert_eq!(&pool[first.slot as usize][first.start as usize..][..first.bytes as usize], b"sealed");
//! ```

#![no_std]
#![forbid(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arrival;
#[cfg(feature = "wire")]
mod codec;
mod config;
mod congestion;
mod connection;
mod event;
mod flight;
mod limiter;
mod listener;
mod out;
mod output;
mod queue;
mod reassembly;
mod receiver;
mod recovery;
mod ring;
mod rtt;
mod segment;
mod sender;
mod seq;
mod stats;
mod time;
mod timers;

#[cfg(feature = "wire")]
pub use codec::{HEADER_BYTES_MAX, Ports, decode, encode};
pub use config::{Config, KeepAlive, Secrets};
pub use congestion::Congestion;
pub use connection::{Closing, Connection, State};
pub use event::{Event, Reason};
pub use listener::{Answer, Listener};
pub use out::Out;
pub use segment::{
    Flags, Header, Options, Parts, Payload, SackBlocks, Segment, Timestamps, Transmit, reset_for,
};
pub use seq::Seq;
pub use stats::Stats;
pub use time::Time;
