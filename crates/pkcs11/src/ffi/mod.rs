//! PKCS#11's functions as C calls them: the list of all of them, and the conversion of values from C and to C.
//!
//! Entries convert the values from C, call functions of other modules, and put the outcome where C expects it.
//! **Guarantees:** a panic becomes `CKR_GENERAL_ERROR`; a null pointer is never followed, and nothing is read or written
//! beyond the lengths that the caller states, nor is any alignment expected of its pointers.
//!
//! **The contract of Cryptoki functions** (PKCS #11 2.40, and 3.x as well), which the section of each names: during the
//! call every pointer is null, or valid for its type: a structure or number for its size, and data, an array or a
//! buffer for the length beside it, in bytes or items. Pointers in a mechanism, its parameter or an attribute are valid
//! likewise for the lengths there. Another thread neither writes what is read nor accesses what is written, and does
//! not change the environment (setenv(3)). Places may be equal or overlap unless the section says no, and need no
//! alignment. Any thread may call a function at any time, also before `C_Initialize`: slots and handles are numbers
//! that are looked up under locks.

#![allow(unsafe_code)]

mod absent;
mod general;
mod making;
mod objects;
mod operations;

use crate::module::{self, Module};
use crate::operation::Given;
use crate::refused::Refused;
use cryptoki_sys as c;
use std::panic::{AssertUnwindSafe, catch_unwind};

const BAD: Refused = Refused(c::CKR_ARGUMENTS_BAD);

static FUNCTIONS: c::CK_FUNCTION_LIST = c::CK_FUNCTION_LIST {
    version: general::CRYPTOKI,
    C_Initialize: Some(general::initialize),
    C_Finalize: Some(general::finalize),
    C_GetInfo: Some(general::get_info),
    C_GetFunctionList: Some(C_GetFunctionList),
    C_GetSlotList: Some(general::get_slot_list),
    C_GetSlotInfo: Some(general::get_slot_info),
    C_GetTokenInfo: Some(general::get_token_info),
    C_GetMechanismList: Some(general::get_mechanism_list),
    C_GetMechanismInfo: Some(general::get_mechanism_info),
    C_InitToken: Some(absent::init_token),
    C_InitPIN: Some(absent::init_pin),
    C_SetPIN: Some(absent::set_pin),
    C_OpenSession: Some(general::open_session),
    C_CloseSession: Some(general::close_session),
    C_CloseAllSessions: Some(general::close_all_sessions),
    C_GetSessionInfo: Some(general::get_session_info),
    C_GetOperationState: Some(absent::get_operation_state),
    C_SetOperationState: Some(absent::set_operation_state),
    C_Login: Some(general::login),
    C_Logout: Some(general::logout),
    C_CreateObject: Some(absent::create_object),
    C_CopyObject: Some(absent::copy_object),
    C_DestroyObject: Some(objects::destroy_object),
    C_GetObjectSize: Some(absent::get_object_size),
    C_GetAttributeValue: Some(objects::get_attribute_value),
    C_SetAttributeValue: Some(absent::set_attribute_value),
    C_FindObjectsInit: Some(objects::find_objects_init),
    C_FindObjects: Some(objects::find_objects),
    C_FindObjectsFinal: Some(objects::find_objects_final),
    C_EncryptInit: Some(absent::encrypt_init),
    C_Encrypt: Some(absent::encrypt),
    C_EncryptUpdate: Some(absent::encrypt_update),
    C_EncryptFinal: Some(absent::encrypt_final),
    C_DecryptInit: Some(operations::decrypt_init),
    C_Decrypt: Some(operations::decrypt),
    C_DecryptUpdate: Some(absent::decrypt_update),
    C_DecryptFinal: Some(absent::decrypt_final),
    C_DigestInit: Some(absent::digest_init),
    C_Digest: Some(absent::digest),
    C_DigestUpdate: Some(absent::digest_update),
    C_DigestKey: Some(absent::digest_key),
    C_DigestFinal: Some(absent::digest_final),
    C_SignInit: Some(operations::sign_init),
    C_Sign: Some(operations::sign),
    C_SignUpdate: Some(operations::sign_update),
    C_SignFinal: Some(operations::sign_final),
    C_SignRecoverInit: Some(absent::sign_recover_init),
    C_SignRecover: Some(absent::sign_recover),
    C_VerifyInit: Some(operations::verify_init),
    C_Verify: Some(operations::verify),
    C_VerifyUpdate: Some(operations::verify_update),
    C_VerifyFinal: Some(operations::verify_final),
    C_VerifyRecoverInit: Some(absent::verify_recover_init),
    C_VerifyRecover: Some(absent::verify_recover),
    C_DigestEncryptUpdate: Some(absent::digest_encrypt_update),
    C_DecryptDigestUpdate: Some(absent::decrypt_digest_update),
    C_SignEncryptUpdate: Some(absent::sign_encrypt_update),
    C_DecryptVerifyUpdate: Some(absent::decrypt_verify_update),
    C_GenerateKey: Some(absent::generate_key),
    C_GenerateKeyPair: Some(making::generate_key_pair),
    C_WrapKey: Some(absent::wrap_key),
    C_UnwrapKey: Some(absent::unwrap_key),
    C_DeriveKey: Some(making::derive_key),
    C_SeedRandom: Some(absent::seed_random),
    C_GenerateRandom: Some(operations::generate_random),
    C_GetFunctionStatus: Some(absent::get_function_status),
    C_CancelFunction: Some(absent::cancel_function),
    C_WaitForSlotEvent: Some(absent::wait_for_slot_event),
};

