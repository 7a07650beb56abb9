//! ESP packets in place (RFC 4303, sections 2 and 3).
//!
//! Guarantees: nothing is allocated; no bytes received can make these functions panic or read outside the packet; the
//! nonce depends only on the packet's number, which is assigned before.
//!
//! A packet lies in a buffer in its order on the wire: header, IV, payload, padding, check value.

use sealane_engine::{Job, JobStatus, Span, Suffix};
use sealane_wire::{ESP_BYTES, Esp, EspFields, EspTrailer};

use crate::{
    association::{Association, Inbound, Outbound},
    counters::DropReason,
    replay::{self, Replay},
    sequence::SequenceBits,
    suite::{Iv, Suite},
};

/// The values assigned to a packet, in order of arrival, before it is written.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// The sequence number.
    pub number: u64,
    /// An unpredictable IV if the suite needs one; otherwise unused.
    pub iv: [u8; 16],
    /// The index of the association's session in the work.
    pub session: u16,
}

/// The length of the SPI, with which the header begins, in bytes.
const SPI_BYTES: u32 = 4;

/// The lengths of the parts of an ESP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    iv_bytes: u32,
    align_bytes: u32,
    check_bytes: u32,
}

impl Shape {
    /// Returns the lengths for packets of `suite`.
    pub fn of(suite: Suite) -> Self {
        Self {
            iv_bytes: suite.iv().wire_bytes() as u32,
            align_bytes: suite.align_bytes() as u32,
            check_bytes: suite.check_bytes() as u32,
        }
    }

    /// Returns the number of bytes of which the length of payload and trailer is a multiple.
    pub fn align_bytes(self) -> u32 {
        self.align_bytes
    }

    /// Returns the length of the check value in bytes.
    pub fn check_bytes(self) -> u32 {
        self.check_bytes
    }

    /// Returns the number of bytes in front of the payload.
    pub fn header_bytes(self) -> u32 {
        ESP_BYTES as u32 + self.iv_bytes
    }

    /// Returns the length of a whole packet in bytes.
    pub fn packet_bytes(self, payload_bytes: u32) -> u32 {
        self.header_bytes() + (payload_bytes + 2).next_multiple_of(self.align_bytes) + self.check_bytes
    }

    /// Returns the length of the longest payload in a packet of at most `packet_bytes`; `None` if there is no room
    /// for a payload.
    pub fn payload_bytes_max(self, packet_bytes: u32) -> Option<u32> {
        let padded = packet_bytes.checked_sub(self.header_bytes() + self.check_bytes)?;
        (padded / self.align_bytes * self.align_bytes).checked_sub(2)
    }

    /// Returns the length of the shortest packet that can be genuine.
    fn packet_bytes_min(self) -> u32 {
        self.packet_bytes(0)
    }

    fn check(self, packet: Span) -> Span {
        Span::new(packet.start + packet.len - self.check_bytes, self.check_bytes)
    }

    /// Returns the place of payload, padding and trailer.
    fn body(self, packet: Span) -> Span {
        let header_bytes = self.header_bytes();
        Span::new(packet.start + header_bytes, packet.len - header_bytes - self.check_bytes)
    }
}

/// Returns the 16 bytes of IV for the cipher, from the IV in the packet.
pub(crate) fn cipher_iv(association: &Association, iv: &[u8]) -> [u8; 16] {
    let mut whole = [0; 16];
    match association.parameters().suite.iv() {
        Iv::None => {}
        Iv::Random(_) => whole[..iv.len()].copy_from_slice(iv),
        counted @ (Iv::Counted | Iv::CountedBehindThree | Iv::CountedBlock) => {
            let salt_bytes = counted.salt_bytes();
            whole[..salt_bytes].copy_from_slice(&association.salt()[..salt_bytes]);
            whole[salt_bytes..salt_bytes + 8].copy_from_slice(iv);
        }
    }
    if association.parameters().suite.iv() == Iv::CountedBlock {
        whole[15] = 1;
    }
    whole
}

/// Returns the job of a packet whose header, IV and number are known.
fn job(association: &Association, bytes: &[u8], packet: Span, number: u64, session: u16) -> Job {
    let suite = association.parameters().suite;
    let shape = Shape::of(suite);
    let (header, body) = (ESP_BYTES as u32, shape.body(packet));
    let iv_at = packet.start as usize + ESP_BYTES;
    let iv = cipher_iv(association, &bytes[iv_at..iv_at + shape.iv_bytes as usize]);
    let is_extended = association.parameters().sequence == SequenceBits::Extended;
    let high = ((number >> 32) as u32).to_be_bytes();
    let mut job = Job { session, iv, body, tag: shape.check(packet), ..Job::default() };
    let before_body = Span::new(packet.start, shape.header_bytes());
    if !suite.is_combined() {
        // RFC 4303, section 3.3.2.1: the check covers everything but itself, and the high half behind it.
        job.clear = before_body;
        job.suffix = if is_extended { high.into() } else { Suffix::NONE };
    } else if !suite.encrypts() {
        // RFC 4543, section 3.3: everything is associated data, including the IV; the high half stands between SPI
        // and low half.
        job.clear = Span::new(packet.start, before_body.len + body.len);
        job.body = Span::new(body.end() as u32, 0);
        job.suffix =
            if is_extended { Suffix::from(high).behind_first(SPI_BYTES as u8) } else { Suffix::NONE };
    } else if is_extended {
        // RFC 4106, section 5: the SPI, then all 64 bits.
        job.clear = Span::new(packet.start, SPI_BYTES);
        job.suffix = number.to_be_bytes().into();
    } else {
        job.clear = Span::new(packet.start, header);
    }
    job
}

