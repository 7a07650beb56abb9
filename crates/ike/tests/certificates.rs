//! Certificates as proof: the identities that each of them is accepted for.

mod common;
#[path = "../../../testing/skip.rs"]
mod skip;

use std::{sync::Arc, time::Duration};

use common::{
    Pair,
    authority::{Authority, ED25519, Issued},
    peer,
};
use sealane_ike::{
    Expect, Identity, Prove, Reason, Settings, certificate::Authorities, crypto::sign::SigningKey,
};

fn prove((key, certificate): &Issued) -> Prove {
    let key = Arc::new(SigningKey::from_pkcs8(key).expect("a key"));
    Prove::Signature { key, certificates: vec![certificate.clone()] }
}

/// Lets end 1 prove itself as `identity` to end 0, which trusts `expect`. Returns the reason if end 0 refuses it.
fn judged(identity: &str, proof: Prove, expect: Expect, settings: Settings) -> Option<String> {
    let mut peers = [peer(0), peer(1)];
    peers[0].expect = expect;
    peers[0].remote_identity = Some(Identity::from_text(identity));
    peers[1].local_identity = Identity::from_text(identity);
    peers[1].prove = proof;
    let mut pair = Pair::with_settings(peers.map(|peer| vec![peer]), 1, settings);
    pair.begin(120);
    if pair.ends[0].down.is_empty() {
        pair.assert_up(1);
        return None;
    }
    pair.assert_agree();
    assert!(pair.ends[0].up.is_empty() && pair.ends[1].up.is_empty());
    let [Reason::Authentication { problem, .. }] = &pair.ends[0].down[..] else {
        panic!("{:?}", pair.ends[0].down)
    };
    Some(problem.clone())
}

#[test]
fn certificates_prove_the_names_that_they_have_and_no_others() {
    let made = Authority::new(ED25519).and_then(|first| Ok((first, Authority::new(ED25519)?)));
    let Some((authority, other)) = skip::without("certificates", made) else { return };
    let issue =
        |extensions: &str| authority.issue(ED25519, "/CN=end", extensions).expect("OpenSSL made one before");
    let cases = [
        ("end.example", "subjectAltName=DNS:end.example", None),
        ("END.example", "subjectAltName=DNS:end.Example", None),
        ("192.0.2.2", "subjectAltName=IP:192.0.2.2", None),
        ("end.example", "subjectAltName=DNS:end.example\nextendedKeyUsage=serverAuth", None),
        ("end.example", "subjectAltName=DNS:end.example\nextendedKeyUsage=1.3.6.1.5.5.8.2.2", None),
        ("end.example", "subjectAltName=DNS:other.example", Some("does not have end.example")),
        ("end.example", "subjectAltName=DNS:*.example", Some("does not have end.example")),
        ("end.example", "subjectAltName=DNS:end.example.org", Some("does not have end.example")),
        ("192.0.2.2", "subjectAltName=IP:192.0.2.3", Some("does not have 192.0.2.2")),
        ("192.0.2.2", "subjectAltName=DNS:192.0.2.2", Some("does not have 192.0.2.2")),
        ("somebody@end.example", "subjectAltName=email:somebody@END.example", None),
        ("somebody@end.example", "subjectAltName=email:Somebody@end.example", Some("as a mail address")),
        ("somebody@end.example", "subjectAltName=DNS:end.example", Some("as a mail address")),
        (
            "end.example",
            "subjectAltName=DNS:end.example\nextendedKeyUsage=codeSigning",
            Some("its certificate"),
        ),
        ("end.example", "subjectAltName=DNS:end.example\nbasicConstraints=CA:TRUE", Some("its certificate")),
    ];
    for (identity, extensions, expected) in cases {
        let issued = issue(extensions);
        let problem = judged(identity, prove(&issued), authority.trusted(), Settings::default());
        match (&problem, expected) {
            (None, None) => {}
            (Some(problem), Some(expected)) => assert!(problem.contains(expected), "{extensions}: {problem}"),
            _ => panic!("{identity} by {extensions}: {problem:?}"),
        }
    }
    let good = issue("subjectAltName=DNS:end.example");
    let problem = judged("end.example", prove(&good), other.trusted(), Settings::default());
    assert!(problem.is_some_and(|problem| problem.contains("its certificate")));
    let (mut settings, year) = (Settings::default(), Duration::from_secs(366 * 86_400));
    settings.clock.1 += year;
    let problem = judged("end.example", prove(&good), authority.trusted(), settings);
    assert!(problem.is_some_and(|problem| problem.contains("it expired on")));
    // This key belongs to another certificate than the one that is sent.
    let (_, shown) = issue("subjectAltName=DNS:end.example");
    let problem = judged("end.example", prove(&(good.0, shown)), authority.trusted(), Settings::default());
    assert!(problem.is_some_and(|problem| problem.contains("not its certificate's")));
    assert!(Authorities::new(&[b"no certificate".to_vec()]).is_err());
}

/// A revoked certificate proves nothing any more, whether it is the end's own or an intermediate one.
#[test]
fn a_revoked_certificate_proves_nothing() {
    let Some(authority) = skip::without("certificates", Authority::new(ED25519)) else { return };
    let issue =
        || authority.issue(ED25519, "/CN=end", "subjectAltName=DNS:end.example").expect("made before");
    let (good, bad) = (issue(), issue());
    let list = authority.revoke(&bad).expect("OpenSSL makes lists");
    let trusted = || {
        let authorities = authority.authorities().with_revocations(std::slice::from_ref(&list));
        Expect::Certificate(Arc::new(authorities.expect("a list")))
    };
    assert_eq!(judged("end.example", prove(&good), trusted(), Settings::default()), None);
    let problem = judged("end.example", prove(&bad), trusted(), Settings::default());
    assert!(problem.is_some_and(|problem| problem.contains("has revoked it")));
    // A list that is past its next update proves nothing about any certificate.
    let (mut settings, days) = (Settings::default(), Duration::from_secs(10 * 86_400));
    settings.clock.1 += days;
    let problem = judged("end.example", prove(&good), trusted(), settings);
    assert!(problem.is_some_and(|problem| problem.contains("was to be replaced by")));
    assert!(authority.authorities().with_revocations(&[b"no list".to_vec()]).is_err());
}
