//! Devices, pipes and sockets: what they are, and their making.
//!
//! Guarantees: one under its final name is complete; none is opened, so that no driver notices anything and nobody waits for
//! the other end of a pipe; a file, link or special file that had the name gives way at once, a directory only if it may.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Stat, chmodat, chownat, fstat, mknodat, openat, statat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::beneath::Parent;
use crate::descent::Identity;
use crate::differences::Differences;
use crate::error::{EntryType, Error, Operation, Result, entry_type, failed};
use crate::inner::{Inner, ids, times};
use crate::metadata::{Metadata, Special};
use crate::path::RelativePath;
use crate::place::{rename_over, with_temp_name};
use crate::writer::Writer;

impl Writer {
    /// Makes a device, pipe or socket, replaces the entry that had its name (a directory only if it gives way), and returns
    /// the differences. One that is there already gets the attributes that differ.
    pub fn special(
        &mut self,
        path: &RelativePath,
        special: Special,
        metadata: &Metadata,
    ) -> Result<Differences> {
        self.in_parent(path, |inner, parent, name| {
            let mut differences = Differences::NEW;
            if let Ok(stat) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
                && let Some(there) = Special::of(&stat)
            {
                differences = inner.differences(path, &stat, metadata);
                if there == special {
                    if differences.any() {
                        let handle = handle(parent, path, name, special)?;
                        if Identity::of(&handle.1) != Identity::of(&stat) {
                            return Err(Error::Changed { path: path.into() });
                        }
                        set(inner, path, &handle.0, metadata)?;
                    }
                    return Ok(differences);
                }
                differences.target = true;
            }
            let (kind, number) = special.type_and_number();
            let private = Mode::from_raw_mode(0o600);
            let make = |temp: &[u8]| mknodat(parent, temp, kind, private, number);
            let made = |errno| failed(Operation::Create, path, errno);
            let (temp, ()) = with_temp_name(inner, parent, path, make).map_err(made)?;
            let complete = handle(parent, path, temp.as_bytes(), special)
                .and_then(|(handle, _)| set(inner, path, &handle, metadata));
            if let Err(error) = complete {
                let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
                return Err(error);
            }
            rename_over(inner, parent, &temp, path, name, EntryType::Other)?;
            Ok(differences)
        })
    }
}

/// Returns a handle of this special file, which is not opened by it.
fn handle(parent: &Parent, path: &RelativePath, name: &[u8], special: Special) -> Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(parent, name, flags, Mode::empty()).and_then(|fd| fstat(&fd).map(|stat| (fd, stat)));
    let (fd, stat) = opened.map_err(|errno| failed(Operation::Inspect, path, errno))?;
    match Special::of(&stat) == Some(special) {
        true => Ok((fd, stat)),
        false => {
            let found = entry_type(&stat);
            Err(Error::TypeConflict { path: path.into(), wanted: EntryType::Other, found })
        }
    }
}

/// Sets owner, mode and time, in an order in which no step undoes another.
fn set(inner: &Inner, path: &RelativePath, handle: &OwnedFd, metadata: &Metadata) -> Result<()> {
    // The kernel's own name of the handle leads to this very entry.
    let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let failed = |errno| failed(Operation::SetMetadata, path, errno);
    let mut owner_set = false;
    match metadata.owner {
        Some(sent) if inner.options.ownership => {
            let (uid, gid) = ids(sent);
            match chownat(CWD, itself.as_str(), uid, gid, AtFlags::empty()) {
                Ok(()) => owner_set = uid.is_some() && gid.is_some(),
                Err(Errno::PERM | Errno::INVAL) => inner.count_dropped_owner(),
                Err(errno) => return Err(failed(errno)),
            }
        }
        Some(_) => inner.count_dropped_owner(),
        None => {}
    }
    let mode = inner.final_mode(metadata.mode, owner_set);
    chmodat(CWD, itself.as_str(), Mode::from_raw_mode(mode), AtFlags::empty()).map_err(failed)?;
    if inner.options.times {
        utimensat(CWD, itself.as_str(), &times(metadata.modified), AtFlags::empty()).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::{Kind, Target, TargetOptions, Timestamp};

    fn metadata(mode: u32) -> Metadata {
        let modified = Timestamp { seconds: 1_500_000_000, nanoseconds: 7 };
        Metadata { mode, modified, ..Metadata::default() }
    }

    #[test]
    fn special_files_are_made_complete_and_replace_what_is_no_directory() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let target = Target::open(folder.path(), TargetOptions::default()).unwrap();
        let mut writer = target.writer();
        fs::write(at("file"), "text").unwrap();
        symlink("/dev/null", at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for (name, is_new) in [("new", true), ("deep/new", true), ("file", true), ("link", true)] {
            let path = RelativePath::new(name).unwrap();
            let mut make = |special| writer.special(&path, special, &metadata(0o640));
            assert_eq!(make(Special::Pipe).unwrap(), Differences::NEW, "{name}");
            let made = at(name).symlink_metadata().unwrap();
            assert!(made.file_type().is_fifo(), "{name}");
            assert_eq!((made.mode() & 0o7777, made.mtime(), made.mtime_nsec()), (0o640, 1_500_000_000, 7));
            assert!(!make(Special::Pipe).unwrap().any(), "{name}");
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o600)).unwrap();
            let expected = Differences { mode: true, ..Differences::default() };
            assert_eq!(make(Special::Pipe).unwrap(), expected, "{name}");
            assert_eq!(at(name).metadata().unwrap().mode() & 0o7777, 0o640);
            let expected = Differences { target: true, ..Differences::default() };
            assert_eq!(make(Special::Socket).unwrap(), expected, "{name}");
            assert!(at(name).metadata().unwrap().file_type().is_socket() && is_new, "{name}");
        }
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device(), "no link was followed");
        let path = RelativePath::new("folder").unwrap();
        let refused = writer.special(&path, Special::Pipe, &metadata(0o640)).unwrap_err();
        assert!(matches!(refused, Error::TypeConflict { .. }), "{refused}");
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 5, "nothing else is left: {names:?}");
        let kind = Kind::Special(Special::Pipe);
        let file = RelativePath::new("file").unwrap();
        let differences = writer.compare(&file, &kind, &metadata(0o600)).unwrap();
        assert!(differences.target && differences.mode && !differences.is_new);
    }

    #[test]
    fn who_may_not_make_devices_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::open(folder.path(), TargetOptions::default()).unwrap();
        let null = Special::CharacterDevice { major: 1, minor: 3 };
        let made = target.writer().special(&RelativePath::new("null").unwrap(), null, &metadata(0o666));
        match made {
            Ok(_) => {
                assert_eq!(Special::of(&rustix::fs::stat(folder.path().join("null")).unwrap()), Some(null))
            }
            Err(error) => {
                assert!(matches!(error, Error::Io { operation: Operation::Create, .. }), "{error}");
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            }
        }
    }
}
