//! Reads and changes the kernel's routes, rules and addresses by rtnetlink(7).
//!
//! Guarantees: the state read is the kernel's present one; unknown messages are ignored; a step that the kernel
//! refuses has changed nothing; the addition of an existing object, or the deletion of a missing one, is not an
//! error.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType},
    rule::{RuleAction, RuleAttribute, RuleMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::io::Errno;
use sealane_ipsec::selector::Prefix;

use super::{
    PROTOCOL, Wanted, is_number,
    plan::{self, Action, MAIN, Reject, Route, Rule, State, Step, Target},
};

/// The maximum number of foreign routes that are kept: a router has a million, and few of them matter here.
const FOREIGN_MAX: usize = 4096;
/// The maximum number of packets that wait in the device. A lane may have to wait some milliseconds for a processor;
/// if packets come one by one, the kernel's default of 500 lasts for 3 ms at 150,000 per second.
const QUEUE_PACKETS: u32 = 2000;
/// The multicast groups for changes of links, addresses, routes and rules (linux/rtnetlink.h).
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];
const BOTH_FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];

/// A connection to the kernel.
#[derive(Debug)]
pub struct Kernel {
    socket: Socket,
    sequence: u32,
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn connected() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

impl Kernel {
    /// Opens a connection; reading needs no privilege.
    ///
    /// # Errors
    /// Fails if the system has no netlink socket.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: connected()?, sequence: 0 })
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut message = NetlinkMessage::from(message);
        self.sequence = self.sequence.wrapping_add(1);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Reads the answers to the last request, until the kernel reports their end.
    fn hear(&self, mut each: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for message in messages(&bytes) {
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(inner) => each(inner),
                    _ => {}
                }
            }
        }
    }

    fn dump(
        &mut self,
        question: RouteNetlinkMessage,
        each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.send(question, NLM_F_DUMP)?;
        self.hear(each)
    }

    fn order(&mut self, order: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(order, NLM_F_ACK | flags)?;
        self.hear(|_| {})
    }

    /// Returns the names of all devices, and whether they are up, by index.
    fn names(&mut self) -> io::Result<HashMap<u32, (String, bool)>> {
        let mut names = HashMap::new();
        self.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
            let RouteNetlinkMessage::NewLink(link) = message else { return };
            let is_up = link.header.flags.contains(LinkFlags::Up);
            for attribute in link.attributes {
                if let LinkAttribute::IfName(name) = attribute {
                    names.insert(link.header.index, (name, is_up));
                }
            }
        })?;
        Ok(names)
    }

    /// Returns the names of all devices.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn devices(&mut self) -> io::Result<Vec<String>> {
        Ok(self.names()?.into_values().map(|(name, _)| name).collect())
    }

    fn rules(&mut self) -> io::Result<Vec<Rule>> {
        let mut rules = Vec::new();
        for family in BOTH_FAMILIES {
            let mut question = RuleMessage::default();
            question.header.family = family;
            let heard = |message| {
                if let RouteNetlinkMessage::NewRule(message) = message {
                    rules.extend(rule(&message).filter(|rule| rule.protocol == PROTOCOL));
                }
            };
            match self.dump(RouteNetlinkMessage::GetRule(question), heard) {
                // The kernel lacks this family, or policy routing.
                Err(error) if is_unsupported(&error) => {}
                done => done?,
            }
        }
        Ok(rules)
    }

    fn routes(&mut self, mut is_kept: impl FnMut(&Route) -> bool) -> io::Result<Vec<Route>> {
        let names = self.names()?;
        let mut routes = Vec::new();
        for family in BOTH_FAMILIES {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            let heard = |message| {
                if let RouteNetlinkMessage::NewRoute(message) = message {
                    routes.extend(route(&message, &names).filter(|route| is_kept(route)));
                }
            };
            match self.dump(RouteNetlinkMessage::GetRoute(question), heard) {
                Err(error) if is_unsupported(&error) => {}
                done => done?,
            }
        }
        Ok(routes)
    }

    /// Returns the names of the interfaces that routes of others in the main table lead to, for destinations that `is_meant`
    /// accepts.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn interfaces_towards(&mut self, is_meant: impl Fn(Prefix) -> bool) -> io::Result<Vec<String>> {
        let names = self.names()?;
        let routes = self.routes(|route| {
            route.protocol != PROTOCOL && route.table == MAIN && is_meant(route.destination)
        })?;
        let mut found: Vec<String> = Vec::new();
        for route in routes {
            if let Target::Device(index) = route.target
                && let Some((name, _)) = names.get(&index)
                && !found.contains(name)
            {
                found.push(name.clone());
            }
        }
        Ok(found)
    }

    /// Returns the part of the kernel's state that concerns a gateway.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn state(&mut self, wanted: &Wanted) -> io::Result<State> {
        let names = self.names()?;
        let found = names.iter().find(|(_, (name, _))| *name == wanted.device);
        let (device, is_up) = found.map_or((None, false), |(&index, &(_, is_up))| (Some(index), is_up));
        let networks: HashSet<Prefix> = wanted.networks.iter().copied().collect();
        let mut foreign = 0;
        let routes = self.routes(|route| {
            if route.protocol == PROTOCOL {
                return true;
            }
            if route.table != MAIN || foreign == FOREIGN_MAX {
                return false;
            }
            // The default route is left out, because every route lies within it.
            let to = route.destination;
            let around = (1..to.bits()).map(|bits| Prefix::containing(to.address(), bits));
            let is_kept =
                networks.contains(&to) || around.into_iter().any(|network| networks.contains(&network));
            foreign += usize::from(is_kept);
            is_kept
        })?;
        let addresses = device.map_or(Ok(Vec::new()), |device| self.addresses(device))?;
        Ok(State { device, is_up, addresses, routes, rules: self.rules()? })
    }

    /// Returns the routes and rules of the gateway with this number that exist.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn left(&mut self, number: u32) -> io::Result<State> {
        let names = self.names()?;
        let device =
            names.iter().find(|(_, (name, _))| super::number(name) == number).map(|(&index, _)| index);
        let routes = self.routes(|route| plan::is_own_route(route, number, device))?;
        let all = self.rules()?;
        let is_own = |rule: &&Rule| plan::is_own_rule(rule, number, &all);
        // A rule that looks up the main table may be the only one left; it then belongs to any gateway that asks.
        let rules = all.iter().filter(is_own).copied().collect();
        Ok(State { device, routes, rules, ..State::default() })
    }

    /// Returns the numbers of all gateways that have routes or rules here.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn numbers(&mut self) -> io::Result<Vec<u32>> {
        let mut numbers: Vec<u32> = self
            .routes(|route| route.protocol == PROTOCOL)?
            .iter()
            .flat_map(|route| [route.table, route.metric])
            .chain(self.rules()?.iter().filter_map(|rule| match rule.action {
                Action::Lookup { table, .. } => Some(table),
                _ => rule.mark,
            }))
            .filter(|&number| is_number(number))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn addresses(&mut self, device: u32) -> io::Result<Vec<(IpAddr, u8)>> {
        let mut addresses = Vec::new();
        self.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
            let RouteNetlinkMessage::NewAddress(message) = message else { return };
            let local = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            });
            let plain = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            });
            if let Some(address) = local.or(plain).filter(|_| message.header.index == device) {
                addresses.push((address, message.header.prefix_len));
            }
        })?;
        Ok(addresses)
    }

    /// Sets the device's MTU and queue, and brings it up. `gso_packet_bytes` is the maximum length of the
    /// GSO packets that are passed to it whole.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn set_up(&mut self, device: u32, mtu: u16, gso_packet_bytes: Option<u32>) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = device;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes = vec![LinkAttribute::Mtu(mtu.into()), LinkAttribute::TxQueueLen(QUEUE_PACKETS)];
        self.order(RouteNetlinkMessage::SetLink(link), 0)?;
        if let Some(bytes) = gso_packet_bytes {
            let mut link = LinkMessage::default();
            link.header.index = device;
            link.attributes = vec![LinkAttribute::GsoMaxSize(bytes)];
            // Older kernels do not have this setting; GSO packets are then split, which is slower but works.
            let _ = self.order(RouteNetlinkMessage::SetLink(link), 0);
        }
        Ok(())
    }

    /// Performs one step.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn apply(&mut self, step: &Step) -> io::Result<()> {
        let adding = NLM_F_CREATE | NLM_F_EXCL;
        let done = match step {
            Step::AddAddress { device, address, bits } => {
                let message = address_message(*device, *address, *bits);
                self.order(RouteNetlinkMessage::NewAddress(message), adding)
            }
            Step::DeleteAddress { device, address, bits } => {
                let message = address_message(*device, *address, *bits);
                self.order(RouteNetlinkMessage::DelAddress(message), 0)
            }
            Step::AddRoute(route) => {
                // An IPv4 route is placed before others of its metric, and replaces none; one of them may be an
                // administrator's own `blackhole`.
                let flags = if route.destination.address().is_ipv4() { NLM_F_CREATE } else { adding };
                self.order(RouteNetlinkMessage::NewRoute(route_message(route)), flags)
            }
            Step::DeleteRoute(route) => self.order(RouteNetlinkMessage::DelRoute(route_message(route)), 0),
            Step::AddRule(rule) => self.order(RouteNetlinkMessage::NewRule(rule_message(rule)), adding),
            Step::DeleteRule(rule) => self.order(RouteNetlinkMessage::DelRule(rule_message(rule)), 0),
        };
        let is_adding = matches!(step, Step::AddAddress { .. } | Step::AddRoute(_) | Step::AddRule(_));
        match done {
            Err(error) if is_adding && Errno::from_io_error(&error) == Some(Errno::EXIST) => Ok(()),
            Err(error) if !is_adding && is_gone(&error) => Ok(()),
            done => done,
        }
    }
}

