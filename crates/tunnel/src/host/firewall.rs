//! An nftables table that refuses packets in clear with a source in a peer's network (RFC 4301, section 5.2). It is
//! set by nfnetlink, without the program `nft`.
//!
//! A packet that arrives elsewhere than on the gateway's device, from an address of the peers' networks, is dropped
//! if the route back to that address leads into the device, or is missing because the gateway is down. So packets
//! from networks of this host that lie within a peer's are accepted, as the routing table requires. If the gateway's
//! own packets are marked, packets for its sockets get the mark too (otherwise a strict `rp_filter` would look for
//! the route back in the tunnel), and routers' messages about packets pass, because their sources cannot be known
//! beforehand.
//!
//! Guarantees: the table belongs to the gateway, and is set or replaced as a whole or not at all; no other table is
//! touched.

use std::{
    fs,
    io::{self, ErrorKind},
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rustix::net::sockopt;
use sealane_ipsec::selector::Prefix;

use super::{Wanted, is_number};

const NAME: &str = "sealane-";
const CHAIN: &str = "arrivals";
/// The chain of clients whose packets get this host's address.
const MASQUERADE: &str = "masquerade";
/// The hook of packets that leave, and the priority of changes to their sources.
const POSTROUTING: u32 = 4;
const SOURCE_NAT: u32 = 100;
/// A chain without rules; it records that `src_valid_mark` was off, and is to be restored to that.
const MARKER: &str = "src-valid-mark-was-off";
const SRC_VALID_MARK: &str = "/proc/sys/net/ipv4/conf/all/src_valid_mark";
/// The priority is before connection tracking and all other tables (NF_IP_PRI_RAW).
const PRIORITY: i32 = -300;
/// The maximum number of elements of a set in one message: a list is at most 64 KiB long.
const ELEMENTS_MAX: usize = 1000;
/// The maximum size of the send buffer in bytes; a batch is sent in one call.
const SEND_BYTES: usize = 32 << 20;
/// The multicast group of nftables (NFNLGRP_NFTABLES).
const GROUP: u32 = 7;

/// Numbers of linux/netfilter/nf_tables.h and nfnetlink.h.
mod nf {
    pub(super) const SUBSYSTEM: u16 = 10;
    pub(super) const BATCH_BEGIN: u16 = 0x10;
    pub(super) const BATCH_END: u16 = 0x11;
    pub(super) const NEW_TABLE: u16 = SUBSYSTEM << 8;
    pub(super) const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
    pub(super) const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
    pub(super) const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
    pub(super) const GET_CHAIN: u16 = SUBSYSTEM << 8 | 4;
    pub(super) const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
    pub(super) const NEW_SET: u16 = SUBSYSTEM << 8 | 9;
    pub(super) const NEW_ELEMENTS: u16 = SUBSYSTEM << 8 | 12;
    pub(super) const INET: u8 = 1;
    pub(super) const NESTED: u16 = 0x8000;
    pub(super) const DROP: u32 = 0;
    pub(super) const ACCEPT: u32 = 1;
    pub(super) const META_MARK: u32 = 3;
    pub(super) const META_IN_NAME: u32 = 6;
    pub(super) const META_FAMILY: u32 = 15;
    pub(super) const META_PROTOCOL: u32 = 16;
    pub(super) const META_OUT_NAME: u32 = 7;
    pub(super) const EQUAL: u32 = 0;
    pub(super) const NOT_EQUAL: u32 = 1;
    pub(super) const AT_MOST: u32 = 3;
    pub(super) const AT_LEAST: u32 = 5;
    pub(super) const REQUEST: u16 = 1;
    pub(super) const ACK: u16 = 4;
    pub(super) const DUMP: u16 = 0x300;
    pub(super) const CREATE: u16 = 0x400;
    pub(super) const APPEND: u16 = 0x800;
    pub(super) const ERROR: u16 = 2;
    pub(super) const DONE: u16 = 3;
}

/// A list of attributes.
#[derive(Clone, Debug, Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).expect("lists are cut before");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn text(self, kind: u16, text: &str) -> Self {
        self.bytes(kind, &[text.as_bytes(), b"\0"].concat())
    }

    fn number(self, kind: u16, number: u32) -> Self {
        self.bytes(kind, &number.to_be_bytes())
    }

    fn nest(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | nf::NESTED, &inner.0)
    }
}

