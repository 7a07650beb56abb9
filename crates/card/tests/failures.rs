//! Cards fail in every way without a loss of works by the scheduler, under virtual time and under the system's clock.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "../../../testing/late_engine.rs"]
mod late_engine;
mod world;

use std::{
    collections::VecDeque,
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    thread,
    time::Duration,
};

use common::{
    AES_CTR, ESP_CBC, Random, SHA256_128, copy_of, every_work_comes_back_done,
    no_more_than_its_depth_is_held, random_work, run, session,
};
use late_engine::LateEngine;
use sealane_card::{Card, Condition, KINDS, Timing};
use sealane_engine::{
    Buffer, Cost, Direction, Engine, EngineChoice, Implementations, Inline, JobStatus, Lanes, MemberReport,
    Operations, Policy, Protection, Queue as _, Scheduler, SchedulerQueue, Session, Span, Submitter, Trust,
    Work,
};
use sealane_lanes::Clock;
use sealane_transform::{Aead, Asymmetric, AsymmetricJob, Kernels, Tier};
use world::World;

/// The timing of a card that does not delay tests.
const FAST: Timing = Timing {
    line: Cost { fixed_ns: 2000.0, byte_ns: 1.0 },
    host: Cost { fixed_ns: 500.0, byte_ns: 0.1 },
    answer_ns: 100.0,
    units: 2,
};

const EIGHT: NonZeroUsize = NonZeroUsize::new(8).unwrap();
const EVERY: Trust = Trust::Checked { one_in: NonZeroU32::MIN };

fn sessions() -> Vec<Arc<Session>> {
    let protections = [Protection::Aead(Aead::Aes128Gcm), ESP_CBC, Protection::Cipher(AES_CTR), SHA256_128];
    protections.map(|protection| session(Implementations::default(), protection, 5)).to_vec()
}

/// Returns the work of this number; every other work is to be opened, and some of its jobs are forged.
fn work_of(sessions: &[Arc<Session>], number: u64) -> Work {
    let mut work = random_work(sessions, 1 + (number % 6) as u32, 200, number);
    if number % 2 == 1 {
        work = run(&Inline::default(), work);
        work.direction = Direction::Open;
        work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
        if number.is_multiple_of(3) {
            let tag = work.jobs[0].tag;
            work.buffer.bytes_mut()[tag.range()].iter_mut().for_each(|byte| *byte ^= 1);
        }
    }
    work.token = number;
    work
}

/// Asserts that both have the same outcome: each job's status, and all bytes but those of jobs whose tags are wrong.
#[track_caller]
fn assert_same(mut work: Work, mut own: Work, what: &str) {
    assert_eq!(work.jobs, own.jobs, "{what}");
    for work in [&mut work, &mut own] {
        for job in work.jobs.iter().filter(|job| job.status == JobStatus::Forged) {
            work.buffer.bytes_mut()[job.body.range()].fill(0);
        }
    }
    assert!(work.buffer.bytes() == own.buffer.bytes(), "bytes of {what}");
}

/// Runs works through queues of a scheduler, and counts those that came back.
struct Client {
    queue: SchedulerQueue,
    waiting: VecDeque<Work>,
    missing: usize,
}

