//! Tests that a message in parts has the digest of the message in one piece, in every tier.

use proptest::prelude::*;
use sealane_transform::{Digest, DigestJob, DigestKey, DigestStream, Isa, Kernels, StreamPart, Tier};

const HASHES: [Digest; 4] = [Digest::Md5, Digest::Sha1, Digest::Sha224, Digest::Sha256];

fn whole(digest: Digest, message: &[u8]) -> Vec<u8> {
    let key = DigestKey::new(digest, &[]).unwrap();
    let mut jobs = [DigestJob::new(&key, message)];
    Kernels::select(Some(Tier::Reference), Some(Isa::Portable)).unwrap().digest(digest, &mut jobs);
    jobs[0].digest().to_vec()
}

/// Digests `messages` side by side, each cut at the lengths in its own list, over and over.
fn in_parts(kernels: &Kernels, digest: Digest, messages: &[Vec<u8>], cuts: &[Vec<usize>]) -> Vec<Vec<u8>> {
    let mut streams: Vec<DigestStream> =
        messages.iter().map(|_| DigestStream::new(digest).unwrap()).collect();
    let mut rest: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    for round in 0.. {
        if rest.iter().all(|rest| rest.is_empty()) {
            break;
        }
        let mut parts = Vec::new();
        for ((stream, rest), cuts) in streams.iter_mut().zip(&mut rest).zip(cuts) {
            let (part, after) = rest.split_at(cuts[round % cuts.len()].min(rest.len()));
            *rest = after;
            parts.push(StreamPart { stream, part });
        }
        kernels.absorb(&mut parts);
        assert!(parts.iter().all(|part| part.part.is_empty()));
    }
    let bytes = digest.output_bytes();
    streams.iter().map(|stream| kernels.finish(stream)[..bytes].to_vec()).collect()
}

fn all_kernels() -> Vec<Kernels> {
    let tiers = Tier::ALL.into_iter().map(Some).chain([None]);
    tiers
        .flat_map(|tier| Isa::ALL.into_iter().filter_map(move |isa| Kernels::select(tier, Some(isa)).ok()))
        .collect()
}

fn bytes(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 131 + seed * 17 + i / 251) as u8).collect()
}

#[test]
fn keyed_and_other_digests_have_no_streams() {
    for digest in Digest::ALL {
        assert_eq!(DigestStream::new(digest).is_some(), HASHES.contains(&digest), "{}", digest.name());
    }
}

#[test]
fn every_boundary_of_one_message() {
    for digest in HASHES {
        for total in [0, 1, 55, 56, 63, 64, 65, 127, 128, 129, 200] {
            let message = bytes(1, total);
            let expected = whole(digest, &message);
            for cut in [1, 3, 63, 64, 65, 1000] {
                for kernels in all_kernels() {
                    let found = in_parts(&kernels, digest, std::slice::from_ref(&message), &[vec![cut]]);
                    assert_eq!(found[0], expected, "{} {total} by {cut} {kernels:?}", digest.name());
                }
            }
        }
    }
}

#[test]
fn more_streams_than_ways() {
    for digest in HASHES {
        let messages: Vec<_> = (0..70).map(|i| bytes(i, 40 * i + i % 3)).collect();
        let cuts: Vec<_> = (0..70).map(|i| vec![64 * (i % 5), 1 + i, 300]).collect();
        let expected: Vec<_> = messages.iter().map(|message| whole(digest, message)).collect();
        for kernels in all_kernels() {
            assert_eq!(in_parts(&kernels, digest, &messages, &cuts), expected, "{}", digest.name());
        }
    }
}

#[test]
fn a_stream_may_be_asked_midway() {
    let kernels = Kernels::select(None, None).unwrap();
    let mut stream = DigestStream::new(Digest::Md5).unwrap();
    assert_eq!(kernels.finish(&stream)[..16], whole(Digest::Md5, b""));
    kernels.absorb(&mut [StreamPart { stream: &mut stream, part: b"ab" }]);
    assert_eq!(kernels.finish(&stream)[..16], whole(Digest::Md5, b"ab"));
    kernels.absorb(&mut [StreamPart { stream: &mut stream, part: b"c" }]);
    assert_eq!(kernels.finish(&stream)[..16], whole(Digest::Md5, b"abc"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_messages_in_any_parts(
        lengths in prop::collection::vec(0usize..900, 1..40),
        cuts in prop::collection::vec(1usize..400, 1..6),
        mixed in any::<bool>(),
    ) {
        let kernels = Kernels::select(None, None).unwrap();
        let messages: Vec<_> = lengths.iter().enumerate().map(|(i, &n)| bytes(i, n)).collect();
        if mixed {
            let mut streams: Vec<_> =
                (0..messages.len()).map(|i| DigestStream::new(HASHES[i % HASHES.len()]).unwrap()).collect();
            let mut parts: Vec<_> =
                streams.iter_mut().zip(&messages).map(|(stream, part)| StreamPart { stream, part }).collect();
            kernels.absorb(&mut parts);
            for (i, stream) in streams.iter().enumerate() {
                let expected = whole(HASHES[i % HASHES.len()], &messages[i]);
                prop_assert_eq!(&kernels.finish(stream)[..expected.len()], &expected);
            }
        } else {
            let cuts: Vec<_> = (0..messages.len())
                .map(|i| cuts.iter().cycle().skip(i % cuts.len()).take(cuts.len()).copied().collect())
                .collect();
            let found = in_parts(&kernels, Digest::Sha1, &messages, &cuts);
            let expected: Vec<_> = messages.iter().map(|message| whole(Digest::Sha1, message)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
