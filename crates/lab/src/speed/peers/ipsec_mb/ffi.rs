//! Intel's multi-buffer library, loaded at run time: its burst interface behind a safe manager.
//!
//! It needs `unsafe` to load a library and to call C. The layout of its jobs and of its table of functions differs
//! between versions, so only the version whose header has these offsets is used. Guarantees: a manager is freed once,
//! by its own library, which is never unloaded; no data of a job is dropped or moved before the job has been
//! returned, because [`Manager::run`] takes all of them and returns when all are finished.
#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// Jobs handed over with one call.
const BURST: usize = 32;

/// Version 1.3, patch level left out.
const VERSION: c_uint = 0x1_03;

/// IMB_STATUS_COMPLETED.
const COMPLETED: u32 = 3;
/// IMB_CIPHER_NULL.
const NO_CIPHER: u32 = 3;
/// IMB_AUTH_NULL.
const NO_HASH: u32 = 8;
/// The value of IMB_DIR_ENCRYPT; the other direction is one more.
const ENCRYPT: u32 = 1;
/// IMB_ORDER_CIPHER_HASH and IMB_ORDER_HASH_CIPHER.
const ORDERS: [u32; 2] = [1, 2];

/// Offsets in the manager: key schedules, one-block hashes, powers of GCM's hash key, bursts.
const KEY_EXPANSIONS: [usize; 3] = [112, 120, 128];
const DES_KEY_SCHEDULE: usize = 152;
const SHA1_ONE_BLOCK: usize = 160;
const SHA256_ONE_BLOCK: usize = 176;
const SHA384_ONE_BLOCK: usize = 184;
const SHA512_ONE_BLOCK: usize = 192;
const MD5_ONE_BLOCK: usize = 200;
const GCM_PRECOMPUTATIONS: [usize; 2] = [448, 464];
const GET_NEXT_BURST: usize = 952;
const SUBMIT_BURST: usize = 960;
const FLUSH_BURST: usize = 976;

/// IMB_JOB of version 1.3.
#[repr(C)]
struct Job {
    enc_keys: *const c_void,
    dec_keys: *const c_void,
    key_bytes: u64,
    source: *const u8,
    destination: *mut u8,
    cipher_offset: u64,
    cipher_bytes: u64,
    hash_offset: u64,
    hash_bytes: u64,
    iv: *const u8,
    iv_bytes: u64,
    tag: *mut u8,
    tag_bytes: u64,
    hash_fields: [*const c_void; 3],
    status: u32,
    cipher_mode: u32,
    direction: u32,
    hash: u32,
    order: u32,
    user_data: *mut c_void,
    rest: [u64; 5],
}

const _: () = assert!(size_of::<Job>() == 200);

type Burst = unsafe extern "C" fn(*mut c_void, u32, *mut *mut Job) -> u32;
type OneBlock = unsafe extern "C" fn(*const c_void, *mut c_void);
type KeyExpansion = unsafe extern "C" fn(*const c_void, *mut c_void, *mut c_void);
type GcmPrecomputation = unsafe extern "C" fn(*const c_void, *mut c_void);
type DesKeySchedule = unsafe extern "C" fn(*mut u64, *const c_void) -> i32;

/// The loaded library.
pub(super) struct IpsecMb {
    alloc: unsafe extern "C" fn(u64) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    init: unsafe extern "C" fn(*mut c_void, *mut c_uint),
    /// The library is never unloaded, because it contains the functions above.
    _library: Library,
}

impl IpsecMb {
    /// Loads it at the first call.
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        static LOADED: OnceLock<Result<IpsecMb, String>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Self, String> {
        // SAFETY: the library has no initialisers of consequence; the types are those of its header.
        unsafe {
            let library = Library::new("libIPSec_MB.so.1")
                .map_err(|error| format!("is not installed ({error}); Debian's package is libipsec-mb1"))?;
            let wrong = |error: libloading::Error| format!("is not the library expected: {error}");
            let version: unsafe extern "C" fn() -> c_uint =
                *library.get(b"imb_get_version\0").map_err(wrong)?;
            let version = version();
            if version >> 8 != VERSION {
                return Err(format!(
                    "is version {}.{}; the layout of its jobs is known here for 1.3 only",
                    version >> 16,
                    version >> 8 & 0xff
                ));
            }
            Ok(Self {
                alloc: *library.get(b"alloc_mb_mgr\0").map_err(wrong)?,
                free: *library.get(b"free_mb_mgr\0").map_err(wrong)?,
                init: *library.get(b"init_mb_mgr_auto\0").map_err(wrong)?,
                _library: library,
            })
        }
    }

