//! Compression at the sending end: whether and how strongly records are compressed, and the compressing itself.
//!
//! Guarantees: a body leaves compressed only if that makes it a sixteenth shorter; bodies that look random cost a glance.
//! With `auto`, the setting that carries most content in a second wins, judged by what the receiver acknowledged. Trials of
//! other settings are short, and become rare while they are lost; a slow line is never tried without compression.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    options::Compression,
    proto::{compression::Compressor, record::DATA_BYTES_MAX},
};

/// The shortest body that is worth a frame.
const BODY_BYTES_MIN: usize = 128;
/// A body must become shorter by this fraction of itself.
const GAIN_SHARE: usize = 16;
/// The number of bytes at which a glance looks, in [`GLANCES`] places.
const GLANCE_BYTES: usize = 4096;
const GLANCES: usize = 4;
/// Bytes of this entropy, in bits, look random.
const RANDOM_BITS: f64 = 7.5;
/// The maximum number of records in a batch that is compressed: it has more content than others, and is wanted no later.
pub(crate) const RECORDS_MAX: usize = 16;

/// One lane's compressor.
#[derive(Debug)]
pub(crate) struct Press {
    compressor: Compressor,
    scratch: Vec<u8>,
    level: i8,
    /// The bytes that compression has spared since this was last asked.
    pub(crate) spared_bytes: u64,
}

impl Press {
    /// Returns `None` if there is no memory.
    pub(crate) fn new() -> Option<Box<Self>> {
        let (compressor, scratch) = (Compressor::new()?, vec![0; DATA_BYTES_MAX]);
        Some(Box::new(Self { compressor, scratch, level: 1, spared_bytes: 0 }))
    }

    /// Sets zstd's level.
    pub(crate) fn at(mut self: Box<Self>, level: i8) -> Box<Self> {
        self.level = level;
        self
    }

    /// Compresses `body` in place, if it gains by that. Returns its new length.
    pub(crate) fn press(&mut self, body: &mut [u8]) -> Option<usize> {
        if body.len() < BODY_BYTES_MIN || looks_random(body) {
            return None;
        }
        let room = (body.len() - body.len() / GAIN_SHARE).min(self.scratch.len());
        let length = self.compressor.compress(self.level, body, &mut self.scratch[..room])?;
        body[..length].copy_from_slice(&self.scratch[..length]);
        self.spared_bytes += (body.len() - length) as u64;
        Some(length)
    }
}

/// Returns whether a few samples of a long body have the entropy of random bytes. A short one has too few bytes to tell.
fn looks_random(body: &[u8]) -> bool {
    if body.len() < GLANCE_BYTES {
        return false;
    }
    let mut counts = [0u16; 256];
    let sample = GLANCE_BYTES / GLANCES;
    for place in 0..GLANCES {
        let start = (body.len() - sample) / (GLANCES - 1) * place;
        for &byte in &body[start..start + sample] {
            counts[usize::from(byte)] += 1;
        }
    }
    let total = GLANCE_BYTES as f64;
    let bits = |&count: &u16| match count {
        0 => 0.0,
        _ => f64::from(count) / total * (total / f64::from(count)).log2(),
    };
    counts.iter().map(bits).sum::<f64>() > RANDOM_BITS
}

/// The settings of `auto`, from the cheapest: as they are, or by a level of zstd.
const LADDER: [Option<i8>; 4] = [None, Some(-1), Some(1), Some(3)];
const AS_THEY_ARE: usize = 0;
/// The first setting: a slow line gains from the start, and on a fast one the mistake takes a moment.
const FIRST: usize = 2;
/// A stronger setting must carry this much more content; an equal one is not worth its processor.
const STRONGER_GAIN: f64 = 1.05;
/// A cheaper setting may carry this much less, which is noise.
const CHEAPER_LOSS: f64 = 0.99;
/// A setting that carries this much more needs no second look.
const EVIDENT_GAIN: f64 = 2.0;
/// The least number of batches in a sample, and the time that it lasts at the known rate.
const SAMPLE_BATCHES: u32 = 4;
const SAMPLE: Duration = Duration::from_millis(20);
/// A sample that was acknowledged within this time tells nothing.
const SAMPLE_MIN: Duration = Duration::from_millis(4);
const SAMPLE_BATCHES_MAX: u32 = 1024;
/// After a trial, this many times its batches go without another; doubled as long as trials are lost.
const REST: u32 = 64;
const REST_MAX: u32 = 1024;
/// Content goes as it is only where a second carries at least this much: on slower lines no processor is the limit.
const FAST_BYTES_PER_S: f64 = (64 << 20) as f64;
/// A sample that is incomplete after this many further batches was lost with its stream.
const LOST_AFTER: u32 = 4096;

