//! The status of a gateway: as values, as text for people, and for Prometheus.
//!
//! Guarantees: no key, salt or nonce is ever part of it.

use std::{collections::HashMap, fmt::Write as _, time::Instant};

use sealane_ipsec::{association::Association, counters::DropReason, database::Outbounds, policy::PeerId};
use serde::{Deserialize, Serialize};

use crate::{
    belief::Belief,
    endpoint::shown,
    keying::agreements::Agreement,
    peer_state::State,
    peers::{Peer, Peers},
    queue::counters::{Counters, Counts},
};

/// A gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The name of the device.
    pub device: String,
    /// The address that peers send to.
    pub listen: String,
    /// The seconds since the gateway began.
    pub up_s: u64,
    /// CPU time of the process, in seconds.
    pub cpu_s: f64,
    /// The gateway's peers.
    pub peers: Vec<PeerStatus>,
    /// The numbers of dropped packets by reason; reasons without packets are left out.
    pub drops: Vec<(String, u64)>,
    /// The numbers of messages about packets that were too long on their way, by verdict; verdicts without messages
    /// are left out.
    #[serde(default)]
    pub path_messages: Vec<(String, u64)>,
    /// The packets that waited in the gateway, by direction; empty with `queueing = "fifo"`.
    #[serde(default)]
    pub queues: Vec<QueueStatus>,
}

/// The packets of one direction that waited in the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// `out` or `in`.
    pub direction: String,
    /// The number of times that a standing queue marked its packets (ECN).
    pub marked: u64,
    /// The number of packets that a standing queue lost.
    pub lost_packets: u64,
    /// The number of packets that were lost because the queue's memory was full.
    pub full_packets: u64,
    /// The time that half of the packets of the newest seconds waited at most, in microseconds; `None` without packets.
    pub wait_p50_us: Option<u64>,
    /// The same of 99 % of the packets.
    pub wait_p99_us: Option<u64>,
}

impl QueueStatus {
    fn of(direction: &str, counts: Counts) -> Self {
        let wait = |at: usize| counts.wait_us.map(|both| both[at]);
        Self {
            direction: direction.to_owned(),
            marked: counts.marked,
            lost_packets: counts.lost,
            full_packets: counts.full,
            wait_p50_us: wait(0),
            wait_p99_us: wait(1),
        }
    }
}

/// The directions of queues, with the meaning of their counts.
const QUEUES: [(&str, &str); 2] = [
    (
        "out",
        "the time that packets waited here for the link, of half of them at most and of 99 %, in the newest seconds; marked: flows whose \
         packets waited more than 5 ms were told so by ECN; lost: those that do not know ECN lost a packet in its place; full: packets \
         of the longest flows were lost because memory was full",
    ),
    (
        "in",
        "the same from the arrival at this host until this host's own network stack took them: they wait where the processor is slower \
         than the link",
    ),
];

/// The state of one peer, and the counts of its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// The peer's name.
    pub name: String,
    /// The endpoint; `None` if the peer not connected yet.
    pub endpoint: Option<String>,
    /// The seconds since the newest genuine packet; `None` if there is none yet.
    pub silent_s: Option<f64>,
    /// The networks beyond the peer.
    #[serde(default)]
    pub networks: Vec<String>,
    /// The state: `waiting`, `answers`, `never heard` or `silent`.
    #[serde(default)]
    pub state: String,
    /// The reason why there are no associations with the peer, in words; `None` if there are some, or if none is known.
    #[serde(default)]
    pub problem: Option<String>,
    /// The direction in which packets are lost on the way, in words; `None` if this end knows of no loss.
    #[serde(default)]
    pub silent_direction: Option<String>,
    /// The seconds since the newest keys were agreed; `None` if they are from files or there are none.
    #[serde(default)]
    pub handshake_s: Option<u64>,
    /// `true` if this gateway is behind a NAT on the way to the peer; `None` if no call has reported it.
    #[serde(default)]
    pub is_behind_nat: Option<bool>,
    /// The seconds without a packet to the peer after which a keep-alive is sent; `None` if none is sent.
    #[serde(default)]
    pub keepalive_s: Option<u64>,
    /// The length of the longest inner packet that fits into one on the path to the peer, of the family of its first
    /// network.
    #[serde(default)]
    pub mtu_bytes: u16,
    /// The number of packets to the peer.
    pub sent_packets: u64,
    /// The number of bytes to the peer.
    pub sent_bytes: u64,
    /// The number of packets to the peer that were sent to the device past IP, as `direct` requires.
    #[serde(default)]
    pub direct_packets: u64,
    /// The number of packets from the peer.
    pub received_packets: u64,
    /// The number of bytes from the peer.
    pub received_bytes: u64,
    /// The peer's associations.
    pub associations: Vec<AssociationStatus>,
    /// The entry stands for many clients.
    #[serde(default)]
    pub is_many: bool,
    /// The IKE SAs of a peer that speaks IKE.
    #[serde(default)]
    pub ike: Vec<IkeStatus>,
}

