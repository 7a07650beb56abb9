//! Trees to copy, and the contents that a copy must have and must not have.

use super::Chance;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Prefix of the names of unfinished files.
const OWN_PREFIX: &str = ".sealane-";

/// Maximum number of differences that are reported.
const MENTIONED: usize = 6;

/// The tree that [`make`] makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) small_files: usize,
    pub(crate) small_bytes_max: u64,
    /// Sizes of the large files.
    pub(crate) large_bytes: &'static [usize],
    /// Size of a file that is mostly holes, if there is one.
    pub(crate) sparse_bytes: Option<u64>,
}

/// Makes a tree and returns its content bytes.
pub(crate) fn make(root: &Path, shape: Shape, chance: &mut Chance) -> u64 {
    for folder in 0..8 {
        fs::create_dir_all(root.join(format!("d{folder}/empty"))).expect("folders");
    }
    for number in 0..shape.small_files {
        let bytes = chance.below(shape.small_bytes_max) as usize;
        let path = root.join(format!("d{}/s{number}", number % 8));
        fs::write(path, chance.bytes(bytes)).expect("a file");
    }
    for (number, &bytes) in shape.large_bytes.iter().enumerate() {
        fs::write(root.join(format!("d{number}/large{number}")), chance.bytes(bytes)).expect("a file");
    }
    if let Some(bytes) = shape.sparse_bytes {
        let file = File::create(root.join("d7/sparse")).expect("a file");
        file.set_len(bytes).expect("a size");
        for _ in 0..6 {
            let island = chance.bytes(1 + chance.clone().below(200_000) as usize);
            let at = chance.below(bytes - island.len() as u64);
            file.write_all_at(&island, at).expect("an island");
        }
    }
    files(root).values().map(|path| fs::metadata(path).expect("metadata").len()).sum()
}

fn gather(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, PathBuf>, folders: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let relative = path.strip_prefix(root).expect("it lies below").to_owned();
        // An entry that vanishes in the meantime was not under its final name.
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_dir() {
            folders.push(relative);
            gather(root, &path, found, folders);
        } else {
            found.insert(relative, path);
        }
    }
}

/// Returns everything below `root` except for folders, by its relative path.
pub(crate) fn files(root: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let mut found = BTreeMap::new();
    gather(root, root, &mut found, &mut Vec::new());
    found
}

fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OWN_PREFIX))
}

/// Returns the program's leftovers.
pub(crate) fn leftovers(target: &Path) -> Vec<PathBuf> {
    files(target).into_keys().filter(|path| is_own(path)).collect()
}

/// Returns the program's leftovers directly in one folder.
pub(crate) fn leftovers_in(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    paths.filter(|path| is_own(path)).collect()
}

fn same_content(a: &Path, b: &Path) -> bool {
    match (fs::read(a), fs::read(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Returns files that have their final names in `target` but differ from those in `source`. The list must be empty at
/// any time.
pub(crate) fn wrong(source: &Path, target: &Path) -> Vec<PathBuf> {
    let originals = files(source);
    let is_wrong = |(relative, path): (PathBuf, PathBuf)| {
        let right = originals.get(&relative).is_some_and(|original| same_content(original, &path));
        (!is_own(&relative) && !right).then_some(relative)
    };
    files(target).into_iter().filter_map(is_wrong).take(MENTIONED).collect()
}

/// Returns the files that have their final names.
pub(crate) fn placed(target: &Path) -> Vec<PathBuf> {
    files(target).into_iter().filter(|(relative, _)| !is_own(relative)).map(|(_, path)| path).collect()
}

/// Returns the number of bytes in them.
pub(crate) fn placed_bytes(target: &Path) -> u64 {
    placed(target).iter().map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len())).sum()
}

/// Returns the differences between two trees, roots included: names, kinds, contents, modes, times.
pub(crate) fn differences(source: &Path, target: &Path) -> Vec<String> {
    let list = |root: &Path| {
        let (mut found, mut folders) = (BTreeMap::new(), Vec::new());
        gather(root, root, &mut found, &mut folders);
        folders.sort();
        (found, folders)
    };
    let ((originals, folders), (copies, copied_folders)) = (list(source), list(target));
    let mut differences = Vec::new();
    if folders != copied_folders {
        differences.push(format!("folders: {folders:?} and {copied_folders:?}"));
    }
    for (relative, path) in copies.iter().filter(|(relative, _)| !originals.contains_key(*relative)) {
        let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
        differences.push(format!("{} of {bytes} bytes is too much", relative.display()));
    }
    let state = |path: &Path| {
        let found = fs::metadata(path).expect("metadata");
        (found.mode(), found.mtime(), found.mtime_nsec())
    };
    for folder in folders.iter().filter(|&folder| copied_folders.contains(folder)).chain([&PathBuf::new()]) {
        let (a, b) = (state(&source.join(folder)), state(&target.join(folder)));
        if a != b {
            differences.push(format!("folder {:?} has another mode or time: {a:?}, {b:?}", folder.display()));
        }
    }
    for (relative, original) in &originals {
        let name = relative.display();
        let Some(copy) = copies.get(relative) else {
            differences.push(format!("{name} is missing"));
            continue;
        };
        if state(original) != state(copy) {
            differences.push(format!("{name} has another mode or time"));
        }
        if !same_content(original, copy) {
            differences.push(format!("{name} has other content"));
        }
    }
    differences.truncate(MENTIONED);
    differences
}
