//! The number of queues of the device, and what they have of their own.
//!
//! The kernel gives each flow to one queue. A queue has its lanes, its packets that wait, and its sockets. With a peer that speaks IKE it
//! has an association of its own, too: `children` in `[peers.ike]` is then as many as there are queues, unless it says otherwise. Until
//! the peer has agreed to it, or if it allows fewer, queues share what there is, as they do with clients, with peers with `key` and with
//! keys from files; packets then leave in the order of the association's numbers.
//!
//! Guarantees: a number that is accepted can be opened in one process.

use std::num::NonZeroU16;

use toml::Spanned;

use super::{Encapsulation, SiteError, Text};
use crate::beside::QUEUES_MAX;

/// Returns the number of queues; 1 without a word about it.
pub(super) fn read(
    place: &Text<'_>,
    word: Option<&Spanned<u16>>,
    encapsulation: Encapsulation,
) -> Result<NonZeroU16, SiteError> {
    let Some(word) = word else { return Ok(NonZeroU16::MIN) };
    let fail = |message: String| Err(place.error(Some(word.span().start), message));
    match NonZeroU16::new(*word.get_ref()).filter(|queues| queues.get() <= QUEUES_MAX) {
        // The queues would share one socket, and its options.
        Some(queues) if queues > NonZeroU16::MIN && encapsulation == Encapsulation::None => {
            fail("several queues send by UDP alone: leave out `encapsulation`, or `queues`".to_owned())
        }
        Some(queues) => Ok(queues),
        None => fail(format!("a device has from 1 to {QUEUES_MAX} queues")),
    }
}
