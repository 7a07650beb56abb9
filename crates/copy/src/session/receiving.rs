//! The end that receives, client or server, while data moves.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use sealane_tree::{Basis, Filter, Target};

use crate::{
    error::{Error, ErrorKind},
    proto::message::Message,
    receive::{lane::Receiving, permit::Permit},
    session::{
        control::Control,
        folders::{self, Telling},
        line::Lines,
        messages,
        survey::{self, Survey, starting_folders},
    },
    transfer::{
        claims,
        ends::Plan,
        filters::deletion_filter,
        known::Knowing,
        outcome::Outcome,
        receiving::{Opened, ReceivingSide, give_up},
    },
};

impl ReceivingSide<'_> {
    pub(crate) fn run(
        self,
        control: &mut Control<'_>,
        keep: impl FnOnce(&Lines) + Send,
    ) -> Result<Outcome, Error> {
        let account = Account::of(&self)?;
        let Opened { mut receiving, prune, present, bases } = self.open(control.progress.clone())?;
        control.prune = prune;
        control.progress.is_comparing.store(true, Relaxed);
        let told = account.tell(control, &mut receiving, present.as_ref(), &bases);
        control.progress.is_comparing.store(false, Relaxed);
        let receiving = Arc::new(receiving);
        let outcome = told.and_then(|()| control.receive_all(&receiving, keep));
        if let Err(error) = &outcome {
            give_up(&receiving, error);
        }
        outcome
    }
}

/// An account of the target, which the sender gets before it sends anything.
struct Account<'a> {
    plan: &'a Plan,
    permit: Permit,
    filter: Filter,
}

/// How folders are compared by their digests, and where that begins.
struct ByFolders {
    rules: folders::Rules,
    starts: Vec<Vec<u8>>,
}

impl<'a> Account<'a> {
    fn of(side: &ReceivingSide<'a>) -> Result<Self, Error> {
        let plan = side.plan;
        // Excluded entries are not compared, so that they make no folder differ, unless they are to be deleted.
        let filter = deletion_filter(&plan.wishes)?;
        Ok(Self { plan, permit: side.permit.clone(), filter })
    }

    /// Returns the number of threads that read content, if that is compared.
    fn readers(&self) -> Option<u16> {
        let reads =
            self.plan.wishes.upkeep.checksum || (self.plan.compares_content() && self.plan.wishes.skip_same);
        reads.then_some(self.plan.terms.lanes)
    }

    /// Decides whether folders are compared by their digests.
    fn by_folders(&self, target: &Target) -> Result<Option<ByFolders>, Error> {
        let (plan, permit) = (self.plan, &self.permit);
        let by_folders = plan.wishes.skip_same
            && self.readers().is_none()
            && permit.is_recursive()
            && !permit.is_list()
            && plan.wishes.portion.is_none()
            && !plan.removes_sources();
        let Some(key) = plan.folders_key.as_ref().filter(|_| by_folders) else { return Ok(None) };
        let starts = starting_folders(target, permit)?;
        // If there is nothing to compare, the sender would walk its whole tree for nothing.
        let has_entries = starts.iter().any(|path| target.has_entries(path));
        Ok(has_entries.then(|| ByFolders { rules: folders::Rules::new(key, &plan.wishes.preserve), starts }))
    }

    fn tell(
        self,
        control: &mut Control<'_>,
        receiving: &mut Receiving,
        present: Option<&Target>,
        bases: &[Basis],
    ) -> Result<(), Error> {
        let (plan, checksum) = (self.plan, self.readers());
        let (lanes, versions) = (plan.terms.lanes, plan.compares_versions());
        let is_surveyed = plan.wishes.skip_same || plan.wishes.update || checksum.is_some() || versions;
        let surveyed = present.filter(|_| is_surveyed);
        let by_folders = surveyed.map(|target| self.by_folders(target)).transpose()?.flatten();
        let survey = surveyed.map(|target| Survey {
            target,
            permit: self.permit.clone(),
            wishes: &plan.wishes,
            checksum,
            without_folders: by_folders.is_some(),
            versions,
            movable: plan.finds_moved().then_some(&receiving.files.movable),
        });
        let mut tell = |message: Message| {
            if control.progress.cancel.load(Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
            }
            if let Message::Have(have) = &message {
                control.progress.bytes_checked.store(have.checked.bytes, Relaxed);
                control.progress.bytes_to_check.store(have.checked.of_bytes, Relaxed);
            }
            messages::send(control.channel, &message)
        };
        let target = receiving.files.target().cloned();
        let rules = claims::Rules { threads: lanes, trust: plan.wishes.trust_partial };
        claims::tell(target.as_ref(), &mut receiving.files.resumable, rules, &mut tell)?;
        // The target's own files are told later, and so count more.
        folders::tell_bases(bases, (lanes, versions), &mut tell)?;
        if let Some(target) = present.filter(|_| plan.wishes.upkeep.existing.matters()) {
            folders::tell_names(target, &self.permit, lanes, &mut tell)?;
        }
        survey::possessions(&receiving.files.resumable, survey, by_folders.is_none(), &mut tell)?;
        let Some((target, ByFolders { rules, starts })) = surveyed.zip(by_folders) else { return Ok(()) };
        let permit = &self.permit;
        let is_named = permit.names().is_some() || permit.has_patterns() || permit.is_unnamed();
        let (filter, xattrs) = ((self.filter, is_named), rules.xattrs());
        let all = target.folders(starts, xattrs, true, filter);
        let movable = plan.finds_moved().then_some(&receiving.files.movable);
        let telling = Telling { knowing: Knowing::of(&plan.wishes), versions, movable };
        folders::tell(control, &rules, &all, &receiving.files.strays, (lanes, telling))
    }
}
