//! Tests of every suite: published vectors, tampering, and comparisons of implementations.

use std::sync::Arc;

use aws_lc_rs::{aead, hmac};
use cbc::cipher::{
    Block, BlockCipherEncrypt as _, BlockModeEncrypt as _, InnerIvInit as _, KeyInit as _,
    block_padding::NoPadding,
};
use des::TdesEde3;
use hex_literal::hex;
use proptest::prelude::*;
use sealane_engine::{
    Buffer, Direction, Implementations, JobStatus, Provider, Software, Suite, Work,
    record::{LayError, Record, SuiteKeys},
};
use sealane_transform::{Kernels, Tier};

const HEADER_BYTES: usize = 16;

fn by(provider: Provider) -> Implementations {
    Implementations { aead: Some(provider), ..Implementations::default() }
}

/// Records in a buffer, each with a separate session, which are laid and run together.
struct Batch {
    buffer: Buffer,
    direction: Direction,
    records: Vec<Record>,
    sessions: Vec<Arc<SuiteKeys>>,
    /// The outcome of each record: its body's length, sealed or plain.
    outcomes: Vec<Outcome>,
}

type Outcome = Result<usize, Refusal>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NotRun,
    Laying(LayError),
    Forged,
}

impl Batch {
    /// Runs the records that have not run; returns the number of those that failed.
    fn run(&mut self) -> usize {
        let mut work =
            Work { buffer: std::mem::take(&mut self.buffer), direction: self.direction, ..Work::default() };
        let mut laid = Vec::new();
        for (index, record) in self.records.iter().enumerate() {
            if self.outcomes[index] != Err(Refusal::NotRun) {
                continue;
            }
            match self.sessions[index].lay(&mut work, record) {
                Ok(()) => laid.push(index),
                Err(error) => self.outcomes[index] = Err(Refusal::Laying(error)),
            }
        }
        Software::default().run(&mut work);
        assert_eq!(work.jobs.len(), laid.len());
        for (place, index) in laid.into_iter().enumerate() {
            let (suite, record) = (self.sessions[index].suite(), &self.records[index]);
            self.outcomes[index] = match self.direction {
                Direction::Seal => {
                    assert_eq!(work.jobs[place].status, JobStatus::Done, "sealing cannot fail");
                    Ok(record.body_bytes + suite.expansion_bytes(record.body_bytes))
                }
                Direction::Open => suite.opened(&work, place, record).map(<[u8]>::len).ok_or(Refusal::Forged),
            };
        }
        self.buffer = work.buffer;
        self.outcomes.iter().filter(|outcome| outcome.is_err()).count()
    }
}

fn run(mut batch: Batch) -> Batch {
    batch.run();
    batch
}

fn session(suite: Suite, seed: u8) -> Arc<SuiteKeys> {
    let material: Vec<u8> =
        (0..suite.key_bytes()).map(|i| (i as u8).wrapping_mul(37).wrapping_add(seed)).collect();
    Arc::new(SuiteKeys::new(Kernels::best(), suite, &material).expect("the length is the suite's"))
}

