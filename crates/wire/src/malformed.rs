//! The errors of `parse` and `write`.

/// The bytes are not the expected header, or the room is too small for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There are fewer bytes than the header needs, or than its length field says.
    #[error("{header}: {have} bytes where {need} are needed")]
    Short {
        /// The header's name.
        header: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A field has a value that is not allowed in this header.
    #[error("{header}: {field} is {value}")]
    Field {
        /// The header's name.
        header: &'static str,
        /// The field's name.
        field: &'static str,
        /// The field's value.
        value: u32,
    },
}

/// Fails if `bytes` has fewer than `need` bytes.
pub(crate) fn at_least(header: &'static str, bytes: &[u8], need: usize) -> Result<(), Malformed> {
    if bytes.len() < need {
        return Err(Malformed::Short { header, need, have: bytes.len() });
    }
    Ok(())
}
