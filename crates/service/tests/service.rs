//! Tests of the service and its clients over real sockets and rings, with honest clients and others.

#[path = "service/attacks.rs"]
mod attacks;
mod common;
#[path = "service/ml_dsa.rs"]
mod ml_dsa;
#[path = "service/places.rs"]
mod places;
#[path = "../../../testing/skip.rs"]
mod skip;
#[path = "service/versions.rs"]
mod versions;

use common::{Engine, listener, user};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, accept};
use sealane_asymmetric::{PrivateKey, PublicKey, Verification, random};
use sealane_client::ring::{Direction, Head, MESSAGE_BYTES_MAX, Producer, SLOTS, WORDS, Words as _};
use sealane_client::setup::{Ask, Told, VERSION, VERSION_OLDEST};
use sealane_client::{
    AsyncClient, Bell, Channel, Client, ClientError, Hash, KeyKind, Memory, MlDsaSet, Operation, Refusal,
    Source, Status, socket,
};
use sealane_engine::{
    Buffer, Direction as Way, Engine as _, EngineChoice, Implementations, Inline, Job, JobStatus, Protection,
    Session, Span, Submitter, Suffix, Work,
};
use sealane_transform::Aead;
use std::future::Future;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

const KINDS: [KeyKind; 10] = [
    KeyKind::Rsa { bits: 2048 },
    KeyKind::P256,
    KeyKind::P384,
    KeyKind::Ed25519,
    KeyKind::X25519,
    KeyKind::P521,
    KeyKind::RsaPss { bits: 2048, limits: None },
    KeyKind::MlDsa(MlDsaSet::MlDsa44),
    KeyKind::MlDsa(MlDsaSet::MlDsa65),
    KeyKind::MlDsa(MlDsaSet::MlDsa87),
];

#[test]
fn every_kind_of_key_computes_in_the_service_and_survives_a_restart() {
    let (_folder, mut engine) = Engine::fresh();
    let mut client = engine.client();
    for (index, kind) in KINDS.into_iter().enumerate() {
        let info = client.generate(&format!("key-{index}"), kind).unwrap();
        assert_eq!(info.kind, kind);
    }
    for round in 0..2 {
        let keys = client.keys().unwrap();
        assert_eq!(keys.iter().map(|key| key.kind).collect::<Vec<_>>(), KINDS, "round {round}");
        for info in keys {
            let key = client.open(&info.name).unwrap();
            let public = PublicKey::of_der(&info.public).unwrap();
            let digest = if let KeyKind::MlDsa(_) = info.kind {
                random::<64>().to_vec()
            } else {
                random::<32>().to_vec()
            };
            let hash = Hash::Sha256;
            let pss = Operation::SignPss { hash, mask: hash, salt_bytes: 32 };
            let trials: &[(Operation, Verification)] = match info.kind {
                KeyKind::Rsa { .. } => &[
                    (Operation::SignPkcs1(Some(hash)), Verification::Pkcs1(Some(hash))),
                    (Operation::SignPkcs1(None), Verification::Pkcs1(None)),
                    (pss, Verification::Pss { hash, mask: hash, salt_bytes: Some(32) }),
                ],
                KeyKind::RsaPss { .. } => {
                    let refused = client.call(&key, Operation::SignPkcs1(Some(hash)), &digest);
                    assert!(matches!(refused, Err(ClientError::Job(Status::WrongKind))), "{refused:?}");
                    &[(pss, Verification::Pss { hash, mask: hash, salt_bytes: Some(32) })]
                }
                KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => {
                    &[(Operation::SignEcdsa, Verification::Ecdsa)]
                }
                KeyKind::Ed25519 => &[(Operation::SignEd25519, Verification::Ed25519)],
                KeyKind::X25519 => &[],
                KeyKind::MlDsa(_) => &[
                    (Operation::SignMlDsa { is_deterministic: false }, Verification::MlDsa),
                    (Operation::SignMlDsa { is_deterministic: true }, Verification::MlDsa),
                ],
            };
            for (operation, how) in trials {
                let signature = client.call(&key, *operation, &digest).unwrap();
                assert!(public.verifies(*how, &digest, &signature), "{operation:?}");
                let other = vec![0; digest.len()];
                assert!(!public.verifies(*how, &other, &signature), "{operation:?}");
            }
            if let KeyKind::Rsa { .. } = info.kind {
                for (oaep, operation) in [
                    (None, Operation::DecryptPkcs1),
                    (Some((hash, Hash::Sha1)), Operation::DecryptOaep { hash, mask: Hash::Sha1 }),
                ] {
                    let ciphertext = public.encrypt(oaep, b"a premaster secret").unwrap();
                    assert_eq!(*client.call(&key, operation, &ciphertext).unwrap(), b"a premaster secret");
                }
            }
            if matches!(info.kind, KeyKind::X25519 | KeyKind::P256) {
                let peer = PrivateKey::generate(info.kind).unwrap();
                // The last bytes of either structure are the raw public key or the uncompressed point.
                let length = if info.kind == KeyKind::X25519 { 32 } else { 65 };
                let tail = |der: &[u8]| der[der.len() - length..].to_vec();
                let ours = client.call(&key, Operation::Derive, &tail(peer.public())).unwrap();
                assert_eq!(ours, peer.run(Operation::Derive, &tail(&info.public)).unwrap());
            }
        }
        engine.stop();
        engine.start_again();
    }
}

