//! Finds out for every algorithm of the catalogue whether a batch of 1 to 64 messages is ever slower than as many
//! messages one by one: `crossover [--seconds S] [--isa ISA] [--tier batch] [--raw FILE] [NAME]...`, with parts of
//! names.
//!
//! A cell is an algorithm, a direction, a number of messages and their lengths: short, long, or mixed with a key
//! each. In each cell, single messages and the batch alternate in slices of one run; the median of the pairs' ratios
//! counts, with a 90 % interval by their order. An algorithm *holds* if in every cell the whole interval lies above
//! 0.97: smaller differences are within the noise of measurement. It is *broken* if one interval lies below, and
//! *undecided* otherwise. Cells that do not hold are measured again, longer, while time is left. The exit status is 0
//! if all hold, 1 if one is broken, 3 if one is undecided.
//!
//! `--tier batch` compares ways with single messages even if the dispatcher would not use ways, and prints the
//! number of messages from which on they pay: the descriptors' costs are derived from this. `--raw` writes every pair
//! as JSON.
//!
//! `--library` compares AEADs with AWS-LC's: it prints the ratio of AWS-LC's time to ours for every number of
//! messages and length (`+` if the choice is ours, `!` if it is the more expensive one), and the lines through both
//! that descriptors hold.
//!
//! `--public-key` does with public-key operations what is done with messages otherwise: single ones by AWS-LC beside
//! batches, and with `--tier batch` the costs that descriptors hold.
#![allow(unsafe_code)]

mod asymmetric;
mod library;

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use sealane_transform::{
    Aead, AeadJob, AeadKey, Algorithm, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey,
    Direction, Isa, Kernels, Tier,
};

/// Numbers of messages: around every width of ways to 64.
const COUNTS: [usize; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 17, 24, 32, 33, 48, 64];

/// The share by which a batch may seem slower, because no measurement is exact.
const SLACK: f64 = 0.03;

/// Numbers of pairs of slices of a cell, and of a cell that is measured again.
const PAIRS: [usize; 2] = [7, 31];

/// The share of the time for measuring every cell once.
const FIRST_SHARE: f64 = 0.6;

/// Returns the seconds of CPU that this thread has used.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Lengths of a batch's messages.
#[derive(Clone, Copy, PartialEq)]
enum Lengths {
    Equal(usize),
    /// Simple IMIX, 7:4:1, in irregular order, with a key per message.
    Mixed,
}

impl Lengths {
    const ALL: [Self; 3] = [Self::Equal(64), Self::Equal(1408), Self::Mixed];

    fn name(self) -> String {
        match self {
            Self::Equal(bytes) => bytes.to_string(),
            Self::Mixed => "imix".to_owned(),
        }
    }

    fn of(self, granule: usize, count: usize) -> Vec<usize> {
        const DOZEN: [usize; 12] = [64, 576, 64, 64, 1500, 64, 576, 64, 576, 64, 576, 64];
        let bytes = |at: usize| match self {
            Self::Equal(bytes) => bytes,
            Self::Mixed => DOZEN[at % DOZEN.len()],
        };
        (0..count).map(|at| bytes(at).next_multiple_of(granule)).collect()
    }
}

/// An algorithm with keys, one per message of the largest batch.
enum Subject {
    Digest(Digest, Vec<DigestKey>),
    Cipher(Cipher, Direction, Vec<CipherKey>),
    /// The flag says that the messages are authenticated only.
    Aead(Aead, bool, Direction, Vec<AeadKey>),
}

fn keys<K>(bytes: usize, expand: impl Fn(&[u8]) -> Option<K>) -> Option<Vec<K>> {
    (0..*COUNTS.last()?).map(|number| expand(&vec![number as u8; bytes])).collect()
}