fn attributes() -> Attributes {
    Attributes::default()
}

/// Returns an expression of a rule.
fn expression(name: &str, data: &Attributes) -> Attributes {
    attributes().text(1, name).nest(2, data)
}

/// Returns an expression that loads metadata of a packet.
fn meta(key: u32) -> Attributes {
    expression("meta", &attributes().number(1, 1).number(2, key))
}

fn compare(operation: u32, value: &[u8]) -> Attributes {
    let value = attributes().bytes(1, value);
    expression("cmp", &attributes().number(1, 1).number(2, operation).nest(3, &value))
}

/// Returns an expression that loads bytes of the network (1) or transport (2) header.
fn payload(header: u32, offset: u32, bytes: u32) -> Attributes {
    let data = attributes().number(1, 1).number(2, header).number(3, offset).number(4, bytes);
    expression("payload", &data)
}

fn verdict(code: u32) -> Attributes {
    let verdict = attributes().nest(2, &attributes().number(1, code));
    expression("immediate", &attributes().number(1, 0).nest(2, &verdict))
}

/// Returns a device's name in the form that the kernel compares.
fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    bytes
}

/// Returns the networks of one family without those that lie in others.
fn outermost(networks: &[Prefix], is_v4: bool) -> Vec<Prefix> {
    let mut of_family: Vec<Prefix> =
        networks.iter().copied().filter(|network| network.address().is_ipv4() == is_v4).collect();
    of_family.sort_by_key(|network| (network.address(), network.bits()));
    let mut outermost: Vec<Prefix> = Vec::with_capacity(of_family.len());
    for network in of_family {
        if !outermost.last().is_some_and(|last| last.contains(network.address())) {
            outermost.push(network);
        }
    }
    outermost
}

