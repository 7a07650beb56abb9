//! Detects whether targets write to one folder: each is asked to create a file with the run's name for it, or to read
//! it.
//!
//! Guarantees: two targets give the same answer exactly if they see the same folder. The file is created exclusively,
//! which even network file systems decide in one place, so no cache of names or attributes makes two folders look
//! like one.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealane_copy::{Location, Options};
use sealane_peer::{Channel, RemoteCommand, StderrMode};

use crate::error::{FleetError, Result};
use crate::queue::JobId;
use crate::wire::{Answer, Greeting, Marking, Part, VERSION, decode, encode};
use crate::work::Order;

/// The mode of a folder whose final mode is still to come: a session that meets it sets the final one.
const UNFINISHED: u32 = 0o1700;

/// Returns the name of a run's mark, which every copy leaves alone as it does a journal.
fn name(key: [u8; 16]) -> String {
    format!(".sealane-{}.journal", JobId(key))
}

/// Returns the mark of a run.
pub(crate) fn key(run: &str) -> [u8; 16] {
    JobId::of(&[b"mark", run.as_bytes()]).0
}

/// At the target: creates or reads the mark, after the folders.
pub(crate) fn make(folder: &[u8], names: &[Vec<u8>], key: [u8; 16]) -> io::Result<[u8; 16]> {
    let folder = Path::new(OsStr::from_bytes(folder));
    make_folder(folder, names.is_empty())?;
    for name in names {
        make_folder(&folder.join(OsStr::from_bytes(name)), true)?;
    }
    let path = folder.join(name(key));
    let mut mark = [0; 16];
    getrandom::fill(&mut mark).map_err(io::Error::other)?;
    // The file is complete before it has its name, so nobody reads half a mark.
    let fresh = folder.join(name(mark));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let made =
        file.write_all(&mark).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&fresh, &path));
    fs::remove_file(&fresh)?;
    match made {
        Ok(()) => return Ok(mark),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {}
    }
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).custom_flags(nofollow).open(&path)?.read_exact(&mut mark)?;
    Ok(mark)
}

