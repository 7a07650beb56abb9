//! Tests that the promised instructions are in the promised kernels, by decoding this program's own code.
//!
//! Intrinsics become instructions only where they are inlined, so the test needs optimisation.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../../testing/skip.rs"]
mod skip;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use sealane_transform::{
    Aead, Algorithm, Asymmetric, AsymmetricJob, Cipher, Digest, Direction, Kernels, Promise,
};

/// Promises of code that no algorithm owns.
const COMMON: [Promise; 2] = [
    Promise { function: "4wipe6avx512", instruction: "vzeroall", operand_bytes: 0, count: 1 },
    Promise { function: "4wipe4avx2", instruction: "vzeroall", operand_bytes: 0, count: 1 },
];

/// Returns whether an instruction is the promised one.
fn fulfils(instruction: &Instruction, promise: &Promise) -> bool {
    let is = |name: &str| format!("{:?}", instruction.mnemonic()).eq_ignore_ascii_case(name);
    let same = is(promise.instruction)
        // Bitwise logic does not depend on the width of an element, so either name is right.
        || (promise.instruction == "vpternlogq" && instruction.mnemonic() == Mnemonic::Vpternlogd);
    let register = instruction.op0_register();
    let width = promise.operand_bytes;
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
    assert_eq!(sealane_checksum::internet_sum_copying(&[], &mut []), 0);
    assert_eq!(kernels.asymmetric(&mut [] as &mut [AsymmetricJob]), 0);

    let program = std::fs::read("/proc/self/exe").unwrap();
    let program = object::File::parse(&*program).unwrap();
    let public_keys = Asymmetric::ALL.into_iter().flat_map(Asymmetric::promises);
    let promises: Vec<Promise> =
        Algorithm::all().flat_map(Algorithm::promises).chain(public_keys).chain(&COMMON).copied().collect();
    assert!(promises.len() > 30, "{} promises", promises.len());
    for promise in promises {
        let name = promise.function;
        let symbols: Vec<_> = program
            .symbols()
            .filter(|symbol| symbol.name().is_ok_and(|found| found.contains(name)))
            .collect();
        assert!(!symbols.is_empty(), "no function {name}");
        let found = symbols.iter().any(|symbol| {
            let section = program.section_by_index(symbol.section_index().unwrap()).unwrap();
            let code = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap_or_default();
            let mut decoder = Decoder::with_ip(64, code, symbol.address(), DecoderOptions::NONE);
            decoder.iter().filter(|instruction| fulfils(instruction, &promise)).count() >= promise.count
        });
        assert!(found, "{promise:?} is kept nowhere");
    }
}
