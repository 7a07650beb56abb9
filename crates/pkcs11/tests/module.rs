//! The module as a program sees it that loads it: results are checked by AWS-LC, and calls in the wrong order or with
//! wrong values are answered as the standard says.
//!
//! A process has one module, so each test runs in a process of its own: this program, started again.

#![allow(unsafe_code)]

#[path = "../../service/tests/common/mod.rs"]
mod common;

use common::Engine;
use cryptoki_sys as c;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sealane_asymmetric::{PublicKey, Verification};
use sealane_client::{Hash, KeyKind};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable by which the module finds its service.
const SOCKET: &str = "SEALANE_ENGINE";

/// The variable by which this program, started again, finds its folder.
const FOLDER: &str = "SEALANE_PKCS11_TEST";

const KEYS: [(&str, KeyKind); 5] = [
    ("ec", KeyKind::P256),
    ("ec384", KeyKind::P384),
    ("ec521", KeyKind::P521),
    ("ed", KeyKind::Ed25519),
    ("rsa", KeyKind::Rsa { bits: 2048 }),
];

/// Returns the path of the tested library.
fn library() -> PathBuf {
    common::library("libsealane_pkcs11.so")
}

/// Runs a test in a process of its own, with a folder that is removed afterwards.
fn alone(name: &str, test: fn(&Path)) {
    if let Some(folder) = env::var_os(FOLDER) {
        return test(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]);
    command.env(FOLDER, folder.path()).env(SOCKET, folder.path().join("socket"));
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&told));
}

/// Runs a test in a process of its own, with an engine and a session of the module.
fn with_session(name: &str, test: fn(&Engine, &Module, c::CK_SESSION_HANDLE)) {
    if let Some(folder) = env::var_os(FOLDER) {
        let engine = engine(Path::new(&folder));
        let module = Module::initialized();
        return test(&engine, &module, module.open().unwrap());
    }
    alone(name, |_| ());
}

/// Calls a function of the module.
macro_rules! call {
    ($module:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let function = $module.functions.$name.expect("every function is there");
        // SAFETY: the arguments are of the function's types, and pointers are null or to values of this test with the
        // stated lengths, except where the module must refuse before it follows them.
        unsafe { function($($argument),*) }
    }};
}

#[path = "module/making.rs"]
mod making;
#[path = "module/ml_dsa.rs"]
mod ml_dsa;

/// The loaded module.
struct Module {
    functions: c::CK_FUNCTION_LIST,
}

fn outcome<T>(returned: c::CK_RV, value: T) -> Result<T, c::CK_RV> {
    if returned == c::CKR_OK { Ok(value) } else { Err(returned) }
}

fn mechanism(kind: c::CK_MECHANISM_TYPE) -> c::CK_MECHANISM {
    c::CK_MECHANISM { mechanism: kind, pParameter: null_mut(), ulParameterLen: 0 }
}

fn attribute<T>(kind: c::CK_ATTRIBUTE_TYPE, value: &T) -> c::CK_ATTRIBUTE {
    let length = size_of_val(value) as c::CK_ULONG;
    c::CK_ATTRIBUTE { type_: kind, pValue: (&raw const *value).cast_mut().cast(), ulValueLen: length }
}

fn length(bytes: &[u8]) -> c::CK_ULONG {
    bytes.len() as c::CK_ULONG
}

impl Module {
    fn load() -> Self {
        let mut list = null_mut();
        // SAFETY: the library is a module of PKCS#11, and its list is a constant; it is never unloaded.
        let functions = unsafe {
            let library = c::Pkcs11::new(library()).unwrap();
            assert_eq!(library.C_GetFunctionList(null_mut()), c::CKR_ARGUMENTS_BAD);
            assert_eq!(library.C_GetFunctionList(&mut list), c::CKR_OK);
            std::mem::forget(library);
            *list
        };
        Self { functions }
    }

    fn initialized() -> Self {
        let module = Self::load();
        assert_eq!(call!(module, C_Initialize(null_mut())), c::CKR_OK);
        module
    }

    fn open(&self) -> Result<c::CK_SESSION_HANDLE, c::CK_RV> {
        let mut session = 0;
        let returned = call!(self, C_OpenSession(0, c::CKF_SERIAL_SESSION, null_mut(), None, &mut session));
        outcome(returned, session)
    }

    fn slots(&self, with_token: bool) -> c::CK_ULONG {
        let mut count = 0;
        let with_token = if with_token { c::CK_TRUE } else { c::CK_FALSE };
        assert_eq!(call!(self, C_GetSlotList(with_token, null_mut(), &mut count)), c::CKR_OK);
        count
    }

    /// Returns the objects that match a template.
    fn find(
        &self,
        session: c::CK_SESSION_HANDLE,
        template: &mut [c::CK_ATTRIBUTE],
    ) -> Vec<c::CK_OBJECT_HANDLE> {
        let count = template.len() as c::CK_ULONG;
        assert_eq!(call!(self, C_FindObjectsInit(session, template.as_mut_ptr(), count)), c::CKR_OK);
        let mut all = Vec::new();
        loop {
            let (mut some, mut found) = ([0; 3], 0);
            assert_eq!(call!(self, C_FindObjects(session, some.as_mut_ptr(), 3, &mut found)), c::CKR_OK);
            if found == 0 {
                break;
            }
            all.extend(&some[..found as usize]);
        }
        assert_eq!(call!(self, C_FindObjectsFinal(session)), c::CKR_OK);
        all
    }

