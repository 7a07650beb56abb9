//! OpenSSL's provider interface: the structures of openssl/core.h, the numbers of openssl/core_dispatch.h, and an
//! entry for each number.
//!
//! Entries convert the values from C, call functions of other modules, and put the outcome where C expects it.
//! **Guarantees:** a panic becomes a failure with a reason; objects that are handed out are boxes or counted
//! references, given back once by the entry that frees them; outputs are written within the lengths that the caller
//! states.
//!
//! **The contract of provider functions** (provider(7), and the page that the first line of each file names), by which
//! OpenSSL calls the entries of tables; the section of each says what it takes of the following:
//! - `provider` is the context that [`OSSL_provider_init`] wrote. It is not torn down before all other objects are
//!   freed.
//! - A value of a constructor is a context that it returned, is not null and was not freed. One thread uses it at a
//!   time.
//! - A key is one that a key management of this provider returned, for ML-KEM that of ML-KEM, is not null and was not
//!   freed. Several threads may use it at once, but not while one frees it.
//! - `array` is null, or points to elements up to one without a name. Names are strings; values are null or have the
//!   sizes that they state, readable, and writable where they are asked for. What is written overlaps neither the
//!   array, its names nor another value. No other code uses them during the call.
//! - Bytes and buffers are null, or have the lengths that stand beside them: readable, and not written meanwhile by
//!   another thread; or writable, and not used meanwhile by another thread. They may overlap unless the section says
//!   no.
//! - A place for a number or a pointer is aligned and writable. A string ends with a zero byte.
//! - A callback is null, or may be called during the call with the argument beside it and an array.
//! - No other thread changes the environment (setenv(3)), from which the service's socket is read.

#![allow(unsafe_code)]

mod cipher;
mod exchange;
mod groups;
pub(crate) mod jobs;
mod kem;
mod keymgmt;
mod ml_dsa;
mod params;
mod signature;
mod signs;
mod store;
mod symmetric;

use crate::counters;
use crate::key::KeyBox;
use crate::reason::Reason;
use crate::signing::Keyed;
use params::{Param, Params};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// `struct ossl_dispatch_st`: a function by its number.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Dispatch {
    id: c_int,
    function: *const (),
}

// SAFETY: tables hold numbers and addresses of functions, and are never written.
unsafe impl Sync for Dispatch {}

impl Dispatch {
    const END: Self = Self { id: 0, function: null() };
}

/// `struct ossl_algorithm_st`: an algorithm's names, properties and table.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Algorithm {
    names: *const c_char,
    properties: *const c_char,
    implementation: *const Dispatch,
    description: *const c_char,
}

// SAFETY: it points to constants.
unsafe impl Sync for Algorithm {}

impl Algorithm {
    const END: Self = Self { names: null(), properties: null(), implementation: null(), description: null() };

    const fn new(
        names: &'static CStr,
        properties: &'static CStr,
        implementation: &'static [Dispatch],
    ) -> Self {
        let (names, properties) = (names.as_ptr(), properties.as_ptr());
        Self { names, properties, implementation: implementation.as_ptr(), description: null() }
    }
}

/// `struct ossl_item_st`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Item {
    id: c_uint,
    text: *const c_char,
}

// SAFETY: it points to constants.
unsafe impl Sync for Item {}

/// Makes a table of functions by their numbers.
macro_rules! table {
    ($($id:literal => $function:expr),+ $(,)?) => {
        &[$($crate::ffi::Dispatch { id: $id, function: $function as *const () },)+ $crate::ffi::Dispatch::END]
    };
}
use table;

/// Makes a table of the names and types of values.
macro_rules! descriptions {
    ($($key:expr => $kind:expr),* $(,)?) => {
        &[$($crate::ffi::params::Param::describe($key, $kind),)* $crate::ffi::params::Param::END]
    };
}
use descriptions;

