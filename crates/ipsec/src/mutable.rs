//! The header fields that AH treats as zero because routers change them (RFC 4302, section 3.3.3.1 and appendix A).
//!
//! Guarantees: no bytes of a packet can make these functions panic or read beyond the headers; zeroed fields are
//! restored exactly; headers whose final form cannot be known at this end (source routes) are refused.

use arrayvec::ArrayVec;

/// The maximum length of the headers before AH in bytes; packets with longer headers are refused.
const HEADERS_BYTES_MAX: usize = 320;

/// Headers that AH cannot cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The headers contradict the packet's length or each other.
    #[error("the IP headers are malformed")]
    Malformed,
    /// There is a source route or a fragment, or the headers are longer than the limit.
    #[error("AH does not cover packets with source routes, fragments or so many headers")]
    Unsupported,
}

/// A copy of the original headers, and of an IV behind them.
#[derive(Debug)]
pub struct Saved {
    headers: ArrayVec<u8, HEADERS_BYTES_MAX>,
    iv: Option<(usize, [u8; 8])>,
}

impl Saved {
    /// Restores the headers and the IV.
    pub fn restore(&self, packet: &mut [u8]) {
        packet[..self.headers.len()].copy_from_slice(&self.headers);
        if let Some((at, iv)) = self.iv {
            packet[at..at + iv.len()].copy_from_slice(&iv);
        }
    }

    /// Zeroes the place of an IV at `at`; [`Self::restore`] writes `iv` there.
    pub fn zero_iv(&mut self, packet: &mut [u8], at: usize, iv: [u8; 8]) {
        packet[at..at + iv.len()].fill(0);
        self.iv = Some((at, iv));
    }

    /// Returns the length of the headers up to the AH header in bytes.
    pub fn headers_bytes(&self) -> usize {
        self.headers.len()
    }
}

/// The protocol number of AH.
const AH: u8 = 51;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Zeroes the mutable fields in the headers before the AH header of `packet`, which begins with its IP header. The
/// fields of AH itself are not touched.
///
/// # Errors
/// Fails if the headers are malformed, are of a kind that AH does not cover, or do not lead to an AH header.
pub fn zero(packet: &mut [u8]) -> Result<Saved, HeaderError> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => zero_v4(packet),
        Some(6) => zero_v6(packet),
        _ => Err(HeaderError::Malformed),
    }
}

fn save(headers: &[u8]) -> Result<Saved, HeaderError> {
    let headers = ArrayVec::try_from(headers).map_err(|_| HeaderError::Unsupported)?;
    Ok(Saved { headers, iv: None })
}

fn zero_v4(packet: &mut [u8]) -> Result<Saved, HeaderError> {
    let header_bytes = packet.first().map_or(0, |byte| usize::from(byte & 15) * 4);
    let header = packet.get_mut(..header_bytes.max(20)).ok_or(HeaderError::Malformed)?;
    if header_bytes < 20 {
        return Err(HeaderError::Malformed);
    }
    if header[9] != AH {
        return Err(HeaderError::Malformed);
    }
    // More fragments follow, or this is not the first one.
    if header[6] & 0x3f != 0 || header[7] != 0 {
        return Err(HeaderError::Unsupported);
    }
    let saved = save(header)?;
    // Appendix A1: the type of service, flags, offset, time to live and checksum.
    header[1] = 0;
    header[6..9].fill(0);
    header[10..12].fill(0);
    let outcome = zero_v4_options(&mut header[20..]);
    if outcome.is_err() {
        saved.restore(packet);
    }
    outcome.map(|()| saved)
}

/// Zeroes all options that are not on appendix A1's list of immutable ones.
fn zero_v4_options(mut options: &mut [u8]) -> Result<(), HeaderError> {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SECURITY: u8 = 130;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const EXTENDED_SECURITY: u8 = 133;
    const COMMERCIAL_SECURITY: u8 = 134;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    const ROUTER_ALERT: u8 = 148;
    const MULTI_DESTINATION: u8 = 149;
    while let Some(&kind) = options.first() {
        let bytes = match kind {
            END => return Ok(()),
            NOTHING => 1,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Err(HeaderError::Unsupported),
            _ => {
                let bytes = usize::from(*options.get(1).ok_or(HeaderError::Malformed)?);
                let option = options.get_mut(..bytes).filter(|option| option.len() >= 2);
                let option = option.ok_or(HeaderError::Malformed)?;
                let is_immutable = matches!(
                    kind,
                    SECURITY | EXTENDED_SECURITY | COMMERCIAL_SECURITY | ROUTER_ALERT | MULTI_DESTINATION
                );
                if !is_immutable {
                    option.fill(0);
                }
                bytes
            }
        };
        options = &mut options[bytes..];
    }
    Ok(())
}

