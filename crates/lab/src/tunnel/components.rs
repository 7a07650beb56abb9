//! Measures the cost of AH's parts (A10): headers, touching the data, arithmetic, and the byte order. All runs in
//! memory, with the tunnel's own AH and one message at a time, as in the study's kernel.
//!
//! Guarantees: all components work on the same packets and take turns; each gets a new copy of its packets in the
//! same place.

use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{
    Cell, Claim, Coordinates, Drawn, Experiment, Measure, Outcome, Plan, Plot, Repetition, Sample, Shape,
    View, at, by, check, find,
};
use crate::load::Watch;
use crate::request::Request;
use sealane_engine::{
    Buffer, Direction, Engine as _, Inline, Job, Mac, Protection, Queue, Session, Span, Work,
};
use sealane_ipsec::ah::Alignment;
use sealane_ipsec::association::{Mode, Outbound, Parameters, Protocol};
use sealane_ipsec::esp::Given;
use sealane_ipsec::frame::{self, Ends, Framed, HEADROOM_BYTES, HOPS, Outer, TAILROOM_BYTES};
use sealane_ipsec::lifetime::Lifetime;
use sealane_ipsec::policy::PeerId;
use sealane_ipsec::sequence::SequenceBits;
use sealane_transform::{Digest, Kernels, Tier};
use sealane_wire::{Ipv4Fields, protocol};
use std::collections::VecDeque;
use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

const PAPER: &str = "ISI 1995 (ATOMIC-2): IPv4 AH in the kernel, its components apart; J. Touch: Performance Analysis of MD5 (1995)";

/// The processing of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The packet is only copied to its place.
    Nothing,
    /// AH's header, without a check value.
    Header,
    /// The check value by this digest at this tier.
    Digest(Digest, Tier),
    /// The check value over words whose byte order was reversed first.
    Turned(Digest, Tier),
    /// The check value alone, of one packet again and again, which so lies in the nearest cache.
    Hot(Digest, Tier),
}

const fn native(digest: Digest) -> Part {
    Part::Digest(digest, Tier::Native)
}

/// The study's components, and present-day ones.
const PARTS: [(&str, Part); 11] = [
    ("no-ah", Part::Nothing),
    ("null-ah", Part::Header),
    ("touch", native(Digest::Touch)),
    ("internet-checksum", native(Digest::InternetChecksum)),
    ("md5", Part::Digest(Digest::Md5, Tier::Reference)),
    ("md5-optimised", native(Digest::Md5)),
    ("md5-optimised-reordered", Part::Turned(Digest::Md5, Tier::Native)),
    ("aha-i", native(Digest::AhaI)),
    ("bucket-hash", native(Digest::Bh140)),
    ("hmac-sha1", native(Digest::HmacSha1)),
    ("hmac-sha256", native(Digest::HmacSha256)),
];

/// Check values alone, each beside the component that has it with a header and over packets that lie further away.
const HOT: [(&str, Part, &str); 4] = [
    ("internet-checksum, hot", Part::Hot(Digest::InternetChecksum, Tier::Native), "internet-checksum"),
    ("md5-optimised, hot", Part::Hot(Digest::Md5, Tier::Native), "md5-optimised"),
    ("aha-i, hot", Part::Hot(Digest::AhaI, Tier::Native), "aha-i"),
    ("hmac-sha1, hot", Part::Hot(Digest::HmacSha1, Tier::Native), "hmac-sha1"),
];

/// Returns all components.
fn parts() -> impl Iterator<Item = (&'static str, Part)> {
    PARTS.into_iter().chain(HOT.map(|(name, part, _)| (name, part)))
}

/// The bytes of AH's header with its check value, and of what a tunnel's packet has before that.
const AH_BYTES: usize = 24;

/// Bytes of the packets.
const SIZES: [usize; 3] = [64, 576, 1440];
/// Packets per turn.
const PACKETS: usize = 64;
/// The length of a check value; that of its algorithm if it is shorter.
const CHECK_BYTES: usize = 12;
/// The length of a place for the longest packet and its room.
const PLACE_BYTES: usize = HEADROOM_BYTES + 1440 + TAILROOM_BYTES + 32;

