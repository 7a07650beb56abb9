//! Peers taking turns: A B C, A B C, so that the machine's drift falls on all of them alike.
//!
//! Guarantees: every peer has one line in the result, run or skipped; no run is dropped; a peer that fails once is not
//! run again and says why.

use super::{Peer, PeerRun, Skipped, Version, Workload};
use crate::LabError;
use crate::load::warm_memory;
use crate::program::Level;
use serde::{Deserialize, Serialize};

/// All that came of one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What it protects.
    pub level: Level,
    /// What it is, or why it was skipped.
    pub probe: Result<Version, Skipped>,
    /// Every run, in order.
    pub runs: Vec<PeerRun>,
    /// What ended its runs early.
    pub failure: Option<String>,
}

/// Runs each peer `runs` times in turns. Before each run the target is emptied and `warm_bytes` of memory are touched
/// and freed (see [`warm_memory`]; 0 skips that). After each peer's first run its copy is compared byte for byte.
pub fn alternate(
    peers: &mut [Box<dyn Peer>],
    workload: &Workload,
    runs: usize,
    warm_bytes: u64,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = peers.iter_mut().map(|peer| probe(peer.as_mut(), workload)).collect();
    for round in 0..runs {
        for (peer, outcome) in peers.iter_mut().zip(&mut outcomes) {
            if outcome.probe.is_err() || outcome.failure.is_some() {
                continue;
            }
            match run(peer.as_mut(), workload, warm_bytes, round == 0) {
                Ok(run) => outcome.runs.push(run),
                Err(error) => outcome.failure = Some(error.to_string()),
            }
        }
    }
    outcomes
}

fn probe(peer: &mut dyn Peer, workload: &Workload) -> Outcome {
    let probe = if peer.carries(workload.kind()) {
        peer.probe()
    } else {
        Err(Skipped::because(format!("{} does not carry this workload", peer.name())))
    };
    Outcome { name: peer.name().to_owned(), level: peer.level(), probe, runs: Vec::new(), failure: None }
}

fn run(
    peer: &mut dyn Peer,
    workload: &Workload,
    warm_bytes: u64,
    is_first: bool,
) -> Result<PeerRun, LabError> {
    workload.clear_target()?;
    warm_memory(warm_bytes);
    let run = peer.run(workload)?;
    if is_first && peer.leaves_a_copy() {
        workload.verify()?;
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Kind;
    use std::fs;
    use std::sync::{Arc, Mutex};

    #[derive(Debug)]
    struct Fake {
        name: &'static str,
        log: Arc<Mutex<Vec<&'static str>>>,
        kind: Kind,
        reason: Option<&'static str>,
        content: Option<&'static str>,
    }

    impl Peer for Fake {
        fn name(&self) -> &'static str {
            self.name
        }

        fn level(&self) -> Level {
            Level::Safe
        }

        fn carries(&self, kind: Kind) -> bool {
            kind == self.kind
        }

        fn probe(&mut self) -> Result<Version, Skipped> {
            self.reason.map_or_else(|| Ok(Version("1".to_owned())), |reason| Err(Skipped::because(reason)))
        }

        fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError> {
            self.log.lock().unwrap().push(self.name);
            assert_eq!(fs::read_dir(workload.target()).unwrap().count(), 0, "the target was not emptied");
            let content = self.content.ok_or_else(|| LabError::Unavailable("broken".to_owned()))?;
            fs::write(workload.copy(), content).unwrap();
            Ok(PeerRun {
                seconds: 0.5,
                cpu_seconds: 0.25,
                bytes: 1 << 29,
                other_cpu_seconds: 0.0,
                stolen_seconds: 0.0,
            })
        }
    }

    #[test]
    fn peers_take_turns_and_none_is_silently_left_out() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "content").unwrap();
        let workload =
            Workload::new(&directory.path().join("file"), &directory.path().join("target")).unwrap();
        let log = Arc::default();
        let fake = |name| Fake {
            name,
            log: Arc::clone(&log),
            kind: Kind::File,
            reason: None,
            content: Some("content"),
        };
        let mut peers: Vec<Box<dyn Peer>> = vec![
            Box::new(fake("a")),
            Box::new(Fake { reason: Some("not here"), ..fake("absent") }),
            Box::new(Fake { content: None, ..fake("broken") }),
            Box::new(Fake { content: Some("CONTENT"), ..fake("liar") }),
            Box::new(Fake { kind: Kind::Tree, ..fake("gardener") }),
            Box::new(fake("b")),
        ];
        let outcomes = alternate(&mut peers, &workload, 2, 0);
        assert_eq!(*log.lock().unwrap(), ["a", "broken", "liar", "b", "a", "b"]);
        let runs: Vec<usize> = outcomes.iter().map(|outcome| outcome.runs.len()).collect();
        assert_eq!(runs, [2, 0, 0, 0, 0, 2]);
        assert_eq!(outcomes[1].probe.as_ref().unwrap_err().reason, "not here");
        assert_eq!(outcomes[2].failure.as_deref(), Some("broken"));
        assert!(outcomes[3].failure.as_deref().unwrap().contains("differs"));
        assert!(outcomes[4].probe.is_err());
        let run = outcomes[0].runs[0];
        assert!((run.megabytes_per_second() - 1073.74).abs() < 0.01);
        assert!((run.cpu_seconds_per_gib() - 0.5).abs() < 1e-9);
        assert!(!run.is_disturbed());
    }
}
