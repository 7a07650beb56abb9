//! Commands and resolvers of a site file.

use std::net::IpAddr;

use toml::Spanned;

use super::{RawSite, SiteError, Text};

/// The changes to the host while the gateway is up, beyond the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Shell commands, run in this order when packets flow.
    pub up: Vec<String>,
    /// Shell commands, run in this order when the gateway has ended.
    pub down: Vec<String>,
    /// The resolvers that the host uses.
    pub dns: Vec<IpAddr>,
    /// The domains for which it uses them; if there are none, it uses them for all names.
    pub dns_search: Vec<String>,
}

impl Hooks {
    /// Returns whether the site changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the commands and resolvers of a file.
    pub(super) fn read(place: &Text<'_>, raw: &RawSite) -> Result<Self, SiteError> {
        let commands = |words: &[Spanned<String>]| -> Result<Vec<String>, SiteError> {
            let command = |word: &Spanned<String>| match word.get_ref().trim().is_empty() {
                true => Err(place.error(Some(word.span().start), "an empty command")),
                false if word.get_ref().contains('\0') => {
                    Err(place.error(Some(word.span().start), "a command holds no zero byte"))
                }
                false => Ok(word.get_ref().clone()),
            };
            words.iter().map(command).collect()
        };
        if let (Some(word), true) = (raw.dns_search.first(), raw.dns.is_empty()) {
            return Err(place.error(Some(word.span().start), "dns-search without dns: who is to be asked?"));
        }
        Ok(Self {
            up: commands(&raw.up)?,
            down: commands(&raw.down)?,
            dns: raw.dns.iter().map(|word| resolver(place, word)).collect::<Result<_, _>>()?,
            dns_search: raw.dns_search.iter().map(|word| domain(place, word)).collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the address of a resolver.
pub(super) fn resolver(place: &Text<'_>, word: &Spanned<String>) -> Result<IpAddr, SiteError> {
    let message = || format!("{:?} is not the address of a resolver, such as 10.91.2.53", word.get_ref());
    word.get_ref().parse().map_err(|_| place.error(Some(word.span().start), message()))
}

/// Returns the name of a domain.
pub(super) fn domain(place: &Text<'_>, word: &Spanned<String>) -> Result<String, SiteError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let text = word.get_ref();
    // A leading dash would be an option of the program that configures the resolvers.
    let is_name = (1..=253).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with('-');
    match is_name {
        true => Ok(text.clone()),
        false => Err(place.error(Some(word.span().start), format!("{text:?} is not a domain"))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::site::Site;

    use super::*;

    const GOOD: &str = "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\naddresses = [\"10.91.1.1/24\"]\n";

    fn parse(text: &str) -> Result<Site, SiteError> {
        Site::parse(Path::new("/etc/sealane/site.toml"), text)
    }

    #[test]
    fn commands_and_resolvers_stand_beside_the_address() {
        assert!(parse(GOOD).expect("a good file").hooks.is_empty());
        let more = "up = [\"a\", \"b c\"]\ndown = [\"d\"]\ndns = [\"10.91.2.53\"]\ndns-search = [\"corp.example\"]\n";
        let site = parse(&GOOD.replacen("addresses", &format!("{more}addresses"), 1)).expect("a good file");
        let hooks = Hooks {
            up: vec!["a".into(), "b c".into()],
            down: vec!["d".into()],
            dns: vec!["10.91.2.53".parse().expect("an address")],
            dns_search: vec!["corp.example".into()],
        };
        assert_eq!(site.hooks, hooks);
    }

    #[test]
    fn errors_point_at_the_word() {
        for (from, to, at, says) in [
            ("addresses", "up = [\" \"]\naddresses", (3, 7), "an empty command"),
            ("addresses", "dns = [\"ns.example\"]\naddresses", (3, 8), "address of a resolver"),
            ("addresses", "dns-search = [\"a.example\"]\naddresses", (3, 15), "who is to be asked"),
            (
                "addresses",
                "dns = [\"10.0.0.1\"]\ndns-search = [\"--help\"]\naddresses",
                (4, 15),
                "is not a domain",
            ),
        ] {
            let error = parse(&GOOD.replacen(from, to, 1)).expect_err(to);
            assert_eq!(error.at, Some(at), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
