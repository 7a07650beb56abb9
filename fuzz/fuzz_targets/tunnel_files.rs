//! Site files, files of users, counter files, lists of the system's users, control questions and the messages of a
//! call: any bytes are a value or an error that points into them, and a host can be configured as any site demands.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sealane_tunnel::{
    control::{Answer, Ask},
    counter_file, credentials,
    host::{
        Wanted,
        plan::{State, Step, plan},
    },
    keying::agreement::{Answer as CallAnswer, Offer},
    privilege,
    site::Site,
};

/// Checks that an otherwise empty host can be configured as a site demands, and is so after the plan's steps.
fn settles(wanted: &Wanted) {
    let mut state = State { device: Some(7), is_up: true, ..State::default() };
    let first = plan(wanted, &state);
    assert!(first.conflicts.is_empty(), "{:?}", first.conflicts);
    for step in first.steps {
        match step {
            Step::AddAddress { address, bits, .. } => state.addresses.push((address, bits)),
            Step::AddRoute(route) => state.routes.push(route),
            Step::AddRule(rule) => state.rules.push(rule),
            Step::DeleteAddress { .. } | Step::DeleteRoute(_) | Step::DeleteRule(_) => {
                panic!("takes away from a host that has nothing: {step}")
            }
        }
    }
    let second = plan(wanted, &state);
    assert!(second.conflicts.is_empty() && second.steps.is_empty(), "{second:?}");
}

fuzz_target!(|bytes: &[u8]| {
    let _ = serde_json::from_slice::<Ask>(bytes);
    if let Ok(Answer::Status(status)) = serde_json::from_slice(bytes) {
        let _ = (status.text(), status.prometheus());
    }
    if let Ok(offer) = Offer::parse(bytes) {
        assert_eq!(Offer::parse(&offer.to_bytes()), Ok(offer));
    }
    if let Ok(answer) = CallAnswer::parse(bytes) {
        assert_eq!(answer.to_bytes(), bytes);
    }
    if let Some(next) = counter_file::parse(bytes) {
        assert_eq!(counter_file::parse(counter_file::text(next).as_bytes()), Some(next));
    }
    let _ = privilege::find(bytes, privilege::USER);
    let Ok(text) = str::from_utf8(bytes) else { return };
    let _ = credentials::parse_users(text);
    match Site::parse(Path::new("site.toml"), text) {
        Ok(site) => {
            // The device's name is used in commands.
            assert!(!site.device.contains(char::is_whitespace));
            // The domain is used in commands, where it must not be an option.
            assert!(site.hooks.dns_search.iter().all(|domain| !domain.starts_with('-')));
            assert!(site.peers.iter().all(|peer| !peer.name.contains(char::is_control)));
            if let Some(pool) = &site.pool {
                assert!(
                    pool.ranges
                        .iter()
                        .all(|(first, last)| first <= last && first.is_ipv4() == last.is_ipv4())
                );
                assert!(
                    pool.ranges.iter().all(|(first, _)| site.addresses.iter().all(|(own, _)| own != first))
                );
            }
            settles(&Wanted::of(&site, &site.device));
        }
        Err(error) => {
            if let Some((line, _)) = error.at {
                assert!((1..=text.split('\n').count()).contains(&line), "{error}");
            }
        }
    }
});
