//! Measures the code that compilers make of the ten kernels: NPCryptBench's Figs 6 and 7 with the compilers of this
//! host.
//!
//! The paper compares three versions of one compiler under O0, O1 and O2; here all installed versions of gcc and
//! clang are compared, under O0, O1, Os and O2. One C file holds the kernels at level 0. Each compiler's code is
//! checked against the reference kernels before it is timed; then all take turns in short slices, and medians count.
//! Code bytes are those of symbols, as `nm` prints them.

use super::{BOUNDS, PROGRAM, sentences};
use crate::LabError;
use crate::experiment::{
    Cell, Coordinates, Drawn, Experiment, Measure, Outcome, Plan, Plot, Profile, Repetition, Sample, Sampler,
    View, at, derive, find,
};
use crate::load::Watch;
use crate::process_tree::Tree;
use crate::report::Report;
use crate::request::Request;
use crate::scratch::Scratch;
use crate::studies::NPCRYPTBENCH_TITLE;
use crate::surroundings::Surroundings;
use sealane_simulator::TEN;
use sealane_simulator::study::{Bound, Sentence};
use sealane_transform::{Prepared, prepared};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

const KERNELS: &str = include_str!("kernels.c");
const DRIVER: &str = include_str!("driver.c");

/// Options, the paper's default last.
const OPTIONS: [&str; 4] = ["O0", "O1", "Os", "O2"];

/// The length of a message in bytes.
const MESSAGE_BYTES: usize = 2048;

/// The length of a slice of one kernel, and the number of slices.
const SLICE_NS: u64 = 1_000_000;
const SLICES: usize = 15;

/// The maximum of compilers; others are omitted, and named.
const COMPILERS_MAX: usize = 6;

const SUMMARY: &str = "NPCryptBench's kernels in C, by this host's compilers, on this host. What they make is compared with the \
    reference kernels, then all take turns.";

const OVER_COMPILERS: [&str; 3] = [
    "A sentence holds when our figure is within its bound for every compiler here, fails when it is on one side of it for all of \
     them, and else depends on those that turn it.",
    BOUNDS,
    "What is found is the first compiler's.",
];

/// The measures: megabits of message per second, bytes of code, and both relative to the first compiler's O2.
const RATE: &str = "megabits";
const BYTES: &str = "code bytes";
const AXES: [&str; 2] = ["algorithm", "compiler"];

/// Compiles, checks and times.
pub(super) fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let surroundings = &request.surroundings;
    let given = TEN
        .map(|name| name.parse().ok().and_then(|algorithm| prepared(algorithm, MESSAGE_BYTES)))
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| LabError::Unavailable("a kernel cannot be prepared".to_owned()))?;
    let (compilers, mut skipped) = installed(surroundings);
    if compilers.is_empty() {
        return Err(LabError::Unavailable("no gcc and no clang in PATH: nothing to compare".to_owned()));
    }
    // Programs are run from this directory, because shared memory often forbids that.
    let scratch = Scratch::create(surroundings, Some(&surroundings.temporary), 16 << 20)?;
    for (name, bytes) in
        [("kernels.c", KERNELS.as_bytes()), ("driver.c", DRIVER.as_bytes()), ("given", &file_of(&given))]
    {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).map_err(LabError::file("cannot write", &path))?;
    }
    let mut turns = Turns {
        programs: Vec::new(),
        bytes: given.iter().map(|one| one.message.len()).collect(),
        repetitions: BTreeMap::new(),
    };
    for compiler in &compilers {
        writeln!(progress, "compilers: {}", compiler.name)?;
        for option in OPTIONS {
            turns.programs.push(compile(compiler, option, scratch.path(), &given)?);
        }
    }
    let columns: Vec<String> =
        compilers.iter().flat_map(|one| OPTIONS.map(|option| format!("{} {option}", one.name))).collect();
    let rounds = if request.profile == Profile::Smoke { 1 } else { SLICES };
    let plan = Plan {
        experiment: Experiment {
            repetition: Repetition { rounds, ..Repetition::default() },
            ..Experiment::default()
        },
        places: kernels()
            .iter()
            .flat_map(|kernel| columns.iter().map(move |column| place(kernel, column)))
            .collect(),
        seed: request.seed,
        ..Plan::default()
    };
    let mut cells = plan.measure(&mut turns, progress)?;
    for (at, running) in turns.programs.iter().enumerate() {
        let bytes = code_bytes(&running.program);
        if bytes.is_none() {
            skipped.push(format!("bytes of code of {}: `nm` does not print them", columns[at]));
        }
        let of_program = cells.iter_mut().skip(at).step_by(columns.len());
        for (cell, bytes) in of_program.zip(bytes.into_iter().flatten()) {
            cell.values.insert(BYTES.to_owned(), (bytes as f64).into());
        }
    }
    let names: Vec<&str> = compilers.iter().map(|one| &*one.name).collect();
    let mut outcomes = figures(&cells, &columns);
    let title = "The paper's sentences, with this host's compilers";
    outcomes.push(sentences((title, "B21"), OVER_COMPILERS, &found(&cells, &names, &mut skipped)));
    let programs = ["program", "what it says of itself"];
    let rows = compilers.iter().map(|one| Cell::new(programs.into_iter().zip([&*one.name, &one.version])));
    let experiment = Experiment::new("compilers", "B21", "Compilers", &programs, Vec::new());
    outcomes.push(Outcome::new(experiment, rows.collect()));
    let title = "Compilers on ciphers of network processors";
    let seconds = began.elapsed().as_secs_f64();
    Ok(Report { skipped, seconds, ..Report::new(PROGRAM, title, SUMMARY, outcomes) })
}