/// Lays records of the given plaintext lengths one after another, each with its header and room to grow.
fn batch_of(session: &Arc<SuiteKeys>, bodies: &[Vec<u8>], first_sequence: u64) -> Batch {
    let suite = session.suite();
    let total = bodies.iter().map(|body| HEADER_BYTES + body.len() + suite.expansion_bytes(body.len())).sum();
    let mut buffer = Buffer::new(total);
    let mut records = Vec::new();
    let mut offset = 0;
    for (index, body) in bodies.iter().enumerate() {
        let bytes = &mut buffer.bytes_mut()[offset..];
        bytes[..HEADER_BYTES].fill(index as u8);
        bytes[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
        let sequence = first_sequence + index as u64;
        records.push(Record { offset, header_bytes: HEADER_BYTES, body_bytes: body.len(), sequence });
        offset += HEADER_BYTES + body.len() + suite.expansion_bytes(body.len());
    }
    let sessions = vec![session.clone(); records.len()];
    let outcomes = vec![Err(Refusal::NotRun); records.len()];
    Batch { buffer, direction: Direction::Seal, records, sessions, outcomes }
}

fn turn_to_open(batch: &mut Batch) {
    batch.direction = Direction::Open;
    for (record, outcome) in batch.records.iter_mut().zip(&mut batch.outcomes) {
        record.body_bytes = outcome.expect("sealing cannot fail");
        *outcome = Err(Refusal::NotRun);
    }
}

fn opened(batch: &Batch) -> Vec<Option<Vec<u8>>> {
    let bodies = batch.records.iter().zip(&batch.outcomes).map(|(record, outcome)| {
        let start = record.offset + record.header_bytes;
        Some(batch.buffer.bytes()[start..start + outcome.ok()?].to_vec())
    });
    bodies.collect()
}

/// Seals one record under the given key material and returns the sealed body.
fn seal_one(suite: Suite, material: &[u8], header: &[u8], body: &[u8], sequence: u64) -> Vec<u8> {
    let session = Arc::new(SuiteKeys::new(Kernels::best(), suite, material).unwrap());
    let mut buffer = Buffer::new(header.len() + body.len() + suite.expansion_bytes(body.len()));
    buffer.bytes_mut()[..header.len()].copy_from_slice(header);
    buffer.bytes_mut()[header.len()..header.len() + body.len()].copy_from_slice(body);
    let mut work = Work { buffer, ..Work::default() };
    let record = Record { offset: 0, header_bytes: header.len(), body_bytes: body.len(), sequence };
    session.lay(&mut work, &record).unwrap();
    Software::default().run(&mut work);
    assert_eq!(work.jobs[0].status, JobStatus::Done);
    work.buffer.bytes()[header.len()..].to_vec()
}

/// The GCM specification's test case 4 (McGrew and Viega); sequence 0 makes the nonce equal the mask.
#[test]
fn aes_128_gcm_test_case_4() {
    let material = hex!("feffe9928665731c6d6a8f9467308308" "cafebabefacedbaddecaf888");
    let header = hex!("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let body = hex!(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    );
    let sealed = seal_one(Suite::Aes128Gcm, &material, &header, &body, 0);
    let expected = hex!(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
        "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
        "5bc94fbc3221a5db94fae95ae7121a47"
    );
    assert_eq!(sealed, expected);
}

/// The GCM specification's test case 16.
#[test]
fn aes_256_gcm_test_case_16() {
    let material = hex!(
        "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308" "cafebabefacedbaddecaf888"
    );
    let header = hex!("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let body = hex!(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    );
    let sealed = seal_one(Suite::Aes256Gcm, &material, &header, &body, 0);
    let expected = hex!(
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b"
    );
    assert_eq!(sealed, expected);
}

/// RFC 8439, section 2.8.2.
#[test]
fn chacha20_poly1305_rfc_8439() {
    let material = hex!(
        "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f" "070000004041424344454647"
    );
    let header = hex!("50515253c0c1c2c3c4c5c6c7");
    let body =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let sealed = seal_one(Suite::ChaCha20Poly1305, &material, &header, body, 0);
    assert_eq!(sealed[..16], hex!("d31a8d34648e60db7b86afbc53ef7ec2"));
    assert_eq!(sealed[body.len()..], hex!("1ae10b594f09e26a7e902ecbd0600691"));
}

/// GMAC is GCM with nothing to encrypt: the GCM specification's test case 1 has an empty input.
#[test]
fn gmac_of_nothing_is_gcm_test_case_1() {
    let sealed = seal_one(Suite::Aes128Gmac, &[0; 28], &[], &[], 0);
    assert_eq!(sealed, hex!("58e2fccefa7e3061367f1d57a4e7455a"));
}

/// The number follows the record, little-endian; the tag is half of the digest.
#[test]
fn blake3_records_are_what_the_library_makes_of_them() {
    let (key, header, body, sequence) = ([3; 32], [7; HEADER_BYTES], [9; 3000], 0x0102_0304_u64);
    let sealed = seal_one(Suite::Blake3, &key, &header, &body, sequence);
    let message = [&header[..], &body, &sequence.to_le_bytes()].concat();
    assert_eq!(sealed[..3000], body);
    assert_eq!(sealed[3000..], blake3::keyed_hash(&key, &message).as_bytes()[..16]);
}

/// The number is added to the nonce's mask as in RFC 8446, section 5.3.
#[test]
fn numbers_make_nonces_as_in_tls() {
    let (key, mask, sequence) = ([3; 16], [0xf0; 12], 0x0102_0304_0506_0708_u64);
    let sealed = seal_one(Suite::Aes128Gcm, &[&key[..], &mask].concat(), b"header", b"body", sequence);
    let mut nonce = mask;
    nonce[4..].iter_mut().zip(sequence.to_be_bytes()).for_each(|(byte, count)| *byte ^= count);
    let library = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &key).unwrap());
    let mut expected = b"body".to_vec();
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    library.seal_in_place_append_tag(nonce, aead::Aad::from(b"header"), &mut expected).unwrap();
    assert_eq!(sealed, expected);
}

/// This is FIPS 198-1 by way of RFC 2202, test case 1, whose data here is the 8-byte record number that the suite
/// puts last: "Hi There" read as a big-endian number.
#[test]
fn hmac_sha1_rfc_2202_case_1() {
    let sealed = seal_one(Suite::HmacSha1, &[0x0b; 20], &[], &[], u64::from_be_bytes(*b"Hi There"));
    assert_eq!(sealed, hex!("b617318655057264e28bc0b6fb378c8ef146be00"));
}

/// Compares the suite of 2007 with one put together from the RustCrypto crates' triple-DES and AWS-LC's HMAC: chains
/// of 8,256 bytes, each from its enciphered number, then the authenticator.
#[test]
fn triple_des_records_are_what_other_libraries_make_of_them() {
    let material: Vec<u8> = (0..68).map(|i| (i as u8).wrapping_mul(91).wrapping_add(7)).collect();
    let (data, ivs) = (
        TdesEde3::new_from_slice(&material[..24]).unwrap(),
        TdesEde3::new_from_slice(&material[24..48]).unwrap(),
    );
    let mac = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &material[48..]);
    for length in [0, 1, 7, 8, 8247, 8248, 8255, 8256, 8257, 16_512, 65_535, 65_536] {
        let (header, sequence) = ([0xa5; HEADER_BYTES], 0x1234_u64);
        let body: Vec<u8> = (0..length).map(|i| (i % 253) as u8).collect();
        let padding = 8 - length % 8;
        let mut expected = body.clone();
        expected.resize(length + padding, padding as u8);
        for (index, chain) in expected.chunks_mut(8256).enumerate() {
            let mut iv = Block::<TdesEde3>::from((sequence << 16 | index as u64).to_be_bytes());
            ivs.encrypt_block(&mut iv);
            let bytes = chain.len();
            cbc::Encryptor::inner_iv_init(&data, &iv).encrypt_padded::<NoPadding>(chain, bytes).unwrap();
        }
        let number = sequence.to_be_bytes();
        let tag = hmac::sign(&mac, &[&header[..], &expected, &number].concat());
        expected.extend(tag.as_ref());
        let sealed = seal_one(Suite::TripleDesCbcHmacSha1, &material, &header, &body, sequence);
        assert!(sealed == expected, "{length}");
    }
}

