//! Public-key operations of the loaded libcrypto by its EVP interface, behind safe keys and operations.
//!
//! It needs `unsafe` to call C. Guarantees: keys and contexts are freed once; a key is shared between threads only for
//! operations that read it; every pointer passed is a live slice with its own length; an operation is returned only if
//! its first result was right.
#![allow(unsafe_code, non_snake_case)]

use super::ffi::{Handle, OpenSsl, Parameter, UTF8_STRING};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// OSSL_PARAM_INTEGER and OSSL_PARAM_UNSIGNED_INTEGER.
const INTEGERS: [c_uint; 2] = [1, 2];

/// Bits of a short private exponent of Diffie-Hellman.
const EXPONENT_BITS: usize = 256;

/// Keys that are made of each kind; operations take them in turn.
pub(in super::super) const KEYS: usize = 8;

/// The bytes that are signed: a digest, as protocols sign.
const SIGNED: [u8; 32] = [0x5a; 32];
/// The message that is signed whole.
const MESSAGE: [u8; 64] = [0xa5; 64];

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// RSA, with the bits of the modulus.
    Rsa(usize),
    /// Diffie-Hellman in a group of RFC 3526, with the bits of its prime and of private exponents.
    Dh(usize, usize),
    X25519,
    Ed25519,
    /// P-256.
    P256,
    /// ML-KEM, by the number of its parameter set.
    MlKem(usize),
    /// ML-DSA, by the number of its parameter set.
    MlDsa(usize),
}

impl Kind {
    /// Returns the kind of keys for a step of an algorithm of the catalogue.
    pub(in super::super) fn of(algorithm: &str, step: &str) -> Option<Self> {
        let bits = |prefix: &str| algorithm.strip_prefix(prefix)?.parse::<usize>().ok();
        // The group's order is one bit shorter than the prime. OpenSSL refuses exponents that are shorter than twice the
        // group's strength, which in the largest group short ones are.
        let exponent_bits = |bits: usize| match step.ends_with("-full") {
            true => Some(bits - 1),
            false => (bits <= 3072).then_some(EXPONENT_BITS),
        };
        match algorithm {
            "x25519" => Some(Self::X25519),
            "ed25519" => Some(Self::Ed25519),
            "ecdh-p256" | "ecdsa-p256" => Some(Self::P256),
            _ => match (bits("rsa-"), bits("dh-"), bits("ml-dsa-"), bits("ml-kem-")) {
                (Some(bits), ..) => Some(Self::Rsa(bits)),
                (_, Some(bits), ..) => Some(Self::Dh(bits, exponent_bits(bits)?)),
                (_, _, Some(number), _) => Some(Self::MlDsa(number)),
                (.., Some(number)) => Some(Self::MlKem(number)),
                _ => None,
            },
        }
    }

    fn name(self) -> &'static CStr {
        match self {
            Self::Rsa(_) => c"RSA",
            Self::Dh(..) => c"DH",
            Self::X25519 => c"X25519",
            Self::Ed25519 => c"ED25519",
            Self::P256 => c"EC",
            Self::MlKem(512) => c"ML-KEM-512",
            Self::MlKem(768) => c"ML-KEM-768",
            Self::MlKem(_) => c"ML-KEM-1024",
            Self::MlDsa(44) => c"ML-DSA-44",
            Self::MlDsa(65) => c"ML-DSA-65",
            Self::MlDsa(_) => c"ML-DSA-87",
        }
    }

    fn group(self) -> Option<&'static CStr> {
        match self {
            Self::Dh(2048, _) => Some(c"modp_2048"),
            Self::Dh(3072, _) => Some(c"modp_3072"),
            Self::Dh(4096, _) => Some(c"modp_4096"),
            Self::P256 => Some(c"P-256"),
            _ => None,
        }
    }

    /// Returns what the library computes for a step of the catalogue.
    fn action(self, step: &str) -> Option<Action> {
        Some(match (self, step) {
            (Self::P256, "sign") => Action::Sign,
            (Self::P256, "verify") => Action::Verify,
            (Self::Ed25519 | Self::MlDsa(_), "sign") => Action::SignMessage,
            (Self::Ed25519 | Self::MlDsa(_), "verify") => Action::VerifyMessage,
            (Self::Rsa(_), "private") => Action::Private,
            (Self::Rsa(_), "public") => Action::Public,
            (Self::X25519 | Self::P256, "agree") | (Self::Dh(..), "agree" | "agree-full") => Action::Derive,
            // The library computes a public key only for a private one that it has just drawn.
            (Self::X25519 | Self::P256 | Self::Ed25519, "public")
            | (Self::Dh(..), "public" | "public-full")
            | (Self::MlKem(_) | Self::MlDsa(_), "generate") => Action::Generate,
            (Self::MlKem(_), "encapsulate") => Action::Encapsulate,
            (Self::MlKem(_), "decapsulate" | "decapsulate-own") => Action::Decapsulate,
            _ => return None,
        })
    }
}

