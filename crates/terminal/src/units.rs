//! Parsers and formatters for amounts: sizes, rates, durations, ranges of ports.
//!
//! Guarantees: an accepted text has one meaning only, nothing overflows silently, and zero is refused where zero
//! could only be a mistake.

use std::time::Duration;

/// A text that is not a valid amount of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a number followed by a known unit.
    #[error("expected {expected}")]
    Malformed {
        /// The expected form.
        expected: &'static str,
    },
    /// A number that does not fit.
    #[error("too large")]
    TooLarge,
    /// The amount is zero, or less than the smallest one.
    #[error("must be more than zero")]
    Zero,
    /// The range ends before its start.
    #[error("the range {from}-{to} ends before it starts")]
    Reversed {
        /// First port.
        from: u16,
        /// Last port.
        to: u16,
    },
}

const RATE: &str = "a rate in bytes per second such as 100M, 1.5G, 10MB/s or 64KiB (k, M, G, T are powers of \
                    1000; Ki, Mi, Gi, Ti of 1024)";
const SIZE: &str =
    "a size such as 512M, 1.5G, 10MB or 1GiB (k, M, G, T are powers of 1000; Ki, Mi, Gi, Ti of 1024)";
const SEED: &str = "a number, or 0x and hexadecimal digits";
const DURATION: &str = "a duration such as 30, 30s, 1500ms, 5m or 1h (seconds where no unit is given)";
const SHORT_DURATION: &str = "a short duration such as 100us, 10ms or 1s (seconds where no unit is given)";
const PERCENT: &str = "a share in percent such as 0.1 or 1%";
const PORTS: &str = "a range of ports such as 50000-50100, or one port";

/// Parses bytes per second, at least 1: `100M`, `1G`, `10MB/s`, `64KiB`.
///
/// # Errors
/// Fails if the text is not a rate, or rounds to zero.
pub fn rate(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    bytes(text.strip_suffix("/s").unwrap_or(text), RATE)
}

/// Parses kilobits per second as scp counts them (1024 bits), and returns bytes per second.
///
/// # Errors
/// Fails if the text is not a number, or zero.
pub fn kilobits(text: &str) -> Result<u64, UnitError> {
    let malformed = UnitError::Malformed { expected: "a number of kilobits a second such as 8000" };
    match text.parse::<u64>().map_err(|_| malformed)? {
        0 => Err(UnitError::Zero),
        number => number.checked_mul(128).ok_or(UnitError::TooLarge),
    }
}

/// Parses mode bits to remove, in octal digits: `027`.
///
/// # Errors
/// Fails if the text is not an octal number up to 777.
pub fn umask(text: &str) -> Result<u32, UnitError> {
    let malformed = UnitError::Malformed { expected: "up to four octal digits such as 027" };
    let is_octal = text.len() <= 4 && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mask = u32::from_str_radix(text, 8).ok().filter(|&mask| is_octal && mask <= 0o777);
    mask.ok_or(malformed)
}

/// Parses bytes, at least 1: `100M`, `1G`, `10MB`, `64KiB`.
///
/// # Errors
/// Fails if the text is not a size, or rounds to zero.
pub fn size(text: &str) -> Result<u64, UnitError> {
    bytes(text.trim(), SIZE)
}

/// Parses any 64-bit number, in decimal or after `0x` in hexadecimal digits, as reports print them.
///
/// # Errors
/// Fails if the text is not such a number.
pub fn seed(text: &str) -> Result<u64, UnitError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16)
        }
        Some(_) => return Err(UnitError::Malformed { expected: SEED }),
        None => text.parse(),
    };
    number.map_err(|_| UnitError::Malformed { expected: SEED })
}

fn bytes(text: &str, expected: &'static str) -> Result<u64, UnitError> {
    let malformed = UnitError::Malformed { expected };
    let (number, unit) = split(text).ok_or_else(|| malformed.clone())?;
    let unit = unit.strip_suffix(['B', 'b']).unwrap_or(unit);
    let (prefix, step) = match unit.strip_suffix('i') {
        Some(prefix) if !prefix.is_empty() => (prefix, 1024_u64),
        Some(_) => return Err(malformed),
        None => (unit, 1000),
    };
    let power = match prefix {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return Err(malformed),
    };
    scale(number, step.pow(power), expected)
}