/// Runs several clients on cards that fail. Returns the reports.
fn run_failing(seed: u64, works: &[Work], expected: &[Work]) -> Vec<MemberReport> {
    const WORKS: usize = 24;
    let mut dice = Random::new(seed);
    let policies = [Policy::LeastExpected, Policy::RoundRobin, Policy::InOrder, Policy::BySize { bytes: 80 }];
    let policy = policies[dice.below(4) as usize];
    let cards: Vec<_> = (0..=dice.below(2))
        .map(|card| (Timing::FOUR_HIFN_7751, Some(2 * seed + u64::from(card)), EVERY))
        .collect();
    let world = World::new(policy, &cards, dice.below(2) == 0);
    let mut is_back = vec![false; expected.len()];
    let mut numbers = 0..expected.len() as u64;
    let mut clients: Vec<Client> = (0..=dice.below(2))
        .map(|_| {
            let depth = NonZeroUsize::new(1 + dice.below(6) as usize).unwrap();
            let waiting: VecDeque<Work> =
                numbers.by_ref().take(WORKS).map(|number| copy_of(&works[number as usize])).collect();
            Client { queue: world.scheduler.timed_queue(depth).unwrap(), missing: waiting.len(), waiting }
        })
        .collect();
    while clients.iter().any(|client| client.missing > 0) {
        let mut any = false;
        for client in &mut clients {
            // Not all works are submitted at once, so that conditions change in between.
            let mut some: VecDeque<Work> = client.waiting.drain(..client.waiting.len().min(2)).collect();
            any |= client.queue.submit(&mut some) > 0;
            some.into_iter().rev().for_each(|work| client.waiting.push_front(work));
            while let Some(work) = client.queue.finished() {
                any = true;
                let number = work.token as usize;
                assert!(!is_back[number], "seed {seed}: work {number} came twice");
                is_back[number] = true;
                client.missing -= 1;
                assert_same(work, copy_of(&expected[number]), &format!("work {number}, seed {seed}"));
            }
        }
        if dice.below(40) == 0 && clients.len() > 1 {
            // One client ends with works under way.
            clients.pop();
        }
        if !any {
            world.wait(clients.iter().map(|client| &client.queue));
        } else if dice.below(4) == 0 {
            world.clock.advance_to(world.clock.now() + Duration::from_millis(dice.below(30).into()));
        }
    }
    world.reports()
}

#[test]
fn no_work_is_lost_or_answered_twice_while_cards_fail_at_random() {
    const SEEDS: u64 = 500;
    let sessions = sessions();
    let works: Vec<Work> = (0..48).map(|number| work_of(&sessions, number)).collect();
    let expected: Vec<Work> = works.iter().map(|work| run(&Inline::default(), copy_of(work))).collect();
    let reports: Vec<MemberReport> = (0..SEEDS)
        .flat_map(|seed| run_failing(seed, &works, &expected))
        .filter(|report| report.name == "card")
        .collect();
    let sum = |count: fn(&MemberReport) -> u64| reports.iter().map(count).sum::<u64>();
    let found = [
        sum(|report| report.answered_works),
        sum(|report| report.late_works),
        sum(|report| report.refused_works),
        sum(|report| report.wrong_works),
    ];
    assert!(found.iter().all(|&count| count > 50), "answered, late, refused, wrong: {found:?}");
}

/// Submits works until the card has failed, and asserts that all come back with correct results.
fn submit_all(world: &World, queue: &mut SchedulerQueue, works: impl IntoIterator<Item = Work>) -> usize {
    let mut waiting: VecDeque<Work> = works.into_iter().collect();
    let all = waiting.len();
    let mut back = 0;
    while back < all {
        let mut any = queue.submit(&mut waiting) > 0;
        while let Some(work) = queue.finished() {
            let number = work.token;
            let own = run(&Inline::default(), work_of(&work.sessions, number));
            assert_same(work, own, &format!("work {number}"));
            (back, any) = (back + 1, true);
        }
        if !any {
            world.wait([&*queue]);
        }
    }
    back
}

#[test]
fn a_card_that_hangs_is_left_and_taken_up_again() {
    let sessions = sessions();
    let world = World::new(Policy::InOrder, &[(FAST, None, EVERY)], true);
    let mut queue = world.scheduler.timed_queue(EIGHT).unwrap();
    let works = |from: u64| (from..from + 20).map(|number| work_of(&sessions, number)).collect::<Vec<_>>();
    submit_all(&world, &mut queue, works(0));
    assert_eq!(world.reports()[0].answered_works, 20);
    world.cards[0].set(Condition::Hung);
    let before = world.passed();
    submit_all(&world, &mut queue, works(20));
    assert!(world.passed() - before < Duration::from_millis(200), "{:?}", world.passed() - before);
    let hung = world.reports();
    assert!(hung[0].late_works > 0 && !hung[0].is_used && hung[1].answered_works == 20, "{hung:?}");
    // The card's answers are now late, and dropped.
    world.cards[0].set(Condition::Sound);
    world.clock.advance_to(world.clock.now() + Duration::from_secs(10));
    submit_all(&world, &mut queue, works(40));
    // The card answers the known question meanwhile.
    world.clock.advance_to(world.clock.now() + Duration::from_secs(1));
    assert!(queue.finished().is_none());
    submit_all(&world, &mut queue, works(60));
    let back = world.reports();
    assert!(back[0].is_used && back[0].answered_works == 40, "{back:?}");
}

