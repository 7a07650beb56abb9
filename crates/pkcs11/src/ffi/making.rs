//! Pairs of keys and secrets (PKCS#11 2.40, section 5.13).

#![allow(unsafe_code)]

use super::objects::read_template;
use super::{BAD, bytes, put, with_module};
use crate::making::PEER_BYTES_MAX;
use crate::refused::Refused;
use cryptoki_sys as c;
use std::mem::size_of;

/// # Safety
/// The contract of Cryptoki functions, see the module: `mechanism` is null or points to the structure, whose
/// parameter is not read; `public` and `private` are null or templates of the attributes counted; both
/// handles are null or have room.
pub(super) unsafe extern "C" fn generate_key_pair(
    handle: c::CK_SESSION_HANDLE,
    mechanism: *mut c::CK_MECHANISM,
    public: *mut c::CK_ATTRIBUTE,
    public_count: c::CK_ULONG,
    private: *mut c::CK_ATTRIBUTE,
    private_count: c::CK_ULONG,
    public_handle: *mut c::CK_OBJECT_HANDLE,
    private_handle: *mut c::CK_OBJECT_HANDLE,
) -> c::CK_RV {
    with_module(|module| {
        let for_writing = module.with_session(handle, |session| Ok(session.is_for_writing()))?;
        if mechanism.is_null() || public_handle.is_null() || private_handle.is_null() {
            return Err(BAD);
        }
        // SAFETY: the contract: a mechanism, which is not null, and templates with as many attributes.
        let (mechanism, public, private) = unsafe {
            (
                mechanism.read_unaligned(),
                read_template(public, public_count)?,
                read_template(private, private_count)?,
            )
        };
        if !for_writing {
            return Err(Refused(c::CKR_SESSION_READ_ONLY));
        }
        let [made_public, made_private] = module.generate(mechanism.mechanism, &public, &private)?;
        // SAFETY: the contract: places that are not null have room for them.
        unsafe {
            put(public_handle, made_public)?;
            put(private_handle, made_private)
        }
    })
}

/// Reads the peer's public half of `CK_ECDH1_DERIVE_PARAMS`, without a function that makes something else of the secret.
///
/// # Safety
/// `mechanism` is null, or points to a readable structure. If its parameter has the length of
/// `CK_ECDH1_DERIVE_PARAMS`, it is null or readable as such, and its public data are null or readable for
/// their length, with nobody writing them during `'a`. No alignment is needed.
unsafe fn peer_of<'a>(mechanism: *const c::CK_MECHANISM) -> Result<&'a [u8], Refused> {
    const WRONG: Refused = Refused(c::CKR_MECHANISM_PARAM_INVALID);
    type Layout = c::CK_ECDH1_DERIVE_PARAMS;
    if mechanism.is_null() {
        return Err(BAD);
    }
    // SAFETY: the contract: it is readable, and not null here.
    let mechanism = unsafe { mechanism.read_unaligned() };
    if mechanism.mechanism != c::CKM_ECDH1_DERIVE {
        return Err(Refused(c::CKR_MECHANISM_INVALID));
    }
    if mechanism.pParameter.is_null() || mechanism.ulParameterLen != size_of::<Layout>() as c::CK_ULONG {
        return Err(WRONG);
    }
    // SAFETY: the contract: the parameter is readable; it is not null, and its length is that of the
    // structure.
    let parameters = unsafe { mechanism.pParameter.cast::<Layout>().read_unaligned() };
    let is_plain = parameters.kdf == c::CKD_NULL && parameters.ulSharedDataLen == 0;
    if !is_plain || parameters.ulPublicDataLen > PEER_BYTES_MAX as c::CK_ULONG {
        return Err(WRONG);
    }
    // SAFETY: the contract: the public data are null or readable for their length.
    unsafe { bytes(parameters.pPublicData, parameters.ulPublicDataLen) }
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `mechanism` is null or points to the structure, whose
/// parameter is null or readable for its length and has valid pointers; `template` is null or has `count`
/// attributes; `made` is null or has room for a handle.
pub(super) unsafe extern "C" fn derive_key(
    handle: c::CK_SESSION_HANDLE,
    mechanism: *mut c::CK_MECHANISM,
    key: c::CK_OBJECT_HANDLE,
    template: *mut c::CK_ATTRIBUTE,
    count: c::CK_ULONG,
    made: *mut c::CK_OBJECT_HANDLE,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |_| Ok(()))?;
        if made.is_null() {
            return Err(BAD);
        }
        // SAFETY: the contract: a mechanism with its parameter, and a template with as many attributes; both
        // may be null.
        let (peer, template) = unsafe { (peer_of(mechanism)?, read_template(template, count)?) };
        let secret = module.derive(handle, key, peer, &template)?;
        // SAFETY: the contract: a place that is not null has room for it.
        unsafe { put(made, secret) }
    })
}