/// Makes a function that returns such a table; the types are those of its arguments.
macro_rules! described {
    ($name:ident($($context:ty),*): $($key:expr => $kind:expr),* $(,)?) => {
        extern "C" fn $name($(_: $context),*) -> *const $crate::ffi::params::Param {
            static TABLE: &[$crate::ffi::params::Param] = $crate::ffi::descriptions![$($key => $kind),*];
            TABLE.as_ptr()
        }
    };
}
use described;

/// The functions that OpenSSL offers to the provider. It outlives every object of this provider, because OpenSSL
/// counts them.
#[derive(Clone, Copy, Debug)]
struct Core {
    handle: *const c_void,
    new_error: Option<unsafe extern "C" fn(*const c_void)>,
    set_error: Option<unsafe extern "C" fn(*const c_void, u32, *const c_char, *mut c_void)>,
    gets: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, c_int) -> c_int>,
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut usize) -> c_int>,
    get_params: Option<unsafe extern "C" fn(*const c_void, *mut Param) -> c_int>,
}

impl Core {
    /// # Safety
    /// `functions` is readable and aligned up to an entry whose number is 0, and each entry's function has
    /// the type that openssl/core_dispatch.h gives its number. The functions may be called with `handle` as
    /// long as the value or a copy of it is used.
    unsafe fn of(handle: *const c_void, functions: *const Dispatch) -> Self {
        let mut core =
            Self { handle, new_error: None, set_error: None, gets: None, read: None, get_params: None };
        let mut at = functions;
        // SAFETY: the contract: every entry up to the terminator is readable, and its function has its
        // number's type.
        unsafe {
            while (*at).id != 0 {
                let function = (*at).function;
                match (*at).id {
                    2 => core.get_params = std::mem::transmute::<*const (), Option<_>>(function),
                    5 => core.new_error = std::mem::transmute::<*const (), Option<_>>(function),
                    7 => core.set_error = std::mem::transmute::<*const (), Option<_>>(function),
                    42 => core.read = std::mem::transmute::<*const (), Option<_>>(function),
                    49 => core.gets = std::mem::transmute::<*const (), Option<_>>(function),
                    _ => {}
                }
                at = at.add(1);
            }
        }
        core
    }

    /// Returns a text of this provider's section of OpenSSL's configuration.
    fn configured(&self, key: &'static CStr) -> Option<String> {
        let get_params = self.get_params?;
        let mut value: *const c_char = null();
        let mut array = [Param::place(key, &mut value), Param::END];
        // SAFETY: OpenSSL's own function with its handle, and an array with a terminator.
        let outcome = unsafe { get_params(self.handle, array.as_mut_ptr()) };
        // SAFETY: OpenSSL has stored a string that it keeps with the provider, or left null.
        (outcome == 1).then(|| unsafe { text(value) }.map(str::to_owned)).flatten()
    }

    /// Puts a reason into OpenSSL's error queue.
    fn raise(&self, reason: Reason) {
        if let (Some(new_error), Some(set_error)) = (self.new_error, self.set_error) {
            // SAFETY: these are OpenSSL's own functions with its handle; without a format the arguments are not read.
            unsafe {
                new_error(self.handle);
                set_error(self.handle, reason as u32, null(), null_mut());
            }
        }
    }

    /// Returns the outcome of `call`; if it fails, its reason goes into the queue.
    fn outcome<T>(&self, call: impl FnOnce() -> Result<T, Reason>) -> Option<T> {
        let reason = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(reason)) => reason,
            Err(_) => Reason::Panicked,
        };
        self.raise(reason);
        None
    }

    /// Does the same, and returns 1 or 0 for C.
    fn succeeds(&self, call: impl FnOnce() -> Result<(), Reason>) -> c_int {
        self.outcome(call).map_or(0, |()| 1)
    }
}

/// A context that is handed out, with the data that its entries need.
struct Context<T> {
    core: Core,
    value: T,
}

impl<T> Context<T> {
    fn give(core: Core, value: T) -> *mut c_void {
        Box::into_raw(Box::new(Self { core, value })).cast()
    }

