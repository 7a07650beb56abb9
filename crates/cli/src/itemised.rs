//! One line per change, as `rsync -i` writes it.

use sealane_copy::{Change, ChangeKind, Differences};

/// Returns a change in the form of `rsync -i`: the kind of the entry, and the attributes that differ from the old
/// ones.
pub(crate) fn itemised(change: &Change, pushes: bool) -> String {
    let kind = match change.kind {
        ChangeKind::File | ChangeKind::Attributes | ChangeKind::HardLink => 'f',
        ChangeKind::Directory => 'd',
        ChangeKind::Symlink => 'L',
        ChangeKind::Device => 'D',
        ChangeKind::Special => 'S',
    };
    let Differences { is_new, target, size, time, mode, owner, group, xattrs, .. } = change.differences;
    let update = match change.kind {
        ChangeKind::File if pushes => '<',
        ChangeKind::File => '>',
        ChangeKind::HardLink => 'h',
        ChangeKind::Attributes => '.',
        ChangeKind::Directory if !is_new => '.',
        _ if is_new || target => 'c',
        _ => '.',
    };
    if is_new {
        return format!("{update}{kind}+++++++++");
    }
    let leads_elsewhere =
        target && matches!(change.kind, ChangeKind::Symlink | ChangeKind::Device | ChangeKind::Special);
    let attributes = [
        (leads_elsewhere, 'c'),
        (size, 's'),
        (time, 't'),
        (mode, 'p'),
        (owner, 'o'),
        (group, 'g'),
        (false, 'u'),
        (false, 'a'),
        (xattrs, 'x'),
    ];
    let attributes = attributes.map(|(differs, letter)| if differs { letter } else { '.' });
    format!("{update}{kind}{}", attributes.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_as_rsync_writes_them() {
        let (new, none) = (Differences::NEW, Differences::default());
        let changed = Differences { size: true, time: true, ..none };
        let touched = Differences { time: true, ..none };
        for (kind, differences, pushes, expected) in [
            (ChangeKind::File, new, true, "<f+++++++++"),
            (ChangeKind::File, changed, false, ">f.st......"),
            (ChangeKind::File, Differences { mode: true, group: true, ..changed }, true, "<f.stp.g..."),
            (ChangeKind::Directory, touched, true, ".d..t......"),
            (ChangeKind::Directory, Differences { is_new: true, ..touched }, true, "cd+++++++++"),
            (ChangeKind::Symlink, new, false, "cL+++++++++"),
            (ChangeKind::Symlink, Differences { target: true, ..none }, true, "cLc........"),
            (ChangeKind::Symlink, touched, true, ".L..t......"),
            (ChangeKind::Attributes, Differences { mode: true, xattrs: true, ..none }, true, ".f...p....x"),
        ] {
            let change = Change { path: b"f".to_vec(), kind, differences };
            assert_eq!(itemised(&change, pushes), expected);
        }
    }
}
