//! The use that `lab quick` makes of its time: the order of its rows, and the size of its file by what the first rows take.
//!
//! Guarantees: rows that most users would ask for come first; the file is as large as wished, or so much smaller that a round of
//! all rows fits into its part of the time, and never smaller than the trial.

use crate::peers::{OWN, OWN_OVER_SSH, Peer, Workload, is_over_ssh, warm};
use crate::program::Level;
use std::time::{Duration, Instant};

/// The size of the trial, and of the smallest file.
pub(super) const TRIAL_BYTES: u64 = 64 << 20;
/// The other programs that most users have, in the order in which they are measured.
const USUAL: [&str; 4] = ["scp", "rsync-ssh", "sftp", "cp"];

/// Returns the place of a row in the order: the headline's rows, the product as scp is started, the programs that most users
/// have, the product's other levels, and the others.
pub(super) fn rank(name: &str, level: Level) -> usize {
    match (name, level) {
        (OWN, Level::Private) => 0,
        (OWN, Level::Clear) => 1,
        (OWN_OVER_SSH, _) => 2,
        (OWN, _) => 3 + USUAL.len(),
        _ => USUAL.iter().position(|usual| *usual == name).map_or(4 + USUAL.len(), |place| 3 + place),
    }
}

/// The times of a copy of the trial, without a login and with one; the latter is the former's if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    plain: Duration,
    over_ssh: Duration,
}

/// Copies the trial by the first row of either kind that is here; `None` if the product's own row fails.
pub(super) fn pace(contestants: &mut [Box<dyn Peer>], trial: &Workload) -> Option<Pace> {
    let mut time = |is_asked: &dyn Fn(&str) -> bool| {
        contestants.iter_mut().filter(|peer| is_asked(peer.name())).find_map(|peer| {
            peer.probe().ok()?;
            trial.clear_target().ok()?;
            warm(trial.bytes());
            let began = Instant::now();
            peer.run(trial).ok()?;
            Some(began.elapsed())
        })
    };
    let plain = time(&|name| name == OWN)?;
    let over_ssh = time(&|name| USUAL.contains(&name) && is_over_ssh(name)).unwrap_or(plain);
    // It fails only where the product's next copy will say why.
    let _ = trial.clear_target();
    Some(Pace { plain, over_ssh })
}

/// Returns the largest halving of `wished` of which all rows, some over ssh, have `rounds` turns in `time`.
pub(super) fn file_bytes(
    wished: u64,
    pace: Pace,
    [plain, over_ssh]: [u32; 2],
    rounds: u32,
    time: Duration,
) -> u64 {
    let one = pace.plain * plain + pace.over_ssh * over_ssh;
    let needed = |bytes: u64| one.mul_f64(bytes as f64 / TRIAL_BYTES as f64) * rounds;
    let mut bytes = wished;
    while bytes / 2 >= TRIAL_BYTES && needed(bytes) > time {
        bytes /= 2;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers;
    use crate::surroundings::Surroundings;
    use std::sync::Arc;

    /// A slow machine copies a smaller file, so that every row has its turns; a fast one the whole.
    #[test]
    fn the_file_follows_the_first_rows() {
        let sized = |plain_ms: u64, over_ssh_ms: u64| {
            let pace =
                Pace { plain: Duration::from_millis(plain_ms), over_ssh: Duration::from_millis(over_ssh_ms) };
            file_bytes(1 << 30, pace, [9, 7], 3, Duration::from_secs(60))
        };
        assert_eq!(sized(20, 80), 1 << 30);
        // 9 x 0.1 + 7 x 0.4 s for each 64 MiB: 11.1 s for three rounds of them.
        assert_eq!(sized(100, 400), 256 << 20);
        assert_eq!(sized(400, 100), 256 << 20);
        assert_eq!(sized(10_000, 10_000), TRIAL_BYTES);
        let pace = Pace { plain: Duration::from_secs(100), over_ssh: Duration::from_secs(100) };
        assert_eq!(file_bytes(1 << 20, pace, [9, 7], 3, Duration::from_secs(60)), 1 << 20);
    }

    /// Each name is that of a peer, and what nobody has comes last.
    #[test]
    fn usual_programs_come_before_exotic_ones() {
        let surroundings = Arc::new(Surroundings::default());
        let mut all = peers::all(&surroundings);
        all.sort_by_key(|peer| rank(peer.name(), peer.level()));
        let names: Vec<&str> = all.iter().map(|peer| peer.name()).collect();
        assert_eq!(names[..USUAL.len()], USUAL, "{names:?}");
        let place = |name: &str| names.iter().position(|one| *one == name).unwrap();
        assert!(place("rsync-ssh") < place("rclone-sftp") && place("cp") < place("tar-ssh"), "{names:?}");
        let order = [rank(OWN, Level::Private), rank(OWN, Level::Clear), rank(OWN_OVER_SSH, Level::Private)];
        assert_eq!(order, [0, 1, 2]);
        assert!(
            rank("scp", Level::Private) < rank(OWN, Level::Safe)
                && rank(OWN, Level::Safe) < rank("WDT", Level::Clear)
        );
    }
}
