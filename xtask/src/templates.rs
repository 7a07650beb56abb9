//! Tries the templates for schedulers: Slurm's with a controller and two nodes on this machine, whose workers take the
//! samples of a study; Kubernetes' against the schemas of its objects.
//!
//! Guarantees: daemons run in the foreground on loopback, with all their files in a folder of their own, and end with the
//! command, as do jobs; a template that cannot be tried here is named with the reason.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The study whose samples the workers take: short, and in one process.
const STUDY: &str = "N26";
/// The name of the template's jobs.
const JOB: &str = "sealane-fleet";
const PATIENCE: Duration = Duration::from_secs(180);
/// Ports of the controller and of the two nodes.
const PORTS: [u16; 3] = [16820, 16821, 16822];
/// The version of Kubernetes against whose schemas the objects are checked.
const KUBERNETES: &str = "1.33";
const VALIDATE: &str = "\
import sys, yaml, kubernetes_validate
for path in sys.argv[2:]:
    for document in yaml.safe_load_all(open(path)):
        kubernetes_validate.validate(document, sys.argv[1], strict=True)
        print(path, document['kind'], document['metadata']['name'])
";

/// Tries all templates.
///
/// # Errors
/// Fails if one does not work.
pub(crate) fn run(root: &Path) -> Result<()> {
    kubernetes(&root.join("packaging/kubernetes"))?;
    match slurm_is_missing() {
        Some(why) => println!("Slurm: not tried: {why}"),
        None => slurm(root)?,
    }
    Ok(())
}

fn kubernetes(folder: &Path) -> Result<()> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let has = |module: &str| {
        let mut command = Command::new(&python);
        command.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !has("yaml, kubernetes_validate") {
        println!(
            "Kubernetes: not checked: Python's module kubernetes-validate is missing (PYTHON names another Python)"
        );
        return Ok(());
    }
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut command = Command::new(&python);
    let status =
        command.args(["-c", VALIDATE, KUBERNETES]).args(&files).status().context("running Python")?;
    ensure!(status.success(), "a Kubernetes template is not valid");
    println!("Kubernetes: valid for {KUBERNETES}");
    Ok(())
}

/// Returns the reason why Slurm cannot be tried here.
fn slurm_is_missing() -> Option<String> {
    for program in ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "nats-server"] {
        let found = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
        if !found {
            return Some(format!("{program} is missing"));
        }
    }
    (!rustix::process::geteuid().is_root()).then(|| "its daemons take root here".to_owned())
}

/// Processes that end with the command, the last first.
struct Daemons(Vec<Child>);

