//! The same through a link of 1 Gb/s, as the study had it.
//!
//! A network namespace of its own gives each copy a loopback device whose only queue is a token bucket of 1 Gb/s and
//! whose packets are Ethernet's size. It needs no root where the system lets users make namespaces, and leaves nothing
//! behind. Guarantees: the device outside is never touched.

use super::Plan;
use super::grid::{MODES, cells, experiment, place};
use crate::experiment::{ANY, Claim, RATE, Repetition};
use crate::link::probe;
use crate::program::{End, Level, Program};

/// Words of the shell that makes the link and becomes the program.
const SHAPE: &str = "ip link set dev lo mtu 1500 up && \
    tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 30ms && exec \"$@\"";

/// `program` behind such a link, or why there is none.
pub(super) fn shaped_program(program: &Program) -> Result<Program, String> {
    let words = ["unshare", "--map-root-user", "--net", "sh", "-c", SHAPE, "sh"];
    probe(&words[1..], "no network namespace with a token bucket here")?;
    let mut shaped = program.clone();
    shaped.prefix = words.map(Into::into).to_vec();
    Ok(shaped)
}

/// The study's four modes, both ends in full.
pub(super) fn plan(repetition: Repetition) -> Plan {
    let modes = &MODES[..4];
    let claim = |statement: &str, source, top, bottom, low, high| {
        Claim::ratio((statement, source), RATE, (top, bottom), (low, high))
    };
    let clear = |mode| place(End::Both, ANY, mode, Level::Clear);
    let claims = vec![
        claim(
            "Modern private fills the link as clear does, on one lane, within 5 %",
            "G18: the study expected to need six cores",
            place(End::Both, "modern", "Single P1", Level::Private),
            clear("Single P1"),
            Some(0.95),
            Some(1.05),
        ),
        claim(
            "Clear gains nothing from a second stream and lane, within 5 %",
            "G11–G13",
            clear("Pool P2"),
            clear("Single P1"),
            Some(0.95),
            Some(1.05),
        ),
        claim(
            "Authenticated costs what clear costs, within 5 %",
            "G11–G13",
            place(End::Both, ANY, "Single P1", Level::Authenticated),
            clear("Single P1"),
            Some(0.95),
            Some(1.05),
        ),
    ];
    let mut experiment = experiment(
        "link",
        "The same through a link of 1 Gb/s",
        "G11–G13, G18",
        &[End::Both],
        modes,
        repetition,
        claims,
    );
    experiment.method.push(
        "A token bucket of 1 Gb/s with packets of 1500 bytes on the loopback device of a network namespace of its own, for each copy. Data and acknowledgements share it.".to_owned(),
    );
    Plan { experiment, cells: cells(&[End::Both], modes), ..Plan::default() }
}
