//! smoltcp behind a mutex: one lock covers its interface and its socket, because they cannot be used apart.

use super::{Held, Lane, MTU, Stack};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as Stamp;
use smoltcp::wire::{
    HardwareAddress, IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket,
    TcpRepr, TcpSeqNumber,
};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

const OURS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const PEER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const PORTS: (u16, u16) = (4000, 5000);
const IRS: i32 = 500;
const BUFFER_BYTES: usize = 1 << 20;

/// A device without checksums that keeps its buffers: the caller exchanges sent packets for empty ones.
struct Link {
    inbound: VecDeque<Vec<u8>>,
    outbound: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

struct Received<'a>(Vec<u8>, std::marker::PhantomData<&'a ()>);
struct Sent<'a>(&'a mut Vec<Vec<u8>>, &'a mut Vec<Vec<u8>>);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.1.pop().unwrap_or_else(|| Vec::with_capacity(MTU));
        packet.resize(len, 0);
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Link {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Stamp) -> Option<(Received<'_>, Sent<'_>)> {
        let packet = self.inbound.pop_front()?;
        Some((Received(packet, std::marker::PhantomData), Sent(&mut self.outbound, &mut self.spare)))
    }

    fn transmit(&mut self, _: Stamp) -> Option<Sent<'_>> {
        Some(Sent(&mut self.outbound, &mut self.spare))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

struct Inner {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    link: Link,
}

pub(crate) struct Foreign {
    inner: Mutex<Inner>,
    start: Instant,
}

/// Writes a segment of the peer's: SYN and ACK, or an acknowledgement.
fn segment(control: TcpControl, seq: i32, ack: TcpSeqNumber, packet: &mut Vec<u8>) {
    let is_syn = control == TcpControl::Syn;
    let repr = TcpRepr {
        src_port: PORTS.1,
        dst_port: PORTS.0,
        control,
        seq_number: TcpSeqNumber(seq),
        ack_number: Some(ack),
        window_len: u16::MAX,
        window_scale: is_syn.then_some(7),
        max_seg_size: is_syn.then_some((MTU - 40) as u16),
        sack_permitted: is_syn,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let ip = Ipv4Repr {
        src_addr: PEER,
        dst_addr: OURS,
        next_header: IpProtocol::Tcp,
        payload_len: repr.buffer_len(),
        hop_limit: 64,
    };
    packet.resize(ip.buffer_len() + repr.buffer_len(), 0);
    let checksums = ChecksumCapabilities::ignored();
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &checksums);
    let mut ip_packet = Ipv4Packet::new_unchecked(&mut packet[..]);
    let mut tcp_packet = TcpPacket::new_unchecked(ip_packet.payload_mut());
    repr.emit(&mut tcp_packet, &IpAddress::Ipv4(PEER), &IpAddress::Ipv4(OURS), &checksums);
}

/// Returns the acknowledgement of a packet that was sent.
fn ack_of(packet: &[u8]) -> TcpSeqNumber {
    let ip = Ipv4Packet::new_unchecked(packet);
    let tcp = TcpPacket::new_unchecked(ip.payload());
    tcp.seq_number() + tcp.segment_len()
}

impl Foreign {
    pub(crate) fn new() -> Self {
        let spare = (0..512).map(|_| Vec::with_capacity(MTU)).collect();
        let outbound = Vec::with_capacity(1024);
        let mut link = Link { inbound: VecDeque::with_capacity(64), outbound, spare };
        let now = Stamp::from_micros(0);
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut link, now);
        interface.update_ip_addrs(|list| {
            list.push(IpCidr::new(IpAddress::Ipv4(OURS), 24)).expect("room for an address");
        });
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_BYTES]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        let socket = sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket.connect(interface.context(), (PEER, PORTS.1), PORTS.0).expect("an address");
        interface.poll(now, &mut link, &mut sockets);
        let syn = link.outbound.pop().expect("SYN");
        let mut answer = Vec::new();
        segment(TcpControl::Syn, IRS, ack_of(&syn), &mut answer);
        link.inbound.push_back(answer);
        interface.poll(now, &mut link, &mut sockets);
        assert!(sockets.get_mut::<tcp::Socket<'_>>(handle).may_send(), "the handshake is over");
        link.outbound.clear();
        Self { inner: Mutex::new(Inner { interface, sockets, handle, link }), start: Instant::now() }
    }
}

impl Stack for Foreign {
    fn pass(&self, lane: &mut Lane, batch: usize, held: &mut Held) {
        let now = Stamp::from_micros(self.start.elapsed().as_micros() as i64);
        let mut ack = lane.packets.pop().unwrap_or_default();
        {
            let mut inner = self.inner.lock().expect("no lane panics");
            let taken_at = Instant::now();
            let Inner { interface, sockets, handle, link } = &mut *inner;
            let socket = sockets.get_mut::<tcp::Socket<'_>>(*handle);
            for _ in 0..batch {
                // A full buffer takes a part of a message or nothing; the count is of messages sent.
                held.messages += u64::from(socket.send_slice(&lane.message).is_ok_and(|bytes| bytes > 0));
            }
            interface.poll(now, link, sockets);
            // The lane takes sent packets with it, and leaves empty buffers.
            for _ in 0..lane.packets.len().min(link.outbound.len()) {
                link.spare.extend(lane.packets.pop());
            }
            lane.packets.append(&mut link.outbound);
            held.ns += taken_at.elapsed().as_nanos() as u64;
        }
        held.locks += 1;
        let Some(last) = lane.packets.last().filter(|packet| packet.len() > 40) else {
            lane.packets.push(ack);
            return;
        };
        segment(TcpControl::None, IRS + 1, ack_of(last), &mut ack);
        {
            let mut inner = self.inner.lock().expect("no lane panics");
            let taken_at = Instant::now();
            let Inner { interface, sockets, link, .. } = &mut *inner;
            link.inbound.push_back(ack);
            interface.poll(now, link, sockets);
            held.ns += taken_at.elapsed().as_nanos() as u64;
        }
        held.locks += 1;
    }
}
