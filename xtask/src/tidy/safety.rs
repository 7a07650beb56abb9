//! Rules about the contracts of unsafe code: each unsafe function and each block of foreign declarations says what its
//! caller guarantees, in a section `# Safety` above it; and no block's reason is only that there is such a contract.
//!
//! Clippy's lint leaves out private functions, or also counts safe ones that have target features.

use super::Finding;
use super::lexer::{has_word, split};
use super::tree::File;

/// The heading of a section.
const HEADING: &str = "# Safety";

/// Reasons that name no part of a contract, without a full stop and in small letters.
const EMPTY_REASONS: &[&str] = &[
    "as above",
    "as said above",
    "see above",
    "the contract",
    "the caller's contract",
    "the caller's promise",
    "the caller guarantees it",
    "the caller keeps the contract",
];

/// Returns a finding for each function or block without its section, and for each reason that names nothing.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let halves = split(&file.text);
        let code: Vec<&str> = halves.code.lines().map(str::trim).collect();
        let comments: Vec<&str> = halves.comments.lines().map(str::trim).collect();
        let mut find = |index: usize, message: &str| {
            findings.push(Finding::new(&file.path, index + 1, "safety", message));
        };
        for (index, line) in code.iter().enumerate() {
            if has_contract(line) && !has_section(&code[..index], &comments[..index]) {
                find(index, "unsafe, without a section `# Safety` that says what the caller guarantees");
            }
        }
        for (index, comment) in comments.iter().enumerate() {
            let goes_on =
                comments.get(index + 1).is_some_and(|next| !next.is_empty() && code[index + 1].is_empty());
            if !goes_on && is_empty_reason(comment) {
                find(index, "a reason that does not say which part of which contract");
            }
        }
    }
    findings
}

/// Returns whether a line of code declares an unsafe function, or opens a block of foreign functions. The type of a
/// function has no name behind `fn`, and makes no contract of its own.
fn has_contract(code: &str) -> bool {
    has_word(code, "unsafe")
        && code.match_indices("unsafe").any(|(at, word)| {
            let mut words = code[at + word.len()..].split_whitespace();
            match words.next() {
                Some("fn") => words.next().is_some_and(is_name),
                // The name of the ABI is a string, which is blank here.
                Some("extern") => match words.next() {
                    Some("fn") => words.next().is_some_and(is_name),
                    other => other == Some("{"),
                },
                _ => false,
            }
        })
}

/// Returns whether a word begins with an identifier, which may be a macro's argument.
fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_' || first == '$')
}

/// Returns whether the comment that ends these lines, with attributes between it and their end, has the heading and a
/// text below it.
fn has_section(code: &[&str], comments: &[&str]) -> bool {
    let mut text_below = false;
    let mut in_attribute = false;
    for (code, comment) in code.iter().zip(comments).rev() {
        if in_attribute || code.starts_with("#[") || code.ends_with(")]") {
            in_attribute = !code.starts_with("#[");
            continue;
        }
        if !code.is_empty() || comment.is_empty() {
            return false;
        }
        let text = sentence(comment);
        if text == HEADING {
            return text_below;
        }
        // Another heading begins another section.
        text_below = !text.starts_with('#') && (text_below || !text.is_empty());
    }
    false
}

fn is_empty_reason(comment: &str) -> bool {
    let reason = sentence(comment).strip_prefix("SAFETY:").map(|reason| reason.trim().trim_end_matches('.'));
    reason.is_some_and(|reason| EMPTY_REASONS.contains(&reason.to_lowercase().as_str()))
}

/// Returns a comment without its marks.
fn sentence(comment: &str) -> &str {
    comment.trim_start_matches(['/', '!', '*']).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the rule fires on exactly these lines.
    #[track_caller]
    fn check_one(text: &str, expected: &[usize]) {
        let file = File { path: "crates/a/src/part.rs".to_owned(), text: text.to_owned() };
        let lines: Vec<usize> = check(&[file]).iter().map(|found| found.line).collect();
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn unsafe_functions_without_their_section_are_found() {
        for function in [
            "unsafe fn f() {}",
            "    pub(super) const unsafe fn f() {}",
            "unsafe extern \"C\" fn f() {}",
            "unsafe fn $name() {}",
            "unsafe extern \"C\" {",
        ] {
            check_one(&format!("{function}\n"), &[1]);
            check_one(&format!("/// It does.\n{function}\n"), &[2]);
            check_one(&format!("/// # Safety\n/// The bytes are readable.\n\n{function}\n"), &[4]);
            check_one(&format!("/// # Safety\n/// The bytes are readable.\nfn g() {{}}\n{function}\n"), &[4]);
            check_one(&format!("/// # Safety\n{function}\n"), &[2]);
            check_one(&format!("/// # Safety\n///\n/// # Errors\n/// It fails.\n{function}\n"), &[5]);
            check_one(&format!("/// # Safety\n///\n/// The bytes are readable.\n{function}\n"), &[]);
        }
    }

    #[test]
    fn sections_are_found_above_attributes() {
        let section = "/// # Safety\n/// The bytes are readable.\n///\n/// # Errors\n/// It fails.\n";
        check_one(&format!("{section}unsafe fn f() {{}}\n"), &[]);
        check_one(&format!("{section}#[inline]\n#[cfg(x)] // Not there.\nunsafe fn f() {{}}\n"), &[]);
        check_one(&format!("{section}#[cfg_attr(\n    x,\n    inline,\n)]\nunsafe fn f() {{}}\n"), &[]);
        check_one("// # Safety\n// The declarations are right.\nunsafe extern \"C\" {\n", &[]);
    }

    #[test]
    fn types_blocks_and_text_make_no_contract() {
        for code in [
            "type F = unsafe extern \"C\" fn(*const u8);",
            "type F = for<'a> unsafe fn(&'a u8);",
            "unsafe impl Send for T {}",
            "let a = \"unsafe fn f()\";",
            "// unsafe fn f()",
            "my_unsafe fn f() {}",
        ] {
            check_one(&format!("{code}\n"), &[]);
        }
    }

    #[test]
    fn reasons_that_name_nothing_are_found() {
        for reason in EMPTY_REASONS {
            check_one(&format!("// SAFETY: {reason}.\nlet a = unsafe {{ f() }};\n"), &[1]);
            check_one(&format!("let a = unsafe {{ f() }}; // SAFETY: {reason}\n"), &[1]);
            check_one(&format!("// SAFETY: {reason}: the bytes are readable.\n"), &[]);
            check_one(&format!("// SAFETY: {reason}\n// to the end of the slice.\n"), &[]);
        }
        check_one("// SAFETY: As above.\n", &[1]);
    }
}
