//! The guarantees of every queue, in one set of tests for all of them.

mod common;

use common::{Kind, all_kinds, finish, job, take};
use sealane_fleet::{BODY_BYTES_MAX, Finished, Job, JobId, Put, RESULT_BYTES_MAX, Taken, Weight};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(20);

fn with_each(check: impl Fn(&dyn Kind)) {
    for kind in all_kinds() {
        println!("{}", kind.name());
        check(&*kind);
    }
}

#[test]
fn what_is_put_is_taken_and_has_one_result() {
    with_each(|kind| {
        let queue = kind.worker();
        for number in 0..10 {
            assert_eq!(queue.put(&job(number)).expect("room"), Put::New);
            assert_eq!(queue.put(&job(number)).expect("room"), Put::Known);
        }
        let mut seen = BTreeSet::new();
        for _ in 0..10 {
            let lease = take(&*queue, LONG);
            assert_eq!(lease.attempt, 1);
            assert_eq!(queue.put(&lease.job).expect("room"), Put::Known);
            let (id, body) = (lease.job.id, lease.job.body.clone());
            queue.extend(&lease, Weight { files: 1, bytes: 2 }).expect("it is ours");
            assert_eq!(queue.result(&id).expect("a queue"), None);
            assert_eq!(queue.finish(lease, &body).expect("room"), Finished::First);
            assert_eq!(queue.result(&id).expect("a queue"), Some(body));
            assert!(seen.insert(id), "{id} came twice");
        }
        assert_eq!(queue.take(SHORT).expect("a queue"), Taken::Nothing);
        assert_eq!(queue.put(&job(3)).expect("room"), Put::Known);
        let (worker, queue) = (queue, kind.coordinator());
        queue.seal().expect("a queue");
        assert_eq!(worker.take(LONG).expect("a queue"), Taken::Over);
        let results = queue.results(0).expect("a queue");
        assert_eq!(results.iter().map(|found| found.id).collect::<BTreeSet<_>>(), seen);
        assert!(results.windows(2).all(|pair| pair[0].number < pair[1].number));
        for outcome in &results {
            assert_eq!(outcome.id, JobId::of(&[&outcome.result]));
        }
        let rest = queue.results(results[6].number).expect("a queue");
        assert_eq!(rest, results[7..]);
        assert!(queue.results(results[9].number).expect("a queue").is_empty());
    });
}

#[test]
fn what_is_given_back_or_left_is_handed_out_again() {
    with_each(|kind| {
        let (queue, other) = (kind.worker(), kind.worker());
        queue.put(&job(1)).expect("room");
        kind.coordinator().seal().expect("a queue");
        let lease = take(&*other, LONG);
        assert_eq!(queue.take(SHORT).expect("a queue"), Taken::Nothing);
        other.give_back(lease, Duration::ZERO).expect("it is ours");
        let lease = take(&*other, LONG);
        assert_eq!(lease.attempt, 2);
        // Its holder goes without a word.
        drop(lease);
        kind.kill(other);
        let lease = take(&*queue, LONG);
        assert_eq!(lease.attempt, 3);
        queue.give_back(lease, Duration::from_millis(300)).expect("it is ours");
        assert_eq!(queue.take(Duration::ZERO).expect("a queue"), Taken::Nothing);
        finish(&*queue, take(&*queue, LONG));
        assert_eq!(queue.take(LONG).expect("a queue"), Taken::Over);
    });
}

#[test]
fn an_announcement_reaches_everybody() {
    with_each(|kind| {
        let (queue, other) = (kind.coordinator(), kind.worker());
        assert!(queue.announcement().expect("a queue").is_empty());
        for text in [&b"one"[..], b"two"] {
            queue.announce(text).expect("a queue");
            assert_eq!(other.announcement().expect("a queue"), text);
        }
    });
}

#[test]
fn what_is_too_long_is_refused() {
    with_each(|kind| {
        let queue = kind.worker();
        let long = Job { body: vec![0; BODY_BYTES_MAX + 1], ..job(1) };
        assert!(queue.put(&long).is_err());
        let most = Job { body: vec![0; BODY_BYTES_MAX], ..job(1) };
        assert_eq!(queue.put(&most).expect("room"), Put::New);
        let lease = take(&*queue, LONG);
        assert_eq!(lease.job.body.len(), BODY_BYTES_MAX);
        assert_eq!(queue.finish(lease, &vec![0; RESULT_BYTES_MAX]).expect("room"), Finished::First);
        assert_eq!(kind.coordinator().results(0).expect("a queue")[0].result.len(), RESULT_BYTES_MAX);
    });
}

