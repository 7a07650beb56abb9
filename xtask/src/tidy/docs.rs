//! Doc comments say more than the name of what they document: one of a few words that are all in the name, such as "The
//! reason." on `reason`, costs a line and tells nothing.

use super::Finding;
use super::lexer::split;
use super::tree::File;

/// A comment of more words says something that the name does not.
const WORDS_MAX: usize = 3;

/// Words that add nothing to a name.
const EMPTY_WORDS: &[&str] = &["the", "its", "a", "an", "of", "returns", "this", "sets", "is"];

/// Words that may stand before the name in a declaration.
const BEFORE_NAMES: &[&str] = &[
    "pub", "crate", "super", "in", "const", "static", "mut", "async", "unsafe", "extern", "fn", "struct",
    "enum", "union", "mod", "type", "trait",
];

/// Returns a finding for each doc comment of one short line that only repeats the name below it.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    files.iter().filter(|file| file.is_rust()).flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let halves = split(&file.text);
    let comments: Vec<Option<&str>> = halves.comments.lines().map(doc_line).collect();
    let code: Vec<&str> = halves.code.lines().collect();
    let mut findings = Vec::new();
    for (index, comment) in comments.iter().enumerate() {
        let is_beside =
            |other: Option<usize>| other.is_some_and(|at| matches!(comments.get(at), Some(Some(_))));
        let Some(comment) = comment else { continue };
        if is_beside(index.checked_sub(1)) || is_beside(Some(index + 1)) {
            continue;
        }
        if let Some(name) = item_name(&code[index + 1..]).filter(|name| repeats(comment, name)) {
            let message = format!(
                "{comment:?} only repeats `{name}`: say what a reader cannot know from name and type, or nothing"
            );
            findings.push(Finding::new(&file.path, index + 1, "docs", message));
        }
    }
    findings
}

/// Returns the text of a line of a doc comment.
fn doc_line(comment: &str) -> Option<&str> {
    let text = comment.trim_start().strip_prefix("///")?;
    (!text.starts_with('/')).then(|| text.trim())
}

/// Returns the name that is declared behind attributes and comments.
fn item_name<'a>(code: &[&'a str]) -> Option<&'a str> {
    let mut depth = 0_usize;
    for line in code.iter().map(|line| line.trim()) {
        if depth == 0 && !line.is_empty() && !line.starts_with("#[") {
            let mut words = line.split(|letter: char| !letter.is_alphanumeric() && !"_#".contains(letter));
            let name = words.find(|word| !word.is_empty() && !BEFORE_NAMES.contains(word))?;
            return Some(name.strip_prefix("r#").unwrap_or(name));
        }
        depth = (depth + line.matches('[').count()).saturating_sub(line.matches(']').count());
    }
    None
}

/// Returns whether a comment is short, and all of its words are those of the name. Singular and plural are alike.
fn repeats(comment: &str, name: &str) -> bool {
    let words: Vec<String> =
        comment.split_whitespace().map(|word| word.trim_matches(['`', '.', ',']).to_lowercase()).collect();
    let mut parts = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && parts.ends_with(|before: char| before.is_ascii_lowercase()) {
            parts.push('_');
        }
        parts.push(letter);
    }
    let parts = parts.to_lowercase();
    let has =
        |word: &str| parts.split('_').any(|part| part.trim_end_matches('s') == word.trim_end_matches('s'));
    (1..=WORDS_MAX).contains(&words.len())
        && words.iter().all(|word| EMPTY_WORDS.contains(&&**word) || has(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts the lines in which findings are made.
    #[track_caller]
    fn check_one(text: &str, lines: &[usize]) {
        let file = File { path: "crates/a/src/part.rs".to_owned(), text: text.to_owned() };
        let found: Vec<usize> = check(&[file]).iter().map(|found| found.line).collect();
        assert_eq!(found, lines, "in {text:?}");
    }

    #[test]
    fn a_comment_that_repeats_the_name_is_found() {
        check_one("/// The reason.\nreason: String,\n", &[1]);
        check_one("/// Its header\npub header: Header,\n", &[1]);
        check_one("/// A peer.\npub(in super::super) struct Peer {\n", &[1]);
        check_one("/// Returns its kind.\npub const fn kind(&self) -> Kind {\n", &[1]);
        check_one("//! P.\n\n/// Sets `Kinds`.\npub unsafe extern \"C\" fn kind() {}\n", &[3]);
        check_one("/// Key exchange.\npub const KEY_EXCHANGE: Self = Self(4);\n", &[1]);
        check_one("/// A key exchange.\nenum KeyExchange {\n", &[1]);
        check_one("/// The type.\nr#type: u8,\n", &[1]);
    }

    #[test]
    fn attributes_and_comments_may_stand_between() {
        let text = "/// The run.\n#[arg(\n    long,\n    value_names = [\"[\", \"run\"],\n)]\n// Not its name.\nrun: String,\n";
        check_one(text, &[1]);
        check_one("/// The run.\n#[arg(long)]\nmover: String,\n", &[]);
    }

    #[test]
    fn a_comment_that_says_more_passes() {
        check_one("/// The cause.\nreason: String,\n", &[]);
        check_one("/// The length in bytes.\nlength: u64,\n", &[]);
        check_one("/// The reason for which it ended.\nreason: String,\n", &[]);
        check_one("/// The reason.\n/// Empty if there is none.\nreason: String,\n", &[]);
        check_one("/// # Errors\n///\n/// The reason.\nreason: String,\n", &[]);
    }

    #[test]
    fn only_doc_comments_above_an_item_count() {
        check_one("// The reason.\nreason: String,\n", &[]);
        check_one("//// The reason.\nreason: String,\n", &[]);
        check_one("//! The reason.\nreason: String,\n", &[]);
        check_one("let text = \"\n/// The reason.\nreason\";\n", &[]);
        check_one("/// The reason.\n", &[]);
    }
}
