//! The same copy again, beside rsync: of a tree that did not change or of which 100 files did, of a large file of which a hundredth
//! changed, and of data that compression makes shorter; the last two through a link of 100 Mb/s.
//!
//! Guarantees: each tool has a target of its own, which is as it is to be before the clock starts; clocks cover the whole program, a
//! login included; processor time covers both ends; targets are compared with the source after the clock, and one that differs is a
//! failure.

use super::copies::Copies;
use super::crossing::{Crossed, name, through};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{
    Axis, Claim, Coordinates, Experiment, Measure, Outcome, Plan, Profile, Repetition, Sample, Sampler, View,
    at,
};
use crate::load::Watch;
use crate::peers::{PrivateSshd, timed};
use crate::report::number;
use crate::request::Request;
use crate::rng::Rng;
use crate::scratch::Scratch;
use crate::stats::{Centre, SAMPLES_FOR_CONFIDENCE};
use sealane_terminal::text::utc_now;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// The parts' names.
pub(super) const REPEAT: &str = "repeat";
pub(super) const DELTA: &str = "delta";
pub(super) const COMPRESS: &str = "compress";

/// The link of deltas and compression: 1 ms, without loss, at 100 Mb/s.
const LINK: (u64, u32) = (1_000, 0);
const LINK_BYTES_PER_SECOND: u64 = 12_500_000;
/// The sizes of which the targets speak: files of a tree, bytes of the file of deltas, and of the data that are compressed.
const FILES: u64 = 100_000;
const DELTA_BYTES: u64 = 1 << 30;
const COMPRESS_BYTES: u64 = 256 << 20;
/// The number of files that change.
const CHANGED: u64 = 100;
/// The files of a folder, and the bytes of a file.
const FOLDER_FILES: u64 = 500;
const FILE_BYTES: usize = 100;
/// One block in so many changes.
const BLOCK_EVERY: u64 = 100;
const BLOCK_BYTES: u64 = 4096;

const SECONDS: &str = "seconds";
const CPU: &str = "cpu";
const WIRE: &str = "wire";

/// A way of copying: its name in tables, the program, and its options.
struct Tool {
    name: &'static str,
    is_own: bool,
    options: &'static [&'static str],
}