#[test]
fn a_client_whose_service_restarts_goes_on_by_itself() {
    let (_folder, mut engine) = Engine::fresh();
    let mut client = engine.client();
    client.generate("web", KeyKind::P256).unwrap();
    let key = client.open("web").unwrap();
    client.sign(&key, Hash::Sha256, &[1; 32]).unwrap();
    engine.stop();
    assert!(matches!(client.sign(&key, Hash::Sha256, &[1; 32]), Err(ClientError::Unreachable { .. })));
    engine.start_again();
    client.sign(&key, Hash::Sha256, &[1; 32]).unwrap();
    // Another key of the same name is not taken for the first one.
    client.remove("web").unwrap();
    client.generate("web", KeyKind::P256).unwrap();
    engine.stop();
    engine.start_again();
    assert!(matches!(client.sign(&key, Hash::Sha256, &[1; 32]), Err(ClientError::OtherKey { .. })));
}

#[test]
fn what_the_policy_does_not_allow_does_not_happen() {
    let (folder, mut engine) = Engine::fresh();
    let mut client = engine.client();
    for (name, kind) in [("web-1", KeyKind::P256), ("mail", KeyKind::P256)] {
        client.generate(name, kind).unwrap();
    }
    assert!(matches!(client.generate("mail", KeyKind::P256), Err(ClientError::Refused(Refusal::Exists))));
    assert!(matches!(client.generate("../mail", KeyKind::P256), Err(ClientError::Refused(Refusal::BadName))));
    engine.stop();
    let policy =
        format!("[[allow]]\nusers = [{}]\nkeys = ['web-*']\nuses = ['sign']\nconnections = 2\n", user());
    let engine = Engine::start(folder.path(), Some(&policy));
    let mut client = engine.client();
    assert_eq!(client.keys().unwrap().len(), 1);
    let web = client.open("web-1").unwrap();
    client.sign(&web, Hash::Sha256, &[1; 32]).unwrap();
    let point = web.info.public[web.info.public.len() - 65..].to_vec();
    let derived = client.call(&web, Operation::Derive, &point);
    assert!(matches!(derived, Err(ClientError::Job(Status::NotAllowed))), "{derived:?}");
    let hidden = client.open_by(Source::Name("mail".to_owned()));
    assert!(matches!(hidden, Err(ClientError::Refused(Refusal::NoSuchKey))));
    assert!(matches!(client.generate("new", KeyKind::P256), Err(ClientError::Refused(Refusal::NotAdmin))));
    assert!(matches!(client.remove("web-1"), Err(ClientError::Refused(Refusal::NotAdmin))));
    let own = PrivateKey::generate(KeyKind::Ed25519).unwrap().to_pkcs8().unwrap();
    assert!(matches!(client.lend(&own), Err(ClientError::Refused(Refusal::NotAllowed))));
    drop(engine);
    let engine = Engine::start(folder.path(), Some("[[allow]]\nusers = [54321]\nadmin = true\n"));
    let stranger = Client::connect(&engine.socket, "a stranger");
    assert!(matches!(stranger, Err(ClientError::Refused(Refusal::NotAllowed))), "{stranger:?}");
}

