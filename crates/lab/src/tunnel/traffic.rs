//! The traffic through a tunnel: bulk transfers by iperf3, the highest rate without loss, round trips, and pages of a
//! web server on the last host.
//!
//! Guarantees: each run has a server of its own, which ends with it; a run that hangs is ended; links that were made to
//! split GSO packets for a run are as before after it.

use super::net::Net;
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{Found, Profile, RATE, Sample};
use crate::load::Watch;
use crate::peers::{CURL_HTTP, CURL_HTTPS, Installed, Peer as _, Server, Workload, tiny_pages};
use crate::request::CongestionControl;
use crate::surroundings::Surroundings;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Names of all tests, as in results. `ah` is run in memory.
pub const TESTS: [&str; 17] = [
    "ttcp-64",
    "ttcp-512",
    "ttcp-1024",
    "ttcp-1470",
    "ttcp-8192",
    "tcp1",
    "tcp4",
    "tcp1-no-segmentation",
    "udp1400",
    "udp64",
    "no-loss1400",
    "no-loss64",
    "rtt",
    "rtt-loaded",
    "tiny",
    "large",
    "ah",
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) name: &'static str,
    /// The measure of its result.
    pub(super) measure: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// iperf3 with these arguments.
    Bulk(&'static str),
    /// iperf3 with one connection over links that split GSO packets into packets.
    Split,
    /// Datagrams of so many bytes, as many as pass without loss.
    NoLoss(u32),
    /// Round trips.
    Ping,
    /// Round trips beside four connections.
    LoadedPing,
    /// A thousand tiny pages.
    Tiny,
    /// One large file.
    Large,
}

/// Round trips per run, and the milliseconds between them.
const PINGS: (u32, u32) = (300, 3);
/// Milliseconds between round trips beside load.
const LOADED_PING_MS: u32 = 15;
/// The same where the delay beside load is what is measured.
pub(super) const BESIDE_MS: u32 = 7;
/// iperf3's arguments for four connections.
const FOUR: &str = "-P 4";
/// The time by which the load is under way.
pub(super) const LOAD_TIME: Duration = Duration::from_millis(400);
/// The additional seconds that a run of iperf3 may take, which otherwise waits for ever if a link has failed.
const PATIENCE_S: u32 = 30;
/// A link that carries nothing for this time is out of order.
const UP_TIME: Duration = Duration::from_secs(20);
/// The most runs of four connections that bring all child associations, of which flows ask for one at a time.
const CHILDREN_RUNS: usize = 20;
/// The highest rate without loss is searched below this one, in packets per second, and begins with that one.
const RATES: (f64, f64) = (600e3, 60e3);
/// The search ends when the rate is known within this part of it, or after so many runs of a second.
const RATE_PART: f64 = 0.05;
const RATE_RUNS: usize = 8;
/// A rate is without loss if this part of the packets arrives, and this part of the rate is sent.
const ARRIVED_MIN: f64 = 0.995;
const SENT_MIN: f64 = 0.9;

/// Returns the number of pages per run of `tiny`; the study has 1,000.
pub(super) fn tiny_files(profile: Profile) -> u32 {
    if matches!(profile, Profile::Smoke | Profile::Quick) { 100 } else { 1000 }
}

/// Returns the length of the large file; the study's has 200 MB.
pub(super) fn large_bytes(profile: Profile) -> u64 {
    if matches!(profile, Profile::Smoke | Profile::Quick) { 20_000_000 } else { 200_000_000 }
}

impl Test {
    /// Returns the test of this name that goes through tunnels.
    pub(super) fn of(name: &str) -> Option<Self> {
        let name = TESTS.into_iter().find(|test| *test == name)?;
        let (measure, kind) = match name {
            // ttcp's buffers in the study are of 65,535 bytes.
            "ttcp-64" => ("gbit_per_s", Kind::Bulk("-l 64 -w 65535")),
            "ttcp-512" => ("gbit_per_s", Kind::Bulk("-l 512 -w 65535")),
            "ttcp-1024" => ("gbit_per_s", Kind::Bulk("-l 1024 -w 65535")),
            "ttcp-1470" => ("gbit_per_s", Kind::Bulk("-l 1470 -w 65535")),
            "ttcp-8192" => ("gbit_per_s", Kind::Bulk("-l 8192 -w 65535")),
            "tcp1" => ("gbit_per_s", Kind::Bulk("")),
            "tcp4" => ("gbit_per_s", Kind::Bulk(FOUR)),
            "tcp1-no-segmentation" => ("gbit_per_s", Kind::Split),
            "udp1400" => ("packets_per_s", Kind::Bulk("-u -b 0 -l 1372")),
            "udp64" => ("packets_per_s", Kind::Bulk("-u -b 0 -l 64")),
            "no-loss1400" => ("packets_per_s", Kind::NoLoss(1372)),
            "no-loss64" => ("packets_per_s", Kind::NoLoss(64)),
            "rtt" => ("rtt_us", Kind::Ping),
            "rtt-loaded" => ("rtt_us", Kind::LoadedPing),
            "tiny" => ("packets_per_s", Kind::Tiny),
            "large" => ("gbit_per_s", Kind::Large),
            _ => return None,
        };
        Some(Self { name, measure, kind })
    }

