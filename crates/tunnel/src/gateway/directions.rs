//! Both directions of a gateway, and the lanes that work on them.
//!
//! Guarantees: packets of one direction leave in the order of their arrival, whatever the number of lanes; a packet that the device
//! does not take is counted.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use sealane_engine::{Engine, Queue};
use sealane_ipsec::counters::DropReason;
use sealane_port::{Port as _, tun::Tun};

use crate::{
    inward::{Acceptor, Arrival, Opener},
    lanes::{Lanes, while_doing},
    outside::Outside,
    outward::{self, Load, Router, Sealer},
    path::Answers,
    peer_lines::PeerLines,
    peers::Peers,
    pipeline::{Behind, LOADS, Pipeline},
    queue::{counters::Counters, inward::Sink, outward::Source},
    queueing::Queueing,
};

/// Both directions.
pub(super) struct Directions<'a> {
    peers: &'a Peers,
    outward: Pipeline<(Source<PeerLines<'a>>, Router<'a>), Load, Vec<Outside>>,
    inward: Pipeline<Outside, Arrival, (Sink, Acceptor<'a>)>,
    /// Set while packets wait for the device.
    waits: Arc<AtomicBool>,
    /// The queues of each lane, to seal and to open.
    queues: Vec<[Box<dyn Queue>; 2]>,
}

/// The handles that lanes use.
#[derive(Debug)]
pub(super) struct Handles {
    /// Packets for peers.
    pub(super) from_device: Tun,
    /// Packets of peers.
    pub(super) to_device: Tun,
    /// Answers to senders inside.
    pub(super) answers: Tun,
    pub(super) from_peers: Outside,
    /// A socket for each line of packets, and the same ones for those who ask what waits in them.
    pub(super) to_peers: Vec<Outside>,
    pub(super) gauges: Vec<Outside>,
}

impl<'a> Directions<'a> {
    /// Returns the directions between `handles`, with so many lanes each at `engine`.
    ///
    /// # Errors
    /// Fails if the engine has no queue for a lane.
    pub(super) fn new(
        handles: Handles,
        peers: &'a Peers,
        engine: &dyn Engine,
        lanes: usize,
    ) -> io::Result<Self> {
        let Handles { from_device, to_device, answers, from_peers, to_peers, gauges } = handles;
        let waits = Arc::new(AtomicBool::new(false));
        let (source, sink) = match peers.queueing() {
            Queueing::FqCodel => {
                from_peers.report_times();
                let lines = PeerLines::new(peers, gauges.len());
                let source = Source::by_flows(from_device, gauges, lines);
                (source, Sink::by_flows(to_device, Arc::clone(&waits)))
            }
            Queueing::Fifo => (Source::in_order(from_device), Sink::in_order(to_device)),
        };
        let router = Router::new(peers).answering(Answers::new(Box::new(answers)));
        let queues = (0..lanes).map(|_| Ok([engine.queue(LOADS)?, engine.queue(LOADS)?]));
        Ok(Self {
            peers,
            outward: Pipeline::new(lanes, Load::new, (source, router), to_peers),
            inward: Pipeline::new(lanes, Arrival::new, from_peers, (sink, Acceptor::new(peers))),
            waits,
            queues: queues.collect::<io::Result<_>>()?,
        })
    }

    /// Starts the lanes. `local` is our own address.
    pub(super) fn begin<'scope>(
        &'scope mut self,
        scope: &'scope thread::Scope<'scope, '_>,
        threads: &'scope Lanes,
        local: IpAddr,
    ) {
        let Self { peers, outward, inward, waits, queues } = self;
        let (peers, outward, inward, waits) = (*peers, &*outward, &*inward, &**waits);
        for (lane, [seal, open]) in queues.drain(..).enumerate() {
            let mut sealer = Sealer::new(seal, local);
            threads.begin(scope, format!("out-{lane}"), move || send_out(outward, peers, &mut sealer));
            let mut opener = Opener::new(peers, open);
            let life = move || let_in(inward, Waiting { peers, waits }, &mut opener);
            threads.begin(scope, format!("in-{lane}"), life);
        }
    }
}

/// The life of a lane that takes packets of the device to peers.
fn send_out<'a>(
    outward: &Pipeline<(Source<PeerLines<'a>>, Router<'a>), Load, Vec<Outside>>,
    peers: &Peers,
    sealer: &mut Sealer,
) -> io::Result<()> {
    outward.run(
        sealer,
        |(source, _)| source.fd(),
        |(source, router), load| {
            let [waiting, _] = peers.waiting();
            let received = source.receive(waiting, &mut load.batch);
            received.map_err(while_doing("reading from the device"))?;
            router.plan(load, Instant::now());
            Ok(())
        },
        |outsides, load| outward::send(peers, outsides, load).map_err(while_doing("sending to a peer")),
    )
}

/// The life of a lane that takes packets of peers to the device.
fn let_in<'a>(
    inward: &Pipeline<Outside, Arrival, (Sink, Acceptor<'a>)>,
    waiting: Waiting<'_>,
    opener: &mut Opener<'_>,
) -> io::Result<()> {
    let peers = waiting.peers;
    inward.run_before(
        opener,
        waiting,
        |outside| outside.fd(),
        |outside, arrival, may_wait| {
            let received = match may_wait {
                true => outside.receive(&mut arrival.batch),
                false => outside.receive_now(&mut arrival.batch),
            };
            received.map_err(while_doing("receiving from peers"))?;
            (arrival.source, arrival.traffic_class) = outside.last();
            arrival.time = Instant::now();
            (arrival.waited, arrival.was_last) = outside.waited();
            Ok(())
        },
        |(sink, acceptor), arrival| {
            acceptor.accept(arrival);
            write(peers, sink, |sink, waiting| sink.send(waiting, arrival))
        },
    )
}

/// The packets that wait for the device.
struct Waiting<'a> {
    peers: &'a Peers,
    waits: &'a AtomicBool,
}

impl<'a> Behind<(Sink, Acceptor<'a>)> for Waiting<'_> {
    fn waits(&self) -> bool {
        self.waits.load(Relaxed)
    }

    fn serve(&mut self, (sink, _): &mut (Sink, Acceptor<'a>)) -> io::Result<()> {
        write(self.peers, sink, Sink::serve)
    }
}

/// Writes packets into the device, and counts those that it does not take.
fn write(
    peers: &Peers,
    sink: &mut Sink,
    how: impl FnOnce(&mut Sink, &Counters) -> io::Result<()>,
) -> io::Result<()> {
    let ([_, waiting], refused) = (peers.waiting(), sink.refused_packets());
    how(sink, waiting).map_err(while_doing("writing to the device"))?;
    peers.drops().add(DropReason::NoRoom, sink.refused_packets() - refused);
    Ok(())
}
