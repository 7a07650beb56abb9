//! OSSL_PARAM(3): arrays of named values, which either side fills in for the other.
//!
//! **Guarantees:** an array is read up to its terminator; a value is read and written within the length that it
//! states; a value of an unexpected type counts as absent.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use zeroize::Zeroizing;

pub(super) const INTEGER: c_uint = 1;
pub(super) const UNSIGNED: c_uint = 2;
pub(super) const UTF8_STRING: c_uint = 4;
pub(super) const OCTET_STRING: c_uint = 5;
const UTF8_PTR: c_uint = 6;
pub(super) const OCTET_PTR: c_uint = 7;

/// The returned size of a value that was not filled in.
const UNMODIFIED: usize = usize::MAX;

/// The maximum length of a text or string of octets.
const BYTES_MAX: usize = 1 << 20;

/// `struct ossl_param_st`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Param {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

// SAFETY: tables of descriptions hold pointers to constants, and are never written.
unsafe impl Sync for Param {}

impl Param {
    /// Returns a description of a value: its name and type.
    pub(super) const fn describe(key: &'static CStr, data_type: c_uint) -> Self {
        Self {
            key: key.as_ptr(),
            data_type,
            data: std::ptr::null_mut(),
            data_size: 0,
            return_size: UNMODIFIED,
        }
    }

    /// Returns a request for a pointer to a text, to be stored in `place`.
    pub(super) fn place(key: &'static CStr, place: &mut *const c_char) -> Self {
        let data = std::ptr::from_mut(place).cast();
        Self { data, data_size: size_of::<*const c_char>(), ..Self::describe(key, UTF8_PTR) }
    }

    /// The terminator.
    pub(super) const END: Self = Self {
        key: std::ptr::null(),
        data_type: 0,
        data: std::ptr::null_mut(),
        data_size: 0,
        return_size: 0,
    };

    /// Returns the bytes of the value, if it has this type. They live as long as the array.
    fn bytes<'a>(&self, data_type: c_uint) -> Option<&'a [u8]> {
        if self.data_type != data_type {
            return None;
        }
        if self.data.is_null() || self.data_size > BYTES_MAX {
            return (self.data_size == 0).then_some(&[]);
        }
        // SAFETY: by the promise of `Params::new` the value has as many bytes as it states.
        Some(unsafe { std::slice::from_raw_parts(self.data.cast(), self.data_size) })
    }

    pub(super) fn octets<'a>(&self) -> Option<&'a [u8]> {
        self.bytes(OCTET_STRING)
    }

    pub(super) fn number(&self) -> Option<i64> {
        let is_signed = self.data_type == INTEGER;
        let native = self.bytes(if is_signed { INTEGER } else { UNSIGNED })?;
        // Numbers that come as text on a command line have as many bytes as they need.
        let mut little: Vec<u8> = native.to_vec();
        if cfg!(target_endian = "big") {
            little.reverse();
        }
        let is_negative = is_signed && little.last()? >> 7 == 1;
        let mut wide = [if is_negative { 0xff } else { 0 }; 8];
        wide.get_mut(..little.len())?.copy_from_slice(&little);
        (!little.is_empty()).then(|| i64::from_le_bytes(wide))
    }

    /// Returns the number, unless it is negative.
    pub(super) fn length(&self) -> Option<usize> {
        self.number().and_then(|number| usize::try_from(number).ok())
    }

    /// Returns the size of the value's buffer.
    pub(super) fn size(&self) -> usize {
        self.data_size
    }

    /// Fills the value in; returns false if its buffer is too small or of another type.
    fn fill(&mut self, types: [c_uint; 2], bytes: &[u8]) -> bool {
        if !types.contains(&self.data_type) {
            return false;
        }
        self.return_size = bytes.len();
        if self.data.is_null() {
            return true;
        }
        if self.data_size < bytes.len() {
            return false;
        }
        // SAFETY: by the promise of `Params::new` the buffer has as many bytes as it states, and no other code uses it
        // meanwhile.
        let buffer = unsafe { std::slice::from_raw_parts_mut(self.data.cast::<u8>(), self.data_size) };
        buffer[..bytes.len()].copy_from_slice(bytes);
        // Texts end with a zero if there is room for it.
        if self.data_type == UTF8_STRING && buffer.len() > bytes.len() {
            buffer[bytes.len()] = 0;
        }
        true
    }