#[test]
fn a_key_that_is_lent_or_removed_is_worth_nothing_elsewhere() {
    let (folder, engine) = Engine::fresh();
    let (mut one, mut other) = (engine.client(), engine.client());
    let own = PrivateKey::generate(KeyKind::Ed25519).unwrap();
    let key = one.lend(&own.to_pkcs8().unwrap()).unwrap();
    let signature = one.call(&key, Operation::SignEd25519, b"text").unwrap();
    assert_eq!(signature, own.run(Operation::SignEd25519, b"text").unwrap());
    assert!(one.keys().unwrap().is_empty());
    assert!(matches!(
        other.call(&key, Operation::SignEd25519, b"text"),
        Err(ClientError::Refused(Refusal::NoSuchKey))
    ));
    one.generate("web", KeyKind::Ed25519).unwrap();
    let web = one.open("web").unwrap();
    other.remove("web").unwrap();
    let removed = one.call(&web, Operation::SignEd25519, b"text");
    assert!(matches!(removed, Err(ClientError::Job(Status::Removed))), "{removed:?}");
    assert!(!folder.path().join("keys/web.key").exists());
}

#[test]
fn a_key_that_was_replaced_is_not_taken_for_the_other_of_its_name() {
    let (_folder, engine) = Engine::fresh();
    let mut client = engine.client();
    client.generate("web", KeyKind::P256).unwrap();
    let old = client.open("web").unwrap();
    client.sign(&old, Hash::Sha256, &[1; 32]).unwrap();
    client.remove("web").unwrap();
    client.generate("web", KeyKind::P256).unwrap();
    let new = client.open("web").unwrap();
    client.sign(&new, Hash::Sha256, &[1; 32]).unwrap();
    let signed = client.sign(&old, Hash::Sha256, &[1; 32]);
    assert!(matches!(signed, Err(ClientError::OtherKey { .. })), "{signed:?}");
}

#[test]
fn keys_are_imported_in_the_forms_that_people_have() {
    let (folder, engine) = Engine::fresh();
    let mut client = engine.client();
    let key = PrivateKey::generate(KeyKind::P256).unwrap();
    let der = key.to_pkcs8().unwrap();
    let pem = sealane_client::key::pem("PRIVATE KEY", &der);
    for (name, bytes) in [("der", der.as_slice()), ("pem", pem.as_bytes())] {
        assert_eq!(client.import(name, bytes, None).unwrap().public, key.public());
    }
    encrypted_forms(folder.path(), &pem, &mut client, &key);
    for bytes in [b"".as_slice(), b"-----BEGIN PRIVATE KEY-----\n", &der[1..]] {
        let outcome = client.import("bad", bytes, Some("a passphrase"));
        assert!(matches!(outcome, Err(ClientError::Refused(Refusal::BadKey))), "{outcome:?}");
    }
    // The name of a failed attempt is free again.
    client.import("bad", &der, None).unwrap();
}

/// Imports a key in the encrypted forms that `openssl` makes of it: PKCS#8 in PEM and DER, and PKCS#12.
fn encrypted_forms(folder: &std::path::Path, pem: &str, client: &mut Client, key: &PrivateKey) {
    let openssl = |arguments: &[&str]| {
        let mut command = std::process::Command::new("openssl");
        command.args(arguments).env_remove("OPENSSL_CONF").current_dir(folder);
        command.output().is_ok_and(|output| output.status.success())
    };
    std::fs::write(folder.join("plain.pem"), pem).unwrap();
    if !openssl(&["version"]) {
        return skip::skip("no openssl");
    }
    let secret = ["-passout", "pass:a passphrase"];
    let pkcs8 = ["pkcs8", "-topk8", "-in", "plain.pem", "-v2", "aes-256-cbc"];
    let certificate = ["req", "-x509", "-new", "-key", "plain.pem", "-subj", "/CN=a", "-out", "a.crt"];
    let pkcs12 = ["pkcs12", "-export", "-inkey", "plain.pem", "-in", "a.crt", "-out", "key.p12"];
    assert!(openssl(&[&pkcs8[..], &["-out", "key.pem"], &secret].concat()));
    assert!(openssl(&[&pkcs8[..], &["-outform", "DER", "-out", "key.der"], &secret].concat()));
    assert!(openssl(&certificate) && openssl(&[&pkcs12[..], &secret].concat()));
    for file in ["key.pem", "key.der", "key.p12"] {
        let bytes = std::fs::read(folder.join(file)).unwrap();
        for wrong in [None, Some("another")] {
            let outcome = client.import("bad", &bytes, wrong);
            assert!(matches!(outcome, Err(ClientError::Refused(Refusal::BadKey))), "{file}: {outcome:?}");
        }
        let name = file.replace("key.", "encrypted-");
        assert_eq!(
            client.import(&name, &bytes, Some("a passphrase")).unwrap().public,
            key.public(),
            "{file}"
        );
    }
}

