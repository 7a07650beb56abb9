//! Published vectors, and jobs in the layout of ESP and AH packets: their bytes are those of the RFCs and of another
//! library.

mod common;

use std::sync::Arc;

use aws_lc_rs::{aead, hmac};
use common::{AES_CBC, AES_CTR, ESP_CBC, SHA256_128, definition::slow_encrypt, run};
use hex_literal::hex;
use sealane_engine::{
    Buffer, Direction, Implementations, Inline, Job, JobStatus, Mac, Protection, Provider, Session, Span,
    Suffix, Work,
};
use sealane_transform::{Aead, Digest, Kernels};

/// Seals one job over `bytes` and returns the bytes.
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

/// The counter block consists of nonce, IV and a counter from 1, as in RFC 3686.
#[test]
fn aes_ctr_rfc_3686_case_3() {
    let key = hex!("7691be035e5020a8ac6e618529f9a0dc");
    let session = Session::with(Kernels::best(), Protection::Cipher(AES_CTR), &key).unwrap();
    let iv = hex!("00e0017b" "27777f3f4a1786f0" "00000001");
    let plain: Vec<u8> = (0..36).collect();
    let sealed = seal(session, &plain, Job { body: Span::new(0, 36), iv, ..Job::default() });
    assert_eq!(sealed, hex!("c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f"));
}

/// RFC 4106: SPI and sequence number are clear; the nonce consists of the salt and the transmitted IV. With extended
/// numbers, the associated data are the SPI and the 64-bit number (section 5), of which only the low half is in the
/// packet.
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

/// RFC 4302: the whole packet is clear and the tag is a field in it, which counts as zero; with extended numbers
/// their high half is hashed behind the packet. The tag is made by HMAC and, as in RFC 4543, by GMAC.
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
