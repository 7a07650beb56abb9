//! The events of a connection, for the application, and the reasons of its end.

/// Why a connection has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Both ends closed, and everything was acknowledged.
    Finished,
    /// The peer refused the connection: its answer to SYN was a reset.
    Refused,
    /// The peer reset it.
    Reset,
    /// The peer is silent.
    TimedOut,
    /// [`Connection::abort`](crate::Connection::abort) was called, or [`Connection::close`](crate::Connection::close) before the peer had answered.
    Aborted,
}

/// An event for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The handshake is over.
    Established,
    /// The peer sends no more; everything it sent has been delivered.
    PeerClosed,
    /// The connection has ended. It is the last event, and comes once.
    Closed(Reason),
}
