//! A tunnel without cryptography: what packets cost on their way from a TUN device through UDP to another, when nothing
//! is done to them. `null_tunnel DEVICE LOCAL PEER [LANES]`, addresses with ports; needs `CAP_NET_ADMIN`.
//!
//! Each direction is a flow. A lane takes the next place in its order together with what the receiving port has (a
//! superpacket from TUN, cut; a train from UDP), brings the batch back, and whoever finds the next one in order sends it
//! on (as a train to UDP; joined to TUN). A lane a direction by default; more keep the order all the same.

use sealane_port::Port;
use sealane_port::tun::{Options, Tun};
use sealane_port::udp::Udp;
use sealane_stack::{Batch, Flow, Pool};
use std::cell::OnceCell;
use std::net::{SocketAddr, UdpSocket};
use std::{env, io, process, thread};

/// Batches between a lane's taking one and its leaving, beyond the one in each lane's hands.
const PLACES: usize = 32;
/// Two trains, and as many packets as small ones fill.
const BATCH_BYTES: usize = 2 * 65_536;
const BATCH_PACKETS: usize = 256;

/// One direction: where packets come from, and where they go in the order in which they came.
struct Direction<R, S> {
    flow: Flow<R, Batch, S>,
    batches: Pool<Batch>,
}

impl<R: Port, S: Port> Direction<R, S> {
    fn new(from: R, to: S, lanes: usize) -> Self {
        let batches = Pool::of(PLACES + lanes, || Batch::new(BATCH_BYTES, BATCH_PACKETS));
        Self { flow: Flow::new(PLACES, from, to), batches }
    }

    /// A lane's life. Ports block, so a lane without work sleeps in the kernel.
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
                // Every place is out: wait for the lane that sends, and take along what it left while we looked.
                self.batches.give(batch);
                self.flow.with_restored(|_| ());
                self.drain()?;
                thread::yield_now();
                continue;
            };
            // A tunnel's layers would work on the batch here, beside other lanes.
            self.flow.restore(ticket, batch).expect("a place of an open flow");
            self.drain()?;
        }
    }

    /// Sends what is next in order.
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

/// A lane that failed ends the tunnel: the others wait in the kernel.
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
