//! Tests the claim of CONTRIBUTING about adding a port, against the tree; and adds a port and an engine here, in one
//! file, under a stack that knows neither.

use sealane_engine::record::Secret;
use sealane_engine::{Cost, Engine, Inline, Protection, Queue, Work};
use sealane_lanes::{LaneWork as _, Placement, Turn};
use sealane_port::Batch;
use sealane_port::Port;
use sealane_port::memory::Collect;
use sealane_stack::ends;
use sealane_stack::{Catalogue, Context, Crew, End, Ends, FlowPlan, Plan};
use sealane_transform::Kernels;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::{fs, io};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_port_is_its_file_its_line_and_its_test() {
    let lib = read("../port/src/lib.rs");
    let tests = read("../port/tests/ports.rs") + &read("tests/over_ports.rs") + &read("../port/tests/tun.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../port/src");
    let files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".rs"))
        .collect();
    let ports: Vec<&str> = files
        .iter()
        .filter(|name| read(&format!("../port/src/{name}")).contains(" Port for "))
        .map(|name| name.trim_end_matches(".rs"))
        .collect();
    assert!(ports.len() >= 7, "{ports:?}");
    for port in ports {
        assert_eq!(lib.matches(&format!("pub mod {port};")).count(), 1, "{port} has its line");
        // The laboratory's link wraps other ports; from memory, the others use one error.
        let users = files.iter().filter(|name| {
            let uses = read(&format!("../port/src/{name}")).contains(&format!("crate::{port}::"));
            uses && name.trim_end_matches(".rs") != port && port != "memory"
        });
        assert_eq!(users.count(), 0, "no other file knows {port}");
        assert!(tests.contains(&format!("{port}::")) || port == "raw", "{port} has its test");
    }
    let guide = read("../../CONTRIBUTING.md");
    assert!(guide.contains("`crates/port/src`") && guide.contains("`crates/port/tests/ports.rs`"));
}

/// A new port: it gives packets of growing length.
struct Sample(usize);

impl Port for Sample {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if self.0 == 50 {
            return Ok(0);
        }
        self.0 += 1;
        assert!(batch.push_bytes(64, &vec![self.0 as u8; self.0], 64));
        Ok(1)
    }

    fn send(&mut self, _: &Batch, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A new engine: it returns works in another order than it took them.
#[derive(Debug)]
struct Backwards;

struct BackwardsQueue(Box<dyn Queue>, Vec<Work>);

impl Engine for Backwards {
    fn name(&self) -> &'static str {
        "backwards"
    }

    fn cost(&self, protection: Protection) -> Option<Cost> {
        Inline::default().cost(protection)
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(BackwardsQueue(Inline::default().queue(depth)?, Vec::new())))
    }
}

impl Queue for BackwardsQueue {
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize {
        let taken = self.0.submit(from);
        self.1.extend(std::iter::from_fn(|| self.0.finished()));
        taken
    }

    fn finished(&mut self) -> Option<Work> {
        self.1.pop()
    }

    fn in_flight(&self) -> usize {
        self.1.len()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A collecting port, whose packets the test looks at later.
#[derive(Clone)]
struct Kept(Arc<Mutex<Collect>>);

impl Port for Kept {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        self.0.lock().unwrap().receive(batch)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.0.lock().unwrap().send(batch, from)
    }
}

#[test]
fn an_added_port_and_engine_run_any_stack() {
    let kept = Kept(Arc::new(Mutex::new(Collect::new(100))));
    let context = Context::new(Kernels::best(), Secret::new([3; 32]), End::Near);
    let stack = Catalogue::new().stack(&"md5".parse().unwrap(), &context).unwrap();
    let down = Ends {
        source: Some(Box::new(ends(Sample(0)).unwrap().0)),
        sink: Some(Box::new(ends(kept.clone()).unwrap().1)),
    };
    let plan = Plan {
        placement: Placement::Packet,
        lanes: NonZeroUsize::MIN,
        batches: 8,
        buffer_bytes: 4096,
        packets: 8,
        in_flight: 4,
        keeps_order: true,
    };
    let crew = Crew::new(plan, vec![FlowPlan { stack, down, up: Ends::default() }]).unwrap();
    let mut lane = crew.lane(0, &Backwards).unwrap();
    while lane.step() == Turn::Moved {}
    let packets = &kept.0.lock().unwrap().packets;
    assert_eq!(packets.len(), 50);
    for (length, packet) in (1..).zip(packets) {
        assert_eq!(packet.iter().filter(|&&byte| byte == length as u8).count().min(length), length);
    }
}