    /// Returns a manager for this thread alone.
    pub(super) fn manager(&'static self) -> Option<Manager> {
        // SAFETY: a manager is allocated and initialised before any other use.
        unsafe {
            let manager = (self.alloc)(0);
            if manager.is_null() {
                return None;
            }
            (self.init)(manager, null_mut());
            Some(Manager { library: self, manager })
        }
    }
}

/// AES key schedules are read at 16-byte boundaries.
#[repr(C, align(64))]
#[derive(Default)]
struct Expanded([[u64; 2]; 15]);

/// An algorithm with a key, in the library's form.
pub(super) enum Key {
    /// A cipher: its mode's number, its lengths and its schedules.
    Cipher(Box<CipherKey>),
    /// AES-GCM or ChaCha20-Poly1305.
    Aead(Box<AeadKey>),
    /// A hash: its number and the length of its tag.
    Hash(u32, u64),
    /// HMAC: a hash, and the states after the two key blocks.
    Hmac(u32, u64, Box<[[u8; 64]; 2]>),
}

/// See [`Key::Cipher`].
pub(super) struct CipherKey {
    mode: u32,
    key_bytes: u64,
    iv_bytes: u64,
    encrypting: Expanded,
    decrypting: Expanded,
    schedules: [[u64; 16]; 3],
    pointers: [*const u64; 3],
}

/// See [`Key::Aead`]: numbers of the cipher and of its MAC, the length of the key, and the library's form of it.
#[repr(C, align(64))]
pub(super) struct AeadKey {
    /// `struct gcm_key_data`: round keys and powers, 1008 bytes. A key of ChaCha20 is stored unchanged.
    data: [u8; 1024],
    cipher: u32,
    hash: u32,
    key_bytes: u64,
}

/// Hashes that the library has alone or in HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// Returns the hash with this name in the library's constants.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        match name {
            "MD5" => Some(Self::Md5),
            "SHA_1" => Some(Self::Sha1),
            "SHA_256" => Some(Self::Sha256),
            "SHA_384" => Some(Self::Sha384),
            "SHA_512" => Some(Self::Sha512),
            _ => None,
        }
    }
}

/// Messages side by side, on one thread.
pub(super) struct Manager {
    library: &'static IpsecMb,
    manager: *mut c_void,
}

impl Manager {
    /// # Safety
    /// The manager has a pointer to a function of type `F`, aligned, at `offset` bytes from its start.
    unsafe fn function<F: Copy>(&self, offset: usize) -> F {
        const { assert!(size_of::<F>() == size_of::<usize>()) }
        // SAFETY: the manager of version 1.3 is longer than the last offset; the contract: the pointer there
        // has the type.
        unsafe { self.manager.byte_add(offset).cast::<F>().read() }
    }

    /// Returns a key of AES in CBC or CTR.
    pub(super) fn aes(&self, key: &[u8], counts: bool) -> Option<Key> {
        let expansion = match key.len() {
            16 => KEY_EXPANSIONS[0],
            24 => KEY_EXPANSIONS[1],
            32 => KEY_EXPANSIONS[2],
            _ => return None,
        };
        let mut made = CipherKey::new(if counts { 2 } else { 1 }, key.len(), 16);
        // SAFETY: the key has the expansion's length; both schedules have room for the longest one.
        unsafe {
            let expand: KeyExpansion = self.function(expansion);
            expand(key.as_ptr().cast(), (&raw mut made.encrypting).cast(), (&raw mut made.decrypting).cast());
        }
        Some(Key::Cipher(made))
    }

    /// Returns a key of DES or, with 24 bytes, of triple DES, in CBC.
    pub(super) fn des(&self, key: &[u8]) -> Option<Key> {
        let mode = match key.len() {
            8 => 7,
            24 => 10,
            _ => return None,
        };
        let mut made = CipherKey::new(mode, key.len(), 8);
        for (schedule, key) in made.schedules.iter_mut().zip(key.chunks_exact(8)) {
            // SAFETY: a schedule has 16 words, a key 8 bytes.
            unsafe {
                let expand: DesKeySchedule = self.function(DES_KEY_SCHEDULE);
                expand(schedule.as_mut_ptr(), key.as_ptr().cast());
            }
        }
        // The box does not move, and neither do the schedules in it.
        made.pointers = [0, 1, 2].map(|index| made.schedules[index].as_ptr());
        Some(Key::Cipher(made))
    }

