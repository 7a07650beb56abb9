//! The meaning of the arguments of `sealane cp`: checked together, once, and turned into the types of the crate that
//! copies.
//!
//! Guarantees: a plan has no contradiction that can be detected without access to a file or a host.

use crate::args::{CpArgs, EndArg, FarEndArg, SinkArg};
use sealane_copy::{
    AddressFamily, Backup, Bases, BasisUse, Deletion, Existing, FarEndChoice, Following, Logins, MeasuredEnd,
    Options, Ownership, Pattern, Preserve, RemoteOptions, Sameness, Sink, Sizes, Upkeep, Wishes,
};
use sealane_engine::Implementations;
use sealane_peer::{Location, PeerError};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One transfer, and the way in which it is reported.
#[derive(Debug)]
pub struct Plan {
    /// The sources; at least one.
    pub sources: Vec<Location>,
    /// The place to which all sources are copied.
    pub target: Location,
    /// The options of the copy.
    pub options: Options,
    /// The options of the report.
    pub reporting: Reporting,
}

/// The messages about a transfer, and their destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reporting {
    /// Lines of JSON instead of text.
    pub json: bool,
    /// Errors only.
    pub quiet: bool,
    /// The negotiated properties are printed as well.
    pub verbose: bool,
    /// The facts at the end.
    pub stats: bool,
    /// Nothing is copied.
    pub dry_run: bool,
    /// Data leaves this machine.
    pub pushes: bool,
    /// Standard output carries the data, so results go to standard error.
    pub stdout_is_data: bool,
    /// The remains of an interrupted transfer can be continued.
    pub resumable: bool,
}

/// Arguments that cannot be meant.
#[derive(Debug, thiserror::Error)]
pub enum MeaningError {
    /// A source or target that is not a valid place.
    #[error("{text:?} is not a valid source or target")]
    Location {
        /// The text as given.
        text: OsString,
        /// Why not.
        #[source]
        source: Box<PeerError>,
    },
    /// One path only.
    #[error("the target is missing: give at least one source, then the target")]
    NoTarget,
    /// `-` beside other sources.
    #[error("`-` (standard input) must be the only source")]
    StdinAmongOthers,
    /// `-T` with several sources.
    #[error("-T takes one source: the target is its new name, not a folder for several")]
    ManyToOneName,
    /// Several sources into `-`.
    #[error("several sources cannot all go to standard output")]
    ManyToStdout,
    /// `-r` into or out of `-`.
    #[error("a folder cannot be copied through a pipe: `-` cannot be combined with -r or -a")]
    FolderThroughPipe,
    /// `--existing` or `--ignore-existing` into or out of `-`.
    #[error("--existing and --ignore-existing look at names, and `-` has none")]
    ExistingThroughPipe,
    /// `--delete` without folders.
    #[error("--delete needs -r or -a: it works on folders")]
    DeleteWithoutRecursion,
    /// A very long `--chmod`.
    #[error("--chmod: more than {} changes are too many", Preserve::MODE_CHANGES_MAX)]
    ManyModeChanges,
    /// `--min-size` above `--max-size`.
    #[error("--min-size is more than --max-size: no file has such a size")]
    NoSuchSize,
    /// `--files-from` with several sources, or with a source that is not a folder.
    #[error("--files-from takes one source: the folder that its paths are relative to")]
    ListOfManySources,
    /// A flag that has no meaning between many hosts.
    #[cfg(feature = "fleet")]
    #[error("{flag} cannot be combined with sources or targets on many hosts")]
    NotBetweenMany {
        /// The flag as given.
        flag: &'static str,
    },
    /// Many hosts without folders.
    #[cfg(feature = "fleet")]
    #[error("copies between many hosts need -r or -a: what is copied is a folder")]
    ManyWithoutRecursion,
    /// `--files-from -` beside `-`.
    #[error("--files-from - reads the list from standard input, which cannot be a source as well")]
    ListAndData,
    /// A flag of scp or rsync that has no meaning here.
    #[error("{flag}: {why}")]
    NotHere {
        /// The flag as given.
        flag: &'static str,
        /// The reason, and the alternative.
        why: &'static str,
    },
    /// An outdated suite without consent.
    #[error("{suite} is outdated and no longer secure; --allow-legacy allows it")]
    Legacy {
        /// The suite's name.
        suite: &'static str,
    },
}