/// The function that an operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Sign,
    Verify,
    SignMessage,
    VerifyMessage,
    /// RSA without padding.
    Private,
    /// RSA without padding.
    Public,
    Derive,
    Generate,
    Encapsulate,
    Decapsulate,
}

/// Returns whether this build of the library computes the step.
pub(super) fn has_step(library: &'static OpenSsl, algorithm: &str, step: &str) -> bool {
    let kind = Kind::of(algorithm, step).filter(|kind| kind.action(step).is_some());
    kind.and_then(|kind| generator(library, kind)).is_some()
}

/// A context of a key or of an algorithm, freed once.
struct Context(&'static OpenSsl, Handle);

impl Context {
    fn of_key(key: &Key) -> Option<Self> {
        let library = key.library;
        // SAFETY: the key is live; the context keeps a reference to it.
        let context = unsafe { (library.keys.EVP_PKEY_CTX_new_from_pkey)(null_mut(), key.handle, null()) };
        library.found(context).map(|context| Self(library, context))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is ours.
        unsafe { (self.0.keys.EVP_PKEY_CTX_free)(self.1) };
    }
}

/// Returns a context that generates keys.
fn generator(library: &'static OpenSsl, kind: Kind) -> Option<Context> {
    let functions = &library.keys;
    // SAFETY: the name is a C string.
    let context = unsafe { (functions.EVP_PKEY_CTX_new_from_name)(null_mut(), kind.name().as_ptr(), null()) };
    let context = Context(library, library.found(context)?);
    // SAFETY: the context is live.
    library.good(unsafe { (functions.EVP_PKEY_keygen_init)(context.1) }).then_some(())?;
    let mut parameters = Vec::new();
    match kind {
        Kind::Rsa(mut bits) => {
            set(
                library,
                &context,
                &[integer(c"bits", INTEGERS[1], (&raw mut bits).cast(), size_of::<usize>())],
            )?;
        }
        _ => parameters.extend(kind.group().map(|group| text(c"group", group))),
    }
    let mut exponent_bits = match kind {
        Kind::Dh(_, bits) => bits as c_int,
        _ => 0,
    };
    if exponent_bits > 0 {
        let value = (&raw mut exponent_bits).cast();
        parameters.push(integer(c"priv_len", INTEGERS[0], value, size_of::<c_int>()));
    }
    set(library, &context, &parameters)?;
    Some(context)
}

/// Returns a parameter with a number of the machine's own form; `value` is live until the parameter is used.
fn integer(key: &'static CStr, data_type: c_uint, value: *mut c_void, data_size: usize) -> Parameter {
    Parameter { key: key.as_ptr(), data_type, data: value, data_size, return_size: usize::MAX }
}

fn text(key: &'static CStr, value: &'static CStr) -> Parameter {
    Parameter {
        key: key.as_ptr(),
        data_type: UTF8_STRING,
        data: value.as_ptr().cast_mut().cast(),
        data_size: value.to_bytes().len(),
        return_size: usize::MAX,
    }
}

/// Sets parameters of a context, whose values are live.
fn set(library: &'static OpenSsl, context: &Context, parameters: &[Parameter]) -> Option<()> {
    if parameters.is_empty() {
        return Some(());
    }
    let end = Parameter { key: null(), data_type: 0, data: null_mut(), data_size: 0, return_size: 0 };
    let all: Vec<Parameter> = parameters.iter().copied().chain([end]).collect();
    // SAFETY: the list ends with a parameter without key; the values, which the callers made, live.
    let result = unsafe { (library.keys.EVP_PKEY_CTX_set_params)(context.1, all.as_ptr()) };
    library.good(result).then_some(())
}

/// A private key with its public key.
pub(in super::super) struct Key {
    library: &'static OpenSsl,
    kind: Kind,
    handle: Handle,
}

// SAFETY: a key is not changed after it was generated, its count of references is atomic, and the library allows any
// number of threads to use it.
unsafe impl Send for Key {}
// SAFETY: a key is not changed after it was generated, and its count of references is atomic.
unsafe impl Sync for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the key is ours.
        unsafe { (self.library.keys.EVP_PKEY_free)(self.handle) };
    }
}