/// Parses a duration of at least one millisecond: `30`, `30s`, `1500ms`, `5m`, `1h`.
///
/// # Errors
/// Fails if the text is not a duration, or rounds to zero.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let malformed = UnitError::Malformed { expected: DURATION };
    let (number, unit) = split(text.trim()).ok_or_else(|| malformed.clone())?;
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(malformed),
    };
    // A century is longer than anybody waits, and keeps every sum of deadlines within range.
    let total = scale(number, milliseconds, DURATION)?;
    if total > 100 * 366 * 24 * 3_600_000 {
        return Err(UnitError::TooLarge);
    }
    Ok(Duration::from_millis(total))
}

/// Parses a duration of whole microseconds, zero included: `0`, `100us`, `0.1ms`, `10ms`, `1s`.
///
/// # Errors
/// Fails if the text is not such a duration, or is longer than a minute.
pub fn short_duration(text: &str) -> Result<Duration, UnitError> {
    let malformed = UnitError::Malformed { expected: SHORT_DURATION };
    let (number, unit) = split(text.trim()).ok_or_else(|| malformed.clone())?;
    let microseconds = match unit {
        "us" | "µs" => 1,
        "ms" => 1000,
        "" | "s" => 1_000_000,
        _ => return Err(malformed),
    };
    match scale(number, microseconds, SHORT_DURATION) {
        Ok(total) if total <= 60_000_000 => Ok(Duration::from_micros(total)),
        Ok(_) => Err(UnitError::TooLarge),
        Err(UnitError::Zero) => Ok(Duration::ZERO),
        Err(error) => Err(error),
    }
}

/// Parses a share, given in percent: `0`, `0.1`, `0.1%`, `100 %`. From 0 to 1.
///
/// # Errors
/// Fails if the text is not a share, or is above 100 %.
pub fn percent(text: &str) -> Result<f64, UnitError> {
    let malformed = UnitError::Malformed { expected: PERCENT };
    let (_, unit) = split(text.trim()).ok_or_else(|| malformed.clone())?;
    if !matches!(unit, "" | "%") {
        return Err(malformed);
    }
    let number: f64 = text.trim().trim_end_matches('%').trim_end().parse().map_err(|_| malformed)?;
    if number > 100.0 { Err(UnitError::TooLarge) } else { Ok(number / 100.0) }
}

/// Parses the first and last port, both included: `50000-50100`, or one port.
///
/// # Errors
/// Fails if the text is not a range of ports from 1 on, or ends before it starts.
pub fn ports(text: &str) -> Result<(u16, u16), UnitError> {
    let malformed = UnitError::Malformed { expected: PORTS };
    let text = text.trim();
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().map_err(|_| malformed.clone());
    let (from, to) = (port(from)?, port(to)?);
    match (from, to) {
        (0, _) => Err(UnitError::Zero),
        _ if to < from => Err(UnitError::Reversed { from, to }),
        range => Ok(range),
    }
}

/// Splits the number at the start of `text`, as its digits before and after the point, from the unit after it.
fn split(text: &str) -> Option<((&str, &str), &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = !whole.is_empty() && !fraction.contains('.') && !number.ends_with('.');
    digits.then_some(((whole, fraction), unit.trim_start()))
}

/// Returns `number` times `unit`, rounded down, in whole numbers: `0.1` must not depend on binary fractions.
fn scale((whole, fraction): (&str, &str), unit: u64, expected: &'static str) -> Result<u64, UnitError> {
    // More digits than these could change no result, because no unit is larger than 2^40.
    let fraction = &fraction[..fraction.len().min(18)];
    let whole: u64 = whole.parse().map_err(|_| UnitError::TooLarge)?;
    let part: u128 = match fraction {
        "" => 0,
        digits => digits.parse().map_err(|_| UnitError::Malformed { expected })?,
    };
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).expect("at most 18 digits"));
    let total = u128::from(whole) * u128::from(unit) + part * u128::from(unit) / divisor;
    match u64::try_from(total) {
        Ok(0) => Err(UnitError::Zero),
        Ok(total) => Ok(total),
        Err(_) => Err(UnitError::TooLarge),
    }
}

