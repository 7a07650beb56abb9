//! The data streams of one end, in either direction.
//!
//! Guarantees: opening, cutting and abandoning are the same calls for a sender and a receiver, so connecting and
//! accepting code need not know the direction.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use sealane_lanes::Bells;

use crate::{
    growth::Sight,
    proto::{join::Awaited, keys::TransferKeys},
    receive::lane::Receiving,
    send::{lane::Sending, line::SEGMENT_BYTES},
    shared::Stop,
    socket::Socket,
    summary::Progress,
};

/// The maximum content of a copy that needs no stream beside ssh.
const SMALL_BYTES: u64 = 256 << 10;
const SMALL_FILES: u64 = 256;

/// Returns whether all that was found is little, or `None` while more may be found.
pub(crate) fn is_small(progress: &Progress) -> Option<bool> {
    let found = progress.snapshot();
    match found.bytes_found > SMALL_BYTES || found.files_found > SMALL_FILES {
        true => Some(false),
        false => found.scan_complete.then_some(true),
    }
}

/// One end's streams.
#[derive(Clone, Debug)]
pub(crate) enum Lines {
    Send(Arc<Sending>),
    Receive(Arc<Receiving>),
}

impl Lines {
    pub(crate) fn count(&self) -> u16 {
        let count = match self {
            Self::Send(sending) => sending.streams.len(),
            Self::Receive(receiving) => receiving.streams.len(),
        };
        count as u16
    }

    /// Ends the rest of the stream's old connection. Returns the number for the peer: records of that connection that
    /// were taken over (0 if this end sends).
    pub(crate) fn prepare(&self, stream: u16) -> u64 {
        match self {
            Self::Send(sending) => {
                sending.streams[usize::from(stream)].cut(&sending.pool);
                0
            }
            Self::Receive(receiving) => receiving.streams[usize::from(stream)].cut(&receiving.pool),
        }
    }

    /// Sets a new connection. `taken` is the number that the peer reported for its opening `last`. Returns the number
    /// of content bytes to send again.
    pub(crate) fn install(
        &self,
        keys: &TransferKeys,
        stream: u16,
        generation: u32,
        socket: Socket,
        last: u32,
        taken: u64,
    ) -> u64 {
        let again = match self {
            Self::Send(sending) => {
                let stream = &sending.streams[usize::from(stream)];
                // The peer has no records of an opening that it has not seen.
                let taken = if stream.opening() == last { taken } else { 0 };
                let is_first = stream.opening() == 0;
                let settled = stream.open(keys, generation, socket, taken);
                if is_first {
                    sending.share_windows();
                }
                sending.settle(settled)
            }
            Self::Receive(receiving) => {
                receiving.streams[usize::from(stream)].open(keys, generation, socket);
                0
            }
        };
        self.bells().ring();
        again
    }

    /// Returns whether content may be sent on a stream's first connection before its acceptor has proved who it is:
    /// others cannot read it.
    pub(crate) fn may_go_unanswered(&self) -> bool {
        matches!(self, Self::Send(sending) if sending.suite.encrypts())
    }

    /// Sets a sending stream's first connection, whose acceptor has not answered yet.
    pub(crate) fn install_unanswered(
        &self,
        keys: &TransferKeys,
        stream: u16,
        generation: u32,
        socket: Socket,
        awaited: Awaited,
    ) {
        if let Self::Send(sending) = self {
            sending.streams[usize::from(stream)].open_unanswered(keys, generation, socket, awaited);
            sending.share_windows();
        }
        self.bells().ring();
    }

    /// Returns the number of times that smaller segments are to be tried.
    pub(crate) fn narrowed(&self, stream: u16) -> u8 {
        match self {
            Self::Send(sending) => sending.streams[usize::from(stream)].narrowed(),
            Self::Receive(receiving) => receiving.streams[usize::from(stream)].narrowed(),
        }
    }

    /// Returns the maximum segment size of the next opening.
    pub(crate) fn segment_bytes(&self, stream: u16) -> Option<u16> {
        let step = usize::from(self.narrowed(stream)).checked_sub(1)?;
        Some(SEGMENT_BYTES[step.min(SEGMENT_BYTES.len() - 1)])
    }