fn make_folder(path: &Path, is_root: bool) -> io::Result<()> {
    match DirBuilder::new().create(path) {
        // A tree's own folder gets its mode at the end.
        Ok(()) if is_root => fs::set_permissions(path, Permissions::from_mode(UNFINISHED)),
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// At the target: removes the mark. The folder, which may be the root of the tree and have its time already, keeps it.
pub(crate) fn remove(folder: &[u8], key: [u8; 16]) -> io::Result<()> {
    let folder = Path::new(OsStr::from_bytes(folder));
    let modified = fs::metadata(folder).and_then(|found| found.modified());
    match fs::remove_file(folder.join(name(key))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        // Only the owner of a folder sets its time; that of another is not the tree's either.
        Ok(()) => {
            let _ = modified.and_then(|time| fs::File::open(folder)?.set_modified(time));
            Ok(())
        }
    }
}

/// At the target: removes the mark, and the folders that were made for it, as far as nothing is in them. Such a folder
/// still has the mode of one that is unfinished.
pub(crate) fn undo(folder: &[u8], names: &[Vec<u8>], key: [u8; 16]) -> io::Result<()> {
    remove(folder, key)?;
    let folder = Path::new(OsStr::from_bytes(folder));
    let folders = names.iter().map(|name| folder.join(OsStr::from_bytes(name)));
    for folder in folders.chain([folder.to_owned()]) {
        let is_ours = fs::symlink_metadata(&folder)
            .is_ok_and(|found| found.is_dir() && found.permissions().mode() & 0o7777 == UNFINISHED);
        if is_ours {
            // One with something in it stays.
            let _ = fs::remove_dir(&folder);
        }
    }
    Ok(())
}

/// At the target: returns a mark that follows from the folder as it is, and changes nothing. Hosts that see one folder agree on
/// it; so do those that have none yet.
pub(crate) fn look(folder: &[u8]) -> io::Result<[u8; 16]> {
    let folder = Path::new(OsStr::from_bytes(folder));
    match fs::metadata(folder) {
        Ok(found) => {
            let parts = [
                found.ino().to_le_bytes(),
                found.mtime().to_le_bytes(),
                found.mtime_nsec().to_le_bytes(),
                found.ctime().to_le_bytes(),
                found.ctime_nsec().to_le_bytes(),
            ];
            Ok(JobId::of(&[b"look", &parts.concat()]).0)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::metadata(parent.unwrap_or_else(|| Path::new("."))).map(|_| [0; 16])
        }
        Err(error) => Err(error),
    }
}

/// At the target, as a child: carries out the request of the greeting.
pub(crate) fn answer(part: &Part) -> Answer {
    let Part::Mark { folder, names, key, doing } = part else { return Answer::Done };
    let shown = || PathBuf::from(OsStr::from_bytes(folder)).display().to_string();
    let gone = |removed: io::Result<()>| match removed {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Failed(format!("cannot remove a mark in {}: {error}", shown())),
    };
    match doing {
        Marking::Remove => gone(remove(folder, *key)),
        Marking::Undo => gone(undo(folder, names, *key)),
        Marking::Make | Marking::Look => {
            let is_dry = *doing == Marking::Look;
            match if is_dry { look(folder) } else { make(folder, names, *key) } {
                Ok(mark) => Answer::Marked(mark),
                Err(error) => Answer::Failed(format!("cannot write to {}: {error}", shown())),
            }
        }
    }
}

/// On a mover: returns a target's answer, or `None` if the target cannot be asked.
pub(crate) fn ask(
    order: &Order,
    target: &[u8],
    doing: Marking,
    options: &Options,
) -> Result<Option<[u8; 16]>> {
    let location = Location::parse(OsStr::from_bytes(target))?;
    let Location::Ssh { user, host, port, path } = location else { return Ok(None) };
    let mut command = options.remote.ssh_command(user, host.clone(), port);
    // There is nowhere to report a failure to.
    let say = move |line: &str| drop(writeln!(io::stderr(), "{host}: {line}"));
    command.stderr = StderrMode::Relay(Arc::new(say));
    let mut channel = Channel::from_child(command.spawn(RemoteCommand::Fleet)?)?;
    let names = order.roots.iter().filter_map(|root| root.name.clone()).collect();
    let part = Part::Mark { folder: path, names, key: key(&order.run), doing };
    let program = concat!("sealane ", env!("CARGO_PKG_VERSION")).to_owned();
    let patience = options.wishes.timeout.max(Duration::from_secs(60));
    channel.send(&encode(&Greeting { version: VERSION, program, part }), Instant::now() + patience)?;
    let frame = channel.recv(Instant::now() + patience)?;
    let frame = frame.ok_or_else(|| FleetError::Protocol("a target does not answer".into()))?;
    let answer = decode(&frame)?;
    let _ = channel.close(Instant::now() + Duration::from_secs(2));
    match answer {
        Answer::Marked(mark) => Ok(Some(mark)),
        Answer::Done if matches!(doing, Marking::Remove | Marking::Undo) => Ok(None),
        Answer::Failed(why) => Err(FleetError::Target(why)),
        _ => Err(FleetError::Protocol("a target answers what it was not asked".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sees_the_same_folder_answers_alike() {
        let (one, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let folder = |at: &tempfile::TempDir| at.path().join("in").into_os_string().into_encoded_bytes();
        let mark = |at| make(&folder(at), &[b"data".to_vec()], [7; 16]).expect("a mark");
        let first = mark(&one);
        assert!(first == mark(&one) && first != mark(&other));
        let mode = fs::metadata(one.path().join("in/data")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7777, UNFINISHED);
        remove(&folder(&one), [7; 16]).expect("it goes");
        remove(&folder(&one), [7; 16]).expect("it has gone");
        assert!(first != mark(&one));
    }
}
