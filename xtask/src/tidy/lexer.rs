//! Splits Rust source into code and comments, so that a rule about code does not fire on a comment or a string.
//!
//! Both halves keep every line break and the width of every line in bytes: text of the other half is blank.

/// The two halves of one source text.
#[derive(Debug)]
pub(crate) struct Halves {
    /// Code, with the contents of comments, strings and character literals blanked.
    pub(crate) code: String,
    /// Comments alone, their markers included.
    pub(crate) comments: String,
}

/// Splits `source`. For text that is not Rust the two halves are meaningless.
pub(crate) fn split(source: &str) -> Halves {
    let bytes = source.as_bytes();
    let mut code = vec![b' '; bytes.len()];
    let mut comments = vec![b' '; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let previous = at.checked_sub(1).map(|before| bytes[before]);
        if rest.starts_with(b"//") {
            let end = at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            comments[at..end].copy_from_slice(&bytes[at..end]);
            at = end;
        } else if rest.starts_with(b"/*") {
            let end = at + block_comment_bytes(rest);
            comments[at..end].copy_from_slice(&bytes[at..end]);
            at = end;
        } else if let Some(length) = literal_bytes(rest, previous) {
            at += length;
        } else {
            code[at] = bytes[at];
            at += 1;
        }
    }
    for (at, _) in bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n') {
        code[at] = b'\n';
        comments[at] = b'\n';
    }
    // Only whole characters were copied or blanked, because every mark that starts or ends a span is ASCII.
    Halves {
        code: String::from_utf8_lossy(&code).into_owned(),
        comments: String::from_utf8_lossy(&comments).into_owned(),
    }
}

/// Returns the length of the block comment that starts `rest`; block comments nest.
fn block_comment_bytes(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Returns the length of the string or character literal that starts `rest`, if there is one.
fn literal_bytes(rest: &[u8], previous: Option<u8>) -> Option<usize> {
    match rest.first()? {
        b'"' => Some(quoted_bytes(rest, b'"')),
        // `'a` is a lifetime, `'a'` and `'\n'` are literals. A character takes at most four bytes.
        b'\'' if rest.get(1) == Some(&b'\\') => Some(quoted_bytes(rest, b'\'')),
        b'\'' => {
            let end = (2..=5).find(|&at| rest.get(at) == Some(&b'\''))?;
            let inside = std::str::from_utf8(&rest[1..end]).ok()?;
            (inside.chars().count() == 1).then_some(end + 1)
        }
        b'r' if !previous.is_some_and(is_word) => raw_bytes(&rest[1..]).map(|length| length + 1),
        b'b' | b'c' if rest.get(1) == Some(&b'r') && !previous.is_some_and(is_word) => {
            raw_bytes(&rest[2..]).map(|length| length + 2)
        }
        _ => None,
    }
}

fn quoted_bytes(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a raw string from its hashes on; `None` for a raw identifier or any other word with an `r`.
fn raw_bytes(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let body = &rest[hashes + 1..];
    let end = body.windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |end| hashes + 1 + end + close.len()))
}

/// Returns whether `byte` can be part of an identifier.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns whether `text` holds `word` with no letter, digit or underscore beside it.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with blanks collapsed, and asserts for all that both halves keep every width.
    #[track_caller]
    fn check(source: &str, code: &str, comments: &str) {
        let halves = split(source);
        let collapsed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(collapsed(&halves.code), code, "code of {source:?}");
        assert_eq!(collapsed(&halves.comments), comments, "comments of {source:?}");
        assert_eq!((halves.code.len(), halves.comments.len()), (source.len(), source.len()));
        assert_eq!(halves.code.lines().count(), source.lines().count());
    }

    #[test]
    fn comments_and_literals_leave_the_code() {
        check("a // b\nc", "a c", "// b");
        check("a /* /* x */ y */ b", "a b", "/* /* x */ y */");
        check("f(\"// no\", 'x')", "f( , )", "");
        check("'\\'' + '\"' // s", "+", "// s");
        check("g(\"a\\\"b\", b\"c\", c\"d\")", "g( , b , c )", "");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay_code() {
        let source = "fn f<'a>(x: &'a str, r#type: u8, bar: u8) {}";
        check(source, source, "");
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        check("r#\"a\" // b\"# c", "c", "");
        check("br\"\\\" c", "c", "");
    }

    #[test]
    fn unfinished_text_ends_without_panic() {
        for source in ["/* a", "\"a", "\"\\", "'", "r#\"a\"", "b", "'\\", "é'é'"] {
            split(source);
        }
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(has_word("unsafe", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
