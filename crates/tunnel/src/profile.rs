//! Profiles by which phones and laptops connect to a gateway of ours: one file for iOS and macOS, a script for Windows,
//! and a file for strongSwan's app on Android.
//!
//! Guarantees: a profile of a user with a password holds no secret, and one of a user with a certificate holds the private key
//! under a password that is told apart from it; whatever the names in it, it has the meaning that is documented here; it
//! chooses algorithms that every gateway accepts by default; the profile of the same user and gateway replaces the
//! earlier one on a device.
//!
//! The user is asked for the password (EAP-MSCHAPv2), or imports the certificate with its key (EAP-TLS). Sources: Apple's *Device Management* (payload `com.apple.vpn.managed`,
//! dictionary `IKEv2`), Microsoft's `Add-VpnConnection` and `Set-VpnConnectionIPsecConfiguration`, strongSwan's *Android
//! VPN Client Profiles*.

use std::{fmt::Write as _, path::Path};

use data_encoding::{BASE64, HEXLOWER};
use sealane_ike::{Identity, Random, certificate::Authorities, crypto::sign::SigningKey, pkcs12};
use sealane_ipsec::selector::Prefix;
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    credentials::{self, CredentialError, Files},
    site::{
        Keys, Site,
        ike::{IkePeer, Proof},
    },
};

/// The proposal for IKE in all profiles, in strongSwan's words. Windows and Apple's systems have no better group than
/// P-384.
const IKE_PROPOSAL: &str = "aes256gcm16-prfsha384-ecp384";
/// The proposal for ESP.
const ESP_PROPOSAL: &str = "aes256gcm16-ecp384";
/// The maximum length of the connection's name in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Reasons why no profile can be made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No entry of the site stands for clients.
    #[error("no peer of the site stands for clients: it takes a peer with `ike = {{ any = true, … }}`")]
    NoClients,
    /// Clients have no passwords.
    #[error("clients of this gateway have no passwords: a profile is for a user in `users-file`")]
    NoPasswords,
    /// Users have no certificates.
    #[error("users of this gateway have no certificates: it takes `users-ca`")]
    NoCertificates,
    /// The gateway would refuse the user's certificate.
    #[error("{file} does not prove that somebody is {user:?}: {problem}")]
    Certificate {
        /// The path of the certificate's file.
        file: String,
        /// The user's name as it was asked for.
        user: String,
        /// The reason.
        problem: String,
    },
    /// The user is not among those of the gateway.
    #[error("there is no user {user:?} in {file}")]
    NoUser {
        /// The user's name as it was asked for.
        user: String,
        /// The file of users.
        file: String,
    },
    /// A name cannot be part of a profile.
    #[error("{name:?} cannot be the {what} of a connection: {problem}")]
    Name {
        /// The text that was given.
        name: String,
        /// Its part in the connection.
        what: &'static str,
        /// The reason.
        problem: &'static str,
    },
    /// A file of the site is refused.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// Devices that trust the authority would refuse the gateway.
    #[error("the authority in {file} does not answer for the gateway: {problem}")]
    Authority {
        /// The path of the authority's certificate.
        file: String,
        /// The reason.
        problem: String,
    },
}

/// A user's connection to a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name that the user sees.
    name: String,
    /// The address or name at which the gateway is reached.
    server: String,
    /// The gateway's identity.
    identity: String,
    user: String,
    /// The identity of the device, which differs from those of the user's other devices.
    device: String,
    /// The user's certificate and private key, PKCS #12; `None` if the user has a password.
    bundle: Option<Vec<u8>>,
    /// The certificate of the gateway's authority, in DER.
    authority: Vec<u8>,
    /// The networks that are reached through the gateway; everything if there are none.
    networks: Vec<Prefix>,
    is_rsa: bool,
}

/// The names of a profile.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The user's name, as the gateway's file of users or the certificate has it.
    pub user: &'a str,
    /// The name or address at which devices reach the gateway; the gateway's identity if it is `None`.
    pub server: Option<&'a str>,
    /// The name of the connection; the name or address of the gateway if it is `None`.
    pub connection: Option<&'a str>,
    /// The device that the profile is for; a name that no other profile has if it is `None`.
    pub device: Option<&'a str>,
}

