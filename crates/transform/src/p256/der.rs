//! ECDSA signatures as DER (RFC 3279 section 2.2.3): a sequence of the integers r and s.

use arrayvec::ArrayVec;

/// The longest encoding: a header, and two integers of 33 bytes with headers.
pub const LONGEST_SIGNATURE_DER_BYTES: usize = 72;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;

/// Returns the DER encoding of r and s, 32 big-endian bytes each.
pub fn signature_to_der(signature: &[u8; 64]) -> ArrayVec<u8, LONGEST_SIGNATURE_DER_BYTES> {
    let mut der = ArrayVec::new();
    der.extend([SEQUENCE, 0]);
    for part in signature.as_chunks::<32>().0 {
        // The shortest form that is not negative; zero has one byte.
        let zeros = part.iter().take(31).take_while(|&&byte| byte == 0).count();
        let digits = &part[zeros..];
        let sign = usize::from(digits[0] >= 0x80);
        der.extend([INTEGER, (digits.len() + sign) as u8]);
        der.extend(core::iter::repeat_n(0, sign));
        der.extend(digits.iter().copied());
    }
    der[1] = der.len() as u8 - 2;
    der
}

/// Returns r and s, 32 big-endian bytes each, of a DER encoding. None if the encoding is not DER to the byte
/// (long lengths, superfluous zeros, bytes that follow), or an integer is negative or above 256 bits.
pub fn signature_of_der(der: &[u8]) -> Option<[u8; 64]> {
    let mut rest = match der {
        [SEQUENCE, length, rest @ ..] if *length < 0x80 && usize::from(*length) == rest.len() => rest,
        _ => return None,
    };
    let mut signature = [0; 64];
    for part in signature.as_chunks_mut::<32>().0 {
        let [INTEGER, length, after @ ..] = rest else { return None };
        let (integer, after) = after.split_at_checked(usize::from(*length))?;
        let digits = match integer {
            [0, next, ..] if *next < 0x80 => return None,
            [0, digits @ ..] if !digits.is_empty() => digits,
            [first, ..] if *first < 0x80 => integer,
            _ => return None,
        };
        let start = part.len().checked_sub(digits.len())?;
        part[start..].copy_from_slice(digits);
        rest = after;
    }
    rest.is_empty().then_some(signature)
}
