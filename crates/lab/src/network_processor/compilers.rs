//! What compilers make of the ten kernels: NPCryptBench's Figs 6 and 7 with this host's, on this host.
//!
//! The paper compares three versions of one compiler under O0, O1 and O2; here are all versions of gcc and clang that are
//! installed, under O0, O1, Os and O2. One C file holds the kernels at level 0. What a compiler makes of it is checked
//! against the reference kernels before it is timed; then all take turns in short slices, and medians count. Code bytes are
//! those of symbols, as `nm` prints them.

use crate::LabError;
use crate::scratch::Scratch;
use crate::surroundings::Surroundings;
use sealane_simulator::TEN;
use sealane_simulator::study::{Bound, Claim, Figure, Kind, Verdict};
use sealane_transform::{Prepared, prepared};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const KERNELS: &str = include_str!("kernels.c");
const DRIVER: &str = include_str!("driver.c");

/// Options, the paper's default last.
const OPTIONS: [&str; 4] = ["O0", "O1", "Os", "O2"];

/// Bytes of a message.
const MESSAGE_BYTES: usize = 2048;

/// A slice of one kernel, and how many there are.
const SLICE_NS: u64 = 1_000_000;
const SLICES: usize = 15;

/// More compilers than these are left out, and named.
const COMPILERS_MAX: usize = 6;

/// One compiler with one option.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unit {
    /// The program's name.
    pub compiler: String,
    /// The first line of what it says of itself.
    pub version: String,
    /// Without its dash.
    pub option: &'static str,
    /// Megabits of message a second, for each of [`TEN`].
    pub megabits_per_s: Vec<f64>,
    /// Bytes of code, for each; `None` without `nm`.
    pub code_bytes: Option<Vec<u64>>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compilers {
    /// Compilers in the order of their names, each with all options.
    pub units: Vec<Unit>,
    /// Figs 6 and 7, and what they are made of.
    pub figures: Vec<Figure>,
    /// The paper's sentences.
    pub claims: Vec<Claim>,
    /// What was left out, and why.
    pub absent: Vec<String>,
}

/// Compiles, checks and times. `step` is told of each compiler before it is used.
///
/// # Errors
/// When there is no compiler, a program cannot be made or run, or computes something else than the reference.
pub fn compare(surroundings: &Surroundings, mut step: impl FnMut(&str)) -> Result<Compilers, LabError> {
    let given = TEN
        .map(|name| name.parse().ok().and_then(|algorithm| prepared(algorithm, MESSAGE_BYTES)))
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| LabError::Unavailable("a kernel cannot be prepared".to_owned()))?;
    let (compilers, mut absent) = installed(surroundings);
    if compilers.is_empty() {
        return Err(LabError::Unavailable("no gcc and no clang in PATH: nothing to compare".to_owned()));
    }
    // Programs are run from here, which shared memory often forbids.
    let scratch = Scratch::create(surroundings, Some(&surroundings.temporary), 16 << 20)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).map_err(LabError::file("cannot write", &path))
    };
    write("kernels.c", KERNELS.as_bytes())?;
    write("driver.c", DRIVER.as_bytes())?;
    write("given", &file_of(&given))?;
    let mut made = Vec::new();
    for compiler in &compilers {
        step(&compiler.name);
        for option in OPTIONS {
            made.push((Unit::new(compiler, option), compile(compiler, option, scratch.path(), &given)?));
        }
    }
    step("all in turns");
    for (number, one) in given.iter().enumerate() {
        let rates = in_turns(&mut made, number, one.message.len())?;
        for ((unit, _), rate) in made.iter_mut().zip(rates) {
            unit.megabits_per_s.push(rate);
        }
    }
    let mut units = Vec::new();
    for (mut unit, running) in made {
        unit.code_bytes = code_bytes(&running.program);
        units.push(unit);
    }
    if units.iter().any(|unit| unit.code_bytes.is_none()) {
        absent.push("bytes of code where `nm` does not print them".to_owned());
    }
    Ok(Compilers { figures: figures(&units), claims: claims(&units, &mut absent), units, absent })
}

/// A compiler that is there.
struct Compiler {
    name: String,
    path: PathBuf,
    version: String,
}

impl Unit {
    fn new(compiler: &Compiler, option: &'static str) -> Self {
        Self {
            compiler: compiler.name.clone(),
            version: compiler.version.clone(),
            option,
            megabits_per_s: Vec::new(),
            code_bytes: None,
        }
    }

    fn label(&self) -> String {
        format!("{} {}", self.compiler, self.option)
    }
}

