//! Names in a certificate that rustls-webpki does not give: mail addresses, principals' names, the subject's common
//! name (RFC 5280, sections 4.1 and 4.2.1.6).
//!
//! Guarantees: no recursion, and no allocation except for the list of names; malformed input has no names.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
/// Strings whose bytes are ASCII or UTF-8.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// Tags within a certificate and within an alternative name.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const OTHER_NAME: u8 = 0xa0;
const MAIL: u8 = 0x81;
const HOST: u8 = 0x82;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// The identifier 1.3.6.1.4.1.311.20.2.3.
const PRINCIPAL_NAME: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x14, 0x02, 0x03];

/// Values in DER, one behind the other.
#[derive(Clone, Copy)]
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    /// Returns the next value's tag and inside.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, short], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match short {
            ..=0x7f => (usize::from(short), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (inside, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, inside))
    }

    /// Returns the inside of the next value, if it has this tag.
    fn expect(&mut self, tag: u8) -> Option<Self> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, inside)| Self(inside))
    }
}

/// The names in a certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names<'a> {
    pub(super) hosts: Vec<&'a [u8]>,
    pub(super) mails: Vec<&'a [u8]>,
    pub(super) principals: Vec<&'a [u8]>,
    pub(super) common_names: Vec<&'a [u8]>,
}

impl<'a> Names<'a> {
    /// Reads a certificate's names.
    pub(super) fn read(certificate: &'a [u8]) -> Option<Self> {
        let mut names = Self::default();
        let mut body = Values(certificate).expect(SEQUENCE)?.expect(SEQUENCE)?;
        // The body begins with the version (a tag of its own), serial number, algorithm, issuer, and validity.
        let version = Values(body.0).next()?.0;
        for _ in 0..if version == VERSION { 5 } else { 4 } {
            body.next()?;
        }
        names.read_subject(body.expect(SEQUENCE)?)?;
        while let Some((tag, inside)) = body.next() {
            if tag == EXTENSIONS {
                names.read_extensions(Values(inside).expect(SEQUENCE)?)?;
            }
        }
        Some(names)
    }

    fn read_subject(&mut self, mut subject: Values<'a>) -> Option<()> {
        while let Some((tag, set)) = subject.next() {
            let mut set = Values(set);
            while let Some((SEQUENCE, attribute)) = set.next() {
                let mut attribute = Values(attribute);
                let kind = attribute.expect(OBJECT_ID)?;
                let (text, value) = attribute.next()?;
                if tag == SET && kind.0 == COMMON_NAME && TEXTS.contains(&text) {
                    self.common_names.push(value);
                }
            }
        }
        Some(())
    }

    fn read_extensions(&mut self, mut extensions: Values<'a>) -> Option<()> {
        while let Some((SEQUENCE, extension)) = extensions.next() {
            let mut extension = Values(extension);
            if extension.expect(OBJECT_ID)?.0 != ALTERNATIVE_NAMES {
                continue;
            }
            let mut value = extension.next()?;
            if value.0 != OCTET_STRING {
                // The value just read is the extension's critical flag.
                value = extension.next()?;
            }
            let mut all = Values(value.1).expect(SEQUENCE)?;
            while let Some((tag, name)) = all.next() {
                match tag {
                    MAIL => self.mails.push(name),
                    HOST => self.hosts.push(name),
                    OTHER_NAME => self.principals.extend(principal(Values(name))),
                    _ => {}
                }
            }
        }
        Some(())
    }
}

/// Returns the text of another name, if it is a principal's name.
fn principal(mut name: Values<'_>) -> Option<&[u8]> {
    if name.expect(OBJECT_ID)?.0 != PRINCIPAL_NAME {
        return None;
    }
    let (text, value) = name.expect(0xa0)?.next()?;
    TEXTS.contains(&text).then_some(value)
}
