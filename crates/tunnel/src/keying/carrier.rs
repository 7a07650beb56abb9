//! The sockets of key makers: their own UDP port 500, and the port of ESP in UDP, on which lanes receive datagrams for
//! them. Where ESP is not in UDP, that port is theirs, too.
//!
//! Guarantees: no call blocks; a datagram that cannot be sent is lost, as on any network; at most [`TURN_MAX`]
//! datagrams are received in one turn, so that the housekeeper has time for its other tasks.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd as _, BorrowedFd},
};

use sealane_engine::debug_only;
use sealane_ipsec::{association::Way, key_maker::Transmit};
use sealane_port::{
    Batch, Port as _,
    udp::{receive_letter, report_destinations, send_letter},
};

use crate::{host::netlink::Events, keying::mailbox::Mailbox, outside::Outside, streams::Streams};

/// The port of IKE (RFC 7296, section 2).
pub const IKE_PORT: u16 = 500;
/// The maximum number of datagrams that are received in one turn.
const TURN_MAX: usize = 64;
/// The maximum length of a datagram in bytes.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// The port of ESP in UDP, on which IKE's datagrams begin with a marker.
enum Other {
    /// Lanes receive its datagrams; this is the half of their socket that sends.
    Lanes(Box<(Outside, Batch)>),
    /// ESP is a protocol of its own, and the port has a socket of its own.
    Own(UdpSocket),
}

/// The way of a datagram, or of a packet in a stream.
#[derive(Clone, Copy, Debug)]
pub enum Arrived {
    /// It is a datagram.
    Datagram {
        /// Its source.
        from: SocketAddr,
        /// The port and the address of ours that it was sent to, as far as it is known.
        to: SocketAddr,
    },
    /// It came in the stream with this number.
    InStream(u32),
}

/// The sockets of key makers.
pub struct Carrier {
    ike: UdpSocket,
    other: Other,
    buffer: Vec<u8>,
    listen: SocketAddr,
}

debug_only!(Carrier { listen });

/// Finds our source address for packets to a remote address, and notices when it may have changed.
#[derive(Debug)]
pub struct Routes {
    listen: IpAddr,
    /// The kernel's events about links, addresses, routes and rules; `None` where it has none.
    events: Option<Events>,
    /// The sockets carry the gateway's mark, by which routes are chosen.
    sockets: [Option<UdpSocket>; 2],
}

impl Routes {
    /// Opens sockets for a gateway that listens on `listen`, whose packets carry `mark`.
    ///
    /// # Errors
    /// Fails if the system refuses a socket.
    pub fn open(listen: IpAddr, mark: Option<u32>) -> io::Result<Self> {
        let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        let [v4, v6] = any.map(|any| -> io::Result<Option<UdpSocket>> {
            // A host may have only one family.
            let Ok(socket) = UdpSocket::bind((any, 0)) else { return Ok(None) };
            mark.map_or(Ok(()), |mark| sealane_port::set_mark(&socket, mark))?;
            Ok(Some(socket))
        });
        Ok(Self { listen, events: Events::open().ok(), sockets: [v4?, v6?] })
    }

    /// Returns whether an answer of [`Self::own_address`] may differ from those before the last call.
    pub fn may_have_changed(&self) -> bool {
        self.listen.is_unspecified() && self.events.as_ref().is_none_or(Events::any)
    }

    /// Returns our address for packets to `remote`, which is `called` if that is still ours; `None` if no route leads
    /// there.
    pub fn own_address(&self, remote: IpAddr, called: Option<IpAddr>) -> Option<IpAddr> {
        if !self.listen.is_unspecified() {
            return Some(self.listen.to_canonical());
        }
        // Only an address of this host can be bound to.
        if let Some(called) = called.filter(|called| UdpSocket::bind((*called, 0)).is_ok()) {
            return Some(called.to_canonical());
        }
        let remote = remote.to_canonical();
        let socket = self.sockets[usize::from(remote.is_ipv6())].as_ref()?;
        // Nothing is sent: to connect a UDP socket only looks up the route. Otherwise the socket would keep the
        // source address of the previous query.
        let _ = rustix::net::connect_unspec(socket);
        socket.connect((remote, IKE_PORT)).ok()?;
        let own = socket.local_addr().ok()?.ip();
        (!own.is_unspecified()).then_some(own)
    }
}

