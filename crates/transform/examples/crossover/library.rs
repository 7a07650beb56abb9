//! Compares AEADs with AWS-LC's: the cost of a call by either, the lines through these costs that descriptors hold,
//! and whether the choice made by the lines is ever the more expensive one.

use std::fmt::Write as _;
use std::hint::black_box;

use aws_lc_rs::aead;
use sealane_transform::{Aead, AeadJob, AeadKey, AeadTotals, Algorithm, Buffer, Cheaper, Direction, Kernels};

use super::{Cell, Lengths, Verdict, pairs_of};

/// Numbers of messages per call.
const COUNTS: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 64];
/// Lengths of messages in bytes: of a short, a middle and a full packet, of a jumbo frame, of a record.
const LENGTHS: [Lengths; 6] = [
    Lengths::Equal(64),
    Lengths::Equal(352),
    Lengths::Equal(1408),
    Lengths::Equal(8192),
    Lengths::Equal(65536),
    Lengths::Mixed,
];
/// Longer calls show nothing that shorter ones do not show.
const BYTES_MAX: usize = 1 << 20;
/// The choice may be more expensive by this share, because its costs come from other machines.
const SLACK: f64 = 0.05;

/// An AEAD in one direction; for authentication only, all of a message is clear bytes.
struct Subject {
    aead: Aead,
    is_mac: bool,
    direction: Direction,
}

impl Subject {
    fn all() -> Vec<Self> {
        let of = |algorithm| match algorithm {
            Algorithm::Aead(aead) => aead.is_in_library().then_some((aead, false)),
            Algorithm::Gmac(gmac) => Some((gmac.aead(), true)),
            Algorithm::Digest(_) | Algorithm::Cipher(_) => None,
        };
        let both = [Direction::Encrypt, Direction::Decrypt];
        let subjects = Algorithm::all().filter_map(of);
        subjects.flat_map(|(aead, is_mac)| both.map(|direction| Self { aead, is_mac, direction })).collect()
    }

    fn name(&self) -> String {
        let way = if self.direction == Direction::Encrypt { "seal" } else { "open" };
        format!("{}{} {way}", self.aead.name(), if self.is_mac { " mac" } else { "" })
    }

    /// Returns the data and the clear bytes of a message.
    fn parts(&self, bytes: usize) -> (usize, usize) {
        if self.is_mac { (0, bytes) } else { (bytes, 8) }
    }

    fn totals(&self, lengths: &[usize]) -> AeadTotals {
        let mut totals = AeadTotals::default();
        for &bytes in lengths {
            let (data, clear) = self.parts(bytes);
            totals.add(data, clear);
        }
        totals
    }

    fn library_key(&self) -> aead::LessSafeKey {
        let algorithm = match self.aead {
            Aead::Aes128Gcm => &aead::AES_128_GCM,
            Aead::Aes256Gcm => &aead::AES_256_GCM,
            Aead::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
            Aead::Aes128Ccm | Aead::Aes256Ccm => unreachable!("aws-lc-rs has no CCM"),
        };
        let key = aead::UnboundKey::new(algorithm, &vec![7; self.aead.key_bytes()]);
        aead::LessSafeKey::new(key.expect("a key of the right length"))
    }

    /// Calls `measure` with a call of AWS-LC (`true`) or of our kernels.
    fn with<R>(
        &self,
        kernels: Kernels,
        lengths: &[usize],
        measure: impl FnOnce(&mut dyn FnMut(bool)) -> R,
    ) -> R {
        let (key, library) = (AeadKey::new(self.aead, &vec![7; self.aead.key_bytes()]), self.library_key());
        let key = key.expect("a key of the right length");
        let nonce = [9; 12];
        let mut clear: Vec<Vec<u8>> = lengths.iter().map(|&bytes| vec![3; self.parts(bytes).1]).collect();
        let mut sealed: Vec<Vec<u8>> = lengths.iter().map(|&bytes| vec![7; self.parts(bytes).0]).collect();
        let mut made: Vec<Vec<u8>> = sealed.clone();
        let mut tags = vec![[0; 16]; lengths.len()];
        for ((sealed, clear), tag) in sealed.iter_mut().zip(&mut clear).zip(&mut tags) {
            let aad = aead::Aad::from(&*clear);
            let nonce = aead::Nonce::assume_unique_for_key(nonce);
            let by = library.seal_in_place_separate_tag(nonce, aad, sealed).expect("it takes any length");
            tag.copy_from_slice(by.as_ref());
        }
        let mut own: Vec<AeadJob<'_>> = Vec::new();
        let mut in_place = made.clone();
        for (((sealed, made), clear), tag) in sealed.iter().zip(&mut made).zip(&clear).zip(&tags) {
            own.push(match self.direction {
                Direction::Encrypt => AeadJob::seal(&key, nonce, clear, Buffer::in_place(made)),
                Direction::Decrypt => {
                    let data = Buffer::out_of_place(sealed, made).expect("as long");
                    AeadJob::open(&key, nonce, clear, data, *tag)
                }
            });
        }
        measure(&mut |by_library| match (by_library, self.direction) {
            (false, Direction::Encrypt) => assert_eq!(kernels.seal(self.aead, black_box(&mut own)), 0),
            (false, Direction::Decrypt) => assert_eq!(kernels.open(self.aead, black_box(&mut own)), 0),
            (true, direction) => {
                for (((sealed, out), clear), tag) in sealed.iter().zip(&mut in_place).zip(&clear).zip(&tags) {
                    let nonce = aead::Nonce::assume_unique_for_key(nonce);
                    let aad = aead::Aad::from(clear.as_slice());
                    if direction == Direction::Encrypt {
                        let made = library.seal_in_place_separate_tag(nonce, aad, black_box(out));
                        let _ = black_box(made.expect("it takes any length"));
                    } else {
                        library
                            .open_separate_gather(nonce, aad, black_box(sealed), tag, out)
                            .expect("what the library has sealed");
                    }
                }
            }
        })
    }
}

