//! Tests of the order ring.

use proptest::prelude::*;
use sealane_lanes::OrderRing;

#[test]
fn refuses_what_is_too_far_too_late_or_twice() {
    let mut ring = OrderRing::new(5, 2);
    assert_eq!(ring.insert(7, 'x'), Err('x'));
    assert_eq!(ring.insert(4, 'x'), Err('x'));
    assert_eq!(ring.insert(6, 'b'), Ok(()));
    assert_eq!(ring.insert(6, 'x'), Err('x'));
    assert_eq!(ring.pop(), None);
    assert_eq!(ring.insert(5, 'a'), Ok(()));
    assert_eq!((ring.pop(), ring.pop(), ring.pop()), (Some('a'), Some('b'), None));
    assert_eq!(ring.head(), 7);
}

proptest! {
    /// For any schedule of `lanes` workers over a ring that has room for them, items leave in order.
    #[test]
    fn any_schedule_comes_out_in_order(choices in prop::collection::vec(any::<prop::sample::Index>(), 1..200), lanes in 1..9usize) {
        let mut ring = OrderRing::new(0, lanes);
        let mut in_flight = Vec::new();
        let (mut next, mut out) = (0u64, Vec::new());
        for choice in choices {
            while in_flight.len() < lanes && ring.admits(next) {
                in_flight.push(next);
                next += 1;
            }
            let finished = in_flight.swap_remove(choice.index(in_flight.len()));
            prop_assert_eq!(ring.insert(finished, finished), Ok(()));
            while let Some(ticket) = ring.pop() {
                out.push(ticket);
            }
        }
        prop_assert!(out.iter().copied().eq(0..out.len() as u64));
    }
}
