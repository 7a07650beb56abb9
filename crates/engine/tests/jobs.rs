//! Every protection through every engine and tier, against other libraries and the slow path; published vectors; layouts
//! of ESP and AH; what is forged, malformed, mixed, out of order or half done.

#[path = "../../../testing/late_engine.rs"]
mod late_engine;

use std::{
    collections::{BTreeSet, VecDeque},
    num::NonZeroUsize,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use aws_lc_rs::{aead, hmac};
use hex_literal::hex;
use late_engine::LateEngine;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use sealane_engine::{
    Buffer, Direction, Engine, Implementations, Inline, Job, JobStatus, KeyError, Lanes, Mac, Maker, Memory,
    Protection, Provider, Queue, Session, Span, Submitter, Suffix, Work,
};
use sealane_transform::{
    Aead, BlockCipher, Cipher, CipherJob, CipherKey, Digest, DigestJob, DigestKey, Isa, Kernels, Mode, Tier,
};

fn slow() -> Kernels {
    Kernels::select(Some(Tier::Reference), None).unwrap()
}

/// Everything that can run a session here.
fn implementations() -> Vec<Implementations> {
    let mut all = vec![
        Implementations::default(),
        Implementations { aead: Some(Provider::AwsLc), ..Implementations::default() },
    ];
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Kernels::best().isa()) {
        for tier in Tier::ALL.map(Some).into_iter().chain([None]) {
            let kernels = Kernels::select(tier, Some(isa)).unwrap();
            all.push(Implementations { kernels, aead: Some(Provider::Sealane) });
        }
        // Whoever is cheaper, call by call.
        all.push(Kernels::select(None, Some(isa)).unwrap().into());
    }
    all
}

fn engines() -> [Box<dyn Engine>; 2] {
    let two = NonZeroUsize::new(2).unwrap();
    [Box::new(Inline::default()), Box::new(Lanes::new(Kernels::best(), two, two).unwrap())]
}

const AES_CBC: Cipher = Cipher::Block(BlockCipher::Aes128, Mode::Cbc);
const AES_CTR: Cipher = Cipher::Block(BlockCipher::Aes128, Mode::Ctr);
const SHA256_128: Protection = Protection::Mac { mac: Mac::Digest(Digest::HmacSha256), tag_bytes: 16 };
const ESP_CBC: Protection =
    Protection::EncryptThenMac { cipher: AES_CBC, mac: Mac::Digest(Digest::HmacSha256), tag_bytes: 16 };

fn ciphers() -> Vec<Cipher> {
    let block = |cipher| Mode::ALL.map(|mode| Cipher::Block(cipher, mode));
    [Cipher::Null, Cipher::Rc4, Cipher::Seal3]
        .into_iter()
        .chain(BlockCipher::ALL.into_iter().flat_map(block))
        .collect()
}

fn macs() -> Vec<Mac> {
    let digests = Digest::ALL.into_iter().filter(|digest| digest.output_bytes() > 0).map(Mac::Digest);
    digests.chain([Mac::KeyedBlake3]).collect()
}

/// All ciphers, AEADs and MACs, and each cipher with some MAC.
fn protections() -> Vec<Protection> {
    let mut all = vec![Protection::Null];
    all.extend(Aead::ALL.map(Protection::Aead));
    let macs = macs();
    for (index, cipher) in ciphers().into_iter().enumerate() {
        let mac = macs[index % macs.len()];
        all.push(Protection::Cipher(cipher));
        all.push(Protection::EncryptThenMac { cipher, mac, tag_bytes: mac.output_bytes().min(12) as u8 });
    }
    for mac in macs {
        all.push(Protection::Mac { mac, tag_bytes: mac.output_bytes() as u8 });
        all.push(Protection::Mac { mac, tag_bytes: mac.output_bytes().div_ceil(2) as u8 });
    }
    for cipher in [BlockCipher::TripleDes, BlockCipher::Aes256] {
        let mac = Mac::Digest(Digest::HmacSha1);
        all.push(Protection::ChainsThenMac { cipher, chain_bytes: 64, mac, tag_bytes: 20 });
    }
    all
}