#[test]
fn many_jobs_under_way_come_back_with_their_own_answers() {
    let (_folder, engine) = Engine::fresh();
    let mut channel = Channel::connect(&engine.socket, "a test").unwrap();
    let mut expected = std::collections::BTreeMap::new();
    let mut answered = 0;
    for round in 0..300usize {
        let content = vec![round as u8; [0, 1, 31, 32, 33, 511, 512, 513][round % 8]];
        match channel.submit(0, Operation::Null, &content) {
            Ok(ticket) => {
                expected.insert(ticket, content);
            }
            Err(ClientError::Full) => {
                channel.flush();
                let (ticket, answer) = channel.take().unwrap();
                assert_eq!(expected.remove(&ticket).as_ref(), Some(&*answer.unwrap()));
                answered += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    channel.flush();
    while !expected.is_empty() {
        // This waits at the socket, like an event loop.
        if !channel.arm() {
            let mut fds = [PollFd::from_borrowed_fd(channel.fd(), PollFlags::IN)];
            poll(&mut fds, None).unwrap();
        }
        channel.disarm().unwrap();
        while let Some((ticket, answer)) = channel.try_take().unwrap() {
            assert_eq!(expected.remove(&ticket).as_ref(), Some(&*answer.unwrap()));
            answered += 1;
        }
    }
    assert!(answered > 100);
    assert_eq!(channel.in_flight(), 0);
    let too_long = vec![0; MESSAGE_BYTES_MAX + 1];
    assert!(matches!(channel.submit(0, Operation::Null, &too_long), Err(ClientError::TooLong)));
}

/// The header for programs in C speaks the same protocol.
#[test]
fn a_program_in_c_signs() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sign");
    let client = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../client");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(client.join("include"));
    compiler.arg("-o").arg(&program).arg(client.join("examples/sign.c"));
    match compiler.status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => return skip::skip(format_args!("no C compiler: {error}")),
    }
    let engine = Engine::start(folder.path(), None);
    let mut client = engine.client();
    let digest = random::<32>();
    std::fs::write(folder.path().join("digest"), digest).unwrap();
    for (kind, word, how) in [
        (KINDS[0], "RSA", Verification::Pkcs1(Some(Hash::Sha256))),
        (KeyKind::P256, "ECDSA", Verification::Ecdsa),
        (KeyKind::Ed25519, "ED25519", Verification::Ed25519),
    ] {
        let key = client.generate(word, kind).unwrap();
        let sign = |name: &str| {
            let mut command = std::process::Command::new(&program);
            command.arg(&engine.socket).args([name, word]);
            command.stdin(std::fs::File::open(folder.path().join("digest")).unwrap()).output().unwrap()
        };
        let output = sign(word);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(PublicKey::of_der(&key.public).unwrap().verifies(how, &digest, &output.stdout), "{word}");
        assert_eq!(sign("another").status.code(), Some(1));
    }
}

/// Wakes a thread that runs a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}

/// A service that is killed again and again, and starts slowly, ends one connection after another.
#[test]
fn a_call_outlives_many_connections_that_end() {
    const ENDED: usize = 12;
    let (_folder, mut engine) = Engine::fresh();
    let mut client = engine.client();
    client.generate("web", KeyKind::Ed25519).unwrap();
    let key = client.open("web").unwrap();
    let public = PublicKey::of_der(&key.info.public).unwrap();
    engine.stop();
    let listener = listener(&engine.socket);
    thread::scope(|scope| {
        let calling = scope.spawn(|| client.call(&key, Operation::SignEd25519, b"text"));
        for _ in 0..ENDED {
            poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
            drop(accept(&listener).unwrap());
        }
        engine.start_at(listener);
        let signature = calling.join().unwrap().expect("a signature");
        assert!(public.verifies(Verification::Ed25519, b"text", &signature));
    });
}

#[test]
fn tasks_share_one_connection() {
    let (_folder, mut engine) = Engine::fresh();
    engine.client().generate("web", KeyKind::Ed25519).unwrap();
    let client = AsyncClient::connect(&engine.socket, "a test").unwrap();
    let key = client.open("web").unwrap();
    let public = PublicKey::of_der(&key.info.public).unwrap();
    thread::scope(|scope| {
        for task in 0..8u8 {
            let (client, key, public) = (&client, &key, &public);
            scope.spawn(move || {
                for round in 0..20u8 {
                    drop(client.call(key, Operation::SignEd25519, b"nobody waits for this"));
                    let text = [task, round];
                    let signature = block_on(client.call(key, Operation::SignEd25519, &text)).unwrap();
                    assert!(public.verifies(Verification::Ed25519, &text, &signature));
                }
            });
        }
    });
    engine.stop();
    let ended = block_on(client.call(&key, Operation::SignEd25519, b"text"));
    assert!(matches!(ended, Err(ClientError::Ended)), "{ended:?}");
}

/// A client's end without the checks of a client.
struct Bare {
    socket: OwnedFd,
    memory: Memory,
    bell: Bell,
}

impl Bare {
    fn connect(engine: &Engine) -> Self {
        let socket = socket::connect_to(&engine.socket).unwrap();
        let hello = Ask::Hello { lowest: 0, highest: VERSION + 1, program: "bare".to_owned() };
        socket::send(&socket, &hello, &[], SendFlags::empty()).unwrap();
        let (told, fds) = socket::receive::<Told>(&socket, RecvFlags::empty()).unwrap().unwrap();
        assert!(matches!(told, Told::Welcome { version: VERSION, .. }));
        let [memory, bell] = <[OwnedFd; 2]>::try_from(fds).unwrap();
        assert!(rustix::fs::ftruncate(&memory, 0).is_err(), "the memory is sealed");
        Self { socket, memory: Memory::map(memory.as_fd()).unwrap(), bell: Bell::of(bell) }
    }

    fn ring(&self) {
        self.bell.ring();
    }

    /// Waits until the service has ended the connection.
    fn is_ended(&self) {
        while let Ok(Some(_)) = socket::receive::<Told>(&self.socket, RecvFlags::empty()) {}
    }
}

#[test]
fn a_client_that_lies_is_dropped_and_harms_nobody() {
    let (_folder, engine) = Engine::fresh();
    let mut honest = engine.client();
    honest.generate("web", KeyKind::Ed25519).unwrap();
    let key = honest.open("web").unwrap();
    let public = PublicKey::of_der(&key.info.public).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = SplitMix64::seed_from_u64(1);
            let mut next = || random.next_u64();
            for round in 0..60 {
                let bare = Bare::connect(&engine);
                let words = bare.memory.words();
                for _ in 0..200 {
                    let at = match next() % 4 {
                        // The counts are where false values do most harm.
                        0 => [0, 16, WORDS / 2, WORDS / 2 + 16][(next() % 4) as usize],
                        _ => (next() % WORDS as u64) as usize,
                    };
                    let value = if next() % 2 == 0 { next() } else { next() % 200 };
                    words[at].store(value, Ordering::Relaxed);
                    bare.ring();
                }
                // A false value at the end is certain.
                words[0].store(u64::MAX / 2, Ordering::Relaxed);
                bare.ring();
                bare.is_ended();
                if round % 10 == 0 {
                    // This client goes away without notice, with jobs under way.
                    let bare = Bare::connect(&engine);
                    let mut producer = Producer::new(Direction::Requests);
                    for tag in 0..64 {
                        producer.push(&bare.memory, Head { tag, ..Head::default() }, &[7; 100]).unwrap();
                    }
                    producer.publish(&bare.memory);
                    bare.ring();
                }
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            let text = random::<40>();
            let signature = honest.call(&key, Operation::SignEd25519, &text).unwrap();
            assert!(public.verifies(Verification::Ed25519, &text, &signature));
        }
    });
    assert!(honest.status().unwrap().lies >= 60);
}

