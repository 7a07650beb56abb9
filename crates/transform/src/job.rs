//! Jobs: the input of kernels, and their results.
//!
//! A job carries its whole context (key schedule, IV, bytes), so it can run again, anywhere, with the same result. A
//! [`Buffer`] is either one slice transformed in place or a source and a destination of equal length; it keeps raw
//! pointers so that kernels treat both forms alike, which is why this module may use `unsafe`. Its constructors
//! borrow both slices for the job's lifetime, so the pointers are valid, unaliased, and either equal or disjoint.
#![allow(unsafe_code)]

use core::marker::PhantomData;

use subtle::ConstantTimeEq as _;

use crate::key::{CipherKey, DigestKey};

/// The result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The job has not run yet.
    Pending,
    /// Output is complete.
    Done,
    /// The key belongs to another algorithm than the call's; no byte was written.
    WrongKey,
    /// The length is not a multiple of the block, or beyond the algorithm's limit; no byte was written.
    BadLength,
    /// The tag is not that of the nonce, the associated data and the ciphertext; the output was zeroed.
    Forged,
}

/// The two slices of an out-of-place buffer differ in length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("source has {source_bytes} bytes, destination {destination_bytes}")]
pub struct LengthMismatch {
    /// Bytes to read.
    pub source_bytes: usize,
    /// Bytes to write.
    pub destination_bytes: usize,
}

/// Bytes to transform, in place or from one slice to another.
#[derive(Debug)]
pub struct Buffer<'a> {
    source: *const u8,
    destination: *mut u8,
    bytes: usize,
    life: PhantomData<&'a mut [u8]>,
}

// SAFETY: a Buffer is a pair of borrowed slices (`&[u8]`, `&mut [u8]`), which are themselves Send.
unsafe impl Send for Buffer<'_> {}

impl<'a> Buffer<'a> {
    /// Transforms `data` in place.
    pub fn in_place(data: &'a mut [u8]) -> Self {
        let destination = data.as_mut_ptr();
        Self { source: destination, destination, bytes: data.len(), life: PhantomData }
    }

    /// Reads `source`, writes `destination`.
    ///
    /// # Errors
    /// The lengths differ.
    pub fn out_of_place(source: &'a [u8], destination: &'a mut [u8]) -> Result<Self, LengthMismatch> {
        if source.len() != destination.len() {
            return Err(LengthMismatch { source_bytes: source.len(), destination_bytes: destination.len() });
        }
        Ok(Self {
            source: source.as_ptr(),
            destination: destination.as_mut_ptr(),
            bytes: source.len(),
            life: PhantomData,
        })
    }

    /// Returns the length in bytes.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether the buffer is empty.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the pointer from which kernels read.
    pub(crate) const fn source(&self) -> *const u8 {
        self.source
    }

    /// Returns the pointer to which kernels write.
    pub(crate) const fn destination(&self) -> *mut u8 {
        self.destination
    }

    /// Returns the bytes to be read.
    pub(crate) const fn source_bytes(&self) -> &[u8] {
        // SAFETY: the buffer borrows them, and writes only by kernels that borrow the buffer for writing, or whose caller
        // holds no reference meanwhile.
        unsafe { core::slice::from_raw_parts(self.source, self.bytes) }
    }

    /// Returns the bytes that were written.
    pub(crate) const fn written_bytes(&self) -> &[u8] {
        // SAFETY: the buffer borrows them, under the same condition as the source's bytes.
        unsafe { core::slice::from_raw_parts(self.destination, self.bytes) }
    }

