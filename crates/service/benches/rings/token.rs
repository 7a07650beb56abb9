//! A key of a PKCS#11 token, used by the threads of one process: the calls of Cryptoki 2.40 that a signature needs.
//!
//! **Guarantee:** the module's functions are called with values of the types that the standard states, and with buffers of
//! the stated lengths; the module is told that threads call it, and each thread has a session of its own.

#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{c_uchar, c_ulong, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// `CK_FUNCTION_LIST`: its version, and its functions in the standard's order.
#[repr(C)]
struct Functions {
    version: [u8; 2],
    all: [*const (); 68],
}

/// `CK_ATTRIBUTE`.
#[repr(C)]
struct Attribute {
    kind: c_ulong,
    value: *const c_void,
    length: c_ulong,
}

/// `CK_MECHANISM`.
#[repr(C)]
struct Mechanism {
    kind: c_ulong,
    parameter: *const c_void,
    length: c_ulong,
}

/// `CK_C_INITIALIZE_ARGS`.
#[repr(C)]
struct Arguments {
    /// Functions for locks, which the module takes from the system instead.
    locks: [*const (); 4],
    flags: c_ulong,
    reserved: *const (),
}

type GetFunctionList = unsafe extern "C" fn(*mut *const Functions) -> c_ulong;
type Initialize = unsafe extern "C" fn(*const Arguments) -> c_ulong;
type Finalize = unsafe extern "C" fn(*mut c_void) -> c_ulong;
type GetSlotList = unsafe extern "C" fn(c_uchar, *mut c_ulong, *mut c_ulong) -> c_ulong;
type OpenSession =
    unsafe extern "C" fn(c_ulong, c_ulong, *mut c_void, *const c_void, *mut c_ulong) -> c_ulong;
type Login = unsafe extern "C" fn(c_ulong, c_ulong, *const c_uchar, c_ulong) -> c_ulong;
type FindObjectsInit = unsafe extern "C" fn(c_ulong, *const Attribute, c_ulong) -> c_ulong;
type FindObjects = unsafe extern "C" fn(c_ulong, *mut c_ulong, c_ulong, *mut c_ulong) -> c_ulong;
type OnSession = unsafe extern "C" fn(c_ulong) -> c_ulong;
type SignInit = unsafe extern "C" fn(c_ulong, *const Mechanism, c_ulong) -> c_ulong;
type Sign = unsafe extern "C" fn(c_ulong, *const c_uchar, c_ulong, *mut c_uchar, *mut c_ulong) -> c_ulong;

/// A module that is logged in to its first token.
pub(crate) struct Token {
    open_session: OpenSession,
    find_init: FindObjectsInit,
    find: FindObjects,
    find_final: OnSession,
    sign_init: SignInit,
    sign: Sign,
    slot: c_ulong,
    _library: Library,
}

/// A session of one thread, and a private key.
pub(crate) struct Session<'a> {
    token: &'a Token,
    session: c_ulong,
    key: c_ulong,
}

/// Fails with the name of a call that returned an error (`CKR_…`).
fn good(call: &str, returned: c_ulong) -> Result<(), String> {
    if returned == 0 { Ok(()) } else { Err(format!("{call} returned {returned:#x}")) }
}

impl Token {
    /// Logs in to the first token of a module. SoftHSM refuses for a while if several processes begin at once, so this tries
    /// for two seconds.
    ///
    /// # Errors
    /// Fails with the last call that did.
    pub(crate) fn open(module: &Path, pin: &str) -> Result<Self, String> {
        // SAFETY: the module is one of PKCS#11, whose functions are called as the standard says, one after the other.
        unsafe {
            let library = Library::new(module).map_err(|error| error.to_string())?;
            let list: GetFunctionList =
                *library.get(b"C_GetFunctionList\0").map_err(|error| error.to_string())?;
            let mut functions = null();
            good("C_GetFunctionList", list(&mut functions))?;
            let all = &(*functions).all;
            let finalize = std::mem::transmute::<*const (), Finalize>(all[1]);
            let mut tries = 100;
            let slot = loop {
                match log_in(all, pin) {
                    Ok(slot) => break slot,
                    Err(error) if tries == 0 => return Err(error),
                    Err(_) => {
                        finalize(null_mut());
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        tries -= 1;
                    }
                }
            };
            Ok(Self {
                open_session: std::mem::transmute::<*const (), OpenSession>(all[12]),
                find_init: std::mem::transmute::<*const (), FindObjectsInit>(all[26]),
                find: std::mem::transmute::<*const (), FindObjects>(all[27]),
                find_final: std::mem::transmute::<*const (), OnSession>(all[28]),
                sign_init: std::mem::transmute::<*const (), SignInit>(all[42]),
                sign: std::mem::transmute::<*const (), Sign>(all[43]),
                slot,
                _library: library,
            })
        }
    }

