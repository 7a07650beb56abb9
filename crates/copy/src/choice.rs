//! The choice of a far end: a sealane where the host has one, its SFTP server otherwise, or what the user wants.
//!
//! Guarantees: this file alone knows both far ends; another one is tried only if the host was reached and no sealane answered
//! there, and if it cannot do what was asked for, the user learns what is missing.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use sealane_peer::Location;

use crate::{
    error::{Error, ErrorKind},
    far_end::{self, FarEnd, Unbegun},
    options::{FarEndChoice, Options},
    proto::message::Role,
    session::{client::Sealane, relay},
    sftp::Sshd,
    summary::{Notice, Observer, Progress, Summary},
    transfer::{
        Transfer,
        far_place::FarPlace,
        roles::{Roles, make_sense, roles},
    },
};

/// Copies `sources` to `target`. If both are remote, sealed data passes through this host unchanged.
///
/// A source or target that is the local path `-` is standard input or output.
///
/// # Errors
/// Fails if the transfer as a whole failed. Entries that failed individually are counted in the summary and reported
/// to the observer.
pub fn copy(
    sources: &[Location],
    target: &Location,
    options: &Options,
    progress: &Arc<Progress>,
    observer: &mut dyn Observer,
) -> Result<Summary, Error> {
    let started = Instant::now();
    make_sense(sources, target, options)?;
    let far_host = &OnceLock::new();
    let (role, far) = match roles(sources, target)? {
        Roles::Here { role, far } => (role, far),
        Roles::Neither => {
            let (role, far) = (Role::Push, &FarPlace::of(target));
            return relay::copy(
                &Transfer { sources, target, options, progress, role, far, started, far_host },
                observer,
            );
        }
    };
    let transfer = Transfer { sources, target, options, progress, role, far: &far, started, far_host };
    let FarPlace::Ssh { host, .. } = &far else {
        return far_end::copy(Sealane::begin(&transfer)?, &transfer, observer);
    };
    if options.remote.far_end == FarEndChoice::Sftp {
        if let Some(what) = Sshd::lacks(&transfer) {
            return Err(Error::new(ErrorKind::Usage, format!("{what} needs sealane at the far end")));
        }
        return far_end::copy(Sshd::begin(&transfer)?, &transfer, observer);
    }
    match Sealane::begin(&transfer) {
        Ok(sealane) => far_end::copy(sealane, &transfer, observer),
        Err(Unbegun::Absent(absence)) => {
            far_end::copy(instead(&transfer, host, absence, observer)?, &transfer, observer)
        }
        Err(Unbegun::Failed(error)) => Err(error),
    }
}

/// Returns the SFTP server of a host that has no sealane.
fn instead<'a>(
    transfer: &'a Transfer<'a>,
    host: &str,
    absence: Error,
    observer: &mut dyn Observer,
) -> Result<Sshd<'a>, Error> {
    if let Some(what) = Sshd::lacks(transfer) {
        return Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{host} has no sealane, and {what} needs it there; --install-far-end copies it to {host}, \
                 --remote-program says where it is"
            ),
        ));
    }
    match Sshd::begin(transfer) {
        Ok(sshd) => {
            observer.notice(Notice::OverSftp { host: host.to_owned() });
            Ok(sshd)
        }
        // The user can act on the first reason.
        Err(error) => Err(absence.advising(&format!("nor does SFTP go: {}", Error::from(error)))),
    }
}
