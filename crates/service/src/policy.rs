//! The policy file, which decides who may use which key for what:
//!
//! ```toml
//! [[allow]]
//! users = ["www-data"]          # names or numbers of users
//! groups = ["web"]              # names or numbers of groups
//! keys = ["web-*"]              # names of keys; `*` stands for any characters
//! uses = ["sign"]               # sign, decrypt, derive
//! rate = 2000                   # jobs per second and user; without it, there is no limit
//! connections = 2000            # connections per user; the default is 2000
//! lend = true                   # they may lend keys of their own
//! admin = true                  # they may make, import and remove keys
//! ```
//!
//! **Guarantees:** a user that no entry names is refused; the permissions of several entries for one user add up; an
//! unknown word is an error before the service starts. A user or group that the host does not have is a warning: whoever deletes a
//! user does not stop a service for the others.

use sealane_client::job::Use;
use sealane_client::key::is_name;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The default maximum number of connections of one user: as many as the greatest servers have processes. One that is idle
/// keeps some 10 KB of memory and two descriptors.
const CONNECTIONS: u32 = 2000;

/// The maximum length of a policy file in bytes.
pub const POLICY_BYTES_MAX: usize = 1 << 20;

/// The error for a policy that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The text is not a policy file.
    #[error("the policy file: {0}")]
    Syntax(String),
    /// An entry names no user and no group.
    #[error("entry {entry} of the policy names neither users nor groups")]
    Nobody {
        /// The number of the entry, from 1 on.
        entry: usize,
    },
}

/// A part of a policy that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyWarning {
    /// A user or group that the host does not have.
    #[error("entry {entry} of the policy names {name:?}, which this host does not have")]
    Unknown {
        /// The number of the entry, from 1 on.
        entry: usize,
        /// The name of the user or group.
        name: String,
    },
    /// A pattern that matches no name that a key can have.
    #[error("entry {entry} of the policy has the pattern {pattern:?}, which no key's name matches")]
    NoName {
        /// The number of the entry, from 1 on.
        entry: usize,
        /// The pattern as the policy has it.
        pattern: String,
    },
    /// Keys without uses, or uses without keys.
    #[error("entry {entry} of the policy allows no use of any key: it needs both `keys` and `uses`")]
    NoUse {
        /// The number of the entry, from 1 on.
        entry: usize,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    allow: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Name {
    Number(u32),
    Text(String),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    users: Vec<Name>,
    #[serde(default)]
    groups: Vec<Name>,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    uses: BTreeSet<Use>,
    rate: Option<u32>,
    connections: Option<u32>,
    #[serde(default)]
    lend: bool,
    #[serde(default)]
    admin: bool,
}

/// Names of users and groups, from /etc/passwd and /etc/group.
#[derive(Clone, Debug, Default)]
pub struct Names {
    users: BTreeMap<String, (u32, u32)>,
    groups: BTreeMap<String, (u32, Vec<String>)>,
}

impl Names {
    /// Parses the texts of both files. Lines that make no sense are skipped.
    pub fn of(passwd: &str, group: &str) -> Self {
        let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let users = passwd.lines().map(fields).filter_map(|fields| {
            Some((fields.first()?.clone(), (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)))
        });
        let groups = group.lines().map(fields).filter_map(|fields| {
            let members = fields.get(3)?.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
            Some((fields.first()?.clone(), (fields.get(2)?.parse().ok()?, members.collect())))
        });
        Self { users: users.collect(), groups: groups.collect() }
    }

    /// Returns the numbers of a user and of its primary group.
    pub fn user(&self, name: &str) -> Option<(u32, u32)> {
        self.users.get(name).copied()
    }

    /// Returns the name of a user; its number if it has none.
    pub fn name_of_user(&self, number: u32) -> String {
        let found = self.users.iter().find(|(_, (user, _))| *user == number);
        found.map_or_else(|| number.to_string(), |(name, _)| name.clone())
    }

    /// Returns the name of a group; its number if it has none.
    pub fn name_of_group(&self, number: u32) -> String {
        let found = self.groups.iter().find(|(_, (group, _))| *group == number);
        found.map_or_else(|| number.to_string(), |(name, _)| name.clone())
    }
}

/// The permissions of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    keys: Vec<String>,
    uses: BTreeSet<Use>,
    rate: Option<u32>,
    connections: u32,
    lend: bool,
    admin: bool,
}