/// The files of a user's certificate and its private key, in PEM.
#[derive(Clone, Copy, Debug)]
pub struct UserFiles<'a> {
    /// The file of the certificate, which may be followed by intermediate ones.
    pub certificate: &'a Path,
    /// The private key, PKCS #8.
    pub private_key: &'a Path,
}

fn checked(name: &str, what: &'static str, fits: impl Fn(char) -> bool) -> Result<String, ProfileError> {
    let fail = |problem| Err(ProfileError::Name { name: name.to_owned(), what, problem });
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        return fail("it has 1 to 255 bytes");
    }
    if !name.chars().all(fits) {
        return fail("it has characters that are not used there");
    }
    Ok(name.to_owned())
}

/// Returns the site's entry for clients.
fn clients(site: &Site) -> Result<&IkePeer, ProfileError> {
    let mut all = site.peers.iter().filter_map(|peer| match &peer.keys {
        Keys::Ike(ike) if ike.id.is_none() => Some(&**ike),
        _ => None,
    });
    all.next().ok_or(ProfileError::NoClients)
}

impl Profile {
    /// Returns the profile of a user of `site` with a password, whose devices get the authority in the file `ca`; by default
    /// that is `ca.crt` beside the gateway's certificate, as `sealane tunnel pki` makes it.
    ///
    /// # Errors
    /// Fails if the site has no such user, or if the authority does not answer for the gateway's certificate.
    pub fn new(site: &Site, names: Names<'_>, ca: Option<&Path>) -> Result<Self, ProfileError> {
        let Proof::Clients { users: Some(users), .. } = &clients(site)?.proof else {
            return Err(ProfileError::NoPasswords);
        };
        let Names { user, .. } = names;
        if !credentials::users(&Files::default(), users)?.contains(user) {
            return Err(ProfileError::NoUser { user: user.to_owned(), file: users.display().to_string() });
        }
        Self::of(site, names, ca, None)
    }

    /// Returns the profile of a user of `site` with a certificate, and the password that devices ask for when they import
    /// it.
    ///
    /// # Errors
    /// Fails if the gateway would refuse the certificate, if the key is not that of the certificate, or as [`Self::new`]
    /// does.
    pub fn with_certificate(
        site: &Site,
        names: Names<'_>,
        ca: Option<&Path>,
        files: UserFiles<'_>,
    ) -> Result<(Self, Zeroizing<String>), ProfileError> {
        let Proof::Clients { users_trust: Some(trust), .. } = &clients(site)?.proof else {
            return Err(ProfileError::NoCertificates);
        };
        let refused = |problem: String| ProfileError::Certificate {
            file: files.certificate.display().to_string(),
            user: names.user.to_owned(),
            problem,
        };
        let own = credentials::certificates(&Files::default(), files.certificate)?;
        let key = credentials::private_der(&Files::default(), files.private_key)?;
        let chain: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let authorities =
            Authorities::new(&credentials::certificates(&Files::default(), &trust.authorities)?);
        let verified = authorities
            .map_err(|error| error.to_string())
            .and_then(|authorities| authorities.verify(&chain, &Identity::from_text(names.user), now));
        let public = verified.map_err(refused)?;
        let is_own = SigningKey::from_pkcs8(&key).is_ok_and(|key| *key.public_key() == *public);
        if !is_own {
            return Err(refused(format!("{} is not its key", files.private_key.display())));
        }
        let mut random = Random::system();
        let password = pkcs12::password(&mut random);
        let bundle = pkcs12::bundle(&key, &own, names.user, &password, &mut random);
        Ok((Self::of(site, names, ca, Some(bundle))?, password))
    }

