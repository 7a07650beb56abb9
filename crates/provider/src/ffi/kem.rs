//! provider-kem(7) and the keys of it: ML-KEM, which OpenSSL 3.5 and later ask for. X25519MLKEM768 and the like of TLS
//! 1.3 are made by OpenSSL of these keys and those of curves.

#![allow(unsafe_code)]

use super::params::{Built, INTEGER, OCTET_STRING, Param, Params};
use super::{Context, Dispatch, Settable, bytes, described, descriptions, table};
use crate::counters::Counted;
use crate::library::{Kem, SECRET_BYTES, SEED_BYTES, Text};
use crate::reason::Reason;
use sealane_transform::ml_kem::MlKemSet;
use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock};
use zeroize::Zeroizing;

const PRIVATE: c_int = 1;
const PUBLIC: c_int = 2;

/// An object that OpenSSL makes before its content is known.
struct Object {
    set: MlKemSet,
    kem: OnceLock<Kem>,
}

type Key = Arc<Object>;
type KemKey = Context<Key>;
type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;

/// A table of the keys of a set, by its place in [`MlKemSet::ALL`].
macro_rules! keymgmt {
    ($set:literal) => {
        table![
            1 => new_key::<$set>,
            2 => gen_init::<$set>,
            4 => Generation::set_params,
            5 => gen_settable_params,
            6 => generate,
            7 => Generation::free,
            10 => KemKey::free,
            11 => get_params,
            12 => gettable_params,
            13 => set_params,
            14 => settable_params,
            21 => has,
            23 => matches,
            40 => import,
            41 => types,
            42 => export,
            43 => types,
            44 => duplicate_key,
        ]
    };
}

pub(super) static ML_KEM_512: &[Dispatch] = keymgmt!(0);
pub(super) static ML_KEM_768: &[Dispatch] = keymgmt!(1);
pub(super) static ML_KEM_1024: &[Dispatch] = keymgmt!(2);

/// Returns an object without content.
fn object(set: MlKemSet) -> Key {
    Arc::new(Object { set, kem: OnceLock::new() })
}