    /// Opens a session, which is logged in as the process is, and finds the first private key.
    ///
    /// # Errors
    /// Fails with the call that did.
    pub(crate) fn session(&self) -> Result<Session<'_>, String> {
        // CKA_CLASS is CKO_PRIVATE_KEY.
        let class: c_ulong = 3;
        let length = size_of::<c_ulong>() as c_ulong;
        let wanted = Attribute { kind: 0, value: (&raw const class).cast(), length };
        let (mut session, mut key, mut keys) = (0, 0, 0);
        // SAFETY: the module is in use, and the values live through the calls.
        unsafe {
            good("C_OpenSession", (self.open_session)(self.slot, SERIAL, null_mut(), null(), &mut session))?;
            good("C_FindObjectsInit", (self.find_init)(session, &wanted, 1))?;
            good("C_FindObjects", (self.find)(session, &mut key, 1, &mut keys))?;
            if keys != 1 {
                return Err("there is no key".to_owned());
            }
            good("C_FindObjectsFinal", (self.find_final)(session))?;
        }
        Ok(Session { token: self, session, key })
    }
}

impl Session<'_> {
    /// Signs by RSASSA-PKCS1-v1_5 what a digest's DER makes of it; returns the length of the signature in bytes.
    pub(crate) fn sign(&self, digest_info: &[u8]) -> usize {
        // CKM_RSA_PKCS.
        let mechanism = Mechanism { kind: 1, parameter: null(), length: 0 };
        let mut signature = [0; 512];
        let mut length = signature.len() as c_ulong;
        let (data, data_length) = (digest_info.as_ptr(), digest_info.len() as c_ulong);
        let token = self.token;
        // SAFETY: the session and the key are open, and the buffers have the stated lengths.
        unsafe {
            good("C_SignInit", (token.sign_init)(self.session, &mechanism, self.key)).expect("a start");
            let returned = (token.sign)(self.session, data, data_length, signature.as_mut_ptr(), &mut length);
            good("C_Sign", returned).expect("a signature");
        }
        length as usize
    }
}

/// `CKF_SERIAL_SESSION`.
const SERIAL: c_ulong = 4;

/// Starts the module, and logs in; returns the token's slot.
///
/// # Safety
/// `all` are the functions of a PKCS#11 module in the order of its list, which nobody else uses.
unsafe fn log_in(all: &[*const (); 68], pin: &str) -> Result<c_ulong, String> {
    // CKF_OS_LOCKING_OK.
    let arguments = Arguments { locks: [null(); 4], flags: 2, reserved: null() };
    // SAFETY: the functions are called as the standard says.
    unsafe {
        let initialize = std::mem::transmute::<*const (), Initialize>(all[0]);
        good("C_Initialize", initialize(&arguments))?;
        let (mut slots, mut count) = ([0; 8], 8);
        let slot_list = std::mem::transmute::<*const (), GetSlotList>(all[4]);
        good("C_GetSlotList", slot_list(1, slots.as_mut_ptr(), &mut count))?;
        let open_session = std::mem::transmute::<*const (), OpenSession>(all[12]);
        let login = std::mem::transmute::<*const (), Login>(all[18]);
        let mut outcome = Err("there is no token".to_owned());
        // SoftHSM has a slot for the next token as well, whose login fails.
        for slot in slots.into_iter().take(count as usize) {
            let mut session = 0;
            good("C_OpenSession", open_session(slot, SERIAL, null_mut(), null(), &mut session))?;
            // CKU_USER. The session stays open, and with it the login.
            outcome = good("C_Login", login(session, 1, pin.as_ptr(), pin.len() as c_ulong));
            if outcome.is_ok() {
                return Ok(slot);
            }
        }
        outcome.map(|()| 0)
    }
}
