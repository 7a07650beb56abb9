//! OpenSSL's library with two providers, the tested one and OpenSSL's own, called as programs call it.

#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// A pointer to one of the library's objects.
type Object = *mut c_void;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $outcome:ty)?;)*) => {
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $outcome)?,)*
        }

        impl Functions {
            fn of(library: &Library) -> Self {
                Self {
                    $(
                        // SAFETY: these are the library's functions with their types.
                        $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }.expect("a function"),
                    )*
                }
            }
        }
    };
}

functions! {
    OSSL_LIB_CTX_new: fn() -> Object;
    OSSL_PROVIDER_set_default_search_path: fn(Object, *const c_char) -> c_int;
    OSSL_PROVIDER_load: fn(Object, *const c_char) -> Object;
    EVP_CIPHER_fetch: fn(Object, *const c_char, *const c_char) -> Object;
    EVP_CIPHER_CTX_new: fn() -> Object;
    EVP_CIPHER_CTX_copy: fn(Object, Object) -> c_int;
    EVP_CIPHER_CTX_free: fn(Object);
    EVP_CIPHER_CTX_ctrl: fn(Object, c_int, c_int, *mut c_void) -> c_int;
    EVP_CIPHER_CTX_set_padding: fn(Object, c_int) -> c_int;
    EVP_CIPHER_CTX_get_updated_iv: fn(Object, *mut c_void, usize) -> c_int;
    EVP_CipherInit_ex2: fn(Object, Object, *const c_uchar, *const c_uchar, c_int, *const c_void) -> c_int;
    EVP_CipherUpdate: fn(Object, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
    EVP_CipherFinal_ex: fn(Object, *mut c_uchar, *mut c_int) -> c_int;
}

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

impl Side {
    fn properties(self) -> &'static CStr {
        match self {
            Self::Ours => c"provider=sealane",
            Self::Theirs => c"provider=default",
        }
    }
}

/// The library with its providers.
pub(crate) struct LibCrypto {
    functions: Functions,
    context: Object,
    _library: Library,
}

// SAFETY: a library context may be used by several threads (openssl-threads(7)).
unsafe impl Send for LibCrypto {}
// SAFETY: a library context may be used by several threads (openssl-threads(7)).
unsafe impl Sync for LibCrypto {}

/// The text of a test, and how it is handed in.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) name: &'a str,
    pub(crate) encrypts: bool,
    pub(crate) key: &'a [u8],
    pub(crate) iv: &'a [u8],
    /// The associated data; `None` if the cipher does not authenticate.
    pub(crate) data: Option<&'a [u8]>,
    /// The tag to be compared, of a text that is decrypted.
    pub(crate) tag: &'a [u8],
    pub(crate) text: &'a [u8],
    /// The lengths of the parts.
    pub(crate) cuts: &'a [usize],
    pub(crate) in_place: bool,
    pub(crate) pads: bool,
    /// Whether the key comes before the vector, and a copy of the context goes on after the first part.
    pub(crate) in_steps: bool,
}

/// The outcome for a text: its bytes, the tag if it was encrypted, and the vector afterwards.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) text: Vec<u8>,
    pub(crate) tag: Vec<u8>,
    pub(crate) iv: Vec<u8>,
}

impl LibCrypto {
    /// Loads the library; `None` if this host has none of OpenSSL 3.
    pub(crate) fn load(provider: &Path) -> Option<Self> {
        // SAFETY: this is OpenSSL's library.
        let library = unsafe { Library::new("libcrypto.so.3") }.ok()?;
        let functions = Functions::of(&library);
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(provider, folder.path().join("sealane.so")).unwrap();
        let path = CString::new(folder.path().to_str().unwrap()).unwrap();
        // SAFETY: these are calls as documented.
        unsafe {
            let context = (functions.OSSL_LIB_CTX_new)();
            assert_eq!((functions.OSSL_PROVIDER_set_default_search_path)(context, path.as_ptr()), 1);
            for name in [c"default", c"sealane"] {
                assert!(!(functions.OSSL_PROVIDER_load)(context, name.as_ptr()).is_null(), "{name:?}");
            }
            Some(Self { functions, context, _library: library })
        }
    }