    fn of(
        site: &Site,
        names: Names<'_>,
        ca: Option<&Path>,
        bundle: Option<Vec<u8>>,
    ) -> Result<Self, ProfileError> {
        let peer = clients(site)?;
        let Proof::Clients { certificate, .. } = &peer.proof else {
            return Err(ProfileError::NoClients);
        };
        let Names { user, server, connection, device } = names;
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
        let server = checked(server.unwrap_or(&peer.local_id), "server", is_host)?;
        let name = checked(connection.unwrap_or(&server), "name", |c| !c.is_control())?;
        let word = match device {
            Some(device) => {
                checked(device, "device", |c| c.is_ascii_alphanumeric() || c == '-')?.to_ascii_lowercase()
            }
            None => {
                format!("{:08x}", getrandom::u32().expect("the system has random bytes once it has booted"))
            }
        };
        let own = credentials::certificates(&Files::default(), certificate)?;
        let beside = certificate.with_file_name("ca.crt");
        let ca = ca.unwrap_or(&beside);
        let identity = Identity::from_text(&peer.local_id);
        let mut problem = String::new();
        let chain: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let authority = credentials::certificates(&Files::default(), ca)?.into_iter().find(|authority| {
            let checked = Authorities::new(std::slice::from_ref(authority))
                .map_err(|error| error.to_string())
                .and_then(|authorities| authorities.verify(&chain, &identity, now));
            checked.map_err(|error| problem = error).is_ok()
        });
        let Some(authority) = authority else {
            return Err(ProfileError::Authority { file: ca.display().to_string(), problem });
        };
        let is_all = |network: &Prefix| network.bits() == 0;
        let all = &peer.local_networks;
        let networks = if all.iter().any(is_all) { Vec::new() } else { all.clone() };
        Ok(Self {
            name,
            server,
            identity: peer.local_id.clone(),
            user: user.to_owned(),
            // A host name, or a mail address if the user's name is one.
            device: format!("{word}.{user}"),
            bundle,
            authority,
            networks,
            is_rsa: is_rsa(&own[0]),
        })
    }

    /// Returns a UUID that depends on the gateway and the user alone (RFC 9562, version 8).
    fn uuid(&self, part: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        for word in ["sealane profile", &self.identity, &self.user, part] {
            hasher.update(&(word.len() as u64).to_be_bytes());
            hasher.update(word.as_bytes());
        }
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = HEXLOWER.encode(&bytes);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Returns the profile for iOS and macOS, a `.mobileconfig`.
    pub fn apple(&self) -> String {
        let is_all = u32::from(self.networks.is_empty());
        let authority = BASE64.encode(&self.authority);
        // Apple's systems sign nothing here; the type is that of the gateway's certificate.
        let kind = if self.is_rsa { "RSA" } else { "ECDSA256" };
        let association = |minutes: u32| {
            Plist::dictionary(&[
                ("EncryptionAlgorithm", Plist::text("AES-256-GCM")),
                ("IntegrityAlgorithm", Plist::text("SHA2-384")),
                ("DiffieHellmanGroup", Plist::number(20)),
                ("LifeTimeInMinutes", Plist::number(minutes)),
            ])
        };
        let mut ike = vec![
            ("RemoteAddress", Plist::text(&self.server)),
            ("RemoteIdentifier", Plist::text(&self.identity)),
            ("LocalIdentifier", Plist::text(&self.device)),
            ("AuthenticationMethod", Plist::text("None")),
            ("ExtendedAuthEnabled", Plist::number(1)),
            ("AuthName", Plist::text(&self.user)),
            ("CertificateType", Plist::text(kind)),
            ("EnablePFS", Plist::number(1)),
            ("DeadPeerDetectionRate", Plist::text("Medium")),
            ("DisableMOBIKE", Plist::number(0)),
            ("IKESecurityAssociationParameters", association(1440)),
            ("ChildSecurityAssociationParameters", association(480)),
        ];
        if self.bundle.is_some() {
            ike.push(("PayloadCertificateUUID", Plist::text(&self.uuid("user").to_uppercase())));
        }
        let ike = Plist::dictionary(&ike);
        let payload = |part: &str, kind: &str, rest: Vec<(&'static str, Plist)>| {
            let mut all = vec![
                ("PayloadType", Plist::text(kind)),
                ("PayloadVersion", Plist::number(1)),
                ("PayloadIdentifier", Plist::text(&format!("sealane.{}", self.uuid(part)))),
                ("PayloadUUID", Plist::text(&self.uuid(part).to_uppercase())),
                ("PayloadDisplayName", Plist::text(&self.name)),
            ];
            all.extend(rest);
            Plist::dictionary(&all)
        };
        let user = self.bundle.as_ref().map(|bundle| {
            let file = Plist::text("user.p12");
            let content = Plist::data(&BASE64.encode(bundle));
            let rest = vec![("PayloadCertificateFileName", file), ("PayloadContent", content)];
            payload("user", "com.apple.security.pkcs12", rest)
        });
        let content = [
            payload(
                "authority",
                "com.apple.security.root",
                vec![
                    ("PayloadCertificateFileName", Plist::text("ca.cer")),
                    ("PayloadContent", Plist::data(&authority)),
                ],
            ),
            payload(
                "connection",
                "com.apple.vpn.managed",
                vec![
                    ("UserDefinedName", Plist::text(&self.name)),
                    ("VPNType", Plist::text("IKEv2")),
                    ("IPv4", Plist::dictionary(&[("OverridePrimary", Plist::number(is_all))])),
                    ("IKEv2", ike),
                ],
            ),
        ];
        let content: Vec<Plist> = content.into_iter().chain(user).collect();
        let whole = payload("profile", "Configuration", vec![("PayloadContent", Plist::array(&content))]);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n{}\n</plist>\n",
            whole.0
        )
    }

