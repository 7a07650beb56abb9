//! Packets that a firewall in the way drops: rules of nftables, also those that iptables has made there, are followed for the packets that
//! a gateway needs. Nothing is changed.
//!
//! Guarantees: only what is dropped for certain is told. A rule that is not understood may go either way, so it is never the
//! reason.

use std::{collections::HashMap, process::Command};

use serde_json::Value;

/// The maximum depth of chains that jump to others (the kernel's bound, NFT_JUMP_STACK_SIZE).
const DEPTH_MAX: usize = 16;

/// A packet that a gateway needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The packet, in words.
    pub what: String,
    /// It is for this host; otherwise it is forwarded.
    pub is_input: bool,
    /// The interfaces that it comes and leaves by, if they are known.
    pub devices: [Option<String>; 2],
    /// `udp`, `tcp`, `esp` or `ah`, and the destination port; `None` if it may be any.
    pub protocol: Option<(&'static str, Option<u16>)>,
}

/// Whether a rule's condition holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Yes,
    No,
    Perhaps,
}

/// The possible outcomes of rules.
#[derive(Clone, Copy, Default)]
struct Outcomes {
    accept: bool,
    drop: bool,
    go_on: bool,
}

/// The rules by family, table and chain.
type Rules<'v> = HashMap<[&'v str; 3], Vec<&'v Value>>;