/// Returns the ten kernels, without their modes.
fn kernels() -> [&'static str; TEN.len()] {
    TEN.map(|name| name.split('-').next().unwrap_or(name))
}

fn place(kernel: &str, column: &str) -> Coordinates {
    at(AXES.into_iter().zip([kernel, column]))
}

/// An installed compiler.
struct Compiler {
    name: String,
    path: PathBuf,
    version: String,
}

/// Returns all versions of gcc and clang on the search path, each version once, and the missing ones.
fn installed(surroundings: &Surroundings) -> (Vec<Compiler>, Vec<String>) {
    let mut found: BTreeMap<(bool, u32, String), PathBuf> = BTreeMap::new();
    for directory in &surroundings.search_path {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            let (family, number) =
                name.split_once('-').map_or((&*name, "0"), |(family, number)| (family, number));
            if let ("gcc" | "clang", Ok(number)) = (family, number.parse()) {
                // Programs with a number in their name come last: they are other versions, or the same one again.
                let key = (family == "clang", number, name.clone());
                found.entry(key).or_insert_with(|| directory.join(&name));
            }
        }
    }
    let (mut compilers, mut absent): (Vec<Compiler>, Vec<String>) = Default::default();
    for ((.., name), path) in found {
        let Some(version) = version(&path) else {
            absent.push(format!("{name}: it does not say its version"));
            continue;
        };
        // `gcc` and `gcc-12` print different names but are the same version.
        let number = |version: &str| version.split_once(' ').map(|(_, rest)| rest.to_owned());
        let is_clang = |name: &str| name.starts_with("clang");
        let is_same = |one: &Compiler| {
            is_clang(&one.name) == is_clang(&name) && number(&one.version) == number(&version)
        };
        if compilers.iter().any(is_same) {
            continue;
        }
        if compilers.len() == COMPILERS_MAX {
            absent.push(format!("{name}: {COMPILERS_MAX} compilers are compared"));
            continue;
        }
        compilers.push(Compiler { name, path, version });
    }
    for family in ["gcc", "clang"] {
        if !compilers.iter().any(|one| one.name.starts_with(family)) {
            absent.push(format!("{family}: not installed"));
        }
    }
    (compilers, absent)
}

fn version(compiler: &Path) -> Option<String> {
    let output = Command::new(compiler).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().map(|line| line.chars().take(120).collect::<String>())?;
    output.status.success().then_some(line)
}

/// Returns the driver's input: for each kernel three lengths, then key, tables and message, in this host's byte
/// order.
fn file_of(given: &[Prepared]) -> Vec<u8> {
    let mut file = Vec::new();
    for one in given {
        let lengths = [one.key.len(), one.tables.len(), one.message.len()].map(|length| length as u32);
        for word in lengths.iter().chain(&one.key).chain(&one.tables) {
            file.extend(word.to_ne_bytes());
        }
        file.extend(&one.message);
    }
    file
}

