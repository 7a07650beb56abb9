//! The agreement of two ends before data moves.
//!
//! Guarantees: the requested level and suite are met or refused, never lowered; a broken or outdated suite needs the
//! consent of the user at the client and, at a daemon, of its operator as well.

use sealane_engine::Suite;
use sealane_engine::record::Secret;
use sealane_lanes::Placement;
use sealane_peer::Channel;
use sealane_tree::Following;

use crate::{
    error::{Error, ErrorKind, FAR},
    login::has_aes,
    options::{Compression, Delta, Level, MeasuredEnd, Options, Preserve, Sink},
    proto::{
        keys::EXPORTER_LABEL,
        message::{Abort, Hello, LANES_MAX, Message, PROTOCOL_VERSION, Request, Role, STREAMS_MAX},
    },
    transfer::terms::{Terms, processors},
};

/// The restrictions of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) minimum_level: Level,
    pub(crate) allow_legacy: bool,
    /// Serves the laboratory: discards received content, or sends content from memory.
    pub(crate) measuring: bool,
    /// Takes and makes compressed records.
    pub(crate) compression: bool,
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, message)
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Refused, message)
}

/// Returns the default suite of a level: the fastest unbroken one on current processors.
fn default_suite(level: Level) -> Suite {
    match level {
        Level::Clear | Level::Authenticated => Suite::Null,
        Level::Safe => Suite::Aes128Gmac,
        Level::Private if has_aes() => Suite::Aes128Gcm,
        Level::Private => Suite::ChaCha20Poly1305,
    }
}

/// Returns whether a suite gives exactly the guarantees of a level: a suite with more is refused too, because the
/// user would pay for protection that was not requested.
fn fits(level: Level, suite: Suite) -> bool {
    match level {
        Level::Clear | Level::Authenticated => suite == Suite::Null,
        Level::Safe => suite.authenticates() && !suite.encrypts(),
        Level::Private => suite.encrypts(),
    }
}

fn check(level: Level, suite: Suite, allow_legacy: bool) -> Result<(), Error> {
    if !fits(level, suite) {
        let fitting: Vec<_> =
            Suite::ALL.into_iter().filter(|&other| fits(level, other)).map(Suite::name).collect();
        return Err(usage(format!(
            "suite {suite} does not provide level {level}; choose one of {}",
            fitting.join(", ")
        )));
    }
    if suite.is_legacy() && !allow_legacy {
        return Err(refused(format!("suite {suite} is outdated; --allow-legacy at both ends permits it")));
    }
    Ok(())
}

impl Options {
    /// Returns the suite that a session with these options agrees on, if there is one.
    ///
    /// # Errors
    /// Fails if the requested suite does not fit the level, or is outdated and not allowed.
    pub fn agreed_suite(&self) -> Result<Suite, Error> {
        suite(self)
    }
}

/// Returns the suite that the user's options select.
pub(crate) fn suite(options: &Options) -> Result<Suite, Error> {
    let suite = options.suite.unwrap_or_else(|| default_suite(options.wishes.level));
    check(options.wishes.level, suite, options.wishes.allow_legacy)?;
    Ok(suite)
}

/// Checks a count given by the user.
pub(crate) fn check_count(what: &str, count: Option<u16>, most: u16) -> Result<(), Error> {
    match count {
        Some(count) if !(1..=most).contains(&count) => {
            Err(usage(format!("{what} must be from 1 to {most}, not {count}")))
        }
        _ => Ok(()),
    }
}

/// Returns the default number of streams. Two are as fast as any number on every machine measured, and one of them
/// can continue while the other is held up; more cores at both ends get more streams.
pub(crate) fn default_streams(processors: u16, peer_processors: u16) -> u16 {
    processors.min(peer_processors).clamp(1, 8)
}

/// Returns the default number of lanes: one per stream, at most one per processor.
pub(crate) fn default_lanes(streams: u16, processors: u16) -> u16 {
    streams.min(processors).max(1)
}

