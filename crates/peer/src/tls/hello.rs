//! The key share of a client, found in the first bytes of its connection.
//!
//! Guarantees: any bytes give a share or nothing; nothing is allocated. The library judges the ClientHello: bytes in
//! which no share is found cost only the work ahead.

use sealane_transform::ml_kem::MlKemSet;
use sealane_transform::x25519::X25519_BYTES;

/// The parameter set of X25519MLKEM768.
pub(super) const KEM: MlKemSet = MlKemSet::MlKem768;
/// Bytes of a client's share of X25519MLKEM768: an encapsulation key, then an X25519 public key
/// (draft-ietf-tls-ecdhe-mlkem, section 4.1).
pub(super) const SHARE_BYTES: usize = KEM.encapsulation_key_bytes() + X25519_BYTES;

/// X25519MLKEM768 among the named groups.
const GROUP: usize = 0x11ec;
/// A handshake record (RFC 8446, section 5.1).
const HANDSHAKE: usize = 22;
/// The message with which a client begins (section 4).
const CLIENT_HELLO: usize = 1;
/// The extension with the shares (section 4.2.8).
const KEY_SHARE: usize = 51;
/// Bytes of a ClientHello's version and random value.
const FIXED_BYTES: usize = 2 + 32;

/// Returns the client's share of X25519MLKEM768 in the first bytes of a connection; `None` if they are not one record
/// with a whole ClientHello that has such a share.
pub fn client_share(flight: &[u8]) -> Option<&[u8; SHARE_BYTES]> {
    let mut flight = Reader(flight);
    (flight.number(1)? == HANDSHAKE).then_some(())?;
    flight.take(2)?;
    let mut record = flight.vector(2)?;
    (record.number(1)? == CLIENT_HELLO).then_some(())?;
    let mut hello = record.vector(3)?;
    hello.take(FIXED_BYTES)?;
    // The session's number, the suites, the compression methods.
    for length_bytes in [1, 2, 1] {
        hello.vector(length_bytes)?;
    }
    let mut extensions = hello.vector(2)?;
    let mut shares = extensions.find(KEY_SHARE)?.vector(2)?;
    shares.find(GROUP)?.0.try_into().ok()
}

/// The bytes of a message that were not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a number of at most three bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    /// Reads a length of so many bytes, and what it is the length of.
    fn vector(&mut self, length_bytes: usize) -> Option<Self> {
        let length = self.number(length_bytes)?;
        self.take(length).map(Self)
    }

    /// Reads pairs of a two-byte number and a vector up to the first one with this number.
    fn find(&mut self, wanted: usize) -> Option<Self> {
        loop {
            let number = self.number(2)?;
            let content = self.vector(2)?;
            if number == wanted {
                return Some(content);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tls::tests::first_flight;

    #[test]
    fn the_share_of_a_client_of_ours_is_found() {
        let flight = first_flight();
        let share = client_share(&flight).expect("a share");
        let at = flight.windows(SHARE_BYTES).position(|window| window == share).expect("in the flight");
        // Group and length stand before it.
        assert_eq!(flight[at - 4..at], [0x11, 0xec, 0x04, 0xc0]);
        // The rest of the record may be missing, and then nothing is found.
        for cut in 0..flight.len() {
            assert!(client_share(&flight[..cut]).is_none(), "{cut} bytes");
        }
    }

    #[test]
    fn another_group_and_another_length_are_no_share() {
        let flight = first_flight();
        let share = client_share(&flight).expect("a share");
        let at = flight.windows(SHARE_BYTES).position(|window| window == share).expect("in the flight");
        for (place, byte) in [(at - 3, 0xed), (at - 1, 0xbf), (0, 23), (5, 2)] {
            let mut changed = flight.clone();
            changed[place] = byte;
            assert!(client_share(&changed).is_none(), "byte {place} is {byte}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_share_or_nothing(
            changes in proptest::collection::vec((0_usize..1600, any::<u8>()), 0..8),
            cut in 0_usize..1600,
        ) {
            let mut flight = first_flight();
            for (place, byte) in changes {
                if let Some(there) = flight.get_mut(place) {
                    *there = byte;
                }
            }
            flight.truncate(cut);
            if let Some(share) = client_share(&flight) {
                prop_assert!(flight.windows(SHARE_BYTES).any(|window| window == share));
            }
        }
    }
}
