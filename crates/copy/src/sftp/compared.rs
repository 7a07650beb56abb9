//! Compares the files of far folders with those of the sources, a folder at a time, while the server lists the next ones.
//!
//! Guarantees: files that are equal are neither remembered one by one nor looked at again; of the others everything is known that a
//! survey without this comparison would know.

use sealane_sftp::{Attributes, FileKind};
use sealane_tree::{Folders, Memory, RelativePath};

use crate::{
    options::{Sameness, Wishes},
    proto::message::{Held, List},
    send::{compare::compare_list, equal::Equal},
    sftp::put::metadata,
    transfer::known::Knowing,
};

/// Returns whether files are judged by nothing but what a list of a folder says of them.
pub(super) fn is_enough(wishes: &Wishes) -> bool {
    let upkeep = &wishes.upkeep;
    let others = wishes.update || wishes.digest || upkeep.checksum || upkeep.existing.matters();
    // Files that are removed from the source afterwards are told one by one.
    wishes.skip_same
        && wishes.portion.is_none()
        && upkeep.sameness == Sameness::Time
        && !others
        && !upkeep.remove_sources
}

/// A comparison under way.
pub(super) struct Comparison<'a> {
    own: &'a Folders,
    memory: Memory,
    knowing: Knowing,
    /// The far folder whose files come.
    folder: Vec<u8>,
    list: List,
    equal: Equal,
    /// Files of which nothing follows.
    rest: Vec<Held>,
}

impl<'a> Comparison<'a> {
    /// Begins the comparison with the sender's `own` folders.
    pub(super) fn new(own: &'a Folders, wishes: &Wishes) -> Self {
        Self {
            own,
            memory: own.memory(),
            knowing: Knowing { whole_seconds: true, ..Knowing::of(wishes) },
            folder: Vec::new(),
            list: List::default(),
            equal: Equal::default(),
            rest: Vec::new(),
        }
    }

    /// Takes the next far entry; those of one folder come one after the other.
    pub(super) fn take(&mut self, path: &RelativePath, found: &Attributes) {
        let (folder, _) = path.split();
        if self.folder != folder {
            self.settle();
            self.folder.clear();
            self.folder.extend_from_slice(folder);
        }
        if found.kind() == FileKind::File {
            self.list.done.push(self.knowing.held(path, &metadata(found)));
        }
    }

    /// Compares the folder that is complete.
    fn settle(&mut self) {
        let list = std::mem::take(&mut self.list);
        let own = self.own.only_root(&self.folder).filter(|_| !list.done.is_empty());
        let rest = match own {
            Some(root) => {
                let folder = (root, &*self.folder);
                self.equal.settle(compare_list(self.own, &mut self.memory, self.knowing, folder, list))
            }
            None => list,
        };
        self.rest.extend(rest.done);
    }

    /// Returns the number of files that are remembered one by one.
    pub(super) fn remembered(&self) -> usize {
        self.rest.len() + self.list.done.len()
    }

    /// Returns which folders are nearly equal, and the files of which nothing follows from that.
    pub(super) fn end(mut self) -> (Equal, Vec<Held>) {
        self.settle();
        (self.equal, self.rest)
    }
}