    /// Returns the private and the public object of a name.
    fn halves(&self, session: c::CK_SESSION_HANDLE, name: &str) -> [c::CK_OBJECT_HANDLE; 2] {
        [c::CKO_PRIVATE_KEY, c::CKO_PUBLIC_KEY].map(|class| {
            let label = c::CK_ATTRIBUTE {
                type_: c::CKA_LABEL,
                pValue: name.as_ptr().cast_mut().cast(),
                ulValueLen: length(name.as_bytes()),
            };
            let found = self.find(session, &mut [attribute(c::CKA_CLASS, &class), label]);
            assert_eq!(found.len(), 1, "{name}");
            found[0]
        })
    }

    fn value(
        &self,
        session: c::CK_SESSION_HANDLE,
        object: c::CK_OBJECT_HANDLE,
        kind: c::CK_ATTRIBUTE_TYPE,
    ) -> Result<Vec<u8>, c::CK_RV> {
        let mut asked = c::CK_ATTRIBUTE { type_: kind, pValue: null_mut(), ulValueLen: 7 };
        let returned = call!(self, C_GetAttributeValue(session, object, &mut asked, 1));
        if returned != c::CKR_OK {
            assert_eq!(asked.ulValueLen, c::CK_UNAVAILABLE_INFORMATION);
            return Err(returned);
        }
        let mut value = vec![0xaa; asked.ulValueLen as usize];
        asked.pValue = value.as_mut_ptr().cast();
        assert_eq!(call!(self, C_GetAttributeValue(session, object, &mut asked, 1)), c::CKR_OK);
        assert_eq!(asked.ulValueLen, length(&value));
        Ok(value)
    }

    /// Signs in one part.
    fn sign(
        &self,
        session: c::CK_SESSION_HANDLE,
        mut mechanism: c::CK_MECHANISM,
        key: c::CK_OBJECT_HANDLE,
        data: &[u8],
    ) -> Result<Vec<u8>, c::CK_RV> {
        outcome(call!(self, C_SignInit(session, &mut mechanism, key)), ())?;
        let mut out = vec![0; 8192];
        let (data, data_length) = (data.as_ptr().cast_mut(), length(data));
        let mut out_length = length(&out);
        let returned = call!(self, C_Sign(session, data, data_length, out.as_mut_ptr(), &mut out_length));
        out.truncate(out_length as usize);
        outcome(returned, out)
    }

    fn verify(
        &self,
        session: c::CK_SESSION_HANDLE,
        mut mechanism: c::CK_MECHANISM,
        key: c::CK_OBJECT_HANDLE,
        [data, signature]: [&[u8]; 2],
    ) -> c::CK_RV {
        assert_eq!(call!(self, C_VerifyInit(session, &mut mechanism, key)), c::CKR_OK);
        let (text, text_length) = (data.as_ptr().cast_mut(), length(data));
        let (made, made_length) = (signature.as_ptr().cast_mut(), length(signature));
        call!(self, C_Verify(session, text, text_length, made, made_length))
    }
}

/// Starts a service with a key of each kind.
fn engine(folder: &Path) -> Engine {
    let engine = Engine::start(folder, None);
    let mut client = engine.client();
    for (name, kind) in KEYS {
        client.generate(name, kind).unwrap();
    }
    client.generate("exchange", KeyKind::X25519).unwrap();
    engine
}

fn public(engine: &Engine, name: &str) -> PublicKey {
    PublicKey::of_der(&engine.client().open(name).unwrap().info.public).unwrap()
}

fn digest(message: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, message).as_ref().to_vec()
}