    /// # Safety
    /// `pointer` is not null, came from `give` of the same type, was not freed, and no other code uses it
    /// during `'a`: OpenSSL uses a context in one thread at a time.
    unsafe fn of<'a>(pointer: *mut c_void) -> &'a mut Self {
        // SAFETY: the contract: a box of this type that lives, and that nobody else uses during the lifetime.
        unsafe { &mut *pointer.cast() }
    }

    /// # Safety
    /// `pointer` is not null, came from `give` of the same type, is not freed during `'a`, and no other code
    /// writes it during `'a`; other threads may read it at the same time.
    unsafe fn shared<'a>(pointer: *mut c_void) -> &'a Self {
        // SAFETY: the contract: a box of this type that lives, and that nobody writes during the lifetime.
        unsafe { &*pointer.cast() }
    }

    /// # Safety
    /// `pointer` is null, or came from `give` of the same type, was not freed, and is used by nobody: it is
    /// invalid afterwards.
    unsafe extern "C" fn free(pointer: *mut c_void) {
        if !pointer.is_null() {
            // SAFETY: the contract: a box of this type, given back once.
            drop(unsafe { Box::from_raw(pointer.cast::<Self>()) });
        }
    }
}

impl<T: Clone> Context<T> {
    /// # Safety
    /// As for [`Self::shared`].
    unsafe extern "C" fn duplicate(pointer: *mut c_void) -> *mut c_void {
        // SAFETY: the contract is that of `shared`.
        let own = unsafe { Self::shared(pointer) };
        Self::give(own.core, own.value.clone())
    }
}

impl<T: Default> Context<T> {
    /// # Safety
    /// The contract of provider functions, see [`self`]: `provider`.
    unsafe extern "C" fn begin(provider: *mut c_void) -> *mut c_void {
        // SAFETY: OpenSSL hands in the context of this provider.
        let core = unsafe { Context::<()>::shared(provider) }.core;
        Self::give(core, T::default())
    }
}

/// An object that OpenSSL sets parameters of.
trait Settable {
    /// Takes over the parameters among `params` that it knows.
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason>;
}

impl<T: Settable> Context<T> {
    /// # Safety
    /// The contract of provider functions, see [`self`]: `context` is a value of a constructor of the same type; `array`.
    unsafe extern "C" fn set_params(context: *mut c_void, array: *const Param) -> c_int {
        // SAFETY: OpenSSL hands in a context of this type, and an array with a terminator.
        let (own, params) = unsafe { (Self::of(context), Params::new(array)) };
        let core = own.core;
        core.succeeds(|| own.value.set(params))
    }
}

impl<T: Keyed + Settable> Context<T> {
    /// # Safety
    /// The contract of provider functions, see [`self`]: `context` is a value of a constructor of the same type; `key` is null
    /// or a key; `array`.
    unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, array: *const Param) -> c_int {
        // SAFETY: OpenSSL hands in a context of this type, a key of this provider or null, and an array with a terminator or
        // null.
        let (own, key, params) = unsafe { (Self::of(context), key_of(key), Params::new(array)) };
        let core = own.core;
        core.succeeds(|| {
            own.value.start(key)?;
            own.value.set(params)
        })
    }
}

/// A key that is handed out. Operations under way have their own references to its content.
type KeyContext = Context<Arc<KeyBox>>;

/// Returns a new reference to a key; `None` for null.
///
/// # Safety
/// `pointer` is null, or a key of this provider's key managements (not ML-KEM's), which is not freed during
/// the call. Other threads may use it.
unsafe fn key_of(pointer: *mut c_void) -> Option<Arc<KeyBox>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the contract: a KeyContext that lives during the call; several threads may read it at once.
    Some(Arc::clone(unsafe { &KeyContext::shared(pointer).value }))
}