impl Subject {
    /// Returns the algorithm once per direction that it has.
    fn of(algorithm: Algorithm) -> Vec<Self> {
        let usual = algorithm.facts().key_bytes.usual;
        let both = [Direction::Encrypt, Direction::Decrypt];
        let made = |direction| {
            Some(match algorithm {
                Algorithm::Digest(digest) => {
                    Self::Digest(digest, keys(usual, |key| DigestKey::new(digest, key).ok())?)
                }
                Algorithm::Cipher(cipher) => {
                    Self::Cipher(cipher, direction, keys(usual, |key| CipherKey::new(cipher, key).ok())?)
                }
                Algorithm::Aead(aead) => {
                    Self::Aead(aead, false, direction, keys(usual, |key| AeadKey::new(aead, key).ok())?)
                }
                Algorithm::Gmac(gmac) => {
                    let aead = gmac.aead();
                    Self::Aead(aead, true, direction, keys(usual, |key| AeadKey::new(aead, key).ok())?)
                }
            })
        };
        let ways = if matches!(algorithm, Algorithm::Digest(_)) { 1 } else { 2 };
        both.into_iter().take(ways).map(|direction| made(direction).expect("the usual length")).collect()
    }

    fn name(&self) -> String {
        match self {
            Self::Digest(digest, _) => digest.name().to_owned(),
            Self::Cipher(cipher, direction, _) => format!("{cipher} {direction:?}").to_lowercase(),
            Self::Aead(aead, is_mac, direction, _) => {
                let (mac, way) = match (is_mac, direction) {
                    (true, Direction::Encrypt) => (" mac", "make"),
                    (true, Direction::Decrypt) => (" mac", "check"),
                    (false, Direction::Encrypt) => ("", "seal"),
                    (false, Direction::Decrypt) => ("", "open"),
                };
                format!("{}{mac} {way}", aead.name())
            }
        }
    }

    const fn granule(&self) -> usize {
        match self {
            Self::Cipher(cipher, ..) => cipher.granule_bytes(),
            Self::Digest(..) | Self::Aead(..) => 1,
        }
    }

    fn tier(&self, kernels: &Kernels, count: usize) -> Tier {
        match self {
            Self::Digest(digest, _) => kernels.digest_tier(*digest, count),
            Self::Cipher(cipher, direction, _) => kernels.cipher_tier(*cipher, *direction, count),
            Self::Aead(aead, ..) => kernels.aead_tier(*aead, count),
        }
    }

    /// Calls `measure` with a function that runs a batch of messages by given kernels.
    fn with<R>(
        &self,
        lengths: Lengths,
        count: usize,
        measure: impl FnOnce(&mut dyn FnMut(&Kernels)) -> R,
    ) -> R {
        let of_message = |at: usize| if lengths == Lengths::Mixed { at } else { 0 };
        let lengths = lengths.of(self.granule(), count);
        let mut data: Vec<Vec<u8>> = lengths.iter().map(|&bytes| vec![7; bytes]).collect();
        match self {
            Self::Digest(digest, keys) => {
                let messages = data.iter().enumerate();
                let mut jobs: Vec<_> =
                    messages.map(|(at, data)| DigestJob::new(&keys[of_message(at)], data)).collect();
                measure(&mut |kernels| assert_eq!(kernels.digest(*digest, black_box(&mut jobs)), 0))
            }
            Self::Cipher(cipher, direction, keys) => {
                let job =
                    |(at, data)| CipherJob::new(&keys[of_message(at)], &[at as u8], Buffer::in_place(data));
                let mut jobs: Vec<_> = data.iter_mut().map(Vec::as_mut_slice).enumerate().map(job).collect();
                measure(&mut |kernels| {
                    assert_eq!(kernels.cipher(*cipher, *direction, black_box(&mut jobs)), 0);
                })
            }
            Self::Aead(aead, is_mac, direction, keys) => {
                let mut made = data.clone();
                let split = |data: usize| if *is_mac { data } else { 0 };
                let mut jobs: Vec<_> = data
                    .iter()
                    .zip(&mut made)
                    .enumerate()
                    .map(|(at, (data, made))| {
                        let (aad, data) = data.split_at(split(data.len()));
                        let made = &mut made[aad.len()..];
                        let data = Buffer::out_of_place(data, made).expect("as long");
                        AeadJob::seal(&keys[of_message(at)], [at as u8; 12], aad, data)
                    })
                    .collect();
                let seal = |kernels: &Kernels, jobs: &mut [AeadJob<'_>]| {
                    assert_eq!(kernels.seal(*aead, black_box(jobs)), 0);
                };
                if *direction == Direction::Encrypt {
                    return measure(&mut |kernels| seal(kernels, &mut jobs));
                }
                seal(&Kernels::best(), &mut jobs);
                let tags: Vec<[u8; 16]> = jobs.iter().map(|job| job.tag).collect();
                drop(jobs);
                let mut opened = made.clone();
                let mut jobs: Vec<_> = made
                    .iter()
                    .zip(&mut opened)
                    .zip(tags)
                    .enumerate()
                    .map(|(at, ((sealed, opened), tag))| {
                        let (aad, data) = sealed.split_at(split(sealed.len()));
                        let opened = &mut opened[aad.len()..];
                        let data = Buffer::out_of_place(data, opened).expect("as long");
                        AeadJob::open(&keys[of_message(at)], [at as u8; 12], aad, data, tag)
                    })
                    .collect();
                measure(&mut |kernels| assert_eq!(kernels.open(*aead, black_box(&mut jobs)), 0))
            }
        }
    }
}