#[test]
fn the_service_is_a_token_that_may_come_and_go() {
    alone("the_service_is_a_token_that_may_come_and_go", |folder| {
        let module = Module::initialized();
        assert_eq!((module.slots(false), module.slots(true)), (1, 0));
        let (mut slot, mut token) = (c::CK_SLOT_INFO::default(), c::CK_TOKEN_INFO::default());
        assert_eq!(call!(module, C_GetSlotInfo(0, &mut slot)), c::CKR_OK);
        assert_eq!(slot.flags & c::CKF_TOKEN_PRESENT, 0);
        assert_eq!(call!(module, C_GetTokenInfo(0, &mut token)), c::CKR_TOKEN_NOT_PRESENT);
        assert_eq!(module.open(), Err(c::CKR_TOKEN_NOT_PRESENT));
        let mut engine = engine(folder);
        assert_eq!(module.slots(true), 1);
        assert_eq!(call!(module, C_GetSlotInfo(0, &mut slot)), c::CKR_OK);
        assert_ne!(slot.flags & c::CKF_TOKEN_PRESENT, 0);
        assert_eq!(call!(module, C_GetTokenInfo(0, &mut token)), c::CKR_OK);
        assert!(token.label.starts_with(b"Sealane engine  "));
        assert_eq!(token.flags & c::CKF_LOGIN_REQUIRED, 0);
        let session = module.open().unwrap();
        let [rsa, _] = module.halves(session, "rsa");
        assert!(module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text").is_ok());
        engine.stop();
        let gone = module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text");
        assert_eq!((gone, module.slots(true)), (Err(c::CKR_DEVICE_REMOVED), 0));
        engine.start_again();
        assert!(module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text").is_ok());
        assert_eq!(call!(module, C_Finalize(null_mut())), c::CKR_OK);
    });
}

#[test]
fn objects_are_keys_with_their_public_halves() {
    with_session("objects_are_keys_with_their_public_halves", |engine, module, session| {
        assert_eq!(module.find(session, &mut []).len(), 2 * (KEYS.len() + 1));
        for (name, kind) in KEYS {
            let [private, public] = module.halves(session, name);
            let value = |object, attribute| module.value(session, object, attribute);
            let info = engine.client().open(name).unwrap().info;
            assert_eq!(value(public, c::CKA_PUBLIC_KEY_INFO).unwrap(), info.public, "{name}");
            assert_eq!(value(private, c::CKA_ID), value(public, c::CKA_ID), "{name}");
            assert_eq!(value(private, c::CKA_ID).unwrap().len(), 20);
            assert_eq!(value(private, c::CKA_SENSITIVE), Ok(vec![1]));
            assert_eq!(value(private, c::CKA_EXTRACTABLE), Ok(vec![0]));
            assert_eq!(value(public, c::CKA_SENSITIVE), Err(c::CKR_ATTRIBUTE_TYPE_INVALID));
            let secret = if name == "rsa" { c::CKA_PRIVATE_EXPONENT } else { c::CKA_VALUE };
            assert_eq!(value(private, secret), Err(c::CKR_ATTRIBUTE_SENSITIVE));
            let number = if name == "rsa" { c::CKA_MODULUS } else { c::CKA_EC_POINT };
            let number = value(public, number).unwrap();
            // A point is within an OCTET STRING, whose head has two or three bytes.
            let number = &number[if number[1] == 0x81 { 3 } else { 2 }..];
            assert!(info.public.windows(number.len()).any(|window| window == number), "{name}");
            let allowed = value(private, c::CKA_ALLOWED_MECHANISMS).unwrap();
            assert_eq!(allowed.len() % size_of::<c::CK_MECHANISM_TYPE>(), 0);
            assert!(!allowed.is_empty(), "{kind}");
        }
        // One call with attributes of all kinds fills those that there are.
        let [private, _] = module.halves(session, "rsa");
        let (mut label, mut flag, mut small) = ([0; 8], [9], [0; 4]);
        let mut asked = [
            attribute(c::CKA_PRIME_1, &[0; 512]),
            attribute(c::CKA_LABEL, &label),
            attribute(c::CKA_EC_POINT, &[0; 512]),
            attribute(c::CKA_SIGN, &flag),
            attribute(c::CKA_MODULUS, &small),
        ];
        for (place, bytes) in [(1, label.as_mut_slice()), (3, flag.as_mut_slice()), (4, small.as_mut_slice())]
        {
            asked[place].pValue = bytes.as_mut_ptr().cast();
        }
        let returned = call!(module, C_GetAttributeValue(session, private, asked.as_mut_ptr(), 5));
        assert_eq!(returned, c::CKR_ATTRIBUTE_SENSITIVE);
        let unknown = c::CK_UNAVAILABLE_INFORMATION;
        assert_eq!(asked.map(|attribute| attribute.ulValueLen), [unknown, 3, unknown, 1, unknown]);
        assert_eq!((&label[..3], flag), (&b"rsa"[..], [1]));
        // A key that the service removes loses its handles, and another one of its name gets new ones.
        module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), private, b"text").unwrap();
        engine.client().remove("rsa").unwrap();
        assert_eq!(module.find(session, &mut []).len(), 2 * KEYS.len());
        let removed = module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), private, b"text");
        assert_eq!(removed, Err(c::CKR_KEY_HANDLE_INVALID));
        engine.client().generate("rsa", KeyKind::Rsa { bits: 2048 }).unwrap();
        let [other, _] = module.halves(session, "rsa");
        let signature = module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), other, b"text").unwrap();
        let how = Verification::Pkcs1(Some(Hash::Sha256));
        assert!(public(engine, "rsa").verifies(how, &digest(b"text"), &signature));
        // One that is replaced while nobody searches is not used in place of the other.
        engine.client().remove("rsa").unwrap();
        engine.client().generate("rsa", KeyKind::Rsa { bits: 2048 }).unwrap();
        for _ in 0..2 {
            let replaced = module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), other, b"text");
            assert_eq!(replaced, Err(c::CKR_KEY_HANDLE_INVALID));
        }
    });
}

#[test]
fn signatures_are_valid_and_verified() {
    with_session("signatures_are_valid_and_verified", |engine, module, session| {
        let message = b"a message".repeat(100);
        let hashed = digest(&message);
        let mut parameters =
            c::CK_RSA_PKCS_PSS_PARAMS { hashAlg: c::CKM_SHA256, mgf: c::CKG_MGF1_SHA384, sLen: 17 };
        let pss = |kind, parameters: &mut c::CK_RSA_PKCS_PSS_PARAMS| c::CK_MECHANISM {
            mechanism: kind,
            pParameter: (&raw mut *parameters).cast(),
            ulParameterLen: size_of::<c::CK_RSA_PKCS_PSS_PARAMS>() as c::CK_ULONG,
        };
        let of_pss = Verification::Pss { hash: Hash::Sha256, mask: Hash::Sha384, salt_bytes: Some(17) };
        let of_pkcs1 = Verification::Pkcs1(Some(Hash::Sha256));
        for (name, mechanism, data, how) in [
            ("rsa", mechanism(c::CKM_SHA256_RSA_PKCS), &message, of_pkcs1),
            ("rsa", pss(c::CKM_RSA_PKCS_PSS, &mut parameters), &hashed, of_pss),
            ("rsa", pss(c::CKM_SHA256_RSA_PKCS_PSS, &mut parameters.clone()), &message, of_pss),
            ("ec", mechanism(c::CKM_ECDSA), &hashed, Verification::Ecdsa),
            ("ec", mechanism(c::CKM_ECDSA_SHA256), &message, Verification::Ecdsa),
            ("ec384", mechanism(c::CKM_ECDSA_SHA256), &message, Verification::Ecdsa),
            ("ed", mechanism(c::CKM_EDDSA), &message, Verification::Ed25519),
        ] {
            let [private, own_public] = module.halves(session, name);
            let mut signature = module.sign(session, mechanism, private, data).unwrap();
            let signed = if how == Verification::Ed25519 { &message } else { &hashed };
            let foreign = if how == Verification::Ecdsa { of_pair(&signature) } else { signature.clone() };
            assert!(public(engine, name).verifies(how, signed, &foreign), "{name} {how:?}");
            assert_eq!(
                module.verify(session, mechanism, own_public, [data, &signature]),
                c::CKR_OK,
                "{how:?}"
            );
            let short = &signature[1..];
            let returned = module.verify(session, mechanism, own_public, [data, short]);
            assert_eq!(returned, c::CKR_SIGNATURE_LEN_RANGE);
            signature[20] ^= 1;
            let returned = module.verify(session, mechanism, own_public, [data, &signature]);
            assert_eq!(returned, c::CKR_SIGNATURE_INVALID, "{name} {how:?}");
        }
        // Bytes that are padded as they are.
        let [private, own_public] = module.halves(session, "rsa");
        let signature = module.sign(session, mechanism(c::CKM_RSA_PKCS), private, b"not a digest").unwrap();
        assert!(public(engine, "rsa").verifies(Verification::Pkcs1(None), b"not a digest", &signature));
        let pair: [&[u8]; 2] = [b"not a digest", &signature];
        assert_eq!(module.verify(session, mechanism(c::CKM_RSA_PKCS), own_public, pair), c::CKR_OK);
        in_parts(module, session, &message);
    });
}

