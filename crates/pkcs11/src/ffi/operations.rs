//! Operations with keys, and random numbers (PKCS#11 2.40, sections 5.9, 5.11, 5.12 and 5.15).

#![allow(unsafe_code)]

use super::{BAD, bytes, give, length_of, room, with_module};
use crate::connections::Connections;
use crate::mechanism::{Mechanism, PARAMETER_BYTES_MAX};
use crate::object::Object;
use crate::operation::Given;
use crate::refused::Refused;
use crate::session::Session;
use aws_lc_rs::rand;
use cryptoki_sys as c;
use sealane_client::key::CONTEXT_BYTES_MAX;
use std::mem::size_of;

/// Reads a mechanism with its parameters.
///
/// # Safety
/// `mechanism` is null, or points to a readable structure, whose parameter is null or readable for the length
/// that it states. If it is a `CK_SIGN_ADDITIONAL_CONTEXT`, its context is null or readable for its length. No
/// alignment is needed.
unsafe fn mechanism_of(mechanism: *const c::CK_MECHANISM) -> Result<Mechanism, Refused> {
    if mechanism.is_null() {
        return Err(BAD);
    }
    // SAFETY: the contract: it is readable, and not null here.
    let mechanism = unsafe { mechanism.read_unaligned() };
    let length = usize::try_from(mechanism.ulParameterLen).unwrap_or(usize::MAX);
    if length > PARAMETER_BYTES_MAX {
        return Err(Refused(c::CKR_MECHANISM_PARAM_INVALID));
    }
    // SAFETY: the contract: the parameter is null or readable for its length.
    let parameter = unsafe { bytes(mechanism.pParameter.cast(), mechanism.ulParameterLen) }?;
    let found = Mechanism::of(mechanism.mechanism, parameter)?;
    if mechanism.mechanism != c::CKM_ML_DSA || parameter.len() != size_of::<c::CK_SIGN_ADDITIONAL_CONTEXT>() {
        return Ok(found);
    }
    // SAFETY: the parameter is as long as the structure; no alignment is needed.
    let parameter = unsafe { parameter.as_ptr().cast::<c::CK_SIGN_ADDITIONAL_CONTEXT>().read_unaligned() };
    if parameter.ulContextLen > CONTEXT_BYTES_MAX as c::CK_ULONG {
        return Err(Refused(c::CKR_MECHANISM_PARAM_INVALID));
    }
    // SAFETY: the contract: the context is null or readable for its length.
    found.in_context(unsafe { bytes(parameter.pContext, parameter.ulContextLen) }?)
}

/// Starts an operation with a key.
///
/// # Safety
/// `mechanism` is as [`mechanism_of`] needs it.
unsafe fn start(
    handle: c::CK_SESSION_HANDLE,
    mechanism: *const c::CK_MECHANISM,
    key: c::CK_OBJECT_HANDLE,
    begin: fn(&mut Session, Object, Mechanism) -> Result<(), Refused>,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            session.is_vacant()?;
            // SAFETY: the contract is that of `mechanism_of`.
            let mechanism = unsafe { mechanism_of(mechanism) }?;
            let object = module.object(key).ok_or(Refused(c::CKR_KEY_HANDLE_INVALID))?;
            begin(session, object, mechanism)
        })
    })
}

macro_rules! starts {
    ($($name:ident = $begin:path;)*) => {$(
        /// # Safety
        /// The contract of Cryptoki functions, see the module: `mechanism` is null or points to the structure, whose
        /// parameter is null or readable for its length, and a context in it as well.
        pub(super) unsafe extern "C" fn $name(
            handle: c::CK_SESSION_HANDLE,
            mechanism: *mut c::CK_MECHANISM,
            key: c::CK_OBJECT_HANDLE,
        ) -> c::CK_RV {
            // SAFETY: the contract: a mechanism with its parameter; both may be null.
            unsafe { start(handle, mechanism, key, $begin) }
        }
    )*};
}

starts! {
    sign_init = Session::start_signing;
    verify_init = Session::start_verifying;
    decrypt_init = Session::start_decrypting;
}

/// Hands the answer of an operation to C.
///
/// # Safety
/// `length` is null or can be read and written; `out` is null or writable for `*length` bytes.
unsafe fn answer(
    handle: c::CK_SESSION_HANDLE,
    out: *mut c::CK_BYTE,
    length: *mut c::CK_ULONG,
    make: impl FnOnce(&mut Session, Option<usize>, &Connections) -> Result<Given, Refused>,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the contract: the buffer has its length, or is null.
            let room = unsafe { room(out, length) }?;
            let given = make(session, room, &module.connections)?;
            // SAFETY: the contract: the buffer has its length; the answer was made for this room.
            unsafe { give(given, out, length) }
        })
    })
}

