//! Text for people, and foreign text made safe for a terminal.
//!
//! Guarantees: no control character of a file name or of the far end's messages reaches the terminal, where it could
//! move the cursor, rename the window or worse; and a standard error that cannot be written to stops nothing.

use std::fmt::{Arguments, Write as _};
use std::io::Write as _;

/// Prints a message to standard error under the program's name, with the system's error texts but without their
/// numbers. Further lines are indented, so that no foreign text can pass for a message of its own.
pub(crate) fn complain(message: Arguments<'_>) {
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
pub(crate) fn say(message: &str) {
    // One write, so that messages of several processes do not mix. There is nowhere to report a failure to.
    let _ = std::io::stderr().write_all(block(message).as_bytes());
}

/// Returns the lines of `message`, the first one at the margin and the others indented.
fn block(message: &str) -> String {
    let lines: Vec<String> = message.lines().map(|line| printable(line.as_bytes())).collect();
    format!("{}\n", lines.join("\n  "))
}

/// Returns `bytes` with everything escaped that is not a visible character or a blank.
pub(crate) fn printable(bytes: &[u8]) -> String {
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

/// Lines of which each is [`printable`].
pub(crate) fn lines(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => printable(line.as_bytes()) + "\n",
            None => printable(line.as_bytes()),
        })
        .collect()
}

/// Returns a line of JSON with the same meaning whose strings contain no control characters for a terminal.
pub(crate) fn json(line: &str) -> String {
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
pub(crate) fn digest_line(path: &[u8], digest: &[u8; 32]) -> Vec<u8> {
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

/// `bytes` in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
        text
    })
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
}
