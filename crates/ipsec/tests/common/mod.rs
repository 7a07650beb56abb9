//! Runs one packet at a time through the inline engine.

use std::{num::NonZeroUsize, sync::Arc, time::Instant};

use sealane_engine::{Buffer, Direction, Engine as _, Inline, Job, Session, Span, Work};
use sealane_ipsec::{
    ah::Alignment,
    association::{Inbound, Mode, Outbound, Parameters, Protocol},
    counters::DropReason,
    esp::Given,
    frame::{self, HEADROOM_BYTES, Outer, TAILROOM_BYTES},
    lifetime::Lifetime,
    policy::PeerId,
    sequence::SequenceBits,
    suite::Suite,
};
use sealane_transform::Kernels;

/// Returns the best kernels of this machine.
pub(crate) fn kernels() -> Kernels {
    Kernels::select(None, None).expect("a machine has the best that it has")
}

/// Returns parameters with an SPI of 0x1234.
pub(crate) fn parameters(protocol: Protocol, mode: Mode, suite: Suite, sequence: SequenceBits) -> Parameters {
    Parameters {
        spi: 0x1234,
        peer: PeerId(0),
        protocol,
        mode,
        suite,
        sequence,
        lifetime: Lifetime::default(),
    }
}

/// Returns key material whose bytes differ.
pub(crate) fn material(suite: Suite) -> Vec<u8> {
    (0..suite.material_bytes()).map(|at| (at * 7 + 1) as u8).collect()
}

/// Returns both ends of an association; the sender begins at number `first`.
pub(crate) fn ends(parameters: Parameters, first: u64) -> (Outbound, Inbound) {
    let (material, now) = (material(parameters.suite), Instant::now());
    let outbound = Outbound::new(kernels(), parameters, &material, first, now).expect("good parameters");
    let inbound = Inbound::new(kernels(), parameters, &material, 64, now).expect("good parameters");
    (outbound, inbound)
}

/// Runs one job over `bytes`.
pub(crate) fn run(session: &Arc<Session>, direction: Direction, bytes: &mut [u8], job: Job) -> Job {
    let mut buffer = Buffer::new(bytes.len());
    buffer.bytes_mut().copy_from_slice(bytes);
    let (sessions, jobs) = (vec![Arc::clone(session)], vec![job]);
    let work = Work { buffer, sessions, jobs, direction, ..Work::default() };
    let mut queue = Inline::new(kernels()).queue(NonZeroUsize::MIN).expect("an inline queue takes nothing");
    let mut waiting = std::collections::VecDeque::from([work]);
    assert_eq!(queue.submit(&mut waiting), 1);
    let work = queue.finished().expect("it ran when it was submitted");
    bytes.copy_from_slice(work.buffer.bytes());
    work.jobs[0]
}

/// Returns the protected form of `packet`, as it is sent.
pub(crate) fn protect(
    outbound: &Outbound,
    packet: &[u8],
    outer: &Outer,
    alignment: Alignment,
) -> Result<Vec<u8>, DropReason> {
    let mut bytes = vec![0; HEADROOM_BYTES];
    bytes.extend_from_slice(packet);
    bytes.resize(bytes.len() + TAILROOM_BYTES, 0);
    let number = outbound.numbers().reserve(1).ok_or(DropReason::NumbersExhausted)?.start;
    let inner = Span::new(HEADROOM_BYTES as u32, packet.len() as u32);
    let given = Given { number, iv: *b"unpredictable IV", session: 0 };
    let mut framed = frame::seal(outbound, &mut bytes, inner, outer, alignment, &given)?;
    framed.job = run(outbound.association().session(), Direction::Seal, &mut bytes, framed.job);
    assert_eq!(framed.job.status, sealane_engine::JobStatus::Done);
    Ok(framed.finish(&mut bytes).to_vec())
}

/// Returns the packet that was protected.
pub(crate) fn unprotect(inbound: &Inbound, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut bytes = vec![0; HEADROOM_BYTES];
    bytes.extend_from_slice(packet);
    let arrived = Span::new(HEADROOM_BYTES as u32, packet.len() as u32);
    let opening = frame::open(inbound, &inbound.window(), &mut bytes, arrived, 0)?;
    let job = run(inbound.association().session(), Direction::Open, &mut bytes, opening.job);
    let inner = opening.unframe(inbound, &mut inbound.window(), &job, &mut bytes)?;
    Ok(bytes[inner.range()].to_vec())
}