/// An IKE SA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IkeStatus {
    /// The identity that the peer has proved; if there is a user, only the one that it gave.
    pub identity: String,
    /// The user that the peer has proved to be by EAP.
    #[serde(default)]
    pub user: Option<String>,
    /// The address and port of its end.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The carrier of its messages and packets: `udp`, `tcp`, or `ip` for ESP or AH as a protocol of its own.
    #[serde(default)]
    pub transport: String,
    /// The addresses that it has got from our pool, or that we have got from it.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The algorithms of IKE itself, by the names in proposals.
    pub algorithms: String,
    /// The seconds since it was established.
    pub age_s: u64,
    /// The seconds until it gets new keys; `None` if that does not depend on time.
    pub rekey_s: Option<u64>,
    /// The child SAs.
    pub children: Vec<ChildStatus>,
}

/// A pair of associations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildStatus {
    /// The SPI of the inbound association.
    pub inbound_spi: u32,
    /// The SPI of the outbound association.
    pub outbound_spi: u32,
    /// The traffic, ours first.
    pub traffic: String,
    /// The seconds until it gets a successor; `None` if that does not depend on time, or if it has one.
    pub rekey_s: Option<u64>,
}

/// An association of one direction, with what it has carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssociationStatus {
    /// `out` or `in`.
    pub direction: String,
    /// Security parameters index.
    pub spi: u32,
    /// The suite that protects packets, behind `ah` and `transport` if they apply.
    pub suite: String,
    /// The code that runs it where the processor does: `sealane`, `aws-lc`, or `none`; `None` if it is not told.
    #[serde(default)]
    pub code: Option<String>,
    /// The seconds since it was installed.
    pub age_s: u64,
    /// The number of packets carried.
    pub packets: u64,
    /// The number of bytes in their payloads.
    pub bytes: u64,
    /// The next number to send, or the highest received.
    pub number: u64,
}

/// Returns the direction in which packets are lost on the way, in words. For packets to the peer, the peer has
/// reported the loss in the last call.
fn silent_direction(peers: &Peers, id: PeerId, peer: &Peer) -> Option<String> {
    let inward = match peer.state.get() {
        State::Waiting | State::Answers => false,
        State::NeverHeard | State::Silent => true,
    };
    match (inward, peers.is_unheard(id)) {
        (false, false) => None,
        (true, true) => Some("both directions".to_owned()),
        (true, false) => Some("from the peer to us".to_owned()),
        (false, true) => Some("from us to the peer, by what it said in the last call".to_owned()),
    }
}

fn association(direction: &str, association: &Association, number: u64, now: Instant) -> AssociationStatus {
    let parameters = association.parameters();
    AssociationStatus {
        direction: direction.to_owned(),
        spi: parameters.spi,
        suite: parameters.kind().to_string(),
        code: Some(association.session().name_of_packets().to_owned()),
        age_s: association.lived(now).as_secs(),
        packets: association.carried().packets(),
        bytes: association.carried().bytes(),
        number,
    }
}

fn ike(agreement: &Agreement, has_ports: bool, now: Instant) -> IkeStatus {
    let left = |at: Option<Instant>| at.map(|at| at.saturating_duration_since(now).as_secs());
    let children = agreement.children.iter().map(|child| ChildStatus {
        inbound_spi: child.inbound_spi,
        outbound_spi: child.outbound_spi,
        traffic: child.traffic.clone(),
        rekey_s: left(child.rekey_at),
    });
    IkeStatus {
        identity: agreement.identity.clone(),
        user: agreement.user.clone(),
        endpoint: agreement.whereabouts.get().map(|endpoint| endpoint.to_string()),
        transport: match agreement.whereabouts.way().is_some_and(|way| way.stream.is_some()) {
            true => "tcp",
            false if has_ports => "udp",
            false => "ip",
        }
        .to_owned(),
        addresses: agreement.addresses.iter().map(ToString::to_string).collect(),
        algorithms: agreement.algorithms.clone(),
        age_s: now.saturating_duration_since(agreement.since).as_secs(),
        rekey_s: left(agreement.rekey_at),
        children: children.collect(),
    }
}

