//! One tree copied between many hosts, which are private sshds here.

mod hosts;
#[cfg(feature = "nats")]
#[path = "../../fleet/tests/common/nats.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod nats;
mod program;
#[path = "../../../testing/sshd.rs"]
mod sshd;
mod support;

use hosts::{Scene, Small, Tree, plant, same, script, succeeds, tree};
use program::{Ends, events, eventually, eventually_some, sealane, set_mode, skip, text, write};
#[cfg(feature = "nats")]
use program::{or_skip, wait_for};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::run::{Run, peak_bytes};
use support::{Chance, setting};

#[test]
fn a_tree_goes_from_many_hosts_to_many() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("data"), 1, 1500);
    fs::create_dir(scene.at("in")).expect("a folder");
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-3]", "in"));
    let done = succeeds(&scene.copy(&[], &from, &to));
    assert_eq!((&done["event"], &done["failed"]), (&"done".into(), &0.into()), "{done}");
    same(&scene.at("data"), &scene.at("in/data"));
    // Nothing is left but the tree, whose own folder has its time.
    assert_eq!(fs::read_dir(scene.at("in")).expect("a folder").count(), 1);
    let time = |name: &str| fs::metadata(scene.at(name)).expect("a folder").modified().expect("a time");
    assert_eq!(time("data"), time("in/data"));
    // The same command again copies nothing.
    let done = succeeds(&scene.copy(&[], &from, &to));
    assert_eq!(done["bytes"], 0, "{done}");
    // With --delete, names and links.
    write(&scene.at("in/data/extra"), b"extra");
    fs::hard_link(scene.at("data/f0/g0/n0"), scene.at("data/second")).expect("a link");
    let done = succeeds(&scene.copy(&["-a", "--delete"], &from, &to));
    assert_eq!(done["deleted"], 1, "{done}");
    same(&scene.at("data"), &scene.at("in/data"));
    let inode = |name: &str| fs::metadata(scene.at("in/data").join(name)).expect("a file").ino();
    assert_eq!(inode("second"), inode("f0/g0/n0"));
    let listed = scene.fleet(&["status", "--json"]);
    let runs = events(&listed.stdout);
    assert!(runs.len() == 2 && runs.iter().all(|run| run["state"] == "done"), "{runs:?}");
}

/// Movers that run on the scene's hosts now: processes that its sshd started.
fn movers(scene: &Scene) -> Vec<u32> {
    let port = format!(" {}\0", scene.sshds[0].port()).into_bytes();
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_mover = |number: &u32| {
        let read = |file: &str| fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
        let has = |bytes: Vec<u8>, part: &[u8]| bytes.windows(part.len()).any(|found| found == part);
        has(read("cmdline"), b"\0fleet\0work\0") && has(read("environ"), &port)
    };
    numbers.filter(is_mover).collect()
}

fn kill(number: u32) {
    let number = rustix::process::Pid::from_raw(number as i32).expect("a process has a number");
    // It fails only where the process has ended already.
    let _ = rustix::process::kill_process(number, rustix::process::Signal::KILL);
}

/// Every result of the scene's only run: each job once, and how many shares there are.
fn results(scene: &Scene) -> usize {
    let runs = fs::read_dir(scene.at("state/sealane/runs")).expect("runs").flatten();
    let mut ids = Vec::new();
    for run in runs {
        sealane_fleet::journal::Journal::scan(&run.path().join("results"), |id, _| ids.push(id))
            .expect("a journal");
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "a job has two results");
    all
}

/// Writes a file of this length with a hole in it.
fn plant_large(at: &Path, seed: u64, bytes: u64) {
    let mut chance = Chance::new(seed);
    write(at, &chance.bytes(bytes as usize / 2));
    let file = fs::OpenOptions::new().write(true).open(at).expect("a file");
    file.set_len(bytes - 1000).expect("room");
    std::os::unix::fs::FileExt::write_all_at(&file, &chance.bytes(1000), bytes - 1000).expect("room");
}

/// Unfinished files and journals below a folder.
fn remains(at: &Path) -> Vec<PathBuf> {
    tree(at).into_keys().filter(|path| is_ours(path)).collect()
}

fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".sealane-"))
}

#[test]
fn a_large_file_is_copied_in_ranges_by_several_movers() {
    let Some(scene) = Scene::set() else { return };
    fs::create_dir_all(scene.at("data/deep")).expect("folders");
    fs::create_dir(scene.at("in")).expect("a folder");
    let sizes = [("a", 8 << 20), ("deep/b", (6 << 20) + 12_345), ("c", 3 << 20), ("empty", 0)];
    for (number, (name, bytes)) in sizes.into_iter().enumerate() {
        match bytes {
            0 => write(&scene.at("data").join(name), b""),
            bytes => plant_large(&scene.at("data").join(name), number as u64, bytes),
        }
    }
    set_mode(scene.at("data/a"), 0o751);
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in"));
    let options = ["--share-bytes", "3MiB", "--streams", "1"];
    let done = succeeds(&scene.copy(&options, &from, &to));
    // The bytes of holes are not sent.
    let bytes = done["bytes"].as_u64().expect("a number");
    assert!((8 << 20..17 << 20).contains(&bytes) && done["files"].as_u64() >= Some(4), "{done}");
    same(&scene.at("data"), &scene.at("in/data"));
    assert!(remains(&scene.at("in")).is_empty(), "{:?}", remains(&scene.at("in")));
    // 8 ranges of the first file, 7 of the second, their names, a share, and 4 jobs of the run.
    assert!(results(&scene) >= 8 + 7 + 2 + 1 + 4, "{}", results(&scene));
    // A file that is there is not sent again, and one that has changed is.
    let done = succeeds(&scene.copy(&options, &from, &to));
    assert_eq!(done["bytes"], 0, "{done}");
    plant_large(&scene.at("data/a"), 9, 7 << 20);
    succeeds(&scene.copy(&options, &from, &to));
    same(&scene.at("data"), &scene.at("in/data"));
}

#[test]
fn a_large_file_whose_ranges_got_lost_is_copied_whole() {
    let Some(scene) = Scene::set() else { return };
    fs::create_dir_all(scene.at("data")).expect("a folder");
    fs::create_dir(scene.at("in")).expect("a folder");
    plant_large(&scene.at("data/a"), 1, 10 << 20);
    let (from, to) = (scene.place("src1", "data"), scene.place("dst[1-2]", "in"));
    let options = ["--share-bytes", "3MiB", "--streams", "1", "--movers", "1"];
    let mut run = Run::of(scene.command(&options, &from, &to));
    // The unfinished file goes away between two of its ranges.
    let is_unfinished = eventually(|| {
        assert!(!run.has_ended(), "{:?}", run.events());
        !remains_of(&scene).is_empty() && results(&scene) >= 5
    });
    assert!(is_unfinished, "{:?}", run.events());
    remains_of(&scene).iter().for_each(|part| fs::remove_file(part).expect("it is there"));
    run.ends(0);
    same(&scene.at("data"), &scene.at("in/data"));
    assert!(remains(&scene.at("in")).is_empty(), "{:?}", remains(&scene.at("in")));
}

/// Unfinished files of the scene's target.
fn remains_of(scene: &Scene) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(scene.at("in/data")) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "part")).collect()
}

#[test]
fn kills_of_movers_and_of_the_coordinator_lose_nothing() {
    let Some(scene) = Scene::set() else { return };
    kills(&scene, &[], || ());
}

#[cfg(feature = "nats")]
#[test]
fn kills_of_a_queue_server_lose_nothing_either() {
    let Some(scene) = Scene::set() else { return };
    let Some(mut served) = or_skip(nats::Served::start()) else { return };
    let address = served.address();
    kills(&scene, &["--queue", &address], || served.restart());
}