impl Plan {
    /// Checks the arguments against each other and returns their meaning.
    ///
    /// # Errors
    /// Fails if a place is invalid, or arguments contradict each other.
    pub fn new(arguments: CpArgs) -> Result<Self, MeaningError> {
        not_here(&arguments)?;
        let [source_paths @ .., target_path] = arguments.paths.as_slice() else {
            return Err(MeaningError::NoTarget);
        };
        if source_paths.is_empty() {
            return Err(MeaningError::NoTarget);
        }
        let sources = source_paths.iter().map(|text| location(text)).collect::<Result<Vec<_>, _>>()?;
        let target = location(target_path)?;

        let stdout_is_data = is_pipe(&target);
        let stdin_is_data = sources.iter().any(is_pipe);
        // As in rsync, -a with a list does not descend into folders.
        let recursive = arguments.recursive || (arguments.archive && arguments.files_from.is_none());
        if let Some(list) = &arguments.files_from {
            if stdin_is_data && list.as_os_str() == "-" {
                return Err(MeaningError::ListAndData);
            }
            if sources.len() > 1 || stdin_is_data || stdout_is_data {
                return Err(MeaningError::ListOfManySources);
            }
        }
        if stdin_is_data && sources.len() > 1 {
            return Err(MeaningError::StdinAmongOthers);
        }
        if stdout_is_data && sources.len() > 1 {
            return Err(MeaningError::ManyToStdout);
        }
        if arguments.no_target_directory && sources.len() > 1 {
            return Err(MeaningError::ManyToOneName);
        }
        if (stdin_is_data || stdout_is_data) && recursive {
            return Err(MeaningError::FolderThroughPipe);
        }
        if (stdin_is_data || stdout_is_data) && (arguments.existing || arguments.ignore_existing) {
            return Err(MeaningError::ExistingThroughPipe);
        }
        if deletes(&arguments) && !recursive {
            return Err(MeaningError::DeleteWithoutRecursion);
        }
        few_mode_changes(&arguments)?;
        possible_sizes(&arguments)?;
        no_legacy_unasked(&arguments)?;

        let reporting = Reporting {
            json: arguments.json,
            quiet: arguments.quiet,
            verbose: arguments.verbose,
            stats: arguments.stats,
            dry_run: arguments.dry_run,
            pushes: !matches!(target, Location::Local(_)),
            stdout_is_data,
            resumable: !arguments.no_resume && !arguments.dry_run && !stdin_is_data && !stdout_is_data,
        };
        Ok(Self { sources, target, options: options(arguments, recursive), reporting })
    }
}

/// Fails if there are more changes of modes than a copy takes.
fn few_mode_changes(arguments: &CpArgs) -> Result<(), MeaningError> {
    let count: usize = arguments.chmod.iter().map(|changes| changes.0.len()).sum();
    if count <= Preserve::MODE_CHANGES_MAX { Ok(()) } else { Err(MeaningError::ManyModeChanges) }
}

/// Fails if no file has a size that is asked for.
fn possible_sizes(arguments: &CpArgs) -> Result<(), MeaningError> {
    match (arguments.min_size, arguments.max_size) {
        (Some(min), Some(max)) if min > max => Err(MeaningError::NoSuchSize),
        _ => Ok(()),
    }
}

/// Fails if a legacy suite is named without `--allow-legacy`.
fn no_legacy_unasked(arguments: &CpArgs) -> Result<(), MeaningError> {
    match arguments.suite.filter(|suite| suite.is_legacy() && !arguments.allow_legacy) {
        Some(suite) => Err(MeaningError::Legacy { suite: suite.name() }),
        None => Ok(()),
    }
}

