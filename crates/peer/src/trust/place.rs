//! Opens files that decide about trust, only if no other user except root can change or replace them.
//!
//! Guarantees: the file read is a regular file of this user or root into which no other user may write; the same
//! holds for every folder and link on the way to it, from the root on. A folder into which other users may write
//! passes if it is sticky, as /tmp is: there only its owner can replace an entry.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::PeerError;

/// The kernel follows as many links.
const LINKS_MAX: usize = 40;
/// Others than the owner may write.
const WRITABLE: u32 = 0o022;
/// Only its owner can replace an entry of the folder.
const STICKY: u32 = 0o1000;

/// Opens a file for reading that no other user can change.
///
/// # Errors
/// Fails if the file is missing or not a regular file, if it belongs to another user, or if other users may write to
/// it, or to a folder on its way.
pub fn open_trusted(path: &Path) -> Result<File, PeerError> {
    let failed = |source| PeerError::File { doing: "read", path: path.into(), source };
    check_way(path)?;
    // Without this flag, opening a pipe would wait for its writer.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags as i32).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    check(path, metadata.uid(), metadata.mode())?;
    Ok(file)
}

/// Checks that no other user can change or replace this folder.
///
/// # Errors
/// Fails if it, or a folder on its way, belongs to another user, or other users may write to it. A folder that is
/// missing passes.
pub fn check_trusted_folder(path: &Path) -> Result<(), PeerError> {
    check_way(path)
}

/// Checks that the owner is us or root, because the owner of a file or folder can change it, whatever its mode; and
/// that no other user may write to it.
fn check(path: &Path, owner: u32, mode: u32) -> Result<(), PeerError> {
    check_owner(path, owner, rustix::process::geteuid().as_raw())?;
    match mode & WRITABLE {
        0 => Ok(()),
        _ => Err(PeerError::TrustExposed { path: path.into(), mode: mode & 0o7777 }),
    }
}

fn check_owner(path: &Path, owner: u32, ours: u32) -> Result<(), PeerError> {
    match owner == ours || owner == 0 {
        true => Ok(()),
        false => Err(PeerError::TrustForeign { path: path.into(), uid: owner }),
    }
}

/// Checks every folder and link on the way to `path`, and `path` itself if it is a folder or link. A way that ends
/// early passes, because nothing can be opened there.
fn check_way(path: &Path) -> Result<(), PeerError> {
    let failed = |source| PeerError::File { doing: "read", path: path.into(), source };
    // The steps that are left, the next one last.
    let mut steps = Vec::new();
    push(&mut steps, &std::path::absolute(path).map_err(failed)?);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(step) = steps.pop() {
        match step.to_str() {
            Some("/") => at = "/".into(),
            Some("..") => {
                at.pop();
                continue;
            }
            _ => at.push(step),
        }
        let metadata = match fs::symlink_metadata(&at) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        if metadata.is_symlink() {
            // The owner of a link in a sticky folder can replace it.
            check_owner(&at, metadata.uid(), rustix::process::geteuid().as_raw())?;
            links += 1;
            if links > LINKS_MAX {
                return Err(failed(rustix::io::Errno::LOOP.into()));
            }
            let target = fs::read_link(&at).map_err(failed)?;
            at.pop();
            push(&mut steps, &target);
        } else if metadata.is_dir() {
            let mode = if metadata.mode() & STICKY == 0 { metadata.mode() } else { 0 };
            check(&at, metadata.uid(), mode)?;
        }
    }
    Ok(())
}

/// Adds the steps of `path` before the present ones.
fn push(steps: &mut Vec<OsString>, path: &Path) {
    let new: Vec<_> = path
        .components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| component.as_os_str().to_owned())
        .collect();
    steps.extend(new.into_iter().rev());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_of_another_user_decides_nothing() {
        let path = Path::new("authorised-peers");
        for (owner, ours, fine) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1001, 1000, false), (1000, 0, false)]
        {
            let checked = check_owner(path, owner, ours);
            assert_eq!(checked.is_ok(), fine, "{owner} {ours}");
            assert!(fine || matches!(checked, Err(PeerError::TrustForeign { uid, .. }) if uid == owner));
        }
    }

    #[test]
    fn every_folder_on_the_way_counts() {
        let dir = tempfile::tempdir().unwrap();
        let way = dir.path().join("a/b");
        fs::create_dir_all(&way).unwrap();
        let file = way.join("list");
        fs::write(&file, "").unwrap();
        for (entry, mode, fine) in [
            ("a", 0o755, true),
            ("a", 0o775, false),
            ("a", 0o777, false),
            ("a", 0o1777, true),
            ("a/b", 0o757, false),
            ("a/b/list", 0o664, false),
            ("a/b/list", 0o646, false),
            ("a/b/list", 0o644, true),
        ] {
            let entry = dir.path().join(entry);
            let before = fs::metadata(&entry).unwrap().mode();
            set_mode(&entry, mode);
            let opened = open_trusted(&file);
            assert_eq!(opened.is_ok(), fine, "{} {mode:o}", entry.display());
            if let Err(error) = opened {
                assert!(matches!(&error, PeerError::TrustExposed { path, .. } if *path == entry), "{error}");
            }
            set_mode(&entry, before);
        }
    }

    #[test]
    fn links_lead_only_through_trusted_folders() {
        let dir = tempfile::tempdir().unwrap();
        let (open, closed) = (dir.path().join("open"), dir.path().join("closed"));
        fs::create_dir_all(&open).unwrap();
        fs::create_dir_all(closed.join("deep")).unwrap();
        fs::write(closed.join("list"), "").unwrap();
        fs::write(open.join("list"), "").unwrap();
        symlink("../list", closed.join("deep/good")).unwrap();
        symlink("deep/../deep/good", closed.join("chain")).unwrap();
        symlink(closed.join("list"), open.join("link")).unwrap();
        symlink(open.join("list"), closed.join("out")).unwrap();
        symlink("loop", closed.join("loop")).unwrap();
        set_mode(&open, 0o777);
        open_trusted(&closed.join("chain")).unwrap();
        for (name, is_exposed) in [("open/link", true), ("closed/out", true), ("closed/loop", false)] {
            let error = open_trusted(&dir.path().join(name)).unwrap_err();
            assert_eq!(matches!(error, PeerError::TrustExposed { .. }), is_exposed, "{name}: {error}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for path in [&pipe, dir.path()] {
            assert!(matches!(open_trusted(path), Err(PeerError::File { .. })), "{}", path.display());
        }
        assert!(matches!(
            open_trusted(&dir.path().join("none")),
            Err(PeerError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound
        ));
        check_trusted_folder(&dir.path().join("none")).unwrap();
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        // Only root may give a file away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("a"), dir.path().join("a/list"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "").unwrap();
        for entry in [&folder, &file] {
            chown(entry, Some(12_345), None).unwrap();
            assert!(matches!(open_trusted(&file), Err(PeerError::TrustForeign { uid: 12_345, .. })));
            chown(entry, Some(0), None).unwrap();
        }
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
        assert!(matches!(open_trusted(&link), Err(PeerError::TrustForeign { uid: 12_345, .. })));
    }
}
