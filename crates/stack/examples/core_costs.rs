//! Prints the cost of the core itself per packet: layers that do nothing, hand-off and order. The unit is nanoseconds
//! of a lane's time.
//!
//! Run it with `cargo run --release -p sealane-stack --example core_costs`.

use std::{
    io,
    num::NonZeroUsize,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use sealane_engine::Inline;
use sealane_engine::record::Secret;
use sealane_lanes::{Assignment, Flow, Pinning, Placement};
use sealane_port::Batch;
use sealane_stack::{Catalogue, Context, Crew, End, Ends, FlowPlan, Plan, Sink, Source};
use sealane_transform::Kernels;

const PACKETS: usize = 32;
const RUN: Duration = Duration::from_millis(1000);

struct Template;

impl Source for Template {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        for _ in 0..PACKETS {
            let packet = batch.push(64, 1400, 64).ok_or(io::ErrorKind::OutOfMemory)?;
            packet.push_back(1400).ok_or(io::ErrorKind::OutOfMemory)?;
        }
        Ok(PACKETS)
    }
}

struct Count(Arc<AtomicU64>);

impl Sink for Count {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.0.fetch_add((batch.packets.len() - from) as u64, Relaxed);
        Ok(batch.packets.len() - from)
    }
}

/// Returns the nanoseconds of all lanes together per packet.
fn measure(text: &str, placement: Placement, lanes: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let context = Context::new(Kernels::best(), Secret::new([1; 32]), End::Near);
    let stack = Catalogue::new().stack(&text.parse()?, &context)?;
    let packets = Arc::new(AtomicU64::new(0));
    let down = Ends { source: Some(Box::new(Template)), sink: Some(Box::new(Count(packets.clone()))) };
    let plan = Plan {
        placement,
        lanes: NonZeroUsize::new(lanes).ok_or("no lanes")?,
        batches: 16 * lanes,
        buffer_bytes: PACKETS * 1600,
        packets: PACKETS,
        in_flight: 8 * lanes,
        keeps_order: true,
    };
    let crew = Crew::new(plan, vec![FlowPlan { stack, down, up: Ends::default() }])?;
    thread::scope(|scope| {
        let run = scope.spawn(|| crew.run(&Inline::new(Kernels::best()), Pinning::Pinned));
        thread::sleep(RUN / 10);
        let (began, first) = (Instant::now(), packets.load(Relaxed));
        thread::sleep(RUN);
        let (count, ns) = (packets.load(Relaxed) - first, began.elapsed().as_nanos());
        crew.stop().finish(crew.bells());
        run.join().map_err(|_| "a lane panicked")??;
        Ok(ns as f64 * lanes as f64 / count as f64)
    })
}

/// Returns the nanoseconds for giving a place, restoring its item and taking it.
fn order() -> f64 {
    const ROUNDS: u32 = 1_000_000;
    let flow = Flow::new(8, 0u64, 0u64);
    let began = Instant::now();
    for _ in 0..ROUNDS {
        let given = flow.give(|next, _| Some(std::mem::replace(next, *next + 1)));
        if let Some((ticket, number)) = given {
            let _ = flow.restore(ticket, number);
        }
        flow.drain(|_| true, |taken, number| *taken = number);
    }
    began.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (one, nine) = (
        measure("null", Placement::Connection, 1)?,
        measure("null/null/null/null/null/null/null/null/null", Placement::Connection, 1)?,
    );
    println!("batches of {PACKETS}, nanoseconds of a lane for a packet:");
    println!("  a null layer                                   {:8.1}", (nine - one) / 8.0);
    println!("  source, null layer and sink on one lane        {one:8.1}");
    println!(
        "  the same, packet placement, one lane           {:8.1}",
        measure("null", Placement::Packet, 1)?
    );
    println!(
        "  the same, packet placement, two lanes          {:8.1}",
        measure("null", Placement::Packet, 2)?
    );
    println!(
        "  the same, layer placement, two lanes           {:8.1}",
        measure("null/null", Placement::Layer(Assignment::IN_TURN), 2)?
    );
    println!("nanoseconds for a batch:");
    println!("  its place, its return, its taking; no contention {:6.1}", order());
    Ok(())
}
