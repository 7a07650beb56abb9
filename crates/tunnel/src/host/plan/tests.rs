//! Hosts of all kinds, and the plans of a gateway for them.

use super::*;
use crate::host;

fn prefix(word: &str) -> Prefix {
    word.parse().expect("a network")
}

fn wanted(networks: &[&str]) -> Wanted {
    let networks: Vec<Prefix> = networks.iter().map(|word| prefix(word)).collect();
    let endpoints = ["192.0.2.1", "2001:db8::1"].map(|word| word.parse().expect("an address"));
    Wanted {
        device: "sl0".to_owned(),
        mtu: 1400,
        gso_packet_bytes: 60_000,
        apart: host::apart(&networks, &endpoints),
        addresses: vec![("10.91.1.1".parse().expect("an address"), 24)],
        networks,
        bare_protocol: None,
        fails_open: false,
        forwards: None,
        masquerades: Vec::new(),
    }
}

fn route(destination: &str, target: Target, metric: u32) -> Route {
    let (destination, words) = (prefix(destination), "via 203.0.113.9 dev eth0".to_owned());
    Route { table: MAIN, destination, target, metric, protocol: 4, words }
}

/// Returns the state of a host after these steps.
fn after(mut state: State, steps: &[Step]) -> State {
    for step in steps {
        match step.clone() {
            Step::AddAddress { address, bits, .. } => state.addresses.push((address, bits)),
            Step::DeleteAddress { address, bits, .. } => {
                state.addresses.retain(|&had| had != (address, bits))
            }
            Step::AddRoute(route) => state.routes.push(route),
            Step::DeleteRoute(route) => state.routes.retain(|had| identity(had) != identity(&route)),
            Step::AddRule(rule) => state.rules.push(rule),
            Step::DeleteRule(rule) => state.rules.retain(|had| *had != rule),
        }
    }
    state
}

fn fresh() -> State {
    State { device: Some(7), is_up: true, ..State::default() }
}

const ELSEWHERE: Target = Target::Device(2);

#[test]
fn a_plain_network_is_closed_and_then_opened_in_the_main_table() {
    let plan = plan(&wanted(&["10.91.2.0/24"]), &fresh());
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    let [Step::AddAddress { .. }, Step::AddRoute(closing), Step::AddRoute(opening)] = &plan.steps[..] else {
        panic!("{:?}", plan.steps)
    };
    assert_eq!((closing.target, closing.table), (Target::Reject(Reject::Unreachable), MAIN));
    assert_eq!((opening.target, opening.table), (Target::Device(7), MAIN));
    assert!(closing.metric > opening.metric && closing.destination == opening.destination);
}

#[test]
fn networks_around_end_points_get_a_table_and_rules_the_more_precise_first() {
    let wanted = wanted(&["0.0.0.0/0", "::/0", "192.0.2.0/24", "10.91.2.0/24"]);
    let default = route("0.0.0.0/0", ELSEWHERE, 0);
    let state = State { routes: vec![default.clone(), route("::/0", ELSEWHERE, 1024)], ..fresh() };
    let plan = plan(&wanted, &state);
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    let done = after(state, &plan.steps);
    let number = wanted.number();
    for network in ["0.0.0.0/0", "::/0", "192.0.2.0/24"] {
        let [first, second] = [MAIN, number].map(|asked| {
            let is_meant = |rule: &&Rule| {
                rule.to == prefix(network)
                    && matches!(rule.action, Action::Lookup { table, .. } if table == asked)
            };
            *done.rules.iter().find(is_meant).expect("a rule")
        });
        assert!(first.priority < second.priority && second.priority < 32_766);
        let bits = Some(prefix(network).bits().into());
        assert_eq!(first.action, Action::Lookup { table: MAIN, suppressed_bits: bits });
        // Marked packets jump over both rules.
        let jumps = |rule: &Rule| {
            rule.priority < first.priority
                && rule.mark == Some(number)
                && matches!(rule.action, Action::Jump(to) if (second.priority + 1..32_766).contains(&to))
                && rule.to.address().is_ipv4() == prefix(network).address().is_ipv4()
        };
        assert!(done.rules.iter().any(jumps), "{:?}", done.rules);
    }
    let priorities = |network: &str| {
        let is_meant = |rule: &&Rule| rule.to == prefix(network) && rule.mark.is_none();
        done.rules.iter().filter(is_meant).map(|rule| rule.priority).collect::<Vec<_>>()
    };
    assert!(priorities("192.0.2.0/24").iter().max() < priorities("0.0.0.0/0").iter().min());
    // The host's own default route stays, and the network that is not apart is in the main table, where the first
    // rules find it.
    assert!(done.routes.contains(&default));
    assert!(
        done.routes.iter().any(|route| route.destination == prefix("10.91.2.0/24") && route.table == MAIN)
    );
    assert!(
        !done.routes.iter().any(|route| route.destination == prefix("192.0.2.0/24") && route.table == MAIN)
    );
}

