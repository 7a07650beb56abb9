//! `--chmod`: changes of modes, in the language of rsync, which is that of chmod with `D` and `F` before a change.
//!
//! Guarantees: an accepted text means what it means to rsync.

use sealane_copy::{ModeChange, ModeChangeOf};

/// Permission bits with those above them.
const ALL: u32 = 0o7777;

/// Changes of modes as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeChanges(pub Vec<ModeChange>);

/// A text that is no change of modes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a change of modes, such as u=rwX, go-w, D2755 or F644")]
pub struct NoChange(String);

/// Parses changes between commas. What is not said of user, group or others is limited by the umask of this process.
///
/// # Errors
/// Fails if one of them is not a change.
pub(crate) fn parse(text: &str) -> Result<ModeChanges, NoChange> {
    // It can only be read by setting it, and nothing else runs yet.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let one = |change: &str| one(change, umask.as_raw_mode()).ok_or_else(|| NoChange(change.to_owned()));
    text.split(',').map(one).collect::<Result<_, _>>().map(ModeChanges)
}

fn one(text: &str, umask: u32) -> Option<ModeChange> {
    let (of, rest) = match text.split_at_checked(1) {
        Some(("D", rest)) => (ModeChangeOf::Folders, rest),
        Some(("F", rest)) => (ModeChangeOf::Files, rest),
        _ => (ModeChangeOf::Both, text),
    };
    if rest.starts_with(|first: char| first.is_ascii_digit()) {
        let set = u32::from_str_radix(rest, 8).ok().filter(|&set| set <= ALL)?;
        return Some(ModeChange { of, kept: 0, set, spares_plain: false });
    }
    let at = rest.find(['+', '-', '='])?;
    let (who, what) = rest.split_at(at);
    // These are the lowest bits of those who are named, and the set-id bits that belong to them.
    let (mut shifted, mut set_ids) = (0, 0);
    for who in who.chars() {
        let (bit, set_id) = match who {
            'u' => (0o100, 0o4000),
            'g' => (0o010, 0o2000),
            'o' => (0o001, 0),
            'a' => (0o111, 0),
            _ => return None,
        };
        shifted |= bit;
        set_ids |= set_id;
    }
    let (mut bits, mut above, mut spares_plain) = (0, 0, false);
    for what in what[1..].chars() {
        match what {
            'r' => bits |= 4,
            'w' => bits |= 2,
            'x' => bits |= 1,
            'X' => (bits, spares_plain) = (bits | 1, true),
            's' => above |= if set_ids == 0 { 0o4000 } else { set_ids },
            't' => above |= 0o1000,
            _ => return None,
        }
    }
    let (whose, bits) = match shifted {
        0 => (0o111, (0o111 * bits) & !umask),
        shifted => (shifted, shifted * bits),
    };
    let (kept, set) = match what.as_bytes()[0] {
        b'+' => (ALL, bits | above),
        b'-' => (ALL & !(bits | above), 0),
        _ => (ALL & !(whose * 7) & !(if above == 0 { 0 } else { set_ids }), bits | above),
    };
    Some(ModeChange { of, kept, set, spares_plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_of_rsync() {
        let change = |of, kept, set, spares_plain| Some(ModeChange { of, kept, set, spares_plain });
        for (text, expected) in [
            ("F644", change(ModeChangeOf::Files, 0, 0o644, false)),
            ("D2755", change(ModeChangeOf::Folders, 0, 0o2755, false)),
            ("go-w", change(ModeChangeOf::Both, 0o7755, 0, false)),
            ("a+X", change(ModeChangeOf::Both, 0o7777, 0o111, true)),
            ("u=rw", change(ModeChangeOf::Both, 0o7077, 0o600, false)),
            ("+w", change(ModeChangeOf::Both, 0o7777, 0o200, false)),
            ("ug+s", change(ModeChangeOf::Both, 0o7777, 0o6000, false)),
            ("Dg+s", change(ModeChangeOf::Folders, 0o7777, 0o2000, false)),
            ("o=", change(ModeChangeOf::Both, 0o7770, 0, false)),
        ] {
            assert_eq!(one(text, 0o022), expected, "{text}");
        }
        for text in ["", "u", "888", "u+q", "z+r", "DF644", "u+r-w", "17777", "D", "u+r "] {
            assert_eq!(one(text, 0o022), None, "{text}");
        }
    }
}
