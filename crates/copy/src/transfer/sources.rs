//! The sources with which a sending end begins: what of them is told before they are walked, and standard input as one.

use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex},
};

use sealane_tree::{Kind, RelativePath, ShownPath, SourceRoot};

use crate::{
    error::{Error, ErrorKind},
    proto::entry::{Announcement, Entry},
    send::{
        fill::Filling,
        work::{Bytes, Queue, SendFile},
    },
    transfer::place::Sources,
};

/// Reports the sources that could not be opened, and notes that all names of the target itself will be listed if a source is
/// the content of a folder.
pub(crate) fn announce(sources: &mut Sources, filling: &Filling) {
    for (path, error) in sources.missing.drain(..) {
        filling.failed(&ShownPath::new(path), error.message);
    }
    let is_unnamed =
        |root: &SourceRoot| root.prefix().is_none() && root.is_directory() && !root.is_selected();
    let roots = (0..).zip(sources.source.roots());
    let mut unnamed = roots.filter(|(_, root)| is_unnamed(root)).map(|(root, _)| root).peekable();
    if unnamed.peek().is_some() {
        let is_equal = unnamed.any(|root| filling.possessions.equal.has(root, b""));
        filling.manifest.list_target(is_equal);
    }
}

/// Returns standard input as a file of this name.
pub(crate) fn standard_input(queue: &Queue, name: Option<&[u8]>) -> Result<Arc<SendFile>, Error> {
    let name = name.ok_or_else(|| {
        Error::new(
            ErrorKind::Usage,
            "standard input needs a target with a file name; the target is a directory",
        )
    })?;
    let path = RelativePath::new(name).map_err(sealane_tree::Error::from)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let metadata = sealane_tree::Metadata {
        mode: 0o644,
        modified: sealane_tree::Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() },
        ..sealane_tree::Metadata::default()
    };
    let entry = Entry { path, kind: Kind::File, metadata, digest: None };
    let input = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Error::io("cannot read standard input", &error))?;
    let announcement = Announcement { entry, growing: true };
    let shown = ShownPath::new(*b"standard input");
    let bytes = Bytes::Pipe(Mutex::new(input.into()));
    Ok(Arc::new(SendFile::new(
        queue.next_file(),
        announcement,
        shown,
        bytes,
        std::iter::once(0..u64::MAX),
        Vec::new(),
        None,
    )))
}
