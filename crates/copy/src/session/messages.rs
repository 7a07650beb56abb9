//! Messages on the control channel: sent and received whole, each within its time.

use std::time::{Duration, Instant};

use sealane_peer::Channel;

use crate::{
    error::{Error, ErrorKind},
    proto::message::{Abort, Message},
};

/// The timeout of sending a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a message.
pub(crate) fn send(channel: &mut Channel, message: &Message) -> Result<(), Error> {
    Ok(channel.send(&message.encode(), Instant::now() + SEND_TIMEOUT)?)
}

/// Receives the next message by `deadline`.
pub(crate) fn receive(channel: &mut Channel, deadline: Instant) -> Result<(Message, Vec<u8>), Error> {
    match channel.recv(deadline)? {
        Some(frame) => {
            let message = Message::decode(&frame).map_err(|error| Error::protocol(error.to_string()))?;
            Ok((message, frame))
        }
        None => Err(silent()),
    }
}

pub(super) fn silent() -> Error {
    Error::new(ErrorKind::TimedOut, "the far end is silent; is it stopped, or the network down?")
}

/// Sends the peer the reason why this end gives up. The peer may be gone, so failures are ignored.
pub(crate) fn abort(channel: &mut Channel, error: &Error) {
    let message = Message::Abort(Abort { kind: error.kind, message: error.message.clone() });
    let _ = channel.send(&message.encode(), Instant::now() + Duration::from_secs(2));
}

/// Does the same as [`abort`] without waiting.
pub(crate) fn abort_now(channel: &mut Channel, error: &Error) {
    let message = Message::Abort(Abort { kind: error.kind, message: error.message.clone() });
    let _ = channel.send(&message.encode(), Instant::now());
}
