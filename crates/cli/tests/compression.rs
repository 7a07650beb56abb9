//! Compression on the way, through the real program: the same tree arrives, in less bytes where it can, and whoever refuses
//! is not overruled.

mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;
mod support;

use program::{or_skip, write};
use sshd::PrivateSshd;
use std::fs;
use std::path::Path;
use support::Chance;
use support::daemon::Served;
use support::run::{Run, run, run_to_end};
use support::tree::differences;

/// Bytes that compress well.
fn words(bytes: usize) -> Vec<u8> {
    (0..).flat_map(|number: u32| format!("line {number} of a log\n").into_bytes()).take(bytes).collect()
}

/// Makes a tree of what compresses and what does not, in small and in large files.
fn plant(root: &Path) {
    let mut chance = Chance::new(7);
    fs::create_dir_all(root.join("folder/empty")).expect("a folder");
    write(&root.join("log"), &words(3_000_001));
    write(&root.join("random"), &chance.bytes(700_001));
    write(&root.join("nothing"), b"");
    write(&root.join("zeros"), &vec![0; 400_000]);
    let mixed = [chance.bytes(100_000), words(200_000), chance.bytes(70_000)].concat();
    write(&root.join("folder/mixed"), &mixed);
    for number in 0..40 {
        write(&root.join(format!("folder/{number}")), &words(number * 700));
        write(&root.join(format!("folder/{number}.random")), &chance.bytes(number * 300));
    }
}

/// Most of the tree is text.
const SPARED_BYTES_MIN: u64 = 2_500_000;

#[test]
fn a_compressed_tree_arrives_as_it_is_in_every_way() {
    let served = Served::start(None);
    let root = served.root();
    plant(&root.join("source"));
    let near = root.join("source").to_str().expect("UTF-8").to_owned();
    let sshd = or_skip(PrivateSshd::start());
    let config = sshd.as_ref().map(|sshd| sshd.client_config().to_str().expect("UTF-8").to_owned());
    let program = format!("--remote-program={}", env!("CARGO_BIN_EXE_sealane"));
    let mut number = 0;
    let mut check = |options: &[&str], expected: &str, from: &str, to: &dyn Fn(&str) -> String| {
        number += 1;
        let target = format!("target{number}");
        let place = to(&target);
        let mut arguments = vec!["-rT", "--accept-new"];
        arguments.extend(options);
        if let (Some(config), true) =
            (&config, [from, place.as_str()].iter().any(|end| end.contains(PrivateSshd::HOST)))
        {
            arguments.extend(["-F", config, &program, "--far-end=sealane"]);
        }
        arguments.extend([from, &place]);
        let ended = run(&served.home(), &arguments);
        let differing = differences(&root.join("source"), &root.join(&target));
        assert!(differing.is_empty(), "{arguments:?}: {differing:?}");
        let spared = ended.done("spared_bytes");
        let fits = match expected {
            "much" => spared >= SPARED_BYTES_MIN,
            "none" => spared == 0,
            _ => true,
        };
        assert!(fits, "{arguments:?}: {spared} bytes spared, not {expected}");
    };
    let local = |target: &str| root.join(target).to_str().expect("UTF-8").to_owned();
    let daemon = |target: &str| served.place(target);
    let from_daemon = served.place("source");
    for (options, expected) in [
        (&["-z"][..], "much"),
        (&["--compress=zstd:-7"], "much"),
        (&["--compress=zstd:19", "--streams=1"], "much"),
        (&["-z", "--digest"], "much"),
        (&["-z", "--level=safe", "--placement=packet", "--lanes=2", "--streams=1"], "much"),
        (&["--compress=auto"], "any"),
        (&["--compress=none"], "none"),
        (&[], "none"),
    ] {
        check(options, expected, &near, &daemon);
        check(options, expected, &from_daemon, &local);
    }
    // Nothing is gained by compressing what stays within a host.
    check(&["-z"], "none", &near, &local);
    if sshd.is_some() {
        let far = |target: &str| format!("{}:{}", PrivateSshd::HOST, local(target));
        let from_far = far("source");
        for options in [&["-z"][..], &["-z", "--level=clear", "--digest"], &["-z", "--through-ssh"]] {
            check(options, "much", &near, &far);
            check(options, "much", &from_far, &local);
        }
        check(&["-z"], "much", &from_far, &far);
    }
}

