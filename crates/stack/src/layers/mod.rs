//! The layers: each has a file and an entry in [`KINDS`].

use std::sync::Arc;

use sealane_engine::{Job, JobStatus, Protection, Session, Span};

use crate::{Context, Kind, LayerSpec, SpecError, Way};
use sealane_port::{Batch, Verdict};

mod aead;
mod cipher;
mod digest;
mod etm;
mod ip;
mod link;
mod null;
mod sequence;
mod tcp;
mod udp;

/// All kinds of layers.
pub(crate) const KINDS: &[Kind] = &[
    null::KIND,
    digest::KIND,
    cipher::KIND,
    aead::KIND,
    etm::KIND,
    sequence::KIND,
    tcp::KIND,
    udp::KIND,
    ip::KIND,
    link::KIND,
];

/// The sessions of the two directions.
#[derive(Debug)]
struct Sessions {
    down: Arc<Session>,
    up: Arc<Session>,
    ignores_verdicts: bool,
}

impl Sessions {
    fn new(layer: &LayerSpec, context: &Context, protection: Protection) -> Result<Self, SpecError> {
        let session = |way| {
            let material = context.material(layer, way, protection.key_bytes());
            Session::with(context.implementations, protection, &material)
                .map(Arc::new)
                .map_err(|error| SpecError::Key { layer: layer.to_string(), error })
        };
        let ignores_verdicts = context.ignores_verdicts;
        Ok(Self { down: session(Way::Down)?, up: session(Way::Up)?, ignores_verdicts })
    }

    fn of(&self, way: Way) -> &Arc<Session> {
        match way {
            Way::Down => &self.down,
            Way::Up => &self.up,
        }
    }
}

/// Adds a job for every packet that goes on: `job` lays it out, or returns the verdict for which the packet does not
/// go on. `job` gets the packet's number within its flow.
fn add_jobs(
    batch: &mut Batch,
    way: Way,
    session: &Arc<Session>,
    mut job: impl FnMut(&mut Layout<'_>, u64) -> Result<Job, Verdict>,
) {
    let direction = match way {
        Way::Down => sealane_engine::Direction::Seal,
        Way::Up => sealane_engine::Direction::Open,
    };
    batch.clear_jobs(direction);
    let Batch { work, packets, first, .. } = batch;
    let session = work.session(session).expect("the first of a work");
    for (index, packet) in packets.iter_mut().enumerate().filter(|(_, packet)| packet.is_passed()) {
        let number = first.saturating_add(index as u64);
        let mut layout = Layout { bytes: work.buffer.bytes_mut(), packet };
        match job(&mut layout, number) {
            Ok(job) => work.jobs.push(Job { session, ..job }),
            Err(verdict) => packet.refuse(verdict),
        }
    }
}

/// Refuses every packet whose job has failed, and passes the others to `then`. If verdicts are ignored, all packets
/// go on. No job is pending any more, because [`sealane_engine::Submitter`] runs the jobs that an engine hands back;
/// a packet with a pending job would be sent unprotected.
fn end_jobs(
    batch: &mut Batch,
    sessions: &Sessions,
    verdict: Verdict,
    mut then: impl FnMut(&mut Layout<'_>) -> Result<(), Verdict>,
) {
    let Batch { work, packets, .. } = batch;
    let jobs = work.jobs.iter();
    for (packet, job) in packets.iter_mut().filter(|packet| packet.is_passed()).zip(jobs) {
        match job.status {
            JobStatus::Done => {
                let mut layout = Layout { bytes: work.buffer.bytes_mut(), packet };
                match then(&mut layout) {
                    Err(verdict) if !sessions.ignores_verdicts => packet.refuse(verdict),
                    _ => {}
                }
            }
            JobStatus::Forged if sessions.ignores_verdicts => {}
            JobStatus::Forged => packet.refuse(verdict),
            JobStatus::Pending | JobStatus::Malformed => packet.refuse(Verdict::Malformed),
        }
    }
}

/// A packet being laid out.
struct Layout<'a> {
    bytes: &'a mut [u8],
    packet: &'a mut sealane_port::Packet,
}

impl Layout<'_> {
    /// Returns the span of all its bytes.
    fn all(&self) -> Span {
        self.packet.span()
    }

    /// Adds a header.
    fn header<const N: usize>(&mut self, header: [u8; N]) -> Result<Span, Verdict> {
        let span = self.packet.push_front(N).ok_or(Verdict::TooLong)?;
        self.bytes[span.range()].copy_from_slice(&header);
        Ok(span)
    }

    /// Removes a header.
    fn behead<const N: usize>(&mut self) -> Result<(Span, [u8; N]), Verdict> {
        let span = self.packet.pull_front(N).ok_or(Verdict::Malformed)?;
        let mut header = [0; N];
        header.copy_from_slice(&self.bytes[span.range()]);
        Ok((span, header))
    }

    /// Adds room for a trailer.
    fn trailer(&mut self, bytes: usize) -> Result<Span, Verdict> {
        self.packet.push_back(bytes).ok_or(Verdict::TooLong)
    }

    /// Removes a trailer; its bytes stay in the buffer.
    fn untrail(&mut self, bytes: usize) -> Result<Span, Verdict> {
        self.packet.pull_back(bytes).ok_or(Verdict::Malformed)
    }

    /// Pads to a multiple of `granule` as in PKCS#7 (RFC 5652, section 6.3); does nothing if it is 1.
    fn pad(&mut self, granule: usize) -> Result<(), Verdict> {
        if granule > 1 {
            let padding = granule - self.packet.len() % granule;
            let span = self.trailer(padding)?;
            self.bytes[span.range()].fill(padding as u8);
        }
        Ok(())
    }

    /// Removes the padding.
    fn unpad(&mut self, granule: usize) -> Result<(), Verdict> {
        if granule == 1 {
            return Ok(());
        }
        let bytes = &self.bytes[self.packet.span().range()];
        let padding = *bytes.last().ok_or(Verdict::Malformed)?;
        let count = usize::from(padding);
        let whole = (1..=granule).contains(&count) && count <= bytes.len();
        if !whole || bytes[bytes.len() - count..].iter().any(|&byte| byte != padding) {
            return Err(Verdict::Malformed);
        }
        self.untrail(count).map(drop)
    }
}
