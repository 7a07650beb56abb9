//! The rate of a line behind this host: `rate = "95Mbit"` in a peer.

use std::num::NonZeroU64;

use super::{RawPeer, Site, SiteError, Text};

/// The units, in bits per second, as tc(8) writes them.
const UNITS: [(&str, f64); 3] = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
/// The limits of a rate in bits per second.
const LIMITS: [f64; 2] = [64e3, 1e12];

/// Returns bytes per second.
fn parse(word: &str) -> Option<NonZeroU64> {
    let split = word.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = word.split_at(split);
    let (_, by) = UNITS.into_iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let bits = number.parse::<f64>().ok().filter(|_| is_number)? * by;
    let [least, most] = LIMITS;
    (least..=most).contains(&bits).then(|| NonZeroU64::new((bits / 8.0) as u64)).flatten()
}

/// Returns the rate that packets to the peer must not exceed, in bytes per second.
pub(super) fn read(place: &Text<'_>, raw: &RawPeer, site: &Site) -> Result<Option<NonZeroU64>, SiteError> {
    let Some(word) = &raw.rate else { return Ok(None) };
    let message = match parse(word.get_ref()) {
        None => "a rate is a number with a unit, such as \"95Mbit\", from 64kbit to 1000Gbit",
        Some(_) if !site.queueing.is_fq_codel() => {
            "a rate takes a queue: queueing = \"fq-codel\" beside `listen`"
        }
        rate => return Ok(rate),
    };
    Err(place.error(Some(word.span().start), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_tc() {
        for (word, bits) in [
            ("95Mbit", Some(95_000_000)),
            ("64kbit", Some(64_000)),
            ("1.5gbit", Some(1_500_000_000)),
            ("1000Gbit", Some(1_000_000_000_000)),
            ("63kbit", None),
            ("1001Gbit", None),
            ("95", None),
            ("Mbit", None),
            ("-5Mbit", None),
            ("95MB", None),
            ("infkbit", None),
            ("1e5kbit", None),
            ("", None),
        ] {
            assert_eq!(parse(word).map(|rate| rate.get() * 8), bits, "{word}");
        }
    }
}