fn zero_v6(packet: &mut [u8]) -> Result<Saved, HeaderError> {
    const FIXED_BYTES: usize = 40;
    if packet.len() < FIXED_BYTES {
        return Err(HeaderError::Malformed);
    }
    let (mut next, mut at) = (packet[6], FIXED_BYTES);
    // The headers before AH (appendix A2).
    while next != AH {
        if !matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
            let is_fragment = next == FRAGMENT;
            return Err(if is_fragment { HeaderError::Unsupported } else { HeaderError::Malformed });
        }
        let bytes =
            packet.get(at + 1).map(|&words| (usize::from(words) + 1) * 8).ok_or(HeaderError::Malformed)?;
        let header = packet.get(at..at + bytes).ok_or(HeaderError::Malformed)?;
        // A route with segments left would have to be predicted by the sender; a finished route is already in its
        // final form.
        if next == ROUTING && header[3] != 0 {
            return Err(HeaderError::Unsupported);
        }
        next = header[0];
        at += bytes;
        if at > HEADERS_BYTES_MAX {
            return Err(HeaderError::Unsupported);
        }
    }
    let saved = save(&packet[..at])?;
    let outcome = zero_v6_headers(&mut packet[..at]);
    if outcome.is_err() {
        saved.restore(packet);
    }
    outcome.map(|()| saved)
}

fn zero_v6_headers(headers: &mut [u8]) -> Result<(), HeaderError> {
    let mut next = headers[6];
    // Traffic class, flow label, hop limit; the version stays.
    headers[0] &= 0xf0;
    headers[1..4].fill(0);
    headers[7] = 0;
    let mut rest = &mut headers[40..];
    while !rest.is_empty() {
        let bytes = (usize::from(rest[1]) + 1) * 8;
        let (header, behind) = rest.split_at_mut(bytes);
        if next != ROUTING {
            zero_v6_options(&mut header[2..])?;
        }
        next = header[0];
        rest = behind;
    }
    Ok(())
}