/// Returns an object with its content.
fn filled(kem: Kem) -> Key {
    Arc::new(Object { set: kem.set(), kem: OnceLock::from(kem) })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`.
unsafe extern "C" fn new_key<const SET: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    KemKey::give(core, object(MlKemSet::ALL[SET]))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key of this module.
unsafe extern "C" fn duplicate_key(key: *const c_void, selection: c_int) -> *mut c_void {
    // SAFETY: OpenSSL hands in a key of this provider. The content never changes, so both may share it.
    let own = unsafe { KemKey::shared(key.cast_mut()) };
    let copy = own.core.outcome(|| {
        let set = own.value.set;
        let public = match own.value.kem.get() {
            Some(kem) if selection & PUBLIC != 0 => kem.public()?,
            _ => return Ok(object(set)),
        };
        if selection & PRIVATE != 0 {
            return Ok(Arc::clone(&own.value));
        }
        Ok(filled(Kem::of_public(set, &public)?))
    });
    copy.map_or(null_mut(), |copy| KemKey::give(own.core, copy))
}

/// # Safety
/// `key` is null, or a key of this module that is not freed during `'a`. Other threads may use it.
unsafe fn kem<'a>(key: *const c_void) -> Option<&'a Kem> {
    if key.is_null() {
        return None;
    }
    // SAFETY: the contract: a KemKey that lives during the lifetime.
    unsafe { KemKey::shared(key.cast_mut()) }.value.kem.get()
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is null or a key of this module.
unsafe extern "C" fn has(key: *const c_void, selection: c_int) -> c_int {
    if key.is_null() {
        return 0;
    }
    // SAFETY: OpenSSL hands in a key of this provider.
    c_int::from(match unsafe { kem(key) } {
        Some(kem) => selection & PRIVATE == 0 || kem.has_private(),
        None => selection & (PRIVATE | PUBLIC) == 0,
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `one` and `other` are null or keys of this module.
unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    if selection & (PRIVATE | PUBLIC) == 0 {
        return 1;
    }
    // SAFETY: OpenSSL hands in two keys of this provider.
    let (Some(one), Some(other)) = (unsafe { (kem(one), kem(other)) }) else { return 0 };
    c_int::from(one.public().is_ok_and(|public| other.public() == Ok(public)))
}

described! { gettable_params(*mut c_void):
    c"bits" => INTEGER,
    c"security-bits" => INTEGER,
    c"max-size" => INTEGER,
    c"security-category" => INTEGER,
    c"pub" => OCTET_STRING,
    c"encoded-pub-key" => OCTET_STRING,
    c"priv" => OCTET_STRING,
    c"seed" => OCTET_STRING,
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key of this module; `array`.
unsafe extern "C" fn get_params(key: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider, and an array with a terminator.
    let (own, params) = unsafe { (KemKey::shared(key), Params::new(array)) };
    own.core.succeeds(|| {
        let set = own.value.set;
        // FIPS 203, tables 2 and 3: the categories are as strong as AES-128, 192 and 256.
        let (bits, security_bits, category) = match set {
            MlKemSet::MlKem512 => (512, 128, 1),
            MlKemSet::MlKem768 => (768, 192, 3),
            MlKemSet::MlKem1024 => (1024, 256, 5),
        };
        let mut filled = params.fill_number(c"bits", bits)
            && params.fill_number(c"security-bits", security_bits)
            && params.fill_number(c"security-category", category)
            && params.fill_number(c"max-size", set.ciphertext_bytes() as i64);
        if let Some(kem) = own.value.kem.get() {
            let public = kem.public()?;
            filled &= params.fill_octets(c"pub", &public) && params.fill_octets(c"encoded-pub-key", &public);
            if kem.has_private() && params.has(c"priv") {
                filled &= params.fill_octets(c"priv", &kem.private()?);
            }
            if let Some(seed) = kem.seed() {
                filled &= params.fill_octets(c"seed", seed);
            }
        }
        if filled { Ok(()) } else { Err(Reason::BufferTooSmall) }
    })
}

described! { settable_params(*mut c_void): c"encoded-pub-key" => OCTET_STRING }

/// Takes the encapsulation key of a peer in TLS.
///
/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key of this module; `array`.
unsafe extern "C" fn set_params(key: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider, and an array with a terminator.
    let (own, params) = unsafe { (KemKey::shared(key), Params::new(array)) };
    own.core.succeeds(|| match params.octets(c"encoded-pub-key") {
        Some(public) => fill(&own.value, Kem::of_public(own.value.set, public).map_err(|_| Reason::NoKey)?),
        None => Ok(()),
    })
}

fn fill(key: &Key, kem: Kem) -> Result<(), Reason> {
    key.kem.set(kem).map_err(|_| Reason::NoKey)
}

extern "C" fn types(_: c_int) -> *const Param {
    static TABLE: &[Param] =
        descriptions![c"pub" => OCTET_STRING, c"priv" => OCTET_STRING, c"seed" => OCTET_STRING];
    TABLE.as_ptr()
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key of this module; `array`.
unsafe extern "C" fn import(key: *mut c_void, selection: c_int, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider, and an array with a terminator.
    let (own, params) = unsafe { (KemKey::shared(key), Params::new(array)) };
    own.core.succeeds(|| {
        let (set, wants_private) = (own.value.set, selection & PRIVATE != 0);
        let (public, private, seed) = (params.octets(c"pub"), params.octets(c"priv"), params.octets(c"seed"));
        let kem = match (seed.filter(|_| wants_private), private.filter(|_| wants_private), public) {
            (Some(seed), ..) => Kem::of_seed(set, seed.try_into().map_err(|_| Reason::NoKey)?),
            (None, Some(private), _) => Kem::of_private(set, private),
            (None, None, Some(public)) => Kem::of_public(set, public),
            (None, None, None) => return Err(Reason::NoKey),
        };
        let kem = kem.map_err(|_| Reason::NoKey)?;
        // Parts that are given must belong together.
        if public.is_some_and(|public| kem.public().is_ok_and(|own| own != public)) {
            return Err(Reason::NoKey);
        }
        if let (true, Some(private)) = (wants_private, private)
            && kem.private()?[..] != *private
        {
            return Err(Reason::NoKey);
        }
        fill(&own.value, kem)
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key of this module; `callback` may be called
/// with `argument`.
unsafe extern "C" fn export(
    key: *mut c_void,
    selection: c_int,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider.
    let own = unsafe { KemKey::shared(key) };
    let built = own.core.outcome(|| {
        let kem = own.value.kem.get().ok_or(Reason::NoKey)?;
        let mut built = Built::default();
        if selection & PUBLIC != 0 {
            built.octets(c"pub", &kem.public()?);
        }
        if selection & PRIVATE != 0 && kem.has_private() {
            built.octets(c"priv", &kem.private()?);
            if let Some(seed) = kem.seed() {
                built.octets(c"seed", seed);
            }
        }
        Ok(built)
    });
    let (Some(built), Some(callback)) = (built, callback) else { return 0 };
    // SAFETY: OpenSSL's own function with its argument, and an array with a terminator.
    built.with(|array| unsafe { callback(array, argument) })
}

/// The properties of a key to be made.
struct Wanted {
    set: MlKemSet,
    /// The seed, if it is prescribed.
    seed: Option<Zeroizing<[u8; SEED_BYTES]>>,
    /// Whether it is only an object that gets a peer's half later.
    is_empty: bool,
}

type Generation = Context<Wanted>;

impl Settable for Wanted {
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason> {
        if let Some(seed) = params.octets(c"seed") {
            self.seed = Some(Zeroizing::new(seed.try_into().map_err(|_| Reason::BadContent)?));
        }
        Ok(())
    }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`; `array`.
unsafe extern "C" fn gen_init<const SET: usize>(
    provider: *mut c_void,
    selection: c_int,
    array: *const Param,
) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    let is_empty = selection & (PRIVATE | PUBLIC) == 0;
    let generation = Generation::give(core, Wanted { set: MlKemSet::ALL[SET], seed: None, is_empty });
    // SAFETY: it was made just now; the array is OpenSSL's.
    if unsafe { Generation::set_params(generation, array) } == 1 {
        return generation;
    }
    // SAFETY: no other code has it.
    unsafe { Generation::free(generation) };
    null_mut()
}

described! { gen_settable_params(*mut c_void, *mut c_void): c"seed" => OCTET_STRING }

/// # Safety
/// The contract of provider functions, see [`super`]: `generation` is a value of [`gen_init`]. The callback
/// and its argument are not used.
unsafe extern "C" fn generate(generation: *mut c_void, _: *mut c_void, _: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `gen_init`.
    let own = unsafe { Generation::shared(generation) };
    let made = own.core.outcome(|| {
        let Wanted { set, seed, is_empty } = &own.value;
        if *is_empty {
            return Ok(object(*set));
        }
        Ok(filled(match seed {
            Some(seed) => Kem::of_seed(*set, seed)?,
            None => Kem::generate(*set)?,
        }))
    });
    made.map_or(null_mut(), |key| KemKey::give(own.core, key))
}

/// An operation with its key.
type KemContext = Context<Option<Key>>;

pub(super) static TABLE: &[Dispatch] = table![
    1 => KemContext::begin,
    2 => init,
    3 => encapsulate,
    4 => init,
    5 => decapsulate,
    6 => KemContext::free,
    7 => KemContext::duplicate,
];

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy; `key`
/// is null or a key of this module. The array is not used.
unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, _: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`.
    let own = unsafe { KemContext::of(context) };
    let core = own.core;
    core.succeeds(|| {
        if key.is_null() {
            return Err(Reason::NoKey);
        }
        // SAFETY: OpenSSL hands in a key of this provider.
        own.value = Some(Arc::clone(unsafe { &KemKey::shared(key).value }));
        Ok(())
    })
}

fn content(context: &KemContext) -> Result<&Kem, Reason> {
    context.value.as_ref().and_then(|key| key.kem.get()).ok_or(Reason::NoKey)
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy.
/// `out_length` is null, or a readable and writable number, aligned; `out` is null, or writable for as many
/// bytes as `out_length` states, or the ciphertext's length if that is null. The same holds for `secret` and
/// `secret_length`, with [`SECRET_BYTES`].
unsafe extern "C" fn encapsulate(
    context: *mut c_void,
    out: *mut c_uchar,
    out_length: *mut usize,
    secret: *mut c_uchar,
    secret_length: *mut usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`.
    let own = unsafe { KemContext::shared(context) };
    own.core.succeeds(|| {
        // SAFETY: OpenSSL hands in places for the lengths or null, and buffers of these lengths or null.
        unsafe {
            let capacity = place(out_length, content(own)?.set().ciphertext_bytes());
            let secret_capacity = place(secret_length, SECRET_BYTES);
            if out.is_null() {
                return Ok(());
            }
            Counted::ENCAPSULATE.add();
            let (ciphertext, shared) = content(own)?.encapsulate()?;
            let too_small = |_| Reason::BufferTooSmall;
            Text::new(null(), 0, secret, secret_capacity).write(0, &*shared).map_err(too_small)?;
            Text::new(null(), 0, out, capacity).write(0, &ciphertext).map_err(too_small)
        }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `context` is a value of `begin` or a copy;
/// `ciphertext` has `length` bytes or is null. `secret_length` is null, or a readable and writable number,
/// aligned; `secret` is null, or writable for as many bytes as `secret_length` states, or [`SECRET_BYTES`] if
/// that is null.
unsafe extern "C" fn decapsulate(
    context: *mut c_void,
    secret: *mut c_uchar,
    secret_length: *mut usize,
    ciphertext: *const c_uchar,
    length: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `begin`, and bytes with their length.
    let (own, ciphertext) = unsafe { (KemContext::shared(context), bytes(ciphertext, length)) };
    own.core.succeeds(|| {
        // SAFETY: OpenSSL hands in a place for the length or null, and a buffer of that length or null.
        unsafe {
            let capacity = place(secret_length, SECRET_BYTES);
            if secret.is_null() {
                return Ok(());
            }
            Counted::DECAPSULATE.add();
            let shared = content(own)?.decapsulate(ciphertext).map_err(|_| Reason::BadContent)?;
            Text::new(null(), 0, secret, capacity).write(0, &*shared).map_err(|_| Reason::BufferTooSmall)
        }
    })
}

/// Returns the capacity that a place states, and writes the length of the outcome to it.
///
/// # Safety
/// `place` is null, or a readable and writable number, aligned.
unsafe fn place(place: *mut usize, length: usize) -> usize {
    if place.is_null() {
        return length;
    }
    // SAFETY: the contract: it is readable and writable, and not null here.
    unsafe { place.replace(length) }
}
