//! What is there, compared with what is wanted: what to do, what to say, and why not.
//!
//! A network's route goes into the main table, where the most precise route wins, so that a peer's network may contain networks of
//! this host. A network that [is apart](Wanted::is_apart) has its route in the gateway's own table, and two rules: the first lets
//! more precise routes of the main table win (`suppress_prefixlength`), the second leads the rest into the own table. Packets that
//! carry the gateway's mark jump over all these rules, and so go as if there were none. wg-quick(8) does nearly the same for
//! default routes; the jump takes the place of its `not fwmark`, which would negate a rule's network as well.
//!
//! Guarantees: no step removes or replaces what others have set; steps that close come before those that open; the steps of a host
//! that has everything are none.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    net::IpAddr,
};

use sealane_ipsec::selector::Prefix;

use super::{PROTOCOL, Wanted, is_number};

/// The kernel's main table.
pub const MAIN: u32 = 254;
/// Priority of the first rule of the most precise networks; the main table is asked at 32766.
const PRIORITY: u32 = 30_000;
/// Priority of the jump.
const JUMP: u32 = PRIORITY - 1;
/// Priority of the rule behind all others, where the jump leads.
const LANDING: u32 = PRIORITY + 2 * 129;
/// Metric of IPv6 routes into the device: before those that the kernel makes for addresses (256).
const METRIC_V6: u32 = 128;
/// More routes than this are not told one by one.
const TOLD_MAX: usize = 8;

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Through the device of this index.
    Device(u32),
    /// Nowhere: the sender is told, or not.
    Reject(Reject),
    /// Elsewhere: several next hops, a tunnel, this host.
    Other,
}

/// How packets are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// The sender is told that the network is unreachable.
    Unreachable,
    /// Silently.
    Blackhole,
    /// The sender is told that it is prohibited.
    Prohibit,
    /// The next rule is asked.
    Throw,
}

impl Reject {
    /// As `ip route` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Blackhole => "blackhole",
            Self::Prohibit => "prohibit",
            Self::Throw => "throw",
        }
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The table that it stands in.
    pub table: u32,
    /// The packets that it is for.
    pub destination: Prefix,
    /// Where it leads.
    pub target: Target,
    /// The lowest of a destination wins.
    pub metric: u32,
    /// Who has set it.
    pub protocol: u8,
    /// How `ip route` would tell it, behind the destination.
    pub words: String,
}

/// A rule of policy routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The lowest is asked first.
    pub priority: u32,
    /// The packets that it is for.
    pub to: Prefix,
    /// Packets with this mark alone are meant.
    pub mark: Option<u32>,
    /// What becomes of them.
    pub action: Action,
    /// Who has set it.
    pub protocol: u8,
}

/// What becomes of packets that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A table is asked.
    Lookup {
        /// Its number.
        table: u32,
        /// Its routes that have so many bits or fewer do not count.
        suppressed_bits: Option<u32>,
    },
    /// The rule of this priority is next.
    Jump(u32),
    /// The next rule is next.
    Nothing,
    /// A rule that is none of ours.
    Other,
}

/// What is there.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Index of the gateway's device; `None`: it is not there yet.
    pub device: Option<u32>,
    /// Whether the device is up.
    pub is_up: bool,
    /// The device's addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Routes of the main table and of the gateway's own.
    pub routes: Vec<Route>,
    /// Rules with [`PROTOCOL`].
    pub rules: Vec<Rule>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An address of the device.
    AddAddress {
        /// Index of the device.
        device: u32,
        /// The address.
        address: IpAddr,
        /// Bits of its network.
        bits: u8,
    },
    /// The address goes.
    DeleteAddress {
        /// Index of the device.
        device: u32,
        /// The address.
        address: IpAddr,
        /// Bits of its network.
        bits: u8,
    },
    /// A route comes.
    AddRoute(Route),
    /// A route of ours goes.
    DeleteRoute(Route),
    /// A rule comes.
    AddRule(Rule),
    /// A rule of ours goes.
    DeleteRule(Rule),
}

