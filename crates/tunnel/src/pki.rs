//! A certificate authority of one's own, and certificates for gateways that Windows, iOS, Android and other gateways
//! accept, and for users.
//!
//! Guarantees: a certificate names its host in full, because clients check nothing else (RFC 6125; addresses are
//! written as names as well, because Windows checks those); every client accepts it for IKE (RFC 4945, section
//! 5.1.3.12: serverAuth, clientAuth and iKEIntermediate); it is valid for no longer than Apple's systems accept. A
//! private key is wiped after use. An authority of ML-DSA-65 vouches for keys of ML-DSA-65 alone, and others for none: a path is as
//! strong as its weakest signature.

use sealane_engine::debug_only;
use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use aws_lc_rs::signature::{KeyPair as _, ML_DSA_65_SIGNING, PqdsaKeyPair};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ML_DSA_65, PKCS_RSA_SHA256, PublicKeyData,
    RsaKeySize, SanType, SerialNumber, SignatureAlgorithm, SigningKey,
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use zeroize::Zeroizing;

/// The validity of a gateway's certificate in days: Apple's systems accept at most 825 days, including the day
/// before.
pub const CERTIFICATE_DAYS: u32 = 824;
/// The validity of an authority in days.
const AUTHORITY_DAYS: u32 = 3650;
const DAY: Duration = Duration::from_secs(86_400);
/// iKEIntermediate, which older macOS requires.
const IKE_INTERMEDIATE: [u64; 9] = [1, 3, 6, 1, 5, 5, 8, 2, 2];

/// The kind of a gateway's or a user's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    #[default]
    Ecdsa,
    /// RSA of 3,072 bits, for iOS that is configured by hand.
    Rsa,
    /// ML-DSA-65, for gateways with `ml-dsa = true`.
    MlDsa,
}

/// The certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The cryptographic library refuses.
    #[error("no certificate can be made: {0}")]
    Library(#[from] rcgen::Error),
    /// The key is to be of another kind than the authority's allows.
    #[error("the authority has a key of {authority}, and certificates of one kind do not mix: {advice}")]
    Mixed {
        /// The kind of the authority's key.
        authority: &'static str,
        /// The way out.
        advice: &'static str,
    },
}

/// The key of an authority.
enum Key {
    Usual(KeyPair),
    MlDsa(PqdsaKeyPair),
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        match self {
            Self::Usual(key) => key.public_key_raw(),
            Self::MlDsa(key) => key.public_key().as_ref(),
        }
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self {
            Self::Usual(key) => key.algorithm(),
            Self::MlDsa(_) => &PKCS_ML_DSA_65,
        }
    }
}

impl SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        match self {
            Self::Usual(key) => key.sign(message),
            Self::MlDsa(key) => {
                let mut signature = vec![0; key.algorithm().signature_len()];
                let length = key.sign(message, &mut signature).map_err(|_| rcgen::Error::RemoteKeyError)?;
                signature.truncate(length);
                Ok(signature)
            }
        }
    }
}

/// A private key and its certificate, in PEM.
pub struct Issued {
    /// The private key, PKCS #8.
    pub key: Zeroizing<String>,
    /// The certificate alone, without the authority's.
    pub certificate: String,
}

debug_only!(Issued { certificate });

/// The private key of an authority, and the name that is derived from it.
pub struct Authority(Issuer<'static, Key>);

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// Returns parameters with the properties that all certificates have.
fn parameters(name: &str, days: u32) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    parameters.distinguished_name = subject;
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    // Clocks differ, so the certificate is valid since yesterday.
    let since = rcgen::date_time_ymd(1970, 1, 1) + now.saturating_sub(DAY);
    parameters.not_before = since;
    parameters.not_after = since + days * DAY;
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).expect("the system has random bytes once it has booted");
    // The serial number is positive, without leading zeros (RFC 5280, section 4.1.2.2).
    serial[0] = serial[0] & 0x7f | 0x40;
    parameters.serial_number = Some(SerialNumber::from_slice(&serial));
    parameters
}