/// Returns the bytes that C hands in.
///
/// # Safety
/// `data` is null, or readable for `length` bytes, which nobody writes during `'a`.
unsafe fn bytes<'a>(data: *const c_uchar, length: usize) -> &'a [u8] {
    if data.is_null() || length > isize::MAX as usize {
        return &[];
    }
    // SAFETY: the contract: readable bytes; the pointer is not null, and the length not above isize::MAX.
    unsafe { std::slice::from_raw_parts(data, length) }
}

/// Returns the text that C hands in.
///
/// # Safety
/// `text` is null, or a string that ends with a zero byte and that nobody writes during `'a`.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the contract: a string that ends with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Writes an output to C's buffer and its length to `length`; without a buffer, writes only the maximum length.
///
/// # Safety
/// `length` is a writable number, aligned; `out` is null or writable for `capacity` bytes.
unsafe fn give(
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
    most: usize,
    make: impl FnOnce() -> Result<Vec<u8>, Reason>,
) -> Result<(), Reason> {
    if out.is_null() {
        // SAFETY: the contract: `length` is writable.
        unsafe { length.write(most) };
        return Ok(());
    }
    let made = zeroize::Zeroizing::new(make()?);
    if made.len() > capacity {
        return Err(Reason::BufferTooSmall);
    }
    // SAFETY: the contract: both are writable; the length was checked against the capacity.
    unsafe {
        std::ptr::copy_nonoverlapping(made.as_ptr(), out, made.len());
        length.write(made.len());
    }
    Ok(())
}

static CIPHER: &[Algorithm] = &[
    Algorithm::new(c"AES-128-GCM:id-aes128-GCM:2.16.840.1.101.3.4.1.6", PROPERTIES, symmetric::AES_128_GCM),
    Algorithm::new(c"AES-192-GCM:id-aes192-GCM:2.16.840.1.101.3.4.1.26", PROPERTIES, symmetric::AES_192_GCM),
    Algorithm::new(c"AES-256-GCM:id-aes256-GCM:2.16.840.1.101.3.4.1.46", PROPERTIES, symmetric::AES_256_GCM),
    Algorithm::new(c"AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2", PROPERTIES, symmetric::AES_128_CBC),
    Algorithm::new(c"AES-192-CBC:AES192:2.16.840.1.101.3.4.1.22", PROPERTIES, symmetric::AES_192_CBC),
    Algorithm::new(c"AES-256-CBC:AES256:2.16.840.1.101.3.4.1.42", PROPERTIES, symmetric::AES_256_CBC),
    Algorithm::new(c"AES-128-CTR", PROPERTIES, symmetric::AES_128_CTR),
    Algorithm::new(c"AES-192-CTR", PROPERTIES, symmetric::AES_192_CTR),
    Algorithm::new(c"AES-256-CTR", PROPERTIES, symmetric::AES_256_CTR),
    Algorithm::new(c"ChaCha20-Poly1305", PROPERTIES, symmetric::CHACHA20_POLY1305),
    Algorithm::END,
];

static KEM: &[Algorithm] = &[
    Algorithm::new(ML_KEM_512, PROPERTIES, kem::TABLE),
    Algorithm::new(ML_KEM_768, PROPERTIES, kem::TABLE),
    Algorithm::new(ML_KEM_1024, PROPERTIES, kem::TABLE),
    Algorithm::END,
];

const ML_DSA_44: &CStr = c"ML-DSA-44:MLDSA44:id-ml-dsa-44:2.16.840.1.101.3.4.3.17";
const ML_DSA_65: &CStr = c"ML-DSA-65:MLDSA65:id-ml-dsa-65:2.16.840.1.101.3.4.3.18";
const ML_DSA_87: &CStr = c"ML-DSA-87:MLDSA87:id-ml-dsa-87:2.16.840.1.101.3.4.3.19";