/// A lane that submits and fetches in turns, and always has a finished work left, gives a card its chance as well.
#[test]
fn a_lane_that_never_drains_its_queue_takes_a_card_up_again() {
    let sessions = sessions();
    let world = World::new(Policy::InOrder, &[(FAST, None, EVERY)], true);
    let mut queue = world.scheduler.timed_queue(EIGHT).unwrap();
    world.cards[0].set(Condition::Hung);
    submit_all(&world, &mut queue, (0..8).map(|number| work_of(&sessions, number)));
    assert!(!world.reports()[0].is_used);
    world.cards[0].set(Condition::Sound);
    let submit = |queue: &mut SchedulerQueue, number| {
        let mut waiting = VecDeque::from([work_of(&sessions, number)]);
        assert_eq!(queue.submit(&mut waiting), 1);
    };
    submit(&mut queue, 8);
    let mut number = 9;
    while !world.reports()[0].is_used {
        assert!(number < 2_000, "the card is not used again: {:?}", world.reports());
        submit(&mut queue, number);
        let work = queue.finished().expect("one of two works has run on this lane");
        let own = run(&Inline::default(), work_of(&sessions, work.token));
        let what = format!("work {}", work.token);
        assert_same(work, own, &what);
        world.clock.advance_to(world.clock.now() + Duration::from_millis(5));
        number += 1;
    }
    assert!(queue.in_flight() > 0, "the queue was never empty");
}

#[test]
fn a_card_that_lies_is_found_by_a_sample() {
    let sessions = sessions();
    let sample = Trust::Checked { one_in: NonZeroU32::new(4).unwrap() };
    let world = World::new(Policy::InOrder, &[(FAST, None, sample)], true);
    let mut queue = world.scheduler.timed_queue(NonZeroUsize::MIN).unwrap();
    world.cards[0].set(Condition::Wrong);
    let mut wrong = 0;
    let mut waiting: VecDeque<Work> = (0..60).map(|number| work_of(&sessions, 2 * number)).collect();
    while !waiting.is_empty() || queue.in_flight() > 0 {
        queue.submit(&mut waiting);
        match queue.finished() {
            None if queue.in_flight() > 0 => world.wait([&queue]),
            None => {}
            Some(work) => {
                let own = run(&Inline::default(), work_of(&sessions, work.token));
                wrong += usize::from(work.buffer.bytes() != own.buffer.bytes());
            }
        }
    }
    let reports = world.reports();
    assert!(!reports[0].is_used && reports[0].wrong_works == 1, "{reports:?}");
    assert!(wrong <= 4, "{wrong} wrong works passed before one was sampled");
}

/// The lane detects forged packets as well, so the card is neither blamed for them nor trusted without a check.
#[test]
fn forged_packets_are_no_fault_of_the_card() {
    let sessions = [session(Implementations::default(), ESP_CBC, 1)];
    let world =
        World::new(Policy::InOrder, &[(FAST, None, Trust::Checked { one_in: NonZeroU32::MAX })], true);
    let mut queue = world.scheduler.timed_queue(EIGHT).unwrap();
    let mut work = run(&Inline::default(), random_work(&sessions, 20, 100, 3));
    work.direction = Direction::Open;
    work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
    for index in [0, 7] {
        let tag = work.jobs[index].tag;
        work.buffer.bytes_mut()[tag.start as usize] ^= 1;
    }
    let own = run(&Inline::default(), copy_of(&work));
    let mut waiting = VecDeque::from([work]);
    queue.submit(&mut waiting);
    let answered = loop {
        match queue.finished() {
            Some(work) => break work,
            None => world.wait([&queue]),
        }
    };
    assert_eq!(answered.jobs, own.jobs);
    assert_eq!(answered.jobs.iter().filter(|job| job.status == JobStatus::Forged).count(), 2);
    assert!(answered.buffer.bytes() == own.buffer.bytes() && world.reports()[0].is_used);
}