/// Runs a step of an operation that answers nothing.
fn step(handle: c::CK_SESSION_HANDLE, run: impl FnOnce(&mut Session) -> Result<(), Refused>) -> c::CK_RV {
    with_module(|module| module.with_session(handle, run))
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `data` is null or readable for `data_length` bytes;
/// `length` is null or can be read and written; `out` is null or writable for `*length` bytes, and may be
/// `data`.
pub(super) unsafe extern "C" fn sign(
    handle: c::CK_SESSION_HANDLE,
    data: *mut c::CK_BYTE,
    data_length: c::CK_ULONG,
    out: *mut c::CK_BYTE,
    length: *mut c::CK_ULONG,
) -> c::CK_RV {
    // SAFETY: the contract: data and buffer have their lengths, or are null.
    unsafe {
        answer(handle, out, length, |session, room, connections| {
            session.sign(Some(bytes(data, data_length)?), room, connections)
        })
    }
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `part` is null or readable for `part_length` bytes.
pub(super) unsafe extern "C" fn sign_update(
    handle: c::CK_SESSION_HANDLE,
    part: *mut c::CK_BYTE,
    part_length: c::CK_ULONG,
) -> c::CK_RV {
    // SAFETY: the contract: the data have their length, or are null.
    step(handle, |session| session.sign_part(unsafe { bytes(part, part_length) }?))
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `length` is null or can be read and written; `out` is
/// null or writable for `*length` bytes.
pub(super) unsafe extern "C" fn sign_final(
    handle: c::CK_SESSION_HANDLE,
    out: *mut c::CK_BYTE,
    length: *mut c::CK_ULONG,
) -> c::CK_RV {
    // SAFETY: the contract: the buffer has its length, or is null.
    unsafe { answer(handle, out, length, |session, room, connections| session.sign(None, room, connections)) }
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `data` and `signature` are null or readable for the
/// lengths beside them.
pub(super) unsafe extern "C" fn verify(
    handle: c::CK_SESSION_HANDLE,
    data: *mut c::CK_BYTE,
    data_length: c::CK_ULONG,
    signature: *mut c::CK_BYTE,
    signature_length: c::CK_ULONG,
) -> c::CK_RV {
    step(handle, |session| {
        // SAFETY: the contract: both have their lengths, or are null.
        let (data, signature) = unsafe { (bytes(data, data_length)?, bytes(signature, signature_length)?) };
        session.verify(Some(data), signature)
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `part` is null or readable for `part_length` bytes.
pub(super) unsafe extern "C" fn verify_update(
    handle: c::CK_SESSION_HANDLE,
    part: *mut c::CK_BYTE,
    part_length: c::CK_ULONG,
) -> c::CK_RV {
    // SAFETY: the contract: the data have their length, or are null.
    step(handle, |session| session.verify_part(unsafe { bytes(part, part_length) }?))
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `signature` is null or readable for `signature_length`
/// bytes.
pub(super) unsafe extern "C" fn verify_final(
    handle: c::CK_SESSION_HANDLE,
    signature: *mut c::CK_BYTE,
    signature_length: c::CK_ULONG,
) -> c::CK_RV {
    // SAFETY: the contract: the signature has its length, or is null.
    step(handle, |session| session.verify(None, unsafe { bytes(signature, signature_length) }?))
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `data` is null or readable for `data_length` bytes;
/// `length` is null or can be read and written; `out` is null or writable for `*length` bytes, and may be
/// `data`.
pub(super) unsafe extern "C" fn decrypt(
    handle: c::CK_SESSION_HANDLE,
    data: *mut c::CK_BYTE,
    data_length: c::CK_ULONG,
    out: *mut c::CK_BYTE,
    length: *mut c::CK_ULONG,
) -> c::CK_RV {
    // SAFETY: the contract: data and buffer have their lengths, or are null.
    unsafe {
        answer(handle, out, length, |session, room, connections| {
            session.decrypt(bytes(data, data_length)?, room, connections)
        })
    }
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `out` is null or writable for `length` bytes.
pub(super) unsafe extern "C" fn generate_random(
    handle: c::CK_SESSION_HANDLE,
    out: *mut c::CK_BYTE,
    length: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |_| Ok(()))?;
        let length = length_of(length)?;
        if length > 0 && out.is_null() {
            return Err(BAD);
        }
        let mut part = [0; 256];
        for from in (0..length).step_by(part.len()) {
            let count = part.len().min(length - from);
            rand::fill(&mut part[..count]).map_err(|_| Refused(c::CKR_DEVICE_ERROR))?;
            // SAFETY: the contract: the buffer has its length; the part ends within it.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), out.add(from), count) };
        }
        zeroize::Zeroize::zeroize(&mut part);
        Ok(())
    })
}