    pub(super) fn fill_octets(&mut self, octets: &[u8]) -> bool {
        self.fill([OCTET_STRING; 2], octets)
    }

    pub(super) fn fill_number(&mut self, number: i64) -> bool {
        match (self.data.is_null(), self.data_size) {
            (false, 4) => self.fill([INTEGER, UNSIGNED], &(number as c_int).to_ne_bytes()),
            _ => self.fill([INTEGER, UNSIGNED], &number.to_ne_bytes()),
        }
    }

    /// Fills in octets, or a pointer to them, if that is requested.
    ///
    /// # Safety
    /// `octets` stay where they are as long as OpenSSL may read them by the pointer: until the object to
    /// which they belong is used again. If the value is of the type of pointers, its `data` is null or
    /// writable for a pointer.
    pub(super) unsafe fn fill_octets_or_pointer(&mut self, octets: &[u8]) -> bool {
        if self.data_type != OCTET_PTR {
            return self.fill_octets(octets);
        }
        self.return_size = octets.len();
        if !self.data.is_null() {
            // SAFETY: the contract: a value of this type points to a place for a pointer.
            unsafe { self.data.cast::<*const u8>().write_unaligned(octets.as_ptr()) };
        }
        true
    }
}

/// An array that OpenSSL hands in for the time of one call.
#[derive(Clone, Copy)]
pub(super) struct Params<'a> {
    first: *mut Param,
    lifetime: PhantomData<&'a mut Param>,
}

impl<'a> Params<'a> {
    /// # Safety
    /// `first` is null, or points to an aligned array with a terminator. Array and memory of its values are
    /// valid for `'a`: names are strings that end with a zero byte; a value that is not null is readable for
    /// its size, and if it is filled in, writable, and overlaps neither the array, its names nor another
    /// value. No other code uses them during `'a`.
    pub(super) unsafe fn new(first: *const Param) -> Self {
        Self { first: first.cast_mut(), lifetime: PhantomData }
    }

    /// Returns the values with their names, for entries that are called for every message: one pass for all names.
    pub(super) fn each(self) -> impl Iterator<Item = (&'a [u8], &'a mut Param)> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            // SAFETY: by the promise of `new` each element up to the terminator can be read, names are strings, and no
            // element is returned twice.
            unsafe {
                let param = at.as_mut().filter(|param| !param.key.is_null())?;
                at = at.add(1);
                Some((CStr::from_ptr(param.key).to_bytes(), param))
            }
        })
    }

    fn find(self, key: &CStr) -> Option<&'a mut Param> {
        let mut at = self.first;
        if at.is_null() {
            return None;
        }
        // Most names differ in their first bytes: to measure the others' length first took an eighth of a short
        // message's time.
        let names = |name: *const c_char| {
            // SAFETY: a name is a string, which is read up to its end or to the first byte that differs.
            let is_same = |(at, byte): (usize, &u8)| unsafe { name.add(at).cast::<u8>().read() == *byte };
            key.to_bytes_with_nul().iter().enumerate().all(is_same)
        };
        // SAFETY: by the promise of `new` each element up to the terminator can be read, and names are strings.
        unsafe {
            while !(*at).key.is_null() {
                if names((*at).key) {
                    return Some(&mut *at);
                }
                at = at.add(1);
            }
        }
        None
    }

    pub(super) fn has(self, key: &CStr) -> bool {
        self.find(key).is_some()
    }

    fn bytes(self, key: &CStr, data_type: c_uint) -> Option<&'a [u8]> {
        self.find(key)?.bytes(data_type)
    }

    pub(super) fn text(self, key: &CStr) -> Option<&'a str> {
        let bytes = self.bytes(key, UTF8_STRING)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).ok()
    }

    pub(super) fn octets(self, key: &CStr) -> Option<&'a [u8]> {
        self.find(key)?.octets()
    }

    /// Returns a number of any size, with the most significant byte first.
    pub(super) fn digits(self, key: &CStr) -> Option<Zeroizing<Vec<u8>>> {
        let native = self.bytes(key, UNSIGNED).or_else(|| self.bytes(key, INTEGER))?;
        let mut digits = Zeroizing::new(native.to_vec());
        if cfg!(target_endian = "little") {
            digits.reverse();
        }
        Some(digits)
    }

    pub(super) fn number(self, key: &CStr) -> Option<i64> {
        self.find(key)?.number()
    }

    /// Fills a value in, if it is requested; returns false if its buffer is too small or of another type.
    fn fill(self, key: &CStr, types: [c_uint; 2], bytes: &[u8]) -> bool {
        self.find(key).is_none_or(|param| param.fill(types, bytes))
    }

    pub(super) fn fill_octets(self, key: &CStr, octets: &[u8]) -> bool {
        self.fill(key, [OCTET_STRING; 2], octets)
    }

    pub(super) fn fill_text(self, key: &CStr, text: &'static CStr) -> bool {
        if let Some(param) = self.find(key)
            && param.data_type == UTF8_PTR
        {
            param.return_size = text.count_bytes();
            if !param.data.is_null() {
                // SAFETY: a value of this type points to a place for a pointer; the text is static.
                unsafe { param.data.cast::<*const c_char>().write_unaligned(text.as_ptr()) };
            }
            return true;
        }
        self.fill(key, [UTF8_STRING; 2], text.to_bytes())
    }

    /// Fills in a text that is not static.
    pub(super) fn fill_string(self, key: &CStr, text: &CStr) -> bool {
        self.fill(key, [UTF8_STRING; 2], text.to_bytes())
    }

    /// Fills in a number of any size, given from its most significant byte on; the buffer may be longer.
    pub(super) fn fill_digits(self, key: &CStr, big_endian: &[u8]) -> bool {
        let Some(param) = self.find(key) else { return true };
        let size = if param.data.is_null() { big_endian.len() } else { param.data_size.min(BYTES_MAX) };
        if size < big_endian.len() {
            param.return_size = big_endian.len();
            return false;
        }
        let mut native = vec![0; size - big_endian.len()];
        native.extend_from_slice(big_endian);
        if cfg!(target_endian = "little") {
            native.reverse();
        }
        self.fill(key, [UNSIGNED, UNSIGNED], &native)
    }

    pub(super) fn fill_number(self, key: &CStr, number: i64) -> bool {
        self.find(key).is_none_or(|param| param.fill_number(number))
    }
}

