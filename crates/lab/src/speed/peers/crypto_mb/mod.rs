//! Intel's multi-buffer library of public-key operations, which computes eight operations side by side, as ours does.
//!
//! A batch goes to it in calls of eight ways; a last call has empty ways if the batch is not a multiple of eight.
//! Keys are OpenSSL's, and OpenSSL checks the results once. The library computes RSA without blinding or check
//! of the result, and takes ECDSA's nonces as they are given.

mod ffi;

use super::super::SpeedError;
use super::super::public_key::work::StepTask;
use super::super::work::{Done, Handler, Runner};
use super::Peer;
use super::openssl::{KEYS, Key, Kind, OpenSsl};
use ffi::{Call, Column, CryptoMb, Function, WAYS};
use std::sync::Arc;

const _: () = assert!(KEYS == WAYS);

/// Bytes of a scalar of a curve.
const SCALAR_BYTES: usize = 32;
/// The bytes of digests and messages that are signed.
const SIGNED: [u8; 32] = [0x5a; 32];

/// Returns the version, if the library is available.
pub(super) fn version() -> Option<String> {
    CryptoMb::get().ok().map(|library| library.version().to_owned())
}

/// Returns the function that computes the step of a public-key algorithm.
fn function(algorithm: &str, step: &str) -> Option<Function> {
    Some(match (Kind::of(algorithm, step)?, step) {
        (Kind::X25519, "public") => Function::X25519Public,
        (Kind::X25519, "agree") => Function::X25519,
        (Kind::Ed25519, "public") => Function::Ed25519Public,
        (Kind::Ed25519, "sign") => Function::Ed25519Sign,
        (Kind::Ed25519, "verify") => Function::Ed25519Verify,
        (Kind::P256, "public") => Function::P256Public,
        (Kind::P256, "agree") => Function::P256Agree,
        (Kind::P256, "sign") => Function::P256Sign,
        (Kind::P256, "verify") => Function::P256Verify,
        (Kind::Rsa(bits), "public") => Function::RsaPublic(bits),
        (Kind::Rsa(bits), "private") => Function::RsaPrivate(bits),
        (Kind::Dh(bits, exponent_bits), "agree" | "public" | "agree-full" | "public-full") => {
            Function::Exponentiation(bits, exponent_bits.next_multiple_of(64))
        }
        _ => return None,
    })
}

/// Returns whether the library, and OpenSSL for its keys, are there and have the step.
pub(super) fn has_step(algorithm: &str, step: &str) -> bool {
    CryptoMb::get().is_ok() && OpenSsl::get().is_ok() && function(algorithm, step).is_some()
}

/// Returns the library as a runner.
pub(super) fn runner() -> Result<Box<dyn Runner<StepTask>>, SpeedError> {
    match CryptoMb::get() {
        Ok(library) => Ok(Box::new(Loaded(library))),
        Err(reason) => Err(Peer::CryptoMb.fails(reason)),
    }
}