impl Key {
    fn generate(library: &'static OpenSsl, kind: Kind) -> Option<Self> {
        let context = generator(library, kind)?;
        let mut handle = null_mut();
        // SAFETY: the context is live, and the result is ours.
        let result = unsafe { (library.keys.EVP_PKEY_generate)(context.1, &raw mut handle) };
        library.good(result).then_some(Self { library, kind, handle })
    }

    /// Returns [`KEYS`] keys of a kind, which are made at the first call.
    pub(in super::super) fn all(library: &'static OpenSsl, kind: Kind) -> Option<Vec<Arc<Self>>> {
        static MADE: Mutex<Vec<Arc<Key>>> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if made.iter().all(|key| key.kind != kind) {
            for _ in 0..KEYS {
                made.push(Arc::new(Self::generate(library, kind)?));
            }
        }
        Some(made.iter().filter(|key| key.kind == kind).cloned().collect())
    }

    /// Returns a number of the key, the least significant byte first.
    pub(in super::super) fn number(&self, name: &CStr) -> Option<Vec<u8>> {
        let functions = &self.library.keys;
        let mut number = null_mut();
        // SAFETY: the key is live, the name is a C string, and the result is ours; the buffer has the number's length.
        unsafe {
            let result = (functions.EVP_PKEY_get_bn_param)(self.handle, name.as_ptr(), &raw mut number);
            if !self.library.good(result) {
                return None;
            }
            let bytes = (functions.BN_num_bits)(number).cast_unsigned().div_ceil(8) as usize;
            let mut found = vec![0; bytes];
            (functions.BN_bn2lebinpad)(number, found.as_mut_ptr(), bytes as c_int);
            (functions.BN_clear_free)(number);
            Some(found)
        }
    }

    /// Returns the private and the public key of a curve whose keys are strings of 32 bytes.
    pub(in super::super) fn raw(&self) -> Option<[[u8; 32]; 2]> {
        let functions = &self.library.keys;
        let mut found = [[0; 32]; 2];
        let [private, public] = &mut found;
        let mut lengths = [32_usize; 2];
        // SAFETY: the key is live; both buffers have the lengths given.
        let results = unsafe {
            [
                (functions.EVP_PKEY_get_raw_private_key)(
                    self.handle,
                    private.as_mut_ptr(),
                    &raw mut lengths[0],
                ),
                (functions.EVP_PKEY_get_raw_public_key)(
                    self.handle,
                    public.as_mut_ptr(),
                    &raw mut lengths[1],
                ),
            ]
        };
        (results.iter().all(|&result| self.library.good(result)) && lengths == [32; 2]).then_some(found)
    }

    /// Returns the secret shared with another key.
    pub(in super::super) fn agree(&self, other: &Self) -> Option<Vec<u8>> {
        let context = Context::of_key(self)?;
        let functions = &self.library.keys;
        let mut output = vec![0; 1024];
        let mut bytes = output.len();
        // SAFETY: context and keys are live; the output is longer than any secret.
        let result = unsafe {
            c_int::from(
                (functions.EVP_PKEY_derive_init)(context.1) == 1
                    && (functions.EVP_PKEY_derive_set_peer)(context.1, other.handle) == 1
                    && (functions.EVP_PKEY_derive)(context.1, output.as_mut_ptr(), &raw mut bytes) == 1,
            )
        };
        output.truncate(bytes);
        self.library.good(result).then_some(output)
    }

    /// Returns whether a signature over a digest, or by Ed25519 over a message, is valid.
    pub(in super::super) fn verifies(self: &Arc<Self>, signature: &[u8], signed: &[u8]) -> Option<bool> {
        let action = self.kind.action("verify")?;
        let mut operation = Operation::bare(self, None, action)?;
        operation.input = signed.to_vec();
        operation.given = signature.to_vec();
        Some(operation.run())
    }

