//! provider-digest(7): SHA-1, SHA-2 and SHA-3.

#![allow(unsafe_code)]

use super::params::{INTEGER, Param, Params, UNSIGNED};
use super::{Context, Dispatch, bytes, descriptions, give, table};
use crate::counters::Counted;
use crate::library::{Digest, Hash};
use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::null_mut;

/// A digest with its place in [`Hash::ALL`].
struct Digesting {
    place: usize,
    digest: Digest,
}

type DigestContext = Context<Digesting>;

macro_rules! digest {
    ($place:literal) => {
        table![
            1 => new::<$place>,
            2 => init,
            3 => update,
            4 => finish,
            5 => digest::<$place>,
            6 => free,
            7 => duplicate,
            8 => get_params::<$place>,
            11 => gettable_params,
        ]
    };
}

pub(super) static SHA1: &[Dispatch] = digest!(0);
pub(super) static SHA224: &[Dispatch] = digest!(1);
pub(super) static SHA256: &[Dispatch] = digest!(2);
pub(super) static SHA384: &[Dispatch] = digest!(3);
pub(super) static SHA512: &[Dispatch] = digest!(4);
pub(super) static SHA512_224: &[Dispatch] = digest!(5);
pub(super) static SHA512_256: &[Dispatch] = digest!(6);
pub(super) static SHA3_224: &[Dispatch] = digest!(7);
pub(super) static SHA3_256: &[Dispatch] = digest!(8);
pub(super) static SHA3_384: &[Dispatch] = digest!(9);
pub(super) static SHA3_512: &[Dispatch] = digest!(10);

unsafe extern "C" fn new<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    let made = core.outcome(|| Ok(Digest::new(Hash::ALL[PLACE])?));
    made.map_or(null_mut(), |digest| DigestContext::give(core, Digesting { place: PLACE, digest }))
}

unsafe extern "C" fn free(context: *mut c_void) {
    // SAFETY: OpenSSL frees it once.
    unsafe { DigestContext::free(context) };
}

unsafe extern "C" fn duplicate(context: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { DigestContext::shared(context) };
    let made = own.core.outcome(|| Ok(own.value.digest.duplicate()?));
    let place = own.value.place;
    made.map_or(null_mut(), |digest| DigestContext::give(own.core, Digesting { place, digest }))
}

unsafe extern "C" fn init(context: *mut c_void, _: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { DigestContext::of(context) };
    let core = own.core;
    core.succeeds(|| Ok(own.value.digest.start()?))
}

unsafe extern "C" fn update(context: *mut c_void, data: *const c_uchar, length: usize) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`, and bytes with their length.
    let (own, data) = unsafe { (DigestContext::of(context), bytes(data, length)) };
    let core = own.core;
    core.succeeds(|| Ok(own.value.digest.update(data)?))
}

unsafe extern "C" fn finish(
    context: *mut c_void,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in a value of `new`.
    let own = unsafe { DigestContext::of(context) };
    let core = own.core;
    core.succeeds(|| {
        let Digesting { place, digest } = &mut own.value;
        Counted::digest(*place).add();
        let bytes = Hash::ALL[*place].bytes;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity.
        unsafe { give(out, length, capacity, bytes, || Ok(digest.finish()?[..bytes].to_vec())) }
    })
}

unsafe extern "C" fn digest<const PLACE: usize>(
    provider: *mut c_void,
    data: *const c_uchar,
    data_length: usize,
    out: *mut c_uchar,
    length: *mut usize,
    capacity: usize,
) -> c_int {
    // SAFETY: OpenSSL hands in the context of this provider, and bytes with their length.
    let (core, data) = unsafe { (Context::<()>::shared(provider).core, bytes(data, data_length)) };
    core.succeeds(|| {
        Counted::digest(PLACE).add();
        let mut digest = Digest::new(Hash::ALL[PLACE])?;
        digest.update(data)?;
        let bytes = Hash::ALL[PLACE].bytes;
        // SAFETY: OpenSSL hands in a place for the length, and a buffer of the capacity.
        unsafe { give(out, length, capacity, bytes, || Ok(digest.finish()?[..bytes].to_vec())) }
    })
}

unsafe extern "C" fn gettable_params(_: *mut c_void) -> *const Param {
    static TABLE: &[Param] = descriptions![
        c"blocksize" => UNSIGNED,
        c"size" => UNSIGNED,
        c"xof" => INTEGER,
        c"algid-absent" => INTEGER,
    ];
    TABLE.as_ptr()
}

unsafe extern "C" fn get_params<const PLACE: usize>(array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in an array with a terminator.
    let params = unsafe { Params::new(array) };
    let hash = &Hash::ALL[PLACE];
    // RFC 5754 and NIST's OIDs leave the parameters of an AlgorithmIdentifier out.
    let filled = params.fill_number(c"blocksize", hash.block_bytes as i64)
        && params.fill_number(c"size", hash.bytes as i64)
        && params.fill_number(c"xof", 0)
        && params.fill_number(c"algid-absent", 1);
    c_int::from(filled)
}
