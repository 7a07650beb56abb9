//! The first command of a new user: it shows the cost of protection on this machine, in under two minutes, without
//! root and without a second host.
//!
//! Guarantees: every copy of the product is compared byte for byte with its source at least once per level; missing
//! programs are named; only the report remains.

mod conclusions;
mod plan;
mod resume;
mod tree;

use crate::LabError;
use crate::contest::{self, Rules};
use crate::experiment::{CPU_PER_GIB, Outcome, Profile, RATE, Repetition, at};
use crate::machine::Machine;
use crate::peers::{self, Kind, OWN, OWN_OVER_SSH, Own, Peer, Workload};
use crate::program::{Level, Program};
use crate::report::{Check, Report, Tile, number};
use crate::request::{Request, limits_of_copies, method_of_copies};
use crate::scratch::Scratch;
use crate::stats::{Centre, Summary};
use crate::studies::{Family, OWN as OWN_STUDY, Study, cost, study};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use tree::TreeSample;

/// The family of `sealane lab quick`.
pub(crate) const FAMILIES: &[Family] = &[Family {
    command: "lab quick",
    needs: "two processors, 2 GiB of memory",
    parts: &[],
    costs: &[cost(&[], 200)],
    studies: &[STUDY],
    run,
}];

const STUDY: Study = study("quick", OWN_STUDY, "a file and a tree at four levels, beside other tools", &[]);

const FILE_NAME: &str = "file";
const TREE_NAME: &str = "tree";
const TARGET_NAME: &str = "target";
/// The part of the time that the file has.
const FILES_SHARE: f64 = 0.6;
/// The size of the file, if there is room and time for it and no other size was requested.
const FILE_BYTES: u64 = 1 << 30;

/// The repetition rule of this command: three rounds show the spread, and the report states that they are too few for
/// an interval.
const REPETITION: Repetition =
    Repetition { warm_up_rounds: 0, rounds: 3, retries_per_round: 1, centre: Centre::Median };

/// Runs everything, and reports the progress to `progress`.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let started = Instant::now();
    let program = request.program()?;
    let wished = request.copies.file_bytes_max.unwrap_or(FILE_BYTES);
    let (mut file_bytes, mut tree_bytes_max) = sizes(request, wished);
    let scratch = request.scratch(needed_bytes(file_bytes, tree_bytes_max))?;
    let mut skipped = Vec::new();
    if file_bytes < wished {
        let [wished, room] = [wished, file_bytes].map(number::bytes);
        skipped.push(format!("a file of {wished}: there is room for {room} only"));
    }
    let mut contestants = contestants(request, &program);

    writeln!(progress, "Taking a real tree and making a random file ...")?;
    // The file has the first part of the time, the tree the rest.
    let until = started + request.copies.limit.mul_f64(FILES_SHARE);
    let target = scratch.path().join(TARGET_NAME);
    let wished = (file_bytes, tree_bytes_max);
    (file_bytes, tree_bytes_max) =
        sizes_in_time(request, (&scratch, &target), wished, &mut contestants, until)?;
    skipped.extend(too_large("tree", wished.1, tree_bytes_max));
    skipped.extend(too_large("file", wished.0, file_bytes));
    let tree = take_tree(request, &scratch, tree_bytes_max, &mut skipped)?;
    let file = scratch.random_file(FILE_NAME, file_bytes, request.seed)?;
    let [file, tree_of] =
        [file, scratch.path().join(TREE_NAME)].map(|source| Workload::new(&source, &target));
    let (file, tree_of) = (file?, tree_of?);

    writeln!(progress, "Killing a copy midway and running it again ...")?;
    let (resumed, check) = resume(&program, &file);
    writeln!(progress, "  {}", check.found)?;
    let mut checks = vec![check];

    let size = number::bytes(file_bytes);
    let mut hold = |id, title: &str, words: &str, workload: &Workload, deadline| {
        let rules = Rules {
            id,
            title,
            covers: STUDY.id,
            words,
            workload,
            renew: (workload.kind() == Kind::File).then_some((&scratch, FILE_NAME)),
            repetition: REPETITION,
            seed: request.seed,
            deadline: Some(deadline),
            with_claims: false,
        };
        let (outcome, mut compared) = contest::hold(&rules, &mut contestants, progress)?;
        checks.append(&mut compared);
        Ok::<_, LabError>(outcome)
    };
    let words = format!("{size} of random bytes, new in each round.");
    let file = hold("file", &format!("One file of {size}"), &words, &file, until)?;
    let title =
        format!("A tree of {} files, {}", number::quantity(tree.files as f64), number::bytes(tree.bytes));
    let words = format!("A sample of {}, copied to memory first.", tree.origin.display());
    let tree = hold("tree", &title, &words, &tree_of, started + request.copies.limit)?;

    let machine = Machine::describe();
    let summary = format!(
        "One file and one tree, copied to a second process at four levels of protection, beside the tools installed here. {}",
        sentence(&file)
    );
    Ok(Report {
        seconds: started.elapsed().as_secs_f64(),
        profile: Some(Profile::Quick),
        tiles: tiles(&file, &tree, resumed.as_ref(), file_bytes),
        conclusions: conclusions::conclusions(&file, machine.cores),
        checks,
        method: method(&scratch, &machine, &[&file, &tree]),
        limits: limits_of_copies(&machine),
        skipped,
        ..Report::new(
            "sealane lab quick",
            "What protection costs on this machine",
            &summary,
            vec![file, tree],
        )
    })
}

