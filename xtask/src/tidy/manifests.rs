//! Rules about manifests and lock files: allowed dependencies between crates, and required declarations of each
//! crate.

use super::Finding;
use super::tree::File;
use toml::{Table, Value};

/// One crate of the product: the crates of the workspace on which it may depend, and the reason.
struct Crate {
    folder: &'static str,
    may_know: &'static [&'static str],
    /// It is for readers, and beside the rule so that both are changed together.
    #[cfg_attr(not(test), expect(dead_code))]
    why: &'static str,
}

/// The dependencies between crates, from the bottom up: a crate may depend only on crates above its own line here.
const ARROWS: &[Crate] = &[
    Crate { folder: "checksum", may_know: &[], why: "the Internet checksum alone: no C" },
    Crate {
        folder: "native",
        may_know: &[],
        why: "AWS-LC through C: the only crate that knows its bindings",
    },
    Crate {
        folder: "transform",
        may_know: &["native", "checksum"],
        why: "algorithms alone: no I/O, no threads; the checksum is in its catalogue",
    },
    Crate { folder: "wire", may_know: &["checksum"], why: "headers as bytes: no C" },
    Crate { folder: "tcp", may_know: &["wire"], why: "TCP as a value: no I/O, no clock, no addresses" },
    Crate {
        folder: "simulator",
        may_know: &["transform"],
        why: "machines fed by traces of kernels: no clock, no file, no thread",
    },
    Crate {
        folder: "client",
        may_know: &[],
        why: "the engine service's protocol as programs link it: no cryptography",
    },
    Crate {
        folder: "lanes",
        may_know: &[],
        why: "threads, order, pools, wake-ups and clocks: no cryptography, no socket, no file",
    },
    Crate {
        folder: "engine",
        may_know: &["transform", "client", "lanes"],
        why: "runs transforms, here or by the service; knows no protocol of data",
    },
    Crate {
        folder: "card",
        may_know: &["engine", "lanes", "transform"],
        why: "a simulated accelerator as an engine, for studies and for tests: nothing of the product uses it",
    },
    Crate {
        folder: "ipsec",
        may_know: &["wire", "engine", "transform"],
        why: "ESP, AH and their databases: no socket, no clock, no thread",
    },
    Crate {
        folder: "ike",
        may_know: &["ipsec", "native", "transform"],
        why: "IKEv2 as a value: no socket, no clock; its tests compare names of suites with those of ESP",
    },
    Crate {
        folder: "port",
        may_know: &["lanes", "engine", "wire", "transform"],
        why: "packets in batches, and the only system calls on them",
    },
    Crate {
        folder: "stack",
        may_know: &["port", "lanes", "engine", "wire", "tcp", "transform"],
        why: "layers over engines and ports, for the laboratory: no socket, no file",
    },
    Crate { folder: "tree", may_know: &[], why: "files alone: no network, no cryptography" },
    Crate {
        folder: "peer",
        may_know: &["engine", "transform"],
        why: "identities and control channels alone: no file trees, no data path",
    },
    Crate { folder: "sftp", may_know: &[], why: "SFTP as a value: no socket, no file, no clock" },
    Crate {
        folder: "delta",
        may_know: &[],
        why: "what two versions have in common: no file, no socket, no thread",
    },
    Crate {
        folder: "copy",
        may_know: &["delta", "sftp", "peer", "tree", "lanes", "card", "engine", "transform"],
        why: "the transfer joins peers, trees and sealed lanes",
    },
    Crate {
        folder: "fleet",
        may_know: &["copy", "peer", "tree"],
        why: "shares work among hosts: each share is a transfer",
    },
    Crate {
        folder: "tunnel",
        may_know: &["ike", "ipsec", "port", "peer", "lanes", "wire", "card", "engine", "transform"],
        why: "the daemon: devices, files and control round the protocols",
    },
    Crate {
        folder: "asymmetric",
        may_know: &["client", "native", "transform"],
        why: "public-key operations in the words of the client's protocol: no I/O",
    },
    Crate {
        folder: "service",
        may_know: &["asymmetric", "client", "peer", "engine", "transform"],
        why: "the engine's process: keys, policy, workers; its tests use it as an engine",
    },
    Crate {
        folder: "provider",
        may_know: &["asymmetric", "client", "native", "service", "transform"],
        why: "OpenSSL's view of the client, and ciphers in process; its tests run a service",
    },
    Crate {
        folder: "pkcs11",
        may_know: &["asymmetric", "client", "service"],
        why: "PKCS#11's view of the client; its tests run a service",
    },
    Crate {
        folder: "terminal",
        may_know: &["fleet", "copy", "peer", "engine", "transform"],
        why: "manners of all programs: words, amounts, statuses, signals, documents",
    },
    Crate {
        folder: "lab",
        may_know: &[
            "checksum",
            "terminal",
            "copy",
            "sftp",
            "peer",
            "tree",
            "port",
            "ipsec",
            "stack",
            "lanes",
            "card",
            "engine",
            "wire",
            "tcp",
            "simulator",
            "transform",
        ],
        why: "measures whatever ships",
    },
    Crate {
        folder: "lab-cli",
        may_know: &[
            "lab",
            "terminal",
            "fleet",
            "tunnel",
            "copy",
            "peer",
            "stack",
            "card",
            "engine",
            "simulator",
            "transform",
        ],
        why: "the program of studies; its tests compare words of the tunnel with the lab's",
    },
    Crate {
        folder: "cli",
        may_know: &[
            "terminal",
            "fleet",
            "tunnel",
            "service",
            "client",
            "copy",
            "port",
            "peer",
            "tree",
            "lanes",
            "engine",
            "transform",
        ],
        why: "turns arguments into calls, and nobody calls it; no part of the laboratory",
    },
];

