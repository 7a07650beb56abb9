//! By what a sender knows the files that a target has: a receiver tells it, or the sender looks for itself.
//!
//! Guarantees: these rules read and ask nothing, so all who examine a target follow the same ones.

use sealane_tree::{Metadata, RelativePath, Timestamp};

use crate::{
    options::{Sameness, Wishes},
    proto::{
        entry::{attributes, identity_by_seconds, known_identity, path_hash},
        message::{Dated, Held},
    },
};

/// The rules of one transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Knowing {
    /// No file is replaced by an older one.
    pub(crate) update: bool,
    pub(crate) sameness: Sameness,
    /// Owners are compared.
    pub(crate) with_owner: bool,
    /// Names of one file stay so, and are found among all entries.
    pub(crate) hard_links: bool,
    /// The target keeps whole seconds.
    pub(crate) whole_seconds: bool,
}

impl Knowing {
    /// Returns the rules that follow from these wishes, for a target that keeps fractions of seconds.
    pub(crate) fn of(wishes: &Wishes) -> Self {
        Self {
            update: wishes.update,
            sameness: wishes.upkeep.sameness,
            with_owner: wishes.preserve.owner.is_wanted(),
            hard_links: wishes.preserve.hard_links,
            whole_seconds: false,
        }
    }

    /// Returns the time of a file, if the sender must know it.
    pub(crate) fn dated(&self, path: &RelativePath, metadata: &Metadata) -> Option<Dated> {
        let matters = self.update || self.sameness.window_seconds().is_some();
        matters.then(|| Dated { path: path_hash(path), modified: metadata.modified })
    }

    /// Returns by what a file is not sent again, and which of its attributes are brought up to date.
    pub(crate) fn held(&self, path: &RelativePath, metadata: &Metadata) -> Held {
        let identity = match self.sameness {
            Sameness::Time if self.whole_seconds => identity_by_seconds(path, metadata),
            sameness => known_identity(path, metadata, sameness),
        };
        let by_content = self.sameness.is_apart_from_time();
        Held { identity, attributes: attributes(metadata, by_content, self.with_owner) }
    }
}

/// Returns what a sender knows of a name, whatever has it: no time is older.
pub(crate) fn named(path: &RelativePath) -> Dated {
    Dated { path: path_hash(path), modified: Timestamp { seconds: i64::MIN, nanoseconds: 0 } }
}
