//! One line of a list of digests, as coreutils writes and reads it.
//!
//! Guarantees: what [`compose`] writes, [`parse`] reads back to the same name and digest, whatever bytes the name has.

use super::Kind;
use crate::text::hex;

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// `MD5 (name) = digits` instead of `digits  name`.
    pub(super) tag: bool,
    /// The line ends with a zero byte, and nothing is escaped.
    pub(super) zero: bool,
    /// An asterisk before the name.
    pub(super) binary: bool,
}

/// Returns the line of a file.
pub(super) fn compose(kind: Kind, style: Style, name: &[u8], digest: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(name.len() + 80);
    let special = !style.zero && name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
    if special {
        line.push(b'\\');
    }
    let put_name =
        |line: &mut Vec<u8>| if special { escape(name, line) } else { line.extend_from_slice(name) };
    if style.tag {
        line.extend_from_slice(kind.tag().as_bytes());
        line.extend_from_slice(b" (");
        put_name(&mut line);
        line.extend_from_slice(b") = ");
        line.extend_from_slice(hex(digest).as_bytes());
    } else {
        line.extend_from_slice(hex(digest).as_bytes());
        line.extend_from_slice(if style.binary { b" *" } else { b"  " });
        put_name(&mut line);
    }
    line.push(if style.zero { 0 } else { b'\n' });
    line
}

fn escape(name: &[u8], line: &mut Vec<u8>) {
    for &byte in name {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            other => line.push(other),
        }
    }
}

/// Returns a name as it is printed before a result: escaped only if it would break the line.
pub(super) fn result_name(name: &[u8]) -> Vec<u8> {
    if !name.contains(&b'\n') {
        return name.to_vec();
    }
    let mut escaped = vec![b'\\'];
    escape(name, &mut escaped);
    escaped
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A digest and its file.
    Entry {
        /// The file's name.
        name: Vec<u8>,
        /// The digest that the list states.
        digest: Vec<u8>,
    },
    /// A comment, or nothing.
    Nothing,
    /// Neither.
    Improper,
}

/// Reads a line, without its end.
pub(super) fn parse(kind: Kind, line: &[u8]) -> Parsed {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.trim_ascii_start();
    if line.is_empty() || line[0] == b'#' {
        return Parsed::Nothing;
    }
    entry(kind, line).unwrap_or(Parsed::Improper)
}

/// For fuzzing: reads a line of a list of any kind, without its end. Returns the number of kinds of list in which the
/// line is an entry.
///
/// # Panics
/// Panics if an entry is written in some style, read again, and differs.
pub fn reread_any(line: &[u8]) -> usize {
    let entries = Kind::ALL.into_iter().filter(|&kind| {
        let parsed = parse(kind, line);
        let Parsed::Entry { name, digest } = &parsed else { return false };
        assert_eq!(digest.len(), kind.bytes());
        // No file has an empty name; where something else has to be escaped, a zero byte is refused.
        let styles = [(false, false), (false, true), (true, false)];
        for (tag, binary) in styles.into_iter().filter(|_| !name.contains(&0)) {
            let again = compose(kind, Style { tag, zero: false, binary }, name, digest);
            let again = again.strip_suffix(b"\n").expect("a line ends");
            assert!(!again.contains(&b'\n'), "one line");
            assert_eq!(parse(kind, again), parsed);
        }
        true
    });
    entries.count()
}

fn entry(kind: Kind, line: &[u8]) -> Option<Parsed> {
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(line) => (true, line),
        None => (false, line),
    };
    let (digits, name) = match tagged(kind, line) {
        Some(found) => found,
        None => {
            let (digits, rest) = line.split_at_checked(2 * kind.bytes())?;
            // A second blank or an asterisk is the mode; without either it is the BSD order with a single blank.
            let rest = rest.strip_prefix(b" ")?;
            (digits, rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"*")).unwrap_or(rest))
        }
    };
    let name = if escaped { unescape(name)? } else { name.to_vec() };
    if name.is_empty() {
        return None;
    }
    Some(Parsed::Entry { name, digest: unhex(digits, kind.bytes())? })
}