const fn own(name: &'static str, options: &'static [&'static str]) -> Tool {
    Tool { name, is_own: true, options }
}

const fn rsync(name: &'static str, options: &'static [&'static str]) -> Tool {
    Tool { name, is_own: false, options }
}

/// The ways of a repeated copy; -X compares as much as our -a does.
const REPEATERS: [Tool; 3] =
    [own("sealane cp -a", &["-a", "-T"]), rsync("rsync -a", &["-a"]), rsync("rsync -aX", &["-a", "-X"])];
const COMPARERS: [Tool; 2] = [own("sealane cp", &["-T", "-I"]), rsync("rsync", &["-t", "-I"])];
const COMPRESSORS: [Tool; 4] = [
    own("sealane cp -z", &["-T", "-z"]),
    own("sealane cp --compress=auto", &["-T", "--compress=auto"]),
    own("sealane cp", &["-T"]),
    rsync("rsync -z", &["-z", "--zc=zstd", "--zl=1", "-W"]),
];

fn files(profile: Profile) -> u64 {
    match profile {
        Profile::Smoke => 200,
        Profile::Quick => 2_000,
        Profile::Full | Profile::Paper => FILES,
    }
}

fn bytes(profile: Profile, full: u64) -> u64 {
    match profile {
        Profile::Smoke => 1 << 20,
        Profile::Quick => (full / 32).max(8 << 20),
        Profile::Full | Profile::Paper => full,
    }
}

fn repetition(profile: Profile) -> Repetition {
    let rounds = if profile == Profile::Smoke { 1 } else { SAMPLES_FOR_CONFIDENCE };
    Repetition { warm_up_rounds: 0, rounds, retries_per_round: 0, centre: Centre::Median }
}

fn measures() -> Vec<Measure> {
    vec![
        Measure::cost(SECONDS, "time", "s").decimals(2),
        Measure::cost(CPU, "processor time of both ends", "s").decimals(2),
    ]
}

/// Whatever a run needs besides its tool.
struct Bench<'a> {
    scratch: &'a Scratch,
    program: PathBuf,
    sshd: Option<PrivateSshd>,
}

impl<'a> Bench<'a> {
    fn set(request: &Request, scratch: &'a Scratch) -> Result<Self, LabError> {
        let installed = Command::new("rsync").arg("--version").output();
        if !installed.is_ok_and(|output| output.status.success()) {
            return Err(unavailable("rsync is not installed"));
        }
        let sshd = PrivateSshd::start(&request.surroundings).ok();
        Ok(Self { scratch, program: request.program()?.path, sshd })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the copy of a source to a target on this host, or over ssh; with contents of folders, not with their names.
    fn command(&self, tool: &Tool, over_ssh: bool, from: &Path, to: &Path) -> Result<Command, LabError> {
        let sshd = || self.sshd.as_ref().ok_or_else(|| unavailable("no private sshd can be started"));
        let target = match over_ssh {
            true => format!("{}:{}", PrivateSshd::HOST, to.display()),
            false => to.display().to_string(),
        };
        let mut command = Command::new(if tool.is_own { self.program.as_os_str() } else { "rsync".as_ref() });
        match (tool.is_own, over_ssh) {
            (true, true) => {
                command.args(["cp", "--no-resume", "--far-end=sealane", "--quiet", "-F"]);
                command.arg(sshd()?.client_config()).arg("--remote-program").arg(&self.program);
            }
            (true, false) => {
                command.args(["cp", "--no-resume", "--quiet"]);
            }
            (false, true) => {
                let config = sshd()?.client_config();
                command.arg("-e").arg(format!("ssh -F {}", config.display()));
            }
            (false, false) => {}
        }
        command.args(tool.options);
        let is_folder = from.is_dir();
        let from = from.display();
        command
            .arg(if is_folder && !tool.is_own { format!("{from}/") } else { from.to_string() })
            .arg(target);
        Ok(command)
    }

    /// Runs it, and returns its wall time, the processor time, and the bytes that have passed the link.
    fn run(&self, command: Command) -> Result<Sample, LabError> {
        let before = link_bytes();
        let watch = Watch::begin();
        let (wall, near, far) = timed_beside(self.sshd.as_ref(), command)?;
        let is_disturbed = watch.is_disturbed(far.as_secs_f64());
        let mut values = vec![(SECONDS, wall.as_secs_f64()), (CPU, (near + far).as_secs_f64())];
        values.extend(before.zip(link_bytes()).map(|(before, after)| (WIRE, (after - before) / 1e6)));
        Ok(Sample::of(values, is_disturbed))
    }
}

/// Runs a command to its end, and returns its wall time, its CPU time, and that of a private server meanwhile, if there is one.
fn timed_beside(
    sshd: Option<&PrivateSshd>,
    command: Command,
) -> Result<(Duration, Duration, Duration), LabError> {
    let cpu = || sshd.map_or(Duration::ZERO, PrivateSshd::cpu);
    let before = cpu();
    let (wall, near) = timed(command)?;
    Ok((wall, near, cpu().saturating_sub(before)))
}

/// Returns the bytes that have passed the emulated link; `None` where there is none.
fn link_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/net/dev").ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("link0:"))?;
    // The device's own transmissions are packets of both directions (proc_net_dev(5): the ninth field).
    line.split_ascii_whitespace().nth(8)?.parse().ok()
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
    LabError::file(what, path)
}

/// Writes the file of a number; its content changes with the seed.
fn write_small(tree: &Path, number: u64, seed: u64) -> io::Result<()> {
    let path = tree.join((number / FOLDER_FILES).to_string()).join(number.to_string());
    let mut content = [0; FILE_BYTES];
    content[..8].copy_from_slice(&(number ^ seed).to_le_bytes());
    fs::write(path, content)
}

/// Runs the repetition of a tree's copy, near and over ssh.
pub(super) fn repeat(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let (request, count) = (copies.request, files(copies.request.profile));
    if !request.copies.peers {
        return Ok(Vec::new());
    }
    let bench = Bench::set(request, copies.scratch)?;
    let tree = bench.scratch.empty_directory("tree")?;
    for folder in 0..count.div_ceil(FOLDER_FILES) {
        let path = tree.join(folder.to_string());
        fs::create_dir(&path).map_err(failed("cannot make", &path))?;
    }
    (0..count).try_for_each(|number| write_small(&tree, number, 0)).map_err(failed("cannot fill", &tree))?;
    let mut ways = vec!["near"];
    let mut skipped = Vec::new();
    match bench.sshd {
        Some(_) => ways.push("over ssh"),
        None => skipped.push("over ssh: no private sshd can be started".to_owned()),
    }
    let cases = ["unchanged", "100 changed"];
    let mut places = Vec::new();
    for way in &ways {
        for case in cases {
            places.extend(REPEATERS.iter().map(|tool| place(way, case, tool.name)));
        }
    }
    let title = "The same copy of a tree again";
    let experiment = Experiment {
        axes: vec![
            Axis::new("way", ways.clone()),
            Axis::new("case", cases),
            Axis::new("tool", REPEATERS.iter().map(|tool| tool.name)),
        ],
        workload: format!(
            "{count} files of {FILE_BYTES} bytes in folders of {FOLDER_FILES}, in the page cache."
        ),
        repetition: repetition(request.profile),
        claims: repeat_claims(&ways, count),
        view: View::pivot(&["way", "case"], "tool", SECONDS),
        ..Experiment::new(REPEAT, REPEAT, title, &[], measures())
    };
    let experiment = experiment.method(&[
        "Each tool has a target of its own, which a first copy has made equal. Extended attributes are compared by our -a and by rsync -aX, not by rsync -a.",
    ]);
    let plan = Plan { experiment, places: places.clone(), skipped, seed: request.seed, ..Plan::default() };
    let mut sampler = Repeating { bench, tree, count, places, seed: request.seed };
    let outcome = plan.run(&mut sampler, progress, |_| ());
    crate::scratch::remove(&sampler.tree)?;
    Ok(vec![outcome?])
}

fn place(way: &str, case: &str, tool: &str) -> Coordinates {
    at([("way", way), ("case", case), ("tool", tool)])
}

/// Returns the claims about repeated copies of this many files.
fn repeat_claims(ways: &[&str], count: u64) -> Vec<Claim> {
    let [ours, archive, with_attributes] = &REPEATERS;
    let claim = |way: &str, case: &str, other: &Tool, measure: &str, bound: f64| {
        let what = if measure == CPU { "processor time" } else { "time" };
        let statement = format!("{}: {case}, {way}: {what} beside {}", ours.name, other.name);
        let cells = (place(way, case, ours.name), place(way, case, other.name));
        let claim = Claim::ratio((statement, "target"), measure, cells, (None, Some(bound)));
        claim.judged_from(count, FILES, |count| format!("{count} files"))
    };
    let mut claims = vec![
        claim("near", "unchanged", with_attributes, SECONDS, 0.35),
        claim("near", "100 changed", with_attributes, SECONDS, 0.45),
    ];
    if ways.contains(&"over ssh") {
        claims.extend([
            claim("over ssh", "unchanged", archive, SECONDS, 0.40),
            claim("over ssh", "unchanged", archive, CPU, 0.5),
            claim("over ssh", "100 changed", archive, SECONDS, 0.45),
        ]);
    }
    claims
}

struct Repeating<'a> {
    bench: Bench<'a>,
    tree: PathBuf,
    count: u64,
    places: Vec<Coordinates>,
    seed: u64,
}

