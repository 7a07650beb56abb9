//! Peers that come, go, and have other credentials while the gateway runs.
//!
//! Guarantees: what has not changed is not touched.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, time::Instant};

use sealane_ipsec::{
    association::Way,
    database::Request,
    key_maker::{KeyMaker, Transmit},
};

use super::{Ike, PeerState};
use crate::reload::Changes;

impl Ike<'_> {
    /// Carries out changes of the site and of credentials.
    pub fn reload(&mut self, changes: Changes, now: Instant) {
        let Changes { removed, renewed, added } = changes;
        for id in removed {
            for place in self.places_of(|known| known.id == id) {
                let known = &mut self.known[place];
                (known.may_begin, known.address, known.is_gone) = (false, None, true);
                self.schedule(place, None);
                self.endpoint.remove_peer(place, now);
            }
            self.places.remove(&id);
        }
        // An entry for clients has a place for each way in which they prove themselves, in the same order.
        let mut done: Vec<usize> = Vec::new();
        for (id, peer) in renewed {
            let place =
                self.places_of(|known| known.id == id).into_iter().find(|place| !done.contains(place));
            let Some(place) = place else { continue };
            done.push(place);
            self.endpoint.renew_peer(place, peer, now);
            let known = &mut self.known[place];
            // A failure with the old ones says nothing about the new ones.
            (known.pause, known.not_before) = (super::PAUSE, None);
            if known.may_begin && !self.stands_with(place) {
                self.schedule(place, Some(now));
            }
        }
        for (id, own, peers) in added {
            for peer in peers {
                let known = PeerState::new(id, &own, &peer, now);
                let place = self.endpoint.add_peer(peer);
                let begin_at = known.begin_at;
                self.known.push(PeerState { begin_at: None, ..known });
                self.places.insert(id, place);
                self.schedule(place, begin_at);
            }
        }
        self.take_events(now);
    }

    fn places_of(&self, is_one: impl Fn(&PeerState) -> bool) -> Vec<usize> {
        (0..self.known.len())
            .filter(|&place| !self.known[place].is_gone && is_one(&self.known[place]))
            .collect()
    }
}

/// The key maker of a gateway that also reloads it.
#[derive(Clone, Debug)]
pub struct Shared<'a>(pub Rc<RefCell<Ike<'a>>>);

impl KeyMaker for Shared<'_> {
    fn request(&mut self, request: Request, now: Instant) {
        self.0.borrow_mut().request(request, now);
    }

    fn handle(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr, now: Instant) {
        self.0.borrow_mut().handle(datagram, from, to, now);
    }

    fn handle_streamed(&mut self, packet: &[u8], stream: u32, now: Instant) {
        self.0.borrow_mut().handle_streamed(packet, stream, now);
    }

    fn stray(&mut self, spi: u32, from: Way, now: Instant) {
        self.0.borrow_mut().stray(spi, from, now);
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.0.borrow_mut().poll_transmit()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.borrow().poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.borrow_mut().handle_timeout(now);
    }

    fn poll_news(&mut self) -> Option<String> {
        self.0.borrow_mut().poll_news()
    }

    fn close(&mut self, now: Instant) {
        self.0.borrow_mut().close(now);
    }

    fn is_closed(&self) -> bool {
        self.0.borrow().is_closed()
    }
}