#[test]
fn a_client_that_takes_no_answers_is_not_computed_for() {
    let (_folder, engine) = Engine::fresh();
    let bare = Bare::connect(&engine);
    let mut producer = Producer::new(Direction::Requests);
    let mut push = |count: u64| {
        for tag in 0..count {
            while producer.free(&bare.memory).unwrap() == 0 {
                thread::yield_now();
            }
            producer.push(&bare.memory, Head { tag, ..Head::default() }, &[]).unwrap();
            producer.publish(&bare.memory);
            bare.ring();
        }
    };
    // The answers to the first ones fill the ring of answers, the rest fills the ring of requests.
    push(2 * SLOTS as u64);
    let mut client = engine.client();
    client.generate("web", KeyKind::P256).unwrap();
    let key = client.open("web").unwrap();
    for _ in 0..20 {
        client.sign(&key, Hash::Sha256, &[1; 32]).unwrap();
    }
    let status = client.status().unwrap();
    assert_eq!(status.done["null"], SLOTS as u64, "{status:?}");
    assert_eq!(status.lies, 0);
}

/// Returns a work of records of many lengths, each with its own nonce; some are forged when they are opened.
fn records(sessions: &[Arc<Session>], number: u64, jobs: u32) -> Work {
    let mut work = Work { buffer: Buffer::new(jobs as usize * 80_000), ..Work::default() };
    let mut random = SplitMix64::seed_from_u64(number);
    let mut next = move |below: u32| (random.next_u64() % u64::from(below)) as u32;
    let pattern: Vec<u8> = (0..997).map(|_| next(256) as u8).collect();
    work.buffer.bytes_mut().chunks_mut(997).for_each(|chunk| chunk.copy_from_slice(&pattern[..chunk.len()]));
    for job in 0..jobs {
        let session = &sessions[next(sessions.len() as u32) as usize];
        let place = work.session(session).unwrap();
        let (clear, most) = (next(40), [20, 1500, 66_000][next(3) as usize]);
        let body = next(most);
        let start = job * 80_000;
        let suffix = if next(2) == 0 { Suffix::NONE } else { Suffix::from([1, 2, 3, 4]) };
        let mut iv = [0; 16];
        iv[..8].copy_from_slice(&number.to_be_bytes());
        iv[8..12].copy_from_slice(&job.to_be_bytes());
        work.jobs.push(Job {
            session: place,
            clear: Span::new(start, clear),
            body: Span::new(start + clear, body),
            tag: Span::new(start + clear + body, 16),
            iv,
            suffix: if clear > 8 { suffix.behind_first(8) } else { suffix },
            ..Job::default()
        });
    }
    work
}