/// Decides how batches are compressed.
#[derive(Debug)]
pub(crate) enum Governor {
    /// Always so.
    Fixed(Option<i8>),
    /// As experience has it.
    Auto(Mutex<Trials>),
}

/// The setting of one batch, and the sample that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) level: Option<i8>,
    /// 0 if it belongs to none.
    pub(crate) sample: u32,
}

impl Governor {
    pub(crate) fn new(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Fixed(None),
            Compression::Zstd(level) => Self::Fixed(Some(level)),
            Compression::Auto => Self::Auto(Mutex::new(Trials::new())),
        }
    }

    /// Returns the setting of the next batch.
    pub(crate) fn next(&self) -> Setting {
        match self {
            Self::Fixed(level) => Setting { level: *level, sample: 0 },
            Self::Auto(trials) => trials.lock().expect("no lane panics holding the trials").next(),
        }
    }

    /// The receiver has batches of these samples, with this much content.
    pub(crate) fn arrived(&self, batches: &[(u32, u64)], now: Instant) {
        if let (Self::Auto(trials), false) = (self, batches.is_empty()) {
            let mut trials = trials.lock().expect("no lane panics holding the trials");
            batches.iter().for_each(|&(sample, bytes)| trials.arrived(sample, bytes, now));
        }
    }
}

/// Batches of one setting, and when they arrived.
#[derive(Debug)]
struct Sample {
    number: u32,
    rung: usize,
    batches: u32,
    left_to_send: u32,
    left_to_arrive: u32,
    first: Option<Instant>,
    /// Content that arrived after the first batch.
    bytes: u64,
}

/// Trials of `auto`: a sample of the chosen setting, one of another, and one more of the chosen, because lines that become
/// faster by themselves would make the second look better than the first.
#[derive(Debug)]
pub(crate) struct Trials {
    chosen: usize,
    /// The other setting of this trial.
    other: usize,
    sample: Option<Sample>,
    numbers: u32,
    /// Bytes a second of the samples of this trial.
    rates: Vec<f64>,
    /// The number of batches in the next sample of each setting.
    batches: [u32; LADDER.len()],
    /// The number of batches before the next trial, and what it was at the beginning.
    pause: u32,
    rest: u32,
    /// The number of batches since the sample was sent.
    waited: u32,
    /// The number of trials since the chosen setting last changed, and of settings that it is tried against.
    turn: usize,
    others: usize,
}

impl Trials {
    fn new() -> Self {
        Self {
            chosen: FIRST,
            other: FIRST,
            sample: None,
            numbers: 0,
            rates: Vec::new(),
            batches: [SAMPLE_BATCHES; LADDER.len()],
            pause: 0,
            rest: REST,
            waited: 0,
            turn: 0,
            others: 1,
        }
    }

    fn next(&mut self) -> Setting {
        if self.sample.is_none() && self.pause == 0 {
            self.begin();
        }
        self.pause = self.pause.saturating_sub(1);
        let chosen = Setting { level: LADDER[self.chosen], sample: 0 };
        let Some(sample) = &mut self.sample else { return chosen };
        if sample.left_to_send > 0 {
            sample.left_to_send -= 1;
            return Setting { level: LADDER[sample.rung], sample: sample.number };
        }
        self.waited += 1;
        if self.waited > LOST_AFTER {
            self.give_up();
        }
        chosen
    }

    /// Begins the next sample of a trial.
    fn begin(&mut self) {
        let rung = if self.rates.len() == 1 { self.other } else { self.chosen };
        self.numbers = self.numbers.wrapping_add(1).max(1);
        self.waited = 0;
        let batches = self.batches[rung];
        self.sample = Some(Sample {
            number: self.numbers,
            rung,
            batches,
            left_to_send: batches,
            left_to_arrive: batches,
            first: None,
            bytes: 0,
        });
    }

    fn give_up(&mut self) {
        self.sample = None;
        self.rates.clear();
        self.pause = self.rest * self.batches[self.chosen];
    }

