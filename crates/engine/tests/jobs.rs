//! Every protection gives the result of its definition on every engine and tier, for any work and any part of a job;
//! a forged, malformed or overlapping job affects no other job.

mod common;

use std::sync::Arc;

use common::{
    AES_CBC, ESP_CBC, SHA256_128, copy_of, definition::slow_seal, engines, implementations, protections,
    random_work, run, session, turned,
};
use proptest::prelude::*;
use sealane_engine::{
    Buffer, Direction, Engine, Implementations, Inline, Job, JobStatus, KeyError, Mac, Protection, Session,
    Span, Work,
};
use sealane_transform::{Aead, BlockCipher, Cipher, Digest, Kernels, Mode};

/// Seals on an engine and compares with the slow path, then opens.
fn check(engine: &dyn Engine, work: Work) {
    let mut expected = copy_of(&work);
    for job in &expected.jobs {
        slow_seal(&expected.sessions[usize::from(job.session)], job, expected.buffer.bytes_mut());
    }
    let plain = copy_of(&work);
    let sealed = run(engine, work);
    for job in &sealed.jobs {
        let protection = sealed.sessions[usize::from(job.session)].protection();
        assert_eq!(job.status, JobStatus::Done, "{protection:?}");
        let parts = [job.clear, job.body, job.tag];
        let alike = parts
            .iter()
            .all(|part| sealed.buffer.bytes()[part.range()] == expected.buffer.bytes()[part.range()]);
        assert!(alike, "{protection:?} on {} {job:?}", engine.name());
    }
    assert!(sealed.buffer.bytes() == expected.buffer.bytes(), "a byte beside the jobs was written");
    let opened = run(engine, turned(sealed));
    for job in &opened.jobs {
        assert_eq!(job.status, JobStatus::Done, "{job:?}");
        assert!(opened.buffer.bytes()[job.body.range()] == plain.buffer.bytes()[job.body.range()]);
        assert!(
            opened.buffer.bytes()[job.tag.range()] == expected.buffer.bytes()[job.tag.range()],
            "a tag stays"
        );
    }
}

#[test]
fn every_protection_on_every_engine_and_tier_does_what_other_libraries_do() {
    let engines = engines();
    for implementations in implementations() {
        for (index, protection) in protections().into_iter().enumerate() {
            let sessions = [1, 2].map(|seed| session(implementations, protection, seed));
            for engine in &engines {
                check(&**engine, random_work(&sessions, 11, 300, index as u64));
            }
        }
    }
}

#[test]
fn sessions_of_all_protections_share_one_work() {
    let engines = engines();
    for implementations in implementations() {
        let sessions: Vec<_> = protections().into_iter().map(|p| session(implementations, p, 3)).collect();
        for engine in &engines {
            check(&**engine, random_work(&sessions, 700, 200, 5));
        }
    }
}

/// There are more jobs of one algorithm than one call takes, and bodies of several chains.
#[test]
fn calls_are_filled_more_than_once() {
    let chains = Protection::ChainsThenMac {
        cipher: BlockCipher::TripleDes,
        chain_bytes: 8,
        mac: Mac::Digest(Digest::HmacSha1),
        tag_bytes: 20,
    };
    for protection in [ESP_CBC, Protection::Aead(Aead::ChaCha20Poly1305), SHA256_128] {
        let session = session(Implementations::default(), protection, 1);
        check(&Inline::default(), random_work(&[session], 1200, 40, 1));
    }
    check(&Inline::default(), random_work(&[session(Implementations::default(), chains, 1)], 3, 8000, 2));
}

#[test]
fn sessions_open_again_on_other_implementations() {
    let all = implementations();
    for protection in protections() {
        let first = session(all[0], protection, 9);
        let sealed = run(&Inline::default(), random_work(std::slice::from_ref(&first), 5, 100, 6));
        for &other in &all[1..] {
            let mut work = turned(copy_of(&sealed));
            work.sessions = vec![Arc::new(first.reopen(other))];
            let opened = run(&Inline::default(), work);
            assert!(opened.jobs.iter().all(|job| job.status == JobStatus::Done), "{protection:?}");
        }
    }
}