/// The service as an engine gives back each work once, as the inline engine makes it, while it ends and starts again.
#[test]
fn works_come_back_right_while_the_service_ends_and_starts_again() {
    let (_folder, mut service) = Engine::fresh();
    let aeads = [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305];
    let sessions: Vec<_> = aeads
        .into_iter()
        .map(|aead| {
            let protection = Protection::Aead(aead);
            let key = vec![9; protection.key_bytes()];
            Arc::new(Session::with(Implementations::default(), protection, &key).unwrap())
        })
        .collect();
    let choice: EngineChoice = format!("service:{}", service.socket.display()).parse().unwrap();
    let engine = choice.make(Implementations::default()).unwrap();
    let mut submitter = Submitter::new(engine.queue(NonZeroUsize::new(4).unwrap()).unwrap(), 4);
    let mut inline = Submitter::<()>::new(Inline::default().queue(NonZeroUsize::MIN).unwrap(), 1);
    let mut back = 0;
    let mut check = |mut work: Work, (number, opens): (u64, bool)| {
        let mut whole = records(&sessions, number, 12);
        inline.run(&mut whole);
        if opens {
            whole.direction = Way::Open;
            whole.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
            whole.buffer.bytes_mut()[whole.jobs[3].tag.start as usize] ^= 1;
            inline.run(&mut whole);
        }
        assert_eq!(work.jobs, whole.jobs, "{number}");
        let same = work.jobs.iter().zip(&whole.jobs).all(|(job, _)| {
            // The body of a forged record may have any bytes.
            job.status != JobStatus::Done
                || work.buffer.bytes()[job.body.range()] == whole.buffer.bytes()[job.body.range()]
        });
        assert!(same, "{number}");
        back += 1;
        if opens {
            return None;
        }
        work.direction = Way::Open;
        work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
        work.buffer.bytes_mut()[work.jobs[3].tag.start as usize] ^= 1;
        Some(work)
    };
    let mut sealed = 0;
    let mut number = 0;
    let mut is_up = true;
    let start = Instant::now();
    // Each service seals some works, and ends with others under way; a service that was away is tried again after a
    // while.
    for turn in 0..6 {
        let until = number + 8;
        let count =
            |service: &Engine| service.client().status().unwrap().done.get("seal").copied().unwrap_or(0);
        while number < until || (is_up && count(&service) == 0) {
            assert!(start.elapsed() < Duration::from_secs(60), "the service gets no works in turn {turn}");
            number += 1;
            submitter.submit(records(&sessions, number, 12), (number, false));
            // As a lane does: it waits when it has many works under way, and takes all that are done.
            let mut finished = if submitter.in_hand() >= 4 { submitter.wait() } else { submitter.finished() };
            while let Some((work, note)) = finished {
                if let Some(work) = check(work, note) {
                    submitter.submit(work, (note.0, true));
                }
                finished = submitter.finished();
            }
        }
        if is_up {
            sealed += count(&service);
            service.stop();
        } else {
            service.start_again();
        }
        is_up = !is_up;
    }
    while let Some((work, note)) = submitter.wait() {
        if let Some(work) = check(work, note) {
            submitter.submit(work, (note.0, true));
        }
    }
    assert_eq!(back, 2 * number);
    assert!(sealed > 0);
}

