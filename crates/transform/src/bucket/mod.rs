//! Bucket hashing after Rogaway, in this project's profile `bh-140`: 140 buckets of 32-bit words, a hash function
//! drawn from a key, and Poly1305 under a nonce as second level.
//!
//! Each word of the message is XORed into three of the buckets. The key determines the triples: word i's triple, no
//! triple twice, from SHA-256(key || counter).

use core::fmt;

use zeroize::Zeroize as _;

use crate::chacha::reference::one_time_key;
use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames, words_to_bytes};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::key::OwnKey;
use crate::poly1305::generic::Poly1305;
use crate::sha256;
use crate::word::{Counted, Plain, Region, Word, end_block};

/// `bh-140` as the catalogue knows it.
pub(crate) static BH_140: DigestDescriptor = DigestDescriptor {
    name: "bh-140",
    facts: Facts {
        block_bytes: 4,
        rounds: 1,
        key_bytes: KeyBytes::exactly(48),
        iv_bytes: 12,
        output_bytes: 16,
        table_bytes: 3 * BUCKET_WORDS,
        working_set_bytes: 3 * BUCKET_WORDS + 560,
        chained: false,
        byte_order: ByteOrder::Little,
        standing: Standing::Legacy,
        limits: Limits { blocks_a_key: u64::MAX, bytes_a_nonce: LONGEST_BYTES as u64 },
        source: "Rogaway, J. Cryptology 12 (1999) 91-115; parameters are this project's",
    },
    making: Making::Own(OwnDigest {
        together: None,
        expand,
        tier: |tier, _| tier.min(Tier::Generic),
        digest: |_, _, job| {
            if let Some(key) = job.key.own::<BucketKey>() {
                job.output[..16].copy_from_slice(&key.tag(&job.nonce, job.input));
            }
        },
        // One block, whatever its length.
        trace: |key, data, sink| {
            let data = &data[..data.len().min(4 * BUCKET_WORDS - 4)];
            let buckets = key.own::<BucketKey>()?.buckets::<Counted>(data);
            end_block(sink);
            Some(words_to_bytes(&buckets))
        },
    }),
    peers: PeerNames::NONE,
    promises: &[],
};

fn expand(key: &[u8]) -> OwnKey {
    let (draw, rest) = key.split_first_chunk()?;
    Some(Box::new(BucketKey::new(draw, rest.first_chunk()?)))
}

/// The number of buckets of `bh-140`.
const BUCKETS: usize = 140;

/// Words of the longest message: 16 KiB and its padding word.
pub const BUCKET_WORDS: usize = 4097;

/// Bytes of the longest message: with a byte of padding they fill the last word.
const LONGEST_BYTES: usize = 4 * BUCKET_WORDS - 1;

/// A drawn hash function and the key of the second level.
pub(crate) struct BucketKey {
    triples: [[u8; 3]; BUCKET_WORDS],
    finish: [u8; 32],
}

impl Drop for BucketKey {
    fn drop(&mut self) {
        self.triples.as_flattened_mut().zeroize();
        self.finish.zeroize();
    }
}

impl fmt::Debug for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BucketKey")
    }
}

impl BucketKey {
    /// Draws the function from `key` (16 bytes) and keeps `finish` for the tag.
    pub(crate) fn new(key: &[u8; 16], finish: &[u8; 32]) -> Self {
        let compress = (sha256::HASH.compress)(Tier::Generic, Features::NONE);
        let mut counter = 0u32;
        let mut bytes = [0; 32];
        let mut used = 32;
        let mut next_index = || {
            loop {
                if used == 32 {
                    let mut seed = [0; 20];
                    seed[..16].copy_from_slice(key);
                    seed[16..].copy_from_slice(&counter.to_le_bytes());
                    sha256::HASH.digest(compress, &seed, &mut bytes);
                    counter += 1;
                    used = 0;
                }
                used += 1;
                if usize::from(bytes[used - 1]) < BUCKETS {
                    return bytes[used - 1];
                }
            }
        };
        // One bit per triple of buckets prevents a second draw of the same one: 2.7 million bits.
        let mut seen = vec![0u64; BUCKETS * BUCKETS * BUCKETS / 64 + 1];
        let mut triples = [[0; 3]; BUCKET_WORDS];
        for triple in &mut triples {
            *triple = loop {
                let mut draw = [next_index(), next_index(), next_index()];
                draw.sort_unstable();
                let [a, b, c] = draw.map(usize::from);
                let at = (a * BUCKETS + b) * BUCKETS + c;
                if a != b && b != c && seen[at / 64] >> (at % 64) & 1 == 0 {
                    seen[at / 64] |= 1 << (at % 64);
                    break draw;
                }
            };
        }
        seen.zeroize();
        bytes.zeroize();
        Self { triples, finish: *finish }
    }

