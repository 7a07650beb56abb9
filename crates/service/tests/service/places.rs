//! More clients than places, keys that follow each other, and policies that change.

use super::common::{Engine, user};
use sealane_asymmetric::{PrivateKey, PublicKey, Verification};
use sealane_client::{Channel, ClientError, Hash, Key, KeyKind, Operation, Refusal};
use std::time::Duration;

/// Returns whether a signature is that of a key.
fn is_by(key: &Key, signature: &[u8]) -> bool {
    PublicKey::of_der(&key.info.public).unwrap().verifies(Verification::Ecdsa, &[1; 32], signature)
}

#[test]
fn more_clients_than_places_are_served_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let policy = format!(
        "[[allow]]\nusers = [{}]\nkeys = ['*']\nuses = ['sign']\nadmin = true\nlend = true\nconnections = 4\n",
        user()
    );
    let engine = Engine::start(folder.path(), Some(&policy));
    engine.client().generate("web", KeyKind::P256).unwrap();
    let mut clients: Vec<_> = (0..12).map(|_| engine.client()).collect();
    for round in 0..3 {
        for client in &mut clients {
            let key = client.open("web").unwrap();
            assert!(is_by(&key, &client.sign(&key, Hash::Sha256, &[1; 32]).unwrap()), "round {round}");
        }
    }
    let report = clients[0].report().unwrap();
    assert!(report.counts["connections_closed_idle"] >= 8, "{report:?}");
    assert_eq!((report.counts["connections_refused"], report.keys["web"]), (0, 36));
    drop(clients);
    // A client that has lent a key would lose it.
    let own = PrivateKey::generate(KeyKind::P256).unwrap().to_pkcs8().unwrap();
    let lending: Vec<_> = (0..4)
        .map(|_| {
            let channel = Channel::connect(&engine.socket, "lends").unwrap();
            (channel.lend(&own).unwrap().0, channel)
        })
        .collect();
    let refused = Channel::connect(&engine.socket, "one more");
    let Err(ClientError::Refused(Refusal::Limit { what })) = refused else { panic!("{refused:?}") };
    assert!(what.contains("4 connections of user"), "{what}");
    for (handle, mut channel) in lending {
        channel.call(handle, Operation::SignEcdsa, &[1; 32]).unwrap().unwrap();
    }
}