/// A driver that waits for its next line.
struct Running {
    program: PathBuf,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Returns the CPU seconds that the program has used.
    fn cpu_seconds(&self) -> f64 {
        Tree::of(self.child.id()).cpu().as_secs_f64()
    }

    fn ask(&mut self, line: &str) -> Result<String, LabError> {
        let mut answer = String::new();
        writeln!(self.input, "{line}")
            .and_then(|()| self.input.flush())
            .and_then(|()| self.output.read_line(&mut answer))
            .map_err(LabError::file("cannot talk to", &self.program))?;
        Ok(answer.trim().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles, starts, and compares the output.
fn compile(
    compiler: &Compiler,
    option: &str,
    directory: &Path,
    given: &[Prepared],
) -> Result<Running, LabError> {
    let program = directory.join(format!("{}-{option}", compiler.name));
    let flag = format!("-{option}");
    let output = Command::new(&compiler.path)
        .args(["-std=gnu11", &flag, "-o"])
        .arg(&program)
        .args(["kernels.c", "driver.c"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LabError::Start { program: compiler.path.clone(), source })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("error")).unwrap_or("it does not say why");
        return Err(LabError::Unavailable(format!("{} {flag} fails: {line}", compiler.name)));
    }
    let mut child = Command::new(&program)
        .arg(directory.join("given"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| LabError::Start { program: program.clone(), source })?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(LabError::Unavailable("a child has no pipes".to_owned()));
    };
    let mut running = Running { program, child, input, output: BufReader::new(output) };
    for (number, one) in given.iter().enumerate() {
        let expected: String = one.output.iter().map(|byte| format!("{byte:02x}")).collect();
        if running.ask(&format!("check {number}"))? != expected {
            let difference = format!("{} {flag} makes another {} of it", compiler.name, TEN[number]);
            return Err(LabError::Differs { path: running.program.clone(), difference });
        }
    }
    Ok(running)
}

/// The sampler: all programs with all kernels, in turns.
struct Turns {
    programs: Vec<Running>,
    /// The length of each kernel's message.
    bytes: Vec<usize>,
    /// The number of times a kernel runs per slice, by cell.
    repetitions: BTreeMap<usize, u64>,
}

impl Sampler for Turns {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let (number, program) = (cell / self.programs.len(), cell % self.programs.len());
        let running = &mut self.programs[program];
        let slice = |running: &mut Running, repetitions: u64| -> Result<f64, LabError> {
            let answer = running.ask(&format!("time {number} {repetitions}"))?;
            let ns: Result<f64, _> = answer.parse();
            let ns =
                ns.map_err(|_| LabError::Unavailable(format!("{} ended early", running.program.display())))?;
            Ok((ns / repetitions as f64).max(1.0))
        };
        let repetitions = match self.repetitions.get(&cell) {
            Some(&repetitions) => repetitions,
            None => ((SLICE_NS as f64 / slice(running, 4)?) as u64).clamp(1, 1_000_000),
        };
        self.repetitions.insert(cell, repetitions);
        let (watch, before) = (Watch::begin(), running.cpu_seconds());
        let rate = 8000.0 * self.bytes[number] as f64 / slice(running, repetitions)?;
        let is_disturbed = watch.is_disturbed(running.cpu_seconds() - before);
        Ok(Sample::slice(RATE, rate, is_disturbed))
    }
}

/// Returns the bytes of the symbols that belong to each kernel: its own, and those with its name before an underscore
/// or dot.
fn code_bytes(program: &Path) -> Option<Vec<u64>> {
    let output = Command::new("nm").arg("-S").arg(program).stdin(Stdio::null()).output().ok()?;
    sizes(&String::from_utf8_lossy(&output.stdout))
}

fn sizes(text: &str) -> Option<Vec<u64>> {
    let symbols: Vec<(&str, u64)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (_, size, kind, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
            matches!(kind, "T" | "t").then(|| u64::from_str_radix(size, 16).ok().map(|size| (name, size)))?
        })
        .collect();
    let of = |name: &&str| {
        let kernel = name.split('-').next().unwrap_or(name);
        let is_of = |symbol: &str| {
            symbol.strip_prefix(kernel).is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '.']))
        };
        let bytes = symbols.iter().filter(|(symbol, _)| is_of(symbol)).map(|(_, size)| size).sum();
        (bytes > 0).then_some(bytes)
    };
    TEN.iter().map(of).collect()
}

