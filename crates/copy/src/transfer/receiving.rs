//! The end that receives, client or server.
//!
//! Guarantees: a failed transfer leaves everything that the same command needs to continue, and after an alteration
//! nothing that is trusted; one run at a time holds a journal.

use std::{
    io::ErrorKind as IoKind,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::Sender;
use sealane_tree::{Basis, Target};

use crate::{
    error::{Error, ErrorKind},
    journal::{Entry as JournalEntry, Journal, JournalError, State as JournalState, covered},
    options::{ModeRules, Pattern, Sink},
    receive::{
        files::{Destination, Files},
        lane::Receiving,
        permit::Permit,
        prune::{self, Prune},
    },
    summary::{Notice, Progress},
    transfer::{
        ends::{self, Plan},
        filters::deletion_filter,
        place::ResolvedTarget,
    },
};

/// The time to wait for a journal that another run holds.
const IN_USE_PATIENCE: Duration = Duration::from_secs(3);

/// The end that receives, client or server.
pub(crate) struct ReceivingSide<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) place: Option<ResolvedTarget>,
    pub(crate) standard_output: Option<OwnedFd>,
    pub(crate) modes: ModeRules,
    /// The sender may set the owners of its files.
    pub(crate) may_own: bool,
    /// The names that may arrive.
    pub(crate) permit: Permit,
    pub(crate) notices: Sender<Notice>,
}