    /// Returns the script for Windows 10 and 11, to be run in a PowerShell of an administrator.
    pub fn windows(&self) -> String {
        let (name, server) = (quoted(&self.name), quoted(&self.server));
        let split = if self.networks.is_empty() { "" } else { " -SplitTunneling" };
        // Windows keeps the user's key in the account that runs the script.
        let import = self.bundle.as_ref().map_or_else(String::new, |bundle| {
            format!(
                "$user = '{}'\n\
                 $file = Join-Path $env:TEMP 'sealane-user.p12'\n\
                 [IO.File]::WriteAllBytes($file, [Convert]::FromBase64String($user))\n\
                 $password = Read-Host -AsSecureString 'Password of the certificate'\n\
                 Import-PfxCertificate -FilePath $file -CertStoreLocation Cert:\\CurrentUser\\My -Password $password | Out-Null\n\
                 Remove-Item $file\n\
                 $eap = New-EapConfiguration -Tls -UserCertificate\n",
                BASE64.encode(bundle)
            )
        });
        let (asks_for, eap) = match self.bundle {
            None => (format!("the user ({}) and the password", self.user), " -RememberCredential"),
            Some(_) => {
                (format!("the certificate ({})", self.user), " -EapConfigXmlStream $eap.EapConfigXmlStream")
            }
        };
        let mut script = format!(
            "# Adds the connection {comment}. Run it in a PowerShell of an administrator.\n\
             # Windows asks for {asks_for} when it connects.\n\
             $ErrorActionPreference = 'Stop'\n\
             $name = {name}\n\
             $authority = '{authority}'\n\
             $file = Join-Path $env:TEMP 'sealane-authority.cer'\n\
             [IO.File]::WriteAllBytes($file, [Convert]::FromBase64String($authority))\n\
             Import-Certificate -FilePath $file -CertStoreLocation Cert:\\LocalMachine\\Root | Out-Null\n\
             Remove-Item $file\n\
             {import}Get-VpnConnection | Where-Object Name -eq $name | Remove-VpnConnection -Force\n\
             Add-VpnConnection -Name $name -ServerAddress {server} -TunnelType Ikev2 -AuthenticationMethod Eap \
             -EncryptionLevel Maximum{eap}{split}\n\
             Set-VpnConnectionIPsecConfiguration -ConnectionName $name -EncryptionMethod GCMAES256 -IntegrityCheckMethod SHA384 \
             -DHGroup ECP384 -CipherTransformConstants GCMAES256 -AuthenticationTransformConstants GCMAES256 -PfsGroup ECP384 \
             -Force\n",
            comment = self.name,
            authority = BASE64.encode(&self.authority),
        );
        for network in &self.networks {
            // Writing to a string succeeds.
            let _ = writeln!(
                script,
                "Add-VpnConnectionRoute -ConnectionName $name -DestinationPrefix '{network}'"
            );
        }
        // Windows' own editors and shells take these line ends everywhere.
        script.replace('\n', "\r\n")
    }