    /// Returns whether it needs a web server.
    pub(super) fn is_web(&self) -> bool {
        matches!(self.kind, Kind::Tiny | Kind::Large)
    }

    /// Returns whether its links split GSO packets.
    pub(super) fn splits_gso(&self) -> bool {
        self.kind == Kind::Split
    }

    /// Returns whether it searches a rate, which takes many runs of iperf3.
    pub(super) fn is_search(&self) -> bool {
        matches!(self.kind, Kind::NoLoss(_))
    }
}

/// Returns the reason why there can be no web server.
pub(crate) fn missing_for_web(surroundings: &Surroundings) -> Option<String> {
    ["curl", "nginx", "openssl"]
        .into_iter()
        .find_map(|name| surroundings.program(name).err())
        .map(|absent| absent.reason)
}

/// Waits until the hosts reach each other.
pub(crate) fn carries(net: Net) -> Result<Net, LabError> {
    let deadline = Instant::now() + UP_TIME;
    let mut reached = 0;
    while Instant::now() < deadline && reached < net.clients {
        let ping = net.command(reached, "ping", &format!("-c 1 -W 1 {}", net.server)).output();
        reached += usize::from(ping.is_ok_and(|ping| ping.status.success()));
    }
    if reached == net.clients { Ok(net) } else { Err(unavailable("the hosts do not reach each other")) }
}

/// Figures of a run, by measure.
pub(super) type Figures = BTreeMap<String, f64>;

/// Runs through one tunnel.
pub(super) struct Traffic<'a> {
    pub(super) net: &'a Net,
    pub(super) seconds: u32,
    pub(super) surroundings: &'a Arc<Surroundings>,
    /// The number of tiny pages.
    pub(super) tiny_files: u32,
    /// The large file.
    pub(super) workload: Option<&'a Workload>,
    pub(super) is_tls: bool,
    /// The congestion control of TCP, if not the host's.
    pub(super) control: Option<CongestionControl>,
}

impl Traffic<'_> {
    pub(super) fn run(&self, test: Test) -> Result<Sample, LabError> {
        let Self { net, seconds, .. } = *self;
        let control = self.control.map_or_else(String::new, |control| format!(" -C {}", control.name()));
        let with = |how: &str| if how.contains("-u") { how.to_owned() } else { format!("{how}{control}") };
        let rtt = |rtt_us: f64| ("rtt_us".to_owned(), rtt_us);
        let (watch, daemons) = (Watch::begin(), net.cpu_seconds());
        let figures = match test.kind {
            Kind::Ping => ping(net, PINGS.0, PINGS.1).map(|us| Figures::from([rtt(us)])),
            Kind::LoadedPing => thread::scope(|scope| {
                let busy_ms = (1000 * seconds).saturating_sub(2 * LOAD_TIME.as_millis() as u32);
                let times = scope.spawn(move || {
                    thread::sleep(LOAD_TIME);
                    ping(net, (busy_ms / LOADED_PING_MS).max(5), LOADED_PING_MS)
                });
                let mut figures = iperf3(net, seconds, &with(FOUR))?;
                figures.extend([rtt(times.join().ok()??)]);
                Some(figures)
            }),
            Kind::Split => {
                net.split_gso(true)?;
                let figures = iperf3(net, seconds, &with(""));
                net.split_gso(false)?;
                figures
            }
            Kind::NoLoss(bytes) => highest(|rate| paced(net, bytes, rate))
                .map(|rate| Figures::from([("packets_per_s".to_owned(), rate)])),
            Kind::Tiny => {
                let rate = tiny_pages(&net.hosts(0), self.surroundings, (self.tiny_files, self.is_tls))?;
                Some(Figures::from([("packets_per_s".to_owned(), rate)]))
            }
            Kind::Large => Some(self.large()?),
            Kind::Bulk(how) => iperf3(net, seconds, &with(how)),
        };
        let found = Found::Values(figures.ok_or_else(|| unavailable("no result"))?);
        let is_disturbed = watch.is_disturbed(net.cpu_seconds() - daemons);
        Ok(Sample::new(found, is_disturbed))
    }

    /// Fetches the large file by curl from a web server.
    fn large(&self) -> Result<Figures, LabError> {
        let workload = self.workload.ok_or_else(|| unavailable("no large file"))?;
        let tool = if self.is_tls { &CURL_HTTPS } else { &CURL_HTTP };
        let curl = Installed::between(tool, self.surroundings, self.net.hosts(0));
        let mut curl = curl.map_err(|skipped| unavailable(skipped.reason))?;
        workload.clear_target()?;
        let before = self.net.cpu_seconds();
        let sample = curl.run(workload)?;
        let cpu_s = self.net.cpu_seconds() - before;
        let mb_per_s = sample.value(RATE).ok_or_else(|| unavailable("no rate"))?;
        let figures =
            [("gbit_per_s", 8e-3 * mb_per_s), ("cpu_s_per_gb", cpu_s * 1e9 / workload.bytes() as f64)];
        Ok(figures
            .into_iter()
            .filter(|(_, value)| *value > 0.0)
            .map(|(id, value)| (id.to_owned(), value))
            .collect())
    }
}