/// Returns all that copy, the product first, in the order of their turns.
fn contestants(request: &Request, program: &Program) -> Vec<Box<dyn Peer>> {
    let mut contestants = Own::four_levels(program);
    if request.copies.peers {
        contestants.extend(peers::all(&request.surroundings));
        // The product over ssh is compared with the programs that log in too.
        contestants.push(peers::own_over_ssh(&request.surroundings, &program.path));
    }
    // The rows that matter most have their turns before the time is up.
    contestants.sort_by_key(|peer| plan::rank(peer.name(), peer.level()));
    contestants
}

/// Returns the sizes of the file and of the tree for which there is time, by trials in `scratch`; sizes that somebody wants stay. The
/// file has the time `until` then, the tree its share of the limit.
fn sizes_in_time(
    request: &Request,
    (scratch, target): (&Scratch, &Path),
    (mut file_bytes, mut tree_bytes): (u64, u64),
    contestants: &mut [Box<dyn Peer>],
    until: Instant,
) -> Result<(u64, u64), LabError> {
    if tree_bytes > plan::TREE_TRIAL_BYTES {
        let tried = take_tree(request, scratch, plan::TREE_TRIAL_BYTES, &mut Vec::new())?;
        let trial = Workload::new(&scratch.path().join(TREE_NAME), target)?;
        let time = || request.copies.limit.mul_f64(1.0 - FILES_SHARE);
        tree_bytes = fitting(contestants, &trial, (tree_bytes, tried.bytes), time);
    }
    if request.copies.file_bytes_max.is_none() && file_bytes > plan::FILE_TRIAL_BYTES {
        let trial = scratch.random_file(FILE_NAME, plan::FILE_TRIAL_BYTES, request.seed)?;
        let trial = Workload::new(&trial, target)?;
        let time = || until.saturating_duration_since(Instant::now());
        file_bytes = fitting(contestants, &trial, (file_bytes, plan::FILE_TRIAL_BYTES), time);
    }
    Ok((file_bytes, tree_bytes))
}

/// Returns words about a usual size for which there is no time.
fn too_large(what: &str, usual: u64, now: u64) -> Option<String> {
    let [usual_text, now_text] = [usual, now].map(number::bytes);
    (now < usual).then(|| {
        format!(
            "a {what} of {usual_text}: by the first rows there is time for {now_text}; `--size` and `--limit` change that"
        )
    })
}

/// Returns the largest halving of a size of which all contestants have their turns in a time, by what the first rows take for a
/// trial; the size itself if the product's row fails, as the contest will say why.
fn fitting(
    contestants: &mut [Box<dyn Peer>],
    trial: &Workload,
    (wished, tried): (u64, u64),
    time: impl FnOnce() -> Duration,
) -> u64 {
    let Some(pace) = plan::pace(contestants, trial) else { return wished };
    let rows = plan::rows(contestants, trial);
    plan::fitting((wished, tried), pace, rows, REPETITION.rounds, time())
}