#[test]
fn a_thousand_processes_have_places() {
    let folder = tempfile::tempdir().unwrap();
    let policy = format!("[[allow]]\nusers = [{}]\nkeys = ['*']\nuses = ['sign']\nadmin = true\n", user());
    let engine = Engine::start(folder.path(), Some(&policy));
    let mut client = engine.client();
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    if most.is_some_and(|most| most < 8000) {
        return super::skip::say("few descriptors");
    }
    let mut others: Vec<_> =
        (0..1000).map(|_| Channel::connect(&engine.socket, "a worker").unwrap()).collect();
    let report = client.report().unwrap();
    assert_eq!((report.status.connections, report.counts["connections_closed_idle"]), (1001, 0));
    // They have been quiet for so long that nobody looks at their rings any more, and are heard all the same, also while somebody
    // else leaves the workers no rest.
    std::thread::sleep(Duration::from_millis(150));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut busy = Channel::connect(&engine.socket, "it leaves no rest").unwrap();
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let tickets: Vec<_> =
                    (0..32).map(|_| busy.submit(0, Operation::Null, &[]).unwrap()).collect();
                busy.flush();
                tickets.into_iter().for_each(|ticket| drop(busy.take_of(ticket).unwrap()));
            }
        });
        for _ in 0..2 {
            for other in &mut others {
                other.call(0, Operation::Null, &[]).unwrap().unwrap();
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(others);
}

#[test]
fn a_rate_is_not_renewed_by_a_new_connection() {
    let folder = tempfile::tempdir().unwrap();
    let policy = format!("[[allow]]\nusers = [{}]\nkeys = ['*']\nuses = ['sign']\nrate = 4\n", user());
    let engine = Engine::start(folder.path(), Some(&policy));
    let start = std::time::Instant::now();
    let mut done = 0;
    // A few connections, each with as many jobs as the first may have at once.
    for _ in 0..3 {
        let mut channel = Channel::connect(&engine.socket, "again").unwrap();
        for _ in 0..4 {
            channel.call(0, Operation::Null, &[]).unwrap().unwrap();
            done += 1;
        }
    }
    // Four at once, and four a second: of twelve, the last is two seconds after the first, less one place.
    let allowed = 4.0 + 4.0 * start.elapsed().as_secs_f64() + 1.0;
    assert!(f64::from(done) <= allowed, "{done} jobs, {allowed} allowed");
}

#[test]
fn a_key_that_was_imported_again_is_opened_again() {
    let (_folder, engine) = Engine::fresh();
    let pkcs8 = PrivateKey::generate(KeyKind::P256).unwrap().to_pkcs8().unwrap();
    let (mut server, mut operator) = (engine.client(), engine.client());
    operator.import("web", &pkcs8, None).unwrap();
    let key = server.open("web").unwrap();
    for _ in 0..3 {
        assert!(is_by(&key, &server.sign(&key, Hash::Sha256, &[1; 32]).unwrap()));
        operator.remove("web").unwrap();
        operator.import("web", &pkcs8, None).unwrap();
    }
}

#[test]
fn a_key_and_the_one_before_it_work_side_by_side() {
    let (folder, mut engine) = Engine::fresh();
    let new_key = || PrivateKey::generate(KeyKind::P256).unwrap().to_pkcs8().unwrap();
    let (first, second) = (new_key(), new_key());
    let (mut server, mut operator) = (engine.client(), engine.client());
    operator.import("web", &first, None).unwrap();
    let old = server.open("web").unwrap();
    operator.replace("web", &second, None).unwrap();
    let refused = operator.replace("web", &second, None);
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::Exists))), "the same key: {refused:?}");
    for _ in 0..2 {
        // One that has it open, and one that opens it anew, by the public half of its certificate.
        for client in [&mut server, &mut engine.client()] {
            let new = client.open("web").unwrap();
            assert_ne!(new, old);
            for key in [&old, &new] {
                assert!(is_by(key, &client.sign(key, Hash::Sha256, &[1; 32]).unwrap()));
            }
        }
        engine.stop();
        engine.start_again();
    }
    assert_eq!(operator.report().unwrap().previous.keys().collect::<Vec<_>>(), ["web"]);
    operator.remove_previous("web").unwrap();
    assert!(matches!(server.sign(&old, Hash::Sha256, &[1; 32]), Err(ClientError::OtherKey { .. })));
    let new = server.open("web").unwrap();
    server.sign(&new, Hash::Sha256, &[1; 32]).unwrap();
    let names = |folder: &std::path::Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!(names(&folder.path().join("keys")), 2, "the seal and one key");
}

#[test]
fn a_service_that_hangs_is_given_up_soon() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = sealane_service::service::bind_at(&socket).unwrap();
    let within = Duration::from_millis(50);
    let late = Channel::connect_within(&socket, "a test", within).unwrap_err();
    assert!(matches!(late, ClientError::Late { .. }), "{late:?}");
    assert!(late.to_string().contains("did not answer within 50 ms"), "{late}");
    // Nobody is accepted, and at some time nobody more may wait.
    let waiting: Vec<_> = (0..400)
        .map(|_| sealane_client::socket::connect_within(&socket, Duration::from_millis(1)))
        .take_while(Result::is_ok)
        .collect();
    assert!(waiting.len() < 400);
    let late = Channel::connect_within(&socket, "a test", within).unwrap_err();
    assert!(matches!(late, ClientError::Late { .. }), "{late:?}");
}

#[test]
fn a_changed_policy_holds_for_those_who_are_inside() {
    let folder = tempfile::tempdir().unwrap();
    let text = |more: &str| format!("[[allow]]\nusers = [{}]\nkeys = ['web']\nuses = [{more}]\n", user());
    let engine = Engine::start(folder.path(), Some(&(text("'sign'") + "admin = true\n")));
    let mut client = engine.client();
    client.generate("web", KeyKind::P256).unwrap();
    let key = client.open("web").unwrap();
    client.sign(&key, Hash::Sha256, &[1; 32]).unwrap();
    engine.change_policy(&text("'derive'"));
    // The change may come between the two.
    while client.generate("mail", KeyKind::P256).is_ok() && client.remove("mail").is_ok() {}
    let refused = client.sign(&key, Hash::Sha256, &[1; 32]);
    assert!(matches!(refused, Err(ClientError::Job(sealane_client::Status::NotAllowed))), "{refused:?}");
    engine.change_policy("[[allow]]\nusers = [4242]\nkeys = ['web']\nuses = ['sign']\n");
    let refused = loop {
        match client.keys() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ClientError::Refused(Refusal::NotAllowed)), "{refused:?}");
}