fn material(protection: Protection, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1);
    (0..protection.key_bytes()).map(|_| random.below(256) as u8).collect()
}

fn session(implementations: Implementations, protection: Protection, seed: u64) -> Arc<Session> {
    Arc::new(Session::with(implementations, protection, &material(protection, seed)).unwrap())
}

/// Steele and Vigna's SplitMix64: enough to make cases, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(bound)) as u32
    }
}

/// Jobs of the sessions by turns, in any order of their parts, with gaps, in random bytes; listed in random order.
fn random_work(sessions: &[Arc<Session>], count: u32, longest: u32, seed: u64) -> Work {
    let mut random = Random(seed);
    let mut at = 0;
    let mut jobs = Vec::new();
    for index in 0..count {
        let session = (index as usize % sessions.len()) as u16;
        let protection = sessions[usize::from(session)].protection();
        let granule = protection.granule_bytes() as u32;
        let (tag_bytes, body_bytes) =
            (protection.tag_bytes() as u32, random.below(longest / granule + 1) * granule);
        let mut job = Job { session, ..Job::default() };
        job.iv = std::array::from_fn(|_| random.below(256) as u8);
        job.suffix = Suffix::new(&job.iv[..random.below(3) as usize * 4]).unwrap();
        let mut lay = |bytes: u32| {
            let span = Span::new(at, bytes);
            at += bytes;
            span
        };
        match random.below(4) {
            // As ESP.
            0 | 1 => (job.clear, job.body, job.tag) = (lay(8), lay(body_bytes), lay(tag_bytes)),
            2 => {
                // As AH, with some body.
                job.clear = lay(24 + tag_bytes + 40);
                job.tag = Span::new(job.clear.start + 24, tag_bytes);
                job.body = lay(body_bytes);
            }
            _ => {
                job.tag = lay(tag_bytes);
                lay(3);
                job.body = lay(body_bytes);
                lay(5);
                job.clear = lay(13);
            }
        }
        at += random.below(20);
        jobs.push(job);
    }
    for index in (1..jobs.len()).rev() {
        jobs.swap(index, random.below(index as u32 + 1) as usize);
    }
    let mut buffer = Buffer::new(at as usize);
    buffer.bytes_mut().fill_with(|| random.below(256) as u8);
    Work { buffer, sessions: sessions.to_vec(), jobs, ..Work::default() }
}

fn hmac_of(mac: Mac) -> Option<hmac::Algorithm> {
    match mac {
        Mac::Digest(Digest::HmacSha1) => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        Mac::Digest(Digest::HmacSha256) => Some(hmac::HMAC_SHA256),
        Mac::Digest(Digest::HmacSha384) => Some(hmac::HMAC_SHA384),
        Mac::Digest(Digest::HmacSha512) => Some(hmac::HMAC_SHA512),
        _ => None,
    }
}

fn slow_mac(mac: Mac, key: &[u8], iv: &[u8; 16], message: &[u8]) -> Vec<u8> {
    match (hmac_of(mac), mac) {
        (Some(algorithm), _) => hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec(),
        (None, Mac::Digest(digest)) => {
            let key = DigestKey::new(digest, key).unwrap();
            let mut jobs = [DigestJob::new(&key, message)];
            jobs[0].nonce.copy_from_slice(&iv[..12]);
            assert_eq!(slow().digest(digest, &mut jobs), 0);
            jobs[0].digest().to_vec()
        }
        (None, _) => blake3::keyed_hash(key.try_into().unwrap(), message).as_bytes().to_vec(),
    }
}

fn slow_encrypt(cipher: Cipher, key: &[u8], iv: &[u8], body: &mut [u8]) {
    let key = CipherKey::new(cipher, key).unwrap();
    let mut jobs = [CipherJob::new(&key, iv, sealane_transform::Buffer::in_place(body))];
    assert_eq!(slow().encrypt(cipher, &mut jobs), 0);
}

