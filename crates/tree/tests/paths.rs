//! Tests of valid and invalid paths, here and on the wire.

use proptest::prelude::*;
use sealane_tree::{
    Kind, LinkTarget, MAX_COMPONENT_BYTES, MAX_LINK_BYTES, MAX_PATH_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS,
    Metadata, Owner, PathError, RelativePath, TempName, Timestamp, Xattr,
};

#[track_caller]
fn check(path: impl AsRef<[u8]>, expected: Result<(), PathError>) {
    let path = path.as_ref();
    assert_eq!(RelativePath::new(path).map(|_| ()), expected);
    assert_eq!(RelativePath::from_vec(path.to_vec()).map(|_| ()), expected);
    #[derive(serde::Serialize)]
    struct Bytes<'a>(&'a [u8]);
    let wire = postcard::to_allocvec(&Bytes(path)).expect("serializes");
    assert_eq!(postcard::from_bytes::<RelativePath>(&wire).is_ok(), expected.is_ok());
}

#[test]
fn boundaries() {
    check("a", Ok(()));
    check("a/b/c", Ok(()));
    check("...", Ok(()));
    check("a/..b/.c", Ok(()));
    check(b"\xff\xfe/\n", Ok(()));
    check("", Err(PathError::Empty));
    check("/", Err(PathError::Absolute));
    check("/a", Err(PathError::Absolute));
    check("a/", Err(PathError::EmptyComponent));
    check("a//b", Err(PathError::EmptyComponent));
    check(".", Err(PathError::DotComponent));
    check("..", Err(PathError::DotComponent));
    check("a/../b", Err(PathError::DotComponent));
    check("a/.", Err(PathError::DotComponent));
    check("a\0b", Err(PathError::Nul));
    check("x".repeat(MAX_COMPONENT_BYTES), Ok(()));
    check("x".repeat(MAX_COMPONENT_BYTES + 1), Err(PathError::ComponentTooLong));
    let mut long = "xy/".repeat(MAX_PATH_BYTES / 3);
    long.truncate(MAX_PATH_BYTES - 1);
    let long = format!("{}z", long.trim_end_matches('/'));
    check(&long, Ok(()));
    check(format!("{long}{}", "z".repeat(MAX_PATH_BYTES + 1 - long.len())), Err(PathError::TooLong));
}

#[test]
fn joining_keeps_the_bound() {
    let half = RelativePath::new("ab/".repeat(MAX_PATH_BYTES / 6) + "c").expect("fits");
    assert_eq!(half.join(&half).and_then(|path| path.join(&half)), Err(PathError::TooLong));
    assert_eq!(half.child("../x"), Err(PathError::DotComponent));
}

#[test]
fn an_entry_of_a_folder_is_one_name() {
    let within = |folder, name| RelativePath::within(folder, name).map(|path| path.as_bytes().to_vec());
    assert_eq!(within(b"", b"x"), Ok(b"x".to_vec()));
    assert_eq!(within(b"a/b", b"x"), Ok(b"a/b/x".to_vec()));
    assert_eq!(within(b"a", b"x/y"), Err(PathError::Slash));
    assert_eq!(within(b"a", b"/x"), Err(PathError::Slash));
    assert_eq!(within(b"a", b""), Err(PathError::EmptyComponent));
    assert_eq!(within(b"a", b".."), Err(PathError::DotComponent));
    assert_eq!(within(b"../a", b"x"), Err(PathError::DotComponent));
    assert_eq!(within(b"", b""), Err(PathError::Empty));
}

#[test]
fn messages_cannot_write_to_the_terminal() {
    let path = RelativePath::new(b"a\x1b[2J\n\xff\\").expect("a path");
    assert_eq!(path.to_string(), r"a\u{1b}[2J\n\xff\\");
}

/// Returns the same answer from the standard library, slowly.
fn is_path_by_the_book(bytes: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(bytes));
    let normal = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let rebuilt: std::path::PathBuf = path.components().collect();
    normal
        && !bytes.is_empty()
        && !bytes.contains(&0)
        && rebuilt.as_os_str().as_bytes() == bytes
        && bytes.len() <= MAX_PATH_BYTES
        && path.components().all(|part| part.as_os_str().len() <= MAX_COMPONENT_BYTES)
}

