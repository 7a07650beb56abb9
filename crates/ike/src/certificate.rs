//! Certificates (RFC 5280) as proof of an identity, and the authorities that vouch for them.
//!
//! Guarantees: rustls-webpki finds and checks a path from a certificate to an authority, and bounds the search; an
//! identity is compared with whole names of the certificate, and no name is a pattern; a certificate that its
//! authority has revoked, by the configured lists, proves nothing; nothing is fetched.

mod names;
mod problems;

use std::{fmt, time::Duration};

use aws_lc_rs::digest;
use rustls_pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, ExtendedKeyUsageValidator, KeyPurposeIdIter,
    OwnedCertRevocationList, RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy,
};

use crate::identity::Identity;

/// Signature algorithms that are verified in certificates: SHA-1 is not among them.
const SIGNATURES: &[&dyn SignatureVerificationAlgorithm] = &[
    webpki::aws_lc_rs::ECDSA_P256_SHA256,
    webpki::aws_lc_rs::ECDSA_P256_SHA384,
    webpki::aws_lc_rs::ECDSA_P384_SHA256,
    webpki::aws_lc_rs::ECDSA_P384_SHA384,
    webpki::aws_lc_rs::ED25519,
    webpki::aws_lc_rs::ML_DSA_44,
    webpki::aws_lc_rs::ML_DSA_65,
    webpki::aws_lc_rs::ML_DSA_87,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA256,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA384,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA512,
    webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
];

/// Purposes of a key that fit IKE (RFC 4945, section 5.1.3.12): serverAuth, clientAuth, ipsecIKE, iKEIntermediate,
/// any. One of them is enough.
const PURPOSES: [&[usize]; 5] = [
    &[1, 3, 6, 1, 5, 5, 7, 3, 1],
    &[1, 3, 6, 1, 5, 5, 7, 3, 2],
    &[1, 3, 6, 1, 5, 5, 7, 3, 17],
    &[1, 3, 6, 1, 5, 5, 8, 2, 2],
    &[2, 5, 29, 37, 0],
];

/// Accepts certificates without purposes, and those with at least one that fits.
struct IkePurpose;

impl ExtendedKeyUsageValidator for IkePurpose {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut is_empty = true;
        for purpose in purposes {
            let purpose = purpose?;
            is_empty = false;
            if PURPOSES.iter().any(|fits| purpose.to_decoded_oid() == *fits) {
                return Ok(());
            }
        }
        if is_empty { Ok(()) } else { Err(webpki::Error::ExtensionValueInvalid) }
    }
}

/// Certificates of authorities that vouch for peers.
pub struct Authorities {
    anchors: Vec<TrustAnchor<'static>>,
    /// SHA-1 of each authority's SubjectPublicKeyInfo, for Certificate Request payloads.
    digests: Vec<u8>,
    revocations: Vec<CertRevocationList<'static>>,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.anchors.len())
    }
}

/// A certificate that does not belong to an authority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {place}. certificate is no authority's: {problem}")]
pub struct AuthorityError {
    /// Its place among the given certificates, from 1.
    pub place: usize,
    /// The reason.
    pub problem: String,
}

/// A list of revoked certificates that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {place}. list of revoked certificates cannot be read: {problem}")]
pub struct RevocationError {
    /// Its place among the given lists, from 1.
    pub place: usize,
    /// The reason.
    pub problem: String,
}

