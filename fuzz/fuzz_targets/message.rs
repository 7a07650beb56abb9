//! Messages of the control channel: decoding allocates no more than a small multiple of the frame, and writing the
//! message again gives the same message in no more bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::proto::message::Message;
use sealane_fuzz::frugally;

fuzz_target!(|frame: &[u8]| {
    let Ok(message) = frugally(frame.len(), || Message::decode(frame)) else { return };
    let again = message.encode();
    assert!(again.len() <= frame.len());
    assert_eq!(Message::decode(&again).as_ref(), Ok(&message));
    // A frame is exactly one message: a shortened or extended frame is an error.
    assert!(Message::decode(&again[..again.len() - 1]).is_err());
    assert!(Message::decode(&[&again[..], &[0]].concat()).is_err());
});
