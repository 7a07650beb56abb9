//! Problems with certificates, in words.
//!
//! Guarantees: a problem has the same words each time, whatever the time of day, so that a caller that tries again and again is
//! told of once.

use std::time::Duration;

use webpki::Error;

/// Returns what is wrong with a certificate.
pub(super) fn words(error: &Error) -> String {
    let fixed = match error {
        Error::CertExpired { not_after, .. } => {
            return format!("it expired on {}", date(since_1970(*not_after)));
        }
        Error::CertNotValidYet { not_before, .. } => {
            return format!(
                "it is valid from {} on; compare the clocks of both ends",
                date(since_1970(*not_before))
            );
        }
        Error::CrlExpired { next_update, .. } => {
            return format!(
                "the list of revoked certificates of its authority was to be replaced by {}: fetch the new one (`crls`)",
                date(since_1970(*next_update))
            );
        }
        Error::CertRevoked => "its authority has revoked it",
        Error::UnknownIssuer => {
            "no authority that is configured here has issued it, or an intermediate certificate is missing"
        }
        Error::UnknownRevocationStatus => "no list says whether it is revoked",
        Error::InvalidSignatureForPublicKey => "its signature is not that of its authority",
        Error::InvalidCrlSignatureForPublicKey => {
            "the list of revoked certificates is not signed by its authority"
        }
        Error::IssuerNotCrlSigner => "its authority may not sign lists of revoked certificates",
        Error::CaUsedAsEndEntity => "it is an authority's own certificate",
        Error::EndEntityUsedAsCa => "what has issued it is no authority",
        Error::PathLenConstraintViolated => "there are more authorities above it than one of them allows",
        Error::NameConstraintViolation => "its authority may not issue certificates with these names",
        Error::InvalidCertValidity => "it ends before it begins",
        Error::UnsupportedCriticalExtension => "it has a critical extension that is not known here",
        Error::UnsupportedCertVersion => "it is not of version 3",
        // This crate's check of purposes returns it.
        Error::ExtensionValueInvalid => "its purposes (extended key usage) do not include IKE or TLS",
        Error::MaximumNameConstraintComparisonsExceeded
        | Error::MaximumPathBuildCallsExceeded
        | Error::MaximumPathDepthExceeded
        | Error::MaximumSignatureChecksExceeded => "the way to its authority is too long to be checked",
        Error::BadDer
        | Error::BadDerTime
        | Error::MalformedExtensions
        | Error::MalformedNameConstraint
        | Error::InvalidSerialNumber
        | Error::TrailingData(_) => "it is damaged, or no certificate",
        error => {
            let name = format!("{error:?}");
            // The fields of an error may change with the time.
            let name = name.split([' ', '(', '{']).next().unwrap_or_default();
            if name.contains("SignatureAlgorithm") {
                return "it is signed by an algorithm that is not accepted, such as SHA-1".to_owned();
            }
            return format!("it cannot be used ({name})");
        }
    };
    fixed.to_owned()
}

fn since_1970(time: rustls_pki_types::UnixTime) -> Duration {
    Duration::from_secs(time.as_secs())
}

/// Returns a day in UTC, such as 2026-11-28.
fn date(since_1970: Duration) -> String {
    // Days are counted from 0000-03-01, so that a leap day is the last of a year (Howard Hinnant, "chrono-compatible
    // low-level date algorithms").
    let days = since_1970.as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year_of_era + era * 400 + later)
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::UnixTime;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_767_225_599, "2025-12-31"),
            (1_795_824_000, "2026-11-28"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(Duration::from_secs(seconds)), day);
        }
    }

    #[test]
    fn the_time_of_a_try_is_not_among_the_words() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expired = |time| words(&Error::CertExpired { time: at(time), not_after: at(0) });
        assert_eq!(expired(10), "it expired on 1970-01-01");
        assert_eq!(expired(10), expired(100_000));
        assert_eq!(words(&Error::UnsupportedNameType), "it cannot be used (UnsupportedNameType)");
        let list = words(&Error::CrlExpired { time: at(5), next_update: at(0) });
        assert!(list.contains("1970-01-01") && list.contains("`crls`"), "{list}");
    }
}
