//! A build over a network file system (R21, figure 16): sshfs over a bare SFTP server, without ssh, so that only the
//! tunnel protects it; beside the same build on this host's own files.
//!
//! Guarantees: each run builds a fresh copy of the tree on a fresh mount; a mount ends with its run.

use super::{Bench, Connection, Run, SECONDS, Turn, sample};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{Claim, Coordinates, Drawn, Experiment, Measure, Outcome, Plot, View, at};
use crate::peers::{Server, sftp_server, timed};
use crate::process_tree::Tree;
use crate::scratch::remove;
use crate::surroundings::Surroundings;
use crate::tunnel::Topology;
use crate::tunnel::net::{Ground, Links, Net};
use crate::tunnel::{CARD, CLEAR, DEFAULT_SUITE, NATIVE, OWN, PROCESSOR, TRIPLE_DES};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The command that builds a tree by default.
pub const BUILD: &str = "make -j2";
/// The time in which a mount is made.
const MOUNT_TIME: Duration = Duration::from_secs(10);
/// The study's longest cipher.
const AES_256: &str = "aes-256-cbc+hmac-sha1-96";
/// Headers that each generated file includes, as the files of a kernel do.
const INCLUDES: usize = 24;

const AXES: [&str; 3] = ["files", "between", "suite"];
const LOCAL: &str = "local";
const REMOTE: &str = "sshfs";

/// Writes a tree of `count` C files and as many headers, with a Makefile.
fn write_tree(root: &Path, count: usize) -> Result<(), LabError> {
    let include = root.join("include");
    fs::create_dir_all(&include).map_err(LabError::file("cannot create", &include))?;
    let write =
        |path: PathBuf, text: &str| fs::write(&path, text).map_err(LabError::file("cannot write", path));
    for number in 0..count {
        let header = format!(
            "#ifndef PART_{number}_H\n#define PART_{number}_H\nstruct part_{number} {{ int value; struct part_{number} *next; }};\n\
             static inline int sum_{number}(const struct part_{number} *part)\n\
             {{ int sum = {number}; for (; part; part = part->next) sum += part->value; return sum; }}\n#endif\n"
        );
        write(include.join(format!("part{number}.h")), &header)?;
        let included = (0..INCLUDES.min(count)).map(|step| (number + step * step) % count);
        let mut text = String::new();
        let mut body = String::new();
        for other in included {
            // Headers have guards, so one that is included twice does no harm.
            let _ = writeln!(text, "#include \"part{other}.h\"");
            let _ = writeln!(
                body,
                "    {{ struct part_{other} one = {{ seed, 0 }}; total += sum_{other}(&one); }}"
            );
        }
        let _ = writeln!(
            text,
            "int unit_{number}(int seed)\n{{\n    int total = 0;\n{body}    return total;\n}}"
        );
        if number == 0 {
            text += "int main(void)\n{\n    return unit_0(1) == 0;\n}\n";
        }
        write(root.join(format!("unit{number}.c")), &text)?;
    }
    let makefile = "CFLAGS = -O1 -Iinclude -MMD\nOBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))\n\
                    program: $(OBJECTS)\n\t$(CC) -o $@ $^\n";
    write(root.join("Makefile"), makefile)
}

/// A folder of the last host, mounted here.
struct Mount {
    sshfs: Child,
    server: Server,
    at: PathBuf,
}