/// One component at work.
struct Component {
    part: Part,
    outbound: Outbound,
    session: Option<Arc<Session>>,
    check_bytes: usize,
    work: Work,
    queue: Box<dyn Queue>,
    framed: Vec<Framed>,
    numbers: u64,
}

impl Component {
    fn new(part: Part) -> Result<Self, LabError> {
        let tier = match part {
            Part::Digest(_, tier) | Part::Turned(_, tier) | Part::Hot(_, tier) => tier,
            Part::Nothing | Part::Header => Tier::Native,
        };
        let kernels = Kernels::select(Some(tier), None).map_err(unavailable)?;
        let suite: sealane_ipsec::suite::Suite = "hmac-sha1-96".parse().map_err(unavailable)?;
        let parameters = Parameters {
            spi: 0x1234,
            peer: PeerId(0),
            protocol: Protocol::Ah,
            mode: Mode::Transport,
            suite,
            sequence: SequenceBits::Short,
            lifetime: Lifetime::default(),
        };
        let material = vec![7; suite.material_bytes()];
        let outbound = Outbound::new(kernels, parameters, &material, 1, Instant::now());
        let outbound = outbound.map_err(unavailable)?;
        let mac = match part {
            Part::Digest(digest, _) | Part::Turned(digest, _) | Part::Hot(digest, _) => {
                Some(Mac::Digest(digest))
            }
            Part::Nothing | Part::Header => None,
        };
        let check_bytes = mac.map_or(0, |mac| mac.output_bytes().min(CHECK_BYTES));
        let session = mac.map(|mac| {
            let protection = Protection::Mac { mac, tag_bytes: check_bytes as u8 };
            Session::with(kernels, protection, &vec![0x35; protection.key_bytes()]).map(Arc::new)
        });
        let session = session.transpose().map_err(unavailable)?;
        let queue = Inline::new(kernels).queue(NonZeroUsize::MIN).map_err(unavailable)?;
        let work = Work {
            buffer: Buffer::new(PACKETS * PLACE_BYTES),
            direction: Direction::Seal,
            ..Work::default()
        };
        Ok(Self { part, outbound, session, check_bytes, work, queue, framed: Vec::new(), numbers: 0 })
    }

    /// Copies `packet` into every place, and runs this component.
    fn turn(&mut self, packet: &[u8]) {
        let outer = Outer {
            ends: Ends::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() },
            hop_limit: HOPS,
            dont_fragment: true,
            identification: 1,
        };
        self.work.jobs.clear();
        self.work.sessions.clear();
        let session =
            self.session.as_ref().map(|session| self.work.session(session).expect("the first of a work"));
        for place in 0..PACKETS {
            let start = place * PLACE_BYTES + HEADROOM_BYTES;
            let bytes = self.work.buffer.bytes_mut();
            if let (Part::Hot(..), Some(session)) = (self.part, session) {
                // As many bytes as with the header, in one place, and none is copied.
                let clear = Span::new((HEADROOM_BYTES - AH_BYTES) as u32, (packet.len() + AH_BYTES) as u32);
                let tag = Span::new(clear.end() as u32, self.check_bytes as u32);
                let body = Span::new(tag.start, 0);
                self.work.jobs.push(Job { session, clear, body, tag, ..Job::default() });
                continue;
            }
            bytes[start..start + packet.len()].copy_from_slice(packet);
            if self.part == Part::Nothing {
                continue;
            }
            self.numbers += 1;
            let given = Given { number: self.numbers, iv: [0; 16], session: 0 };
            let inner = Span::new(start as u32, packet.len() as u32);
            let framed = frame::seal(&self.outbound, bytes, inner, &outer, Alignment::Rfc, &given)
                .expect("an IP packet with its room");
            if let Some(session) = session {
                let tag = Span::new(framed.job.tag.start, self.check_bytes as u32);
                if matches!(self.part, Part::Turned(..)) {
                    for word in bytes[framed.job.clear.range()].chunks_exact_mut(4) {
                        word.reverse();
                    }
                }
                self.work.jobs.push(Job { session, tag, ..framed.job });
            }
            self.framed.push(framed);
        }
        if session.is_some() {
            let mut works = VecDeque::from([std::mem::take(&mut self.work)]);
            self.queue.submit(&mut works);
            self.work = self.queue.finished().expect("it computes at once");
        }
        for framed in self.framed.drain(..) {
            framed.finish(self.work.buffer.bytes_mut());
        }
        black_box(self.work.buffer.bytes());
    }
}

