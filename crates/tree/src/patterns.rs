//! Patterns of whole paths, as the rules of filters have them: `?` and `*` within a component, `**` for any number of components,
//! `[a-z]`, `[!a-z]`, `{one,other}`, and a backslash before a character that stands for itself.
//!
//! Guarantees: paths are bytes; a match takes no more steps than the lengths of pattern and path multiplied; a pattern has at
//! most [`BYTES_MAX`] bytes and [`DEPTH_MAX`] braces within each other; text that is no pattern is an error. Most patterns, a
//! name or an ending, cost one look-up however many they are.

use std::collections::HashMap;

/// The longest pattern, in bytes.
const BYTES_MAX: usize = 1 << 14;
/// The number of braces within each other.
const DEPTH_MAX: usize = 16;

/// The fault of a pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// A `[` has no `]`.
    #[error("a `[` has no `]`")]
    UnclosedClass,
    /// The end of a range is before its beginning.
    #[error("a range ends before it begins")]
    InvertedRange,
    /// A `{` has no `}`.
    #[error("a `{{` has no `}}`")]
    UnclosedBrace,
    /// A `}` has no `{`.
    #[error("a `}}` has no `{{`")]
    UnopenedBrace,
    /// Nothing follows a backslash.
    #[error("nothing follows the last backslash")]
    DanglingEscape,
    /// The pattern is longer than [`BYTES_MAX`], or has more braces within each other than [`DEPTH_MAX`].
    #[error("it is too long, or has too many braces within each other")]
    TooLarge,
}

/// A set of bytes.
type Bytes = [u64; 4];

const ALL: Bytes = [u64::MAX; 4];

fn insert(set: &mut Bytes, byte: u8) {
    set[usize::from(byte / 64)] |= 1 << (byte % 64);
}

fn contains(set: &Bytes, byte: u8) -> bool {
    set[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
}

fn not_slash() -> Bytes {
    let mut slash = [0; 4];
    insert(&mut slash, b'/');
    slash.map(|word| !word)
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Token {
    Byte(u8),
    /// A byte of a set: `?` or a class.
    Of(Bytes),
    /// `*`
    Star,
    /// `**/` at the beginning: all of the folders above, or none.
    Above,
    /// `/**` at the end.
    Below,
    /// `/**/`
    Between,
    Either(Vec<Vec<Self>>),
}

struct Parser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    before: Option<char>,
    now: Option<char>,
    /// The tokens of each branch that is not closed yet, the whole pattern first.
    branches: Vec<Vec<Token>>,
    /// The first branch of each open brace.
    open: Vec<usize>,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        self.before = self.now;
        self.now = self.rest.next();
        self.now
    }

    fn tokens(&mut self) -> &mut Vec<Token> {
        self.branches.last_mut().expect("the whole pattern is never closed")
    }

    fn push(&mut self, character: char) {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).bytes();
        self.tokens().extend(bytes.map(Token::Byte));
    }

    fn parse(mut self) -> Result<Vec<Token>, PatternError> {
        while let Some(character) = self.next() {
            match character {
                '?' => self.tokens().push(Token::Of(not_slash())),
                '*' => self.star(),
                '[' => {
                    let class = self.class()?;
                    self.tokens().push(Token::Of(class));
                }
                '{' if self.open.len() == DEPTH_MAX => return Err(PatternError::TooLarge),
                '{' => {
                    self.open.push(self.branches.len());
                    self.branches.push(Vec::new());
                }
                '}' => {
                    let first = self.open.pop().ok_or(PatternError::UnopenedBrace)?;
                    let branches = self.branches.drain(first..).collect();
                    self.tokens().push(Token::Either(branches));
                }
                ',' if !self.open.is_empty() => self.branches.push(Vec::new()),
                '\\' => {
                    let meant = self.next().ok_or(PatternError::DanglingEscape)?;
                    self.push(meant);
                }
                other => self.push(other),
            }
        }
        if !self.open.is_empty() {
            return Err(PatternError::UnclosedBrace);
        }
        Ok(self.branches.pop().unwrap_or_default())
    }

    /// Several stars match the same as one, and would take more steps.
    fn one_star(&mut self) {
        if self.tokens().last() != Some(&Token::Star) {
            self.tokens().push(Token::Star);
        }
    }

    fn star(&mut self) {
        let before = self.before;
        if self.rest.peek() != Some(&'*') {
            return self.one_star();
        }
        self.next();
        let follows = self.rest.peek().copied();
        let is_in_braces = self.branches.len() >= 2;
        if self.tokens().is_empty() {
            return match follows {
                None | Some('/') => {
                    self.next();
                    self.tokens().push(Token::Above);
                }
                Some(_) => self.one_star(),
            };
        }
        // Elsewhere than between slashes two stars are like one.
        let begins = before == Some('/') || is_in_braces && matches!(before, Some(',' | '{'));
        let token = match follows {
            _ if !begins => return self.one_star(),
            Some('/') => Token::Between,
            None => Token::Below,
            Some(',' | '}') if is_in_braces => Token::Below,
            Some(_) => return self.one_star(),
        };
        if token == Token::Between || follows.is_none() {
            self.next();
        }
        let last = self.tokens().pop();
        let token = match last {
            Some(wide @ (Token::Above | Token::Below)) => wide,
            _ => token,
        };
        self.tokens().push(token);
    }

    fn class(&mut self) -> Result<Bytes, PatternError> {
        let negated = matches!(self.rest.peek(), Some('!' | '^'));
        if negated {
            self.next();
        }
        let mut ranges: Vec<(char, char)> = Vec::new();
        let mut is_range = false;
        loop {
            match self.next().ok_or(PatternError::UnclosedClass)? {
                ']' if !ranges.is_empty() => break,
                '-' if !ranges.is_empty() && !is_range => is_range = true,
                character => match ranges.last_mut().filter(|_| is_range) {
                    Some(range) if character < range.0 => return Err(PatternError::InvertedRange),
                    Some(range) => {
                        range.1 = character;
                        is_range = false;
                    }
                    None => ranges.push((character, character)),
                },
            }
        }
        // A hyphen at the end stands for itself.
        ranges.extend(is_range.then_some(('-', '-')));
        let mut set = [0; 4];
        for (low, high) in ranges {
            // Each byte of a character counts, and a range is from the last byte of one to the first of the other.
            let (mut from, mut to) = ([0; 4], [0; 4]);
            let (from, to) = (low.encode_utf8(&mut from).as_bytes(), high.encode_utf8(&mut to).as_bytes());
            from.iter().for_each(|&byte| insert(&mut set, byte));
            if low != high {
                let (first, last) = (from[from.len() - 1], to[0]);
                if last < first {
                    return Err(PatternError::InvertedRange);
                }
                (first..=last).chain(to.iter().copied()).for_each(|byte| insert(&mut set, byte));
            }
        }
        Ok(if negated { set.map(|word| !word) } else { set })
    }
}