/// Returns the meaning of arguments whose sources or target stand for many hosts.
///
/// # Errors
/// Fails if they contradict each other, or request something that is impossible between many hosts.
#[cfg(feature = "fleet")]
pub fn of_many(arguments: CpArgs) -> Result<(Options, Reporting), MeaningError> {
    not_here(&arguments)?;
    let flags = [
        (arguments.digest, "--digest"),
        (arguments.delta == sealane_copy::Delta::Always, "--delta=always"),
        (arguments.files_from.is_some(), "--files-from"),
        (arguments.remove_source_files, "--remove-source-files"),
        (arguments.install_far_end, "--install-far-end"),
        // Nobody knows how many workers come.
        (has_queue(&arguments) && limits_rate(&arguments), "--limit-rate with --queue"),
        (arguments.max_delete.is_some(), "--max-delete"),
        // An entry that one share makes is there for the next.
        (arguments.log_file.is_some(), "--log-file"),
        (arguments.existing, "--existing"),
        (!arguments.filter_file.is_empty(), "--filter-file"),
        (arguments.gitignore, "--gitignore"),
        (arguments.ignore_existing, "--ignore-existing"),
        (arguments.sink == SinkArg::Null, "--sink null"),
        (arguments.end != EndArg::Both, "--end"),
        (arguments.paths.iter().any(|path| path == "-"), "-"),
    ];
    if let Some((_, flag)) = flags.into_iter().find(|(is_given, _)| *is_given) {
        return Err(MeaningError::NotBetweenMany { flag });
    }
    if !arguments.recursive && !arguments.archive {
        return Err(MeaningError::ManyWithoutRecursion);
    }
    few_mode_changes(&arguments)?;
    possible_sizes(&arguments)?;
    no_legacy_unasked(&arguments)?;
    let reporting = Reporting {
        json: arguments.json,
        quiet: arguments.quiet,
        verbose: arguments.verbose,
        stats: arguments.stats,
        dry_run: arguments.dry_run,
        pushes: true,
        stdout_is_data: false,
        resumable: !arguments.no_resume,
    };
    Ok((options(arguments, true), reporting))
}

#[cfg(feature = "fleet")]
fn limits_rate(arguments: &CpArgs) -> bool {
    arguments.limit_rate.is_some() || arguments.kilobits.is_some()
}

#[cfg(feature = "nats")]
fn has_queue(arguments: &CpArgs) -> bool {
    arguments.queue.is_some()
}

#[cfg(all(feature = "fleet", not(feature = "nats")))]
fn has_queue(_: &CpArgs) -> bool {
    false
}

/// Returns whether anything is to be deleted at the target.
fn deletes(arguments: &CpArgs) -> bool {
    arguments.delete > 0 || arguments.delete_excluded || arguments.max_delete.is_some()
}

/// Returns the patterns, those in files of the source last.
fn patterns(arguments: &CpArgs) -> Vec<Pattern> {
    let files = arguments.filter_file.iter().cloned().map(Pattern::File);
    let git = arguments.gitignore.then_some(Pattern::GitIgnore);
    arguments.filters.0.iter().cloned().chain(files).chain(git).collect()
}

/// Returns the earlier copies from which unchanged files are taken.
fn bases(arguments: &CpArgs) -> Option<Bases> {
    let given = [
        (&arguments.link_dest, BasisUse::Link),
        (&arguments.copy_dest, BasisUse::Copy),
        (&arguments.compare_dest, BasisUse::Compare),
    ];
    let (folders, basis_use) = given.into_iter().find(|(folders, _)| !folders.is_empty())?;
    let folders = folders.iter().map(|folder| folder.as_os_str().as_bytes().to_vec()).collect();
    Some(Bases { folders, basis_use })
}

/// Refuses flags that would be silently misunderstood.
fn not_here(arguments: &CpArgs) -> Result<(), MeaningError> {
    let flags = [
        (
            arguments.short_c,
            "-c",
            "in scp it selects a cipher, in rsync it compares contents: use --suite or --checksum",
        ),
        (
            arguments.compress_ssh,
            "-C",
            "in scp it compresses, in rsync it leaves files of CVS out: use -z or --exclude",
        ),
    ];
    let given = flags.into_iter().find(|(is_given, ..)| *is_given);
    given.map_or(Ok(()), |(_, flag, why)| Err(MeaningError::NotHere { flag, why }))
}