/// Returns an IPv4 packet of `bytes` bytes.
fn packet(bytes: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: 1,
        dont_fragment: true,
        time_to_live: HOPS,
        protocol: protocol::TCP,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
    };
    fields.write(&mut packet, bytes - 20).expect("there is room");
    packet
}

const AXES: [&str; 2] = ["component", "packet"];

fn place(component: &str, bytes: usize) -> Coordinates {
    at(AXES.into_iter().zip([component, &format!("ah-{bytes}")]))
}

/// Returns the components in ns per packet, and the cost that each adds to the one below it.
pub(super) fn outcomes(
    request: &Request,
    repetition: Repetition,
    progress: &mut dyn Write,
) -> Result<Vec<Outcome>, LabError> {
    let mut components = parts().map(|(_, part)| Component::new(part)).collect::<Result<Vec<_>, _>>()?;
    let view = View::pivot(&AXES[..1], AXES[1], "ns");
    let measure = Measure::cost("ns", "", "ns").decimals(0);
    let experiment = Experiment::new("ah-components", "A10", "AH by components", &AXES, vec![measure]).notes(&[
        "Nanoseconds per packet, medians; one message at a time, in memory. no-ah puts the packet into place; null-ah lays AH's \
         header and zeroes what routers may change; the others compute a check value too.",
        "md5 is the reference code, md5-optimised this project's native one; aha-i is our reconstruction of an alternate hash \
         whose definition was not found; bucket-hash has 140 buckets. hot is the check value alone, of one packet in the nearest \
         cache: arithmetic without header and without fetching.",
    ]);
    let plots = vec![Plot::new(Drawn::Bars, AXES[1], "ns", &AXES[..1])];
    let experiment = Experiment { repetition, ..experiment.of(PAPER).shown(view, plots) };
    let places = parts().flat_map(|(name, _)| SIZES.map(|bytes| place(name, bytes))).collect();
    let packets = SIZES.map(packet);
    // Every component takes packets of every size; a sample is a millisecond or more.
    let mut sampler = by(|cell| {
        let (packet, component) = (&packets[cell % SIZES.len()], &mut components[cell / SIZES.len()]);
        let turns = 64 * 1440 / packet.len();
        component.turn(packet);
        let watch = Watch::begin();
        let start = Instant::now();
        (0..turns).for_each(|_| component.turn(packet));
        let ns = start.elapsed().as_nanos() as f64 / (turns * PACKETS) as f64;
        Ok(Sample::slice("ns", ns, watch.is_thread_disturbed()))
    });
    let whole = Plan::new(experiment, places, request.seed).run(&mut sampler, progress, |_| ())?;
    let costs = costs(&whole.cells);
    Ok(vec![whole, costs])
}

