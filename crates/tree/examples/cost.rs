//! Measures the CPU time per small file: made in a target by each method, and read from a source.
//!
//! Run it with `cargo run --release -p sealane-tree --example cost -- DIRECTORY [ROUNDS]`. Each round makes 10,000
//! files of 4 KiB in 100 directories of a fresh tree below DIRECTORY, and leaves it there for the caller to remove:
//! removing them in between would make the next round pay for the file system's clean-up.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::umask;
use rustix::time::{ClockId, clock_gettime};
use sealane_tree::{
    EntryKind, Metadata, Naming, RelativePath, SmallFiles, Source, SourceRoot, Target, TargetOptions,
    Timestamp, WalkOptions,
};

const DIRECTORIES: usize = 100;
const FILES: usize = 100;
const FILE_BYTES: usize = 4096;

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let base = PathBuf::from(arguments.next().ok_or("give a directory")?);
    let rounds = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(3);
    umask(rustix::fs::Mode::empty());
    let data = vec![7; FILE_BYTES];
    let modified = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
    let metadata = Metadata { mode: 0o644, modified, size_bytes: FILE_BYTES as u64, ..Metadata::default() };
    let directory = Metadata { mode: 0o755, modified, ..Metadata::default() };
    let mut paths = Vec::new();
    for outer in 0..DIRECTORIES {
        for inner in 0..FILES {
            paths.push(RelativePath::new(format!("d{outer}/file{inner}"))?);
        }
    }
    for round in 0..rounds {
        for small_files in [SmallFiles::Linked, SmallFiles::Renamed, SmallFiles::DirectInNew] {
            let root = base.join(format!("cost-{}-{round}-{small_files:?}", std::process::id()));
            let options = TargetOptions { create_root: true, small_files, ..TargetOptions::default() };
            let target = Target::open(&root, options)?;
            let mut writer = target.writer();
            let start = cpu_time();
            for outer in 0..DIRECTORIES {
                writer.directory(&RelativePath::new(format!("d{outer}"))?, &directory)?;
            }
            for path in &paths {
                writer.small_file(path, &metadata, &data)?;
            }
            let made = cpu_time() - start;
            let start = cpu_time();
            target.finish_directories();
            let finished = cpu_time() - start;

            let start = cpu_time();
            for path in &paths {
                writer.small_file(path, &metadata, &data)?;
            }
            let replaced = cpu_time() - start;

            let source = Source::new(vec![SourceRoot::open(&root, &Naming::Contents, true)?]);
            let start = cpu_time();
            let entries: Vec<_> = source.walk(WalkOptions::default()).collect::<Result<_, _>>()?;
            let walked = cpu_time() - start;
            let mut reader = source.reader();
            let mut buffer = vec![0; FILE_BYTES];
            let start = cpu_time();
            for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
                reader.open(entry.root, &entry.path)?.read_at(0, &mut buffer)?;
            }
            let read = cpu_time() - start;
            println!(
                "{small_files:?}: made {made:?}, directories finished {finished:?}, replaced {replaced:?}, \
                 walked {walked:?}, read {read:?}"
            );
        }
    }
    Ok(())
}