#[test]
fn every_suite_opens_what_it_sealed_at_boundary_lengths_in_every_tier() {
    let lengths = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 65535, 65536];
    let bodies: Vec<Vec<u8>> = lengths.iter().map(|&n| (0..n).map(|i| (i % 251) as u8).collect()).collect();
    for suite in Suite::ALL {
        let material: Vec<u8> = (0..suite.key_bytes()).map(|i| (i as u8).wrapping_mul(37)).collect();
        let sealed_by = |implementations: Implementations| {
            let session = Arc::new(SuiteKeys::new(implementations, suite, &material).expect("its length"));
            run(batch_of(&session, &bodies, 41))
        };
        let best = sealed_by(Implementations::default());
        for tier in Tier::ALL {
            let kernels = Kernels::select(Some(tier), None).expect("every machine has its best instructions");
            let aead = Some(Provider::Sealane);
            let mut batch = sealed_by(Implementations { kernels, aead });
            assert_eq!(best.buffer.bytes(), batch.buffer.bytes(), "{suite}: {tier} makes the same bytes");
            turn_to_open(&mut batch);
            assert_eq!(opened(&run(batch)), bodies.iter().cloned().map(Some).collect::<Vec<_>>(), "{suite}");
        }
    }
}

#[test]
fn a_private_record_does_not_show_its_body() {
    for suite in Suite::ALL.into_iter().filter(|suite| suite.encrypts()) {
        let body = vec![0x5a; 4096];
        let sealed = run(batch_of(&session(suite, 2), &[body], 0));
        let shown = sealed.buffer.bytes()[HEADER_BYTES..].windows(8).any(|window| window == [0x5a; 8]);
        assert!(!shown, "{suite}");
    }
}

