//! Objects and their attributes (PKCS#11 2.40, section 5.7).

#![allow(unsafe_code)]

use super::{BAD, length_of, put, with_module};
use crate::attribute::Template;
use crate::refused::Refused;
use cryptoki_sys as c;

/// The maximum number of attributes of a template.
const ATTRIBUTES_MAX: usize = 1024;

/// The maximum length of an attribute's value in a search, in bytes: no object has a longer one.
const VALUE_BYTES_MAX: usize = 1 << 16;

/// The maximum number of handles that one call returns.
const FOUND_MAX: usize = 1 << 14;

fn attributes(template: *const c::CK_ATTRIBUTE, count: c::CK_ULONG) -> Result<usize, Refused> {
    let count = length_of(count)?;
    if count > ATTRIBUTES_MAX || (count > 0 && template.is_null()) { Err(BAD) } else { Ok(count) }
}

/// Reads a template with the values of its attributes.
///
/// # Safety
/// `template` is null, or readable for `count` attributes, each with a value that is null or readable for the
/// length that it states. No alignment is needed.
pub(super) unsafe fn read_template(
    template: *const c::CK_ATTRIBUTE,
    count: c::CK_ULONG,
) -> Result<Template, Refused> {
    let mut read = Template::new();
    for place in 0..attributes(template, count)? {
        // SAFETY: the contract: the template is readable for as many attributes as `count` says.
        let attribute = unsafe { template.add(place).read_unaligned() };
        let length = usize::try_from(attribute.ulValueLen).unwrap_or(usize::MAX);
        if length > VALUE_BYTES_MAX || (length > 0 && attribute.pValue.is_null()) {
            return Err(Refused(c::CKR_ATTRIBUTE_VALUE_INVALID));
        }
        let mut value = vec![0; length];
        if length > 0 {
            // SAFETY: the contract: the value, which is not null, is readable for the length that it states.
            unsafe { std::ptr::copy_nonoverlapping(attribute.pValue.cast(), value.as_mut_ptr(), length) };
        }
        read.push((attribute.type_, value));
    }
    Ok(read)
}

pub(super) extern "C" fn destroy_object(
    handle: c::CK_SESSION_HANDLE,
    object: c::CK_OBJECT_HANDLE,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |_| Ok(()))?;
        module.destroy(object)
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `template` is null or has `count` attributes, which
/// are written too; each value is null or writable for the length that the attribute states, and overlaps
/// neither the template nor another value.
pub(super) unsafe extern "C" fn get_attribute_value(
    handle: c::CK_SESSION_HANDLE,
    object: c::CK_OBJECT_HANDLE,
    template: *mut c::CK_ATTRIBUTE,
    count: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |_| Ok(()))?;
        let count = attributes(template, count)?;
        let object = module.item(object).ok_or(Refused(c::CKR_OBJECT_HANDLE_INVALID))?;
        let mut outcome = Ok(());
        for place in 0..count {
            // SAFETY: the contract: the template has as many attributes, and is not null unless there are
            // none.
            let (at, attribute) = unsafe { (template.add(place), template.add(place).read_unaligned()) };
            let filled = object.attribute(attribute.type_).and_then(|value| {
                let room = usize::try_from(attribute.ulValueLen).unwrap_or(usize::MAX);
                if attribute.pValue.is_null() {
                    return Ok(value.len());
                }
                if room < value.len() {
                    return Err(Refused(c::CKR_BUFFER_TOO_SMALL));
                }
                // SAFETY: the contract: the value, which is not null, is writable for the length that it
                // states, which was compared.
                unsafe {
                    std::ptr::copy_nonoverlapping(value.as_ptr(), attribute.pValue.cast(), value.len())
                };
                Ok(value.len())
            });
            let length = filled.map_or(c::CK_UNAVAILABLE_INFORMATION, |length| length as c::CK_ULONG);
            // SAFETY: the contract: attributes are writable.
            unsafe { (&raw mut (*at).ulValueLen).write_unaligned(length) };
            outcome = outcome.and_then(|()| filled.map(|_| ()));
        }
        outcome
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `template` is null or has `count` attributes, each
/// with a value that is null or readable for the length that it states.
pub(super) unsafe extern "C" fn find_objects_init(
    handle: c::CK_SESSION_HANDLE,
    template: *mut c::CK_ATTRIBUTE,
    count: c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| session.may_search())?;
        // SAFETY: the contract: a template with as many attributes, or null.
        let wanted = unsafe { read_template(template, count) }?;
        let found = module.find(&wanted)?;
        module.with_session(handle, |session| session.start_search(found))
    })
}

/// # Safety
/// The contract of Cryptoki functions, see the module: `array` is null or has room for `places` handles;
/// `count` is null or has room for a number.
pub(super) unsafe extern "C" fn find_objects(
    handle: c::CK_SESSION_HANDLE,
    array: *mut c::CK_OBJECT_HANDLE,
    places: c::CK_ULONG,
    count: *mut c::CK_ULONG,
) -> c::CK_RV {
    with_module(|module| {
        module.with_session(handle, |session| {
            let places = length_of(places)?.min(FOUND_MAX);
            if count.is_null() || (places > 0 && array.is_null()) {
                return Err(BAD);
            }
            let found = session.next_found(places)?;
            for (place, object) in found.iter().enumerate() {
                // SAFETY: the contract: the array has at least as many places, and is not null unless there
                // are none.
                unsafe { array.add(place).write_unaligned(*object) };
            }
            // SAFETY: the contract: a place that is not null has room for it.
            unsafe { put(count, found.len() as c::CK_ULONG) }
        })
    })
}

pub(super) extern "C" fn find_objects_final(handle: c::CK_SESSION_HANDLE) -> c::CK_RV {
    with_module(|module| module.with_session(handle, |session| session.end_search()))
}