#[test]
fn an_interrupted_compressed_copy_goes_on_with_or_without_compression() {
    let served = Served::start(None);
    let root = served.root();
    // Compressed to about a third of a megabyte, so that the rate is what holds it up.
    write(&root.join("source"), &[Chance::new(3).bytes(3 << 20), words(6 << 20)].concat());
    for (number, (first, second)) in
        [("-z", "-z"), ("-z", "--compress=none"), ("--compress=none", "-z")].into_iter().enumerate()
    {
        let source = root.join("source");
        let target = format!("target{number}");
        let place = served.place(&target);
        let paths = [source.to_str().expect("UTF-8"), place.as_str()];
        let slow = ["--accept-new", "--limit-rate=2M", "-T", first, paths[0], paths[1]];
        let mut interrupted = Run::start(&served.home(), &slow);
        interrupted.wait_for_bytes(1 << 20);
        interrupted.kill();
        interrupted.end().expect("it ends");
        assert!(!root.join(&target).exists(), "{first}: it was too fast");
        let ended = run(&served.home(), &["--accept-new", "-T", second, paths[0], paths[1]]);
        assert!(ended.done("resumed_bytes") > 0, "{first}, {second}: {ended:?}");
        assert!(fs::read(&source).expect("a file") == fs::read(root.join(&target)).expect("a file"));
    }
}

#[test]
fn a_daemon_without_compression_refuses_who_insists() {
    let served = Served::serving(&["--no-compression"]);
    let root = served.root();
    plant(&root.join("source"));
    let near = root.join("source").to_str().expect("UTF-8").to_owned();
    for (number, push) in [true, false].into_iter().enumerate() {
        let name = format!("target{number}");
        let local = root.join(&name).to_str().expect("UTF-8").to_owned();
        let (from, to) = match push {
            true => (near.clone(), served.place(&name)),
            false => (served.place("source"), local),
        };
        let refused =
            run_to_end(&served.home(), &["-rT", "--accept-new", "-z", &from, &to]).expect("it ends");
        assert_eq!((refused.code, refused.kind()), (Some(3), "refused"), "{refused:?}");
        assert!(refused.message().contains("--compress=auto"), "{refused:?}");
        assert!(!root.join(&name).exists());
        let ended = run(&served.home(), &["-rT", "--accept-new", "--compress=auto", &from, &to]);
        assert_eq!(ended.done("spared_bytes"), 0);
        assert!(ended.events.iter().any(|event| event["event"] == "not_compressed"), "{ended:?}");
        assert_eq!(differences(&root.join("source"), &root.join(&name)), Vec::<String>::new());
    }
}

#[test]
fn over_sftp_the_user_hears_what_compresses_there() {
    let Some(sshd) = or_skip(PrivateSshd::start()) else { return };
    let home = tempfile::tempdir().expect("a folder");
    write(&home.path().join("file"), &words(1000));
    let at = |name: &str| home.path().join(name).to_str().expect("UTF-8").to_owned();
    let (config, to) = (sshd.client_config(), format!("{}:{}", PrivateSshd::HOST, at("target")));
    let config = config.to_str().expect("UTF-8");
    let refused = run_to_end(home.path(), &["-F", config, "--far-end=sftp", "-z", &at("file"), &to]);
    let refused = refused.expect("it ends");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.message().contains("Compression=yes"), "{refused:?}");
    run(home.path(), &["-F", config, "--far-end=sftp", "--compress=auto", &at("file"), &to]);
    assert_eq!(fs::read(at("target")).expect("a file"), words(1000));
}
