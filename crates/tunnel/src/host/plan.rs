//! Compares the host's state with the wanted one: the steps to take, the messages, and the conflicts.
//!
//! A network's route goes into the main table, where the most specific route wins, so that a peer's network may
//! contain networks of this host. A network that [is apart](Wanted::is_apart) has its route in the gateway's own
//! table, and two rules: with the first, more specific routes of the main table win (`suppress_prefixlength`); the
//! second leads the other packets into the own table. Packets with the gateway's mark jump over all these rules, and
//! so are routed as if there were none. wg-quick(8) does nearly the same for default routes; the jump replaces its
//! `not fwmark`, which would negate a rule's network as well.
//!
//! Guarantees: no step removes or replaces the settings of others; closing steps come before opening ones; for a host
//! that has everything, there are no steps.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    net::IpAddr,
};

use sealane_ipsec::selector::Prefix;

use super::{PROTOCOL, Wanted, is_number};

/// The kernel's main table.
pub const MAIN: u32 = 254;
/// The priority of the first rule of the most specific networks; the main table has 32766.
const PRIORITY: u32 = 30_000;
/// The priority of the jump.
const JUMP: u32 = PRIORITY - 1;
/// The priority of the rule behind all others, the target of the jump.
const LANDING: u32 = PRIORITY + 2 * 129;
/// The metric of IPv6 routes into the device: lower than that of the routes that the kernel creates for addresses
/// (256).
const METRIC_V6: u32 = 128;
/// The maximum number of routes that are listed individually.
const TOLD_MAX: usize = 8;

/// The target of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The device with this index.
    Device(u32),
    /// Packets are rejected, with or without a message to the sender.
    Reject(Reject),
    /// Another target: several next hops, a tunnel, this host.
    Other,
}

/// The kind of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// The sender is informed that the network is unreachable.
    Unreachable,
    /// The packet is dropped without a message.
    Blackhole,
    /// The sender is informed that the destination is prohibited.
    Prohibit,
    /// The next rule applies.
    Throw,
}

impl Reject {
    /// Returns the name that `ip route` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Blackhole => "blackhole",
            Self::Prohibit => "prohibit",
            Self::Throw => "throw",
        }
    }
}

/// A route of the host, ours or another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The table of the route.
    pub table: u32,
    /// The destination of the packets.
    pub destination: Prefix,
    /// The device by which packets leave, or their rejection.
    pub target: Target,
    /// The metric; the lowest of a destination wins.
    pub metric: u32,
    /// The originator of the route.
    pub protocol: u8,
    /// The description by `ip route`, without the destination.
    pub words: String,
}

/// A rule of policy routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The priority; the rule with the lowest applies first.
    pub priority: u32,
    /// The destination of the packets.
    pub to: Prefix,
    /// The mark of the packets, if the rule applies only to packets with a mark.
    pub mark: Option<u32>,
    /// The action for the packets.
    pub action: Action,
    /// The originator of the rule.
    pub protocol: u8,
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Looks up the route in a table.
    Lookup {
        /// The number of the table.
        table: u32,
        /// Routes of the table with at most this many bits are ignored.
        suppressed_bits: Option<u32>,
    },
    /// Continues with the rule of this priority.
    Jump(u32),
    /// Continues with the next rule.
    Nothing,
    /// An action that our rules do not have.
    Other,
}

/// The present state of the host.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The index of the gateway's device; `None` if the device does not exist yet.
    pub device: Option<u32>,
    /// The device is up.
    pub is_up: bool,
    /// The device's addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The routes of the main table and of the gateway's own.
    pub routes: Vec<Route>,
    /// The rules with [`PROTOCOL`].
    pub rules: Vec<Rule>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adds an address to the device.
    AddAddress {
        /// The index of the device.
        device: u32,
        /// This host's own address in that network.
        address: IpAddr,
        /// The number of bits of its network.
        bits: u8,
    },
    /// Removes an address from the device.
    DeleteAddress {
        /// The index of the device.
        device: u32,
        /// This host's own address in that network.
        address: IpAddr,
        /// The number of bits of its network.
        bits: u8,
    },
    /// Adds a route of ours.
    AddRoute(Route),
    /// Removes a route of ours.
    DeleteRoute(Route),
    /// Adds a rule of ours.
    AddRule(Rule),
    /// Removes a rule of ours.
    DeleteRule(Rule),
}

