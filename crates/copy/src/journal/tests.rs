//! Tests of the journal in a real directory: locks, crashes, full disks.

#[path = "../../../../testing/skip.rs"]
mod skip;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const KEY: [u8; 16] = [0xA5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const NAME: &str = ".sealane-a50102030405060708090a0b0c0d0e0f.journal";

struct Target {
    directory: tempfile::TempDir,
    fd: File,
}

impl Target {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fd = File::open(directory.path()).unwrap();
        Self { directory, fd }
    }

    fn open(&self) -> (Journal, State) {
        Journal::open(self.fd.as_fd(), KEY, &[]).unwrap()
    }

    fn refusal(&self) -> io::Error {
        Journal::open(self.fd.as_fd(), KEY, &[]).unwrap_err()
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(NAME)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn identity(number: u32) -> Identity {
    let mut identity = [0x5A; 16];
    identity[..4].copy_from_slice(&number.to_le_bytes());
    identity
}

fn done(number: u32) -> Entry {
    Entry::Done { identity: identity(number), path: number.to_string().into_bytes() }
}

fn started(number: u32) -> Entry {
    let (temp_name, path) = (b".temp".to_vec(), b"a/b".to_vec());
    Entry::Started { identity: identity(number), temp_name, path, size: 1 << 30 }
}

fn range(number: u32, start: u64, end: u64) -> Entry {
    Entry::Range { identity: identity(number), start, end }
}

#[test]
fn what_was_appended_is_there_again() {
    let target = Target::new();
    let (journal, state) = target.open();
    assert_eq!(state, State::default());
    assert_eq!(target.names(), [NAME]);
    assert_eq!(fs::metadata(target.path()).unwrap().permissions().mode() & 0o7777, 0o600);
    journal.append(&[]).unwrap();
    journal.append(&[started(1), range(1, 0, 100), done(2), started(3)]).unwrap();
    journal.append(&[range(1, 100, 200), range(1, 500, 600), range(9, 0, 1), done(3)]).unwrap();
    drop(journal);

    let (journal, state) = target.open();
    assert_eq!(state.done, [(identity(2), b"2".to_vec()), (identity(3), b"3".to_vec())].into());
    assert_eq!(state.partial.len(), 1);
    let Partial { temp_name, path, size, mark, ledger } = &state.partial[&identity(1)];
    assert_eq!(*mark, None);
    assert_eq!((&temp_name[..], &path[..], *size), (&b".temp"[..], &b"a/b"[..], 1 << 30));
    assert_eq!(ledger.ranges().collect::<Vec<_>>(), [0..200, 500..600]);
    // Later entries continue from there.
    journal.append(&[done(1)]).unwrap();
    drop(journal);
    let (journal, state) = target.open();
    assert!(state.partial.is_empty() && state.done.len() == 3);
    journal.remove().unwrap();
    assert!(target.names().is_empty());
}

#[test]
fn one_transfer_holds_a_journal() {
    let target = Target::new();
    let (journal, _) = target.open();
    let refusal = target.refusal();
    assert_eq!(refusal.kind(), io::ErrorKind::ResourceBusy);
    assert_eq!(JournalError::of(&refusal), Some(&JournalError::InUse { name: NAME.to_owned() }));
    // Another key is another transfer.
    let (other, _) = Journal::open(target.fd.as_fd(), [0; 16], &[]).unwrap();
    assert_eq!(target.names().len(), 2);
    drop((journal, other));
    target.open();
}

#[test]
fn a_torn_end_is_cut_and_what_follows_is_read() {
    let target = Target::new();
    let (journal, _) = target.open();
    journal.append(&[done(1)]).unwrap();
    let first = fs::metadata(target.path()).unwrap().len();
    journal.append(&[started(2)]).unwrap();
    drop(journal);
    let whole = fs::read(target.path()).unwrap();
    for cut in 0..whole.len() {
        for tail in [&b""[..], &[0; 50], &[0xFF; 50]] {
            fs::write(target.path(), [&whole[..cut], tail].concat()).unwrap();
            let (journal, state) = target.open();
            assert_eq!(state.done.len(), usize::from(cut as u64 >= first));
            assert!(state.partial.is_empty());
            journal.append(&[done(7)]).unwrap();
            drop(journal);
            assert!(target.open().1.done.contains_key(&identity(7)), "cut at {cut}");
        }
    }
}

#[test]
fn a_long_journal_is_rewritten_and_says_the_same() {
    let target = Target::new();
    let (journal, _) = target.open();
    // A crash in the middle of an earlier rewrite leaves such a file.
    fs::write(target.path().with_extension("journal.new"), "half").unwrap();
    journal.append(&[started(1), done(2)]).unwrap();
    for step in 0..100 {
        let ranges: Vec<_> =
            (0..400).map(|at| range(1, (step * 400 + at) * 10, (step * 400 + at) * 10 + 10)).collect();
        journal.append(&ranges).unwrap();
    }
    drop(journal);
    let before = fs::metadata(target.path()).unwrap();
    assert!(before.len() > REWRITE_FROM_BYTES);
    let (journal, state) = target.open();
    let after = fs::metadata(target.path()).unwrap();
    assert_ne!(after.ino(), before.ino());
    assert_eq!(after.len(), state.compact_bytes());
    assert!(after.len() < 200);
    assert_eq!(after.permissions().mode() & 0o7777, 0o600);
    assert_eq!(target.names(), [NAME]);
    let ledger = &state.partial[&identity(1)].ledger;
    assert_eq!((ledger.covered_bytes(), ledger.range_count()), (400_000, 1));
    // The new file is locked, and grows like the old one.
    assert_eq!(target.refusal().kind(), io::ErrorKind::ResourceBusy);
    journal.append(&[done(3)]).unwrap();
    drop(journal);
    let (_, mut again) = target.open();
    assert!(again.done.remove(&identity(3)).is_some());
    assert_eq!(again, state);
}

#[test]
fn a_long_journal_with_much_to_say_stays() {
    let target = Target::new();
    let (journal, _) = target.open();
    journal.append(&(0..60_000).map(done).collect::<Vec<_>>()).unwrap();
    drop(journal);
    let before = fs::metadata(target.path()).unwrap();
    let (_journal, state) = target.open();
    assert_eq!(state.done.len(), 60_000);
    let after = fs::metadata(target.path()).unwrap();
    assert_eq!((after.ino(), after.len()), (before.ino(), before.len()));
}

#[test]
fn threads_append_whole_entries() {
    let target = Target::new();
    let (journal, _) = target.open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = &journal;
            scope.spawn(move || {
                for step in 0..200 {
                    let number = thread * 1000 + step * 2;
                    journal.append(&[done(number), done(number + 1)]).unwrap();
                }
            });
        }
    });
    drop(journal);
    assert_eq!(target.open().1.done.len(), 4 * 400);
}