impl ReceivingSide<'_> {
    /// Opens the target and its journal.
    pub(crate) fn open(mut self, progress: Arc<Progress>) -> Result<Opened, Error> {
        let plan = self.plan;
        if plan.wishes.upkeep.delete.is_some() {
            prune::check(&self.permit)?;
        }
        let (destination, Whereabouts { journal, present, bases }) = self.destination()?;
        let prune = self.prune(present.as_ref())?;
        let receiving = ends::receiving(plan, destination, self.permit, journal, self.notices, progress)?;
        Ok(Opened { receiving, prune, present, bases })
    }

    /// Decides where content goes, and opens what is there: standard output, a tree, the tree that a dry run looks at, or nothing.
    fn destination(&mut self) -> Result<(Destination, Whereabouts), Error> {
        let plan = self.plan;
        let writes = plan.wishes.sink == Sink::Files && !plan.wishes.dry_run;
        let mut found = Whereabouts::default();
        let destination = match (self.standard_output.take(), &self.place) {
            (Some(output), _) if !plan.wishes.dry_run => Destination::Output(Mutex::new(output.into())),
            (None, Some(place)) if writes => {
                let sole = place.name.as_deref();
                let bases = plan.wishes.upkeep.bases.as_ref().filter(|_| plan.wishes.skip_same);
                let bases = bases.map_or_else(|| Ok(Vec::new()), |bases| place.bases(&bases.folders))?;
                found.bases.clone_from(&bases);
                let options =
                    ends::target_options(plan, self.may_own, self.modes, place.journal, sole, bases);
                let target = Target::build(&place.root, options).map_err(|error| place.explain(error))?;
                let shown = place.shown();
                let covered = covered(self.permit.covers());
                let open = |name| open_journal(&target, name, &shown, &covered);
                found.journal = place.journal.map(open).transpose()?;
                if found.journal.as_ref().is_some_and(|(journal, _)| journal.is_resumed()) {
                    target.expect_leftovers();
                }
                found.present = self.examines().then(|| target.clone());
                Destination::Tree { target, sole: place.name.clone(), shown }
            }
            (_, Some(place)) if plan.wishes.dry_run && plan.wishes.sink == Sink::Files => {
                // The writer examines an existing target, but creates nothing.
                let options = ends::target_options(plan, self.may_own, self.modes, None, None, Vec::new());
                let existing = place.root.exists().then_some(&place.root);
                found.present = existing.map(|root| Target::build(root, options)).transpose()?;
                Destination::Preview {
                    target: found.present.clone(),
                    sole: place.name.clone(),
                    shown: place.shown(),
                }
            }
            (_, _) if plan.wishes.dry_run => {
                Destination::Preview { target: None, sole: None, shown: PathBuf::new() }
            }
            (_, _) => Destination::Null,
        };
        Ok((destination, found))
    }

    /// Returns whether the target is examined before anything arrives, or in the end.
    fn examines(&self) -> bool {
        let plan = self.plan;
        let compares = plan.compares_content() || plan.compares_versions();
        let surveys =
            plan.wishes.skip_same || plan.wishes.update || compares || plan.wishes.upkeep.existing.matters();
        surveys || plan.wishes.upkeep.delete.is_some()
    }

    /// Returns the deletion at the end, if it is asked for.
    ///
    /// # Errors
    /// Fails if files of filters do not arrive here, so that nobody knows what they exclude.
    fn prune(&self, present: Option<&Target>) -> Result<Option<Prune>, Error> {
        let plan = self.plan;
        let (Some(deletion), Some(target)) = (plan.wishes.upkeep.delete, present) else { return Ok(None) };
        let filter = deletion_filter(&plan.wishes)?;
        let name = |pattern: &Pattern| match pattern {
            Pattern::File(name) => Some(name.clone()),
            Pattern::GitIgnore => Some(".gitignore".to_owned()),
            Pattern::Include(_) | Pattern::Exclude(_) => None,
        };
        let is_missing = |name: &String| filter.decides(name.as_bytes(), false) == Some(false);
        if let Some(name) =
            plan.wishes.patterns.iter().filter_map(name).find(|name| !deletion.excluded && is_missing(name))
        {
            let message = format!(
                "files {name} are excluded themselves, so that the target would not know what they exclude from --delete"
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let backup = ends::backups(plan, self.place.as_ref().and_then(|place| place.name.as_deref()));
        Ok(Some(Prune {
            rules: filter.has_files().then(|| Mutex::new(target.rules(&filter))),
            one_file_system: plan.wishes.one_file_system,
            ..Prune::new(target.clone(), self.permit.clone(), filter, &plan.wishes, backup)
        }))
    }
}

/// A target before anything arrives.
#[derive(Default)]
struct Whereabouts {
    journal: Option<(Journal, JournalState)>,
    /// The target, if it is examined.
    present: Option<Target>,
    /// The folders of earlier copies.
    bases: Vec<Basis>,
}

/// An open target, and the known state of it.
pub(crate) struct Opened {
    pub(crate) receiving: Receiving,
    /// The deletion at the end, if requested.
    pub(crate) prune: Option<Prune>,
    /// The target for examinations before anything arrives, if that is useful.
    pub(crate) present: Option<Target>,
    /// The folders of earlier copies.
    pub(crate) bases: Vec<Basis>,
}

/// Everything has arrived: gives folders their modes and times, and flushes them if that is asked for. After each notice `told`
/// is called.
pub(crate) fn finish_folders(
    files: &Files,
    mut told: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let Destination::Tree { target, .. } = &files.destination else { return Ok(()) };
    let report = target.finish_directories();
    // Only the number of the remaining errors is known.
    files.counters.failed.fetch_add(report.failed - report.errors.len() as u64, Relaxed);
    for error in report.errors {
        files.folder_failed(error);
        told()?;
    }
    if files.intake.treatment.fsync {
        target.sync()?;
    }
    Ok(())
}

/// Leaves the results of a failed transfer such that the same command can continue, or, without a journal, in their
/// final state.
pub(crate) fn give_up(receiving: &Receiving, error: &Error) {
    let files = &receiving.files;
    let Some(journal) = &files.journal else {
        files.close_all(true);
        files.withdraw_successors();
        files.abandon_folders();
        return;
    };
    let made = files.open_count() > 0 || files.made_folders();
    // Verified content may be continued; after an alteration nothing is trusted.
    let altered = error.kind == ErrorKind::Integrity;
    files.close_all(altered);
    if altered {
        files.withdraw_successors();
    }
    files.restore_modes();
    // Once a byte has arrived, even an empty journal informs the next run that existing entries were made here, if
    // any were.
    let untouched = (receiving.first_byte.get().is_none() || !made) && journal.is_unused();
    // The reason why the transfer failed is the one to report.
    let _ = if untouched {
        journal.remove()
    } else if altered {
        journal.forget()
    } else {
        Ok(())
    };
}

fn open_journal(
    target: &Target,
    name: [u8; 16],
    shown: &Path,
    covered: &[JournalEntry],
) -> Result<(Journal, JournalState), Error> {
    let root = target.open_root()?;
    let (journal, mut state) = hold_journal(root.as_fd(), name, shown, covered)?;
    ends::check_presence(target, &mut state);
    ends::restore_modes(target, &state);
    Ok((journal, state))
}

/// Opens a journal in a folder, and waits for a run that is about to end. A new one begins with the entries `first`.
pub(crate) fn hold_journal(
    folder: BorrowedFd<'_>,
    name: [u8; 16],
    shown: &Path,
    first: &[JournalEntry],
) -> Result<(Journal, JournalState), Error> {
    let in_use = |error: &std::io::Error| matches!(JournalError::of(error), Some(JournalError::InUse { .. }));
    // The far end of a run that was killed a moment ago may not have ended yet.
    let give_up = Instant::now() + IN_USE_PATIENCE;
    let opened = loop {
        match Journal::open(folder, name, first) {
            Err(error) if in_use(&error) && Instant::now() < give_up => {
                thread::sleep(Duration::from_millis(20));
            }
            opened => break opened,
        }
    };
    opened.map_err(|error| {
        if in_use(&error) {
            Error::new(
                ErrorKind::Refused,
                "the same copy is running already; wait for it, or use --no-resume to run beside it",
            )
        } else if matches!(error.kind(), IoKind::PermissionDenied | IoKind::ReadOnlyFilesystem) {
            // If no journal can be created, nothing else could be written either.
            Error::io(&format!("cannot write to {}", shown.display()), &error)
        } else {
            Error::io(&format!("cannot keep a journal in {}", shown.display()), &error)
                .advising("use --no-resume to copy without one")
        }
    })
}

/// Returns the journal's name during this boot of the kernel. Data that a kernel had not written when it crashed is
/// lost, but a journal might claim it; so after a reboot the copy starts anew.
pub(crate) fn this_boot(name: [u8; 16]) -> [u8; 16] {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut mixed = [0; 16];
    blake3::Hasher::new().update(&name).update(&boot).finalize_xof().fill(&mut mixed);
    mixed
}