impl Step {
    /// What takes it back.
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

/// Something of the host that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A route to just this network leads elsewhere.
    Route(Route),
    /// Another gateway of ours leads this network.
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

/// The two networks that a network consists of.
fn halves(network: Prefix) -> Option<[Prefix; 2]> {
    let bits = network.bits() + 1;
    let high = match network.address() {
        IpAddr::V4(address) if bits <= 32 => IpAddr::V4((u32::from(address) | 1 << (32 - bits)).into()),
        IpAddr::V6(address) if bits <= 128 => IpAddr::V6((u128::from(address) | 1 << (128 - bits)).into()),
        _ => return None,
    };
    Some([Prefix::containing(network.address(), bits), Prefix::containing(high, bits)])
}

/// What to do, what to say, and what is in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// While there are any, no step is to be done.
    pub conflicts: Vec<Conflict>,
    /// In this order.
    pub steps: Vec<Step>,
    /// What an operator should know who asks.
    pub notes: Vec<String>,
    /// What an operator should know who does not.
    pub warnings: Vec<String>,
}

/// The routes and rules of a gateway whose device has this index.
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
            // The more precise, the earlier.
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
    // The jump before what it jumps over, and where it leads before it.
    rules.sort_by_key(|rule| match rule.action {
        Action::Nothing => 0,
        Action::Jump(_) => 1,
        _ => rule.priority,
    });
    // What closes comes first.
    routes.sort_by_key(|route| matches!(route.target, Target::Device(_)));
    (routes, rules)
}

/// Whether a route is one of the gateway with this number.
pub fn is_own_route(route: &Route, number: u32, device: Option<u32>) -> bool {
    let is_of_device = matches!(route.target, Target::Device(index) if Some(index) == device);
    route.protocol == PROTOCOL && (is_of_device || route.table == number || route.metric == number)
}

/// What makes a route another one than a second, whatever is said of it.
fn identity(route: &Route) -> (u32, Prefix, Target, u32) {
    (route.table, route.destination, route.target, route.metric)
}

/// What a gateway is to do on a host that is as `state` says.
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
    // Through a device that is down there are no routes.
    if state.is_up || device.is_none() {
        plan.steps.extend(opening.into_iter().cloned().map(Step::AddRoute));
    }
    // Left by a gateway that was killed, under another site file.
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

/// What is in the way.
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
        // A default route of the host stands aside in its table; who rejects agrees with us while no gateway runs.
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

/// The routes of this host that lie within a wanted network and lead elsewhere, by that network.
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
        // In a default route all others lie; nobody needs to be told.
        let around = (1..to.bits()).rev().map(|bits| Prefix::containing(to.address(), bits));
        if let Some(network) = around.into_iter().find(|network| networks.contains(network)) {
            inside.entry((network.address(), network.bits())).or_default().push(to);
        }
    }
    inside
}

/// What an operator should know of this site on this host.
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

/// What goes past the tunnel although nobody may expect it.
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

/// The first of some networks, as text.
fn listed(networks: &[Prefix]) -> String {
    let mut words: Vec<String> = networks.iter().take(TOLD_MAX).map(ToString::to_string).collect();
    if networks.len() > TOLD_MAX {
        words.push(format!("{} more", networks.len() - TOLD_MAX));
    }
    words.join(", ")
}

/// Whether a rule leads this network into the table of another gateway of ours.
fn is_anothers(rule: &Rule, network: Prefix, number: u32) -> bool {
    let Action::Lookup { table, .. } = rule.action else { return false };
    rule.protocol == PROTOCOL && rule.to == network && is_number(table) && table != number
}

/// Whether a rule is one of the gateway with this number, among all rules with [`PROTOCOL`]. One that asks the main table first is
/// whose network it is for.
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

/// The steps that take away routes and rules, all of which are a gateway's own: what leads into its table goes first, and last what
/// keeps its packets out of there.
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
