//! The transforms under an emulator of aarch64.
//!
//! Guarantees: every test of crate `transform` has run on each processor that is named, whose instructions differ, or
//! it is an error. An emulator shows neither speed nor timing, only whether results are right.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Debian's cross compiler, and the place of its libraries.
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// The emulator, as Debian's packages `qemu-user` and `qemu-user-static` name it.
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];
/// One processor without instructions for SHA-512 and SHA-3, and one with all that the emulator knows: AWS-LC chooses
/// by them.
const PROCESSORS: [&str; 2] = ["cortex-a72", "max"];

/// Builds the tests of crate `transform` for aarch64, and runs them on each of `processors`, or on the usual ones.
pub(crate) fn run(root: &Path, processors: &[&str]) -> Result<()> {
    let answers = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    let emulator = EMULATORS.into_iter().find(|program| answers(program));
    let emulator = emulator.context("no qemu-aarch64; Debian has it in qemu-user")?;
    ensure!(answers(&COMPILER), "no {COMPILER}; Debian has it in gcc-aarch64-linux-gnu");
    for processor in if processors.is_empty() { &PROCESSORS[..] } else { processors } {
        let mut test = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        test.current_dir(root).args([
            "test",
            "--locked",
            "--package",
            "sealane-transform",
            "--target",
            TARGET,
        ]);
        // Examples only measure, and the documentation's tests are those of any machine.
        test.args(["--lib", "--tests"]);
        test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER);
        test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{emulator} -L {LIBRARIES}"));
        test.env("CC_aarch64_unknown_linux_gnu", COMPILER).env("QEMU_CPU", processor);
        println!("{processor}:");
        let status = test.status().context("running cargo")?;
        ensure!(status.success(), "the transforms fail on {processor}");
    }
    Ok(())
}
