//! The modes of the study's grid: numbers of threads and of streams.

use sealane_lanes::Placement;

/// A mode of the study, or one of ours after them.
pub(super) struct Mode {
    pub(super) name: &'static str,
    pub(super) lanes: u32,
    pub(super) streams: u32,
    pub(super) placement: Placement,
}

const fn mode(name: &'static str, lanes: u32, streams: u32, placement: Placement) -> Mode {
    Mode { name, lanes, streams, placement }
}

/// The study's four modes, then one stream whose records either of two lanes may take.
pub(super) const MODES: [Mode; 5] = [
    mode("Single P1", 1, 1, Placement::Connection),
    mode("Single P2", 1, 2, Placement::Connection),
    mode("Pool P1", 2, 1, Placement::Connection),
    mode("Pool P2", 2, 2, Placement::Connection),
    mode("Packet P1", 2, 1, Placement::Packet),
];