#[test]
fn a_host_that_has_everything_needs_nothing() {
    for networks in [&["10.91.2.0/24"][..], &["0.0.0.0/0", "fd91:2::/64"]] {
        let wanted = wanted(networks);
        let done = after(fresh(), &plan(&wanted, &fresh()).steps);
        assert_eq!(plan(&wanted, &done).steps, []);
        // The device ends with its process; the closing routes and rules remain, and the next gateway takes them
        // over.
        let killed = State {
            device: None,
            is_up: false,
            addresses: Vec::new(),
            routes: done.routes.iter().filter(|route| route.target != Target::Device(7)).cloned().collect(),
            ..done.clone()
        };
        assert_eq!(killed.routes.len(), networks.len());
        let next = plan(&wanted, &State { device: Some(9), is_up: true, ..killed.clone() });
        assert!(next.conflicts.is_empty(), "{:?}", next.conflicts);
        let is_opening = |step: &Step| match step {
            Step::AddRoute(route) => route.target == Target::Device(9),
            other => matches!(other, Step::AddAddress { .. }),
        };
        assert!(next.steps.iter().all(is_opening), "{:?}", next.steps);
        // Everything is removed.
        let gone = after(killed.clone(), &take_away(&killed));
        assert!(gone.routes.is_empty() && gone.rules.is_empty());
    }
}

#[test]
fn steps_are_undone_in_reverse() {
    let before = State { routes: vec![route("0.0.0.0/0", ELSEWHERE, 0)], ..fresh() };
    let plan = plan(&wanted(&["0.0.0.0/0", "10.91.2.0/24"]), &before);
    let undo: Vec<Step> = plan.steps.iter().rev().map(Step::undone).collect();
    let undone = after(after(before.clone(), &plan.steps), &undo);
    assert_eq!((undone.routes, undone.rules), (before.routes, before.rules));
    assert!(undone.addresses.is_empty());
}

#[test]
fn routes_that_exist_are_in_the_way_or_stand_aside() {
    let reject = Target::Reject(Reject::Blackhole);
    let gateway = Route {
        metric: number_of_another(),
        protocol: PROTOCOL,
        ..route("10.91.2.0/24", Target::Reject(Reject::Unreachable), 0)
    };
    for (networks, present, is_refused) in [
        // A static route, a route through this host, and a route with several next hops.
        ("10.91.2.0/24", route("10.91.2.0/24", ELSEWHERE, 0), true),
        ("10.91.2.0/24", route("10.91.2.0/24", ELSEWHERE, 5000), true),
        ("10.91.2.0/24", route("10.91.2.0/24", Target::Other, 0), true),
        // A route to a network that contains an endpoint conflicts as well.
        ("192.0.2.0/24", route("192.0.2.0/24", ELSEWHERE, 0), true),
        // More and less specific routes win and lose as usual.
        ("10.91.2.0/24", route("10.91.2.0/25", ELSEWHERE, 0), false),
        ("10.91.2.0/24", route("10.91.0.0/16", ELSEWHERE, 0), false),
        ("0.0.0.0/0", route("0.0.0.0/0", ELSEWHERE, 0), false),
        // An administrator's rejecting route has the same effect as ours, if our route can win.
        ("10.91.2.0/24", route("10.91.2.0/24", reject, 0), false),
        ("fd91:2::/64", route("fd91:2::/64", reject, 1024), false),
        ("fd91:2::/64", route("fd91:2::/64", reject, 1), true),
        ("0.0.0.0/0", route("0.0.0.0/0", reject, 0), false),
        // A route into the device, whoever has set it.
        ("10.91.2.0/24", route("10.91.2.0/24", Target::Device(7), 0), false),
        ("10.91.2.0/24", gateway, true),
    ] {
        let state = State { routes: vec![present.clone()], ..fresh() };
        let plan = plan(&wanted(&[networks]), &state);
        assert_eq!(!plan.conflicts.is_empty(), is_refused, "{present}: {:?}", plan.conflicts);
        let takes = plan.steps.iter().any(|step| matches!(step, Step::DeleteRoute(_) | Step::DeleteRule(_)));
        assert!(!takes, "{present}: {:?}", plan.steps);
    }
}

