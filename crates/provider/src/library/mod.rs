//! AWS-LC's ciphers and digests, called through C.
//!
//! **Guarantees:** every pointer that is passed to C is to memory of a checked length, or to an object that lives
//! through the call; each object is freed once by its owner, which zeroes it; the library's error queue is empty after
//! a failure.

#![allow(unsafe_code)]

mod chacha;
mod cipher;
mod gcm;
mod hash;
mod kem;
mod record;
mod text;

pub(crate) use cipher::{Cipher, Kind, Mode};
pub(crate) use hash::{DIGEST_BYTES_MAX, Digest, Hash};
pub(crate) use kem::{Kem, SECRET_BYTES, SEED_BYTES};
pub(crate) use record::unpad;
pub(crate) use text::Text;

use aws_lc_sys as c;
use std::ffi::c_int;
use std::ptr::NonNull;

/// The error of a library function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct No;

/// Returns the outcome of a function that returns 1 for success.
fn yes(outcome: c_int) -> Result<(), No> {
    if outcome == 1 {
        return Ok(());
    }
    // SAFETY: the function takes no arguments and accesses the thread's own queue.
    unsafe { c::ERR_clear_error() };
    Err(No)
}

fn some<T>(pointer: *mut T) -> Result<NonNull<T>, No> {
    NonNull::new(pointer).ok_or_else(|| {
        // SAFETY: the function takes no arguments and accesses the thread's own queue.
        unsafe { c::ERR_clear_error() };
        No
    })
}
