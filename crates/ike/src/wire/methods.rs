//! The data of SUPPORTED_AUTH_METHODS (RFC 9593, section 3.2): the methods by which its sender verifies a proof.
//!
//! Guarantees: at most 64 are read; what is written reads back as the same.

use super::{Malformed, Reader};

/// Maximum number of announcements in a notification.
const MAX_ANNOUNCEMENTS: usize = 64;

/// A method, and the algorithm of its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The number of the method, as in an AUTH payload.
    pub method: u8,
    /// An AlgorithmIdentifier in DER; empty for a method that has one algorithm, or for all of them.
    pub identifier: Vec<u8>,
}

/// Reads announcements. Links to authorities are left out: they narrow the choice of a certificate, of which this end has one.
///
/// # Errors
/// Fails if the lengths do not fit, or if there are too many.
pub fn parse(data: &[u8]) -> Result<Vec<Announcement>, Malformed> {
    let mut reader = Reader::new("a list of methods", data);
    let mut all = Vec::new();
    while !reader.is_empty() {
        if all.len() == MAX_ANNOUNCEMENTS {
            return Err(Malformed::TooMany { what: "methods", most: MAX_ANNOUNCEMENTS });
        }
        let length = usize::from(reader.u8()?);
        let method = reader.u8()?;
        let link = if length > 2 { reader.bytes(1)? } else { &[] };
        let identifier = reader.bytes(length.saturating_sub(2 + link.len()))?.to_vec();
        all.push(Announcement { method, identifier });
    }
    Ok(all)
}

/// Writes announcements whose identifiers have at most 252 bytes.
pub fn write(all: &[Announcement]) -> Vec<u8> {
    let mut data = Vec::new();
    for Announcement { method, identifier } in all {
        if identifier.is_empty() {
            data.extend([2, *method]);
        } else {
            let length = u8::try_from(3 + identifier.len()).expect("identifiers are short");
            data.extend([length, *method, 0]);
            data.extend(identifier);
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn announcements_come_back() {
        let all = vec![
            Announcement { method: 2, identifier: Vec::new() },
            Announcement { method: 14, identifier: vec![0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70] },
        ];
        let data = write(&all);
        assert_eq!(data, [2, 2, 10, 14, 0, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70]);
        assert_eq!(parse(&data), Ok(all));
        // A method with a link alone.
        assert_eq!(parse(&[3, 1, 7]), Ok(vec![Announcement { method: 1, identifier: Vec::new() }]));
        assert!(
            parse(&[2; 2 * MAX_ANNOUNCEMENTS]).is_ok() && parse(&[2; 2 * MAX_ANNOUNCEMENTS + 2]).is_err()
        );
        assert!(parse(&[4, 14, 0]).is_err());
    }

    proptest! {
        #[test]
        fn any_data_are_announcements_or_refused(data in vec(any::<u8>(), 0..300)) {
            if let Ok(all) = parse(&data) {
                prop_assert!(all.len() <= MAX_ANNOUNCEMENTS);
                prop_assert_eq!(parse(&write(&all)), Ok(all));
            }
        }
    }
}
