//! ESP and AH packets: from strangers, nothing is accepted; whatever a peer with the keys has sealed is a packet
//! within the bytes that arrived, or is dropped. The message to the sender of a packet that is too long is itself
//! never answered.

#![no_main]

use std::{num::NonZeroUsize, sync::LazyLock, time::Instant};

use libfuzzer_sys::fuzz_target;
use sealane_engine::{Buffer, Direction, Engine as _, Inline, Job, Span, Work};
use sealane_ipsec::{
    association::{Inbound, Mode, Parameters, Protocol},
    flow::{Bound, flow},
    frame::{self, HEADROOM_BYTES},
    lifetime::Lifetime,
    policy::PeerId,
    replay::ReplayWindow,
    segment_size,
    sequence::SequenceBits,
    too_big,
};
use sealane_transform::Kernels;

const SUITES: [(Protocol, &str, SequenceBits); 8] = [
    (Protocol::Esp, "aes-128-gcm", SequenceBits::Extended),
    (Protocol::Esp, "aes-128-cbc+hmac-sha1-96", SequenceBits::Short),
    (Protocol::Esp, "null+hmac-sha256-128", SequenceBits::Extended),
    (Protocol::Esp, "aes-128-gmac", SequenceBits::Short),
    (Protocol::Ah, "hmac-sha256-128", SequenceBits::Short),
    (Protocol::Esp, "aes-128-gmac", SequenceBits::Extended),
    (Protocol::Ah, "hmac-sha384-192", SequenceBits::Extended),
    (Protocol::Ah, "aes-128-gmac", SequenceBits::Extended),
];

static KERNELS: LazyLock<Kernels> =
    LazyLock::new(|| Kernels::select(None, None).expect("a machine has the best that it has"));

static INBOUND: LazyLock<Vec<Inbound>> = LazyLock::new(|| {
    let modes = [Mode::Tunnel, Mode::Transport];
    let all = SUITES.iter().flat_map(|suite| modes.map(|mode| (suite, mode)));
    all.map(|(&(protocol, suite, sequence), mode)| {
        let suite: sealane_ipsec::suite::Suite = suite.parse().expect("a suite");
        let lifetime = Lifetime::default();
        let parameters =
            Parameters { spi: 0x1234, peer: PeerId(0), protocol, mode, suite, sequence, lifetime };
        let material = vec![7; suite.material_bytes()];
        Inbound::new(*KERNELS, parameters, &material, 64, Instant::now()).expect("good parameters")
    })
    .collect()
});

/// Checks the message that the sender of `packet` gets if the packet is too long.
fn too_long(packet: &[u8], mtu: u16) {
    let _ = too_big::is_whole(packet);
    if let Some(answer) = too_big::answer(packet, mtu) {
        assert!(answer.len() <= 1280 && frame::traffic_class(&answer) == Some(0));
        assert!(too_big::answer(&answer, mtu).is_none(), "an answer to an answer");
    }
}

/// Runs a job, and returns it with its result.
fn run(inbound: &Inbound, direction: Direction, bytes: &mut [u8], job: Job) -> Job {
    let mut buffer = Buffer::new(bytes.len());
    buffer.bytes_mut().copy_from_slice(bytes);
    let sessions = vec![inbound.association().session().clone()];
    let mut waiting = [Work { buffer, sessions, jobs: vec![job], direction, ..Work::default() }].into();
    let mut queue = Inline::new(*KERNELS).queue(NonZeroUsize::MIN).expect("an inline queue takes nothing");
    queue.submit(&mut waiting);
    let work = queue.finished().expect("it ran when it was submitted");
    bytes.copy_from_slice(work.buffer.bytes());
    work.jobs[0]
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, packet)) = input.split_first() else { return };
    let _ = frame::named(packet);
    let _ = flow(packet, Bound::In);
    too_long(packet, u16::from(choice) << 3);
    let mut clamped = packet.to_vec();
    segment_size::clamp(&mut clamped, u16::from(choice) << 4);
    let inbound = &INBOUND[usize::from(choice & 0x7f) % INBOUND.len()];
    let mut window = ReplayWindow::new(64).expect("an offered size");
    let mut bytes = vec![0; HEADROOM_BYTES];
    bytes.extend_from_slice(packet);
    let arrived = Span::new(HEADROOM_BYTES as u32, packet.len() as u32);
    let Ok(opening) = frame::open(inbound, &window, &mut bytes, arrived, 0) else { return };
    let mut job = opening.job;
    if choice & 0x80 != 0 {
        // A peer with the keys seals arbitrary bytes as body, padding, and next header.
        job = run(inbound, Direction::Seal, &mut bytes, job);
        job.status = opening.job.status;
    }
    let job = run(inbound, Direction::Open, &mut bytes, job);
    if let Ok(inner) = opening.unframe(inbound, &mut window, &job, &mut bytes) {
        assert!(choice & 0x80 != 0, "a stranger's packet was accepted");
        assert!(inner.start as usize >= HEADROOM_BYTES && inner.end() <= bytes.len());
        let _ = flow(&bytes[inner.range()], Bound::In);
    }
});
