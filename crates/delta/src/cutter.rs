//! Cuts bytes into pieces where their content says so: FastCDC (Xia and others, 2016, 2020) with a gear hash.
//!
//! Guarantees: a piece begins where the one before it ends, is never longer than four means, and not shorter than a quarter of
//! one unless the bytes end; where it ends depends on nothing but its own bytes.

/// Random words, one for each byte: the output of SplitMix64. Both ends must have the same.
static GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let mut words = [0; 256];
    let mut state: u64 = 0x5ea1_a9e0;
    let mut at = 0;
    while at < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        words[at] = word ^ (word >> 31);
        at += 1;
    }
    words
}

/// Finds the ends of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutter {
    least: usize,
    mean: usize,
    most: usize,
    /// The greatest prints where a piece ends that is shorter than the mean, and where a longer one does.
    early: u64,
    late: u64,
}

/// How much likelier a cut is behind the mean than before it, as a power of two of its square root: lengths are closer together.
const NORMAL_BITS: u8 = 2;

impl Cutter {
    /// The shortest mean, as a power of two.
    pub const MEAN_LOG2_MIN: u8 = 12;
    /// The longest mean, as a power of two: the length of a piece has three bytes.
    pub const MEAN_LOG2_MAX: u8 = 21;

    /// Returns a cutter into pieces of this mean length, a power of two; `None` if there is none so short or so long.
    pub fn new(mean_log2: u8) -> Option<Self> {
        if !(Self::MEAN_LOG2_MIN..=Self::MEAN_LOG2_MAX).contains(&mean_log2) {
            return None;
        }
        let mean = 1_usize << mean_log2;
        let without_upper_bits = |count: u8| u64::MAX >> count;
        Some(Self {
            least: mean / 4,
            mean,
            most: mean * 4,
            early: without_upper_bits(mean_log2 + NORMAL_BITS),
            late: without_upper_bits(mean_log2 - NORMAL_BITS),
        })
    }

    /// Returns the length of the shortest piece, unless the bytes end.
    pub fn least_bytes(&self) -> usize {
        self.least
    }

    /// Returns the length of the longest piece.
    pub fn most_bytes(&self) -> usize {
        self.most
    }

    /// Returns the length of the first piece of `bytes`, which must reach to the end of all bytes, or be as long as the longest
    /// piece.
    pub fn first(&self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(self.most)];
        if bytes.len() <= self.least {
            return bytes.len();
        }
        let mut print = 0_u64;
        let mean = self.mean.min(bytes.len());
        for (range, most) in [(self.least..mean, self.early), (mean..bytes.len(), self.late)] {
            if let Some(at) = cut(&bytes[range.clone()], most, &mut print) {
                return range.start + at;
            }
        }
        bytes.len()
    }

    /// Does the same as [`Self::first`] in the obvious way: by the sum over the window at each place.
    #[cfg(test)]
    pub(crate) fn first_by_definition(&self, bytes: &[u8]) -> usize {
        for end in 0..bytes.len().min(self.most) {
            if end < self.least {
                continue;
            }
            let window = (end + 1 - self.least).min(64);
            let print = (0..window).fold(0_u64, |sum, back| {
                sum.wrapping_add(GEAR[usize::from(bytes[end - back])].wrapping_shl(back as u32))
            });
            if print <= if end < self.mean { self.early } else { self.late } {
                return end + 1;
            }
        }
        bytes.len().min(self.most)
    }
}

/// The bytes whose prints are computed side by side.
const STEP: usize = 8;

/// Returns the number of bytes up to the first place where the print is at most `most`. `print` is the one before the first byte, and
/// then the one behind the last. A step is the sum of what its own bytes add and of the print before it, which is shifted: so the prints
/// of a step wait for one another no longer than one shift and one sum.
fn cut(bytes: &[u8], most: u64, print: &mut u64) -> Option<usize> {
    let add = |print: u64, byte: u8| (print << 1).wrapping_add(GEAR[usize::from(byte)]);
    let ends = |bytes: &[u8], print: &mut u64| {
        bytes.iter().position(|&byte| {
            *print = add(*print, byte);
            *print <= most
        })
    };
    let (steps, rest) = bytes.as_chunks::<STEP>();
    for (number, step) in steps.iter().enumerate() {
        let (mut own, mut least) = (0, u64::MAX);
        for (before, &byte) in (1..).zip(step) {
            own = add(own, byte);
            least = least.min((*print << before).wrapping_add(own));
        }
        if least <= most {
            return ends(step, print).map(|at| number * STEP + at + 1);
        }
        *print = (*print << STEP).wrapping_add(own);
    }
    ends(rest, print).map(|at| steps.len() * STEP + at + 1)
}
