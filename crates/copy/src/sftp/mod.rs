//! Far ends that have only sshd: this end acts as the other end of the transfer, over SFTP.
//!
//! Guarantees: planning, comparison, filters and reports are the same as with a far end of our own. A push fills the
//! same batches of records, which become requests ([`put`]) instead of being sealed; in a pull replies become records
//! ([`get`]), which are processed like those of a stream. Properties that SFTP cannot keep are refused, or reported
//! by name.

mod adding;
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

use std::thread;

use crossbeam_channel::{Receiver, select, unbounded};
use sealane_engine::EngineChoice;

use crate::{
    error::{Error, ErrorKind},
    options::{Compression, Delta, Level, MeasuredEnd, Options, Pattern, Sink},
    proto::message::Role,
    sftp::far::Far,
    shared::NO_THREAD,
    summary::{Notice, Observer, Summary},
    transfer::{Transfer, far_place::FarPlace},
};

/// Copies to or from a far host by its SFTP server: on request, or because the host has no sealane, as described by
/// `absence`.
pub(crate) fn copy(
    transfer: &Transfer<'_>,
    absence: Option<Error>,
    observer: &mut dyn Observer,
) -> Result<Summary, Error> {
    let FarPlace::Ssh { user, host, port } = transfer.far else {
        return Err(Error::new(ErrorKind::Usage, "SFTP needs a far end that is reached by ssh"));
    };
    if let Some(what) = beyond_sftp(transfer.options, transfer.role) {
        return Err(match absence {
            Some(_) => Error::new(
                ErrorKind::Refused,
                format!(
                    "{host} has no sealane, and {what} needs it there; --install-far-end copies it to {host}, \
                     --remote-program says where it is"
                ),
            ),
            None => Error::new(ErrorKind::Usage, format!("{what} needs sealane at the far end")),
        });
    }
    let options = transfer.options;
    let (streams, patience) = (options.streams, transfer.patience());
    let connected = options.remote.log_in(user.clone(), host.clone(), *port, patience).and_then(|login| {
        Far::connect(login, host, streams, transfer.progress, options.wishes.timeout, patience)
    });
    let far = match (connected, absence) {
        (Ok(far), None) => far,
        (Ok(far), Some(_)) => {
            observer.notice(Notice::OverSftp { host: host.clone() });
            far
        }
        (Err(error), None) => return Err(error),
        // The user can act on the first reason.
        (Err(error), Some(absence)) => return Err(absence.advising(&format!("nor does SFTP go: {error}"))),
    };
    let outcome = match transfer.role {
        Role::Push => push::run(transfer, &far, observer),
        Role::Pull => pull::run(transfer, &far, observer),
    };
    if outcome.is_ok() {
        far.end();
    }
    outcome
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