impl PeerStatus {
    /// Adds the lines about the peer to a text for people.
    fn add_to(&self, text: &mut String) {
        let unknown = if self.is_many { "any client" } else { "not connected yet" };
        let place = self.endpoint.as_deref().unwrap_or(unknown);
        let heard = self.silent_s.map_or_else(
            || "never heard from".to_owned(),
            |silence| format!("last packet {silence:.1} s ago"),
        );
        let _ = writeln!(text, "\n{}  {place}, {heard}", self.name);
        let _ = writeln!(text, "  networks  {}", self.networks.join(", "));
        if let Some(problem) = &self.problem {
            let _ = writeln!(text, "  problem   {problem}");
        }
        if let Some(seconds) = self.handshake_s {
            let _ = writeln!(text, "  keys      agreed {seconds} s ago");
        }
        let until = |left: Option<u64>| left.map_or_else(String::new, |s| format!(", rekey in {s} s"));
        for ike in &self.ike {
            let IkeStatus { identity, user, addresses, algorithms, age_s, rekey_s, children, .. } = ike;
            let who = user.as_ref().unwrap_or(identity);
            let tcp = if ike.transport == "tcp" { ", by TCP" } else { "" };
            let _ = writeln!(text, "  ike       {who}, {algorithms}, {age_s} s{}{tcp}", until(*rekey_s));
            if !addresses.is_empty() {
                let place = ike.endpoint.as_deref().unwrap_or("an unknown place");
                let _ = writeln!(text, "  address   {}, by way of {place}", addresses.join(", "));
            }
            for child in children {
                let ChildStatus { inbound_spi, traffic, rekey_s, .. } = child;
                let rekey = until(*rekey_s);
                let _ = writeln!(text, "  child     {traffic}, in by {inbound_spi:#010x}{rekey}");
            }
        }
        if let Some(direction) = &self.silent_direction {
            let _ = writeln!(text, "  silent    {direction}");
        }
        if let Some(seconds) = self.keepalive_s {
            let why = if self.is_behind_nat == Some(true) { ", behind a NAT" } else { "" };
            let _ = writeln!(text, "  alive     after {seconds} s without a packet to it{why}");
        }
        let _ = writeln!(text, "  MTU       {} bytes", self.mtu_bytes);
        let direct = match self.direct_packets {
            0 => String::new(),
            packets => format!(", {packets} packets directly"),
        };
        let (packets, bytes) = (self.sent_packets, self.sent_bytes);
        let _ = writeln!(text, "  sent      {packets} packets, {bytes} bytes{direct}");
        let _ =
            writeln!(text, "  received  {} packets, {} bytes", self.received_packets, self.received_bytes);
        for association in &self.associations {
            let AssociationStatus { direction, spi, suite, code, age_s, packets, .. } = association;
            let code = code.as_ref().map_or_else(String::new, |code| format!(" by {code}"));
            let _ = writeln!(
                text,
                "  {direction:<3} spi {spi:#010x}  {suite}{code}, {age_s} s, {packets} packets"
            );
        }
    }
}