/// The one symbol of the library, by which programs find all other functions.
///
/// # Safety
/// The contract of Cryptoki functions, see the module: `list` is null, or has room for one pointer.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
unsafe extern "C" fn C_GetFunctionList(list: *mut *mut c::CK_FUNCTION_LIST) -> c::CK_RV {
    // SAFETY: the contract: `list` is null or has room. Nobody writes through the pointer: the list is a
    // constant of the library.
    returned(|| unsafe { put(list, (&raw const FUNCTIONS).cast_mut()) })
}

/// Returns the outcome of `call` for C.
fn returned(call: impl FnOnce() -> Result<(), Refused>) -> c::CK_RV {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => c::CKR_OK,
        Ok(Err(Refused(reason))) => reason,
        Err(_) => c::CKR_GENERAL_ERROR,
    }
}

/// Returns the outcome of `call` with the state of the module, which must be initialised.
fn with_module(call: impl FnOnce(&Module) -> Result<(), Refused>) -> c::CK_RV {
    returned(|| {
        let module = module::current()?;
        call(&module)
    })
}

/// Returns a length of C's.
fn length_of(length: c::CK_ULONG) -> Result<usize, Refused> {
    usize::try_from(length).ok().filter(|length| isize::try_from(*length).is_ok()).ok_or(BAD)
}

/// Returns the bytes that C hands in; null is allowed if there are none.
///
/// # Safety
/// `data` is null, or readable for `length` bytes, which nobody writes during `'a`.
unsafe fn bytes<'a>(data: *const c::CK_BYTE, length: c::CK_ULONG) -> Result<&'a [u8], Refused> {
    match length_of(length)? {
        0 => Ok(&[]),
        _ if data.is_null() => Err(BAD),
        // SAFETY: the contract: `data` is readable for `length` bytes; the length is not above isize::MAX.
        length => Ok(unsafe { std::slice::from_raw_parts(data, length) }),
    }
}

/// Writes a value to a place of C's.
///
/// # Safety
/// `place` is null, or writable for a `T`, with any alignment.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Refused> {
    if place.is_null() {
        return Err(BAD);
    }
    // SAFETY: the contract: a place that is not null is writable for a T.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Returns the room of a buffer of C's in bytes; `None` if C asks only for a length.
///
/// # Safety
/// `length` is null, or a readable number, with any alignment; `out` is not followed.
unsafe fn room(out: *mut c::CK_BYTE, length: *const c::CK_ULONG) -> Result<Option<usize>, Refused> {
    if length.is_null() {
        return Err(BAD);
    }
    if out.is_null() {
        return Ok(None);
    }
    // SAFETY: the contract: a length that is not null is readable.
    Ok(Some(usize::try_from(unsafe { length.read_unaligned() }).unwrap_or(usize::MAX)))
}

/// Writes an answer to C's buffer, and its length to `length`.
///
/// # Safety
/// `length` is null, or a writable number, with any alignment. `given` was made for [`room`] of the same
/// arguments: if it has bytes, `out` is writable for as many.
unsafe fn give(given: Given, out: *mut c::CK_BYTE, length: *mut c::CK_ULONG) -> Result<(), Refused> {
    let (bytes, outcome) = match &given {
        Given::Length(bytes) => (*bytes, Ok(())),
        Given::TooSmall(bytes) => (*bytes, Err(Refused(c::CKR_BUFFER_TOO_SMALL))),
        Given::Bytes(made) => {
            // SAFETY: the contract: the bytes were made for the room of `out`.
            unsafe { std::ptr::copy_nonoverlapping(made.as_ptr(), out, made.len()) };
            (made.len(), Ok(()))
        }
    };
    // SAFETY: the contract: `length` is null or writable.
    unsafe { put(length, bytes as c::CK_ULONG)? };
    outcome
}

/// Writes a list to C's array and its length to `count`; without an array, writes only the length.
///
/// # Safety
/// `count` is null, or a number that is readable and writable. `array` is null, or has room for as many items
/// as `count` states. Neither needs any alignment.
unsafe fn give_list<T: Copy>(list: &[T], array: *mut T, count: *mut c::CK_ULONG) -> Result<(), Refused> {
    // SAFETY: the contract: `count` is null or readable.
    let places = unsafe { room(array.cast(), count)? };
    // SAFETY: the contract: `count` is null or writable.
    unsafe { put(count, list.len() as c::CK_ULONG)? };
    match places {
        None => Ok(()),
        Some(places) if places < list.len() => Err(Refused(c::CKR_BUFFER_TOO_SMALL)),
        Some(_) => {
            for (place, item) in list.iter().enumerate() {
                // SAFETY: the contract: the array has `places` places, and this is one of them.
                unsafe { array.add(place).write_unaligned(*item) };
            }
            Ok(())
        }
    }
}
