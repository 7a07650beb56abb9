//! Records of a data stream: a decoded record encodes to exactly the bytes that it was found in, and the result does
//! not depend on the division of the stream into reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::proto::record::{BODY_BYTES_MAX, HEADER_BYTES, Header, HeaderError, split_records};

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let mut records = Vec::new();
    let outcome = split_records(bytes, &mut records);
    let taken = written_again(bytes, &records);
    let rest = &bytes[taken..];
    let next = rest.first_chunk().map(Header::decode);
    match outcome {
        Ok(reported) => {
            assert_eq!(reported, taken);
            // The rest is the beginning of a record, never a whole one.
            match next {
                None => assert!(rest.len() < HEADER_BYTES),
                Some(next) => {
                    assert!(HEADER_BYTES + next.expect("its header is good").body_bytes > rest.len());
                }
            }
        }
        Err(error) => assert_eq!(next, Some(Err(error))),
    }
    assert_eq!(in_two_reads(bytes, usize::from(cut) * bytes.len() / 255), (records, outcome.map(|_| ())));
});

/// Encodes the headers over the bodies they were found with. Returns the number of bytes.
fn written_again(bytes: &[u8], records: &[(usize, Header)]) -> usize {
    let mut at = 0;
    for (found_at, header) in records {
        assert_eq!(*found_at, at);
        assert!(header.body_bytes <= BODY_BYTES_MAX);
        let mut front = [0; HEADER_BYTES];
        header.encode(&mut front);
        assert_eq!(front, bytes[at..at + HEADER_BYTES]);
        at += HEADER_BYTES + header.body_bytes;
        assert!(at <= bytes.len());
    }
    at
}

/// Works as a lane does: takes whole records, keeps the rest, and reads on behind it.
fn in_two_reads(bytes: &[u8], cut: usize) -> (Vec<(usize, Header)>, Result<(), HeaderError>) {
    let mut records = Vec::new();
    let taken = match split_records(&bytes[..cut], &mut records) {
        Ok(taken) => taken,
        Err(error) => return (records, Err(error)),
    };
    let mut later = Vec::new();
    let outcome = split_records(&bytes[taken..], &mut later);
    records.extend(later.into_iter().map(|(at, header)| (taken + at, header)));
    (records, outcome.map(|_| ()))
}
