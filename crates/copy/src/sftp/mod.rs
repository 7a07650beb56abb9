//! Far ends that have only sshd: this end acts as the other end of the transfer, over SFTP.
//!
//! Guarantees: planning, comparison, filters and reports are the same as with a far end of our own. A push fills the
//! same batches of records, which become requests ([`put`]) instead of being sealed; in a pull replies become records
//! ([`get`]), which are processed like those of a stream. Properties that SFTP cannot keep are refused, or reported
//! by name.

mod adding;
mod compared;
mod far;
mod get;
mod link;
mod manners;
mod place;
mod prune;
mod pull;
mod push;
mod put;
mod reactor;
mod remains;
mod resume;
mod roots;
mod source;
mod sums;
mod survey;
mod texts;

use std::{rc::Rc, thread};

use crossbeam_channel::{Receiver, select, unbounded};
use sealane_engine::EngineChoice;

use crate::{
    error::{Error, ErrorKind},
    far_end::{FarEnd, Unbegun},
    options::{Compression, Delta, Level, MeasuredEnd, Options, Ownership, Pattern, Preserve, Sink},
    proto::message::Role,
    sftp::far::Far,
    shared::NO_THREAD,
    summary::{Agreement, Notice, Observer, Summary},
    transfer::{
        Transfer,
        far_place::FarPlace,
        outcome::{Outcome, Report},
    },
};

/// A far host that has only sshd.
pub(crate) struct Sshd<'a> {
    transfer: &'a Transfer<'a>,
    far: Rc<Far>,
}

impl<'a> FarEnd<'a> for Sshd<'a> {
    fn lacks(transfer: &Transfer<'_>) -> Option<String> {
        beyond_sftp(transfer.options, transfer.role)
    }

    fn begin(transfer: &'a Transfer<'a>) -> Result<Self, Unbegun> {
        let FarPlace::Ssh { user, host, port } = transfer.far else {
            let message = "SFTP needs a far end that is reached by ssh";
            return Err(Error::new(ErrorKind::Usage, message).into());
        };
        let (options, patience) = (transfer.options, transfer.patience());
        let login = options.remote.log_in(user.clone(), host.clone(), *port, patience)?;
        let (streams, timeout) = (options.streams, options.wishes.timeout);
        let far = Far::connect(login, host, streams, transfer.progress, timeout, patience)?;
        Ok(Self { transfer, far })
    }

    fn run(&mut self, observer: &mut dyn Observer) -> Result<Report, Error> {
        match self.transfer.role {
            Role::Push => push::run(self.transfer, &self.far, observer),
            Role::Pull => pull::run(self.transfer, &self.far, observer),
        }
    }

    fn end(self, outcome: Result<Summary, Error>) -> Result<Summary, Error> {
        if outcome.is_ok() {
            self.far.end();
        }
        outcome
    }
}

/// Returns what a copy has done whose data ssh has protected.
fn report(far: &Far, owner: Ownership, outcome: Outcome) -> Report {
    let tier = far.cipher().map_or_else(|| "by its own choice".into(), Into::into);
    let agreement = Agreement { streams: far.streams(), ..agreement() };
    Report { outcome, owner, agreement, tier, far_cpu_us: None }
}

/// Returns the terms that the user is told: ssh chooses its cipher itself.
fn agreement() -> Agreement {
    Agreement { suite: None, ..push::terms(1).agreement() }
}

/// Tells the user the terms, which are ssh's, and how much is not sent again.
fn tell_agreement(transfer: &Transfer<'_>, kept: &Preserve, resumed_bytes: u64, observer: &mut dyn Observer) {
    transfer.tell_agreement(agreement(), kept, observer);
    let (hard_links, xattrs) = (kept.hard_links, kept.xattrs);
    if transfer.role == Role::Pull && (hard_links || xattrs) {
        observer.notice(Notice::NotToldOverSftp { hard_links, xattrs });
    }
    if resumed_bytes > 0 {
        observer.notice(Notice::Resuming { bytes: resumed_bytes });
    }
}

/// Runs the work of a transfer while a thread passes on its notices.
fn told<T>(
    pending: &Receiver<Notice>,
    observer: &mut dyn Observer,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let (working, ended) = unbounded::<()>();
    thread::scope(|scope| {
        let hand_on = move || {
            loop {
                select! {
                    recv(pending) -> notice => match notice {
                        Ok(notice) => observer.notice(notice),
                        Err(_) => return,
                    },
                    recv(ended) -> _ => {
                        pending.try_iter().for_each(|notice| observer.notice(notice));
                        return;
                    }
                }
            }
        };
        thread::Builder::new()
            .name("notices".into())
            .spawn_scoped(scope, hand_on)
            .map_err(|error| Error::io(NO_THREAD, &error))?;
        let outcome = work();
        drop(working);
        outcome
    })
}

/// Returns an option of the user that only a far end of our own supports, if there is one.
fn beyond_sftp(options: &Options, role: Role) -> Option<String> {
    let wishes = &options.wishes;
    let is_pull = role == Role::Pull;
    let has_files = wishes.patterns.iter().any(Pattern::is_file);
    if wishes.level != Level::Private {
        return Some(format!("--level {}", wishes.level));
    }
    if let Some(suite) = options.suite {
        return Some(format!("--suite {}", suite.name()));
    }
    let compresses = matches!(wishes.compression, Compression::Zstd(_));
    let cases = [
        (
            compresses,
            "--compress (over SFTP there is nothing to compress with; -o Compression=yes lets ssh do it)",
        ),
        (
            wishes.delta == Delta::Always,
            "--delta=always (an SFTP server compares no versions; --delta=auto sends files whole)",
        ),
        (options.engine.to_string() != EngineChoice::default().to_string(), "--engine"),
        (wishes.digest, "--digest"),
        (has_files && is_pull, "--filter-file and --gitignore of a far source"),
        (
            has_files && wishes.upkeep.delete.is_some(),
            "--delete with --filter-file or --gitignore (what they exclude there is not known)",
        ),
        (wishes.upkeep.in_place, "--in-place (over SFTP files are always made beside the old ones)"),
        (wishes.preserve.specials, "-D (SFTP makes no devices, pipes or sockets)"),
        (wishes.preserve.acls, "--acls (SFTP has no access control lists)"),
        (
            wishes.preserve.names_principals() && !is_pull,
            "--chown by name (an SFTP server knows users and groups by number)",
        ),
        (wishes.upkeep.bases.is_some(), "a folder of an earlier copy"),
        (wishes.portion.is_some(), "a part of a file"),
        (wishes.sink == Sink::Null, "--sink null"),
        (wishes.measured_end != MeasuredEnd::Both, "--end"),
        (wishes.one_file_system && is_pull, "--one-file-system of a far source"),
        (wishes.upkeep.remove_sources && is_pull, "--remove-source-files of a far source"),
    ];
    cases.into_iter().find_map(|(is_asked, what)| is_asked.then(|| what.to_owned()))
}
