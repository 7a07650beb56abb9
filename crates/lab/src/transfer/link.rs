//! Copies through a link of 1 Gb/s, as in the study.
//!
//! A network namespace of its own gives each copy a loopback device whose only queue is a token bucket of 1 Gb/s and
//! whose packets have Ethernet's size. It needs no root if the system lets users create namespaces, and leaves
//! nothing behind. Guarantees: the device outside is never touched.

use super::copies::Grid;
use super::grid::{MODES, cells, experiment, place};
use crate::experiment::{ANY, Claim, RATE, Repetition};
use crate::link::probe;
use crate::program::{End, Level, Program};

/// The shell script that creates the link and becomes the program.
const SHAPE: &str = "ip link set dev lo mtu 1500 up && \
    tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 30ms && exec \"$@\"";

/// Returns `program` behind such a link, or the reason why there is none.
pub(super) fn shaped_program(program: &Program) -> Result<Program, String> {
    let words = ["unshare", "--map-root-user", "--net", "sh", "-c", SHAPE, "sh"];
    probe(&words[1..], "no network namespace with a token bucket here")?;
    let mut shaped = program.clone();
    shaped.prefix = words.map(Into::into).to_vec();
    Ok(shaped)
}

/// Returns the grid of the study's four modes, with both ends in full.
pub(super) fn link(repetition: Repetition) -> Grid {
    let modes = &MODES[..4];
    let clear = |mode| place(End::Both, ANY, mode, Level::Clear);
    let like_clear = |statement: &str, source, top| {
        let places = (top, clear("Single P1"));
        Claim::ratio((format!("{statement}, within 5 %"), source), RATE, places, (Some(0.95), Some(1.05)))
    };
    let single = |suite, level| place(End::Both, suite, "Single P1", level);
    let claims = vec![
        like_clear(
            "Modern private fills the link as clear does, on one lane",
            "G18: the study expected to need six cores",
            single("modern", Level::Private),
        ),
        like_clear("Clear gains nothing from a second stream and lane", "G11–G13", clear("Pool P2")),
        like_clear("Authenticated costs what clear costs", "G11–G13", single(ANY, Level::Authenticated)),
    ];
    let title = ("link", "The same through a link of 1 Gb/s", "G11–G13, G18");
    let mut experiment = experiment(title, &[End::Both], modes, repetition, claims);
    experiment.method.push(
        "A token bucket of 1 Gb/s with packets of 1500 bytes on the loopback device of a network namespace of its own, for each copy. Data and acknowledgements share it.".to_owned(),
    );
    Grid { experiment, cells: cells(&[End::Both], modes), ..Grid::default() }
}
