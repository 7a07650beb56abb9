//! Completions of `sealane lab`: the product's hand the words on to the laboratory's own.

#[path = "../../cli/tests/program/mod.rs"]
mod program;

use program::{skip, text};
use std::process::Command;

/// Loads the completions of both programs, and prints what completes the words that are given.
const SCRIPT: &str = r#"
PATH=$1:$PATH; shift
source <(sealane completions bash); source <(sealane-lab completions bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_sealane sealane "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
echo "${COMPREPLY[*]}"
"#;

#[test]
fn the_words_of_the_laboratory_are_completed_behind_sealane_lab() {
    if Command::new("bash").arg("--version").output().is_err() {
        return skip("bash is not installed");
    }
    let product = std::path::PathBuf::from(program::path());
    let folder = product.parent().expect("a folder");
    for (words, expected) in [
        (&["sealane", "lab", "qu"][..], "quick"),
        (&["sealane", "lab", "stacks", "--on"], "--only"),
        (&["sealane", "lab", "fleet", "ru"], "run"),
        (&["sealane", "spe"], "speed"),
    ] {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", SCRIPT, "bash"]).arg(folder).args(words);
        let output = bash.output().expect("bash starts");
        assert_eq!(text(&output.stdout).trim(), expected, "{words:?}: {}", text(&output.stderr));
    }
}