    /// Runs a cipher; `None` if a call fails.
    pub(crate) fn cipher(&self, side: Side, case: &Case<'_>) -> Option<Done> {
        let name = CString::new(case.name).unwrap();
        let f = &self.functions;
        // SAFETY: these are calls as documented, with buffers that have room for a block more than the text.
        unsafe {
            let cipher = (f.EVP_CIPHER_fetch)(self.context, name.as_ptr(), side.properties().as_ptr());
            assert!(!cipher.is_null(), "{} of {side:?}", case.name);
            let mut context = (f.EVP_CIPHER_CTX_new)();
            let done = self.run(&mut context, cipher, case);
            (f.EVP_CIPHER_CTX_free)(context);
            done
        }
    }

    /// # Safety
    /// `*context` is a context and `cipher` a cipher of the loaded library, and both live; the context may be
    /// freed and replaced by another one.
    unsafe fn run(&self, context: &mut Object, cipher: Object, case: &Case<'_>) -> Option<Done> {
        let f = &self.functions;
        let good = |outcome: c_int| (outcome == 1).then_some(());
        let (key, iv) = (case.key.as_ptr(), case.iv.as_ptr());
        let direction = c_int::from(case.encrypts);
        let length = |bytes: &[u8]| c_int::try_from(bytes.len()).unwrap();
        let mut out = vec![0; case.text.len() + 32];
        if case.in_place {
            out[..case.text.len()].copy_from_slice(case.text);
        }
        let (mut read, mut written) = (0, 0);
        // SAFETY: the contract: both are objects of the library; keys, vectors and texts have their lengths.
        unsafe {
            good((f.EVP_CipherInit_ex2)(*context, cipher, null(), null(), direction, null()))?;
            if case.data.is_some() {
                good((f.EVP_CIPHER_CTX_ctrl)(*context, 9, length(case.iv), null_mut()))?;
            }
            if case.in_steps {
                good((f.EVP_CipherInit_ex2)(*context, null_mut(), key, null(), direction, null()))?;
                good((f.EVP_CipherInit_ex2)(*context, null_mut(), null(), iv, -1, null()))?;
            } else {
                good((f.EVP_CipherInit_ex2)(*context, null_mut(), key, iv, direction, null()))?;
            }
            good((f.EVP_CIPHER_CTX_set_padding)(*context, case.pads.into()))?;
            let mut part = 0;
            if let Some(data) = case.data {
                if !case.encrypts {
                    let tag = case.tag.as_ptr().cast_mut().cast();
                    good((f.EVP_CIPHER_CTX_ctrl)(*context, 17, length(case.tag), tag))?;
                }
                for data in data.chunks(case.cuts.first().map_or(16, |cut| cut + 1)) {
                    good((f.EVP_CipherUpdate)(*context, null_mut(), &mut part, data.as_ptr(), length(data)))?;
                }
            }
            for cut in case.cuts.iter().copied().chain([case.text.len()]) {
                let cut = cut.min(case.text.len() - read);
                let from = if case.in_place { out.as_ptr() } else { case.text.as_ptr() }.add(read);
                let to = out.as_mut_ptr().add(written);
                good((f.EVP_CipherUpdate)(*context, to, &mut part, from, cut as c_int))?;
                if case.in_steps && read == 0 {
                    let copy = (f.EVP_CIPHER_CTX_new)();
                    assert_eq!((f.EVP_CIPHER_CTX_copy)(copy, *context), 1);
                    (f.EVP_CIPHER_CTX_free)(*context);
                    *context = copy;
                }
                read += cut;
                written += usize::try_from(part).unwrap();
            }
            good((f.EVP_CipherFinal_ex)(*context, out.as_mut_ptr().add(written), &mut part))?;
            written += usize::try_from(part).unwrap();
            out.truncate(written);
            let mut tag = Vec::new();
            if case.data.is_some() && case.encrypts {
                tag = vec![0; 16];
                good((f.EVP_CIPHER_CTX_ctrl)(*context, 16, 16, tag.as_mut_ptr().cast()))?;
            }
            let mut next = vec![0; case.iv.len()];
            if case.data.is_none() {
                good((f.EVP_CIPHER_CTX_get_updated_iv)(*context, next.as_mut_ptr().cast(), next.len()))?;
            }
            Some(Done { text: out, tag, iv: next })
        }
    }
}