/// Returns the cost that each part adds.
fn costs(cells: &[Cell]) -> Outcome {
    let part = |component: &str, bytes| find(cells, &place(component, bytes));
    let digests = PARTS.iter().map(|(name, _)| *name).skip(3).filter(|name| !name.ends_with("reordered"));
    let rows = [
        ("header".to_owned(), "null-ah", "no-ah"),
        ("touching".to_owned(), "touch", "null-ah"),
        ("reordering".to_owned(), "md5-optimised-reordered", "md5-optimised"),
    ];
    let rows = rows.into_iter().chain(digests.map(|name| (format!("arithmetic of {name}"), name, "touch")));
    let cell = |(name, with, without): &(String, &str, &str), bytes| {
        let (with, without) = (part(with, bytes)?, part(without, bytes)?);
        let adds = with.figure("ns")? - without.figure("ns")?;
        let runs = with.runs() + without.runs();
        Some(Cell { at: place(name, bytes), ..Cell::default() }.with("adds", adds).behind(runs))
    };
    let costs = rows.flat_map(|row| SIZES.map(|bytes| cell(&row, bytes))).flatten();
    let measure = Measure::new("adds", "").unit("ns").derived().decimals(0);
    let experiment = Experiment::new("ah-costs", "A10", "What the parts add", &AXES, vec![measure]).notes(&[
        "header: null-ah less no-ah. touching: touch less null-ah. arithmetic: less touch. reordering: the turned words' MD5 \
         less MD5.",
    ]);
    let longest = SIZES[SIZES.len() - 1];
    let claim = |statement: &str, [top, bottom]: [&str; 2], bounds| {
        Claim::ratio((statement, "A10"), "ns", (place(top, longest), place(bottom, longest)), bounds)
    };
    // The claims are about whole packets, as the study's sentences are.
    let claims = vec![
        claim("AHA is over twice as fast as MD5", ["md5-optimised", "aha-i"], (Some(2.0), None)),
        claim(
            "The order of bytes does not matter, within 10 %",
            ["md5-optimised-reordered", "md5-optimised"],
            (Some(0.9), Some(1.1)),
        ),
    ];
    let adds_up = |&(hot, _, whole): &(&str, Part, &str)| {
        let statement = format!(
            "{whole}: header, touching and arithmetic, each measured alone, add up to the whole, within 10 %"
        );
        let parts = ["touch", hot].map(|name| place(name, longest)).to_vec();
        let shape =
            Shape::Sum { parts, common: Vec::new(), whole: place(whole, longest), low: 0.9, high: 1.1 };
        Claim::new((statement, "A10"), "ns", shape)
    };
    let claims: Vec<Claim> = claims.into_iter().chain(HOT.iter().map(adds_up)).collect();
    let experiment = experiment.of(PAPER).shown(View::pivot(&AXES[..1], AXES[1], "adds"), Vec::new());
    let mut outcome = Outcome::new(experiment, costs.collect());
    outcome.claims = claims.iter().map(|claim| check(claim, cells)).collect();
    outcome.experiment.claims = claims;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_leaves_a_packet_with_its_own_check_value() {
        let packet = packet(576);
        let mut values = Vec::new();
        for (name, part) in PARTS {
            let mut component = Component::new(part).expect(name);
            component.turn(&packet);
            component.turn(&packet);
            let bytes = component.work.buffer.bytes();
            let last = (PACKETS - 1) * PLACE_BYTES + HEADROOM_BYTES;
            let is_turned = matches!(part, Part::Turned(..));
            let end = packet.len() - 1 - if is_turned { 3 } else { 0 };
            assert_eq!(bytes[last + packet.len() - 1], packet[end], "{name}: the payload does not move");
            if part == Part::Nothing {
                assert_eq!(&bytes[last..last + packet.len()], packet);
                continue;
            }
            // The IP header has moved in front of AH's.
            let ah = last - 24 + 20;
            if !is_turned {
                assert_eq!((bytes[last - 24 + 9], bytes[ah]), (protocol::AH, protocol::TCP), "{name}");
            }
            values.push((name, bytes[ah + 12..ah + 24].to_vec()));
        }
        for (at, (name, value)) in values.iter().enumerate() {
            let twin = values[..at].iter().find(|(_, other)| other == value).map(|(other, _)| *other);
            // It is the same digest with other code.
            assert_eq!(twin, (*name == "md5-optimised").then_some("md5"), "{name}");
        }
    }

    #[test]
    fn costs_are_what_components_add() {
        let cells = [("no-ah", 50.0), ("null-ah", 90.0), ("touch", 130.0), ("md5-optimised", 1500.0)]
            .map(|(name, ns)| Cell { at: place(name, 1440), ..Cell::default() }.with("ns", ns));
        let outcome = costs(&cells);
        let added = |what: &str| {
            outcome.cell(&place(what, 1440)).and_then(|cell| cell.figure("adds")).map(f64::round)
        };
        assert_eq!(added("header"), Some(40.0));
        assert_eq!(added("touching"), Some(40.0));
        assert_eq!(added("arithmetic of md5-optimised"), Some(1370.0));
        assert_eq!(added("arithmetic of aha-i"), None);
    }
}