/// Returns the DER of an ECDSA signature whose numbers are as long as this.
fn of_pair(raw: &[u8]) -> Vec<u8> {
    let number = |half: &[u8]| {
        let zeros = half.iter().take_while(|byte| **byte == 0).count();
        let mut digits = half[zeros..].to_vec();
        if digits[0] >= 0x80 {
            digits.insert(0, 0);
        }
        [&[2, digits.len() as u8], &digits[..]].concat()
    };
    let (r, s) = raw.split_at(raw.len() / 2);
    let content = [number(r), number(s)].concat();
    [&[0x30, content.len() as u8], &content[..]].concat()
}

/// Signs and verifies a message in parts, with lengths and too little room between.
fn in_parts(module: &Module, session: c::CK_SESSION_HANDLE, message: &[u8]) {
    for (name, kind, bytes) in [("rsa", c::CKM_SHA512_RSA_PKCS, 256), ("ec384", c::CKM_ECDSA_SHA384, 96)] {
        let [private, public] = module.halves(session, name);
        let mut of_kind = mechanism(kind);
        assert_eq!(call!(module, C_SignInit(session, &mut of_kind, private)), c::CKR_OK);
        for part in message.chunks(77) {
            let (part, part_length) = (part.as_ptr().cast_mut(), length(part));
            assert_eq!(call!(module, C_SignUpdate(session, part, part_length)), c::CKR_OK);
        }
        let (mut signature, mut size) = ([0; 512], 0);
        assert_eq!(call!(module, C_SignFinal(session, null_mut(), &mut size)), c::CKR_OK);
        assert_eq!(size, bytes);
        size -= 1;
        let small = call!(module, C_SignFinal(session, signature.as_mut_ptr(), &mut size));
        assert_eq!((small, size), (c::CKR_BUFFER_TOO_SMALL, bytes));
        assert_eq!(call!(module, C_SignFinal(session, signature.as_mut_ptr(), &mut size)), c::CKR_OK);
        let ended = call!(module, C_SignFinal(session, signature.as_mut_ptr(), &mut size));
        assert_eq!(ended, c::CKR_OPERATION_NOT_INITIALIZED);
        let signature = &signature[..bytes as usize];
        assert_eq!(module.verify(session, mechanism(kind), public, [message, signature]), c::CKR_OK);
        assert_eq!(call!(module, C_VerifyInit(session, &mut of_kind, public)), c::CKR_OK);
        for part in message.chunks(50) {
            let (part, part_length) = (part.as_ptr().cast_mut(), length(part));
            assert_eq!(call!(module, C_VerifyUpdate(session, part, part_length)), c::CKR_OK);
        }
        let made = signature.as_ptr().cast_mut();
        assert_eq!(call!(module, C_VerifyFinal(session, made, bytes)), c::CKR_OK);
    }
}

#[test]
fn ciphertexts_are_decrypted_into_buffers_of_any_length() {
    with_session("ciphertexts_are_decrypted_into_buffers_of_any_length", |engine, module, session| {
        let [private, _] = module.halves(session, "rsa");
        let mut parameters = c::CK_RSA_PKCS_OAEP_PARAMS {
            hashAlg: c::CKM_SHA256,
            mgf: c::CKG_MGF1_SHA1,
            source: c::CKZ_DATA_SPECIFIED,
            ..Default::default()
        };
        let oaep = c::CK_MECHANISM {
            mechanism: c::CKM_RSA_PKCS_OAEP,
            pParameter: (&raw mut parameters).cast(),
            ulParameterLen: size_of_val(&parameters) as c::CK_ULONG,
        };
        for (mut mechanism, padding) in
            [(mechanism(c::CKM_RSA_PKCS), None), (oaep, Some((Hash::Sha256, Hash::Sha1)))]
        {
            let ciphertext = public(engine, "rsa").encrypt(padding, b"a secret").unwrap();
            let (data, data_length) = (ciphertext.as_ptr().cast_mut(), length(&ciphertext));
            let before: u64 = engine.client().status().unwrap().done.values().sum();
            assert_eq!(call!(module, C_DecryptInit(session, &mut mechanism, private)), c::CKR_OK);
            let (mut out, mut size) = ([0; 300], 0);
            let decrypt = |out: *mut u8, size: &mut c::CK_ULONG| {
                call!(module, C_Decrypt(session, data, data_length, out, size))
            };
            assert_eq!((decrypt(null_mut(), &mut size), size), (c::CKR_OK, 256));
            size = 7;
            assert_eq!((decrypt(out.as_mut_ptr(), &mut size), size), (c::CKR_BUFFER_TOO_SMALL, 8));
            assert_eq!((decrypt(null_mut(), &mut size), size), (c::CKR_OK, 8));
            assert_eq!((decrypt(out.as_mut_ptr(), &mut size), &out[..8]), (c::CKR_OK, &b"a secret"[..]));
            assert_eq!(decrypt(out.as_mut_ptr(), &mut size), c::CKR_OPERATION_NOT_INITIALIZED);
            let after: u64 = engine.client().status().unwrap().done.values().sum();
            assert_eq!(after, before + 1, "the service has decrypted once");
        }
        assert_eq!(
            call!(module, C_DecryptInit(session, &mut mechanism(c::CKM_RSA_PKCS), private)),
            c::CKR_OK
        );
        let (mut short, mut size) = ([0; 255], 255);
        let place = short.as_mut_ptr();
        let returned = call!(module, C_Decrypt(session, place, 255, place, &mut size));
        assert_eq!(returned, c::CKR_ENCRYPTED_DATA_LEN_RANGE);
    });
}

