//! One line per change, as `rsync -i` writes it.

use sealane_copy::{Change, ChangeKind};

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
    let update = match change.kind {
        ChangeKind::File if pushes => '<',
        ChangeKind::File => '>',
        ChangeKind::HardLink => 'h',
        ChangeKind::Attributes => '.',
        ChangeKind::Directory if !change.is_new => '.',
        _ if change.is_new || change.target => 'c',
        _ => '.',
    };
    if change.is_new {
        return format!("{update}{kind}+++++++++");
    }
    let Change { target, size, time, mode, owner, group, xattrs, .. } = *change;
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
        let change = Change {
            path: b"f".to_vec(),
            kind: ChangeKind::File,
            is_new: true,
            target: false,
            size: false,
            time: false,
            mode: false,
            owner: false,
            group: false,
            xattrs: false,
        };
        let changed = Change { is_new: false, size: true, time: true, ..change.clone() };
        let folder = Change { is_new: false, kind: ChangeKind::Directory, time: true, ..change.clone() };
        for (change, pushes, expected) in [
            (change.clone(), true, "<f+++++++++"),
            (changed.clone(), false, ">f.st......"),
            (Change { mode: true, group: true, ..changed }, true, "<f.stp.g..."),
            (folder.clone(), true, ".d..t......"),
            (Change { is_new: true, ..folder }, true, "cd+++++++++"),
            (Change { kind: ChangeKind::Symlink, ..change.clone() }, false, "cL+++++++++"),
            (
                Change { kind: ChangeKind::Symlink, target: true, is_new: false, ..change.clone() },
                true,
                "cLc........",
            ),
            (
                Change { kind: ChangeKind::Symlink, time: true, is_new: false, ..change.clone() },
                true,
                ".L..t......",
            ),
            (
                Change { kind: ChangeKind::Attributes, mode: true, xattrs: true, is_new: false, ..change },
                true,
                ".f...p....x",
            ),
        ] {
            assert_eq!(itemised(&change, pushes), expected);
        }
    }
}