/// Parses digits and name of `MD5 (name) = digits`; the name may contain parentheses itself.
fn tagged(kind: Kind, line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(kind.tag().as_bytes())?;
    let rest = rest.strip_prefix(b" (").or_else(|| rest.strip_prefix(b"("))?;
    let end = rest.windows(4).rposition(|four| four == b") = ")?;
    Some((rest[end + 4..].trim_ascii_end(), &rest[..end]))
}

fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            0 => return None,
            other => other,
        });
    }
    Some(plain)
}

fn unhex(digits: &[u8], bytes: usize) -> Option<Vec<u8>> {
    if digits.len() != 2 * bytes {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    digits.chunks_exact(2).map(|pair| u8::try_from(value(pair[0])? * 16 + value(pair[1])?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [Kind; 13] = Kind::ALL;

    #[test]
    fn lines_are_those_of_coreutils() {
        let digits = "ab".repeat(16);
        let line = |style, name: &[u8]| compose(Kind::MD5, style, name, &[0xab; 16]);
        let plain = Style::default();
        assert_eq!(line(plain, b" a b"), format!("{digits}   a b\n").into_bytes());
        assert_eq!(line(plain, b"a\nb\\c\rd"), format!("\\{digits}  a\\nb\\\\c\\rd\n").into_bytes());
        assert_eq!(
            line(Style { tag: true, ..plain }, b"a\n"),
            format!("\\MD5 (a\\n) = {digits}\n").into_bytes()
        );
        assert_eq!(line(Style { zero: true, ..plain }, b"a\n"), format!("{digits}  a\n\0").into_bytes());
        assert_eq!(line(Style { binary: true, ..plain }, b"a"), format!("{digits} *a\n").into_bytes());
        assert_eq!(result_name(b"c\\d"), b"c\\d");
        assert_eq!(result_name(b"a\nc\\d"), b"\\a\\nc\\\\d");
    }

    #[test]
    fn what_is_no_line_is_improper() {
        let good = "00".repeat(16);
        for line in [
            "junk",
            "00  a",
            &good,
            &format!("{good}  "),
            &format!("{good}0  a"),
            "MD5 (a) = 00",
            "MD5 (a)",
            &format!("MD5 () = {good}"),
            &format!("SHA1 (a) = {good}"),
            &format!("\\{good}  a\\x"),
            &format!("g{}  a", &good[1..]),
        ] {
            assert_eq!(parse(Kind::MD5, line.as_bytes()), Parsed::Improper, "{line}");
        }
        for line in ["", "  ", "# comment", "\r"] {
            assert_eq!(parse(Kind::MD5, line.as_bytes()), Parsed::Nothing, "{line:?}");
        }
        let bsd = parse(Kind::MD5, format!(" {} a", good.to_uppercase()).as_bytes());
        assert_eq!(bsd, Parsed::Entry { name: b"a".to_vec(), digest: vec![0; 16] });
    }

    proptest! {
        #[test]
        fn every_name_reads_back(
            name in prop::collection::vec(1u8.., 1..40),
            digest in prop::collection::vec(any::<u8>(), 64),
            kind in 0..KINDS.len(), tag: bool, binary: bool,
        ) {
            let kind = KINDS[kind];
            let digest = digest[..kind.bytes()].to_vec();
            let line = compose(kind, Style { tag, zero: false, binary: binary && !tag }, &name, &digest);
            let (end, line) = line.split_last().unwrap();
            prop_assert_eq!(*end, b'\n');
            prop_assert_eq!(parse(kind, line), Parsed::Entry { name, digest });
        }

        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..120)) {
            for kind in KINDS {
                parse(kind, &line);
            }
        }
    }
}