#[test]
fn openers_and_removers_never_share() {
    let target = Target::new();
    let (holders, opened) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..1000 {
                    match Journal::open(target.fd.as_fd(), KEY, &[]) {
                        Ok((journal, _)) => {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two hold one journal");
                            journal.append(&[done(turn)]).unwrap();
                            opened.fetch_add(1, Ordering::SeqCst);
                            // The time is long enough for a second holder to appear.
                            std::thread::sleep(std::time::Duration::from_micros(200));
                            holders.fetch_sub(1, Ordering::SeqCst);
                            journal.remove().unwrap();
                        }
                        Err(error) => {
                            let error = JournalError::of(&error).unwrap();
                            assert!(matches!(
                                error,
                                JournalError::InUse { .. } | JournalError::Unsettled { .. }
                            ));
                        }
                    }
                }
            });
        }
    });
    assert!(opened.into_inner() > 0);
}

#[test]
fn a_journal_that_forgot_stays_and_goes_on() {
    let target = Target::new();
    let (journal, _) = target.open();
    journal.append(&[done(1), started(2)]).unwrap();
    journal.forget().unwrap();
    journal.append(&[done(3)]).unwrap();
    drop(journal);
    let (journal, state) = target.open();
    assert!(journal.is_resumed());
    assert_eq!(state.done.into_keys().collect::<Vec<_>>(), [identity(3)]);
    assert!(state.partial.is_empty());
}