impl Authorities {
    /// Reads authorities' certificates in DER.
    ///
    /// # Errors
    /// Fails if one of them is not a certificate.
    pub fn new(certificates: &[Vec<u8>]) -> Result<Self, AuthorityError> {
        let (mut anchors, mut digests) = (Vec::new(), Vec::new());
        for (certificate, place) in certificates.iter().zip(1..) {
            let der = CertificateDer::from(certificate.as_slice());
            let anchor = webpki::anchor_from_trusted_cert(&der);
            let anchor = anchor
                .map_err(|error| AuthorityError { place, problem: problems::words(&error) })?
                .to_owned();
            // The anchor has the inside of the SEQUENCE; the digest covers the whole SEQUENCE.
            let spki = sequence(&anchor.subject_public_key_info);
            digests.extend(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &spki).as_ref());
            anchors.push(anchor);
        }
        Ok(Self { anchors, digests, revocations: Vec::new() })
    }

    /// Adds lists of revoked certificates in DER (RFC 5280, section 5). Certificates of authorities without a list
    /// are accepted. A list that is past its next update proves nothing, so the certificates of its authority are
    /// refused.
    ///
    /// # Errors
    /// Fails if one of them is not a list of revoked certificates.
    pub fn with_revocations(mut self, lists: &[Vec<u8>]) -> Result<Self, RevocationError> {
        for (list, place) in lists.iter().zip(1..) {
            let list = OwnedCertRevocationList::from_der(list);
            let list = list.map_err(|error| RevocationError { place, problem: problems::words(&error) })?;
            self.revocations.push(list.into());
        }
        Ok(self)
    }

    /// Returns the authorities' names: the insides of their SEQUENCEs in DER.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.anchors.iter().map(|anchor| anchor.subject.as_ref())
    }

    /// Checks a path from the first certificate to an authority.
    fn verify_path(
        &self,
        end: &EndEntityCert<'_>,
        others: &[&[u8]],
        unix_time: Duration,
    ) -> Result<(), String> {
        let others: Vec<CertificateDer<'_>> = others.iter().map(|der| CertificateDer::from(*der)).collect();
        let time = UnixTime::since_unix_epoch(unix_time);
        let lists: Vec<&CertRevocationList<'_>> = self.revocations.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        end.verify_for_usage(SIGNATURES, &self.anchors, &others, time, IkePurpose, revocation, None)
            .map(|_| ())
            .map_err(|error| format!("its certificate: {}", problems::words(&error)))
    }

    /// Checks that an authority vouches for the first of a peer's certificates, whatever names it has.
    ///
    /// # Errors
    /// Describes the problem in words.
    pub(crate) fn verify_anybody(&self, certificates: &[&[u8]], unix_time: Duration) -> Result<(), String> {
        let (first, others) = certificates.split_first().ok_or("it sent no certificate")?;
        let first = CertificateDer::from(*first);
        let end = EndEntityCert::try_from(&first)
            .map_err(|error| format!("its certificate: {}", problems::words(&error)))?;
        self.verify_path(&end, others, unix_time)
    }

    /// Returns whether a certificate has the name of a user: a DNS name, a mail address, a principal's name as
    /// Windows writes it, or the common name of its subject.
    pub(crate) fn names_user(&self, certificate: &[u8], user: &str) -> bool {
        let Some(names) = names::Names::read(certificate) else { return false };
        let mut folded = names.hosts.iter().chain(&names.mails).chain(&names.principals);
        folded.any(|name| name.eq_ignore_ascii_case(user.as_bytes()))
            || names.common_names.contains(&user.as_bytes())
    }

    /// Returns the data of a Certificate Request payload.
    pub(crate) fn digests(&self) -> &[u8] {
        &self.digests
    }

    /// Checks that an authority vouches for `identity` by the first of a peer's certificates, with the help of the
    /// others. Returns that certificate's public key, a SubjectPublicKeyInfo in DER. `unix_time` is the time since
    /// 1970.
    ///
    /// # Errors
    /// Describes the problem in words.
    pub fn verify(
        &self,
        certificates: &[&[u8]],
        identity: &Identity,
        unix_time: Duration,
    ) -> Result<Vec<u8>, String> {
        let (first, others) = certificates.split_first().ok_or("it sent no certificate")?;
        let first = CertificateDer::from(*first);
        let end = EndEntityCert::try_from(&first)
            .map_err(|error| format!("its certificate: {}", problems::words(&error)))?;
        self.verify_path(&end, others, unix_time)?;
        let names = |matches: bool, what: &str| {
            if matches { Ok(()) } else { Err(format!("its certificate does not have {identity} as {what}")) }
        };
        match identity {
            Identity::Host(host) => {
                let is_named = end.valid_dns_names().any(|name| name.eq_ignore_ascii_case(host));
                names(is_named, "a DNS name")?;
            }
            Identity::Address(address) => {
                let name = ServerName::IpAddress((*address).into());
                names(end.verify_is_valid_for_subject_name(&name).is_ok(), "an address")?;
            }
            Identity::DistinguishedName(_) => {
                let subject = Identity::DistinguishedName(sequence(end.subject()));
                names(*identity == subject, "its subject")?;
            }
            Identity::Mail(mail) => {
                let found = names::Names::read(&first).unwrap_or_default();
                let is_named = found.mails.iter().any(|name| is_same_mail(name, mail.as_bytes()));
                names(is_named, "a mail address")?;
            }
            Identity::KeyId(_) => return Err("certificates prove no key id".to_owned()),
        }
        Ok(end.subject_public_key_info().as_ref().to_vec())
    }
}

/// Returns whether two mail addresses are equal (RFC 5280, section 7.5): the case of the host is ignored, the case of
/// the part before it is not.
fn is_same_mail(one: &[u8], other: &[u8]) -> bool {
    let cut = |mail: &[u8]| mail.iter().rposition(|&byte| byte == b'@');
    match (cut(one), cut(other)) {
        (Some(at), Some(same)) if at == same => {
            one[..at] == other[..at] && one[at..].eq_ignore_ascii_case(&other[at..])
        }
        _ => false,
    }
}

/// Returns a DER SEQUENCE around its inside.
fn sequence(inside: &[u8]) -> Vec<u8> {
    let length = inside.len().to_be_bytes();
    let significant = &length[length.iter().position(|&byte| byte != 0).unwrap_or(length.len() - 1)..];
    let mut der = vec![0x30];
    if inside.len() >= 0x80 {
        der.push(0x80 | significant.len() as u8);
    }
    der.extend(significant);
    der.extend(inside);
    der
}
