//! Certificates as proof: which of them are taken for whom.

mod common;
#[path = "../../../testing/skip.rs"]
mod skip;

use std::{fs, process::Command, sync::Arc, time::Duration};

use common::{Pair, peer};
use sealane_ike::{
    Expect, Identity, Prove, Reason, Settings, certificate::Authorities, crypto::sign::SigningKey,
};

/// An authority that OpenSSL makes, in a folder of its own.
struct Authority(tempfile::TempDir);

/// A private key and its certificate, in DER.
type Issued = (Vec<u8>, Vec<u8>);

impl Authority {
    fn openssl(&self, arguments: &[&str]) -> Result<(), String> {
        let output = Command::new("openssl").args(arguments).current_dir(self.0.path()).output();
        let output = output.map_err(|error| format!("openssl: {error}"))?;
        let told = || String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(told()) }
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).expect("it was made")
    }

    fn new() -> Result<Self, String> {
        let made = Self(tempfile::tempdir().expect("a folder"));
        made.openssl(&["genpkey", "-algorithm", "ED25519", "-out", "ca.key"])?;
        let basic = "basicConstraints=critical,CA:TRUE";
        let request =
            ["req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=CA", "-days", "30", "-addext", basic];
        made.openssl(&[&request[..], &["-outform", "DER", "-out", "ca.der"]].concat())?;
        made.openssl(&["x509", "-inform", "DER", "-in", "ca.der", "-out", "ca.crt"])?;
        Ok(made)
    }

    fn issue(&self, extensions: &str) -> Result<Issued, String> {
        fs::write(self.0.path().join("extensions"), extensions).expect("a file");
        self.openssl(&["genpkey", "-algorithm", "ED25519", "-out", "end.key"])?;
        self.openssl(&[
            "pkcs8",
            "-topk8",
            "-nocrypt",
            "-in",
            "end.key",
            "-outform",
            "DER",
            "-out",
            "end.key.der",
        ])?;
        self.openssl(&["req", "-new", "-key", "end.key", "-subj", "/CN=end", "-out", "request"])?;
        let signed =
            ["x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"];
        let out = ["-days", "30", "-extfile", "extensions", "-outform", "DER", "-out", "end.der"];
        self.openssl(&[&signed[..], &out].concat())?;
        Ok((self.read("end.key.der"), self.read("end.der")))
    }

    fn trusted(&self) -> Expect {
        Expect::Certificate(Arc::new(Authorities::new(&[self.read("ca.der")]).expect("a certificate")))
    }
}

fn prove((key, certificate): &Issued) -> Prove {
    let key = Arc::new(SigningKey::from_pkcs8(key).expect("a key"));
    Prove::Signature { key, certificates: vec![certificate.clone()] }
}

/// End 1 proves itself as `identity` to end 0, which trusts `expect`; why end 0 refuses it, if it does.
fn judged(identity: &str, proof: Prove, expect: Expect, settings: Settings) -> Option<String> {
    let mut peers = [peer(0), peer(1)];
    peers[0].expect = expect;
    peers[0].remote_identity = Some(Identity::from_text(identity));
    peers[1].local_identity = Identity::from_text(identity);
    peers[1].prove = proof;
    let mut pair = Pair::with_settings(peers.map(|peer| vec![peer]), 1, settings);
    pair.initiate(0);
    pair.run_seconds(120);
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
    let (authority, other) = match Authority::new().and_then(|first| Ok((first, Authority::new()?))) {
        Ok(both) => both,
        Err(problem) => return skip::skip(format!("no certificates: {problem}")),
    };
    let issue = |extensions: &str| authority.issue(extensions).expect("OpenSSL made one before");
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
        ("somebody@end.example", "subjectAltName=email:somebody@end.example", Some("alone")),
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
    assert!(problem.is_some_and(|problem| problem.contains("Expired")));
    // The key of another certificate than the one that is shown.
    let (_, shown) = issue("subjectAltName=DNS:end.example");
    let problem = judged("end.example", prove(&(good.0, shown)), authority.trusted(), Settings::default());
    assert!(problem.is_some_and(|problem| problem.contains("not its certificate's")));
    assert!(Authorities::new(&[b"no certificate".to_vec()]).is_err());
}
