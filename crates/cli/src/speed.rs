//! `sealane speed`: a short table of the unbroken algorithms on this machine. All further measurements are the laboratory's.
//!
//! Guarantees: the kernels that run are those that the dispatcher takes for messages of these lengths (for AEADs `cp` and the tunnel
//! may take AWS-LC's, where these cost less); each figure is the best of several short slices in turn, so that a disturbance of one slice decides nothing.

use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::{environment, laboratory, text};
use sealane_transform::{
    Aead, AeadJob, AeadKey, Algorithm, Buffer, Digest, DigestJob, DigestKey, Kernels, Standing,
};
use std::ffi::OsString;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// The lengths and numbers of messages: a packet, many packets at a time, and a record of a copy.
const SHAPES: [(usize, usize); 3] = [(1408, 1), (1408, 64), (64 << 10, 1)];

/// The time of one slice, and the number of slices of each figure.
const SLICE: Duration = Duration::from_millis(8);
const SLICES: usize = 4;

/// Prints the table, or lets the laboratory measure as the arguments say.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<ExitStatus, Failure> {
    if !arguments.is_empty() {
        return laboratory::start_command("speed", arguments);
    }
    let kernels = environment::kernels().map_err(|error| Failure::new(ExitStatus::Usage, error))?;
    let mut rows = Vec::new();
    for algorithm in Algorithm::all().filter(|algorithm| algorithm.facts().standing == Standing::Current) {
        if let Some(purpose) = purpose(algorithm) {
            rows.push(Row { purpose, algorithm, rates: rates(&kernels, algorithm) });
        }
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(table(rows).as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)?;
    text::say(
        "`sealane speed --help` lists what else can be measured: tiers, lanes, other libraries, public keys.",
    );
    Ok(ExitStatus::Success)
}

/// One algorithm with its rates in bytes a second, in the order of [`SHAPES`].
struct Row {
    purpose: &'static str,
    algorithm: Algorithm,
    rates: [f64; SHAPES.len()],
}

/// Returns the word for the purpose of an algorithm that protects by itself.
fn purpose(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::Aead(_) => Some("encrypt"),
        Algorithm::Gmac(_) => Some("authenticate"),
        Algorithm::Digest(digest) if digest.facts().key_bytes.max > 0 => Some("authenticate"),
        Algorithm::Digest(_) => Some("digest"),
        Algorithm::Cipher(_) => None,
    }
}

fn rates(kernels: &Kernels, algorithm: Algorithm) -> [f64; SHAPES.len()] {
    SHAPES.map(|(length, count)| match algorithm {
        Algorithm::Digest(digest) => digest_rate(kernels, digest, length, count),
        Algorithm::Aead(aead) => seal_rate(kernels, aead, false, length, count),
        Algorithm::Gmac(gmac) => seal_rate(kernels, gmac.aead(), true, length, count),
        Algorithm::Cipher(_) => 0.0,
    })
}

/// Returns the longest key that is useful: some MACs take keys of any length.
fn key(bytes_max: usize) -> &'static [u8] {
    const KEY: [u8; 32] = [0x5a; 32];
    &KEY[..bytes_max.min(KEY.len())]
}

fn digest_rate(kernels: &Kernels, digest: Digest, length: usize, count: usize) -> f64 {
    let Ok(key) = DigestKey::new(digest, key(digest.facts().key_bytes.max)) else { return 0.0 };
    let messages = vec![0xa5_u8; length * count];
    let mut jobs: Vec<_> = messages.chunks(length).map(|message| DigestJob::new(&key, message)).collect();
    best(length * count, || {
        kernels.digest(digest, black_box(&mut jobs));
    })
}

fn seal_rate(kernels: &Kernels, aead: Aead, is_mac: bool, length: usize, count: usize) -> f64 {
    let Ok(key) = AeadKey::new(aead, key(aead.facts().key_bytes.max)) else { return 0.0 };
    let aad = vec![0xa5_u8; if is_mac { length } else { 8 }];
    let mut messages = vec![0xa5_u8; length * count];
    let mut jobs: Vec<_> = messages
        .chunks_mut(length)
        .map(|message| {
            let data = if is_mac { &mut message[..0] } else { message };
            AeadJob::seal(&key, [0; 12], &aad, Buffer::in_place(data))
        })
        .collect();
    let mut number = 0_u64;
    best(length * count, || {
        for job in &mut jobs {
            number += 1;
            job.nonce[4..].copy_from_slice(&number.to_be_bytes());
        }
        kernels.seal(aead, black_box(&mut jobs));
    })
}

/// Returns the best rate of several slices of calls that take `bytes` each.
fn best(bytes: usize, mut call: impl FnMut()) -> f64 {
    call();
    let rate = |()| {
        let (start, mut calls) = (Instant::now(), 0);
        while start.elapsed() < SLICE {
            call();
            calls += 1;
        }
        f64::from(calls) * bytes as f64 / start.elapsed().as_secs_f64()
    };
    [(); SLICES].map(rate).into_iter().fold(0.0, f64::max)
}

/// Returns the table, by purpose, the fastest for many packets first and marked.
fn table(mut rows: Vec<Row>) -> String {
    rows.sort_by(|one, other| one.purpose.cmp(other.purpose).then(other.rates[1].total_cmp(&one.rates[1])));
    let mut text = format!("MB/s of one core    {:>14} {:>14} {:>14}\n", "1408 bytes", "64 x 1408", "64 KiB");
    let mut last = "";
    for Row { purpose, algorithm, rates } in &rows {
        if *purpose != last {
            text += &format!("\n{purpose}\n");
        }
        let [one, many, long] = rates.map(|rate| format!("{:.0}", rate / 1e6));
        let mark = if *purpose == last { ' ' } else { '*' };
        text += &format!("{mark} {:<18}{one:>14} {many:>14} {long:>14}\n", algorithm.to_string());
        last = purpose;
    }
    text + "\n* the fastest for many packets at a time\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unbroken_algorithm_has_a_rate() {
        let kernels = Kernels::best();
        for algorithm in Algorithm::all().filter(|algorithm| algorithm.facts().standing == Standing::Current)
        {
            let is_fast =
                purpose(algorithm).is_none_or(|_| rates(&kernels, algorithm).iter().all(|&rate| rate > 0.0));
            assert!(is_fast, "{algorithm}");
        }
    }

    #[test]
    fn the_fastest_of_each_purpose_comes_first_and_is_marked() {
        let row = |name: &str, rates| {
            let algorithm: Algorithm = name.parse().expect("an algorithm");
            Row { purpose: purpose(algorithm).expect("a purpose"), algorithm, rates }
        };
        let text = table(vec![
            row("sha256", [1e6, 2e6, 3e6]),
            row("aes-128-gcm", [1e6, 2e6, 9e6]),
            row("aes-256-gcm", [1e6, 7e6, 3e6]),
        ]);
        let names: Vec<&str> =
            text.lines().filter(|line| line.starts_with("* ") || line.starts_with("  ")).collect();
        assert!(names[0].starts_with("* sha256"), "{text}");
        assert!(names[1].starts_with("* aes-256-gcm") && names[2].starts_with("  aes-128-gcm"), "{text}");
    }
}