#[test]
fn a_full_queue_says_so_and_takes_more_when_there_is_room() {
    with_each(|kind| {
        let queue = kind.worker();
        let mut put = 0;
        while queue.put(&job(put)).expect("a queue") == Put::New {
            put += 1;
            assert!(put < 1000, "it has no bound");
        }
        finish(&*queue, take(&*queue, LONG));
        let deadline = std::time::Instant::now() + LONG;
        while queue.put(&job(put)).expect("a queue") == Put::Full {
            assert!(std::time::Instant::now() < deadline, "there is no room");
            thread::sleep(SHORT);
        }
    });
}

#[test]
fn many_workers_share_the_work() {
    with_each(|kind| {
        const JOBS: u32 = 200;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| kind.worker()).collect();
            for worker in workers {
                scope.spawn(move || {
                    loop {
                        match worker.take(Duration::from_millis(200)).expect("a queue") {
                            Taken::Job(lease) => finish(&*worker, lease),
                            Taken::Nothing => {}
                            Taken::Over => return,
                        }
                    }
                });
            }
            let putter = kind.worker();
            for number in 0..JOBS {
                while putter.put(&job(number)).expect("a queue") == Put::Full {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            kind.coordinator().seal().expect("a queue");
        });
        let (reader, mut ids, mut after) = (kind.coordinator(), BTreeSet::new(), 0);
        loop {
            let results = reader.results(after).expect("a queue");
            let Some(last) = results.last() else { break };
            after = last.number;
            assert!(results.iter().all(|outcome| ids.insert(outcome.id)), "a result twice");
        }
        assert_eq!(ids.len(), JOBS as usize);
    });
}

/// The messages of a worker, as a host writes them that knows no manners: numbers of variants, and bytes as they come.
#[test]
fn a_worker_on_a_stream_gives_no_orders() {
    use sealane_fleet::{Bounds, CoordinatorQueue, MemoryQueue, Part, Queue, is_copy_task, serve};
    use sealane_peer::{Channel, PublicKey};
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    let soon = || Instant::now() + LONG;
    // A message of each number with a text of 5 bytes, and one that is a job that copies nothing: with any that there is, the order
    // stays, and no work is there.
    let job = Job { body: vec![0; 40], ..job(1) };
    let put = [&job.id.0[..], &[1, 10, 40], &job.body].concat();
    for (number, rest) in
        (0..40_u8).flat_map(|number| [(number, b"\x05forge".to_vec()), (number, put.clone())])
    {
        let queue = MemoryQueue::new(Bounds::default());
        queue.announce(b"order").expect("room");
        let (mut ours, mut liar) = Channel::pair().expect("a pair");
        let served = thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let part = Part::Work {
                    host: "liar".into(),
                    number: 0,
                    key: PublicKey::from_bytes([0; 32]).to_string(),
                };
                let never = AtomicBool::new(false);
                let served = serve(&mut ours, &queue, part, is_copy_task, &never, &never, &|| ());
                drop(ours);
                served
            });
            liar.recv(soon()).expect("a greeting");
            // It fails only where the other end has hung up.
            let _ = liar.send(&[&[number], &rest[..]].concat(), soon()).and_then(|()| liar.recv(soon()));
            drop(liar);
            serving.join().expect("no panic")
        });
        assert_eq!(queue.announcement().expect("it is here"), b"order", "message {number}");
        assert_eq!(queue.take(SHORT).expect("it is here"), Taken::Nothing, "message {number}");
        assert!(queue.results(0).expect("it is here").is_empty() && served.ended.is_err());
    }
}

/// The template for Kubernetes gives the coordinator and its workers the rights that the program prints, and no others.
#[cfg(feature = "nats")]
#[test]
fn the_template_of_a_server_gives_the_rights_that_the_program_prints() {
    use sealane_fleet::nats::{Role, rights};
    let at = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/kubernetes/sealane-fleet.yaml");
    let template = std::fs::read_to_string(at).expect("a template");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let key = sealane_peer::Identity::generate().expect("a key").public_key();
    let entry = |role, name| words(&rights(&key, role).replace(&key.label(), name));
    let (_, users) = template.split_once("users = [").expect("it has users");
    let (users, _) = users.split_once("      ]\n    }").expect("they end");
    assert_eq!(
        words(users),
        [entry(Role::Coordinator, "COORDINATOR"), entry(Role::Worker, "WORKER_0")].concat()
    );
}

