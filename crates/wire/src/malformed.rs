//! What `parse` and `write` refuse.

/// Bytes that are not the header they should be, or room that is too small for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the header, or what it says about its length, needs.
    #[error("{header}: {have} bytes where {need} are needed")]
    Short {
        /// The header's name.
        header: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A field has a value that no such header may have.
    #[error("{header}: {field} is {value}")]
    Field {
        /// The header's name.
        header: &'static str,
        /// The field's name.
        field: &'static str,
        /// What it is.
        value: u32,
    },
}

/// That `bytes` has `need` bytes.
pub(crate) fn at_least(header: &'static str, bytes: &[u8], need: usize) -> Result<(), Malformed> {
    if bytes.len() < need {
        return Err(Malformed::Short { header, need, have: bytes.len() });
    }
    Ok(())
}