    /// Returns RSA's public operation without padding on a block, the most significant byte first.
    pub(in super::super) fn raised(self: &Arc<Self>, block: &[u8]) -> Option<Vec<u8>> {
        let mut operation = Operation::bare(self, None, Action::Public)?;
        operation.input = block.to_vec();
        operation.run().then(|| operation.result().to_vec())
    }
}

/// An operation of one key, prepared to be run repeatedly.
pub(in super::super) struct Operation {
    key: Arc<Key>,
    action: Action,
    context: Option<Context>,
    message_context: Handle,
    /// Whether a message context must be started again for every message.
    restarts: bool,
    /// The digest, message or block.
    input: Vec<u8>,
    /// The signature to verify.
    given: Vec<u8>,
    output: Vec<u8>,
    output_bytes: usize,
    secret: [u8; 64],
}

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: the context is ours; null is allowed.
        unsafe { (self.key.library.keys.EVP_MD_CTX_free)(self.message_context) };
    }
}

impl Operation {
    /// Returns a step of the catalogue with one key, after a first run whose result was right; `other` is the peer's key
    /// of an agreement.
    pub(in super::super) fn new(key: &Arc<Key>, other: &Arc<Key>, step: &str) -> Option<Self> {
        let action = key.kind.action(step)?;
        let mut operation = Self::bare(key, Some(other), action)?;
        let counterpart = match action {
            Action::Verify => Some(Action::Sign),
            Action::VerifyMessage => Some(Action::SignMessage),
            Action::Decapsulate => Some(Action::Encapsulate),
            _ => None,
        };
        if let Some(counterpart) = counterpart {
            let mut made = Self::bare(key, None, counterpart)?;
            made.run().then_some(())?;
            operation.given = made.result().to_vec();
            operation.secret = made.secret;
        }
        operation.is_right(other).then_some(operation)
    }

    fn bare(key: &Arc<Key>, other: Option<&Arc<Key>>, action: Action) -> Option<Self> {
        let (library, kind) = (key.library, key.kind);
        let functions = &library.keys;
        let mut operation = Self {
            key: key.clone(),
            action,
            context: None,
            message_context: null_mut(),
            restarts: false,
            input: match (action, kind) {
                (Action::SignMessage | Action::VerifyMessage, _) => MESSAGE.to_vec(),
                // A block that is less than any modulus.
                (Action::Private | Action::Public, Kind::Rsa(bits)) => {
                    let mut block = vec![0x5a; bits / 8];
                    block[0] = 0;
                    block
                }
                _ => SIGNED.to_vec(),
            },
            given: Vec::new(),
            // No output is longer than a signature of ML-DSA-87.
            output: vec![0; 5120],
            output_bytes: 0,
            secret: [0; 64],
        };
        if matches!(action, Action::SignMessage | Action::VerifyMessage) {
            // SAFETY: the call takes nothing.
            operation.message_context = library.found(unsafe { (functions.EVP_MD_CTX_new)() })?;
            operation.start().then_some(())?;
            return Some(operation);
        }
        let context = match action {
            Action::Generate => generator(library, kind)?,
            _ => Context::of_key(key)?,
        };
        let handle = context.1;
        // SAFETY: the context and both keys are live.
        let ready = unsafe {
            match action {
                Action::Sign => (functions.EVP_PKEY_sign_init)(handle),
                Action::Verify => (functions.EVP_PKEY_verify_init)(handle),
                Action::Private => (functions.EVP_PKEY_decrypt_init)(handle),
                Action::Public => (functions.EVP_PKEY_encrypt_init)(handle),
                Action::Derive => match other {
                    Some(other) if (functions.EVP_PKEY_derive_init)(handle) == 1 => {
                        (functions.EVP_PKEY_derive_set_peer)(handle, other.handle)
                    }
                    _ => 0,
                },
                Action::Encapsulate => (functions.EVP_PKEY_encapsulate_init)(handle, null()),
                Action::Decapsulate => (functions.EVP_PKEY_decapsulate_init)(handle, null()),
                Action::Generate | Action::SignMessage | Action::VerifyMessage => 1,
            }
        };
        library.good(ready).then_some(())?;
        if matches!(action, Action::Private | Action::Public) {
            set(library, &context, &[text(c"pad-mode", c"none")])?;
        }
        operation.context = Some(context);
        Some(operation)
    }

