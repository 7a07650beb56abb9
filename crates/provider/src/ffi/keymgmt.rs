//! provider-keymgmt(7): keys are made, imported, described and exported, except the service's private keys, which are
//! never exported.

#![allow(unsafe_code)]

use super::params::{Built, INTEGER, OCTET_STRING, Param, Params, UNSIGNED, UTF8_STRING};
use super::signature::hash;
use super::{Context, Core, Dispatch, KeyContext, Settable, described, descriptions, key_of, table};
use crate::key::{self, Content, Family, KeyBox, Private};
use crate::reason::Reason;
use sealane_asymmetric::der::MlDsaParts;
use sealane_asymmetric::{PrivateKey, der};
use sealane_client::{Hash, KeyKind, PssLimits};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use zeroize::Zeroizing;

const PRIVATE: c_int = 1;
const PUBLIC: c_int = 2;
const DOMAIN_PARAMETERS: c_int = 4;

type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;

/// The names of an RSA key's integers, in the order of [`der::private_of_rsa`].
const RSA_PARTS: [&CStr; 8] = [
    c"n",
    c"e",
    c"d",
    c"rsa-factor1",
    c"rsa-factor2",
    c"rsa-exponent1",
    c"rsa-exponent2",
    c"rsa-coefficient1",
];

macro_rules! keymgmt {
    ($family:literal) => {
        table![
            1 => new::<$family>,
            2 => gen_init::<$family>,
            3 => gen_set_template,
            4 => Generation::set_params,
            5 => gen_settable_params::<$family>,
            6 => generate,
            7 => Generation::free,
            8 => load,
            10 => KeyContext::free,
            11 => get_params,
            12 => gettable_params,
            13 => set_params,
            14 => settable_params,
            20 => operation_name::<$family>,
            21 => has,
            22 => validate,
            23 => matches,
            40 => import,
            41 => types::<$family>,
            42 => export,
            43 => types::<$family>,
            44 => duplicate,
        ]
    };
}

