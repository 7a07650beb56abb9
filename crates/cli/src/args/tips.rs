//! Tips for flags that scp and rsync have and `sealane cp` has not.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags, and what to do instead.
const TIPS: &[(&[&str], &str)] = &[
    (&["-t", "--times", "--perms"], "modes and times are always kept"),
    (&["--links"], "symbolic links are always copied as links"),
    (&["-H"], "hard links are kept by --hard-links, or -a"),
    (&["-X"], "extended attributes are kept by --xattrs, or -a"),
    (&["-A", "--acls"], "access control lists are not copied"),
    (&["-g", "--group", "--numeric-ids"], "owner and group are kept by --owner, or -a, by their numbers"),
    (&["-O", "--omit-dir-times"], "times are always kept; there is one protocol, over ssh or to a daemon"),
    (&["-D", "--devices", "--specials"], "devices, pipes and sockets are not copied"),
    (&["-W", "--whole-file", "--no-whole-file"], "files are always sent whole: there are no deltas"),
    (&["-S", "--sparse"], "holes are always kept; SEALANE_SSH names another ssh"),
    (&["-e", "--rsh"], "ssh's options are -P, -i, -o, -F and -J; SEALANE_SSH names another ssh"),
    (&["--rsync-path"], "the far end's program is named by --remote-program"),
    (&["--bwlimit"], "the rate is limited by --limit-rate, as in 10M"),
    (
        &["--progress", "--info", "--human-readable", "-h"],
        "a terminal shows progress; --stats, -v and --json tell more",
    ),
    (
        &["--partial", "--append", "--append-verify", "--partial-dir"],
        "what was cut off is always gone on with",
    ),
    (&["--inplace"], "files are made aside and get their names when they are complete"),
    (&["--ignore-times", "-I"], "--no-skip-same sends all files again"),
    (&["--size-only"], "files are skipped by size and time, or by their content with --checksum"),
    (
        &["--delete-after", "--delete-before", "--delete-during", "--del"],
        "--delete deletes last, when all has arrived",
    ),
    (&["--list-only"], "-n lists what would be copied"),
    (&["-i", "--itemize-changes"], "-v tells every change; -i is the identity file, as in scp"),
    (&["--timeout-connect", "--contimeout"], "--timeout bounds every silence"),
    (&["-B"], "-o BatchMode=yes keeps ssh from asking"),
    (&["--checksum-choice", "--cc"], "--checksum compares by BLAKE3"),
    (&["--old-dirs", "--dirs", "-d"], "folders come with what is in them, by -r"),
    (&["-R", "--relative"], "name the folder that paths count from, and give the paths to --files-from"),
    (
        &["-f", "--filter", "--cvs-exclude"],
        "--include, --exclude and --exclude-from choose; there are no filter files",
    ),
    (&["-m", "--prune-empty-dirs"], "--files-from copies what is named, and the folders that it is in"),
    (&["-k", "--copy-dirlinks", "--copy-unsafe-links", "--safe-links"], "-L follows all links, -a none"),
    (&["-K", "--keep-dirlinks"], "no link of the target is ever followed"),
    (&["--existing", "--ignore-existing"], "-u keeps what is newer, --backup keeps what is replaced"),
    (
        &["--link-dest", "--compare-dest", "--copy-dest"],
        "rsync is the better tool for copies that share files",
    ),
    (&["--max-size", "--min-size"], "`find -size ... -print0` chooses for --files-from - -0"),
    (
        &["--chmod", "--chown", "--usermap", "--groupmap"],
        "modes and owners are kept as they are, or not at all",
    ),
    (&["--log-file", "--out-format"], "-v and --json tell every file; redirect them"),
    (&["--password-file", "--daemon"], "a daemon is `sealane serve`, and knows its peers by their keys"),
];

/// Says what to do instead of a flag that belongs to another tool.
pub(crate) fn add(error: &mut Error) {
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    let flag = given.split(['=', ' ']).next().unwrap_or_default();
    let Some((_, tip)) = TIPS.iter().find(|(flags, _)| flags.contains(&flag)) else { return };
    let tip = ContextValue::StyledStrs(vec![StyledStr::from(*tip)]);
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, tip);
}
