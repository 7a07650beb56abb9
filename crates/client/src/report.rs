//! A service's status as text for people, and in the format of Prometheus.

use crate::setup::{Report, ServiceStatus};
use std::fmt::Write as _;

impl ServiceStatus {
    /// Returns some lines for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let memory = if self.memory_locked { "locked in memory" } else { "not locked in memory" };
        let done: u64 = self.done.values().sum();
        let refused: u64 = self.refused.values().sum();
        let lines = [
            format!("{}, up {} s, {} workers", self.service, self.up_seconds, self.workers),
            format!("keys: {}, sealed by {}, {memory}", self.keys, self.sealed_by),
            format!("connections: {}, closed for invalid messages: {}", self.connections, self.lies),
            format!(
                "jobs: {done} done, {refused} refused; {} computations, {} by two workers each, took {:.3} s",
                self.batches,
                self.divided,
                seconds(self.busy_ns)
            ),
        ];
        for line in lines {
            text += &line;
            text.push('\n');
        }
        for (name, count) in self.done.iter().chain(&self.refused).filter(|(_, count)| **count > 0) {
            let _ = writeln!(text, "  {name}: {count}");
        }
        for client in &self.clients {
            let _ = writeln!(
                text,
                "user {}: {} connections, {} jobs, {:.3} s of computing",
                client.user,
                client.connections,
                client.done,
                seconds(client.busy_ns)
            );
        }
        text
    }

    /// Returns the status in Prometheus's text format.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, String)]| {
            let _ =
                writeln!(text, "# HELP sealane_engine_{name} {help}\n# TYPE sealane_engine_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "sealane_engine_{name}{labels} {value}");
            }
        };
        let one = |value: u64| [(String::new(), value.to_string())];
        metric("up_seconds", "gauge", "Seconds since the start.", &one(self.up_seconds));
        metric("keys", "gauge", "Keys kept.", &one(self.keys));
        metric("connections", "gauge", "Connections of now.", &one(self.connections));
        metric("memory_locked", "gauge", "Whether memory is locked.", &one(self.memory_locked.into()));
        metric("lies_total", "counter", "Connections ended because they made no sense.", &one(self.lies));
        metric("wakes_total", "counter", "Times that a worker was woken.", &one(self.wakes));
        metric("batches_total", "counter", "Computations of one job or several.", &one(self.batches));
        metric("divided_total", "counter", "Computations that two workers shared.", &one(self.divided));
        let busy = [(String::new(), format!("{:.9}", seconds(self.busy_ns)))];
        metric("busy_seconds_total", "counter", "Seconds of computing.", &busy);
        let labelled = |label: &str, counts: &std::collections::BTreeMap<String, u64>| -> Vec<_> {
            counts
                .iter()
                .map(|(name, count)| (format!("{{{label}=\"{name}\"}}"), count.to_string()))
                .collect()
        };
        metric("done_total", "counter", "Jobs done.", &labelled("operation", &self.done));
        metric("refused_total", "counter", "Jobs refused or failed.", &labelled("reason", &self.refused));
        let by_user = |value: fn(&crate::setup::ClientStatus) -> String| -> Vec<_> {
            self.clients
                .iter()
                .map(|client| (format!("{{user=\"{}\"}}", client.user), value(client)))
                .collect()
        };
        metric(
            "client_connections",
            "gauge",
            "Connections of a user.",
            &by_user(|client| client.connections.to_string()),
        );
        metric("client_jobs_total", "counter", "Jobs of a user.", &by_user(|client| client.done.to_string()));
        metric(
            "client_busy_seconds_total",
            "counter",
            "Seconds of computing for a user.",
            &by_user(|client| format!("{:.9}", seconds(client.busy_ns))),
        );
        text
    }
}

impl Report {
    /// Returns the status as lines for people, with the other counters.
    pub fn text(&self) -> String {
        let mut text = self.status.text();
        let count = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let _ = writeln!(
            text,
            "connections refused: {}, closed while idle for others: {}",
            count("connections_refused"),
            count("connections_closed_idle")
        );
        for (name, open) in &self.previous {
            let _ = writeln!(text, "the key that {name} has replaced is open {open} times");
        }
        text
    }

    /// Returns everything in Prometheus's text format, with the operations of each key if `with_keys`.
    pub fn prometheus(&self, with_keys: bool) -> String {
        let mut text = self.status.prometheus();
        for (name, count) in &self.counts {
            let _ = writeln!(
                text,
                "# HELP sealane_engine_{name}_total {}.\n# TYPE sealane_engine_{name}_total counter\n\
                 sealane_engine_{name}_total {count}",
                name.replace('_', " ")
            );
        }
        if with_keys {
            text += "# HELP sealane_engine_key_uses_total Operations with a key.\n\
                     # TYPE sealane_engine_key_uses_total counter\n";
            for (name, count) in &self.keys {
                let _ = writeln!(text, "sealane_engine_key_uses_total{{key=\"{name}\"}} {count}");
            }
        }
        text
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