impl Sampler for Repeating<'_> {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let place = self.places[cell].clone();
        let tool = REPEATERS.iter().find(|tool| tool.name == place["tool"]);
        let tool = tool.ok_or_else(|| unavailable("no such tool"))?;
        let over_ssh = place["way"] == "over ssh";
        let target = self.bench.at(&format!("again-{}", tool.name.replace(' ', "")));
        let copy = |bench: &Bench<'_>| bench.command(tool, over_ssh, &self.tree, &target);
        // Another tool may have changed the source since.
        timed_beside(self.bench.sshd.as_ref(), copy(&self.bench)?)?;
        if place["case"] != "unchanged" {
            self.seed = self.seed.wrapping_add(1);
            let step = (self.count / CHANGED).max(1);
            for number in (0..self.count).step_by(step as usize).take(CHANGED as usize) {
                write_small(&self.tree, number, self.seed).map_err(failed("cannot change", &self.tree))?;
            }
        }
        let sample = self.bench.run(copy(&self.bench)?)?;
        for number in [0, self.count / 2, self.count - 1] {
            let path = Path::new(&(number / FOLDER_FILES).to_string()).join(number.to_string());
            same(&self.tree.join(&path), &target.join(&path))?;
        }
        Ok(sample)
    }
}

/// Compares two files by their contents.
fn same(one: &Path, other: &Path) -> Result<(), LabError> {
    let read = |path: &Path| fs::read(path).map_err(failed("cannot read", path));
    match read(one)? == read(other)? {
        true => Ok(()),
        false => Err(unavailable(format_args!("{} is not {}", other.display(), one.display()))),
    }
}

