//! AEADs: every tier on every instruction set of this machine seals a batch as aws-lc does, opens it again, and
//! refuses exactly the altered messages, of which it releases nothing.

#![no_main]

use aws_lc_rs::aead::{self as aws, LessSafeKey, Nonce, UnboundKey};
use libfuzzer_sys::fuzz_target;
use sealane_native::Ccm;
use sealane_transform::{Aead, AeadJob, AeadKey, AeadLengths, Buffer, Isa, Kernels, Status, Tier};

/// Bytes that describe a message: lengths of associated data and data, key, alteration, seed.
const MESSAGE_BYTES: usize = 7;
const MESSAGES_MAX: usize = 70;
const KEYS: usize = 3;

struct Message {
    key: usize,
    nonce: [u8; 12],
    aad: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    tag: [u8; 16],
    /// The part that is altered before opening: none (0), tag, nonce, associated data, ciphertext; and the number of
    /// the bit.
    altered: u8,
    bit: u8,
}

fuzz_target!(|input: &[u8]| {
    let Some((&[which, in_place], input)) = input.split_first_chunk() else { return };
    let algorithm = Aead::ALL[usize::from(which) % Aead::ALL.len()];
    let raw: [Vec<u8>; KEYS] = std::array::from_fn(|i| noise(which ^ (7 * i as u8), algorithm.key_bytes()));
    let mut messages: Vec<Message> = input
        .as_chunks::<MESSAGE_BYTES>()
        .0
        .iter()
        .take(MESSAGES_MAX)
        .map(|&[aad_low, aad_high, data_low, data_high, key, altered, seed]| {
            // Most messages have associated data as short as headers, some as long as records that are only
            // authenticated.
            let aad_bytes = (usize::from(aad_low) << (aad_high % 8 / 6 * 4)) + usize::from(aad_high / 8);
            let data_bytes = usize::from(u16::from_le_bytes([data_low, data_high]) % 5000);
            Message {
                key: usize::from(key) % KEYS,
                nonce: noise(seed, 12).try_into().expect("twelve"),
                aad: noise(seed ^ 0x55, aad_bytes),
                plain: noise(seed ^ 0xaa, data_bytes),
                sealed: Vec::new(),
                tag: [0; 16],
                altered: altered % 8,
                bit: seed,
            }
        })
        .collect();
    for message in &mut messages {
        seal_by_aws(algorithm, lengths_of(algorithm, message.key), &raw[message.key], message);
    }
    let keys = std::array::from_fn(|i| {
        AeadKey::with(algorithm, lengths_of(algorithm, i), &raw[i]).expect("right lengths")
    });
    for kernels in every_kernel() {
        seal_and_open(algorithm, &kernels, &keys, &messages, in_place % 2 == 0);
        open_altered(algorithm, &kernels, &keys, &messages);
    }
});

/// Returns the bytes that a seed determines.
fn noise(seed: u8, bytes: usize) -> Vec<u8> {
    let mut word = u64::from(seed) << 1 | 1;
    (0..bytes)
        .map(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (word >> 56) as u8
        })
        .collect()
}

fn every_kernel() -> impl Iterator<Item = Kernels> {
    let tiers = Tier::ALL.map(Some).into_iter().chain([None]);
    tiers.flat_map(|tier| Isa::ALL.map(|isa| (tier, isa))).filter_map(|(tier, isa)| {
        // On the portable instruction set, the tiers above the generic one are identical to it.
        let is_repeated = isa == Isa::Portable && tier.is_none_or(|tier| tier > Tier::Generic)
            || isa > Isa::Portable && tier.is_some_and(|tier| tier <= Tier::Generic);
        if is_repeated { None } else { Kernels::select(tier, Some(isa)).ok() }
    })
}

/// Returns the lengths of nonces and tags of a key: CCM has several.
fn lengths_of(algorithm: Aead, key: usize) -> AeadLengths {
    let lengths =
        [(12, 16), (11, 8), (7, 12)].map(|(nonce_bytes, tag_bytes)| AeadLengths { nonce_bytes, tag_bytes });
    if algorithm.takes(lengths[key]) { lengths[key] } else { AeadLengths::USUAL }
}