/// Returns the options of a copy whose arguments do not contradict each other.
fn options(arguments: CpArgs, recursive: bool) -> Options {
    Options {
        wishes: wishes(&arguments, recursive),
        suite: arguments.suite,
        streams: arguments.streams,
        lanes: arguments.lanes,
        placement: arguments.placement,
        through_ssh: arguments.through_ssh,
        resume: !arguments.no_resume,
        trusts_empty: arguments.delete > 1,
        listed: None,
        share: None,
        implementations: Implementations::default(),
        engine: arguments.engine.clone(),
        remote: remote(arguments),
    }
}

/// Returns what both ends of a copy must know.
fn wishes(arguments: &CpArgs, recursive: bool) -> Wishes {
    Wishes {
        recursive,
        level: arguments.level,
        allow_legacy: arguments.allow_legacy,
        digest: arguments.digest,
        compression: arguments.compress.unwrap_or_default(),
        delta: arguments.delta,
        limit_rate: arguments.limit_rate.or(arguments.kilobits),
        trust_partial: arguments.trust_partial,
        skip_same: !arguments.no_skip_same && !arguments.checksum,
        update: arguments.update,
        as_named: arguments.no_target_directory,
        dry_run: arguments.dry_run,
        preserve: preserve(arguments),
        upkeep: upkeep(arguments),
        patterns: patterns(arguments),
        sizes: Sizes { min_bytes: arguments.min_size, max_bytes: arguments.max_size },
        following: following(arguments),
        portion: None,
        one_file_system: arguments.one_file_system,
        fsync: arguments.fsync,
        sink: match arguments.sink {
            SinkArg::Files => Sink::Files,
            SinkArg::Null => Sink::Null,
        },
        measured_end: match arguments.end {
            EndArg::Both => MeasuredEnd::Both,
            EndArg::Send => MeasuredEnd::Send,
            EndArg::Receive => MeasuredEnd::Receive,
        },
        timeout: arguments.timeout,
        data_ports: arguments.data_ports,
    }
}

/// Returns which attributes of a source its copy has.
fn preserve(arguments: &CpArgs) -> Preserve {
    Preserve {
        hard_links: arguments.hard_links || arguments.archive,
        xattrs: arguments.xattrs || arguments.archive,
        acls: arguments.acls,
        privileges: arguments.xattrs,
        specials: arguments.specials,
        numeric_ids: arguments.numeric_ids,
        user: arguments.chown.as_ref().and_then(|given| given.user.clone()),
        group: arguments.chown.as_ref().and_then(|given| given.group.clone()),
        owner: match (arguments.owner || arguments.chown.is_some(), arguments.archive) {
            (true, _) => Ownership::Kept,
            (false, true) => Ownership::WherePossible,
            (false, false) => Ownership::NotKept,
        },
        folder_modes: arguments.preserve || arguments.archive,
        mode_changes: arguments.chmod.iter().flat_map(|changes| changes.0.clone()).collect(),
    }
}

/// Returns what happens to entries that the source, the target or an earlier copy has already.
fn upkeep(arguments: &CpArgs) -> Upkeep {
    Upkeep {
        delete: deletes(arguments)
            .then_some(Deletion { entries_max: arguments.max_delete, excluded: arguments.delete_excluded }),
        checksum: arguments.checksum,
        backup: backup(arguments),
        remove_sources: arguments.remove_source_files,
        itemise: arguments.verbose || arguments.log_file.is_some(),
        bases: bases(arguments),
        in_place: arguments.in_place,
        sameness: match (arguments.size_only, arguments.modify_window) {
            (true, _) => Sameness::Nothing,
            (false, Some(seconds)) => Sameness::Within { seconds },
            (false, None) => Sameness::Time,
        },
        existing: Existing { skips_missing: arguments.existing, skips_present: arguments.ignore_existing },
    }
}

/// Returns the name that a file gets before another takes its place.
fn backup(arguments: &CpArgs) -> Option<Backup> {
    let suffix = match (arguments.suffix.as_deref(), &arguments.backup_dir) {
        (None, None) if arguments.backup => "~",
        (None, Some(_)) => "",
        (suffix, _) => suffix?,
    };
    Some(Backup { suffix: suffix.as_bytes().to_vec(), folder: arguments.backup_dir.clone() })
}