    /// Returns a key of AES-GCM.
    pub(super) fn gcm(&self, key: &[u8]) -> Option<Key> {
        let offset = match key.len() {
            16 => GCM_PRECOMPUTATIONS[0],
            32 => GCM_PRECOMPUTATIONS[1],
            _ => return None,
        };
        let mut made = AeadKey::new(5, 9, key.len());
        // SAFETY: the key has the function's length; there is room for all its output, aligned to 64 bytes.
        unsafe {
            let precompute: GcmPrecomputation = self.function(offset);
            precompute(key.as_ptr().cast(), (&raw mut made.data).cast());
        }
        Some(Key::Aead(made))
    }

    /// Returns a key of ChaCha20-Poly1305.
    pub(super) fn chacha20_poly1305(key: &[u8; 32]) -> Key {
        let mut made = AeadKey::new(19, 29, key.len());
        made.data[..32].copy_from_slice(key);
        Key::Aead(made)
    }

    /// Returns a hash alone; the library has no MD5 alone.
    pub(super) fn hash(hash: Hash) -> Option<Key> {
        match hash {
            Hash::Md5 => None,
            Hash::Sha1 => Some(Key::Hash(13, 20)),
            Hash::Sha256 => Some(Key::Hash(15, 32)),
            Hash::Sha384 => Some(Key::Hash(16, 48)),
            Hash::Sha512 => Some(Key::Hash(17, 64)),
        }
    }

    /// Returns an HMAC; the key is a block at most.
    pub(super) fn hmac(&self, hash: Hash, key: &[u8]) -> Option<Key> {
        let (number, tag_bytes, block_bytes, one_block) = match hash {
            Hash::Md5 => (7, 16, 64, MD5_ONE_BLOCK),
            Hash::Sha1 => (1, 20, 64, SHA1_ONE_BLOCK),
            Hash::Sha256 => (3, 32, 64, SHA256_ONE_BLOCK),
            Hash::Sha384 => (4, 48, 128, SHA384_ONE_BLOCK),
            Hash::Sha512 => (5, 64, 128, SHA512_ONE_BLOCK),
        };
        let mut states = Box::new([[0; 64]; 2]);
        for (state, pad) in states.iter_mut().zip([0x36, 0x5c]) {
            let mut block = [pad; 128];
            block[..block_bytes]
                .get_mut(..key.len())?
                .iter_mut()
                .zip(key)
                .for_each(|(byte, key)| *byte ^= key);
            // SAFETY: a block has 128 bytes at most, a state 64.
            unsafe {
                let absorb: OneBlock = self.function(one_block);
                absorb(block.as_ptr().cast(), state.as_mut_ptr().cast());
            }
        }
        Some(Key::Hmac(number, tag_bytes, states))
    }

    /// Runs every message under its key (message i has key i modulo their number) and waits for all of them. Each
    /// message has an IV and room for a tag; AEADs also authenticate `aad`.
    pub(super) fn run(
        &mut self,
        keys: &[Key],
        encrypts: bool,
        messages: &mut [&mut [u8]],
        ivs: &[[u8; 16]],
        aad: &[u8],
        tags: &mut [[u8; 64]],
    ) -> bool {
        if keys.is_empty() || messages.len() != ivs.len() || messages.len() != tags.len() {
            return false;
        }
        // SAFETY: the functions are of these types in version 1.3.
        let (next, submit, flush): (Burst, Burst, Burst) = unsafe {
            (self.function(GET_NEXT_BURST), self.function(SUBMIT_BURST), self.function(FLUSH_BURST))
        };
        let mut burst: [*mut Job; BURST] = [null_mut(); BURST];
        let (mut back, mut good) = (0, 0);
        let mut count = |burst: &[*mut Job; BURST], came: u32| {
            for &job in burst.iter().take(came as usize) {
                // SAFETY: the library has returned this number of its jobs there, and reuses none before the next
                // burst.
                good += usize::from(unsafe { (*job).status } == COMPLETED);
                back += 1;
            }
            back
        };
        let mut index = 0;
        let mut under_way = 0;
        while index < messages.len() || under_way > 0 {
            let wanted = (messages.len() - index).min(BURST);
            let mut got = 0;
            if wanted > 0 {
                // SAFETY: there is room for this number of pointers.
                got = unsafe { next(self.manager, wanted as u32, burst.as_mut_ptr()) }.min(wanted as u32);
            }
            for &job in burst.iter().take(got as usize) {
                let key = &keys[index % keys.len()];
                // SAFETY: the library provides this job to be filled in.
                unsafe {
                    fill(&mut *job, key, encrypts, messages[index], &ivs[index], aad, &mut tags[index])
                };
                index += 1;
            }
            let came = if got > 0 {
                // SAFETY: all jobs are filled in; keys, IVs, messages and tags outlive this call, at the end of which
                // all jobs are back.
                unsafe { submit(self.manager, got, burst.as_mut_ptr()) }
            } else {
                // If more are requested than there are, version 1.3 returns some of them twice.
                let wanted = under_way.min(BURST) as u32;
                // SAFETY: there is room for this number of pointers.
                unsafe { flush(self.manager, wanted, burst.as_mut_ptr()) }
            };
            if got == 0 && came == 0 {
                return false;
            }
            under_way = index - count(&burst, came);
        }
        good == messages.len()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: the manager is ours, freed once, with no job under way.
        unsafe { (self.library.free)(self.manager) };
    }
}

