//! Exceptions from rules, with reasons. The file contains only data; an entry that is no longer needed is a finding.

/// Paths from the workspace root, each with its reason.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List(pub(crate) &'static [(&'static str, &'static str)]);

impl List {
    pub(crate) fn names(self, path: &str) -> bool {
        self.0.iter().any(|&(listed, _)| listed == path)
    }
}

/// One list per rule that has exceptions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exceptions {
    /// Leaf modules that hold the crate's `unsafe`.
    pub(crate) unsafe_files: List,
    /// Files whose parts provide one guarantee together.
    pub(crate) long_files: List,
    /// Files that must name a home folder.
    pub(crate) home_paths: List,
    /// Files below `cli` that read the environment.
    pub(crate) environment: List,
    /// Files that import each other.
    pub(crate) circles: List,
}

impl Exceptions {
    #[cfg(test)]
    pub(crate) const NONE: Self = Self {
        unsafe_files: List(&[]),
        long_files: List(&[]),
        home_paths: List(&[]),
        environment: List(&[]),
        circles: List(&[]),
    };
}

/// The exceptions in force.
pub(crate) const CURRENT: Exceptions = Exceptions {
    unsafe_files: List(&[
        ("fuzz/src/allocation.rs", "a global allocator that counts is unsafe by its trait"),
        ("crates/native/src/aes.rs", "AWS-LC's AES by an expanded key, called through C"),
        ("crates/native/src/blocks.rs", "AWS-LC's CBC and CTR between places of a caller in C"),
        ("crates/native/src/ccm.rs", "AWS-LC's CCM, called through C"),
        ("crates/native/src/chacha.rs", "AWS-LC's ChaCha20 and Poly1305 between places of a caller in C"),
        ("crates/native/src/curve25519.rs", "AWS-LC's X25519 and Ed25519, called through C"),
        ("crates/native/src/digest.rs", "AWS-LC's digests, called through C"),
        ("crates/native/src/gcm.rs", "AWS-LC's own functions for GCM between places of a caller in C"),
        ("crates/native/src/gcm/tests.rs", "the same algorithm as a whole, called through C"),
        ("crates/native/src/key.rs", "AWS-LC's keys, called through C"),
        ("crates/native/src/key/operations.rs", "AWS-LC's public-key operations, called through C"),
        ("crates/native/src/key/reading.rs", "AWS-LC's readers of keys, called through C"),
        ("crates/native/src/ml_dsa.rs", "AWS-LC's ML-DSA, called through C"),
        ("crates/native/src/ml_kem.rs", "AWS-LC's ML-KEM, called through C"),
        ("crates/native/src/number.rs", "AWS-LC's natural numbers, called through C"),
        ("crates/native/src/outcome.rs", "AWS-LC's queue of errors, and owners of its objects"),
        ("crates/native/src/p256.rs", "AWS-LC's P-256, called through C"),
        ("crates/native/src/record.rs", "AWS-LC's own functions for records of TLS, called through C"),
        ("crates/native/src/rsa.rs", "AWS-LC's RSA, called through C"),
        ("crates/native/src/scrypt.rs", "AWS-LC's scrypt, called through C"),
        ("crates/native/src/states.rs", "AWS-LC's hashes by blocks, called through C"),
        ("crates/native/src/text.rs", "places of bytes that a caller in C hands in"),
        ("testing/allocations.rs", "a global allocator that counts is unsafe by its trait"),
        (
            "crates/client/src/environment.rs",
            "getauxval(3), which says whether the environment may be believed",
        ),
        (
            "crates/client/src/jail.rs",
            "unshare(2) of a thread's working folder, and descriptors that others may close",
        ),
        ("crates/client/src/memory.rs", "mmap(2) of the memory that two processes share"),
        ("crates/service/src/kernel.rs", "socket options and descriptors that no library here wraps safely"),
        ("crates/service/src/keyring.rs", "request_key(2) and keyctl(2), which no library here wraps"),
        (
            "crates/service/benches/rings/openssl.rs",
            "OpenSSL's library, loaded at run time and called through C",
        ),
        (
            "crates/service/benches/rings/token.rs",
            "a module of PKCS#11, loaded at run time and called through C",
        ),
        ("crates/provider/src/ffi/cipher.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/exchange.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/jobs.rs", "OpenSSL's jobs, found by name and called through C"),
        ("crates/provider/src/ffi/keymgmt.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/ml_dsa.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/mod.rs", "structures and functions of OpenSSL's provider interface"),
        (
            "crates/provider/src/ffi/params.rs",
            "arrays of values that OpenSSL and the provider fill in for each other",
        ),
        ("crates/provider/src/ffi/signature.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/signs.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/store.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/groups.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/kem.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/src/ffi/symmetric.rs", "entries that OpenSSL calls through C"),
        ("crates/provider/tests/libcrypto/mod.rs", "libcrypto, loaded at run time and called through C"),
        ("crates/pkcs11/src/ffi/general.rs", "entries that programs call through C"),
        ("crates/pkcs11/src/ffi/making.rs", "entries that programs call through C"),
        ("crates/pkcs11/src/ffi/mod.rs", "the list of PKCS#11's functions, and values from C and to C"),
        ("crates/pkcs11/src/ffi/objects.rs", "entries that programs call through C"),
        ("crates/pkcs11/src/ffi/operations.rs", "entries that programs call through C"),
        ("crates/pkcs11/tests/module/making.rs", "the module, loaded at run time and called through C"),
        ("crates/pkcs11/tests/module.rs", "the module, loaded at run time and called through C"),
        ("crates/copy/src/low_water.rs", "setsockopt(2) for an option that no library wraps"),
        ("crates/copy/src/segments.rs", "getsockopt(2) and setsockopt(2) for options that no library wraps"),
        ("crates/lab/src/peers/rusage.rs", "wait4(2), the one call that says what an ended child used"),
        (
            "crates/lab/src/speed/peers/ipsec_mb/ffi.rs",
            "libIPSec_MB, loaded at run time and called through C",
        ),
        (
            "crates/lab/src/speed/peers/crypto_mb/ffi.rs",
            "libcrypto_mb, loaded at run time and called through C",
        ),
        ("crates/lab/src/speed/peers/openssl/keys.rs", "libcrypto's keys, called through C"),
        ("crates/lab/src/speed/peers/openssl/ffi.rs", "libcrypto, loaded at run time and called through C"),
        ("crates/lab/src/speed/tsc.rs", "the time stamp counter, an intrinsic that is unsafe by its type"),
        ("crates/lab/src/speed/usage.rs", "getrusage(2), which says what this process has used"),
        ("crates/tree/src/list_xattrs.rs", "listxattrat(2), which no library wraps yet"),
        ("crates/port/src/sys.rs", "TUN's ioctls and UDP's ancillary data, which no library wraps"),
        ("crates/tcp/tests/common/tun.rs", "unshare(2), and the ioctl(2) that names a TUN device"),
        ("crates/transform/examples/crossover/main.rs", "clock_gettime(2) for the CPU time of one thread"),
        ("crates/transform/examples/rates.rs", "clock_gettime(2) for the CPU time of one thread"),
        ("crates/transform/src/aes/ways.rs", "multi-way kernels take raw pointers, made here from slices"),
        (
            "crates/transform/src/aes/ni.rs",
            "enters AES-NI and VAES kernels behind detection tokens; reads and writes a buffer by its pointers",
        ),
        (
            "crates/transform/src/aes/vector.rs",
            "vector loads and stores through the pointers of a multi-way kernel",
        ),
        ("crates/transform/src/ccm/alone.rs", "SIMD intrinsics behind a feature token"),
        ("crates/transform/src/ccm/ways.rs", "ways that read messages by their pointers"),
        (
            "crates/transform/src/chacha/ways.rs",
            "kernels that read and write the raw pointers of a job's buffer",
        ),
        (
            "crates/transform/src/chacha/long.rs",
            "kernels that read and write the raw pointers of a job's buffer",
        ),
        ("crates/transform/src/chacha/solo.rs", "reads and writes a buffer by its pointers"),
        ("crates/transform/src/blowfish/ways.rs", "enters the variant with BMI behind a detection token"),
        ("crates/transform/src/blowfish/permuted.rs", "kernels that read through a pointer a way"),
        (
            "crates/transform/src/des/permuted.rs",
            "rows and vectors read through the pointers of a multi-way kernel",
        ),
        ("crates/transform/src/des/sliced.rs", "bit planes read through the pointers of a multi-way kernel"),
        (
            "crates/transform/src/des/staging.rs",
            "chunks read and written through the pointers of a multi-way kernel",
        ),
        (
            "crates/transform/src/gcm/kernel.rs",
            "kernels that read and write the raw pointers of a job's buffer",
        ),
        ("crates/transform/src/gcm/vector.rs", "vector loads and stores through the pointers of a kernel"),
        (
            "crates/checksum/src/wide.rs",
            "intrinsics of AVX2 and AVX-512, in variants entered behind their detection",
        ),
        ("crates/transform/src/hash/ways.rs", "multi-way kernels take raw pointers, made here from slices"),
        ("crates/transform/src/idea/ways.rs", "a kernel that reads and writes through a pointer a way"),
        (
            "crates/transform/src/hash/stream.rs",
            "calls multi-way kernels with the addresses of parts of messages",
        ),
        (
            "crates/transform/src/job.rs",
            "a buffer in place, or from one slice to another, seen alike by kernels",
        ),
        (
            "crates/transform/src/cipher_ways.rs",
            "multi-way kernels take raw pointers, made here from buffers",
        ),
        ("crates/transform/src/md5/ways.rs", "a kernel that reads through a pointer a way"),
        (
            "crates/transform/src/poly1305/beside.rs",
            "assembly, and blocks that outlive the slices that they come from",
        ),
        ("crates/transform/src/poly1305/poly1305_blocks.rs", "intrinsics, behind their detection"),
        ("crates/transform/src/poly1305/ways.rs", "a kernel that reads through a pointer a way"),
        ("crates/transform/src/md5/single.rs", "an empty asm! that keeps additions off the chain"),
        ("crates/transform/src/rc4/ways.rs", "enters the variant with SSE4.1 behind a detection token"),
        ("crates/transform/src/rc5/ways.rs", "enters the kernel of 128 ways behind a detection token"),
        ("crates/transform/src/seal/ways.rs", "gathers, and a kernel that reads through a pointer a way"),
        ("crates/transform/src/sha1/ways.rs", "a kernel that reads through a pointer a way"),
        ("crates/transform/src/sha1/ni.rs", "intrinsics of the SHA extensions, behind their detection"),
        ("crates/transform/src/sha256/ways.rs", "a kernel that reads through a pointer a way"),
        ("crates/transform/src/keccak/abreast.rs", "intrinsics, behind their detection, and a pointer a way"),
        (
            "crates/transform/src/sha3/abreast.rs",
            "multi-way kernels take raw pointers, made here from slices",
        ),
        (
            "crates/transform/src/sha3/kangaroo.rs",
            "multi-way kernels take raw pointers, made here from slices",
        ),
        (
            "crates/transform/src/sha512/abreast.rs",
            "multi-way kernels take raw pointers, made here from slices",
        ),
        ("crates/transform/src/sha512/longs.rs", "intrinsics, behind their detection"),
        ("crates/transform/src/sha512/rounds.rs", "kernels that read through a pointer a way"),
        ("crates/transform/src/sha256/ni.rs", "intrinsics of the SHA extensions, behind their detection"),
        ("crates/transform/src/short_ways.rs", "kernels that read through a pointer a way"),
        ("crates/transform/src/simd/avx2.rs", "intrinsics of AVX2, behind their detection"),
        ("crates/transform/src/simd/avx512.rs", "intrinsics of AVX-512, behind their detection"),
        ("crates/transform/src/simd/gather.rs", "gathers through a base pointer, behind their detection"),
        ("crates/transform/src/simd/mod.rs", "the contract of vectors that load from and store to pointers"),
        ("crates/transform/src/simd/scalar.rs", "the same contract for plain words"),
        ("crates/transform/src/simd/shorts.rs", "the same intrinsics for vectors of 16-bit words"),
        ("crates/transform/src/wipe.rs", "assembly that clears registers, which no intrinsic reaches"),
        ("crates/transform/src/word_ways.rs", "kernels that read through a pointer a way"),
        (
            "crates/transform/examples/dudect/welch.rs",
            "the time stamp counter, an intrinsic that is unsafe by its type",
        ),
        ("crates/transform/src/curve25519/base.rs", "intrinsics of AVX-512, behind their detection"),
        ("crates/transform/src/curve25519/field.rs", "intrinsics of AVX-512, behind their detection"),
        ("crates/transform/src/curve25519/inverse.rs", "intrinsics of AVX-512, behind their detection"),
        ("crates/transform/src/curve25519/select.rs", "intrinsics of AVX-512, behind their detection"),
        (
            "crates/transform/src/curve25519/tests.rs",
            "tests enter functions with target features, behind their detection",
        ),
        ("crates/transform/src/dh/ways.rs", "enters kernels with target features behind a detection token"),
        (
            "crates/transform/src/ed25519/hash.rs",
            "enters kernels with target features behind a detection token",
        ),
        (
            "crates/transform/src/ed25519/ways.rs",
            "enters kernels with target features behind a detection token",
        ),
        (
            "crates/transform/src/keccak/ways.rs",
            "enters kernels with target features behind a detection token",
        ),
        (
            "crates/transform/src/keccak/alone.rs",
            "a kernel that reads through a pointer, made here from a slice",
        ),
        (
            "crates/transform/src/keccak/streams.rs",
            "enters kernels with target features behind a detection token",
        ),
        (
            "crates/transform/src/ml_dsa/arithmetic.rs",
            "loads and stores of vectors through pointers into polynomials",
        ),
        ("crates/transform/src/ml_dsa/avx2.rs", "intrinsics of AVX2, behind their detection"),
        ("crates/transform/src/ml_dsa/avx512.rs", "intrinsics of AVX-512, behind their detection"),
        (
            "crates/transform/src/ml_dsa/ints.rs",
            "the contract of vectors that load from and store to pointers",
        ),
        (
            "crates/transform/src/ml_dsa/machine.rs",
            "enters kernels with target features behind a detection token",
        ),
        ("crates/transform/src/ml_kem/avx2.rs", "intrinsics of AVX2, behind their detection"),
        ("crates/transform/src/ml_kem/coding.rs", "intrinsics of AVX-512, behind their detection"),
        (
            "crates/transform/src/ml_kem/machine.rs",
            "enters kernels with target features behind a detection token",
        ),
        ("crates/transform/src/ml_kem/vector.rs", "intrinsics of AVX-512, behind their detection"),
        ("crates/transform/src/montgomery/kernel.rs", "intrinsics of AVX-512, behind their detection"),
        (
            "crates/transform/src/montgomery/ways.rs",
            "enters kernels with target features behind a detection token",
        ),
        (
            "crates/transform/src/montgomery/tests.rs",
            "tests enter functions with target features, behind their detection",
        ),
        (
            "crates/transform/src/p256/ecdsa_ways.rs",
            "enters kernels with target features behind a detection token",
        ),
        ("crates/transform/src/p256/ways.rs", "enters kernels with target features behind a detection token"),
        (
            "crates/transform/src/p256/nonce_ways.rs",
            "enters kernels with target features, and AWS-LC's constants through C",
        ),
        (
            "crates/transform/src/p256/tests/bounds.rs",
            "tests enter functions with target features, behind their detection",
        ),
        ("crates/transform/src/p256/vector.rs", "intrinsics of AVX-512, behind their detection"),
        ("crates/transform/src/rsa/ways.rs", "enters kernels with target features behind a detection token"),
        (
            "crates/transform/src/x25519/ways.rs",
            "enters kernels with target features behind a detection token",
        ),
        ("crates/transform/tests/common/memcheck.rs", "valgrind's client requests, in assembly"),
        ("crates/transform/tests/guards.rs", "mmap(2) for pages that fault on either side of a buffer"),
        ("crates/transform/tests/openssl.rs", "dlopen(3) of libcrypto, an oracle that is not linked"),
    ]),
    long_files: List(&[]),
    home_paths: List(&[]),
    environment: List(&[
        ("crates/copy/src/journal/tests.rs", "a test that starts itself again under a limit"),
        (
            "crates/client/src/environment.rs",
            "programs tell a module of PKCS#11 nothing but its path, and a provider nothing at all",
        ),
    ]),
    circles: List(&[]),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exception_is_listed_once_and_says_why() {
        for list in [
            CURRENT.unsafe_files,
            CURRENT.long_files,
            CURRENT.home_paths,
            CURRENT.environment,
            CURRENT.circles,
        ] {
            for (index, (path, why)) in list.0.iter().enumerate() {
                assert!(why.len() > 10, "{path} says too little");
                assert!(list.0[..index].iter().all(|(other, _)| other != path), "{path} is listed twice");
            }
        }
    }
}
