//! Joining a data stream: a proof fits exactly the bytes and the key that it was made for, and a decoded message
//! contains all fields that were sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_copy::Level;
use sealane_copy::proto::join::{JOIN_BYTES, JOINED_BYTES, Join, Joined, MAGIC, Prover, decode};
use sealane_engine::record::Secret;

fuzz_target!(|input: &[u8]| {
    // The input is used twice: as the bytes that arrive, and as an alteration of an honest message on its way.
    let Some((join_bytes, rest)) = input.split_first_chunk::<JOIN_BYTES>() else { return };
    let Some((joined_bytes, rest)) = rest.split_first_chunk::<JOINED_BYTES>() else { return };
    let key = Secret::new(rest.first_chunk().copied().unwrap_or([7; 32]));
    let other = Prover::new(&key.derive(&[b"another transfer"]), Level::Safe);
    // At level `clear` only the connector proves itself.
    for (level, mutual) in [(Level::Safe, true), (Level::Clear, false)] {
        let prover = Prover::new(&key, level);
        check_join(&prover, join_bytes);
        check_joined(&prover, join_bytes, joined_bytes);

        // This is an honest message with these fields, altered by the rest of the input.
        let mut with_magic = *join_bytes;
        with_magic[..4].copy_from_slice(&MAGIC);
        let fields = decode(&with_magic).expect("the magic is right");
        let honest = prover.join(&fields);
        assert!(prover.verify_join(&honest));
        assert_eq!(decode(&honest), Some(fields));
        assert!(!other.verify_join(&honest));
        let alteration = rest.get(32..).unwrap_or_default();
        let mut altered = honest;
        altered.iter_mut().zip(alteration).for_each(|(byte, change)| *byte ^= change);
        assert!(prover.verify_join(&altered) == (altered == honest));
        check_join(&prover, &altered);

        let answer = Joined {
            accepted: joined_bytes[4] & 1 == 1,
            taken: u64::from_le_bytes(joined_bytes[5..13].try_into().expect("eight bytes")),
        };
        let honest_answer = prover.joined(&honest, &answer);
        assert_eq!(prover.verify_joined(&honest, &honest_answer), Some(answer));
        assert!(!mutual || other.verify_joined(&honest, &honest_answer).is_none());
        // The answer to another message is not an answer to this one.
        let fits = prover.verify_joined(&altered, &honest_answer).is_some();
        assert!(!mutual || fits == (altered == honest));
        let mut altered_answer = honest_answer;
        altered_answer.iter_mut().zip(alteration).for_each(|(byte, change)| *byte ^= change);
        check_joined(&prover, &honest, &altered_answer);
    }
});

/// Checks that of all bytes, only those that the prover itself would send are proven and decoded.
fn check_join(prover: &Prover, bytes: &[u8; JOIN_BYTES]) {
    let join: Option<Join> = decode(bytes);
    assert_eq!(join.is_some(), bytes[..4] == MAGIC);
    if let Some(join) = join {
        assert_eq!(prover.verify_join(bytes), prover.join(&join) == *bytes);
    }
}

/// Checks the same for the answer.
fn check_joined(prover: &Prover, join: &[u8; JOIN_BYTES], bytes: &[u8; JOINED_BYTES]) {
    if let Some(joined) = prover.verify_joined(join, bytes) {
        assert_eq!(prover.joined(join, &joined), *bytes);
    }
}
