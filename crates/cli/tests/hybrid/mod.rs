//! Identities of Ed25519 and ML-DSA-65, with the real program: made, shown, let in, known, and refused as what they are not.

use super::*;
use std::os::unix::fs::PermissionsExt;

/// Returns the key of a new hybrid identity in this home.
fn hybrid(home: &Path) -> String {
    let output = at_home(home, &["id", "--hybrid"]).complains(0, &["made a new hybrid identity: "]);
    let key = text(&output.stdout).trim().to_owned();
    assert!(key.starts_with("sealane2:"), "{key}");
    key
}

#[test]
fn a_hybrid_identity_is_made_where_there_is_none_and_replaces_none() {
    let home = tempfile::tempdir().expect("a folder");
    let key = hybrid(home.path());
    let file = home.path().join(".config/sealane/identity");
    let made = fs::read(&file).expect("the identity");
    assert_eq!(fs::metadata(&file).expect("the identity").permissions().mode() & 0o777, 0o600);
    for arguments in [&["id"][..], &["id", "--hybrid"]] {
        let output = at_home(home.path(), arguments).ends(0);
        assert_eq!((text(&output.stdout).trim(), text(&output.stderr)), (&*key, ""));
    }
    // Programs that read certificates know no such keys; the way out is said.
    at_home(home.path(), &["id", "--certificate"]).complains(5, &["--identity FILE"]);
    #[cfg(feature = "nats")]
    {
        let mut rights = at_home(home.path(), &["id", "--queue-rights", "worker"]);
        let refused = rights.complains(5, &["--identity FILE"]);
        assert_eq!(text(&refused.stdout), "");
    }
    assert_eq!(fs::read(&file).expect("the identity"), made);

    let plain = home.path().join("plain");
    let plain = plain.to_str().expect("UTF-8");
    sealane(&["id", "--identity", plain]).complains(0, &["made a new identity"]);
    let before = fs::read(plain).expect("the identity");
    let why = "has a key of Ed25519 alone, which stays as it is";
    sealane(&["id", "--hybrid", "--identity", plain]).complains(5, &[why]);
    assert_eq!(fs::read(plain).expect("the identity"), before);
}

#[test]
fn hybrid_ends_copy_and_each_holds_the_other_to_the_whole_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["server", "user", "classic", "root"] {
        fs::create_dir(path(name)).expect("a folder");
    }
    let (its, ours, classic) = (hybrid(&path("server")), hybrid(&path("user")), key(&path("classic")));
    let authorise = |key: &str, name: &str| {
        let arguments = ["authorise", key, name, "read,write"];
        at_home(&path("server"), &arguments).ends(0);
    };
    authorise(&ours, "user");
    let daemon = Daemon::start(&path("server"), &path("root"), &[]);
    write(&path("a"), &pattern(400_000));
    let copy = |home: &str, arguments: &[&str], daemon: &Daemon, to: &str| {
        let mut command = at_home(&path(home), &["cp"]);
        command.args(arguments).arg(path("a")).arg(daemon.place(to)).output().expect("the program starts")
    };
    copy("user", &[], &daemon, "a").complains(3, &[&its]);
    copy("user", &["--accept-new"], &daemon, "a").ends(0);
    copy("user", &[], &daemon, "b").ends(0);
    assert!(fs::read(path("root/b")).expect("the copy") == pattern(400_000));
    let known = fs::read_to_string(path("user/.config/sealane/known-peers")).expect("a list");
    assert_eq!(known.trim(), format!("{} {its}", daemon.address));
    // A user without a hybrid identity goes on as before, once let in.
    copy("classic", &["--accept-new"], &daemon, "c")
        .complains(3, &[&format!("sealane authorise {classic} ")]);
    authorise(&classic, "classic");
    copy("classic", &[], &daemon, "c").ends(0);

    // The same user with an identity of Ed25519 alone is another one.
    let mine = path("user/.config/sealane/identity");
    fs::rename(&mine, path("kept")).expect("it moves");
    let lesser = key(&path("user"));
    copy("user", &[], &daemon, "d").complains(3, &[&format!("sealane authorise {lesser} ")]);
    fs::rename(path("kept"), &mine).expect("it moves");
    let address = daemon.address.clone();
    assert_eq!(daemon.stop(), Some(0));

    // So is the same daemon.
    fs::remove_file(path("server/.config/sealane/identity")).expect("it goes");
    let lesser = key(&path("server"));
    let mut command = at_home(&path("server"), &["serve"]);
    command.arg(path("root")).args(["--listen", &address]);
    let daemon = Daemon::of(command);
    copy("user", &["--accept-new"], &daemon, "e").complains(3, &[&lesser, &its]);
    assert!(!path("root/d").exists() && !path("root/e").exists());
    assert_eq!(daemon.stop(), Some(0));
}