/// Returns the bytes of source and copy of the file and of the tree, and of the blocks of many small files.
fn needed_bytes(file_bytes: u64, tree_bytes: u64) -> u64 {
    file_bytes * 2 + tree_bytes * 3
}

/// Returns the sizes of file and tree, halved until they fit.
fn sizes(request: &Request, file_bytes: u64) -> (u64, u64) {
    let (mut file, mut tree) = (file_bytes, request.copies.tree_bytes_max);
    let room = request.room_bytes(needed_bytes(file, tree));
    while needed_bytes(file, tree) > room && file > 16 << 20 {
        file /= 2;
        tree /= 2;
    }
    (file, tree)
}

fn take_tree(
    request: &Request,
    scratch: &Scratch,
    bytes_max: u64,
    skipped: &mut Vec<String>,
) -> Result<TreeSample, LabError> {
    let target = scratch.path().join(TREE_NAME);
    let candidates = request.copies.tree.as_ref().map_or(&*request.surroundings.trees, std::slice::from_ref);
    for candidate in candidates {
        crate::scratch::remove(&target)?;
        let sample = tree::take(candidate, &target, bytes_max)?;
        if sample.files >= 100 || request.copies.tree.is_some() && sample.files > 0 {
            if sample.left_out > 0 {
                skipped.push(format!(
                    "{} entries of {}: links, devices, pipes, or unreadable files; tools treat them differently",
                    sample.left_out,
                    candidate.display()
                ));
            }
            return Ok(sample);
        }
    }
    crate::scratch::remove(&target)?;
    skipped.push("a real tree: none was found, so one was generated".to_owned());
    tree::generate(&target, bytes_max, request.seed)
}

fn resume(program: &Program, workload: &Workload) -> (Option<resume::Resumed>, Check) {
    let resumed = workload.clear_target().and_then(|()| {
        resume::kill_and_resume(program, workload.source(), workload.target(), workload.bytes())
    });
    match resumed {
        Ok(resumed) => (Some(resumed.0), resumed.1),
        Err(error) => {
            let what = "killed midway (SIGKILL), then run again".to_owned();
            (None, Check { what, found: error.to_string(), is_good: false })
        }
    }
}

fn own(outcome: &Outcome, level: Level, metric: &str) -> Option<Summary> {
    outcome.cell(&at([("level", level.name()), ("tool", OWN)]))?.summary(metric)
}

/// Returns the reservation of a headline if other work disturbed every run of the product at one of these levels.
fn doubt(outcome: &Outcome, levels: &[Level]) -> &'static str {
    let all_disturbed = |level: &&Level| {
        let cell = outcome.cell(&at([("level", level.name()), ("tool", OWN)]));
        cell.is_some_and(|cell| {
            !cell.samples.is_empty() && cell.samples.iter().all(|sample| sample.is_disturbed)
        })
    };
    let is_doubtful = levels.iter().any(|level| all_disturbed(&level));
    if is_doubtful { "; other work disturbed every run: measure again when nothing else runs" } else { "" }
}

/// Returns the fastest other program at `level` by its median rate, among those that log in by ssh or those that do
/// not.
fn best_peer(outcome: &Outcome, level: Level, over_ssh: bool) -> Option<(String, f64)> {
    let is_own = |name: &str| name == OWN || name == OWN_OVER_SSH;
    let peers = outcome.cells.iter().filter(|cell| {
        let tool = &*cell.at["tool"];
        cell.at["level"] == level.name() && !is_own(tool) && peers::is_over_ssh(tool) == over_ssh
    });
    peers
        .filter_map(|cell| Some((cell.at["tool"].clone(), cell.summary(RATE)?.median)))
        .max_by(|left, right| left.1.total_cmp(&right.1))
}

