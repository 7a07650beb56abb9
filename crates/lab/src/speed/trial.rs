//! The time trial of the ATOMIC-2 project's `md5` driver: one message of many equal blocks, one after the other.
//!
//! Guarantees: the report has the driver's lines in the driver's order, and ends with RFC 1321's test suite and the
//! digest that the project published for 60 blocks of 100000 bytes, independent of the timed input.

use super::plan::{MEMORY_BYTES_MAX, cache_bytes};
use super::usage::{self, Usage};
use crate::rng::Rng;
use sealane_transform::{Digest, DigestStream, Kernels, StreamPart};
use std::fmt;

/// The digest on the project's page for `-c 60 -l 100000`.
const GOLDEN_DIGEST: &str = "36023ea6e959c9e678702bdba0f95ff8";

const GOLDEN_COUNT: u32 = 60;
const GOLDEN_LENGTH: usize = 100_000;

/// RFC 1321, appendix A.5.
const SUITE: [(&str, &str); 7] = [
    ("", "d41d8cd98f00b204e9800998ecf8427e"),
    ("a", "0cc175b9c0f1b6a831c399e269772661"),
    ("abc", "900150983cd24fb0d6963f7d28e17f72"),
    ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
    ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
    ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"),
    (
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
        "57edf4a22be3c955ac49da2e2107b67a",
    ),
];

/// The driver's switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialOptions {
    /// The number of blocks.
    pub count: u32,
    /// The length of a block in bytes.
    pub length: usize,
    /// Whether the block stays as allocated (zeros), and is touched first within the trial.
    pub skips_initialisation: bool,
    /// Whether the block has pseudo-random bytes.
    pub is_random: bool,
    /// Whether blocks are taken from several copies, so that none is still in a cache when its turn comes.
    pub leaves_cache: bool,
}

impl Default for TrialOptions {
    /// Returns the options for a thousand blocks of a million bytes.
    fn default() -> Self {
        Self {
            count: 1000,
            length: 1_000_000,
            skips_initialisation: false,
            is_random: false,
            leaves_cache: false,
        }
    }
}

/// A trial that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The block, or the memory between two uses of it, is too long.
    #[error("a block of {length} bytes is too long; at most {max} are taken")]
    TooLong {
        /// The requested length.
        length: usize,
        /// The bound.
        max: usize,
    },
}

/// The result of a trial; its text is that of the driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    count: u32,
    length: usize,
    digest: String,
    usage: Usage,
    suite: Vec<(&'static str, String)>,
    golden: String,
}

/// Runs the trial.
///
/// # Errors
/// Fails if it needs more memory than [`MEMORY_BYTES_MAX`].
pub fn run(kernels: Kernels, options: &TrialOptions) -> Result<Trial, TrialError> {
    let length = options.length;
    let too_long = || TrialError::TooLong { length, max: MEMORY_BYTES_MAX };
    let copies = if options.leaves_cache {
        // Two blocks, as in the driver, exceeded the caches of its time.
        (2 * cache_bytes(3).unwrap_or(32 << 20)).div_ceil(length.max(1)).max(2)
    } else {
        1
    };
    let total = length.checked_mul(copies).filter(|total| *total <= MEMORY_BYTES_MAX).ok_or_else(too_long)?;
    let mut blocks = vec![0; total];
    if !options.skips_initialisation {
        for block in blocks.chunks_exact_mut(length.max(1)) {
            if options.is_random {
                Rng::new(0x0a70_31c2).fill(block);
            } else {
                block.iter_mut().zip((0..=255).cycle()).for_each(|(byte, value)| *byte = value);
            }
        }
    }
    let before = usage::now();
    let digest = timed(&kernels, options.count, blocks.chunks_exact(length.max(1)).cycle());
    let used = usage::now().since(before);
    let golden: Vec<u8> = (0..=255).cycle().take(GOLDEN_LENGTH).collect();
    let text = |message: &'static str| (message, timed(&kernels, 1, std::iter::once(message.as_bytes())));
    Ok(Trial {
        count: options.count,
        length,
        digest,
        usage: used,
        suite: SUITE.iter().map(|(message, _)| text(message)).collect(),
        golden: timed(&kernels, GOLDEN_COUNT, std::iter::repeat(&*golden)),
    })
}