/// All versions of gcc and clang on the search path, each version once, and what is missing.
fn installed(surroundings: &Surroundings) -> (Vec<Compiler>, Vec<String>) {
    let mut found: BTreeMap<(bool, u32, String), PathBuf> = BTreeMap::new();
    for directory in &surroundings.search_path {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
            let (family, number) =
                name.split_once('-').map_or((&*name, "0"), |(family, number)| (family, number));
            if let ("gcc" | "clang", Ok(number)) = (family, number.parse()) {
                // Those with a number in their name come last: they are other versions, or the same again.
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
        // `gcc` and `gcc-12` name themselves but are one.
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

/// What the driver reads: for each kernel three lengths, then key, tables and message, in this host's order of bytes.
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
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles, starts, and compares what comes out.
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

/// Rates of kernel `number`, in the order of the programs: medians of slices in turns.
fn in_turns(made: &mut [(Unit, Running)], number: usize, bytes: usize) -> Result<Vec<f64>, LabError> {
    let slice = |running: &mut Running, repetitions: u64| -> Result<f64, LabError> {
        let answer = running.ask(&format!("time {number} {repetitions}"))?;
        let ns: f64 = answer
            .parse()
            .map_err(|_| LabError::Unavailable(format!("{} ended early", running.program.display())))?;
        Ok(ns / repetitions as f64)
    };
    let mut repetitions = Vec::new();
    for (_, running) in made.iter_mut() {
        let once = slice(running, 4)?.max(1.0);
        repetitions.push(((SLICE_NS as f64 / once) as u64).clamp(1, 1_000_000));
    }
    let mut found = vec![Vec::new(); made.len()];
    for _ in 0..SLICES {
        for (at, (_, running)) in made.iter_mut().enumerate() {
            found[at].push(slice(running, repetitions[at])?);
        }
    }
    let median = |mut ns: Vec<f64>| {
        ns.sort_by(f64::total_cmp);
        8000.0 * bytes as f64 / ns[ns.len() / 2].max(1.0)
    };
    Ok(found.into_iter().map(median).collect())
}

/// Bytes of the symbols that belong to each kernel: its own, and those with its name before an underscore or dot.
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

/// Figs 6 and 7, scaled to the first compiler's O2 as the paper scales to its default, and what they are made of.
fn figures(units: &[Unit]) -> Vec<Figure> {
    let columns: Vec<String> = units.iter().map(Unit::label).collect();
    let rows = |of: &dyn Fn(&Unit, usize) -> Option<f64>| {
        let row = |(number, name): (usize, &&str)| {
            let name = name.split('-').next().unwrap_or(name).to_owned();
            (name, units.iter().map(|unit| of(unit, number)).collect())
        };
        TEN.iter().enumerate().map(row).collect()
    };
    let rate = |unit: &Unit, number: usize| unit.megabits_per_s.get(number).copied();
    let bytes = |unit: &Unit, number: usize| Some(unit.code_bytes.as_ref()?[number] as f64);
    let scaled = |of: &dyn Fn(&Unit, usize) -> Option<f64>, unit: &Unit, number: usize| {
        let base = of(units.get(OPTIONS.len() - 1)?, number)?;
        Some(of(unit, number)? / base.max(f64::MIN_POSITIVE))
    };
    let figure = |title: &str, note: &'static str, kind: Kind, rows| Figure {
        title: title.to_owned(),
        note,
        kind,
        columns: columns.clone(),
        rows,
    };
    vec![
        figure(
            "Fig 6: throughput by compiler and option",
            "Times the first compiler's O2, on this host, which has caches.",
            Kind::Bars,
            rows(&|unit, number| scaled(&rate, unit, number)),
        ),
        figure(
            "Fig 7: code size by compiler and option",
            "Times the first compiler's O2.",
            Kind::Bars,
            rows(&|unit, number| scaled(&bytes, unit, number)),
        ),
        figure("Throughput", "Mb/s of one thread, medians.", Kind::Table, rows(&rate)),
        figure("Code size", "Bytes of symbols.", Kind::Table, rows(&bytes)),
    ]
}

/// Mean over the algorithms of one unit's figure over another's.
fn mean_ratio(of: impl Fn(&Unit) -> Option<Vec<f64>>, one: &Unit, other: &Unit) -> Option<f64> {
    let (one, other) = (of(one)?, of(other)?);
    let ratios = one.iter().zip(&other).map(|(one, other)| one / other.max(f64::MIN_POSITIVE));
    Some(ratios.sum::<f64>() / one.len().max(1) as f64)
}

/// A sentence with its figure for each compiler, or pair of them.
struct Sentence {
    sentence: &'static str,
    measure: &'static str,
    bound: Bound,
    values: Vec<(String, f64)>,
}

impl Sentence {
    /// It holds when it does for all, fails when for none, and else depends on those that differ from the first.
    fn claim(self) -> Option<Claim> {
        let value = self.values.first()?.1;
        let holds = |value: f64| self.bound.holds(value);
        let turned = self.values.iter().filter(|(_, other)| holds(*other) != holds(value));
        let turned_by: Vec<String> = turned.map(|(name, _)| name.clone()).collect();
        let all = || self.values.iter().map(|(_, value)| *value);
        Some(Claim {
            source: "Section VI-A",
            sentence: self.sentence,
            measure: self.measure,
            bound: self.bound,
            value,
            range: (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)),
            verdict: match (turned_by.is_empty(), holds(value)) {
                (true, true) => Verdict::Holds,
                (true, false) => Verdict::Fails,
                (false, _) => Verdict::Depends,
            },
            turned_by,
        })
    }
}

fn claims(units: &[Unit], absent: &mut Vec<String>) -> Vec<Claim> {
    let rates = |unit: &Unit| Some(unit.megabits_per_s.clone());
    let bytes = |unit: &Unit| Some(unit.code_bytes.as_ref()?.iter().map(|&bytes| bytes as f64).collect());
    let compilers: Vec<&[Unit]> = units.chunks_exact(OPTIONS.len()).collect();
    let each = |of: &dyn Fn(&[Unit]) -> Option<f64>| -> Vec<(String, f64)> {
        compilers.iter().filter_map(|units| Some((units[0].compiler.clone(), of(units)?))).collect()
    };
    let slower = |units: &[Unit]| Some(100.0 * (1.0 - mean_ratio(rates, &units[0], &units[3])?));
    let longer = |units: &[Unit]| Some(100.0 * (mean_ratio(bytes, &units[0], &units[1])? - 1.0));
    let mut sentences = vec![
        Sentence {
            sentence: "O0 is about 17 % slower than O2",
            measure: "mean, %",
            bound: Bound::Paper(17.0),
            values: each(&slower),
        },
        Sentence {
            sentence: "O0's code is 65 % longer than O1's",
            measure: "mean, %",
            bound: Bound::Paper(65.0),
            values: each(&longer),
        },
        Sentence {
            sentence: "options save storage above all",
            measure: "% of O0 longer than O1, less % slower than O2",
            bound: Bound::AtLeast(0.0),
            values: each(&|units| Some(longer(units)? - slower(units)?)),
        },
    ];
    let family = |units: &[Unit]| units[0].compiler.split('-').next().unwrap_or_default().to_owned();
    // The other version of a family over its first.
    let pairs = |at: usize, of: &dyn Fn(&Unit) -> Option<Vec<f64>>| -> Vec<(String, f64)> {
        let mut values = Vec::new();
        for (number, other) in compilers.iter().enumerate() {
            if let Some(first) = compilers[..number].iter().find(|first| family(first) == family(other)) {
                let name = format!("{} over {}", other[0].compiler, first[0].compiler);
                values.extend(mean_ratio(of, &other[at], &first[at]).map(|ratio| (name, ratio)));
            }
        }
        values
    };
    let alike = Bound::Between(1.0 / 1.1, 1.1);
    sentences.push(Sentence {
        sentence: "versions make code of like speed (O2)",
        measure: "mean ratio (within 10 %)",
        bound: alike,
        values: pairs(3, &rates),
    });
    sentences.push(Sentence {
        sentence: "versions make code of like size (O2)",
        measure: "mean ratio (within 10 %)",
        bound: alike,
        values: pairs(3, &bytes),
    });
    if sentences[3].values.is_empty() {
        absent
            .push("versions of one compiler beside each other: no two of a family are installed".to_owned());
    }
    sentences.into_iter().filter_map(Sentence::claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::skip;

    /// Every compiler's code is compared with the reference inside.
    #[test]
    fn compilers_make_what_the_reference_makes() {
        if installed(&Surroundings::default()).0.is_empty() {
            return skip("no gcc and no clang");
        }
        let found = compare(&Surroundings::default(), |_| ()).unwrap();
        assert_eq!(found.units.len() % OPTIONS.len(), 0);
        for unit in &found.units {
            assert_eq!(unit.megabits_per_s.len(), TEN.len());
            assert!(unit.megabits_per_s.iter().all(|rate| *rate > 0.0), "{unit:?}");
        }
        assert!(found.claims.iter().any(|claim| claim.sentence.contains("17 %")));
        assert!(found.claims.iter().all(|claim| claim.value.is_finite()));
        assert_eq!(found.figures[0].rows.len(), TEN.len());
    }

    /// A kernel that is changed makes something else, and is not timed.
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
        for name in TEN {
            let kernel = name.split('-').next().unwrap();
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
        let unit = |compiler: &str, option, rate, bytes| Unit {
            compiler: compiler.to_owned(),
            version: "1".to_owned(),
            option,
            megabits_per_s: vec![rate; 10],
            code_bytes: Some(vec![bytes; 10]),
        };
        let of = |compiler: &str, slow| {
            [("O0", slow, 165), ("O1", 90.0, 100), ("Os", 80.0, 90), ("O2", 100.0, 120)]
                .map(|(option, rate, bytes)| unit(compiler, option, rate, bytes))
        };
        let units: Vec<Unit> = [of("gcc", 83.0), of("gcc-9", 20.0)].concat();
        let mut absent = Vec::new();
        let claims = claims(&units, &mut absent);
        let verdict = |part: &str| {
            let claim = claims.iter().find(|claim| claim.sentence.contains(part)).unwrap();
            (claim.verdict, (10.0 * claim.value).round())
        };
        assert_eq!(verdict("17 %"), (Verdict::Depends, 170.0));
        assert_eq!(verdict("65 %"), (Verdict::Holds, 650.0));
        assert_eq!(verdict("like size"), (Verdict::Holds, 10.0));
        assert!(absent.is_empty());
    }
}