fn sentence(file: &Outcome) -> String {
    let private = own(file, Level::Private, CPU_PER_GIB);
    let clear = own(file, Level::Clear, CPU_PER_GIB);
    let doubt = doubt(file, &[Level::Private, Level::Clear]);
    match (private, clear) {
        (Some(private), Some(clear)) if private.median > clear.median => format!(
            "Full encryption adds {} CPU seconds per GiB to {}, at both ends together{doubt}.",
            number::quantity(private.median - clear.median),
            number::quantity(clear.median)
        ),
        (Some(private), Some(clear)) => format!(
            "Full encryption takes {} CPU seconds per GiB at both ends together, no more than the {} measured without: \
             what it adds is lost in this run's noise{doubt}.",
            number::quantity(private.median),
            number::quantity(clear.median)
        ),
        _ => String::new(),
    }
}

fn tiles(file: &Outcome, tree: &Outcome, resumed: Option<&resume::Resumed>, file_bytes: u64) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let mut tile = |label: &str, value: String, unit: &str, detail: String| {
        tiles.push(Tile { label: label.to_owned(), value, unit: unit.to_owned(), detail });
    };
    // Each is compared with those that do the same work: a login by ssh takes longer than some trees.
    let against = |outcome: &Outcome, level: Level, rate: f64| {
        let mut words = Vec::new();
        if let Some((name, best)) = best_peer(outcome, level, false) {
            words.push(format!("{} × {name}, the fastest without ssh here", number::ratio(rate / best)));
        }
        let place = at([("level", level.name()), ("tool", OWN_OVER_SSH)]);
        let ours = outcome.cell(&place).and_then(|cell| cell.summary(RATE));
        match (ours, best_peer(outcome, level, true)) {
            (Some(ours), Some((name, best))) => words.push(format!(
                "over ssh {} MB/s, {} × {name}, the fastest there",
                number::quantity(ours.median),
                number::ratio(ours.median / best)
            )),
            (None, Some((name, best))) => words.push(format!(
                "{name} carries {} MB/s with its login by ssh, the fastest there; {OWN_OVER_SSH} was not run",
                number::quantity(best)
            )),
            (_, None) => (),
        }
        match words.is_empty() {
            true => "no other program at this level here".to_owned(),
            false => words.join("; "),
        }
    };
    if let Some(rate) = own(file, Level::Private, RATE) {
        let detail = against(file, Level::Private, rate.median) + doubt(file, &[Level::Private]);
        tile("One file, private", number::quantity(rate.median), "MB/s", detail);
    }
    if let Some(cpu) = own(file, Level::Private, CPU_PER_GIB) {
        let clear = own(file, Level::Clear, CPU_PER_GIB).map_or(f64::NAN, |clear| clear.median);
        let doubt = doubt(file, &[Level::Private, Level::Clear]);
        let detail = format!("clear: {}; both ends together{doubt}", number::quantity(clear));
        tile("Cost, private", number::quantity(cpu.median), "CPU s/GiB", detail);
    }
    if let Some(rate) = own(tree, Level::Private, RATE) {
        let detail = against(tree, Level::Private, rate.median) + doubt(tree, &[Level::Private]);
        tile("The tree, private", number::quantity(rate.median), "MB/s", detail);
    }
    if let Some(kept) = resumed.and_then(|resumed| resumed.kept_bytes) {
        let share = kept as f64 / file_bytes as f64 * 100.0;
        let detail = match resumed.and_then(|resumed| resumed.resent_bytes) {
            Some(resent) => {
                format!("after SIGKILL midway; {} of what had moved sent again", number::bytes(resent))
            }
            None => "after SIGKILL midway".to_owned(),
        };
        tile("Kept after a kill", number::quantity(share), "%", detail);
    }
    tiles
}

fn method(scratch: &Scratch, machine: &Machine, outcomes: &[&Outcome]) -> Vec<String> {
    let mut method = method_of_copies(scratch, machine);
    method.extend([
        "The clock covers each program from start to end. The target directory is emptied before each run.".to_owned(),
        "Contestants take turns, each once a round in a new random order, so that slow changes of the machine affect all alike.".to_owned(),
        format!("The times of scp, sftp, rsync, rclone and tar include an ssh login; so does that of \"{OWN_OVER_SSH}\", which is the one to compare with them."),
        runs(outcomes),
    ]);
    method
}