/// Returns the number of lanes of one end for the number that the user or the peer requests. More lanes than
/// processors only evict each other's caches (with 4 lanes on 2 processors the CPU time of a copy grows by 80 %), so
/// no more are started, except in the laboratory, which measures that too.
pub(crate) fn lanes(asked: u16, processors: u16, measured_end: MeasuredEnd) -> u16 {
    match measured_end {
        MeasuredEnd::Both => asked.min(processors).max(1),
        MeasuredEnd::Send | MeasuredEnd::Receive => asked,
    }
}

/// Returns the default placement: separate streams per lane are cheapest; a single stream with several lanes would
/// leave all but one idle.
pub(crate) fn default_placement(streams: u16, lanes: u16) -> Placement {
    if lanes > streams { Placement::Packet } else { Placement::Connection }
}

/// Checks a request against the policy of a server and returns the terms, for the processors of this end and of the
/// client.
pub(crate) fn judge(
    request: &Request,
    policy: Policy,
    processors: u16,
    peer_processors: u16,
) -> Result<Terms, Error> {
    let suite = Suite::from_code(request.suite)
        .ok_or_else(|| Error::protocol(format!("suite number {} is unknown here", request.suite)))?;
    check(request.wishes.level, suite, request.wishes.allow_legacy && policy.allow_legacy)?;
    if request.wishes.level < policy.minimum_level {
        return Err(refused(format!(
            "level {} was asked for, but at least {} is required here",
            request.wishes.level, policy.minimum_level
        )));
    }
    let measures = request.wishes.measured_end != MeasuredEnd::Both
        || (request.role == Role::Push && request.wishes.sink == Sink::Null);
    if measures && !policy.measuring {
        return Err(refused("the far end does not allow measurements; `sealane serve --measuring` does"));
    }
    if request.wishes.upkeep.backup.as_ref().is_some_and(|backup| !backup.is_sensible()) {
        return Err(Error::protocol("the suffix of backups gives an invalid name"));
    }
    if request.wishes.preserve.mode_changes.len() > Preserve::MODE_CHANGES_MAX {
        return Err(Error::protocol("more changes of modes than anybody asks for"));
    }
    if request.wishes.upkeep.remove_sources && request.wishes.following != Following::Nowhere {
        return Err(Error::protocol("what a link leads to is not removed in its place"));
    }
    if request.relayed && request.secret.is_none() {
        return Err(Error::protocol("keys of a relayed transfer come of a secret in its request"));
    }
    if request.wishes.limit_rate == Some(0) {
        return Err(Error::protocol("a rate of 0 bytes a second copies nothing"));
    }
    if !request.wishes.compression.is_sensible() {
        return Err(Error::protocol("a level of compression that does not exist"));
    }
    let compression = compression(request, policy)?;
    check_count("the number of streams", request.streams, STREAMS_MAX)?;
    check_count("the number of lanes", request.lanes, LANES_MAX)?;
    let streams = request.streams.unwrap_or_else(|| default_streams(processors, peer_processors));
    let streams_max = request.streams_max.unwrap_or(streams);
    if !(streams..=STREAMS_MAX).contains(&streams_max) {
        return Err(Error::protocol("there can be no more streams at first than in the end"));
    }
    let lanes = match (request.lanes, request.packet_placement) {
        (Some(asked), _) => lanes(asked, processors, request.wishes.measured_end),
        (None, Some(true)) => processors.clamp(1, LANES_MAX),
        (None, _) => default_lanes(streams, processors),
    };
    let placement = match request.packet_placement {
        Some(true) => Placement::Packet,
        Some(false) => Placement::Connection,
        None => default_placement(streams, lanes),
    };
    let (level, delta) = (request.wishes.level, request.wishes.delta);
    Ok(Terms { level, suite, streams, streams_max, lanes, placement, compression, delta })
}

/// Returns the compression of a transfer for a server with this policy.
fn compression(request: &Request, policy: Policy) -> Result<Compression, Error> {
    match request.wishes.compression {
        asked if policy.compression => Ok(asked),
        Compression::None | Compression::Auto => Ok(Compression::None),
        Compression::Zstd(_) => Err(refused(
            "compression was asked for, and is switched off here (--no-compression); \
             --compress=auto copies without it",
        )),
    }
}