/// Seals one job as its definition says.
fn slow_seal(session: &Session, job: &Job, bytes: &mut [u8]) {
    let protection = session.protection();
    let (cipher_key, mac_key) = session.keys_given();
    match protection {
        Protection::Cipher(cipher) | Protection::EncryptThenMac { cipher, .. } => {
            slow_encrypt(cipher, cipher_key, &job.iv, &mut bytes[job.body.range()]);
        }
        Protection::ChainsThenMac { cipher, chain_bytes, .. } => {
            let (data, ivs) = cipher_key.split_at(cipher_key.len() / 2);
            let block = cipher.block_bytes();
            for (index, chain) in bytes[job.body.range()].chunks_mut(usize::from(chain_bytes)).enumerate() {
                let mut number = [0; 16];
                number[16 - block..].copy_from_slice(&job.iv[..block]);
                let number = u128::from_be_bytes(number).wrapping_add(index as u128).to_be_bytes();
                let mut iv = number[16 - block..].to_vec();
                slow_encrypt(Cipher::Block(cipher, Mode::Ecb), ivs, &[], &mut iv);
                slow_encrypt(Cipher::Block(cipher, Mode::Cbc), data, &iv, chain);
            }
        }
        Protection::Null | Protection::Aead(_) | Protection::Mac { .. } => {}
    }
    if protection.tag_bytes() == 0 {
        return;
    }
    bytes[job.tag.range()].fill(0);
    let mut clear = bytes[job.clear.range()].to_vec();
    let tag = if let Protection::Aead(algorithm) = protection {
        clear.extend(job.suffix.bytes());
        let algorithm = match algorithm {
            Aead::Aes128Gcm => &aead::AES_128_GCM,
            Aead::Aes256Gcm => &aead::AES_256_GCM,
            Aead::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        };
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, cipher_key).unwrap());
        let nonce = aead::Nonce::assume_unique_for_key(*job.iv.first_chunk().unwrap());
        let body = &mut bytes[job.body.range()];
        key.seal_in_place_separate_tag(nonce, aead::Aad::from(clear), body).unwrap().as_ref().to_vec()
    } else {
        clear.extend(&bytes[job.body.range()]);
        clear.extend(job.suffix.bytes());
        slow_mac(protection.mac().unwrap(), mac_key, &job.iv, &clear)
    };
    bytes[job.tag.range()].copy_from_slice(&tag[..job.tag.len as usize]);
}

fn run(engine: &dyn Engine, work: Work) -> Work {
    let mut queue = engine.queue(NonZeroUsize::MIN).unwrap();
    run_on(&mut *queue, work)
}

fn run_on(queue: &mut dyn Queue, work: Work) -> Work {
    let mut waiting = VecDeque::from([work]);
    loop {
        queue.submit(&mut waiting);
        if let Some(work) = queue.finished() {
            return work;
        }
        let fd = queue.fd().expect("who finishes later has a bell");
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
    }
}

fn copy_of(work: &Work) -> Work {
    let mut buffer = Buffer::new(work.buffer.capacity_bytes());
    buffer.bytes_mut().copy_from_slice(work.buffer.bytes());
    let (sessions, jobs) = (work.sessions.clone(), work.jobs.clone());
    Work { buffer, sessions, jobs, direction: work.direction, token: work.token }
}

fn turned(mut work: Work) -> Work {
    work.direction = Direction::Open;
    work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
    work
}

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

/// More jobs of one algorithm than a call takes, and bodies of more chains than one.
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

/// One job over `bytes`, sealed; gives the bytes back.
fn seal(session: Session, bytes: &[u8], job: Job) -> Vec<u8> {
    let mut work = Work { buffer: Buffer::new(bytes.len()), jobs: vec![job], ..Work::default() };
    work.buffer.bytes_mut().copy_from_slice(bytes);
    work.sessions.push(Arc::new(session));
    let work = run(&Inline::default(), work);
    assert_eq!(work.jobs[0].status, JobStatus::Done);
    work.buffer.bytes().to_vec()
}