    /// Starts the context of a message.
    fn start(&mut self) -> bool {
        let functions = &self.key.library.keys;
        let (context, key) = (self.message_context, self.key.handle);
        // SAFETY: context and key are live; without a digest the algorithm has its own.
        let result = unsafe {
            let (digest, library) = (null(), null_mut());
            if self.action == Action::SignMessage {
                (functions.EVP_DigestSignInit_ex)(context, null_mut(), digest, library, null(), key, null())
            } else {
                (functions.EVP_DigestVerifyInit_ex)(context, null_mut(), digest, library, null(), key, null())
            }
        };
        self.key.library.good(result)
    }

    /// Runs the operation.
    pub(in super::super) fn run(&mut self) -> bool {
        if self.restarts && !self.start() {
            return false;
        }
        let functions = &self.key.library.keys;
        let context = self.context.as_ref().map_or(null_mut(), |context| context.1);
        let (output, bytes) = (self.output.as_mut_ptr(), &raw mut self.output_bytes);
        let (input, input_bytes) = (self.input.as_ptr(), self.input.len());
        let (given, given_bytes) = (self.given.as_ptr(), self.given.len());
        self.output_bytes = self.output.len();
        // SAFETY: contexts are live and were prepared for the action; the output has room for every result, and every
        // input is a live slice with its length.
        let result = unsafe {
            match self.action {
                Action::Sign => (functions.EVP_PKEY_sign)(context, output, bytes, input, input_bytes),
                Action::Verify => {
                    (functions.EVP_PKEY_verify)(context, given, given_bytes, input, input_bytes)
                }
                Action::SignMessage => {
                    (functions.EVP_DigestSign)(self.message_context, output, bytes, input, input_bytes)
                }
                Action::VerifyMessage => {
                    (functions.EVP_DigestVerify)(self.message_context, given, given_bytes, input, input_bytes)
                }
                Action::Private => (functions.EVP_PKEY_decrypt)(context, output, bytes, input, input_bytes),
                Action::Public => (functions.EVP_PKEY_encrypt)(context, output, bytes, input, input_bytes),
                Action::Derive => (functions.EVP_PKEY_derive)(context, output, bytes),
                Action::Generate => {
                    let mut key = null_mut();
                    let result = (functions.EVP_PKEY_generate)(context, &raw mut key);
                    (functions.EVP_PKEY_free)(key);
                    result
                }
                Action::Encapsulate => {
                    let mut secret_bytes = self.secret.len();
                    let secret = self.secret.as_mut_ptr();
                    (functions.EVP_PKEY_encapsulate)(context, output, bytes, secret, &raw mut secret_bytes)
                }
                Action::Decapsulate => {
                    (functions.EVP_PKEY_decapsulate)(context, output, bytes, given, given_bytes)
                }
            }
        };
        result == 1
    }

    /// Returns the last result.
    fn result(&self) -> &[u8] {
        &self.output[..self.output_bytes]
    }

    /// Runs the operation twice, because some contexts serve only one message, and checks the result by the
    /// counterpart.
    fn is_right(&mut self, other: &Arc<Key>) -> bool {
        if !self.run() {
            return false;
        }
        if !self.run() {
            self.restarts = matches!(self.action, Action::SignMessage | Action::VerifyMessage);
            if !self.run() {
                return false;
            }
        }
        let key = self.key.clone();
        match self.action {
            Action::Sign | Action::SignMessage => key.verifies(self.result(), &self.input) == Some(true),
            Action::Verify | Action::VerifyMessage => {
                self.input[3] ^= 1;
                let is_refused = !self.run();
                self.input[3] ^= 1;
                // The refusal left its reason in this thread's queue.
                self.key.library.good(0);
                is_refused && self.run()
            }
            Action::Private => key.raised(self.result()).as_deref() == Some(&*self.input),
            Action::Public => {
                let Some(mut back) = Self::bare(&key, None, Action::Private) else { return false };
                back.input = self.result().to_vec();
                back.run() && back.result() == self.input
            }
            Action::Derive => other.agree(&key).as_deref() == Some(self.result()),
            Action::Decapsulate => self.secret.starts_with(self.result()),
            Action::Generate | Action::Encapsulate => true,
        }
    }
}
