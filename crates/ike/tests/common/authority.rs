//! An authority made with OpenSSL, in a folder of its own.

use std::{cell::Cell, fs, process::Command, sync::Arc};

use sealane_ike::{Expect, certificate::Authorities};

/// Arguments for `openssl genpkey -algorithm`.
pub(crate) type Kind = &'static [&'static str];

pub(crate) const ED25519: Kind = &["ED25519"];
pub(crate) const P256: Kind = &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub(crate) const RSA: Kind = &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

pub(crate) struct Authority {
    folder: tempfile::TempDir,
    serial: Cell<u32>,
}

/// A private key, PKCS #8, and its certificate, in DER.
pub(crate) type Issued = (Vec<u8>, Vec<u8>);

impl Authority {
    fn openssl(&self, arguments: &[&str]) -> Result<(), String> {
        let output = Command::new("openssl").args(arguments).current_dir(self.folder.path()).output();
        let output = output.map_err(|error| format!("openssl: {error}"))?;
        let told = || String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(told()) }
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).expect("it was made")
    }

    pub(crate) fn new(kind: Kind) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let made = Self { folder, serial: Cell::new(0) };
        made.openssl(&[&["genpkey", "-algorithm"], kind, &["-out", "ca.key"]].concat())?;
        let basic = "basicConstraints=critical,CA:TRUE";
        let request =
            ["req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=CA", "-days", "30", "-addext", basic];
        made.openssl(&[&request[..], &["-outform", "DER", "-out", "ca.der"]].concat())?;
        made.openssl(&["x509", "-inform", "DER", "-in", "ca.der", "-out", "ca.crt"])?;
        Ok(made)
    }

    pub(crate) fn issue(&self, kind: Kind, subject: &str, extensions: &str) -> Result<Issued, String> {
        fs::write(self.folder.path().join("extensions"), extensions).expect("a file");
        self.serial.set(self.serial.get() + 1);
        let serial = self.serial.get().to_string();
        self.openssl(&[&["genpkey", "-algorithm"], kind, &["-out", "end.key"]].concat())?;
        let der = ["-in", "end.key", "-outform", "DER", "-out", "end.key.der"];
        self.openssl(&[&["pkcs8", "-topk8", "-nocrypt"], &der[..]].concat())?;
        self.openssl(&["req", "-new", "-key", "end.key", "-subj", subject, "-out", "request"])?;
        let signed =
            ["x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key", "-set_serial", &serial];
        let out = ["-days", "30", "-extfile", "extensions", "-outform", "DER", "-out", "end.der"];
        self.openssl(&[&signed[..], &out].concat())?;
        Ok((self.read("end.key.der"), self.read("end.der")))
    }

    /// Returns a list of revoked certificates that contains this one, in DER.
    pub(crate) fn revoke(&self, (_, certificate): &Issued) -> Result<Vec<u8>, String> {
        let at = |name: &str| self.folder.path().join(name);
        fs::write(at("revoked.der"), certificate).expect("a file");
        fs::write(at("index"), "").expect("a file");
        fs::write(at("number"), "01\n").expect("a file");
        fs::write(
            at("ca.conf"),
            "[ca]\ndefault_ca=ours\n[ours]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=5\n",
        )
        .expect("a file");
        self.openssl(&["x509", "-inform", "DER", "-in", "revoked.der", "-out", "revoked.crt"])?;
        let ca = ["ca", "-config", "ca.conf", "-cert", "ca.crt", "-keyfile", "ca.key", "-batch"];
        self.openssl(&[&ca[..], &["-revoke", "revoked.crt"]].concat())?;
        self.openssl(&[&ca[..], &["-gencrl", "-out", "list.pem"]].concat())?;
        self.openssl(&["crl", "-in", "list.pem", "-outform", "DER", "-out", "list.der"])?;
        Ok(self.read("list.der"))
    }

    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.read("ca.der")
    }

    pub(crate) fn authorities(&self) -> Authorities {
        Authorities::new(&[self.certificate()]).expect("a certificate")
    }

    pub(crate) fn trusted(&self) -> Expect {
        Expect::Certificate(Arc::new(self.authorities()))
    }
}