/// Returns the parameters of the authority with this key. Its name is derived from the key, so that it need not be
/// read from the certificate.
fn of_authority(key: &impl PublicKeyData) -> CertificateParams {
    let digest = blake3::hash(key.der_bytes());
    let mut parameters = parameters(&format!("Sealane authority {}", &digest.to_hex()[..8]), AUTHORITY_DAYS);
    // Certificates of gateways are directly below it.
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

impl Authority {
    /// Creates an authority, with its key and certificate: of ML-DSA-65 for keys of that, and otherwise of ECDSA.
    ///
    /// # Errors
    /// Fails if the cryptographic library refuses.
    pub fn create(kind: KeyKind) -> Result<(Self, Issued), PkiError> {
        let key = match kind {
            KeyKind::MlDsa => KeyPair::generate_for(&PKCS_ML_DSA_65)?,
            KeyKind::Ecdsa | KeyKind::Rsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
        };
        let parameters = of_authority(&key);
        let certificate = parameters.self_signed(&key)?.pem();
        let issued = Issued { key: Zeroizing::new(key.serialize_pem()), certificate };
        Ok((Self(Issuer::new(parameters, Key::Usual(key))), issued))
    }

    /// Returns the authority with this private key, PKCS #8 in PEM.
    ///
    /// # Errors
    /// Fails if the text is not such a key.
    pub fn load(key: &str) -> Result<Self, PkiError> {
        // The library makes keys of ML-DSA, and does not read them.
        let read = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).ok();
        let ml_dsa =
            read.and_then(|der| PqdsaKeyPair::from_pkcs8(&ML_DSA_65_SIGNING, der.secret_pkcs8_der()).ok());
        let key = match ml_dsa {
            Some(key) => Key::MlDsa(key),
            None => Key::Usual(KeyPair::from_pem(key)?),
        };
        Ok(Self(Issuer::new(of_authority(&key), key)))
    }

    /// Makes a key and its certificate for the gateway called `name`, which is also reached by `addresses`.
    ///
    /// # Errors
    /// Fails if the name cannot be part of a certificate, or if the cryptographic library refuses.
    pub fn issue(&self, name: &str, addresses: &[IpAddr], kind: KeyKind) -> Result<Issued, PkiError> {
        let mut names = vec![SanType::DnsName(name.try_into()?)];
        for &address in addresses {
            names.push(SanType::IpAddress(address));
            names.push(SanType::DnsName(address.to_string().try_into()?));
        }
        let usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::Other(IKE_INTERMEDIATE.to_vec()),
        ];
        self.issue_for(name, names, usages, kind)
    }

    /// Makes a key and its certificate for the user called `name`, a word or a mail address, who can prove this name with
    /// it and pass for no gateway.
    ///
    /// # Errors
    /// Fails if the name cannot be part of a certificate, or if the cryptographic library refuses.
    pub fn issue_user(&self, name: &str, kind: KeyKind) -> Result<Issued, PkiError> {
        let san = match name.contains('@') {
            true => SanType::Rfc822Name(name.try_into()?),
            false => SanType::DnsName(name.try_into()?),
        };
        self.issue_for(name, vec![san], vec![ExtendedKeyUsagePurpose::ClientAuth], kind)
    }

    fn issue_for(
        &self,
        name: &str,
        names: Vec<SanType>,
        usages: Vec<ExtendedKeyUsagePurpose>,
        kind: KeyKind,
    ) -> Result<Issued, PkiError> {
        let is_ml_dsa = self.0.key().algorithm() == &PKCS_ML_DSA_65;
        if is_ml_dsa && kind != KeyKind::MlDsa {
            let advice = "add --ml-dsa, or choose another folder";
            return Err(PkiError::Mixed { authority: "ML-DSA-65", advice });
        }
        if !is_ml_dsa && kind == KeyKind::MlDsa {
            let advice = "choose another folder for --ml-dsa";
            return Err(PkiError::Mixed { authority: "ECDSA", advice });
        }
        let key = match kind {
            KeyKind::MlDsa => KeyPair::generate_for(&PKCS_ML_DSA_65)?,
            KeyKind::Ecdsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
            KeyKind::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072)?,
        };
        let mut parameters = parameters(name, CERTIFICATE_DAYS);
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = usages;
        parameters.subject_alt_names = names;
        let certificate = parameters.signed_by(&key, &self.0)?.pem();
        Ok(Issued { key: Zeroizing::new(key.serialize_pem()), certificate })
    }
}
