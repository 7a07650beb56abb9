//! The name of a transfer that can be resumed: of what is copied, not of how it is spelled.
//!
//! Guarantees: `a`, `a/` and `./a` are one source, and two names of one host in ssh's configuration are one host; where
//! a name cannot be resolved, its spelling counts, and a run that does not find the journal of an earlier one begins its
//! own files.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use sealane_peer::{Location, ssh_resolved_host};

use crate::{
    options::Sink,
    transfer::{
        Transfer,
        far_place::{FarPlace, far_path},
        roles::is_standard_stream,
    },
};

impl Transfer<'_> {
    /// Returns the name of this transfer if it can be resumed: the same for all copies of these sources. The end that
    /// receives makes the name of a journal of it, with its own place.
    pub(crate) fn journal_name(&self) -> Option<[u8; 16]> {
        let options = self.options;
        let resumable = options.resume
            && !options.wishes.dry_run
            && options.wishes.sink == Sink::Files
            && !is_standard_stream(self.target)
            && !self.sources.iter().any(is_standard_stream);
        resumable.then(|| {
            let mut hasher = blake3::Hasher::new();
            let mut add = |bytes: &[u8]| {
                hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
            };
            // Two hosts may have sources of one name, and copy them to one place.
            add(&own_host());
            for source in self.sources {
                match source {
                    Location::Local(path) => add(&resolved(path)),
                    far => {
                        add(self.far_host.get_or_init(|| self.host_of(far)));
                        add(&trimmed(&far_path(far)));
                    }
                }
            }
            if let Some(share) = &options.share {
                add(share);
            }
            let mut name = [0; 16];
            hasher.finalize_xof().fill(&mut name);
            name
        })
    }

    /// Returns what tells the host of a source from others.
    fn host_of(&self, source: &Location) -> Vec<u8> {
        let place = FarPlace::of(source);
        let resolved = match &place {
            FarPlace::Ssh { user, host, port } => {
                let command = self.options.remote.ssh_command(user.clone(), host.clone(), *port);
                ssh_resolved_host(&command, Instant::now() + self.options.wishes.timeout).ok()
            }
            FarPlace::Here | FarPlace::Daemon(_) => None,
        };
        match resolved {
            Some(resolved) => format!("{} {} {}", resolved.user, resolved.host, resolved.port).into_bytes(),
            None => format!("{place:?}").into_bytes(),
        }
    }
}

/// Returns what tells this host from others.
fn own_host() -> Vec<u8> {
    let number = std::fs::read("/etc/machine-id").unwrap_or_default();
    [number.as_slice(), rustix::system::uname().nodename().to_bytes()].join(&b'/')
}

/// Returns a path of this host without links, dots and slashes at its end; the last name itself may be a link.
fn resolved(path: &Path) -> Vec<u8> {
    let whole = std::env::current_dir().unwrap_or_default().join(path);
    let found = match (whole.parent(), whole.file_name()) {
        (Some(folder), Some(name)) => folder.canonicalize().map(|folder| folder.join(name)),
        _ => whole.canonicalize(),
    };
    found.unwrap_or_else(|_: std::io::Error| PathBuf::from(&whole)).as_os_str().as_bytes().to_vec()
}

/// Returns a far path without what does not change its meaning: repeated slashes, `.` and a slash at its end.
fn trimmed(path: &[u8]) -> Vec<u8> {
    let parts = path.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let joined = parts.collect::<Vec<_>>().join(&b'/');
    match path.first() {
        Some(b'/') => [b"/", &joined[..]].concat(),
        _ => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_far_path_are_equal() {
        for path in ["a/b", "./a/b", "a//b/", "a/./b/.", "a/b//"] {
            assert_eq!(trimmed(path.as_bytes()), b"a/b", "{path}");
        }
        assert_eq!(trimmed(b"/a/b/"), b"/a/b");
        assert_eq!((trimmed(b""), trimmed(b"."), trimmed(b"/")), (b"".to_vec(), b"".to_vec(), b"/".to_vec()));
        assert_ne!(trimmed(b"a/../b"), trimmed(b"b"), "a link may be among them");
    }

    #[test]
    fn spellings_of_one_path_here_are_equal() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        let at = |path: &str| resolved(&folder.path().join(path));
        for path in ["a/", "./a", "a/.", "link/../a", "a/../a"] {
            assert_eq!(at(path), at("a"), "{path}");
        }
        assert_ne!(at("link"), at("a"), "a link may itself be copied");
        assert_eq!(at("missing"), at("./missing/"));
    }
}