impl Status {
    /// Returns the present status of the gateway.
    pub fn of(device: &str, listen: String, begun: Instant, cpu_s: f64, peers: &Peers) -> Self {
        let now = Instant::now();
        let snapshot = peers.database().snapshot();
        let mut all_inbound: HashMap<PeerId, Vec<AssociationStatus>> = HashMap::new();
        for inbound in snapshot.inbound.values() {
            let own = inbound.association();
            let status = association("in", own, inbound.window().top(), now);
            all_inbound.entry(own.parameters().peer).or_default().push(status);
        }
        let of_peer = |(id, peer): (PeerId, &Peer)| {
            let all = snapshot.outbound.get(&id).into_iter().flat_map(Outbounds::iter);
            let out: Vec<_> = all
                .map(|outbound| association("out", outbound.association(), outbound.numbers().next(), now))
                .collect();
            let mut inbound = all_inbound.remove(&id).unwrap_or_default();
            inbound.sort_by_key(|association| association.spi);
            let (sent, received) = (peer.sent.read(), peer.received.read());
            PeerStatus {
                name: peer.name.clone(),
                endpoint: peers.endpoint(id).map(shown),
                silent_s: peers.silence(id).map(|silence| silence.as_secs_f64()),
                networks: peer.networks.iter().map(ToString::to_string).collect(),
                state: peer.state.get().name().to_owned(),
                problem: peer.problem(),
                silent_direction: silent_direction(peers, id, peer),
                handshake_s: out.iter().map(|out| out.age_s).min().filter(|_| peer.has_agreed_keys()),
                is_behind_nat: peer.is_behind_nat(),
                keepalive_s: peer.keep_alive().map(|interval| interval.as_secs()),
                mtu_bytes: peer.inner_bytes_max(peer.is_v4()),
                sent_packets: sent.0,
                sent_bytes: sent.1,
                direct_packets: peer.direct_packets(),
                received_packets: received.0,
                received_bytes: received.1,
                associations: out.into_iter().chain(inbound).collect(),
                is_many: peer.is_many(),
                ike: peer
                    .agreements()
                    .values()
                    .map(|agreement| ike(agreement, peers.has_ports(), now))
                    .collect(),
            }
        };
        let drops = peers.drops().iter().filter(|&(_, packets)| packets > 0);
        let messages = peers.messages().iter().filter(|&(_, count)| count > 0);
        Self {
            device: device.to_owned(),
            listen,
            up_s: begun.elapsed().as_secs(),
            cpu_s,
            peers: peers.iter().filter(|(_, peer)| !peer.is_removed()).map(of_peer).collect(),
            drops: drops.map(|(reason, packets)| (reason.name().to_owned(), packets)).collect(),
            path_messages: messages.map(|(verdict, count)| (verdict.name().to_owned(), count)).collect(),
            queues: peers
                .queueing()
                .is_fq_codel()
                .then(|| peers.waiting().map(Counters::read))
                .into_iter()
                .flat_map(|counts| ["out", "in"].into_iter().zip(counts))
                .map(|(direction, counts)| QueueStatus::of(direction, counts))
                .collect(),
        }
    }

    /// Returns the status as text for people.
    pub fn text(&self) -> String {
        self.text_with(|_| None)
    }

    /// Returns the status as text for people, with the meaning of each count of dropped packets.
    pub fn explained(&self) -> String {
        let meaning = |name: &str| DropReason::ALL.into_iter().find(|reason| reason.name() == name);
        self.text_with(|name| match QUEUES.iter().find(|(direction, _)| *direction == name) {
            Some((_, about)) => Some(*about),
            None => meaning(name).map(DropReason::meaning),
        })
    }