/// Returns up to `count` round trips from the first host in µs; those that were lost are left out. `None` if all were.
pub(super) fn round_trips_us(net: &Net, count: u32, apart_ms: u32) -> Option<Vec<f64>> {
    let words = format!("-n -c {count} -i {} {}", f64::from(apart_ms) / 1000.0, net.server);
    let ping = net.command(0, "ping", &words).output().ok()?;
    let times = times_us(&String::from_utf8_lossy(&ping.stdout));
    (!times.is_empty()).then_some(times)
}

/// Returns the times that ping has printed.
fn times_us(text: &str) -> Vec<f64> {
    let time = |line: &str| {
        let (_, rest) = line.split_once(" time=")?;
        rest.strip_suffix(" ms")?.parse::<f64>().ok()
    };
    text.lines().filter_map(time).map(|ms| 1000.0 * ms).collect()
}

/// Returns the median of `count` round trips from the first host in µs.
fn ping(net: &Net, count: u32, apart_ms: u32) -> Option<f64> {
    let mut times = round_trips_us(net, count, apart_ms)?;
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// Runs iperf3 once from every requesting host. Returns the `end` of each report, and the daemons' CPU seconds.
fn ends(net: &Net, seconds: u32, how: &str) -> Option<(Vec<Value>, f64)> {
    let serve = |client: usize| {
        let hosts = net.hosts(client);
        Server::listening(&hosts, "iperf3 --server", |port| {
            Ok(["iperf3", "-s", "-1", "-p", &port.to_string()].map(Into::into).to_vec())
        })
    };
    let servers: Vec<(Server, u16)> = (0..net.clients).map(serve).collect::<Result<_, _>>().ok()?;
    let before = net.cpu_seconds();
    let (limit_s, server) = (seconds + PATIENCE_S, net.server);
    let start = |(client, (_, port)): (usize, &(Server, u16))| {
        let words = format!("{limit_s} iperf3 -c {server} -p {port} -t {seconds} -J {how}");
        let mut command = net.command(client, "timeout", &words);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    let clients: Vec<_> = servers.iter().enumerate().map(start).collect();
    let outputs: Vec<_> =
        clients.into_iter().map(|client| client.and_then(Child::wait_with_output)).collect();
    let cpu_s = net.cpu_seconds() - before;
    let end = |output: io::Result<Output>| {
        let output = output.ok().filter(|output| output.status.success())?;
        let mut report: Value = serde_json::from_slice(&output.stdout).ok()?;
        Some(report.get_mut("end")?.take())
    };
    Some((outputs.into_iter().map(end).collect::<Option<_>>()?, cpu_s))
}

/// Runs iperf3 once from every requesting host, and returns figures from the servers' counts.
pub(super) fn iperf3(net: &Net, seconds: u32, how: &str) -> Option<Figures> {
    let (ends, cpu_s) = ends(net, seconds, how)?;
    let (mut sums, mut all_bytes) = (Figures::new(), 0.0);
    for end in ends {
        let of = |object: &str, field: &str| end[object][field].as_f64();
        all_bytes += of("sum_received", "bytes")?;
        let lost = of("sum_received", "lost_packets").unwrap_or_default();
        let packets = of("sum_received", "packets").zip(of("sum_received", "seconds"));
        for (measure, figure) in [
            ("gbit_per_s", Some(of("sum_received", "bits_per_second")? / 1e9)),
            ("packets_per_s", packets.map(|(packets, seconds)| (packets - lost) / seconds)),
            ("retransmissions", of("sum_sent", "retransmits")),
        ] {
            if let Some(figure) = figure {
                *sums.entry(measure.to_owned()).or_insert(0.0) += figure;
            }
        }
    }
    if cpu_s > 0.0 && all_bytes > 0.0 {
        sums.insert("cpu_s_per_gb".to_owned(), cpu_s * 1e9 / all_bytes);
    }
    Some(sums)
}

/// Sends datagrams of `bytes` bytes for a second, `rate` of them in all. Returns the number sent per second, and the
/// part that arrived.
fn paced(net: &Net, bytes: u32, rate: f64) -> Option<(f64, f64)> {
    let bits_per_s = rate * f64::from(8 * bytes) / net.clients as f64;
    let (ends, _) = ends(net, 1, &format!("-u -w 4M -l {bytes} -b {bits_per_s:.0}"))?;
    let sum = |object: &str, field: &str| {
        let figures = ends.iter().map(|end| end[object][field].as_f64());
        figures.sum::<Option<f64>>()
    };
    let (sent, arrived) = (sum("sum_sent", "bytes")?.max(1.0), sum("sum_received", "bytes")?);
    // The clients run at the same time.
    let seconds = sum("sum_sent", "seconds")? / net.clients as f64;
    Some((sent / f64::from(bytes) / seconds, arrived / sent))
}

/// Returns the highest rate without loss by bisection; zero if there is none. `paced` returns the rate that was sent and
/// the part that arrived.
fn highest(mut paced: impl FnMut(f64) -> Option<(f64, f64)>) -> Option<f64> {
    let ((mut high, mut rate), mut low, mut best) = (RATES, 0.0, 0.0_f64);
    for _ in 0..RATE_RUNS {
        let (sent, arrived) = paced(rate)?;
        if arrived > ARRIVED_MIN && sent > SENT_MIN * rate {
            (low, best) = (rate, best.max(sent));
        } else {
            high = rate;
        }
        if high - low < RATE_PART * high {
            break;
        }
        rate = if low == 0.0 { high / 2.5 } else { (1.6 * low).min(f64::midpoint(low, high)) };
    }
    Some(best)
}

/// Runs four connections for a second each until all child associations are there, for which `are_there` asks.
pub(super) fn bring_children(net: &Net, are_there: impl Fn() -> bool) -> Result<(), LabError> {
    let brings = |_| {
        let _ = iperf3(net, 1, FOUR);
        are_there()
    };
    let is_done = (0..CHILDREN_RUNS).any(brings);
    is_done.then_some(()).ok_or_else(|| unavailable("four connections do not bring all child associations"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_ping_are_those_of_its_lines() {
        let text = "PING 10.94.2.1 (10.94.2.1) 56(84) bytes of data.\n64 bytes from 10.94.2.1: icmp_seq=1 ttl=64 time=0.250 ms\n\
                    64 bytes from 10.94.2.1: icmp_seq=3 ttl=64 time=12 ms\n\n--- 10.94.2.1 ping statistics ---\n\
                    3 packets transmitted, 2 received, 33% packet loss, time 20ms\nrtt min/avg/max/mdev = 0.250/6/12/5 ms\n";
        assert_eq!(times_us(text), [250.0, 12_000.0]);
        assert!(times_us("").is_empty());
    }

    #[test]
    fn the_highest_rate_without_loss_is_found() {
        for limit in [5e3, 73e3, 264e3, 550e3] {
            let mut runs = 0;
            let found = highest(|rate| {
                runs += 1;
                Some((rate, if rate <= limit { 1.0 } else { limit / rate }))
            });
            let found = found.unwrap();
            assert!(found <= 1.006 * limit && found > 0.8 * limit, "{limit}: {found}");
            assert!(runs <= RATE_RUNS);
        }
        // A sender that is too slow has lost nothing, and does not count either.
        let slow = highest(|rate| Some((rate.min(50e3), 1.0))).unwrap();
        assert!((45e3..=50e3).contains(&slow), "{slow}");
        assert_eq!(highest(|_| None), None);
        assert_eq!(highest(|rate| Some((rate, 0.0))), Some(0.0));
    }
}