#[test]
fn wrong_calls_get_the_standards_answers() {
    alone("wrong_calls_get_the_standards_answers", |folder| {
        let engine = engine(folder);
        let module = Module::load();
        // Before the module is initialised.
        let (mut info, mut session, mut size) = (c::CK_INFO::default(), 0, 0);
        assert_eq!(call!(module, C_GetInfo(&mut info)), c::CKR_CRYPTOKI_NOT_INITIALIZED);
        assert_eq!(call!(module, C_Finalize(null_mut())), c::CKR_CRYPTOKI_NOT_INITIALIZED);
        assert_eq!(module.open(), Err(c::CKR_CRYPTOKI_NOT_INITIALIZED));
        extern "C" fn lock(_: *mut std::ffi::c_void) -> c::CK_RV {
            c::CKR_OK
        }
        let mut arguments = c::CK_C_INITIALIZE_ARGS { LockMutex: Some(lock), ..Default::default() };
        let initialize = |arguments: &mut c::CK_C_INITIALIZE_ARGS| {
            call!(module, C_Initialize((&raw mut *arguments).cast()))
        };
        assert_eq!(initialize(&mut arguments), c::CKR_ARGUMENTS_BAD);
        arguments = c::CK_C_INITIALIZE_ARGS { pReserved: (&raw mut size).cast(), ..Default::default() };
        assert_eq!(initialize(&mut arguments), c::CKR_ARGUMENTS_BAD);
        arguments = c::CK_C_INITIALIZE_ARGS { flags: c::CKF_OS_LOCKING_OK, ..Default::default() };
        assert_eq!(initialize(&mut arguments), c::CKR_OK);
        assert_eq!(initialize(&mut arguments), c::CKR_CRYPTOKI_ALREADY_INITIALIZED);
        assert_eq!(call!(module, C_Finalize((&raw mut size).cast())), c::CKR_ARGUMENTS_BAD);
        // Slots and sessions.
        assert_eq!(call!(module, C_GetInfo(null_mut())), c::CKR_ARGUMENTS_BAD);
        assert_eq!(call!(module, C_GetSlotList(1, null_mut(), null_mut())), c::CKR_ARGUMENTS_BAD);
        let mut slot = 7;
        assert_eq!(call!(module, C_GetSlotList(1, &mut slot, &mut size)), c::CKR_BUFFER_TOO_SMALL);
        assert_eq!(size, 1);
        assert_eq!(call!(module, C_GetSlotInfo(1, &mut c::CK_SLOT_INFO::default())), c::CKR_SLOT_ID_INVALID);
        let open = |flags, session| call!(module, C_OpenSession(0, flags, null_mut(), None, session));
        assert_eq!(open(c::CKF_SERIAL_SESSION, null_mut()), c::CKR_ARGUMENTS_BAD);
        assert_eq!(open(0, &mut session), c::CKR_SESSION_PARALLEL_NOT_SUPPORTED);
        let writing = c::CKF_SERIAL_SESSION | c::CKF_RW_SESSION;
        assert_eq!(open(writing, &mut session), c::CKR_OK);
        let mut state = c::CK_SESSION_INFO::default();
        assert_eq!(call!(module, C_GetSessionInfo(session, &mut state)), c::CKR_OK);
        assert_eq!((state.state, state.flags), (c::CKS_RW_PUBLIC_SESSION, writing));
        assert_eq!(call!(module, C_CloseSession(session)), c::CKR_OK);
        let session = module.open().unwrap();
        let many: Vec<_> = std::iter::repeat_with(|| module.open()).take(1024).collect();
        assert_eq!(many.iter().filter(|opened| **opened == Err(c::CKR_SESSION_COUNT)).count(), 1);
        for opened in many.into_iter().flatten() {
            assert_eq!(call!(module, C_CloseSession(opened)), c::CKR_OK);
            assert_eq!(call!(module, C_CloseSession(opened)), c::CKR_SESSION_HANDLE_INVALID);
        }
        // Logging in.
        let login =
            |user, pin: &[u8]| call!(module, C_Login(session, user, pin.as_ptr().cast_mut(), length(pin)));
        assert_eq!(call!(module, C_Logout(session)), c::CKR_USER_NOT_LOGGED_IN);
        assert_eq!(login(c::CKU_SO, b"1234"), c::CKR_USER_TYPE_INVALID);
        assert_eq!(login(77, b"1234"), c::CKR_USER_TYPE_INVALID);
        assert_eq!(call!(module, C_Login(session, c::CKU_USER, null_mut(), 4)), c::CKR_ARGUMENTS_BAD);
        assert_eq!(login(c::CKU_USER, b"any"), c::CKR_OK);
        assert_eq!(login(c::CKU_USER, b"any"), c::CKR_USER_ALREADY_LOGGED_IN);
        assert_eq!(call!(module, C_GetSessionInfo(session, &mut state)), c::CKR_OK);
        assert_eq!(state.state, c::CKS_RO_USER_FUNCTIONS);
        assert_eq!(call!(module, C_Logout(session)), c::CKR_OK);
        wrong_operations(&module, session);
        wrong_pointers(&module, session);
        // Afterwards it works as before.
        let [rsa, _] = module.halves(session, "rsa");
        let signature = module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text").unwrap();
        let how = Verification::Pkcs1(Some(Hash::Sha256));
        assert!(public(&engine, "rsa").verifies(how, &digest(b"text"), &signature));
        assert_eq!(call!(module, C_CloseAllSessions(0)), c::CKR_OK);
        let closed = module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text");
        assert_eq!(closed, Err(c::CKR_SESSION_HANDLE_INVALID));
        assert_eq!(call!(module, C_Finalize(null_mut())), c::CKR_OK);
        assert_eq!(module.open(), Err(c::CKR_CRYPTOKI_NOT_INITIALIZED));
    });
}

