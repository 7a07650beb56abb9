//! Describes the machine, as far as a reader must know it before believing a figure.
//!
//! Guarantees: reading changes nothing and needs no rights; facts that cannot be read are absent, not guessed.

use serde::{Deserialize, Serialize};
use std::fs;

/// The machine, the kernel's settings that matter to a transfer, and the build of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU model in the kernel's words.
    pub cpu_model: Option<String>,
    /// CPU vendor, family, model and stepping, if the kernel gives them; two hosts may share a model name.
    pub cpu_id: Option<String>,
    /// The number of CPUs that this process may use.
    pub cores: usize,
    /// The instruction sets of this CPU that determine the speed of ciphers.
    pub cpu_features: Vec<String>,
    /// Whether the CPU reports a hypervisor.
    pub is_virtual: bool,
    /// Installed memory.
    pub memory_bytes: Option<u64>,
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// Operating system release.
    pub system: Option<String>,
    /// The TCP congestion control of new connections: BBR paces even loopback, CUBIC does not.
    pub congestion_control: Option<String>,
    /// The values of `net.ipv4.tcp_rmem` and `tcp_wmem` (minimum, default, maximum bytes).
    pub tcp_buffers: Option<String>,
    /// The CPU frequency governor of the first CPU, if the machine shows one.
    pub governor: Option<String>,
    /// The commit from which the program was built, with `+changes` if the tree differed from it.
    pub commit: Option<String>,
    /// The compiler of the program.
    pub rustc: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Whether the lab was built without optimisation; figures of such a build are meaningless.
    pub is_debug_build: bool,
}

/// Instruction sets to name in a report on ciphers and hashes.
const NOTABLE_FEATURES: [&str; 13] = [
    "aes",
    "pclmulqdq",
    "sha_ni",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512ifma",
    "vaes",
    "vpclmulqdq",
    "gfni",
    "sha2",
    "sha3",
    "pmull",
];

impl Machine {
    /// Describes this machine.
    pub fn describe() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let first_cpu = cpu.split("\n\n").next().unwrap_or_default();
        let flags = field(first_cpu, "flags").or_else(|| field(first_cpu, "Features")).unwrap_or_default();
        let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
        Self {
            cpu_model: field(first_cpu, "model name"),
            cpu_id: cpu_id(first_cpu),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_features: NOTABLE_FEATURES
                .iter()
                .filter(|name| has(name))
                .map(|&name| name.to_owned())
                .collect(),
            is_virtual: has("hypervisor"),
            memory_bytes: memory_field("MemTotal"),
            kernel: Some(kernel()),
            system: system(),
            congestion_control: setting("/proc/sys/net/ipv4/tcp_congestion_control"),
            tcp_buffers: tcp_buffers(),
            governor: setting("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            commit: sealane_terminal::laboratory::commit().map(str::to_owned),
            rustc: non_empty(env!("SEALANE_RUSTC")),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            is_debug_build: cfg!(debug_assertions),
        }
    }
}

/// Returns the memory that the kernel would give without swapping.
pub fn available_memory_bytes() -> Option<u64> {
    memory_field("MemAvailable")
}

fn cpu_id(cpu: &str) -> Option<String> {
    let vendor = field(cpu, "vendor_id")?;
    let number = |name| field(cpu, name).unwrap_or_else(|| "?".to_owned());
    Some(format!(
        "{vendor} family {} model {} stepping {}",
        number("cpu family"),
        number("model"),
        number("stepping")
    ))
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    non_empty(line.split_once(':')?.1)
}

fn memory_field(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let value = field(&text, name)?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn kernel() -> String {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    format!("{} {} {}", text(names.sysname()), text(names.release()), text(names.machine()))
}

fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    non_empty(line.trim_matches('"'))
}

fn tcp_buffers() -> Option<String> {
    let read = setting("/proc/sys/net/ipv4/tcp_rmem")?;
    let write = setting("/proc/sys/net/ipv4/tcp_wmem")?;
    let tidy = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(format!("receive {}; send {}", tidy(read), tidy(write)))
}

fn setting(path: &str) -> Option<String> {
    non_empty(&fs::read_to_string(path).ok()?)
}

fn non_empty(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "vendor_id\t: X\nmodel\t\t: 2\nmodel name\t: Fast CPU\nempty\t:\n";
        assert_eq!(field(text, "model").as_deref(), Some("2"));
        assert_eq!(field(text, "model name").as_deref(), Some("Fast CPU"));
        assert_eq!(field(text, "empty"), None);
        assert_eq!(field(text, "mode"), None);
    }

    #[test]
    fn this_machine_has_a_core_and_a_kernel() {
        let machine = Machine::describe();
        assert!(machine.cores >= 1);
        assert!(machine.kernel.is_some());
    }
}