pub(super) static RSA: &[Dispatch] = keymgmt!(0);
pub(super) static RSA_PSS: &[Dispatch] = keymgmt!(4);
pub(super) static EC: &[Dispatch] = keymgmt!(1);
pub(super) static ED25519: &[Dispatch] = keymgmt!(2);
pub(super) static X25519: &[Dispatch] = keymgmt!(3);
pub(super) static ML_DSA_44: &[Dispatch] = keymgmt!(5);
pub(super) static ML_DSA_65: &[Dispatch] = keymgmt!(6);
pub(super) static ML_DSA_87: &[Dispatch] = keymgmt!(7);

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`.
unsafe extern "C" fn new<const FAMILY: u8>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core = unsafe { Context::<()>::shared(provider) }.core;
    KeyContext::give(core, Arc::new(KeyBox::new(Family::of_number(FAMILY))))
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key.
unsafe extern "C" fn duplicate(key: *const c_void, selection: c_int) -> *mut c_void {
    // SAFETY: OpenSSL hands in a key of this provider. The content never changes, so both may share it.
    let own = unsafe { KeyContext::shared(key.cast_mut()) };
    let copy = own.core.outcome(|| {
        if selection & PRIVATE != 0 {
            return Ok(Arc::clone(&own.value));
        }
        Ok(Arc::new(if selection & PUBLIC != 0 {
            KeyBox::of(Content::of_public(own.value.content()?.public.der())?)
        } else {
            KeyBox::of_kind(own.value.kind()?)
        }))
    });
    copy.map_or(null_mut(), |copy| KeyContext::give(own.core, copy))
}

/// Takes over a key that the store or a decoder has made.
///
/// # Safety
/// The contract of provider functions, see [`super`]. `reference` is null; or `size` is not that of a
/// pointer; or it is the value `reference` of an array that `store::hand_over` made: readable and writable
/// for a pointer, with any alignment, until the callback returns.
unsafe extern "C" fn load(reference: *const c_void, size: usize) -> *mut c_void {
    if reference.is_null() || size != size_of::<*mut c_void>() {
        return null_mut();
    }
    let place = reference.cast::<*mut c_void>().cast_mut();
    // SAFETY: the contract: the place for one pointer that `store::hand_over` made; it is emptied so that the
    // pointer has one owner.
    unsafe {
        let key = place.read_unaligned();
        place.write_unaligned(null_mut());
        key
    }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is null or a key.
unsafe extern "C" fn has(key: *const c_void, selection: c_int) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider, or null for one that is not there yet.
    let Some(key) = (unsafe { key_of(key.cast_mut()) }) else { return 0 };
    c_int::from(match key.content() {
        Ok(content) => selection & PRIVATE == 0 || content.has_private(),
        Err(_) if selection & (PRIVATE | PUBLIC) != 0 => false,
        Err(_) => {
            selection & DOMAIN_PARAMETERS == 0
                || matches!(key.family, Family::Rsa | Family::RsaPss)
                || key.kind().is_ok()
        }
    })
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is null or a key.
unsafe extern "C" fn validate(key: *const c_void, selection: c_int, _: c_int) -> c_int {
    // SAFETY: the contract is that of `has`. A key that is present was checked when it was imported.
    unsafe { has(key, selection) }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `one` and `other` are null or keys.
unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    // SAFETY: OpenSSL hands in two keys of this provider.
    let (one, other) = unsafe { (key_of(one.cast_mut()), key_of(other.cast_mut())) };
    let (Some(one), Some(other)) = (one, other) else { return 0 };
    let (Ok(one_kind), Ok(other_kind)) = (one.kind(), other.kind()) else { return 0 };
    if selection & (PRIVATE | PUBLIC) == 0 {
        return c_int::from(one_kind == other_kind);
    }
    let (Ok(one), Ok(other)) = (one.content(), other.content()) else { return 0 };
    // OpenSSL asks with keys whose limits for PSS it has left out.
    let numbers =
        |content: &Content| der::of_rsa_public(content.public.der()).map(|(n, e)| [n.to_vec(), e.to_vec()]);
    c_int::from(match (numbers(one), numbers(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.public.der() == other.public.der(),
    })
}

extern "C" fn operation_name<const FAMILY: u8>(operation: c_int) -> *const c_char {
    let name = match (Family::of_number(FAMILY), operation) {
        (Family::Ec, 11) => c"ECDH",
        (Family::Ec, 12) => c"ECDSA",
        // The signatures of both kinds are in one table, as in OpenSSL.
        (Family::RsaPss, 12) => c"RSA",
        (family, _) => family.name(),
    };
    name.as_ptr()
}

fn group(kind: KeyKind) -> Option<&'static CStr> {
    match kind {
        KeyKind::P256 => Some(c"prime256v1"),
        KeyKind::P384 => Some(c"secp384r1"),
        KeyKind::P521 => Some(c"secp521r1"),
        _ => None,
    }
}

/// Returns OpenSSL's name of a hash.
fn name_of(hash: Hash) -> &'static CStr {
    match hash {
        Hash::Sha1 => c"SHA1",
        Hash::Sha224 => c"SHA2-224",
        Hash::Sha256 => c"SHA2-256",
        Hash::Sha384 => c"SHA2-384",
        Hash::Sha512 => c"SHA2-512",
    }
}

/// Returns the kind of a key for RSA-PSS with the limits in an array; a value that is missing beside others is the default.
fn pss_kind(bits: u16, params: Params<'_>) -> Result<KeyKind, Reason> {
    if ![c"digest", c"mgf", c"mgf1-digest", c"saltlen"].iter().any(|key| params.has(key)) {
        return Ok(KeyKind::RsaPss { bits, limits: None });
    }
    if params.text(c"mgf").is_some_and(|name| !name.eq_ignore_ascii_case("MGF1")) {
        return Err(Reason::Unsupported);
    }
    let default = PssLimits::DEFAULT;
    let salt_bytes = match params.number(c"saltlen") {
        Some(bytes) => u16::try_from(bytes).map_err(|_| Reason::Unsupported)?,
        None => default.salt_bytes,
    };
    let hash = hash(params, c"digest")?.unwrap_or(default.hash);
    let mask = self::hash(params, c"mgf1-digest")?.unwrap_or(default.mask);
    Ok(KeyKind::RsaPss { bits, limits: Some(PssLimits { hash, mask, salt_bytes }) })
}

fn kind_of_group(name: &str) -> Option<KeyKind> {
    match name.to_ascii_lowercase().as_str() {
        "prime256v1" | "p-256" | "secp256r1" => Some(KeyKind::P256),
        "secp384r1" | "p-384" => Some(KeyKind::P384),
        "secp521r1" | "p-521" => Some(KeyKind::P521),
        _ => None,
    }
}

described! { gettable_params(*mut c_void):
    c"bits" => INTEGER,
    c"security-bits" => INTEGER,
    c"max-size" => INTEGER,
    c"default-digest" => UTF8_STRING,
    c"group" => UTF8_STRING,
    c"pub" => OCTET_STRING,
    c"encoded-pub-key" => OCTET_STRING,
    c"n" => UNSIGNED,
    c"e" => UNSIGNED,
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key; `array`.
unsafe extern "C" fn get_params(key: *mut c_void, array: *mut Param) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider, and an array with a terminator.
    let (key, params) = unsafe { (KeyContext::shared(key), Params::new(array)) };
    key.core.succeeds(|| {
        let kind = key.value.kind()?;
        let mut filled = params.fill_number(c"bits", key::bits(kind).into())
            && params.fill_number(c"security-bits", key::security_bits(kind).into())
            && params.fill_number(c"max-size", key::size(kind) as i64);
        match key.value.family {
            // The empty name means that no digest is used.
            Family::Ed25519 | Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => {
                filled &= params.fill_text(c"mandatory-digest", c"");
            }
            Family::Rsa | Family::Ec => filled &= params.fill_text(c"default-digest", c"SHA256"),
            Family::RsaPss => match kind {
                KeyKind::RsaPss { limits: Some(limits), .. } => {
                    filled &= params.fill_text(c"mandatory-digest", name_of(limits.hash))
                        && params.fill_text(c"digest", name_of(limits.hash))
                        && params.fill_text(c"mgf1-digest", name_of(limits.mask))
                        && params.fill_number(c"saltlen", limits.salt_bytes.into());
                }
                _ => filled &= params.fill_text(c"default-digest", c"SHA256"),
            },
            Family::X25519 => {}
        }
        if let Some(group) = group(kind) {
            filled &= params.fill_text(c"group", group) && params.fill_text(c"point-format", c"uncompressed");
        }
        let Ok(content) = key.value.content() else {
            return if filled { Ok(()) } else { Err(Reason::BufferTooSmall) };
        };
        if let Some((n, e)) = der::of_rsa_public(content.public.der()) {
            filled &= params.fill_digits(c"n", n) && params.fill_digits(c"e", e);
        } else if let Some(point) = der::of_public(content.public.der()) {
            filled &= params.fill_octets(c"pub", point) && params.fill_octets(c"encoded-pub-key", point);
        }
        if filled { Ok(()) } else { Err(Reason::BufferTooSmall) }
    })
}

described! { settable_params(*mut c_void): c"encoded-pub-key" => OCTET_STRING }

/// Takes a peer's public half in a key agreement, as TLS has it on the wire.
///
/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key; `array`.
unsafe extern "C" fn set_params(key: *mut c_void, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider, and an array with a terminator.
    let (key, params) = unsafe { (KeyContext::shared(key), Params::new(array)) };
    key.core.succeeds(|| {
        let Some(point) = params.octets(c"encoded-pub-key") else { return Ok(()) };
        if !matches!(key.value.family, Family::Ec | Family::X25519) {
            return Err(Reason::Unsupported);
        }
        key.value.fill(Content::of_public(&der::public_of(key.value.kind()?, point))?)
    })
}

extern "C" fn types<const FAMILY: u8>(_: c_int) -> *const Param {
    static RSA_TYPES: &[Param] = descriptions![
        c"n" => UNSIGNED,
        c"e" => UNSIGNED,
        c"d" => UNSIGNED,
        c"rsa-factor1" => UNSIGNED,
        c"rsa-factor2" => UNSIGNED,
        c"rsa-exponent1" => UNSIGNED,
        c"rsa-exponent2" => UNSIGNED,
        c"rsa-coefficient1" => UNSIGNED,
    ];
    static EC_TYPES: &[Param] =
        descriptions![c"group" => UTF8_STRING, c"pub" => OCTET_STRING, c"priv" => UNSIGNED];
    static RAW_TYPES: &[Param] = descriptions![c"pub" => OCTET_STRING, c"priv" => OCTET_STRING];
    static ML_DSA_TYPES: &[Param] =
        descriptions![c"pub" => OCTET_STRING, c"priv" => OCTET_STRING, c"seed" => OCTET_STRING];
    static PSS_TYPES: &[Param] = descriptions![
        c"n" => UNSIGNED,
        c"e" => UNSIGNED,
        c"d" => UNSIGNED,
        c"rsa-factor1" => UNSIGNED,
        c"rsa-factor2" => UNSIGNED,
        c"rsa-exponent1" => UNSIGNED,
        c"rsa-exponent2" => UNSIGNED,
        c"rsa-coefficient1" => UNSIGNED,
        c"digest" => UTF8_STRING,
        c"mgf" => UTF8_STRING,
        c"mgf1-digest" => UTF8_STRING,
        c"saltlen" => INTEGER,
    ];
    match Family::of_number(FAMILY) {
        Family::RsaPss => PSS_TYPES.as_ptr(),
        Family::Rsa => RSA_TYPES.as_ptr(),
        Family::Ec => EC_TYPES.as_ptr(),
        Family::Ed25519 | Family::X25519 => RAW_TYPES.as_ptr(),
        Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => ML_DSA_TYPES.as_ptr(),
    }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key; `array`.
unsafe extern "C" fn import(key: *mut c_void, selection: c_int, array: *const Param) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider, and an array with a terminator.
    let (key, params) = unsafe { (KeyContext::shared(key), Params::new(array)) };
    key.core.succeeds(|| {
        let family = key.value.family;
        let private = if selection & PRIVATE == 0 { None } else { private_of(family, params) };
        let content = match private {
            Some(pkcs8) => Content::of_private(PrivateKey::of_pkcs8(&pkcs8).map_err(|_| Reason::NoKey)?)?,
            None => Content::of_public(&public_of(family, params).ok_or(Reason::Unsupported)?)?,
        };
        key.value.fill(content)
    })
}

/// Returns the kind of the RSA key in an array, of any length.
fn rsa_kind(family: Family, params: Params<'_>) -> Option<KeyKind> {
    if family == Family::Rsa { Some(KeyKind::Rsa { bits: 0 }) } else { pss_kind(0, params).ok() }
}

/// Returns the PKCS#8 of the key in an array; `None` if the array has no private key.
fn private_of(family: Family, params: Params<'_>) -> Option<Zeroizing<Vec<u8>>> {
    match family {
        Family::Rsa | Family::RsaPss => {
            let mut parts = std::array::from_fn::<_, 8, _>(|_| Zeroizing::new(Vec::new()));
            for (part, name) in parts.iter_mut().zip(RSA_PARTS) {
                *part = params.digits(name)?;
            }
            Some(der::private_of_rsa(rsa_kind(family, params)?, &parts))
        }
        Family::Ec => {
            let kind = kind_of_group(params.text(c"group")?)?;
            Some(der::private_of_ec(kind, &params.digits(c"priv")?))
        }
        Family::Ed25519 => Some(der::private_of_raw(KeyKind::Ed25519, params.octets(c"priv")?)),
        Family::X25519 => Some(der::private_of_raw(KeyKind::X25519, params.octets(c"priv")?)),
        Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => {
            let parts = MlDsaParts { seed: params.octets(c"seed"), expanded: params.octets(c"priv") };
            parts.seed.or(parts.expanded)?;
            Some(der::private_of_ml_dsa(family.ml_dsa()?, parts))
        }
    }
}

/// Returns the SubjectPublicKeyInfo of the key in an array.
fn public_of(family: Family, params: Params<'_>) -> Option<Vec<u8>> {
    match family {
        Family::Rsa | Family::RsaPss => {
            let kind = rsa_kind(family, params)?;
            Some(der::public_of_rsa(kind, &params.digits(c"n")?, &params.digits(c"e")?))
        }
        Family::Ec => Some(der::public_of(kind_of_group(params.text(c"group")?)?, params.octets(c"pub")?)),
        Family::Ed25519 => Some(der::public_of(KeyKind::Ed25519, params.octets(c"pub")?)),
        Family::X25519 => Some(der::public_of(KeyKind::X25519, params.octets(c"pub")?)),
        Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => {
            Some(der::public_of(KeyKind::MlDsa(family.ml_dsa()?), params.octets(c"pub")?))
        }
    }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `key` is a key; `callback` may be called with
/// `argument`.
unsafe extern "C" fn export(
    key: *mut c_void,
    selection: c_int,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: OpenSSL hands in a key of this provider.
    let key = unsafe { KeyContext::shared(key) };
    let built = key.core.outcome(|| {
        let content = key.value.content()?;
        let mut built = Built::default();
        describe(content, selection, &mut built)?;
        Ok(built)
    });
    let (Some(built), Some(callback)) = (built, callback) else { return 0 };
    // SAFETY: OpenSSL's own function with its argument, and an array with a terminator.
    built.with(|array| unsafe { callback(array, argument) })
}

/// # Errors
/// Fails if the private half is requested and the service holds it.
fn describe(content: &Content, selection: c_int, built: &mut Built) -> Result<(), Reason> {
    let der = content.public.der();
    if let Some(group) = group(content.kind)
        && selection & (DOMAIN_PARAMETERS | PUBLIC | PRIVATE) != 0
    {
        built.text(c"group", group);
    }
    if selection & (PUBLIC | PRIVATE) != 0 {
        match der::of_rsa_public(der) {
            Some((n, e)) => {
                built.digits(c"n", n);
                built.digits(c"e", e);
            }
            None => built.octets(c"pub", der::of_public(der).ok_or(Reason::NoKey)?),
        }
    }
    if let KeyKind::RsaPss { limits: Some(limits), .. } = content.kind {
        built.text(c"digest", name_of(limits.hash));
        built.text(c"mgf1-digest", name_of(limits.mask));
        built.integer(c"saltlen", limits.salt_bytes.into());
    }
    if selection & PRIVATE == 0 {
        return Ok(());
    }
    let pkcs8 = match &content.private {
        Private::Own(key) => key.to_pkcs8().map_err(|_| Reason::NoKey)?,
        // OpenSSL requests all parts even if a public half suffices, and then tries another way.
        Private::Nowhere => return Ok(()),
        Private::Engine(_) => return Err(Reason::NoPrivateKey),
    };
    match Family::of_kind(content.kind) {
        Family::Rsa | Family::RsaPss => {
            let parts = der::of_rsa_private(&pkcs8).ok_or(Reason::NoKey)?;
            for (part, name) in parts.iter().zip(RSA_PARTS).skip(2) {
                built.digits(name, part);
            }
        }
        Family::Ec => built.digits(c"priv", der::of_ec_private(&pkcs8).ok_or(Reason::NoKey)?),
        Family::Ed25519 | Family::X25519 => {
            built.octets(c"priv", der::of_raw_private(&pkcs8).ok_or(Reason::NoKey)?);
        }
        Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => {
            let MlDsaParts { seed, expanded } = der::of_ml_dsa_private(&pkcs8).ok_or(Reason::NoKey)?;
            seed.into_iter().for_each(|seed| built.octets(c"seed", seed));
            expanded.into_iter().for_each(|expanded| built.octets(c"priv", expanded));
        }
    }
    Ok(())
}

/// The properties of a key to be made.
struct Wanted {
    family: Family,
    kind: Option<KeyKind>,
    /// The requested parts: a pair of keys, or only the parameters of a curve.
    selection: c_int,
}

impl Wanted {
    /// Sets the length of an RSA key. Limits that were set before stay.
    fn set_kind(&mut self, kind: KeyKind) {
        self.kind = match (kind, self.kind) {
            (KeyKind::RsaPss { bits, .. }, Some(KeyKind::RsaPss { limits, .. })) => {
                Some(KeyKind::RsaPss { bits, limits })
            }
            (kind, _) => Some(kind),
        };
    }

    /// Takes the limits of a key for RSA-PSS that are in an array. They come one by one; the mask is by the hash of messages unless it
    /// is named, as OpenSSL makes keys.
    fn set_limits(&mut self, params: Params<'_>) -> Result<(), Reason> {
        let Some(KeyKind::RsaPss { bits, limits }) = self.kind else { return Ok(()) };
        let KeyKind::RsaPss { limits: Some(new), .. } = pss_kind(bits, params)? else { return Ok(()) };
        let mut all = limits.unwrap_or(PssLimits::DEFAULT);
        if params.has(c"digest") {
            (all.hash, all.mask) = (new.hash, new.hash);
            if limits.is_none() {
                all.salt_bytes = new.hash.bytes() as u16;
            }
        }
        if params.has(c"mgf1-digest") {
            all.mask = new.mask;
        }
        if params.has(c"saltlen") {
            all.salt_bytes = new.salt_bytes;
        }
        self.kind = Some(KeyKind::RsaPss { bits, limits: Some(all) });
        Ok(())
    }
}

type Generation = Context<Wanted>;

/// # Safety
/// The contract of provider functions, see [`super`]: `provider`; `array`.
unsafe extern "C" fn gen_init<const FAMILY: u8>(
    provider: *mut c_void,
    selection: c_int,
    array: *const Param,
) -> *mut c_void {
    // SAFETY: OpenSSL hands in the context of this provider.
    let core: Core = unsafe { Context::<()>::shared(provider) }.core;
    let family = Family::of_number(FAMILY);
    let kind = match family {
        Family::Rsa => Some(KeyKind::Rsa { bits: 2048 }),
        Family::RsaPss => Some(KeyKind::RsaPss { bits: 2048, limits: None }),
        Family::Ec => None,
        Family::Ed25519 => Some(KeyKind::Ed25519),
        Family::X25519 => Some(KeyKind::X25519),
        Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => family.ml_dsa().map(KeyKind::MlDsa),
    };
    let generation = Generation::give(core, Wanted { family, kind, selection });
    // SAFETY: it was made just now; the array is OpenSSL's.
    if unsafe { Generation::set_params(generation, array) } == 1 {
        return generation;
    }
    // SAFETY: no other code has it.
    unsafe { Generation::free(generation) };
    null_mut()
}

/// # Safety
/// The contract of provider functions, see [`super`]: `generation` is a value of [`gen_init`]; `template` is
/// null or a key.
unsafe extern "C" fn gen_set_template(generation: *mut c_void, template: *mut c_void) -> c_int {
    // SAFETY: OpenSSL hands in a value of `gen_init`, and a key of this provider.
    let (generation, template) = unsafe { (Generation::of(generation), key_of(template)) };
    let core = generation.core;
    core.succeeds(|| {
        generation.value.kind = Some(template.ok_or(Reason::NoKey)?.kind()?);
        Ok(())
    })
}

extern "C" fn gen_settable_params<const FAMILY: u8>(_: *mut c_void, _: *mut c_void) -> *const Param {
    static RSA_TABLE: &[Param] = descriptions![c"bits" => UNSIGNED, c"e" => UNSIGNED, c"primes" => UNSIGNED];
    static PSS_TABLE: &[Param] = descriptions![
        c"bits" => UNSIGNED,
        c"e" => UNSIGNED,
        c"primes" => UNSIGNED,
        c"digest" => UTF8_STRING,
        c"mgf1-digest" => UTF8_STRING,
        c"saltlen" => INTEGER,
    ];
    static EC_TABLE: &[Param] = descriptions![c"group" => UTF8_STRING];
    static NONE: &[Param] = descriptions![];
    match Family::of_number(FAMILY) {
        Family::Rsa => RSA_TABLE.as_ptr(),
        Family::RsaPss => PSS_TABLE.as_ptr(),
        Family::Ec => EC_TABLE.as_ptr(),
        Family::Ed25519 | Family::X25519 | Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => {
            NONE.as_ptr()
        }
    }
}

impl Settable for Wanted {
    fn set(&mut self, params: Params<'_>) -> Result<(), Reason> {
        match self.family {
            family @ (Family::Rsa | Family::RsaPss) => {
                if let Some(bits) = params.number(c"bits") {
                    let prefix = if family == Family::Rsa { "rsa" } else { "rsa-pss" };
                    let kind = format!("{prefix}-{bits}").parse().map_err(|_| Reason::Unsupported)?;
                    self.set_kind(kind);
                }
                self.set_limits(params)?;
                let exponent = params
                    .digits(c"e")
                    .is_none_or(|digits| digits.iter().skip_while(|digit| **digit == 0).eq([1, 0, 1].iter()));
                if !exponent || params.number(c"primes").is_some_and(|primes| primes != 2) {
                    return Err(Reason::Unsupported);
                }
            }
            Family::Ec => {
                if let Some(group) = params.text(c"group") {
                    self.kind = Some(kind_of_group(group).ok_or(Reason::Unsupported)?);
                }
            }
            Family::Ed25519 | Family::X25519 | Family::MlDsa44 | Family::MlDsa65 | Family::MlDsa87 => {}
        }
        Ok(())
    }
}

/// # Safety
/// The contract of provider functions, see [`super`]: `generation` is a value of [`gen_init`]. The callback
/// and its argument are not used.
unsafe extern "C" fn generate(generation: *mut c_void, _: *mut c_void, _: *mut c_void) -> *mut c_void {
    // SAFETY: OpenSSL hands in a value of `gen_init`.
    let generation = unsafe { Generation::of(generation) };
    let made = generation.core.outcome(|| {
        let kind = generation.value.kind.ok_or(Reason::Unsupported)?;
        if generation.value.selection & (PRIVATE | PUBLIC) == 0 {
            return Ok(KeyBox::of_kind(kind));
        }
        let key = PrivateKey::generate(kind).map_err(|_| Reason::Failed)?;
        Content::of_private(key).map(KeyBox::of)
    });
    made.map_or(null_mut(), |key| KeyContext::give(generation.core, Arc::new(key)))
}