/// Wrong keys, wrong mechanisms, and the wrong order.
fn wrong_operations(module: &Module, session: c::CK_SESSION_HANDLE) {
    let [rsa, rsa_public] = module.halves(session, "rsa");
    let [ec, _] = module.halves(session, "ec");
    let sign = |kind, key, data: &[u8]| module.sign(session, mechanism(kind), key, data);
    assert_eq!(sign(c::CKM_MD5_RSA_PKCS, rsa, b""), Err(c::CKR_MECHANISM_INVALID));
    assert_eq!(sign(c::CKM_RSA_PKCS, 0, b""), Err(c::CKR_KEY_HANDLE_INVALID));
    assert_eq!(sign(c::CKM_RSA_PKCS, c::CK_ULONG::MAX, b""), Err(c::CKR_KEY_HANDLE_INVALID));
    assert_eq!(sign(c::CKM_RSA_PKCS, rsa_public, b""), Err(c::CKR_KEY_FUNCTION_NOT_PERMITTED));
    assert_eq!(sign(c::CKM_RSA_PKCS, ec, b""), Err(c::CKR_KEY_TYPE_INCONSISTENT));
    assert_eq!(sign(c::CKM_RSA_PKCS_PSS, rsa, b""), Err(c::CKR_MECHANISM_PARAM_INVALID));
    assert_eq!(sign(c::CKM_RSA_PKCS, rsa, &[0; 246]), Err(c::CKR_DATA_LEN_RANGE));
    assert_eq!(sign(c::CKM_ECDSA, ec, b""), Err(c::CKR_DATA_LEN_RANGE));
    let mut nothing = c::CK_MECHANISM { ulParameterLen: c::CK_ULONG::MAX, ..mechanism(c::CKM_RSA_PKCS_PSS) };
    let returned = call!(module, C_SignInit(session, &mut nothing, rsa));
    assert_eq!(returned, c::CKR_MECHANISM_PARAM_INVALID);
    assert_eq!(call!(module, C_SignInit(session, null_mut(), rsa)), c::CKR_ARGUMENTS_BAD);
    assert_eq!(call!(module, C_SignInit(session + 99, &mut nothing, rsa)), c::CKR_SESSION_HANDLE_INVALID);
    // One operation at a time, and one search.
    let mut pkcs1 = mechanism(c::CKM_SHA256_RSA_PKCS);
    let (mut out, mut size) = ([0; 512], 512);
    assert_eq!(
        call!(module, C_SignFinal(session, out.as_mut_ptr(), &mut size)),
        c::CKR_OPERATION_NOT_INITIALIZED
    );
    assert_eq!(call!(module, C_SignInit(session, &mut pkcs1, rsa)), c::CKR_OK);
    assert_eq!(call!(module, C_SignInit(session, &mut pkcs1, rsa)), c::CKR_OPERATION_ACTIVE);
    assert_eq!(call!(module, C_VerifyInit(session, &mut pkcs1, rsa_public)), c::CKR_OPERATION_ACTIVE);
    assert_eq!(call!(module, C_SignUpdate(session, out.as_mut_ptr(), 9)), c::CKR_OK);
    let place = out.as_mut_ptr();
    assert_eq!(call!(module, C_Sign(session, place, 9, place, &mut size)), c::CKR_OPERATION_ACTIVE);
    assert_eq!(call!(module, C_SignInit(session, &mut mechanism(c::CKM_ECDSA), ec)), c::CKR_OK);
    assert_eq!(call!(module, C_SignUpdate(session, place, 9)), c::CKR_FUNCTION_NOT_SUPPORTED);
    assert_eq!(call!(module, C_SignUpdate(session, place, 9)), c::CKR_OPERATION_NOT_INITIALIZED);
    assert_eq!(call!(module, C_FindObjectsFinal(session)), c::CKR_OPERATION_NOT_INITIALIZED);
    assert_eq!(call!(module, C_FindObjectsInit(session, null_mut(), 0)), c::CKR_OK);
    assert_eq!(call!(module, C_FindObjectsInit(session, null_mut(), 0)), c::CKR_OPERATION_ACTIVE);
    assert_eq!(call!(module, C_FindObjectsFinal(session)), c::CKR_OK);
    // Functions that are not there.
    let absent = c::CKR_FUNCTION_NOT_SUPPORTED;
    assert_eq!(call!(module, C_DigestInit(session, &mut pkcs1)), absent);
    assert_eq!(call!(module, C_WrapKey(session, &mut pkcs1, rsa, rsa, place, &mut size)), absent);
    assert_eq!(call!(module, C_DestroyObject(session, rsa)), c::CKR_ACTION_PROHIBITED);
    assert_eq!(call!(module, C_GenerateKey(session, &mut pkcs1, null_mut(), 0, &mut size)), absent);
    assert_eq!(call!(module, C_GetFunctionStatus(session)), c::CKR_FUNCTION_NOT_PARALLEL);
    assert_eq!(call!(module, C_SeedRandom(session, place, 9)), c::CKR_RANDOM_SEED_NOT_SUPPORTED);
    let before = out;
    assert_eq!(call!(module, C_GenerateRandom(session, out.as_mut_ptr(), 300)), c::CKR_OK);
    assert!(out[..300] != before[..300] && out[300..] == before[300..]);
}

