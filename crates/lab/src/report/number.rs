//! Figures for people: three significant digits, grouped thousands, binary sizes.

/// Returns `value` with three significant digits, or all digits before the point, thousands separated by commas.
pub fn quantity(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{size:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(whole, part)| (whole, Some(part)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "−" } else { "" };
    fraction.map_or_else(|| format!("{sign}{grouped}"), |fraction| format!("{sign}{grouped}.{fraction}"))
}

/// Returns a ratio with two decimals.
pub fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "–".to_owned() }
}

/// Returns a whole number, digit by digit.
pub fn count(value: f64) -> String {
    format!("{value:.0}")
}

/// Returns a ratio as a gain in per cent, as the papers print it.
pub fn gain(ratio: f64) -> String {
    let per_cent = ((ratio - 1.0) * 100.0).round();
    format!("{}{} %", if per_cent < 0.0 { "−" } else { "+" }, per_cent.abs())
}

/// Returns a number with its noun: `1 lane`, `2 lanes`.
pub fn counted(count: impl ToString, thing: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Returns the bytes with a binary unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", quantity(value), UNITS[unit])
}

/// Returns the text of a duration: seconds, or minutes and seconds.
pub fn duration(seconds: f64) -> String {
    if seconds < 100.0 {
        return format!("{} s", quantity(seconds));
    }
    let whole = seconds.round() as u64;
    format!("{} min {:02} s", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let figures = [
            (0.0, "0"),
            (0.0934, "0.093"),
            (0.9999, "1.00"),
            (1.426, "1.43"),
            (26.44, "26.4"),
            (99.97, "100"),
            (999.6, "1,000"),
            (1_354.2, "1,354"),
            (-1_234_567.0, "−1,234,567"),
            (f64::NAN, "–"),
        ];
        for (value, text) in figures {
            assert_eq!(quantity(value), text);
        }
        assert_eq!(bytes(1 << 30), "1.00 GiB");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(u64::MAX), "16,777,216 TiB");
        assert_eq!(duration(0.093), "0.093 s");
        assert_eq!(duration(119.6), "2 min 00 s");
        assert_eq!(ratio(1.956), "1.96");
        assert_eq!([2.45, 0.9, 0.999].map(gain), ["+145 %", "−10 %", "+0 %"]);
    }
}