/// Jobs that share bytes run in their order, so they are not given to an engine whose results are checked one by one.
#[test]
fn jobs_that_share_bytes_stay_with_trusted_engines() {
    let sessions = [session(Implementations::default(), Protection::Cipher(AES_CTR), 1)];
    let world = World::new(Policy::InOrder, &[(FAST, None, EVERY)], true);
    let mut queue = world.scheduler.timed_queue(EIGHT).unwrap();
    let mut work = random_work(&sessions, 4, 100, 3);
    let again = work.jobs[0];
    work.jobs.push(again);
    let own = run(&Inline::default(), copy_of(&work));
    queue.submit(&mut VecDeque::from([work]));
    assert!(queue.finished().unwrap().buffer.bytes() == own.buffer.bytes());
    assert_eq!(world.reports()[1].answered_works, 1);
}

#[test]
fn policies_choose_as_they_say() {
    let sessions = sessions();
    let works = |bytes: u32| (0..30).map(move |number| (number, bytes));
    let counts = |policy, bytes: u32| {
        let world = World::new(policy, &[(FAST, None, EVERY), (FAST, None, EVERY)], true);
        let mut queue = world.scheduler.timed_queue(NonZeroUsize::MIN).unwrap();
        for (number, bytes) in works(bytes) {
            let mut work = random_work(&sessions[..1], 1, 16, number);
            work.buffer = Buffer::new(bytes as usize + 16);
            work.jobs[0].clear = Span::default();
            (work.jobs[0].body, work.jobs[0].tag) = (Span::new(0, bytes), Span::new(bytes, 16));
            queue.submit(&mut VecDeque::from([work]));
            while queue.finished().is_none() {
                world.wait([&queue]);
            }
        }
        world.reports().iter().map(|report| report.answered_works).collect::<Vec<_>>()
    };
    assert_eq!(counts(Policy::RoundRobin, 100), [10, 10, 10]);
    assert_eq!(counts(Policy::InOrder, 100), [30, 0, 0]);
    assert_eq!(counts(Policy::BySize { bytes: 100 }, 99), [0, 0, 30]);
    assert_eq!(counts(Policy::BySize { bytes: 100 }, 100), [30, 0, 0]);
}

/// Threads use cards that fail by the system's clock; the engine beside them asserts that no nonce protects two
/// texts.
#[test]
fn threads_lose_nothing_while_cards_fail() {
    const WORKS: u64 = 60;
    let sessions = sessions();
    let card = |seed| Arc::new(Card::new(FAST, EIGHT, Some(seed), Clock::Real).unwrap()) as Arc<dyn Engine>;
    let engines = vec![card(1), Arc::new(LateEngine::new(2)), card(3)];
    let scheduler = Scheduler::new(Policy::RoundRobin, engines, Clock::Real);
    thread::scope(|scope| {
        for lane in 0..3 {
            let (scheduler, sessions) = (&scheduler, &sessions);
            scope.spawn(move || {
                let mut submitter = Submitter::new(scheduler.queue(EIGHT).unwrap(), 8);
                let mut missing: Vec<u64> = (0..WORKS).map(|work| 2 * (3 * work + lane)).collect();
                missing.iter().for_each(|&number| submitter.submit(work_of(sessions, number), number));
                while let Some((work, number)) = submitter.wait() {
                    let own = run(&Inline::default(), work_of(sessions, number));
                    assert!(work.jobs == own.jobs && work.buffer.bytes() == own.buffer.bytes(), "{number}");
                    let place = missing.iter().position(|&other| other == number).expect("it comes once");
                    missing.swap_remove(place);
                }
                assert!(missing.is_empty());
            });
        }
    });
}

/// An engine that may fail is never used alone, even if the user asks for it.
#[test]
fn a_card_that_is_chosen_alone_has_the_lane_behind_it() {
    let sessions = sessions();
    let engine =
        EngineChoice::among(KINDS, "card:faults=9").unwrap().make(Implementations::default()).unwrap();
    let mut submitter = Submitter::new(engine.queue(EIGHT).unwrap(), 8);
    (0..100).for_each(|number| submitter.submit(work_of(&sessions, number), number));
    let mut back = 0;
    while let Some((work, number)) = submitter.wait() {
        let own = run(&Inline::default(), work_of(&sessions, number));
        assert_same(work, own, &format!("work {number}"));
        back += 1;
    }
    assert_eq!(back, 100);
}