#[test]
fn an_out_of_range_job_is_refused_and_the_rest_runs() {
    for provider in [Provider::AwsLc, Provider::Sealane] {
        let session = Arc::new(SuiteKeys::new(by(provider), Suite::Aes128Gcm, &[3; 28]).expect("its length"));
        let mut batch = batch_of(&session, &[vec![1; 10], vec![2; 10], vec![3; 10]], 0);
        batch.records[0].body_bytes = usize::MAX - 3;
        assert_eq!(batch.run(), 1);
        assert_eq!(batch.outcomes, [Err(Refusal::Laying(LayError::OutOfRange)), Ok(26), Ok(26)]);
    }
}

fn alone(mut batch: Batch) -> Batch {
    let (records, sessions) = (std::mem::take(&mut batch.records), std::mem::take(&mut batch.sessions));
    let outcomes = std::mem::take(&mut batch.outcomes);
    for ((record, session), outcome) in records.into_iter().zip(sessions).zip(outcomes) {
        (batch.records, batch.sessions, batch.outcomes) = (vec![record], vec![session], vec![outcome]);
        batch.run();
    }
    batch
}

/// Our own kernels process neighbouring jobs together; jobs that cannot be combined must end the same.
#[test]
fn jobs_in_any_order_and_number_end_as_they_would_alone() {
    let bodies: Vec<Vec<u8>> = (0..70).map(|i| vec![i as u8; 40 + 301 * i]).collect();
    for suite in [Suite::ChaCha20Poly1305, Suite::TripleDesCbcHmacSha1, Suite::HmacSha1] {
        let material = vec![7; suite.key_bytes()];
        let own = Arc::new(SuiteKeys::new(by(Provider::Sealane), suite, &material).expect("its length"));
        let other = session(Suite::Aes128Gcm, 9);
        let prepare = |reverse: bool, mixed: bool| {
            let mut batch = batch_of(&own, &bodies, 5);
            for index in 0..bodies.len() {
                match index % 9 {
                    4 if mixed => batch.sessions[index] = other.clone(),
                    6 if mixed => batch.outcomes[index] = Err(Refusal::Forged),
                    _ => {}
                }
            }
            if reverse {
                batch.records.reverse();
                batch.sessions.reverse();
                batch.outcomes.reverse();
            }
            batch
        };
        for (reverse, mixed) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut together = prepare(reverse, mixed);
            together.run();
            assert!(!together.outcomes.contains(&Err(Refusal::NotRun)));
            let alone = alone(prepare(reverse, mixed));
            assert!(together.buffer.bytes() == alone.buffer.bytes(), "{suite} {reverse} {mixed}");
        }
    }
}