/// Copies a tree while movers and the coordinator are killed, and `server` kills what else may be: every file arrives.
fn kills(scene: &Scene, queue: &[&str], mut server: impl FnMut()) {
    let (files, kills) = (setting("SEALANE_FLEET_FILES", 2500), setting("SEALANE_FLEET_KILLS", 4));
    plant(&scene.at("data"), 2, files);
    fs::create_dir(scene.at("in")).expect("a folder");
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-3]", "in"));
    let mut chance = Chance::new(setting("SEALANE_FAULT_SEED", 3));
    // The largest files have three ranges.
    let options = [&["--streams", "1", "--share-bytes", "1MiB"], queue].concat();
    let mut run = Run::of(scene.command(&options, &from, &to));
    let (mut killed, mut starts, mut servers) = (0, 1, 0);
    let deadline = Instant::now() + Duration::from_secs(60 + 5 * kills);
    let ended = loop {
        assert!(Instant::now() < deadline, "it hangs after {killed} kills: {:?}", run.events().last());
        sleep(Duration::from_millis(100 + chance.below(500)));
        if run.has_ended() {
            let ended = run.end().expect("it has ended");
            // A coordinator that loses its server may give up: the same command goes on.
            let is_lost = servers > 0 && ended.code == Some(3);
            if !is_lost && (killed >= kills || ended.code != Some(0)) {
                break ended;
            }
            if !is_lost {
                // All was done before there were enough kills: again, from the beginning.
                fs::remove_dir_all(scene.at("in/data")).expect("it is there");
            }
            starts += 1;
            run = Run::of(scene.command(&options, &from, &to));
            continue;
        }
        if killed >= kills {
            continue;
        }
        killed += 1;
        let movers = movers(scene);
        // A short test has few kills: the first one is the server's.
        match if killed == 1 { 0 } else { chance.below(4) } {
            0 if !queue.is_empty() => {
                server();
                servers += 1;
            }
            1 => {
                run.kill();
                let _ = run.end();
                starts += 1;
                run = Run::of(scene.command(&options, &from, &to));
            }
            _ if !movers.is_empty() => kill(chance.one_of(&movers)),
            _ => killed -= 1,
        }
    };
    assert_eq!(ended.code, Some(0), "after {killed} kills and {starts} starts: {ended:?}");
    assert!(queue.is_empty() || servers > 0, "the server was never killed");
    same(&scene.at("data"), &scene.at("in/data"));
    assert!(remains(&scene.at("in")).is_empty(), "{:?}", remains(&scene.at("in")));
    results(scene);
}

#[test]
fn a_dry_run_lists_what_a_copy_does_and_changes_nothing() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("data"), 12, 400);
    fs::create_dir(scene.at("in")).expect("a folder");
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in"));
    let listed = |options: &[&str]| {
        let output = scene.copy(&[options, &["--movers", "1"]].concat(), &from, &to);
        let done = succeeds(&output);
        assert_eq!((&done["dry_run"], &done["failed"]), (&true.into(), &0.into()), "{done}");
        let names = |what: &str| {
            let told = events(&output.stdout).into_iter().filter(|event| event["event"] == what);
            let mut paths: Vec<_> =
                told.map(|event| event["path"].as_str().expect("text").to_owned()).collect();
            paths.sort();
            paths
        };
        (names("would_send"), names("deleted"), done["files"].as_u64())
    };
    let (sent, deleted, files) = listed(&["-n"]);
    assert!(deleted.is_empty() && tree(&scene.at("in")).is_empty(), "something was made");
    let mut all: Vec<_> = tree(&scene.at("data")).into_keys().collect();
    all.push(PathBuf::new());
    assert_eq!((sent.len(), files), (all.len(), Some(all.len() as u64)));
    let mut unique = sent.clone();
    unique.dedup();
    assert_eq!(unique.len(), sent.len(), "an entry is listed twice");
    // A real one does what was listed, and then nothing is left to list.
    succeeds(&scene.copy(&[], &from, &to));
    same(&scene.at("data"), &scene.at("in/data"));
    assert_eq!(listed(&["-n"]).0, Vec::<String>::new());
    write(&scene.at("data/f1/new"), b"new");
    write(&scene.at("in/data/extra"), b"extra");
    let (sent, deleted, _) = listed(&["-n", "--delete"]);
    assert!(sent.iter().any(|path| path.ends_with("f1/new")), "{sent:?}");
    assert!(deleted.len() == 1 && deleted[0].ends_with("extra"), "{deleted:?}");
    assert!(scene.at("in/data/extra").exists() && !scene.at("in/data/f1/new").exists());
}

