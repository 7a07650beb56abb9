//! Table I: the security protocols that the ten algorithms, and our catalogue, serve.

use super::figure::{Figure, Kind};
use crate::traced_kernel::{TEN, short};
use sealane_transform::Algorithm;
use std::collections::BTreeSet;

/// An application, the ciphers and hashes that its documents name, and the paper's counts (how many of how many).
type Application = (&'static str, &'static [&'static str], [f64; 2]);

/// The paper prints counts and no lists; these lists are from the documents that it names or that were in force then.
const APPLICATIONS: [Application; 8] = [
    (
        "OpenPGP (RFC 2440)",
        &["idea", "3des", "cast5", "blowfish", "safer-sk128", "md5", "sha1", "ripemd160", "md2"],
        [5.0, 8.0],
    ),
    ("S/MIME (RFC 3370)", &["sha1", "md5", "3des", "rc2"], [3.0, 3.0]),
    (
        "SSH (RFC 4253)",
        &["3des", "blowfish", "twofish", "aes", "serpent", "rc4", "idea", "cast5", "sha1", "md5"],
        [6.0, 7.0],
    ),
    ("TLS (RFC 2246)", &["rc4", "rc2", "idea", "des", "3des", "md5", "sha1"], [6.0, 7.0]),
    ("IPsec (RFC 2403 to 2405)", &["des", "md5", "sha1"], [3.0, 3.0]),
    ("WEP (802.11)", &["rc4"], [2.0, 2.0]),
    ("WPA2 (802.11i)", &["aes", "sha1"], [2.0, 2.0]),
    ("WTLS (WAP-261)", &["rc5", "des", "3des", "idea", "md5", "sha1"], [5.0, 5.0]),
];

/// Returns whether the primitive is one of the ten. Triple DES counts as DES, as the paper seems to count it.
fn is_of_ten(name: &str) -> bool {
    TEN.iter().any(|found| short(found) == name) || name == "3des"
}

/// Returns whether the catalogue has it.
fn is_in_catalogue(name: &str) -> bool {
    let of = |algorithm: Algorithm| {
        let found = algorithm.to_string();
        found == name || short(&found) == name
    };
    Algorithm::all().any(of)
}

/// Returns Table I as a figure.
pub(super) fn coverage() -> Figure {
    let row = |name: &str, primitives: &BTreeSet<&str>, [covered, of]: [f64; 2]| {
        let count = |wanted: fn(&str) -> bool| primitives.iter().filter(|one| wanted(one)).count() as f64;
        let ours = [count(is_of_ten), count(is_in_catalogue), primitives.len() as f64];
        (name.to_owned(), [covered, of].into_iter().chain(ours).map(Some).collect())
    };
    let set = |primitives: &[&'static str]| primitives.iter().copied().collect();
    let mut rows: Vec<_> =
        APPLICATIONS.iter().map(|(name, primitives, paper)| row(name, &set(primitives), *paper)).collect();
    let all = APPLICATIONS.iter().flat_map(|(_, primitives, _)| primitives.iter().copied()).collect();
    rows.push(row("all", &all, [10.0, 15.0]));
    Figure {
        title: "Table I: what security protocols use".to_owned(),
        note: "Ciphers and hashes that an application's documents name, and how many of them are there. The paper prints its \
            counts without lists.",
        kind: Kind::Table,
        columns: ["the paper: covered", "the paper: of", "the ten", "our catalogue", "named"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_are_in_the_catalogue() {
        assert!(TEN.iter().all(|name| is_in_catalogue(short(name))));
        assert!(is_in_catalogue("3des") && !is_in_catalogue("rc2") && !is_of_ten("cast5"));
        let figure = coverage();
        assert_eq!(figure.rows.len(), 9);
        let of =
            |name: &str| figure.rows.iter().find(|(found, _)| found.starts_with(name)).unwrap().1.clone();
        assert_eq!(of("OpenPGP"), [5.0, 8.0, 5.0, 5.0, 9.0].map(Some));
        assert_eq!(of("IPsec"), [3.0; 5].map(Some));
    }
}
