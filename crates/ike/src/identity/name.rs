//! Distinguished names (RFC 5280, section 4.1.2.4) as text and in DER.
//!
//! The text has the order of the certificate, `C=CH, O=Example, CN=vpn.example`, as strongSwan and OpenSSL's
//! `-nameopt oneline` show it; a comma, a plus sign or a backslash within a value has a backslash before it.
//!
//! Guarantees: any bytes are a name or none; names are equal if their attributes have the same types and texts, whatever
//! kind of string each of them is.

use std::fmt::Write as _;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;
/// Strings whose bytes are ASCII or UTF-8, or nearly always so: UTF8String, PrintableString, TeletexString, IA5String.
const TEXTS: [u8; 4] = [UTF8, PRINTABLE, 0x14, IA5];
/// Maximum number of attributes of a name.
const MAX_ATTRIBUTES: usize = 32;

/// Types of attributes: the word, the object identifier, the kind of string that OpenSSL gives it.
const TYPES: &[(&str, &[u8], u8)] = &[
    ("C", &[0x55, 4, 6], PRINTABLE),
    ("ST", &[0x55, 4, 8], UTF8),
    ("L", &[0x55, 4, 7], UTF8),
    ("O", &[0x55, 4, 10], UTF8),
    ("OU", &[0x55, 4, 11], UTF8),
    ("CN", &[0x55, 4, 3], UTF8),
    ("SN", &[0x55, 4, 4], UTF8),
    ("G", &[0x55, 4, 42], UTF8),
    ("T", &[0x55, 4, 12], UTF8),
    ("serialNumber", &[0x55, 4, 5], PRINTABLE),
    ("UID", &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], UTF8),
    ("DC", &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], IA5),
    ("E", &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], IA5),
];
/// Other words for some of them.
const ALIASES: [(&str, &str); 4] = [("S", "ST"), ("emailAddress", "E"), ("GN", "G"), ("surname", "SN")];

/// An attribute of a name: its type, the tag of its value, and the value.
type Attribute<'a> = (&'a [u8], u8, &'a [u8]);

fn value(tag: u8, inside: &[u8]) -> Vec<u8> {
    let length = inside.len().to_be_bytes();
    let significant = &length[length.iter().position(|&byte| byte != 0).unwrap_or(length.len() - 1)..];
    let mut der = vec![tag];
    if inside.len() >= 0x80 {
        der.push(0x80 | significant.len() as u8);
    }
    der.extend(significant);
    der.extend(inside);
    der
}

/// Cuts the first value off: its tag, its inside, and the rest.
fn first(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match short {
        ..=0x7f => (usize::from(short), rest),
        0x81..=0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (inside, rest) = rest.split_at_checked(length)?;
    Some((tag, inside, rest))
}

/// Returns the inside of a value that has this tag and is the only one.
fn only(der: &[u8], wanted: u8) -> Option<&[u8]> {
    let (tag, inside, rest) = first(der)?;
    (tag == wanted && rest.is_empty()).then_some(inside)
}

/// Reads the attributes of a name; each with whether it stands beside the one before it, in one set.
fn attributes(der: &[u8]) -> Option<Vec<(bool, Attribute<'_>)>> {
    let mut sets = only(der, SEQUENCE)?;
    let mut all = Vec::new();
    while !sets.is_empty() {
        let (tag, mut set, rest) = first(sets)?;
        sets = rest;
        let mut is_beside = false;
        while !set.is_empty() {
            let (kind, attribute, others) = first(set)?;
            let (oid_tag, oid, text) = first(attribute)?;
            let (string, text, behind) = first(text)?;
            let is_good = tag == SET && kind == SEQUENCE && oid_tag == OBJECT_ID && behind.is_empty();
            if !is_good || all.len() == MAX_ATTRIBUTES {
                return None;
            }
            all.push((is_beside, (oid, string, text)));
            is_beside = true;
            set = others;
        }
    }
    Some(all)
}

/// Reads a name as a user writes it. Returns its DER, as OpenSSL would write it; `None` if it is no name.
pub(crate) fn parse(text: &str) -> Option<Vec<u8>> {
    let mut sets = Vec::new();
    // Escaped characters are none that separate.
    let mut parts = vec![String::new()];
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => parts.last_mut()?.push(characters.next()?),
            ',' => parts.push(String::new()),
            c => parts.last_mut()?.push(c),
        }
    }
    for part in parts {
        let (word, text) = part.split_once('=')?;
        let (word, text) = (word.trim(), text.trim());
        let same = |known: &str| known.eq_ignore_ascii_case(word);
        let word = ALIASES.iter().find(|(alias, _)| same(alias)).map_or(word, |(_, word)| word);
        let (_, oid, string) = TYPES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(word))?;
        if text.is_empty() || text.chars().any(char::is_control) || *string == IA5 && !text.is_ascii() {
            return None;
        }
        let attribute = [value(OBJECT_ID, oid), value(*string, text.as_bytes())].concat();
        sets.extend(value(SET, &value(SEQUENCE, &attribute)));
    }
    Some(value(SEQUENCE, &sets))
}

