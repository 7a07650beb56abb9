//! Tests of roots in a served folder: no path leads out over a link, and a resolved path keeps its meaning.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use sealane_tree::{
    Anchor, EntryType, Error, Following, Metadata, Naming, RelativePath, SourceRoot, Target, TargetOptions,
    TargetRoot,
};

fn write_into(root: &TargetRoot) -> sealane_tree::Result<()> {
    let target = Target::build(root, TargetOptions::default())?;
    let metadata = Metadata { mode: 0o644, ..Metadata::default() };
    target.writer().small_file(&RelativePath::new("x")?, &metadata, b"content")
}

#[test]
fn a_link_that_is_swapped_in_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["served/there", "outside"] {
        fs::create_dir_all(at(name)).expect("a folder");
    }
    let anchor = Anchor::served(&at("served")).expect("opens");
    let there = anchor.find(Path::new("there")).expect("is found").directory().expect("opens");
    let new = anchor.find(Path::new("new")).expect("is found").new_directory();
    fs::rename(at("served/there"), at("moved")).expect("moves");
    for name in ["there", "new"] {
        symlink(at("outside"), at("served").join(name)).expect("a link");
    }
    write_into(&there).expect("the folder that was found is still there");
    assert!(at("moved/x").exists());
    write_into(&new).expect_err("a link has taken the name");
    assert_eq!(fs::read_dir(at("outside")).expect("a folder").count(), 0, "it was led outside");
}

#[test]
fn no_path_leads_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("served/sub")).expect("folders");
    fs::write(at("served/sub/file"), b"").expect("a file");
    fs::write(at("file"), b"").expect("a file");
    symlink("..", at("served/up")).expect("a link");
    symlink("sub", at("served/inner")).expect("a link");
    let anchor = Anchor::served(&at("served")).expect("opens");
    let open =
        |path: &str| SourceRoot::open_at(&anchor, Path::new(path), &Naming::Basename, Following::Nowhere);
    for path in ["..", "../file", "/../file", "sub/../../file"] {
        assert!(matches!(open(path), Err(Error::Outside { .. })), "{path}");
    }
    symlink(at("served/sub"), at("served/absolute")).expect("a link");
    for path in ["up/file", "up/", "absolute/file", "absolute/"] {
        assert!(matches!(open(path), Err(Error::BlockedRoot { .. })), "{path}");
    }
    assert!(open("sub/file/").is_err());
    let entry_type = |path: &str| anchor.find(Path::new(path)).and_then(|spot| spot.entry_type(true));
    assert!(entry_type("up").is_err(), "what is outside is not even looked at");
    for path in ["/", "sub", "/sub/file", "sub/../sub//./file", "up", "sub/"] {
        assert!(open(path).is_ok(), "{path}");
    }
    // A link that stays within is followed if the kernel has `openat2`, and blocked otherwise.
    match open("inner/file") {
        Ok(_) => {
            assert!(open("inner/").is_ok());
            assert_eq!(entry_type("inner").unwrap(), Some(EntryType::Directory));
            assert!(anchor.narrowed(Path::new("/inner")).is_ok());
        }
        Err(error) => assert!(matches!(error, Error::BlockedRoot { .. }), "{error}"),
    }
    let narrow = anchor.narrowed(Path::new("/sub")).expect("opens");
    assert_eq!(narrow.find(Path::new("/file")).unwrap().entry_type(true).unwrap(), Some(EntryType::File));
}

#[test]
fn a_root_that_nobody_described_gets_no_more_than_the_mask_leaves() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Anchor::default().find(&folder.path().join("new")).expect("is found").new_directory();
    let options = TargetOptions { default_umask: 0o027, ..TargetOptions::default() };
    Target::build(&root, options).expect("is made");
    let mode = fs::metadata(folder.path().join("new")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o027, 0, "{mode:o}");
}