/// Null pointers, impossible lengths, and pointers at odd addresses.
fn wrong_pointers(module: &Module, session: c::CK_SESSION_HANDLE) {
    let [rsa, _] = module.halves(session, "rsa");
    let huge = c::CK_ULONG::MAX;
    let (mut byte, mut size) = (0u8, 0);
    let mut pkcs1 = mechanism(c::CKM_SHA256_RSA_PKCS);
    for (data, data_length, size) in
        [(null_mut(), 4, &raw mut size), (&raw mut byte, huge, &raw mut size), (&raw mut byte, 1, null_mut())]
    {
        assert_eq!(call!(module, C_SignInit(session, &mut pkcs1, rsa)), c::CKR_OK);
        let out = &raw mut byte;
        assert_eq!(call!(module, C_Sign(session, data, data_length, out, size)), c::CKR_ARGUMENTS_BAD);
        // The operation is as it was.
        let (mut out, mut size) = ([0; 256], 256);
        let returned = call!(module, C_Sign(session, &mut byte, 1, out.as_mut_ptr(), &mut size));
        assert_eq!(returned, c::CKR_OK);
    }
    assert_eq!(call!(module, C_GenerateRandom(session, null_mut(), 4)), c::CKR_ARGUMENTS_BAD);
    assert_eq!(call!(module, C_GenerateRandom(session, &mut byte, huge)), c::CKR_ARGUMENTS_BAD);
    let mut asked = attribute(c::CKA_LABEL, &byte);
    for count in [1025, huge] {
        let returned = call!(module, C_GetAttributeValue(session, rsa, &mut asked, count));
        assert_eq!(returned, c::CKR_ARGUMENTS_BAD);
        assert_eq!(call!(module, C_FindObjectsInit(session, &mut asked, count)), c::CKR_ARGUMENTS_BAD);
    }
    assert_eq!(call!(module, C_GetAttributeValue(session, rsa, null_mut(), 1)), c::CKR_ARGUMENTS_BAD);
    let returned = call!(module, C_GetAttributeValue(session, huge, &mut asked, 1));
    assert_eq!(returned, c::CKR_OBJECT_HANDLE_INVALID);
    for value in [huge, 1 << 17] {
        asked.ulValueLen = value;
        let returned = call!(module, C_FindObjectsInit(session, &mut asked, 1));
        assert_eq!(returned, c::CKR_ATTRIBUTE_VALUE_INVALID);
    }
    let mut nowhere = c::CK_ATTRIBUTE { type_: c::CKA_LABEL, pValue: null_mut(), ulValueLen: 4 };
    let returned = call!(module, C_FindObjectsInit(session, &mut nowhere, 1));
    assert_eq!(returned, c::CKR_ATTRIBUTE_VALUE_INVALID);
    // A program may pack its structures.
    let mut odd = [0u8; 33];
    let place = odd[1..].as_mut_ptr();
    assert_eq!(
        call!(module, C_GetSlotList(0, place.cast(), place.wrapping_add(8).cast())),
        c::CKR_BUFFER_TOO_SMALL
    );
    assert_eq!(call!(module, C_GetSlotList(0, place.cast(), place.wrapping_add(8).cast())), c::CKR_OK);
    assert_eq!(&odd[9..17], 1u64.to_ne_bytes());
}