/// All rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    warnings: Vec<PolicyWarning>,
}

impl Policy {
    /// Parses a policy file.
    ///
    /// # Errors
    /// Fails if it makes no sense.
    pub fn parse(text: &str, names: &Names) -> Result<Self, PolicyError> {
        let file: File = toml::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string()))?;
        let mut warnings = Vec::new();
        let rules = (1..)
            .zip(file.allow)
            .map(|(entry, allow)| rule(entry, &allow, names, &mut warnings))
            .collect::<Result<_, _>>()?;
        Ok(Self { rules, warnings })
    }

    /// Returns the users whom it lets in.
    pub fn users(&self) -> BTreeSet<u32> {
        self.rules.iter().flat_map(|rule| rule.users.iter().copied()).collect()
    }

    /// Returns what has no effect.
    pub fn warnings(&self) -> &[PolicyWarning] {
        &self.warnings
    }

    /// Returns who may do what, a line for each user and each group that it names.
    pub fn explain(&self, names: &Names) -> Vec<String> {
        let users: BTreeSet<u32> = self.rules.iter().flat_map(|rule| rule.users.iter().copied()).collect();
        let of_user = |user: &u32| {
            let group =
                names.users.values().find(|(found, _)| found == user).map_or(u32::MAX, |(_, group)| *group);
            Some(format!("user {}: {}", names.name_of_user(*user), self.grant(*user, group)?.explain()))
        };
        let groups: BTreeSet<u32> = self.rules.iter().flat_map(|rule| rule.groups.iter().copied()).collect();
        let of_group = |group: &u32| {
            let rules: Vec<_> =
                self.rules.iter().filter(|rule| rule.groups.contains(group)).cloned().collect();
            format!("processes of group {}: {}", names.name_of_group(*group), Grant { rules }.explain())
        };
        users.iter().filter_map(of_user).chain(groups.iter().map(of_group)).collect()
    }

    /// Makes the policy that applies without a file: these users may do everything.
    pub fn of_users(users: &[u32]) -> Self {
        let rule = Rule {
            users: users.iter().copied().collect(),
            groups: BTreeSet::new(),
            keys: vec!["*".to_owned()],
            uses: [Use::Sign, Use::Decrypt, Use::Derive].into(),
            rate: None,
            connections: CONNECTIONS,
            lend: true,
            admin: true,
        };
        Self { rules: vec![rule], warnings: Vec::new() }
    }

    /// Returns who may use a key of this name in any way: users, and groups.
    pub(crate) fn users_of(&self, key: &str) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let matching = || {
            let is_usable =
                |rule: &&Rule| !rule.uses.is_empty() && rule.keys.iter().any(|pattern| matches(pattern, key));
            self.rules.iter().filter(is_usable)
        };
        let users = matching().flat_map(|rule| rule.users.iter().copied()).collect();
        (users, matching().flat_map(|rule| rule.groups.iter().copied()).collect())
    }

    /// Returns the permissions of a user; `None` if no rule names it.
    pub fn grant(&self, user: u32, group: u32) -> Option<Grant> {
        let rules: Vec<_> = self
            .rules
            .iter()
            .filter(|rule| rule.users.contains(&user) || rule.groups.contains(&group))
            .cloned()
            .collect();
        (!rules.is_empty()).then_some(Grant { rules })
    }
}

