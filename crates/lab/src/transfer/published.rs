//! The multicore GridFTP study's published results, to show beside ours.
//!
//! R. Kettimuthu, "Harnessing Multicore Processors for High Speed Secure Transfer" (slides, 2007), in Mb/s through
//! Gigabit Ethernet. Guarantees: figures are as printed.

use super::modes::MODES;
use crate::experiment::{Cell, MEGABITS, Role};
use crate::program::Level;

/// A platform's results in Mb/s: the first four of [`MODES`], each at every level.
struct Platform {
    name: &'static str,
    megabits: [[f64; 4]; 4],
}

/// The value of the measured end in published rows: the study had a machine for each end.
pub(super) const END: &str = "as published";

/// The source of the figures.
pub(super) const SOURCE: &str = "R. Kettimuthu, “Harnessing Multicore Processors for High Speed Secure Transfer”, slides, 2007; Gigabit Ethernet, GSI security with a cipher block chain per stream.";

/// Returns the platforms' names.
pub(super) fn platforms() -> impl Iterator<Item = &'static str> {
    PLATFORMS.iter().map(|platform| platform.name)
}

/// Returns every figure at its place in the grid.
pub(super) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for platform in &PLATFORMS {
        for (mode, row) in MODES.iter().zip(platform.megabits) {
            for (level, megabits) in Level::ALL.into_iter().zip(row) {
                let place =
                    [("suite", platform.name), ("end", END), ("mode", mode.name), ("level", level.name())];
                cells.push(Cell::new(place).with(MEGABITS, megabits).of_role(Role::Published));
            }
        }
    }
    cells
}

/// Returns the least gain of two streams on two threads over one stream, of the three platforms.
pub(super) fn least_gain(level: Level) -> f64 {
    let at = Level::ALL.into_iter().position(|one| one == level).expect("one of all");
    // Pool P2 over Pool P1.
    PLATFORMS
        .iter()
        .map(|platform| platform.megabits[3][at] / platform.megabits[2][at])
        .fold(f64::INFINITY, f64::min)
}

/// Rows G11, G12 and G13 of the inventory.
const PLATFORMS: [Platform; 3] = [
    Platform {
        name: "Pentium dual core, 1.1 GHz",
        megabits: [
            [814.0, 812.0, 169.0, 76.0],
            [818.0, 814.0, 178.0, 78.0],
            [816.0, 813.0, 164.0, 75.0],
            [818.0, 816.0, 285.0, 138.0],
        ],
    },
    Platform {
        name: "Itanium dual core, 1.2 GHz",
        megabits: [
            [903.0, 899.0, 488.0, 177.0],
            [905.0, 899.0, 517.0, 183.0],
            [903.0, 899.0, 488.0, 177.0],
            [906.0, 899.0, 770.0, 340.0],
        ],
    },
    Platform {
        name: "Opteron dual core, 2.4 GHz",
        megabits: [
            [897.0, 897.0, 254.0, 100.0],
            [897.0, 897.0, 268.0, 101.0],
            [897.0, 897.0, 254.0, 100.0],
            [897.0, 897.0, 471.0, 196.0],
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The inventory derives these ratios from the same slides.
    #[test]
    fn the_ratios_are_those_of_the_inventory() {
        let ratio = |platform: &Platform, level: usize| {
            let [single_p1, _, _, pool_p2] = platform.megabits;
            (pool_p2[level] / single_p1[level] * 100.0).round() / 100.0
        };
        let pool = |platform: &Platform, level: usize| {
            (platform.megabits[3][level] / platform.megabits[2][level] * 100.0).round() / 100.0
        };
        assert_eq!(PLATFORMS.each_ref().map(|platform| pool(platform, 2)), [1.74, 1.58, 1.85]);
        assert_eq!(PLATFORMS.each_ref().map(|platform| pool(platform, 3)), [1.84, 1.92, 1.96]);
        assert_eq!(ratio(&PLATFORMS[2], 3), 1.96);
        let least = [Level::Safe, Level::Private].map(|level| (least_gain(level) * 100.0).round() / 100.0);
        assert_eq!(least, [1.58, 1.84]);
    }
}
