//! The device and the sockets of a gateway, each with a handle for every part that uses it.
//!
//! Guarantees: everything is opened before privileges are given up; what cannot be opened is named with its address.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use sealane_port::tun::Tun;

use super::{GatewayError, directions::Handles};
use crate::{
    keying::carrier::{Carrier, IKE_PORT, Routes},
    outside::Outside,
    queue::outward::LINES_MAX,
    site::{Encapsulation, Site},
};

/// The parties that a gateway's sockets are for.
#[derive(Clone, Debug)]
pub(super) struct Parties {
    /// Peers that call.
    pub(super) have_calls: bool,
    /// Peers that negotiate by IKE.
    pub(super) speak_ike: bool,
    /// The mark that all packets carry.
    pub(super) mark: Option<u32>,
}

/// The handles of the device and the sockets.
#[derive(Debug)]
pub(super) struct Ends {
    /// For the lanes of both directions.
    pub(super) handles: Handles,
    /// Packets of peers that came by a stream.
    pub(super) from_streams: Tun,
    /// The sockets for those who hear that packets were too long.
    pub(super) heard: Vec<Outside>,
    pub(super) dummies: Outside,
    /// Listens for calls.
    pub(super) called: Option<TcpListener>,
    /// Listen for streams.
    pub(super) streams: Vec<TcpListener>,
    /// Carries IKE, and knows the routes to peers.
    pub(super) spoken: Option<(Carrier, Arc<Routes>)>,
}

impl Ends {
    /// Opens the sockets of `site` beside its device.
    ///
    /// # Errors
    /// Fails if the system refuses one.
    pub(super) fn open(site: &Site, tuns: (Vec<Tun>, Tun), parties: Parties) -> Result<Self, GatewayError> {
        let Parties { have_calls, speak_ike, mark } = parties;
        let listen_error = |source| GatewayError::Listen { listen: site.listen, source };
        let outside = Outside::open(site, mark).map_err(listen_error)?;
        let siblings = siblings(&outside, site, mark).map_err(listen_error)?;
        let called = have_calls.then(|| listen(site.listen, mark)).transpose().map_err(listen_error)?;
        // Calls come on the port of `listen`; the first byte of a connection tells what it is.
        let is_other = |port: &u16| called.is_none() || *port != site.listen.port();
        let streams = site.tcp_ports().into_iter().filter(is_other).map(|port| {
            let at = SocketAddr::new(site.listen.ip(), port);
            listen(at, mark).map_err(|source| GatewayError::Listen { listen: at, source })
        });
        let streams = streams.collect::<Result<_, _>>()?;
        let (from_device, mut to_device) = tuns;
        let queues = from_device.len();
        let mut answers = Vec::with_capacity(queues);
        for _ in 0..queues {
            let (rest, own) = to_device.split();
            to_device = rest;
            answers.push(own);
        }
        let (to_device, from_streams) = to_device.split();
        let (from_peers, own) = outside.split();
        let (mut own, dummies) = own.split();
        own.send_directly(site).map_err(listen_error)?;
        let (dummies, heard) = dummies.split();
        let (heard, letters) = heard.split();
        let (heard, gauge) = heard.split();
        let (siblings, gauges): (Vec<_>, Vec<_>) = siblings.into_iter().map(Outside::split).unzip();
        let (siblings, siblings_heard): (Vec<_>, Vec<_>) = siblings.into_iter().map(Outside::split).unzip();
        let behind = |first, others: Vec<_>| -> Vec<_> { [first].into_iter().chain(others).collect() };
        let by_queue = |all: Vec<Outside>| -> Vec<Vec<Outside>> {
            let lines = all.len() / queues;
            let mut all = all.into_iter();
            (0..queues).map(|_| all.by_ref().take(lines).collect()).collect()
        };
        let spoken = speak_ike.then(|| speak(site, letters, mark)).transpose();
        let spoken = spoken.map_err(|(listen, source)| GatewayError::Listen { listen, source })?;
        let handles = Handles {
            from_device,
            to_device,
            answers,
            from_peers,
            to_peers: by_queue(behind(own, siblings)),
            gauges: by_queue(behind(gauge, gauges)),
        };
        Ok(Self {
            handles,
            from_streams,
            heard: behind(heard, siblings_heard),
            dummies,
            called,
            streams,
            spoken,
        })
    }
}

/// Opens what IKE needs. `letters` is the gateway's own socket, which carries IKE if packets are in UDP.
fn speak(
    site: &Site,
    letters: Outside,
    mark: Option<u32>,
) -> Result<(Carrier, Arc<Routes>), (SocketAddr, io::Error)> {
    let ike_listen = SocketAddr::new(site.listen.ip(), IKE_PORT);
    let routes = Routes::open(site.listen.ip(), mark).map_err(|error| (ike_listen, error))?;
    let letters = (site.encapsulation == Encapsulation::Udp).then_some(letters);
    Ok((Carrier::open(site.listen, letters, mark)?, Arc::new(routes)))
}

/// Returns sockets beside `outside`: for each queue of the device, one for each of its lines of peers, of which there are as many as
/// make a power of two, or one.
fn siblings(outside: &Outside, site: &Site, mark: Option<u32>) -> io::Result<Vec<Outside>> {
    let queues = usize::from(site.queues.get());
    // A few more, for peers that are added to the running gateway.
    let wanted = match site.queueing.is_fq_codel() {
        true => (site.peers.len() + SPARE_LINES).next_power_of_two().min(1 << (LINES_MAX / queues).ilog2()),
        false => 1,
    };
    for lines in [wanted, 1] {
        let count = queues * lines - 1;
        let siblings = if count > 0 { outside.siblings(count, mark) } else { Vec::new() };
        if siblings.len() == count {
            return Ok(siblings);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "the kernel has no socket for each queue: leave out `queues`",
    ))
}

/// The lines for peers that are added to a running gateway.
const SPARE_LINES: usize = 4;

/// Listens for calls of peers.
fn listen(at: SocketAddr, mark: Option<u32>) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    // The connections inherit the mark.
    mark.map_or(Ok(()), |mark| sealane_port::set_mark(&listener, mark))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