proptest! {
    #[test]
    fn agrees_with_the_standard_library(bytes in "[a./\\x00]{0,12}|\\PC{0,40}") {
        prop_assert_eq!(RelativePath::new(bytes.as_bytes()).is_ok(), is_path_by_the_book(bytes.as_bytes()));
    }

    #[test]
    fn long_ones_too(parts in prop::collection::vec(200usize..260, 1..24)) {
        let bytes = parts.iter().map(|&length| "x".repeat(length)).collect::<Vec<_>>().join("/");
        prop_assert_eq!(RelativePath::new(&bytes).is_ok(), is_path_by_the_book(bytes.as_bytes()));
    }

    #[test]
    fn parts_make_the_whole(parts in prop::collection::vec(prop::collection::vec(1u8..=255, 1..20), 1..8)) {
        let bytes = parts.join(&b'/');
        if let Ok(path) = RelativePath::new(&bytes) {
            prop_assert_eq!(path.components().collect::<Vec<_>>().join(&b'/'), bytes.clone());
            let (parent, name) = path.split();
            let whole = if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() };
            prop_assert_eq!(whole, bytes);
            if let Some(parent) = path.parent() {
                prop_assert!(path.starts_with(&parent) && !parent.starts_with(&path) && parent < path);
            }
            let wire = postcard::to_allocvec(&path).expect("serializes");
            prop_assert_eq!(postcard::from_bytes::<RelativePath>(&wire).expect("deserializes"), path);
        }
    }

    #[test]
    fn metadata_survives_the_wire(
        mode in 0u32..=0o7777, seconds: i64, nanoseconds in 0u32..1_000_000_000, size_bytes: u64,
        owner in prop::option::of((any::<u32>(), any::<u32>())),
        xattrs in prop::collection::vec(("user\\.[a-z]{1,20}", prop::collection::vec(any::<u8>(), 0..100)), 0..5),
    ) {
        let metadata = Metadata {
            mode,
            modified: Timestamp { seconds, nanoseconds },
            size_bytes,
            owner: owner.map(|(uid, gid)| Owner { uid, gid }),
            xattrs: xattrs.into_iter().map(|(name, value)| Xattr { name: name.into_bytes(), value }).collect(),
        };
        let wire = postcard::to_allocvec(&metadata).expect("serializes");
        prop_assert_eq!(postcard::from_bytes::<Metadata>(&wire).expect("deserializes"), metadata);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = postcard::from_bytes::<Metadata>(&bytes);
        let _ = postcard::from_bytes::<Kind>(&bytes);
        if let Ok(path) = postcard::from_bytes::<RelativePath>(&bytes) {
            prop_assert!(is_path_by_the_book(path.as_bytes()));
        }
    }
}

#[test]
fn decoding_enforces_the_bounds() {
    let refused = |metadata: &Metadata| {
        let wire = postcard::to_allocvec(metadata).expect("serializes");
        postcard::from_bytes::<Metadata>(&wire).is_err()
    };
    let xattr = |value_bytes: usize| Xattr { name: b"user.x".to_vec(), value: vec![0; value_bytes] };
    let with = |xattrs: Vec<Xattr>| Metadata { xattrs, ..Metadata::default() };
    assert!(!refused(&Metadata::default()));
    assert!(refused(&Metadata { mode: 0o10000, ..Metadata::default() }));
    let modified = Timestamp { seconds: 0, nanoseconds: 1_000_000_000 };
    assert!(refused(&Metadata { modified, ..Metadata::default() }));
    assert!(!refused(&with(vec![xattr(1); MAX_XATTRS])));
    assert!(refused(&with(vec![xattr(1); MAX_XATTRS + 1])));
    assert!(!refused(&with(vec![xattr(MAX_XATTR_VALUE_BYTES)])));
    assert!(refused(&with(vec![xattr(MAX_XATTR_VALUE_BYTES + 1)])));
    assert!(refused(&with(vec![Xattr { name: vec![b'u'; 256], value: vec![] }])));
    assert!(refused(&with(vec![Xattr { name: vec![], value: vec![] }])));
    assert!(refused(&with(vec![Xattr { name: b"user.\0".to_vec(), value: vec![] }])));
    assert!(LinkTarget::new(vec![]).is_none());
    assert!(LinkTarget::new(vec![0]).is_none());
    assert!(LinkTarget::new(vec![b'x'; MAX_LINK_BYTES]).is_some());
    assert!(LinkTarget::new(vec![b'x'; MAX_LINK_BYTES + 1]).is_none());
}

#[test]
fn temporary_names_are_recognised_and_nothing_else() {
    for number in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
        let name = TempName::new(number);
        assert!(TempName::matches(name.as_bytes()));
        assert_eq!(format!("{name:?}").as_bytes(), name.as_bytes());
        let wire = postcard::to_allocvec(&name).expect("serializes");
        assert_eq!(postcard::from_bytes::<TempName>(&wire).expect("deserializes"), name);
    }
    for name in [".sealane-.part", ".sealane-0123456789abcdeg.part", "a.sealane-0123456789abcdef.part"] {
        assert!(!TempName::matches(name.as_bytes()), "{name}");
    }
}
