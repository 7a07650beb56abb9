//! Kills a copy midway and continues it with the next one.
//!
//! Guarantees: the kill is SIGKILL, so the program could not clean up; the result is compared byte for byte.

use crate::LabError;
use crate::compare::compare;
use crate::program::{CopyRequest, KillRule, Killed, Level, Program};
use crate::report::Check;
use crate::report::number::{bytes, duration};
use std::path::Path;
use std::time::{Duration, Instant};

/// The result.
#[derive(Default)]
pub(super) struct Resumed {
    /// Bytes that the second run found in place.
    pub(super) kept_bytes: Option<u64>,
    /// Bytes that the second run moved although the first had reported them as moved.
    pub(super) resent_bytes: Option<u64>,
}

/// The duration of the first run if it were not killed. Its rate is limited, so that "midway" is the same on a slow
/// machine and on a fast one.
const FIRST_RUN_SECONDS: f64 = 3.0;
/// The time at which it is killed.
const KILLED_AFTER: Duration = Duration::from_millis(1_800);

/// The time for which the second run is tried.
const PATIENCE: Duration = Duration::from_secs(15);

/// Copies `source` of `total_bytes` into `target`, kills the copy, copies again, and compares.
pub(super) fn kill_and_resume(
    program: &Program,
    source: &Path,
    target: &Path,
    total_bytes: u64,
) -> Result<(Resumed, Check), LabError> {
    let first = CopyRequest {
        level: Some(Level::Private),
        limit_rate: Some((total_bytes as f64 / FIRST_RUN_SECONDS) as u64),
        ..CopyRequest::default()
    };
    let sources = [source.to_owned()];
    let copy = source.file_name().map_or_else(|| target.to_owned(), |name| target.join(name));
    let rule = KillRule { moved_bytes: total_bytes / 5 * 3, after: KILLED_AFTER };
    let what = "killed midway (SIGKILL), then run again".to_owned();
    let failed = |found: String| (Resumed::default(), Check { what: what.clone(), found, is_good: false });
    let moved_bytes = match program.copy_killed(&first, &sources, target, rule)? {
        Killed::Midway { moved_bytes } => moved_bytes,
        Killed::Finished(finished) => {
            let seconds = duration(finished.wall.as_secs_f64());
            return Ok(failed(format!("the copy took only {seconds} despite its limit, nothing to kill")));
        }
    };
    if copy.exists() {
        return Ok(failed("the target had its final name although it was incomplete".to_owned()));
    }
    let second = CopyRequest { limit_rate: None, ..first };
    let again = Instant::now();
    let finished = loop {
        match program.copy(&second, &sources, target) {
            Ok(finished) => break finished,
            // The far end outlives the near one for a moment and still holds the target; a user would try again, too.
            Err(LabError::Copy { kind, .. }) if kind == "refused" && again.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(250));
            }
            Err(error) => return Ok(failed(error.to_string())),
        }
    };
    let waited = again.elapsed().saturating_sub(finished.wall);
    if let Err(error) = compare(source, &copy) {
        return Ok(failed(error.to_string()));
    }
    let kept = finished.done.resumed_bytes;
    // This uses the last progress before the kill; more may have moved since, so it is the minimum.
    let resent_bytes = moved_bytes.map(|moved| moved.saturating_sub(kept));
    let found = format!(
        "{} of {} were kept, {} sent in {}{}, equal byte for byte",
        bytes(kept),
        bytes(total_bytes),
        bytes(total_bytes.saturating_sub(kept)),
        duration(finished.wall.as_secs_f64()),
        if waited > Duration::from_millis(200) {
            format!(
                " after {} in which the killed copy's far end held the target",
                duration(waited.as_secs_f64())
            )
        } else {
            String::new()
        },
    );
    let is_good = kept > 0;
    let found = if is_good { found } else { format!("nothing was kept: {found}") };
    Ok((Resumed { kept_bytes: Some(kept), resent_bytes }, Check { what, found, is_good }))
}
