//! Tests stacks over ports: any stack, any placement, any link.

#[path = "../../../testing/late_engine.rs"]
mod late_engine;
mod over;

use late_engine::LateEngine;
use over::{plan, room, run, run_on, seen, sent_by, stack, way};
use proptest::prelude::*;
use sealane_engine::Inline;
use sealane_lanes::{LaneWork as _, Pinning, Placement, Turn};
use sealane_port::Room;
use sealane_port::Verdict;
use sealane_port::link::{Clock, Emulated, Fates, Link};
use sealane_port::memory::{Cable, Collect, Source};
use sealane_port::stream::Stream;
use sealane_port::udp::Udp;
use sealane_stack::ends;
use sealane_stack::{Crew, End, Ends, FlowPlan, Plan, Way};
use sealane_transform::Kernels;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const STACKS: &[&str] = &[
    "null",
    "md5",
    "des",
    "null/inet/null",
    "3des-cbc/md5/null",
    "hmac-sha256",
    "aes-128-ctr/bh-140",
    "aes-256-gcm/chacha20-poly1305/md5",
    "etm(des,hmac-md5)",
    "rc4/seal3/idea-ecb",
];

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 1..1600), 0..60)
}

/// Runs `text` over an emulated link for each flow; returns the packets that came out, the link's counts, and the
/// receiver.
fn over_links(
    text: &str,
    placement: Placement,
    lanes: usize,
    flows: &[Vec<Vec<u8>>],
    link: Link,
    schedule: &[usize],
) -> (Vec<Vec<Vec<u8>>>, Vec<Fates>, Crew) {
    let clock = Clock::still();
    let (mut senders, mut receivers, mut outs, mut links) = (vec![], vec![], vec![], vec![]);
    for (flow, packets) in flows.iter().enumerate() {
        let (near, far) = (stack(text, End::Near, flow), stack(text, End::Far, flow));
        let (one, other) = Cable::pair(room(&far), 7);
        let link = Link { seed: link.seed.wrapping_add(flow as u64), ..link };
        let (watched, other) = seen(Emulated::new(other, link, clock.clone(), room(&far)));
        let (out, collect) = seen(Collect::new(packets.len()));
        let source = Source::new(packets.clone(), room(&near), 3);
        senders.push(FlowPlan { stack: near, down: way(source, one), up: Ends::default() });
        receivers.push(FlowPlan { stack: far, down: Ends::default(), up: way(other, collect) });
        outs.push(out);
        links.push(watched);
    }
    let sender = Crew::with_clock(plan(placement, lanes), senders, clock.clone()).unwrap();
    let receiver = Crew::with_clock(plan(placement, lanes), receivers, clock.clone()).unwrap();
    run([&sender, &receiver], lanes, schedule, &clock);
    let outs = outs.iter().map(|out| std::mem::take(&mut out.lock().unwrap().packets)).collect();
    let fates = links.iter().map(|link| link.lock().unwrap().fates()).collect();
    (outs, fates, receiver)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_stack_delivers_what_the_link_did_not_lose_in_order_and_once(
        text in prop::sample::select(STACKS),
        placement in prop::sample::select(&Placement::ALL),
        lanes in 1..5usize,
        flows in prop::collection::vec(packets(), 1..4),
        loss in prop::sample::select(&[0.0, 0.02, 0.3][..]),
        reorder in prop::sample::select(&[0.0, 0.2][..]),
        duplicate in prop::sample::select(&[0.0, 0.2][..]),
        rate in prop::sample::select(&[None, Some(1_000_000)][..]),
        seed: u64,
        schedule in prop::collection::vec(any::<usize>(), 1..64),
    ) {
        // The numbers lie below the protection, so that packets which the link repeats cost no cryptography.
        let text = format!("{text}/sequence");
        let delay = Duration::from_millis(10);
        let link = Link { delay, loss, reorder, duplicate, bytes_per_second: rate, seed, ..Link::PERFECT };
        let (outs, fates, receiver) = over_links(&text, placement, lanes, &flows, link, &schedule);
        for (flow, (sent, out)) in flows.iter().zip(&outs).enumerate() {
            let (fates, counts) = (fates[flow], receiver.counts(flow, Way::Up));
            prop_assert_eq!(fates.offered, sent.len() as u64);
            prop_assert_eq!(counts.of(Verdict::Passed), out.len() as u64);
            let replayed = counts.of(Verdict::Replayed);
            prop_assert_eq!(fates.offered - fates.lost + fates.twice, out.len() as u64 + replayed);
            prop_assert!(reorder + duplicate > 0.0 || replayed == 0);
            prop_assert!(reorder > 0.0 || replayed == fates.twice);
            // The packets that came out are part of those sent, in order and each once.
            let mut rest = sent.iter();
            prop_assert!(out.iter().all(|packet| rest.any(|sent| sent == packet)));
        }
    }
}

