//! Prints MB/s by thread CPU time for every algorithm and tier: `rates [NAME] [BYTES] [BATCH]`.
//!
//! BYTES may be `imix`: 64, 576 and 1500 bytes in the ratio 7 to 4 to 1, with a key per packet. With it, ways fill
//! only if there are several batches of ways to take from, so bitsliced kernels need a BATCH of 4096. `peer` is the
//! RustCrypto crate (or aws-lc-rs for AEADs), message by message, in the same run. An AEAD's packets have 20 bytes of
//! associated data; `gmac` is GCM over records of 64 KiB with a header of 24 bytes, all of it associated data.
#![allow(unsafe_code)]

use std::hint::black_box;

use aws_lc_rs::aead as aws;
use sealane_native::Ccm;
use sealane_transform::{
    Aead, AeadJob, AeadKey, AeadLengths, Algorithm, BlockCipher, Buffer, Cipher, CipherJob, CipherKey,
    Digest, DigestJob, DigestKey, Direction, Isa, Kernels, Mode, Tier,
};

/// Returns the seconds of CPU that this thread has used.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the MB/s of work that processes `bytes` per call: the best of five intervals of 40 ms.
fn rate(bytes: usize, mut work: impl FnMut()) -> f64 {
    work();
    let mut best = 0.0f64;
    for _ in 0..5 {
        let start = cpu_seconds();
        let mut calls = 0;
        let spent = loop {
            work();
            calls += 1;
            let spent = cpu_seconds() - start;
            if spent > 0.04 {
                break spent;
            }
        };
        best = best.max(calls as f64 * bytes as f64 / spent / 1e6);
    }
    best
}

fn kernels() -> Vec<(String, Kernels)> {
    let mut all = Vec::new();
    for (tier, isa) in [
        (Tier::Reference, Isa::Portable),
        (Tier::Generic, Isa::Portable),
        (Tier::Native, Isa::Avx2),
        (Tier::Native, Isa::Avx512),
        (Tier::Batch, Isa::Portable),
        (Tier::Batch, Isa::Avx2),
        (Tier::Batch, Isa::Avx512),
    ] {
        if let Ok(kernels) = Kernels::select(Some(tier), Some(isa)) {
            all.push((format!("{tier}/{isa}"), kernels));
        }
    }
    if let Ok(kernels) = Kernels::select(None, None) {
        all.push(("auto".to_owned(), kernels));
    }
    all
}

fn row(name: &str, peer: Option<f64>, rates: &[(String, f64)]) {
    print!("{name:18}");
    if let Some(peer) = peer {
        print!(" peer {peer:7.0}");
    }
    for (kernel, rate) in rates {
        print!("  {kernel} {rate:.0}");
    }
    if let (Some(peer), Some((_, last))) = (peer, rates.last()) {
        print!("  = {:.1} x", last / peer);
    }
    println!();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().map_or("", String::as_str);
    let number = |i: usize, usual: usize| arguments.get(i).and_then(|n| n.parse().ok()).unwrap_or(usual);
    let batch = number(2, 512);
    let lengths: Vec<usize> = if arguments.get(1).is_some_and(|bytes| bytes == "imix") {
        (0..batch).map(|i| IMIX[i % IMIX.len()]).collect()
    } else {
        vec![number(1, 1408); batch]
    };
    digests(wanted, &lengths);
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        ciphers(wanted, &lengths, direction);
    }
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        for algorithm in Aead::ALL.into_iter().filter(|aead| aead.name().contains(wanted)) {
            aead(
                algorithm.name(),
                algorithm,
                direction,
                20,
                lengths.iter().map(|&bytes| vec![1; bytes]).collect(),
            );
        }
    }
    for (name, algorithm) in [("gmac-128", Aead::Aes128Gcm), ("gmac-256", Aead::Aes256Gcm)] {
        if name.contains(wanted) {
            aead(name, algorithm, Direction::Encrypt, 24 + (64 << 10), vec![Vec::new(); 4]);
        }
    }
}

/// Simple IMIX, in no order.
const IMIX: [usize; 12] = [64, 576, 64, 64, 1500, 64, 576, 64, 576, 64, 576, 64];

