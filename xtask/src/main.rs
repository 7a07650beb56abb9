//! House rules and chores of the workspace, run as `cargo xtask COMMAND`.
//!
//! It depends on no crate of the workspace, so the rules can be checked while the product does not build, and the
//! check costs seconds. Commands that need the product (manual pages, completions) run the program itself.

#![forbid(unsafe_code)]

mod aarch64;
mod compare;
mod deny;
mod faces;
mod generate;
mod package;
mod peers;
mod release;
mod roots;
mod session;
mod templates;
mod tests;
mod tidy;

use package::Architecture;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test             build and run all tests, as many test programs at a time as there are processors
  tidy             check the house rules; the same check is a test of `cargo test`
  deny             check licences, banned packages and sources of what is built against deny.toml
  compare-speed OLD NEW [ALGORITHM]...
                   two builds of the program in turn, at 1, 8, 64 and 512 messages of 64, 352 and 1408 bytes: fails if a
                   kernel of the second is slower by more than 3 %; ten minutes and more for the whole catalogue
  soak COPIES      copies with random kills beside a peer that lies, in a release build
  histories COUNT  histories of interrupted copies of one tree, in all ways, in a release build
  soak-tunnel S    for so many seconds, two gateways with a bad network between them, in a release build (root)
  soak-clients S   for so many seconds, a gateway with 20 devices whose keys live for 2 s while 2 % of packets are lost, and whose
                   users and lists of revoked certificates are renewed each minute, in a release build (root)
  soak-engine S    for so many seconds, nginx under load with a key of an engine that is killed each second, in a release build
  model-ike N      two ends of IKE whose exchanges cross in bad weather, in N histories, such as 100000; in a release build
  aarch64 [CPU]... all tests of the transforms on processors that qemu emulates, such as cortex-a72 and max (needs Debian's cross
                   compiler and qemu-user; it takes long)
  faces            check that each face of the program builds alone, and print its crates, lines and dependencies
  faces --test [FACE]...
                   build each face alone, or those that are named, and run its tests (as root all of them run)
  picture          draw the crates and their arrows into ARCHITECTURE.md
  session          write docs/first-hour.md and docs/tunnels.md (hosts in namespaces, root), and record a copy on a pseudo-terminal
                   into docs/session.svg (release build, 2 GiB of /dev/shm)
  man DIR          write the manual pages into DIR
  completions DIR  write the completions of every shell into DIR
  deb [ARCH]       make the Debian packages of a release build, for this machine or for x86_64 or aarch64, and try them (needs
                   cargo-deb and musl, and for another architecture Debian's cross compiler)
  static [ARCH]    make a program that needs no library into target/static, and try it (needs musl, or the cross compiler)
  packages [--try] all of them: install the packages into a bare system, run their services and servers that sign under a systemd
                   there, and start the static program as the container file says (root, debootstrap); those of the other
                   architecture too where its compiler is. With --try only the trials, of what was made before
  release [--twice]  of the commit that is checked out: the packages and static programs for both architectures, the list of their
                   components and their digests, into target/release-files (what `packages` needs). With --twice once more from a
                   clone in another folder, and compare
  chroot [ROOT]    README's two commands in a system of only Rust and a C compiler (minimal), and in one with many
                   libraries' headers (crowded), or in one of them (root, debootstrap; half an hour, 10 GB)
  templates        try the templates for Slurm (root, with its daemons on this machine) and Kubernetes, where their programs are
  peers            install the foreign programs that tests compare with (apt-get, as root)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = workspace_root();
    let outcome = match arguments.as_slice() {
        ["test"] => tests::run(&root),
        ["tidy"] => tidy::run(&root),
        ["deny"] => deny::run(&root),
        ["compare-speed", old, new, names @ ..] => compare::run([old, new], names),
        ["soak", copies] => soak(&root, ["sealane", "soak"], "SEALANE_SOAK_COPIES", copies),
        ["histories", count] => soak(&root, ["sealane", "histories"], "SEALANE_HISTORIES", count),
        ["soak-tunnel", seconds] => soak(&root, ["sealane", "bad_network"], "SEALANE_SOAK_SECONDS", seconds),
        ["soak-clients", seconds] => {
            soak(&root, ["sealane", "tunnel_ike"], "SEALANE_SOAK_CLIENTS_SECONDS", seconds)
        }
        ["soak-engine", seconds] => {
            soak(&root, ["sealane-provider", "openssl"], "SEALANE_SOAK_ENGINE_SECONDS", seconds)
        }
        ["model-ike", seeds] => soak(&root, ["sealane-ike", "collisions"], "SEALANE_MODEL_SEEDS", seeds),
        ["aarch64", processors @ ..] => aarch64::run(&root, processors),
        ["faces"] => faces::run(&root),
        ["faces", "--test", names @ ..] => faces::test(&root, names),
        ["picture"] => tidy::draw_picture(&root),
        ["session"] => session::write_transcript(&root).and_then(|()| session::record(&root)),
        ["man", directory] => generate::man(&root, Path::new(directory)),
        ["completions", directory] => generate::completions(&root, Path::new(directory)),
        ["deb", rest @ ..] => architecture(rest).and_then(|of| package::debs(&root, of)).map(drop),
        ["static", rest @ ..] => {
            architecture(rest).and_then(|of| package::static_program(&root, of)).map(drop)
        }
        ["packages"] => package::packages(&root),
        ["packages", "--try"] => package::try_again(&root),
        ["release"] => release::make(&root).map(drop),
        ["release", "--twice"] => release::twice(&root),
        ["chroot"] => roots::try_readme(&root, None),
        ["chroot", only] => roots::try_readme(&root, Some(only)),
        ["templates"] => templates::run(&root),
        ["peers"] => peers::install(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the named architecture, or this machine's.
fn architecture(words: &[&str]) -> anyhow::Result<Architecture> {
    match words {
        [] => Architecture::own(),
        [name] => Architecture::named(name),
        _ => anyhow::bail!("one architecture at a time"),
    }
}

/// Runs a test with the duration `amount`.
fn soak(root: &Path, [package, test]: [&str; 2], setting: &str, amount: &str) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut arguments = vec!["test", "--release", "--package", package, "--test", test, "--", "--nocapture"];
    // These programs have other tests, too.
    arguments.extend(match test {
        "tunnel_ike" => Some("soak::"),
        "collisions" => Some("exchanges_that_cross"),
        "openssl" => Some("killed::"),
        _ => None,
    });
    let mut command = std::process::Command::new(cargo);
    let status = command.current_dir(root).args(arguments).env(setting, amount).status()?;
    anyhow::ensure!(status.success(), "the test {test} has failed");
    Ok(())
}

/// Returns the folder that holds the workspace manifest: the parent of this package's own.
fn workspace_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("xtask lies one folder below the workspace root").to_path_buf()
}
