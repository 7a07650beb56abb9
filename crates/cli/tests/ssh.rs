//! Copies over a real sshd, both ways, with the data beside ssh and inside it.

mod program;

use program::{pattern, sealane, skip, text, write};
use sealane_lab::peers::PrivateSshd;
use sealane_lab::surroundings::Surroundings;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

const LARGE_BYTES: usize = 5_000_011;

struct Scene {
    sshd: PrivateSshd,
    folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Option<Self> {
        let sshd =
            PrivateSshd::start(&Surroundings::default()).map_err(|skipped| skip(&skipped.reason)).ok()?;
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("sub")).expect("folders");
        write(&tree.join("small"), b"small");
        write(&tree.join("sub/large"), &pattern(LARGE_BYTES));
        Some(Self { sshd, folder })
    }

    fn place(&self, name: &str) -> String {
        format!("{}:{}", PrivateSshd::HOST, self.folder.path().join(name).display())
    }

    fn local(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn copy(&self, program: &str, options: &[&str], from: &str, to: &str) -> Output {
        let mut command = sealane(&["cp", "-r", "--json", "--timeout", "20", "--remote-program", program]);
        command.arg("-F").arg(self.sshd.client_config());
        command.args(options).args([from, to]).output().expect("the program starts")
    }
}

fn same(one: &Path, other: &Path) {
    for name in ["small", "sub/large"] {
        let read = |path: &Path| fs::read(path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read(one) == read(other), "{name} differs");
    }
}

#[test]
fn trees_go_both_ways_over_ssh() {
    let Some(scene) = Scene::set() else { return };
    let program = env!("CARGO_BIN_EXE_sealane");
    let at = |name: &str| scene.folder.path().join(name);
    for (number, options) in
        [&[][..], &["--through-ssh"], &["--through-ssh", "--streams", "2"]].into_iter().enumerate()
    {
        let (sent, fetched) = (format!("sent{number}"), format!("fetched{number}"));
        let output = scene.copy(program, options, &scene.local("tree"), &scene.place(&sent));
        assert_eq!(
            output.status.code(),
            Some(0),
            "{options:?}: {} {}",
            text(&output.stdout),
            text(&output.stderr)
        );
        same(&at("tree"), &at(&sent));
        let output = scene.copy(program, options, &scene.place("tree"), &scene.local(&fetched));
        assert_eq!(
            output.status.code(),
            Some(0),
            "{options:?}: {} {}",
            text(&output.stdout),
            text(&output.stderr)
        );
        same(&at("tree"), &at(&fetched));
    }
}

#[test]
fn a_far_shell_that_greets_is_named() {
    let Some(scene) = Scene::set() else { return };
    let greeting = scene.folder.path().join("greets");
    let script =
        format!("#!/bin/sh\necho 'Welcome, and good luck'\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_sealane"));
    write(&greeting, script.as_bytes());
    fs::set_permissions(&greeting, fs::Permissions::from_mode(0o755)).expect("a mode");
    let output = scene.copy(&scene.local("greets"), &[], &scene.local("tree"), &scene.place("never"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(said.contains("Welcome, and good luck") && said.contains(".bashrc"), "{said}");
    assert!(!said.contains("exceeds the limit"), "{said}");
}
