//! The module, its slot, its token, and sessions (PKCS#11 2.40, sections 5.4 to 5.6).

#![allow(unsafe_code)]

use super::{BAD, give_list, put, returned, with_module};
use crate::mechanism;
use crate::module;
use crate::refused::Refused;
use crate::session::SESSIONS_MAX;
use aws_lc_rs::digest::{SHA256, digest};
use cryptoki_sys as c;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The version of the standard.
pub(super) const CRYPTOKI: c::CK_VERSION = c::CK_VERSION { major: 2, minor: 40 };

/// The one slot.
const SLOT: c::CK_SLOT_ID = 0;

const MANUFACTURER: &str = "Sealane";

/// Returns the version of this module.
fn own_version() -> c::CK_VERSION {
    let number = |text: &str| text.parse().unwrap_or(0);
    c::CK_VERSION {
        major: number(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: number(env!("CARGO_PKG_VERSION_MINOR")),
    }
}

/// Returns a text that is filled up with blanks.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let length = text.len().min(N);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
    field
}

/// Returns a serial number that differs between tokens: the beginning of a digest of the socket's path.
fn serial_number(socket: &Path) -> [u8; 16] {
    let mut text = String::new();
    for byte in &digest(&SHA256, socket.as_os_str().as_bytes()).as_ref()[..8] {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    padded(&text)
}

fn check_slot(slot: c::CK_SLOT_ID) -> Result<(), Refused> {
    if slot == SLOT { Ok(()) } else { Err(Refused(c::CKR_SLOT_ID_INVALID)) }
}

/// Fails if a structure with functions for locking is wrong. The module locks by the operating system's means, whichever
/// the program would like.
///
/// # Safety
/// `arguments` is null, or points to a readable structure, with any alignment.
unsafe fn check_arguments(arguments: *const c::CK_C_INITIALIZE_ARGS) -> Result<(), Refused> {
    if arguments.is_null() {
        return Ok(());
    }
    // SAFETY: the contract: it is readable, and not null here.
    let arguments = unsafe { arguments.read_unaligned() };
    let given = [
        arguments.CreateMutex.is_some(),
        arguments.DestroyMutex.is_some(),
        arguments.LockMutex.is_some(),
        arguments.UnlockMutex.is_some(),
    ];
    if !arguments.pReserved.is_null() || given.iter().any(|is_given| *is_given != given[0]) {
        return Err(BAD);
    }
    Ok(())
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `arguments` is null or points to a
/// `CK_C_INITIALIZE_ARGS`. Its functions are not called.
pub(super) unsafe extern "C" fn initialize(arguments: *mut c_void) -> c::CK_RV {
    returned(|| {
        // SAFETY: the contract: the pointer is null or to this structure.
        unsafe { check_arguments(arguments.cast()) }?;
        module::initialize(sealane_client::environment::socket())
    })
}

pub(super) extern "C" fn finalize(reserved: *mut c_void) -> c::CK_RV {
    returned(|| if reserved.is_null() { module::finalize() } else { Err(BAD) })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `info` is null or has room for the structure.
pub(super) unsafe extern "C" fn get_info(info: *mut c::CK_INFO) -> c::CK_RV {
    with_module(|_| {
        let value = c::CK_INFO {
            cryptokiVersion: CRYPTOKI,
            manufacturerID: padded(MANUFACTURER),
            flags: 0,
            libraryDescription: padded("Keys of the Sealane engine"),
            libraryVersion: own_version(),
        };
        // SAFETY: the contract: `info` is null or has room for it.
        unsafe { put(info, value) }
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `count` is null or can be read and written; `array` is
/// null or has room for `*count` numbers.
pub(super) unsafe extern "C" fn get_slot_list(
    with_token: c::CK_BBOOL,
    array: *mut c::CK_SLOT_ID,
    count: *mut c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        let is_listed = with_token == c::CK_FALSE || module.has_token();
        let list: &[c::CK_SLOT_ID] = if is_listed { &[SLOT] } else { &[] };
        // SAFETY: the contract: the array has as many places as its count states; both may be null.
        unsafe { give_list(list, array, count) }
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `info` is null or has room for the structure.
pub(super) unsafe extern "C" fn get_slot_info(slot: c::CK_SLOT_ID, info: *mut c::CK_SLOT_INFO) -> c::CK_RV {
    with_module(|module| {
        check_slot(slot)?;
        let present = if module.has_token() { c::CKF_TOKEN_PRESENT } else { 0 };
        let value = c::CK_SLOT_INFO {
            slotDescription: padded(&format!("Sealane engine at {}", module.socket.display())),
            manufacturerID: padded(MANUFACTURER),
            // The service may come and go.
            flags: c::CKF_REMOVABLE_DEVICE | present,
            hardwareVersion: c::CK_VERSION::default(),
            firmwareVersion: own_version(),
        };
        // SAFETY: the contract: `info` is null or has room for it.
        unsafe { put(info, value) }
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `info` is null or has room for the structure.
pub(super) unsafe extern "C" fn get_token_info(slot: c::CK_SLOT_ID, info: *mut c::CK_TOKEN_INFO) -> c::CK_RV {
    with_module(|module| {
        check_slot(slot)?;
        if !module.has_token() {
            return Err(Refused(c::CKR_TOKEN_NOT_PRESENT));
        }
        let unknown = c::CK_UNAVAILABLE_INFORMATION;
        let value = c::CK_TOKEN_INFO {
            label: padded("Sealane engine"),
            manufacturerID: padded(MANUFACTURER),
            model: padded("engine service"),
            serialNumber: serial_number(&module.socket),
            flags: c::CKF_RNG | c::CKF_TOKEN_INITIALIZED,
            ulMaxSessionCount: SESSIONS_MAX as c::CK_ULONG,
            ulSessionCount: module.sessions().count() as c::CK_ULONG,
            ulMaxRwSessionCount: SESSIONS_MAX as c::CK_ULONG,
            ulRwSessionCount: unknown,
            ulMaxPinLen: 255,
            ulMinPinLen: 0,
            ulTotalPublicMemory: unknown,
            ulFreePublicMemory: unknown,
            ulTotalPrivateMemory: unknown,
            ulFreePrivateMemory: unknown,
            hardwareVersion: c::CK_VERSION::default(),
            firmwareVersion: own_version(),
            utcTime: padded(""),
        };
        // SAFETY: the contract: `info` is null or has room for it.
        unsafe { put(info, value) }
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `count` is null or can be read and written; `array` is
/// null or has room for `*count` numbers.
pub(super) unsafe extern "C" fn get_mechanism_list(
    slot: c::CK_SLOT_ID,
    array: *mut c::CK_MECHANISM_TYPE,
    count: *mut c::CK_ULONG,
) -> c::CK_RV {
    with_module(|_| {
        check_slot(slot)?;
        // SAFETY: the contract: the array has as many places as its count states; both may be null.
        unsafe { give_list(&mechanism::all(), array, count) }
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `info` is null or has room for the structure.
pub(super) unsafe extern "C" fn get_mechanism_info(
    slot: c::CK_SLOT_ID,
    kind: c::CK_MECHANISM_TYPE,
    info: *mut c::CK_MECHANISM_INFO,
) -> c::CK_RV {
    with_module(|_| {
        check_slot(slot)?;
        let value = mechanism::info(kind)?;
        // SAFETY: the contract: `info` is null or has room for it.
        unsafe { put(info, value) }
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `handle` is null or has room for a handle. The
/// application's pointer and the callback are not used.
pub(super) unsafe extern "C" fn open_session(
    slot: c::CK_SLOT_ID,
    flags: c::CK_FLAGS,
    _: *mut c_void,
    _: c::CK_NOTIFY,
    handle: *mut c::CK_SESSION_HANDLE,
) -> c::CK_RV {
    with_module(|module| {
        check_slot(slot)?;
        if handle.is_null() {
            return Err(BAD);
        }
        if flags & c::CKF_SERIAL_SESSION == 0 {
            return Err(Refused(c::CKR_SESSION_PARALLEL_NOT_SUPPORTED));
        }
        if !module.has_token() {
            return Err(Refused(c::CKR_TOKEN_NOT_PRESENT));
        }
        let opened = module.sessions().open(flags & c::CKF_RW_SESSION != 0)?;
        // SAFETY: the contract: a place that is not null has room for it.
        unsafe { put(handle, opened) }
    })
}

pub(super) extern "C" fn close_session(handle: c::CK_SESSION_HANDLE) -> c::CK_RV {
    with_module(|module| {
        module.sessions().close(handle)?;
        module.forget_secrets();
        Ok(())
    })
}

pub(super) extern "C" fn close_all_sessions(slot: c::CK_SLOT_ID) -> c::CK_RV {
    with_module(|module| {
        check_slot(slot)?;
        module.sessions().close_all();
        module.forget_secrets();
        Ok(())
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `info` is null or has room for the structure.
pub(super) unsafe extern "C" fn get_session_info(
    handle: c::CK_SESSION_HANDLE,
    info: *mut c::CK_SESSION_INFO,
) -> c::CK_RV {
    with_module(|module| {
        let for_writing = module.with_session(handle, |session| Ok(session.is_for_writing()))?;
        let (state, flags) = match (module.sessions().is_logged_in, for_writing) {
            (false, false) => (c::CKS_RO_PUBLIC_SESSION, 0),
            (true, false) => (c::CKS_RO_USER_FUNCTIONS, 0),
            (false, true) => (c::CKS_RW_PUBLIC_SESSION, c::CKF_RW_SESSION),
            (true, true) => (c::CKS_RW_USER_FUNCTIONS, c::CKF_RW_SESSION),
        };
        let value = c::CK_SESSION_INFO {
            slotID: SLOT,
            state,
            flags: c::CKF_SERIAL_SESSION | flags,
            ulDeviceError: 0,
        };
        // SAFETY: the contract: `info` is null or has room for it.
        unsafe { put(info, value) }
    })
}

/// The service knows the caller by its user. Programs that log in anyway may do so with any PIN.
pub(super) extern "C" fn login(
    handle: c::CK_SESSION_HANDLE,
    user: c::CK_USER_TYPE,
    pin: *mut c::CK_UTF8CHAR,
    pin_length: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        let mut sessions = module.sessions();
        sessions.get(handle)?;
        if pin.is_null() && pin_length != 0 {
            return Err(BAD);
        }
        match user {
            c::CKU_USER if sessions.is_logged_in => Err(Refused(c::CKR_USER_ALREADY_LOGGED_IN)),
            c::CKU_USER => {
                sessions.is_logged_in = true;
                Ok(())
            }
            // No key wants a PIN before each operation.
            c::CKU_CONTEXT_SPECIFIC => Err(Refused(c::CKR_OPERATION_NOT_INITIALIZED)),
            _ => Err(Refused(c::CKR_USER_TYPE_INVALID)),
        }
    })
}

pub(super) extern "C" fn logout(handle: c::CK_SESSION_HANDLE) -> c::CK_RV {
    with_module(|module| {
        let mut sessions = module.sessions();
        sessions.get(handle)?;
        if std::mem::take(&mut sessions.is_logged_in) {
            Ok(())
        } else {
            Err(Refused(c::CKR_USER_NOT_LOGGED_IN))
        }
    })
}
