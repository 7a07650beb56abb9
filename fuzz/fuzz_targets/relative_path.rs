//! Paths that cannot leave their root: accepted exactly if a slow twin accepts them, closed under every operation,
//! and printed without a control character.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::{check_path, decoded, encoded};
use sealane_tree::{MAX_COMPONENT_BYTES, MAX_PATH_BYTES, RelativePath};

fuzz_target!(|input: &[u8]| {
    // The path as it is encoded on the wire, behind a length.
    if let Some(path) = decoded::<RelativePath>(input) {
        check_path(&path);
    }
    let taken = RelativePath::new(input);
    assert_eq!(taken.is_ok(), slow_twin(input));
    assert_eq!(RelativePath::from_vec(input.to_vec()), taken);
    let Ok(path) = taken else { return };
    assert_eq!(path.as_bytes(), input);
    check_path(&path);
    assert!(!path.to_string().chars().any(char::is_control));
    assert_eq!(decoded::<RelativePath>(&encoded(&path, input.len() + 2)).as_ref(), Some(&path));

    let (front, name) = path.split();
    assert_eq!(name, path.file_name());
    assert_eq!(RelativePath::within(front, name).as_ref(), Ok(&path));
    assert_eq!(RelativePath::within(b"", input).is_ok(), !input.contains(&b'/'));
    match path.parent() {
        None => assert!(front.is_empty() && path.components().count() == 1),
        Some(parent) => {
            check_path(&parent);
            assert_eq!(parent.as_bytes(), front);
            assert!(parent < path && path.starts_with(&parent) && !parent.starts_with(&path));
            assert_eq!(parent.child(name).as_ref(), Ok(&path));
        }
    }
    // A path joined to itself is a path unless it is too long.
    match path.join(&path) {
        Ok(twice) => {
            check_path(&twice);
            assert_eq!(twice.as_bytes(), [input, b"/", input].concat());
            assert!(twice.starts_with(&path));
        }
        Err(_) => assert!(2 * input.len() + 1 > MAX_PATH_BYTES),
    }
});

/// Returns whether bytes are a relative path, checked component by component.
fn slow_twin(bytes: &[u8]) -> bool {
    bytes.len() <= MAX_PATH_BYTES
        && bytes.split(|&byte| byte == b'/').all(|component| {
            !matches!(component, b"" | b"." | b"..")
                && component.len() <= MAX_COMPONENT_BYTES
                && !component.contains(&0)
        })
}