impl Step {
    /// Returns the reverse step.
    #[must_use]
    pub fn undone(&self) -> Self {
        match self.clone() {
            Self::AddAddress { device, address, bits } => Self::DeleteAddress { device, address, bits },
            Self::DeleteAddress { device, address, bits } => Self::AddAddress { device, address, bits },
            Self::AddRoute(route) => Self::DeleteRoute(route),
            Self::DeleteRoute(route) => Self::AddRoute(route),
            Self::AddRule(rule) => Self::DeleteRule(rule),
            Self::DeleteRule(rule) => Self::AddRule(rule),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Target::Reject(reject) = self.target {
            write!(f, "{} ", reject.name())?;
        }
        write!(f, "{}", self.destination)?;
        if self.words.is_empty() { Ok(()) } else { write!(f, " {}", self.words) }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: to {}", self.priority, self.to)?;
        if let Some(mark) = self.mark {
            write!(f, " fwmark {mark:#x}")?;
        }
        match self.action {
            Action::Lookup { table: MAIN, suppressed_bits: Some(bits) } => {
                write!(f, " lookup main suppress_prefixlength {bits}")
            }
            Action::Lookup { table, .. } => write!(f, " lookup {table}"),
            Action::Jump(priority) => write!(f, " goto {priority}"),
            Action::Nothing => f.write_str(" nop"),
            Action::Other => f.write_str(" (others')"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddAddress { address, bits, .. } => write!(f, "add the address {address}/{bits}"),
            Self::DeleteAddress { address, bits, .. } => write!(f, "take away the address {address}/{bits}"),
            Self::AddRoute(route) => write!(f, "add the route {route}"),
            Self::DeleteRoute(route) => write!(f, "take away the route {route}"),
            Self::AddRule(rule) => write!(f, "add the rule {rule}"),
            Self::DeleteRule(rule) => write!(f, "take away the rule {rule}"),
        }
    }
}

/// A conflict with the host's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A route to exactly this network leads elsewhere.
    Route(Route),
    /// Another gateway of ours has a route to this network.
    Gateway(Prefix),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route(route) => {
                let network = route.destination;
                write!(
                    f,
                    "this host has a route to {network} already, which is not replaced: {route}; take it away, or give the \
                     peer networks that this host does not reach itself"
                )?;
                let halves = halves(network);
                halves.map_or(Ok(()), |[low, high]| write!(f, " ({low} and {high} win over that route)"))
            }
            Self::Gateway(network) => write!(
                f,
                "another sealane gateway leads {network}, or has left a route for it: end it by `sealane tunnel down DEVICE`, \
                 or name the network in one site file only"
            ),
        }
    }
}

/// Returns the two halves of a network.
fn halves(network: Prefix) -> Option<[Prefix; 2]> {
    let bits = network.bits() + 1;
    let high = match network.address() {
        IpAddr::V4(address) if bits <= 32 => IpAddr::V4((u32::from(address) | 1 << (32 - bits)).into()),
        IpAddr::V6(address) if bits <= 128 => IpAddr::V6((u128::from(address) | 1 << (128 - bits)).into()),
        _ => return None,
    };
    Some([Prefix::containing(network.address(), bits), Prefix::containing(high, bits)])
}

/// The steps to take, the messages, and the conflicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The conflicts; if there are any, no step is to be taken.
    pub conflicts: Vec<Conflict>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Messages for an operator who asks.
    pub notes: Vec<String>,
    /// Messages for every operator.
    pub warnings: Vec<String>,
}

/// Returns the routes and rules of a gateway whose device has this index.
fn routing(wanted: &Wanted, device: u32) -> (Vec<Route>, Vec<Rule>) {
    let number = wanted.number();
    let (mut routes, mut rules) = (Vec::new(), Vec::new());
    for &network in &wanted.networks {
        let is_apart = wanted.is_apart(network);
        let route = |target, metric| Route {
            table: if is_apart { number } else { MAIN },
            destination: network,
            target,
            metric,
            protocol: PROTOCOL,
            words: match target {
                Target::Device(_) => format!("dev {}", wanted.device),
                _ => String::new(),
            },
        };
        if !wanted.fails_open {
            routes.push(route(Target::Reject(Reject::Unreachable), number));
        }
        let metric = if network.address().is_ipv4() { 0 } else { METRIC_V6 };
        routes.push(route(Target::Device(device), metric));
        if is_apart {
            // Rules of more specific networks come earlier.
            let priority = PRIORITY + 2 * (128 - u32::from(network.bits()));
            let bits = Some(network.bits().into());
            let main = Action::Lookup { table: MAIN, suppressed_bits: bits };
            let own = Action::Lookup { table: number, suppressed_bits: None };
            let rule =
                |priority, action| Rule { priority, to: network, mark: None, action, protocol: PROTOCOL };
            rules.extend([rule(priority, main), rule(priority + 1, own)]);
        }
    }
    for all in [Prefix::ALL_V4, Prefix::ALL_V6] {
        let is_of_family = |rule: &Rule| rule.to.address().is_ipv4() == all.address().is_ipv4();
        if rules.iter().any(is_of_family) {
            let rule =
                |priority, action| Rule { priority, to: all, mark: Some(number), action, protocol: PROTOCOL };
            rules.extend([rule(LANDING, Action::Nothing), rule(JUMP, Action::Jump(LANDING))]);
        }
    }
    // The jump comes before the rules that it jumps over, and its target before the jump.
    rules.sort_by_key(|rule| match rule.action {
        Action::Nothing => 0,
        Action::Jump(_) => 1,
        _ => rule.priority,
    });
    // Closing routes come first.
    routes.sort_by_key(|route| matches!(route.target, Target::Device(_)));
    (routes, rules)
}