    /// Returns the same bytes for a shorter borrow.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "two buffers must not write the same bytes at once")]
    pub(crate) fn reborrow(&mut self) -> Buffer<'_> {
        Buffer { source: self.source, destination: self.destination, bytes: self.bytes, life: PhantomData }
    }

    /// Returns the first `at` bytes, at most the length, and the rest.
    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.bytes, "a buffer is split within it");
        let rest = Self {
            source: self.source.wrapping_add(at),
            destination: self.destination.wrapping_add(at),
            bytes: self.bytes - at,
            life: PhantomData,
        };
        (Self { bytes: at, ..self }, rest)
    }

    /// Returns the last `N` bytes of the source, if there are that many.
    pub(crate) fn last_source<const N: usize>(&self) -> Option<[u8; N]> {
        let at = self.bytes.checked_sub(N)?;
        // SAFETY: N bytes from `at` on lie within the source, which nobody writes while self is borrowed.
        Some(unsafe { self.source.add(at).cast::<[u8; N]>().read() })
    }

    /// Copies the source over if there are two slices, and returns the destination for transformation in place.
    pub(crate) fn copied_in_place(&mut self) -> &mut [u8] {
        self.copied_in_place_from(0)
    }

    /// Does the same from byte `at` on, which is at most the length.
    pub(crate) fn copied_in_place_from(&mut self, at: usize) -> &mut [u8] {
        assert!(at <= self.bytes, "the rest of a buffer begins within it");
        let bytes = self.bytes - at;
        // SAFETY: `at` lies within both slices or at their end.
        let (source, destination) = unsafe { (self.source.add(at), self.destination.add(at)) };
        if !core::ptr::eq(source, destination) {
            // SAFETY: both are valid for `bytes` and disjoint, as the constructor's borrows show.
            unsafe { core::ptr::copy_nonoverlapping(source, destination, bytes) };
        }
        // SAFETY: `destination` is valid for `bytes` reads and writes while 'a lasts; self is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(destination, bytes) }
    }
}

/// Length of the longest digest of the catalogue in bytes.
pub const DIGEST_BYTES_MAX: usize = 64;

/// One message to digest or authenticate.
#[derive(Debug)]
pub struct DigestJob<'a> {
    /// The algorithm with its key, if it has one.
    pub key: &'a DigestKey,
    /// The nonce of MACs that need one (`bh-140`); others ignore it.
    pub nonce: [u8; 12],
    /// The message.
    pub input: &'a [u8],
    /// The first `output_bytes` of the algorithm are written; zeros may follow.
    pub output: [u8; DIGEST_BYTES_MAX],
    /// The result.
    pub status: Status,
}

impl<'a> DigestJob<'a> {
    /// Returns a job over `input`.
    pub const fn new(key: &'a DigestKey, input: &'a [u8]) -> Self {
        Self { key, nonce: [0; 12], input, output: [0; DIGEST_BYTES_MAX], status: Status::Pending }
    }

    /// Returns the digest or tag.
    pub fn digest(&self) -> &[u8] {
        &self.output[..self.key.algorithm().output_bytes()]
    }

    /// Returns whether the job is done and its tag starts with `expected`, in time that depends on the lengths only.
    /// Truncated tags are compared over their own length, which must not be zero.
    pub fn verifies(&self, expected: &[u8]) -> bool {
        let own = self.digest();
        let comparable = self.status == Status::Done && !expected.is_empty() && expected.len() <= own.len();
        comparable && bool::from(own[..expected.len()].ct_eq(expected))
    }
}

/// One message to encrypt or decrypt.
#[derive(Debug)]
pub struct CipherJob<'a> {
    /// The expanded key.
    pub key: &'a CipherKey,
    /// The IV or first counter block, in the first `iv_bytes` of the algorithm.
    pub iv: [u8; 16],
    /// The message.
    pub data: Buffer<'a>,
    /// The result.
    pub status: Status,
}

impl<'a> CipherJob<'a> {
    /// Returns a job over `data`; `iv` may be shorter than 16 bytes, and the rest counts as zero.
    pub fn new(key: &'a CipherKey, iv: &[u8], data: Buffer<'a>) -> Self {
        let mut padded = [0; 16];
        let bytes = iv.len().min(16);
        padded[..bytes].copy_from_slice(&iv[..bytes]);
        Self { key, iv: padded, data, status: Status::Pending }
    }
}
