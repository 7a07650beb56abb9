//! The sockets of key makers: their own UDP port 500, and the datagrams that lanes receive on the port of ESP in UDP.
//!
//! Guarantees: no call blocks; a datagram that cannot be sent is lost, as on any network; at most [`TURN_MAX`]
//! datagrams are received in one turn, so that the housekeeper has time for its other tasks.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd as _, BorrowedFd},
    sync::Arc,
};

use sealane_ipsec::key_maker::Transmit;
use sealane_port::Port as _;
use sealane_stack::Batch;

use crate::{host::netlink::Events, keying::mailbox::Mailbox, outside::Outside};

/// The port of IKE (RFC 7296, section 2).
pub const IKE_PORT: u16 = 500;
/// The maximum number of datagrams that are received in one turn.
const TURN_MAX: usize = 64;
/// The maximum length of a datagram in bytes.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// The sockets of key makers.
pub struct Carrier {
    ike: UdpSocket,
    outside: Outside,
    batch: Batch,
    buffer: Vec<u8>,
    listen: SocketAddr,
    routes: Arc<Routes>,
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier").field("listen", &self.listen).finish_non_exhaustive()
    }
}

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

    /// Returns our address for packets to `remote`; `None` if no route leads there.
    pub fn own_address(&self, remote: IpAddr) -> Option<IpAddr> {
        if !self.listen.is_unspecified() {
            return Some(self.listen.to_canonical());
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
    /// Opens port 500 at the address of `listen`; `outside` sends on the other port.
    ///
    /// # Errors
    /// Fails if the port is in use, or if the system refuses it.
    pub fn open(
        listen: SocketAddr,
        outside: Outside,
        mark: Option<u32>,
        routes: Arc<Routes>,
    ) -> io::Result<Self> {
        let ike = UdpSocket::bind((listen.ip(), IKE_PORT))?;
        ike.set_nonblocking(true)?;
        mark.map_or(Ok(()), |mark| sealane_port::set_mark(&ike, mark))?;
        Ok(Self {
            ike,
            outside,
            batch: Batch::new(DATAGRAM_BYTES_MAX, 1),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            listen,
            routes,
        })
    }

    /// Returns the descriptor to poll for datagrams on port 500.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ike.as_fd()
    }

    /// Passes on the datagrams of both ports, with their source and destination. Returns whether more datagrams may
    /// wait.
    pub fn receive(
        &mut self,
        mailbox: &Mailbox,
        mut hand_on: impl FnMut(&[u8], SocketAddr, SocketAddr),
    ) -> bool {
        let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let mut taken = 0;
        while taken < TURN_MAX {
            taken += 1;
            match self.ike.recv_from(&mut self.buffer) {
                Ok((bytes, from)) => {
                    if let Some(own) = self.routes.own_address(from.ip()) {
                        hand_on(&self.buffer[..bytes], canonical(from), SocketAddr::new(own, IKE_PORT));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The error is about an earlier datagram of ours.
                Err(_) => {}
            }
        }
        let mut left = TURN_MAX;
        while left > 0
            && let Some((datagram, from)) = mailbox.take()
        {
            left -= 1;
            if let Some(own) = self.routes.own_address(from.ip()) {
                hand_on(&datagram, canonical(from), SocketAddr::new(own, self.listen.port()));
            }
        }
        taken == TURN_MAX || left == 0
    }

    /// Sends a datagram.
    pub fn send(&mut self, Transmit { from, to, bytes }: &Transmit) {
        if from.port() == IKE_PORT {
            // The datagram is sent again if it is not answered.
            let _ = self.ike.send_to(bytes, *to);
            return;
        }
        self.batch.clear();
        if self.batch.push_bytes(0, bytes, 0) {
            self.outside.aim(*to, 0, false);
            // The lanes detect errors of the socket.
            let _ = self.outside.send(&self.batch, 0);
        }
    }
}