/// Runs a part behind the link, and gives its table the claims.
fn crossed(
    copies: &Copies<'_>,
    (part, title, words): (&str, &str, &str),
    (full, tools): (u64, &[Tool]),
    claims: impl Fn(&str, u64) -> Vec<Claim>,
    progress: &mut dyn Write,
) -> Result<Vec<Outcome>, LabError> {
    let request = copies.request;
    if !request.copies.peers {
        return Ok(Vec::new());
    }
    let (began, started, seed) = (Instant::now(), utc_now(), request.seed);
    let most =
        request.copies.file_bytes_max.unwrap_or(u64::MAX).min(copies.bytes_max.max(full.min(64 << 20)));
    let size = bytes(request.profile, full).min(most);
    let Crossed { cells, skipped, .. } =
        through(request, part, &[LINK], Some(LINK_BYTES_PER_SECOND), |_| size, progress)?;
    let link = name(LINK);
    let mut cases: Vec<String> = Vec::new();
    for cell in &cells {
        if !cases.contains(&cell.at["case"]) {
            cases.push(cell.at["case"].clone());
        }
    }
    let mut measured = measures();
    measured.push(Measure::cost(WIRE, "bytes on the link, both directions", "MB").decimals(1));
    let experiment = Experiment {
        axes: vec![
            Axis::new("link", [link.clone()]),
            Axis::new("case", cases),
            Axis::new("tool", tools.iter().map(|tool| tool.name)),
        ],
        workload: format!("{words}: {}.", number::bytes(size)),
        repetition: repetition(request.profile),
        claims: claims(&link, size),
        view: View::pivot(&["case"], "tool", SECONDS),
        ..Experiment::new(part, part, title, &[], measured)
    };
    let experiment = experiment.method(&[
        "The link of 100 Mb/s for both directions together is emulated in a network namespace of its own, where both ends run; logins are part of each run.",
    ]);
    let seconds = began.elapsed().as_secs_f64();
    Ok(vec![Outcome { seed, started, seconds, skipped, ..Outcome::new(experiment, cells) }])
}