/// Writes an ESP packet around the payload that begins [`Shape::header_bytes`] behind `at`. Returns the job for an
/// engine and the place of the packet. The caller must provide room for [`Shape::packet_bytes`].
pub fn lay(
    outbound: &Outbound,
    bytes: &mut [u8],
    at: u32,
    payload_bytes: u32,
    next_header: u8,
    given: &Given,
) -> (Job, Span) {
    let &Given { number, iv, session } = given;
    let association = outbound.association();
    let parameters = association.parameters();
    let shape = Shape::of(parameters.suite);
    let packet = Span::new(at, shape.packet_bytes(payload_bytes));
    let fields = EspFields { spi: parameters.spi, sequence_number: number as u32 };
    fields.write(&mut bytes[at as usize..]).expect("a whole packet has room for its header");
    let iv_at = at as usize + ESP_BYTES;
    let iv_bytes = shape.iv_bytes as usize;
    match parameters.suite.iv() {
        Iv::None => {}
        // The IV is unique under the key because the number is (RFC 4106, section 3.1).
        Iv::Counted | Iv::CountedBehindThree | Iv::CountedBlock => {
            bytes[iv_at..iv_at + 8].copy_from_slice(&number.to_be_bytes());
        }
        Iv::Random(_) => bytes[iv_at..iv_at + iv_bytes].copy_from_slice(&iv[..iv_bytes]),
    }
    let trailer = EspTrailer::for_payload(payload_bytes as usize, shape.align_bytes as usize, next_header);
    let trailer_at = iv_at + iv_bytes + payload_bytes as usize;
    trailer.write(&mut bytes[trailer_at..]).expect("a whole packet has room for its trailer");
    (job(association, bytes, packet, number, session), packet)
}

/// Checks a packet before its integrity is known. Returns the job for an engine, and the packet's number if it may be
/// new.
///
/// # Errors
/// Fails if the packet cannot be genuine or its number is not new.
pub fn open(
    inbound: &Inbound,
    window: &replay::ReplayWindow,
    bytes: &[u8],
    packet: Span,
    session: u16,
) -> Result<(Job, u64), DropReason> {
    let association = inbound.association();
    let parameters = association.parameters();
    let shape = Shape::of(parameters.suite);
    let esp =
        bytes.get(packet.range()).and_then(|packet| Esp::parse(packet).ok()).ok_or(DropReason::Malformed)?;
    let low = esp.sequence_number();
    if packet.len < shape.packet_bytes_min() || !shape.body(packet).len.is_multiple_of(shape.align_bytes) {
        return Err(DropReason::Malformed);
    }
    let number = number_of(parameters.sequence, window, low)?;
    Ok((job(association, bytes, packet, number, session), number))
}

/// Returns the full number of a packet, if it may be new.
pub(crate) fn number_of(
    sequence: SequenceBits,
    window: &replay::ReplayWindow,
    low: u32,
) -> Result<u64, DropReason> {
    let number = match sequence {
        SequenceBits::Short => u64::from(low),
        SequenceBits::Extended => replay::extended(window, low).ok_or(DropReason::TooOld)?,
    };
    fresh(window.check(number))?;
    Ok(number)
}

/// Converts a verdict of the window to a result.
pub(crate) fn fresh(verdict: Replay) -> Result<(), DropReason> {
    match verdict {
        Replay::Fresh => Ok(()),
        Replay::Duplicate => Err(DropReason::Duplicate),
        Replay::TooOld => Err(DropReason::TooOld),
    }
}

/// Accepts the number of a packet that an engine has run, if its integrity holds. It is called once per packet, in
/// order. The job must not be pending; [`sealane_engine::Submitter`] completes pending jobs.
///
/// # Errors
/// Fails if the packet is not genuine, or its number was accepted meanwhile.
pub fn accept(window: &mut replay::ReplayWindow, job: &Job, number: u64) -> Result<(), DropReason> {
    match job.status {
        JobStatus::Done => fresh(window.accept(number)),
        JobStatus::Forged => Err(DropReason::BadIntegrity),
        JobStatus::Pending | JobStatus::Malformed => Err(DropReason::Malformed),
    }
}

/// Returns the place of the payload of an opened packet, and its protocol number.
///
/// # Errors
/// Fails if the padding is wrong (RFC 4303, section 2.4, requires the check).
pub fn payload(suite: Suite, bytes: &[u8], packet: Span) -> Result<(Span, u8), DropReason> {
    let body = Shape::of(suite).body(packet);
    let (payload, trailer) = EspTrailer::split(&bytes[body.range()]).map_err(|_| DropReason::BadPadding)?;
    Ok((Span::new(body.start, payload.len() as u32), trailer.next_header))
}
