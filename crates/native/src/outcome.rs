//! The results of C's functions: an error for all of them, and owners of their objects.
//!
//! **Guarantees:** after a failure the thread's queue of errors is empty; an object is freed once, by its owner.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::NonNull;

use aws_lc_sys::ERR_clear_error;

/// AWS-LC has not done what it was asked for: it does not take the values, or has no memory. It says no more, so that an
/// attacker learns no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("AWS-LC does not take the values, or has no memory")]
pub struct Refused;

#[cold]
fn refused() -> Refused {
    // SAFETY: the function takes no arguments and accesses the thread's own queue.
    unsafe { ERR_clear_error() };
    Refused
}

/// Returns the outcome of a function that returns 1 for success.
#[inline]
pub(crate) fn yes(outcome: c_int) -> Result<(), Refused> {
    if outcome == 1 { Ok(()) } else { Err(refused()) }
}

/// Returns the object of a function that returns null for failure.
#[inline]
pub(crate) fn some<T>(pointer: *mut T) -> Result<NonNull<T>, Refused> {
    NonNull::new(pointer).ok_or_else(refused)
}

/// Declares the owner of an object of AWS-LC's, which its own function frees.
macro_rules! owned {
    ($(#[$doc:meta])* $visibility:vis struct $name:ident($type:ty), $free:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        $visibility struct $name(core::ptr::NonNull<$type>);

        impl $name {
            /// Takes an object, or the failure to make one.
            ///
            /// # Safety
            /// The pointer is null, or to an object that nobody else frees.
            #[inline]
            unsafe fn take(pointer: *mut $type) -> Result<Self, $crate::Refused> {
                $crate::outcome::some(pointer).map(Self)
            }

            /// Returns the pointer for AWS-LC's calls, valid while `self` is.
            #[inline]
            const fn as_ptr(&self) -> *mut $type {
                self.0.as_ptr()
            }
        }

        impl Drop for $name {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the contract of `take`: the object is this value's own, and this is its only release.
                unsafe { aws_lc_sys::$free(self.0.as_ptr()) }
            }
        }
    };
}
pub(crate) use owned;