#[test]
fn hmac_rfc_4231_whole_and_truncated() {
    let tag_of = |mac, tag_bytes: u8, key: &[u8], message: &[u8]| {
        let session =
            Session::with_keys(Kernels::best(), Protection::Mac { mac, tag_bytes }, &[], key).unwrap();
        let bytes = [message, &[0; 64]].concat();
        let clear = Span::new(0, message.len() as u32);
        let job = Job { clear, tag: Span::new(clear.len, u32::from(tag_bytes)), ..Job::default() };
        seal(session, &bytes, job)[message.len()..][..usize::from(tag_bytes)].to_vec()
    };
    let sha256 = Mac::Digest(Digest::HmacSha256);
    let (key, message) = (b"Jefe", b"what do ya want for nothing?");
    assert_eq!(
        tag_of(sha256, 32, key, message),
        hex!("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    );
    assert_eq!(
        tag_of(Mac::Digest(Digest::HmacSha384), 48, key, message),
        hex!(
            "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e"
            "8e2240ca5e69e2c78b3239ecfab21649"
        )
    );
    assert_eq!(
        tag_of(Mac::Digest(Digest::HmacSha512), 64, key, message),
        hex!(
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
            "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        )
    );
    let (key, message) = ([0x0c; 20], b"Test With Truncation");
    assert_eq!(tag_of(sha256, 16, &key, message), hex!("a3b6167473100ee06e0c796c2955552b"));
    assert_eq!(
        tag_of(Mac::Digest(Digest::HmacSha384), 16, &key, message),
        hex!("3abf34c3503b2a23a46efc619baef897")
    );
    assert_eq!(
        tag_of(Mac::Digest(Digest::HmacSha512), 16, &key, message),
        hex!("415fad6271580a531d4179bc891d87a6")
    );
}

#[test]
fn aes_cbc_rfc_3602_case_2() {
    let key = hex!("c286696d887c9aa0611bbb3e2025a45a");
    let session = Session::with(Kernels::best(), Protection::Cipher(AES_CBC), &key).unwrap();
    let iv = hex!("562e17996d093d28ddb3ba695a2e6f58");
    let plain: Vec<u8> = (0..32).collect();
    let sealed = seal(session, &plain, Job { body: Span::new(0, 32), iv, ..Job::default() });
    assert_eq!(sealed, hex!("d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1"));
}

/// The counter block is nonce, IV and a counter from 1, as RFC 3686 has it.
#[test]
fn aes_ctr_rfc_3686_case_3() {
    let key = hex!("7691be035e5020a8ac6e618529f9a0dc");
    let session = Session::with(Kernels::best(), Protection::Cipher(AES_CTR), &key).unwrap();
    let iv = hex!("00e0017b" "27777f3f4a1786f0" "00000001");
    let plain: Vec<u8> = (0..36).collect();
    let sealed = seal(session, &plain, Job { body: Span::new(0, 36), iv, ..Job::default() });
    assert_eq!(sealed, hex!("c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f"));
}

/// RFC 4106: SPI and sequence number are clear, the salt and the IV that travels make the nonce. With extended numbers
/// the associated data are SPI and 64-bit number (section 5), of which only the low half is in the packet.
#[test]
fn esp_with_aes_gcm_and_extended_sequence_numbers() {
    let (key, salt, explicit) = ([7; 16], [1, 2, 3, 4], [5; 8]);
    let number: u64 = 0x0000_0009_0000_0042;
    let packet = [&[0, 0, 1, 0][..], &number.to_be_bytes()[4..], &explicit, &[0xab; 100], &[0; 16]].concat();
    let mut iv = [0; 16];
    iv[..12].copy_from_slice(&[&salt[..], &explicit].concat());
    let (body, tag) = (Span::new(16, 100), Span::new(116, 16));
    let job = Job { body, tag, iv, ..Job::default() };
    let short = Job { clear: Span::new(0, 8), ..job };
    let extended = Job { clear: Span::new(0, 4), suffix: number.to_be_bytes().into(), ..job };
    let associated = |high: bool| match high {
        true => [&packet[..4], &number.to_be_bytes()].concat(),
        false => packet[..8].to_vec(),
    };
    for (job, high) in [(short, false), (extended, true)] {
        let session = Session::with(Kernels::best(), Protection::Aead(Aead::Aes128Gcm), &key).unwrap();
        let sealed = seal(session, &packet, job);
        let library = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &key).unwrap());
        let nonce = aead::Nonce::assume_unique_for_key(*iv.first_chunk().unwrap());
        let mut plain = sealed[16..].to_vec();
        assert_eq!(
            library.open_in_place(nonce, aead::Aad::from(associated(high)), &mut plain).unwrap(),
            [0xab; 100]
        );
    }
}

/// RFC 4303 with RFC 3602 and RFC 4868: everything before the tag is authenticated, then the high half of the number.
#[test]
fn esp_with_aes_cbc_and_hmac_sha256_128() {
    let material: Vec<u8> = (0..48).collect();
    let session = Session::with(Kernels::best(), ESP_CBC, &material).unwrap();
    let iv = [0x33; 16];
    let packet = [&[0, 0, 1, 0, 0, 0, 0, 9][..], &iv, &[0xcd; 96], &[0; 16]].concat();
    let high = 3u32.to_be_bytes();
    let (clear, body, tag) = (Span::new(0, 24), Span::new(24, 96), Span::new(120, 16));
    let sealed = seal(session, &packet, Job { clear, body, tag, iv, suffix: high.into(), ..Job::default() });
    let mut expected = packet[..120].to_vec();
    slow_encrypt(AES_CBC, &material[..16], &iv, &mut expected[24..]);
    assert_eq!(sealed[..120], expected);
    let mac = hmac::Key::new(hmac::HMAC_SHA256, &material[16..]);
    assert_eq!(sealed[120..], hmac::sign(&mac, &[&expected[..], &high].concat()).as_ref()[..16]);
}

/// RFC 4302: the whole packet is clear and the tag a field in it, which counts as zero; with extended numbers their high
/// half is hashed behind the packet. By HMAC and, as RFC 4543 has it, by GMAC.
#[test]
fn ah_over_a_whole_packet() {
    let packet: Vec<u8> = (0..200).map(|i| i as u8).collect();
    let tag = Span::new(20 + 12, 16);
    let mut zeroed = packet.clone();
    zeroed[tag.range()].fill(0);
    for suffix in [Suffix::NONE, 5u32.to_be_bytes().into()] {
        let hashed = [&zeroed[..], suffix.bytes()].concat();
        let job = Job { clear: Span::new(0, 200), tag, iv: [4; 16], suffix, ..Job::default() };
        let key = [8; 32];
        let sealed = seal(Session::with(Kernels::best(), SHA256_128, &key).unwrap(), &packet, job);
        let mac = hmac::Key::new(hmac::HMAC_SHA256, &key);
        assert_eq!(sealed[tag.range()], hmac::sign(&mac, &hashed).as_ref()[..16]);
        for provider in [Provider::AwsLc, Provider::Sealane] {
            let by = Implementations { aead: Some(provider), ..Implementations::default() };
            let gmac = || Session::with(by, Protection::Aead(Aead::Aes128Gcm), &key[..16]).unwrap();
            let sealed = seal(gmac(), &packet, job);
            let library =
                aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &key[..16]).unwrap());
            let nonce = aead::Nonce::assume_unique_for_key([4; 12]);
            let made = library.seal_in_place_separate_tag(nonce, aead::Aad::from(&hashed), &mut []).unwrap();
            assert_eq!(sealed[tag.range()], *made.as_ref());
            let mut work = Work { jobs: vec![job], direction: Direction::Open, ..Work::default() };
            work.buffer = Buffer::new(200);
            work.buffer.bytes_mut().copy_from_slice(&sealed);
            work.sessions.push(Arc::new(gmac()));
            let work = run(&Inline::default(), work);
            assert_eq!((work.jobs[0].status, work.buffer.bytes()), (JobStatus::Done, &sealed[..]));
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

/// Two jobs over the same bytes: the second seals what the first has made.
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

#[test]
fn what_one_engine_hands_back_another_finishes() {
    let sessions: Vec<_> = protections()
        .into_iter()
        .map(|protection| session(Implementations::default(), protection, 3))
        .collect();
    let work = random_work(&sessions, 300, 100, 7);
    let whole = run(&Inline::default(), copy_of(&work));
    let half = run(&LateEngine::new(7), work);
    assert!((50..150).contains(&half.pending()));
    let [inline, lanes] = engines();
    let finished = run(&*lanes, half);
    assert_eq!(finished.pending(), 0);
    assert!(finished.buffer.bytes() == whole.buffer.bytes());
    // Nothing is left to do: running it once more changes nothing.
    assert!(run(&*inline, finished).buffer.bytes() == whole.buffer.bytes());
}

/// A submitter on `engine`, and how many works it takes at once.
fn submitter<T>(engine: &dyn Engine, depth: usize) -> Submitter<T> {
    Submitter::new(engine.queue(NonZeroUsize::new(depth).unwrap()).unwrap(), depth)
}

/// Whatever an engine does, each work comes back once, with its note, and as the inline engine would have made it.
#[test]
fn what_is_submitted_comes_back_done_with_its_note() {
    const WORKS: u64 = 60;
    let sessions: Vec<_> = protections()
        .into_iter()
        .map(|protection| session(Implementations::default(), protection, 3))
        .collect();
    let work_of = |number: u64| random_work(&sessions, 20, 100, number);
    let late = LateEngine::new(1);
    let [inline, lanes] = engines();
    for engine in [&*inline, &*lanes, &late] {
        for depth in [1, 3] {
            let mut submitter = submitter(engine, depth);
            let mut missing: BTreeSet<u64> = (0..WORKS).collect();
            (0..WORKS).for_each(|number| submitter.submit(work_of(number), number));
            assert_eq!(submitter.in_hand(), WORKS as usize);
            while let Some((work, number)) = submitter.wait() {
                assert!(missing.remove(&number), "{number} came twice from {}", engine.name());
                let whole = run(&*inline, work_of(number));
                assert_eq!(work.jobs, whole.jobs);
                assert!(work.buffer.bytes() == whole.buffer.bytes(), "{number} from {}", engine.name());
            }
            assert_eq!((missing.len(), submitter.in_hand()), (0, 0), "{}", engine.name());
            assert!(submitter.fd().is_none(), "nothing is waited for");
        }
    }
    let done = late.done();
    let count = |counter: &AtomicU64| counter.load(Relaxed);
    let (pending, computed) = (count(&done.pending_jobs), count(&done.computed_jobs));
    assert!(3 * pending > computed && pending < computed, "{pending} jobs came back, {computed} were done");
    assert!(count(&done.overtaking_works) > 10 && count(&done.refusals) > 10);
}

/// A work that its owner lays anew under a number that was used is what the late engine is for.
#[test]
#[should_panic(expected = "a nonce protects two texts")]
fn the_late_engine_notices_a_nonce_that_comes_again() {
    let sessions = [session(Implementations::default(), Protection::Aead(Aead::Aes128Gcm), 1)];
    let late = LateEngine::new(1);
    let mut submitter = submitter(&late, 1);
    let mut work = random_work(&sessions, 2, 100, 1);
    let first = copy_of(&work);
    submitter.run(&mut work);
    // The same bytes under the same nonce may run as often as anybody likes.
    let mut again = copy_of(&first);
    submitter.run(&mut again);
    assert!(again.buffer.bytes() == work.buffer.bytes());
    // A text that is sealed already is another one.
    work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
    submitter.run(&mut work);
}

/// A door that has nothing under way finds the workers' queue full of others' work, and is woken all the same.
#[test]
fn a_door_waits_for_room_that_others_have() {
    let one = NonZeroUsize::MIN;
    let lanes = Lanes::new(Kernels::best(), one, one).unwrap();
    let sessions = [session(Implementations::default(), ESP_CBC, 1)];
    thread::scope(|scope| {
        for door in 0..4 {
            let (lanes, sessions) = (&lanes, &sessions);
            scope.spawn(move || {
                let mut submitter = submitter(lanes, 2);
                for turn in 0..200 {
                    (0..3).for_each(|_| submitter.submit(random_work(sessions, 3, 400, turn), door));
                    while submitter.wait().is_some() {}
                }
            });
        }
    });
}

/// An engine makes what it needs of a session once, and not before a job comes; other engines make theirs.
#[test]
fn engines_make_of_a_session_what_they_need_once() {
    struct Handle(Arc<AtomicU64>, u64);
    impl Drop for Handle {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    let open = Arc::new(AtomicU64::new(0));
    let session = session(Implementations::default(), ESP_CBC, 1);
    let makers = [(); 3].map(|()| Maker::new());
    let handle = |number: u64| {
        let make = |made_of: &Session| {
            assert_eq!(made_of.protection(), ESP_CBC);
            open.fetch_add(1, Relaxed);
            Handle(Arc::clone(&open), number)
        };
        session.made(makers[number as usize], make).1
    };
    thread::scope(|scope| {
        for lane in 0..4 {
            let handle = &handle;
            scope.spawn(move || {
                (0..300).for_each(|turn| assert_eq!(handle((turn + lane) % 3), (turn + lane) % 3))
            });
        }
    });
    assert_eq!(open.load(Relaxed), 3);
    drop(session);
    assert_eq!(open.load(Relaxed), 0, "what was made ends with the session");
}

/// Keys are expanded when the first job comes; whatever length was accepted can be.
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
fn queues_are_bounded_and_hand_everything_back() {
    for engine in engines() {
        let mut queue = engine.queue(NonZeroUsize::new(3).unwrap()).unwrap();
        let mut waiting: VecDeque<Work> = (0..50)
            .map(|index| {
                random_work(&[session(Implementations::default(), ESP_CBC, 1)], 4, 100 + index, index.into())
            })
            .collect();
        let mut finished = 0;
        while finished < 50 {
            queue.submit(&mut waiting);
            assert!(queue.in_flight() <= 3);
            assert!(waiting.len() + queue.in_flight() + finished == 50);
            while let Some(work) = queue.finished() {
                assert_eq!(work.pending(), 0);
                finished += 1;
            }
            if let Some(fd) = queue.fd().filter(|_| finished < 50 && queue.in_flight() > 0) {
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
            }
        }
        assert!(queue.finished().is_none());
    }
}

#[test]
fn a_queue_outlives_its_engine() {
    let two = NonZeroUsize::new(2).unwrap();
    let mut queue = Lanes::new(Kernels::best(), two, two).unwrap().queue(two).unwrap();
    let work =
        run_on(&mut *queue, random_work(&[session(Implementations::default(), ESP_CBC, 1)], 4, 100, 1));
    assert_eq!(work.pending(), 0);
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

#[test]
fn every_protection_has_a_cost() {
    for engine in engines() {
        for protection in [ESP_CBC, Protection::Aead(Aead::Aes128Gcm), SHA256_128] {
            let cost = engine.cost(protection).unwrap();
            assert!(
                cost.fixed_ns >= 0.0 && cost.byte_ns > 0.0 && cost.job_ns(100) > cost.fixed_ns,
                "{cost:?}"
            );
            assert_eq!(engine.cost(protection), Some(cost), "it is measured once");
        }
    }
}

/// Memory that the buffer does not own.
struct Mapped(Box<[u8]>, #[expect(dead_code, reason = "stands for what a mapping holds open")] OwnedFd);

impl Memory for Mapped {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[test]
fn buffers_may_be_memory_of_others() {
    let work = random_work(&[session(Implementations::default(), ESP_CBC, 1)], 4, 100, 1);
    let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let mapped = Mapped(work.buffer.bytes().into(), fd);
    let mut other = copy_of(&work);
    other.buffer = Buffer::from_memory(Box::new(mapped));
    let [inline, lanes] = engines();
    assert!(run(&*lanes, other).buffer.bytes() == run(&*inline, work).buffer.bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any sessions, layouts, orders and lengths.
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

    /// Any spans at all end in a status.
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
