//! Requests to valgrind's memcheck: bytes count as undefined from then on, or as defined.
//!
//! A branch or an address that depends on an undefined byte is an error that memcheck reports, which is how secrets are
//! followed through a computation (Langley's ctgrind). Outside of valgrind, and on other architectures than x86-64, the
//! requests do nothing. `unsafe`: the sequence of instructions by which valgrind's manual defines a request.
#![allow(unsafe_code)]

/// Whether the program runs under valgrind.
const RUNNING_ON_VALGRIND: usize = 0x1001;
/// The errors that the tool has reported so far.
const COUNT_ERRORS: usize = 0x1201;
/// Requests of the tool "MC".
const MEMCHECK: usize = ((b'M' as usize) << 24) | ((b'C' as usize) << 16);
/// Bytes count as undefined.
const MAKE_MEM_UNDEFINED: usize = MEMCHECK + 1;
/// Bytes count as defined.
const MAKE_MEM_DEFINED: usize = MEMCHECK + 2;

/// Makes a request, and returns its result: zero outside of valgrind.
#[cfg(target_arch = "x86_64")]
fn request(request: usize, address: usize, bytes: usize) -> usize {
    let arguments = [request, address, bytes, 0, 0, 0];
    let result: usize;
    // SAFETY: four rotations by 128 bits in all and an exchange of a register with itself: nothing happens on a
    // processor, and valgrind, which knows the sequence, reads the six words and writes rdx.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0usize => result,
            options(nostack),
        );
    }
    result
}

/// Does nothing: the sequence of this architecture is another one.
#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: usize, _: usize) -> usize {
    0
}

/// Returns whether the program runs under valgrind.
pub(crate) fn is_running() -> bool {
    request(RUNNING_ON_VALGRIND, 0, 0) != 0
}

/// Returns the number of errors so far.
pub(crate) fn errors() -> usize {
    request(COUNT_ERRORS, 0, 0)
}

/// Makes a secret of bytes: they count as undefined.
pub(crate) fn hide(bytes: &mut [u8]) {
    request(MAKE_MEM_UNDEFINED, bytes.as_mut_ptr() as usize, bytes.len());
}

/// Makes a secret of bytes on the heap that another value owns: their values stay.
pub(crate) fn hide_shared(bytes: &[u8]) {
    request(MAKE_MEM_UNDEFINED, bytes.as_ptr() as usize, bytes.len());
}

/// Publishes bytes: they count as defined.
pub(crate) fn reveal(bytes: &[u8]) {
    request(MAKE_MEM_DEFINED, bytes.as_ptr() as usize, bytes.len());
}