impl Daemons {
    fn start(&mut self, folder: &Path, program: &str, arguments: &[&str]) -> Result<u32> {
        let log = fs::File::create(folder.join(format!("{program}-{}.log", self.0.len())))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("SLURM_CONF", folder.join("slurm.conf"));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.0.push(command.spawn().with_context(|| format!("starting {program}"))?);
        Ok(self.0.last().map_or(0, Child::id))
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in self.0.iter_mut().rev() {
            // One that has ended by itself cannot be killed.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // If it cannot be removed, it remains in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn slurm(root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--quiet", "--package", "sealane", "--package", "sealane-lab-cli"];
    let status = Command::new(cargo).current_dir(root).args(arguments).status().context("running cargo")?;
    ensure!(status.success(), "the program does not build");
    let programs = root.join("target/debug");
    let folder = Folder(std::env::temp_dir().join(format!("sealane-templates-{}", std::process::id())));
    let at = &folder.0;
    fs::create_dir(at)?;
    fs::set_permissions(at, Permissions::from_mode(0o755))?;
    let mut daemons = Daemons(Vec::new());
    cluster(&mut daemons, at)?;
    let server = queue(&mut daemons, at)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs.clone()).chain(std::env::split_paths(&path)))?;
    let mut command = Command::new(programs.join("sealane"));
    command.args(["lab", "fleet", "run", STUDY, "--profile", "smoke", "--json", "--queue", &server]);
    command.env("XDG_STATE_HOME", at.join("state")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut study = command.spawn().context("starting the study")?;
    let outcome = workers(&mut study, root, at, &server, &path);
    if outcome.is_err() {
        // The daemons do not take their jobs with them.
        let _ =
            Command::new("scancel").args(["--name", JOB]).env("SLURM_CONF", at.join("slurm.conf")).status();
        let _ = wait_for("the end of the jobs", || are_no_jobs(at));
    }
    // It has ended, or must.
    let _ = study.kill();
    let _ = study.wait();
    outcome
}

/// Starts munge, the controller and two nodes.
fn cluster(daemons: &mut Daemons, at: &Path) -> Result<()> {
    let mut key = vec![0; 1024];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(at.join("munge.key"))?;
    file.write_all(&key)?;
    let shown = at.display();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let [controller, first, last] = PORTS;
    let config = format!(
        "ClusterName=try\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nAuthType=auth/munge\n\
         AuthInfo=socket={shown}/munge.socket\nSlurmUser=root\nStateSaveLocation={shown}/state-of-controller\n\
         SlurmdSpoolDir={shown}/spool-%n\nSlurmctldPidFile={shown}/controller.pid\nSlurmdPidFile={shown}/node-%n.pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nReturnToService=2\n\
         NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2\n\
         PartitionName=all Nodes=n[1-2] Default=YES State=UP\n"
    );
    fs::write(at.join("slurm.conf"), config)?;
    let option = |name: &str, file: &str| format!("--{name}={shown}/{file}");
    let options = [
        option("key-file", "munge.key"),
        option("socket", "munge.socket"),
        option("pid-file", "munge.pid"),
        option("seed-file", "munge.seed"),
        option("log-file", "munge.log"),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    daemons.start(at, "munged", &[&["--foreground", "--force"][..], &options].concat())?;
    wait_for("munge", || at.join("munge.socket").exists())?;
    let config = format!("{shown}/slurm.conf");
    daemons.start(at, "slurmctld", &["-D", "-f", &config])?;
    for node in ["n1", "n2"] {
        daemons.start(at, "slurmd", &["-D", "-f", &config, "-N", node])?;
    }
    wait_for("two idle nodes", || {
        let mut command = Command::new("sinfo");
        command.args(["--noheader", "--states=idle", "--format=%D"]).env("SLURM_CONF", &config);
        command.stderr(Stdio::null()).output().is_ok_and(|output| output.stdout.trim_ascii() == b"2")
    })
}

/// Starts a queue's server, and returns its address.
fn queue(daemons: &mut Daemons, at: &Path) -> Result<String> {
    let shown = at.display();
    let config = format!(
        "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{shown}\"\n\
         jetstream {{ store_dir: \"{shown}/store\", sync_interval: always }}\n"
    );
    fs::write(at.join("nats.conf"), config)?;
    let process = daemons.start(at, "nats-server", &["-c", &format!("{shown}/nats.conf")])?;
    let ports = at.join(format!("nats-server_{process}.ports"));
    let address = || {
        let text = fs::read_to_string(&ports).ok()?;
        let start = text.find("nats://127.0.0.1:")?;
        text[start..].split('"').next().map(str::to_owned)
    };
    wait_for("the queue", || address().is_some())?;
    address().context("the queue's address")
}

/// Submits the template, and waits until its workers have done the study.
fn workers(study: &mut Child, root: &Path, at: &Path, server: &str, path: &std::ffi::OsStr) -> Result<()> {
    let said = study.stderr.take().context("the study's messages")?;
    let mut lines = BufReader::new(said).lines();
    let (run, key) = loop {
        let line = lines.next().context("the study has ended without a word")??;
        println!("{line}");
        let name = line.split_once("run ").and_then(|(_, rest)| rest.split_once(':'));
        if let (Some((name, _)), Some((_, key))) = (name, line.split_once("its key is ")) {
            break (name.to_owned(), key.trim().to_owned());
        }
    };
    let mut command = Command::new("sbatch");
    command.arg("--export=ALL").arg(root.join("packaging/slurm/sealane-fleet.sbatch")).current_dir(at);
    command.env("SLURM_CONF", at.join("slurm.conf")).env("PATH", path);
    command.env("SEALANE_QUEUE", server).env("SEALANE_RUN", &run).env("SEALANE_KEY", &key);
    let status = command.status().context("running sbatch")?;
    ensure!(status.success(), "sbatch refuses the template");
    wait_for("the study", || matches!(study.try_wait(), Ok(Some(_))))?;
    let status = study.wait()?;
    if !status.success() {
        for entry in fs::read_dir(at)?.flatten() {
            if entry.path().extension().is_some_and(|end| end == "log") {
                println!(
                    "{}:\n{}",
                    entry.path().display(),
                    fs::read_to_string(entry.path()).unwrap_or_default()
                );
            }
        }
        bail!("the study has failed: {status}");
    }
    wait_for("the end of the workers", || are_no_jobs(at))?;
    println!("Slurm: its workers have taken all samples, and have ended");
    Ok(())
}

/// Returns whether no job waits or runs.
fn are_no_jobs(at: &Path) -> bool {
    let mut command = Command::new("squeue");
    command.arg("--noheader").env("SLURM_CONF", at.join("slurm.conf")).stderr(Stdio::null());
    command.output().is_ok_and(|output| output.status.success() && output.stdout.trim_ascii().is_empty())
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    while !is_there() {
        ensure!(Instant::now() < give_up, "{what} does not come");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}
