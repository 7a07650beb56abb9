//! The catalogue's list: one line per folder of this crate that contains algorithms.
//!
//! A line names the folder, and for each algorithm in it the catalogue's variant, the descriptor in the folder's
//! `mod.rs`, and the text of the documentation; a cipher has the type of its expanded key behind its descriptor.
//! Modules, the catalogue's enums and expanded keys are generated from these lines, and everything else uses the
//! descriptors: a new block cipher or digest takes a folder and a line (`crates/lab/tests/additions.rs` adds one of
//! each).
//!
//! Each macro passes its list to the macro that it is given. `cargo fmt` does not find modules that a macro declares;
//! `rustfmt --edition 2024 crates/transform/src/*/mod.rs` does, and `cargo xtask tidy` checks their format.

macro_rules! ciphers {
    ($then:ident) => {
        $then! {
            block {
                des { Des = DES(Key) "DES, FIPS 46-3.", TripleDes = TRIPLE_DES(BoxedTripleKey) "Triple DES with three keys (encrypt, decrypt, encrypt), FIPS 46-3." }
                aes { Aes128 = AES_128(BoxedKey) "AES with a 128-bit key, FIPS 197.", Aes192 = AES_192(BoxedKey) "AES with a 192-bit key.", Aes256 = AES_256(BoxedKey) "AES with a 256-bit key." }
                rc5 { Rc5 = RC5(Key) "RC5-32/12/16, RFC 2040.", Rc5R16 = RC5_R16(Key) "RC5-32/16/16, the rounds of NPCryptBench's table." }
                rc6 { Rc6 = RC6(Key) "RC6-32/20, the AES candidate." }
                blowfish { Blowfish = BLOWFISH(BoxedKey) "Blowfish, Schneier 1993." }
                idea { Idea = IDEA(Key) "IDEA, Lai and Massey 1991." }
            }
            stream {
                rc4 { Rc4 = RC4(Key) "RC4: the key's stream from its start." }
                seal { Seal3 = SEAL_3(BoxedKey) "SEAL 3.0: the stream of the index in the first four IV bytes (big-endian), big-endian words." }
            }
        }
    };
}

macro_rules! digests {
    ($then:ident) => {
        $then! {
            digest {
                checksum { Null = NULL "Touches nothing: the cost of a job that does no work.", Touch = TOUCH "Reads every byte once (XOR of all 64-bit words): the cost of touching the data.", InternetChecksum = INTERNET "The Internet checksum, RFC 1071." }
                md5 { Md5 = MD5 "MD5, RFC 1321." }
                sha1 { Sha1 = SHA1 "SHA-1, FIPS 180-4." }
                sha256 { Sha224 = SHA224 "SHA-224, FIPS 180-4.", Sha256 = SHA256 "SHA-256, FIPS 180-4." }
                sha512 { Sha384 = SHA384 "SHA-384, FIPS 180-4.", Sha512 = SHA512 "SHA-512, FIPS 180-4." }
                sha3 { Sha3_224 = SHA3_224 "SHA3-224, FIPS 202.", Sha3_256 = SHA3_256 "SHA3-256, FIPS 202.", Sha3_384 = SHA3_384 "SHA3-384, FIPS 202.", Sha3_512 = SHA3_512 "SHA3-512, FIPS 202.", Shake128 = SHAKE_128 "SHAKE128, FIPS 202, with 32 bytes of output.", Shake256 = SHAKE_256 "SHAKE256, FIPS 202, with 64 bytes of output.", TurboShake128 = TURBO_SHAKE_128 "TurboSHAKE128, RFC 9861, with 32 bytes of output.", TurboShake256 = TURBO_SHAKE_256 "TurboSHAKE256, RFC 9861, with 64 bytes of output.", Kt128 = KT_128 "KT128 (KangarooTwelve), RFC 9861, with 32 bytes of output.", Kt256 = KT_256 "KT256, RFC 9861, with 64 bytes of output." }
                blake3 { Blake3 = BLAKE3 "BLAKE3, unkeyed." }
                aha { AhaI = AHA_I "Our reconstruction of an alternate hash with four independent MD5 chains; for measurement only." }
                hmac { HmacMd5 = MD5 "HMAC with MD5, RFC 2104.", HmacSha1 = SHA1 "HMAC with SHA-1, RFC 2104.", HmacSha256 = SHA256 "HMAC with SHA-256, RFC 4868.", HmacSha384 = SHA384 "HMAC with SHA-384, RFC 4868.", HmacSha512 = SHA512 "HMAC with SHA-512, RFC 4868." }
                bucket { Bh140 = BH_140 "Rogaway's bucket hash with 140 buckets, finished by Poly1305." }
            }
        }
    };
}

/// A line names, after the folder, the variant and the type of its expanded keys.
macro_rules! aeads {
    ($then:ident) => {
        $then! {
            aead {
                gcm(Gcm: BoxedKey) { Aes128Gcm = AES_128_GCM "AES-128-GCM, SP 800-38D, 96-bit nonce, 128-bit tag.", Aes256Gcm = AES_256_GCM "AES-256-GCM." }
                ccm(Ccm: BoxedKey) { Aes128Ccm = AES_128_CCM "AES-128-CCM, SP 800-38C: nonces of 7 to 12 bytes, tags of 4 to 16.", Aes256Ccm = AES_256_CCM "AES-256-CCM." }
                chacha(ChaCha: Key) { ChaCha20Poly1305 = CHACHA20_POLY1305 "ChaCha20-Poly1305, RFC 8439." }
            }
        }
    };
}

/// A line names, after the folder, the variant of its operations.
macro_rules! asymmetrics {
    ($then:ident) => {
        $then! {
            asymmetric {
                rsa(Rsa) { Rsa2048 = RSA_2048 "RSA with 2,048 bits, RFC 8017.", Rsa3072 = RSA_3072 "RSA with 3,072 bits.", Rsa4096 = RSA_4096 "RSA with 4,096 bits." }
                dh(Dh) { Dh2048 = DH_2048 "Diffie-Hellman modulo a prime of 2,048 bits: group 14 of RFC 3526.", Dh3072 = DH_3072 "Group 15: 3,072 bits.", Dh4096 = DH_4096 "Group 16: 4,096 bits." }
                x25519(X25519) { X25519 = X25519 "X25519, RFC 7748." }
                p256(P256) { EcdhP256 = ECDH_P256 "ECDH on P-256, SP 800-56A.", EcdsaP256 = ECDSA_P256 "ECDSA on P-256, FIPS 186-5." }
                ed25519(Ed25519) { Ed25519 = ED25519 "Ed25519, RFC 8032." }
                ml_dsa(MlDsa) { MlDsa44 = ML_DSA_44 "ML-DSA-44, FIPS 204.", MlDsa65 = ML_DSA_65 "ML-DSA-65.", MlDsa87 = ML_DSA_87 "ML-DSA-87." }
                ml_kem(MlKem) { MlKem512 = ML_KEM_512 "ML-KEM-512, FIPS 203.", MlKem768 = ML_KEM_768 "ML-KEM-768.", MlKem1024 = ML_KEM_1024 "ML-KEM-1024." }
            }
        }
    };
}

/// Declares the folders of a list as modules.
macro_rules! folders {
    (asymmetric { $($folder:ident($name:ident) { $($rest:tt)* })* }) => { $( pub mod $folder; )* };
    (aead { $($folder:ident($name:ident: $key:ident) { $($rest:tt)* })* }) => { $( pub(crate) mod $folder; )* };
    ($($kind:ident { $($folder:ident { $($rest:tt)* })* })*) => { $( $( pub(crate) mod $folder; )* )* };
}
