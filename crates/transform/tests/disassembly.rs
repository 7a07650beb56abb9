//! The promised instructions are in the promised kernels: this program's own code is decoded.
//!
//! Intrinsics become instructions only where they are inlined, so there is nothing to see without optimisation.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../../testing/skip.rs"]
mod skip;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use sealane_transform::{Aead, Cipher, Digest, Direction, Kernels};

/// A piece of a mangled name, an instruction, and the width of its first operand in bytes if that matters.
const PROMISES: [(&str, Mnemonic, usize); 34] = [
    ("3aes5lanes10run_avx512", Mnemonic::Vaesenc, 64),
    ("3aes5lanes10run_avx512", Mnemonic::Vaesdeclast, 64),
    ("3aes5lanes8run_avx2", Mnemonic::Vaesenc, 16),
    ("3aes2ni6run_ni", Mnemonic::Vaesenc, 16),
    ("3aes2ni8run_vaes", Mnemonic::Vaesenc, 64),
    ("3aes2ni8run_vaes", Mnemonic::Vaesdeclast, 64),
    ("4sha12ni9blocks_ni", Mnemonic::Sha1rnds4, 16),
    ("6sha2562ni9blocks_ni", Mnemonic::Sha256rnds2, 16),
    ("3md55lanes9avx512_32", Mnemonic::Vpternlogq, 64),
    ("3md55lanes9avx512_32", Mnemonic::Vprold, 64),
    ("3md55lanes7avx2_16", Mnemonic::Vpaddd, 32),
    ("4sha15lanes9avx512_16", Mnemonic::Vprold, 64),
    ("6sha2565lanes9avx512_16", Mnemonic::Vpternlogq, 64),
    ("3des8permuted", Mnemonic::Vpermb, 64),
    ("3des6sliced3x8610run_avx512", Mnemonic::Vpternlogq, 64),
    ("3des6sliced3x868run_avx2", Mnemonic::Vpxor, 32),
    ("3rc55lanes6avx5123run", Mnemonic::Vprolvd, 64),
    ("3rc55lanes4avx23run", Mnemonic::Vpsllvd, 32),
    ("3rc65lanes6avx5123run", Mnemonic::Vpmulld, 64),
    ("4idea5lanes10run_avx512", Mnemonic::Vpmullw, 64),
    ("4idea5lanes10run_avx512", Mnemonic::Vpmulhuw, 64),
    ("4idea5lanes8run_avx2", Mnemonic::Vpmulhuw, 32),
    ("4seal5lanes10run_avx512", Mnemonic::Vpgatherdd, 64),
    ("4seal5lanes8run_avx2", Mnemonic::Vpgatherdd, 32),
    ("8blowfish5lanes7run_bmi", Mnemonic::Bextr, 8),
    ("8blowfish8permuted", Mnemonic::Vpermt2b, 64),
    ("3gcm6kernel10all_avx512", Mnemonic::Vpclmulqdq, 64),
    ("3gcm6kernel10all_avx512", Mnemonic::Vaesenc, 64),
    ("3gcm6kernel8all_avx2", Mnemonic::Vpclmulqdq, 16),
    ("3gcm6kernel8all_avx2", Mnemonic::Vaesenc, 16),
    ("6chacha5lanes13rounds_avx512", Mnemonic::Vprold, 64),
    ("6chacha5lanes11rounds_avx2", Mnemonic::Vpshufb, 32),
    ("4wipe6avx512", Mnemonic::Vzeroall, 0),
    ("4wipe4avx2", Mnemonic::Vzeroall, 0),
];

/// Whether an instruction is the promised one.
fn fulfils(instruction: &Instruction, mnemonic: Mnemonic, width: usize) -> bool {
    let same = instruction.mnemonic() == mnemonic
        // Logic has no lanes: either name of it will do.
        || (mnemonic == Mnemonic::Vpternlogq && instruction.mnemonic() == Mnemonic::Vpternlogd);
    let register = instruction.op0_register();
    same && (width == 0 || (register != Register::None && register.size() == width))
}

#[test]
fn kernels_contain_their_instructions() {
    if cfg!(debug_assertions) {
        skip::say("built without optimisation");
        return;
    }
    // All kernels hang on these calls.
    let kernels = Kernels::select(None, None).unwrap();
    assert_eq!(kernels.digest(Digest::Null, &mut []), 0);
    assert_eq!(kernels.cipher(Cipher::Null, Direction::Encrypt, &mut []), 0);
    assert_eq!(kernels.seal(Aead::Aes128Gcm, &mut []), 0);

    let program = std::fs::read("/proc/self/exe").unwrap();
    let program = object::File::parse(&*program).unwrap();
    for (name, mnemonic, width) in PROMISES {
        let symbols: Vec<_> = program
            .symbols()
            .filter(|symbol| symbol.name().is_ok_and(|found| found.contains(name)))
            .collect();
        assert!(!symbols.is_empty(), "no function {name}");
        let found = symbols.iter().any(|symbol| {
            let section = program.section_by_index(symbol.section_index().unwrap()).unwrap();
            let code = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap_or_default();
            let mut decoder = Decoder::with_ip(64, code, symbol.address(), DecoderOptions::NONE);
            decoder.iter().any(|instruction| fulfils(&instruction, mnemonic, width))
        });
        assert!(found, "{name} has no {mnemonic:?} of {width} bytes");
    }
}