struct Loaded(&'static CryptoMb);

impl Runner<StepTask> for Loaded {
    fn with(&self, load: &StepTask, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let wrong = || load.fails("crypto_mb does not compute it, or not rightly");
        let mut call = checked(self.0, load.algorithm.name(), load.name()).ok_or_else(wrong)?;
        let mut good = true;
        scope(&mut || {
            let mut left = load.batch;
            while left > 0 {
                let filled = left.min(WAYS);
                good &= call.run(filled) == all(filled);
                left -= filled;
            }
            Done { messages: load.batch as u64, bytes: 0 }
        });
        if good { Ok(()) } else { Err(wrong()) }
    }
}

/// Returns the bits of the first ways.
fn all(filled: usize) -> u8 {
    ((1_u16 << filled) - 1) as u8
}

/// Returns words with these bytes in memory, filled up with zeros to a number of words.
fn packed(bytes: &[u8], words: usize) -> Vec<u64> {
    let mut packed: Vec<u64> = bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
        .collect();
    packed.resize(packed.len().max(words), 0);
    packed
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns a column from what each way has.
fn column(of: impl Fn(usize) -> Option<Vec<u64>>) -> Option<Column> {
    (0..WAYS).map(of).collect::<Option<Vec<_>>>()?.try_into().ok()
}

fn zeros(words: usize) -> Column {
    std::array::from_fn(|_| vec![0; words])
}

/// Returns a call of the step with eight keys, whose results were right.
fn checked(library: &'static CryptoMb, algorithm: &str, step: &str) -> Option<Call> {
    let keys = Key::all(OpenSsl::get().ok()?, Kind::of(algorithm, step)?)?;
    let function = function(algorithm, step)?;
    let mut call = library.call(function, columns(library, function, step, &keys)?)?;
    (call.run(WAYS) == all(WAYS) && is_right(&mut call, function, step, &keys)).then_some(call)
}

/// Returns the columns of a function, with results of zeros.
fn columns(
    library: &'static CryptoMb,
    function: Function,
    step: &str,
    keys: &[Arc<Key>],
) -> Option<Vec<Column>> {
    let scalar = |name: &'static std::ffi::CStr| {
        column(|way| Some(packed(&keys[way].number(name)?, SCALAR_BYTES / 8)))
    };
    let raw = |shift: usize, which: usize| {
        column(|way| Some(packed(&keys[(way + shift) % WAYS].raw()?[which], SCALAR_BYTES / 8)))
    };
    let next = |name: &'static std::ffi::CStr| {
        column(|way| Some(packed(&keys[(way + 1) % WAYS].number(name)?, SCALAR_BYTES / 8)))
    };
    let signed = || column(|_| Some(packed(&SIGNED, 0)));
    let out = || zeros(SCALAR_BYTES / 8);
    Some(match function {
        Function::X25519Public | Function::Ed25519Public => vec![out(), raw(0, 0)?],
        Function::X25519 => vec![out(), raw(0, 0)?, raw(1, 1)?],
        Function::Ed25519Sign => vec![out(), out(), signed()?, raw(0, 0)?, raw(0, 1)?],
        Function::Ed25519Verify => {
            let [r, s] = signatures(library, Function::Ed25519Sign, keys)?;
            vec![r, s, signed()?, raw(0, 1)?]
        }
        Function::P256Public => vec![out(), out(), scalar(c"priv")?],
        Function::P256Agree => vec![out(), scalar(c"priv")?, next(c"qx")?, next(c"qy")?],
        // Another key's private number serves as a nonce: it is random, and right in length.
        Function::P256Sign => vec![out(), out(), signed()?, next(c"priv")?, scalar(c"priv")?],
        Function::P256Verify => {
            let [r, s] = signatures(library, Function::P256Sign, keys)?;
            vec![r, s, signed()?, scalar(c"qx")?, scalar(c"qy")?]
        }
        Function::RsaPublic(bits) => {
            let number = |name: &'static std::ffi::CStr| {
                column(|way| Some(packed(&keys[way].number(name)?, bits / 64)))
            };
            vec![zeros(bits / 64), column(|way| Some(packed(&block(bits, way), 0)))?, number(c"n")?]
        }
        Function::RsaPrivate(bits) => {
            let number = |name: &'static std::ffi::CStr| {
                column(|way| Some(packed(&keys[way].number(name)?, bits / 128)))
            };
            vec![
                zeros(bits / 64),
                column(|way| Some(packed(&block(bits, way), 0)))?,
                number(c"rsa-factor1")?,
                number(c"rsa-factor2")?,
                number(c"rsa-exponent1")?,
                number(c"rsa-exponent2")?,
                number(c"rsa-coefficient1")?,
            ]
        }
        Function::Exponentiation(bits, exponent_bits) => {
            let number = |name: &'static std::ffi::CStr, shift: usize, bits: usize| {
                column(|way| Some(packed(&keys[(way + shift) % WAYS].number(name)?, bits / 64)))
            };
            let base = match step {
                "agree" | "agree-full" => number(c"pub", 1, bits)?,
                _ => number(c"g", 0, bits)?,
            };
            vec![zeros(bits / 64), base, number(c"priv", 0, exponent_bits)?, number(c"p", 0, bits)?]
        }
    })
}

/// Returns a block that is less than any modulus of these bits, the most significant byte first.
fn block(bits: usize, way: usize) -> Vec<u8> {
    let mut block = vec![0x5a; bits / 8];
    block[0] = 0;
    block[1] = way as u8;
    block
}

/// Returns signatures by a function whose first columns are their halves.
fn signatures(library: &'static CryptoMb, function: Function, keys: &[Arc<Key>]) -> Option<[Column; 2]> {
    let mut call = library.call(function, columns(library, function, "sign", keys)?)?;
    if call.run(WAYS) != all(WAYS) {
        return None;
    }
    let [r, s, ..] = call.columns() else { return None };
    Some([std::mem::replace(r, zeros(0)), std::mem::replace(s, zeros(0))])
}

