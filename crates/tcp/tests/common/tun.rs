//! A TUN device in a network namespace of its own, for tests against the kernel's TCP. Packets are whole IP packets,
//! without a header of the device.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

const NAME: &str = "sealtcp0";

pub(crate) struct Tun(File);

/// Moves this thread, and those it will start, to a new network namespace.
fn leave_network() -> io::Result<()> {
    // SAFETY: unshare takes flags alone; the thread wants a namespace of its own.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn ip(arguments: &str) -> io::Result<()> {
    let status = Command::new("ip").args(arguments.split(' ')).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ip {arguments}: {status}"))) }
}

impl Tun {
    /// Moves this thread to a namespace in which the kernel has `kernel`/24 on a new device, and opens that device.
    pub(crate) fn open(kernel: [u8; 4]) -> io::Result<Self> {
        leave_network()?;
        let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
        // SAFETY: ifreq is plain data, for which zeros are a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open, and TUNSETIFF reads and writes one ifreq, which `request` is.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let [a, b, c, d] = kernel;
        ip("link set lo up")?;
        ip(&format!("addr add {a}.{b}.{c}.{d}/24 dev {NAME}"))?;
        ip(&format!("link set {NAME} up"))?;
        Ok(Self(file))
    }

    /// Waits for a packet for at most `timeout`.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<usize>> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = timeout.as_millis().min(1000) as libc::c_int;
        // SAFETY: `poll` is one pollfd, and lives through the call.
        match unsafe { libc::poll(&raw mut poll, 1, ms) } {
            0 => Ok(None),
            1 => self.0.read(buffer).map(Some),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.0.write_all(packet)
    }
}