const TRANSPORTS: &[&str] = &[
    "tcp/ip/fddi",
    "tcp/md5/ip/fddi",
    "des/tcp/md5/ip/fddi",
    "3des/tcp/ip/fddi",
    "3des/tcp/md5/ipv6/ether",
    "aes-128-gcm/tcp/ip/ether(9000)",
    "md5/tcp/chacha20-poly1305/ip/ether",
    "null/tcp",
    "etm(aes-128-ctr,hmac-sha256)/tcp/inet/ipv6/ether(65535)",
    "tcp/aes-256-gcm/ipv6/ether(600)",
];

/// The messages that one end of each connection sends.
fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let bytes = prop_oneof![1..1600usize, 1..9000usize];
    let message =
        (bytes, any::<u8>()).prop_map(|(bytes, seed)| (0..bytes).map(|at| seed ^ (at * 7) as u8).collect());
    prop::collection::vec(message, 0..40)
}

/// Most polls of the late engine until it has answered, whatever its works are.
const LOOKS: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With a transport everything arrives, whatever the link does, in both directions at once, on an engine that
    /// computes at once and on one that answers late, out of order, and not for all jobs.
    #[test]
    fn any_transport_stack_delivers_everything_in_order(
        text in prop::sample::select(TRANSPORTS),
        placement in prop::sample::select(&Placement::ALL),
        lanes in 1..5usize,
        flows in prop::collection::vec((messages(), messages()), 1..4),
        loss in prop::sample::select(&[0.0, 0.02, 0.1][..]),
        reorder in prop::sample::select(&[0.0, 0.2][..]),
        duplicate in prop::sample::select(&[0.0, 0.2][..]),
        is_late: bool,
        seed: u64,
        schedule in prop::collection::vec(any::<usize>(), 1..64),
    ) {
        let clock = Clock::still();
        let link = Link { delay: Duration::from_millis(10), loss, reorder, duplicate, seed, ..Link::PERFECT };
        let mut ends_of: [Vec<FlowPlan>; 2] = [vec![], vec![]];
        let mut outs = Vec::new();
        for (flow, (there, back)) in flows.iter().enumerate() {
            let stacks = [stack(text, End::Near, flow), stack(text, End::Far, flow)];
            let (one, other) = Cable::pair(room(&stacks[0]), 64);
            let sent = [there, back];
            for (end, (stack, port)) in stacks.into_iter().zip([one, other]).enumerate() {
                let link = Link { seed: seed.wrapping_add(2 * flow as u64 + end as u64), ..link };
                let (receiving, sending) =
                    ends(Emulated::new(port, link, clock.clone(), room(&stack))).unwrap();
                let (out, collect) = seen(Collect::new(usize::MAX));
                let source = Source::new(sent[end].clone(), room(&stack), 3);
                let down = Ends {
                    source: Some(Box::new(ends(source).unwrap().0)),
                    sink: Some(Box::new(sending)),
                };
                let up = Ends { source: Some(Box::new(receiving)), ..sent_by(collect) };
                ends_of[end].push(FlowPlan { stack, down, up });
                outs.push((out, sent[1 - end].clone()));
            }
        }
        let crews = ends_of.map(|flows| {
            let plan = Plan { batches: 32, buffer_bytes: 128 << 10, ..plan(placement, lanes) };
            Crew::with_clock(plan, flows, clock.clone()).unwrap()
        });
        match is_late {
            false => run([&crews[0], &crews[1]], lanes, &schedule, &clock),
            true => run_on(&LateEngine::new(seed), LOOKS, [&crews[0], &crews[1]], lanes, &schedule, &clock),
        }
        let is_framed = !text.starts_with("tcp");
        for (out, sent) in outs {
            let out = std::mem::take(&mut out.lock().unwrap().packets);
            if is_framed {
                prop_assert!(out == sent, "{} of {} messages", out.len(), sent.len());
            } else {
                prop_assert!(out.concat() == sent.concat(), "the bytes differ");
            }
        }
    }
}