#[test]
fn what_failed_is_listed_and_tried_again() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("data"), 3, 40);
    fs::create_dir(scene.at("in")).expect("a folder");
    let pipe = scene.at("data/f1/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
    let output = scene.copy(&[], &scene.place("src[1-2]", "data"), &scene.place("dst1", "in")).ends(1);
    let told = events(&output.stdout);
    let run = told.iter().find(|event| event["event"] == "run").expect("it has a name")["run"].clone();
    let run = run.as_str().expect("text");
    assert!(told.iter().any(|event| event["event"] == "entry_failed"), "{told:?}");
    let failed = scene.fleet(&["failed", run, "--json"]).ends(1);
    assert!(text(&failed.stdout).contains("pipe"), "{}", text(&failed.stdout));
    let status = events(&scene.fleet(&["status", &run[..4], "--json"]).stdout).remove(0);
    assert_eq!((&status["state"], &status["failed"]), (&"incomplete".into(), &1.into()), "{status}");
    assert!(text(&scene.fleet(&["status", run]).stdout).contains("incomplete"));
    fs::remove_file(&pipe).expect("it is there");
    write(&pipe, b"a file now");
    scene.fleet(&["retry", run]).ends(0);
    same(&scene.at("data"), &scene.at("in/data"));
    let failed = scene.fleet(&["failed", run]);
    assert!(failed.status.success() && failed.stdout.is_empty());
    for wrong in [&["status", "0123456789"][..], &["stop", run], &["failed", "x:"], &["retry", "-"]] {
        assert_eq!(scene.fleet(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn hosts_join_and_leave_and_a_run_is_stopped() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("data"), 4, 2500);
    fs::create_dir(scene.at("in")).expect("a folder");
    let (sources, targets) = (scene.at("sources"), scene.at("targets"));
    write(&sources, b"src1\n");
    write(&targets, b"dst1\ndst2\n");
    let place = |list: &Path, name: &str| format!("@{}:{}", list.display(), scene.at(name).display());
    let (from, to) = (place(&sources, "data"), place(&targets, "in"));
    let options = ["--movers", "1", "--streams", "1"];
    // Many shares take long enough for all that follows.
    let slowly = [&options[..], &["--share-bytes", "300KiB"]].concat();
    let mut run = Run::of(scene.command(&slowly, &from, &to));
    let seen = |run: &mut Run, what: &str, host: &str| {
        let is_event = |event: &serde_json::Value| event["event"] == what && event["host"] == host;
        let is_seen = eventually(|| run.has_ended() || run.events().iter().any(is_event));
        assert!(is_seen && !run.has_ended(), "{host} has not {what}: {:?}", run.events());
    };
    let (name, _) = named(&mut run);
    write(&sources, b"src1\nsrc2\n");
    seen(&mut run, "joined", "src2");
    write(&targets, b"dst2\ndst3\n");
    seen(&mut run, "joined", "dst3");
    write(&sources, b"src2\n");
    // The run is looked after from another host.
    let named = format!("src9:{name}");
    let status = || events(&scene.fleet_elsewhere(&["status", &named, "--json"]).stdout).remove(0);
    let is_so = eventually(|| {
        let status = status();
        assert!(!run.has_ended(), "{status}");
        (&status["sources"], &status["targets"]) == (&["src2"][..].into(), &["dst2", "dst3"][..].into())
    });
    assert!(is_so, "{}", status());
    let stopped = scene.fleet_elsewhere(&["stop", &named]);
    let ended = run.end().expect("it ends");
    assert_eq!(ended.code, Some(130), "{ended:?} {stopped:?}");
    let status = scene.fleet_elsewhere(&["status", &named]);
    assert!(text(&status.stdout).contains("stopped"), "{status:?}");
    assert_eq!(scene.fleet_elsewhere(&["failed", &named]).status.code(), Some(0));
    assert_eq!(scene.fleet_elsewhere(&["status", "src9:0123456789"]).status.code(), Some(2));
    assert_eq!(scene.fleet_elsewhere(&["status", "nobody:01"]).status.code(), Some(3));
    write(&targets, b"dst2\n");
    // The same command: a share that was cut off is continued by the same share.
    succeeds(&scene.copy(&slowly, &from, &to));
    same(&scene.at("data"), &scene.at("in/data"));
    assert!(text(&scene.fleet_elsewhere(&["status", &named]).stdout).contains("done"));
}

/// The orders of a user whose identity is of Ed25519 and ML-DSA-65 have both signatures.
#[test]
fn a_run_of_a_user_with_a_hybrid_identity_has_such_a_key() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("data"), 9, 60);
    fs::create_dir(scene.at("in")).expect("a folder");
    let identity = scene.at("identity").display().to_string();
    sealane(&["id", "--hybrid", "--identity", &identity]).ends(0);
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in"));
    let mut run = Run::of(scene.command(&["--identity", &identity], &from, &to));
    let (_, key) = named(&mut run);
    assert!(key.starts_with("sealane2:"), "{key}");
    run.ends(0);
    same(&scene.at("data"), &scene.at("in/data"));
}