/// An array that is handed out.
#[derive(Default)]
pub(super) struct Built {
    values: Vec<(&'static CStr, c_uint, Zeroizing<Vec<u8>>)>,
}

impl Built {
    pub(super) fn text(&mut self, key: &'static CStr, text: &CStr) {
        self.values.push((key, UTF8_STRING, Zeroizing::new(text.to_bytes_with_nul().to_vec())));
    }

    pub(super) fn octets(&mut self, key: &'static CStr, octets: &[u8]) {
        self.values.push((key, OCTET_STRING, Zeroizing::new(octets.to_vec())));
    }

    pub(super) fn integer(&mut self, key: &'static CStr, number: c_int) {
        self.values.push((key, INTEGER, Zeroizing::new(number.to_ne_bytes().to_vec())));
    }

    /// Adds a number of any size, given from its most significant byte on.
    pub(super) fn digits(&mut self, key: &'static CStr, big_endian: &[u8]) {
        let mut native = Zeroizing::new(big_endian.to_vec());
        if cfg!(target_endian = "little") {
            native.reverse();
        }
        self.values.push((key, UNSIGNED, native));
    }

    /// Calls `call` with the array.
    pub(super) fn with<T>(self, call: impl FnOnce(*const Param) -> T) -> T {
        self.with_last(call).0
    }

    /// Calls `call` with the array, into whose values it may write; returns the last value as well.
    pub(super) fn with_last<T>(mut self, call: impl FnOnce(*const Param) -> T) -> (T, Vec<u8>) {
        let mut params: Vec<Param> = self
            .values
            .iter_mut()
            .map(|(key, data_type, value)| Param {
                key: key.as_ptr(),
                data_type: *data_type,
                data: value.as_mut_ptr().cast(),
                // A text's final zero is present, but not counted.
                data_size: value.len() - usize::from(*data_type == UTF8_STRING),
                return_size: UNMODIFIED,
            })
            .collect();
        params.push(Param::END);
        let outcome = call(params.as_ptr());
        (outcome, self.values.pop().map(|(_, _, last)| last.to_vec()).unwrap_or_default())
    }
}