#[test]
fn what_is_forged_takes_no_neighbour_with_it_and_is_not_deciphered() {
    for implementations in implementations() {
        for protection in protections().into_iter().filter(|protection| protection.tag_bytes() > 4) {
            let sessions = [session(implementations, protection, 1)];
            let mut work = turned(run(&Inline::default(), random_work(&sessions, 23, 200, 8)));
            for job in work.jobs.iter_mut().step_by(3) {
                match job.body.is_empty() {
                    true => work.buffer.bytes_mut()[job.tag.start as usize] ^= 1,
                    false => work.buffer.bytes_mut()[job.body.end() - 1] ^= 0x80,
                }
            }
            let before = copy_of(&work);
            let work = run(&Inline::default(), work);
            for (index, job) in work.jobs.iter().enumerate() {
                let expected = if index % 3 == 0 { JobStatus::Forged } else { JobStatus::Done };
                assert_eq!(job.status, expected, "{protection:?} {job:?}");
                if job.status == JobStatus::Forged && protection.mac().is_some() {
                    let bytes = job.body.range();
                    assert!(
                        work.buffer.bytes()[bytes.clone()] == before.buffer.bytes()[bytes],
                        "{protection:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn malformed_jobs_change_nothing_and_the_rest_runs() {
    let good =
        Job { clear: Span::new(0, 8), body: Span::new(8, 32), tag: Span::new(40, 16), ..Job::default() };
    let bad = [
        Job { session: 9, ..good },
        Job { clear: Span::new(4_000_000_000, 4_000_000_000), ..good },
        Job { body: Span::new(8, u32::MAX), ..good },
        Job { body: Span::new(8, 31), ..good },
        Job { body: Span::new(7, 32), ..good },
        Job { tag: Span::new(40, 12), ..good },
        Job { tag: Span::new(39, 16), ..good },
        Job { tag: Span::new(0, 16), ..good },
        Job { tag: Span::new(85, 16), ..good },
    ];
    for job in bad {
        let mut work = Work { buffer: Buffer::new(100), jobs: vec![job], ..Work::default() };
        work.sessions.push(session(Implementations::default(), ESP_CBC, 1));
        for direction in [Direction::Seal, Direction::Open] {
            work.direction = direction;
            work.jobs = vec![job];
            work = run(&Inline::default(), work);
            assert_eq!(work.jobs[0].status, JobStatus::Malformed, "{job:?}");
            assert_eq!(work.buffer.bytes(), [0; 100], "{job:?}");
        }
        work.direction = Direction::Seal;
        work.jobs = vec![job, good];
        work = run(&Inline::default(), work);
        assert_eq!(work.jobs[1].status, JobStatus::Done);
    }
}

/// Two jobs over the same bytes: the second one seals the result of the first.
#[test]
fn jobs_that_overlap_run_as_listed() {
    let session = session(Implementations::default(), Protection::Cipher(AES_CBC), 1);
    let job = Job { body: Span::new(0, 64), ..Job::default() };
    let shifted = Job { body: Span::new(16, 64), ..Job::default() };
    let mut work = Work { buffer: Buffer::new(80), jobs: vec![shifted, job, shifted], ..Work::default() };
    work.sessions.push(session.clone());
    let mut expected = copy_of(&work);
    for job in &work.jobs {
        slow_seal(&session, job, expected.buffer.bytes_mut());
    }
    assert_eq!(run(&Inline::default(), work).buffer.bytes(), expected.buffer.bytes());
}

/// Keys are expanded when the first job comes; every length that was accepted can be expanded.
#[test]
fn keys_of_all_lengths_that_are_accepted_can_be_expanded() {
    let mut tried = 0;
    for protection in protections() {
        let has_key = protection.cipher_key_bytes() > 0;
        for bytes in 0..300 {
            let (cipher, mac) = match has_key {
                true => (bytes, protection.mac().map_or(0, Mac::key_bytes)),
                false => (0, bytes),
            };
            let session = Session::with_keys(Kernels::best(), protection, &vec![7; cipher], &vec![9; mac]);
            let Ok(session) = session else { continue };
            tried += 1;
            let work = run(&Inline::default(), random_work(&[Arc::new(session)], 1, 64, 1));
            assert_eq!(work.jobs[0].status, JobStatus::Done, "{protection:?}, {bytes} bytes");
        }
    }
    assert!(tried > 1000, "{tried} keys");
}

#[test]
fn parts_of_a_job_make_what_the_whole_makes() {
    for protection in protections() {
        let sessions = [session(Implementations::default(), protection, 1)];
        for direction in [Direction::Seal, Direction::Open] {
            for parts in [1, 2, 3, 8, 100] {
                let mut work = random_work(&sessions, 1, 1000, parts as u64);
                work.direction = direction;
                let may = match protection {
                    Protection::Cipher(Cipher::Block(_, Mode::Cbc)) => direction == Direction::Open,
                    Protection::Cipher(Cipher::Block(..)) => true,
                    _ => false,
                };
                let Some(split) = work.split(0, parts) else {
                    assert!(!may, "{protection:?}");
                    continue;
                };
                assert!(may && (1..=parts.min(8)).contains(&split.len()), "{protection:?}");
                let mut apart = copy_of(&work);
                apart.jobs = split.into_iter().rev().collect();
                assert!(
                    run(&Inline::default(), apart).buffer.bytes()
                        == run(&Inline::default(), work).buffer.bytes()
                );
            }
        }
    }
}

#[test]
fn keys_of_other_lengths_and_impossible_tags_are_refused() {
    for protection in protections() {
        let material = vec![1; protection.key_bytes() + 1];
        let error = Session::with(Kernels::best(), protection, &material).unwrap_err();
        assert_eq!(error, KeyError::Length { expected: protection.key_bytes(), given: material.len() });
    }
    for tag_bytes in [0, 33] {
        let protection = Protection::Mac { mac: Mac::KeyedBlake3, tag_bytes };
        assert!(matches!(Session::with(Kernels::best(), protection, &[0; 32]), Err(KeyError::Tag { .. })));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Works with any sessions, layouts, orders and lengths are sealed as defined, and opened again.
    #[test]
    fn any_work_is_sealed_as_defined_and_opens(seed: u64, count in 1..80u32, longest in 0..3000u32, picks in prop::collection::vec(any::<prop::sample::Index>(), 1..6)) {
        let all = protections();
        let implementations = implementations();
        let sessions: Vec<_> = picks
            .iter()
            .map(|pick| session(implementations[pick.index(implementations.len())], all[pick.index(all.len())], seed))
            .collect();
        check(&Inline::default(), random_work(&sessions, count, longest, seed));
    }

    /// Jobs with any spans end in a status.
    #[test]
    fn any_spans_end_in_a_status(spans in prop::collection::vec((0..300u32, 0..300u32), 3..30), session_index in 0..4u16, seal: bool) {
        let sessions = [ESP_CBC, Protection::Aead(Aead::Aes128Gcm), SHA256_128]
            .map(|protection| session(Implementations::default(), protection, 1));
        let span = |&(start, len): &(u32, u32)| Span::new(start, len);
        let jobs = spans
            .chunks_exact(3)
            .map(|spans| Job { session: session_index, clear: span(&spans[0]), body: span(&spans[1]), tag: Span::new(spans[2].0, 16), ..Job::default() })
            .collect();
        let direction = if seal { Direction::Seal } else { Direction::Open };
        let work = Work { buffer: Buffer::new(400), sessions: sessions.to_vec(), jobs, direction, ..Work::default() };
        prop_assert_eq!(run(&Inline::default(), work).pending(), 0);
    }
}