#[test]
fn a_forged_record_takes_no_neighbour_with_it() {
    let bodies: Vec<Vec<u8>> = (0..70).map(|i| vec![i as u8; 133 * i]).collect();
    for suite in Suite::ALL.into_iter().filter(|suite| suite.authenticates()) {
        let mut batch = run(batch_of(&session(suite, 4), &bodies, 0));
        turn_to_open(&mut batch);
        for record in batch.records.iter().step_by(9) {
            batch.buffer.bytes_mut()[record.offset + HEADER_BYTES] ^= 1;
        }
        // This record cannot even hold its tag.
        batch.records[5].body_bytes = 3;
        batch.run();
        let expected: Vec<_> =
            bodies.iter().enumerate().map(|(i, body)| (i % 9 != 0 && i != 5).then(|| body.clone())).collect();
        assert!(opened(&batch) == expected, "{suite}");
    }
}

#[test]
fn the_providers_open_what_the_other_sealed() {
    let suites = [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305, Suite::Aes128Gmac];
    for suite in suites {
        let material: Vec<u8> = (0..suite.key_bytes()).map(|i| i as u8).collect();
        let session = |provider| SuiteKeys::new(by(provider), suite, &material).expect("the suite's length");
        let (ours, theirs) = (Arc::new(session(Provider::Sealane)), Arc::new(session(Provider::AwsLc)));
        let lengths = [0, 1, 15, 16, 17, 255, 256, 257, 1408, 4095, 65_535, 65_536];
        let bodies: Vec<Vec<u8>> = lengths.iter().map(|&bytes| vec![bytes as u8; bytes]).collect();
        for (sealer, opener) in [(&ours, &theirs), (&theirs, &ours)] {
            let mut batch = batch_of(sealer, &bodies, 7);
            assert_eq!(batch.run(), 0, "{suite}");
            turn_to_open(&mut batch);
            batch.sessions.fill(opener.clone());
            // The last record is altered.
            let last = batch.records.last().expect("there are some");
            let (at, bytes) = (last.offset + last.header_bytes + 9, lengths.len() - 1);
            batch.buffer.bytes_mut()[at] ^= 1;
            assert_eq!(batch.run(), 1, "{suite}");
            let expected = bodies[..bytes].iter().cloned().map(Some).chain([None]);
            assert!(opened(&batch).into_iter().eq(expected), "{suite}");
        }
    }
}

#[test]
fn wrong_key_lengths_are_refused() {
    for suite in Suite::ALL {
        assert!(SuiteKeys::new(Kernels::best(), suite, &vec![0; suite.key_bytes() + 1]).is_err(), "{suite}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One flipped bit anywhere (header, body, tag), a wrong number, or another key: each is detected as forged.
    #[test]
    fn any_change_is_noticed(
        suite in prop::sample::select(Suite::ALL.iter().copied().filter(|s| s.authenticates()).collect::<Vec<_>>()),
        body in prop::collection::vec(any::<u8>(), 0..300),
        position in any::<prop::sample::Index>(),
        bit in 0..8u32,
        change in 0..4,
    ) {
        let mut batch = run(batch_of(&session(suite, 4), &[body], 7));
        turn_to_open(&mut batch);
        match change {
            0 => { let at = position.index(batch.buffer.capacity_bytes()); batch.buffer.bytes_mut()[at] ^= 1 << bit; }
            1 => batch.records[0].sequence ^= 1 << bit,
            2 => batch.sessions[0] = session(suite, 5),
            _ => batch.records[0].body_bytes -= 1 + position.index(batch.records[0].body_bytes),
        }
        prop_assert_eq!(batch.run(), 1);
        let is_forged = matches!(batch.outcomes[0], Err(Refusal::Forged | Refusal::Laying(LayError::Forged)));
        prop_assert!(is_forged, "{:?}", batch.outcomes);
    }
}
