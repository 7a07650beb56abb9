//! The line of a packet of the device, which is that of its peer.
//!
//! Guarantees: a packet that belongs to no peer has a line, too, behind which it is dropped and counted as any other.

use std::sync::Arc;

use sealane_ipsec::{
    database::View,
    flow::{Bound, FlowMark, flow},
    policy::{Action, PolicyCache},
};

use crate::{peers::Peers, queue::outward::Lines};

/// Tells lines by the policies.
#[derive(Debug)]
pub struct PeerLines<'a> {
    peers: &'a Peers,
    view: View<'a>,
    cache: PolicyCache,
    /// The last packet's flow and line.
    last: Option<(FlowMark, usize)>,
    /// The number of lines, which is a power of two.
    count: usize,
    /// The bytes of the headers around ESP.
    header_bytes: usize,
}

impl<'a> PeerLines<'a> {
    /// Returns the lines of `peers`, of which there are `count`.
    pub fn new(peers: &'a Peers, count: usize) -> Self {
        let mut view = peers.database().view();
        let cache = PolicyCache::new(Arc::clone(&view.load().policies));
        let ip_bytes = if peers.listen().is_ipv4() { 20 } else { 40 };
        let header_bytes = ip_bytes + if peers.has_ports() { 8 } else { 0 };
        Self { peers, view, cache, last: None, count, header_bytes }
    }
}

impl Lines for PeerLines<'_> {
    fn of(&mut self, packet: &[u8]) -> usize {
        if self.cache.follow(&self.view.load().policies) {
            self.last = None;
        }
        let mark = FlowMark::of(packet);
        if let (Some(mark), Some((last, line))) = (mark, self.last)
            && mark == last
        {
            return line;
        }
        let action = flow(packet, Bound::Out).and_then(|flow| self.cache.decide(&flow));
        let line = match action {
            Ok(Action::Protect(peer)) => peer.0 as usize % self.count,
            _ => 0,
        };
        self.last = mark.map(|mark| (mark, line));
        line
    }

    fn rate(&self, line: usize) -> Option<(u64, usize)> {
        self.peers.rate(line, self.count).map(|rate| (rate, self.header_bytes))
    }
}
