//! Wipes secrets: the memory of multi-way kernels, and vector registers after a call.
//!
//! `zeroize` writes element by element, which costs more than some batches for the tens of kilobytes of a
//! multi-way kernel. This module writes zeros in whole vectors, and a barrier keeps the compiler from omitting them. `unsafe`:
//! assembly, because no intrinsic clears the upper sixteen registers of AVX-512.
#![allow(unsafe_code)]

use crate::isa::Features;

/// Overwrites `secrets` with `zero`.
#[inline]
pub(crate) fn wipe<T: Copy>(secrets: &mut [T], zero: T) {
    secrets.fill(zero);
    core::hint::black_box(secrets);
}

/// Clears every vector and mask register that a kernel with these features may have used.
///
/// General registers are not cleared: the code between here and the caller reuses them.
#[inline]
pub(crate) fn registers(features: Features) {
    #[cfg(target_arch = "x86_64")]
    match (features.avx512, features.avx2) {
        // SAFETY: the token proves AVX-512.
        (Some(_), _) => unsafe { avx512() },
        // SAFETY: the token proves AVX2.
        (_, Some(_)) => unsafe { avx2() },
        _ => {}
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = features;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) fn avx2() {
    // SAFETY: changes registers only, all of them named.
    unsafe {
        core::arch::asm!(
            "vzeroall",
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn avx512() {
    // SAFETY: changes registers only, all of them named.
    unsafe {
        core::arch::asm!(
            "vzeroall",
            "vpxord zmm16, zmm16, zmm16", "vpxord zmm17, zmm17, zmm17",
            "vpxord zmm18, zmm18, zmm18", "vpxord zmm19, zmm19, zmm19",
            "vpxord zmm20, zmm20, zmm20", "vpxord zmm21, zmm21, zmm21",
            "vpxord zmm22, zmm22, zmm22", "vpxord zmm23, zmm23, zmm23",
            "vpxord zmm24, zmm24, zmm24", "vpxord zmm25, zmm25, zmm25",
            "vpxord zmm26, zmm26, zmm26", "vpxord zmm27, zmm27, zmm27",
            "vpxord zmm28, zmm28, zmm28", "vpxord zmm29, zmm29, zmm29",
            "vpxord zmm30, zmm30, zmm30", "vpxord zmm31, zmm31, zmm31",
            "kxorq k1, k1, k1", "kxorq k2, k2, k2", "kxorq k3, k3, k3", "kxorq k4, k4, k4",
            "kxorq k5, k5, k5", "kxorq k6, k6, k6", "kxorq k7, k7, k7",
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
            out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            out("k1") _, out("k2") _, out("k3") _, out("k4") _, out("k5") _, out("k6") _, out("k7") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}
