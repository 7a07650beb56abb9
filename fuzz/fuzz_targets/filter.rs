//! Include and exclude patterns, which a client sends to a daemon: every pattern that compiles gives a decision, and
//! plain patterns the same one as a slow twin.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::scripts::rules;
use sealane_tree::{Filter, RelativePath, Rule};

/// Returns whether the twin supports a pattern: it has no classes, alternatives, escapes, or `**`.
fn is_plain(pattern: &str) -> bool {
    let special = |character| matches!(character, '[' | ']' | '{' | '}' | '\\' | ',');
    pattern.is_ascii() && !pattern.contains(special) && !pattern.contains("**")
}

/// Returns whether a pattern matches a path. `*` and `?` do not match a slash.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    // Each element says whether the pattern so far matches the path's prefix of that length.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for &wanted in pattern {
        if wanted == b'*' {
            for end in 1..=path.len() {
                reached[end] |= reached[end - 1] && path[end - 1] != b'/';
            }
            continue;
        }
        for end in (1..=path.len()).rev() {
            let byte = path[end - 1];
            reached[end] = reached[end - 1] && (wanted == byte || (wanted == b'?' && byte != b'/'));
        }
        reached[0] = false;
    }
    reached[path.len()]
}

/// Returns the decision of the first rule that matches. A pattern that is not anchored matches whole components at
/// the path's end.
fn twin(rules: &[(bool, &str)], path: &[u8], is_directory: bool) -> bool {
    let tails = || (0..path.len()).filter(|&at| at == 0 || path[at - 1] == b'/').map(|at| &path[at..]);
    let decides = |pattern: &str| {
        let body = pattern.strip_suffix('/').unwrap_or(pattern);
        let is_match = match body.strip_prefix('/') {
            Some(anchored) => matches(anchored.as_bytes(), path),
            None => tails().any(|tail| matches(body.as_bytes(), tail)),
        };
        is_match && (is_directory || body.len() == pattern.len())
    };
    rules.iter().find(|(_, pattern)| decides(pattern)).is_none_or(|&(include, _)| include)
}

fuzz_target!(|input: &[u8]| {
    let (path, rules) = rules(input);
    let compiled = Filter::new(rules.iter().map(|&(include, pattern)| match include {
        true => Rule::Include(pattern.to_owned()),
        false => Rule::Exclude(pattern.to_owned()),
    }));
    let Ok(filter) = compiled else { return };
    let found = [false, true].map(|is_directory| filter.includes(path, is_directory));
    let is_simple = path.is_ascii() && RelativePath::new(path).is_ok();
    if is_simple
        && rules.iter().all(|(_, pattern)| is_plain(pattern) && !pattern.trim_matches('/').is_empty())
    {
        assert_eq!(found, [false, true].map(|is_directory| twin(&rules, path, is_directory)));
    }
});
