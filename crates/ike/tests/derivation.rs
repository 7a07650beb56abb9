//! Key derivation compared with NIST's test vectors.

use sealane_ike::{
    crypto::Prf,
    keys::{Nonces, seed},
};
use zeroize::Zeroizing;

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn seeds_and_keys_are_those_of_nist() {
    let mut cases = 0;
    for line in include_str!("vectors/ikev2kdf.txt").lines().filter(|line| !line.starts_with('#')) {
        let [kind, hash, key, salt, expected] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("five words a line")
        };
        let prf = match hash {
            "256" => Prf::HmacSha256,
            "384" => Prf::HmacSha384,
            _ => Prf::HmacSha512,
        };
        let (key, salt, expected) = (Zeroizing::new(bytes(key)), bytes(salt), bytes(expected));
        let derived = if kind == "seed" {
            let (initiator, responder) = salt.split_at(salt.len() / 2);
            let nonces = Nonces { initiator: initiator.to_vec(), responder: responder.to_vec() };
            seed(prf, &nonces, &key)
        } else {
            prf.plus(&key, &[&salt], expected.len())
        };
        assert_eq!(*derived, expected, "{kind} {hash}");
        cases += 1;
    }
    assert_eq!(cases, 12);
}