fn rule(
    entry: usize,
    allow: &Entry,
    names: &Names,
    warnings: &mut Vec<PolicyWarning>,
) -> Result<Rule, PolicyError> {
    if allow.users.is_empty() && allow.groups.is_empty() {
        return Err(PolicyError::Nobody { entry });
    }
    if allow.keys.is_empty() != allow.uses.is_empty() {
        warnings.push(PolicyWarning::NoUse { entry });
    }
    for pattern in allow.keys.iter().filter(|pattern| !is_name(&pattern.replace('*', "x"))) {
        warnings.push(PolicyWarning::NoName { entry, pattern: pattern.clone() });
    }
    let mut unknown = |name: &str| warnings.push(PolicyWarning::Unknown { entry, name: name.to_owned() });
    let mut users = BTreeSet::new();
    for user in &allow.users {
        match user {
            Name::Number(number) => _ = users.insert(*number),
            Name::Text(name) => match names.users.get(name) {
                Some((number, _)) => _ = users.insert(*number),
                None => unknown(name),
            },
        }
    }
    let mut groups = BTreeSet::new();
    for group in &allow.groups {
        match group {
            Name::Number(number) => {
                groups.insert(*number);
                let members = names.groups.values().filter(|(found, _)| found == number);
                users.extend(
                    members
                        .flat_map(|(_, members)| members)
                        .filter_map(|name| Some(names.users.get(name)?.0)),
                );
            }
            Name::Text(name) => match names.groups.get(name) {
                Some((number, members)) => {
                    groups.insert(*number);
                    users.extend(members.iter().filter_map(|name| Some(names.users.get(name)?.0)));
                }
                None => unknown(name),
            },
        }
    }
    // This includes users whose primary group it is, regardless of the group of the process.
    users.extend(names.users.values().filter(|(_, group)| groups.contains(group)).map(|(user, _)| *user));
    Ok(Rule {
        users,
        groups,
        keys: allow.keys.clone(),
        uses: allow.uses.clone(),
        rate: allow.rate,
        connections: allow.connections.unwrap_or(CONNECTIONS),
        lend: allow.lend,
        admin: allow.admin,
    })
}

/// The permissions of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    rules: Vec<Rule>,
}

impl Grant {
    /// Returns the uses that it may make of the key with this name.
    pub fn uses(&self, key: &str) -> BTreeSet<Use> {
        let matching = self.rules.iter().filter(|rule| rule.keys.iter().any(|pattern| matches(pattern, key)));
        matching.flat_map(|rule| rule.uses.iter().copied()).collect()
    }

    /// Returns whether it may make, import and remove keys.
    pub fn is_admin(&self) -> bool {
        self.rules.iter().any(|rule| rule.admin)
    }

    /// Returns whether it may lend keys.
    pub fn may_lend(&self) -> bool {
        self.rules.iter().any(|rule| rule.lend)
    }

    /// Returns the maximum number of jobs per second, if there is a limit: the highest of its rules.
    pub fn rate(&self) -> Option<u32> {
        self.rules.iter().map(|rule| rule.rate).try_fold(0, |most, rate| Some(most.max(rate?)))
    }

    /// Returns in words what it allows.
    pub fn explain(&self) -> String {
        let mut words = Vec::new();
        for rule in self.rules.iter().filter(|rule| !rule.keys.is_empty() && !rule.uses.is_empty()) {
            let uses: Vec<_> = rule.uses.iter().map(|one| format!("{one:?}").to_lowercase()).collect();
            words.push(format!("may {} with {}", uses.join(", "), rule.keys.join(", ")));
        }
        if self.may_lend() {
            words.push("may bring keys of its own".to_owned());
        }
        if self.is_admin() {
            words.push("may make, import and remove keys".to_owned());
        }
        if words.is_empty() {
            words.push("may use nothing".to_owned());
        }
        words.extend(self.rate().map(|rate| format!("at most {rate} jobs a second")));
        words.push(format!("at most {} connections", self.connections()));
        words.join("; ")
    }

    /// Returns the maximum number of connections.
    pub fn connections(&self) -> u32 {
        self.rules.iter().map(|rule| rule.connections).max().unwrap_or(0)
    }
}

