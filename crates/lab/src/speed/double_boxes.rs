//! DES by tables of two S-boxes each, as the stacks of 1996 had it (N17), beside the form with tables of one.
//!
//! Guarantees: both take turns in short slices of one run; before anything is measured, the two are compared on a whole
//! message.

use super::work::{Arena, Cursor, Handler, Runner, Task, iv};
use super::{Rule, SpeedError, clock};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{Cell, Claim, Experiment, Measure, Outcome, RATE, Value, View, at, derive};
use crate::studies::NDSS_TITLE;
use sealane_transform::{
    Algorithm, Buffer, Cipher, CipherJob, CipherKey, Direction, DoubleBoxDes, Kernels, Mode, Tier,
};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// The kernels that are compared.
const ALGORITHM: &str = "des-cbc";
/// The length of the paper's packets.
const MESSAGE_BYTES: usize = 4096;
/// Messages of one run, which stay in the second-level cache.
const MESSAGES: usize = 64;
/// Forms of the tables, and their bytes.
const FORMS: [&str; 2] = ["eight tables of one S-box", "four tables of two S-boxes"];
const SINGLE_BYTES: usize = 8 * 64 * 4;

/// The form with tables of two S-boxes, message after message.
struct Double;

impl Runner for Double {
    fn with(&self, task: &Task, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let refused = || task.refused();
        let bytes = task.key(0);
        let des = DoubleBoxDes::new(bytes.as_slice().try_into().map_err(|_| refused())?);
        if !is_alike(&des, &bytes, task.direction) {
            return Err(refused());
        }
        let mut arena = Arena::new(task);
        let mut messages: Vec<&mut [u8]> = arena.messages(&task.lengths).collect();
        let mut cursor = Cursor::new(&task.lengths, task.step());
        let mut count = 0;
        scope(&mut || {
            let (range, done) = cursor.next();
            for message in &mut messages[range] {
                count += 1;
                des.crypt(Mode::Cbc, task.direction, &iv(count), black_box(message));
            }
            done
        });
        Ok(())
    }
}

/// Returns whether both forms make the same of one message.
fn is_alike(double: &DoubleBoxDes, key: &[u8], direction: Direction) -> bool {
    let Ok(Algorithm::Cipher(cipher @ Cipher::Block(..))) = ALGORITHM.parse() else { return false };
    let Ok(key) = CipherKey::new(cipher, key) else { return false };
    let message: Vec<u8> = (0..MESSAGE_BYTES).map(|at| (at * 7) as u8).collect();
    let (mut one, mut other) = (message.clone(), message);
    double.crypt(Mode::Cbc, direction, &iv(1), &mut one);
    let mut jobs = [CipherJob::new(&key, &iv(1)[..8], Buffer::in_place(&mut other))];
    let refused = Kernels::best().cipher(cipher, direction, &mut jobs);
    refused == 0 && one == other
}

/// Measures both forms, encrypting and decrypting.
pub(super) fn outcome(rule: Rule) -> Result<Outcome, LabError> {
    let algorithm: Algorithm = ALGORITHM.parse().map_err(|_| LabError::Unavailable(ALGORITHM.to_owned()))?;
    let kernels = Kernels::select(Some(Tier::Generic), None).map_err(unavailable)?;
    let mut cells = Vec::new();
    for (direction, way) in [(Direction::Encrypt, "encrypt"), (Direction::Decrypt, "decrypt")] {
        let lengths = vec![MESSAGE_BYTES; MESSAGES];
        let task = Task { algorithm, direction, lengths, batch: MESSAGES, keys: 1, seed: 17 };
        let found = clock::alternate(&kernels, Some(&Double), &task, 1, rule, &AtomicBool::new(false));
        let Some((single, Some(double))) = found.map_err(unavailable)? else { continue };
        let runs = single.runs + double.runs;
        let paces = [single, double].map(|pace| match pace.spread {
            Some(spread) => Value::Range { value: pace.mb_per_s, low: spread.low, high: spread.high },
            None => Value::Number(pace.mb_per_s),
        });
        for ((form, bytes), pace) in FORMS.into_iter().zip(TABLE_BYTES).zip(&paces) {
            let times = derive::ratio(pace, &paces[0]).filter(|_| form != FORMS[0]);
            let cell = Cell::new([("form", form), ("way", way)]).with("table_bytes", bytes as f64);
            cells.push(cell.behind(runs).with(RATE, pace.clone()).with_some("times", times));
        }
    }
    let measures = vec![
        Measure::count("table_bytes", "bytes of tables"),
        Measure::rate(RATE, "MB/s"),
        Measure::times("times", "times one S-box"),
    ];
    let notes = [
        "DES in CBC mode, messages of 4,096 bytes one after another on one core, tier generic; both forms differ in the look-ups of a \
         round alone: eight of six bits, or four of twelve.",
        "The paper names its tables of 64 KB and does not compare them; its processors had 16 KB of first-level data cache and 1 MB \
         behind it.",
    ];
    let title = "DES by tables of one S-box and of two";
    let experiment = Experiment::new("double-s-boxes", "N17", title, &["form", "way"], measures);
    let experiment = experiment.of(NDSS_TITLE).claiming(claims()).notes(&notes);
    Ok(Outcome::new(experiment.shown(View::Cells, Vec::new()), cells))
}

const TABLE_BYTES: [usize; 2] = [SINGLE_BYTES, DoubleBoxDes::TABLE_BYTES];

/// Returns the claims that the paper's tables pay.
fn claims() -> Vec<Claim> {
    let claim = |way: &str| {
        let statement = format!(
            "DES, {way}: the paper's tables of two S-boxes are faster than tables of one. The paper prints no comparison, so the \
             bound is equality."
        );
        let places = (at([("form", FORMS[1]), ("way", way)]), at([("form", FORMS[0]), ("way", way)]));
        Claim::ratio((statement, "N17"), RATE, places, (Some(1.0), None))
    };
    ["encrypt", "decrypt"].map(claim).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;

    #[test]
    fn both_forms_are_measured_with_their_tables() {
        let outcome = outcome(Rule::Slices { seconds: 0.005 }).unwrap();
        let bytes = |cell: &Cell| cell.figure("table_bytes");
        assert_eq!(outcome.cells.iter().filter_map(bytes).collect::<Vec<_>>(), [2048.0, 65536.0].repeat(2));
        assert!(outcome.cells.iter().all(|cell| cell.figure(RATE).is_some_and(|rate| rate > 0.0)));
        assert!(
            outcome.claims.iter().all(|claim| claim.verdict != Verdict::NotMeasured),
            "{:?}",
            outcome.claims
        );
    }

    #[test]
    fn another_key_is_noticed() {
        let (key, other) = ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 16]);
        assert!(is_alike(&DoubleBoxDes::new(&key), &key, Direction::Decrypt));
        assert!(!is_alike(&DoubleBoxDes::new(&other), &key, Direction::Encrypt));
    }
}