/// Calls with random values: whatever comes, the module writes nothing beyond the room that it has, does not panic, and
/// works afterwards.
#[test]
fn random_calls_do_no_harm() {
    alone("random_calls_do_no_harm", |folder| {
        let _engine = engine(folder);
        let module = Module::initialized();
        let mut sessions = [module.open().unwrap(), module.open().unwrap()];
        let mut mechanisms = [0; 32];
        let mut count = length(&[0; 32]);
        assert_eq!(call!(module, C_GetMechanismList(0, mechanisms.as_mut_ptr(), &mut count)), c::CKR_OK);
        assert_eq!(module.find(sessions[0], &mut []).len(), 2 * (KEYS.len() + 1));
        let mut random = SplitMix64::seed_from_u64(34);
        let mut below = |limit: u64| random.next_u64() % limit;
        let mut done = 0;
        for _ in 0..20_000 {
            for session in &mut sessions {
                if call!(module, C_GetSessionInfo(*session, &mut c::CK_SESSION_INFO::default())) != c::CKR_OK
                {
                    *session = module.open().unwrap();
                }
            }
            let session = if below(50) == 0 { below(9) } else { sessions[below(2) as usize] };
            let key = below(2 * (KEYS.len() as u64 + 1) + 4);
            let mut parameter: [u64; 5] =
                std::array::from_fn(|_| [0, 1, 2, 32, 0x250, 0x220][below(6) as usize]);
            let mut chosen = mechanism(mechanisms[below(count) as usize]);
            if below(3) == 0 {
                chosen.pParameter = parameter.as_mut_ptr().cast();
                chosen.ulParameterLen = [0, 8, 24, 40][below(4) as usize];
            }
            let mut data = [7u8; 300];
            // A context is where its pointer says, as in an honest call.
            if chosen.mechanism == c::CKM_ML_DSA {
                (parameter[1], parameter[2]) = (data.as_ptr() as u64, below(300));
            }
            let data_length = [0, 1, 20, 32, 64, 256, 300][below(7) as usize];
            let input = if below(20) == 0 { null_mut() } else { data.as_mut_ptr() };
            let mut out = [0xa5u8; 600];
            let room = [0, 1, 63, 64, 96, 255, 256, 512][below(8) as usize];
            let mut size = room;
            let output = if below(5) == 0 { null_mut() } else { out.as_mut_ptr() };
            let size_place = if below(20) == 0 { null_mut() } else { &raw mut size };
            let returned = match below(16) {
                0 | 1 => call!(module, C_SignInit(session, &mut chosen, key)),
                2 => call!(module, C_VerifyInit(session, &mut chosen, key)),
                3 => call!(module, C_DecryptInit(session, &mut chosen, key)),
                4 | 5 => call!(module, C_Sign(session, input, data_length, output, size_place)),
                6 => call!(module, C_SignUpdate(session, input, data_length)),
                7 => call!(module, C_SignFinal(session, output, size_place)),
                8 => call!(module, C_Verify(session, input, data_length, out.as_mut_ptr(), room)),
                9 => call!(module, C_VerifyUpdate(session, input, data_length)),
                10 => call!(module, C_VerifyFinal(session, input, data_length)),
                11 => call!(module, C_Decrypt(session, input, data_length, output, size_place)),
                12 => call!(module, C_FindObjects(session, out.as_mut_ptr().cast(), room / 8, size_place)),
                13 => {
                    let kind = below(0x200);
                    let mut asked = c::CK_ATTRIBUTE { type_: kind, pValue: output.cast(), ulValueLen: room };
                    call!(module, C_GetAttributeValue(session, key, &mut asked, 1))
                }
                14 if below(4) == 0 => call!(module, C_CloseSession(session)),
                14 => call!(module, C_FindObjectsFinal(session)),
                _ => {
                    let kind = below(0x200);
                    let mut asked =
                        c::CK_ATTRIBUTE { type_: kind, pValue: input.cast(), ulValueLen: data_length };
                    call!(module, C_FindObjectsInit(session, &mut asked, below(2)))
                }
            };
            assert_ne!(returned, c::CKR_GENERAL_ERROR);
            assert!(out[room as usize..].iter().all(|byte| *byte == 0xa5), "beyond {room} bytes");
            assert_eq!(data, [7; 300]);
            done += usize::from(returned == c::CKR_OK);
        }
        assert!(done > 2_000, "{done} calls have succeeded");
        let session = module.open().unwrap();
        let [rsa, _] = module.halves(session, "rsa");
        module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text").unwrap();
    });
}

#[test]
fn a_forked_child_starts_anew() {
    alone("a_forked_child_starts_anew", |folder| {
        let engine = engine(folder);
        let module = Module::initialized();
        let session = module.open().unwrap();
        let [rsa, _] = module.halves(session, "rsa");
        let sign = || module.sign(session, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text");
        sign().unwrap();
        // SAFETY: the child calls the module, as a forked program would, and ends without returning.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut info = c::CK_INFO::default();
            let steps = [
                call!(module, C_GetInfo(&mut info)) == c::CKR_CRYPTOKI_NOT_INITIALIZED,
                sign() == Err(c::CKR_CRYPTOKI_NOT_INITIALIZED),
                call!(module, C_Finalize(null_mut())) == c::CKR_CRYPTOKI_NOT_INITIALIZED,
                call!(module, C_Initialize(null_mut())) == c::CKR_OK,
                sign() == Err(c::CKR_SESSION_HANDLE_INVALID),
                module.open() == Ok(1),
                call!(module, C_FindObjectsInit(1, null_mut(), 0)) == c::CKR_OK,
                module.sign(1, mechanism(c::CKM_SHA256_RSA_PKCS), rsa, b"text").is_ok(),
                call!(module, C_Finalize(null_mut())) == c::CKR_OK,
            ];
            let wrong = steps.iter().position(|step| !step).map_or(0, |step| step as i32 + 1);
            // SAFETY: the child ends here, without the parent's destructors.
            unsafe { libc::_exit(wrong) };
        }
        let mut status = 0;
        // SAFETY: the child is this process's own.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status));
        assert_eq!(libc::WEXITSTATUS(status), 0, "the number of the child's step that was wrong");
        // The parent's sessions and connections are as they were.
        sign().unwrap();
        drop(engine);
    });
}

#[test]
fn threads_sign_side_by_side() {
    alone("threads_sign_side_by_side", |folder| {
        let engine = engine(folder);
        let module = Module::initialized();
        let signed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..40 {
                let (module, signed) = (&module, &signed);
                scope.spawn(move || {
                    let session = module.open().unwrap();
                    let name = KEYS[thread % KEYS.len()].0;
                    let ecdsa = c::CKM_ECDSA_SHA256;
                    let kinds = [ecdsa, ecdsa, ecdsa, c::CKM_EDDSA, c::CKM_SHA256_RSA_PKCS];
                    let kind = kinds[thread % KEYS.len()];
                    let [private, own_public] = module.halves(session, name);
                    for round in 0..5u8 {
                        let message = [thread as u8, round];
                        let signature = module.sign(session, mechanism(kind), private, &message).unwrap();
                        let pair = [&message[..], &signature];
                        assert_eq!(module.verify(session, mechanism(kind), own_public, pair), c::CKR_OK);
                        signed.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(call!(module, C_CloseSession(session)), c::CKR_OK);
                });
            }
        });
        assert_eq!(signed.into_inner(), 200);
        let (connections, jobs) = (engine.client().status().unwrap(), 200);
        assert_eq!(connections.done.values().sum::<u64>(), jobs, "the service has signed");
    });
}
