//! Tips for flags of scp and rsync that `sealane cp` does not have.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The flags, and the alternatives.
const TIPS: &[(&[&str], &str)] = &[
    (&["-t", "--times", "--perms"], "modes and times are always kept"),
    (&["--links"], "symbolic links are copied as links; with -a those on the command line too"),
    (&["-H"], "--hard-links or -a keeps hard links"),
    (&["-g", "--group"], "--owner or -a keeps owner and group"),
    (&["-O", "--omit-dir-times"], "times are always kept; scp's -O is not needed: there is one protocol"),
    (&["--devices"], "-D makes devices, pipes and sockets"),
    (
        &["-W", "--whole-file", "--no-whole-file", "--no-W"],
        "--delta never sends files whole, --delta always sends what differs, whatever the line",
    ),
    (&["-S", "--sparse"], "holes are always kept; the variable SEALANE_SSH names another ssh program"),
    (
        &["-e", "--rsh"],
        "ssh's options are -P, -i, -o, -F and -J; the variable SEALANE_SSH names another ssh program",
    ),
    (&["--rsync-path"], "--remote-program names the program at the far end"),
    (&["--bwlimit"], "--limit-rate limits the rate, as in 10M"),
    (
        &["--progress", "--info", "--human-readable"],
        "progress is shown on a terminal; --stats, -v and --json print more",
    ),
    (
        &["--partial", "--append", "--append-verify", "--partial-dir"],
        "an interrupted copy always continues where it stopped; its unfinished files lie beside their places until then",
    ),
    (
        &["--temp-dir", "--delay-updates"],
        "files are built beside the old ones, and get their names when they are complete",
    ),
    (&["-@"], "--modify-window allows times to differ"),
    (
        &["--compress-level", "--compress-choice", "--zc", "--zl"],
        "--compress takes a level, as in --compress zstd:3",
    ),
    (&["--skip-compress"], "what looks random is not compressed"),
    (&["--fuzzy"], "with --delete, files that were renamed or moved are found; --delta says when"),
    (&["--block-size"], "pieces of files end where their content says so"),
    (
        &["--delete-after", "--delete-before", "--delete-during", "--delete-delay", "--del"],
        "--delete deletes last, when all files have arrived",
    ),
    (&["--list-only"], "-n lists what would be copied"),
    (&["--itemize-changes"], "-v prints every change in the form of rsync -i"),
    (&["--contimeout"], "--timeout limits the time without an answer"),
    (&["-B"], "-o BatchMode=yes keeps ssh from asking"),
    (&["--checksum-choice", "--cc"], "--checksum compares by BLAKE3"),
    (&["--old-dirs", "--dirs", "-d"], "-r copies folders with their contents"),
    (&["-R", "--relative"], "give the folder as the source, and paths relative to it to --files-from"),
    (
        &["-f", "--filter", "--cvs-exclude"],
        "use --include, --exclude and --exclude-from, and --filter-file or --gitignore for files in the folders",
    ),
    (&["-m", "--prune-empty-dirs"], "--files-from copies only the files listed, and their parent folders"),
    (
        &["-k", "--copy-dirlinks", "--copy-unsafe-links", "--safe-links"],
        "-L follows all links, -a follows none",
    ),
    (&["-K", "--keep-dirlinks"], "links at the target are never followed"),
    (&["--usermap", "--groupmap"], "--owner keeps owners by name, --chown gives all entries one owner"),
    (&["--out-format", "--log-file-format"], "-v, --json and --log-file tell every change"),
    (&["--password-file", "--daemon"], "`sealane serve` is the daemon; it knows its peers by their keys"),
];

/// The tip for `-P` as rsync has it.
const PORT_TIP: &str = "-P is the port, as in scp; rsync's -P is not needed: progress is shown on a terminal, and an \
                        interrupted copy always continues where it stopped";

/// Adds the alternative for a flag that belongs to another tool.
pub(crate) fn add(error: &mut Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return };
    // This is `-P`, with the following argument as its value, or without one.
    let is_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    if is_value && given.starts_with("--port ") {
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(PORT_TIP)]);
        error.insert(ContextKind::Suggested, tip);
        return;
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let flag = given.split(['=', ' ']).next().unwrap_or_default();
    let Some((_, tip)) = TIPS.iter().find(|(flags, _)| flags.contains(&flag)) else { return };
    let tip = ContextValue::StyledStrs(vec![StyledStr::from(*tip)]);
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, tip);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tip for a user of `sealane cp` with the flag.
    fn told(flag: &str) -> String {
        let found = crate::args::command().try_get_matches_from(["sealane", "cp", flag, "a", "b"]);
        let mut error = found.expect_err("it is no flag of ours");
        add(&mut error);
        error.render().to_string()
    }

    #[test]
    fn every_flag_gets_its_tip_and_none_is_ours() {
        for (flags, tip) in TIPS {
            for flag in *flags {
                let said = told(flag);
                assert!(said.contains(&format!("tip: {tip}")), "{flag}: {said}");
            }
        }
        assert!(told("--bwlimit=100").contains("--limit-rate"));
    }

    #[test]
    fn a_port_that_is_none_may_be_a_flag_of_rsync() {
        for line in ["-avP src host:dst", "-a src host:dst -P", "-P 70000 src host:dst"] {
            let words = ["sealane", "cp"].into_iter().chain(line.split(' '));
            let mut error = crate::args::command().try_get_matches_from(words).expect_err("it is no port");
            add(&mut error);
            let said = error.render().to_string();
            assert!(said.contains("rsync's -P is not needed"), "{line}: {said}");
        }
    }

    #[test]
    fn a_flag_of_nobody_gets_the_nearest_of_ours() {
        let said = told("--recursiv");
        assert!(said.contains("--recursive"), "{said}");
        assert!(!told("--no-such-flag-anywhere").contains("rsync"));
    }

    #[test]
    fn flags_that_tips_name_exist() {
        let cp = crate::args::command();
        let cp = cp.find_subcommand("cp").expect("the command");
        let has = |word: &str| match word.strip_prefix("--") {
            Some(long) => cp.get_arguments().any(|known| known.get_long() == Some(long)),
            None => cp.get_arguments().any(|known| known.get_short() == word.chars().nth(1)),
        };
        for (_, tip) in TIPS {
            let own =
                tip.split('`').step_by(2).collect::<String>().replace("rsync -i", "").replace("scp's -O", "");
            let words = own.split([' ', ',', ';', ':']).filter(|word| word.starts_with('-') && *word != "-");
            for word in words {
                assert!(has(word), "{word} in {tip:?}");
            }
        }
    }
}