/// Returns whether the object to be deleted, or its device, does not exist.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::SRCH, Errno::NOENT, Errno::NODEV, Errno::NXIO, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|error| gone.contains(&error))
}

fn is_unsupported(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::OPNOTSUPP].map(Some).contains(&Errno::from_io_error(error))
}

/// Returns the messages of one datagram that can be parsed.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = NetlinkMessage<RouteNetlinkMessage>> {
    std::iter::from_fn(move || {
        loop {
            let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
            // A message is at least as long as its header, otherwise the loop would not end.
            let message = bytes.get(..length.max(16))?;
            bytes = bytes.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
            if let Ok(message) = NetlinkMessage::deserialize(message) {
                return Some(message);
            }
        }
    })
}

fn route(message: &RouteMessage, names: &HashMap<u32, (String, bool)>) -> Option<Route> {
    let header = &message.header;
    let any = match header.address_family {
        AddressFamily::Inet => Prefix::ALL_V4.address(),
        AddressFamily::Inet6 => Prefix::ALL_V6.address(),
        _ => return None,
    };
    let (mut table, mut to, mut device, mut metric, mut is_plain) = (header.table.into(), any, None, 0, true);
    let mut words = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(RouteAddress::Inet(address)) => to = (*address).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => to = (*address).into(),
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => words.push(format!("via {address}")),
            RouteAttribute::Gateway(RouteAddress::Inet6(address)) => words.push(format!("via {address}")),
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::Priority(value) => metric = *value,
            RouteAttribute::MultiPath(_) | RouteAttribute::Via(_) | RouteAttribute::EncapType(_) => {
                is_plain = false;
            }
            // Cache entries are not routes.
            RouteAttribute::CacheInfo(_)
                if header.flags.contains(netlink_packet_route::route::RouteFlags::Cloned) =>
            {
                return None;
            }
            _ => {}
        }
    }
    let target = match (header.kind, device) {
        (RouteType::Unreachable, _) => Target::Reject(Reject::Unreachable),
        (RouteType::BlackHole, _) => Target::Reject(Reject::Blackhole),
        (RouteType::Prohibit, _) => Target::Reject(Reject::Prohibit),
        (RouteType::Throw, _) => Target::Reject(Reject::Throw),
        (RouteType::Unicast, Some(index)) if is_plain => Target::Device(index),
        _ => Target::Other,
    };
    match (target, device.and_then(|index| names.get(&index))) {
        (Target::Reject(_), _) => {}
        (_, Some((name, _))) => words.push(format!("dev {name}")),
        (_, None) => words.push("by several ways".to_owned()),
    }
    let protocol = u8::from(header.protocol);
    match header.protocol {
        RouteProtocol::Other(number) => words.push(format!("proto {number}")),
        known => words.push(format!("proto {known:?}").to_lowercase()),
    }
    if metric > 0 {
        words.push(format!("metric {metric}"));
    }
    let destination = Prefix::containing(to, header.destination_prefix_length);
    Some(Route { table, destination, target, metric, protocol, words: words.join(" ") })
}