    fn text_with(&self, meaning: impl Fn(&str) -> Option<&'static str>) -> String {
        let mut text = format!("{} listens on {}, up {} s\n", self.device, self.listen, self.up_s);
        for peer in &self.peers {
            peer.add_to(&mut text);
        }
        text += if self.queues.is_empty() { "" } else { "\n" };
        for queue in &self.queues {
            let QueueStatus { direction, marked, lost_packets, full_packets, .. } = queue;
            let ms =
                |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3));
            let (half, most) = (ms(queue.wait_p50_us), ms(queue.wait_p99_us));
            let meaning = meaning(direction).map_or_else(String::new, |meaning| format!("  {meaning}"));
            let _ = writeln!(
                text,
                "queue {direction:<3}  {half} ms, 99 % {most} ms, marked {marked}, lost {lost_packets}, full {full_packets}{meaning}"
            );
        }
        for (title, counts) in
            [("dropped", &self.drops), ("told that a packet was too long", &self.path_messages)]
        {
            if !counts.is_empty() {
                let _ = writeln!(text, "\n{title}");
            }
            for (name, count) in counts {
                let meaning = meaning(name).map_or_else(String::new, |meaning| format!("  {meaning}"));
                let _ = writeln!(text, "  {name:<20} {count}{meaning}");
            }
        }
        text
    }

    /// Returns the status for Prometheus, in its text format (0.0.4).
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let label = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let device = label(&self.device);
        type Column = (&'static str, &'static str, fn(&PeerStatus) -> u64);
        let columns: [Column; 5] = [
            ("sent_packets", "Packets sent to a peer.", |peer| peer.sent_packets),
            ("sent_bytes", "ESP bytes sent to a peer.", |peer| peer.sent_bytes),
            ("direct_packets", "Packets sent to a peer past IP.", |peer| peer.direct_packets),
            ("received_packets", "Genuine packets of a peer.", |peer| peer.received_packets),
            ("received_bytes", "ESP bytes of genuine packets of a peer.", |peer| peer.received_bytes),
        ];
        for (name, help, value) in columns {
            let _ = writeln!(text, "# HELP sealane_tunnel_{name}_total {help}");
            let _ = writeln!(text, "# TYPE sealane_tunnel_{name}_total counter");
            for peer in &self.peers {
                let labels = format!("device=\"{device}\",peer=\"{}\"", label(&peer.name));
                let _ = writeln!(text, "sealane_tunnel_{name}_total{{{labels}}} {}", value(peer));
            }
        }
        // Every reason is listed, so that a rate exists before the first drop.
        let reasons = DropReason::ALL.map(DropReason::name);
        let verdicts = Belief::ALL.map(Belief::name);
        let mut by_name = |metric, help, key, names: &[&str], counts: &[(String, u64)]| {
            let _ = writeln!(text, "# HELP sealane_tunnel_{metric}_total {help}");
            let _ = writeln!(text, "# TYPE sealane_tunnel_{metric}_total counter");
            for name in names {
                let count = counts.iter().find(|(own, _)| own == name).map_or(0, |&(_, count)| count);
                let labels = format!("device=\"{device}\",{key}=\"{name}\"");
                let _ = writeln!(text, "sealane_tunnel_{metric}_total{{{labels}}} {count}");
            }
        };
        let help = "Packets that went nowhere, by reason.";
        by_name("dropped_packets", help, "reason", &reasons, &self.drops);
        let help = "Messages that a packet was too long on its way, by what they were worth.";
        by_name("path_messages", help, "verdict", &verdicts, &self.path_messages);
        type Count = (&'static str, &'static str, fn(&QueueStatus) -> u64);
        let counts: [Count; 3] = [
            ("marked", "Times that a standing queue marked its packets (ECN).", |queue| queue.marked),
            ("lost_packets", "Packets that a standing queue lost.", |queue| queue.lost_packets),
            ("full_packets", "Packets that were lost because a queue's memory was full.", |queue| {
                queue.full_packets
            }),
        ];
        for (name, help, value) in counts.into_iter().filter(|_| !self.queues.is_empty()) {
            let _ = writeln!(text, "# HELP sealane_tunnel_queue_{name}_total {help}");
            let _ = writeln!(text, "# TYPE sealane_tunnel_queue_{name}_total counter");
            for queue in &self.queues {
                let labels = format!("device=\"{device}\",direction=\"{}\"", queue.direction);
                let _ = writeln!(text, "sealane_tunnel_queue_{name}_total{{{labels}}} {}", value(queue));
            }
        }
        if !self.queues.is_empty() {
            let help = "Time that packets of the newest seconds waited in a queue.";
            let _ = writeln!(text, "# HELP sealane_tunnel_queue_wait_seconds {help}");
            let _ = writeln!(text, "# TYPE sealane_tunnel_queue_wait_seconds gauge");
        }
        for queue in &self.queues {
            for (quantile, us) in [("0.5", queue.wait_p50_us), ("0.99", queue.wait_p99_us)] {
                let labels =
                    format!("device=\"{device}\",direction=\"{}\",quantile=\"{quantile}\"", queue.direction);
                let seconds = us.unwrap_or_default() as f64 / 1e6;
                let _ = writeln!(text, "sealane_tunnel_queue_wait_seconds{{{labels}}} {seconds}");
            }
        }
        let _ = writeln!(text, "# HELP sealane_tunnel_cpu_seconds_total CPU time of the daemon.");
        let _ = writeln!(text, "# TYPE sealane_tunnel_cpu_seconds_total counter");
        let _ = writeln!(text, "sealane_tunnel_cpu_seconds_total{{device=\"{device}\"}} {}", self.cpu_s);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let peer = PeerStatus {
            name: "a \"quoted\" name".to_owned(),
            endpoint: None,
            silent_s: Some(1.25),
            networks: vec!["10.2.0.0/16".to_owned(), "fd02::/64".to_owned()],
            state: "silent".to_owned(),
            problem: None,
            silent_direction: Some("from the peer to us".to_owned()),
            handshake_s: Some(77),
            is_behind_nat: Some(true),
            keepalive_s: Some(25),
            mtu_bytes: 1400,
            sent_packets: 3,
            sent_bytes: 300,
            direct_packets: 2,
            received_packets: 4,
            received_bytes: 400,
            associations: Vec::new(),
            is_many: false,
            ike: vec![IkeStatus {
                transport: "udp".to_owned(),
                identity: "branch.example".to_owned(),
                user: None,
                endpoint: None,
                addresses: Vec::new(),
                algorithms: "aes256gcm16-prfsha384".to_owned(),
                age_s: 70,
                rekey_s: Some(14_000),
                children: vec![ChildStatus {
                    inbound_spi: 0x1234,
                    outbound_spi: 0x5678,
                    traffic: "10.1.0.0/16 === 10.2.0.0/16".to_owned(),
                    rekey_s: None,
                }],
            }],
        };
        Status {
            device: "sl0".to_owned(),
            listen: "0.0.0.0:4500".to_owned(),
            up_s: 7,
            cpu_s: 0.5,
            peers: vec![peer],
            drops: vec![("bad_integrity".to_owned(), 9)],
            path_messages: vec![("foreign".to_owned(), 3)],
            queues: vec![
                QueueStatus {
                    direction: "out".to_owned(),
                    marked: 5,
                    lost_packets: 6,
                    full_packets: 0,
                    wait_p50_us: Some(310),
                    wait_p99_us: Some(2100),
                },
                QueueStatus {
                    direction: "in".to_owned(),
                    marked: 0,
                    lost_packets: 7,
                    full_packets: 0,
                    wait_p50_us: None,
                    wait_p99_us: None,
                },
            ],
        }
    }

    #[test]
    fn every_reason_has_its_metric() {
        let text = status().prometheus();
        for reason in DropReason::ALL {
            let packets = if reason == DropReason::BadIntegrity { 9 } else { 0 };
            let line = format!(
                "sealane_tunnel_dropped_packets_total{{device=\"sl0\",reason=\"{}\"}} {packets}\n",
                reason.name()
            );
            assert!(text.contains(&line), "{text}");
        }
        for (verdict, count) in [("believed", 0), ("foreign", 3)] {
            let line = format!(
                "sealane_tunnel_path_messages_total{{device=\"sl0\",verdict=\"{verdict}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{text}");
        }
        for line in [
            "sealane_tunnel_queue_lost_packets_total{device=\"sl0\",direction=\"out\"} 6\n",
            "sealane_tunnel_queue_lost_packets_total{device=\"sl0\",direction=\"in\"} 7\n",
            "sealane_tunnel_queue_wait_seconds{device=\"sl0\",direction=\"out\",quantile=\"0.99\"} 0.0021\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("peer=\"a \\\"quoted\\\" name\"} 400\n"), "{text}");
    }

    #[test]
    fn people_and_programs_are_told_the_same() {
        let status = status();
        let text = status.text();
        assert!(
            text.contains("not connected yet, last packet 1.2 s ago")
                && text.contains("300 bytes, 2 packets directly")
                && text.contains("bad_integrity")
                && text.contains("too long\n  foreign"),
            "{text}"
        );
        for line in [
            "  networks  10.2.0.0/16, fd02::/64\n",
            "  keys      agreed 77 s ago\n",
            "  ike       branch.example, aes256gcm16-prfsha384, 70 s, rekey in 14000 s\n",
            "  child     10.1.0.0/16 === 10.2.0.0/16, in by 0x00001234\n",
            "  silent    from the peer to us\n",
            "  alive     after 25 s without a packet to it, behind a NAT\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let queues = "\n\nqueue out  0.31 ms, 99 % 2.10 ms, marked 5, lost 6, full 0\nqueue in   - ms, 99 % - ms, marked 0, lost 7, full 0\n";
        assert!(text.contains(queues), "{text}");
        let explained = status.explained();
        assert!(explained.contains("full 0  the time that packets waited here for the link"), "{explained}");
        assert!(explained.contains("full 0  the same from the arrival at this host"), "{explained}");
        assert!(explained.contains("bad_integrity        9  forged or damaged"), "{explained}");
        assert_eq!(explained.lines().count(), text.lines().count());
        let json = serde_json::to_string(&status).expect("it is data");
        assert_eq!(serde_json::from_str::<Status>(&json).expect("it is what was written"), status);
    }
}