/// Returns the first address behind a network; `None` if the network extends to the last address.
fn behind(network: Prefix) -> Option<IpAddr> {
    let bits = u32::from(network.bits());
    match network.address() {
        IpAddr::V4(address) => {
            let size = 1u32.checked_shl(32 - bits)?;
            Some(IpAddr::V4(u32::from(address).checked_add(size)?.into()))
        }
        IpAddr::V6(address) => {
            let size = 1u128.checked_shl(128 - bits)?;
            Some(IpAddr::V6(u128::from(address).checked_add(size)?.into()))
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the elements of a set of intervals: the beginning and the end of each.
fn elements(networks: &[Prefix]) -> Vec<Attributes> {
    let mut edges: Vec<(Vec<u8>, bool)> = Vec::new();
    for &network in networks {
        let begin = octets(network.address());
        // Adjacent networks are one interval.
        if edges.last().is_some_and(|(at, is_end)| *is_end && *at == begin) {
            edges.pop();
        } else {
            edges.push((begin, false));
        }
        edges.extend(behind(network).map(|address| (octets(address), true)));
    }
    edges
        .into_iter()
        .map(|(at, is_end)| {
            let key = attributes().nest(1, &attributes().bytes(1, &at));
            if is_end { key.number(3, 1) } else { key }
        })
        .collect()
}

/// Messages that the kernel applies as a whole.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    sequence: u32,
}

impl Batch {
    fn message(&mut self, kind: u16, flags: u16, family: u8, resource: u16, attributes: &Attributes) {
        let length = 20 + attributes.0.len() as u32;
        self.sequence += 1;
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | nf::REQUEST).to_ne_bytes());
        self.bytes.extend(self.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.bytes.extend(&attributes.0);
    }

    fn begun() -> Self {
        let mut batch = Self::default();
        batch.message(nf::BATCH_BEGIN, 0, 0, nf::SUBSYSTEM, &attributes());
        batch
    }

    fn ended(mut self) -> Self {
        self.message(nf::BATCH_END, 0, 0, nf::SUBSYSTEM, &attributes());
        self
    }

    fn order(&mut self, kind: u16, flags: u16, attributes: &Attributes) {
        self.message(kind, flags | nf::ACK, nf::INET, 0, attributes);
    }
}

/// Returns the name of the table of the gateway with this number.
pub fn table_name(number: u32) -> String {
    format!("{NAME}{number}")
}

/// Returns the messages that set the table. `notes_off` adds the chain that records that `src_valid_mark` was off.
fn table(wanted: &Wanted, notes_off: bool) -> Batch {
    let name = table_name(wanted.number());
    let named = || attributes().text(1, &name);
    let mut batch = Batch::begun();
    // The deletion of a missing table would fail, so the table is created before.
    batch.order(nf::NEW_TABLE, nf::CREATE, &named());
    batch.order(nf::DELETE_TABLE, 0, &named());
    batch.order(nf::NEW_TABLE, nf::CREATE, &named());
    let hook = attributes().number(1, 0).number(2, PRIORITY as u32);
    let chain = named().text(3, CHAIN).nest(4, &hook).number(5, nf::ACCEPT).text(7, "filter");
    batch.order(nf::NEW_CHAIN, nf::CREATE, &chain);
    if notes_off {
        batch.order(nf::NEW_CHAIN, nf::CREATE, &named().text(3, MARKER));
    }
    let sets: Vec<(bool, Vec<Prefix>)> = [true, false]
        .into_iter()
        .map(|is_v4| (is_v4, outermost(&wanted.networks, is_v4)))
        .filter(|(_, networks)| !networks.is_empty())
        .collect();
    for (id, (is_v4, networks)) in (1..).zip(&sets) {
        // Flags: intervals. The type is for programs that list the set.
        let (kind, bytes) = if *is_v4 { (7, 4) } else { (8, 16) };
        let set =
            named().text(2, set_name(*is_v4)).number(3, 4).number(4, kind).number(5, bytes).number(10, id);
        batch.order(nf::NEW_SET, nf::CREATE, &set);
        for some in elements(networks).chunks(ELEMENTS_MAX) {
            let list = some.iter().fold(attributes(), |list, element| list.nest(1, element));
            let told = named().text(2, set_name(*is_v4)).nest(3, &list).number(4, id);
            batch.order(nf::NEW_ELEMENTS, nf::CREATE, &told);
        }
    }
    for rule in rules(wanted, &sets) {
        let list = rule.iter().fold(attributes(), |list, expression| list.nest(1, expression));
        batch.order(nf::NEW_RULE, nf::CREATE | nf::APPEND, &named().text(2, CHAIN).nest(4, &list));
    }
    if !wanted.masquerades.is_empty() {
        let hook = attributes().number(1, POSTROUTING).number(2, SOURCE_NAT);
        let chain = named().text(3, MASQUERADE).nest(4, &hook).number(5, nf::ACCEPT).text(7, "nat");
        batch.order(nf::NEW_CHAIN, nf::CREATE, &chain);
    }
    for network in &wanted.masquerades {
        let rule = masquerade(*network, &wanted.device);
        let list = rule.iter().fold(attributes(), |list, expression| list.nest(1, expression));
        batch.order(nf::NEW_RULE, nf::CREATE | nf::APPEND, &named().text(2, MASQUERADE).nest(4, &list));
    }
    batch
}

/// Returns the rule that gives packets from a network this host's address, unless they leave by the device.
fn masquerade(network: Prefix, device: &str) -> Vec<Attributes> {
    let is_v4 = network.address().is_ipv4();
    let (offset, bytes) = if is_v4 { (12, 4) } else { (8, 16) };
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let first = octets(network.address());
    let host_bits = |at: usize| {
        let fixed = usize::from(network.bits()).saturating_sub(8 * at).min(8) as u32;
        0xff_u8.checked_shr(fixed).unwrap_or(0)
    };
    let last: Vec<u8> = first.iter().zip(0..).map(|(byte, at)| byte | host_bits(at)).collect();
    let mut rule = family(is_v4);
    rule.extend([payload(1, offset, bytes), compare(nf::AT_LEAST, &first), compare(nf::AT_MOST, &last)]);
    rule.extend([meta(nf::META_OUT_NAME), compare(nf::NOT_EQUAL, &padded(device))]);
    rule.push(expression("masq", &attributes()));
    rule
}

fn set_name(is_v4: bool) -> &'static str {
    if is_v4 { "peers-ip" } else { "peers-ip6" }
}