    fn arrived(&mut self, number: u32, bytes: u64, now: Instant) {
        let Some(sample) = self.sample.as_mut().filter(|sample| sample.number == number) else { return };
        sample.left_to_arrive = sample.left_to_arrive.saturating_sub(1);
        let Some(first) = sample.first else {
            sample.first = Some(now);
            return;
        };
        sample.bytes += bytes;
        if sample.left_to_arrive > 0 {
            return;
        }
        let (rung, batches, bytes) = (sample.rung, sample.batches, sample.bytes);
        let took = now.saturating_duration_since(first);
        self.sample = None;
        let wanted = match took < SAMPLE_MIN {
            true => batches.saturating_mul(4),
            false => (f64::from(batches) * SAMPLE.as_secs_f64() / took.as_secs_f64()) as u32,
        };
        self.batches[rung] = wanted.clamp(SAMPLE_BATCHES, SAMPLE_BATCHES_MAX);
        if took < SAMPLE_MIN && batches < SAMPLE_BATCHES_MAX {
            // It is taken again, with more batches.
            return;
        }
        self.rates.push(bytes as f64 / took.as_secs_f64().max(1e-6));
        match *self.rates.as_slice() {
            [rate] => self.choose_other(rate),
            // Nothing that a line does by itself explains as much.
            [before, other] if other > EVIDENT_GAIN * before => self.decide(before, other),
            [before, other, after] => self.decide(before.max(after), other),
            _ => {}
        }
    }

    /// Chooses the other setting of the trial: a neighbour, and where the line is fast, nothing.
    fn choose_other(&mut self, rate: f64) {
        let is_fast = rate > FAST_BYTES_PER_S;
        let cheaper = (self.chosen > AS_THEY_ARE + 1).then(|| self.chosen - 1);
        let stronger = (self.chosen + 1 < LADDER.len()).then_some(self.chosen + 1);
        let nothing = (is_fast && self.chosen != AS_THEY_ARE).then_some(AS_THEY_ARE);
        let order = if is_fast { [nothing, cheaper, stronger] } else { [stronger, cheaper, None] };
        let others: Vec<_> = order.into_iter().flatten().collect();
        self.other = others[self.turn % others.len()];
        self.others = others.len();
        self.turn += 1;
    }

