//! A lane of the receiving end: receives, opens and writes, from the streams that its placement gives it.
//!
//! Guarantees: as for the sending end, it sleeps only in `poll`; what it read is in place before it is
//! acknowledged.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_stack::{Placement, Pool};

use crate::{
    limiter::Limiter,
    line::LineError,
    receive::{
        apply::Applier,
        files::Files,
        stream::{Look, ReceiveStream},
    },
    shared::{Stop, Watch},
    socket,
    wake::Bells,
};

const NAP: Duration = Duration::from_millis(200);
/// Longest sleep while a stream waits for much at once.
const PATIENCE: Duration = Duration::from_millis(5);

/// What the lanes of a receiving end share.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) files: Files,
    pub(crate) streams: Vec<Arc<ReceiveStream>>,
    pub(crate) pool: Pool,
    pub(crate) placement: Placement,
    pub(crate) lanes: usize,
    pub(crate) limiter: Limiter,
    pub(crate) bells: Arc<Bells>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) first_byte: OnceLock<Instant>,
    /// Woken when a stream needs opening.
    pub(crate) control: Arc<Bells>,
    /// Count without opening or writing (laboratory).
    pub(crate) blind: bool,
}

impl Receiving {
    fn line_failed(&self, stream: &ReceiveStream, error: LineError) {
        match error {
            LineError::Cut => {
                stream.cut(&self.pool);
                self.control.ring();
            }
            LineError::Fatal(error) => {
                self.files.poison();
                self.stop.fail(error, &self.bells);
                self.control.ring();
            }
        }
    }
}

/// Runs lane number `lane` until the transfer stops.
pub(crate) fn run(receiving: &Receiving, lane: usize) {
    let _watch = Watch { stop: &receiving.stop, bells: &receiving.bells, control: &receiving.control };
    let streams: Vec<_> = (0..receiving.streams.len())
        .filter(|&flow| receiving.placement.may_run(lane, receiving.lanes, flow))
        .map(|flow| receiving.streams[flow].clone())
        .collect();
    let mut applier = Applier::new(&receiving.files, &receiving.stop);
    let mut announced = false;
    while !receiving.stop.is_set() {
        let mut progress = false;
        for stream in &streams {
            match step(receiving, stream, &mut applier) {
                Ok(moved) => progress |= moved,
                Err(error) => receiving.line_failed(stream, error),
            }
        }
        if progress {
            announced = false;
        } else if !announced {
            // Look once more after the announcement, so that no ring is lost between the two.
            receiving.bells.announce(lane);
            announced = true;
        } else {
            sleep(receiving, lane, &streams);
            announced = false;
        }
    }
}

fn step(receiving: &Receiving, stream: &ReceiveStream, applier: &mut Applier<'_>) -> Result<bool, LineError> {
    let Look::Records(arrived) = stream.look(&receiving.pool)? else {
        stream.acknowledge()?;
        return Ok(false);
    };
    receiving.first_byte.get_or_init(Instant::now);
    let settled = stream.open_records(arrived).and_then(|arrived| {
        let bytes = if receiving.blind {
            applier.count(&arrived)
        } else {
            if applier.lacks_announcement(&arrived) {
                stream.wait_for_earlier(&arrived, &receiving.stop);
            }
            applier.apply(&arrived).map_err(LineError::Fatal)?
        };
        Ok((arrived, bytes))
    });
    match settled {
        Ok((arrived, bytes)) => {
            stream.taken(arrived, &receiving.pool)?;
            pause(receiving, bytes);
            Ok(true)
        }
        Err(error) => {
            stream.dropped();
            Err(error)
        }
    }
}

/// Holds the lane back to the agreed rate; the sockets fill up and the sender feels it.
fn pause(receiving: &Receiving, bytes: u64) {
    let until = Instant::now() + receiving.limiter.delay(bytes, Instant::now());
    while !receiving.stop.is_set() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(NAP));
    }
}

fn sleep(receiving: &Receiving, lane: usize, streams: &[Arc<ReceiveStream>]) {
    let sockets: Vec<_> = streams.iter().filter_map(|stream| stream.socket()).collect();
    let mut fds: Vec<PollFd<'_>> =
        sockets.iter().map(|socket| PollFd::new(&**socket, PollFlags::IN)).collect();
    let bell = receiving.bells.fd(lane);
    fds.push(PollFd::new(&bell, PollFlags::IN));
    let patient = streams.iter().any(|stream| stream.is_patient());
    // A failed poll means a closed descriptor; the next look finds out whose.
    let in_time = socket::wait(&mut fds, if patient { PATIENCE } else { NAP }).unwrap_or(true);
    receiving.bells.awake(lane);
    if patient && !in_time {
        streams.iter().for_each(|stream| stream.hurry());
    }
}
