//! The options of a run's sessions, as its order carries them: values of closed types, never arguments of a program.
//!
//! Guarantees: whoever reads them knows every field, and one that means nothing here is an error; how this host finds its
//! own files and programs is not among them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sealane_copy::{AddressFamily, Delta, FarEndChoice, Options, Placement, RemoteOptions, Suite, Wishes};
use serde::{Deserialize, Serialize};

use crate::error::{FleetError, Result};

/// The options that every mover of a run applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The options that both ends of a session obey; the rate is that of one session.
    pub(crate) wishes: Wishes,
    suite: Option<String>,
    streams: Option<u16>,
    lanes: Option<u16>,
    placement: Option<String>,
    through_ssh: bool,
    resume: bool,
    engine: String,
    reach: Reach,
}

/// How targets are reached. Files are those of the mover's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reach {
    port: Option<u16>,
    family: Option<Family>,
    ssh_identity: Option<Vec<u8>>,
    ssh_options: Vec<String>,
    ssh_config: Option<Vec<u8>>,
    ssh_jump: Option<String>,
    far_end: FarEndChoice,
    remote_program: Option<String>,
    identity: Option<Vec<u8>>,
    known_peers: Option<Vec<u8>>,
    accept_new: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Family {
    V4,
    V6,
}

impl Settings {
    /// Returns the part of the options that a run's movers apply.
    pub(crate) fn of(options: &Options) -> Self {
        let remote = &options.remote;
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| everywhere(path).into_os_string().into_encoded_bytes())
        };
        Self {
            wishes: options.wishes.clone(),
            suite: options.suite.map(|suite| suite.to_string()),
            streams: options.streams,
            lanes: options.lanes,
            placement: options.placement.map(|placement| placement.to_string()),
            through_ssh: options.through_ssh,
            resume: options.resume,
            engine: options.engine.to_string(),
            reach: Reach {
                port: remote.port,
                family: remote.family.map(|family| match family {
                    AddressFamily::V4 => Family::V4,
                    AddressFamily::V6 => Family::V6,
                }),
                ssh_identity: path(&remote.ssh_identity),
                ssh_options: remote.ssh_options.clone(),
                ssh_config: path(&remote.ssh_config),
                ssh_jump: remote.ssh_jump.clone(),
                far_end: remote.far_end,
                remote_program: remote.remote_program.clone(),
                identity: path(&remote.identity),
                known_peers: path(&remote.known_peers),
                accept_new: remote.accept_new,
            },
        }
    }

    /// Returns the options of a session, over those that belong to this host (`base`).
    ///
    /// # Errors
    /// Fails if a value means nothing to this program, or if a file is not on this host.
    pub(crate) fn options(&self, base: &Options) -> Result<Options> {
        let reach = &self.reach;
        let unknown = |error: &dyn std::fmt::Display| FleetError::Protocol(error.to_string());
        let suite = self.suite.as_deref().map(str::parse::<Suite>).transpose();
        let placement = self.placement.as_deref().map(str::parse::<Placement>).transpose();
        let options = Options {
            // Shares are small, and come from many sources at a time.
            wishes: Wishes {
                recursive: true,
                delta: Delta::Never,
                trust_partial: false,
                ..self.wishes.clone()
            },
            suite: suite.map_err(|error| unknown(&error))?,
            streams: self.streams,
            lanes: self.lanes,
            placement: placement.map_err(|error| unknown(&error))?,
            through_ssh: self.through_ssh,
            resume: self.resume,
            engine: self.engine.parse().map_err(|error| unknown(&error))?,
            remote: RemoteOptions {
                port: reach.port,
                family: reach.family.map(|family| match family {
                    Family::V4 => AddressFamily::V4,
                    Family::V6 => AddressFamily::V6,
                }),
                ssh_identity: reach.ssh_identity.as_ref().map(|path| owned(path)),
                ssh_options: reach.ssh_options.clone(),
                ssh_config: config(&reach.ssh_config)?,
                ssh_jump: reach.ssh_jump.clone(),
                far_end: reach.far_end,
                remote_program: reach.remote_program.clone(),
                identity: reach.identity.as_ref().map(|path| owned(path)),
                known_peers: reach.known_peers.as_ref().map(|path| owned(path)),
                accept_new: reach.accept_new,
                ..base.remote.clone()
            },
            ..base.clone()
        };
        options.agreed_suite()?;
        Ok(options)
    }
}

fn owned(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}

/// Returns the path under which other hosts look for a file: they have other folders to begin from. ssh reads `~` and
/// `none` itself.
fn everywhere(path: &Path) -> PathBuf {
    if path == Path::new("none") || path.as_os_str().as_bytes().starts_with(b"~") {
        return path.to_owned();
    }
    // A path that cannot be made absolute is left as it is: it will not be found.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns ssh's configuration file, which must be on this host: ssh ends without it.
fn config(path: &Option<Vec<u8>>) -> Result<Option<PathBuf>> {
    let Some(path) = path.as_ref().map(|path| owned(path)) else { return Ok(None) };
    if !path.is_absolute() || path.exists() {
        return Ok(Some(path));
    }
    Err(FleetError::Unfit(format!(
        "-F {}: there is no such file on this host; between many hosts it is read on each source, too",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{decode, encode};
    use sealane_copy::{Level, Pattern};
    use std::time::Duration;

    #[test]
    fn options_arrive_as_they_were_given() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("config");
        std::fs::write(&config, "").expect("a file");
        let mut given = Options::default();
        given.wishes.recursive = true;
        given.wishes.level = Level::Safe;
        given.suite = Some("aes-128-gmac".parse().expect("a suite"));
        given.streams = Some(3);
        given.wishes.dry_run = true;
        given.placement = Some("packet".parse().expect("a placement"));
        given.wishes.limit_rate = Some(1000);
        given.wishes.patterns = vec![Pattern::Exclude("*.o".into()), Pattern::Include("*".into())];
        given.wishes.sizes.max_bytes = Some(1 << 40);
        given.engine = "lanes:2".parse().expect("an engine");
        given.wishes.timeout = Duration::from_millis(1500);
        given.wishes.preserve.hard_links = true;
        given.remote.family = Some(AddressFamily::V6);
        given.remote.ssh_config = Some(config.clone());
        given.remote.ssh_options = vec!["A=1".into()];
        given.remote.far_end = FarEndChoice::Sealane;
        // A run's movers compare no versions, and its order does not say so.
        given.wishes.delta = Delta::Never;
        let sent: Settings = decode(&encode(&Settings::of(&given))).expect("it reads back");
        let read = sent.options(&Options::default()).expect("it means something");
        assert_eq!(format!("{read:?}"), format!("{given:?}"));
        // A host's own program stays.
        let mut base = Options::default();
        base.remote.ssh_program = Some("/bin/its-ssh".into());
        let read = sent.options(&base).expect("it means something");
        assert_eq!(read.remote.ssh_program, base.remote.ssh_program);
        std::fs::remove_file(&config).expect("it is there");
        let missing = sent.options(&base);
        assert!(matches!(&missing, Err(FleetError::Unfit(why)) if why.contains("-F")), "{missing:?}");
        assert!(Settings { engine: "rocket".into(), ..sent }.options(&base).is_err());
    }
}
