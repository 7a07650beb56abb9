//! A compressed body expands to at most the content of a record, within its room; what it expands to can be compressed again,
//! and comes back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::proto::compression::{Compressor, Expander};
use sealane_copy::proto::record::DATA_BYTES_MAX;

fuzz_target!(|body: &[u8]| {
    let mut room = vec![0xEE; DATA_BYTES_MAX + 16];
    let mut expander = Expander::new().expect("memory");
    let Ok(length) = expander.expand(body, &mut room) else { return };
    assert!((1..=DATA_BYTES_MAX).contains(&length));
    assert!(room[DATA_BYTES_MAX..].iter().all(|&byte| byte == 0xEE));
    room.truncate(length);
    let mut again = vec![0; length + length / 128 + 1024];
    let mut compressor = Compressor::new().expect("memory");
    let written = compressor.compress(1, &room, &mut again).expect("the room is long enough for any content");
    let mut other = vec![0; DATA_BYTES_MAX];
    assert_eq!(expander.expand(&again[..written], &mut other), Ok(length));
    assert!(other[..length] == room[..]);
});
