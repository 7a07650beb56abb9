//! Patterns that stand for names, as in a shell: `*`, `?`, `[a-z]`, `[!a-z]`, and a backslash before a character that
//! stands for itself.
//!
//! A pattern never matches a slash, and only a pattern that begins with a dot matches a name that does. Characters
//! are those of UTF-8; an invalid byte counts as one character, which only itself, `?` and `*` match. Matching takes
//! no more steps than the lengths of pattern and name multiplied, and [`Anchor::expand`] looks at a bounded number of
//! names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::path::RelativePath;
use crate::root::Anchor;

/// Returns whether `text` has a character that makes it a pattern.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// A character of UTF-8, or an invalid byte as a number beyond them.
type Character = u32;

const BEYOND: Character = 0x11_0000;

fn characters(bytes: &[u8]) -> Vec<Character> {
    let mut found = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        found.extend(chunk.valid().chars().map(Character::from));
        found.extend(chunk.invalid().iter().map(|&byte| BEYOND + Character::from(byte)));
    }
    found
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Token {
    /// `*`
    Any,
    /// `?`
    One,
    Just(Character),
    Class {
        negated: bool,
        ranges: Vec<(Character, Character)>,
    },
}

impl Token {
    fn matches(&self, character: Character) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Just(just) => *just == character,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|&(low, high)| (low..=high).contains(&character)) != *negated
            }
        }
    }
}

/// A pattern for one component of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Glob(Vec<Token>);

impl Glob {
    /// Parses a pattern; any text is valid. A `[` without its `]` stands for itself.
    pub fn new(text: &[u8]) -> Self {
        let text = characters(text);
        let (mut tokens, mut rest) = (Vec::with_capacity(text.len()), text.as_slice());
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            tokens.push(match char::from_u32(first) {
                // Several stars match the same as one, and would take more steps.
                Some('*') if tokens.last() == Some(&Token::Any) => continue,
                Some('*') => Token::Any,
                Some('?') => Token::One,
                Some('\\') => match after.split_first() {
                    Some((&meant, after)) => {
                        rest = after;
                        Token::Just(meant)
                    }
                    None => Token::Just(first),
                },
                Some('[') => match class(after) {
                    Some((class, after)) => {
                        rest = after;
                        class
                    }
                    None => Token::Just(first),
                },
                _ => Token::Just(first),
            });
        }
        Self(tokens)
    }

    /// Returns whether the pattern matches `name`.
    pub fn matches(&self, name: &[u8]) -> bool {
        let dot = Character::from('.');
        if name.first() == Some(&b'.') && self.0.first() != Some(&Token::Just(dot)) {
            return false;
        }
        let name = characters(name);
        let (mut token, mut at) = (0, 0);
        // Position of the last `*`, and of the end of its match, which grows by one whenever the rest fails.
        let mut retry: Option<(usize, usize)> = None;
        while at < name.len() || token < self.0.len() {
            match (self.0.get(token), name.get(at)) {
                (Some(Token::Any), _) => {
                    retry = Some((token, at));
                    token += 1;
                }
                (Some(wanted), Some(&character)) if wanted.matches(character) => {
                    token += 1;
                    at += 1;
                }
                _ => match &mut retry {
                    Some((star, reached)) if *reached < name.len() => {
                        *reached += 1;
                        (token, at) = (*star + 1, *reached);
                    }
                    _ => return false,
                },
            }
        }
        true
    }
}

/// Returns the class that follows a `[`, and the text that follows its `]`.
fn class(text: &[Character]) -> Option<(Token, &[Character])> {
    let is = |character: Option<&Character>, wanted: char| character == Some(&Character::from(wanted));
    let negated = is(text.first(), '!') || is(text.first(), '^');
    let mut at = usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let &low = text.get(at)?;
        at += 1;
        // A `]` at the beginning stands for itself.
        if low == Character::from(']') && !ranges.is_empty() {
            return Some((Token::Class { negated, ranges }, &text[at..]));
        }
        let low = match low == Character::from('\\') {
            true => {
                at += 1;
                *text.get(at - 1)?
            }
            false => low,
        };
        let is_range =
            is(text.get(at), '-') && text.get(at + 1).is_some_and(|&next| next != Character::from(']'));
        let high = if is_range { *text.get(at + 1)? } else { low };
        at += if is_range { 2 } else { 0 };
        ranges.push((low, high));
    }
}

/// Bounds of the work on a pattern.
#[derive(Debug)]
pub struct ExpansionBounds {
    /// The maximum number of folders that contain matching names.
    pub folders_max: usize,
    /// The maximum number of names that are compared with the pattern.
    pub names_max: usize,
    /// The maximum number of names that match the pattern.
    pub matches_max: usize,
}

/// The names in one folder that match a pattern.
#[derive(Debug, Eq, PartialEq)]
pub struct Expansion {
    /// The folder; empty if the pattern has no slash.
    pub folder: PathBuf,
    /// The names, in order.
    pub names: Vec<ExpandedName>,
}

/// A name that matches a pattern.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ExpandedName {
    /// The name, of one component.
    pub name: RelativePath,
    /// Whether it is a symbolic link.
    pub is_link: bool,
}

