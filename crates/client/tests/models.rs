//! Explores interleavings of rings and doorbells, compiled from the crate's own sources with
//! [shuttle](https://github.com/awslabs/shuttle)'s atomics. A lost wake-up appears as a deadlock.

#![allow(dead_code, unreachable_pub, reason = "of the sources only what the models call is used")]

#[path = "../src/doorbell.rs"]
mod doorbell;
#[path = "../src/ring.rs"]
mod ring;

/// Replaces `src/sync.rs` of the crate.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use doorbell::Bells;
use ring::{Consumer, Direction, Head, NotPushed, Producer, WORDS, Words};
use shuttle::sync::{Condvar, Mutex};
use shuttle::{check_random, thread};
use std::sync::Arc;
use sync::AtomicU64;

const SCHEDULES: usize = 60;

/// Both rings, the doorbells, and semaphores in place of the kernel's means to sleep.
struct World {
    words: Box<[AtomicU64; WORDS]>,
    bells: Bells,
    service: Semaphore,
    client: Semaphore,
}

#[derive(Default)]
struct Semaphore {
    rung: Mutex<bool>,
    wake: Condvar,
}

impl Semaphore {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.wake.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.wake.wait(rung).unwrap();
        }
        *rung = false;
    }
}

impl Words for World {
    fn words(&self) -> &[AtomicU64; WORDS] {
        &self.words
    }
}

fn world() -> Arc<World> {
    let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    let words = words.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("as many as asked for"));
    Arc::new(World {
        words,
        bells: Bells::default(),
        service: Semaphore::default(),
        client: Semaphore::default(),
    })
}

/// The lengths fit into the descriptor, one slot or several slots; all together they go around the ring.
fn content(tag: u64) -> Vec<u8> {
    vec![tag as u8; [0, 32, 33, 512, 513, 20_000][tag as usize % 6]]
}

#[test]
fn messages_arrive_once_whole_and_in_order() {
    check_random(
        || {
            let world = world();
            let producer = Arc::clone(&world);
            let sender = thread::spawn(move || {
                let mut ring = Producer::new(Direction::Requests);
                for tag in 0..14 {
                    let head = Head { tag, code: 1, key: 2, parameters: 3 };
                    loop {
                        match ring.push(&*producer, head, &content(tag)) {
                            Ok(()) => break,
                            Err(NotPushed::Full) => thread::yield_now(),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    ring.publish(&*producer);
                }
            });
            let mut ring = Consumer::new(Direction::Requests);
            let mut found = Vec::new();
            for tag in 0..14 {
                loop {
                    if let Some(head) = ring.take(&*world, &mut found, true).unwrap() {
                        assert_eq!(head, Head { tag, code: 1, key: 2, parameters: 3 });
                        assert!(found == content(tag));
                        ring.release(&*world);
                        break;
                    }
                    thread::yield_now();
                }
            }
            sender.join().unwrap();
        },
        SCHEDULES / 10,
    );
}

#[test]
fn neither_end_sleeps_while_there_is_something_for_it() {
    const JOBS: u64 = 3;
    check_random(
        || {
            let world = world();
            let own = Arc::clone(&world);
            let service = thread::spawn(move || {
                let (mut requests, mut answers) =
                    (Consumer::new(Direction::Requests), Producer::new(Direction::Answers));
                let mut found = Vec::new();
                let mut done = 0;
                while done < JOBS {
                    if let Some(head) = requests.take(&*own, &mut found, false).unwrap() {
                        requests.release(&*own);
                        answers.push(&*own, head, &[]).unwrap();
                        // It looks once more before it sleeps.
                        own.bells.service_is_awake();
                        answers.publish(&*own);
                        if own.bells.must_wake_client() {
                            own.client.ring();
                        }
                        done += 1;
                        continue;
                    }
                    own.bells.service_is_about_to_sleep();
                    if !requests.is_pending(&*own) {
                        own.service.wait();
                    }
                }
            });
            ask(&world, JOBS);
            service.join().unwrap();
        },
        SCHEDULES,
    );
}

/// The client's end: asks for `jobs` jobs, one after the other, and sleeps until each is answered.
fn ask(world: &World, jobs: u64) {
    let (mut requests, mut answers) = (Producer::new(Direction::Requests), Consumer::new(Direction::Answers));
    let mut found = Vec::new();
    for tag in 0..jobs {
        requests.push(world, Head { tag, ..Head::default() }, &[]).unwrap();
        requests.publish(world);
        if world.bells.must_wake_service() {
            world.service.ring();
        }
        while answers.take(world, &mut found, false).unwrap().is_none() {
            world.bells.client_is_about_to_wait();
            if !answers.is_pending(world) {
                world.client.wait();
            }
            world.bells.client_is_awake();
        }
        answers.release(world);
    }
}

/// Two workers share the service's ends. Each takes its announcement back and looks several times before it sleeps, while
/// the other may be asleep already.
#[test]
fn workers_that_spin_and_sleep_in_turn_miss_nothing() {
    const JOBS: u64 = 3;
    struct Ends {
        requests: Consumer,
        answers: Producer,
        done: u64,
    }
    fn serve(world: &World, ends: &Mutex<Ends>) -> bool {
        let mut ends = ends.lock().unwrap();
        let Some(head) = ends.requests.take(world, &mut Vec::new(), false).unwrap() else { return false };
        ends.requests.release(world);
        ends.answers.push(world, head, &[]).unwrap();
        world.bells.service_is_awake();
        ends.answers.publish(world);
        if world.bells.must_wake_client() {
            world.client.ring();
        }
        ends.done += 1;
        true
    }
    check_random(
        || {
            let world = world();
            let (requests, answers) = (Consumer::new(Direction::Requests), Producer::new(Direction::Answers));
            let ends = Arc::new(Mutex::new(Ends { requests, answers, done: 0 }));
            let workers = [(); 2].map(|()| {
                let (world, ends) = (Arc::clone(&world), Arc::clone(&ends));
                thread::spawn(move || {
                    while ends.lock().unwrap().done < JOBS {
                        world.bells.service_is_awake();
                        if (0..2).any(|_| serve(&world, &ends)) {
                            continue;
                        }
                        world.bells.service_is_about_to_sleep();
                        let is_pending = {
                            let ends = ends.lock().unwrap();
                            ends.done == JOBS || ends.requests.is_pending(&*world)
                        };
                        if !is_pending {
                            world.service.wait();
                        }
                    }
                    // The other worker ends as well.
                    world.service.ring();
                })
            });
            ask(&world, JOBS);
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        },
        SCHEDULES,
    );
}