/// The measurements of a cell.
struct Cell {
    subject: usize,
    count: usize,
    lengths: Lengths,
    /// For each pair, the time of single messages and that of the batch, in seconds per call.
    pairs: Vec<[f64; 2]>,
}

impl Cell {
    /// Returns the median of the ratios of single messages' time to the batch's, and its 90 % interval.
    fn ratio(&self) -> (f64, f64, f64) {
        let mut ratios: Vec<f64> = self.pairs.iter().map(|[single, batch]| single / batch).collect();
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len();
        // The interval is the innermost one of order statistics that misses the median with a probability of at most
        // 10 %.
        let (mut beyond, mut ways, mut missed) = (0, 1.0, 0.0);
        while beyond < count / 2 {
            missed += 2.0 * ways / 2f64.powi(count as i32);
            if missed > 0.1 {
                break;
            }
            beyond += 1;
            ways *= (count - beyond + 1) as f64 / beyond as f64;
        }
        let outermost = beyond.saturating_sub(1);
        (ratios[count / 2], ratios[outermost], ratios[count - 1 - outermost])
    }

    fn verdict(&self) -> Verdict {
        let (_, low, high) = self.ratio();
        verdict_of(low, high, SLACK)
    }

    /// Returns the medians of either side, in seconds per call.
    fn seconds(&self) -> [f64; 2] {
        [0, 1].map(|side| {
            let mut seconds: Vec<f64> = self.pairs.iter().map(|pair| pair[side]).collect();
            seconds.sort_by(f64::total_cmp);
            seconds[seconds.len() / 2]
        })
    }

    /// Returns the verdict on a choice between the sides: whether the chosen one, the second if `is_second`, is no
    /// more expensive than the other.
    fn of_choice(&self, is_second: bool, slack: f64) -> Verdict {
        let (_, low, high) = self.ratio();
        if is_second { verdict_of(low, high, slack) } else { verdict_of(1.0 / high, 1.0 / low, slack) }
    }
}

/// Returns the verdict on an interval of ratios, which should be at least one.
fn verdict_of(low: f64, high: f64, slack: f64) -> Verdict {
    if low >= 1.0 - slack {
        Verdict::Holds
    } else if high < 1.0 - slack {
        Verdict::Broken
    } else {
        Verdict::Undecided
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Holds,
    Undecided,
    Broken,
}

/// The kernels to compare, and the time for that.
struct Options {
    single: Kernels,
    batch: Kernels,
    seconds: f64,
    raw: Option<String>,
    names: Vec<String>,
    is_forced: bool,
    is_of_library: bool,
    is_of_keys: bool,
}

fn options() -> Result<Options, String> {
    let (mut isa, mut is_forced, mut seconds, mut raw, mut names) = (None, false, 180.0, None, Vec::new());
    let mut is_of_library = false;
    let mut is_of_keys = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--seconds" => {
                seconds = value()?.parse().map_err(|error| format!("--seconds: {error}"))?;
            }
            "--isa" => {
                let name = value()?;
                let found = Isa::ALL.into_iter().find(|isa| isa.name() == name);
                isa = Some(found.ok_or_else(|| format!("no instruction set {name}"))?);
            }
            "--tier" => is_forced = value()? == "batch",
            "--library" => is_of_library = true,
            "--public-key" => is_of_keys = true,
            "--raw" => raw = Some(value()?),
            name if !name.starts_with('-') => names.push(name.to_owned()),
            other => return Err(format!("no option {other}")),
        }
    }
    let select = |tier| Kernels::select(tier, isa).map_err(|error| error.to_string());
    Ok(Options {
        single: select(Some(Tier::Native))?,
        batch: select(is_forced.then_some(Tier::Batch))?,
        seconds,
        raw,
        names,
        is_forced,
        is_of_library,
        is_of_keys,
    })
}