    /// Returns the profile for strongSwan's app on Android, a `.sswan`.
    pub fn android(&self) -> String {
        let mut profile = json!({
            "uuid": self.uuid("android"),
            "name": self.name,
            "type": "ikev2-eap",
            "remote": {
                "addr": self.server,
                "id": self.identity,
                "cert": BASE64.encode(&self.authority),
            },
            "local": { "eap_id": self.user, "id": self.device },
            "ike-proposal": IKE_PROPOSAL,
            "esp-proposal": ESP_PROPOSAL,
        });
        if let Some(bundle) = &self.bundle {
            profile["type"] = json!("ikev2-eap-tls");
            // The app takes no other identity than one of the certificate.
            profile["local"] = json!({ "p12": BASE64.encode(bundle), "id": self.user });
        }
        if !self.networks.is_empty() {
            let subnets: Vec<String> = self.networks.iter().map(ToString::to_string).collect();
            profile["split-tunneling"] = json!({ "subnets": subnets });
        }
        format!("{profile:#}\n")
    }
}

/// Returns whether a certificate in DER has an RSA key (RFC 8017: the algorithm is rsaEncryption).
fn is_rsa(certificate: &[u8]) -> bool {
    const RSA_ENCRYPTION: [u8; 11] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    certificate.windows(RSA_ENCRYPTION.len()).any(|bytes| bytes == RSA_ENCRYPTION)
}

/// Returns a text as a literal of PowerShell, in which all characters stand for themselves. PowerShell takes
/// typographic quotation marks for the plain one.
fn quoted(text: &str) -> String {
    let mut literal = "'".to_owned();
    for c in text.chars() {
        literal.push(c);
        if "'\u{2018}\u{2019}\u{201a}\u{201b}".contains(c) {
            literal.push(c);
        }
    }
    literal + "'"
}

/// A value of a property list, in XML.
struct Plist(String);

impl Plist {
    fn text(text: &str) -> Self {
        Self(format!("<string>{}</string>", escaped(text)))
    }

    fn number(number: u32) -> Self {
        Self(format!("<integer>{number}</integer>"))
    }

    fn data(base64: &str) -> Self {
        Self(format!("<data>{base64}</data>"))
    }

    fn array(values: &[Self]) -> Self {
        let values: String = values.iter().map(|value| format!("{}\n", value.0)).collect();
        Self(format!("<array>\n{values}</array>"))
    }