/// Returns the comparison with NFPROTO_IPV4 or NFPROTO_IPV6.
fn family(is_v4: bool) -> Vec<Attributes> {
    vec![meta(nf::META_FAMILY), compare(nf::EQUAL, &[if is_v4 { 2 } else { 10 }])]
}

fn rules(wanted: &Wanted, sets: &[(bool, Vec<Prefix>)]) -> Vec<Vec<Attributes>> {
    let device = padded(&wanted.device);
    let protocol = |number: u8| [meta(nf::META_PROTOCOL), compare(nf::EQUAL, &[number])];
    let mut rules = vec![vec![meta(nf::META_IN_NAME), compare(nf::EQUAL, &device), verdict(nf::ACCEPT)]];
    if let Some(mark) = wanted.mark() {
        let is_marked = compare(nf::EQUAL, &mark.to_ne_bytes());
        let value = attributes().nest(2, &attributes().bytes(1, &mark.to_ne_bytes()));
        let load = expression("immediate", &attributes().number(1, 1).nest(2, &value.clone()));
        let set_mark = expression("meta", &attributes().number(2, nf::META_MARK).number(3, 1));
        let socket = expression("socket", &attributes().number(1, 1).number(2, 1));
        rules.push(vec![socket, is_marked, set_mark.clone(), verdict(nf::ACCEPT)]);
        if let Some(number) = wanted.bare_protocol {
            let mut rule = protocol(number).to_vec();
            rule.extend([load, set_mark, verdict(nf::ACCEPT)]);
            rules.push(rule);
        }
        // Unreachable and time exceeded (RFC 792); errors, neighbours and listeners (RFC 4443, RFC 4861, RFC 3810).
        for (is_v4, protocol_number, least, most) in
            [(true, 1, 3, 3), (true, 1, 11, 12), (false, 58, 1, 4), (false, 58, 130, 143)]
        {
            let mut rule = family(is_v4);
            rule.extend(protocol(protocol_number));
            rule.extend([payload(2, 0, 1), compare(nf::AT_LEAST, &[least]), compare(nf::AT_MOST, &[most])]);
            rule.push(verdict(nf::ACCEPT));
            rules.push(rule);
        }
    }
    for &(is_v4, _) in sets {
        let (offset, bytes) = if is_v4 { (12, 4) } else { (8, 16) };
        // The route leads into the device, or is missing because the gateway is down.
        let ways = if wanted.fails_open { &[device][..] } else { &[device, [0; 16]] };
        for way in ways {
            let mut rule = family(is_v4);
            let lookup = attributes().text(1, set_name(is_v4)).number(2, 1);
            // The name of the device through which packets to the source would leave.
            let back = attributes().number(1, 1).number(2, 2).number(3, 1);
            rule.extend([
                payload(1, offset, bytes),
                expression("lookup", &lookup),
                expression("fib", &back),
                compare(nf::EQUAL, way),
                expression("counter", &attributes()),
                verdict(nf::DROP),
            ]);
            rules.push(rule);
        }
    }
    rules
}

fn connected() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// Returns the messages of one datagram: type, sequence number, and the bytes behind the header.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let message = bytes.get(..length.max(16))?;
        bytes = bytes.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let sequence = u32::from_ne_bytes([message[8], message[9], message[10], message[11]]);
        Some((kind, sequence, &message[16..]))
    })
}

/// Returns the table's name, if the first attribute behind nfnetlink's header is one.
fn told_name(body: &[u8]) -> Option<&str> {
    let attribute = body.get(4..)?;
    let length = usize::from(u16::from_ne_bytes(*attribute.first_chunk()?));
    let kind = u16::from_ne_bytes(*attribute.get(2..)?.first_chunk()?);
    let value = attribute.get(4..length).filter(|_| kind == 1)?;
    std::str::from_utf8(value.strip_suffix(b"\0").unwrap_or(value)).ok()
}

/// Sends messages, and reads their answers up to that of number `last`.
fn converse(batch: &Batch, last: u32, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let socket = connected()?;
    // The size is beyond the system's limit; if the kernel refuses it, it refuses the other messages as well.
    let _ = sockopt::set_socket_send_buffer_size_force(
        &socket,
        SEND_BYTES.min(2 * batch.bytes.len() + (1 << 16)),
    );
    socket.send(&batch.bytes, 0)?;
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        for (kind, sequence, body) in messages(&bytes) {
            match kind {
                nf::ERROR => {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    if code != 0 {
                        return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
                    }
                    if sequence == last {
                        return Ok(());
                    }
                }
                nf::DONE => return Ok(()),
                _ => each(body),
            }
        }
    }
}

