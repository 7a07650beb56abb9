//! WDT, the fastest peer known; few systems package it.
//!
//! Its receiver always listens on every address. With encryption, a stranger could at most disturb a run; without it
//! one could write files, so that level runs only if no other machine can reach this one, as in a network namespace
//! with only the loopback interface.

use super::client::{Client, Far, measure};
use super::server::Server;
use super::tool::{BOTH, Found, Tool, by_itself};
use super::{Kind, Version, Workload};
use crate::LabError;
use crate::experiment::Sample;
use crate::program::Level;
use crate::scratch::Scratch;
use crate::skipped::Skipped;
use crate::surroundings::is_program;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

/// More connections had no effect on the machines of the measurements.
const PORTS: &str = "2";

/// AES-128-GCM, its default.
pub(super) const PRIVATE: Tool = Tool {
    name: "wdt",
    level: Level::Private,
    kinds: BOTH,
    leaves_a_copy: true,
    programs: &[],
    version: probe,
    run: |found, workload| run(found, workload, "aes128gcm"),
};

/// No encryption, no identity, no check.
pub(super) const CLEAR: Tool = Tool {
    name: "wdt-clear",
    level: Level::Clear,
    version: |found| {
        if is_reachable() {
            let reason =
                "it would take files from any machine; run the lab in a network namespace of its own";
            return Err(Skipped::because(reason));
        }
        probe(found)
    },
    run: |found, workload| run(found, workload, "none"),
    ..PRIVATE
};

fn probe(found: &mut Found) -> Result<Version, Skipped> {
    let program = match &found.surroundings.wdt {
        Some(program) if is_program(program) => program.clone(),
        Some(program) => return Err(Skipped::because(format!("{} is no program", program.display()))),
        None => found.surroundings.program("wdt")?,
    };
    found.programs = vec![program];
    by_itself(found)
}

fn run(found: &Found, workload: &Workload, encryption: &str) -> Result<Sample, LabError> {
    // It sends the content of a directory: for a file, a directory with a link to it.
    let links = Scratch::create(&found.surroundings, None, 0)?;
    let (from, to) = match workload.kind() {
        Kind::Tree => (workload.source().to_owned(), workload.copy()),
        Kind::File => {
            let link = links.path().join(workload.source().file_name().unwrap_or_default());
            symlink(workload.source(), &link).map_err(LabError::file("cannot link", link))?;
            (links.path().to_owned(), workload.target().to_owned())
        }
    };
    fs::create_dir_all(&to).map_err(LabError::file("cannot create", &to))?;
    let arguments = |directory: OsString| {
        let mut words = vec!["-directory".into(), directory];
        let others = ["-num_ports", PORTS, "-minloglevel", "2", "-progress_report_interval_millis", "0"];
        words.extend(others.map(OsString::from));
        words
    };
    let mut receiver = vec![found.program().as_os_str().to_owned()];
    receiver.extend(arguments(to.into_os_string()));
    // A start port of 0 lets the kernel choose; the line it prints has the ports and the key.
    let options = ["-hostname", "127.0.0.1", "-start_port", "0", "-encryption_type", encryption];
    receiver.extend(options.map(OsString::from));
    let (server, url) = Server::announcing("wdt receiver", receiver)?;
    let mut sender = found.client();
    sender.args(arguments(from.into_os_string())).args(["-follow_symlinks", "-"]);
    measure(vec![Client::with_input(sender, url + "\n")], Far::Ends(server), workload)
}

/// Returns whether the machine has a route or an address besides the loopback interface's.
fn is_reachable() -> bool {
    let lists_another = |file: &str, column: usize, heading: usize| {
        // A file that cannot be read counts as reachable.
        fs::read_to_string(file).map_or(true, |table| has_another_interface(&table, column, heading))
    };
    lists_another("/proc/net/route", 0, 1)
        || fs::exists("/proc/net/if_inet6").unwrap_or(true) && lists_another("/proc/net/if_inet6", 5, 0)
}

fn has_another_interface(table: &str, column: usize, heading: usize) -> bool {
    let mut names = table.lines().skip(heading).filter_map(|line| line.split_whitespace().nth(column));
    names.any(|name| name != "lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_interface_is_unreachable() {
        let heading = "Iface\tDestination\tGateway\n";
        assert!(!has_another_interface(heading, 0, 1));
        assert!(has_another_interface(&format!("{heading}eth0\t00000000\t0102A8C0\n"), 0, 1));
        let addresses = "00000000000000000000000000000001 01 80 10 80       lo\n";
        assert!(!has_another_interface(addresses, 5, 0));
        assert!(has_another_interface(&addresses.replace("lo", "eth0"), 5, 0));
    }
}