#[derive(Clone, Debug)]
enum Step {
    Byte(u8),
    Of(Box<Bytes>),
    /// Goes on with the next step, and with this one.
    Or(usize),
    /// Goes on with this step.
    To(usize),
}

/// A pattern as steps, all of which that a path can have come to are followed at once.
#[derive(Clone, Debug, Default)]
struct Machine(Vec<Step>);

impl Machine {
    fn star(&mut self, bytes: Bytes) {
        let start = self.0.len();
        self.0.extend([Step::Or(start + 3), Step::Of(Box::new(bytes)), Step::To(start)]);
    }

    /// Any bytes and a slash, or nothing.
    fn above(&mut self) {
        let start = self.0.len();
        self.0.push(Step::Or(start + 5));
        self.star(ALL);
        self.0.push(Step::Byte(b'/'));
    }

    fn add(&mut self, tokens: &[Token]) {
        for token in tokens {
            match token {
                Token::Byte(byte) => self.0.push(Step::Byte(*byte)),
                Token::Of(bytes) => self.0.push(Step::Of(Box::new(*bytes))),
                Token::Star => self.star(not_slash()),
                Token::Above => self.above(),
                Token::Below => {
                    self.0.push(Step::Byte(b'/'));
                    self.star(ALL);
                }
                Token::Between => {
                    self.0.push(Step::Byte(b'/'));
                    self.above();
                }
                Token::Either(branches) => {
                    // A branch without anything is none.
                    let mut branches = branches.iter().filter(|branch| !branch.is_empty()).peekable();
                    let mut ends = Vec::new();
                    while let Some(branch) = branches.next() {
                        let other = branches.peek().is_some().then_some(self.0.len());
                        self.0.extend(other.map(Step::Or));
                        self.add(branch);
                        ends.push(self.0.len());
                        self.0.push(Step::To(0));
                        if let Some(other) = other {
                            self.0[other] = Step::Or(self.0.len());
                        }
                    }
                    let end = self.0.len();
                    ends.into_iter().for_each(|at| self.0[at] = Step::To(end));
                }
            }
        }
    }