/// Returns whether the kernel has the object that the message asks for.
fn exists(kind: u16, attributes: &Attributes) -> io::Result<bool> {
    let mut question = Batch::default();
    question.order(kind, 0, attributes);
    match converse(&question, 1, |_| {}) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true),
    }
}

fn is_there(number: u32) -> io::Result<bool> {
    exists(nf::GET_TABLE, &attributes().text(1, &table_name(number)))
}

/// Checks whether the kernel would accept the table. Nothing is changed: the batch has no end, so the kernel aborts
/// it.
///
/// # Errors
/// Fails with [`ErrorKind::PermissionDenied`] if only root can find out, and with another error if the kernel would
/// refuse the table.
pub fn try_out(wanted: &Wanted) -> io::Result<()> {
    let batch = table(wanted, false);
    converse(&batch, batch.sequence, |_| {}).map_err(plain_refusal)
}

/// Returns [`ErrorKind::PermissionDenied`] for EPERM, and other errors unchanged.
fn plain_refusal(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) {
        return ErrorKind::PermissionDenied.into();
    }
    error
}

/// Returns a message for an operator whose kernel does not accept the table.
pub fn missing(error: &io::Error) -> String {
    let strict = |name: &str| {
        let path = Path::new("/proc/sys/net/ipv4/conf").join(name).join("rp_filter");
        fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
    };
    let advice = match strict("all") {
        true => "over IPv4 this host's strict rp_filter refuses them; over IPv6 nothing does",
        false => "over IPv4 `sysctl net.ipv4.conf.all.rp_filter=1` would refuse them",
    };
    format!(
        "packets that arrive in clear and claim to come from the peers' networks are not refused: the kernel takes no nftables \
         ({error}); {advice}"
    )
}

/// Sets the table of `wanted`, or replaces it. Returns whether it is new.
///
/// # Errors
/// Fails if the kernel has no nftables, or refuses.
pub fn set(wanted: &Wanted) -> io::Result<bool> {
    let number = wanted.number();
    let is_new = !is_there(number)?;
    // `rp_filter` uses the mark of a received packet only if the kernel is configured so.
    let was_off = if is_new {
        wanted.mark().is_some() && fs::read_to_string(SRC_VALID_MARK).is_ok_and(|text| text.trim() == "0")
    } else {
        is_off(number)?
    };
    let batch = table(wanted, was_off);
    let last = batch.sequence;
    converse(&batch.ended(), last, |_| {})?;
    if was_off {
        // If the file cannot be written, a strict rp_filter keeps its effect; it is off by default.
        let _ = fs::write(SRC_VALID_MARK, "1");
    }
    Ok(is_new)
}

/// Returns whether a gateway has recorded that `src_valid_mark` was off.
fn is_off(number: u32) -> io::Result<bool> {
    exists(nf::GET_CHAIN, &attributes().text(1, &table_name(number)).text(3, MARKER))
}

/// Removes the table of the gateway with this number. Returns whether there was one.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn take_away(number: u32) -> io::Result<bool> {
    match is_there(number) {
        Ok(true) => {}
        Ok(false) => return Ok(false),
        // Without nftables there is no table.
        Err(error) if is_without(&error) => return Ok(false),
        Err(error) => return Err(plain_refusal(error)),
    }
    let was_off = is_off(number)?;
    let mut batch = Batch::begun();
    batch.order(nf::DELETE_TABLE, 0, &attributes().text(1, &table_name(number)));
    let last = batch.sequence;
    converse(&batch.ended(), last, |_| {})?;
    if was_off {
        let _ = fs::write(SRC_VALID_MARK, "0");
    }
    Ok(true)
}

/// Returns whether the error means that the kernel has no nftables at all.
fn is_without(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let without = [Errno::OPNOTSUPP, Errno::PROTONOSUPPORT, Errno::INVAL, Errno::AFNOSUPPORT].map(Some);
    without.contains(&Errno::from_io_error(error))
}

