//! The same sums compiled for the instructions of this machine.
//!
//! `unsafe`: enters functions with target features behind their detection.
#![allow(unsafe_code)]

use super::{portable_sum, portable_sum_copying};

macro_rules! variants {
    ($($module:ident: $($feature:tt),+;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        mod $module {
            $(#[target_feature(enable = $feature)])+
            pub(super) fn sum(data: &[u8]) -> u16 {
                super::portable_sum(data)
            }

            $(#[target_feature(enable = $feature)])+
            pub(super) fn sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
                super::portable_sum_copying(from, into)
            }

            pub(super) fn is_here() -> bool {
                $(std::arch::is_x86_feature_detected!($feature))&&+
            }
        }
    )*};
}

variants! {
    avx2: "avx2";
    avx512: "avx512f", "avx512bw", "avx512vl";
}

pub(super) fn sum(data: &[u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        if avx512::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx512::sum(data) };
        }
        if avx2::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx2::sum(data) };
        }
    }
    portable_sum(data)
}

pub(super) fn sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        if avx512::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx512::sum_copying(from, into) };
        }
        if avx2::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx2::sum_copying(from, into) };
        }
    }
    portable_sum_copying(from, into)
}