/// Waits for a run's name and key.
fn named(run: &mut Run) -> (String, String) {
    let text = |event: &serde_json::Value, name: &str| Some(event[name].as_str()?.to_owned());
    let found = eventually_some(|| {
        let named = |event| Some((text(event, "run")?, text(event, "key")?));
        let found = run.events().iter().find_map(named);
        assert!(found.is_some() || !run.has_ended(), "{:?}", run.events());
        found
    });
    found.expect("it has a name")
}

/// A host that takes part lies through a queue that lets everybody do everything: it passes on the signed orders and jobs
/// of a run of its own, whose options start a program, and answers for targets that nobody has named.
#[cfg(feature = "nats")]
#[test]
fn a_worker_that_lies_moves_nobody_else() {
    use sealane_fleet::nats::NatsQueue;
    use sealane_fleet::{Queue, Taken};
    let Some(scene) = Scene::set() else { return };
    let Some(served) = or_skip(nats::Served::start()) else { return };
    plant(&scene.at("data"), 8, 30);
    for folder in ["in", "elsewhere"] {
        fs::create_dir(scene.at(folder)).expect("a folder");
    }
    let address = served.address();
    let queue = ["--queue", &address, "--movers", "0"];
    let connect = |run: &str| NatsQueue::connect(served.server(), None, run, None).expect("a queue");
    let announced = |queue: &NatsQueue| {
        let look = || Some(queue.announcement().expect("a queue")).filter(|found| !found.is_empty());
        eventually_some(look).expect("something is announced")
    };
    let take = |queue: &NatsQueue| {
        let look = || match queue.take(Duration::from_millis(200)).expect("a queue") {
            Taken::Job(lease) => Some(lease),
            _ => None,
        };
        eventually_some(look).expect("there is a job")
    };
    let (from, to) = (scene.place("src1", "data"), scene.place("dst[1-2]", "in"));
    let elsewhere = scene.place("dst[1-2]", "elsewhere");
    // The liar's own run, with an option that would run a command on whoever obeys.
    let command = format!("ProxyCommand=touch {}", scene.at("obeyed").display());
    let mut lure = Run::of(scene.command(&[&queue[..], &["-o", &command]].concat(), &from, &elsewhere));
    let (lure_name, _) = named(&mut lure);
    let lures = connect(&lure_name);
    let (order, job) = (announced(&lures), take(&lures).job);
    lure.kill();
    let work = |run: &str, key: &str| {
        let mut command = sealane(&["fleet", "work", "--run", run, "--key", key, "--queue", &address]);
        command.env("XDG_STATE_HOME", scene.at("worker")).output().expect("the program starts")
    };
    let start = || Run::of(scene.command(&queue, &from, &to));
    // A job of somebody else is not done, and is told; all others are.
    let mut run = start();
    let (name, key) = named(&mut run);
    let liar = connect(&name);
    announced(&liar);
    liar.put(&job).expect("room");
    work(&name, &key).ends(0);
    let ended = run.ends(1);
    let failed = ended.events.iter().find(|event| event["event"] == "entry_failed").expect("one failed");
    assert!(failed.to_string().contains(&key), "{failed}");
    same(&scene.at("data"), &scene.at("in/data"));
    // An order of somebody else is not obeyed.
    let mut run = start();
    assert_eq!(named(&mut run), (name.clone(), key.clone()));
    let liar = connect(&name);
    announced(&liar);
    liar.say(&format!("sealane.{name}.meta.order"), &order).expect("a queue");
    wait_for("the order", || liar.announcement().expect("a queue") == order);
    work(&name, &key).complains(4, &[&key]);
    run.kill();
    // An answer for other targets than those asked for ends the run.
    let mut run = start();
    named(&mut run);
    let liar = connect(&name);
    announced(&liar);
    let lease = take(&liar);
    let lie = sealane_fleet::fuzzing::lying_look(&[&scene.place("dst1", "elsewhere")]);
    liar.finish(lease, &lie).expect("room");
    let ended = run.ends(4);
    assert!(
        ended.events.iter().any(|event| event.to_string().contains("no target of this copy")),
        "{ended:?}"
    );
    assert!(!scene.at("obeyed").exists(), "somebody has obeyed");
    assert!(tree(&scene.at("elsewhere")).is_empty());
}

