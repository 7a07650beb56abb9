//! Queues whose lanes are slow at random times, with associations that all or some of them share.

use std::{num::NonZeroUsize, thread, time::Duration};

use sealane_engine::{Engine as _, Implementations, Inline, Submitter, Work};
use sealane_ipsec::{lifetime::Lifetime, policy::PeerId};

use super::*;
use crate::{
    in_memory::association,
    pipeline::{LOADS, Loads, Processor},
};

/// Ranges of numbers under associations, in order.
#[derive(Debug, Default)]
struct Ranges {
    all: Vec<(usize, Arc<Outbound>, u64, Turn)>,
    sent: usize,
}

impl Recycle for Ranges {
    fn recycle(&mut self) {
        self.all.clear();
        self.sent = 0;
    }
}

impl Awaits for Ranges {
    fn awaited(&self) -> Option<(&Arc<Outbound>, Turn)> {
        self.all.get(self.sent).map(|(_, outbound, _, turn)| (outbound, *turn))
    }
}

/// A lane that is slow now and then.
struct Slow {
    engine: Loads<Ranges>,
    dice: u64,
}

impl Slow {
    fn new(seed: u64) -> Self {
        let queue = Inline::new(Implementations::default()).queue(NonZeroUsize::MIN);
        let engine = Submitter::new(queue.expect("an inline queue takes nothing"), LOADS.get());
        Self { engine, dice: seed * 2 + 1 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % bound
    }
}

impl Processor<Ranges> for Slow {
    fn begin(&mut self, _: &mut Ranges) -> Option<Work> {
        match self.below(20) {
            0 => thread::sleep(Duration::from_micros(300)),
            1..10 => thread::yield_now(),
            _ => {}
        }
        None
    }

    fn end(&mut self, _: &mut Ranges, _: Work) {
        unreachable!("there is no work")
    }

    fn engine(&mut self) -> &mut Loads<Ranges> {
        &mut self.engine
    }
}

/// Returns associations, which differ in their SPIs.
fn associations(count: u32) -> Vec<Arc<Outbound>> {
    let suite = "aes-128-gcm".parse().expect("a suite");
    let made = (0..count).map(|at| {
        let (peer, lifetime, now) = (PeerId(at), Lifetime::default(), std::time::Instant::now());
        association(Implementations::default(), suite, 0x100 + at, peer, 7, lifetime, now)
    });
    made.map(|both| both.expect("good parameters").0).collect()
}

/// Whatever the times at which lanes are slow, all that is numbered leaves, and under each association in the order of its numbers.
#[test]
fn what_queues_number_under_one_association_leaves_in_its_order() {
    const QUEUES: usize = 4;
    const LOADS: u64 = 400;
    // Associations that all queues share, and one more for each queue.
    for (shared, lanes) in [(1, 1), (2, 2), (0, 1)] {
        let all = associations(shared + QUEUES as u32);
        let left: Vec<Mutex<Vec<u64>>> = all.iter().map(|_| Mutex::default()).collect();
        let beside = Beside::new(QUEUES);
        let pipelines: Vec<_> = (0..QUEUES as u64)
            .map(|at| Pipeline::new(lanes, Ranges::default, (0, Slow::new(at)), ()))
            .collect();
        let send = |queue: usize, (): &mut (), load: &mut Ranges| {
            beside.send(queue, load, |load: &mut Ranges| {
                while let Some((at, outbound, number, turn)) = load.all.get(load.sent) {
                    if !outbound.turns().is_next(*turn) {
                        return Ok(Sent::Waits);
                    }
                    left[*at].lock().expect("nobody panics holding it").push(*number);
                    outbound.turns().end(*turn);
                    load.sent += 1;
                }
                Ok(Sent::Whole)
            })
        };
        thread::scope(|scope| {
            for lane in 0..QUEUES * lanes {
                let (queue, pipelines, all, beside, send) = (lane % QUEUES, &pipelines, &all, &beside, &send);
                scope.spawn(move || {
                    let mut slow = Slow::new(100 + lane as u64);
                    let ended = pipelines[queue].run_beside(
                        &mut slow,
                        |_| None,
                        |(loads, dice), load| {
                            if *loads == LOADS {
                                return Err(io::ErrorKind::UnexpectedEof.into());
                            }
                            *loads += 1;
                            for _ in 0..dice.below(4) {
                                let at = dice.below(u64::from(shared) + 1) as usize;
                                let at = if at == shared as usize { at + queue } else { at };
                                let outbound = &all[at];
                                let given = outbound.turns().give(|| outbound.numbers().reserve(1));
                                let (number, turn) = given.expect("there are numbers");
                                load.all.push((at, Arc::clone(outbound), number.start, turn));
                            }
                            Ok(())
                        },
                        |to, load| send(queue, to, load),
                        || beside.settle(pipelines, send),
                    );
                    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
                });
            }
        });
        assert_eq!(beside.waiting.load(Relaxed), 0, "nothing is left");
        for (left, outbound) in left.into_iter().zip(&all) {
            let left = left.into_inner().expect("nobody panics holding it");
            assert_eq!(left, (1..outbound.numbers().next()).collect::<Vec<_>>());
        }
    }
}

/// A load waits without keeping its lane, and the one that ends the turn before sends it.
#[test]
fn a_load_whose_turn_has_not_come_leaves_by_the_hands_of_the_one_before() {
    let all = associations(1);
    let outbound = &all[0];
    let beside = Beside::new(2);
    let take = || outbound.turns().give(|| outbound.numbers().reserve(1)).expect("there are numbers").1;
    let [first, second] = [take(), take()];
    let pipelines: Vec<_> = [first, second]
        .into_iter()
        .map(|turn| Pipeline::new(1, Ranges::default, Some(turn), Vec::new()))
        .collect();
    let send = |queue: usize, left: &mut Vec<Turn>, load: &mut Ranges| {
        beside.send(queue, load, |load: &mut Ranges| {
            let Some((_, outbound, _, turn)) = load.all.get(load.sent) else { return Ok(Sent::Whole) };
            if !outbound.turns().is_next(*turn) {
                return Ok(Sent::Waits);
            }
            left.push(*turn);
            outbound.turns().end(*turn);
            load.sent += 1;
            Ok(Sent::Whole)
        })
    };
    // The lane of the second queue ends before that of the first begins.
    for queue in [1, 0] {
        let ended = pipelines[queue].run_beside(
            &mut Slow::new(1),
            |_| None,
            |turn: &mut Option<Turn>, load: &mut Ranges| {
                let turn = turn.take().ok_or(io::ErrorKind::UnexpectedEof)?;
                load.all.push((0, Arc::clone(outbound), 0, turn));
                Ok(())
            },
            |left, load| send(queue, left, load),
            || beside.settle(&pipelines, send),
        );
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(beside.waits(1), queue == 1);
        assert_eq!(outbound.turns().is_next(first), queue == 1);
    }
    assert!(!outbound.turns().is_next(second), "it has left");
}