/// Returns Figs 6 and 7, scaled to the first compiler's O2 as the paper scales to its default, and the figures behind
/// them.
fn figures(cells: &[Cell], columns: &[String]) -> Vec<Outcome> {
    let base = &columns[OPTIONS.len() - 1];
    let mut cells = cells.to_vec();
    for (measure, times) in [(RATE, "rate times"), (BYTES, "bytes times")] {
        derive::over_first(&mut cells, AXES[1], base, measure, times);
    }
    let figure = |id: &str, title: &str, note: &str, measure: Measure, is_drawn: bool| {
        let view = View::pivot(&AXES[..1], AXES[1], &measure.id);
        let plot = is_drawn.then(|| Plot::new(Drawn::Bars, AXES[0], &measure.id, &AXES[1..]));
        let experiment = Experiment::new(id, "B21", title, &AXES, vec![measure]).of(NPCRYPTBENCH_TITLE);
        let experiment = experiment.notes(&[note]).shown(view, plot.into_iter().collect());
        Outcome::new(experiment, cells.clone())
    };
    let times = |id| Measure::times(id, "");
    let here = "Times the first compiler's O2, on this host, which has caches.";
    vec![
        figure("fig-6", "Fig 6: throughput by compiler and option", here, times("rate times"), true),
        figure(
            "fig-7",
            "Fig 7: code size by compiler and option",
            "Times the first compiler's O2.",
            times("bytes times"),
            true,
        ),
        figure("throughput", "Throughput", "Mb/s of one thread, medians.", Measure::new(RATE, ""), false),
        figure("code", "Code size", "Bytes of symbols.", Measure::count(BYTES, ""), false),
    ]
}

