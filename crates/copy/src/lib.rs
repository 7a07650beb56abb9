//! copy.