/// Runs deltas through the link.
pub(super) fn delta(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let title =
        ("A large file of which one block in a hundred changed, at 100 Mb/s", "One file of random bytes");
    let claims = |link: &str, size: u64| {
        let place = |tool: &Tool| {
            at([("link", link), ("data", DELTA), ("case", CHANGED_BLOCKS), ("tool", tool.name)])
        };
        let [ours, other] = &COMPARERS;
        [(SECONDS, "time", 0.3), (CPU, "processor time", 0.5), (WIRE, "bytes", 0.15)]
            .map(|(measure, words, bound)| {
                let statement = format!("one block in a hundred changed: {words} beside {}", other.name);
                let cells = (place(ours), place(other));
                let claim = Claim::ratio((statement, "target"), measure, cells, (None, Some(bound)));
                claim.judged_from(size, DELTA_BYTES, number::bytes)
            })
            .to_vec()
    };
    crossed(copies, (DELTA, title.0, title.1), (DELTA_BYTES, &COMPARERS), claims, progress)
}

/// Runs compression through the link.
pub(super) fn compress(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let title = ("Compression at 100 Mb/s", "One new file, a log or random bytes");
    let claims = |link: &str, size: u64| {
        let place = |case: &str, tool: &Tool| {
            at([("link", link), ("data", COMPRESS), ("case", case), ("tool", tool.name)])
        };
        let [always, auto, plain, other] = &COMPRESSORS;
        let claim = |case: &str, tool: &Tool, other: &Tool, bound: f64| {
            let statement = format!("{}, {case}: time beside {}", tool.name, other.name);
            let cells = (place(case, tool), place(case, other));
            let claim = Claim::ratio((statement, "target"), SECONDS, cells, (None, Some(bound)));
            claim.judged_from(size, COMPRESS_BYTES, number::bytes)
        };
        vec![
            claim(LOG, always, other, 1.0),
            claim(LOG, auto, plain, 1.0),
            // Random data goes as it is, and auto never loses more than 2 % of the rate.
            claim(RANDOM, auto, plain, 1.02),
        ]
    };
    crossed(copies, (COMPRESS, title.0, title.1), (COMPRESS_BYTES, &COMPRESSORS), claims, progress)
}

const CHANGED_BLOCKS: &str = "1 % of blocks changed";
const LOG: &str = "log";
const RANDOM: &str = "random";

/// Takes the samples of one of these parts, in the lab behind the link.
pub(super) fn behind(request: &Request, progress: &mut dyn Write) -> Result<Outcome, LabError> {
    let is_delta = request.only.first().is_some_and(|part| part == DELTA);
    let (id, full) = if is_delta { (DELTA, DELTA_BYTES) } else { (COMPRESS, COMPRESS_BYTES) };
    let size = request.copies.file_bytes_max.unwrap_or_else(|| bytes(request.profile, full));
    let scratch = request.scratch(size * 4)?;
    let bench = Bench::set(request, &scratch)?;
    if bench.sshd.is_none() {
        return Err(unavailable("no private sshd can be started behind the link"));
    }
    let (cases, tools): (&[&str], &'static [Tool]) =
        if is_delta { (&[CHANGED_BLOCKS], &COMPARERS) } else { (&[LOG, RANDOM], &COMPRESSORS) };
    let places: Vec<_> = cases
        .iter()
        .flat_map(|case| tools.iter().map(|tool| at([("case", *case), ("tool", tool.name)])))
        .collect();
    let mut measured = measures();
    measured.push(Measure::cost(WIRE, "bytes on the link, both directions", "MB"));
    let experiment = Experiment {
        axes: vec![
            Axis::new("case", cases.iter().copied()),
            Axis::new("tool", tools.iter().map(|tool| tool.name)),
        ],
        repetition: repetition(request.profile),
        view: View::pivot(&["case"], "tool", SECONDS),
        ..Experiment::new(id, id, "Behind an emulated link", &[], measured)
    };
    let plan = Plan { experiment, places: places.clone(), seed: request.seed, ..Plan::default() };
    let mut sampler = Behind { bench, size, is_delta, places, tools, seed: request.seed };
    plan.run(&mut sampler, progress, |_| ())
}

struct Behind<'a> {
    bench: Bench<'a>,
    size: u64,
    is_delta: bool,
    places: Vec<Coordinates>,
    tools: &'static [Tool],
    seed: u64,
}