/// Packages on which one crate of the workspace alone may depend, its folder, and the reason.
const ALONE: &[(&str, &str, &str)] = &[(
    "aws-lc-sys",
    "native",
    "C is called in one crate, whose functions are linked by names that contain the version",
)];

/// Workspace members that are not part of the product, so no crate depends on them.
const OUTSIDERS: &[&str] = &["xtask/Cargo.toml", "fuzz/Cargo.toml"];

/// Returns findings in the manifests and the lock files among `files`.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.name() == "Cargo.toml" && file.path != "Cargo.toml") {
        match file.text.parse::<Table>() {
            Ok(manifest) => package(file, &manifest, &mut findings),
            Err(error) => findings.push(Finding::new(&file.path, 0, "manifest", error.message())),
        }
    }
    unused(files, &mut findings);
    lock_files(files, &mut findings);
    findings
}

/// Finds dependencies that the workspace declares and no crate uses.
fn unused(files: &[File], findings: &mut Vec<Finding>) {
    let manifests = files.iter().filter(|file| file.name() == "Cargo.toml");
    let manifests: Vec<(&str, Table)> =
        manifests.filter_map(|file| Some((file.path.as_str(), file.text.parse().ok()?))).collect();
    let Some((path, root)) = manifests.iter().find(|(path, _)| *path == "Cargo.toml") else { return };
    let offered = root.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    for name in offered.and_then(Value::as_table).into_iter().flat_map(Table::keys) {
        let taken = manifests.iter().filter(|(other, _)| other != path);
        if !taken.flat_map(|(_, manifest)| keys(manifest)).any(|(taken, _)| taken == name) {
            findings.push(Finding::new(path, 0, "unused", format!("no crate depends on {name}")));
        }
    }
}

fn package(file: &File, manifest: &Table, findings: &mut Vec<Finding>) {
    let mut find = |rule, message: String| findings.push(Finding::new(&file.path, 0, rule, message));
    let package = manifest.get("package").and_then(Value::as_table);
    let description = package.and_then(|package| package.get("description")).and_then(Value::as_str);
    if description.is_none_or(|text| !text.contains(' ')) {
        find("manifest", "no description that says what the crate is for".to_owned());
    }
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool);
    // The fuzz targets are a workspace of their own, because they need another tool chain.
    if lints != Some(true) && !manifest.contains_key("workspace") {
        find("manifest", "no `lints.workspace = true`".to_owned());
    }
    for (package, folder, why) in ALONE {
        let is_other = file.path != format!("crates/{folder}/Cargo.toml");
        if is_other && dependencies(manifest).iter().any(|name| name == package) {
            find("arrows", format!("{folder} alone may know {package}: {why}"));
        }
    }
    if OUTSIDERS.contains(&file.path.as_str()) {
        return;
    }
    let folder = file.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"));
    let Some(arrows) = folder.and_then(|folder| ARROWS.iter().find(|found| found.folder == folder)) else {
        find("arrows", "no line in the table of arrows says what this crate may know".to_owned());
        return;
    };
    for name in dependencies(manifest) {
        let Some(known) = workspace_crate(&name) else { continue };
        if !arrows.may_know.contains(&known) {
            find("arrows", format!("{} must not know {known}: {}", arrows.folder, allowed(arrows)));
        }
    }
}

fn allowed(arrows: &Crate) -> String {
    match arrows.may_know {
        [] => "it may know no crate of the workspace".to_owned(),
        some => format!("it may know {}", some.join(", ")),
    }
}

/// Returns the folder of a crate of this workspace, by its package name.
pub(crate) fn workspace_crate(package: &str) -> Option<&str> {
    match package {
        "sealane" => Some("cli"),
        "xtask" => Some("xtask"),
        other => other.strip_prefix("sealane-"),
    }
}

/// Returns the packages that a manifest names in any of its dependency tables, renamed ones by their real name.
/// Dependencies of tests count too: a dependency that only a test needs still determines which crate can be built
/// without the other.
fn dependencies(manifest: &Table) -> Vec<String> {
    let name = |(name, value): (&String, &Value)| {
        value.get("package").and_then(Value::as_str).unwrap_or(name).to_owned()
    };
    keys(manifest).map(name).collect()
}

/// Returns the entries of a manifest's dependency tables.
fn keys(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let lists = tables.into_iter().flat_map(move |table| kinds.map(|kind| table.get(kind)));
    lists.filter_map(|list| list?.as_table()).flatten()
}

