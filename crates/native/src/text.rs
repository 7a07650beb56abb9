//! Bytes that a caller in C hands in to be transformed: a place to read from, and a place to write to, which may be the same.
//!
//! **Guarantee:** parts are within the lengths that were stated. The bytes are never a Rust reference while they may
//! be written.
#![allow(unsafe_code)]

use core::ptr::{null, null_mut};

use crate::outcome::Refused;

/// Bytes of a [`Text`] that are to be transformed.
#[derive(Debug)]
pub enum Places<'a> {
    /// They are replaced where they are.
    One(&'a mut [u8]),
    /// They are read from the first, and written to the second, which is as long.
    Two(&'a [u8], &'a mut [u8]),
}

/// A place to read from and a place to write to.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    from: *const u8,
    to: *mut u8,
    length: usize,
    capacity: usize,
}

impl Text {
    /// Takes a place to read from and one to write to.
    ///
    /// # Safety
    /// As long as the value, a copy or a part of it is used, by this thread alone: `from` is null or readable
    /// for `length` bytes; `to` is null or writable for the bytes that are transformed or written, of which
    /// the value lets through at most `capacity` (OpenSSL states a block more than a program must have room
    /// for); both are equal, or bytes to read and to write do not overlap.
    #[inline]
    pub unsafe fn new(from: *const u8, length: usize, to: *mut u8, capacity: usize) -> Self {
        let length = if from.is_null() { 0 } else { length };
        let capacity = if to.is_null() { 0 } else { capacity };
        Self { from, to, length, capacity }
    }

    /// Returns whether there are no bytes to be read, not even none of them.
    #[inline]
    #[must_use]
    pub fn has_no_input(&self) -> bool {
        self.from.is_null()
    }

    /// Returns whether there is no place to write to.
    #[inline]
    #[must_use]
    pub fn has_no_output(&self) -> bool {
        self.to.is_null()
    }

    /// Returns whether the bytes are replaced where they are.
    #[inline]
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        core::ptr::eq(self.from, self.to)
    }

    /// Returns how many bytes are to be read.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns how many bytes may be written.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(crate) fn from(&self) -> *const u8 {
        self.from
    }

    #[inline]
    pub(crate) fn to(&self) -> *mut u8 {
        self.to
    }

    /// Returns the same bytes from `skipped` on, of which `length` are read; the rest of the place can be written.
    ///
    /// # Errors
    /// Fails if there are not as many.
    #[inline]
    pub fn part(&self, skipped: usize, length: usize) -> Result<Self, Refused> {
        skipped.checked_add(length).filter(|end| *end <= self.length).ok_or(Refused)?;
        let capacity =
            self.capacity.checked_sub(skipped).filter(|capacity| *capacity >= length).ok_or(Refused)?;
        // SAFETY: both places are at least as long as what is skipped.
        let (from, to) = unsafe { (self.from.add(skipped), self.to.add(skipped)) };
        Ok(Self { from, to, length, capacity })
    }

    /// Returns the same bytes, replaced where they are, with `more` behind them, which were written before.
    ///
    /// # Errors
    /// Fails if there is no room for them, or if the two places differ.
    #[inline]
    pub fn longer(&self, more: usize) -> Result<Self, Refused> {
        let length =
            self.length.checked_add(more).filter(|length| *length <= self.capacity).ok_or(Refused)?;
        if self.is_in_place() { Ok(Self { length, ..*self }) } else { Err(Refused) }
    }

    /// Returns a copy of the bytes to be read from `skipped` on.
    ///
    /// # Errors
    /// Fails if there are not as many.
    #[inline]
    pub fn read<const N: usize>(&self, skipped: usize) -> Result<[u8; N], Refused> {
        skipped.checked_add(N).filter(|end| *end <= self.length).ok_or(Refused)?;
        let mut bytes = [0; N];
        // SAFETY: the place can be read for `length` bytes.
        unsafe { core::ptr::copy(self.from.add(skipped), bytes.as_mut_ptr(), N) };
        Ok(bytes)
    }

    /// Calls `call` with the bytes to be read, which nothing writes meanwhile.
    #[inline]
    pub fn with_input<T>(&self, call: impl FnOnce(&[u8]) -> T) -> T {
        if self.from.is_null() {
            return call(&[]);
        }
        // SAFETY: the place can be read for `length` bytes, and the slice ends with the call.
        call(unsafe { core::slice::from_raw_parts(self.from, self.length) })
    }

    /// Calls `call` with the bytes to be transformed, in place or from one place to the other.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn with_places<T>(&self, call: impl FnOnce(Places<'_>) -> T) -> Result<T, Refused> {
        if self.length == 0 {
            return Ok(call(Places::One(&mut [])));
        }
        if self.capacity < self.length {
            return Err(Refused);
        }
        // SAFETY: the contract of `new`: the transformed bytes are writable; the slice ends with the call.
        let to = unsafe { core::slice::from_raw_parts_mut(self.to, self.length) };
        if self.is_in_place() {
            return Ok(call(Places::One(to)));
        }
        // SAFETY: the contract of `new`: the place is readable for `length` bytes, which do not overlap those
        // to be written.
        let from = unsafe { core::slice::from_raw_parts(self.from, self.length) };
        Ok(call(Places::Two(from, to)))
    }

    /// Calls `call` with the bytes that were written over those to be read, which nothing writes meanwhile.
    #[inline]
    pub(crate) fn with_output<T>(&self, call: impl FnOnce(&[u8]) -> T) -> T {
        if self.to.is_null() {
            return call(&[]);
        }
        let length = self.length.min(self.capacity);
        // SAFETY: the contract of `new`: the transformed bytes are writable, and the caller has written them; the
        // slice ends with the call.
        call(unsafe { core::slice::from_raw_parts(self.to, length) })
    }

    /// Writes bytes from `skipped` on.
    ///
    /// # Errors
    /// Fails if there is no room.
    #[inline]
    pub fn write(&self, skipped: usize, bytes: &[u8]) -> Result<(), Refused> {
        skipped.checked_add(bytes.len()).filter(|end| *end <= self.capacity).ok_or(Refused)?;
        if !bytes.is_empty() {
            // SAFETY: the contract of `new`: so many bytes, not more than `capacity`, are writable.
            unsafe { core::ptr::copy(bytes.as_ptr(), self.to.add(skipped), bytes.len()) };
        }
        Ok(())
    }

    /// Writes zeros over `length` bytes, or as many as there is room for.
    #[inline]
    pub fn erase(&self, length: usize) {
        let length = length.min(self.capacity);
        if length > 0 {
            // SAFETY: the contract of `new`: so many bytes, not more than `capacity`, are writable.
            unsafe { core::ptr::write_bytes(self.to, 0, length) };
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self { from: null(), to: null_mut(), length: 0, capacity: 0 }
    }
}