/// Returns whether OpenSSL agrees with the results of a call that has run.
fn is_right(call: &mut Call, function: Function, step: &str, keys: &[Arc<Key>]) -> bool {
    let result = |call: &mut Call, column: usize, way: usize| bytes(&call.columns()[column][way]);
    let mut is_of = |way: usize| -> Option<bool> {
        let (key, other) = (&keys[way], &keys[(way + 1) % WAYS]);
        let found = result(call, 0, way);
        Some(match function {
            Function::X25519Public | Function::Ed25519Public => found == key.raw()?[1],
            Function::X25519 => found == key.agree(other)?,
            Function::P256Agree => found == key.agree(other)?,
            Function::Ed25519Sign => {
                let signature = [found, result(call, 1, way)].concat();
                key.verifies(&signature, &SIGNED)?
            }
            Function::P256Public => {
                let y = result(call, 1, way);
                [(c"qx", found), (c"qy", y)].iter().all(|(name, coordinate)| {
                    key.number(name).is_some_and(|number| coordinate.starts_with(&number))
                })
            }
            Function::P256Sign => key.verifies(&der(&found, &result(call, 1, way)), &SIGNED)?,
            Function::RsaPublic(bits) => found == key.raised(&block(bits, way))?,
            Function::RsaPrivate(bits) => key.raised(&found)? == block(bits, way),
            Function::Exponentiation(..) if step.starts_with("agree") => {
                let mut secret = key.agree(other)?;
                secret.reverse();
                found.starts_with(&secret)
            }
            Function::Exponentiation(..) => found.starts_with(&key.number(c"pub")?),
            Function::Ed25519Verify | Function::P256Verify => true,
        })
    };
    if !(0..WAYS).all(|way| is_of(way) == Some(true)) {
        return false;
    }
    if !matches!(function, Function::Ed25519Verify | Function::P256Verify) {
        return true;
    }
    // Another message is refused, in its way alone.
    call.columns()[2][3][0] ^= 1;
    let refused = call.run(WAYS);
    call.columns()[2][3][0] ^= 1;
    refused == all(WAYS) & !(1 << 3) && call.run(WAYS) == all(WAYS)
}

/// Returns two numbers, the most significant byte first, as ECDSA's signature in DER.
fn der(r: &[u8], s: &[u8]) -> Vec<u8> {
    let integer = |number: &[u8]| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count().min(number.len() - 1);
        let digits = &number[zeros..];
        let sign = if digits[0] >= 0x80 { &[0][..] } else { &[] };
        [&[2, (sign.len() + digits.len()) as u8], sign, digits].concat()
    };
    let body = [integer(r), integer(s)].concat();
    [&[0x30, body.len() as u8][..], &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [&str; 7] = ["sign", "verify", "private", "public", "agree", "agree-full", "public-full"];

    #[test]
    fn the_first_ways_are_bits() {
        assert_eq!([0, 1, 3, 8].map(all), [0, 1, 7, 0xff]);
    }

    #[test]
    fn signatures_in_der_have_positive_numbers_of_least_length() {
        assert_eq!(der(&[0, 0x80], &[0, 0x7f]), [0x30, 7, 2, 2, 0, 0x80, 2, 1, 0x7f]);
        assert_eq!(der(&[0, 0], &[1, 0]), [0x30, 7, 2, 1, 0, 2, 2, 1, 0]);
    }

    /// OpenSSL agrees with every result, however many ways are filled.
    #[test]
    fn results_are_openssls() {
        let library = match CryptoMb::get() {
            Ok(library) => library,
            Err(reason) => {
                // Only a newer Debian has it, and not every processor runs it.
                crate::skip::say(reason);
                return;
            }
        };
        let mut compared = 0;
        for algorithm in ["rsa-2048", "dh-2048", "x25519", "ed25519", "ecdh-p256", "ecdsa-p256"] {
            for step in STEPS.into_iter().filter(|step| has_step(algorithm, step)) {
                let mut call =
                    checked(library, algorithm, step).unwrap_or_else(|| panic!("{algorithm} {step}"));
                for filled in 1..=WAYS {
                    assert_eq!(call.run(filled), all(filled), "{algorithm} {step}");
                }
                compared += 1;
            }
        }
        assert!(compared >= 14, "{compared}");
        assert!(!has_step("ml-kem-768", "encapsulate") && !has_step("x25519", "sign"));
    }
}
