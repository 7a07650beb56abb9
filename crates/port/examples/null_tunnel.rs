//! A tunnel without cryptography, which shows the cost of packets on their way from a TUN device through UDP to
//! another one, when they are not processed. Run `null_tunnel DEVICE LOCAL PEER [LANES]` with addresses that include
//! ports; it needs `CAP_NET_ADMIN`.
//!
//! Each direction is a flow. A lane takes the next place in its order together with a batch from the receiving port
//! (a GSO packet from TUN, cut; a burst from UDP), and brings the batch back; the lane that finds the next batch in
//! order sends it on (as a burst to UDP; joined to TUN). Each direction has one lane by default; more lanes keep the
//! order all the same.

use sealane_lanes::{Flow, Pool};
use sealane_port::Batch;
use sealane_port::Port;
use sealane_port::tun::{Options, Tun};
use sealane_port::udp::Udp;
use std::cell::OnceCell;
use std::net::{SocketAddr, UdpSocket};
use std::{env, io, process, thread};

/// Number of batches between receiving and sending, beyond the one in each lane's hands.
const PLACES: usize = 32;
/// Room for two bursts, and as many packets as small ones fill.
const BATCH_BYTES: usize = 2 * 65_536;
const BATCH_PACKETS: usize = 256;

/// One direction: the port that packets come from, and the port that they go to in the same order.
struct Direction<R, S> {
    flow: Flow<R, Batch, S>,
    batches: Pool<Batch>,
}

impl<R: Port, S: Port> Direction<R, S> {
    fn new(from: R, to: S, lanes: usize) -> Self {
        let batches = Pool::of(PLACES + lanes, || Batch::new(BATCH_BYTES, BATCH_PACKETS));
        Self { flow: Flow::new(PLACES, from, to), batches }
    }

    /// Runs a lane. Ports block, so a lane without work sleeps in the kernel.
    fn run(&self) -> io::Result<()> {
        loop {
            let mut batch = self.batches.take().expect("a batch for every place and every lane");
            let mut failure = None;
            let given = self.flow.give(|from, ticket| {
                batch.ticket = ticket;
                from.receive(&mut batch).map_err(|error| failure = Some(error)).ok()
            });
            if let Some(error) = failure {
                return Err(error);
            }
            let Some((ticket, _)) = given else {
                // Every place is taken: wait for the lane that sends, and send the batches that it left meanwhile.
                self.batches.give(batch);
                self.flow.with_restored(|_| ());
                self.drain()?;
                thread::yield_now();
                continue;
            };
            // A tunnel's layers would process the batch here, in parallel with other lanes.
            self.flow.restore(ticket, batch).expect("a place of an open flow");
            self.drain()?;
        }
    }

    /// Sends the batches that are next in order.
    fn drain(&self) -> io::Result<()> {
        let failure = OnceCell::new();
        self.flow.drain(
            |_| failure.get().is_none(),
            |to, batch| {
                send_all(to, &batch).unwrap_or_else(|error| failure.set(error).expect("the first one"));
                self.batches.give(batch);
            },
        );
        failure.into_inner().map_or(Ok(()), Err)
    }
}

fn send_all(to: &mut impl Port, batch: &Batch) -> io::Result<()> {
    let mut sent = 0;
    while sent < batch.packets.len() {
        sent += to.send(batch, sent)?;
    }
    Ok(())
}

fn run(device: &str, local: SocketAddr, peer: SocketAddr, lanes: usize) -> io::Result<()> {
    let tun = Tun::open(&Options::new(device))?.remove(0);
    let socket = UdpSocket::bind(local)?;
    socket.connect(peer)?;
    let ((tun_in, tun_out), (udp_in, udp_out)) = (tun.split(), Udp::new(socket, None)?.split());
    let outward = Direction::new(tun_in, udp_out, lanes);
    let inward = Direction::new(udp_in, tun_out, lanes);
    println!("{device} is up");
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| stop_on(outward.run()));
            scope.spawn(|| stop_on(inward.run()));
        }
    });
    Ok(())
}

/// A lane that failed ends the tunnel, because the others wait in the kernel.
fn stop_on(result: io::Result<()>) {
    if let Err(error) = result {
        eprintln!("null_tunnel: {error}");
        process::exit(1);
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let lanes = arguments.get(3).map_or(Ok(1), |text| text.parse());
    let parsed = match &arguments[..] {
        [device, local, peer, ..] => local.parse().ok().zip(peer.parse().ok()).map(|ends| (device, ends)),
        _ => None,
    };
    let (Some((device, (local, peer))), Ok(lanes)) = (parsed, lanes) else {
        eprintln!("usage: null_tunnel DEVICE LOCAL PEER [LANES]");
        process::exit(2);
    };
    stop_on(run(device, local, peer, lanes));
}