/// Returns the numbers of all gateways that have tables here, as far as the kernel shows them: without nftables, or
/// without CAP_NET_ADMIN, it shows none.
pub fn numbers() -> Vec<u32> {
    let mut question = Batch::default();
    question.message(nf::GET_TABLE, nf::DUMP, nf::INET, 0, &attributes());
    let mut numbers = Vec::new();
    let _ = converse(&question, 1, |body| {
        let number = told_name(body).and_then(|name| name.strip_prefix(NAME)?.parse().ok());
        numbers.extend(number.filter(|&number| is_number(number)));
    });
    numbers
}

/// The kernel's events about removed tables, as with `nft flush ruleset`.
#[derive(Debug)]
pub struct Events {
    socket: Socket,
}

impl Events {
    /// Receives events from now on.
    ///
    /// # Errors
    /// Fails if the system has no such socket, or refuses.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.add_membership(GROUP)?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Reads the pending events. Returns whether the table of the gateway with this number is gone.
    pub fn is_gone(&self, number: u32) -> bool {
        let mut concerns = false;
        loop {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => {
                    let name = table_name(number);
                    concerns |= messages(&bytes)
                        .any(|(kind, _, body)| kind == nf::DELETE_TABLE && told_name(body) == Some(&*name));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    concerns = true;
                    break;
                }
            }
        }
        concerns && is_there(number).is_ok_and(|is_there| !is_there)
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

    fn prefixes(words: &[&str]) -> Vec<Prefix> {
        words.iter().map(|word| word.parse().expect("a network")).collect()
    }

    #[test]
    fn networks_within_others_are_left_out() {
        let networks = prefixes(&["10.1.0.0/16", "10.0.0.0/8", "fd91::/16", "11.0.0.0/8", "10.1.2.3/32"]);
        assert_eq!(outermost(&networks, true), prefixes(&["10.0.0.0/8", "11.0.0.0/8"]));
        assert_eq!(outermost(&networks, false), prefixes(&["fd91::/16"]));
    }

    #[test]
    fn networks_end_where_the_next_address_begins() {
        let ends = |word: &str| behind(prefixes(&[word])[0]).map(|address| address.to_string());
        for (network, end) in [
            ("10.0.0.0/8", Some("11.0.0.0")),
            ("10.1.2.3/32", Some("10.1.2.4")),
            ("255.255.255.255/32", None),
            ("0.0.0.0/0", None),
            ("fd91::/16", Some("fd92::")),
            ("::/0", None),
            ("128.0.0.0/1", None),
        ] {
            assert_eq!(ends(network).as_deref(), end, "{network}");
        }
        // Adjacent networks are one interval, with one beginning and one end.
        assert_eq!(elements(&prefixes(&["10.0.0.0/8", "11.0.0.0/8"])).len(), 2);
        assert_eq!(elements(&prefixes(&["10.0.0.0/8", "12.0.0.0/8"])).len(), 4);
        assert_eq!(elements(&prefixes(&["0.0.0.0/0"])).len(), 1);
    }

    #[test]
    fn a_kernel_without_nftables_is_named_with_what_helps() {
        use rustix::io::Errno;
        // The errors of socket() if nfnetlink is not built in, and of nfnetlink if nf_tables is not.
        for errno in [Errno::PROTONOSUPPORT, Errno::OPNOTSUPP, Errno::INVAL] {
            let error = io::Error::from(errno);
            assert!(is_without(&error), "{error}");
            let said = missing(&error);
            assert!(said.contains("the kernel takes no nftables") && said.contains("rp_filter"), "{said}");
        }
        assert!(!is_without(&io::Error::from(Errno::PERM)), "a refusal is not an absence");
    }

    #[test]
    fn names_are_read_and_garbage_is_not() {
        let body = [&[1, 0, 0, 0][..], &attributes().text(1, "sealane-7").0].concat();
        assert_eq!(told_name(&body), Some("sealane-7"));
        for cut in 0..body.len() - 3 {
            assert_ne!(told_name(&body[..cut]), Some("sealane-7"));
        }
        for length in 0..64u32 {
            let mut bytes = vec![0; 48];
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(messages(&bytes).count() <= 3);
        }
    }
}