/// Waits until all instructions issued before have finished. Otherwise the end of a batch overlaps with the beginning
/// of the next one, which here is identical, unless a branch predictor mispredicts the end of a loop. That happens in
/// every call or in none, on one side of a pair and not on the other, and makes several per cent of a few short
/// messages. Programs do other things between batches.
#[inline(always)]
fn drain() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
}

/// Measures pairs of slices of that many seconds, or of one call, of the side `true` and of the other one.
fn pairs_of(call: &mut dyn FnMut(bool), count: usize, slice_seconds: f64) -> Vec<[f64; 2]> {
    let mut slice = |side: bool, calls: u32| {
        let start = cpu_seconds();
        (0..calls).for_each(|_| {
            call(side);
            drain();
        });
        (cpu_seconds() - start) / f64::from(calls)
    };
    slice(false, 1);
    slice(true, 1);
    let one = slice(true, 1);
    let calls = ((slice_seconds / one.max(1e-9)) as u32).clamp(1, 1 << 20);
    (0..count)
        .map(|pair| {
            // Neither side is always the first.
            if pair % 2 == 0 {
                let first = slice(true, calls);
                [first, slice(false, calls)]
            } else {
                let second = slice(false, calls);
                [slice(true, calls), second]
            }
        })
        .collect()
}

/// Measures pairs of single messages and of a batch.
fn pairs(
    options: &Options,
    work: &mut dyn FnMut(&Kernels),
    count: usize,
    slice_seconds: f64,
) -> Vec<[f64; 2]> {
    let mut call = |is_single| work(if is_single { &options.single } else { &options.batch });
    pairs_of(&mut call, count, slice_seconds)
}

/// Measures every cell, and measures those again that do not hold.
fn measure(options: &Options, subjects: &[Subject]) -> Vec<Cell> {
    let start = Instant::now();
    let mut cells = Vec::new();
    for subject in 0..subjects.len() {
        for count in COUNTS {
            cells.extend(Lengths::ALL.map(|lengths| Cell { subject, count, lengths, pairs: Vec::new() }));
        }
    }
    let first_seconds = FIRST_SHARE * options.seconds;
    let slices = (2 * PAIRS[0] * cells.len()) as f64;
    let take = |cell: &mut Cell, count: usize, slice_seconds: f64| {
        let subject = &subjects[cell.subject];
        cell.pairs =
            subject.with(cell.lengths, cell.count, |work| pairs(options, work, count, slice_seconds));
    };
    // The setup takes a part of the time.
    let slice_seconds = 0.7 * first_seconds / slices;
    for cell in &mut cells {
        take(cell, PAIRS[0], slice_seconds);
    }
    if options.is_forced {
        return cells;
    }
    while start.elapsed().as_secs_f64() < options.seconds {
        let mut again: Vec<_> = cells.iter_mut().filter(|cell| cell.verdict() != Verdict::Holds).collect();
        let left = options.seconds - start.elapsed().as_secs_f64();
        let slice_seconds = 0.7 * left / (2 * PAIRS[1] * again.len().max(1)) as f64;
        if again.is_empty() || slice_seconds < 1e-4 {
            break;
        }
        for cell in &mut again {
            take(cell, PAIRS[1], slice_seconds.min(0.01));
        }
    }
    cells
}

