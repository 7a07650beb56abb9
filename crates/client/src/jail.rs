//! The way to the service from a changed root: a server loads its keys, then confines itself and its workers to a folder
//! (chroot(2)), as another user. What is kept open from before leads out of it.
//!
//! **Guarantees:** nothing is kept open but the folder of a socket, by a descriptor with which only paths can be looked up; it is
//! used only while it is still the one that was opened, because servers close descriptors that they do not know; the program's own
//! working folder is afterwards what it was. A forked process has what its parent has held.

#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect as connect_to};
use rustix::process::{chdir, fchdir};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

/// The maximum number of folders that are held; a program has keys of one service or two.
const HELD_MAX: usize = 16;

/// A folder that is held for ever: whoever else closed the descriptor may have given its number to another file.
#[derive(Clone, Copy)]
struct Held {
    folder: RawFd,
    device: u64,
    inode: u64,
}

impl Held {
    /// Returns the folder, if its descriptor is still that.
    fn folder(&self) -> Option<BorrowedFd<'static>> {
        // SAFETY: the number is not -1, and this value never closes it. If another file has it by now, it is only asked which one
        // it is.
        let folder = unsafe { BorrowedFd::borrow_raw(self.folder) };
        let found = fstat(folder).ok()?;
        ((found.st_dev, found.st_ino) == (self.device, self.inode)).then_some(folder)
    }

    /// Connects to the socket of this name in it.
    fn connect(folder: BorrowedFd<'_>, socket: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let number = folder.as_raw_fd().to_string();
        let by_number: PathBuf = ["/proc/self/fd", &number].iter().collect::<PathBuf>().join(name);
        // A changed root seldom has /proc.
        if let Ok(address) = SocketAddrUnix::new(&by_number) {
            match connect_to(socket, &address) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                outcome => return Ok(outcome?),
            }
        }
        let within = || -> rustix::io::Result<()> {
            // SAFETY: from here on this thread alone has a working folder of its own; it shares memory and descriptors as before.
            unsafe { unshare_unsafe(UnshareFlags::FS) }?;
            fchdir(folder)?;
            connect_to(socket, &SocketAddrUnix::new(name)?)
        };
        let outcome = thread::scope(|scope| {
            let thread =
                thread::Builder::new().name("sealane-connects".to_owned()).spawn_scoped(scope, within);
            thread.map(|thread| thread.join().unwrap_or(Err(Errno::IO)))
        });
        // HAProxy forbids itself new threads (RLIMIT_NPROC). Then this one goes there and back; if the process has others, it has a
        // working folder, a root and a mask for new files of its own from now on, with the same values.
        let outcome = outcome.unwrap_or_else(|_| {
            let back = open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            let outcome = within();
            let is_back = back.is_ok_and(|back| fchdir(back).is_ok()) || chdir("/").is_ok();
            if is_back { outcome } else { Err(Errno::IO) }
        });
        Ok(outcome?)
    }
}

/// The folders by the paths of sockets in them.
static HELD: Mutex<Vec<(PathBuf, Held)>> = Mutex::new(Vec::new());

/// Holds the folder of this socket, so that the service is found there from another root, by any user who may look into the folder
/// and connect. It does not matter if it fails.
pub fn hold(socket: &Path) {
    let Some(parent) = socket.parent().filter(|_| socket.is_absolute()) else { return };
    // In a forked process, a thread that held the lock may be missing.
    let Ok(mut held) = HELD.try_lock() else { return };
    if let Some(at) = held.iter().position(|(path, _)| path == socket) {
        // The folder may be another one by now.
        let is_it = |held: &Held| {
            rustix::fs::stat(parent)
                .is_ok_and(|found| (found.st_dev, found.st_ino) == (held.device, held.inode))
        };
        if held[at].1.folder().is_some() && is_it(&held[at].1) {
            return;
        }
        held.remove(at);
    }
    if held.len() >= HELD_MAX {
        return;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = open(parent, flags, Mode::empty()) else { return };
    let Ok(found) = fstat(&folder) else { return };
    let (device, inode) = (found.st_dev, found.st_ino);
    held.push((socket.to_owned(), Held { folder: folder.into_raw_fd(), device, inode }));
}

/// Connects by a folder that is held; returns `None` if none is held for this path.
pub(crate) fn connect(socket: &OwnedFd, path: &Path) -> Option<io::Result<()>> {
    let held = HELD.try_lock().ok()?.iter().find(|(known, _)| known == path)?.1;
    Some(Held::connect(held.folder()?, socket, path.file_name()?))
}
