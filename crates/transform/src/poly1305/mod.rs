//! Poly1305, RFC 8439 section 2.5.

#[cfg(target_arch = "x86_64")]
pub(crate) mod beside;
pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod poly1305_blocks;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

/// The text that ChaCha20-Poly1305 authenticates (RFC 8439 section 2.8), under a one-time key.
#[derive(Clone, Copy)]
pub(crate) struct Text<'t> {
    pub(crate) key: &'t [u8; 32],
    pub(crate) aad: &'t [u8],
    /// The ciphertext.
    pub(crate) data: &'t [u8],
}

impl Text<'_> {
    /// Returns the two lengths at the text's end.
    pub(crate) fn lengths(&self) -> [u8; 16] {
        (self.aad.len() as u128 | (self.data.len() as u128) << 64).to_le_bytes()
    }

    /// Computes the tag by the portable code.
    pub(crate) fn tag(&self) -> [u8; 16] {
        let mut poly = generic::Poly1305::new(self.key);
        poly.update_padded(self.aad);
        poly.update_padded(self.data);
        poly.update(&self.lengths());
        poly.finish()
    }
}