const ML_KEM_512: &CStr = c"ML-KEM-512:MLKEM512:id-alg-ml-kem-512:2.16.840.1.101.3.4.4.1";
const ML_KEM_768: &CStr = c"ML-KEM-768:MLKEM768:id-alg-ml-kem-768:2.16.840.1.101.3.4.4.2";
const ML_KEM_1024: &CStr = c"ML-KEM-1024:MLKEM1024:id-alg-ml-kem-1024:2.16.840.1.101.3.4.4.3";

static KEYMGMT: &[Algorithm] = &[
    Algorithm::new(c"RSA:rsaEncryption:1.2.840.113549.1.1.1", PROPERTIES, keymgmt::RSA),
    Algorithm::new(c"RSA-PSS:RSASSA-PSS:1.2.840.113549.1.1.10", PROPERTIES, keymgmt::RSA_PSS),
    Algorithm::new(c"EC:id-ecPublicKey:1.2.840.10045.2.1", PROPERTIES, keymgmt::EC),
    Algorithm::new(c"ED25519:1.3.101.112", PROPERTIES, keymgmt::ED25519),
    Algorithm::new(c"X25519:1.3.101.110", PROPERTIES, keymgmt::X25519),
    Algorithm::new(ML_DSA_44, PROPERTIES, keymgmt::ML_DSA_44),
    Algorithm::new(ML_DSA_65, PROPERTIES, keymgmt::ML_DSA_65),
    Algorithm::new(ML_DSA_87, PROPERTIES, keymgmt::ML_DSA_87),
    Algorithm::new(ML_KEM_512, PROPERTIES, kem::ML_KEM_512),
    Algorithm::new(ML_KEM_768, PROPERTIES, kem::ML_KEM_768),
    Algorithm::new(ML_KEM_1024, PROPERTIES, kem::ML_KEM_1024),
    Algorithm::END,
];

static SIGNATURE: &[Algorithm] = &[
    Algorithm::new(c"RSA:rsaEncryption:1.2.840.113549.1.1.1", PROPERTIES, signature::RSA),
    Algorithm::new(c"ECDSA", PROPERTIES, signature::ECDSA),
    Algorithm::new(c"ED25519:1.3.101.112", PROPERTIES, signature::ED25519),
    Algorithm::new(ML_DSA_44, PROPERTIES, ml_dsa::ML_DSA_44),
    Algorithm::new(ML_DSA_65, PROPERTIES, ml_dsa::ML_DSA_65),
    Algorithm::new(ML_DSA_87, PROPERTIES, ml_dsa::ML_DSA_87),
    Algorithm::END,
];

static EXCHANGE: &[Algorithm] = &[
    Algorithm::new(c"ECDH", PROPERTIES, exchange::TABLE),
    Algorithm::new(c"X25519:1.3.101.110", PROPERTIES, exchange::TABLE),
    Algorithm::END,
];

static ASYM_CIPHER: &[Algorithm] =
    &[Algorithm::new(c"RSA:rsaEncryption:1.2.840.113549.1.1.1", PROPERTIES, cipher::TABLE), Algorithm::END];

static STORE: &[Algorithm] = &[Algorithm::new(c"sealane", PROPERTIES, store::STORE), Algorithm::END];

static DECODER: &[Algorithm] = &[
    Algorithm::new(c"DER", c"provider=sealane,input=pem", store::PEM_TO_DER),
    Algorithm::new(c"RSA", c"provider=sealane,input=der", store::RSA_DER),
    Algorithm::new(c"RSA-PSS", c"provider=sealane,input=der", store::RSA_PSS_DER),
    Algorithm::new(c"EC", c"provider=sealane,input=der", store::EC_DER),
    Algorithm::new(c"ED25519", c"provider=sealane,input=der", store::ED25519_DER),
    Algorithm::new(c"X25519", c"provider=sealane,input=der", store::X25519_DER),
    Algorithm::new(c"ML-DSA-44", c"provider=sealane,input=der", store::ML_DSA_44_DER),
    Algorithm::new(c"ML-DSA-65", c"provider=sealane,input=der", store::ML_DSA_65_DER),
    Algorithm::new(c"ML-DSA-87", c"provider=sealane,input=der", store::ML_DSA_87_DER),
    Algorithm::END,
];