    /// Records that the peer has lost an opening of a stream, which this end may not have noticed. Returns false for
    /// impossible reports.
    pub(crate) fn lost(&self, stream: u16, generation: u32, narrowed: u8) -> bool {
        match self {
            Self::Send(sending) => {
                let Some(stream) = sending.streams.get(usize::from(stream)) else { return false };
                stream.hang_up(generation);
            }
            Self::Receive(receiving) => {
                let Some(stream) = receiving.streams.get(usize::from(stream)) else { return false };
                stream.narrow(narrowed);
                stream.hang_up(generation);
            }
        }
        self.bells().ring();
        true
    }

    /// Abandons the stream; its content in flight is sent on the others.
    pub(crate) fn abandon(&self, stream: u16) {
        if let Self::Send(sending) = self {
            let stream = &sending.streams[usize::from(stream)];
            stream.cut(&sending.pool);
            let settled = stream.abandon();
            sending.settle(settled);
        }
    }

    /// Returns whether the stream has no connection and might get one.
    pub(crate) fn is_cut(&self, stream: u16) -> bool {
        self.socket(stream).is_none() && !self.is_abandoned(stream)
    }

    /// Returns whether the stream has been abandoned.
    pub(crate) fn is_abandoned(&self, stream: u16) -> bool {
        match self {
            Self::Send(sending) => sending.streams[usize::from(stream)].is_abandoned(),
            Self::Receive(_) => false,
        }
    }

    /// Returns whether any stream has a connection.
    pub(crate) fn is_connected(&self) -> bool {
        (0..self.count()).any(|stream| self.socket(stream).is_some())
    }

    /// Returns the path's round trip as measured by the kernel, because programs may answer late.
    pub(crate) fn round_trip(&self) -> Duration {
        let trips = (0..self.count()).filter_map(|stream| Some(self.socket(stream)?.round_trip()));
        trips.min().unwrap_or_default()
    }

    /// Returns the present measurements of the path.
    pub(crate) fn sight(&self) -> Sight {
        let progress = match self {
            Self::Send(sending) => &sending.filling.progress,
            Self::Receive(receiving) => &receiving.files.progress,
        };
        let (found, moved) = (progress.bytes_found.load(Relaxed), progress.bytes_moved.load(Relaxed));
        let losses = (0..self.count()).filter_map(|stream| Some(self.socket(stream)?.losses())).sum();
        Sight { moved, left: found.saturating_sub(moved), losses }
    }

    /// Returns whether so little is to be sent that no connection is worth its cost; `None` while that is not known.
    pub(crate) fn is_small(&self) -> Option<bool> {
        match self {
            Self::Send(sending) => is_small(&sending.filling.progress),
            Self::Receive(receiving) => is_small(&receiving.files.progress),
        }
    }

    fn socket(&self, stream: u16) -> Option<Arc<Socket>> {
        match self {
            Self::Send(sending) => sending.streams[usize::from(stream)].socket(),
            Self::Receive(receiving) => receiving.streams[usize::from(stream)].socket(),
        }
    }

    /// Returns whether no remaining work needs a stream. A receiver learns this through the control channel only.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Send(sending) => sending.filling.queue.is_done(),
            Self::Receive(_) => false,
        }
    }

    /// Returns the number of the current or last opening.
    pub(crate) fn generation(&self, stream: u16) -> u32 {
        match self {
            Self::Send(sending) => sending.streams[usize::from(stream)].opening(),
            Self::Receive(receiving) => receiving.streams[usize::from(stream)].opening(),
        }
    }

    pub(crate) fn stop(&self) -> &Stop {
        match self {
            Self::Send(sending) => &sending.stop,
            Self::Receive(receiving) => &receiving.stop,
        }
    }

    pub(crate) fn bells(&self) -> &Bells {
        match self {
            Self::Send(sending) => &sending.bells,
            Self::Receive(receiving) => &receiving.bells,
        }
    }

    /// Returns the bells of the transfer's control threads.
    pub(crate) fn control(&self) -> &Bells {
        match self {
            Self::Send(sending) => &sending.control,
            Self::Receive(receiving) => &receiving.control,
        }
    }
}