#[test]
fn removing_leaves_what_others_put_there() {
    let target = Target::new();
    let (journal, _) = target.open();
    fs::remove_file(target.path()).unwrap();
    fs::write(target.path(), "another's").unwrap();
    journal.append(&[done(1)]).unwrap();
    journal.remove().unwrap();
    assert_eq!(fs::read(target.path()).unwrap(), b"another's");
    fs::remove_file(target.path()).unwrap();
    let (journal, _) = target.open();
    fs::remove_file(target.path()).unwrap();
    journal.remove().unwrap();
}

#[test]
fn what_is_no_plain_file_of_ours_is_left_alone() {
    let target = Target::new();
    let elsewhere = target.directory.path().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    let check = |put: &dyn Fn(&Path)| {
        put(&target.path());
        let refusal = target.refusal();
        assert_ne!(refusal.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
        if target.path().symlink_metadata().unwrap().is_dir() {
            fs::remove_dir(target.path()).unwrap();
        } else {
            fs::remove_file(target.path()).unwrap();
        }
        JournalError::of(&refusal).cloned()
    };
    let foreign = Some(JournalError::Foreign { name: NAME.to_owned() });
    assert_eq!(check(&|path| symlink(&elsewhere, path).unwrap()), None);
    assert_eq!(check(&|path| fs::create_dir(path).unwrap()), None);
    assert_eq!(check(&|path| fs::hard_link(&elsewhere, path).unwrap()), foreign);
    let fifo = |path: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    };
    assert_eq!(check(&fifo), foreign);
}

#[test]
fn a_journal_of_a_stranger_is_refused() {
    if !rustix::process::geteuid().is_root() {
        skip::skip("giving a file to another user takes root");
        return;
    }
    let target = Target::new();
    drop(target.open());
    std::os::unix::fs::chown(target.path(), Some(12_345), None).unwrap();
    assert!(matches!(JournalError::of(&target.refusal()), Some(JournalError::Foreign { .. })));
    // In that user's directory the file is as trustworthy as the directory.
    std::os::unix::fs::chown(target.directory.path(), Some(12_345), None).unwrap();
    target.open();
}

#[test]
fn a_directory_given_as_a_location_will_do() {
    let target = Target::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let location = rustix::fs::open(target.directory.path(), flags, Mode::empty()).unwrap();
    let (journal, _) = Journal::open(location.as_fd(), KEY, &[]).unwrap();
    journal.append(&[done(1)]).unwrap();
    journal.remove().unwrap();
}

/// A limit on the size of files cuts a write short and then fails it, as a full disk does. It holds for a whole
/// process, so this test runs itself again in one of its own.
#[test]
fn a_failed_append_leaves_no_torn_entry() {
    const UNDER_LIMIT: &str = "SEALANE_TEST_UNDER_FILE_LIMIT";
    if std::env::var_os(UNDER_LIMIT).is_none() {
        let module = module_path!().split_once("::").unwrap().1;
        let status = Command::new("sh")
            .args(["-c", "ulimit -f 8; trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::a_failed_append_leaves_no_torn_entry")])
            .env(UNDER_LIMIT, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&status.stdout);
        assert!(status.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let target = Target::new();
    let (journal, _) = target.open();
    let mut written = 0;
    let error = loop {
        // 16 entries do not end at a multiple of any block.
        let entries: Vec<_> = (written..written + 16).map(done).collect();
        match journal.append(&entries) {
            Ok(()) => written += 16,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the limit holds");
    };
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    // One entry still fits although 16 did not.
    journal.append(&[done(written)]).unwrap();
    drop(journal);
    let (_, state) = target.open();
    assert!(
        state.done.len() as u32 == written + 1
            && (0..=written).all(|number| state.done.contains_key(&identity(number)))
    );
}

/// The journal marks the folder as made by a killed run, so a run that fails before its first byte must leave it.
#[test]
fn one_that_an_earlier_run_opened_is_in_use_even_when_it_says_nothing() {
    let target = Target::new();
    let (first, _) = target.open();
    assert!(first.is_unused());
    drop(first);
    let (second, _) = target.open();
    assert!(!second.is_unused());
    drop(second);
    fs::remove_file(target.path()).unwrap();
    let (third, _) = target.open();
    third.append(&[done(1)]).unwrap();
    assert!(!third.is_unused());
}