fn digests(wanted: &str, lengths: &[usize]) {
    use hmac::{KeyInit as _, Mac as _};
    use sha2::Digest as _;
    let data: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, &bytes)| vec![i as u8; bytes]).collect();
    let total: usize = lengths.iter().sum();
    let dozen: usize = lengths.iter().take(12).sum();
    for algorithm in Digest::ALL.into_iter().filter(|d| d.name().contains(wanted)) {
        let key = vec![7; algorithm.facts().key_bytes.usual];
        let key = DigestKey::new(algorithm, &key).expect("usual length");
        let peer =
            |work: &mut dyn FnMut(&[u8])| Some(rate(dozen, || data.iter().take(12).for_each(|m| work(m))));
        let raw = [7; 32];
        let peer = match algorithm {
            Digest::Md5 => peer(&mut |m| {
                black_box(md5::Md5::digest(m));
            }),
            Digest::Sha1 => peer(&mut |m| {
                black_box(sha1::Sha1::digest(m));
            }),
            Digest::Sha256 => peer(&mut |m| {
                black_box(sha2::Sha256::digest(m));
            }),
            Digest::HmacSha1 => {
                let mac = hmac::Hmac::<sha1::Sha1>::new_from_slice(&raw).expect("any length");
                peer(&mut |m| {
                    black_box(mac.clone().chain_update(m).finalize());
                })
            }
            _ => None,
        };
        let mut rates = Vec::new();
        for (name, kernels) in kernels() {
            let mut jobs: Vec<_> = data.iter().map(|m| DigestJob::new(&key, m)).collect();
            rates.push((
                name,
                rate(total, || {
                    kernels.digest(algorithm, black_box(&mut jobs));
                }),
            ));
        }
        row(algorithm.name(), peer, &rates);
    }
}

/// Returns the rate of single messages through a RustCrypto cipher in CBC.
fn cbc_peer<C>(bytes: usize) -> f64
where
    C: cipher::BlockCipherEncrypt + cipher::KeyInit,
{
    use cipher::{BlockModeEncrypt as _, KeyIvInit as _};
    let key = vec![7; C::key_size()];
    let iv = vec![9; C::block_size()];
    let mut data = vec![1u8; bytes];
    rate(bytes, || {
        let sealer = cbc::Encryptor::<C>::new_from_slices(&key, &iv).expect("right lengths");
        black_box(sealer.encrypt_padded::<cipher::block_padding::NoPadding>(black_box(&mut data), bytes))
            .expect("whole blocks");
    })
}

fn ciphers(wanted: &str, lengths: &[usize], direction: Direction) {
    let all = Algorithm::all().filter_map(|a| if let Algorithm::Cipher(c) = a { Some(c) } else { None });
    for algorithm in all.filter(|c| c.to_string().contains(wanted)) {
        if matches!(algorithm, Cipher::Block(_, Mode::Ecb)) {
            continue;
        }
        let granule = algorithm.granule_bytes();
        let lengths: Vec<usize> = lengths.iter().map(|bytes| bytes.next_multiple_of(granule)).collect();
        let total: usize = lengths.iter().sum();
        let bytes = total / lengths.len() / granule * granule;
        let mut data: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, &n)| vec![i as u8; n]).collect();
        let keys: Vec<_> = (0..lengths.len().min(64))
            .map(|i| {
                CipherKey::new(algorithm, &vec![i as u8; algorithm.facts().key_bytes.usual])
                    .expect("usual length")
            })
            .collect();
        let peer = match algorithm {
            Cipher::Block(cipher, Mode::Cbc) if direction == Direction::Encrypt => match cipher {
                BlockCipher::Des => Some(cbc_peer::<des::Des>(bytes)),
                BlockCipher::TripleDes => Some(cbc_peer::<des::TdesEde3>(bytes)),
                BlockCipher::Aes128 => Some(cbc_peer::<aes::Aes128>(bytes)),
                BlockCipher::Aes256 => Some(cbc_peer::<aes::Aes256>(bytes)),
                BlockCipher::Rc5 => {
                    Some(cbc_peer::<rc5::RC5<u32, cipher::consts::U12, cipher::consts::U16>>(bytes))
                }
                BlockCipher::Rc6 => {
                    Some(cbc_peer::<rc6::RC6<u32, cipher::consts::U20, cipher::consts::U16>>(bytes))
                }
                BlockCipher::Blowfish => Some(cbc_peer::<blowfish::Blowfish>(bytes)),
                BlockCipher::Idea => Some(cbc_peer::<idea::Idea>(bytes)),
                _ => None,
            },
            _ => None,
        };
        let mut rates = Vec::new();
        for (name, kernels) in kernels() {
            let mut jobs: Vec<_> = data
                .iter_mut()
                .enumerate()
                .map(|(i, data)| CipherJob::new(&keys[i % keys.len()], &[i as u8], Buffer::in_place(data)))
                .collect();
            rates.push((
                name,
                rate(total, || {
                    kernels.cipher(algorithm, direction, black_box(&mut jobs));
                }),
            ));
        }
        row(&format!("{algorithm} {direction:?}"), peer, &rates);
    }
}

/// AWS-LC's key of an AEAD: by aws-lc-rs where that has it.
enum PeerKey {
    Rust(aws::LessSafeKey),
    Ccm(Ccm),
}