/// Returns how often contestants had their turn, and what their ranges are therefore.
fn runs(outcomes: &[&Outcome]) -> String {
    let taken = outcomes.iter().filter_map(|outcome| outcome.runs_taken());
    let (least, most) = taken.fold((usize::MAX, 0), |all, (least, most)| (all.0.min(least), all.1.max(most)));
    let taken = match (least, most) {
        (_, 0) => "No contestant had a run".to_owned(),
        _ if least == most => format!("Each contestant had {}", number::counted(most, "run")),
        _ => format!("Contestants had {least} to {} before the time was up", number::counted(most, "run")),
    };
    let ranges = match most {
        0 | 1 => "one run has no range",
        _ => {
            "ranges are minimum to maximum, because fewer than five samples cannot give a 90 % interval of a median"
        }
    };
    format!("{taken}: {ranges}. `sealane lab run transfer --profile full` takes ten.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Experiment, Sample};

    fn outcome_of(cells: &[(&str, &[f64])]) -> Outcome {
        let cell = |&(tool, rates): &(&str, &[f64])| Cell {
            samples: rates.iter().map(|rate| Sample::slice(RATE, *rate, false)).collect(),
            ..Cell::new([("level", Level::Private.name()), ("tool", tool)])
        };
        let cells = cells.iter().map(cell).collect();
        Outcome::new(Experiment::new("file", "", "", &["level", "tool"], Vec::new()), cells)
    }

    /// A program that copies at this level is named, and beside whom depends on what was run.
    #[test]
    fn a_headline_names_the_programs_that_were_run_at_its_level() {
        let detail = |cells: &[(&str, &[f64])]| {
            let tiles = tiles(&outcome_of(cells), &Outcome::default(), None, 1);
            tiles[0].detail.clone()
        };
        let own: (&str, &[f64]) = (OWN, &[900.0]);
        assert_eq!(detail(&[own]), "no other program at this level here");
        let scp: (&str, &[f64]) = ("scp", &[300.0]);
        let beside = detail(&[own, scp]);
        assert!(beside.starts_with("scp carries 300 MB/s with its login"), "{beside}");
        let both = detail(&[own, scp, (OWN_OVER_SSH, &[150.0])]);
        assert_eq!(both, "over ssh 150 MB/s, 0.50 × scp, the fastest there");
        let others = detail(&[own, ("WDT", &[1000.0])]);
        assert_eq!(others, "0.90 × WDT, the fastest without ssh here");
    }

    #[test]
    fn the_method_says_how_many_runs_there_were() {
        let told = |cells: &[(&str, &[f64])]| runs(&[&outcome_of(cells)]);
        assert!(
            told(&[(OWN, &[1.0]), ("x", &[2.0])])
                .starts_with("Each contestant had 1 run: one run has no range.")
        );
        assert!(told(&[(OWN, &[1.0; 3]), ("x", &[])]).starts_with("Each contestant had 3 runs: ranges"));
        assert!(
            told(&[(OWN, &[1.0; 3]), ("x", &[2.0])])
                .starts_with("Contestants had 1 to 3 runs before the time was up")
        );
        assert!(told(&[(OWN, &[])]).starts_with("No contestant"));
    }

    /// A reader of the headline alone must know that its runs were disturbed.
    #[test]
    fn a_headline_of_disturbed_runs_says_so() {
        let outcome = |disturbed: [bool; 2]| {
            let samples = disturbed.iter().map(|&is_disturbed| Sample::slice(CPU_PER_GIB, 0.5, is_disturbed));
            let cell = |level: Level| Cell {
                samples: samples.clone().collect(),
                ..Cell::new([("level", level.name()), ("tool", OWN)])
            };
            let cells = vec![cell(Level::Private), cell(Level::Clear)];
            Outcome::new(Experiment::new("file", "", "", &["level", "tool"], Vec::new()), cells)
        };
        assert!(sentence(&outcome([true, true])).contains("disturbed every run"));
        assert!(!sentence(&outcome([true, false])).contains("disturbed"));
        let tiles = tiles(&outcome([true, true]), &outcome([false, false]), None, 1);
        assert!(tiles.iter().all(|tile| tile.detail.contains("disturbed every run")), "{tiles:?}");
    }
}
