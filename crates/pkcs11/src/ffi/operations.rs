//! Operations with keys, and random numbers (PKCS#11 2.40, sections 5.9, 5.11, 5.12 and 5.15).

#![allow(unsafe_code)]

use super::{BAD, bytes, give, length_of, room, with_module};
use crate::mechanism::{Mechanism, PARAMETER_BYTES_MAX};
use crate::object::Object;
use crate::refused::Refused;
use crate::session::Session;
use aws_lc_rs::rand;
use cryptoki_sys as c;

/// Reads a mechanism with its parameters.
///
/// # Safety
/// `mechanism` is null or points to the structure, whose parameters have the length that it states.
unsafe fn mechanism_of(mechanism: *const c::CK_MECHANISM) -> Result<Mechanism, Refused> {
    if mechanism.is_null() {
        return Err(BAD);
    }
    // SAFETY: the caller guarantees it.
    let mechanism = unsafe { mechanism.read_unaligned() };
    let length = usize::try_from(mechanism.ulParameterLen).unwrap_or(usize::MAX);
    if length > PARAMETER_BYTES_MAX {
        return Err(Refused(c::CKR_MECHANISM_PARAM_INVALID));
    }
    // SAFETY: the caller guarantees it.
    let parameter = unsafe { bytes(mechanism.pParameter.cast(), mechanism.ulParameterLen) }?;
    Mechanism::of(mechanism.mechanism, parameter)
}

/// Starts an operation with a key.
///
/// # Safety
/// As for [`mechanism_of`].
unsafe fn start(
    handle: c::CK_SESSION_HANDLE,
    mechanism: *const c::CK_MECHANISM,
    key: c::CK_OBJECT_HANDLE,
    begin: fn(&mut Session, Object, Mechanism) -> Result<(), Refused>,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            session.is_vacant()?;
            // SAFETY: the caller guarantees it.
            let mechanism = unsafe { mechanism_of(mechanism) }?;
            let object = module.object(key).ok_or(Refused(c::CKR_KEY_HANDLE_INVALID))?;
            begin(session, object, mechanism)
        })
    })
}

pub(super) unsafe extern "C" fn sign_init(
    handle: c::CK_SESSION_HANDLE,
    mechanism: *mut c::CK_MECHANISM,
    key: c::CK_OBJECT_HANDLE,
) -> c::CK_RV {
    // SAFETY: the pointer is the caller's mechanism, or null.
    unsafe { start(handle, mechanism, key, Session::start_signing) }
}

pub(super) unsafe extern "C" fn verify_init(
    handle: c::CK_SESSION_HANDLE,
    mechanism: *mut c::CK_MECHANISM,
    key: c::CK_OBJECT_HANDLE,
) -> c::CK_RV {
    // SAFETY: the pointer is the caller's mechanism, or null.
    unsafe { start(handle, mechanism, key, Session::start_verifying) }
}

pub(super) unsafe extern "C" fn decrypt_init(
    handle: c::CK_SESSION_HANDLE,
    mechanism: *mut c::CK_MECHANISM,
    key: c::CK_OBJECT_HANDLE,
) -> c::CK_RV {
    // SAFETY: the pointer is the caller's mechanism, or null.
    unsafe { start(handle, mechanism, key, Session::start_decrypting) }
}

pub(super) unsafe extern "C" fn sign(
    handle: c::CK_SESSION_HANDLE,
    data: *mut c::CK_BYTE,
    data_length: c::CK_ULONG,
    out: *mut c::CK_BYTE,
    length: *mut c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the pointers are the caller's data and buffer with their lengths, or null.
            let (data, room) = unsafe { (bytes(data, data_length)?, room(out, length)?) };
            let given = session.sign(Some(data), room, &module.connections)?;
            // SAFETY: as above; the answer was made for this room.
            unsafe { give(given, out, length) }
        })
    })
}

pub(super) unsafe extern "C" fn sign_update(
    handle: c::CK_SESSION_HANDLE,
    part: *mut c::CK_BYTE,
    part_length: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the pointer is the caller's data with their length, or null.
            session.sign_part(unsafe { bytes(part, part_length) }?)
        })
    })
}

pub(super) unsafe extern "C" fn sign_final(
    handle: c::CK_SESSION_HANDLE,
    out: *mut c::CK_BYTE,
    length: *mut c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the pointers are the caller's buffer with its length, or null.
            let room = unsafe { room(out, length) }?;
            let given = session.sign(None, room, &module.connections)?;
            // SAFETY: as above; the answer was made for this room.
            unsafe { give(given, out, length) }
        })
    })
}

pub(super) unsafe extern "C" fn verify(
    handle: c::CK_SESSION_HANDLE,
    data: *mut c::CK_BYTE,
    data_length: c::CK_ULONG,
    signature: *mut c::CK_BYTE,
    signature_length: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the pointers are the caller's data with their lengths, or null.
            let (data, signature) =
                unsafe { (bytes(data, data_length)?, bytes(signature, signature_length)?) };
            session.verify(Some(data), signature)
        })
    })
}

pub(super) unsafe extern "C" fn verify_update(
    handle: c::CK_SESSION_HANDLE,
    part: *mut c::CK_BYTE,
    part_length: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the pointer is the caller's data with their length, or null.
            session.verify_part(unsafe { bytes(part, part_length) }?)
        })
    })
}

pub(super) unsafe extern "C" fn verify_final(
    handle: c::CK_SESSION_HANDLE,
    signature: *mut c::CK_BYTE,
    signature_length: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the pointer is the caller's data with their length, or null.
            session.verify(None, unsafe { bytes(signature, signature_length) }?)
        })
    })
}

pub(super) unsafe extern "C" fn decrypt(
    handle: c::CK_SESSION_HANDLE,
    data: *mut c::CK_BYTE,
    data_length: c::CK_ULONG,
    out: *mut c::CK_BYTE,
    length: *mut c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            // SAFETY: the pointers are the caller's data and buffer with their lengths, or null.
            let (data, room) = unsafe { (bytes(data, data_length)?, room(out, length)?) };
            let given = session.decrypt(data, room, &module.connections)?;
            // SAFETY: as above; the answer was made for this room.
            unsafe { give(given, out, length) }
        })
    })
}

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
            // SAFETY: the pointer is the caller's buffer with its length, and the part ends within it.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), out.add(from), count) };
        }
        zeroize::Zeroize::zeroize(&mut part);
        Ok(())
    })
}