/// Returns whether a pattern with `*` matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0::/:/bin/sh\nwww:x:33:33::/:/bin/false\nann:x:1000:100::/:/bin/sh\nnonsense\n";
    const GROUP: &str = "root:x:0:\nwww:x:33:\nusers:x:100:\nadm:x:4:ann,www\n";

    fn policy(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse(text, &Names::of(PASSWD, GROUP))
    }

    #[test]
    fn whom_no_entry_names_is_refused() {
        let policy =
            policy("[[allow]]\nusers = ['www']\nkeys = ['web-*']\nuses = ['sign']\nrate = 5\n").unwrap();
        assert_eq!(policy.grant(1000, 100), None);
        assert_eq!(policy.grant(0, 0), None);
        let grant = policy.grant(33, 33).unwrap();
        assert_eq!(grant.uses("web-1"), [Use::Sign].into());
        assert!(grant.uses("mail").is_empty());
        assert_eq!((grant.rate(), grant.is_admin(), grant.may_lend()), (Some(5), false, false));
    }

    #[test]
    fn entries_add_up() {
        let policy = policy(
            "[[allow]]\nusers = [33]\nkeys = ['web']\nuses = ['sign']\nrate = 5\nconnections = 1\n\
             [[allow]]\ngroups = ['adm']\nkeys = ['*']\nuses = ['derive']\nadmin = true\n",
        )
        .unwrap();
        let grant = policy.grant(33, 33).unwrap();
        assert_eq!(grant.uses("web"), [Use::Sign, Use::Derive].into());
        assert_eq!((grant.rate(), grant.connections(), grant.is_admin()), (None, 2000, true));
        assert_eq!(policy.grant(1000, 100).unwrap().uses("web"), [Use::Derive].into());
        assert!(policy.grant(7, 4).is_some());
    }

    #[test]
    fn a_file_that_makes_no_sense_is_an_error() {
        for text in
            ["allow = 1", "[[allow]]\nuser = ['www']\n", "[[allow]]\nusers = ['www']\nuses = ['read']\n", "x"]
        {
            assert!(matches!(policy(text), Err(PolicyError::Syntax(_))), "{text}");
        }
        assert_eq!(policy("[[allow]]\nkeys = ['*']\n"), Err(PolicyError::Nobody { entry: 1 }));
    }

    #[test]
    fn what_has_no_effect_is_a_warning_and_harms_no_other_entry() {
        let text = "[[allow]]\nusers = ['nobody', 'www']\ngroups = ['none']\nkeys = ['web', '-*', 'a b']\nuses = ['sign']\n\
                    [[allow]]\nusers = ['nobody']\nkeys = ['*']\n";
        let policy = policy(text).unwrap();
        let unknown = |entry, name: &str| PolicyWarning::Unknown { entry, name: name.to_owned() };
        let no_name = |pattern: &str| PolicyWarning::NoName { entry: 1, pattern: pattern.to_owned() };
        let expected = [
            no_name("-*"),
            no_name("a b"),
            unknown(1, "nobody"),
            unknown(1, "none"),
            PolicyWarning::NoUse { entry: 2 },
            unknown(2, "nobody"),
        ];
        assert_eq!(policy.warnings(), expected);
        assert_eq!(policy.grant(33, 33).unwrap().uses("web"), [Use::Sign].into());
        assert_eq!(policy.grant(0, 0), None);
    }

    #[test]
    fn a_policy_says_who_may_do_what() {
        let text = "[[allow]]\nusers = ['www']\nkeys = ['web-*']\nuses = ['sign', 'derive']\nrate = 5\n\
                    [[allow]]\ngroups = ['adm']\nadmin = true\nconnections = 3\n";
        let lines = policy(text).unwrap().explain(&Names::of(PASSWD, GROUP));
        assert_eq!(
            lines,
            [
                "user www: may sign, derive with web-*; may make, import and remove keys; at most 2000 connections",
                "user ann: may make, import and remove keys; at most 3 connections",
                "processes of group adm: may make, import and remove keys; at most 3 connections",
            ]
        );
    }

    #[test]
    fn patterns_match_as_shells_do() {
        for (pattern, name, expected) in [
            ("web", "web", true),
            ("web", "web1", false),
            ("*", "", true),
            ("web-*", "web-", true),
            ("*-rsa", "web-rsa", true),
            ("w*b*1", "web-b1", true),
            ("w*b*1", "w1", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
