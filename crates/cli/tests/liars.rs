//! A hostile peer that is accepted: whatever it sends, the honest end stays alive or reports an error, writes nothing
//! outside the target and nothing wrong under a final name, and uses a bounded amount of memory.
//!
//! `SEALANE_LIE=NUMBER` runs a single lie.

mod lying;
mod program;
mod support;

use lying::scene::Scene;
use std::sync::Mutex;
use support::many;

#[test]
fn no_lie_does_harm() {
    let scenes = [(); 4].map(|()| Mutex::new(Scene::set()));
    let one: Option<u64> = std::env::var("SEALANE_LIE").ok().map(|text| text.parse().expect("a number"));
    let count = if one.is_some() { 1 } else { Scene::lies() as u64 };
    many("lie", "SEALANE_LIE=<seed>", one.unwrap_or(0), count, |number, worker| {
        let mut scene = scenes[worker].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        scene.tell(number as usize)
    });
}

#[test]
fn a_far_end_that_floods_does_not_keep_its_client_from_being_interrupted() {
    Scene::set().interrupt_a_flood().unwrap_or_else(|reason| panic!("{reason}"));
}

#[test]
fn a_stream_is_joined_once_and_by_its_own_name() {
    Scene::set().lie_about_joins().unwrap_or_else(|reason| panic!("{reason}"));
}

#[test]
fn content_goes_ahead_of_a_proof_only_where_nobody_can_read_it() {
    Scene::set().listen_without_an_answer().unwrap_or_else(|reason| panic!("{reason}"));
}

#[test]
fn content_ahead_of_a_proof_is_not_read() {
    Scene::set().push_ahead().unwrap_or_else(|reason| panic!("{reason}"));
}

#[test]
fn a_stream_that_is_lost_after_the_end_takes_nothing_away() {
    Scene::set().tell_late().unwrap_or_else(|reason| panic!("{reason}"));
}