#[test]
fn no_text_of_a_host_controls_the_terminal() {
    let Some(mut scene) = Scene::set() else { return };
    plant(&scene.at("data"), 9, 3);
    fs::create_dir(scene.at("in")).expect("a folder");
    let loud = scene.at("loud");
    let program = scene.program.display();
    script(&loud, &format!("printf '\\033]0;owned\\007shouted\\n' >&2\nexec {program} \"$@\""));
    scene.program = loud;
    let (from, to) = (scene.place("src[1-1]", "data"), scene.place("dst[1-1]", "in"));
    let output = scene.copy(&["--movers", "1"], &from, &to);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // Its words are read, with the name of the host.
    assert!(said.lines().any(|line| line.starts_with("src1: ") && line.contains("shouted")), "{said}");
    assert!(!said.chars().any(|found| found.is_control() && found != '\n'), "{said:?}");
}

/// Workers that nobody here has started take part through a server of somebody else's, over TLS.
#[cfg(feature = "nats")]
#[test]
fn a_run_on_a_queue_server_is_done_by_workers_that_come() {
    use sealane_peer::Identity;
    let Some(scene) = Scene::set() else { return };
    let path = |name: &str| scene.at(name).display().to_string();
    let identity = |name: &str| Identity::create(&scene.at(name)).expect("a key");
    let (server, ours, worker) = (identity("server"), identity("ours"), identity("worker"));
    let pem = |identity: &Identity| identity.certificate_pem().expect("a certificate");
    let rights = |identity: &str, role: &str| {
        let output = sealane(&["id", "--identity", &path(identity), "--queue-rights", role]).output();
        text(&output.expect("the program starts").stdout).to_owned()
    };
    let users = rights("ours", "coordinator") + &rights("worker", "worker");
    let clients = pem(&ours) + &pem(&worker);
    let Some(served) = or_skip(nats::Served::protected(&scene.at("server"), &pem(&server), &clients, &users))
    else {
        return;
    };
    plant(&scene.at("data"), 7, 100);
    plant_large(&scene.at("data/large"), 7, 5 << 20);
    fs::create_dir(scene.at("in")).expect("a folder");
    let (from, to) = (scene.place("src1", "data"), scene.place("dst[1-2]", "in"));
    let (ours, known) = (path("ours"), path("known"));
    let queue = ["--queue", &served.address(), "--identity", &ours, "--known-peers", &known, "--accept-new"];
    let options = [&["--movers", "0", "--share-bytes", "2MiB"][..], &queue].concat();
    let mut run = Run::of(scene.command(&options, &from, &to));
    let (name, key) = named(&mut run);
    let work = |identity: &str, run: &str| {
        let mut command =
            sealane(&["fleet", "work", "--run", run, "--key", &key, "--identity", &path(identity)]);
        command.args(["--queue", &served.address(), "--known-peers", &known]);
        command.stderr(std::process::Stdio::piped()).spawn().expect("the program starts")
    };
    // A stranger is refused.
    work("server", &name).wait_with_output().expect("it ends").ends(3);
    for worker in [work("worker", &name), work("worker", &name)] {
        worker.wait_with_output().expect("it ends").ends(0);
    }
    run.ends(0);
    same(&scene.at("data"), &scene.at("in/data"));
    assert!(remains(&scene.at("in")).is_empty(), "{:?}", remains(&scene.at("in")));
}

