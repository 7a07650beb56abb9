//! The choices that the user of a connection makes when it is opened.

use crate::{Congestion, Seq};
use core::time::Duration;

/// The behaviour and the bounds of a connection. Rings are allocated by these counts when the connection is opened.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most payload bytes of a segment that the link carries, without TCP's options: its MTU less 40 for IPv4 and
    /// less 60 for IPv6 (RFC 6691). The value is announced, and our own segments keep to it.
    pub mss: u16,
    /// The algorithm of congestion avoidance.
    pub congestion: Congestion,
    /// Whether a small segment waits while others are in flight (RFC 896).
    pub nagle: bool,
    /// Whether a segment may hold the end of one message and the start of the next. If not, every message starts a
    /// segment of its own, so that layers below find short messages in one piece.
    pub join_messages: bool,
    /// Whether to offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Whether to offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Longest time that an acknowledgement waits for a second segment or for data that carries it; at most half a
    /// second (RFC 9293, section 3.8.6.3).
    pub ack_delay: Duration,
    /// Most bytes on their way to the application: in flight, kept out of order, or delivered and not yet consumed.
    pub receive_bytes: u32,
    /// Most segments kept out of order.
    pub reassembly_segments: u32,
    /// Most messages queued or not yet acknowledged.
    pub send_messages: u32,
    /// Most segments in flight.
    pub flight_segments: u32,
    /// The retransmission timeout before a first sample (RFC 6298 asks for one second).
    pub rto_initial: Duration,
    /// The least retransmission timeout. RFC 6298 asks for one second, and today's systems use less.
    pub rto_min: Duration,
    /// The largest retransmission timeout.
    pub rto_max: Duration,
    /// Number of times that SYN is sent again before the connection fails.
    pub syn_retries: u32,
    /// Number of times that a segment is sent again, and number of unanswered probes, before the connection fails.
    pub retries: u32,
    /// Duration of TIME-WAIT: twice the longest life of a segment.
    pub time_wait: Duration,
    /// Probes of an idle connection; `None`, the default, sends no probes (RFC 9293, section 3.8.4).
    pub keep_alive: Option<KeepAlive>,
}

/// The schedule of probes of an idle connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepAlive {
    /// Time without arrivals before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Number of unanswered probes that ends the connection.
    pub probes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            congestion: Congestion::default(),
            nagle: true,
            join_messages: true,
            sack: true,
            timestamps: true,
            ack_delay: Duration::from_millis(40),
            receive_bytes: 1 << 20,
            reassembly_segments: 1024,
            send_messages: 1024,
            flight_segments: 1024,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            syn_retries: 6,
            retries: 15,
            time_wait: Duration::from_secs(60),
            keep_alive: None,
        }
    }
}

/// Values that an outsider must not be able to guess. The caller derives both by keyed hashes over addresses and
/// ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Secrets {
    /// The initial sequence number: [`Seq::initial`] (RFC 6528).
    pub isn: Seq,
    /// The start of the connection's timestamps (RFC 7323, section 5.4).
    pub timestamp_offset: u32,
}