impl Anchor {
    /// Returns the names that match a path with patterns, folder by folder; no folder elsewhere is opened. Folders
    /// that cannot be listed count as empty. `bounds` is reduced by the work done.
    pub fn expand(&self, pattern: &Path, bounds: &mut ExpansionBounds) -> Result<Vec<Expansion>> {
        let bytes = pattern.as_os_str().as_bytes();
        let mut components: Vec<_> =
            bytes.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        let directories_only = bytes.ends_with(b"/");
        let Some(last) = components.pop() else { return Ok(Vec::new()) };
        let too_many = || Error::TooManyMatches { pattern: pattern.to_owned().into() };
        let mut folders = vec![PathBuf::from(if bytes.starts_with(b"/") { "/" } else { "" })];
        for component in components {
            if is_pattern(component) {
                let glob = Glob::new(component);
                let mut below = Vec::new();
                for folder in &folders {
                    for (name, file_type) in self.names(folder, &glob, bounds).ok_or_else(too_many)? {
                        if may_be_directory(file_type) {
                            below.push(folder.join(OsStr::from_bytes(&name)));
                        }
                        if below.len() > bounds.folders_max {
                            return Err(too_many());
                        }
                    }
                }
                folders = below;
            } else {
                folders.iter_mut().for_each(|folder| folder.push(OsStr::from_bytes(component)));
            }
        }
        let glob = Glob::new(last);
        let mut expansions = Vec::new();
        for folder in folders {
            let mut names = Vec::new();
            if is_pattern(last) {
                for (name, file_type) in self.names(&folder, &glob, bounds).ok_or_else(too_many)? {
                    let is_fitting = !directories_only || may_be_directory(file_type);
                    // A name that is not a valid path could not be copied.
                    if let (true, Ok(name)) = (is_fitting, RelativePath::from_vec(name)) {
                        names.push(ExpandedName { name, is_link: file_type == FileType::Symlink });
                    }
                }
            } else if let Some(file_type) = self.file_type(&folder.join(OsStr::from_bytes(last)))
                && let Ok(name) = RelativePath::new(last)
            {
                names.push(ExpandedName { name, is_link: file_type == FileType::Symlink });
            }
            bounds.matches_max = bounds.matches_max.checked_sub(names.len()).ok_or_else(too_many)?;
            if !names.is_empty() {
                bounds.folders_max = bounds.folders_max.checked_sub(1).ok_or_else(too_many)?;
                names.sort();
                expansions.push(Expansion { folder, names });
            }
        }
        expansions.sort_by(|one, other| one.folder.cmp(&other.folder));
        Ok(expansions)
    }

    fn file_type(&self, path: &Path) -> Option<FileType> {
        let stat = self.find(path).ok()?.stat(false).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }

    /// Returns the names in a folder that match `glob`, or `None` if that takes more than the bounds allow.
    fn names(
        &self,
        folder: &Path,
        glob: &Glob,
        bounds: &mut ExpansionBounds,
    ) -> Option<Vec<(Vec<u8>, FileType)>> {
        let Ok(listing) = self.list(folder) else { return Some(Vec::new()) };
        let mut found = Vec::new();
        for entry in listing {
            let Ok(entry) = entry else { break };
            bounds.names_max = bounds.names_max.checked_sub(1)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && glob.matches(name) {
                found.push((name.to_vec(), entry.file_type()));
            }
        }
        for (name, file_type) in &mut found {
            if *file_type == FileType::Unknown {
                *file_type =
                    self.file_type(&folder.join(OsStr::from_bytes(name))).unwrap_or(FileType::Unknown);
            }
        }
        Some(found)
    }

    fn list(&self, folder: &Path) -> Result<Dir, Errno> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let spot = self.find(folder).map_err(|_| Errno::NOENT)?;
        let handle = spot.open_directory(true)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Dir::new(openat(&handle, ".", flags, Mode::empty())?)
    }
}

fn may_be_directory(file_type: FileType) -> bool {
    matches!(file_type, FileType::Directory | FileType::Symlink | FileType::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::new(pattern.as_bytes()).matches(name.as_bytes())
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, name, expected) in [
            ("*.log", "a.log", true),
            ("*.log", ".log", false),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("?", "ä", true),
            ("?", "ab", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[]-]", "-", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[ab", "[ab", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("a\\", "a\\", true),
            ("**a**", "bab", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("", "", true),
            ("*", "", true),
            ("", "a", false),
            ("[ä-ö]", "ö", true),
            ("[z-a]", "m", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(Glob::new(b"?").matches(b"\xff") && Glob::new(b"\xff*").matches(b"\xffx"));
        assert!(!Glob::new(b"\xff").matches(b"\xfe"));
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "*a".repeat(120);
        assert!(!matches(&pattern, &"a".repeat(119)) && matches(&pattern, &"a".repeat(250)));
    }

    /// Returns the same by definition.
    fn slow(tokens: &[Token], name: &[Character]) -> bool {
        match (tokens.split_first(), name.split_first()) {
            (None, rest) => rest.is_none(),
            (Some((Token::Any, tokens)), rest) => {
                slow(tokens, name)
                    || rest.is_some_and(|(_, below)| slow(&[&[Token::Any], tokens].concat(), below))
            }
            (Some((token, tokens)), Some((&first, rest))) => token.matches(first) && slow(tokens, rest),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn the_quick_way_and_the_slow_one_agree(pattern in r"[ab*?\[\]!\\-]{0,8}", name in "[ab\\[\\]-]{0,8}") {
            let glob = Glob::new(pattern.as_bytes());
            prop_assert_eq!(glob.matches(name.as_bytes()), slow(&glob.0, &characters(name.as_bytes())));
        }

        #[test]
        fn any_bytes_are_a_pattern(pattern: Vec<u8>, name: Vec<u8>) {
            let _ = Glob::new(&pattern).matches(&name);
        }
    }
}
