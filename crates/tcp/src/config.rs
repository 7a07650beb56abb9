//! What the user of a connection decides when it is opened.

use crate::{Congestion, Seq};
use core::time::Duration;

/// How a connection behaves, and how much it holds at most. Rings are allocated when it is opened, by these counts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most payload bytes of a segment that the link takes, TCP's options not counted: its MTU less 40 for IPv4 and
    /// less 60 for IPv6 (RFC 6691). It is announced, and our own segments keep to it.
    pub mss: u16,
    /// The algorithm of congestion avoidance.
    pub congestion: Congestion,
    /// Whether a small segment waits while others are in flight (RFC 896).
    pub nagle: bool,
    /// Whether a segment may hold the end of one message and the start of the next. Without it every message starts a
    /// segment of its own, so that layers below find short ones in one piece.
    pub join_messages: bool,
    /// Whether to offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Whether to offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// How long an acknowledgement may wait for a second segment or for data that takes it along; at most half a
    /// second (RFC 9293, section 3.8.6.3).
    pub ack_delay: Duration,
    /// Most bytes that may be on their way to the application: under way, kept out of order, delivered and not yet
    /// consumed.
    pub receive_bytes: u32,
    /// Most segments kept out of order.
    pub reassembly_segments: u32,
    /// Most messages queued or not yet acknowledged.
    pub send_messages: u32,
    /// Most segments in flight.
    pub flight_segments: u32,
    /// The retransmission timeout before a first sample (RFC 6298 asks for a second).
    pub rto_initial: Duration,
    /// The least retransmission timeout. RFC 6298 asks for a second, and all systems of today take less.
    pub rto_min: Duration,
    /// The largest retransmission timeout.
    pub rto_max: Duration,
    /// How often SYN is sent again before the connection fails.
    pub syn_retries: u32,
    /// How often a segment is sent again, and how many probes stay unanswered, before the connection fails.
    pub retries: u32,
    /// How long TIME-WAIT lasts: twice the longest life of a segment.
    pub time_wait: Duration,
    /// Probes of an idle connection; none by default (RFC 9293, section 3.8.4).
    pub keep_alive: Option<KeepAlive>,
}

/// When an idle connection is probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepAlive {
    /// How long nothing arrives before the first probe.
    pub idle: Duration,
    /// How long between probes.
    pub interval: Duration,
    /// How many unanswered probes end the connection.
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

/// What nobody outside may guess of a connection. The caller draws both from keyed hashes over addresses and ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Secrets {
    /// The initial sequence number: [`Seq::initial`] (RFC 6528).
    pub isn: Seq,
    /// Where the connection's timestamps start (RFC 7323, section 5.4).
    pub timestamp_offset: u32,
}