const PROPERTIES: &CStr = c"provider=sealane";

/// # Safety
/// The contract of provider functions, see the module: `no_cache` is null, or a writable number, aligned.
unsafe extern "C" fn query_operation(
    _: *mut c_void,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const Algorithm {
    if !no_cache.is_null() {
        // SAFETY: the contract: it is writable, and not null here.
        unsafe { no_cache.write(0) };
    }
    match operation {
        2 => CIPHER.as_ptr(),
        10 => KEYMGMT.as_ptr(),
        11 => EXCHANGE.as_ptr(),
        12 => SIGNATURE.as_ptr(),
        13 => ASYM_CIPHER.as_ptr(),
        14 => KEM.as_ptr(),
        21 => DECODER.as_ptr(),
        22 => STORE.as_ptr(),
        _ => null(),
    }
}

described! { gettable_params(*mut c_void):
    c"name" => 6,
    c"version" => 6,
    c"buildinfo" => 6,
    c"status" => params::INTEGER,
    c"operations" => params::UNSIGNED,
}

/// # Safety
/// The contract of provider functions, see the module: `array`.
unsafe extern "C" fn get_params(_: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: the contract: the array has a terminator, or is null.
    let params = unsafe { Params::new(array) };
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    let filled = params.fill_text(c"name", c"Sealane engine provider")
        && params.fill_text(c"version", VERSION)
        && params.fill_text(c"buildinfo", VERSION)
        && params.fill_number(c"status", 1)
        && params.fill_number(c"operations", counters::total().cast_signed());
    c_int::from(filled)
}

extern "C" fn get_reason_strings(_: *mut c_void) -> *const Item {
    static ITEMS: [Item; Reason::ALL.len() + 1] = {
        let mut items = [Item { id: 0, text: null() }; Reason::ALL.len() + 1];
        let mut at = 0;
        while at < Reason::ALL.len() {
            items[at] = Item { id: Reason::ALL[at].0 as c_uint, text: Reason::ALL[at].1.as_ptr() };
            at += 1;
        }
        items
    };
    ITEMS.as_ptr()
}

/// # Safety
/// The contract of provider functions, see the module: `provider`, which is used by nobody afterwards; all
/// other objects of the provider were freed.
unsafe extern "C" fn teardown(provider: *mut c_void) {
    // SAFETY: the contract: `OSSL_provider_init` made it.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    if let Some(path) = core.configured(c"counters") {
        // Nobody is left who could be told of a failure.
        let _ = counters::append_to(path.as_ref());
    }
    // SAFETY: the contract: `OSSL_provider_init` made it, and nobody uses it afterwards.
    unsafe { Context::<()>::free(provider) };
}

/// The functions of the provider.
static PROVIDER: &[Dispatch] = table![
    1024 => teardown,
    1025 => gettable_params,
    1026 => get_params,
    1027 => query_operation,
    1029 => get_reason_strings,
    1030 => groups::get_capabilities,
];

/// The entry point of the provider, which OpenSSL finds by this name (provider-base(7)).
///
/// # Safety
/// OpenSSL calls it, once for a provider: `functions` is null or a table with a terminator, whose functions
/// have the types of openssl/core_dispatch.h and may be called with `handle` until the provider is torn down;
/// `ours` and `context` are null or writable for a pointer, aligned. No other thread changes the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const c_void,
    functions: *const Dispatch,
    ours: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    if functions.is_null() || ours.is_null() || context.is_null() {
        return 0;
    }
    // SAFETY: the contract: the table has a terminator, and the places, which are not null, are writable.
    unsafe {
        let core = Core::of(handle, functions);
        if let Some(seconds) = core.configured(c"deadline") {
            crate::engine::set_deadline(&seconds);
        }
        context.write(Context::give(core, ()));
        ours.write(PROVIDER.as_ptr());
    }
    1
}