fn route_message(route: &Route) -> RouteMessage {
    let address = route.destination.address();
    let mut message = RouteMessage::default();
    message.header.address_family = family(address);
    message.header.destination_prefix_length = route.destination.bits();
    // Table numbers above 255 are in an attribute.
    message.header.table = u8::try_from(route.table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
    message.header.protocol = RouteProtocol::from(route.protocol);
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![
        RouteAttribute::Table(route.table),
        RouteAttribute::Destination(address.into()),
        RouteAttribute::Priority(route.metric),
    ];
    match route.target {
        Target::Device(index) => {
            message.attributes.push(RouteAttribute::Oif(index));
            if address.is_ipv4() {
                message.header.scope = RouteScope::Link;
            }
        }
        Target::Reject(Reject::Unreachable) => message.header.kind = RouteType::Unreachable,
        Target::Reject(Reject::Blackhole) => message.header.kind = RouteType::BlackHole,
        Target::Reject(Reject::Prohibit) => message.header.kind = RouteType::Prohibit,
        Target::Reject(Reject::Throw) => message.header.kind = RouteType::Throw,
        // No route of ours has this target.
        Target::Other => message.header.kind = RouteType::Unspec,
    }
    message
}

fn rule(message: &RuleMessage) -> Option<Rule> {
    let all = match message.header.family {
        AddressFamily::Inet => Prefix::ALL_V4,
        AddressFamily::Inet6 => Prefix::ALL_V6,
        _ => return None,
    };
    let (mut table, mut priority, mut protocol) = (u32::from(message.header.table), 0, 0);
    let (mut to, mut mark, mut suppressed_bits, mut target) = (all, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::Priority(value) => priority = *value,
            RuleAttribute::Protocol(value) => protocol = u8::from(*value),
            RuleAttribute::Destination(address) => to = Prefix::containing(*address, message.header.dst_len),
            RuleAttribute::FwMark(value) if *value > 0 => mark = Some(*value),
            // The kernel reports all ones if nothing is suppressed.
            RuleAttribute::SuppressPrefixLen(bits) if *bits < 129 => suppressed_bits = Some(*bits),
            RuleAttribute::Goto(priority) => target = Some(*priority),
            _ => {}
        }
    }
    let action = match (message.header.action, target) {
        (RuleAction::ToTable, _) => Action::Lookup { table, suppressed_bits },
        (RuleAction::Goto, Some(priority)) => Action::Jump(priority),
        (RuleAction::Nop, _) => Action::Nothing,
        _ => Action::Other,
    };
    Some(Rule { priority, to, mark, action, protocol })
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let address = rule.to.address();
    let mut message = RuleMessage::default();
    message.header.family = family(address);
    message.header.dst_len = rule.to.bits();
    message.attributes = vec![
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::Protocol(RouteProtocol::from(rule.protocol)),
    ];
    if rule.to.bits() > 0 {
        message.attributes.push(RuleAttribute::Destination(address));
    }
    if let Some(mark) = rule.mark {
        message.attributes.extend([RuleAttribute::FwMark(mark), RuleAttribute::FwMask(u32::MAX)]);
    }
    match rule.action {
        Action::Lookup { table, suppressed_bits } => {
            message.header.action = RuleAction::ToTable;
            message.header.table = u8::try_from(table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
            message.attributes.push(RuleAttribute::Table(table));
            message.attributes.extend(suppressed_bits.map(RuleAttribute::SuppressPrefixLen));
        }
        Action::Jump(priority) => {
            message.header.action = RuleAction::Goto;
            message.attributes.push(RuleAttribute::Goto(priority));
        }
        Action::Nothing | Action::Other => message.header.action = RuleAction::Nop,
    }
    message
}

fn address_message(device: u32, address: IpAddr, bits: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = bits;
    message.header.index = device;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

/// The kernel's events about changes.
#[derive(Debug)]
pub struct Events {
    socket: Socket,
}

impl Events {
    /// Receives events from now on.
    ///
    /// # Errors
    /// Fails if the system has no such socket.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Reads the pending events. Returns whether one of them counts, or may do so.
    fn read(&self, mut counts: impl FnMut(&[u8]) -> bool) -> bool {
        let mut is_any = false;
        loop {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => is_any |= counts(&bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return is_any,
                // More events came than fit, so anything may have changed. The rest is read the next time.
                Err(_) => return true,
            }
        }
    }

    /// Reads the pending events. Returns whether there were any, or may have been.
    pub fn any(&self) -> bool {
        self.read(|_| true)
    }

    /// Reads the pending events. Returns whether something that the gateway with this device has set may be missing.
    pub fn concern(&self, device: u32) -> bool {
        self.read(|bytes| {
            messages(bytes).any(|message| match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                    link.header.index == device
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelAddress(address)) => {
                    address.header.index == device
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRoute(route)) => {
                    u8::from(route.header.protocol) == PROTOCOL
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRule(_)) => true,
                _ => false,
            })
        })
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(word: &str) -> Prefix {
        word.parse().expect("a network")
    }

    #[test]
    fn routes_and_rules_come_back_as_they_went() {
        let names = HashMap::from([(7, ("sl0".to_owned(), true))]);
        for (destination, target, metric, table) in [
            ("10.91.2.0/24", Target::Device(7), 0, MAIN),
            ("0.0.0.0/0", Target::Reject(Reject::Unreachable), 0x5300_1234, 0x5300_1234),
            ("fd91:2::/64", Target::Device(7), 128, MAIN),
            ("::/0", Target::Reject(Reject::Unreachable), 0x5300_1234, 0x5300_1234),
        ] {
            let (destination, words) = (prefix(destination), String::new());
            let sent = Route { table, destination, target, metric, protocol: PROTOCOL, words };
            let read = route(&route_message(&sent), &names).expect("a route");
            assert_eq!(Route { words: String::new(), ..read }, sent);
        }
        for (to, mark, action) in [
            ("0.0.0.0/0", None, Action::Lookup { table: MAIN, suppressed_bits: Some(0) }),
            ("192.0.2.0/24", None, Action::Lookup { table: 0x5300_1234, suppressed_bits: None }),
            ("::/0", Some(0x5300_1234), Action::Jump(30_258)),
            ("::/0", Some(0x5300_1234), Action::Nothing),
        ] {
            let sent = Rule { priority: 30_000, to: prefix(to), mark, action, protocol: PROTOCOL };
            assert_eq!(rule(&rule_message(&sent)), Some(sent));
        }
    }

    #[test]
    fn no_bytes_keep_the_reader_busy() {
        for length in 0..64u32 {
            let mut bytes = vec![0; 48];
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(messages(&bytes).count() <= 3);
            assert_eq!(messages(&bytes[..bytes.len().min(length as usize % 16)]).count(), 0);
        }
    }
}