    /// Adds a step, and those that are reached from it without a byte.
    fn reach(&self, states: &mut [u64], step: usize, waiting: &mut Vec<usize>) {
        waiting.push(step);
        while let Some(step) = waiting.pop() {
            let (word, bit) = (&mut states[step / 64], 1 << (step % 64));
            if *word & bit != 0 {
                continue;
            }
            *word |= bit;
            match self.0.get(step) {
                Some(Step::Or(other)) => waiting.extend([*other, step + 1]),
                Some(Step::To(other)) => waiting.push(*other),
                Some(Step::Byte(_) | Step::Of(_)) | None => {}
            }
        }
    }

    fn matches(&self, path: &[u8]) -> bool {
        let end = self.0.len();
        let (mut now, mut next) = (vec![0; end / 64 + 1], vec![0; end / 64 + 1]);
        let mut waiting = Vec::new();
        self.reach(&mut now, 0, &mut waiting);
        for &byte in path {
            next.fill(0);
            for (index, &word) in now.iter().enumerate() {
                let mut word: u64 = word;
                while word != 0 {
                    let step = index * 64 + word.trailing_zeros() as usize;
                    word &= word - 1;
                    let is_taken = match self.0.get(step) {
                        Some(Step::Byte(wanted)) => *wanted == byte,
                        Some(Step::Of(bytes)) => contains(bytes, byte),
                        Some(Step::Or(_) | Step::To(_)) | None => false,
                    };
                    if is_taken {
                        self.reach(&mut next, step + 1, &mut waiting);
                    }
                }
            }
            std::mem::swap(&mut now, &mut next);
            if now.iter().all(|&word| word == 0) {
                return false;
            }
        }
        now[end / 64] >> (end % 64) & 1 == 1
    }
}

/// Returns the bytes of tokens that stand for themselves.
fn literal(tokens: &[Token]) -> Option<Box<[u8]>> {
    let byte = |token: &Token| if let Token::Byte(byte) = token { Some(*byte) } else { None };
    tokens.iter().map(byte).collect()
}

/// Places of patterns by bytes that a path has.
type Index = HashMap<Box<[u8]>, Vec<usize>>;

/// Patterns that are matched together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    count: usize,
    paths: Index,
    /// Last components.
    names: Index,
    /// The bytes behind the last dot of a path's last component.
    endings: Index,
    /// Patterns of other kinds, each with the bytes that the path ends with.
    others: Vec<(usize, Box<[u8]>, Machine)>,
}