#[test]
fn messages_that_make_no_sense_end_their_connection_alone() {
    let (_folder, engine) = Engine::fresh();
    let mut honest = engine.client();
    for bytes in [&[0xff; 10][..], &[0; 1], &[1; 65_000]] {
        let socket = socket::connect_to(&engine.socket).unwrap();
        rustix::net::send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
        while let Ok(Some(_)) = socket::receive::<Told>(&socket, RecvFlags::empty()) {}
    }
    let old = socket::connect_to(&engine.socket).unwrap();
    let hello = Ask::Hello { lowest: VERSION + 1, highest: VERSION + 9, program: String::new() };
    socket::send(&old, &hello, &[], SendFlags::empty()).unwrap();
    let (told, _) = socket::receive::<Told>(&old, RecvFlags::empty()).unwrap().unwrap();
    assert_eq!(told, Told::Refused(Refusal::Version { lowest: VERSION_OLDEST, highest: VERSION }));
    let status = honest.status().unwrap();
    assert_eq!(status.connections, 1);
    assert!(status.prometheus().contains("sealane_engine_connections 1\n"));
    assert!(status.text().contains("sealed by a test"));
}

#[test]
fn a_rate_is_kept_and_others_do_not_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let policy = format!("[[allow]]\nusers = [{}]\nkeys = ['*']\nuses = ['sign']\nrate = 40\n", user());
    let engine = Engine::start(folder.path(), Some(&policy));
    let mut client = Channel::connect(&engine.socket, "a test").unwrap();
    for _ in 0..60 {
        let ticket = client.submit(0, Operation::Null, &[]).unwrap();
        client.flush();
        client.take_of(ticket).unwrap().unwrap();
    }
    let Ok(Told::Status(status)) = client.ask(&Ask::Status) else { panic!("no status") };
    // A user who manages no keys sees nothing of others.
    assert_eq!((status.clients[0].done, &status.done), (60, &Default::default()));
    assert!(status.clients[0].waited > 0, "{status:?}");
}
