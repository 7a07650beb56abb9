//! Finds from how many messages on lanes beat single messages: `crossover [NAME] [BYTES]`.
//!
//! For each algorithm and instruction set: the measured point, the one in the code (what the automatic choice does),
//! and the worst ratio of the automatic choice to single messages over many batch sizes, which must not fall below 1
//! by more than measurement shakes (0.95), for equal lengths, for short messages and for mixed ones.
#![allow(unsafe_code)]

use std::hint::black_box;

use sealane_transform::{
    Algorithm, Buffer, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey, Direction, Isa, Kernels,
    Mode, Tier,
};

/// Seconds of CPU this thread has used.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds of one call: the best of seven boxes of half a millisecond or one call.
fn seconds(mut work: impl FnMut()) -> f64 {
    work();
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let start = cpu_seconds();
        let mut calls = 0;
        let spent = loop {
            work();
            calls += 1;
            let spent = cpu_seconds() - start;
            if spent > 0.0005 {
                break spent;
            }
        };
        best = best.min(spent / f64::from(calls));
    }
    best
}

/// Batch sizes at which the automatic choice is judged.
const SIZES: [usize; 30] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 17, 20, 24, 32, 33, 40, 48, 64, 65, 96, 100, 128, 129, 200, 256,
    300, 512, 513,
];

/// Something that can be timed for any kernels and batch.
trait Subject {
    fn name(&self) -> String;
    fn run(&self, kernels: &Kernels, lengths: &[usize]) -> f64;
    fn tier(&self, kernels: &Kernels, count: usize) -> Tier;
}

struct DigestSubject(Digest, DigestKey);

impl Subject for DigestSubject {
    fn name(&self) -> String {
        self.0.name().to_owned()
    }
    fn run(&self, kernels: &Kernels, lengths: &[usize]) -> f64 {
        let data: Vec<Vec<u8>> = lengths.iter().map(|&bytes| vec![7; bytes]).collect();
        let mut jobs: Vec<_> = data.iter().map(|data| DigestJob::new(&self.1, data)).collect();
        seconds(|| {
            kernels.digest(self.0, black_box(&mut jobs));
        })
    }
    fn tier(&self, kernels: &Kernels, count: usize) -> Tier {
        kernels.digest_tier(self.0, count)
    }
}

struct CipherSubject(Cipher, Direction, Vec<CipherKey>);

impl Subject for CipherSubject {
    fn name(&self) -> String {
        format!("{} {:?}", self.0, self.1).to_lowercase()
    }
    fn run(&self, kernels: &Kernels, lengths: &[usize]) -> f64 {
        let granule = self.0.granule_bytes();
        let mut data: Vec<Vec<u8>> =
            lengths.iter().map(|&bytes| vec![7; bytes.next_multiple_of(granule)]).collect();
        let mut jobs: Vec<_> = data
            .iter_mut()
            .enumerate()
            .map(|(i, data)| CipherJob::new(&self.2[i % self.2.len()], &[i as u8], Buffer::in_place(data)))
            .collect();
        seconds(|| {
            kernels.cipher(self.0, self.1, black_box(&mut jobs));
        })
    }
    fn tier(&self, kernels: &Kernels, count: usize) -> Tier {
        kernels.cipher_tier(self.0, self.1, count)
    }
}

/// Lengths of simple IMIX, 7:4:1, in no order.
fn imix(count: usize) -> Vec<usize> {
    const DOZEN: [usize; 12] = [64, 576, 64, 64, 1500, 64, 576, 64, 576, 64, 576, 64];
    (0..count).map(|i| DOZEN[i % 12]).collect()
}

fn judge(subject: &dyn Subject, bytes: usize) {
    for isa in Isa::ALL {
        let select = |tier| Kernels::select(tier, Some(isa)).ok();
        let (Some(batch), Some(single), Some(auto)) =
            (select(Some(Tier::Batch)), select(Some(Tier::Native)), select(None))
        else {
            continue;
        };
        if subject.tier(&batch, 1) != Tier::Batch {
            continue;
        }
        let alone = subject.run(&single, &[bytes]);
        let measured =
            SIZES.into_iter().find(|&count| subject.run(&batch, &vec![bytes; count]) < alone * count as f64);
        let in_code = (1..=1024).find(|&count| subject.tier(&auto, count) == Tier::Batch);
        let mut worst = [(f64::INFINITY, 0); 3];
        for count in SIZES {
            for (worst, lengths) in worst.iter_mut().zip([vec![bytes; count], vec![64; count], imix(count)]) {
                let ratio = subject.run(&single, &lengths) / subject.run(&auto, &lengths);
                if ratio < worst.0 {
                    *worst = (ratio, count);
                }
            }
        }
        let point =
            |point: Option<usize>| point.map_or_else(|| "never".to_owned(), |point| point.to_string());
        let [equal, short, mixed] = worst.map(|(ratio, count)| format!("{ratio:.2} at {count}"));
        println!(
            "{:22} {:9} lanes from {:>5}, in code {:>5}; worst against single: equal {equal:12} short {short:12} mixed {mixed}",
            subject.name(),
            isa.name(),
            point(measured),
            point(in_code),
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().map_or("", String::as_str);
    let bytes = arguments.get(1).and_then(|bytes| bytes.parse().ok()).unwrap_or(1408);
    for digest in Digest::ALL.into_iter().filter(|digest| digest.name().contains(wanted)) {
        let key = vec![7; digest.facts().key_bytes.usual];
        let key = DigestKey::new(digest, &key).expect("the usual length");
        judge(&DigestSubject(digest, key), bytes);
    }
    for algorithm in Algorithm::all() {
        let Algorithm::Cipher(cipher) = algorithm else { continue };
        if !cipher.to_string().contains(wanted) || matches!(cipher, Cipher::Block(_, Mode::Ecb)) {
            continue;
        }
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let symmetric = !matches!(cipher, Cipher::Block(_, Mode::Cbc));
            if symmetric && direction == Direction::Decrypt {
                continue;
            }
            let key = |i: usize| {
                CipherKey::new(cipher, &vec![i as u8; cipher.facts().key_bytes.usual])
                    .expect("the usual length")
            };
            judge(&CipherSubject(cipher, direction, (0..64).map(key).collect()), bytes);
        }
    }
}