/// Returns the use of deltas in a transfer for a peer that may read here, or may not: the hashes of a version tell what is in it.
pub(crate) fn delta(request: &Request, may_read: bool) -> Result<Delta, Error> {
    match request.wishes.delta {
        Delta::Auto if request.role == Role::Push && !may_read => Ok(Delta::Never),
        Delta::Always if request.role == Role::Push && !may_read => Err(refused(
            "deltas were asked for, and this peer has no right to read here, which a comparison amounts to; \
             --delta=auto copies without",
        )),
        asked => Ok(asked),
    }
}

/// Returns our first message.
pub(crate) fn hello() -> Message {
    Message::Hello(Hello {
        version: PROTOCOL_VERSION,
        program: concat!("sealane ", env!("CARGO_PKG_VERSION")).to_owned(),
        processors: processors(),
    })
}

/// Checks the peer's first message.
pub(crate) fn greet(message: Message) -> Result<Hello, Error> {
    match message {
        Message::Hello(hello) if hello.version == PROTOCOL_VERSION => Ok(hello),
        Message::Hello(hello) => Err(refused(format!(
            "the far end runs {}, which speaks version {} of the protocol; this is version {PROTOCOL_VERSION}",
            hello.program, hello.version
        ))),
        Message::Abort(abort) => Err(abort.into()),
        _ => Err(Error::protocol("the far end does not greet")),
    }
}

impl From<Abort> for Error {
    fn from(abort: Abort) -> Self {
        // The text is the peer's, so control sequences must be kept from a terminal.
        let message: String =
            abort.message.chars().filter(|&c| c == '\n' || !c.is_control()).take(2000).collect();
        Self::new(abort.kind, format!("{FAR}{message}"))
    }
}

