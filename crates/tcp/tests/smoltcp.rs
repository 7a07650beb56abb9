//! smoltcp as the other end, in memory and in virtual time, over a link that loses and reorders packets.

mod common;

use common::ip::Address;
use common::link::Direction;
use common::node::Node;
use common::{Random, content};
use sealane_tcp::{Config, Congestion, Reason, Time};
use smoltcp::iface::{Interface, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::time::Duration;

const OURS: Address = Address { ip: [10, 0, 0, 1], port: 4000 };
const THEIRS: Address = Address { ip: [10, 0, 0, 2], port: 5000 };
const MTU: usize = 1500;
const BYTES: u64 = 150_000;
/// A conversation longer than this, in milliseconds, has failed.
const MS_MAX: u64 = 600_000;

/// smoltcp's end of the link.
#[derive(Default)]
struct Wire {
    inbound: VecDeque<Vec<u8>>,
    outbound: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);
struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        Some((Received(self.inbound.pop_front()?), Sent(&mut self.outbound)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.outbound))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

fn converse(seed: u64) {
    let mut random = Random::new(seed);
    let loss_permille = [0, 10, 50][seed as usize % 3];
    let config = Config {
        mss: 1460,
        congestion: random.one_of(&[Congestion::NewReno, Congestion::Cubic]),
        nagle: random.once_in(2),
        receive_bytes: random.one_of(&[8_000, 65_535, 300_000]),
        time_wait: Duration::from_secs(5),
        ..Config::default()
    };
    let mut wire = Wire::default();
    let at = |ms: u64| Instant::from_millis(ms as i64);
    let mut interface = Interface::new(smoltcp::iface::Config::new(HardwareAddress::Ip), &mut wire, at(0));
    let address =
        |address: Address| IpAddress::v4(address.ip[0], address.ip[1], address.ip[2], address.ip[3]);
    interface
        .update_ip_addrs(|list| list.push(IpCidr::new(address(THEIRS), 24)).expect("room for an address"));
    let buffer = || tcp::SocketBuffer::new(vec![0; 65_535]);
    let mut sockets = SocketSet::new(Vec::new());
    let handle = sockets.add(tcp::Socket::new(buffer(), buffer()));
    let is_ours_active = random.once_in(2);
    let mut node = if is_ours_active {
        sockets.get_mut::<tcp::Socket<'_>>(handle).listen(THEIRS.port).expect("a free port");
        Node::connect(&config, OURS, THEIRS, Time::ZERO)
    } else {
        let socket = sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket.connect(interface.context(), (address(OURS), OURS.port), THEIRS.port).expect("an address");
        Node::listen(&config, OURS)
    };
    node.stream = (0..BYTES).map(|at| content(1, at)).collect();
    node.closes = true;
    let (mut to_us, mut to_them) = (Direction::default(), Direction::default());
    let (mut sent, mut received) = (0, 0);
    let mut ms = 0;
    // smoltcp may fall back to CLOSED only once both directions have ended.
    let mut is_theirs_open = false;
    while node.ended.is_none() || received < BYTES {
        ms += 1;
        assert!(ms < MS_MAX, "seed {seed}: {} and {received} bytes, {:?}", node.received.len(), node.ended);
        let now = Time::from_ns(ms * 1_000_000);
        wire.inbound.extend(to_them.due(ms));
        interface.poll(at(ms), &mut wire, &mut sockets);
        let socket = sockets.get_mut::<tcp::Socket<'_>>(handle);
        is_theirs_open |= socket.may_send();
        while socket.can_send() && sent < BYTES {
            let piece: Vec<u8> = (sent..BYTES.min(sent + 1000)).map(|at| content(2, at)).collect();
            sent += socket.send_slice(&piece).expect("it can send") as u64;
        }
        while socket.can_recv() {
            let mut piece = [0; 2000];
            let length = socket.recv_slice(&mut piece).expect("it can receive");
            for &byte in &piece[..length] {
                assert_eq!(byte, content(1, received), "seed {seed}: byte {received}");
                received += 1;
            }
        }
        if sent == BYTES && is_theirs_open {
            socket.close();
        }
        interface.poll(at(ms), &mut wire, &mut sockets);
        for packet in wire.outbound.drain(..) {
            to_us.send(packet, ms, loss_permille, &mut random);
        }
        for packet in to_us.due(ms) {
            node.on_packet(&packet, now);
        }
        node.poll(now);
        for packet in node.packets.drain(..) {
            to_them.send(packet, ms, loss_permille, &mut random);
        }
    }
    let expected: Vec<u8> = (0..BYTES).map(|at| content(2, at)).collect();
    assert!(node.received == expected, "seed {seed}: {} bytes", node.received.len());
    assert_eq!(node.ended, Some(Reason::Finished), "seed {seed}");
    assert_eq!(node.pool.in_use(), 0, "seed {seed}: slots were kept");
}

#[test]
fn smoltcp_at_the_other_end() {
    for seed in 0..60 {
        converse(seed);
    }
}