fn seal_by_aws(algorithm: Aead, lengths: AeadLengths, key: &[u8], message: &mut Message) {
    message.sealed.clone_from(&message.plain);
    let algorithm = match algorithm {
        Aead::Aes128Ccm | Aead::Aes256Ccm => {
            let Message { nonce, aad, sealed, tag, .. } = message;
            let key = Ccm::new(key, lengths.nonce_bytes, lengths.tag_bytes, true).expect("right lengths");
            return { key }.seal(nonce, aad, sealed, tag).expect("short enough");
        }
        Aead::Aes128Gcm => &aws::AES_128_GCM,
        Aead::Aes256Gcm => &aws::AES_256_GCM,
        Aead::ChaCha20Poly1305 => &aws::CHACHA20_POLY1305,
    };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).expect("right length"));
    let nonce = Nonce::assume_unique_for_key(message.nonce);
    let tag = key
        .seal_in_place_separate_tag(nonce, aws::Aad::from(&message.aad[..]), &mut message.sealed)
        .expect("short enough");
    message.tag.copy_from_slice(tag.as_ref());
}

fn seal_and_open(
    algorithm: Aead,
    kernels: &Kernels,
    keys: &[AeadKey; KEYS],
    messages: &[Message],
    in_place: bool,
) {
    for opening in [false, true] {
        let inputs: Vec<&[u8]> =
            messages.iter().map(|m| if opening { &m.sealed[..] } else { &m.plain }).collect();
        let mut out: Vec<Vec<u8>> =
            inputs.iter().map(|m| if in_place { m.to_vec() } else { vec![0xaa; m.len()] }).collect();
        let mut jobs: Vec<AeadJob<'_>> = out
            .iter_mut()
            .zip(messages.iter().zip(&inputs))
            .map(|(out, (message, input))| {
                let data = if in_place {
                    Buffer::in_place(out)
                } else {
                    Buffer::out_of_place(input, out).expect("equal lengths")
                };
                let tag = if opening { message.tag } else { [0; 16] };
                AeadJob::open(&keys[message.key], message.nonce, &message.aad, data, tag)
            })
            .collect();
        let failed =
            if opening { kernels.open(algorithm, &mut jobs) } else { kernels.seal(algorithm, &mut jobs) };
        assert_eq!(failed, 0, "{kernels:?}");
        let tags: Vec<_> = jobs.iter().map(|job| job.tag).collect();
        drop(jobs);
        for ((message, out), tag) in messages.iter().zip(&out).zip(tags) {
            assert!(out == if opening { &message.plain } else { &message.sealed }, "{kernels:?}");
            assert_eq!(tag, message.tag, "{kernels:?}");
        }
    }
}

fn open_altered(algorithm: Aead, kernels: &Kernels, keys: &[AeadKey; KEYS], messages: &[Message]) {
    let mut out: Vec<Vec<u8>> = messages.iter().map(|m| vec![0xaa; m.plain.len()]).collect();
    let altered: Vec<_> = messages
        .iter()
        .map(|message| {
            let Message { aad, sealed, nonce, tag, altered, bit, .. } = message;
            let (mut nonce, mut tag, mut aad, mut sealed) = (*nonce, *tag, aad.clone(), sealed.clone());
            let AeadLengths { nonce_bytes, tag_bytes } = keys[message.key].lengths();
            let part: &mut [u8] = match altered {
                1 => &mut tag[..tag_bytes.into()],
                2 => &mut nonce[..nonce_bytes.into()],
                3 => &mut aad,
                4 => &mut sealed,
                _ => &mut [],
            };
            let bits = 8 * part.len();
            if bits != 0 {
                let bit = usize::from(*bit) * 37 % bits;
                part[bit / 8] ^= 1 << (bit % 8);
            }
            (nonce, tag, aad, sealed, bits != 0)
        })
        .collect();
    let mut jobs: Vec<AeadJob<'_>> = out
        .iter_mut()
        .zip(messages.iter().zip(&altered))
        .map(|(out, (message, (nonce, tag, aad, sealed, _)))| {
            let data = Buffer::out_of_place(sealed, out).expect("equal lengths");
            AeadJob::open(&keys[message.key], *nonce, aad, data, *tag)
        })
        .collect();
    let failed = kernels.open(algorithm, &mut jobs);
    assert_eq!(failed, altered.iter().filter(|altered| altered.4).count(), "{kernels:?}");
    let statuses: Vec<_> = jobs.iter().map(|job| job.status).collect();
    drop(jobs);
    for ((message, altered), (out, status)) in messages.iter().zip(&altered).zip(out.iter().zip(statuses)) {
        if altered.4 {
            assert_eq!(status, Status::Forged);
            assert!(out.iter().all(|&byte| byte == 0), "{kernels:?}");
        } else {
            assert_eq!(status, Status::Done);
            assert_eq!(out, &message.plain);
        }
    }
}