/// Returns the lines about packets that the host's firewall drops, as far as this user may read it.
pub fn lines(needed: &[Needed]) -> Vec<String> {
    let listed = Command::new("nft").args(["-j", "list", "ruleset"]).output();
    let Ok(listed) = listed.map(|output| output.stdout) else { return Vec::new() };
    serde_json::from_slice(&listed).map(|ruleset| dropped(&ruleset, needed)).unwrap_or_default()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn dropped(ruleset: &Value, needed: &[Needed]) -> Vec<String> {
    let all = ruleset["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rules = Rules::new();
    for rule in all.iter().filter_map(|entry| entry.get("rule")) {
        let place = [text(rule, "family"), text(rule, "table"), text(rule, "chain")];
        rules.entry(place).or_default().push(rule);
    }
    let mut lines = Vec::new();
    for packet in needed {
        for chain in all.iter().filter_map(|entry| entry.get("chain")) {
            let [family, table, name] = [text(chain, "family"), text(chain, "table"), text(chain, "name")];
            let hook = if packet.is_input { "input" } else { "forward" };
            // The gateway's own table lets its own packets pass.
            if text(chain, "hook") != hook
                || !matches!(family, "inet" | "ip" | "ip6")
                || table.starts_with("sealane-")
            {
                continue;
            }
            let mut outcomes = follow(&rules, [family, table, name], packet, 0);
            match text(chain, "policy") {
                "drop" => outcomes.drop |= outcomes.go_on,
                _ => outcomes.accept |= outcomes.go_on,
            }
            if outcomes.drop && !outcomes.accept {
                lines.push(format!(
                    "the firewall drops {}: chain {name} of table {family} {table}; let them pass, for example by: nft insert rule \
                     {family} {table} {name} {}",
                    packet.what,
                    packet.pass()
                ));
            }
        }
    }
    lines
}

/// Returns what becomes of a packet in a chain.
fn follow(rules: &Rules<'_>, place: [&str; 3], packet: &Needed, depth: usize) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let own = rules.get(&place).map(Vec::as_slice).unwrap_or_default();
    for rule in own {
        let statements = rule["expr"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut holds = Holds::Yes;
        for statement in statements {
            let Some((name, value)) = statement.as_object().and_then(|object| object.iter().next()) else {
                continue;
            };
            let target = text(value, "target");
            let verdict = match name.as_str() {
                "match" => {
                    match packet.matches(value) {
                        Holds::No => holds = Holds::No,
                        Holds::Perhaps => holds = Holds::Perhaps,
                        Holds::Yes => {}
                    }
                    if holds == Holds::No {
                        break;
                    }
                    continue;
                }
                "counter" | "log" | "mangle" | "notrack" | "comment" => continue,
                "accept" => Outcomes { accept: true, ..Outcomes::default() },
                "drop" | "reject" => Outcomes { drop: true, ..Outcomes::default() },
                "return" => {
                    outcomes.go_on = true;
                    Outcomes::default()
                }
                "jump" | "goto" if depth < DEPTH_MAX => {
                    let mut inner = follow(rules, [place[0], place[1], target], packet, depth + 1);
                    if name == "goto" {
                        outcomes.go_on |= std::mem::take(&mut inner.go_on);
                    }
                    inner
                }
                // A limit, a match of iptables, a queue, …
                _ => {
                    holds = Holds::Perhaps;
                    if name == "queue" || name == "jump" || name == "goto" || name == "vmap" {
                        outcomes.accept = true;
                    }
                    continue;
                }
            };
            outcomes.accept |= verdict.accept;
            outcomes.drop |= verdict.drop;
            if holds == Holds::Yes && !verdict.go_on {
                return outcomes;
            }
            break;
        }
    }
    Outcomes { go_on: true, ..outcomes }
}

impl Needed {
    /// Returns a rule that lets the packet pass.
    fn pass(&self) -> String {
        let [from, to] = &self.devices;
        let mut words: Vec<String> = Vec::new();
        words.extend(from.iter().map(|name| format!("iifname {name}")));
        words.extend(to.iter().map(|name| format!("oifname {name}")));
        match self.protocol {
            Some((protocol, Some(port))) => words.push(format!("{protocol} dport {port}")),
            Some((protocol, None)) => words.push(format!("meta l4proto {protocol}")),
            None => {}
        }
        words.push("accept".to_owned());
        words.join(" ")
    }

    /// Returns whether the packet, the first of its flow, has what a rule asks for.
    fn matches(&self, condition: &Value) -> Holds {
        let (left, right) = (&condition["left"], &condition["right"]);
        let named = |name: &str| text(&left[name], if name == "payload" { "field" } else { "key" });
        let protocol = text(&left["payload"], "protocol");
        let own: Vec<Option<Value>> = match (named("meta"), named("payload"), named("ct")) {
            ("iifname" | "iif", ..) => vec![self.devices[0].clone().map(Value::from)],
            ("oifname" | "oif", ..) => vec![self.devices[1].clone().map(Value::from)],
            ("l4proto", ..) | (_, "protocol" | "nexthdr", _) => {
                vec![self.protocol.map(|(name, _)| Value::from(name))]
            }
            (_, "dport", _) => match self.protocol {
                Some((name, port)) if name == protocol || protocol == "th" => vec![port.map(Value::from)],
                Some(_) => return Holds::No,
                None => vec![None],
            },
            (.., "state") => vec![Some(Value::from("new"))],
            _ => vec![None],
        };
        let [Some(own)] = &own[..] else { return Holds::Perhaps };
        let is_in = is_among(own, right);
        match (text(condition, "op"), is_in) {
            (_, None) => Holds::Perhaps,
            ("==" | "in", Some(true)) | ("!=", Some(false)) => Holds::Yes,
            ("==" | "in", Some(false)) | ("!=", Some(true)) => Holds::No,
            _ => Holds::Perhaps,
        }
    }
}

/// Returns whether a value is one of a rule's; `None` if the rule has it in a form that is not known here, such as a named set.
fn is_among(own: &Value, right: &Value) -> Option<bool> {
    let any = |values: &[Value]| {
        let each: Vec<Option<bool>> = values.iter().map(|value| is_among(own, value)).collect();
        match each.contains(&Some(true)) {
            true => Some(true),
            false if each.contains(&None) => None,
            false => Some(false),
        }
    };
    match right {
        Value::Array(values) => any(values),
        Value::Object(object) => {
            if let Some(Value::Array(values)) = object.get("set") {
                return any(values);
            }
            let range = object.get("range")?.as_array()?;
            let [first, last, own] = [range.first()?.as_u64()?, range.get(1)?.as_u64()?, own.as_u64()?];
            Some((first..=last).contains(&own))
        }
        Value::String(pattern) if pattern.starts_with('@') => None,
        Value::String(pattern) if pattern.ends_with('*') => {
            Some(own.as_str()?.starts_with(pattern.trim_end_matches('*')))
        }
        Value::String(_) if own.is_u64() => None,
        value => Some(own == value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ike() -> Needed {
        let what = "IKE".to_owned();
        Needed { what, is_input: true, devices: [None, None], protocol: Some(("udp", Some(4500))) }
    }

    fn forwarded() -> Needed {
        let devices = ["sl0", "eth1"].map(|name| Some(name.to_owned()));
        Needed { what: "packets".to_owned(), is_input: false, devices, protocol: None }
    }

    fn is_dropped(hook: &str, policy: &str, rules: &[Value], packet: Needed) -> bool {
        let mut all = vec![
            json!({"chain": {"family": "inet", "table": "f", "name": "c", "hook": hook, "policy": policy}}),
            json!({"rule": {"family": "inet", "table": "f", "chain": "other", "expr": [{"drop": null}]}}),
        ];
        all.extend(
            rules
                .iter()
                .map(|expr| json!({"rule": {"family": "inet", "table": "f", "chain": "c", "expr": expr}})),
        );
        !dropped(&json!({ "nftables": all }), &[packet]).is_empty()
    }

    fn matching(left: Value, right: Value) -> Value {
        json!({"match": {"op": "==", "left": left, "right": right}})
    }

    #[test]
    fn only_what_is_dropped_for_certain_is_told() {
        let dport = || json!({"payload": {"protocol": "udp", "field": "dport"}});
        let meta = |key: &str| json!({"meta": {"key": key}});
        let state = || json!({"ct": {"key": "state"}});
        let (accept, drop) = (json!({"accept": null}), json!({"drop": null}));
        for (policy, rules, is_told) in [
            ("accept", vec![], false),
            ("drop", vec![], true),
            ("drop", vec![json!([matching(dport(), json!(4500)), accept])], false),
            (
                "drop",
                vec![json!([matching(dport(), json!({"set": [500, {"range": [4000, 5000]}]})), accept])],
                false,
            ),
            ("drop", vec![json!([matching(dport(), json!(500)), accept])], true),
            ("drop", vec![json!([matching(dport(), json!("@ports")), accept])], false),
            ("drop", vec![json!([matching(meta("iifname"), json!("eth0")), accept])], false),
            ("drop", vec![json!([matching(state(), json!(["established", "related"])), accept])], true),
            ("drop", vec![json!([{"xt": {"type": "match"}}, accept])], false),
            ("accept", vec![json!([{"jump": {"target": "other"}}])], true),
            ("accept", vec![json!([matching(dport(), json!(53)), {"jump": {"target": "other"}}])], false),
            ("accept", vec![json!([{"limit": {"rate": 5}}, drop])], false),
            ("accept", vec![json!([{"counter": {"packets": 0}}, drop])], true),
        ] {
            assert_eq!(is_dropped("input", policy, &rules, ike()), is_told, "{policy} {rules:?}");
        }
        let docker = [json!([matching(meta("oifname"), json!("docker0")), accept])];
        assert!(is_dropped("forward", "drop", &docker, forwarded()));
        let pass = [json!([matching(meta("iifname"), json!("sl*")), accept])];
        assert!(!is_dropped("forward", "drop", &pass, forwarded()));
        assert!(!is_dropped("input", "drop", &[], forwarded()), "another hook");
        assert_eq!(forwarded().pass(), "iifname sl0 oifname eth1 accept");
    }
}
