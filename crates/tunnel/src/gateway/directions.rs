//! Both directions of a gateway, and the lanes that work on them.
//!
//! Guarantees: packets that come together leave in the order of their arrival, whatever the number of lanes: those of one queue of the
//! device, and those of all peers; packets under one association leave in the order of its numbers; a packet that the device does not
//! take is counted.

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
    beside::Beside,
    inward::{Acceptor, Arrival, Opener},
    lanes::{Lanes, while_doing},
    outside::Outside,
    outward::{self, Load, Router, Sealer},
    path::Answers,
    peer_lines::PeerLines,
    peers::Peers,
    pipeline::{Behind, LOADS, Pipeline},
    queue::{
        counters::Counters,
        inward::Sink,
        outward::{Common, Source},
    },
    queueing::Queueing,
};

/// One queue of the device.
type Outward<'a> = Pipeline<(Source<PeerLines<'a>>, Router<'a>), Load, Vec<Outside>>;

/// Both directions.
pub(super) struct Directions<'a> {
    peers: &'a Peers,
    outward: Vec<Outward<'a>>,
    beside: Beside,
    inward: Pipeline<Outside, Arrival, (Sink, Acceptor<'a>)>,
    /// Set while packets wait for the device.
    waits: Arc<AtomicBool>,
    /// The engine's queues: one for each lane of each queue of the device, which seals, and one for each lane inward, which opens.
    sealing: Vec<Vec<Box<dyn Queue>>>,
    opening: Vec<Box<dyn Queue>>,
}

/// The handles that lanes use.
#[derive(Debug)]
pub(super) struct Handles {
    /// Packets for peers, by the queues of the device.
    pub(super) from_device: Vec<Tun>,
    /// Packets of peers.
    pub(super) to_device: Tun,
    /// Answers to senders inside, for each queue.
    pub(super) answers: Vec<Tun>,
    pub(super) from_peers: Outside,
    /// For each queue a socket for each line of packets, and the same ones for those who ask what waits in them.
    pub(super) to_peers: Vec<Vec<Outside>>,
    pub(super) gauges: Vec<Vec<Outside>>,
}

impl<'a> Directions<'a> {
    /// Returns the directions between `handles`, with so many lanes each at `engine`, and one at least for each queue of the device.
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
        let (waits, queues) = (Arc::new(AtomicBool::new(false)), from_device.len());
        let (lanes_of_queue, common) = (lanes.div_ceil(queues), Common::of(queues));
        let sink = match peers.queueing() {
            Queueing::FqCodel => {
                from_peers.report_times();
                Sink::by_flows(to_device, Arc::clone(&waits))
            }
            Queueing::Fifo => Sink::in_order(to_device),
        };
        let tuns = from_device.into_iter().zip(answers);
        let outward = tuns.zip(to_peers.into_iter().zip(gauges)).zip(0..).map(|(handles, queue)| {
            let ((from_device, answers), (to_peers, gauges)) = handles;
            let source = match peers.queueing() {
                Queueing::FqCodel => {
                    let lines = PeerLines::new(peers, gauges.len());
                    Source::by_flows(from_device, gauges, lines, &common)
                }
                Queueing::Fifo => Source::in_order(from_device),
            };
            let router = Router::new(peers).answering(Answers::new(Box::new(answers)));
            let router = if queues > 1 { router.of_queue(queue) } else { router };
            Pipeline::new(lanes_of_queue, Load::new, (source, router), to_peers)
        });
        let outward = outward.collect();
        let lanes_of = |lanes: usize| (0..lanes).map(|_| engine.queue(LOADS)).collect::<io::Result<Vec<_>>>();
        Ok(Self {
            peers,
            outward,
            beside: Beside::new(queues),
            inward: Pipeline::new(lanes, Arrival::new, from_peers, (sink, Acceptor::new(peers))),
            waits,
            sealing: (0..queues).map(|_| lanes_of(lanes_of_queue)).collect::<io::Result<_>>()?,
            opening: lanes_of(lanes)?,
        })
    }

    /// Starts the lanes. `local` is our own address.
    pub(super) fn begin<'scope>(
        &'scope mut self,
        scope: &'scope thread::Scope<'scope, '_>,
        threads: &'scope Lanes,
        local: IpAddr,
    ) {
        let Self { peers, outward, beside, inward, waits, sealing, opening } = self;
        let (peers, outward, beside, inward, waits) = (*peers, &**outward, &*beside, &*inward, &**waits);
        let mut lane = 0;
        for (queue, seals) in sealing.drain(..).enumerate() {
            for seal in seals {
                let mut sealer = Sealer::new(seal, local);
                let life = move || send_out((outward, beside, queue), peers, &mut sealer);
                threads.begin(scope, format!("out-{lane}"), life);
                lane += 1;
            }
        }
        for (lane, open) in opening.drain(..).enumerate() {
            let mut opener = Opener::new(peers, open);
            let life = move || let_in(inward, Waiting { peers, waits }, &mut opener);
            threads.begin(scope, format!("in-{lane}"), life);
        }
    }
}

/// The life of a lane that takes packets of one queue of the device to peers.
fn send_out<'a>(
    (all, beside, queue): (&[Outward<'a>], &Beside, usize),
    peers: &Peers,
    sealer: &mut Sealer,
) -> io::Result<()> {
    let send = |queue: usize, outsides: &mut Vec<Outside>, load: &mut Load| {
        let sent = beside.send(queue, load, |load| outward::send(peers, outsides, load));
        sent.map_err(while_doing("sending to a peer"))
    };
    all[queue].run_beside(
        sealer,
        |(source, _)| source.fd(),
        |(source, router), load| {
            let [waiting, _] = peers.waiting();
            let received = source.receive(waiting, &mut load.batch);
            received.map_err(while_doing("reading from the device"))?;
            router.plan(load, Instant::now());
            Ok(())
        },
        |outsides, load| send(queue, outsides, load),
        || beside.settle(all, send),
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
