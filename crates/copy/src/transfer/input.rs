//! Standard input as a source.

use std::{
    os::fd::AsFd,
    sync::{Arc, Mutex},
};

use sealane_tree::{Kind, RelativePath, ShownPath};

use crate::{
    error::{Error, ErrorKind},
    proto::entry::{Announcement, Entry},
    send::work::{Bytes, Queue, SendFile},
};

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
