//! Runs all tests of the workspace or of a part of it, as many test programs at a time as there are processors.
//!
//! `cargo test` runs one program after the other, and many of them wait more than they compute: for foreign programs,
//! time limits and each other. **Guarantees:** what runs is what `cargo test` runs, each program in its
//! package's folder with the environment that cargo gives it; the number of tests under way is no more than
//! `RUST_TEST_THREADS` (by default two per processor) over all programs; the output of a program that fails is printed
//! whole, and of one that passes what it skipped; all programs run, whichever fail.

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The programs that the closing lines name.
const SLOWEST: usize = 10;

/// A test program.
struct Program {
    name: String,
    executable: PathBuf,
    folder: PathBuf,
}

/// Builds and runs all tests, and the examples in documentation.
///
/// # Errors
/// Fails if anything does not build, or a test fails.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let programs = run_programs(root, &["--workspace"]);
    let documented = cargo(root).args(["test", "--workspace", "--doc"]).status()?;
    programs?;
    ensure!(documented.success(), "examples in documentation failed");
    Ok(())
}

/// Builds and runs the test programs that `selection` names, which are arguments of cargo.
///
/// # Errors
/// Fails as [`run`] does, after all programs have run.
pub(crate) fn run_programs(root: &Path, selection: &[&str]) -> anyhow::Result<()> {
    let began = Instant::now();
    let programs = build(root, selection)?;
    let count = programs.len();
    println!("{count} test programs built in {:.0} s", began.elapsed().as_secs_f64());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let tests = std::env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok());
    let threads = tests.unwrap_or(2 * processors).div_ceil(processors).max(1);
    let library_path = library_path()?;
    let programs = Mutex::new(VecDeque::from(programs));
    let ends = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                loop {
                    let next = programs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(program) = next else { break };
                    let began = Instant::now();
                    let output = start(&program, threads, &library_path);
                    let passed = report(&program, began.elapsed(), &output);
                    let end = (began.elapsed(), program.name, passed);
                    ends.lock().unwrap_or_else(PoisonError::into_inner).push(end);
                }
            });
        }
    });
    let mut ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    ends.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    println!("the slowest:");
    for (time, name, _) in ends.iter().take(SLOWEST) {
        println!("  {:>6.1} s  {name}", time.as_secs_f64());
    }
    let failed: Vec<&str> =
        ends.iter().filter(|(.., passed)| !passed).map(|(_, name, _)| name.as_str()).collect();
    ensure!(failed.is_empty(), "{} of {count} test programs failed: {}", failed.len(), failed.join(", "));
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Builds the test programs, and returns them in cargo's order.
fn build(root: &Path, selection: &[&str]) -> anyhow::Result<Vec<Program>> {
    let mut build = cargo(root);
    build.arg("test").args(selection);
    build.args(["--no-run", "--locked", "--message-format", "json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the tests do not build");
    let mut programs = Vec::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line).context("cargo's messages")?;
        // Cargo also builds what tests start, such as the product itself.
        if message["profile"]["test"] != true {
            continue;
        }
        let (Some(executable), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let folder = Path::new(manifest).parent().context("a manifest without a folder")?.to_owned();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let target = message["target"]["name"].as_str().unwrap_or_default();
        programs.push(Program { name: format!("{package} {target}"), executable: executable.into(), folder });
    }
    if programs.is_empty() {
        bail!("cargo built no test programs");
    }
    Ok(programs)
}

/// Returns the folder of the compiler's libraries, which procedural macros' tests need.
fn library_path() -> anyhow::Result<OsString> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let sysroot = String::from_utf8(output.stdout)?;
    Ok(Path::new(sysroot.trim()).join("lib").into_os_string())
}

fn start(program: &Program, threads: usize, library_path: &OsString) -> std::io::Result<Output> {
    Command::new(&program.executable)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("LD_LIBRARY_PATH", library_path)
        .env("RUST_TEST_THREADS", threads.to_string())
        .stdin(Stdio::null())
        .output()
}

/// Prints a program's end; returns whether it passed.
fn report(program: &Program, time: Duration, output: &std::io::Result<Output>) -> bool {
    let seconds = time.as_secs_f64();
    let name = &program.name;
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let summary = text.lines().rev().find_map(|line| line.strip_prefix("test result: "));
            println!("{seconds:>6.1} s  {name}: {}", summary.unwrap_or("passed").trim_end());
            let error = String::from_utf8_lossy(&output.stderr);
            error
                .lines()
                .filter(|line| line.starts_with("skipped: "))
                .for_each(|line| println!("          {line}"));
            true
        }
        Ok(output) => {
            let (out, error) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            println!("{seconds:>6.1} s  {name}: FAILED ({})\n{out}{error}", output.status);
            false
        }
        Err(error) => {
            println!("{name}: FAILED, it does not start: {error}");
            false
        }
    }
}