impl Mount {
    fn new(surroundings: &Surroundings, net: &Net, folder: &Path, at: PathBuf) -> Result<Self, LabError> {
        let program = |name: &str| surroundings.program(name).map_err(|absent| unavailable(absent.reason));
        let (socat, sshfs, nsenter) = (program("socat")?, program("sshfs")?, program("nsenter")?);
        let sftp = sftp_server().ok_or_else(|| unavailable("no sftp-server"))?;
        let hosts = net.hosts(0);
        let (server, port) = Server::listening(&hosts, "sftp-server", |port| {
            let listen = format!("TCP-LISTEN:{port},bind={},fork,reuseaddr,nodelay", hosts.address);
            Ok([socat.clone().into_os_string(), OsString::from(listen), format!("EXEC:{sftp}").into()]
                .to_vec())
        })?;
        fs::create_dir_all(&at).map_err(LabError::file("cannot create", &at))?;
        let outside = device(&at)?;
        // `ip netns exec` would give the mount a place that nobody else sees.
        let mut command = Command::new(nsenter);
        command.arg(format!("--net=/run/netns/{}", net.name(0))).arg(&sshfs);
        command.args(["-f", "-o", &format!("directport={port}")]);
        command.arg(format!("{}:{}", hosts.address, folder.display())).arg(&at);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|source| LabError::Start { program: sshfs, source })?;
        let mut mount = Self { sshfs: child, server, at };
        let deadline = Instant::now() + MOUNT_TIME;
        while device(&mount.at)? == outside {
            let has_ended = !matches!(mount.sshfs.try_wait(), Ok(None));
            if has_ended || Instant::now() > deadline {
                return Err(unavailable("sshfs did not mount: is there /dev/fuse?"));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(mount)
    }

    /// Returns the CPU seconds of both ends.
    fn cpu_seconds(&self) -> f64 {
        (Tree::of(self.sshfs.id()).cpu() + self.server.cpu()).as_secs_f64()
    }
}

fn device(path: &Path) -> Result<u64, LabError> {
    Ok(fs::metadata(path).map_err(LabError::file("cannot read", path))?.dev())
}

impl Drop for Mount {
    fn drop(&mut self) {
        // An error cannot be handled; a mount whose server has ended fails, but does not wait.
        let _ = Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
        let _ = self.sshfs.kill();
        let _ = self.sshfs.wait();
    }
}

/// Returns whether the study has this connection.
fn is_asked(connection: &Connection) -> bool {
    let [between, suite] = connection.name;
    match between {
        CARD | PROCESSOR => suite == TRIPLE_DES,
        NATIVE => [AES_256, TRIPLE_DES].contains(&suite),
        OWN => suite == DEFAULT_SUITE,
        other => other == CLEAR.0,
    }
}

/// Measures the builds.
pub(super) fn outcomes(bench: &mut Bench<'_>) -> Result<Vec<Outcome>, LabError> {
    let request = bench.request;
    let build = request.hosts.build.as_deref().unwrap_or(BUILD);
    let missing = ["sh", "make", "cc", "cp", "socat", "sshfs", "nsenter", "umount"]
        .into_iter()
        .filter(|name| build == BUILD || !["make", "cc"].contains(name))
        .find_map(|name| request.surroundings.program(name).err());
    if let Some(why) = missing {
        bench.skipped.push(format!("build: {} (`cargo xtask peers` brings it)", why.reason));
        return Ok(Vec::new());
    }
    let files = bench.sized(4, 24, 300);
    let (tree, what) = match &request.hosts.tree {
        Some(tree) => (tree.clone(), tree.display().to_string()),
        None => {
            let tree = bench.memory.empty_directory("generated")?;
            write_tree(&tree, files)?;
            (tree, format!("{files} generated C files with as many headers"))
        }
    };
    let folder = &bench.memory.path().join("built");
    let mount_point = &bench.memory.path().join("mounted");
    let ground = Ground { topology: Topology::HostHost, links: Links::Gigabit, is_confined: false };
    let connections = bench.connections().into_iter().filter(is_asked).collect();
    let nets = bench.nets(ground, connections);
    let fresh = |tree: &Path| -> Result<(), LabError> {
        remove(folder)?;
        let mut command = Command::new("cp");
        command.args(["-a", "--"]).arg(tree).arg(folder);
        timed(command).map(drop)
    };
    let (tree, fresh) = (&tree, &fresh);
    let make = move |at: &Path| -> Result<(f64, f64), LabError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", build]).current_dir(at);
        let (wall, cpu) = timed(command)?;
        Ok((wall.as_secs_f64(), cpu.as_secs_f64()))
    };
    let mut turns: Vec<Turn<'_>> = Vec::new();
    if request.hosts.between.is_empty() {
        let turn = move || {
            fresh(tree)?;
            sample(None, || {
                let (seconds, cpu_s) = make(folder)?;
                Ok(Run { seconds, bytes: 0, cpu_s })
            })
        };
        turns.push((place(LOCAL, CLEAR.0, CLEAR.1), Box::new(turn)));
    }
    for (connection, net, _) in &nets {
        let turn = move || {
            fresh(tree)?;
            let mount = Mount::new(&request.surroundings, net, folder, mount_point.clone())?;
            let (mut build_s, mut mount_s) = (0.0, 0.0);
            let mut taken = sample(Some(net), || {
                let (seconds, cpu_s) = make(&mount.at)?;
                (build_s, mount_s) = (cpu_s, mount.cpu_seconds());
                Ok(Run { seconds, bytes: 0, cpu_s: build_s + mount_s })
            })?;
            taken.set("cpu_s", build_s);
            taken.set("mount_cpu_s", mount_s);
            Ok(taken)
        };
        let [between, suite] = connection.name;
        turns.push((place(REMOTE, between, suite), Box::new(turn)));
    }
    let cells = bench.take_turns("build", turns)?;
    let title = format!("`{build}` of {what}, links of 1 Gb/s");
    Ok(bench.outcome(experiment(&title), cells, claims()).into_iter().collect())
}

