//! The interface between the databases and key makers: manual keys, IKE, or another protocol.
//!
//! A key maker is a value: requests, datagrams and the time go in; datagrams, lines for the operator and a deadline
//! come out. It installs associations in its [`Database`](crate::database::Database). It installs an inbound
//! association before the outbound one, and keeps the old inbound one for a while.

use std::{net::SocketAddr, time::Instant};

use crate::{association::Way, database::Request};

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Our address and port.
    pub from: SocketAddr,
    /// The peer's address and port.
    pub to: SocketAddr,
    /// The number of the stream that carries it; `None` if it is a datagram.
    pub stream: Option<u32>,
    /// It answers a datagram that arrived at our address, and leaves from there; otherwise the kernel chooses the source.
    pub is_answer: bool,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// A source of associations for one or several peers.
pub trait KeyMaker {
    /// Handles a request of the lanes: to acquire a first association, to rekey one that is past a soft limit, or to
    /// replace an expired one. A request is repeated until the peer gets an outbound association.
    fn request(&mut self, request: Request, now: Instant);

    /// Handles a datagram that is not ESP, from `from` to our address `to`; the IP address of `to` is unspecified if
    /// our socket receives at all addresses.
    fn handle(&mut self, _datagram: &[u8], _from: SocketAddr, _to: SocketAddr, _now: Instant) {}

    /// Handles a packet that is not ESP, from this stream.
    fn handle_streamed(&mut self, _packet: &[u8], _stream: u32, _now: Instant) {}

    /// Handles an ESP packet that came by the way `from` under an SPI that nobody here knows.
    fn stray(&mut self, _spi: u32, _from: Way, _now: Instant) {}

    /// Returns the next datagram to send.
    fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    /// Returns the time at which [`Self::handle_timeout`] is to be called; `None` if no call is needed before another
    /// method is called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Performs the actions that are due.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next message for the operator.
    fn poll_news(&mut self) -> Option<String> {
        None
    }

    /// Begins the end of the gateway: the peers are to be notified.
    fn close(&mut self, _now: Instant) {}

    /// Returns whether everything begun by [`Self::close`] is finished.
    fn is_closed(&self) -> bool {
        true
    }
}