/// Returns the paper's sentences of section VI-A, by compiler.
fn found(cells: &[Cell], compilers: &[&str], skipped: &mut Vec<String>) -> Vec<Sentence> {
    // Returns the mean over the algorithms of one column's figure over another's.
    let ratio = |measure: &str, one: String, other: String| {
        let of = |kernel: &str, column: &str| find(cells, &place(kernel, column))?.figure(measure);
        let ratios: Option<Vec<f64>> =
            kernels().iter().map(|kernel| Some(of(kernel, &one)? / of(kernel, &other)?)).collect();
        crate::stats::mean(&ratios?)
    };
    let slower = |name: &str| Some(100.0 * (1.0 - ratio(RATE, format!("{name} O0"), format!("{name} O2"))?));
    let longer = |name: &str| Some(100.0 * (ratio(BYTES, format!("{name} O0"), format!("{name} O1"))? - 1.0));
    let each = |of: &dyn Fn(&str) -> Option<f64>| -> Vec<(String, f64)> {
        compilers.iter().filter_map(|&name| Some((name.to_owned(), of(name)?))).collect()
    };
    let family = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    // Returns the figures of a family's other versions over those of its first.
    let pairs = |measure: &str| -> Vec<(String, f64)> {
        let pair = |(number, other): (usize, &&str)| {
            let first = compilers[..number].iter().find(|first| family(first) == family(other))?;
            Some((
                format!("{other} over {first}"),
                ratio(measure, format!("{other} O2"), format!("{first} O2"))?,
            ))
        };
        compilers.iter().enumerate().filter_map(pair).collect()
    };
    let alike = Bound::Between(1.0 / 1.1, 1.1);
    let saved = |name: &str| Some(longer(name)? - slower(name)?);
    let found = [
        ("O0 is about 17 % slower than O2", "mean, %", Bound::Paper(17.0), each(&slower)),
        ("O0's code is 65 % longer than O1's", "mean, %", Bound::Paper(65.0), each(&longer)),
        (
            "options save storage above all",
            "% of O0 longer than O1, less % slower than O2",
            Bound::AtLeast(0.0),
            each(&saved),
        ),
        ("versions make code of like speed (O2)", "mean ratio (within 10 %)", alike, pairs(RATE)),
        ("versions make code of like size (O2)", "mean ratio (within 10 %)", alike, pairs(BYTES)),
    ];
    if found[3].3.is_empty() {
        skipped
            .push("versions of one compiler beside each other: no two of a family are installed".to_owned());
    }
    let sentence = |(sentence, measure, bound, values)| Sentence {
        source: "Section VI-A",
        sentence,
        measure,
        bound,
        values,
    };
    found.map(sentence).into_iter().filter(|one| !one.values.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;
    use crate::skip::skip;

    /// The build compares every compiler's code with the reference.
    #[test]
    fn compilers_make_what_the_reference_makes() {
        if installed(&Surroundings::default()).0.is_empty() {
            return skip("no gcc and no clang");
        }
        let request = Request { profile: Profile::Smoke, ..Request::default() };
        let report = run(&request, &mut std::io::sink()).unwrap();
        let throughput = &report.outcomes[2];
        assert_eq!(throughput.cells.len() % (OPTIONS.len() * TEN.len()), 0);
        assert!(throughput.cells.iter().all(|cell| cell.figure(RATE).is_some_and(|rate| rate > 0.0)));
        let claims = &report.outcomes[4].claims;
        assert!(claims.iter().any(|claim| claim.claim.statement.contains("17 %")), "{claims:?}");
    }

    /// A modified kernel has another output, and is not timed.
    #[test]
    fn another_output_is_refused() {
        let surroundings = Surroundings::default();
        let (compilers, _) = installed(&surroundings);
        let Some(compiler) = compilers.first() else { return skip("no gcc and no clang") };
        let scratch = Scratch::create(&surroundings, Some(&surroundings.temporary), 1 << 20).unwrap();
        let given: Vec<Prepared> =
            TEN.map(|name| prepared(name.parse().unwrap(), 1024).unwrap()).into_iter().collect();
        let wrong = KERNELS.replace("0x5a827999", "0x5a827998");
        for (name, bytes) in
            [("kernels.c", wrong.as_bytes()), ("driver.c", DRIVER.as_bytes()), ("given", &file_of(&given))]
        {
            fs::write(scratch.path().join(name), bytes).unwrap();
        }
        let error = compile(compiler, "O1", scratch.path(), &given).err().unwrap();
        assert!(error.to_string().contains("sha1"), "{error}");
    }

    #[test]
    fn code_is_summed_up_from_symbols() {
        let mut text =
            "0000000000001000 0000000000000010 t idea_product\n0000000000001000 t local\n".to_owned();
        for kernel in kernels() {
            text += &format!("0000000000002000 0000000000000100 T {kernel}\n");
        }
        text +=
            "0000000000003000 0000000000000008 t des.cold\n0000000000003000 0000000000000008 D des_table\n";
        let found = sizes(&text).unwrap();
        assert_eq!((found[0], found[5], found[9]), (256, 264, 272));
        assert_eq!(sizes("nothing"), None);
    }

    #[test]
    fn sentences_are_judged_over_compilers() {
        let mut cells = Vec::new();
        for (compiler, slow) in [("gcc", 83.0), ("gcc-9", 20.0)] {
            for (option, rate, bytes) in
                [("O0", slow, 165.0), ("O1", 90.0, 100.0), ("Os", 80.0, 90.0), ("O2", 100.0, 120.0)]
            {
                let column = format!("{compiler} {option}");
                let cell = |kernel| Cell { at: place(kernel, &column), ..Cell::default() };
                cells.extend(kernels().map(|kernel| cell(kernel).with(RATE, rate).with(BYTES, bytes)));
            }
        }
        let mut skipped = Vec::new();
        let outcome = sentences(("S", ""), OVER_COMPILERS, &found(&cells, &["gcc", "gcc-9"], &mut skipped));
        let verdict = |part: &str| {
            let claim = outcome.claims.iter().find(|one| one.claim.statement.contains(part)).unwrap();
            (claim.verdict, claim.estimate.map(|value| (10.0 * value).round()))
        };
        assert_eq!(verdict("17 %"), (Verdict::NotDecidable, Some(170.0)));
        assert_eq!(verdict("65 %"), (Verdict::Holds, Some(650.0)));
        assert_eq!(verdict("like size"), (Verdict::Holds, Some(10.0)));
        assert!(skipped.is_empty());
    }
}
