//! The deletion at the end of a pull.
//!
//! Guarantees: a folder that the far end lists as empty, which is how a failed list can look, loses nothing unless the user
//! allows it.

use std::collections::HashSet;

use sealane_tree::RelativePath;

use super::{EMPTY_MAX, Pull};
use crate::{
    error::Error,
    proto::entry::listed_hash,
    receive::prune::{Prune, Pruned, Step},
    summary::Notice,
};

impl Pull<'_> {
    /// Keeps the contents of folders that the target has filled and the source lists as empty, unless the user expects
    /// that: a server reports a list that fails in the same way. Returns their number, or the reason why nothing is
    /// deleted.
    fn withhold(&self, prune: &mut Prune) -> Result<Result<u64, String>, Error> {
        let options = self.transfer.options;
        let empty = self.empty.take();
        if options.trusts_empty || prune.entries_max.is_some() {
            return Ok(Ok(0));
        }
        let advice = "an SFTP server reports a list that fails as an empty one; if it is empty, say --delete twice, \
                      or how many entries may be deleted with --max-delete";
        if empty.len() > EMPTY_MAX {
            let what = format!("more than {EMPTY_MAX} folders of the source are empty");
            return Ok(Err(format!("nothing was deleted: {what}; {advice}")));
        }
        prune.known.sort_unstable();
        let mut withheld = HashSet::new();
        for folder in empty {
            let looked = prune.look(folder.as_ref(), 1, &mut |_| Ok(()))?;
            if looked.entries.is_empty() && !looked.has_more {
                continue;
            }
            let path = folder.as_ref().map_or(&b""[..], RelativePath::as_bytes);
            withheld.insert(listed_hash(path));
            let host = &self.far.host;
            let shown = self.files.shown(path);
            let reason =
                format!("{shown}: nothing in it was deleted, because {host} lists it as empty: {advice}");
            self.notice(Notice::EntryFailed { path: shown.as_bytes().to_vec(), reason });
        }
        prune.known.retain(|known| !withheld.contains(known));
        Ok(Ok(withheld.len() as u64))
    }

    pub(super) fn prune(&self, mut prune: Prune) -> Result<Pruned, Error> {
        prune.learn(&self.known.take());
        prune.replaced = self.replaced.take();
        let refusal = prune.refusal(self.counts.failed.get() - self.counts.unfit.get());
        let (withheld, refusal) = match refusal {
            None => match self.withhold(&mut prune)? {
                Ok(withheld) => (withheld, None),
                Err(refusal) => (0, Some(refusal)),
            },
            refusal => (0, refusal),
        };
        let pruned = prune.run_unless(refusal, |step| {
            match step {
                Step::NotReplaced(path, why) => self.files.not_replaced(&path, &why),
                step => {
                    let notice = step.notice(|path| self.files.shown(path));
                    notice.into_iter().for_each(|notice| self.notice(notice));
                }
            }
            Ok(())
        })?;
        Ok(Pruned { undeleted: pruned.undeleted + withheld, ..pruned })
    }
}