/// Small works of many submitters run as one, and each comes back as if it had run alone.
#[test]
fn works_that_were_gathered_come_back_as_if_they_had_run_alone() {
    let sessions = sessions();
    let lanes =
        Lanes::gathering(Kernels::best(), NonZeroUsize::MIN, EIGHT, Duration::from_micros(200)).unwrap();
    thread::scope(|scope| {
        for lane in 0..4 {
            let (lanes, sessions) = (&lanes, &sessions);
            scope.spawn(move || {
                let mut submitter = Submitter::new(lanes.queue(EIGHT).unwrap(), 8);
                for number in 0..100 {
                    submitter.submit(work_of(sessions, 4 * number + lane), 4 * number + lane);
                    if number.is_multiple_of(3) {
                        while let Some((work, number)) = submitter.wait() {
                            let own = run(&Inline::default(), work_of(sessions, number));
                            assert_same(work, own, &format!("work {number}"));
                        }
                    }
                }
            });
        }
    });
}

/// The card alone, and beside threads, does what every engine does.
#[test]
fn a_card_is_an_engine_like_any_other() {
    let two = NonZeroUsize::new(2).unwrap();
    let card = || Card::new(FAST, two, None, Clock::Real).unwrap();
    let lanes = Lanes::new(Kernels::best(), two, two).unwrap();
    let both: Vec<Arc<dyn Engine>> = vec![Arc::new(card()), Arc::new(lanes)];
    for engine in [&card() as &dyn Engine, &Scheduler::new(Policy::RoundRobin, both, Clock::Real)] {
        every_work_comes_back_done(engine);
        no_more_than_its_depth_is_held(engine);
    }
}

/// A card has no public-key operations, and leaves them to the caller.
#[test]
fn operations_that_a_card_does_not_have_are_done_by_its_caller() {
    let card = Card::new(Timing::FOUR_HIFN_7751, EIGHT, None, Clock::still()).unwrap();
    let steps = Asymmetric::ALL.into_iter().flat_map(|algorithm| algorithm.steps());
    let mut jobs: Vec<AsymmetricJob> = steps.map(|step| AsymmetricJob::new((step.sample)())).collect();
    let answers = |jobs: &[AsymmetricJob]| -> Vec<Option<Vec<u8>>> {
        jobs.iter().map(|job| job.answer().unwrap().ok().map(<[u8]>::to_vec)).collect()
    };
    Kernels::select(Some(Tier::Native), None).unwrap().asymmetric(&mut jobs);
    let expected = answers(&jobs);
    jobs.iter_mut().for_each(AsymmetricJob::reset);
    Operations::new(&card).unwrap().run(&mut jobs);
    assert_eq!(answers(&jobs), expected);
}

/// Only a study can choose a card, and each text of one names an engine that runs.
#[test]
fn a_card_is_chosen_among_the_kinds_of_studies() {
    assert!("card".parse::<EngineChoice>().is_err());
    for text in ["card", "card:faults=7", "hybrid:card,lanes", "round-robin:card,card:faults=1,inline"] {
        let engine = EngineChoice::among(KINDS, text).unwrap().make(Implementations::default()).unwrap();
        assert_eq!(engine.name(), text.split(':').next().unwrap());
        let mut queue = engine.queue(NonZeroUsize::MIN).unwrap();
        assert_eq!(queue.submit(&mut VecDeque::from([Work::default()])), 1);
    }
    for text in ["card:", "card:faults=", "card:faults=x", "cart"] {
        let error = EngineChoice::among(KINDS, text).unwrap_err();
        assert!(error.to_string().contains("card[:faults=SEED|:time-only|:processor], inline"), "{error}");
    }
}

/// A card that takes time only answers when the card would, with the bytes that it was given; it is the lab's alone to choose.
#[test]
fn a_card_may_take_time_and_nothing_else() {
    let leaves_bytes = |text: &str| {
        let engine = EngineChoice::among(KINDS, text).unwrap().make(Implementations::default()).unwrap();
        let mut submitter = Submitter::new(engine.queue(EIGHT).unwrap(), 8);
        let work = work_of(&sessions()[2..3], 4);
        let before = copy_of(&work);
        submitter.submit(work, ());
        let (after, ()) = submitter.wait().expect("an answer");
        assert!(after.jobs.iter().all(|job| job.status == JobStatus::Done), "{text}");
        before.buffer.bytes() == after.buffer.bytes()
    };
    assert_eq!(["card:time-only", "card:processor", "card"].map(leaves_bytes), [true, true, false]);
    assert!("card:time-only".parse::<EngineChoice>().is_err());
}