/// Only whoever has a known certificate gets a queue, and only from the server whose key is known.
#[cfg(feature = "nats")]
#[test]
fn a_queue_over_tls_knows_its_workers_and_they_know_it() {
    use common::nats::{KEEPING, Served};
    use sealane_fleet::journal::Journal;
    use sealane_fleet::nats::{NatsCoordinatorQueue, NatsQueue, Role, rights};
    use sealane_fleet::{CoordinatorQueue, Queue};
    use sealane_peer::{Identity, QueueTls, ServerTrust};
    use std::time::Instant;

    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let identity = |name: &str| Identity::create(&at(name)).expect("a key");
    let (server, one, other, stranger) =
        (identity("server"), identity("one"), identity("other"), identity("stranger"));
    let pem = |identity: &Identity| identity.certificate_pem().expect("a certificate");
    let clients = pem(&one) + &pem(&other);
    let users = rights(&one.public_key(), Role::Coordinator) + &rights(&other.public_key(), Role::Worker);
    let Some(served) =
        common::skip::or_skip(Served::protected(&at("server"), &pem(&server), &clients, &users))
    else {
        return;
    };
    let tls = |identity: &Identity, trust| {
        QueueTls::new(served.server().address.clone(), identity, trust).expect("a certificate")
    };
    let connect = |identity: &Identity, trust: ServerTrust, keeping| {
        NatsQueue::connect(served.server(), Some(&tls(identity, trust)), "run", keeping)
    };
    let known = || ServerTrust::accept_new(at("known"));
    // A server that nobody knows is refused before our certificate is shown; then it is remembered.
    let unknown = connect(&one, ServerTrust::pinned(at("known")), Some(KEEPING));
    assert!(unknown.is_err_and(|error| error.to_string().contains(&server.public_key().to_string())));
    let journal = Journal::open(&at("results"), |_| true).expect("a journal");
    let ours = tls(&one, known());
    let queue = NatsCoordinatorQueue::open(served.server(), Some(&ours), "run", journal, KEEPING);
    let queue = queue.expect("it lets us in");
    queue.announce(b"order").expect("room");
    queue.put(&job(1)).expect("room");
    let worker = connect(&other, ServerTrust::pinned(at("known")), None).expect("it lets us in");
    assert_eq!(worker.announcement().expect("a queue"), b"order");
    assert_eq!(worker.put(&job(2)).expect("room"), Put::New);
    for _ in 0..2 {
        let lease = take(&worker, LONG);
        let (id, body) = (lease.job.id, lease.job.body.clone());
        worker.extend(&lease, Weight::default()).expect("it is ours");
        assert_eq!(worker.finish(lease, &body).expect("room"), Finished::First);
        assert_eq!(worker.result(&id).expect("a queue"), Some(body));
    }
    assert_eq!(queue.results(0).expect("a queue").len(), 2);
    queue.seal().expect("a queue");
    assert_eq!(worker.take(LONG).expect("a queue"), Taken::Over);
    // A worker speaks in its own name alone, whatever it tries.
    let (own, foreign) = (other.public_key().label(), one.public_key().label());
    let (told, forged) = (job(3).id, job(4).id);
    let result = |id: JobId| [&id.0[..], &[1, b'x']].concat();
    for (subject, bytes) in [
        (format!("sealane.run.result.{told}.{own}"), result(told)),
        (format!("sealane.run.result.{forged}.{foreign}"), result(forged)),
        (format!("sealane.run.job.{forged}.{foreign}"), b"job".to_vec()),
        ("sealane.run.meta.order".into(), b"forged".to_vec()),
        ("$JS.API.STREAM.PURGE.sealane-run-results".into(), Vec::new()),
        ("$JS.API.STREAM.DELETE.sealane-run-results".into(), Vec::new()),
        ("$JS.API.CONSUMER.DELETE.sealane-run-jobs.workers".into(), Vec::new()),
    ] {
        worker.say(&subject, &bytes).expect("a server");
    }
    let give_up = Instant::now() + LONG;
    while worker.result(&told).expect("a queue").is_none() {
        assert!(Instant::now() < give_up, "its own result does not come");
        thread::sleep(SHORT);
    }
    assert_eq!(worker.result(&forged).expect("a queue"), None);
    assert_eq!(worker.announcement().expect("a queue"), b"order");
    assert_eq!(worker.take(SHORT).expect("a queue"), Taken::Over);
    assert!(connect(&stranger, known(), None).is_err());
    let wrong = connect(&one, ServerTrust::exactly(stranger.public_key()), None);
    assert!(wrong.is_err(), "{wrong:?}");
    // Without TLS there is no queue.
    assert!(NatsQueue::connect(served.server(), None, "run", None).is_err());
}
