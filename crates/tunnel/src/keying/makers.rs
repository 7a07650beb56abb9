//! All key makers of a gateway, with the sockets of those that use datagrams.
//!
//! Guarantees: every datagram of a maker is sent in the turn in which the maker returns it; when the gateway ends, it
//! waits for its peers for at most [`CLOSE_TIME`].

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::debug_only;
use sealane_ipsec::key_maker::KeyMaker;

use crate::{
    keying::carrier::{Arrived, Carrier},
    peers::Peers,
};

/// The maximum time for which a gateway that ends waits for its peers' answers.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// All key makers of a gateway.
pub struct Makers<'a> {
    makers: Vec<Box<dyn KeyMaker + 'a>>,
    carrier: Option<Carrier>,
    peers: &'a Peers,
}

debug_only!(self: Makers<'_> { makers: self.makers.len() });

impl<'a> Makers<'a> {
    /// Returns the makers for the associations of `peers`; their datagrams use `carrier`.
    pub fn new(makers: Vec<Box<dyn KeyMaker + 'a>>, carrier: Option<Carrier>, peers: &'a Peers) -> Self {
        Self { makers, carrier, peers }
    }

    /// Returns the sockets, if there are any.
    pub fn carrier(&self) -> Option<&Carrier> {
        self.carrier.as_ref()
    }

    /// Returns the time of the next turn, which an event may bring forward.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.makers.iter().filter_map(|maker| maker.poll_timeout()).min()
    }

    /// Passes the lanes' requests to the makers.
    pub fn hand_on_requests(&mut self, now: Instant) {
        let requests = self.peers.database().standing_requests();
        for maker in &mut self.makers {
            requests.iter().for_each(|&request| maker.request(request, now));
        }
    }

    /// Receives datagrams, performs the actions that are due, and sends datagrams. Returns whether more datagrams may
    /// wait.
    pub fn turn(&mut self, now: Instant, say: impl Fn(&str)) -> bool {
        let Self { makers, carrier, peers } = self;
        let mut is_more = false;
        if let Some(carrier) = carrier.as_mut() {
            is_more = carrier.receive(peers.mailbox(), |datagram, arrived| {
                makers.iter_mut().for_each(|maker| match arrived {
                    Arrived::Datagram { from, to } => maker.handle(datagram, from, to, now),
                    Arrived::InStream(stream) => maker.handle_streamed(datagram, stream, now),
                });
            });
        }
        if let Some((spi, from)) = peers.take_stray() {
            makers.iter_mut().for_each(|maker| maker.stray(spi, from, now));
        }
        for maker in makers {
            if maker.poll_timeout().is_some_and(|at| at <= now) {
                maker.handle_timeout(now);
            }
            while let Some(transmit) = maker.poll_transmit() {
                carrier.iter_mut().for_each(|carrier| carrier.send(&transmit, peers.streams()));
            }
            while let Some(news) = maker.poll_news() {
                say(&news);
            }
        }
        is_more
    }

    /// Notifies peers that the gateway ends, and waits a moment for their answers.
    pub fn close(&mut self, say: impl Fn(&str)) {
        let until = Instant::now() + CLOSE_TIME;
        self.makers.iter_mut().for_each(|maker| maker.close(Instant::now()));
        loop {
            let now = Instant::now();
            self.turn(now, &say);
            if self.makers.iter().all(|maker| maker.is_closed()) || now >= until {
                return;
            }
            let due = self.poll_timeout().map_or(until, |at| at.min(until));
            // Answers may also arrive through the lanes, which ring the bells.
            let bells = self.peers.bells();
            bells.announce(0);
            let bell = bells.fd(0);
            let sockets = self.carrier.as_ref().map(Carrier::fds).unwrap_or_default();
            let mut fds = vec![PollFd::new(&bell, PollFlags::IN)];
            let sockets = sockets.into_iter().flatten();
            fds.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
            let is_waiting = self.peers.mailbox().is_some_and(|mailbox| !mailbox.is_empty());
            let wait = if is_waiting { Duration::ZERO } else { due.saturating_duration_since(now) };
            // A poll that fails is repeated.
            let _ = sealane_lanes::wait(&mut fds, wait);
            bells.awake(0);
        }
    }
}