/// Runs real threads over real sockets: lanes sleep on the port's descriptor and are woken by it, and two directions
/// meet at TCP.
#[test]
fn stacks_run_over_sockets() {
    let sent: Vec<Vec<u8>> = (0..300u32).map(|number| number.to_be_bytes().repeat(100)).collect();
    for text in ["aes-128-gcm", "des/tcp/md5/ip/ether"] {
        for placement in Placement::ALL {
            over_sockets(text, placement, &sent);
        }
    }
}

fn over_sockets(text: &str, placement: Placement, sent: &[Vec<u8>]) {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
    sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
    let ways = sockets.map(|socket| {
        socket.set_nonblocking(true).unwrap();
        ends(Udp::new(socket, None).unwrap()).unwrap()
    });
    let stacks = [stack(text, End::Near, 0), stack(text, End::Far, 0)];
    let mut sources = [Some(Source::new(sent.to_vec(), room(&stacks[0]), 3)), None];
    let (out, collect) = seen(Collect::new(sent.len()));
    let mut sinks = [None, Some(collect)];
    let mut crews = Vec::new();
    for (end, (stack, (receiving, sending))) in stacks.into_iter().zip(ways).enumerate() {
        let source = sources[end].take().map(|source| Box::new(ends(source).unwrap().0) as Box<_>);
        let sink = sinks[end].take().map(|sink| Box::new(ends(sink).unwrap().1) as Box<_>);
        let down = Ends { source, sink: Some(Box::new(sending)) };
        let up = Ends { source: Some(Box::new(receiving)), sink };
        // A burst is received as it was written, into one buffer.
        let plan = Plan { batches: 32, buffer_bytes: 256 << 10, packets: 128, ..plan(placement, 3) };
        crews.push(Crew::new(plan, vec![FlowPlan { stack, down, up }]).unwrap());
    }
    std::thread::scope(|scope| {
        let runs: Vec<_> = crews
            .iter()
            .map(|crew| scope.spawn(|| crew.run(&Inline::new(Kernels::best()), Pinning::Free)))
            .collect();
        let begin = Instant::now();
        // A loopback socket drops packets that its buffer does not hold, but far fewer bytes are sent.
        while out.lock().unwrap().packets.len() < sent.len() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        crews.iter().for_each(|crew| crew.stop().finish(crew.bells()));
        runs.into_iter().for_each(|run| run.join().unwrap().unwrap());
    });
    assert!(out.lock().unwrap().packets == sent, "{text} under {placement}");
}

/// The end of a stream is the end of its source: lanes that wait for a stop do not spin on a socket that stays
/// readable.
#[test]
fn a_port_that_has_ended_is_not_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    drop(near);
    far.set_nonblocking(true).unwrap();
    let far_stack = stack("null", End::Far, 0);
    let (_, collect) = seen(Collect::new(1));
    let up = way(Stream::new(far, 100, Room::NONE), collect);
    let flow = FlowPlan { stack: far_stack, down: Ends::default(), up };
    let crew = Crew::new(plan(Placement::Packet, 1), vec![flow]).unwrap();
    let engine = Inline::new(Kernels::best());
    let mut lane = crew.lane(0, &engine).unwrap();
    let mut fds = Vec::new();
    lane.wait_for(&mut fds);
    assert_eq!(fds.len(), 1);
    drop(fds);
    assert_eq!(lane.step(), Turn::Idle);
    let mut fds = Vec::new();
    lane.wait_for(&mut fds);
    assert!(fds.is_empty());
}