    /// Returns the first level: the buckets of a message padded with 0x80 and zeros.
    fn buckets<W: Word>(&self, message: &[u8]) -> [u32; BUCKETS] {
        let mut buckets = [0; BUCKETS];
        let (words, tail) = message.as_chunks::<4>();
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        last[tail.len()] = 0x80;
        for (i, (word, triple)) in words.iter().chain([&last]).zip(&self.triples).enumerate() {
            let word = W::load(Region::Message.word(i), u32::from_le_bytes(*word));
            for &bucket in triple {
                let place = Region::State.word(usize::from(bucket));
                let bucket = &mut buckets[usize::from(bucket)];
                *bucket = (W::load(place, *bucket) ^ word).store(place);
            }
            W::branch(true);
        }
        buckets
    }

    /// Returns the tag of a message under a nonce.
    pub(crate) fn tag(&self, nonce: &[u8; 12], message: &[u8]) -> [u8; 16] {
        let buckets = self.buckets::<Plain>(message);
        let mut bytes = [0; 4 * BUCKETS + 8];
        for (word, bytes) in buckets.iter().zip(bytes.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes[4 * BUCKETS..].copy_from_slice(&(message.len() as u64).to_le_bytes());
        let mut poly = Poly1305::new(&one_time_key(&self.finish, nonce));
        poly.update(&bytes);
        poly.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hex_literal::hex;

    #[test]
    fn vectors_of_the_profile() {
        let key = BucketKey::new(&core::array::from_fn(|i| i as u8), &[0; 32]);
        assert_eq!(
            key.triples[..6],
            [[59, 93, 133], [85, 94, 130], [12, 80, 127], [58, 65, 110], [33, 71, 80], [2, 58, 105]]
        );
        assert_eq!((key.triples[352], key.triples[4096]), ([58, 72, 86], [26, 40, 78]));
        let long: Vec<u8> = (0..1408u32).map(|i| (i % 251) as u8).collect();
        let bytes: Vec<u8> = (0..=255).collect();
        let vectors: [(&[u8], [u8; 32], [u8; 16]); 4] = [
            (b"", hex!("0e8e7b9b69963eef19479961763dcef8d62a304644d6327432c5f3ccfd8797d9"), [0; 16]),
            (b"abc", hex!("1853b557b1fab53d6aed11cf884dfc1708e2926a62388cc3bc80a79eee8df8e9"), [0; 16]),
            (
                &bytes,
                hex!("b6c7dd5bbb670cafeadab5d941e3cabac89ed26e124e8498e1e1e4fc7bedf815"),
                hex!("c8c9cacb0000000074757677e0e1e2e3"),
            ),
            (
                &long,
                hex!("12affafb91d26d4edc282a756a950cfdc7271cffeb72b67014cc612576ad3b65"),
                hex!("9da7bdbb7770710aece4e4d4d5d2d7ec"),
            ),
        ];
        for (message, digest, first) in vectors {
            let bytes: Vec<u8> =
                key.buckets::<Plain>(message).iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(bytes[..16], first);
            let mut got = [0; 32];
            sha256::HASH.digest(sha256::reference::blocks, &bytes, &mut got);
            assert_eq!(got, digest);
        }
    }
}
