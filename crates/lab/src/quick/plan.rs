//! The use that `lab quick` makes of its time: the order of its rows, and the sizes of its file and of its tree by what the first
//! rows take.
//!
//! Guarantees: rows that most users would ask for come first; file and tree are as large as wished, or so much smaller that all
//! rows have their turns in their part of the time, and never smaller than the trial.

use crate::peers::{OWN, OWN_OVER_SSH, Peer, Workload, is_over_ssh, warm};
use crate::program::Level;
use std::time::{Duration, Instant};

/// The size of the file's trial, and of the smallest file.
pub(super) const FILE_TRIAL_BYTES: u64 = 64 << 20;
/// The same of the tree.
pub(super) const TREE_TRIAL_BYTES: u64 = 16 << 20;
/// The turns that are taken for each that counts: a quarter may be repeated on a busy machine.
const REPEATED: f64 = 1.25;
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

/// The rows that a workload has: those without a login, and those over ssh.
pub(super) fn rows(contestants: &mut [Box<dyn Peer>], trial: &Workload) -> [u32; 2] {
    let mut rows = [0; 2];
    for peer in contestants.iter_mut().filter(|peer| peer.carries(trial.kind())) {
        if peer.probe().is_ok() {
            rows[usize::from(is_over_ssh(peer.name()))] += 1;
        }
    }
    rows
}

/// Returns the largest halving of `wished` of which all rows have `rounds` turns in `time`, if a trial of `tried` bytes has this
/// pace.
pub(super) fn fitting(
    (wished, tried): (u64, u64),
    pace: Pace,
    [plain, over_ssh]: [u32; 2],
    rounds: usize,
    time: Duration,
) -> u64 {
    let round = pace.plain * plain + pace.over_ssh * over_ssh;
    let needed = |bytes: u64| round.mul_f64(bytes as f64 / tried.max(1) as f64 * rounds as f64 * REPEATED);
    let mut bytes = wished;
    while bytes / 2 >= tried && needed(bytes) > time {
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
            let [plain, over_ssh] = [plain_ms, over_ssh_ms].map(Duration::from_millis);
            let sizes = (1 << 30, FILE_TRIAL_BYTES);
            fitting(sizes, Pace { plain, over_ssh }, [9, 7], 3, Duration::from_secs(60))
        };
        assert_eq!(sized(20, 80), 1 << 30);
        // 9 x 0.1 + 7 x 0.4 s for each 64 MiB: 13.9 s for three rounds of them and the repeated turns.
        assert_eq!(sized(100, 400), 256 << 20);
        assert_eq!(sized(400, 100), 128 << 20);
        assert_eq!(sized(10_000, 10_000), FILE_TRIAL_BYTES);
        let pace = Pace { plain: Duration::from_secs(100), over_ssh: Duration::from_secs(100) };
        let sizes = (1 << 20, FILE_TRIAL_BYTES);
        assert_eq!(fitting(sizes, pace, [9, 7], 3, Duration::from_secs(60)), 1 << 20);
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