impl Carrier {
    /// Opens port 500 at the address of `listen`; `outside` sends on the other port, which is opened, too, if there is
    /// no `outside`.
    ///
    /// # Errors
    /// Fails with the address if its port is in use, or if the system refuses it.
    pub fn open(
        listen: SocketAddr,
        outside: Option<Outside>,
        mark: Option<u32>,
    ) -> Result<Self, (SocketAddr, io::Error)> {
        let open = |port: u16| {
            let at = SocketAddr::new(listen.ip(), port);
            let opened = UdpSocket::bind(at).and_then(|socket| {
                socket.set_nonblocking(true)?;
                if listen.ip().is_unspecified() {
                    report_destinations(&socket)?;
                }
                mark.map_or(Ok(()), |mark| sealane_port::set_mark(&socket, mark))?;
                Ok(socket)
            });
            opened.map_err(|error| (at, error))
        };
        let other = match outside {
            Some(outside) => Other::Lanes(Box::new((outside, Batch::new(DATAGRAM_BYTES_MAX, 1)))),
            None => Other::Own(open(listen.port())?),
        };
        Ok(Self { ike: open(IKE_PORT)?, other, buffer: vec![0; DATAGRAM_BYTES_MAX], listen })
    }

    /// Returns the descriptors to poll for datagrams; the second is `None` where lanes receive those of its port.
    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        let other = match &self.other {
            Other::Lanes(..) => None,
            Other::Own(other) => Some(other.as_fd()),
        };
        [Some(self.ike.as_fd()), other]
    }

    /// Passes on the datagrams of both ports, with their source, and with the port and the address of ours that they were
    /// sent to, as far as it is known. Returns whether more datagrams may wait.
    pub fn receive(&mut self, mailbox: Option<&Mailbox>, mut hand_on: impl FnMut(&[u8], Arrived)) -> bool {
        let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let own = self.listen.ip().to_canonical();
        let own_port = match &self.other {
            Other::Lanes(..) => None,
            Other::Own(other) => Some((other, self.listen.port())),
        };
        let mut is_more = false;
        for (socket, port) in std::iter::once((&self.ike, IKE_PORT)).chain(own_port) {
            let mut left = TURN_MAX;
            while left > 0 {
                left -= 1;
                match receive_letter(socket, &mut self.buffer) {
                    Ok((bytes, from, to)) => {
                        let to = SocketAddr::new(to.unwrap_or(own), port);
                        hand_on(&self.buffer[..bytes], Arrived::Datagram { from: canonical(from), to });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The error is about an earlier datagram of ours.
                    Err(_) => {}
                }
            }
            is_more |= left == 0;
        }
        let mut left = TURN_MAX;
        while left > 0
            && let Some((datagram, from)) = mailbox.and_then(Mailbox::take)
        {
            left -= 1;
            let to = SocketAddr::new(from.local.unwrap_or(own), self.listen.port());
            match from.stream {
                Some(stream) => hand_on(&datagram, Arrived::InStream(stream)),
                None => hand_on(&datagram, Arrived::Datagram { from: canonical(from.remote), to }),
            }
        }
        is_more || left == 0
    }

    /// Sends a datagram.
    pub fn send(&mut self, transmit: &Transmit, streams: Option<&Streams>) {
        let Transmit { from, to, stream, is_answer, bytes } = transmit;
        if let Some(stream) = stream {
            streams.into_iter().for_each(|streams| streams.send_letter(*stream, bytes));
            return;
        }
        let local = Some(from.ip()).filter(|ip| *is_answer && !ip.is_unspecified());
        let local = local.filter(|_| self.listen.ip().is_unspecified());
        // A datagram that is lost is sent again if it is not answered.
        if from.port() == IKE_PORT {
            let _ = send_letter(&self.ike, bytes, *to, local);
            return;
        }
        match &mut self.other {
            Other::Own(other) => {
                let _ = send_letter(other, bytes, *to, local);
            }
            Other::Lanes(lanes) => {
                let (outside, batch) = &mut **lanes;
                batch.clear();
                if batch.push_bytes(0, bytes, 0) {
                    outside.aim(Way { local, ..Way::from(*to) }, 0, false);
                    // The lanes detect errors of the socket.
                    let _ = outside.send(batch, 0);
                }
            }
        }
    }
}