impl Behind<'_> {
    /// Makes the source of a case, and the target as it is to be before the copy.
    fn lay(&mut self, case: &str, target: &Path) -> Result<PathBuf, LabError> {
        self.seed = self.seed.wrapping_add(1);
        let source = self.bench.at("source");
        let _ = fs::remove_file(target);
        if case == LOG {
            write_log(&source, self.size, self.seed).map_err(failed("cannot fill", &source))?;
            return Ok(source);
        }
        self.bench.scratch.random_file("source", self.size, self.seed)?;
        if self.is_delta {
            fs::copy(&source, target).map_err(failed("cannot fill", target))?;
            change_blocks(&source, self.size, self.seed).map_err(failed("cannot change", &source))?;
        }
        Ok(source)
    }
}

impl Sampler for Behind<'_> {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let place = self.places[cell].clone();
        let tool = self.tools.iter().find(|tool| tool.name == place["tool"]);
        let tool = tool.ok_or_else(|| unavailable("no such tool"))?;
        let target = self.bench.at("target");
        let source = self.lay(&place["case"], &target)?;
        let sample = self.bench.run(self.bench.command(tool, true, &source, &target)?)?;
        same(&source, &target)?;
        Ok(sample)
    }
}

/// Gives one block in a hundred other bytes, and the file the present time.
fn change_blocks(path: &Path, size: u64, seed: u64) -> io::Result<()> {
    let file = fs::File::options().write(true).open(path)?;
    let mut random = Rng::new(seed);
    for block in (0..size / BLOCK_BYTES).skip(3).step_by(BLOCK_EVERY as usize) {
        let mut content = [0; BLOCK_BYTES as usize];
        random.fill(&mut content);
        file.write_all_at(&content, block * BLOCK_BYTES)?;
    }
    file.set_modified(SystemTime::now())
}

/// Writes a log of a server: lines that resemble each other, as zstd makes five times shorter.
fn write_log(path: &Path, size: u64, seed: u64) -> io::Result<()> {
    let mut file = io::BufWriter::new(fs::File::create(path)?);
    let mut random = Rng::new(seed);
    let (mut written, mut at) = (0, 1_700_000_000_u64);
    while written < size {
        let chance = random.next_u64();
        at += chance % 3;
        let line = format!(
            "{at} host{} app[{}]: {} /static/{:x} {} {} bytes in {} us\n",
            chance % 16,
            1000 + chance % 50,
            ["GET", "POST", "HEAD"][(chance % 3) as usize],
            chance >> 40,
            [200, 200, 200, 304, 404][(chance % 5) as usize],
            chance >> 20 & 0xffff,
            chance & 0xffff,
        );
        let line = &line.as_bytes()[..line.len().min((size - written) as usize)];
        file.write_all(line)?;
        written += line.len() as u64;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_judged_at_their_size_alone_and_about_cells() {
        let ways = ["near", "over ssh"];
        for (count, unjudged) in [(files(Profile::Quick), 5), (files(Profile::Full), 0)] {
            let claims = repeat_claims(&ways, count);
            assert_eq!(claims.iter().filter(|claim| claim.unjudged.is_some()).count(), unjudged);
            for claim in &claims {
                let names = REPEATERS.map(|tool| tool.name);
                assert!(claim.shape.places().iter().all(|place| names.contains(&&*place["tool"])));
            }
        }
        assert_eq!(repeat_claims(&["near"], FILES).len(), 2);
    }

    #[test]
    fn one_block_in_a_hundred_changes_and_logs_have_their_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let size = 1000 * BLOCK_BYTES;
        fs::write(&path, vec![0; size as usize]).unwrap();
        change_blocks(&path, size, 7).unwrap();
        let content = fs::read(&path).unwrap();
        let changed =
            content.chunks(BLOCK_BYTES as usize).filter(|block| block.iter().any(|&byte| byte != 0));
        assert_eq!((changed.count(), content.len() as u64), (10, size));
        write_log(&path, 100_001, 3).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 100_001);
        assert!(fs::read(&path).unwrap().is_ascii());
    }
}