    fn dictionary(entries: &[(&str, Self)]) -> Self {
        let entry = |(key, value): &(&str, Self)| format!("<key>{}</key>{}\n", escaped(key), value.0);
        Self(format!("<dict>\n{}</dict>", entries.iter().map(entry).collect::<String>()))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use sealane_ike::offer::{self, Exchanges, Offer};

    use super::*;
    use crate::pki::{Authority, KeyKind};

    /// Returns the site of a gateway with its files, and the profile of a user.
    fn profile(networks: &str, user: &str, connection: &str) -> (Site, Result<Profile, ProfileError>) {
        let folder = tempfile::tempdir().expect("a folder");
        let (authority, root) = Authority::create(KeyKind::Ecdsa).expect("an authority");
        let issued = authority.issue("vpn.example.org", &[], KeyKind::Ecdsa).expect("a certificate");
        for (name, text) in [
            ("ca.crt", &*root.certificate),
            ("a.crt", &issued.certificate),
            ("a.key", &issued.key),
            ("users", "alice:secret\n<b&'o\u{2019}b>:secret"),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        }
        let text = format!(
            "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\n[pool]\nnetworks = [\"10.99.0.0/24\"]\n[[peers]]\nname = \"clients\"\n\
             [peers.ike]\nany = true\nlocal-id = \"vpn.example.org\"\nlocal-networks = [{networks}]\nprivate-key = \"a.key\"\n\
             certificate = \"a.crt\"\nusers-file = \"users\"\n"
        );
        let site = Site::parse(&folder.path().join("site.toml"), &text).expect("a good file");
        let names = Names { user, server: None, connection: Some(connection), device: Some("phone") };
        let made = Profile::new(&site, names, None);
        (site, made)
    }

    /// Returns whether a gateway with the default proposals takes these.
    fn is_taken(site: &Site, ike: &str, esp: &str) -> bool {
        let peer = clients(site).expect("an entry for clients");
        let ike = Offer::ike(ike).expect("a proposal").to_wire(1, Vec::new());
        let (esp, first) = (Offer::esp(esp).expect("a proposal"), Exchanges::None);
        let wire = [esp.without_exchange().to_wire(1, vec![0; 4])];
        offer::select(&peer.proposals, &[ike], Exchanges::Required).is_ok()
            && offer::select(&peer.child_proposals, &wire, first).is_ok()
            && offer::select(&peer.child_proposals, &[esp.to_wire(1, vec![0; 4])], Exchanges::Optional)
                .is_ok()
    }

    #[test]
    fn gateways_take_what_profiles_propose() {
        let (site, made) = profile("\"10.91.1.0/24\"", "alice", "Office");
        let made = made.expect("a profile");
        assert!(is_taken(&site, IKE_PROPOSAL, ESP_PROPOSAL));
        // The script's words, in ours.
        let script = made.windows();
        let value = |option: &str| {
            let (_, rest) = script.split_once(&format!("-{option} ")).expect(option);
            rest.split_whitespace().next().expect("a value").to_owned()
        };
        let word = |option: &str| match &*value(option) {
            "GCMAES256" => "aes256gcm16",
            "SHA384" => "prfsha384",
            "ECP384" => "ecp384",
            other => panic!("{option} {other}"),
        };
        let ike = [word("EncryptionMethod"), word("IntegrityCheckMethod"), word("DHGroup")].join("-");
        let esp = [word("CipherTransformConstants"), word("PfsGroup")].join("-");
        assert_eq!(value("AuthenticationTransformConstants"), value("CipherTransformConstants"));
        assert!(is_taken(&site, &ike, &esp), "{ike} {esp}");
        assert!(
            script.contains("-SplitTunneling\r\n")
                && script.contains("-DestinationPrefix '10.91.1.0/24'\r\n")
        );
        let android: serde_json::Value = serde_json::from_str(&made.android()).expect("JSON");
        let text = |pointer: &str| {
            android.pointer(pointer).and_then(|value| value.as_str()).expect("a text").to_owned()
        };
        assert!(is_taken(&site, &text("/ike-proposal"), &text("/esp-proposal")));
        assert_eq!(
            (text("/local/eap_id"), text("/remote/addr")),
            ("alice".to_owned(), "vpn.example.org".to_owned())
        );
        assert_eq!(BASE64.decode(text("/remote/cert").as_bytes()).expect("base64"), made.authority);
        assert_eq!(android["split-tunneling"]["subnets"], json!(["10.91.1.0/24"]));
        // The same user gets the same identifiers, and another one others.
        let (_, other) = profile("\"10.91.1.0/24\"", "<b&'o\u{2019}b>", "Office");
        assert_ne!(other.expect("a profile").uuid("a"), made.uuid("a"));
        assert_ne!(made.uuid("a"), made.uuid("b"));
    }

    #[test]
    fn names_are_names_whatever_is_in_them() {
        let (_, made) = profile("\"0.0.0.0/0\"", "<b&'o\u{2019}b>", "A'; rm <x> \u{2018}");
        let made = made.expect("a profile");
        assert!(made.apple().contains("<key>AuthName</key><string>&lt;b&amp;'o\u{2019}b&gt;</string>"));
        assert!(made.windows().contains("$name = 'A''; rm <x> \u{2018}\u{2018}'\r\n"), "{}", made.windows());
        assert!(!made.windows().contains("SplitTunneling"));
        assert!(!made.android().contains("split"));
    }

    #[test]
    fn a_users_certificate_is_in_every_profile_if_the_gateway_takes_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (authority, root) = Authority::create(KeyKind::Ecdsa).expect("an authority");
        let gateway = authority.issue("vpn.example.org", &[], KeyKind::Ecdsa).expect("a certificate");
        let alice = authority.issue_user("alice@example.org", KeyKind::Ecdsa).expect("a certificate");
        let bob = authority.issue_user("bob", KeyKind::Ecdsa).expect("a certificate");
        let (_, stranger) = Authority::create(KeyKind::Ecdsa).expect("an authority");
        for (name, text) in [
            ("ca.crt", &*root.certificate),
            ("other.crt", &stranger.certificate),
            ("a.crt", &gateway.certificate),
            ("a.key", &gateway.key),
            ("alice.crt", &alice.certificate),
            ("alice.key", &alice.key),
            ("bob.key", &bob.key),
        ] {
            fs::write(at(name), text).expect("a file");
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o600)).expect("a mode");
        }
        let made = |users: &str, user: &str, key: &str| {
            let text = format!(
                "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\n[pool]\nnetworks = [\"10.99.0.0/24\"]\n[[peers]]\nname = \"c\"\n\
                 [peers.ike]\nany = true\nlocal-id = \"vpn.example.org\"\nlocal-networks = [\"10.91.1.0/24\"]\n\
                 private-key = \"a.key\"\ncertificate = \"a.crt\"\n{users}\n"
            );
            let site = Site::parse(&at("site.toml"), &text).expect("a good file");
            let names = Names { user, server: None, connection: None, device: Some("phone") };
            let (certificate, private_key) = (&at("alice.crt"), &at(key));
            Profile::with_certificate(&site, names, None, UserFiles { certificate, private_key })
        };
        let good = "users-ca = \"ca.crt\"";
        let (profile, password) = made(good, "alice@example.org", "alice.key").expect("a profile");
        assert!(password.len() > 20);
        let bundle = BASE64.encode(profile.bundle.as_ref().expect("it was made"));
        assert!(profile.apple().contains(&format!("<data>{bundle}</data>")));
        let uuid = profile.uuid("user").to_uppercase();
        assert_eq!(profile.apple().matches(&uuid).count(), 2, "the connection names the certificate");
        assert!(profile.windows().contains(&bundle) && profile.windows().contains("-Tls -UserCertificate"));
        let android: serde_json::Value = serde_json::from_str(&profile.android()).expect("JSON");
        assert_eq!((&android["type"], &android["local"]["p12"]), (&json!("ikev2-eap-tls"), &json!(bundle)));
        for text in [profile.apple(), profile.windows(), profile.android()] {
            assert!(!text.contains(&*password), "the password travels apart");
        }
        for (users, user, key, says) in [
            ("ca = \"ca.crt\"", "alice@example.org", "alice.key", "users-ca"),
            ("users-ca = \"other.crt\"", "alice@example.org", "alice.key", "does not prove"),
            (good, "eve@example.org", "alice.key", "does not prove"),
            (good, "alice@example.org", "bob.key", "is not its key"),
        ] {
            let error = made(users, user, key).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_profile_that_could_not_work_is_not_made() {
        let (_, made) = profile("\"10.91.1.0/24\"", "eve", "Office");
        assert!(matches!(made, Err(ProfileError::NoUser { .. })), "{made:?}");
        let (_, made) = profile("\"10.91.1.0/24\"", "alice", "a\nb");
        assert!(matches!(made, Err(ProfileError::Name { .. })), "{made:?}");
    }
}