/// Returns whether a route is one of the gateway with this number.
pub fn is_own_route(route: &Route, number: u32, device: Option<u32>) -> bool {
    let is_of_device = matches!(route.target, Target::Device(index) if Some(index) == device);
    route.protocol == PROTOCOL && (is_of_device || route.table == number || route.metric == number)
}

/// Returns the properties that distinguish a route from others.
fn identity(route: &Route) -> (u32, Prefix, Target, u32) {
    (route.table, route.destination, route.target, route.metric)
}

/// Returns the plan for a gateway on a host in `state`.
pub fn plan(wanted: &Wanted, state: &State) -> Plan {
    let number = wanted.number();
    let device = state.device;
    let mut plan = Plan { conflicts: conflicts(wanted, state), ..Plan::default() };
    let (routes, rules) = routing(wanted, device.unwrap_or_default());
    for &(address, bits) in &wanted.addresses {
        if !state.addresses.contains(&(address, bits)) {
            plan.steps.push(Step::AddAddress { device: device.unwrap_or_default(), address, bits });
        }
    }
    let present: HashSet<_> = state.routes.iter().map(identity).collect();
    let is_closing = |route: &&Route| matches!(route.target, Target::Reject(_));
    let (closing, opening): (Vec<&Route>, Vec<&Route>) =
        routes.iter().filter(|route| !present.contains(&identity(route))).partition(is_closing);
    plan.steps.extend(closing.into_iter().cloned().map(Step::AddRoute));
    let present: HashSet<_> = state.rules.iter().collect();
    plan.steps.extend(rules.iter().filter(|rule| !present.contains(rule)).copied().map(Step::AddRule));
    // A device that is down cannot have routes.
    if state.is_up || device.is_none() {
        plan.steps.extend(opening.into_iter().cloned().map(Step::AddRoute));
    }
    // A killed gateway with another site file has left them.
    let meant: HashSet<_> = routes.iter().map(identity).collect();
    let is_stale = |route: &&Route| is_own_route(route, number, device) && !meant.contains(&identity(route));
    plan.steps.extend(state.routes.iter().filter(is_stale).cloned().map(Step::DeleteRoute));
    let meant: HashSet<_> = rules.iter().collect();
    let is_stale = |rule: &&Rule| is_own_rule(rule, number, &state.rules) && !meant.contains(rule);
    plan.steps.extend(state.rules.iter().filter(is_stale).copied().map(Step::DeleteRule));
    plan.notes = notes(wanted, state);
    plan.warnings = warnings(wanted);
    plan
}

/// Returns the routes and gateways of others that serve a wanted network already.
fn conflicts(wanted: &Wanted, state: &State) -> Vec<Conflict> {
    let number = wanted.number();
    let networks: HashSet<Prefix> = wanted.networks.iter().copied().collect();
    let is_of_device = |target| matches!(target, Target::Device(index) if Some(index) == state.device);
    let mut found = Vec::new();
    for route in &state.routes {
        let network = route.destination;
        let is_met = route.table == MAIN && networks.contains(&network);
        if !is_met || is_own_route(route, number, state.device) || is_of_device(route.target) {
            continue;
        }
        if route.protocol == PROTOCOL {
            found.push(Conflict::Gateway(network));
            continue;
        }
        // A default route of the host does not conflict, because ours is in another table; a rejecting route has the
        // same effect as ours while no gateway runs.
        let wins_over_reject = network.address().is_ipv4() || route.metric > METRIC_V6;
        let is_in_the_way = match route.target {
            Target::Reject(_) => !wins_over_reject && !wanted.is_apart(network),
            _ => network.bits() > 0,
        };
        if is_in_the_way {
            found.push(Conflict::Route(route.clone()));
        }
    }
    for rule in &state.rules {
        if wanted.is_apart(rule.to) && networks.contains(&rule.to) && is_anothers(rule, rule.to, number) {
            found.push(Conflict::Gateway(rule.to));
        }
    }
    found.dedup();
    found
}