#[test]
fn what_many_hosts_cannot_do_is_refused() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("data"), 5, 3);
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in"));
    let local = scene.at("in").display().to_string();
    for (options, from, to, code, said) in [
        (&["--digest"][..], &*from, &*to, 2, "--digest"),
        (&[], &from, &local, 2, "far host"),
        (&[], &scene.place("src[2-1]", "data"), &to, 2, "backwards"),
        (&[], "sealane://src[1-2]/data", &to, 2, "ssh"),
        (&[], &scene.place("src[1-2]", "no-such"), &to, 5, "no-such"),
        (&[], &from, &scene.place("dst[1-2]", "no/such"), 3, "no/such"),
        (&[], &scene.place("nobody[1-2]", "data"), &to, 3, "nobody"),
    ] {
        let output = scene.copy(options, from, to);
        let all = format!("{}{}", text(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{from} {to}: {all}");
        assert!(all.contains(said), "{from} {to}: {all}");
        assert!(!all.contains("failed: the queue failed"), "{from} {to}: {all}");
    }
}

/// A folder that is the new name itself, with a configuration of ssh that is named as seen from here, and a limit.
#[test]
fn a_relative_configuration_and_a_limit_reach_the_sources() {
    let Some(scene) = Scene::set() else { return };
    plant(&scene.at("data"), 10, 30);
    let mut command = sealane(&["cp", "-rT", "--json", "--limit-rate", "100M", "--remote-program"]);
    command.arg(&scene.program).args(["-F", "ssh_config"]).current_dir(scene.folder.path());
    command.args([scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in")]);
    let done =
        succeeds(&command.env("XDG_STATE_HOME", scene.at("state")).output().expect("the program starts"));
    assert_eq!(done["failed"], 0, "{done}");
    same(&scene.at("data"), &scene.at("in"));
    let time = |name: &str| fs::metadata(scene.at(name)).expect("a folder").modified().expect("a time");
    assert_eq!(time("data"), time("in"));
}

/// `SEALANE_FLEET_MEMORY_FILES=1000000 cargo test --release -p sealane --test fleet memory` is the whole measurement.
#[test]
fn the_coordinators_memory_does_not_depend_on_the_number_of_files() {
    let Some(scene) = Scene::set() else { return };
    let files = setting("SEALANE_FLEET_MEMORY_FILES", 1500);
    for number in 0..files {
        let folder = scene.at(&format!("data/{}/{}", number % 100, number / 100 % 100));
        if number < 10_000 {
            fs::create_dir_all(&folder).expect("folders");
        }
        write(&folder.join(format!("a file with a name of some length {number}")), b"x");
    }
    fs::create_dir(scene.at("in")).expect("a folder");
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in"));
    let mut run = Run::of(scene.command(&["--movers", "1"], &from, &to));
    let mut most = 0;
    let give_up = Instant::now() + Duration::from_secs(60 + files / 500);
    while !run.has_ended() {
        assert!(Instant::now() < give_up, "it hangs: {:?}", run.events().last());
        // Before it says something, it may still be the copy of this process that starts it.
        let has_begun = !run.events().is_empty();
        most = if has_begun { peak_bytes(run.number()) } else { 0 }.max(most);
        sleep(Duration::from_millis(10));
    }
    run.ends(0);
    println!("{files} files: {} KiB", most >> 10);
    assert!(most > 0 && most <= 64 << 20, "the coordinator has taken {most} bytes");
}

#[test]
fn targets_with_folders_of_their_own_have_the_tree_together() {
    let Some(mut scene) = Scene::of(&["src*", "dst1", "dst2"]) else { return };
    if !rustix::process::geteuid().is_root() {
        return skip("hosts with file systems of their own take root");
    }
    plant(&scene.at("data"), 6, 600);
    fs::create_dir(scene.at("in")).expect("a folder");
    scene.part(&[1, 2], "in");
    let own = |number: usize| scene.at("own").join(scene.sshds[number].port().to_string()).join("data");
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in"));
    // Options that need the whole tree in one place are refused, and nothing is left of the question.
    scene.copy(&["-a"], &from, &to).ends(2);
    for number in [1, 2] {
        let left = tree(own(number).parent().expect("a folder"));
        assert!(left.is_empty(), "{:?}", left.keys());
    }
    succeeds(&scene.copy(&[], &from, &to));
    let (one, other, all) = (tree(&own(1)), tree(&own(2)), tree(&scene.at("data")));
    let is_folder = |path: &Path| all.get(path).is_some_and(|(mode, ..)| mode & 0o170_000 == 0o040_000);
    assert!(
        one.keys().filter(|path| other.contains_key(*path)).all(|path| is_folder(path)),
        "a file is there twice"
    );
    let files = |tree: &Tree| tree.keys().filter(|path| !is_folder(path)).count();
    assert!(files(&one) > 150 && files(&other) > 150, "{} and {}", files(&one), files(&other));
    let together: Tree = one.into_iter().chain(other).collect();
    assert!(together == all, "the tree is not whole");
    assert!(!scene.at("in/data").exists());
    // The same files go to the same hosts.
    let done = succeeds(&scene.copy(&[], &from, &to));
    assert_eq!(done["bytes"], 0, "{done}");
    // Options that need the whole tree in one place are refused.
    scene.copy(&["--delete"], &from, &to).ends(2);
}

#[test]
fn a_full_target_leaves_its_files_to_no_other() {
    let Some(mut scene) = Scene::of(&["src*", "dst1", "dst2"]) else { return };
    if !rustix::process::geteuid().is_root() {
        return skip("hosts with file systems of their own take root");
    }
    plant(&scene.at("data"), 11, 300);
    fs::create_dir(scene.at("in")).expect("a folder");
    scene.part(&[1, 2], "in");
    let own = |number: usize| scene.at("own").join(scene.sshds[number].port().to_string());
    let Some(small) = Small::mount(&own(1), 256 << 10, false) else {
        return skip("no file system can be mounted here");
    };
    let (from, to) = (scene.place("src[1-2]", "data"), scene.place("dst[1-2]", "in"));
    let options = ["--streams", "1", "--share-bytes", "100KiB"];
    let output = scene.copy(&options, &from, &to);
    assert!(matches!(output.status.code(), Some(1)), "{}", text(&output.stdout));
    let names = |number: usize| -> BTreeSet<PathBuf> {
        let found = tree(&own(number)).into_iter();
        let files = found.filter(|(path, (mode, ..))| mode & 0o170_000 != 0o040_000 && !is_ours(path));
        files.map(|(path, _)| path).collect()
    };
    let twice: Vec<_> = names(1).intersection(&names(2)).cloned().collect();
    assert!(twice.is_empty(), "files are at two targets: {twice:?}");
    // With more room the same command goes on, and leaves nothing but the tree.
    let larger = Small::mount(&own(1), 64 << 20, true).expect("it was mounted");
    succeeds(&scene.copy(&options, &from, &to));
    assert!(names(1).is_disjoint(&names(2)));
    let all = tree(&scene.at("data")).into_iter().filter(|(_, (mode, ..))| mode & 0o170_000 != 0o040_000);
    assert_eq!(names(1).len() + names(2).len(), all.count());
    for number in [1, 2] {
        assert!(remains(&own(number)).is_empty(), "{:?}", remains(&own(number)));
    }
    std::mem::forget(larger);
    drop(small);
}