    fn decide(&mut self, chosen: f64, other: f64) {
        let needed = if self.other > self.chosen { STRONGER_GAIN } else { CHEAPER_LOSS };
        let wins = other > needed * chosen;
        self.rates.clear();
        if wins {
            (self.chosen, self.turn, self.rest) = (self.other, 0, REST);
        } else if self.turn >= self.others {
            self.pause = self.rest * self.batches[self.chosen];
            self.rest = (self.rest * 2).min(REST_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A line and a processor: bytes a second of the line, of plain content at both ends, and of each level here, and what
    /// is left of a byte of content.
    #[derive(Clone, Copy)]
    struct Path {
        line: f64,
        plain: f64,
        levels: [(f64, f64); 3],
        /// Acknowledgements come this much later.
        delay: Duration,
    }

    /// Text on two processors, which levels of zstd take at 380, 280 and 170 MB/s each.
    const TEXT: [(f64, f64); 3] = [(760e6, 1.0 / 4.1), (560e6, 1.0 / 4.8), (340e6, 1.0 / 5.0)];
    /// Random bytes are hardly looked at.
    const RANDOM: [(f64, f64); 3] = [(4e9, 1.0), (4e9, 1.0), (4e9, 1.0)];

    impl Path {
        fn rate(&self, level: Option<i8>) -> f64 {
            let Some(level) = level else { return self.plain.min(self.line) };
            let (speed, left) = self.levels[[-1, 1, 3].iter().position(|&known| known == level).unwrap()];
            // The receiver's work is the same, and whatever compresses takes turns with it.
            let near = 1.0 / (1.0 / speed + 1.0 / self.plain);
            near.min(self.line / left)
        }

        fn best(&self) -> f64 {
            [None, Some(-1), Some(1), Some(3)].map(|level| self.rate(level)).into_iter().fold(0.0, f64::max)
        }

        /// Sends this much content as `auto` has it. Returns the bytes a second.
        fn run(&self, bytes: f64, mut jitter: impl FnMut() -> f64) -> f64 {
            let governor = Governor::new(Compression::Auto);
            let start = Instant::now();
            let mut now = 0.0;
            let mut sent = 0.0;
            let mut under_way = VecDeque::new();
            while sent < bytes {
                let setting = governor.next();
                let batch = if setting.level.is_some() { 1 << 20 } else { 512 << 10 };
                now += f64::from(batch) / (self.rate(setting.level) * jitter());
                sent += f64::from(batch);
                under_way.push_back((now + self.delay.as_secs_f64(), (setting.sample, batch as u64)));
                while under_way.front().is_some_and(|(due, _)| *due <= now) {
                    let Some((due, batch)) = under_way.pop_front() else { break };
                    if batch.0 != 0 {
                        governor.arrived(&[batch], start + Duration::from_secs_f64(due));
                    }
                }
            }
            sent / now
        }
    }

    #[test]
    fn a_fast_line_hardly_loses_and_a_slow_one_gains() {
        let near = Duration::from_micros(100);
        let far = Duration::from_millis(100);
        for (name, path, share_of_best) in [
            ("loopback", Path { line: 4e9, plain: 1e9, levels: TEXT, delay: near }, 0.98),
            ("10 Gb/s", Path { line: 1.25e9, plain: 1e9, levels: TEXT, delay: near }, 0.98),
            ("random on loopback", Path { line: 4e9, plain: 1e9, levels: RANDOM, delay: near }, 0.78),
            ("1 Gb/s", Path { line: 118e6, plain: 1e9, levels: TEXT, delay: near }, 0.93),
            ("100 Mb/s", Path { line: 11.8e6, plain: 1e9, levels: TEXT, delay: near }, 0.93),
            ("100 Mb/s, far", Path { line: 11.8e6, plain: 1e9, levels: TEXT, delay: far }, 0.93),
            ("1 Mb/s, far", Path { line: 118e3, plain: 1e9, levels: TEXT, delay: far }, 0.9),
            ("a slow disk", Path { line: 4e9, plain: 60e6, levels: TEXT, delay: near }, 0.9),
        ] {
            let bytes = (path.best() * 4.0).clamp(20e6, 4e9);
            let share = path.run(bytes, || 1.0) / path.best();
            assert!(share >= share_of_best, "{name}: {share} of the best");
            let mut turn = 0;
            let waves = || {
                turn = (turn * 5 + 3) % 16;
                0.9 + 0.2 * f64::from(turn) / 16.0
            };
            let share = path.run(bytes, waves) / path.best();
            assert!(share >= share_of_best - 0.06, "{name}, in waves: {share} of the best");
        }
    }

    /// A line on which nothing is compressed is never slower than 64 MiB/s.
    #[test]
    fn a_slow_line_is_never_tried_without_compression() {
        let governor = Governor::new(Compression::Auto);
        let start = Instant::now();
        for at in 0..20_000 {
            let setting = governor.next();
            assert!(setting.level.is_some());
            governor.arrived(&[(setting.sample, 2 << 20)], start + Duration::from_millis(at * 100));
        }
    }

    #[test]
    fn a_sample_that_is_lost_with_its_stream_is_given_up() {
        let governor = Governor::new(Compression::Auto);
        let first = governor.next();
        assert_ne!(first.sample, 0);
        let others = (0..2 * LOST_AFTER).map(|_| governor.next().sample);
        let later: Vec<_> = others.filter(|&sample| sample != 0 && sample != first.sample).collect();
        assert!(!later.is_empty(), "another sample is taken");
    }

    #[test]
    fn random_bytes_are_seen_at_a_glance_and_text_is_not() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        let noise: Vec<u8> = (0..DATA_BYTES_MAX).map(|_| random()).collect();
        let text: Vec<u8> =
            (0..DATA_BYTES_MAX).map(|at| b"to be compressed, or not to be"[at * 7 % 30]).collect();
        assert!(looks_random(&noise) && looks_random(&noise[..GLANCE_BYTES]));
        assert!(!looks_random(&text) && !looks_random(&noise[..GLANCE_BYTES - 1]));
        let mut press = Press::new().unwrap();
        for level in [-7, -1, 1, 3, 19] {
            press = press.at(level);
            for bytes in [1, BODY_BYTES_MIN - 1, BODY_BYTES_MIN, 1000, GLANCE_BYTES, DATA_BYTES_MAX] {
                let mut body = noise[..bytes].to_vec();
                assert_eq!(press.press(&mut body), None);
                assert!(body == noise[..bytes], "it is as it was");
            }
        }
        let mut body = text.clone();
        let length = press.press(&mut body).unwrap();
        assert_eq!(press.spared_bytes, (DATA_BYTES_MAX - length) as u64);
        assert!(length < DATA_BYTES_MAX / 4);
    }
}
