//! A tunnel that only moves GSO packets: the system calls of a tunnel between a device and a socket, and nothing else.
//!
//! Guarantees: packets are sent as they were read, and none is copied; a packet that the device refuses is lost, as on
//! any network.

use super::foreign::lead;
use super::net::{Gate, Net, ip};
use crate::LabError;
use crate::error::unavailable;
use rustix::io::{read, write};
use sealane_port::Batch;
use sealane_port::Port as _;
use sealane_port::tun::{Options, Tun};
use sealane_port::udp::Udp;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

/// The length of a datagram in bytes: at this length, the rooms of a batch are adjacent.
const SEGMENT_BYTES: usize = 1408;
/// The length of a batch: a burst is a GSO packet, and there is no room for another behind it.
const BATCH_BYTES: usize = 2 * 65_536;
const BATCH_PACKETS: usize = 64;
/// The length of a read from the device: any GSO packet, with its header.
const READ_BYTES: usize = 70_000;
/// The length up to which a GSO packet fits into one burst.
const GSO_PACKET_BYTES: usize = 60_000;
/// The port of both ends.
const PORT: u16 = 7777;

/// Starts this program as the tunnel between two gates of `net`.
pub(super) fn up(net: &mut Net, program: &Path, near: &[Gate], far: &Gate) -> Result<(), LabError> {
    let [near] = near else { return Err(unavailable("between two ends only")) };
    for (own, other) in [(near, far), (far, near)] {
        let words = format!("lab null-tunnel t0 {} {}", own.outer, other.outer);
        let command = net.command(own.host, &program.to_string_lossy(), &words);
        net.daemon(command, program)?;
        lead(net, own, "t0", &[other])?;
        let name = net.name(own.host);
        ip(&format!(
            "-n {name} link set t0 gso_max_size {GSO_PACKET_BYTES} gro_max_size {GSO_PACKET_BYTES}"
        ))?;
    }
    Ok(())
}

/// Moves GSO packets between `device` and the peer, until one of them fails.
///
/// # Errors
/// Returns that failure.
pub fn run(device: &str, own: IpAddr, peer: IpAddr) -> io::Result<Infallible> {
    let tun = Tun::open(&Options::new(device))?.remove(0);
    let socket = UdpSocket::bind((own, PORT))?;
    let peer = SocketAddr::new(peer, PORT);
    let ((tun_in, tun_out), (mut udp_in, mut udp_out)) = (tun.split(), Udp::new(socket, Some(peer))?.split());
    let mut outward = move || -> io::Result<Infallible> {
        let fd = tun_in.fd().expect("a device has a descriptor");
        let mut batch = Batch::new(BATCH_BYTES, BATCH_PACKETS);
        loop {
            batch.clear();
            let mut left = read(fd, &mut batch.work.buffer.bytes_mut()[..READ_BYTES])?;
            while left > 0 {
                let bytes = left.min(SEGMENT_BYTES);
                let laid = batch.push(0, bytes, 0).and_then(|packet| packet.push_back(bytes));
                laid.expect("it was read there");
                left -= bytes;
            }
            udp_out.send(&batch, 0)?;
        }
    };
    let mut inward = move || -> io::Result<Infallible> {
        let fd = tun_out.fd().expect("a device has a descriptor");
        let mut batch = Batch::new(BATCH_BYTES, BATCH_PACKETS);
        loop {
            batch.clear();
            udp_in.receive(&mut batch)?;
            let (Some(first), Some(last)) = (batch.packets.first(), batch.packets.last()) else { continue };
            let whole = first.span().start as usize..last.span().end();
            let _ = write(fd, &batch.work.buffer.bytes()[whole]);
        }
    };
    // The caller ends the process if either direction fails.
    let (failed, failure) = sync_channel(1);
    let other = failed.clone();
    thread::spawn(move || other.send(outward()));
    thread::spawn(move || failed.send(inward()));
    failure.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}
