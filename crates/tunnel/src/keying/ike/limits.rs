//! Limits on the IKE SAs of one peer, of one user and of all clients.
//!
//! Guarantees: of a user's devices none that lives is ended for another one.

use std::time::{Duration, Instant};

use sealane_ike::{IkeId, Reason};

use super::{Ike, Stands};

/// The maximum number of IKE SAs with one peer: two ends that initiate at the same moment have two.
const SAS_MAX: usize = 4;
/// The maximum number of devices of one user, or of one identity among clients without users.
const DEVICES_MAX: usize = 8;
/// The time after which a device that says nothing makes room for another one of its user; a living one has been asked
/// and has answered by then.
const QUIET: Duration = Duration::from_secs(25);
/// The maximum number of IKE SAs with all clients of one entry.
const CLIENTS_MAX: usize = 16_384;
impl Ike<'_> {
    /// Ends IKE SAs beyond the limits, after one was established.
    pub(super) fn limit(&mut self, ike: IkeId, now: Instant) {
        let Some(newest) = self.sas.get(&ike) else { return };
        let (place, is_many) = (newest.place, self.known[newest.place].is_many);
        // Whoever has a user's password may give any identity.
        fn who(stands: &Stands) -> &str {
            stands.user.as_ref().unwrap_or(&stands.identity)
        }
        let is_same = |stands: &&Stands| stands.place == place && (!is_many || who(stands) == who(newest));
        let same: Vec<IkeId> =
            self.sas.iter().filter(|(_, stands)| is_same(stands)).map(|(&ike, _)| ike).collect();
        let name = who(newest).to_owned();
        // The numbers of IKE SAs grow, so the first one is the oldest. Of a user's devices one that is silent goes, or
        // the newest: if it were a living one, two would cut each other off without end.
        if is_many && same.len() > DEVICES_MAX {
            let silence = |ike: &IkeId| self.endpoint.silence(*ike, now).filter(|silence| *silence >= QUIET);
            let silent = same.iter().copied().filter(|other| silence(other).is_some()).max_by_key(silence);
            self.endpoint.end(silent.unwrap_or(ike), &Reason::TooMany, now);
            if silent.is_none() {
                let message = format!("{name} has {DEVICES_MAX} devices connected, and no more are let in");
                self.tell_about(place, message, now);
            }
        } else if !is_many && same.len() > SAS_MAX {
            self.endpoint.end(same[0], &Reason::TooMany, now);
        }
        let all = self.sas.values().filter(|stands| stands.place == place).count();
        if all > CLIENTS_MAX {
            self.tell_about(
                place,
                format!("{CLIENTS_MAX} clients are connected, and no more are let in"),
                now,
            );
            self.endpoint.end(ike, &Reason::TooMany, now);
        }
    }
}
