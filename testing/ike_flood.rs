//! Strangers' first messages of IKE from addresses that are not theirs. Tests and benchmarks include this file with
//! `#[path]`. It needs root, and a network namespace of its own.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

/// The network that the strangers' addresses are taken from, in the form of `ip route`. The target's answers must lead
/// back to where they vanish.
pub(crate) const NETWORK: &str = "10.128.0.0/10";
const FIRST_ADDRESS: u32 = 0x0a80_0000;
const ADDRESSES: u32 = 1 << 22;
const HEADERS_BYTES: usize = 28;
/// The only proposal of the strangers' messages, which the target should accept.
pub(crate) const PROPOSAL: &str = "aes256gcm16-prfsha384-x25519";
/// The most messages that are sent at once to catch up.
const BURST_MAX: u64 = 500;

/// Messages that were sent, and the time that it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) time: Duration,
}

/// Returns a first message with [`PROPOSAL`] (RFC 7296, section 1.2): Security Association, Key Exchange, Nonce.
pub(crate) fn first_message() -> Vec<u8> {
    // The last transform and the last proposal are marked by 0 in front.
    let transforms: [&[u8]; 3] =
        [&[3, 0, 0, 12, 1, 0, 0, 20, 0x80, 14, 1, 0], &[3, 0, 0, 8, 2, 0, 0, 6], &[0, 0, 0, 8, 4, 0, 0, 31]];
    let proposal = [&[0, 0, 0, 36, 1, 1, 0, 3], &transforms.concat()[..]].concat();
    // A point of X25519: its base.
    let mut point = [0; 32];
    point[0] = 9;
    let payloads =
        [&[34, 0, 0, 40], &proposal[..], &[40, 0, 0, 40, 0, 31, 0, 0], &point, &[0, 0, 0, 36], &[7; 32]]
            .concat();
    let length = 28 + payloads.len() as u8;
    // SPIs, the first payload's type, version 2, IKE_SA_INIT, a request of the initiator, number 0.
    [&[0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 8], &[33, 0x20, 34, 8, 0, 0, 0, 0, 0, 0, 0, length], &payloads]
        .concat()
}

/// Sends `message` to `target` about `per_second` times per second, or as often as this machine can, until `is_ended`.
/// Each time it comes from another address and port, with another SPI of its initiator.
///
/// # Errors
/// Fails if the system refuses the socket.
pub(crate) fn send(
    target: SocketAddrV4,
    message: &[u8],
    per_second: u32,
    is_ended: &AtomicBool,
) -> io::Result<Sent> {
    // The packets have headers of their own.
    let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?;
    let mut packet = vec![0; HEADERS_BYTES];
    packet.extend_from_slice(message);
    let length = u16::try_from(packet.len()).map_err(io::Error::other)?;
    // IPv4 without options, 64 hops, UDP; the kernel adds the checksum.
    packet[..4].copy_from_slice(&[0x45, 0, (length >> 8) as u8, length as u8]);
    (packet[8], packet[9]) = (64, 17);
    packet[16..20].copy_from_slice(&target.ip().octets());
    packet[22..24].copy_from_slice(&target.port().to_be_bytes());
    // UDP without a checksum.
    packet[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    let to = SocketAddr::V4(target);
    let (begun, mut messages) = (Instant::now(), 0u64);
    while !is_ended.load(Ordering::Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * f64::from(per_second)) as u64;
        for _ in 0..due.saturating_sub(messages).min(BURST_MAX) {
            messages += 1;
            let mixed = (messages as u32).wrapping_mul(2_654_435_761);
            let address = Ipv4Addr::from(FIRST_ADDRESS + mixed % ADDRESSES);
            packet[12..16].copy_from_slice(&address.octets());
            packet[20..22].copy_from_slice(&(1024 | mixed as u16).to_be_bytes());
            packet[HEADERS_BYTES..HEADERS_BYTES + 8].copy_from_slice(&(messages << 8 | 1).to_be_bytes());
            // A full queue loses it, as any network may.
            let _ = sendto(&socket, &packet, SendFlags::empty(), &to);
        }
        if due <= messages {
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(Sent { messages, time: begun.elapsed() })
}
