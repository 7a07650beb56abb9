//! AH packets in place (RFC 4302, sections 2 and 3; with GMAC RFC 4543, section 4).
//!
//! Guarantees: fields that routers may change are zero while an engine runs a packet's job, and are restored exactly;
//! no bytes received can make these functions panic or read outside the packet.

use sealane_engine::{Job, Span, Suffix};
use sealane_wire::{AH_BYTES, Ah, AhFields};

use crate::{
    association::{Association, Inbound, Outbound},
    counters::DropReason,
    esp::{self, Given},
    mutable::{self, Saved},
    replay::ReplayWindow,
    sequence::SequenceBits,
    suite::{Iv, Suite},
};

/// The unit of which the length of the AH header is a multiple. RFC 4302, section 2.6, requires 4 bytes for IPv4 and
/// 8 for IPv6; Linux uses 8 for IPv4 too, unless a state has the flag `align4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Alignment {
    /// As the RFC requires.
    #[default]
    Rfc,
    /// Always 8 bytes.
    Eight,
}

/// Returns the number of bytes of the AH header under `suite`, its check value and padding included. GMAC's 36 bytes
/// need padding over IPv6, contrary to RFC 4543, section 4 (erratum 3643).
pub fn header_bytes(suite: Suite, alignment: Alignment, is_ipv6: bool) -> usize {
    let multiple = if is_ipv6 || alignment == Alignment::Eight { 8 } else { 4 };
    (AH_BYTES + field_bytes(suite)).next_multiple_of(multiple)
}

/// Returns the number of bytes of the check value's field without padding: GMAC has its IV in front of the tag (RFC
/// 4543, figure 5).
fn field_bytes(suite: Suite) -> usize {
    suite.iv().wire_bytes() + suite.check_bytes()
}

/// Zeroes the place of `iv` in a packet whose suite sends an IV, until [`Saved::restore`]. Returns the IV of the
/// suite, which may be empty.
fn put_iv_aside<'i>(
    association: &Association,
    saved: &mut Saved,
    packet: &mut [u8],
    iv: &'i [u8; 8],
) -> &'i [u8] {
    match association.parameters().suite.iv() {
        Iv::Counted => {
            saved.zero_iv(packet, saved.headers_bytes() + AH_BYTES, *iv);
            iv
        }
        _ => &[],
    }
}

/// Returns the job of a packet whose mutable fields are zero; `iv` is the IV that the packet has or will have.
fn job(
    association: &Association,
    packet: Span,
    headers_bytes: usize,
    iv: &[u8],
    number: u64,
    session: u16,
) -> Job {
    let parameters = association.parameters();
    let check_at = packet.start + (headers_bytes + AH_BYTES + iv.len()) as u32;
    let is_extended = parameters.sequence == SequenceBits::Extended;
    let high = ((number >> 32) as u32).to_be_bytes();
    Job {
        session,
        iv: esp::cipher_iv(association, iv),
        // RFC 4302, section 3.3.3: the check covers the whole packet, with the check value's field as zeros. With
        // GMAC the IV is in that field.
        clear: packet,
        body: Span::new(packet.end() as u32, 0),
        tag: Span::new(check_at, parameters.suite.check_bytes() as u32),
        // RFC 4302, section 3.3.3.2.2: the high half is authenticated behind the packet.
        suffix: if is_extended { high.into() } else { Suffix::NONE },
        ..Job::default()
    }
}

/// Writes an AH header behind `headers_bytes` of IP headers of `packet`, the last of which names AH, and zeroes the
/// mutable fields until [`Saved::restore`]. `next_header` is the protocol of the data behind the AH header.
///
/// # Errors
/// Fails if AH does not cover IP headers of this kind.
pub fn lay(
    outbound: &Outbound,
    bytes: &mut [u8],
    packet: Span,
    ah_bytes: usize,
    headers_bytes: usize,
    next_header: u8,
    given: &Given,
) -> Result<(Job, Saved), DropReason> {
    let &Given { number, session, .. } = given;
    let association = outbound.association();
    let fields = AhFields {
        next_header,
        check_value_bytes: ah_bytes - AH_BYTES,
        spi: association.parameters().spi,
        sequence_number: number as u32,
    };
    let whole = bytes.get_mut(packet.range()).ok_or(DropReason::Malformed)?;
    let behind = whole.get_mut(headers_bytes..).ok_or(DropReason::Malformed)?;
    fields.write(behind).map_err(|_| DropReason::Malformed)?;
    let mut saved = mutable::zero(whole).map_err(|_| DropReason::Malformed)?;
    if saved.headers_bytes() != headers_bytes {
        saved.restore(whole);
        return Err(DropReason::Malformed);
    }
    // The IV is unique under the key because the number is (RFC 4543, section 3.1).
    let iv = number.to_be_bytes();
    let iv = put_iv_aside(association, &mut saved, whole, &iv);
    Ok((job(association, packet, headers_bytes, iv, number, session), saved))
}

/// Checks a packet before its integrity is known. Returns the job for an engine and the packet's number. The packet's
/// mutable fields are zero until [`Saved::restore`].
///
/// # Errors
/// Fails if the packet cannot be genuine or its number is not new; the packet is then unchanged.
pub fn open(
    inbound: &Inbound,
    window: &ReplayWindow,
    bytes: &mut [u8],
    packet: Span,
    session: u16,
) -> Result<(Job, u64, Saved), DropReason> {
    let association = inbound.association();
    let parameters = association.parameters();
    let whole = bytes.get_mut(packet.range()).ok_or(DropReason::Malformed)?;
    let mut saved = mutable::zero(whole).map_err(|_| DropReason::Malformed)?;
    let headers_bytes = saved.headers_bytes();
    let outcome = Ah::parse(&whole[headers_bytes..]).map_err(|_| DropReason::Malformed).and_then(|ah| {
        if ah.check_value().len() < field_bytes(parameters.suite) {
            return Err(DropReason::Malformed);
        }
        let iv = ah.check_value().first_chunk::<8>().copied().unwrap_or_default();
        Ok((iv, esp::number_of(parameters.sequence, window, ah.sequence_number())?))
    });
    match outcome {
        Ok((iv, number)) => {
            let iv = put_iv_aside(association, &mut saved, whole, &iv);
            Ok((job(association, packet, headers_bytes, iv, number, session), number, saved))
        }
        Err(reason) => {
            saved.restore(whole);
            Err(reason)
        }
    }
}