/// Returns which symbolic links of a source stand for their targets.
fn following(arguments: &CpArgs) -> Following {
    match arguments.dereference {
        true => Following::Everywhere,
        // The link itself is to be kept or removed.
        false if arguments.archive || arguments.remove_source_files => Following::Nowhere,
        false => Following::Roots,
    }
}

/// Returns how the other host is reached, and which program is started there.
fn remote(arguments: CpArgs) -> RemoteOptions {
    RemoteOptions {
        port: arguments.port,
        family: match (arguments.ipv4, arguments.ipv6) {
            (true, _) => Some(AddressFamily::V4),
            (_, true) => Some(AddressFamily::V6),
            _ => None,
        },
        ssh_program: None,
        ssh_identity: arguments.ssh_identity,
        ssh_options: arguments.ssh_options,
        ssh_config: arguments.ssh_config,
        ssh_jump: arguments.ssh_jump,
        far_end: match arguments.far_end {
            // A user who gives the path of sealane wants no alternative.
            FarEndArg::Auto if arguments.remote_program.is_some() || arguments.install_far_end => {
                FarEndChoice::Sealane
            }
            FarEndArg::Auto => FarEndChoice::Auto,
            FarEndArg::Sealane => FarEndChoice::Sealane,
            FarEndArg::Sftp => FarEndChoice::Sftp,
        },
        state_dir: None,
        logins: Logins::default(),
        remote_program: arguments.remote_program,
        found_programs: Vec::new(),
        config_dir: None,
        identity: arguments.identity,
        known_peers: arguments.known_peers,
        accept_new: arguments.accept_new,
    }
}

fn location(text: &OsStr) -> Result<Location, MeaningError> {
    Location::parse(text)
        .map_err(|source| MeaningError::Location { text: text.to_owned(), source: Box::new(source) })
}

