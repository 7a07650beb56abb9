//! The line between the databases and the makers of keys: manual keys, IKE, or another protocol.
//!
//! A maker is a value: requests, datagrams and the time go in; datagrams, lines for the operator and a deadline come out, and it
//! changes the [`Database`](crate::database::Database) whose maker it is. It installs an inbound association before the outbound
//! one, and lets the old inbound one receive for a while.

use std::{net::SocketAddr, time::Instant};

use crate::database::Request;

/// A datagram that a maker wants sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Our address and port.
    pub from: SocketAddr,
    /// The peer's.
    pub to: SocketAddr,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// Makes associations for a peer, or for several.
pub trait KeyMaker {
    /// The lanes ask: to acquire a first association, to rekey one that is past a soft limit, to replace one that has expired. A
    /// request stands, and comes again, until the peer gets an outbound association.
    fn request(&mut self, request: Request, now: Instant);

    /// A datagram came from `from`, was sent to `to`, an address of ours, and is not ESP.
    fn handle(&mut self, _datagram: &[u8], _from: SocketAddr, _to: SocketAddr, _now: Instant) {}

    /// The next datagram to be sent.
    fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    /// The moment at which [`Self::handle_timeout`] is to be called; `None`: never, until something else is called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant);

    /// The next line for an operator.
    fn poll_news(&mut self) -> Option<String> {
        None
    }

    /// The gateway ends: peers are to be told.
    fn close(&mut self, _now: Instant) {}

    /// Whether nothing more is to be waited for after [`Self::close`].
    fn is_closed(&self) -> bool {
        true
    }
}
