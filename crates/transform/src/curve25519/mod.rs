//! The curve of X25519 and Ed25519: arithmetic modulo 2^255 - 19 and modulo the order of the base point, and
//! points in Montgomery's and Edwards's forms (RFC 7748, RFC 8032).
//!
//! [`reference`] is the oracle: obvious, slow, one element at a time. The other modules compute eight
//! independent elements at once by AVX-512 IFMA. No branch and no address depends on values, so all of it is
//! fit for secrets, but for the tables of [`select`], which verification alone uses.

#[cfg(target_arch = "x86_64")]
pub(crate) mod base;
#[cfg(target_arch = "x86_64")]
pub(crate) mod edwards;
#[cfg(target_arch = "x86_64")]
pub(crate) mod field;
#[cfg(target_arch = "x86_64")]
pub(crate) mod inverse;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod select;

#[cfg(test)]
mod tests;

/// Elements that one call computes side by side.
pub(crate) const WAYS: usize = 8;

/// Clears and sets the bits of a secret scalar as RFC 7748 section 5 and RFC 8032 section 5.1.5 want: a
/// multiple of eight from 2^254 on.
pub(crate) const fn clamp(mut scalar: [u8; 32]) -> [u8; 32] {
    scalar[0] &= 248;
    scalar[31] &= 127;
    scalar[31] |= 64;
    scalar
}

/// Overwrites the stack below the caller's frame, where functions that have returned kept what did not fit
/// into registers. The deepest call with secrets takes less than 6 KB.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(crate) fn scrub() {
    let mut area = [0u64; 1024];
    core::hint::black_box(&mut area);
}