impl Patterns {
    /// Adds a pattern. Its place is the number of patterns before it.
    pub(crate) fn push(&mut self, pattern: &str) -> Result<(), PatternError> {
        if pattern.len() > BYTES_MAX {
            return Err(PatternError::TooLarge);
        }
        let (rest, branches) = (pattern.chars().peekable(), vec![Vec::new()]);
        let tokens = Parser { rest, before: None, now: None, branches, open: Vec::new() }.parse()?;
        let (index, key) = match &tokens[..] {
            [Token::Above, Token::Star, Token::Byte(b'.'), ending @ ..] => {
                (&mut self.endings, literal(ending))
            }
            [Token::Above, name @ ..] if !name.is_empty() => (&mut self.names, literal(name)),
            path => (&mut self.paths, literal(path)),
        };
        let is_ending = matches!(tokens.get(1), Some(Token::Star));
        let is_plain = |key: &[u8]| !key.contains(&b'/') && (!is_ending || !key.contains(&b'.'));
        match key.filter(|key| tokens.first() != Some(&Token::Above) || is_plain(key)) {
            Some(key) => index.entry(key).or_default().push(self.count),
            None => {
                let mut machine = Machine::default();
                // A pattern of two stars alone matches everything.
                if tokens == [Token::Above] {
                    machine.star(ALL)
                } else {
                    machine.add(&tokens)
                }
                let special = tokens.iter().rposition(|token| !matches!(token, Token::Byte(_)));
                let end = literal(&tokens[special.map_or(0, |at| at + 1)..]).unwrap_or_default();
                self.others.push((self.count, end, machine));
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Returns the places of the patterns that match, in no order.
    pub(crate) fn matching<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let ending = name.iter().rposition(|&byte| byte == b'.').map(|dot| &name[dot + 1..]);
        let ending = ending.and_then(|ending| self.endings.get(ending));
        let found = [self.paths.get(path), self.names.get(name), ending].into_iter().flatten().flatten();
        let others = self.others.iter();
        let others = others.filter(|(_, end, machine)| path.ends_with(end) && machine.matches(path));
        found.copied().chain(others.map(|(place, ..)| *place))
    }
}

#[cfg(test)]
mod tests {
    use std::iter::once;

    use globset::{GlobBuilder, GlobSetBuilder};
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &[u8]) -> Result<bool, PatternError> {
        let mut patterns = Patterns::default();
        patterns.push(pattern)?;
        Ok(patterns.matching(path).next().is_some())
    }

    /// The judgement of the library that has these patterns as regular expressions; `None` for a malformed one.
    fn theirs(pattern: &str, path: &[u8]) -> Option<bool> {
        let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build().ok()?;
        GlobSetBuilder::new().add(glob.clone()).build().ok()?;
        // Its set has shortcuts, by which no name matches that ends with a dot.
        Some(glob.compile_matcher().is_match_candidate(&globset::Candidate::from_bytes(path)))
    }

    fn check(pattern: &str, path: &[u8]) {
        assert_eq!(matches(pattern, path).ok(), theirs(pattern, path), "{pattern:?} {path:?}");
    }

    #[test]
    fn the_kinds_of_patterns_match_as_regular_expressions_do() {
        let patterns = [
            "**",
            "**/",
            "/**",
            "a/**",
            "**/a",
            "**/*.o",
            "**/*.",
            "**/*",
            "**/.o",
            "a/**/b",
            "a**b",
            "a/**b",
            "*.o",
            "**/**/a",
            "a/**/**",
            "a/**/**/b",
            "{**/a,b}",
            "{a,**}/b",
            "x{a/**,/**,**/b}",
            "{,a}",
            "{}",
            "a{,}b",
            "{a,{b,c}}d",
            "[a-c]",
            "[!a]",
            "[^/]",
            "[]]",
            "[a-]",
            "[-a]",
            "[é-ü]",
            "?",
            "a?b",
            "\\*",
            "\\\\",
            "é*",
            "[",
            "[a",
            "{a",
            "a}",
            "\\",
            "[b-a]",
            "***",
            "a/***",
            "**a",
            "a,b",
            "{a,b},c",
            "**/a/b",
            "**/a.b",
            "",
        ];
        let paths = [
            "", "a", "b", "ab", "a/b", "a/x/b", "a/x/y/b", "x/a", "/a", "x/y/a", "f.o", "d/f.o", ".o",
            "d/.o", "f.", "ad", "bd", "cd", "]", "-", "é", "*", "\\", "/", "a/", "a/b/", "/b", "axb",
            "x/f.o.o", "xa/z", "x/b", "a.b", "x/a.b", "a,b", "a,c", "aab", "a//b",
        ];
        for pattern in patterns {
            paths.iter().for_each(|path| check(pattern, path.as_bytes()));
        }
    }

    #[test]
    fn patterns_without_bound_are_refused() {
        assert_eq!(matches(&"a".repeat(BYTES_MAX + 1), b"a"), Err(PatternError::TooLarge));
        let nested = |depth| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        assert_eq!(matches(&nested(DEPTH_MAX), b"a"), Ok(true));
        assert_eq!(matches(&nested(DEPTH_MAX + 1), b"a"), Err(PatternError::TooLarge));
        // A matcher that goes back would take for ever.
        assert_eq!(matches(&"*a".repeat(1000), &b"a".repeat(999)), Ok(false));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_pattern_matches_as_its_regular_expression_does(
            pattern in r"([ab./*?,é-]|\*\*|/\*\*/|\*\*/|\[[!^]?[abé-]{1,3}\]|[{}]|\\[*a]|\[){0,8}",
            paths in prop::collection::vec("[ab./,é*-]{0,8}", 1..8),
            bytes in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            for path in paths.iter().map(|path| path.as_bytes()).chain(once(&bytes[..])) {
                prop_assert_eq!(matches(&pattern, path).ok(), theirs(&pattern, path), "{:?}", path);
            }
        }

        #[test]
        fn patterns_together_match_as_each_alone(
            patterns in prop::collection::vec(r"(\*\*/)?[ab*]{1,2}(/|\.)?[ab]?", 1..8),
            path in "[ab./]{0,6}",
        ) {
            let mut together = Patterns::default();
            for pattern in &patterns {
                together.push(pattern).unwrap();
            }
            let mut found: Vec<usize> = together.matching(path.as_bytes()).collect();
            found.sort_unstable();
            let each = patterns.iter().map(|pattern| matches(pattern, path.as_bytes()).unwrap());
            let expected: Vec<usize> = each.enumerate().filter_map(|(at, is)| is.then_some(at)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