/// Returns the digest of `count` blocks, one after the other, as text.
fn timed<'a>(kernels: &Kernels, count: u32, blocks: impl Iterator<Item = &'a [u8]>) -> String {
    let Some(mut stream) = DigestStream::new(Digest::Md5) else { return String::new() };
    for part in blocks.take(count as usize) {
        kernels.absorb(&mut [StreamPart { stream: &mut stream, part }]);
    }
    let digest = kernels.finish(&stream);
    digest[..Digest::Md5.output_bytes()].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Trial {
    /// Returns whether the results of the test suite and the published digest are right.
    pub fn is_right(&self) -> bool {
        let suite = self.suite.iter().zip(SUITE).all(|((_, found), (_, expected))| found == expected);
        suite && self.golden == GOLDEN_DIGEST
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { user_seconds, system_seconds, .. } = self.usage;
        let seconds = user_seconds + system_seconds;
        let speed = f64::from(self.count) * self.length as f64 / seconds;
        let order = if cfg!(target_endian = "little") { "no reordering" } else { "reordering" };
        writeln!(
            f,
            "MD5 time trial. Digesting {} {}-byte blocks ({order} required) ... done",
            self.count, self.length
        )?;
        writeln!(f, "Digest = {}", self.digest)?;
        writeln!(
            f,
            "Time = {} U : {} S :: {} seconds",
            general(user_seconds),
            general(system_seconds),
            general(seconds)
        )?;
        writeln!(f, "Speed = {} bytes/second, {} bits/sec", general(speed), general(speed * 8.0))?;
        writeln!(
            f,
            "minflt {} majflt {} nswap {} nvcsw {} nivcsw {}",
            self.usage.minor_faults,
            self.usage.major_faults,
            self.usage.swaps,
            self.usage.voluntary_switches,
            self.usage.involuntary_switches
        )?;
        for (message, digest) in &self.suite {
            writeln!(f, "MD5 (\"{message}\") = {digest}")?;
        }
        writeln!(
            f,
            "MD5 ({GOLDEN_COUNT} blocks of {GOLDEN_LENGTH} bytes, byte i is i mod 256) = {}",
            self.golden
        )
    }
}

/// Returns six significant digits, as C's `%g` prints them.
fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or_default();
        trim(&format!("{value:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(digits), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_digest_comes_out() {
        let options = TrialOptions { count: 60, length: 100_000, ..TrialOptions::default() };
        let trial = run(Kernels::best(), &options).unwrap();
        assert_eq!(trial.digest, GOLDEN_DIGEST);
        assert!(trial.is_right());
        let text = trial.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "MD5 time trial. Digesting 60 100000-byte blocks (no reordering required) ... done"
        );
        assert_eq!(lines[1], "Digest = 36023ea6e959c9e678702bdba0f95ff8");
        assert!(lines[2].starts_with("Time = ") && lines[2].ends_with(" seconds"));
        assert!(lines[3].starts_with("Speed = ") && lines[3].ends_with(" bits/sec"));
        assert!(lines[4].starts_with("minflt "));
        assert_eq!(lines[5], "MD5 (\"\") = d41d8cd98f00b204e9800998ecf8427e");
        assert!(lines[12].ends_with(GOLDEN_DIGEST));
    }

    #[test]
    fn the_switches_change_what_is_digested_and_nothing_else() {
        let plain = TrialOptions { count: 5, length: 999, ..TrialOptions::default() };
        let digest = |options: TrialOptions| {
            let trial = run(Kernels::best(), &options).unwrap();
            assert!(trial.is_right());
            trial.digest
        };
        let usual = digest(plain);
        assert_eq!(digest(TrialOptions { leaves_cache: true, ..plain }), usual);
        let zeros = digest(TrialOptions { skips_initialisation: true, ..plain });
        let random = digest(TrialOptions { is_random: true, ..plain });
        assert!(usual != zeros && usual != random && zeros != random);
    }

    #[test]
    fn too_long_a_block_is_refused() {
        let huge = TrialOptions { length: usize::MAX, ..TrialOptions::default() };
        assert!(matches!(run(Kernels::best(), &huge), Err(TrialError::TooLong { .. })));
    }

    #[test]
    fn figures_are_those_of_the_drivers_printf() {
        for (value, text) in [
            (0.0, "0"),
            (1.01703, "1.01703"),
            (0.001894, "0.001894"),
            (1.01892, "1.01892"),
            (5.88858e6, "5.88858e+06"),
            (100_257_000.0, "1.00257e+08"),
            (0.478771, "0.478771"),
            (123_456.0, "123456"),
            (0.000_012_3, "1.23e-05"),
            (2.0, "2"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
