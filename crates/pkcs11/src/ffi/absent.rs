//! The functions that this module does not have: keys are imported and removed by `sealane engine keys`, and never wrapped.

use cryptoki_sys as c;
use std::ffi::c_void;

type Session = c::CK_SESSION_HANDLE;
type Object = c::CK_OBJECT_HANDLE;
type Length = c::CK_ULONG;
type Bytes = *mut c::CK_BYTE;
type Room = *mut c::CK_ULONG;
type Mechanism = *mut c::CK_MECHANISM;
type Template = *mut c::CK_ATTRIBUTE;
type Made = *mut c::CK_OBJECT_HANDLE;

/// Makes functions that return a constant.
macro_rules! absent {
    ($returned:ident: $($name:ident($($argument:ty),*);)*) => {
        $(pub(super) extern "C" fn $name($(_: $argument),*) -> c::CK_RV {
            c::$returned
        })*
    };
}

absent! { CKR_FUNCTION_NOT_SUPPORTED:
    init_token(c::CK_SLOT_ID, Bytes, Length, Bytes);
    init_pin(Session, Bytes, Length);
    set_pin(Session, Bytes, Length, Bytes, Length);
    get_operation_state(Session, Bytes, Room);
    set_operation_state(Session, Bytes, Length, Object, Object);
    create_object(Session, Template, Length, Made);
    copy_object(Session, Object, Template, Length, Made);
    get_object_size(Session, Object, Room);
    set_attribute_value(Session, Object, Template, Length);
    encrypt_init(Session, Mechanism, Object);
    encrypt(Session, Bytes, Length, Bytes, Room);
    encrypt_update(Session, Bytes, Length, Bytes, Room);
    encrypt_final(Session, Bytes, Room);
    decrypt_update(Session, Bytes, Length, Bytes, Room);
    decrypt_final(Session, Bytes, Room);
    digest_init(Session, Mechanism);
    digest(Session, Bytes, Length, Bytes, Room);
    digest_update(Session, Bytes, Length);
    digest_key(Session, Object);
    digest_final(Session, Bytes, Room);
    sign_recover_init(Session, Mechanism, Object);
    sign_recover(Session, Bytes, Length, Bytes, Room);
    verify_recover_init(Session, Mechanism, Object);
    verify_recover(Session, Bytes, Length, Bytes, Room);
    digest_encrypt_update(Session, Bytes, Length, Bytes, Room);
    decrypt_digest_update(Session, Bytes, Length, Bytes, Room);
    sign_encrypt_update(Session, Bytes, Length, Bytes, Room);
    decrypt_verify_update(Session, Bytes, Length, Bytes, Room);
    generate_key(Session, Mechanism, Template, Length, Made);
    wrap_key(Session, Mechanism, Object, Object, Bytes, Room);
    unwrap_key(Session, Mechanism, Object, Bytes, Length, Template, Length, Made);
    wait_for_slot_event(c::CK_FLAGS, *mut c::CK_SLOT_ID, *mut c_void);
}

absent! { CKR_RANDOM_SEED_NOT_SUPPORTED:
    seed_random(Session, Bytes, Length);
}

// Both are left from versions with functions in parallel.
absent! { CKR_FUNCTION_NOT_PARALLEL:
    get_function_status(Session);
    cancel_function(Session);
}