/// Returns every pair of every cell.
fn json(options: &Options, subjects: &[Subject], cells: &[Cell]) -> String {
    let mut text = format!("{{\"isa\":\"{}\",\"cells\":[", options.batch.isa().name());
    for (n, cell) in cells.iter().enumerate() {
        let pairs: Vec<String> = cell
            .pairs
            .iter()
            .map(|[single, batch]| format!("[{:.1},{:.1}]", single * 1e9, batch * 1e9))
            .collect();
        let subject = &subjects[cell.subject];
        let tier = subject.tier(&options.batch, cell.count).name();
        let _ = write!(
            text,
            "{}\n{{\"algorithm\":\"{}\",\"messages\":{},\"bytes\":\"{}\",\"tier\":\"{tier}\",\"single_and_batch_ns\":[{}]}}",
            if n == 0 { "" } else { "," },
            subject.name(),
            cell.count,
            cell.lengths.name(),
            pairs.join(",")
        );
    }
    text + "\n]}\n"
}

/// Prints a line per algorithm; returns the worst verdict.
fn tell(options: &Options, subjects: &[Subject], cells: &[Cell]) -> Verdict {
    let mut worst_of_all = Verdict::Holds;
    for (number, subject) in subjects.iter().enumerate() {
        let own = || cells.iter().filter(|cell| cell.subject == number);
        let worst = own().map(Cell::verdict).max().unwrap_or(Verdict::Holds);
        let Some(least) =
            own().filter(|cell| cell.verdict() == worst).min_by(|a, b| a.ratio().1.total_cmp(&b.ratio().1))
        else {
            continue;
        };
        let (ratio, low, high) = least.ratio();
        let ways = if options.is_forced {
            let pays = |cell: &&Cell| cell.lengths == Lengths::Equal(1408) && cell.ratio().1 > 1.0;
            own().find(pays).map(|cell| cell.count)
        } else {
            (1..=64).find(|&count| subject.tier(&options.batch, count) == Tier::Batch)
        };
        println!(
            "{:28} {:9} lanes from {:>5}; least {ratio:.3} ({low:.3} to {high:.3}) with {} of {} bytes",
            subject.name(),
            format!("{worst:?}").to_lowercase(),
            ways.map_or_else(|| "never".to_owned(), |count| count.to_string()),
            least.count,
            least.lengths.name(),
        );
        worst_of_all = worst_of_all.max(worst);
    }
    worst_of_all
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!(
                "{complaint}\nusage: crossover [--seconds S] [--isa ISA] [--tier batch] [--library | --public-key] [--raw FILE] [NAME]..."
            );
            return ExitCode::from(2);
        }
    };
    if options.is_of_library {
        return code(library::run(options.batch, options.seconds, &options.names));
    }
    if options.is_of_keys {
        return code(asymmetric::run(&options));
    }
    let is_wanted = |subject: &Subject| {
        options.names.is_empty() || options.names.iter().any(|name| subject.name().contains(name.as_str()))
    };
    let subjects: Vec<Subject> = Algorithm::all().flat_map(Subject::of).filter(is_wanted).collect();
    let cells = measure(&options, &subjects);
    if let Some(path) = &options.raw
        && let Err(error) = std::fs::write(path, json(&options, &subjects, &cells))
    {
        eprintln!("{path}: {error}");
        return ExitCode::from(2);
    }
    let worst = tell(&options, &subjects, &cells);
    let broken = |wanted| {
        (0..subjects.len())
            .filter(|&number| {
                cells.iter().filter(|cell| cell.subject == number).map(Cell::verdict).max() == Some(wanted)
            })
            .count()
    };
    println!(
        "{} algorithms: {} hold, {} undecided, {} broken; {} cells",
        subjects.len(),
        broken(Verdict::Holds),
        broken(Verdict::Undecided),
        broken(Verdict::Broken),
        cells.len()
    );
    code(worst)
}

/// Returns the exit status of a verdict.
fn code(worst: Verdict) -> ExitCode {
    ExitCode::from(match worst {
        Verdict::Holds => 0,
        Verdict::Broken => 1,
        Verdict::Undecided => 3,
    })
}