impl PeerKey {
    fn new(algorithm: Aead, raw: &[u8], direction: Direction) -> Self {
        let algorithm = match algorithm {
            Aead::Aes128Gcm => &aws::AES_128_GCM,
            Aead::Aes256Gcm => &aws::AES_256_GCM,
            Aead::ChaCha20Poly1305 => &aws::CHACHA20_POLY1305,
            Aead::Aes128Ccm | Aead::Aes256Ccm => {
                let AeadLengths { nonce_bytes, tag_bytes } = AeadLengths::USUAL;
                let key = Ccm::new(raw, nonce_bytes, tag_bytes, direction == Direction::Encrypt);
                return Self::Ccm(key.expect("right lengths"));
            }
        };
        Self::Rust(aws::LessSafeKey::new(aws::UnboundKey::new(algorithm, raw).expect("right length")))
    }

    fn seal(&mut self, nonce: [u8; 12], aad: &[u8], data: &mut [u8]) {
        match self {
            Self::Rust(key) => {
                let (nonce, aad) = (aws::Nonce::assume_unique_for_key(nonce), aws::Aad::from(aad));
                let tag = key.seal_in_place_separate_tag(nonce, aad, data);
                let _ = black_box(tag.expect("short enough"));
            }
            Self::Ccm(key) => key.seal(&nonce, aad, data, black_box(&mut [0; 16])).expect("short enough"),
        }
    }

    fn open(&mut self, nonce: [u8; 12], aad: &[u8], sealed: &[u8], tag: &[u8; 16], opened: &mut [u8]) {
        match self {
            Self::Rust(key) => {
                let (nonce, aad) = (aws::Nonce::assume_unique_for_key(nonce), aws::Aad::from(aad));
                key.open_separate_gather(nonce, aad, sealed, tag, opened).expect("genuine");
            }
            Self::Ccm(key) => key.open(&nonce, aad, sealed, tag, opened).expect("genuine"),
        }
    }
}

/// Measures one AEAD over packets of one key; the intervals of all kernels and of aws-lc-rs alternate.
fn aead(name: &str, algorithm: Aead, direction: Direction, aad_bytes: usize, packets: Vec<Vec<u8>>) {
    let raw = vec![7; algorithm.key_bytes()];
    let key = AeadKey::new(algorithm, &raw).expect("right length");
    let mut peer_key = PeerKey::new(algorithm, &raw, direction);
    let aads = vec![vec![9; aad_bytes]; packets.len()];
    let nonce = |i: usize| core::array::from_fn(|n| (i >> (8 * n.min(3))) as u8);
    // Sealing is in place; opening is not, because the next interval needs the sealed packets again.
    let mut sealed = packets;
    let tags: Vec<[u8; 16]> = sealed
        .iter_mut()
        .enumerate()
        .map(|(i, data)| {
            let mut jobs = [AeadJob::seal(&key, nonce(i), &aads[i], Buffer::in_place(data))];
            Kernels::best().seal(algorithm, &mut jobs);
            jobs[0].tag
        })
        .collect();
    let mut out = sealed.clone();
    let bytes: usize = sealed.iter().map(Vec::len).sum();
    let bytes = if bytes == 0 { aads.iter().map(Vec::len).sum() } else { bytes };
    let mut best = vec![0.0f64; kernels().len()];
    let mut peer = 0.0f64;
    for _ in 0..3 {
        for (best, (_, kernels)) in best.iter_mut().zip(kernels()) {
            let mut jobs: Vec<_> = (sealed.iter().zip(&mut out).enumerate())
                .map(|(i, (data, out))| {
                    let data = match direction {
                        Direction::Encrypt => Buffer::in_place(out),
                        Direction::Decrypt => Buffer::out_of_place(data, out).expect("equal lengths"),
                    };
                    AeadJob::open(&key, nonce(i), &aads[i], data, tags[i])
                })
                .collect();
            let rate = rate(bytes, || {
                let jobs = black_box(&mut jobs);
                let failed = match direction {
                    Direction::Encrypt => kernels.seal(algorithm, jobs),
                    Direction::Decrypt => kernels.open(algorithm, jobs),
                };
                assert_eq!(failed, 0);
            });
            *best = best.max(rate);
        }
        peer = peer.max(rate(bytes, || {
            for (i, data) in sealed.iter().enumerate() {
                match direction {
                    Direction::Encrypt => peer_key.seal(nonce(i), &aads[i], &mut out[i]),
                    Direction::Decrypt => peer_key.open(nonce(i), &aads[i], data, &tags[i], &mut out[i]),
                }
            }
        }));
    }
    let rates: Vec<_> = kernels().into_iter().zip(best).map(|((name, _), rate)| (name, rate)).collect();
    row(&format!("{name} {direction:?}"), Some(peer), &rates);
}