fn lock_files(files: &[File], findings: &mut Vec<Finding>) {
    let locks = files.iter().filter(|file| file.name() == "Cargo.lock");
    let mut main = false;
    for file in locks {
        // The fuzz targets lock only their own tool chain's runtime in addition.
        match file.path.as_str() {
            "Cargo.lock" => main = true,
            "fuzz/Cargo.lock" => {}
            _ => findings.push(Finding::new(&file.path, 0, "lock file", "a second lock file")),
        }
    }
    if !main {
        findings.push(Finding::new(
            "Cargo.lock",
            0,
            "lock file",
            "missing: a program's build must be repeatable",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n";

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn manifest(dependencies: &str) -> String {
        format!("[package]\ndescription = \"does this\"\n[lints]\nworkspace = true\n{dependencies}")
    }

    #[track_caller]
    fn check_rules(files: &[(&str, &str)], expected: &[&str]) {
        let mut files: Vec<File> = files.iter().map(|(path, text)| file(path, text)).collect();
        if files.iter().all(|file| file.path != "Cargo.lock") {
            files.push(file("Cargo.lock", LOCK));
        }
        let found = check(&files);
        let rules: Vec<&str> = found.iter().map(|found| found.rule).collect();
        assert_eq!(rules, expected, "{found:?}");
    }

    #[test]
    fn the_table_of_arrows_points_one_way() {
        for (index, line) in ARROWS.iter().enumerate() {
            assert!(line.why.len() > 10, "{} says too little", line.folder);
            for known in line.may_know {
                assert!(
                    ARROWS[..index].iter().any(|earlier| earlier.folder == *known),
                    "{} knows {known}, which is not below it",
                    line.folder
                );
            }
        }
    }

    #[test]
    fn every_arrow_that_is_not_drawn_is_found() {
        for line in ARROWS {
            for other in ARROWS.iter().filter(|other| other.folder != line.folder) {
                let package = if other.folder == "cli" {
                    "sealane".to_owned()
                } else {
                    format!("sealane-{}", other.folder)
                };
                let path = format!("crates/{}/Cargo.toml", line.folder);
                let drawn = line.may_know.contains(&other.folder);
                let expected: &[&str] = if drawn { &[] } else { &["arrows"] };
                for table in
                    ["dependencies", "dev-dependencies", "build-dependencies", "target.x.dependencies"]
                {
                    let text = manifest(&format!("[{table}]\n{package}.workspace = true\n"));
                    check_rules(&[(&path, &text)], expected);
                }
            }
        }
    }

    #[test]
    fn a_renamed_arrow_is_found() {
        let text = manifest("[dependencies]\nx = { package = \"sealane-cli\" }\n");
        check_rules(&[("crates/engine/Cargo.toml", &text)], &["arrows"]);
        let text = manifest("[dependencies]\nxtask = { path = \"../../xtask\" }\n");
        check_rules(&[("crates/cli/Cargo.toml", &text)], &["arrows"]);
    }

    #[test]
    fn a_package_of_one_crate_is_found_in_another() {
        for table in ["dependencies", "dev-dependencies"] {
            let text = manifest(&format!("[{table}]\naws-lc-sys.workspace = true\n"));
            check_rules(&[("crates/native/Cargo.toml", &text)], &[]);
            check_rules(&[("crates/transform/Cargo.toml", &text)], &["arrows"]);
            check_rules(&[("fuzz/Cargo.toml", &text)], &["arrows"]);
        }
    }

    #[test]
    fn a_crate_without_a_line_is_found() {
        check_rules(&[("crates/extra/Cargo.toml", &manifest(""))], &["arrows"]);
        check_rules(&[("xtask/Cargo.toml", &manifest(""))], &[]);
    }

    #[test]
    fn what_a_crate_must_declare_is_found_missing() {
        let bare = "[package]\ndescription = \"copy\"\n";
        check_rules(&[("crates/copy/Cargo.toml", bare)], &["manifest", "manifest"]);
        check_rules(&[("crates/copy/Cargo.toml", "[package")], &["manifest"]);
        let own_workspace = "[package]\ndescription = \"fuzz targets\"\n[workspace]\n";
        check_rules(&[("fuzz/Cargo.toml", own_workspace)], &[]);
    }

    #[test]
    fn what_the_workspace_offers_in_vain_is_found() {
        let root = "[workspace.dependencies]\ntoml = \"1\"\ncriterion = \"1\"\n";
        let user = manifest("[dev-dependencies]\ntoml.workspace = true\n");
        check_rules(&[("Cargo.toml", root), ("xtask/Cargo.toml", &user)], &["unused"]);
        check_rules(
            &[("Cargo.toml", &root.replace("criterion = \"1\"\n", "")), ("xtask/Cargo.toml", &user)],
            &[],
        );
    }

    #[test]
    fn there_is_one_lock_file() {
        check_rules(&[("fuzz/Cargo.lock", LOCK)], &[]);
        check_rules(&[("crates/tree/Cargo.lock", LOCK)], &["lock file"]);
        let nothing: Vec<&str> = check(&[]).iter().map(|found| found.rule).collect();
        assert_eq!(nothing, ["lock file"]);
    }
}