/// Returns whether the place is standard input or output.
fn is_pipe(place: &Location) -> bool {
    matches!(place, Location::Local(path) if path == Path::new("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, Late, command};
    use clap::FromArgMatches;
    use sealane_copy::{Compression, Delta, Level};
    use sealane_engine::Suite;
    use sealane_lanes::Placement;
    use std::time::Duration;

    fn plan(line: &str) -> Result<Plan, MeaningError> {
        let words = ["sealane", "cp"].into_iter().chain(line.split_whitespace());
        let found = command().try_get_matches_from(words).expect("the line parses");
        match Cli::from_arg_matches(&found).expect("the line parses").command {
            Command::Cp(Late(arguments)) => Plan::new(*arguments),
            other => panic!("not cp: {other:?}"),
        }
    }

    fn options(line: &str) -> Options {
        plan(line).expect("the line makes sense").options
    }

    #[test]
    fn without_flags_the_defaults_of_the_library_hold() {
        let given = options("a b");
        let default = Options::default();
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
    }

    #[test]
    fn archive_is_the_sum_of_its_parts() {
        let sum = options("-rp --hard-links --xattrs --owner a b");
        let archive = options("-a a b");
        assert_eq!((archive.wishes.following, sum.wishes.following), (Following::Nowhere, Following::Roots));
        assert_eq!(archive.wishes.preserve.owner, Ownership::WherePossible);
        let preserve =
            Preserve { owner: Ownership::WherePossible, privileges: false, ..sum.wishes.preserve.clone() };
        assert!(sum.wishes.preserve.owner == Ownership::Kept && sum.wishes.preserve.privileges);
        let wishes = Wishes { following: Following::Nowhere, preserve, ..sum.wishes };
        let sum = Options { wishes, ..sum };
        assert_eq!(format!("{archive:?}"), format!("{sum:?}"));
        assert!(
            sum.wishes.recursive
                && sum.wishes.preserve.hard_links
                && sum.wishes.preserve.xattrs
                && sum.wishes.preserve.folder_modes
        );
        assert_eq!(options("-a --owner a b").wishes.preserve.owner, Ownership::Kept);
    }

    #[test]
    fn patterns_keep_the_order_of_the_line() {
        let given =
            options("--exclude *.o --include keep.o --exclude=target --include */ a b").wishes.patterns;
        let (take, leave) =
            (|text: &str| Pattern::Include(text.into()), |text: &str| Pattern::Exclude(text.into()));
        assert_eq!(given, [leave("*.o"), take("keep.o"), leave("target"), take("*/")]);
    }

    #[test]
    fn the_last_word_on_resuming_counts() {
        assert!(options("a b").resume);
        assert!(!options("--no-resume a b").resume);
        assert!(options("--no-resume --resume a b").resume);
        assert!(!options("--resume --no-resume a b").resume);
    }

    #[test]
    fn every_wish_arrives() {
        let line = "--level safe --suite aes-128-gmac --streams 4 --lanes 2 --placement packet --engine lanes:2 --digest \
                    --limit-rate 100M --update --dry-run --fsync --one-file-system --sink null --timeout 5 \
                    --data-ports 50000-50100 --end send --accept-new --identity id --known-peers kp a b";
        let given = options(line);
        assert_eq!((given.wishes.level, given.suite), (Level::Safe, Some(Suite::Aes128Gmac)));
        assert_eq!((given.streams, given.lanes), (Some(4), Some(2)));
        assert_eq!(
            (given.placement, given.engine.to_string()),
            (Some(Placement::Packet), "lanes:2".to_owned())
        );
        assert!(
            given.wishes.digest
                && given.wishes.update
                && given.wishes.dry_run
                && given.wishes.fsync
                && given.wishes.one_file_system
        );
        assert_eq!((given.wishes.sink, given.wishes.measured_end), (Sink::Null, MeasuredEnd::Send));
        assert_eq!(given.wishes.limit_rate, Some(100_000_000));
        assert_eq!(given.wishes.timeout, Duration::from_secs(5));
        assert_eq!(given.wishes.data_ports, Some((50_000, 50_100)));
        assert!(given.remote.accept_new);
        assert_eq!(given.remote.identity.as_deref(), Some(Path::new("id")));
        assert_eq!(given.remote.known_peers.as_deref(), Some(Path::new("kp")));
    }

    #[test]
    fn habits_of_scp_and_rsync() {
        let given = options("-p -l 8000 -4 -r --max-delete 3 --delete-excluded -b --remove-source-files a b");
        assert_eq!(given.wishes.limit_rate, Some(1_024_000));
        assert_eq!(given.remote.family, Some(AddressFamily::V4));
        let deletion = Deletion { entries_max: Some(3), excluded: true };
        assert_eq!(given.wishes.upkeep.delete, Some(deletion));
        let beside = |suffix: &[u8]| Some(Backup { suffix: suffix.to_vec(), folder: None });
        assert_eq!(given.wishes.upkeep.backup, beside(b"~"));
        assert!(given.wishes.upkeep.remove_sources && given.wishes.skip_same);
        assert_eq!(given.wishes.following, Following::Nowhere);
        let given = options("--checksum --suffix .old -6 -rv --delete a b");
        assert!(given.wishes.upkeep.checksum && !given.wishes.skip_same && given.wishes.upkeep.itemise);
        assert_eq!(given.wishes.upkeep.backup, beside(b".old"));
        assert_eq!(given.remote.family, Some(AddressFamily::V6));
        let given = options("-rL --backup-dir ./old/today/ -3 a b");
        let folder = given.wishes.upkeep.backup.expect("backups are kept");
        assert_eq!(
            (folder.suffix.as_slice(), folder.folder.expect("one is given").as_bytes()),
            (&b""[..], &b"old/today"[..])
        );
        assert_eq!(given.wishes.following, Following::Everywhere);
        assert_eq!(options("-aL a b").wishes.following, Following::Everywhere);
    }

    #[test]
    fn with_a_list_folders_are_descended_into_only_with_r() {
        assert!(
            !options("-a --files-from list a b").wishes.recursive
                && options("-r --files-from list a b").wishes.recursive
        );
        for (line, is_list) in
            [("--files-from - - b", false), ("--files-from l a b c", true), ("--files-from l a -", true)]
        {
            let error = plan(line).expect_err("it makes no sense");
            assert_eq!(matches!(error, MeaningError::ListOfManySources), is_list, "{line}: {error}");
        }
    }

    #[test]
    fn options_of_ssh_are_those_of_scp() {
        let given = options(
            "-P 2222 -i key -o A=1 -o B=2 -F conf -J jump --remote-program ~/bin/s --through-ssh a h:b",
        );
        assert_eq!(given.remote.port, Some(2222));
        assert_eq!(given.remote.ssh_identity.as_deref(), Some(Path::new("key")));
        assert_eq!(given.remote.ssh_options, ["A=1", "B=2"]);
        assert_eq!(given.remote.ssh_config.as_deref(), Some(Path::new("conf")));
        assert_eq!(given.remote.ssh_jump.as_deref(), Some("jump"));
        assert_eq!(given.remote.remote_program.as_deref(), Some("~/bin/s"));
        assert!(given.through_ssh);
    }

    #[test]
    fn deltas_are_made_on_slow_lines_unless_told_otherwise() {
        for (line, expected) in [
            ("x y", Delta::Auto),
            ("--delta always x y", Delta::Always),
            ("--delta=never x y", Delta::Never),
            ("--delta=auto x y", Delta::Auto),
        ] {
            assert_eq!(options(line).wishes.delta, expected, "{line}");
            assert_eq!(expected.to_string().parse(), Ok(expected), "it reads back");
        }
        assert!("Always".parse::<Delta>().is_err() && "".parse::<Delta>().is_err());
    }

    #[test]
    fn compression_is_asked_for_as_in_rsync_or_in_full() {
        for (line, expected) in [
            ("x y", Compression::None),
            ("-z x y", Compression::Zstd(1)),
            ("-zr x y", Compression::Zstd(1)),
            ("-rz x y", Compression::Zstd(1)),
            ("--compress x y", Compression::Zstd(1)),
            ("--compress=auto x y", Compression::Auto),
            ("--compress=zstd x y", Compression::Zstd(1)),
            ("--compress=zstd:-3 x y", Compression::Zstd(-3)),
            ("--compress=zstd:19 x y", Compression::Zstd(19)),
            ("--compress=none x y", Compression::None),
        ] {
            let given = options(line);
            assert_eq!(given.wishes.compression, expected, "{line}");
            let word = expected.to_string();
            assert_eq!(word.parse(), Ok(expected), "it reads back");
        }
        for word in ["zstd:0", "zstd:20", "zstd:-8", "zstd:", "gzip", "Auto", ""] {
            assert!(word.parse::<Compression>().is_err(), "{word}");
        }
    }

    #[test]
    fn flags_and_paths_come_in_any_order() {
        let plan = plan("x --digest y -r z --level safe").expect("the line makes sense");
        assert_eq!(plan.sources.len(), 2);
        assert!(
            plan.options.wishes.digest
                && plan.options.wishes.recursive
                && plan.options.wishes.level == Level::Safe
        );
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(matches!(plan("x"), Err(MeaningError::NoTarget)));
        assert!(matches!(plan("- x y"), Err(MeaningError::StdinAmongOthers)));
        assert!(matches!(plan("x y -"), Err(MeaningError::ManyToStdout)));
        assert!(matches!(plan("-T x y z"), Err(MeaningError::ManyToOneName)));
        assert!(matches!(plan("-r - y"), Err(MeaningError::FolderThroughPipe)));
        assert!(matches!(plan("-a x -"), Err(MeaningError::FolderThroughPipe)));
        for line in ["-c x y", "-C x y"] {
            assert!(matches!(plan(line), Err(MeaningError::NotHere { .. })), "{line}");
        }
        assert!(matches!(plan("--delete x y"), Err(MeaningError::DeleteWithoutRecursion)));
        assert!(matches!(plan("--suite hmac-sha1 --level safe x y"), Err(MeaningError::Legacy { .. })));
        assert!(plan("--suite hmac-sha1 --level safe --allow-legacy x y").is_ok());
        assert!(plan("- y").is_ok() && plan("x -").is_ok());
    }

    #[test]
    fn what_goes_through_a_pipe_cannot_be_continued() {
        let reporting = |line| plan(line).expect("the line makes sense").reporting;
        assert!(reporting("x y").resumable && !reporting("x y").stdout_is_data);
        assert!(!reporting("x -").resumable && reporting("x -").stdout_is_data);
        assert!(!reporting("- y").resumable && !reporting("--no-resume x y").resumable);
    }
}