/// Returns the master secret of a transfer: from the request, or exported from TLS.
pub(crate) fn master(channel: &Channel, request: &Request) -> Result<Secret, Error> {
    match &request.secret {
        Some(secret) => Ok(Secret::new(*secret.expose())),
        None => {
            let mut secret = [0; 32];
            channel.export(EXPORTER_LABEL, &request.transfer, &mut secret)?;
            Ok(Secret::new(secret))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{options::Wishes, transfer::terms::STREAMS_DEFAULT_MAX};

    #[test]
    fn every_level_has_a_default_that_fits_and_needs_no_consent() {
        for level in Level::ALL {
            assert!(check(level, default_suite(level), false).is_ok());
        }
    }

    #[test]
    fn a_level_is_never_met_by_less_or_more() {
        for level in Level::ALL {
            for suite in Suite::ALL {
                let gives = match (suite.encrypts(), suite.authenticates()) {
                    (true, _) => Level::Private,
                    (false, true) => Level::Safe,
                    (false, false) => Level::Authenticated.min(level),
                };
                assert_eq!(check(level, suite, true).is_ok(), gives == level, "{level} by {suite}");
            }
        }
    }

    #[test]
    fn no_more_lanes_than_processors_outside_the_laboratory() {
        assert_eq!(lanes(8, 2, MeasuredEnd::Both), 2);
        assert_eq!(lanes(1, 2, MeasuredEnd::Both), 1);
        assert_eq!(lanes(8, 2, MeasuredEnd::Send), 8);
    }

    fn asked() -> Request {
        use crate::proto::message::DataPath;
        Request {
            transfer: [0; 16],
            role: Role::Pull,
            paths: vec![b"a".to_vec()],
            name: None,
            names: Vec::new(),
            into_directory: false,
            wishes: Wishes { following: Following::Nowhere, ..Wishes::default() },
            suite: Suite::Aes128Gcm.code(),
            streams: Some(1),
            streams_max: None,
            lanes: None,
            packet_placement: None,
            secret: None,
            data_path: DataPath::Direct,
            journal: None,
            globs: false,
            listed: None,
            relayed: false,
            numbers: Default::default(),
        }
    }

    /// Returns the request with other wishes.
    fn wished(change: impl FnOnce(&mut Wishes)) -> Request {
        let mut request = asked();
        change(&mut request.wishes);
        request
    }

    #[test]
    fn measuring_needs_a_far_end_that_was_started_for_it() {
        let policy = |measuring| Policy {
            minimum_level: Level::Clear,
            allow_legacy: false,
            measuring,
            compression: true,
        };
        let requests = [
            Request { lanes: Some(64), ..wished(|wishes| wishes.measured_end = MeasuredEnd::Receive) },
            Request { role: Role::Push, ..wished(|wishes| wishes.measured_end = MeasuredEnd::Send) },
            Request { role: Role::Push, ..wished(|wishes| wishes.sink = Sink::Null) },
        ];
        for request in requests {
            assert_eq!(judge(&request, policy(false), 2, 2).unwrap_err().kind, ErrorKind::Refused);
            assert!(judge(&request, policy(true), 2, 2).is_ok());
        }
        // The client's treatment of fetched content does not concern the server.
        let discarded = Request { lanes: Some(64), ..wished(|wishes| wishes.sink = Sink::Null) };
        assert_eq!(judge(&discarded, policy(false), 2, 2).unwrap().lanes, 2);
    }

    #[test]
    fn both_ends_come_to_the_same_number_of_streams() {
        let policy =
            Policy { minimum_level: Level::Clear, allow_legacy: false, measuring: false, compression: true };
        let by_default = Request { streams: None, streams_max: Some(STREAMS_DEFAULT_MAX), ..asked() };
        for (here, there) in [(1, 64), (64, 1), (4, 6), (64, 64), (2, 0)] {
            let terms = judge(&by_default, policy, here, there).unwrap();
            assert_eq!(terms.streams, default_streams(there, here));
            assert_eq!((terms.streams_max, terms.placement), (STREAMS_DEFAULT_MAX, Placement::Connection));
        }
        let one_with_lanes = Request { lanes: Some(2), ..asked() };
        assert_eq!(judge(&one_with_lanes, policy, 2, 2).unwrap().placement, Placement::Packet);
        for (streams, streams_max) in [(None, Some(1)), (Some(3), Some(2)), (Some(0), None), (Some(65), None)]
        {
            assert!(judge(&Request { streams, streams_max, ..asked() }, policy, 4, 4).is_err());
        }
    }

    #[test]
    fn no_rate_is_not_no_limit() {
        let policy =
            Policy { minimum_level: Level::Clear, allow_legacy: false, measuring: true, compression: true };
        assert!(judge(&wished(|wishes| wishes.limit_rate = Some(0)), policy, 2, 2).is_err());
        assert!(judge(&wished(|wishes| wishes.limit_rate = Some(1)), policy, 2, 2).is_ok());
    }

    #[test]
    fn legacy_needs_consent() {
        let error = check(Level::Private, Suite::TripleDesCbcHmacSha1, false).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(check(Level::Private, Suite::TripleDesCbcHmacSha1, true).is_ok());
    }

    #[test]
    fn compression_is_refused_to_those_who_insist() {
        let policy = |compression| Policy {
            minimum_level: Level::Clear,
            allow_legacy: false,
            measuring: false,
            compression,
        };
        for (asked_for, where_off) in [
            (Compression::None, Some(Compression::None)),
            (Compression::Auto, Some(Compression::None)),
            (Compression::Zstd(3), None),
        ] {
            let request = wished(|wishes| wishes.compression = asked_for);
            assert_eq!(compression(&request, policy(true)).unwrap(), asked_for);
            assert_eq!(compression(&request, policy(false)).ok(), where_off);
            assert_eq!(judge(&request, policy(false), 2, 2).is_ok(), where_off.is_some());
        }
        let strange = wished(|wishes| wishes.compression = Compression::Zstd(0));
        assert_eq!(judge(&strange, policy(true), 2, 2).unwrap_err().kind, ErrorKind::Protocol);
    }
}
