//! Holds workloads while the lab runs, and removes them afterwards.
//!
//! Guarantees: the directory is gone when the lab ends, however it ends (see [`crate::cleanup`]), and nothing is mounted
//! below it; nothing outside the directory is written; a place without room is refused before the first byte.

use crate::cleanup::Cleanup;
use crate::error::LabError;
use crate::machine::available_memory_bytes;
use crate::rng::Rng;
use crate::surroundings::Surroundings;
use rustix::fs::{StatVfs, statvfs};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory of the lab.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    cleanup: Option<Cleanup>,
    is_memory: bool,
}

/// Room that is kept free beyond the workload, for directories, blocks and other writers.
const MARGIN_BYTES: u64 = 64 << 20;

/// `statfs(2)` magic of tmpfs.
const TMPFS_MAGIC: i64 = 0x0102_1994;

impl Scratch {
    /// Makes a directory with room for `needed_bytes`: under `parent` if given, else in shared memory if that has
    /// room, else in the directory for temporary files.
    pub fn create(
        surroundings: &Surroundings,
        parent: Option<&Path>,
        needed_bytes: u64,
    ) -> Result<Self, LabError> {
        let parent = match parent {
            Some(parent) => parent.to_owned(),
            None => default_parent(surroundings, needed_bytes),
        };
        let available_bytes = room_bytes(&parent);
        if available_bytes < needed_bytes.saturating_add(MARGIN_BYTES) {
            return Err(LabError::NoRoom { path: parent, available_bytes, needed_bytes });
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("sealane-lab-{}-{number}", std::process::id()));
        let is_memory = is_tmpfs(&parent);
        let mut builder = fs::DirBuilder::new();
        // It holds copies of the user's own files, which nobody else may read.
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(LabError::file("cannot create", &path))?;
        let cleanup = Some(Cleanup::new(REMOVE, &[path.as_os_str()]));
        Ok(Self { path, cleanup, is_memory })
    }

    /// Returns the number of bytes a workload may use in the place that [`Scratch::create`] would choose.
    pub fn room_bytes(surroundings: &Surroundings, parent: Option<&Path>, wished_bytes: u64) -> u64 {
        let parent = parent.map_or_else(|| default_parent(surroundings, wished_bytes), Path::to_owned);
        room_bytes(&parent).saturating_sub(MARGIN_BYTES)
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it lies in memory, so that no disk affects a figure.
    pub fn is_memory(&self) -> bool {
        self.is_memory
    }

    /// Writes `bytes` random bytes to the file `name`, replacing it.
    pub fn random_file(&self, name: &str, bytes: u64, seed: u64) -> Result<PathBuf, LabError> {
        let path = self.path.join(name);
        write_random(&path, bytes, seed)?;
        Ok(path)
    }

    /// Makes the empty directory `name`, removing its present content.
    pub fn empty_directory(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.path.join(name);
        remove(&path)?;
        fs::create_dir(&path).map_err(LabError::file("cannot create", &path))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let is_removed = fs::remove_dir_all(&self.path).is_ok();
        match self.cleanup.take() {
            Some(cleanup) if is_removed => cleanup.dismiss(),
            // An error cannot be handled here: the shell tries once more.
            Some(cleanup) => cleanup.run(),
            None => {}
        }
    }
}

/// Removes the directory `$1`. A file system that is mounted below it goes first, and is not emptied. Processes of a
/// lab that was killed may write for a moment.
const REMOVE: &str = r#"
while read -r _ at _; do
    case $at in "$1"/*) umount -l -- "$at" ;; esac
done < /proc/self/mounts
for _ in 1 2 3 4 5; do rm -rf -- "$1" && break; sleep 0.2; done
"#;

/// Removes a file or a tree, and succeeds if it is absent.
pub(crate) fn remove(path: &Path) -> Result<(), LabError> {
    let result = match fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    result.map_err(LabError::file("cannot remove", path))
}

fn write_random(path: &Path, bytes: u64, seed: u64) -> Result<(), LabError> {
    const CHUNK_BYTES: usize = 1 << 20;
    let mut file = File::create(path).map_err(LabError::file("cannot create", path))?;
    let mut rng = Rng::new(seed);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let taken = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        rng.fill(&mut buffer[..taken]);
        file.write_all(&buffer[..taken]).map_err(LabError::file("cannot write", path))?;
        left -= taken as u64;
    }
    Ok(())
}

/// Shared memory is preferred: a disk in the path would measure the disk. Containers often limit it to 64 MiB, hence
/// the check.
fn default_parent(surroundings: &Surroundings, needed_bytes: u64) -> PathBuf {
    let shared = Path::new("/dev/shm");
    if is_tmpfs(shared) && room_bytes(shared) >= needed_bytes.saturating_add(MARGIN_BYTES) {
        return shared.to_owned();
    }
    surroundings.temporary.clone()
}

fn is_tmpfs(path: &Path) -> bool {
    #[allow(clippy::unnecessary_cast)] // The field's type differs between architectures.
    rustix::fs::statfs(path).is_ok_and(|facts| facts.f_type as i64 == TMPFS_MAGIC)
}

fn room_bytes(path: &Path) -> u64 {
    let Ok(StatVfs { f_bavail, f_frsize, .. }) = statvfs(path) else { return 0 };
    let free = f_bavail.saturating_mul(f_frsize);
    if is_tmpfs(path) {
        // Its pages are memory: a quarter of the available memory is left to the programs.
        let memory = available_memory_bytes().map_or(free, |bytes| bytes / 4 * 3);
        return free.min(memory);
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vanishes_with_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(&Surroundings::default(), Some(parent.path()), 1 << 20).unwrap();
        let file = scratch.random_file("data", 3_000_001, 5).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), 3_000_001);
        let same = scratch.random_file("same", 3_000_001, 5).unwrap();
        assert_eq!(fs::read(&file).unwrap(), fs::read(&same).unwrap());
        let directory = scratch.empty_directory("out").unwrap();
        fs::write(directory.join("x"), "x").unwrap();
        scratch.empty_directory("out").unwrap();
        assert!(!directory.join("x").exists());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn refuses_a_place_without_room() {
        let parent = tempfile::tempdir().unwrap();
        let error = Scratch::create(&Surroundings::default(), Some(parent.path()), u64::MAX / 2).unwrap_err();
        assert!(matches!(error, LabError::NoRoom { .. }));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_directory_of_a_killed_lab_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::create(&Surroundings::default(), Some(parent.path()), 1 << 20).unwrap();
        let file = scratch.random_file("file", 1000, 1).unwrap();
        let cleanup = scratch.cleanup.take().unwrap();
        // Nobody else removes it.
        std::mem::forget(scratch);
        assert!(file.exists());
        // When the lab dies, the kernel closes the input in the same way.
        cleanup.run();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
