//! Tests of flows with one thread at a time.

use proptest::prelude::*;
use sealane_lanes::{Flow, Refused, Ticket};

type Numbers = Flow<u64, u64, Vec<u64>>;

fn next(flow: &Numbers) -> Option<(Ticket, u64)> {
    flow.give(|next, _| {
        *next += 1;
        Some(*next - 1)
    })
}

fn drain(flow: &Numbers) -> usize {
    flow.drain(|_| true, |taken, number| taken.push(number))
}

#[test]
fn a_flow_that_is_not_drained_gives_no_more() {
    let flow = Numbers::new(2, 0, Vec::new());
    let (first, second) = (next(&flow).unwrap(), next(&flow).unwrap());
    assert_eq!((next(&flow), flow.has_room()), (None, false));
    flow.restore(second.0, second.1).unwrap();
    assert_eq!(drain(&flow), 0, "the first is missing");
    flow.restore(first.0, first.1).unwrap();
    assert!(flow.is_ready() && !flow.has_room());
    assert_eq!(flow.drain(|_| false, |_, _| unreachable!("held back")), 0);
    assert_eq!(drain(&flow), 2);
    assert_eq!(next(&flow).map(|(_, number)| number), Some(2), "nothing was taken while there was no place");
}

#[test]
fn a_place_that_nobody_takes_is_not_given() {
    let flow = Numbers::new(2, 0, Vec::new());
    assert_eq!(flow.give(|_, _| None::<()>), None);
    assert_eq!(next(&flow).unwrap().0.number, 0);
}

#[test]
fn a_place_is_filled_once() {
    let flow = Numbers::new(2, 0, Vec::new());
    let (ticket, number) = next(&flow).unwrap();
    flow.restore(ticket, number).unwrap();
    assert_eq!(flow.restore(ticket, 7), Err(Refused::Misplaced(7)));
    let never_given = Ticket { number: 9, ..ticket };
    assert_eq!(flow.restore(never_given, 7), Err(Refused::Misplaced(7)));
}

#[test]
fn a_cut_hands_back_what_waits_and_refuses_what_is_out() {
    let flow = Numbers::new(4, 0, Vec::new());
    let given: Vec<_> = (0..3).map(|_| next(&flow).unwrap()).collect();
    flow.restore(given[1].0, given[1].1).unwrap();
    assert_eq!(flow.cut(|_, _, waiting| waiting), [1]);
    assert_eq!(next(&flow), None, "a flow that is cut gives no places");
    assert_eq!(flow.restore(given[0].0, 0), Err(Refused::Stale(0)));
    assert_eq!(flow.open(|next, _| *next = 100), 1);
    let (ticket, number) = next(&flow).unwrap();
    assert_eq!((ticket, number), (Ticket { generation: 1, number: 0 }, 100));
    assert_eq!(
        flow.restore(given[2].0, 2),
        Err(Refused::Stale(2)),
        "its number is given again, its opening is not"
    );
    flow.restore(ticket, number).unwrap();
    assert_eq!(drain(&flow), 1);
    flow.with_restored(|taken| assert_eq!(*taken, [100]));
}

#[test]
fn a_flow_that_is_closed_takes_back_what_is_out() {
    let flow = Numbers::new(4, 0, Vec::new());
    let given: Vec<_> = (0..3).map(|_| next(&flow).unwrap()).collect();
    assert_eq!(flow.close(|next| *next), 3);
    assert_eq!((next(&flow), flow.has_room(), flow.out()), (None, false, 3));
    for (ticket, number) in given.into_iter().rev() {
        flow.restore(ticket, number).unwrap();
    }
    assert_eq!((drain(&flow), flow.out()), (3, 0));
    assert_eq!(flow.open(|_, _| {}), 0, "nothing was cut off");
    assert_eq!(next(&flow).unwrap().1, 3);
}

#[test]
fn who_visits_looks_whether_something_left_or_not() {
    let flow = Numbers::new(4, 0, Vec::new());
    let visit = |may| {
        let mut seen = None;
        let taken = flow.visit(|_| may, |taken, number| taken.push(number), |taken| seen = Some(taken.len()));
        (taken, seen)
    };
    assert_eq!(visit(true), (0, Some(0)));
    let (ticket, number) = next(&flow).unwrap();
    flow.restore(ticket, number).unwrap();
    assert_eq!(visit(false), (0, Some(0)));
    assert_eq!(visit(true), (1, Some(1)));
    flow.with_restored(|_| assert_eq!(visit(true), (0, None), "another is at it"));
}

/// As in a sending stream, an item that `take` begins goes out at the next call of `may_take`.
#[test]
fn what_is_taken_last_goes_out_in_the_same_visit() {
    #[derive(Default)]
    struct End {
        begun: Option<u64>,
        out: Vec<u64>,
    }
    let flow = Flow::new(4, (), End::default());
    let bring = |number| {
        let (ticket, ()) = flow.give(|(), _| Some(())).unwrap();
        flow.restore(ticket, number).unwrap();
    };
    let write = |end: &mut End| {
        end.out.extend(end.begun.take());
        true
    };
    bring(0);
    bring(1);
    let mut seen = Vec::new();
    let begin = |end: &mut End, number| end.begun = Some(number);
    assert_eq!(flow.visit(write, begin, |end| seen.push(end.out.clone())), 2);
    assert_eq!(seen, [[0, 1]], "all are out before the look");
    let mut takes = true;
    bring(2);
    bring(3);
    assert_eq!(
        flow.drain(|_| std::mem::replace(&mut takes, false), begin),
        1,
        "the second was not to be taken"
    );
    assert!(flow.is_ready());
}

proptest! {
    /// Lanes bring back their items in any order; now and then the flow is drained or cut.
    #[test]
    fn any_schedule_leaves_in_order(
        choices in prop::collection::vec((any::<prop::sample::Index>(), 0..20u8), 1..300), capacity in 1..9usize,
    ) {
        let flow = Numbers::new(capacity, 0, Vec::new());
        let mut out = Vec::new();
        let (mut returned, mut refused) = (0, 0);
        for (choice, action) in choices {
            match action {
                0 => {
                    returned += flow.cut(|_, _, waiting| waiting.len());
                    flow.open(|_, _| {});
                }
                1..8 => out.extend(next(&flow)),
                8..12 => drop(drain(&flow)),
                _ if out.is_empty() => {}
                _ => {
                    let (ticket, number) = out.swap_remove(choice.index(out.len()));
                    refused += usize::from(flow.restore(ticket, number).is_err());
                }
            }
        }
        let waiting = flow.cut(|_, _, waiting| waiting.len());
        let given = flow.with_given(|next| *next) as usize;
        flow.with_restored(|taken| {
            assert!(taken.is_sorted());
            assert_eq!(taken.len() + waiting + returned + refused + out.len(), given);
        });
    }
}
