//! IKE SAs whose messages and packets go in streams (RFC 9329): they are begun along one, and continue along another one.

use std::time::Instant;

use super::Endpoint;
use crate::{event::Path, event::Reason, id::IkeId};

impl Endpoint {
    /// Gives up the negotiations that we have begun with a peer and that are not complete, because another way is tried.
    /// Returns them.
    pub fn abandon(&mut self, peer: usize, now: Instant) -> Vec<IkeId> {
        let begun = self.sas.iter().filter(|(_, sa)| sa.peer_index == peer && sa.is_beginning());
        let begun: Vec<(u64, IkeId)> = begun.map(|(&spi, sa)| (spi, sa.id)).collect();
        for (spi, _) in &begun {
            self.with(now, *spi, |sa, context| sa.fail(context, Reason::Closed));
        }
        begun.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns whether we are negotiating an IKE SA with a peer, along a stream or not.
    pub fn is_beginning(&self, peer: usize, in_stream: bool) -> bool {
        self.sas
            .values()
            .any(|sa| sa.peer_index == peer && sa.is_beginning() && sa.path.stream.is_some() == in_stream)
    }

    /// Moves the IKE SAs and negotiations with a peer that we have begun from the stream `from` to another path: a request under
    /// way is sent again there, and if there is none, the peer is asked whether it is alive, which shows it the path.
    pub fn continue_along(&mut self, peer: usize, from: u32, path: Path, now: Instant) {
        let moved = self.sas.iter().filter(|(_, sa)| {
            sa.peer_index == peer && sa.path.stream == Some(from) && !sa.is_called() && !sa.is_finished()
        });
        for spi in moved.map(|(&spi, _)| spi).collect::<Vec<_>>() {
            self.with(now, spi, |sa, context| sa.continue_along(context, path));
        }
    }

    /// Returns the path of an IKE SA.
    pub fn path(&self, ike: IkeId) -> Option<Path> {
        Some(self.sas.get(&self.current(ike)?)?.path)
    }
}