/// Returns bytes in powers of 1000 with three significant digits: `999 B`, `1.23 GB`.
pub fn bytes_text(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        let digits = match value {
            _ if unit == "B" => 0,
            value if value < 9.995 => 2,
            value if value < 99.95 => 1,
            _ => 0,
        };
        if value < 999.5 {
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_are_described_in_short_times_and_shares() {
        for (text, microseconds) in
            [("0", 0), ("100us", 100), ("0.1ms", 100), ("10 ms", 10_000), ("1", 1_000_000)]
        {
            assert_eq!(short_duration(text), Ok(Duration::from_micros(microseconds)), "{text}");
        }
        assert_eq!(short_duration("61s"), Err(UnitError::TooLarge));
        assert!(short_duration("5m").is_err() && short_duration("-1").is_err());
        for (text, share) in [("0", 0.0), ("0.1%", 0.001), ("1 %", 0.01), ("100", 1.0)] {
            assert_eq!(percent(text), Ok(share), "{text}");
        }
        assert_eq!(percent("101"), Err(UnitError::TooLarge));
        assert!(percent("1/2").is_err() && percent("nan").is_err() && percent("").is_err());
    }

    #[test]
    fn rates_mean_one_number() {
        for (text, expected) in [
            ("1", 1),
            ("100M", 100_000_000),
            ("1G", 1_000_000_000),
            ("10MB/s", 10_000_000),
            ("10 MB/s", 10_000_000),
            ("64KiB", 65_536),
            ("64Ki", 65_536),
            ("1.5Gi/s", 1_610_612_736),
            ("2k", 2_000),
            ("2K", 2_000),
            ("0.1M", 100_000),
            ("1T", 1_000_000_000_000),
            ("1TiB", 1 << 40),
            ("17b", 17),
            (" 5M ", 5_000_000),
            ("0.0000010000000000000000000000M", 1),
        ] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        let malformed = Err(UnitError::Malformed { expected: RATE });
        for text in
            ["", "M", "-1", "1X", "1iB", "1.2.3", "1.", ".5", "1e6", "1 0", "1M/m", "1Mbit", "∞", "1é"]
        {
            assert_eq!(rate(text), malformed, "{text}");
        }
        for text in ["0", "0M", "0.0001k"] {
            assert_eq!(rate(text), Err(UnitError::Zero), "{text}");
        }
        for text in ["18446744073709551616", "18446745T", "99999999999999999999999999T"] {
            assert_eq!(rate(text), Err(UnitError::TooLarge), "{text}");
        }
        assert_eq!(rate("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn sizes_have_no_per_second() {
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(size("512M"), Ok(512_000_000));
        assert!(size("1G/s").is_err() && size("0").is_err());
    }

    #[test]
    fn seeds_are_written_as_reports_print_them() {
        assert_eq!(seed("7"), Ok(7));
        assert_eq!(seed("0xff"), Ok(255));
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "0x", "0x+1", "-1", "f", "18446744073709551616"] {
            assert!(seed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_default_to_seconds() {
        for (text, milliseconds) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("1500ms", 1_500),
            ("0.5", 500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(duration("0"), Err(UnitError::Zero));
        assert_eq!(duration("0.0001"), Err(UnitError::Zero));
        assert_eq!(duration("9999999h"), Err(UnitError::TooLarge));
        assert!(duration("1d").is_err() && duration("").is_err() && duration("s").is_err());
    }

    #[test]
    fn port_ranges_are_ordered_and_start_at_one() {
        assert_eq!(ports("50000-50100"), Ok((50_000, 50_100)));
        assert_eq!(ports("7"), Ok((7, 7)));
        assert_eq!(ports("0"), Err(UnitError::Zero));
        assert_eq!(ports("9-8"), Err(UnitError::Reversed { from: 9, to: 8 }));
        for text in ["", "-", "1-", "-1", "65536", "1-2-3", "a-b"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_keep_three_digits() {
        for (bytes, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1_000.0, "1.00 kB"),
            (9_994.0, "9.99 kB"),
            (9_996.0, "10.0 kB"),
            (123_456_789.0, "123 MB"),
            (999_600.0, "1.00 MB"),
            (1.5e9, "1.50 GB"),
            (2e15, "2.0 PB"),
        ] {
            assert_eq!(bytes_text(bytes), text, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.kKMGTiBbs/ m-]{0,24}") {
            let _ = (rate(&text), duration(&text), ports(&text));
        }

        #[test]
        fn whole_numbers_are_themselves(number in 1_u64..) {
            prop_assert_eq!(rate(&number.to_string()), Ok(number));
        }
    }
}