/// A line: nanoseconds per call, per message and per KiB.
#[derive(Clone, Copy, Default)]
struct Line([f64; 3]);

impl Line {
    /// Returns the line with the least sum of squares of relative errors, without negative terms. A point has three
    /// quantities and the time.
    fn through(points: &[([f64; 3], f64)]) -> Self {
        // The terms that are kept; negative terms are dropped, the first ones first.
        let mut kept = [true; 3];
        loop {
            let line = Self::solve(points, kept);
            match (0..3).find(|&at| line.0[at] < 0.0) {
                Some(negative) => kept[negative] = false,
                None => return line,
            }
        }
    }

    fn solve(points: &[([f64; 3], f64)], kept: [bool; 3]) -> Self {
        let mut rows = [[0.0; 4]; 3];
        for (at, row) in rows.iter_mut().enumerate() {
            row[at] = 1e-12;
        }
        for (quantities, time) in points {
            let scaled: [f64; 3] =
                std::array::from_fn(|at| if kept[at] { quantities[at] / time } else { 0.0 });
            for (row, &factor) in rows.iter_mut().zip(&scaled) {
                for (cell, &other) in row.iter_mut().zip(&scaled) {
                    *cell += factor * other;
                }
                row[3] += factor;
            }
        }
        for at in 0..3 {
            let pivot = rows[at];
            for (other, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != at) {
                let factor = row[at] / pivot[at];
                (at..4).for_each(|column| row[column] -= factor * pivot[column]);
                debug_assert!(other != at);
            }
        }
        Self(std::array::from_fn(|at| rows[at][3] / rows[at][at]))
    }
}

/// Measures all AEADs whose name contains one of these pieces, and prints the results; returns the worst verdict on
/// the choice.
pub(super) fn run(kernels: Kernels, seconds: f64, names: &[String]) -> Verdict {
    let is_wanted = |subject: &Subject| {
        names.is_empty() || names.iter().any(|name| subject.name().contains(name.as_str()))
    };
    let subjects: Vec<Subject> = Subject::all().into_iter().filter(is_wanted).collect();
    let slices = subjects.len() * COUNTS.len() * LENGTHS.len() * 2 * 7;
    let slice_seconds = 0.7 * seconds / slices.max(1) as f64;
    let mut worst = Verdict::Holds;
    for subject in &subjects {
        let verdict = one(kernels, subject, slice_seconds);
        worst = worst.max(verdict);
    }
    worst
}

fn one(kernels: Kernels, subject: &Subject, slice_seconds: f64) -> Verdict {
    let (mut own, mut library) = (Vec::new(), Vec::new());
    let (mut worst, mut dearest, mut table) = (Verdict::Holds, 1.0_f64, String::new());
    for lengths in LENGTHS {
        let _ = write!(table, "  {:>6} bytes:", lengths.name());
        for count in COUNTS {
            let lengths = lengths.of(1, count);
            let totals = subject.totals(&lengths);
            if totals.data_bytes + totals.clear_bytes > BYTES_MAX {
                continue;
            }
            let pairs = subject.with(kernels, &lengths, |call| pairs_of(call, 7, slice_seconds));
            let cell = Cell { subject: 0, count, lengths: Lengths::Mixed, pairs };
            let [by_library, by_own] = cell.seconds().map(|seconds| seconds * 1e9);
            let kib = (totals.data_bytes + totals.clear_bytes) as f64 / 1024.0;
            own.push(([1.0, count as f64, kib], by_own));
            library.push(([1.0, count as f64, kib], by_library));
            let is_own = kernels.is_own_cheaper(subject.aead, subject.direction, totals);
            let verdict = cell.of_choice(is_own, SLACK);
            let (chosen, other) = if is_own { (by_own, by_library) } else { (by_library, by_own) };
            dearest = dearest.max(chosen / other);
            worst = worst.max(verdict);
            let mark = match (is_own, verdict) {
                (true, Verdict::Holds) => "+",
                (false, Verdict::Holds) => "-",
                (true, _) => "+!",
                (false, _) => "-!",
            };
            let _ = write!(table, " {count}:{:.2}{mark}", by_library / by_own);
        }
        table.push('\n');
    }
    let who = match kernels.cheaper(subject.aead) {
        Cheaper::Own => "always ours",
        Cheaper::Library => "always AWS-LC's",
        Cheaper::Depends => "whose it is depends",
    };
    println!(
        "{:28} {:9} {who}; the choice is at most {dearest:.2} times as dear as the other",
        subject.name(),
        format!("{worst:?}").to_lowercase()
    );
    print!("{table}");
    for few in [1, 2, 3, 4, 6] {
        let of = |wanted: &dyn Fn(f64) -> bool| -> Vec<_> {
            own.iter().copied().filter(|(quantities, _)| wanted(quantities[1])).collect()
        };
        let (few_points, many_points) =
            (of(&|count| count <= f64::from(few)), of(&|count| count > f64::from(few)));
        let (alone, together) = (Line::through(&few_points), Line::through(&many_points));
        println!("  ours, up to {few}: {}; more: {}", shown(alone), shown(together));
    }
    println!("  AWS-LC: {}", shown(Line::through(&library)));
    worst
}

fn shown(Line([call, message, kib]): Line) -> String {
    format!("call_ns {call:.0}, message_ns {message:.0}, kib_ns {kib:.0}")
}
