//! [`Basis`]: a folder of an earlier copy, as an option of a target.
//!
//! Guarantees: the folder is held by its descriptor; below it no symbolic link is followed.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::beneath::{Beneath, Resolution};
use crate::error::Result;
use crate::path::RelativePath;
use crate::root::TargetRoot;

/// The use of a file that a basis has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub enum BasisUse {
    /// It gets another name in the target (`--link-dest`).
    #[default]
    Link,
    /// Its content is copied (`--copy-dest`).
    Copy,
    /// It need not be in the target (`--compare-dest`).
    Compare,
}

/// A folder of an earlier copy.
#[derive(Clone, Debug)]
pub struct Basis {
    pub(crate) beneath: Arc<Beneath>,
    /// The entry of the target that corresponds to the folder; without one, the target does.
    pub(crate) within: Option<RelativePath>,
}

impl Basis {
    /// Opens a folder that corresponds to the entry `within` of a target, or to the target.
    pub fn open(root: &TargetRoot, within: Option<RelativePath>) -> Result<Self> {
        Ok(Self { beneath: Arc::new(Beneath::new(root.open(0o777)?, Resolution::Detect)), within })
    }

    /// Returns the path below the basis of an entry of the target.
    pub(crate) fn strip<'a>(&self, path: &'a RelativePath) -> Option<&'a [u8]> {
        match &self.within {
            Some(within) => path.as_bytes().strip_prefix(within.as_bytes())?.strip_prefix(b"/"),
            None => Some(path.as_bytes()),
        }
    }
}

/// The folder of a basis in which files were found last.
#[derive(Debug, Default)]
pub(crate) struct LastFolder {
    pub(crate) path: Vec<u8>,
    pub(crate) folder: Option<Arc<OwnedFd>>,
}
