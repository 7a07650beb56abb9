//! Text for people, and foreign text made safe for a terminal.
//!
//! Guarantees: no control character of a file name or of the far end's messages reaches the terminal, where it could
//! move the cursor, rename the window or worse; and a standard error that cannot be written to stops nothing.

use std::fmt::{Arguments, Write as _};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Prints a message to standard error under the program's name, with the system's error texts but without their
/// numbers. Further lines are indented, so that no foreign text can pass for a message of its own.
pub fn complain(message: Arguments<'_>) {
    say(&format!("sealane: {}", without_numbers(&message.to_string())));
}

/// Removes ` (os error 13)`, which the standard library appends to the system's error texts.
fn without_numbers(mut message: &str) -> String {
    const MARK: &str = " (os error ";
    let mut text = String::with_capacity(message.len());
    while let Some((words, rest)) = message.split_once(MARK) {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        text.push_str(words);
        message = match rest[digits..].strip_prefix(')') {
            Some(rest) if digits > 0 => rest,
            _ => {
                text.push_str(MARK);
                rest
            }
        };
    }
    text + message
}

/// Prints a message to standard error.
pub fn say(message: &str) {
    // One write, so that messages of several processes do not mix. There is nowhere to report a failure to.
    let _ = std::io::stderr().write_all(block(message).as_bytes());
}

/// Returns the lines of `message`, the first one at the margin and the others indented.
fn block(message: &str) -> String {
    let lines: Vec<String> = message.lines().map(|line| printable(line.as_bytes())).collect();
    format!("{}\n", lines.join("\n  "))
}

/// Returns `bytes` with everything escaped that is not a visible character or a blank.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_obeyed(c) {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("writing to a string succeeds");
        }
    }
    text
}

/// Returns whether a terminal may do something else than show `c`. The bidirectional overrides (Unicode, UAX #9) can
/// make one name look like another.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `text` with each of its lines made [`printable`].
pub fn lines(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => printable(line.as_bytes()) + "\n",
            None => printable(line.as_bytes()),
        })
        .collect()
}

/// Returns a line of JSON with the same meaning whose strings contain no control characters for a terminal.
pub fn json(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        match is_obeyed(c) {
            // JSON itself requires this only below U+0020.
            true => write!(text, "\\u{:04x}", u32::from(c)).expect("writing to a string succeeds"),
            false => text.push(c),
        }
    }
    text
}

/// Returns one line of a list of digests as `b3sum --check` reads it: 64 hexadecimal digits, two blanks, the name. A
/// name with a backslash or a line break is escaped, which a backslash before the digits marks.
pub fn digest_line(path: &[u8], digest: &[u8; 32]) -> Vec<u8> {
    let special = path.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
    let mut line = Vec::with_capacity(path.len() + 68);
    if special {
        line.push(b'\\');
    }
    line.extend_from_slice(hex(digest).as_bytes());
    line.extend_from_slice(b"  ");
    for &byte in path {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            other => line.push(other),
        }
    }
    line.push(b'\n');
    line
}

/// Returns `bytes` in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
        text
    })
}

/// Returns the present time in UTC as ISO 8601 with seconds.
pub fn utc_now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    utc_text(seconds)
}

/// Returns a time in that form. The civil date is computed from days since 1970 (Howard Hinnant's algorithm), valid for all years that a clock
/// can show.
fn utc_text(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_characters() {
        for (bytes, text) in [
            (&b"plain name"[..], "plain name"),
            ("größe \u{1f980}".as_bytes(), "größe \u{1f980}"),
            (b"a\x1b[2Jb", "a\\u{1b}[2Jb"),
            (b"a\nb\tc", "a\\nb\\tc"),
            (b"\xff\xfe.bin", "\\xff\\xfe.bin"),
            ("\u{202e}gpj.exe".as_bytes(), "\\u{202e}gpj.exe"),
            (b"\xc2\x9b31m", "\\u{9b}31m"),
        ] {
            assert_eq!(printable(bytes), text);
        }
    }

    #[test]
    fn further_lines_of_a_message_are_indented() {
        assert_eq!(block("sealane: cut"), "sealane: cut\n");
        assert_eq!(block("sealane: cut\nsealane: \x1b[2J"), "sealane: cut\n  sealane: \\u{1b}[2J\n");
    }

    #[test]
    fn the_systems_numbers_are_left_out() {
        for (message, text) in [
            (
                "cannot open a: No such file or directory (os error 2)",
                "cannot open a: No such file or directory",
            ),
            ("one (os error 13): two (os error 2), three", "one: two, three"),
            ("a (os error ) b (os error 1", "a (os error ) b (os error 1"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(message), text);
        }
    }

    #[test]
    fn digest_lines_are_those_of_b3sum() {
        let digest = [0xab; 32];
        let digits = "ab".repeat(32);
        assert_eq!(digest_line(b"dir/a b", &digest), format!("{digits}  dir/a b\n").into_bytes());
        assert_eq!(digest_line(b"a\\b\nc", &digest), format!("\\{digits}  a\\\\b\\nc\n").into_bytes());
    }

    #[test]
    fn dates_are_right_at_the_edges() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc_text(seconds), text);
        }
    }
}
