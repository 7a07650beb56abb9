//! A queue of datagrams that lanes have received for key makers: those behind the non-ESP marker on the port of ESP
//! in UDP.
//!
//! Guarantees: the number and the bytes of waiting datagrams are bounded, whatever strangers send; a lane is blocked
//! at most for the time of a copy.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use sealane_ipsec::association::Way;

/// The marker in front of a datagram that is not ESP, in the place of the SPI (RFC 3948, section 2.2).
pub const NON_ESP_MARKER: [u8; 4] = [0; 4];
/// The maximum number of waiting datagrams.
const DATAGRAMS_MAX: usize = 512;
/// The maximum number of waiting bytes.
const BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
struct Waiting {
    datagrams: VecDeque<(Vec<u8>, Way)>,
    bytes: usize,
}

/// A bounded queue of datagrams for key makers.
#[derive(Debug, Default)]
pub struct Mailbox(Mutex<Waiting>);

impl Mailbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("nobody panics holding the mailbox")
    }

    /// Appends a datagram that came by the way `from`. Returns whether there was room.
    pub fn put(&self, datagram: &[u8], from: Way) -> bool {
        let mut waiting = self.waiting();
        let has_room = waiting.datagrams.len() < DATAGRAMS_MAX && waiting.bytes + datagram.len() <= BYTES_MAX;
        if has_room {
            waiting.bytes += datagram.len();
            waiting.datagrams.push_back((datagram.to_vec(), from));
        }
        has_room
    }

    /// Removes the oldest datagram, and returns it with its way.
    pub fn take(&self) -> Option<(Vec<u8>, Way)> {
        let mut waiting = self.waiting();
        let (datagram, from) = waiting.datagrams.pop_front()?;
        waiting.bytes -= datagram.len();
        Some((datagram, from))
    }

    /// Returns whether no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.waiting().datagrams.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn what_waits_is_bounded_and_in_order() {
        let from = Way::from(SocketAddr::from(([192, 0, 2, 1], 500)));
        for (bytes, most) in [(1, DATAGRAMS_MAX), (65_000, BYTES_MAX / 65_000)] {
            let mailbox = Mailbox::default();
            let taken = (0..2000).filter(|&number| mailbox.put(&vec![number as u8; bytes], from)).count();
            assert_eq!(taken, most);
            for number in 0..most {
                assert_eq!(mailbox.take(), Some((vec![number as u8; bytes], from)));
            }
            assert!(mailbox.is_empty() && mailbox.take().is_none() && mailbox.put(&[1], from));
        }
    }
}