fn number_of_another() -> u32 {
    host::number("sl1")
}

#[test]
fn another_gateways_default_route_is_in_the_way() {
    let first = Wanted { device: "sl1".to_owned(), ..wanted(&["0.0.0.0/0"]) };
    let other = State { device: Some(9), ..fresh() };
    let state = after(other.clone(), &plan(&first, &other).steps);
    // Each gateway has a device of its own.
    let state = State { device: Some(7), addresses: Vec::new(), ..state };
    let second = plan(&wanted(&["0.0.0.0/0"]), &state);
    assert_eq!(second.conflicts, [Conflict::Gateway(prefix("0.0.0.0/0"))]);
    let beside = plan(&wanted(&["10.91.2.0/24"]), &state);
    assert!(beside.conflicts.is_empty());
    let takes = |step: &Step| matches!(step, Step::DeleteRoute(_) | Step::DeleteRule(_));
    assert!(!beside.steps.iter().any(takes), "{:?}", beside.steps);
}

#[test]
fn a_refusal_names_the_route_and_a_remedy() {
    let state = State { routes: vec![route("10.91.2.0/24", ELSEWHERE, 0)], ..fresh() };
    let said = plan(&wanted(&["10.91.2.0/24"]), &state).conflicts[0].to_string();
    for part in ["10.91.2.0/24 via 203.0.113.9 dev eth0", "10.91.2.0/25 and 10.91.2.128/25", "not replaced"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(halves(prefix("10.0.0.1/32")), None);
    assert_eq!(halves(prefix("::/0")), Some([prefix("::/1"), prefix("8000::/1")]));
}

#[test]
fn what_fails_open_closes_nothing_and_takes_closing_routes_away() {
    let closed = wanted(&["10.91.2.0/24", "0.0.0.0/0"]);
    let open = Wanted { fails_open: true, ..closed.clone() };
    let done = after(fresh(), &plan(&closed, &fresh()).steps);
    let changed = after(done.clone(), &plan(&open, &done).steps);
    assert!(!changed.routes.iter().any(|route| matches!(route.target, Target::Reject(_))));
    assert_eq!(changed.rules, done.rules);
}

#[test]
fn a_device_that_is_down_gets_its_routes_when_it_is_up() {
    let wanted = wanted(&["10.91.2.0/24"]);
    let done = after(fresh(), &plan(&wanted, &fresh()).steps);
    let is_closing = |route: &Route| matches!(route.target, Target::Reject(_));
    let down = State {
        is_up: false,
        routes: done.routes.into_iter().filter(is_closing).collect(),
        addresses: done.addresses,
        ..fresh()
    };
    assert_eq!(plan(&wanted, &down).steps, []);
    let [Step::AddRoute(route)] = &plan(&wanted, &State { is_up: true, ..down }).steps[..] else {
        panic!("the device's route is missing")
    };
    assert_eq!(route.target, Target::Device(7));
}

#[test]
fn what_goes_past_the_tunnel_is_told() {
    let says = |networks: &[&str], routes: Vec<Route>, part: &str| {
        let plan = plan(&wanted(networks), &State { routes, ..fresh() });
        plan.notes.iter().chain(&plan.warnings).any(|note| note.contains(part))
    };
    assert!(says(&["0.0.0.0/0"], vec![], "name ::/0 too"));
    assert!(!says(&["0.0.0.0/0", "::/0"], vec![], "past the tunnel"));
    let inside = vec![route("10.91.2.128/25", ELSEWHERE, 0)];
    assert!(says(&["10.91.2.0/24"], inside, "10.91.2.128/25 in 10.91.2.0/24"));
}
