//! Measures the cost of a signature on a lane, for the row of the model in which every packet carries one (N3, N29).
//!
//! The engine has no asymmetric jobs, so no stack can carry signatures: the cost is measured alone, and the model
//! supplies the rest.

use crate::LabError;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use std::hint::black_box;
use std::time::Instant;

/// The median of an odd number of signatures counts.
const SIGNATURES: usize = 15;

/// Returns the nanoseconds of an RSA signature of 2048 bits over a packet of 4 KB (PKCS #1 v1.5, SHA-256), by AWS-LC.
///
/// # Errors
/// Fails if no key can be made.
pub(super) fn signature_ns() -> Result<f64, LabError> {
    let failed = |_| LabError::Unavailable("RSA cannot be measured".to_owned());
    let key = RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
    let (packet, random) = ([0x5a; 4096], SystemRandom::new());
    let mut signature = vec![0; key.public_modulus_len()];
    let mut times = Vec::with_capacity(SIGNATURES);
    for _ in 0..SIGNATURES {
        let began = Instant::now();
        key.sign(&RSA_PKCS1_SHA256, &random, black_box(&packet), &mut signature).map_err(failed)?;
        times.push(began.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[SIGNATURES / 2])
}