impl AeadKey {
    fn new(cipher: u32, hash: u32, key_bytes: usize) -> Box<Self> {
        Box::new(Self { data: [0; 1024], cipher, hash, key_bytes: key_bytes as u64 })
    }
}

impl CipherKey {
    fn new(mode: u32, key_bytes: usize, iv_bytes: u64) -> Box<Self> {
        Box::new(Self {
            mode,
            key_bytes: key_bytes as u64,
            iv_bytes,
            encrypting: Expanded::default(),
            decrypting: Expanded::default(),
            schedules: [[0; 16]; 3],
            pointers: [null(); 3],
        })
    }

    /// Returns the encrypting and decrypting schedules in the mode's form.
    fn schedules(&self) -> [*const c_void; 2] {
        match self.mode {
            7 => [self.schedules[0].as_ptr().cast(); 2],
            10 => [self.pointers.as_ptr().cast(); 2],
            _ => [(&raw const self.encrypting).cast(), (&raw const self.decrypting).cast()],
        }
    }
}

fn fill(
    job: &mut Job,
    key: &Key,
    encrypts: bool,
    message: &mut [u8],
    iv: &[u8; 16],
    aad: &[u8],
    tag: &mut [u8; 64],
) {
    job.source = message.as_ptr();
    job.destination = message.as_mut_ptr();
    (job.cipher_offset, job.hash_offset) = (0, 0);
    job.direction = if encrypts { ENCRYPT } else { ENCRYPT + 1 };
    match key {
        Key::Cipher(key) => {
            [job.enc_keys, job.dec_keys] = key.schedules();
            (job.cipher_mode, job.hash, job.order) = (key.mode, NO_HASH, ORDERS[usize::from(!encrypts)]);
            (job.key_bytes, job.iv_bytes, job.iv) = (key.key_bytes, key.iv_bytes, iv.as_ptr());
            (job.cipher_bytes, job.hash_bytes) = (message.len() as u64, 0);
        }
        Key::Aead(key) => {
            let data: *const c_void = key.data.as_ptr().cast();
            [job.enc_keys, job.dec_keys] = [data; 2];
            (job.cipher_mode, job.hash, job.order) = (key.cipher, key.hash, ORDERS[usize::from(!encrypts)]);
            (job.key_bytes, job.iv_bytes, job.iv) = (key.key_bytes, 12, iv.as_ptr());
            (job.cipher_bytes, job.hash_bytes) = (message.len() as u64, message.len() as u64);
            (job.tag, job.tag_bytes) = (tag.as_mut_ptr(), 16);
            // These two fields of each hash are the associated data and its length.
            job.hash_fields = [aad.as_ptr().cast(), std::ptr::without_provenance(aad.len()), null()];
        }
        Key::Hash(hash, tag_bytes) | Key::Hmac(hash, tag_bytes, _) => {
            (job.cipher_mode, job.hash, job.order) = (NO_CIPHER, *hash, ORDERS[1]);
            (job.cipher_bytes, job.hash_bytes) = (0, message.len() as u64);
            (job.tag, job.tag_bytes) = (tag.as_mut_ptr(), *tag_bytes);
            if let Key::Hmac(_, _, states) = key {
                job.hash_fields = [states[0].as_ptr().cast(), states[1].as_ptr().cast(), null()];
            }
        }
    }
}