/// Returns the study's table without cells: its measures, notes and plots.
fn experiment(title: &str) -> Experiment {
    let measures = vec![
        Measure::cost(SECONDS, "s", "s"),
        Measure::cost("cpu_s", "CPU s: build", "s"),
        Measure::cost("mount_cpu_s", "file system", "s"),
        Measure::cost("tunnel_cpu_s", "tunnel", "s"),
        Measure::cost("system_cpu_s", "machine", "s"),
    ];
    let notes = [
        "The paper (figure 16): a kernel, LOCAL, over NFS, and over NFS through IPsec with AES-256 and with 3DES in software and in \
         hardware, which helps most here.",
        "NFS has no client outside a kernel: sshfs over a bare SFTP server stands for it. `--tree` and `--build` build another \
         tree, such as a kernel's; compilers hide the network in trees of few files.",
    ];
    let plots = vec![Plot::new(Drawn::Bars, "suite", SECONDS, &["files", "between"]).titled("Elapsed time")];
    Experiment::new("build", "R21", title, &AXES, measures).notes(&notes).shown(View::Cells, plots)
}

fn place(files: &str, between: &str, suite: &str) -> Coordinates {
    at(AXES.into_iter().zip([files, between, suite]))
}

fn claims() -> Vec<Claim> {
    let clear = || place(REMOTE, CLEAR.0, CLEAR.1);
    let software = |suite: &str| place(REMOTE, NATIVE, suite);
    [
        ("over the network slower than on local files", clear(), place(LOCAL, CLEAR.0, CLEAR.1)),
        ("through AES-256 slower than in clear", software(AES_256), clear()),
        ("through 3DES slower than through AES-256", software(TRIPLE_DES), software(AES_256)),
        (
            "through 3DES in software slower than in hardware, a simulated processor of 2003 beside a simulated card of its time",
            place(REMOTE, PROCESSOR, TRIPLE_DES),
            place(REMOTE, CARD, TRIPLE_DES),
        ),
        ("through 3DES in hardware slower than in clear", place(REMOTE, CARD, TRIPLE_DES), clear()),
    ]
    .into_iter()
    .map(|(words, slow, fast)| {
        let statement = format!("The build is {words}.");
        Claim::ratio((statement, "R21, figure 16"), SECONDS, (slow, fast), (Some(1.0), None))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_tree_builds() {
        let folder = tempfile::tempdir().unwrap();
        write_tree(folder.path(), 3).unwrap();
        for program in ["make", "cc"] {
            if let Err(why) = Surroundings::default().program(program) {
                return crate::skip::skip(&why.reason);
            }
        }
        let mut command = Command::new("sh");
        command.args(["-c", BUILD]).current_dir(folder.path());
        timed(command).unwrap();
        assert!(Command::new(folder.path().join("program")).status().is_ok_and(|status| status.success()));
    }

    #[test]
    fn claims_compare_rows_of_the_study() {
        for claim in claims() {
            for place in claim.shape.places() {
                assert_eq!(place.len(), AXES.len(), "{}", claim.statement);
            }
        }
        let all: Vec<[&str; 2]> =
            Connection::all().iter().filter(|one| is_asked(one)).map(|one| one.name).collect();
        assert_eq!(all.len(), 6, "{all:?}");
    }
}