/// Returns a name as a user writes it; `None` if the bytes are no name.
pub(crate) fn text(der: &[u8]) -> Option<String> {
    let mut shown = String::new();
    for (is_beside, (oid, string, text)) in attributes(der)? {
        let separator = match (shown.is_empty(), is_beside) {
            (true, _) => "",
            (false, true) => " + ",
            (false, false) => ", ",
        };
        shown.push_str(separator);
        match TYPES.iter().find(|(_, known, _)| *known == oid) {
            Some((word, ..)) => shown.push_str(word),
            None => oid.iter().for_each(|byte| {
                // Writing to a string succeeds.
                let _ = write!(shown, "{byte:02x}");
            }),
        }
        shown.push('=');
        match str::from_utf8(text).ok().filter(|_| TEXTS.contains(&string)) {
            Some(text) => {
                for c in text.chars() {
                    if ",+\\".contains(c) {
                        shown.push('\\');
                    }
                    shown.push(if c.is_control() { '\u{fffd}' } else { c });
                }
            }
            None => {
                let _ = write!(shown, "({} bytes)", text.len());
            }
        }
    }
    Some(shown)
}

/// Returns bytes that two names have in common if and only if they are equal.
pub(crate) fn canonical(der: &[u8]) -> Vec<u8> {
    let Some(all) = attributes(der) else { return der.to_vec() };
    let mut bytes = Vec::new();
    for (is_beside, (oid, string, text)) in all {
        let string = if TEXTS.contains(&string) { UTF8 } else { string };
        bytes.push(u8::from(is_beside));
        bytes.extend(value(OBJECT_ID, oid));
        bytes.extend(value(string, text));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown_alike() {
        for shown in
            ["CN=vpn.example", "C=CH, O=Example\\, Inc., CN=vpn.example", "DC=example, UID=7, E=a@b.example"]
        {
            let der = parse(shown).expect("a name");
            assert_eq!(text(&der).as_deref(), Some(shown));
            let spaced = parse(&shown.replace("=", " = ")).expect("a name");
            assert_eq!(canonical(&der), canonical(&spaced));
        }
        // As `openssl req -subj /C=CH/CN=a` encodes it.
        let der = [
            0x30, 25, 0x31, 11, 0x30, 9, 6, 3, 0x55, 4, 6, 0x13, 2, b'C', b'H', 0x31, 10, 0x30, 8, 6, 3,
            0x55, 4, 3, 0x0c, 1, b'a',
        ];
        assert_eq!(parse("c=CH,cn=a").as_deref(), Some(&der[..]));
        // Other programs write a PrintableString.
        let mut other = der;
        other[24] = 0x13;
        assert_eq!(canonical(&other), canonical(&der));
        other[26] = b'b';
        assert_ne!(canonical(&other), canonical(&der));
        for bad in ["", "CN", "CN=", "XX=a", "CN=a, b", "CN=a,", "E=ä"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(text(&[0x30, 5, 1]), None);
    }
}