/// Zeroes the data of options whose third-highest type bit allows changes on the way (RFC 8200, section 4.2).
fn zero_v6_options(mut options: &mut [u8]) -> Result<(), HeaderError> {
    const PAD_1: u8 = 0;
    const MAY_CHANGE: u8 = 0x20;
    while let Some(&kind) = options.first() {
        let bytes =
            if kind == PAD_1 { 1 } else { 2 + usize::from(*options.get(1).ok_or(HeaderError::Malformed)?) };
        let option = options.get_mut(..bytes).ok_or(HeaderError::Malformed)?;
        if kind & MAY_CHANGE != 0 {
            option[2..].fill(0);
        }
        options = &mut options[bytes..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns an IPv4 header with `options`, in front of an AH header.
    fn v4(options: &[u8]) -> Vec<u8> {
        assert_eq!(options.len() % 4, 0);
        let mut packet = vec![
            0x45 + (options.len() / 4) as u8,
            0xb8,
            0,
            60,
            0x12,
            0x34,
            0x40,
            0,
            63,
            AH,
            0xab,
            0xcd,
            10,
            0,
            0,
            1,
            10,
            0,
            0,
            2,
        ];
        packet.extend_from_slice(options);
        packet.extend_from_slice(&[6, 4, 0, 0, 0, 0, 0, 9]);
        packet
    }

    #[test]
    fn ipv4_fields_that_routers_change_are_zero() {
        let mut packet = v4(&[]);
        let before = packet.clone();
        let saved = zero(&mut packet).expect("a good header");
        assert_eq!(packet[..12], [0x45, 0, 0, 60, 0x12, 0x34, 0, 0, 0, AH, 0, 0]);
        assert_eq!(packet[12..], before[12..]);
        assert_eq!(saved.headers_bytes(), 20);
        saved.restore(&mut packet);
        assert_eq!(packet, before);
    }

    #[test]
    fn ipv4_options_by_their_kind() {
        // No operation, router alert (kept), record route (zeroed), end.
        let mut packet = v4(&[1, 148, 4, 1, 2, 7, 5, 4, 9, 9, 0, 0]);
        zero(&mut packet).expect("good options");
        assert_eq!(packet[20..32], [1, 148, 4, 1, 2, 0, 0, 0, 0, 0, 0, 0]);
        for options in [[131, 3, 4, 0], [137, 3, 4, 0]] {
            let mut packet = v4(&options);
            let before = packet.clone();
            assert_eq!(zero(&mut packet).unwrap_err(), HeaderError::Unsupported);
            assert_eq!(packet, before);
        }
        for options in [[7, 0, 0, 0], [7, 1, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7]] {
            let mut packet = v4(&options);
            let before = packet.clone();
            assert_eq!(zero(&mut packet).unwrap_err(), HeaderError::Malformed, "{options:?}");
            assert_eq!(packet, before);
        }
    }

    #[test]
    fn fragments_and_other_protocols_are_refused() {
        for (at, value, error) in [
            (6, 0x20, HeaderError::Unsupported),
            (7, 1, HeaderError::Unsupported),
            (9, 6, HeaderError::Malformed),
            (0, 0x44, HeaderError::Malformed),
            (0, 0x75, HeaderError::Malformed),
        ] {
            let mut packet = v4(&[]);
            packet[at] = value;
            assert_eq!(zero(&mut packet).unwrap_err(), error);
        }
    }

    /// Returns an IPv6 header whose extension headers are `headers`, in front of an AH header.
    fn v6(first: u8, headers: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x6a, 0xbc, 0xde, 0xf1, 0, 64, first, 61];
        packet.extend_from_slice(&[0x20; 32]);
        packet.extend_from_slice(headers);
        packet.extend_from_slice(&[6, 4, 0, 0, 0, 0, 0, 9]);
        packet
    }

    #[test]
    fn ipv6_fields_and_options_that_change_are_zero() {
        // A hop-by-hop header with one option that changes (type 0x3e) and one that does not (0x1e), then a finished
        // route.
        let headers = [
            ROUTING, 1, 0x3e, 2, 7, 8, 0x1e, 4, 1, 2, 3, 4, 1, 2, 0, 0, AH, 2, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5,
            5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6,
        ];
        let mut packet = v6(HOP_BY_HOP, &headers);
        let before = packet.clone();
        let saved = zero(&mut packet).expect("good headers");
        assert_eq!(packet[..8], [0x60, 0, 0, 0, 0, 64, HOP_BY_HOP, 0]);
        assert_eq!(packet[40..56], [ROUTING, 1, 0x3e, 2, 0, 0, 0x1e, 4, 1, 2, 3, 4, 1, 2, 0, 0]);
        assert_eq!(packet[56..], before[56..]);
        assert_eq!(saved.headers_bytes(), 40 + headers.len());
        saved.restore(&mut packet);
        assert_eq!(packet, before);

        let mut going = v6(ROUTING, &[AH, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(zero(&mut going).unwrap_err(), HeaderError::Unsupported);
        let mut fragment = v6(FRAGMENT, &[AH, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(zero(&mut fragment).unwrap_err(), HeaderError::Unsupported);
    }

    proptest! {
        #[test]
        fn any_bytes_are_restored_or_untouched(mut packet in prop::collection::vec(any::<u8>(), 0..400), version in 0..3u8) {
            if let Some(first) = packet.first_mut() {
                *first = match version { 0 => 0x40 | *first & 15, 1 => 0x60 | *first & 15, _ => *first };
            }
            for at in [6, 9] {
                if version < 2 && packet.len() > at { packet[at] = AH; }
            }
            let before = packet.clone();
            if let Ok(saved) = zero(&mut packet) {
                saved.restore(&mut packet);
            }
            prop_assert_eq!(packet, before);
        }
    }
}
