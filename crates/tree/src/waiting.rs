//! [`Successors`]: the table of the entries that wait for their names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::path::RelativePath;
use crate::temporary::TempName;

/// The data of one waiting entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) temp: TempName,
    pub(crate) is_directory: bool,
    pub(crate) is_incomplete: bool,
}

/// The entries of one target that wait for their names.
#[derive(Debug, Default)]
pub(crate) struct Successors {
    /// Whether there are any, so that the usual path takes no lock.
    any: AtomicBool,
    waiting: Mutex<BTreeMap<RelativePath, Waiting>>,
}

impl Successors {
    /// Returns whether any entry waits. The answer takes no lock.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn waiting(&self) -> MutexGuard<'_, BTreeMap<RelativePath, Waiting>> {
        // No code panics while it holds this lock, and the map is valid at every step.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(
        &self,
        waiting: &mut BTreeMap<RelativePath, Waiting>,
        path: &RelativePath,
        temp: TempName,
        is_directory: bool,
    ) {
        waiting.insert(path.clone(), Waiting { temp, is_directory, is_incomplete: false });
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn remove(&self, path: &RelativePath) {
        let mut waiting = self.waiting();
        waiting.remove(path);
        self.any.store(!waiting.is_empty(), Ordering::Release);
    }

    /// Returns the temporary name of the entry that waits for the name `path`.
    pub(crate) fn temp_name(&self, path: &RelativePath) -> Option<TempName> {
        if !self.any() {
            return None;
        }
        self.waiting().get(path).map(|waiting| waiting.temp)
    }
}

/// Returns the directories above a path, the outermost first, and the path itself.
pub(crate) fn prefixes(path: &[u8]) -> impl Iterator<Item = RelativePath> + '_ {
    let slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
    slashes.chain([path.len()]).filter_map(|end| RelativePath::new(&path[..end]).ok())
}

/// Returns `path` with the last component of `prefix` replaced by `temp`.
pub(crate) fn renamed(path: &[u8], prefix: &RelativePath, temp: TempName) -> Vec<u8> {
    let (parent, _) = prefix.split();
    let start = if parent.is_empty() { Vec::new() } else { [parent, b"/"].concat() };
    [start.as_slice(), temp.as_bytes(), &path[prefix.as_bytes().len()..]].concat()
}