/// Returns the routes of this host that lie within a wanted network and lead elsewhere, by that network.
fn inside(wanted: &Wanted, state: &State) -> BTreeMap<(IpAddr, u8), Vec<Prefix>> {
    let number = wanted.number();
    let networks: HashSet<Prefix> = wanted.networks.iter().copied().collect();
    let mut inside = BTreeMap::<_, Vec<Prefix>>::new();
    for route in &state.routes {
        let (to, device) = (route.destination, state.device);
        let is_of_device = matches!(route.target, Target::Device(index) if Some(index) == device);
        if route.table != MAIN
            || is_own_route(route, number, device)
            || is_of_device
            || networks.contains(&to)
        {
            continue;
        }
        // The default route is left out, because every route lies within it.
        let around = (1..to.bits()).rev().map(|bits| Prefix::containing(to.address(), bits));
        if let Some(network) = around.into_iter().find(|network| networks.contains(network)) {
            inside.entry((network.address(), network.bits())).or_default().push(to);
        }
    }
    inside
}

/// Returns the messages for an operator about this site on this host.
fn notes(wanted: &Wanted, state: &State) -> Vec<String> {
    let mut notes = Vec::new();
    let (number, device) = (wanted.number(), &wanted.device);
    let (apart, plain): (Vec<Prefix>, Vec<Prefix>) =
        wanted.networks.iter().partition(|network| wanted.is_apart(**network));
    if !plain.is_empty() {
        notes.push(format!("{} go to the device {device}, by the main table", listed(&plain)));
    }
    if !apart.is_empty() {
        notes.push(format!(
            "{} go to the device {device}, by the table {number} and rules of its own; more precise routes of this host win, and the \
             gateway's own packets (mark {number:#x}) go by the main table",
            listed(&apart)
        ));
    }
    for ((address, bits), routes) in inside(wanted, state) {
        notes.push(format!(
            "{} in {address}/{bits} go as this host's more precise routes say",
            listed(&routes)
        ));
    }
    let outcome = match wanted.fails_open {
        true => {
            "fail-open: while no gateway runs, packets for these networks leave in clear by this host's other routes"
        }
        false => {
            "while the gateway is down or was killed, packets for these networks are unreachable, until \
             `sealane tunnel down`"
        }
    };
    notes.push(outcome.to_owned());
    notes
}

/// Returns the warnings about traffic that unexpectedly does not use the tunnel.
fn warnings(wanted: &Wanted) -> Vec<String> {
    let has_default = |is_v4: bool| {
        wanted.networks.iter().any(|network| network.bits() == 0 && network.address().is_ipv4() == is_v4)
    };
    let past = |family: &str, network: &str| {
        format!(
            "packets of {family} go past the tunnel: name {network} too if none of this host's are to leave in clear"
        )
    };
    match (has_default(true), has_default(false)) {
        (true, false) => vec![past("IPv6", "::/0")],
        (false, true) => vec![past("IPv4", "0.0.0.0/0")],
        _ => Vec::new(),
    }
}

/// Returns the first of some networks, as text.
fn listed(networks: &[Prefix]) -> String {
    let mut words: Vec<String> = networks.iter().take(TOLD_MAX).map(ToString::to_string).collect();
    if networks.len() > TOLD_MAX {
        words.push(format!("{} more", networks.len() - TOLD_MAX));
    }
    words.join(", ")
}

/// Returns whether a rule leads this network into the table of another gateway of ours.
fn is_anothers(rule: &Rule, network: Prefix, number: u32) -> bool {
    let Action::Lookup { table, .. } = rule.action else { return false };
    rule.protocol == PROTOCOL && rule.to == network && is_number(table) && table != number
}

/// Returns whether a rule belongs to the gateway with this number; `all` are all rules with [`PROTOCOL`]. A rule that
/// looks up the main table belongs to the gateway whose network it is for.
pub fn is_own_rule(rule: &Rule, number: u32, all: &[Rule]) -> bool {
    rule.protocol == PROTOCOL
        && match rule.action {
            Action::Lookup { table: MAIN, .. } => {
                !all.iter().any(|other| is_anothers(other, rule.to, number))
            }
            Action::Lookup { table, .. } => table == number,
            Action::Jump(_) | Action::Nothing => rule.mark == Some(number),
            Action::Other => false,
        }
}

/// Returns the steps that remove routes and rules, all of which belong to a gateway: the rules that lead into its
/// table are removed first, and the jump that keeps its packets out of there last.
pub fn take_away(left: &State) -> Vec<Step> {
    let mut rules = left.rules.clone();
    rules.sort_by_key(|rule| {
        let is_jump = matches!(rule.action, Action::Jump(_) | Action::Nothing);
        (is_jump, std::cmp::Reverse(rule.priority))
    });
    rules
        .into_iter()
        .map(Step::DeleteRule)
        .chain(left.routes.iter().cloned().map(Step::DeleteRoute))
        .collect()
}

#[cfg(test)]
mod tests;
