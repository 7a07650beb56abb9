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
        queue.seal().expect("a queue");
        assert_eq!(queue.take(LONG).expect("a queue"), Taken::Over);
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
        queue.seal().expect("a queue");
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
        let (queue, other) = (kind.worker(), kind.worker());
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
        assert_eq!(queue.results(0).expect("a queue")[0].result.len(), RESULT_BYTES_MAX);
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
            putter.seal().expect("a queue");
        });
        let (reader, mut ids, mut after) = (kind.worker(), BTreeSet::new(), 0);
        loop {
            let results = reader.results(after).expect("a queue");
            let Some(last) = results.last() else { break };
            after = last.number;
            assert!(results.iter().all(|outcome| ids.insert(outcome.id)), "a result twice");
        }
        assert_eq!(ids.len(), JOBS as usize);
    });
}

/// Only whoever has a known certificate gets a queue, and only from the server whose key is known.
#[cfg(feature = "nats")]
#[test]
fn a_queue_over_tls_knows_its_workers_and_they_know_it() {
    use common::nats::{KEEPING, Served};
    use sealane_fleet::Queue;
    use sealane_fleet::nats::NatsQueue;
    use sealane_peer::{Identity, QueueTls, ServerTrust};

    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let identity = |name: &str| Identity::create(&at(name)).expect("a key");
    let (server, one, other, stranger) =
        (identity("server"), identity("one"), identity("other"), identity("stranger"));
    let pem = |identity: &Identity| identity.certificate_pem().expect("a certificate");
    let workers = pem(&one) + &pem(&other);
    let served = match Served::protected(&at("server"), &pem(&server), &workers) {
        Ok(served) => served,
        Err(why) => return common::skip::skip(&why),
    };
    let connect = |identity: &Identity, trust: ServerTrust, keeping| {
        let tls = QueueTls::new(served.server().address.clone(), identity, trust).expect("a certificate");
        NatsQueue::connect(served.server(), Some(&tls), "run", keeping)
    };
    let known = || ServerTrust::accept_new(at("known"));
    // A server that nobody knows is refused before our certificate is shown; then it is remembered.
    let unknown = connect(&one, ServerTrust::pinned(at("known")), Some(KEEPING));
    assert!(unknown.is_err_and(|error| error.to_string().contains(&server.public_key().to_string())));
    let queue = connect(&one, known(), Some(KEEPING)).expect("it lets us in");
    queue.put(&job(1)).expect("room");
    let worker = connect(&other, ServerTrust::pinned(at("known")), None).expect("it lets us in");
    finish(&worker, take(&worker, LONG));
    assert_eq!(queue.results(0).expect("a queue").len(), 1);
    queue.seal().expect("a queue");
    assert_eq!(worker.take(LONG).expect("a queue"), Taken::Over);
    assert!(connect(&stranger, known(), None).is_err());
    let wrong = connect(&one, ServerTrust::exactly(stranger.public_key()), None);
    assert!(wrong.is_err(), "{wrong:?}");
    // Without TLS there is no queue.
    assert!(NatsQueue::connect(served.server(), None, "run", None).is_err());
}
