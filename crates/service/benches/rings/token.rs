//! A key of a PKCS#11 token, used by one process: the calls of Cryptoki 2.40 that a signature needs.
//!
//! **Guarantee:** the module's functions are called with values of the types that the standard states, and with buffers of
//! the stated lengths.

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

type GetFunctionList = unsafe extern "C" fn(*mut *const Functions) -> c_ulong;
type Initialize = unsafe extern "C" fn(*mut c_void) -> c_ulong;
type GetSlotList = unsafe extern "C" fn(c_uchar, *mut c_ulong, *mut c_ulong) -> c_ulong;
type OpenSession =
    unsafe extern "C" fn(c_ulong, c_ulong, *mut c_void, *const c_void, *mut c_ulong) -> c_ulong;
type Login = unsafe extern "C" fn(c_ulong, c_ulong, *const c_uchar, c_ulong) -> c_ulong;
type FindObjectsInit = unsafe extern "C" fn(c_ulong, *const Attribute, c_ulong) -> c_ulong;
type FindObjects = unsafe extern "C" fn(c_ulong, *mut c_ulong, c_ulong, *mut c_ulong) -> c_ulong;
type OnSession = unsafe extern "C" fn(c_ulong) -> c_ulong;
type SignInit = unsafe extern "C" fn(c_ulong, *const Mechanism, c_ulong) -> c_ulong;
type Sign = unsafe extern "C" fn(c_ulong, *const c_uchar, c_ulong, *mut c_uchar, *mut c_ulong) -> c_ulong;

/// A session that is logged in, and a private key.
pub(crate) struct Token {
    sign_init: SignInit,
    sign: Sign,
    session: c_ulong,
    key: c_ulong,
    _library: Library,
}

/// Fails with the name of a call that returned an error (`CKR_…`).
fn good(call: &str, returned: c_ulong) -> Result<(), String> {
    if returned == 0 { Ok(()) } else { Err(format!("{call} returned {returned:#x}")) }
}

impl Token {
    /// Logs in to the first token of a module, and finds its first private key. SoftHSM refuses for a while if several
    /// processes begin at once, so this tries for two seconds.
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
            let finalize = std::mem::transmute::<*const (), Initialize>(all[1]);
            let mut tries = 100;
            let (session, key) = loop {
                match find_key(all, pin) {
                    Ok(found) => break found,
                    Err(error) if tries == 0 => return Err(error),
                    Err(_) => {
                        finalize(null_mut());
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        tries -= 1;
                    }
                }
            };
            let sign_init = std::mem::transmute::<*const (), SignInit>(all[42]);
            let sign = std::mem::transmute::<*const (), Sign>(all[43]);
            Ok(Self { sign_init, sign, session, key, _library: library })
        }
    }

    /// Signs by RSASSA-PKCS1-v1_5 what a digest's DER makes of it; returns the length of the signature in bytes.
    pub(crate) fn sign(&self, digest_info: &[u8]) -> usize {
        // CKM_RSA_PKCS.
        let mechanism = Mechanism { kind: 1, parameter: null(), length: 0 };
        let mut signature = [0; 512];
        let mut length = signature.len() as c_ulong;
        let (data, data_length) = (digest_info.as_ptr(), digest_info.len() as c_ulong);
        // SAFETY: the session and the key are open, and the buffers have the stated lengths.
        unsafe {
            good("C_SignInit", (self.sign_init)(self.session, &mechanism, self.key)).expect("a start");
            let returned = (self.sign)(self.session, data, data_length, signature.as_mut_ptr(), &mut length);
            good("C_Sign", returned).expect("a signature");
        }
        length as usize
    }
}

/// Starts the module; returns a session that is logged in, and a private key.
///
/// # Safety
/// The functions are those of a module that is not in use.
unsafe fn find_key(all: &[*const (); 68], pin: &str) -> Result<(c_ulong, c_ulong), String> {
    // SAFETY: the functions are called as the standard says.
    unsafe {
        let initialize = std::mem::transmute::<*const (), Initialize>(all[0]);
        good("C_Initialize", initialize(null_mut()))?;
        let (mut slot, mut slots) = (0, 1);
        let slot_list = std::mem::transmute::<*const (), GetSlotList>(all[4]);
        good("C_GetSlotList", slot_list(1, &mut slot, &mut slots))?;
        if slots != 1 {
            return Err("there is no token".to_owned());
        }
        let mut session = 0;
        let open_session = std::mem::transmute::<*const (), OpenSession>(all[12]);
        // CKF_SERIAL_SESSION.
        good("C_OpenSession", open_session(slot, 4, null_mut(), null(), &mut session))?;
        let login = std::mem::transmute::<*const (), Login>(all[18]);
        // CKU_USER.
        good("C_Login", login(session, 1, pin.as_ptr(), pin.len() as c_ulong))?;
        // CKA_CLASS is CKO_PRIVATE_KEY.
        let class: c_ulong = 3;
        let length = size_of::<c_ulong>() as c_ulong;
        let wanted = Attribute { kind: 0, value: (&raw const class).cast(), length };
        let find_init = std::mem::transmute::<*const (), FindObjectsInit>(all[26]);
        good("C_FindObjectsInit", find_init(session, &wanted, 1))?;
        let (mut key, mut keys) = (0, 0);
        let find = std::mem::transmute::<*const (), FindObjects>(all[27]);
        good("C_FindObjects", find(session, &mut key, 1, &mut keys))?;
        if keys != 1 {
            return Err("there is no key".to_owned());
        }
        let find_final = std::mem::transmute::<*const (), OnSession>(all[28]);
        good("C_FindObjectsFinal", find_final(session))?;
        Ok((session, key))
    }
}
